#include <arm_neon.h>

#define ART_ROOF_LEVEL neonv4_a32
#define ART_ROOF_WIDTH 4
#define ART_ROOF_SUMS 8
#define ART_ROOF_MULADD(sum, factor) vfmaq_f32(sum, sum, factor)
#include "ukernel/roof/roof_impl.h"
