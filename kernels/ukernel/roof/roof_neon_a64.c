#define ART_ROOF_LEVEL neon_a64
#define ART_ROOF_WIDTH 4
#include "ukernel/roof/roof_impl.h"
