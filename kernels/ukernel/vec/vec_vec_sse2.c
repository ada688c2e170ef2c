/* The vec family for level `vec_sse2`. */
#define ART_VEC_LEVEL vec_sse2
#define ART_VEC_WIDTH 4
#include "ukernel/vec/vec_impl.h"
