/* The vec family for level `neonv4_a32`: as vec_neon_a32.c, floats are left to the scalar unit. */
#define ART_VEC_LEVEL neonv4_a32
#define ART_VEC_WIDTH 4
#define ART_VEC_COMPARE_BITS
#include "ukernel/vec/vec_impl.h"
