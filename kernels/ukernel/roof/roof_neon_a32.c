#include <arm_neon.h>

#define ART_ROOF_LEVEL neon_a32
#define ART_ROOF_WIDTH 4
#define ART_ROOF_SUMS 8
#define ART_ROOF_MULADD(sum, factor) vmlaq_f32(sum, sum, factor)
#include "ukernel/roof/roof_impl.h"
