/* Matrix-product micro-kernels: one output tile, operands by pointer, nothing else.
 *
 * A linear layer and a convolution are the same product: output rows are pixels (or samples),
 * columns are channels. Two leaves serve all passes, two more the depthwise case (one input and
 * one output channel per group), where column j of C meets column j of the gathered rows alone:
 *
 * rows          C[r][j] (+)= sum over t, k of a[t * MR + r][k] * b[(t * K + k) * ldb + j]
 *               Forward and input gradient: one pointer per output pixel r and kernel tap t.
 * pixels        C[r][j] (+)= sum over p of x[p][offset + r] * b[row[p] + j]
 *               Weight gradient: one pointer per pixel p, output rows are input channels.
 * depth_rows    C[r][j] (+)= sum over t of a[t * MR + r][j] * b[t * ldb + j]
 * depth_pixels  C[0][j] (+)= sum over p of x[p][offset + j] * b[row[p] + j]
 *
 * Numeric contract: an element's terms are added one after the other in the order above, starting
 * from zero, then the block is stored: C = block, C = block + bias or C = C + block. Levels that
 * have fused multiply-add use it for every term, the others never do; so an element's bits depend
 * neither on the tile's shape nor on its place in it. */
#ifndef ART_UKERNEL_GEMM_GEMM_H
#define ART_UKERNEL_GEMM_GEMM_H

#include <stddef.h>
#include <stdint.h>

#include "art_levels.h"

enum {
    ART_GEMM_MR_MAX = 8,     /* most rows of a tile over all levels */
    ART_GEMM_NR_MAX = 48,    /* most columns of a tile over all levels */
    ART_GEMM_WIDTH_MAX = 16, /* most floats of a vector over all levels */
    ART_GEMM_KC = 256,       /* most terms of a block: part of the numeric contract */
    ART_GEMM_TAPS = 64,      /* most taps of a block: part of the numeric contract */
};

/* How a finished block meets C. */
typedef enum art_gemm_store {
    ART_GEMM_SET, /* C = block + bias, bias may be NULL */
    ART_GEMM_ADD, /* C = C + block */
} art_gemm_store;

/* One tile of gathered rows. `b` has rows of ldb floats, of which n rounded up to the level's
 * width are read: pack (zero-filled) where the matrix is narrower. c[r] points at column 0. */
typedef struct art_gemm_rows {
    const float *const *a; /* [taps][MR], unused rows of a short tile are not read */
    const float *b;
    float *const *c;   /* [m] */
    const float *bias; /* [n] or NULL */
    size_t ldb;
    unsigned taps, k; /* terms = taps * k; depth_rows: k is 1 */
    unsigned m, n;    /* rows <= MR, columns <= NR, depth_rows: <= ART_GEMM_NR_MAX */
    art_gemm_store store;
} art_gemm_rows;

/* One tile of a weight gradient; b as above. */
typedef struct art_gemm_pixels {
    const float *const *x; /* [pixels] */
    const uint32_t *row;   /* [pixels]: the pixel's row of b, in floats from b */
    const float *b;
    float *c;      /* row r at c + r * ldc */
    size_t offset; /* added to every x: the tile's first channel */
    size_t ldc;
    unsigned pixels; /* may be 0 */
    unsigned m, n;   /* depth_pixels: m is 1, n <= ART_GEMM_NR_MAX */
    art_gemm_store store;
} art_gemm_pixels;

typedef struct art_gemm_kernels {
    unsigned mr, nr; /* tile */
    unsigned width;  /* columns of b are read in multiples of this */
    void (*rows)(const art_gemm_rows *tile);
    void (*pixels)(const art_gemm_pixels *tile);
    void (*depth_rows)(const art_gemm_rows *tile);
    void (*depth_pixels)(const art_gemm_pixels *tile);
    /* Pack a panel of b, rows of ld floats, ld being columns rounded up to the width; the rest of
     * every row is zero. copy: out[k * ld + j] = from[k * stride + j], transpose: from[j * stride
     * + k], for k < rows, j < columns. */
    void (*copy)(const float *from, size_t stride, unsigned rows, unsigned columns, float *out);
    void (*transpose)(const float *from, size_t stride, unsigned rows, unsigned columns,
                      float *out);
} art_gemm_kernels;

#define ART_GEMM_DECLARE(level, ...) extern const art_gemm_kernels art_gemm_##level;
ART_EACH_LEVEL(ART_GEMM_DECLARE, )
#undef ART_GEMM_DECLARE

#endif
