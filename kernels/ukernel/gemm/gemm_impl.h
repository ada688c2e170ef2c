/* The one body of the vector levels, in GCC vector extensions. The including file defines
 * ART_GEMM_LEVEL (name suffix), ART_GEMM_WIDTH (floats per vector), ART_GEMM_MR and ART_GEMM_NV
 * (rows and vectors of a full tile). Every row and vector count is instantiated, so that short
 * tiles keep their sums in registers too.
 *
 * Where the compiler would not map the extensions to the vector unit, the including file defines
 * the arithmetic: ART_GEMM_SPREAD (the float at an address as a factor of a vector, of type
 * ART_GEMM_FACTOR), ART_GEMM_MULADD (vector + factor * vector), ART_GEMM_MULADD_EACH (vector +
 * vector * vector) and ART_GEMM_PLUS (vector + vector), all rounding and flushing alike.
 *
 * ART_GEMM_TERMS names a header with art_terms_along and art_terms_across of a level's own, and
 * with ART_GEMM_STEP_OWN art_step too. They are the only places where terms of a product are added.
 */
#include <string.h>

#include "ukernel/gemm/gemm.h"

#define ART_CAT_(a, b) a##_##b
#define ART_CAT(a, b) ART_CAT_(a, b)
#define ART_INLINE static inline __attribute__((always_inline))

#ifndef ART_GEMM_MULADD
#define ART_GEMM_FACTOR float
#define ART_GEMM_SPREAD(p) (*(p))
#define ART_GEMM_MULADD(acc, factor, row) ((acc) + (factor) * (row))
#define ART_GEMM_MULADD_EACH(acc, a, b) ((acc) + (a) * (b))
#define ART_GEMM_PLUS(x, y) ((x) + (y))
#endif

typedef float art_vf __attribute__((vector_size(4 * ART_GEMM_WIDTH)));
typedef float art_vfu __attribute__((vector_size(4 * ART_GEMM_WIDTH), aligned(4)));

_Static_assert(ART_GEMM_MR <= ART_GEMM_MR_MAX, "row limit");
_Static_assert(ART_GEMM_NV *ART_GEMM_WIDTH <= ART_GEMM_NR_MAX, "column limit");
_Static_assert(ART_GEMM_WIDTH <= ART_GEMM_WIDTH_MAX, "width limit");

ART_INLINE art_vf art_load(const float *p) {
    return (art_vf) * (const art_vfu *)p;
}

/* Copy n < ART_GEMM_WIDTH floats in pieces of fixed sizes, touching no other. */
ART_INLINE void art_copy_part(float *to, const float *from, unsigned n) {
#if ART_GEMM_WIDTH > 8
    if (n & 8) {
        memcpy(to, from, 32);
        to += 8, from += 8;
    }
#endif
#if ART_GEMM_WIDTH > 4
    if (n & 4) {
        memcpy(to, from, 16);
        to += 4, from += 4;
    }
#endif
    if (n & 2) {
        memcpy(to, from, 8);
        to += 2, from += 2;
    }
    if (n & 1) {
        *to = *from;
    }
}

/* The first n floats, the other lanes zero; n may be the whole width. */
ART_INLINE art_vf art_load_part(const float *p, unsigned n) {
    float part[ART_GEMM_WIDTH] = {0};
    if (n == ART_GEMM_WIDTH) {
        return art_load(p);
    }
    art_copy_part(part, p, n);
    return art_load(part);
}

/* One vector of a block meets C: n columns, the same arithmetic for a part as for the whole. */
ART_INLINE void art_store(art_vf block, float *c, const float *bias, unsigned n,
                          art_gemm_store store) {
    if (store == ART_GEMM_ADD) {
        block = ART_GEMM_PLUS(art_load_part(c, n), block);
    } else if (bias) {
        block = ART_GEMM_PLUS(block, art_load_part(bias, n));
    }
    if (n == ART_GEMM_WIDTH) {
        *(art_vfu *)c = (art_vfu)block;
    } else {
        float part[ART_GEMM_WIDTH];
        *(art_vfu *)part = (art_vfu)block;
        art_copy_part(c, part, n);
    }
}

