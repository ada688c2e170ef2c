#include "core/rng.h"

#include "core/math.h"
#include "core/philox.h"

void art_philox(uint64_t seed, uint64_t stream, uint64_t block, uint32_t out[4]) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    out[0] = (uint32_t)block;
    out[1] = (uint32_t)(block >> 32);
    out[2] = (uint32_t)stream;
    out[3] = (uint32_t)(stream >> 32);
    for (int round = 0; round < ART_PHILOX_ROUNDS; round++) {
        art_philox_round(&out[0], &out[1], &out[2], &out[3], k0, k1);
        k0 += ART_PHILOX_W0;
        k1 += ART_PHILOX_W1;
    }
}

uint32_t art_random_u32(uint64_t seed, uint64_t stream, uint64_t index) {
    uint32_t words[4];
    art_philox(seed, stream, index >> 2, words);
    return words[index & 3];
}

float art_random_uniform(uint64_t seed, uint64_t stream, uint64_t index) {
    return (float)(art_random_u32(seed, stream, index) >> 8) * 0x1p-24f;
}

/* A point of the plane, normal in both directions. */
static void draw_point(uint64_t seed, uint64_t stream, uint64_t block, double *radius,
                       double *angle) {
    uint32_t words[4];
    art_philox(seed, stream, block, words);
    uint64_t a = ((uint64_t)words[0] << 32 | words[1]) >> 11;
    uint64_t b = ((uint64_t)words[2] << 32 | words[3]) >> 11;
    *radius = sqrt(-2.0 * art_log((double)(a + 1) * 0x1p-53));
    *angle = ART_TWO_PI * ((double)b * 0x1p-53);
}

float art_random_normal(uint64_t seed, uint64_t stream, uint64_t index) {
    double radius, angle;
    draw_point(seed, stream, index >> 1, &radius, &angle);
    return (float)(radius * (index & 1 ? art_sin(angle) : art_cos(angle)));
}

void art_random_normal_pair(uint64_t seed, uint64_t stream, uint64_t pair, float out[2]) {
    double radius, angle;
    draw_point(seed, stream, pair, &radius, &angle);
    out[0] = (float)(radius * art_cos(angle));
    out[1] = (float)(radius * art_sin(angle));
}

uint64_t art_dropout_stream(uint64_t stream, uint64_t step) {
    return stream ^ ((step + 1) * 0x9E3779B97F4A7C15u);
}

uint64_t art_stream_of_name(const char *name) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (; *name; name++) {
        hash = (hash ^ (uint8_t)*name) * 0x100000001B3u;
    }
    return hash;
}

/* Rounds of the Feistel network: four make it pseudo-random, twice that for tiny domains. */
enum { FEISTEL_ROUNDS = 8 };

uint64_t art_permute(uint64_t seed, uint64_t stream, uint64_t count, uint64_t index) {
    unsigned half = 1;
    while (half < 32 && (count - 1) >> (2 * half)) {
        half++;
    }
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    /* The domain is at most 4 count: a walk leaves [0, count) three times on average at worst. */
    do {
        uint64_t left = index >> half, right = index & mask;
        for (uint64_t round = 0; round < FEISTEL_ROUNDS; round++) {
            uint32_t words[4];
            art_philox(seed, stream, round << 32 | right, words);
            uint64_t next = left ^ (words[0] & mask);
            left = right;
            right = next;
        }
        index = left << half | right;
    } while (index >= count);
    return index;
}
