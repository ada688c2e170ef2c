/* The leaves of the matrix products, one tile at a time: every level, all rows and columns of a
 * tile, terms around its groups and prime, rows of b close together and apart, every array ending
 * at an unreadable page and so as misaligned as its length makes it. Columns of b behind the tile's
 * are NaN and must not show. Each element must have the bits of its terms added one by
 * one: fused where the level fuses, rounded twice where it does not. */
#include <stdbool.h>

#include "art_levels.h"
#include "core/cpu.h"
#include "dispatch/levels.h"
#include "expect.h"
#include "guarded.h"

enum {
    MR = ART_GEMM_MR_MAX,
    NR = ART_GEMM_NR_MAX,
    TERMS = 23,
    TAPS = 3,
    SPACE = TAPS * TERMS * (NR + 5) + NR
};

static const unsigned term_counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 23};
enum { N_COUNTS = sizeof term_counts / sizeof *term_counts };

/* What varies. */
typedef struct tile {
    const art_gemm_kernels *gemm;
    bool fused;
    unsigned m, n, k, taps;
    size_t ldb;
    art_gemm_store store;
    bool bias;
} tile;

static guarded a[TAPS][MR], b, c[MR], bias;
static float start[MR][NR];
static unsigned runs;

static float muladd(float sum, float x, float y, bool fused) {
    if (fused) {
        return fmaf(x, y, sum);
    }
    volatile float product = x * y;
    return sum + product;
}

/* The last `length` floats of an array: it ends at the unreadable page. */
static float *last(const guarded *array, size_t whole, size_t length) {
    return array->data + (whole - length);
}

static size_t b_floats(const tile *t, unsigned terms) {
    size_t width = t->gemm->width;
    return (terms - 1) * t->ldb + (t->n + width - 1) / width * width;
}

/* Rows of b with NaN behind column n. */
static float *fill_b(const tile *t, unsigned terms) {
    size_t count = b_floats(t, terms);
    float *rows = last(&b, SPACE, count);
    fill_random(rows, count, 7);
    for (size_t i = 0; i < count; i++) {
        if (i % t->ldb >= t->n) {
            rows[i] = NAN;
        }
    }
    return rows;
}

static void fill_c(const tile *t, float **rows) {
    for (unsigned r = 0; r < t->m; r++) {
        rows[r] = last(&c[r], NR, t->n);
        fill_random(start[r], NR, 31 + r);
        memcpy(rows[r], start[r], t->n * sizeof(float));
    }
}

static void expect_element(const tile *t, const char *leaf, unsigned r, unsigned j, float sum,
                           float got) {
    const float *added = last(&bias, NR, t->n);
    float want = t->store == ART_GEMM_ADD ? start[r][j] + sum : t->bias ? sum + added[j] : sum;
    if (memcmp(&want, &got, sizeof want) != 0) {
        printf("%s %ux%u, %u taps of %u terms, ldb %zu: element %u, %u is %.9g, not %.9g\n", leaf,
               t->m, t->n, t->taps, t->k, t->ldb, r, j, (double)got, (double)want);
        expect_failures++;
    }
}

/* One call of `rows`, or of `depth_rows` for k of 0: column j of b meets column j of a. */
static void verify_rows(const tile *t) {
    const float *pointers[TAPS * MR] = {NULL};
    float *out[MR];
    bool depth = t->k == 0;
    unsigned k = depth ? 1 : t->k, length = depth ? t->n : t->k;
    const float *rows = fill_b(t, t->taps * k);
    fill_c(t, out);
    for (unsigned tap = 0; tap < t->taps; tap++) {
        for (unsigned r = 0; r < t->m; r++) {
            pointers[tap * t->gemm->mr + r] = last(&a[tap][r], NR, length);
        }
    }
    (depth ? t->gemm->depth_rows
           : t->gemm->rows)(&(art_gemm_rows){.a = pointers,
                                             .b = rows,
                                             .c = out,
                                             .bias = t->bias ? last(&bias, NR, t->n) : NULL,
                                             .ldb = t->ldb,
                                             .taps = t->taps,
                                             .k = k,
                                             .m = t->m,
                                             .n = t->n,
                                             .store = t->store});
    runs++;
    for (unsigned r = 0; r < t->m; r++) {
        for (unsigned j = 0; j < t->n; j++) {
            float sum = 0;
            for (unsigned i = 0; i < t->taps * k; i++) {
                const float *from = pointers[i / k * t->gemm->mr + r];
                sum = muladd(sum, from[depth ? j : i % k], rows[i * t->ldb + j], t->fused);
            }
            expect_element(t, depth ? "depth_rows" : "rows", r, j, sum, out[r][j]);
        }
    }
}

