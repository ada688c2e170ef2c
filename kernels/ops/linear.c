/* Linear layers: y[...,O] = x[...,I] w[I,O] + b[O] and its gradients, as 1x1 convolutions of as
 * many images as there are rows. */
#include <string.h>

#include "ops/check.h"
#include "ops/op_functions.h"
#include "ops/product.h"

static uint32_t features(const art_array *array) {
    return array->dims[array->ndim - 1];
}

/* Rows of all leading dimensions. */
static uint64_t rows(const art_array *array) {
    art_array leading = *array;
    leading.ndim--;
    return art_count(&leading);
}

static art_conv_shape linear_shape(const art_array *x, const art_array *y) {
    return (art_conv_shape){
        .n = (int64_t)rows(x),
        .in_h = 1,
        .in_w = 1,
        .in_c = features(x),
        .out_h = 1,
        .out_w = 1,
        .out_c = features(y),
        .kernel_h = 1,
        .kernel_w = 1,
        .stride_h = 1,
        .stride_w = 1,
        .dil_h = 1,
        .dil_w = 1,
        .groups = 1,
    };
}

static art_status check_matrices(const art_op_args *args, unsigned x, const char *x_name,
                                 unsigned y, const char *y_name, art_error *err) {
    const art_array *from = &args->operand[x], *to = &args->operand[y];
    ART_TRY(art_check_operand(args, x, x_name, ART_DTYPE_F32, ART_ANY_RANK, err));
    ART_TRY(art_check_operand(args, y, y_name, ART_DTYPE_F32, ART_ANY_RANK, err));
    ART_TRY(art_check_batched(args, x, x_name, 1, err));
    ART_TRY(art_check_batched(args, y, y_name, 1, err));
    ART_FAIL_IF(from->ndim < 2 || from->ndim != to->ndim, err, ART_SHAPE,
                "%s has %u dimensions and %s %u, both need as many, at least 2", x_name, from->ndim,
                y_name, to->ndim);
    uint32_t dims[ART_MAX_DIMS];
    memcpy(dims, from->dims, sizeof dims);
    dims[to->ndim - 1] = features(to);
    return art_check_dims(args, y, y_name, dims, err);
}

static art_status check_weight(const art_op_args *args, unsigned slot, const char *name, unsigned x,
                               unsigned y, art_error *err) {
    uint32_t dims[2] = {features(&args->operand[x]), features(&args->operand[y])};
    ART_TRY(art_check_operand(args, slot, name, ART_DTYPE_F32, 2, err));
    ART_TRY(art_check_batched(args, slot, name, 0, err));
    return art_check_dims(args, slot, name, dims, err);
}

uint64_t art_op_linear_fwd_workspace(const art_op_args *args) {
    const art_array *w = &args->operand[ART_LINEAR_FWD_W];
    return art_product_workspace(w->dims[0], w->dims[1], args->threads);
}

art_status art_op_linear_fwd_check(const art_op_args *args, art_error *err) {
    enum { X = ART_LINEAR_FWD_X, W = ART_LINEAR_FWD_W, B = ART_LINEAR_FWD_B, Y = ART_LINEAR_FWD_Y };
    ART_TRY(check_matrices(args, X, "linear_fwd.x", Y, "linear_fwd.y", err));
    ART_TRY(check_weight(args, W, "linear_fwd.w", X, Y, err));
    ART_TRY(art_check_optional_vector(args, B, "linear_fwd.b", ART_DTYPE_F32,
                                      features(&args->operand[Y]), err));
    return art_check_workspace(args, ART_LINEAR_FWD_WS, "linear_fwd.ws",
                               art_op_linear_fwd_workspace(args), err);
}

art_status art_op_linear_fwd_run(const art_op_args *args, art_error *err) {
    const art_array *o = args->operand;
    art_conv_shape shape = linear_shape(&o[ART_LINEAR_FWD_X], &o[ART_LINEAR_FWD_Y]);
    (void)err;
    art_conv_forward(args, &shape, o[ART_LINEAR_FWD_X].data, o[ART_LINEAR_FWD_W].data,
                     o[ART_LINEAR_FWD_B].data, o[ART_LINEAR_FWD_Y].data, o[ART_LINEAR_FWD_WS].data);
    return ART_OK;
}

