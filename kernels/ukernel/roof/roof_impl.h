/* The body of all levels, in GCC vector extensions. The including file defines ART_ROOF_LEVEL (name
 * suffix), ART_ROOF_WIDTH (floats per vector) and, where the compiler keeps the extensions away
 * from the vector unit, ART_ROOF_MULADD (sum + sum * factor). */
#include "ukernel/roof/roof.h"

#define ART_CAT_(a, b) a##_##b
#define ART_CAT(a, b) ART_CAT_(a, b)

#ifndef ART_ROOF_MULADD
#define ART_ROOF_MULADD(sum, factor) ((sum) + (sum) * (factor))
#endif

typedef float art_vf __attribute__((vector_size(4 * ART_ROOF_WIDTH)));

/* Enough to hide the latency; with the factor and a product they fit into 16 registers. */
enum { SUMS = 12 };

/* A factor of 2^-30 leaves every sum as it is: none becomes subnormal or infinite, which would take
 * another time. The compiler must not know, or it would leave the loop out. */
static float run(uint64_t rounds) {
    art_vf sums[SUMS], all = {0};
    art_vf factor = all + 0x1p-30f;
    for (unsigned i = 0; i < SUMS; i++) {
        sums[i] = all + (float)(i + 1);
    }
    __asm__ volatile("" : "+m"(factor));
    for (uint64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 12
        for (unsigned i = 0; i < SUMS; i++) {
            sums[i] = ART_ROOF_MULADD(sums[i], factor);
        }
    }
    for (unsigned i = 0; i < SUMS; i++) {
        all += sums[i];
    }
    return all[0];
}

const art_roof ART_CAT(art_roof, ART_ROOF_LEVEL) = {.flop = 2 * SUMS * ART_ROOF_WIDTH, .run = run};
