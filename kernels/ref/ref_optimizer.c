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

void art_ref_clip_value(const art_op_args *args, double *const *out, double *const *tol) {
    const double limit = args->attr[ART_CLIP_VALUE_A_LIMIT].f;
    for (size_t i = 0; i < art_count(&args->operand[ART_CLIP_VALUE_G]); i++) {
        double g = (double)in(args, ART_CLIP_VALUE_G)[i];
        out[ART_CLIP_VALUE_G][i] = fabs(g) > limit ? copysign(limit, g) : g;
        tol[ART_CLIP_VALUE_G][i] = fabs(g) > (1.0 - 2.0 * U) * limit ? 1.01 * U * limit : 0.0;
    }
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

/* scale g + decay w of element i; all updates have w and g in the first two slots. */
static inexact gradient(const art_op_args *args, unsigned scale_slot, double decay, size_t i) {
    const float *scale = in(args, scale_slot);
    inexact d = times(exact((double)in(args, 1)[i]), exact(scale ? (double)*scale : 1.0));
    return plus(d, times(rounded(decay), exact((double)in(args, 0)[i])));
}

static void ref_adam(const art_op_args *args, double decay, inexact shrink, double *const *out,
                     double *const *tol) {
    const art_attr *attr = args->attr;
    const double beta1 = attr[ART_ADAM_STEP_A_BETA1].f, beta2 = attr[ART_ADAM_STEP_A_BETA2].f;
    const double t = (double)args->step + 1.0;
    inexact rest1 = rounded(1.0 - beta1), rest2 = rounded(1.0 - beta2), keep2 = rounded(beta2);
    inexact correction = rounded(sqrt(1.0 - pow(beta2, t))), eps = rounded(attr[3].f);
    inexact rate =
        rounded(attr[ART_ADAM_STEP_A_LR].f * args->learning_rate_scale / (1.0 - pow(beta1, t)));
    for (size_t i = 0; i < art_count(&args->operand[ART_ADAM_STEP_W]); i++) {
        inexact w = exact((double)in(args, ART_ADAM_STEP_W)[i]);
        w = shrink.value == 1.0 ? w : times(shrink, w);
        inexact m = exact((double)in(args, ART_ADAM_STEP_M)[i]);
        inexact v = exact((double)in(args, ART_ADAM_STEP_V)[i]);
        inexact d = gradient(args, ART_ADAM_STEP_SCALE, decay, i);
        m = plus(m, times(rest1, minus(d, m)));
        v = plus(times(keep2, v), times(rest2, times(d, d)));
        inexact below = plus(over(root(v), correction), eps);
        put(m, &out[ART_ADAM_STEP_M][i], &tol[ART_ADAM_STEP_M][i]);
        put(v, &out[ART_ADAM_STEP_V][i], &tol[ART_ADAM_STEP_V][i]);
        put(minus(w, times(rate, over(m, below))), &out[ART_ADAM_STEP_W][i],
            &tol[ART_ADAM_STEP_W][i]);
    }
}

void art_ref_adam_step(const art_op_args *args, double *const *out, double *const *tol) {
    ref_adam(args, args->attr[ART_ADAM_STEP_A_WEIGHT_DECAY].f, exact(1.0), out, tol);
}

void art_ref_adamw_step(const art_op_args *args, double *const *out, double *const *tol) {
    const art_attr *attr = args->attr;
    double lr = attr[ART_ADAMW_STEP_A_LR].f * args->learning_rate_scale;
    ref_adam(args, 0.0, rounded(1.0 - lr * attr[ART_ADAMW_STEP_A_WEIGHT_DECAY].f), out, tol);
}

void art_ref_rmsprop_step(const art_op_args *args, double *const *out, double *const *tol) {
    const art_attr *attr = args->attr;
    const float *mean = in(args, ART_RMSPROP_STEP_GRAD_AVG);
    const float *buffer = in(args, ART_RMSPROP_STEP_MOMENTUM);
    inexact alpha = rounded(attr[ART_RMSPROP_STEP_A_ALPHA].f);
    inexact rest = rounded(1.0 - attr[ART_RMSPROP_STEP_A_ALPHA].f);
    inexact eps = rounded(attr[ART_RMSPROP_STEP_A_EPS].f);
    inexact keep = rounded(attr[ART_RMSPROP_STEP_A_MOMENTUM].f);
    inexact lr = rounded(attr[ART_RMSPROP_STEP_A_LR].f * args->learning_rate_scale);
    for (size_t i = 0; i < art_count(&args->operand[ART_RMSPROP_STEP_W]); i++) {
        inexact d =
            gradient(args, ART_RMSPROP_STEP_SCALE, attr[ART_RMSPROP_STEP_A_WEIGHT_DECAY].f, i);
        inexact square = exact((double)in(args, ART_RMSPROP_STEP_SQUARE_AVG)[i]);
        square = plus(times(alpha, square), times(rest, times(d, d)));
        put(square, &out[ART_RMSPROP_STEP_SQUARE_AVG][i], &tol[ART_RMSPROP_STEP_SQUARE_AVG][i]);
        if (mean) {
            inexact m = exact((double)mean[i]);
            m = plus(m, times(rest, minus(d, m)));
            put(m, &out[ART_RMSPROP_STEP_GRAD_AVG][i], &tol[ART_RMSPROP_STEP_GRAD_AVG][i]);
            square = minus(square, times(m, m));
            square.value = fmax(square.value, 0.0);
        }
        inexact step = over(d, plus(root(square), eps));
        if (buffer) {
            step = plus(times(keep, exact((double)buffer[i])), step);
            put(step, &out[ART_RMSPROP_STEP_MOMENTUM][i], &tol[ART_RMSPROP_STEP_MOMENTUM][i]);
        }
        put(minus(exact((double)in(args, ART_RMSPROP_STEP_W)[i]), times(lr, step)),
            &out[ART_RMSPROP_STEP_W][i], &tol[ART_RMSPROP_STEP_W][i]);
    }
}

/* The update of element i of w, in slot 0, along d. */
static void put_adagrad(const art_op_args *args, unsigned sum_slot, size_t i, inexact d,
                        double *const *out, double *const *tol) {
    const art_attr *attr = args->attr;
    double slower = 1.0 + (double)args->step * attr[ART_ADAGRAD_STEP_A_LR_DECAY].f;
    inexact rate = rounded(attr[ART_ADAGRAD_STEP_A_LR].f * args->learning_rate_scale / slower);
    inexact eps = rounded(attr[ART_ADAGRAD_STEP_A_EPS].f);
    inexact sum = plus(exact((double)in(args, sum_slot)[i]), times(d, d));
    put(sum, &out[sum_slot][i], &tol[sum_slot][i]);
    inexact step = times(rate, over(d, plus(root(sum), eps)));
    put(minus(exact((double)in(args, 0)[i]), step), &out[0][i], &tol[0][i]);
}

void art_ref_adagrad_step(const art_op_args *args, double *const *out, double *const *tol) {
    double decay = args->attr[ART_ADAGRAD_STEP_A_WEIGHT_DECAY].f;
    for (size_t i = 0; i < art_count(&args->operand[ART_ADAGRAD_STEP_W]); i++) {
        put_adagrad(args, ART_ADAGRAD_STEP_SUM, i, gradient(args, ART_ADAGRAD_STEP_SCALE, decay, i),
                    out, tol);
    }
}

/* Element i of a table's gradient, whose rows stand in slot 1, their indices in slot 2, times the
 * factor in slot 3. Of the rows of one index all but one are 0. */
static inexact of_rows(const art_op_args *args, size_t i) {
    const size_t columns = args->operand[0].dims[1];
    const float *rows = in(args, 1), *x = in(args, 2), *scale = in(args, 3);
    double sum = 0.0;
    for (size_t place = 0; place < art_count(&args->operand[2]); place++) {
        sum += (size_t)x[place] == i / columns ? (double)rows[place * columns + i % columns] : 0.0;
    }
    return times(exact(sum), exact(scale ? (double)*scale : 1.0));
}

void art_ref_embedding_sgd_step(const art_op_args *args, double *const *out, double *const *tol) {
    inexact lr = rounded(args->attr[ART_SGD_STEP_A_LR].f * args->learning_rate_scale);
    for (size_t i = 0; i < art_count(&args->operand[0]); i++) {
        inexact w = exact((double)in(args, 0)[i]);
        put(minus(w, times(lr, of_rows(args, i))), &out[0][i], &tol[0][i]);
    }
}

void art_ref_embedding_adagrad_step(const art_op_args *args, double *const *out,
                                    double *const *tol) {
    for (size_t i = 0; i < art_count(&args->operand[0]); i++) {
        put_adagrad(args, ART_EMBEDDING_ADAGRAD_STEP_SUM, i, of_rows(args, i), out, tol);
    }
}
