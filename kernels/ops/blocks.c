/* Gradient and update of a large weight, block by block of its rows, so that its gradient is never
 * there as a whole.
 *
 * A step takes the place of two or three: the gradient of linear_grad_w (a weight of two
 * dimensions) or conv2d_grad_w, clip_value if there is a limit, and the update. Its operands are
 * those of the update but the factor of clipping, then x, dy and the workspace of the gradient; its
 * attributes are those of the update, the limit, and those of conv2d_grad_w. g holds the gradient
 * of one block: as many rows as it has. Each block is completed, then the same update runs on that
 * part of weight and state: the bits are those of the separate steps, whatever the size of the
 * blocks. */
#include "ops/blocks.h"

#include "ops/op_functions.h"
#include "ops/product.h"

enum { W, G, STATES };

_Static_assert((int)ART_LINEAR_GRAD_W_X == (int)ART_CONV2D_GRAD_W_X &&
                   (int)ART_LINEAR_GRAD_W_DY == (int)ART_CONV2D_GRAD_W_DY &&
                   (int)ART_LINEAR_GRAD_W_DW == (int)ART_CONV2D_GRAD_W_DW &&
                   (int)ART_LINEAR_GRAD_W_DB == (int)ART_CONV2D_GRAD_W_DB &&
                   (int)ART_LINEAR_GRAD_W_WS == (int)ART_CONV2D_GRAD_W_WS,
               "both gradients have their operands in common");

/* The steps that a step stands for. */
typedef struct parts {
    const art_op *update, *product;
    art_op_args update_args, product_args;
} parts;

/* The gradient's array is the weight's here: it has the same form. */
static void split(const art_op_args *args, unsigned update, parts *p) {
    const art_array *w = &args->operand[W];
    p->update = art_op_find(update);
    p->product = art_op_find(w->ndim == 2 ? ART_OP_LINEAR_GRAD_W : ART_OP_CONV2D_GRAD_W);
    const unsigned scale = p->update->n_operands - 1u, limit = p->update->n_attrs;
    p->update_args = p->product_args = *args;
    p->update_args.n_operands = p->update->n_operands;
    p->update_args.n_attrs = p->update->n_attrs;
    p->update_args.operand[G] = *w;
    p->update_args.operand[scale] = (art_array){0};
    p->product_args.n_operands = p->product->n_operands;
    p->product_args.n_attrs = p->product->n_attrs;
    p->product_args.attr = args->attr + limit + 1;
    p->product_args.operand[ART_CONV2D_GRAD_W_X] = args->operand[scale];
    p->product_args.operand[ART_CONV2D_GRAD_W_DY] = args->operand[scale + 1];
    p->product_args.operand[ART_CONV2D_GRAD_W_DW] = *w;
    p->product_args.operand[ART_CONV2D_GRAD_W_DB] = (art_array){0};
    p->product_args.operand[ART_CONV2D_GRAD_W_WS] = args->operand[scale + 2];
}

static art_conv_shape shape_of(const parts *p) {
    return p->product_args.operand[ART_CONV2D_GRAD_W_DW].ndim == 2
               ? art_linear_grad_w_shape(&p->product_args)
               : art_conv2d_grad_w_shape(&p->product_args);
}

static uint32_t columns_of(const art_array *w) {
    return w->dims[w->ndim - 1];
}

static uint64_t workspace(const art_op_args *args, unsigned update) {
    parts p;
    split(args, update, &p);
    return p.product->workspace(&p.product_args);
}

