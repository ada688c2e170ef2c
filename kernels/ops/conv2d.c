/* 2-D convolution, transposed convolution and their gradients on channels-last images; the products
 * are in product.h. A transposed convolution is the input gradient of a convolution from its y to
 * its x, so that each of its operations is one of that convolution's.
 *
 * x[N,H,W,C], w[G,KH,KW,C/G,O/G], y[N,OH,OW,O]; torch.nn.Conv2d's cross-correlation. */
#include "ops/check.h"
#include "ops/op_functions.h"
#include "ops/product.h"

_Static_assert((int)ART_CONV2D_FWD_A_STRIDE_H == (int)ART_CONV2D_GRAD_W_A_STRIDE_H &&
                   (int)ART_CONV2D_FWD_A_OVER_W == (int)ART_CONV2D_GRAD_X_A_OVER_W &&
                   (int)ART_CONV2D_FWD_A_OVER_W == (int)ART_CONV_TRANSPOSE2D_FWD_A_OVER_W &&
                   (int)ART_CONV2D_FWD_A_OVER_W == (int)ART_CONV_TRANSPOSE2D_GRAD_W_A_OVER_W &&
                   (int)ART_CONV2D_FWD_A_OVER_W == (int)ART_CONV_TRANSPOSE2D_GRAD_X_A_OVER_W,
               "all operations share their attributes");

static art_conv_shape conv_shape(const art_op_args *args, unsigned x, unsigned y) {
    const uint32_t *in = args->operand[x].dims, *out = args->operand[y].dims;
    const art_attr *a = args->attr;
    return (art_conv_shape){
        .n = in[0],
        .in_h = in[1],
        .in_w = in[2],
        .in_c = in[3],
        .out_h = out[1],
        .out_w = out[2],
        .out_c = out[3],
        .stride_h = a[ART_CONV2D_FWD_A_STRIDE_H].i,
        .stride_w = a[ART_CONV2D_FWD_A_STRIDE_W].i,
        .pad_h = a[ART_CONV2D_FWD_A_PAD_H].i,
        .pad_w = a[ART_CONV2D_FWD_A_PAD_W].i,
        .dil_h = a[ART_CONV2D_FWD_A_DIL_H].i,
        .dil_w = a[ART_CONV2D_FWD_A_DIL_W].i,
        .groups = a[ART_CONV2D_FWD_A_GROUPS].i,
    };
}

static void set_kernel(art_conv_shape *shape, const art_array *w) {
    shape->kernel_h = w->dims[1];
    shape->kernel_w = w->dims[2];
}

/* Images x and y go with each other and with a kernel of kh * kw. */
static art_status check_images(const art_op_args *args, unsigned x, const char *x_name, unsigned y,
                               const char *y_name, uint32_t kh, uint32_t kw, art_error *err) {
    ART_TRY(art_check_operand(args, x, x_name, ART_DTYPE_F32, 4, err));
    ART_TRY(art_check_operand(args, y, y_name, ART_DTYPE_F32, 4, err));
    ART_TRY(art_check_batched(args, x, x_name, 1, err));
    ART_TRY(art_check_batched(args, y, y_name, 1, err));
    art_conv_shape s = conv_shape(args, x, y);
    const art_attr *a = args->attr;
    ART_FAIL_IF(s.in_c % s.groups || s.out_c % s.groups, err, ART_SHAPE,
                "%s: %lld and %lld channels cannot be split into %lld groups", x_name,
                (long long)s.in_c, (long long)s.out_c, (long long)s.groups);
    ART_FAIL_IF(kh > ART_MAX_WINDOW || kw > ART_MAX_WINDOW, err, ART_SHAPE,
                "%s: a kernel of %u x %u, at most %u are possible", x_name, kh, kw, ART_MAX_WINDOW);
    uint32_t dims[4] = {
        args->operand[x].dims[0],
        (uint32_t)art_window_out(s.in_h + a[ART_CONV2D_FWD_A_OVER_H].i, kh, s.stride_h, s.pad_h,
                                 s.dil_h),
        (uint32_t)art_window_out(s.in_w + a[ART_CONV2D_FWD_A_OVER_W].i, kw, s.stride_w, s.pad_w,
                                 s.dil_w),
        args->operand[y].dims[3],
    };
    return art_check_dims(args, y, y_name, dims, err);
}

