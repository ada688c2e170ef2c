#include "dispatch/levels.h"

#include <string.h>

#include "core/cpu.h"

/* Worst first: a level's neighbours below it are its fall-backs. */
#define ART_EACH_LEVEL_PLAIN(X) X(c, 0)
#if defined(__x86_64__)
#define ART_EACH_LEVEL(X)                                                                          \
    ART_EACH_LEVEL_PLAIN(X)                                                                        \
    X(vec_sse2, ART_CPU_SSE2)                                                                      \
    X(vec_avx2, ART_CPU_AVX2_FMA)                                                                  \
    X(vec_avx512, ART_CPU_AVX512)
#elif defined(__aarch64__)
#define ART_EACH_LEVEL(X)                                                                          \
    ART_EACH_LEVEL_PLAIN(X)                                                                        \
    X(neon_a64, ART_CPU_NEON | ART_CPU_VFPV4)
#elif defined(__arm__) && __ARM_ARCH >= 7
#define ART_EACH_LEVEL(X)                                                                          \
    ART_EACH_LEVEL_PLAIN(X)                                                                        \
    X(neon_a32, ART_CPU_NEON)                                                                      \
    X(neonv4_a32, ART_CPU_NEON | ART_CPU_VFPV4)
#else
#define ART_EACH_LEVEL(X) ART_EACH_LEVEL_PLAIN(X)
#endif

#define ENTRY(level, bits)                                                                         \
    {                                                                                              \
        .name = #level,                                                                            \
        .features = (bits),                                                                        \
        .kernels = {.gemm = &art_gemm_##level, .vec = ART_VEC_KERNELS(level)},                     \
    },
static const art_level levels[] = {ART_EACH_LEVEL(ENTRY)};
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
    if (name) {
        return find(name, features);
    }
    unsigned last = N_LEVELS;
    const char *cap = art_cpu_cap();
    for (unsigned i = 0; cap && i < N_LEVELS; i++) {
        if (strcmp(levels[i].name, cap) == 0) {
            last = i + 1;
        }
    }
    while (last > 1 && (levels[last - 1].features & ~features) != 0) {
        last--;
    }
    return &levels[last - 1];
}