static art_status check(const art_op_args *args, unsigned update, const char *w_name,
                        const char *g_name, art_error *err) {
    const art_array *w = &args->operand[W];
    parts p;
    ART_TRY(art_check_operand(args, W, w_name, ART_DTYPE_F32, ART_ANY_RANK, err));
    const uint32_t dims[2] = {args->operand[G].dims[0], columns_of(w)};
    split(args, update, &p);
    ART_TRY(art_check_operation(p.product, &p.product_args, err));
    ART_TRY(art_check_operation(p.update, &p.update_args, err));
    ART_TRY(art_check_operand(args, G, g_name, ART_DTYPE_F32, 2, err));
    ART_TRY(art_check_batched(args, G, g_name, 0, err));
    ART_TRY(art_check_dims(args, G, g_name, dims, err));
    ART_FAIL_IF(dims[0] > art_count(w) / dims[1], err, ART_SHAPE,
                "%s has %u rows, the weight has %llu", g_name, dims[0],
                (unsigned long long)(art_count(w) / dims[1]));
    art_conv_shape shape = shape_of(&p);
    ART_FAIL_IF(
        !art_splits_rows(&shape), err, ART_SHAPE,
        "%s: the gradient of %lld groups and a kernel row of %lld x %lld is made as a whole",
        g_name, (long long)shape.groups, (long long)shape.kernel_w, (long long)shape.in_c);
    return ART_OK;
}

/* An array of the update is `rows` rows from now on. */
static void set_rows(art_array *array, uint32_t rows, uint32_t columns) {
    array->ndim = 2;
    array->dims[0] = rows;
    array->dims[1] = columns;
}

static art_status run(const art_op_args *args, unsigned update, art_error *err) {
    const art_array *w = &args->operand[W], *g = &args->operand[G];
    const uint32_t columns = columns_of(w), most = g->dims[0];
    const int64_t all = (int64_t)(art_count(w) / columns);
    parts p;
    split(args, update, &p);
    const art_conv_shape shape = shape_of(&p);
    const art_array *o = p.product_args.operand;
    art_op_args *u = &p.update_args, clip = *args;
    clip.attr = args->attr + p.update->n_attrs;
    u->operand[G] = *g;
    for (int64_t first = 0; first < all; first += most) {
        const uint32_t rows = all - first < most ? (uint32_t)(all - first) : most;
        art_conv_grad_w_rows(args, &shape, o[ART_CONV2D_GRAD_W_X].data,
                             o[ART_CONV2D_GRAD_W_DY].data, first, rows, g->data,
                             o[ART_CONV2D_GRAD_W_WS].data);
        for (unsigned i = 0; i < u->n_operands; i++) {
            art_array *array = &u->operand[i];
            if (array->data) {
                set_rows(array, rows, columns);
                array->data =
                    i == G ? g->data : (float *)args->operand[i].data + (size_t)first * columns;
            }
        }
        if (clip.attr->f > 0.0) {
            clip.operand[ART_CLIP_VALUE_G] = u->operand[G];
            ART_TRY(art_op_clip_value_run(&clip, err));
        }
        ART_TRY(p.update->run(u, err));
    }
    return ART_OK;
}

#define ART_BLOCKS(NAME, name)                                                                     \
    _Static_assert((int)ART_BLOCKS_##NAME##_W == (int)W && (int)ART_##NAME##_W == (int)W &&        \
                       (int)ART_BLOCKS_##NAME##_G == (int)G && (int)ART_##NAME##_G == (int)G &&    \
                       (int)ART_BLOCKS_##NAME##_X == (int)ART_##NAME##_SCALE,                      \
                   "the operands of the update come first");                                       \
    uint64_t art_op_blocks_##name##_workspace(const art_op_args *args) {                           \
        return workspace(args, art_blocks_update(ART_OP_BLOCKS_##NAME));                           \
    }                                                                                              \
    art_status art_op_blocks_##name##_check(const art_op_args *args, art_error *err) {             \
        return check(args, art_blocks_update(ART_OP_BLOCKS_##NAME), "blocks_" #name ".w",          \
                     "blocks_" #name ".g", err);                                                   \
    }                                                                                              \
    art_status art_op_blocks_##name##_run(const art_op_args *args, art_error *err) {               \
        return run(args, art_blocks_update(ART_OP_BLOCKS_##NAME), err);                            \
    }

ART_BLOCKS(SGD_STEP, sgd_step)
ART_BLOCKS(ADAM_STEP, adam_step)
ART_BLOCKS(ADAMW_STEP, adamw_step)
ART_BLOCKS(RMSPROP_STEP, rmsprop_step)
ART_BLOCKS(ADAGRAD_STEP, adagrad_step)