static art_status check_weight(const art_op_args *args, unsigned slot, const char *name,
                               art_error *err) {
    ART_TRY(art_check_operand(args, slot, name, ART_DTYPE_F32, 5, err));
    return art_check_batched(args, slot, name, 0, err);
}

static art_status check_weight_dims(const art_op_args *args, unsigned slot, const char *name,
                                    unsigned x, unsigned y, art_error *err) {
    art_conv_shape s = conv_shape(args, x, y);
    const uint32_t *w = args->operand[slot].dims;
    uint32_t dims[5] = {(uint32_t)s.groups, w[1], w[2], (uint32_t)(s.in_c / s.groups),
                        (uint32_t)(s.out_c / s.groups)};
    return art_check_dims(args, slot, name, dims, err);
}

static uint64_t kernel_terms(const art_array *w, unsigned channel_axis) {
    return art_mul_saturated((uint64_t)w->dims[1] * w->dims[2], w->dims[channel_axis]);
}

/* Columns of one product: a group's channels, or all channels of a depthwise convolution. */
static uint64_t columns(const art_array *w, unsigned channel_axis) {
    bool depthwise = w->dims[0] > 1 && w->dims[3] == 1 && w->dims[4] == 1;
    return w->dims[depthwise ? 0 : channel_axis];
}

uint64_t art_op_conv2d_fwd_workspace(const art_op_args *args) {
    const art_array *w = &args->operand[ART_CONV2D_FWD_W];
    return art_product_workspace(kernel_terms(w, 3), columns(w, 4), args->threads);
}

art_status art_op_conv2d_fwd_check(const art_op_args *args, art_error *err) {
    enum { X = ART_CONV2D_FWD_X, W = ART_CONV2D_FWD_W, B = ART_CONV2D_FWD_B, Y = ART_CONV2D_FWD_Y };
    const uint32_t *w = args->operand[W].dims;
    ART_TRY(check_weight(args, W, "conv2d_fwd.w", err));
    ART_TRY(check_images(args, X, "conv2d_fwd.x", Y, "conv2d_fwd.y", w[1], w[2], err));
    ART_TRY(check_weight_dims(args, W, "conv2d_fwd.w", X, Y, err));
    ART_TRY(art_check_optional_vector(args, B, "conv2d_fwd.b", ART_DTYPE_F32,
                                      args->operand[Y].dims[3], err));
    return art_check_workspace(args, ART_CONV2D_FWD_WS, "conv2d_fwd.ws",
                               art_op_conv2d_fwd_workspace(args), err);
}

art_status art_op_conv2d_fwd_run(const art_op_args *args, art_error *err) {
    const art_array *o = args->operand;
    art_conv_shape shape = conv_shape(args, ART_CONV2D_FWD_X, ART_CONV2D_FWD_Y);
    (void)err;
    set_kernel(&shape, &o[ART_CONV2D_FWD_W]);
    art_conv_forward(args, &shape, o[ART_CONV2D_FWD_X].data, o[ART_CONV2D_FWD_W].data,
                     o[ART_CONV2D_FWD_B].data, o[ART_CONV2D_FWD_Y].data, o[ART_CONV2D_FWD_WS].data);
    return ART_OK;
}

/* Without a weight gradient (bias alone is trained) the kernel's size is not needed. */
uint64_t art_op_conv2d_grad_w_workspace(const art_op_args *args) {
    const art_array *dy = &args->operand[ART_CONV2D_GRAD_W_DY];
    const art_array *dw = &args->operand[ART_CONV2D_GRAD_W_DW];
    uint64_t pixels = art_mul_saturated((uint64_t)dy->dims[0] * dy->dims[1], dy->dims[2]);
    return dw->ndim ? art_product_workspace(pixels, columns(dw, 4), args->threads) : 0;
}

