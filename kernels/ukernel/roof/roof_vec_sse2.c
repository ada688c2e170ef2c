#define ART_ROOF_LEVEL vec_sse2
#define ART_ROOF_WIDTH 4
#include "ukernel/roof/roof_impl.h"
