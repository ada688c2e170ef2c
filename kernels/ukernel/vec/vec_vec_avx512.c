/* The vec family for level `vec_avx512`. */
#define ART_VEC_LEVEL vec_avx512
#define ART_VEC_WIDTH 16
#include "ukernel/vec/vec_impl.h"