/* The bias gradient adds up the pixels of dy, as many images as x has. */
static art_status check_bias_rows(const art_op_args *args, unsigned x, const char *x_name,
                                  unsigned dy, const char *dy_name, art_error *err) {
    ART_TRY(art_check_operand(args, x, x_name, ART_DTYPE_F32, 4, err));
    ART_TRY(art_check_operand(args, dy, dy_name, ART_DTYPE_F32, 4, err));
    ART_TRY(art_check_batched(args, x, x_name, 1, err));
    ART_TRY(art_check_batched(args, dy, dy_name, 1, err));
    const art_array *a = &args->operand[x], *b = &args->operand[dy];
    ART_FAIL_IF(a->dims[0] != b->dims[0], err, ART_SHAPE,
                "%s has %u rows, %s %u: both need the same", dy_name, b->dims[0], x_name,
                a->dims[0]);
    return ART_OK;
}

art_status art_op_conv2d_grad_w_check(const art_op_args *args, art_error *err) {
    enum { X = ART_CONV2D_GRAD_W_X, DY = ART_CONV2D_GRAD_W_DY, DW = ART_CONV2D_GRAD_W_DW };
    if (art_present(args, DW)) {
        const uint32_t *w = args->operand[DW].dims;
        ART_TRY(check_weight(args, DW, "conv2d_grad_w.dw", err));
        ART_TRY(check_images(args, X, "conv2d_grad_w.x", DY, "conv2d_grad_w.dy", w[1], w[2], err));
        ART_TRY(check_weight_dims(args, DW, "conv2d_grad_w.dw", X, DY, err));
    } else {
        ART_TRY(check_bias_rows(args, X, "conv2d_grad_w.x", DY, "conv2d_grad_w.dy", err));
    }
    ART_TRY(art_check_optional_vector(args, ART_CONV2D_GRAD_W_DB, "conv2d_grad_w.db", ART_DTYPE_F32,
                                      args->operand[DY].dims[3], err));
    return art_check_workspace(args, ART_CONV2D_GRAD_W_WS, "conv2d_grad_w.ws",
                               art_op_conv2d_grad_w_workspace(args), err);
}

art_conv_shape art_conv2d_grad_w_shape(const art_op_args *args) {
    art_conv_shape shape = conv_shape(args, ART_CONV2D_GRAD_W_X, ART_CONV2D_GRAD_W_DY);
    set_kernel(&shape, &args->operand[ART_CONV2D_GRAD_W_DW]);
    return shape;
}

art_status art_op_conv2d_grad_w_run(const art_op_args *args, art_error *err) {
    const art_array *o = args->operand;
    art_conv_shape shape = art_conv2d_grad_w_shape(args);
    (void)err;
    if (o[ART_CONV2D_GRAD_W_DW].data) {
        art_conv_grad_w(args, &shape, o[ART_CONV2D_GRAD_W_X].data, o[ART_CONV2D_GRAD_W_DY].data,
                        o[ART_CONV2D_GRAD_W_DW].data, o[ART_CONV2D_GRAD_W_WS].data);
    }
    if (o[ART_CONV2D_GRAD_W_DB].data) {
        art_conv_grad_b(args, &shape, o[ART_CONV2D_GRAD_W_DY].data, o[ART_CONV2D_GRAD_W_DB].data);
    }
    return ART_OK;
}

uint64_t art_op_conv2d_grad_x_workspace(const art_op_args *args) {
    const art_array *w = &args->operand[ART_CONV2D_GRAD_X_W];
    return art_product_workspace(kernel_terms(w, 4), columns(w, 3), args->threads);
}

art_status art_op_conv2d_grad_x_check(const art_op_args *args, art_error *err) {
    enum { DY = ART_CONV2D_GRAD_X_DY, W = ART_CONV2D_GRAD_X_W, DX = ART_CONV2D_GRAD_X_DX };
    const uint32_t *w = args->operand[W].dims;
    ART_TRY(check_weight(args, W, "conv2d_grad_x.w", err));
    ART_TRY(check_images(args, DX, "conv2d_grad_x.dx", DY, "conv2d_grad_x.dy", w[1], w[2], err));
    ART_TRY(check_weight_dims(args, W, "conv2d_grad_x.w", DX, DY, err));
    return art_check_workspace(args, ART_CONV2D_GRAD_X_WS, "conv2d_grad_x.ws",
                               art_op_conv2d_grad_x_workspace(args), err);
}

