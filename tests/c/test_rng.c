/* Random numbers: known answers of Philox4x32-10, moments, permutations, and names. */
#include <math.h>
#include <stdlib.h>

#include "core/rng.h"
#include "expect.h"

static void expect_block(uint64_t seed, uint64_t stream, uint64_t block, uint32_t a, uint32_t b,
                         uint32_t c, uint32_t d) {
    uint32_t out[4];
    art_philox(seed, stream, block, out);
    EXPECT(out[0] == a && out[1] == b && out[2] == c && out[3] == d);
    const uint32_t want[4] = {a, b, c, d};
    for (uint64_t i = 0; i < 4 && block < UINT64_MAX / 8; i++) {
        EXPECT(art_random_u32(seed, stream, 4 * block + i) == want[i]);
    }
}

/* The generator's published answers: zeros, ones, digits of pi (counter, then key). */
static void test_known_answers(void) {
    expect_block(0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
    expect_block(UINT64_MAX, UINT64_MAX, UINT64_MAX, 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
                 0x6d5451fd);
    expect_block(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88, 0xd16cfe09, 0x94fdcceb,
                 0x5001e420, 0x24126ea1);
}

static void test_moments(void) {
    enum { N = 200000 };
    double u1 = 0, u2 = 0, n1 = 0, n2 = 0, n3 = 0, n4 = 0, lag = 0;
    float before = 0;
    for (uint64_t i = 0; i < N; i++) {
        float u = art_random_uniform(7, 11, i);
        double g = (double)art_random_normal(7, 12, i);
        EXPECT(u >= 0.0f && u < 1.0f && isfinite(g));
        u1 += u, u2 += (double)u * u;
        n1 += g, n2 += g * g, n3 += g * g * g, n4 += g * g * g * g;
        lag += ((double)u - 0.5) * ((double)before - 0.5);
        before = u;
    }
    /* Five standard errors of each mean. */
    double se = 5.0 / sqrt(N);
    EXPECT(fabs(u1 / N - 0.5) < se * sqrt(1.0 / 12));
    EXPECT(fabs(u2 / N - 1.0 / 3) < se * sqrt(4.0 / 45));
    EXPECT(fabs(lag / N) < se / 12);
    EXPECT(fabs(n1 / N) < se);
    EXPECT(fabs(n2 / N - 1.0) < se * sqrt(2.0));
    EXPECT(fabs(n3 / N) < se * sqrt(15.0));
    EXPECT(fabs(n4 / N - 3.0) < se * sqrt(96.0));
}

static void test_streams_differ(void) {
    int equal = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        equal += art_random_u32(1, 2, i) == art_random_u32(1, 3, i);
        equal += art_random_u32(1, 2, i) == art_random_u32(2, 2, i);
        equal += art_random_u32(1, art_dropout_stream(5, 0), i) ==
                 art_random_u32(1, art_dropout_stream(5, 1), i);
    }
    EXPECT(equal == 0);
    EXPECT(art_dropout_stream(5, 0) == (5 ^ UINT64_C(0x9E3779B97F4A7C15)));
}

static void test_names(void) {
    EXPECT(art_stream_of_name("") == 0xcbf29ce484222325u);
    EXPECT(art_stream_of_name("a") == 0xaf63dc4c8601ec8cu);
    EXPECT(art_stream_of_name("foobar") == 0x85944171f73967e8u);
}

static void expect_bijective(uint64_t count, uint64_t seed, uint64_t stream) {
    uint8_t *seen = calloc((size_t)count, 1);
    uint64_t hits = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t p = art_permute(seed, stream, count, i);
        if (p < count && !seen[p]) {
            seen[p] = 1;
            hits++;
        }
    }
    EXPECT(hits == count);
    free(seen);
}

static void test_permutations(void) {
    for (uint64_t count = 1; count <= 1000; count++) {
        expect_bijective(count, count * 77, 5);
    }
    expect_bijective(60000, 1, 2);
    expect_bijective(65536, 1, 2);
    expect_bijective(65537, 1, 2);
    for (uint64_t i = 0; i < 100; i++) {
        EXPECT(art_permute(3, 4, UINT64_C(1) << 40, i) < UINT64_C(1) << 40);
        EXPECT(art_permute(3, 4, UINT64_MAX, UINT64_MAX - 1 - i) < UINT64_MAX);
    }
}

/* Over seeds, every position of a small permutation is equally likely for every value. */
static void test_permutations_are_even(void) {
    enum { COUNT = 5, SEEDS = 20000 };
    int hits[COUNT][COUNT] = {{0}};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        for (uint64_t i = 0; i < COUNT; i++) {
            hits[i][art_permute(seed, 9, COUNT, i)]++;
        }
    }
    double mean = (double)SEEDS / COUNT, five_sigma = 5.0 * sqrt(mean * (1.0 - 1.0 / COUNT));
    for (int i = 0; i < COUNT; i++) {
        for (int j = 0; j < COUNT; j++) {
            EXPECT(fabs(hits[i][j] - mean) < five_sigma);
        }
    }
}

int main(void) {
    test_known_answers();
    test_moments();
    test_streams_differ();
    test_names();
    test_permutations();
    test_permutations_are_even();
    return expect_done("rng");
}
