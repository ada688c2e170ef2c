#include <math.h>

#include "ops/check.h"
#include "ref/ref_ops.h"

#define U ART_REF_U

/* One row of logits: largest, sum of exponentials, its error, and label's place. */
typedef struct row {
    const float *x;
    size_t classes, label;
    double max, sum, sum_tol;
} row;

static row row_of(const art_op_args *args, size_t n) {
    const art_array *logits = &args->operand[ART_CROSS_ENTROPY_GRAD_LOGITS];
    const int32_t *target = args->operand[ART_CROSS_ENTROPY_GRAD_TARGET].data;
    row r = {.classes = logits->dims[1], .label = (size_t)target[n], .max = -INFINITY};
    r.x = (const float *)logits->data + n * r.classes;
    for (size_t c = 0; c < r.classes; c++) {
        r.max = fmax(r.max, (double)r.x[c]);
    }
    return r;
}

static double exponential(const row *r, size_t c) {
    return exp((double)r->x[c] - r->max);
}

/* Relative error of the float exponential: its bound and the rounding of its argument. */
static double exponential_rel(const row *r, size_t c) {
    return 2.3 * U + 1.01 * U * fabs((double)r->x[c] - r->max);
}

static void sum_up(row *r) {
    for (size_t c = 0; c < r->classes; c++) {
        r->sum += exponential(r, c);
        r->sum_tol += exponential(r, c) * exponential_rel(r, c) + 0x1p-149;
    }
}

static void gradient(const row *r, double rows, double *out, double *tol) {
    double others = 0.0, others_tol = 0.0;
    for (size_t c = 0; c < r->classes; c++) {
        double p = exponential(r, c) / r->sum;
        out[c] = p / rows;
        tol[c] = out[c] * (exponential_rel(r, c) + r->sum_tol / r->sum + 2.01 * U) + 0x1p-148;
        if (c != r->label) {
            others += exponential(r, c);
            others_tol += exponential(r, c) * exponential_rel(r, c) + 0x1p-149;
        }
    }
    double e = exponential(r, r->label), whole = r->sum * r->sum * rows;
    out[r->label] = -others / r->sum / rows;
    tol[r->label] = (others_tol * e + others * e * exponential_rel(r, r->label)) / whole +
                    1.01 * U * fabs(out[r->label]) + 1e-15 / rows;
}

static void cross_entropy(const art_op_args *args, double *loss, double *loss_tol, double *out,
                          double *tol) {
    size_t rows = args->operand[ART_CROSS_ENTROPY_GRAD_LOGITS].dims[0];
    *loss = *loss_tol = 0.0;
    for (size_t n = 0; n < rows; n++) {
        row r = row_of(args, n);
        sum_up(&r);
        double one = log(r.sum) - ((double)r.x[r.label] - r.max);
        *loss += one / (double)rows;
        *loss_tol += (r.sum_tol / r.sum + 1e-14 * (fabs(one) + 1.0)) / (double)rows;
        if (out) {
            gradient(&r, (double)rows, out + n * r.classes, tol + n * r.classes);
        }
    }
}

void art_ref_cross_entropy_grad(const art_op_args *args, double *const *out, double *const *tol) {
    cross_entropy(args, out[ART_CROSS_ENTROPY_GRAD_LOSS], tol[ART_CROSS_ENTROPY_GRAD_LOSS],
                  out[ART_CROSS_ENTROPY_GRAD_DLOGITS], tol[ART_CROSS_ENTROPY_GRAD_DLOGITS]);
}

void art_ref_cross_entropy_eval(const art_op_args *args, double *const *out, double *const *tol) {
    double *hits = out[ART_CROSS_ENTROPY_EVAL_CORRECT];
    cross_entropy(args, out[ART_CROSS_ENTROPY_EVAL_LOSS], tol[ART_CROSS_ENTROPY_EVAL_LOSS], NULL,
                  NULL);
    *hits = 0.0;
    *tol[ART_CROSS_ENTROPY_EVAL_CORRECT] = 0.0;
    for (size_t n = 0; n < args->operand[ART_CROSS_ENTROPY_EVAL_LOGITS].dims[0]; n++) {
        row r = row_of(args, n);
        size_t first = 0;
        while ((double)r.x[first] != r.max) {
            first++;
        }
        *hits += first == r.label;
    }
}