art_status art_op_conv2d_grad_x_run(const art_op_args *args, art_error *err) {
    const art_array *o = args->operand;
    art_conv_shape shape = conv_shape(args, ART_CONV2D_GRAD_X_DX, ART_CONV2D_GRAD_X_DY);
    (void)err;
    set_kernel(&shape, &o[ART_CONV2D_GRAD_X_W]);
    art_conv_grad_x(args, &shape, o[ART_CONV2D_GRAD_X_DY].data, o[ART_CONV2D_GRAD_X_W].data,
                    o[ART_CONV2D_GRAD_X_DX].data, o[ART_CONV2D_GRAD_X_WS].data);
    return ART_OK;
}

/* ---- transposed: x and y exchange their parts ---- */

uint64_t art_op_conv_transpose2d_fwd_workspace(const art_op_args *args) {
    const art_array *w = &args->operand[ART_CONV_TRANSPOSE2D_FWD_W];
    return art_product_workspace(kernel_terms(w, 4), columns(w, 3), args->threads);
}

art_status art_op_conv_transpose2d_fwd_check(const art_op_args *args, art_error *err) {
    enum {
        X = ART_CONV_TRANSPOSE2D_FWD_X,
        W = ART_CONV_TRANSPOSE2D_FWD_W,
        Y = ART_CONV_TRANSPOSE2D_FWD_Y
    };
    static const char w_name[] = "conv_transpose2d_fwd.w";
    const uint32_t *w = args->operand[W].dims;
    ART_TRY(check_weight(args, W, w_name, err));
    ART_TRY(check_images(args, Y, "conv_transpose2d_fwd.y", X, "conv_transpose2d_fwd.x", w[1], w[2],
                         err));
    ART_TRY(check_weight_dims(args, W, w_name, Y, X, err));
    ART_TRY(art_check_optional_vector(args, ART_CONV_TRANSPOSE2D_FWD_B, "conv_transpose2d_fwd.b",
                                      ART_DTYPE_F32, args->operand[Y].dims[3], err));
    return art_check_workspace(args, ART_CONV_TRANSPOSE2D_FWD_WS, "conv_transpose2d_fwd.ws",
                               art_op_conv_transpose2d_fwd_workspace(args), err);
}

art_status art_op_conv_transpose2d_fwd_run(const art_op_args *args, art_error *err) {
    const art_array *o = args->operand;
    art_conv_shape shape = conv_shape(args, ART_CONV_TRANSPOSE2D_FWD_Y, ART_CONV_TRANSPOSE2D_FWD_X);
    (void)err;
    set_kernel(&shape, &o[ART_CONV_TRANSPOSE2D_FWD_W]);
    art_conv_transpose(args, &shape, o[ART_CONV_TRANSPOSE2D_FWD_X].data,
                       o[ART_CONV_TRANSPOSE2D_FWD_W].data, o[ART_CONV_TRANSPOSE2D_FWD_B].data,
                       o[ART_CONV_TRANSPOSE2D_FWD_Y].data, o[ART_CONV_TRANSPOSE2D_FWD_WS].data);
    return ART_OK;
}

uint64_t art_op_conv_transpose2d_grad_w_workspace(const art_op_args *args) {
    const art_array *x = &args->operand[ART_CONV_TRANSPOSE2D_GRAD_W_X];
    const art_array *dw = &args->operand[ART_CONV_TRANSPOSE2D_GRAD_W_DW];
    uint64_t pixels = art_mul_saturated((uint64_t)x->dims[0] * x->dims[1], x->dims[2]);
    return dw->ndim ? art_product_workspace(pixels, columns(dw, 4), args->threads) : 0;
}

art_status art_op_conv_transpose2d_grad_w_check(const art_op_args *args, art_error *err) {
    enum {
        X = ART_CONV_TRANSPOSE2D_GRAD_W_X,
        DY = ART_CONV_TRANSPOSE2D_GRAD_W_DY,
        DW = ART_CONV_TRANSPOSE2D_GRAD_W_DW
    };
    static const char x_name[] = "conv_transpose2d_grad_w.x",
                      y_name[] = "conv_transpose2d_grad_w.dy";
    static const char w_name[] = "conv_transpose2d_grad_w.dw";
    if (art_present(args, DW)) {
        const uint32_t *w = args->operand[DW].dims;
        ART_TRY(check_weight(args, DW, w_name, err));
        ART_TRY(check_images(args, DY, y_name, X, x_name, w[1], w[2], err));
        ART_TRY(check_weight_dims(args, DW, w_name, DY, X, err));
    } else {
        ART_TRY(check_bias_rows(args, X, x_name, DY, y_name, err));
    }
    ART_TRY(art_check_optional_vector(args, ART_CONV_TRANSPOSE2D_GRAD_W_DB,
                                      "conv_transpose2d_grad_w.db", ART_DTYPE_F32,
                                      args->operand[DY].dims[3], err));
    return art_check_workspace(args, ART_CONV_TRANSPOSE2D_GRAD_W_WS, "conv_transpose2d_grad_w.ws",
                               art_op_conv_transpose2d_grad_w_workspace(args), err);
}

