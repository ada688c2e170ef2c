#define ART_ROOF_LEVEL c
#define ART_ROOF_WIDTH 4
#include "ukernel/roof/roof_impl.h"
