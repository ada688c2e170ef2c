/* The vec family for level `c`. */
#define ART_VEC_LEVEL c
#define ART_VEC_WIDTH 4
#include "ukernel/vec/vec_impl.h"