art_status art_op_conv_transpose2d_grad_w_run(const art_op_args *args, art_error *err) {
    const art_array *o = args->operand;
    const float *dy = o[ART_CONV_TRANSPOSE2D_GRAD_W_DY].data;
    (void)err;
    if (o[ART_CONV_TRANSPOSE2D_GRAD_W_DW].data) {
        art_conv_shape shape =
            conv_shape(args, ART_CONV_TRANSPOSE2D_GRAD_W_DY, ART_CONV_TRANSPOSE2D_GRAD_W_X);
        set_kernel(&shape, &o[ART_CONV_TRANSPOSE2D_GRAD_W_DW]);
        art_conv_grad_w(args, &shape, dy, o[ART_CONV_TRANSPOSE2D_GRAD_W_X].data,
                        o[ART_CONV_TRANSPOSE2D_GRAD_W_DW].data,
                        o[ART_CONV_TRANSPOSE2D_GRAD_W_WS].data);
    }
    if (o[ART_CONV_TRANSPOSE2D_GRAD_W_DB].data) {
        art_conv_shape shape =
            conv_shape(args, ART_CONV_TRANSPOSE2D_GRAD_W_X, ART_CONV_TRANSPOSE2D_GRAD_W_DY);
        art_conv_grad_b(args, &shape, dy, o[ART_CONV_TRANSPOSE2D_GRAD_W_DB].data);
    }
    return ART_OK;
}

uint64_t art_op_conv_transpose2d_grad_x_workspace(const art_op_args *args) {
    const art_array *w = &args->operand[ART_CONV_TRANSPOSE2D_GRAD_X_W];
    return art_product_workspace(kernel_terms(w, 3), columns(w, 4), args->threads);
}

art_status art_op_conv_transpose2d_grad_x_check(const art_op_args *args, art_error *err) {
    enum {
        DY = ART_CONV_TRANSPOSE2D_GRAD_X_DY,
        W = ART_CONV_TRANSPOSE2D_GRAD_X_W,
        DX = ART_CONV_TRANSPOSE2D_GRAD_X_DX
    };
    static const char w_name[] = "conv_transpose2d_grad_x.w";
    const uint32_t *w = args->operand[W].dims;
    ART_TRY(check_weight(args, W, w_name, err));
    ART_TRY(check_images(args, DY, "conv_transpose2d_grad_x.dy", DX, "conv_transpose2d_grad_x.dx",
                         w[1], w[2], err));
    ART_TRY(check_weight_dims(args, W, w_name, DY, DX, err));
    return art_check_workspace(args, ART_CONV_TRANSPOSE2D_GRAD_X_WS, "conv_transpose2d_grad_x.ws",
                               art_op_conv_transpose2d_grad_x_workspace(args), err);
}

art_status art_op_conv_transpose2d_grad_x_run(const art_op_args *args, art_error *err) {
    const art_array *o = args->operand;
    art_conv_shape shape =
        conv_shape(args, ART_CONV_TRANSPOSE2D_GRAD_X_DY, ART_CONV_TRANSPOSE2D_GRAD_X_DX);
    (void)err;
    set_kernel(&shape, &o[ART_CONV_TRANSPOSE2D_GRAD_X_W]);
    art_conv_forward(
        args, &shape, o[ART_CONV_TRANSPOSE2D_GRAD_X_DY].data, o[ART_CONV_TRANSPOSE2D_GRAD_X_W].data,
        NULL, o[ART_CONV_TRANSPOSE2D_GRAD_X_DX].data, o[ART_CONV_TRANSPOSE2D_GRAD_X_WS].data);
    return ART_OK;
}
