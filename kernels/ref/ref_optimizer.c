#include <math.h>
#include <string.h>

#include "ops/check.h"
#include "ref/ref_ops.h"

#define U ART_REF_U

static const float *in(const art_op_args *args, unsigned slot) {
    return args->operand[slot].data;
}

void art_ref_grad_sumsq(const art_op_args *args, double *const *out, double *const *tol) {
    const float *g = in(args, ART_GRAD_SUMSQ_G);
    const art_array *acc = &args->operand[ART_GRAD_SUMSQ_ACC];
    size_t at = (size_t)args->attr[ART_GRAD_SUMSQ_A_INDEX].i;
    memcpy(out[ART_GRAD_SUMSQ_ACC], acc->data, acc->dims[0] * sizeof(double));
    memset(tol[ART_GRAD_SUMSQ_ACC], 0, acc->dims[0] * sizeof(double));
    out[ART_GRAD_SUMSQ_ACC][at] = 0.0;
    for (size_t i = 0; i < art_count(&args->operand[ART_GRAD_SUMSQ_G]); i++) {
        out[ART_GRAD_SUMSQ_ACC][at] += (double)g[i] * (double)g[i];
    }
    tol[ART_GRAD_SUMSQ_ACC][at] = 1e-12 * out[ART_GRAD_SUMSQ_ACC][at];
}

void art_ref_clip_scale(const art_op_args *args, double *const *out, double *const *tol) {
    const double *acc = args->operand[ART_CLIP_SCALE_ACC].data;
    double sum = 0.0;
    for (uint32_t i = 0; i < args->operand[ART_CLIP_SCALE_ACC].dims[0]; i++) {
        sum += acc[i];
    }
    double scale = args->attr[ART_CLIP_SCALE_A_MAX_NORM].f / (sqrt(sum) + 1e-6);
    *out[ART_CLIP_SCALE_SCALE] = fmin(1.0, scale);
    *tol[ART_CLIP_SCALE_SCALE] = 1.01 * U * *out[ART_CLIP_SCALE_SCALE];
}

/* A value with the error that its float counterpart may have. */
typedef struct inexact {
    double value, tol;
} inexact;

static inexact exact(double value) {
    return (inexact){value, 0.0};
}

/* a rounded to float, as a constant is. */
static inexact rounded(double value) {
    return (inexact){value, 1.01 * U * fabs(value) + 0x1p-149};
}

static inexact times(inexact a, inexact b) {
    double value = a.value * b.value;
    return (inexact){
        value, 1.01 * (a.tol * fabs(b.value) + b.tol * fabs(a.value) + U * fabs(value)) + 0x1p-149};
}

static inexact plus(inexact a, inexact b) {
    double value = a.value + b.value;
    return (inexact){value, 1.01 * (a.tol + b.tol + U * (fabs(value) + a.tol + b.tol))};
}

static inexact minus(inexact a, inexact b) {
    return plus(a, (inexact){-b.value, b.tol});
}

static inexact over(inexact a, inexact b) {
    double value = a.value / b.value, least = fabs(b.value) - b.tol;
    return (inexact){value, 1.01 * (a.tol / least + fabs(value) * b.tol / least + U * fabs(value)) +
                                0x1p-149};
}

static inexact root(inexact a) {
    double value = sqrt(a.value);
    /* Near zero the root of an error is larger than the error of the root. */
    double least = value > 0.0 ? fmin(a.tol / value, sqrt(a.tol)) : sqrt(a.tol);
    return (inexact){value, 1.01 * (least + U * value)};
}

static void put(inexact a, double *out, double *tol) {
    *out = a.value;
    *tol = a.tol;
}

void art_ref_sgd_step(const art_op_args *args, double *const *out, double *const *tol) {
    const art_attr *attr = args->attr;
    const float *momentum = in(args, ART_SGD_STEP_MOMENTUM), *scale = in(args, ART_SGD_STEP_SCALE);
    inexact lr = rounded(attr[ART_SGD_STEP_A_LR].f * args->learning_rate_scale);
    inexact decay = rounded(attr[ART_SGD_STEP_A_WEIGHT_DECAY].f);
    inexact keep = rounded(attr[ART_SGD_STEP_A_MOMENTUM].f);
    inexact damp = rounded(1.0 - attr[ART_SGD_STEP_A_DAMPENING].f);
    for (size_t i = 0; i < art_count(&args->operand[ART_SGD_STEP_W]); i++) {
        inexact w = exact((double)in(args, ART_SGD_STEP_W)[i]);
        inexact d =
            times(exact((double)in(args, ART_SGD_STEP_G)[i]), exact(scale ? (double)*scale : 1.0));
        d = plus(d, times(decay, w));
        if (momentum) {
            inexact b =
                args->step == 0 ? d : plus(times(keep, exact((double)momentum[i])), times(damp, d));
            put(b, &out[ART_SGD_STEP_MOMENTUM][i], &tol[ART_SGD_STEP_MOMENTUM][i]);
            d = attr[ART_SGD_STEP_A_NESTEROV].i ? plus(d, times(keep, b)) : b;
        }
        put(minus(w, times(lr, d)), &out[ART_SGD_STEP_W][i], &tol[ART_SGD_STEP_W][i]);
    }
}

void art_ref_adam_step(const art_op_args *args, double *const *out, double *const *tol) {
    const art_attr *attr = args->attr;
    const float *scale = in(args, ART_ADAM_STEP_SCALE);
    const double beta1 = attr[ART_ADAM_STEP_A_BETA1].f, beta2 = attr[ART_ADAM_STEP_A_BETA2].f;
    const double t = (double)args->step + 1.0;
    inexact rest1 = rounded(1.0 - beta1), rest2 = rounded(1.0 - beta2), keep2 = rounded(beta2);
    inexact correction = rounded(sqrt(1.0 - pow(beta2, t))), eps = rounded(attr[3].f);
    inexact rate =
        rounded(attr[ART_ADAM_STEP_A_LR].f * args->learning_rate_scale / (1.0 - pow(beta1, t)));
    inexact decay = rounded(attr[ART_ADAM_STEP_A_WEIGHT_DECAY].f);
    for (size_t i = 0; i < art_count(&args->operand[ART_ADAM_STEP_W]); i++) {
        inexact w = exact((double)in(args, ART_ADAM_STEP_W)[i]);
        inexact m = exact((double)in(args, ART_ADAM_STEP_M)[i]);
        inexact v = exact((double)in(args, ART_ADAM_STEP_V)[i]);
        inexact d =
            times(exact((double)in(args, ART_ADAM_STEP_G)[i]), exact(scale ? (double)*scale : 1.0));
        d = plus(d, times(decay, w));
        m = plus(m, times(rest1, minus(d, m)));
        v = plus(times(keep2, v), times(rest2, times(d, d)));
        inexact below = plus(over(root(v), correction), eps);
        put(m, &out[ART_ADAM_STEP_M][i], &tol[ART_ADAM_STEP_M][i]);
        put(v, &out[ART_ADAM_STEP_V][i], &tol[ART_ADAM_STEP_V][i]);
        put(minus(w, times(rate, over(m, below))), &out[ART_ADAM_STEP_W][i],
            &tol[ART_ADAM_STEP_W][i]);
    }
}
