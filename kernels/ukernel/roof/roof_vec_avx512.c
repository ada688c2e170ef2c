#define ART_ROOF_LEVEL vec_avx512
#define ART_ROOF_WIDTH 16
#include "ukernel/roof/roof_impl.h"
