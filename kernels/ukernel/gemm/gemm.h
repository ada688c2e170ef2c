/* Matrix-product micro-kernels: one output tile, operands by pointer, nothing else.
 *
 * A linear layer and a convolution are the same product: output rows are pixels (or samples),
 * columns are channels. Two leaves serve all passes:
 *
 * rows    C[r][j] (+)= sum over t, k of a[t * MR + r][k] * b[(t * K + k) * ldb + j]
 *         Forward and input gradient: one pointer per output pixel r and kernel tap t.
 * pixels  C[r][j] (+)= sum over p of x[p][r] * b[p * ldb + j]
 *         Weight gradient: one pointer per pixel p, output rows are input channels.
 *
 * Numeric contract: an element's terms are added one after the other in the order above, starting
 * from zero, then the block is stored: C = block, C = block + bias or C = C + block. Levels that
 * have fused multiply-add use it for every term, the others never do; so an element's bits depend
 * neither on the tile's shape nor on its place in it. */
#ifndef ART_UKERNEL_GEMM_GEMM_H
#define ART_UKERNEL_GEMM_GEMM_H

#include <stddef.h>

enum {
    ART_GEMM_MR_MAX = 8,  /* most rows of a tile over all levels */
    ART_GEMM_NR_MAX = 48, /* most columns of a tile over all levels */
    ART_GEMM_KC = 256,    /* most terms of a block: part of the numeric contract */
    ART_GEMM_TAPS = 64,   /* most taps of a block: part of the numeric contract */
};

/* How a finished block meets C. */
typedef enum art_gemm_store {
    ART_GEMM_SET,  /* C = block + bias, bias may be NULL */
    ART_GEMM_ADD,  /* C = C + block */
} art_gemm_store;

/* One tile. `b` has rows of ldb floats of which a multiple of the vector width, at least n and at
 * most NR, is read: pack (zero-filled) where the matrix is narrower. c[r] points at column 0. */
typedef struct art_gemm_rows {
    const float *const *a; /* [taps][MR], unused rows of a short tile are not read */
    const float *b;
    float *const *c;       /* [m] */
    const float *bias;     /* [n] or NULL */
    size_t ldb;
    unsigned taps, k;      /* terms = taps * k */
    unsigned m, n;         /* rows <= MR, columns <= NR */
    art_gemm_store store;
} art_gemm_rows;

typedef struct art_gemm_pixels {
    const float *const *x; /* [pixels], already at the tile's first channel */
    const float *b;
    float *c;              /* row r at c + r * ldc */
    size_t ldb, ldc;
    unsigned pixels;
    unsigned m, n;
    art_gemm_store store;
} art_gemm_pixels;

typedef struct art_gemm_kernels {
    unsigned mr, nr;    /* tile */
    unsigned width;     /* columns are read in multiples of this */
    void (*rows)(const art_gemm_rows *tile);
    void (*pixels)(const art_gemm_pixels *tile);
} art_gemm_kernels;

extern const art_gemm_kernels art_gemm_c;
extern const art_gemm_kernels art_gemm_vec_sse2;
extern const art_gemm_kernels art_gemm_vec_avx2;
extern const art_gemm_kernels art_gemm_vec_avx512;
extern const art_gemm_kernels art_gemm_neon_a64;
extern const art_gemm_kernels art_gemm_neon_a32;
extern const art_gemm_kernels art_gemm_neonv4_a32;

#endif
