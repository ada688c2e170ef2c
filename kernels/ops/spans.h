/* Work on arrays element by element: the calling pattern of all operations without structure.
 * An array is cut into spans of a fixed length, so that threads never change a result. */
#ifndef ART_OPS_SPANS_H
#define ART_OPS_SPANS_H

#include "ops/check.h"

/* Elements of one tile: 64 KiB of floats. */
enum { ART_SPAN = 16384 };

/* Handle elements [first, first + n). */
typedef void (*art_span_fn)(const art_op_args *args, const void *constants, size_t first, size_t n);

/* Run fn over [0, count); `work` is scalar operations per element. */
void art_run_spans(const art_op_args *args, uint64_t count, double work, art_span_fn fn,
                   const void *constants);

/* Sum over [0, count) of what fn returns for blocks, in block order. The split depends on count
 * alone. */
typedef double (*art_block_fn)(const art_op_args *args, const void *constants, size_t first,
                               size_t n);
double art_sum_blocks(const art_op_args *args, uint64_t count, double work, art_block_fn fn,
                      const void *constants);

static inline const float *art_in(const art_op_args *args, unsigned slot) {
    return args->operand[slot].data;
}

static inline float *art_out(const art_op_args *args, unsigned slot) {
    return args->operand[slot].data;
}

static inline const art_vec_kernels *art_vec(const art_op_args *args) {
    return args->level->kernels.vec;
}

/* Attributes from slot `first` to the last as float32 in the workspace, which holds them; NULL for
 * none. */
static inline const float *art_weights(const art_op_args *args, unsigned first, unsigned ws) {
    float *weights = args->operand[ws].data;
    for (unsigned i = first; i < args->n_attrs; i++) {
        weights[i - first] = (float)args->attr[i].f;
    }
    return args->n_attrs > first ? weights : NULL;
}

/* Tiles of `per_tile` items that cover `items`. */
static inline unsigned art_tiles(uint64_t items, uint64_t per_tile) {
    return (unsigned)art_ceil_div(items, per_tile);
}

#endif
