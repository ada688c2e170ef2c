/* How fast a level can multiply and add at all: independent sums that never leave their registers.
 * Nothing of the product calls this; benchmarks compare kernels with it. */
#ifndef ART_UKERNEL_ROOF_ROOF_H
#define ART_UKERNEL_ROOF_ROOF_H

#include <stdint.h>

#include "art_levels.h"

typedef struct art_roof {
    uint32_t flop; /* of one round: a multiplication and an addition for every float of every sum */
    float (*run)(uint64_t rounds); /* a value of the sums, so that they are computed */
} art_roof;

#define ART_ROOF_DECLARE(level, ...) extern const art_roof art_roof_##level;
ART_EACH_LEVEL(ART_ROOF_DECLARE, )
#undef ART_ROOF_DECLARE

/* That of the named level, NULL if the name is unknown. */
const art_roof *art_roof_find(const char *level);

#endif
