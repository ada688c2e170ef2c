/* How AArch64 adds the terms of a product: it multiplies by a lane of a register, so factors that
 * lie side by side in memory come with one load, four terms at a time. Included by gemm_impl.h; an
 * element's terms are added in the same order as one by one.
 *
 * An in-order core waits for its multiplies to finish before it starts anything shorter. So a
 * group's loads and counts stand together in front of its multiplies, and the file is compiled
 * without instruction scheduling, which would spread them. The sums of a full tile and the
 * operands of a group fill the 32 registers exactly. */
#include <arm_neon.h>

enum { ART_GROUP = 4 };
_Static_assert((int)ART_GROUP == ART_GEMM_WIDTH,
               "the terms of a group are the lanes of a register");

/* Operands of a group. Row r's factor of term k is lane k of factors[r] (along) or lane r of
 * pixel k's registers (across). */
typedef struct art_group {
    art_vf factors[ART_GEMM_MR];
    art_vf b[ART_GROUP][ART_GEMM_NV];
} art_group;

/* An address or a count is computed where the source says so, not where it is needed. */
#define ART_PIN(value) __asm__("" : "+r"(value))
/* Loads in front stay in front. */
#define ART_FENCE() __asm__ volatile("" ::: "memory")

ART_INLINE void art_load_row(art_vf *row, const float *b, unsigned nv) {
#pragma GCC unroll 4
    for (unsigned v = 0; v < nv; v++) {
        row[v] = art_load(b + v * ART_GEMM_WIDTH);
    }
}

ART_INLINE void art_multiply_row(art_vf *acc, float factor, const art_vf *row, unsigned nv) {
#pragma GCC unroll 4
    for (unsigned v = 0; v < nv; v++) {
        acc[v] += factor * row[v];
    }
}

/* One term: acc += a[r][k] * b. */
ART_INLINE void art_step(art_vf acc[][ART_GEMM_NV], const float *b, const float *const *a, size_t k,
                         unsigned m, unsigned nv) {
    float factors[ART_GEMM_MR];
    art_vf row[ART_GEMM_NV];
    art_load_row(row, b, nv);
#pragma GCC unroll 8
    for (unsigned r = 0; r < m; r++) {
        factors[r] = a[r][k];
    }
#pragma GCC unroll 8
    for (unsigned r = 0; r < m; r++) {
        art_multiply_row(acc[r], factors[r], row, nv);
    }
}

/* ---- along: a group is four terms of every row ---- */

/* All whole groups of n terms; returns the terms that were added. */
ART_INLINE size_t art_groups_along(art_vf acc[][ART_GEMM_NV], const float *b, size_t ldb,
                                   const float *const *a, size_t n, unsigned m, unsigned nv) {
    size_t at = 0; /* bytes from every a */
    for (size_t left = n / ART_GROUP; left > 0;) {
        art_group g;
#pragma GCC unroll 4
        for (unsigned k = 0; k < ART_GROUP; k++) {
            art_load_row(g.b[k], b + k * ldb, nv);
        }
        b += ART_GROUP * ldb;
        ART_PIN(b);
#pragma GCC unroll 8
        for (unsigned r = 0; r < m; r++) {
            g.factors[r] = art_load((const float *)((const char *)a[r] + at));
            if (r == m / 2) {
                left--;
                ART_PIN(left);
            }
        }
        at += sizeof(art_vf);
        ART_PIN(at);
#pragma GCC unroll 4
        for (unsigned k = 0; k < ART_GROUP; k++) {
#pragma GCC unroll 8
            for (unsigned r = 0; r < m; r++) {
                art_multiply_row(acc[r], g.factors[r][k], g.b[k], nv);
            }
        }
    }
    return at / sizeof(float);
}

