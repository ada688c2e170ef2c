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

/* Sums enough to hide the latency, and few enough for 16 registers with the factor and a product:
 * 12, or 8 where the including file says so, because the compiler would spill more. They are no
 * array, which some compilers keep in memory. */
#ifndef ART_ROOF_SUMS
#define ART_ROOF_SUMS 12
#endif
#define ART_ROOF_EIGHT(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#if ART_ROOF_SUMS == 12
#define ART_ROOF_EACH_SUM(X) ART_ROOF_EIGHT(X) X(9) X(10) X(11) X(12)
#else
#define ART_ROOF_EACH_SUM(X) ART_ROOF_EIGHT(X)
#endif
#define ART_ROOF_MAKE(i) art_vf sum##i = all + (float)i;
#define ART_ROOF_STEP(i) sum##i = ART_ROOF_MULADD(sum##i, factor);
#define ART_ROOF_ADD(i) all += sum##i;

/* A factor of 2^-30 leaves every sum as it is: none becomes subnormal or infinite, which would take
 * another time. The compiler must not know, or it would leave the loop out. */
static float run(uint64_t rounds) {
    art_vf all = {0}, factor = all + 0x1p-30f;
    ART_ROOF_EACH_SUM(ART_ROOF_MAKE)
    __asm__ volatile("" : "+m"(factor));
    for (uint64_t round = 0; round < rounds; round++) {
        ART_ROOF_EACH_SUM(ART_ROOF_STEP)
    }
    ART_ROOF_EACH_SUM(ART_ROOF_ADD)
    return all[0];
}

const art_roof ART_CAT(art_roof, ART_ROOF_LEVEL) = {.flop = 2 * ART_ROOF_SUMS * ART_ROOF_WIDTH,
                                                    .run = run};
