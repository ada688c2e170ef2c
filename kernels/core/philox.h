/* Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), inline so
 * that vector kernels can use it too. Integer arithmetic only. */
#ifndef ART_CORE_PHILOX_H
#define ART_CORE_PHILOX_H

#include <stdint.h>

#define ART_PHILOX_ROUNDS 10
#define ART_PHILOX_M0 0xD2511F53u
#define ART_PHILOX_M1 0xCD9E8D57u
#define ART_PHILOX_W0 0x9E3779B9u
#define ART_PHILOX_W1 0xBB67AE85u

/* One round on the counter words c with the round's key words. */
static inline void art_philox_round(uint32_t *c0, uint32_t *c1, uint32_t *c2, uint32_t *c3,
                                    uint32_t k0, uint32_t k1) {
    uint64_t p0 = (uint64_t)ART_PHILOX_M0 * *c0;
    uint64_t p1 = (uint64_t)ART_PHILOX_M1 * *c2;
    *c0 = (uint32_t)(p1 >> 32) ^ *c1 ^ k0;
    *c1 = (uint32_t)p1;
    *c2 = (uint32_t)(p0 >> 32) ^ *c3 ^ k1;
    *c3 = (uint32_t)p0;
}

#endif
