/* Linear layers: y[N,O] = x[N,I] w[I,O] + b[O] and its gradients, as 1x1 convolutions. */
#include "ops/check.h"
#include "ops/op_functions.h"
#include "ops/product.h"

static art_conv_shape linear_shape(const art_array *x, const art_array *y) {
    return (art_conv_shape){
        .n = x->dims[0],
        .in_h = 1,
        .in_w = 1,
        .in_c = x->dims[1],
        .out_h = 1,
        .out_w = 1,
        .out_c = y->dims[1],
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
    ART_TRY(art_check_operand(args, x, x_name, ART_DTYPE_F32, 2, err));
    ART_TRY(art_check_operand(args, y, y_name, ART_DTYPE_F32, 2, err));
    ART_TRY(art_check_batched(args, x, x_name, 1, err));
    ART_TRY(art_check_batched(args, y, y_name, 1, err));
    uint32_t dims[2] = {args->operand[x].dims[0], args->operand[y].dims[1]};
    return art_check_dims(args, y, y_name, dims, err);
}

static art_status check_weight(const art_op_args *args, unsigned slot, const char *name, unsigned x,
                               unsigned y, art_error *err) {
    uint32_t dims[2] = {args->operand[x].dims[1], args->operand[y].dims[1]};
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
                                      args->operand[Y].dims[1], err));
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
    return art_present(args, ART_LINEAR_GRAD_W_DW)
               ? art_product_workspace(dy->dims[0], dy->dims[1], args->threads)
               : 0;
}

art_status art_op_linear_grad_w_check(const art_op_args *args, art_error *err) {
    enum { X = ART_LINEAR_GRAD_W_X, DY = ART_LINEAR_GRAD_W_DY, DW = ART_LINEAR_GRAD_W_DW };
    ART_TRY(check_matrices(args, X, "linear_grad_w.x", DY, "linear_grad_w.dy", err));
    if (art_present(args, DW)) {
        ART_TRY(check_weight(args, DW, "linear_grad_w.dw", X, DY, err));
    }
    ART_TRY(art_check_optional_vector(args, ART_LINEAR_GRAD_W_DB, "linear_grad_w.db", ART_DTYPE_F32,
                                      args->operand[DY].dims[1], err));
    return art_check_workspace(args, ART_LINEAR_GRAD_W_WS, "linear_grad_w.ws",
                               art_op_linear_grad_w_workspace(args), err);
}

art_status art_op_linear_grad_w_run(const art_op_args *args, art_error *err) {
    const art_array *o = args->operand;
    art_conv_shape shape = linear_shape(&o[ART_LINEAR_GRAD_W_X], &o[ART_LINEAR_GRAD_W_DY]);
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
