#include "ukernel/roof/roof.h"

#include <string.h>

#define ENTRY(level, ...) {#level, &art_roof_##level},
static const struct {
    const char *level;
    const art_roof *roof;
} roofs[] = {ART_EACH_LEVEL(ENTRY, )};

const art_roof *art_roof_find(const char *level) {
    for (unsigned i = 0; i < sizeof roofs / sizeof roofs[0]; i++) {
        if (strcmp(roofs[i].level, level) == 0) {
            return roofs[i].roof;
        }
    }
    return NULL;
}
