#include <math.h>

#include "core/rng.h"
#include "ops/check.h"
#include "ref/ref_ops.h"

static const float *in(const art_op_args *args, unsigned slot) {
    return args->operand[slot].data;
}

static size_t count(const art_op_args *args) {
    return (size_t)art_count(&args->operand[0]);
}

void art_ref_relu_fwd(const art_op_args *args, double *const *out, double *const *tol) {
    for (size_t i = 0; i < count(args); i++) {
        double x = (double)in(args, ART_RELU_FWD_X)[i];
        out[ART_RELU_FWD_Y][i] = x > 0 || isnan(x) ? x : 0.0;
        tol[ART_RELU_FWD_Y][i] = 0.0;
    }
}

void art_ref_relu_grad(const art_op_args *args, double *const *out, double *const *tol) {
    for (size_t i = 0; i < count(args); i++) {
        double dy = (double)in(args, ART_RELU_GRAD_DY)[i];
        out[ART_RELU_GRAD_DX][i] = in(args, ART_RELU_GRAD_Y)[i] > 0 ? dy : 0.0;
        tol[ART_RELU_GRAD_DX][i] = 0.0;
    }
}

/* Where the byte and the bit of element i are: a sample starts at a byte. */
static size_t byte_of(const art_op_args *args, unsigned values, size_t i, unsigned *bit) {
    size_t floats = (size_t)art_count(&args->operand[values]) / args->operand[values].dims[0];
    *bit = (unsigned)(i % floats % 8);
    return i / floats * ((floats + 7) / 8) + i % floats / 8;
}

void art_ref_rectifier_bits(const art_op_args *args, double *const *out, double *const *tol) {
    const float *y = in(args, ART_RECTIFIER_BITS_Y);
    int bounded = args->attr[ART_RECTIFIER_BITS_A_RECTIFIER].i == ART_RECTIFIER_RELU6;
    for (size_t b = 0; b < art_count(&args->operand[ART_RECTIFIER_BITS_BITS]); b++) {
        out[ART_RECTIFIER_BITS_BITS][b] = tol[ART_RECTIFIER_BITS_BITS][b] = 0.0;
    }
    for (size_t i = 0; i < count(args); i++) {
        unsigned bit;
        size_t b = byte_of(args, ART_RECTIFIER_BITS_Y, i, &bit);
        if (y[i] > 0.0f && !(bounded && y[i] >= 6.0f)) {
            out[ART_RECTIFIER_BITS_BITS][b] += (double)(1u << bit);
        }
    }
}

void art_ref_rectifier_bits_grad(const art_op_args *args, double *const *out, double *const *tol) {
    const uint8_t *bits = args->operand[ART_RECTIFIER_BITS_GRAD_BITS].data;
    for (size_t i = 0; i < art_count(&args->operand[ART_RECTIFIER_BITS_GRAD_DY]); i++) {
        unsigned bit;
        size_t b = byte_of(args, ART_RECTIFIER_BITS_GRAD_DY, i, &bit);
        int passes = bits[b] >> bit & 1;
        double dy = (double)in(args, ART_RECTIFIER_BITS_GRAD_DY)[i];
        out[ART_RECTIFIER_BITS_GRAD_DX][i] = passes ? dy : 0.0;
        tol[ART_RECTIFIER_BITS_GRAD_DX][i] = 0.0;
    }
}

void art_ref_tanh_fwd(const art_op_args *args, double *const *out, double *const *tol) {
    for (size_t i = 0; i < count(args); i++) {
        double y = tanh((double)in(args, ART_TANH_FWD_X)[i]);
        out[ART_TANH_FWD_Y][i] = y;
        tol[ART_TANH_FWD_Y][i] = 2.6 * 2.0 * ART_REF_U * fabs(y) + 0x1p-149;
    }
}

void art_ref_tanh_grad(const art_op_args *args, double *const *out, double *const *tol) {
    for (size_t i = 0; i < count(args); i++) {
        double y = (double)in(args, ART_TANH_GRAD_Y)[i];
        double dy = (double)in(args, ART_TANH_GRAD_DY)[i];
        out[ART_TANH_GRAD_DX][i] = dy * (1.0 - y * y);
        /* y y, 1 - yy, the product. */
        tol[ART_TANH_GRAD_DX][i] = 1.01 * ART_REF_U * fabs(dy) * (y * y + 2.0 * fabs(1.0 - y * y));
    }
}

void art_ref_add(const art_op_args *args, double *const *out, double *const *tol) {
    for (size_t i = 0; i < count(args); i++) {
        out[ART_ADD_Y][i] = (double)in(args, ART_ADD_A)[i] + (double)in(args, ART_ADD_B)[i];
        tol[ART_ADD_Y][i] = ART_REF_U * fabs(out[ART_ADD_Y][i]);
    }
}

void art_ref_copy(const art_op_args *args, double *const *out, double *const *tol) {
    for (size_t i = 0; i < count(args); i++) {
        out[ART_COPY_Y][i] = (double)in(args, ART_COPY_X)[i];
        tol[ART_COPY_Y][i] = 0.0;
    }
}

static void dropout(const art_op_args *args, double *out, double *tol) {
    double p = args->attr[ART_DROPOUT_FWD_A_P].f;
    uint64_t stream =
        art_dropout_stream((uint64_t)args->attr[ART_DROPOUT_FWD_A_STREAM].i, args->step);
    for (size_t i = 0; i < count(args); i++) {
        int kept = (double)art_random_uniform(args->seed, stream, i) >= p;
        out[i] = kept ? (double)in(args, ART_DROPOUT_FWD_X)[i] / (1.0 - p) : 0.0;
        tol[i] = 2.01 * ART_REF_U * fabs(out[i]); /* the scale, the product */
    }
}

void art_ref_dropout_fwd(const art_op_args *args, double *const *out, double *const *tol) {
    dropout(args, out[ART_DROPOUT_FWD_Y], tol[ART_DROPOUT_FWD_Y]);
}

void art_ref_dropout_grad(const art_op_args *args, double *const *out, double *const *tol) {
    dropout(args, out[ART_DROPOUT_GRAD_DX], tol[ART_DROPOUT_GRAD_DX]);
}

/* Visit (n, h, w, c) of an image array: index as channels-last and as torch's flat order. */
static void transpose(const art_op_args *args, const uint32_t *dims, int to_torch, double *out,
                      double *tol) {
    size_t h = dims[1], w = dims[2], c = dims[3];
    for (size_t i = 0; i < count(args); i++) {
        size_t channel = i % c, x = i / c % w, y = i / c / w % h, n = i / c / w / h;
        size_t torch = ((n * c + channel) * h + y) * w + x;
        size_t from = to_torch ? i : torch, to = to_torch ? torch : i;
        out[to] = (double)in(args, 0)[from];
        tol[to] = 0.0;
    }
}

void art_ref_nhwc_to_nchw(const art_op_args *args, double *const *out, double *const *tol) {
    transpose(args, args->operand[ART_NHWC_TO_NCHW_X].dims, 1, out[ART_NHWC_TO_NCHW_Y],
              tol[ART_NHWC_TO_NCHW_Y]);
}

void art_ref_nchw_to_nhwc(const art_op_args *args, double *const *out, double *const *tol) {
    transpose(args, args->operand[ART_NCHW_TO_NHWC_Y].dims, 0, out[ART_NCHW_TO_NHWC_Y],
              tol[ART_NCHW_TO_NHWC_Y]);
}