/* One row of a block: whole vectors, then the last columns. */
ART_INLINE void art_store_row(const art_vf *acc, float *c, const float *bias, unsigned n,
                              unsigned nv, art_gemm_store store) {
    unsigned last = nv - 1, rest = n - last * ART_GEMM_WIDTH;
#pragma GCC unroll 4
    for (unsigned v = 0; v < last; v++) {
        unsigned j = v * ART_GEMM_WIDTH;
        art_store(acc[v], c + j, bias ? bias + j : NULL, ART_GEMM_WIDTH, store);
    }
    unsigned j = last * ART_GEMM_WIDTH;
    art_store(acc[last], c + j, bias ? bias + j : NULL, rest, store);
}

#ifndef ART_GEMM_STEP_OWN
/* One term of every row: acc += a[r][k] * b. */
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
#endif

#ifdef ART_GEMM_TERMS
#include ART_GEMM_TERMS
#else
/* n terms of every row: acc[r] += a[r][k] * row k of b. */
ART_INLINE void art_terms_along(art_vf acc[][ART_GEMM_NV], const float *b, size_t ldb,
                                const float *const *a, size_t n, unsigned m, unsigned nv) {
    for (size_t k = 0; k < n; k++, b += ldb) {
        art_step(acc, b, a, k, m, nv);
    }
}

/* All pixels: acc[r] += x[p][offset + r] * row of pixel p. */
ART_INLINE void art_terms_across(art_vf acc[][ART_GEMM_NV], const art_gemm_pixels *t, unsigned m,
                                 unsigned nv) {
    for (unsigned p = 0; p < t->pixels; p++) {
        const float *x = t->x[p] + t->offset;
        const float *a[ART_GEMM_MR];
#pragma GCC unroll 8
        for (unsigned r = 0; r < m; r++) {
            a[r] = x + r;
        }
        art_step(acc, t->b + t->row[p], a, 0, m, nv);
    }
}
#endif

ART_INLINE void art_rows(const art_gemm_rows *t, unsigned m, unsigned nv) {
    art_vf acc[ART_GEMM_MR][ART_GEMM_NV] = {{{0}}};
    const float *b = t->b;
    for (unsigned tap = 0; tap < t->taps; tap++) {
        const float *a[ART_GEMM_MR];
#pragma GCC unroll 8
        for (unsigned r = 0; r < m; r++) {
            a[r] = t->a[tap * ART_GEMM_MR + r];
        }
        art_terms_along(acc, b, t->ldb, a, t->k, m, nv);
        b += t->k * t->ldb;
    }
#pragma GCC unroll 8
    for (unsigned r = 0; r < m; r++) {
        art_store_row(acc[r], t->c[r], t->bias, t->n, nv, t->store);
    }
}

ART_INLINE void art_pixels(const art_gemm_pixels *t, unsigned m, unsigned nv) {
    art_vf acc[ART_GEMM_MR][ART_GEMM_NV] = {{{0}}};
    art_terms_across(acc, t, m, nv);
#pragma GCC unroll 8
    for (unsigned r = 0; r < m; r++) {
        art_store_row(acc[r], t->c + r * t->ldc, NULL, t->n, nv, t->store);
    }
}

/* Vectors of a depthwise block. */
enum { ART_DEPTH_NV = 4 };

/* acc += a * b lane by lane; `rest` columns of the last vector exist. */
ART_INLINE void art_depth_step(art_vf *acc, const float *a, const float *b, unsigned nv,
                               unsigned rest) {
#pragma GCC unroll 4
    for (unsigned v = 0; v + 1 < nv; v++) {
        unsigned j = v * ART_GEMM_WIDTH;
        acc[v] = ART_GEMM_MULADD_EACH(acc[v], art_load(a + j), art_load(b + j));
    }
    unsigned j = (nv - 1) * ART_GEMM_WIDTH;
    acc[nv - 1] = ART_GEMM_MULADD_EACH(acc[nv - 1], art_load_part(a + j, rest), art_load(b + j));
}