uint64_t art_op_linear_grad_w_workspace(const art_op_args *args) {
    const art_array *dy = &args->operand[ART_LINEAR_GRAD_W_DY];
    if (!art_present(args, ART_LINEAR_GRAD_W_DW) || dy->ndim == 0) {
        return 0;
    }
    return art_product_workspace(rows(dy), features(dy), args->threads);
}

art_status art_op_linear_grad_w_check(const art_op_args *args, art_error *err) {
    enum { X = ART_LINEAR_GRAD_W_X, DY = ART_LINEAR_GRAD_W_DY, DW = ART_LINEAR_GRAD_W_DW };
    ART_TRY(check_matrices(args, X, "linear_grad_w.x", DY, "linear_grad_w.dy", err));
    if (art_present(args, DW)) {
        ART_TRY(check_weight(args, DW, "linear_grad_w.dw", X, DY, err));
    }
    ART_TRY(art_check_optional_vector(args, ART_LINEAR_GRAD_W_DB, "linear_grad_w.db", ART_DTYPE_F32,
                                      features(&args->operand[DY]), err));
    return art_check_workspace(args, ART_LINEAR_GRAD_W_WS, "linear_grad_w.ws",
                               art_op_linear_grad_w_workspace(args), err);
}

art_conv_shape art_linear_grad_w_shape(const art_op_args *args) {
    return linear_shape(&args->operand[ART_LINEAR_GRAD_W_X], &args->operand[ART_LINEAR_GRAD_W_DY]);
}

art_status art_op_linear_grad_w_run(const art_op_args *args, art_error *err) {
    const art_array *o = args->operand;
    art_conv_shape shape = art_linear_grad_w_shape(args);
    (void)err;
    if (o[ART_LINEAR_GRAD_W_DW].data) {
        art_conv_grad_w(args, &shape, o[ART_LINEAR_GRAD_W_X].data, o[ART_LINEAR_GRAD_W_DY].data,
                        o[ART_LINEAR_GRAD_W_DW].data, o[ART_LINEAR_GRAD_W_WS].data);
    }
    if (o[ART_LINEAR_GRAD_W_DB].data) {
        art_conv_grad_b(args, &shape, o[ART_LINEAR_GRAD_W_DY].data, o[ART_LINEAR_GRAD_W_DB].data);
    }
    return ART_OK;
}

uint64_t art_op_linear_grad_x_workspace(const art_op_args *args) {
    const art_array *w = &args->operand[ART_LINEAR_GRAD_X_W];
    return art_product_workspace(w->dims[1], w->dims[0], args->threads);
}

art_status art_op_linear_grad_x_check(const art_op_args *args, art_error *err) {
    enum { DY = ART_LINEAR_GRAD_X_DY, W = ART_LINEAR_GRAD_X_W, DX = ART_LINEAR_GRAD_X_DX };
    ART_TRY(check_matrices(args, DX, "linear_grad_x.dx", DY, "linear_grad_x.dy", err));
    ART_TRY(check_weight(args, W, "linear_grad_x.w", DX, DY, err));
    return art_check_workspace(args, ART_LINEAR_GRAD_X_WS, "linear_grad_x.ws",
                               art_op_linear_grad_x_workspace(args), err);
}

art_status art_op_linear_grad_x_run(const art_op_args *args, art_error *err) {
    const art_array *o = args->operand;
    art_conv_shape shape = linear_shape(&o[ART_LINEAR_GRAD_X_DX], &o[ART_LINEAR_GRAD_X_DY]);
    (void)err;
    art_conv_grad_x(args, &shape, o[ART_LINEAR_GRAD_X_DY].data, o[ART_LINEAR_GRAD_X_W].data,
                    o[ART_LINEAR_GRAD_X_DX].data, o[ART_LINEAR_GRAD_X_WS].data);
    return ART_OK;
}