/* n terms of every row: acc[r] += a[r][k] * row k of b. */
ART_INLINE void art_terms_along(art_vf acc[][ART_GEMM_NV], const float *b, size_t ldb,
                                const float *const *a, size_t n, unsigned m, unsigned nv) {
    const size_t packed = nv * ART_GEMM_WIDTH;
    size_t k = ldb == packed ? art_groups_along(acc, b, packed, a, n, m, nv)
                             : art_groups_along(acc, b, ldb, a, n, m, nv);
    for (b += k * ldb; k < n; k++, b += ldb) {
        art_step(acc, b, a, k, m, nv);
    }
}

/* ---- across: the factors of all rows lie side by side ---- */

/* Row r's factor: two registers, which may overlap, hold more than four rows. */
ART_INLINE float art_factor_across(const art_vf *x, unsigned r, unsigned m) {
    return r < ART_GEMM_WIDTH ? x[0][r] : x[1][r + ART_GEMM_WIDTH - m];
}

/* The operands of four pixels, of at least four rows. */
ART_INLINE void art_load_across(art_group *g, const char *const *x, const float *const *row,
                                size_t first, size_t last, unsigned m, unsigned nv) {
#pragma GCC unroll 4
    for (unsigned k = 0; k < ART_GROUP; k++) {
        g->factors[2 * k] = art_load((const float *)(x[k] + first));
        if (m > ART_GEMM_WIDTH) {
            g->factors[2 * k + 1] = art_load((const float *)(x[k] + last));
        }
        art_load_row(g->b[k], row[k], nv);
        ART_FENCE();
    }
}

/* Whole groups of pixels, of at least four rows; returns the pixels that were added. With `first`
 * and `last`, the bytes from every x to its first and last four rows, in registers, no address of a
 * factor is computed. The fences keep the loads of addresses in front of what needs them, and what
 * stands between them fills the wait. */
ART_INLINE unsigned art_groups_across(art_vf acc[][ART_GEMM_NV], const art_gemm_pixels *t,
                                      unsigned m, unsigned nv) {
    const float *const *x_of = t->x, *const b = t->b;
    const uint32_t *row_of = t->row;
    const unsigned groups = t->pixels / ART_GROUP;
    size_t first = t->offset * sizeof(float), last = first + (m - ART_GEMM_WIDTH) * sizeof(float);
    ART_PIN(first);
    ART_PIN(last);
    for (size_t left = groups; left > 0;) {
        const char *x[ART_GROUP];
        const float *row[ART_GROUP];
        uint32_t at[ART_GROUP];
        art_group g;
#pragma GCC unroll 4
        for (unsigned k = 0; k < ART_GROUP; k++) {
            at[k] = row_of[k];
        }
#pragma GCC unroll 4
        for (unsigned k = 0; k < ART_GROUP; k++) {
            x[k] = (const char *)x_of[k];
        }
        ART_FENCE();
        left--;
        ART_PIN(left);
        row_of += ART_GROUP;
        ART_PIN(row_of);
        x_of += ART_GROUP;
        ART_PIN(x_of);
#pragma GCC unroll 4
        for (unsigned k = 0; k < ART_GROUP; k++) {
            row[k] = b + at[k];
            ART_PIN(row[k]);
        }
        art_load_across(&g, x, row, first, last, m, nv);
#pragma GCC unroll 4
        for (unsigned k = 0; k < ART_GROUP; k++) {
#pragma GCC unroll 8
            for (unsigned r = 0; r < m; r++) {
                art_multiply_row(acc[r], art_factor_across(g.factors + 2 * k, r, m), g.b[k], nv);
            }
        }
    }
    return groups * ART_GROUP;
}

/* All pixels: acc[r] += x[p][offset + r] * row of pixel p. */
ART_INLINE void art_terms_across(art_vf acc[][ART_GEMM_NV], const art_gemm_pixels *t, unsigned m,
                                 unsigned nv) {
    unsigned p = m < ART_GEMM_WIDTH ? 0 : art_groups_across(acc, t, m, nv);
    for (; p < t->pixels; p++) {
        const float *a[ART_GEMM_MR];
#pragma GCC unroll 8
        for (unsigned r = 0; r < m; r++) {
            a[r] = t->x[p] + t->offset + r;
        }
        art_step(acc, t->b + t->row[p], a, 0, m, nv);
    }
}