/* One call of `pixels`, or of `depth_pixels`; its rows of c are ldb floats apart. */
static void verify_pixels(const tile *t, bool depth) {
    const float *x[TERMS], *rows = fill_b(t, t->k);
    uint32_t row[TERMS];
    float *unused[MR];
    size_t count = (t->m - 1) * t->ldb + t->n;
    guarded out = guarded_new(count);
    unsigned length = depth ? t->n : t->m;
    fill_c(t, unused);
    for (unsigned r = 0; r < t->m; r++) {
        memcpy(out.data + r * t->ldb, start[r], t->n * sizeof(float));
    }
    for (unsigned p = 0; p < t->k; p++) {
        x[p] = last(&a[p % TAPS][p % MR], NR, length) - 3;
        row[p] = (uint32_t)((t->k - 1 - p) * t->ldb);
    }
    (depth ? t->gemm->depth_pixels : t->gemm->pixels)(&(art_gemm_pixels){.x = x,
                                                                         .row = row,
                                                                         .b = rows,
                                                                         .c = out.data,
                                                                         .offset = 3,
                                                                         .ldc = t->ldb,
                                                                         .pixels = t->k,
                                                                         .m = t->m,
                                                                         .n = t->n,
                                                                         .store = t->store});
    runs++;
    for (unsigned r = 0; r < t->m; r++) {
        for (unsigned j = 0; j < t->n; j++) {
            float sum = 0;
            for (unsigned p = 0; p < t->k; p++) {
                sum = muladd(sum, x[p][3 + (depth ? j : r)], rows[row[p] + j], t->fused);
            }
            expect_element(t, depth ? "depth_pixels" : "pixels", r, j, sum,
                           out.data[r * t->ldb + j]);
        }
    }
    guarded_free(&out);
}

/* All leaves for one shape of tile and one distance between the rows of b. */
static void verify_shape(tile t, size_t ldb) {
    t.ldb = ldb;
    bool dense = t.n <= t.gemm->nr; /* only depthwise leaves take more columns */
    for (unsigned i = 0; i < N_COUNTS; i++) {
        t.k = term_counts[i];
        t.taps = 1 + i % TAPS;
        t.store = (i + t.m) % 2 ? ART_GEMM_ADD : ART_GEMM_SET;
        t.bias = t.store == ART_GEMM_SET && i % 3;
        if (dense) {
            verify_rows(&t);
        }
        t.bias = false;
        if (dense) {
            verify_pixels(&t, false);
        }
        if (t.m == 1) {
            verify_pixels(&t, true);
        }
    }
    for (t.taps = 1, t.k = 0; t.taps <= TAPS; t.taps++) {
        verify_rows(&t);
    }
}

/* Tiles narrower than two vectors in full, then around whole vectors and prime. */
static bool wanted(const art_gemm_kernels *gemm, unsigned n) {
    unsigned rest = n % gemm->width;
    return n <= 8 || rest <= 1 || rest == gemm->width - 1 || n == 11 || n == 23 || n == 37;
}

static void verify_level(const art_gemm_kernels *gemm, bool fused) {
    for (unsigned m = 1; m <= gemm->mr; m++) {
        for (unsigned n = 1; n <= NR; n++) {
            size_t packed = (n + gemm->width - 1) / gemm->width * gemm->width;
            if (wanted(gemm, n)) {
                tile t = {.gemm = gemm, .fused = fused, .m = m, .n = n};
                verify_shape(t, packed);
                verify_shape(t, packed + 5);
            }
        }
    }
}

#define ENTRY(level, bits, fuses, ...) {#level, bits, fuses, &art_gemm_##level},
static const struct {
    const char *name;
    uint32_t features;
    bool fused;
    const art_gemm_kernels *gemm;
} levels[] = {ART_EACH_LEVEL(ENTRY, )};

int main(void) {
    b = guarded_new(SPACE);
    bias = guarded_new(NR);
    fill_random(bias.data, NR, 3);
    for (unsigned r = 0; r < MR; r++) {
        c[r] = guarded_new(NR);
        for (unsigned tap = 0; tap < TAPS; tap++) {
            a[tap][r] = guarded_new(NR);
            fill_random(a[tap][r].data, NR, 100 + tap * MR + r);
        }
    }
    for (unsigned l = 0; l < sizeof levels / sizeof *levels; l++) {
        if (levels[l].features & ~art_cpu_features()) {
            printf("skipped level %s: this processor lacks its features\n", levels[l].name);
            continue;
        }
        int before = expect_failures;
        verify_level(levels[l].gemm, levels[l].fused);
        printf("%s: %d failures\n", levels[l].name, expect_failures - before);
    }
    printf("%u tiles\n", runs);
    return expect_done("tiles");
}
