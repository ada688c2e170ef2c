/* Matrix products with gathered rows: what linear layers and convolutions have in common.
 *
 * A linear layer is a 1x1 convolution of 1x1 images. Work is split into output tiles; every
 * thread packs its own weight panel into its share of the workspace. Summation order is a
 * function of the shape alone: blocks of at most ART_GEMM_KC terms, taps in ascending order of
 * the source's addresses. */
#ifndef ART_OPS_PRODUCT_H
#define ART_OPS_PRODUCT_H

#include "ops/check.h"
#include "ops/ops.h"

/* All at least 1 (padding 0), strides, paddings and dilations at most 2^20, every tensor's bytes
 * within SIZE_MAX / 2: what the operations' checks guarantee. */
typedef struct art_conv_shape {
    int64_t n, in_h, in_w, in_c, out_h, out_w, out_c;
    int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dil_h, dil_w, groups;
} art_conv_shape;

/* The shape of a linear_grad_w or conv2d_grad_w step from its operands and attributes. */
art_conv_shape art_linear_grad_w_shape(const art_op_args *args);
art_conv_shape art_conv2d_grad_w_shape(const art_op_args *args);

/* Workspace bytes of a product with `terms` terms per element and `columns` columns. */
uint64_t art_product_workspace(uint64_t terms, uint64_t columns, unsigned threads);

/* y = x * w + b; arrays in arena layout, b may be NULL. */
void art_conv_forward(const art_op_args *args, const art_conv_shape *shape, const float *x,
                      const float *w, const float *b, float *y, void *workspace);
void art_conv_grad_x(const art_op_args *args, const art_conv_shape *shape, const float *dy,
                     const float *w, float *dx, void *workspace);
/* The same with a bias of the input's channels: a transposed convolution. */
void art_conv_transpose(const art_op_args *args, const art_conv_shape *shape, const float *dy,
                        const float *w, const float *b, float *dx, void *workspace);
void art_conv_grad_w(const art_op_args *args, const art_conv_shape *shape, const float *x,
                     const float *dy, float *dw, void *workspace);
/* Rows [first, first + rows) of the weight gradient alone, with the same bits; a row has the output
 * channels of a group, and rows lie as the weight does. Not where art_splits_rows is false. */
void art_conv_grad_w_rows(const art_op_args *args, const art_conv_shape *shape, const float *x,
                          const float *dy, int64_t first, int64_t rows, float *dw, void *workspace);
/* db = sum of dy over all pixels, in blocks of ART_GEMM_KC pixels, block sums in order. */
void art_conv_grad_b(const art_op_args *args, const art_conv_shape *shape, const float *dy,
                     float *db);

/* The part of the workspace that belongs to one thread. */
static inline float *art_product_scratch(void *workspace, size_t floats_per_thread,
                                         unsigned thread) {
    return (float *)workspace + floats_per_thread * thread;
}

/* Floats of one thread's part. */
uint64_t art_product_floats(uint64_t terms, uint64_t columns);

/* One input and one output channel per group: columns do not mix. */
static inline bool art_is_depthwise(const art_conv_shape *shape) {
    return shape->groups > 1 && shape->in_c == shape->groups && shape->out_c == shape->groups;
}

/* Columns of all panels but the last: whole vectors, panels as equal as `most` columns, a tile's
 * or ART_GEMM_NR_MAX for the depthwise leaves, allow. */
static inline unsigned art_panel_columns(const art_gemm_kernels *gemm, unsigned most,
                                         int64_t columns) {
    uint64_t vectors = art_ceil_div((uint64_t)columns, gemm->width);
    uint64_t panels = art_ceil_div(vectors, most / gemm->width);
    return (unsigned)art_ceil_div(vectors, panels) * gemm->width;
}

/* A kernel row whose taps lie side by side in memory is one long tap when it is short: few channels
 * would leave the tiles empty. Part of the numeric contract. */
static inline bool art_merges_kernel_row(int64_t taps, int64_t channels, int64_t step,
                                         int64_t groups) {
    return groups == 1 && taps > 1 && step == 1 && taps * channels <= ART_MAX_MERGED_TERMS;
}

/* Depthwise weights lie channel by channel, and a merged kernel row is one sum: both are small. */
static inline bool art_splits_rows(const art_conv_shape *s) {
    return !art_is_depthwise(s) &&
           !art_merges_kernel_row(s->kernel_w, s->in_c, s->dil_w, s->groups);
}

#endif