static void squared_error(const art_op_args *args, double *loss, double *loss_tol, double *out,
                          double *tol) {
    const float *y = args->operand[ART_MSE_GRAD_Y].data;
    const float *t = args->operand[ART_MSE_GRAD_TARGET].data;
    size_t n = (size_t)art_count(&args->operand[ART_MSE_GRAD_Y]);
    *loss = *loss_tol = 0.0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)y[i] - (double)t[i];
        *loss += d * d / (double)n;
        *loss_tol += (2.01 * U + 1e-14) * d * d / (double)n;
        if (out) {
            out[i] = 2.0 * d / (double)n;
            tol[i] = 3.01 * U * fabs(out[i]);
        }
    }
}

void art_ref_mse_grad(const art_op_args *args, double *const *out, double *const *tol) {
    squared_error(args, out[ART_MSE_GRAD_LOSS], tol[ART_MSE_GRAD_LOSS], out[ART_MSE_GRAD_DY],
                  tol[ART_MSE_GRAD_DY]);
}

void art_ref_mse_eval(const art_op_args *args, double *const *out, double *const *tol) {
    squared_error(args, out[ART_MSE_EVAL_LOSS], tol[ART_MSE_EVAL_LOSS], NULL, NULL);
}

/* The sum of a loss's elements and its first-order error, before it is scaled. */
typedef struct element {
    double value, value_tol, slope, slope_tol;
} element;

static element huber(const art_op_args *args, double y, double t) {
    const double bound = args->attr[ART_HUBER_GRAD_A_BOUND].f;
    const double scale = args->attr[ART_HUBER_GRAD_A_SCALE].f;
    const double d = y - t, size = fabs(d);
    const bool inside = size < bound;
    element e = {.value = scale * (inside ? d * d / (2 * bound) : size - bound / 2)};
    e.slope = scale * (inside ? d / bound : (d > 0) - (d < 0));
    /* The slope never exceeds scale, and the rounded difference may lie beyond the rounded bound.
     */
    e.value_tol = 2.02 * U * fabs(e.slope) * size + 1e-14 * fabs(e.value);
    e.slope_tol = 3.02 * U * fabs(e.slope);
    return e;
}

static element kl_div(const art_op_args *args, double y, double t) {
    const bool log_target = args->attr[ART_KL_DIV_GRAD_A_LOG_TARGET].i != 0;
    const double p = log_target ? exp(t) : t, entropy = p == 0 ? 0 : p * log(p);
    element e = {.value = log_target ? p * (t - y) : entropy - p * y, .slope = -p};
    const double rel = log_target ? 2.3 * U : 0;
    e.value_tol = rel * fabs(e.value) + 1e-14 * (fabs(entropy) + fabs(p * y));
    e.slope_tol = (rel + 2.02 * U) * p + 0x1p-148;
    return e;
}

/* Sums in double: their own error is far below what an element's is allowed. */
static void elements(const art_op_args *args, element (*fn)(const art_op_args *, double, double),
                     double over, double *const *out, double *const *tol) {
    const float *y = args->operand[ART_HUBER_GRAD_Y].data;
    const float *t = args->operand[ART_HUBER_GRAD_TARGET].data;
    double *loss = out[ART_HUBER_GRAD_LOSS], *loss_tol = tol[ART_HUBER_GRAD_LOSS];
    *loss = *loss_tol = 0.0;
    for (size_t i = 0; i < (size_t)art_count(&args->operand[ART_HUBER_GRAD_Y]); i++) {
        element e = fn(args, (double)y[i], (double)t[i]);
        *loss += e.value / over;
        *loss_tol += e.value_tol / over;
        if (out[ART_HUBER_GRAD_DY]) {
            out[ART_HUBER_GRAD_DY][i] = e.slope / over;
            tol[ART_HUBER_GRAD_DY][i] = e.slope_tol / over;
        }
    }
}

static double count_of(const art_op_args *args) {
    return (double)art_count(&args->operand[ART_HUBER_GRAD_Y]);
}

static double kl_div_over(const art_op_args *args) {
    return args->attr[ART_KL_DIV_GRAD_A_BATCHMEAN].i ? (double)args->operand[0].dims[0]
                                                     : count_of(args);
}

/* The twins of a training and an evaluation operation, which differ by the gradient alone. */
#define ELEMENT_LOSS(name, over)                                                                   \
    void art_ref_##name##_grad(const art_op_args *args, double *const *out, double *const *tol) {  \
        elements(args, name, over(args), out, tol);                                                \
    }                                                                                              \
    void art_ref_##name##_eval(const art_op_args *args, double *const *out, double *const *tol) {  \
        elements(args, name, over(args), out, tol);                                                \
    }
ELEMENT_LOSS(huber, count_of)
ELEMENT_LOSS(kl_div, kl_div_over)
