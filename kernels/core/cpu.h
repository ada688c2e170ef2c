/* What this processor can do, read once. The only C file that reads the environment
 * (ARMTRAIN_CPU=LEVEL sets the kernel level; art_levels.h lists them). */
#ifndef ART_CORE_CPU_H
#define ART_CORE_CPU_H

#include <stdint.h>

enum {
    ART_CPU_SSE2 = 1u << 0,
    ART_CPU_AVX2_FMA = 1u << 1, /* AVX2 and FMA3, and the OS saves ymm */
    ART_CPU_AVX512 = 1u << 2,   /* F, BW, DQ, VL, and the OS saves zmm */
    ART_CPU_NEON = 1u << 8,
    ART_CPU_VFPV4 = 1u << 9, /* fused multiply-add; AArch64 always has it with NEON */
};

/* Feature bits of this machine. */
uint32_t art_cpu_features(void);

/* Value of ARMTRAIN_CPU or NULL. */
const char *art_cpu_cap(void);

/* Processors this process may run on (affinity mask and cgroup quota), >= 1. */
unsigned art_cpu_usable(void);

#endif
