/* The vec family for level `vec_sse2`: SSE2 is what x86-64 has at least and level `c` is compiled
 * to, so that vec.h gives both levels the same functions and this file has none. */
#include "ukernel/vec/vec.h"
