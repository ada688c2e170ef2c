/* Column statistics of a [rows, cols] array, and constants per column: the two halves of batch
 * norm.
 *
 * Rows are cut into parts, columns into groups, by shape alone; a tile is one group of one part.
 * A tile reads its rows in blocks of at most ART_VEC_MAX_ROWS: the block's float results are
 * merged in double, block after block, and the parts are merged in order at the end. Moments are
 * merged as in Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing
 * sample variances" (1979), so that no difference of large squares is ever taken. */
#ifndef ART_OPS_COLUMNS_H
#define ART_OPS_COLUMNS_H

#include "ops/spans.h"

typedef struct art_col_split {
    uint64_t rows, cols;
    uint64_t groups, parts, part_rows;
} art_col_split;

art_col_split art_col_split_of(uint64_t rows, uint64_t cols);

/* Bytes of the partial results of any number of rows up to `rows`: two doubles per column and
 * part. */
uint64_t art_col_workspace(uint64_t rows, uint64_t cols);

/* Mean and sum of squared deviations of every column, at partials[0..cols) and
 * partials[cols..2 cols). */
void art_col_moments(const art_op_args *args, const float *x, art_col_split split,
                     double *partials);

/* Sum of dy and of dy (x - mean) of every column, in the same places; x and mean may be NULL. */
void art_col_dots(const art_op_args *args, const float *dy, const float *x, const float *mean,
                  art_col_split split, double *partials);

/* The same where every row has a mean and a reciprocal root of its own: the second sum is that of
 * dy (x - mean) invstd. Without mean it is 0. */
void art_col_row_dots(const art_op_args *args, const float *dy, const float *x, const float *mean,
                      const float *invstd, art_col_split split, double *partials);

/* Up to four constants per column for a stretch of columns, ready for a kernel. */
enum { ART_COL_CHUNK = 256 };
typedef struct art_col_constants {
    float k[4][ART_COL_CHUNK];
} art_col_constants;

/* Fill constants of columns [first, first + n). */
typedef void (*art_col_fill)(const void *context, size_t first, size_t n, art_col_constants *k);

/* Handle `rows` rows of n columns, ld elements apart, from element `at` of the array on. */
typedef void (*art_col_apply)(const void *context, size_t at, size_t rows, size_t ld, size_t n,
                              const art_col_constants *k);

/* Run apply over a whole [rows, cols] array. Narrow arrays are handled as wider ones whose
 * constants repeat, so that registers are full. */
void art_col_run(const art_op_args *args, uint64_t rows, uint64_t cols, art_col_fill fill,
                 art_col_apply apply, const void *context);

#endif
