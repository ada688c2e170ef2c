#include "dispatch/levels.h"

#include <string.h>

#include "core/cpu.h"

#define ENTRY(level, bits, fused, ...)                                                             \
    {                                                                                              \
        .name = #level,                                                                            \
        .features = (bits),                                                                        \
        .kernels = {.gemm = &art_gemm_##level, .vec = &art_vec_##level},                           \
    },
static const art_level levels[] = {ART_EACH_LEVEL(ENTRY, )};
enum { N_LEVELS = sizeof(levels) / sizeof(levels[0]) };

const art_level *art_levels(unsigned *n) {
    *n = N_LEVELS;
    return levels;
}

static const art_level *find(const char *name, uint32_t features) {
    for (unsigned i = 0; i < N_LEVELS; i++) {
        if (strcmp(levels[i].name, name) == 0) {
            return (levels[i].features & ~features) == 0 ? &levels[i] : NULL;
        }
    }
    return NULL;
}

const art_level *art_level_select(const char *name) {
    uint32_t features = art_cpu_features();
    const char *wanted = name != NULL ? name : art_cpu_cap();
    if (wanted != NULL) {
        return find(wanted, features);
    }
    unsigned last = N_LEVELS;
    while (last > 1 && (levels[last - 1].features & ~features) != 0) {
        last--;
    }
    return &levels[last - 1];
}
