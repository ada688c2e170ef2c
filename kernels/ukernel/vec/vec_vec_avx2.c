/* The vec family for level `vec_avx2`. */
#define ART_VEC_LEVEL vec_avx2
#define ART_VEC_WIDTH 8
#include "ukernel/vec/vec_impl.h"