/* Columns from `column` on, nv vectors of them. */
ART_INLINE void art_depth_rows(const art_gemm_rows *t, unsigned column, unsigned nv,
                               unsigned rest) {
    unsigned n = (nv - 1) * ART_GEMM_WIDTH + rest;
    for (unsigned r = 0; r < t->m; r++) {
        art_vf acc[ART_DEPTH_NV] = {{0}};
        const float *const *a = t->a + r, *b = t->b + column;
        for (unsigned tap = t->taps; tap > 0; tap--, a += ART_GEMM_MR, b += t->ldb) {
            art_depth_step(acc, *a + column, b, nv, rest);
        }
        art_store_row(acc, t->c[r] + column, t->bias ? t->bias + column : NULL, n, nv, t->store);
    }
}

ART_INLINE void art_depth_pixels(const art_gemm_pixels *t, unsigned column, unsigned nv,
                                 unsigned rest) {
    art_vf acc[ART_DEPTH_NV] = {{0}};
    size_t offset = t->offset + column;
    const float *b = t->b + column;
    for (unsigned p = 0; p < t->pixels; p++) {
        art_depth_step(acc, t->x[p] + offset, b + t->row[p], nv, rest);
    }
    unsigned n = (nv - 1) * ART_GEMM_WIDTH + rest;
    art_store_row(acc, t->c + column, NULL, n, nv, t->store);
}

/* One function per row and vector count. */
#define ART_TILE(m, nv)                                                                            \
    static void art_rows_##m##x##nv(const art_gemm_rows *t) {                                      \
        art_rows(t, m, nv);                                                                        \
    }                                                                                              \
    static void art_pixels_##m##x##nv(const art_gemm_pixels *t) {                                  \
        art_pixels(t, m, nv);                                                                      \
    }
/* Depthwise: one per vector count, whole vectors apart from a part at the end. */
#define ART_DEPTH(nv)                                                                              \
    static void art_depth_rows_##nv(const art_gemm_rows *t, unsigned column, unsigned rest) {      \
        if (rest == ART_GEMM_WIDTH) {                                                              \
            art_depth_rows(t, column, nv, ART_GEMM_WIDTH);                                         \
        } else {                                                                                   \
            art_depth_rows(t, column, nv, rest);                                                   \
        }                                                                                          \
    }                                                                                              \
    static void art_depth_pixels_##nv(const art_gemm_pixels *t, unsigned column, unsigned rest) {  \
        if (rest == ART_GEMM_WIDTH) {                                                              \
            art_depth_pixels(t, column, nv, ART_GEMM_WIDTH);                                       \
        } else {                                                                                   \
            art_depth_pixels(t, column, nv, rest);                                                 \
        }                                                                                          \
    }
#define ART_EACH_DEPTH(X) X(1) X(2) X(3) X(4)
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
ART_EACH_DEPTH(ART_DEPTH)

#define ART_ROWS_ENTRY(m, nv) [m - 1][nv - 1] = art_rows_##m##x##nv,
#define ART_PIXELS_ENTRY(m, nv) [m - 1][nv - 1] = art_pixels_##m##x##nv,
#define ART_DEPTH_ROWS_ENTRY(nv) [nv - 1] = art_depth_rows_##nv,
#define ART_DEPTH_PIXELS_ENTRY(nv) [nv - 1] = art_depth_pixels_##nv,

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

/* As many vectors at once as a function has, the part of a vector with the last of them. */
#define ART_DEPTH_ANY(task, ENTRY)                                                                 \
    static void art_depth_##task##_any(const art_gemm_##task *t) {                                 \
        static void (*const table[ART_DEPTH_NV])(const art_gemm_##task *, unsigned,                \
                                                 unsigned) = {ART_EACH_DEPTH(ENTRY)};              \
        for (unsigned column = 0; column < t->n; column += ART_DEPTH_NV * ART_GEMM_WIDTH) {        \
            unsigned left = t->n - column, last = (left - 1) / ART_GEMM_WIDTH;                     \
            last = last < ART_DEPTH_NV ? last : ART_DEPTH_NV - 1;                                  \
            unsigned rest = left - last * ART_GEMM_WIDTH;                                          \
            table[last](t, column, rest < ART_GEMM_WIDTH ? rest : ART_GEMM_WIDTH);                 \
        }                                                                                          \
    }
