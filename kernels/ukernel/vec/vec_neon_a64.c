/* The vec family for level `neon_a64`. */
#define ART_VEC_LEVEL neon_a64
#define ART_VEC_WIDTH 4
#include "ukernel/vec/vec_impl.h"
