/* The one body of the vector levels, in GCC vector extensions. The including file defines
 * ART_GEMM_LEVEL (name suffix), ART_GEMM_WIDTH (floats per vector), ART_GEMM_MR and ART_GEMM_NV
 * (rows and vectors of a full tile). Every row and vector count is instantiated, so that short
 * tiles keep their sums in registers too.
 *
 * Where the compiler would not map the extensions to the vector unit, the including file defines
 * the arithmetic: ART_GEMM_SPREAD (the float at an address as a factor of a vector, of type
 * ART_GEMM_FACTOR), ART_GEMM_MULADD (vector + factor * vector), ART_GEMM_PLUS (vector + vector) and
 * ART_GEMM_PLUS_ONE (float + float), all rounding and flushing alike. */
#include "ukernel/gemm/gemm.h"

#define ART_CAT_(a, b) a##_##b
#define ART_CAT(a, b) ART_CAT_(a, b)
#define ART_INLINE static inline __attribute__((always_inline))

#ifndef ART_GEMM_MULADD
#define ART_GEMM_FACTOR float
#define ART_GEMM_SPREAD(p) (*(p))
#define ART_GEMM_MULADD(acc, a, row) ((acc) + (a) * (row))
#define ART_GEMM_PLUS(x, y) ((x) + (y))
#define ART_GEMM_PLUS_ONE(x, y) ((x) + (y))
#endif

typedef float art_vf __attribute__((vector_size(4 * ART_GEMM_WIDTH)));
typedef float art_vfu __attribute__((vector_size(4 * ART_GEMM_WIDTH), aligned(4)));

_Static_assert(ART_GEMM_MR <= ART_GEMM_MR_MAX, "row limit");
_Static_assert(ART_GEMM_NV *ART_GEMM_WIDTH <= ART_GEMM_NR_MAX, "column limit");

ART_INLINE art_vf art_load(const float *p) {
    return (art_vf) * (const art_vfu *)p;
}

/* acc += a[r] * b for every row: the only place where terms are added. */
ART_INLINE void art_step(art_vf acc[][ART_GEMM_NV], const float *b, const float *const *a, size_t k,
                         unsigned m, unsigned nv) {
    art_vf row[ART_GEMM_NV];
#pragma GCC unroll 4
    for (unsigned v = 0; v < nv; v++) {
        row[v] = art_load(b + v * ART_GEMM_WIDTH);
    }
#pragma GCC unroll 8
    for (unsigned r = 0; r < m; r++) {
        ART_GEMM_FACTOR factor = ART_GEMM_SPREAD(a[r] + k);
#pragma GCC unroll 4
        for (unsigned v = 0; v < nv; v++) {
            acc[r][v] = ART_GEMM_MULADD(acc[r][v], factor, row[v]);
        }
    }
}

/* The last columns of a row, one by one with the vectors' arithmetic. */
static __attribute__((noinline)) void
art_store_tail(const float *block, float *c, const float *bias, unsigned n, art_gemm_store store) {
    for (unsigned j = 0; j < n; j++) {
        if (store == ART_GEMM_ADD) {
            c[j] = ART_GEMM_PLUS_ONE(c[j], block[j]);
        } else {
            c[j] = bias ? ART_GEMM_PLUS_ONE(block[j], bias[j]) : block[j];
        }
    }
}

/* Store one row of a block: whole vectors in place, the last columns through a small array. */
ART_INLINE void art_store(const art_vf *acc, float *c, const float *bias, unsigned n, unsigned nv,
                          art_gemm_store store) {
#pragma GCC unroll 4
    for (unsigned v = 0; v < nv; v++) {
        unsigned column = v * ART_GEMM_WIDTH;
        art_vf value = acc[v];
        if (v + 1 == nv && column + ART_GEMM_WIDTH > n) {
            float tail[ART_GEMM_WIDTH];
            *(art_vfu *)tail = (art_vfu)value;
            art_store_tail(tail, c + column, bias ? bias + column : NULL, n - column, store);
        } else if (store == ART_GEMM_ADD) {
            *(art_vfu *)(c + column) = (art_vfu)ART_GEMM_PLUS(art_load(c + column), value);
        } else if (bias) {
            *(art_vfu *)(c + column) = (art_vfu)ART_GEMM_PLUS(value, art_load(bias + column));
        } else {
            *(art_vfu *)(c + column) = (art_vfu)value;
        }
    }
}

