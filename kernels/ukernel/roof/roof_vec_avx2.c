#define ART_ROOF_LEVEL vec_avx2
#define ART_ROOF_WIDTH 8
#include "ukernel/roof/roof_impl.h"
