/* The vec family for level `neon_a32`.
 *
 * ARMv7 NEON arithmetic flushes subnormal operands and results to zero, which no other level does.
 * Equal bits matter more here than speed: floats are computed by the scalar unit (the compiler
 * uses NEON for floats only where it may break this rule), integers and copies by NEON. */
#define ART_VEC_LEVEL neon_a32
#define ART_VEC_WIDTH 4
#define ART_VEC_COMPARE_BITS
#include "ukernel/vec/vec_impl.h"
