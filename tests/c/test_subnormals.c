/* Numbers below 2^-126. Element-wise kernels keep them, with the same bits on all levels; matrix
 * products keep them or, on ARMv7 NEON, take them for zero: always or never, so that an element's
 * bits do not depend on its column's place in a tile. */
#include <math.h>
#include <stdbool.h>

#include "core/cpu.h"
#include "dispatch/levels.h"
#include "expect.h"
#include "guarded.h"

enum { N = 61, TERMS = 5, NR = ART_GEMM_NR_MAX };

/* Values of both signs around the smallest normal number and below. */
static void fill_tiny(float *out, size_t count, uint32_t seed) {
    fill_random(out, count, seed);
    for (size_t i = 0; i < count; i++) {
        out[i] = ldexpf(out[i], -126 - (int)(i % 7) * 3);
    }
}

static bool flushes(const art_level *level) {
    return strncmp(level->name, "neon", 4) == 0 && strstr(level->name, "_a32") != NULL;
}

/* One row of `n` columns of the product a * b (+ c), both tiles; the columns end at a guard page.
 */
static void product_row(const art_level *level, const float *a, const float *b, const float *c,
                        unsigned n, bool pixels, art_gemm_store store, float *out) {
    const art_gemm_kernels *gemm = level->kernels.gemm;
    guarded row = guarded_new(n);
    const float *x[TERMS];
    uint32_t b_row[TERMS];
    float *rows[1] = {row.data};
    memcpy(row.data, c, n * sizeof *c);
    for (unsigned p = 0; p < TERMS; p++) {
        x[p] = a + p;
        b_row[p] = p * NR;
    }
    if (pixels) {
        gemm->pixels(&(art_gemm_pixels){.x = x,
                                        .row = b_row,
                                        .b = b,
                                        .c = row.data,
                                        .pixels = TERMS,
                                        .m = 1,
                                        .n = n,
                                        .store = store});
    } else {
        gemm->rows(&(art_gemm_rows){.a = x,
                                    .b = b,
                                    .c = rows,
                                    .ldb = NR,
                                    .taps = 1,
                                    .k = TERMS,
                                    .m = 1,
                                    .n = n,
                                    .store = store});
    }
    memcpy(out, row.data, n * sizeof *out);
    guarded_free(&row);
}

/* Tiny products stored and added: every width gives the full tile's bits. */
static void products(const art_level *level) {
    static float a[TERMS], b[TERMS * NR], c[NR], full[NR], part[NR];
    const unsigned nr = level->kernels.gemm->nr;
    fill_random(a, TERMS, 1);
    fill_tiny(b, TERMS * NR, 2);
    fill_tiny(c, NR, 3);
    for (unsigned kind = 0; kind < 4; kind++) {
        bool pixels = kind & 1;
        art_gemm_store store = kind & 2 ? ART_GEMM_ADD : ART_GEMM_SET;
        unsigned tiny = 0;
        product_row(level, a, b, c, nr, pixels, store, full);
        for (unsigned n = 1; n < nr; n++) {
            product_row(level, a, b, c, n, pixels, store, part);
            EXPECT(memcmp(full, part, n * sizeof *part) == 0);
            tiny += fpclassify(full[n]) == FP_SUBNORMAL;
        }
        if ((tiny == 0) != flushes(level)) {
            printf("level %s, kind %u: %u subnormal results\n", level->name, kind, tiny);
            expect_failures++;
        }
    }
}

typedef struct results {
    float added[N], scaled[N], buffer[N], weights[N], normal[N], shift[N], sum[N], squares[N];
    double squared, error;
} results;

/* A choice of element-wise kernels that add and multiply. */
static void elements(const art_level *level, results *r) {
    static float x[3 * N], y[N];
    const art_vec_kernels *vec = level->kernels.vec;
    const art_vec_sgd sgd = {
        .scale = 1, .lr = 0.5f, .weight_decay = 0.25f, .momentum = 0.9f, .damp = 1};
    const art_vec_affine affine = {y, x, y};
    memset(r, 0, sizeof *r);
    fill_tiny(x, 3 * N, 4);
    fill_tiny(y, N, 5);
    fill_tiny(r->buffer, N, 6);
    fill_tiny(r->weights, N, 7);
    vec->add(r->added, x, y, N);
    vec->scale(r->scaled, x, 0.3f, N);
    vec->sgd(r->weights, x, r->buffer, N, &sgd);
    vec->normalise(r->normal, x, 1, N, N, &affine);
    vec->col_moments(r->shift, r->sum, r->squares, x, 3, N, N);
    r->squared = vec->sum_squares(x, N);
    r->error = vec->squared_error(NULL, x, y, 1, N);
}

int main(void) {
    unsigned n;
    const art_level *levels = art_levels(&n);
    static results plain, other;
    elements(&levels[0], &plain);
    EXPECT(plain.squared > 0 && plain.error > 0);
    for (unsigned i = 0; i < N; i++) {
        EXPECT(plain.scaled[i] != 0);
    }
    for (unsigned l = 0; l < n; l++) {
        if (levels[l].features & ~art_cpu_features()) {
            printf("skipped level %s: this processor lacks its features\n", levels[l].name);
            continue;
        }
        products(&levels[l]);
        elements(&levels[l], &other);
        EXPECT(memcmp(&plain, &other, sizeof plain) == 0);
    }
    return expect_done("subnormals");
}