ART_INLINE void art_rows(const art_gemm_rows *t, unsigned m, unsigned nv) {
    art_vf acc[ART_GEMM_MR][ART_GEMM_NV] = {{{0}}};
    const float *b = t->b;
    for (unsigned tap = 0; tap < t->taps; tap++) {
        const float *a[ART_GEMM_MR];
#pragma GCC unroll 8
        for (unsigned r = 0; r < m; r++) {
            a[r] = t->a[tap * ART_GEMM_MR + r];
        }
        for (size_t k = 0; k < t->k; k++, b += t->ldb) {
            art_step(acc, b, a, k, m, nv);
        }
    }
#pragma GCC unroll 8
    for (unsigned r = 0; r < m; r++) {
        art_store(acc[r], t->c[r], t->bias, t->n, nv, t->store);
    }
}

ART_INLINE void art_pixels(const art_gemm_pixels *t, unsigned m, unsigned nv) {
    art_vf acc[ART_GEMM_MR][ART_GEMM_NV] = {{{0}}};
    const float *b = t->b;
    for (unsigned p = 0; p < t->pixels; p++, b += t->ldb) {
        const float *x = t->x[p];
        const float *a[ART_GEMM_MR];
#pragma GCC unroll 8
        for (unsigned r = 0; r < m; r++) {
            a[r] = x + r;
        }
        art_step(acc, b, a, 0, m, nv);
    }
#pragma GCC unroll 8
    for (unsigned r = 0; r < m; r++) {
        art_store(acc[r], t->c + r * t->ldc, NULL, t->n, nv, t->store);
    }
}

/* One function per row and vector count. */
#define ART_TILE(m, nv)                                                                            \
    static void art_rows_##m##x##nv(const art_gemm_rows *t) {                                      \
        art_rows(t, m, nv);                                                                        \
    }                                                                                              \
    static void art_pixels_##m##x##nv(const art_gemm_pixels *t) {                                  \
        art_pixels(t, m, nv);                                                                      \
    }
#if ART_GEMM_MR == 4
#define ART_EACH_ROW(X, nv) X(1, nv) X(2, nv) X(3, nv) X(4, nv)
#elif ART_GEMM_MR == 6
#define ART_EACH_ROW(X, nv) X(1, nv) X(2, nv) X(3, nv) X(4, nv) X(5, nv) X(6, nv)
#elif ART_GEMM_MR == 8
#define ART_EACH_ROW(X, nv) X(1, nv) X(2, nv) X(3, nv) X(4, nv) X(5, nv) X(6, nv) X(7, nv) X(8, nv)
#else
#error "no row list for this ART_GEMM_MR"
#endif
#if ART_GEMM_NV == 2
#define ART_EACH_TILE(X) ART_EACH_ROW(X, 1) ART_EACH_ROW(X, 2)
#elif ART_GEMM_NV == 3
#define ART_EACH_TILE(X) ART_EACH_ROW(X, 1) ART_EACH_ROW(X, 2) ART_EACH_ROW(X, 3)
#else
#error "no vector list for this ART_GEMM_NV"
#endif
ART_EACH_TILE(ART_TILE)

#define ART_ROWS_ENTRY(m, nv) [m - 1][nv - 1] = art_rows_##m##x##nv,
#define ART_PIXELS_ENTRY(m, nv) [m - 1][nv - 1] = art_pixels_##m##x##nv,

static void art_rows_any(const art_gemm_rows *t) {
    static void (*const table[ART_GEMM_MR][ART_GEMM_NV])(const art_gemm_rows *) = {
        ART_EACH_TILE(ART_ROWS_ENTRY)};
    table[t->m - 1][(t->n - 1) / ART_GEMM_WIDTH](t);
}

static void art_pixels_any(const art_gemm_pixels *t) {
    static void (*const table[ART_GEMM_MR][ART_GEMM_NV])(const art_gemm_pixels *) = {
        ART_EACH_TILE(ART_PIXELS_ENTRY)};
    table[t->m - 1][(t->n - 1) / ART_GEMM_WIDTH](t);
}

const art_gemm_kernels ART_CAT(art_gemm, ART_GEMM_LEVEL) = {
    .mr = ART_GEMM_MR,
    .nr = ART_GEMM_NV * ART_GEMM_WIDTH,
    .width = ART_GEMM_WIDTH,
    .rows = art_rows_any,
    .pixels = art_pixels_any,
};