ART_DEPTH_ANY(rows, ART_DEPTH_ROWS_ENTRY)
ART_DEPTH_ANY(pixels, ART_DEPTH_PIXELS_ENTRY)

typedef float art_v4 __attribute__((vector_size(16)));
typedef float art_v4u __attribute__((vector_size(16), aligned(4)));
typedef int art_v4i __attribute__((vector_size(16)));

/* A 4x4 block of a transposition in registers. */
ART_INLINE void art_transpose_4x4(const float *from, size_t stride, float *out, size_t ld) {
    art_v4 row0 = (art_v4) * (const art_v4u *)from;
    art_v4 row1 = (art_v4) * (const art_v4u *)(from + stride);
    art_v4 row2 = (art_v4) * (const art_v4u *)(from + 2 * stride);
    art_v4 row3 = (art_v4) * (const art_v4u *)(from + 3 * stride);
    const art_v4i low = {0, 4, 1, 5}, high = {2, 6, 3, 7}, front = {0, 1, 4, 5},
                  back = {2, 3, 6, 7};
    art_v4 low01 = __builtin_shuffle(row0, row1, low), low23 = __builtin_shuffle(row2, row3, low);
    art_v4 high01 = __builtin_shuffle(row0, row1, high);
    art_v4 high23 = __builtin_shuffle(row2, row3, high);
    *(art_v4u *)out = (art_v4u)__builtin_shuffle(low01, low23, front);
    *(art_v4u *)(out + ld) = (art_v4u)__builtin_shuffle(low01, low23, back);
    *(art_v4u *)(out + 2 * ld) = (art_v4u)__builtin_shuffle(high01, high23, front);
    *(art_v4u *)(out + 3 * ld) = (art_v4u)__builtin_shuffle(high01, high23, back);
}

ART_INLINE size_t art_ld(unsigned columns) {
    return (columns + ART_GEMM_WIDTH - 1) / ART_GEMM_WIDTH * ART_GEMM_WIDTH;
}

static void art_copy(const float *from, size_t stride, unsigned rows, unsigned columns,
                     float *out) {
    unsigned last = (columns - 1) / ART_GEMM_WIDTH * ART_GEMM_WIDTH, rest = columns - last;
    for (unsigned k = 0; k < rows; k++, from += stride, out += last + ART_GEMM_WIDTH) {
        for (unsigned j = 0; j < last; j += ART_GEMM_WIDTH) {
            *(art_vfu *)(out + j) = (art_vfu)art_load(from + j);
        }
        *(art_vfu *)(out + last) = (art_vfu)art_load_part(from + last, rest);
    }
}

static void art_transpose(const float *from, size_t stride, unsigned rows, unsigned columns,
                          float *out) {
    size_t ld = art_ld(columns);
    unsigned whole_rows = rows & ~3u, whole_columns = columns & ~3u;
    /* A cache line of every source row at a time: it is used up before it can be evicted. */
    for (unsigned line = 0; line < whole_rows; line += 16) {
        unsigned end = line + 16 < whole_rows ? line + 16 : whole_rows;
        for (unsigned j = 0; j < whole_columns; j += 4) {
            for (unsigned k = line; k < end; k += 4) {
                art_transpose_4x4(from + j * stride + k, stride, out + k * ld + j, ld);
            }
        }
    }
    for (unsigned k = 0; k < rows; k++) {
        for (unsigned j = k < whole_rows ? whole_columns : 0; j < ld; j++) {
            out[k * ld + j] = j < columns ? from[j * stride + k] : 0.0f;
        }
    }
}

const art_gemm_kernels ART_CAT(art_gemm, ART_GEMM_LEVEL) = {
    .mr = ART_GEMM_MR,
    .nr = ART_GEMM_NV * ART_GEMM_WIDTH,
    .width = ART_GEMM_WIDTH,
    .rows = art_rows_any,
    .pixels = art_pixels_any,
    .depth_rows = art_depth_rows_any,
    .depth_pixels = art_depth_pixels_any,
    .copy = art_copy,
    .transpose = art_transpose,
};
