#include <math.h>

#include "ops/check.h"
#include "ref/ref_ops.h"

#define U ART_REF_U

/* One row of logits: largest, sum of exponentials, its error, and label's place. An ignored label
 * may be negative, and is then no place of any row. */
typedef struct row {
    const float *x;
    size_t classes;
    int64_t label;
    double max, sum, sum_tol;
} row;

static row row_at(const art_array *logits, size_t n) {
    row r = {.classes = logits->dims[logits->ndim - 1], .max = -INFINITY};
    r.x = (const float *)logits->data + n * r.classes;
    for (size_t c = 0; c < r.classes; c++) {
        r.max = fmax(r.max, (double)r.x[c]);
    }
    return r;
}

static row row_of(const art_op_args *args, size_t n) {
    const art_array *target = &args->operand[ART_CROSS_ENTROPY_GRAD_TARGET];
    row r = row_at(&args->operand[ART_CROSS_ENTROPY_GRAD_LOGITS], n);
    r.label = target->dtype == ART_DTYPE_F32 ? (int64_t)((const float *)target->data)[n]
                                             : ((const int32_t *)target->data)[n];
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
        if ((int64_t)c != r->label) {
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
    double counted = 0.0;
    for (size_t n = 0; n < rows; n++) {
        counted += row_of(args, n).label != ART_NO_LABEL;
    }
    *loss = *loss_tol = 0.0;
    for (size_t n = 0; n < rows; n++) {
        row r = row_of(args, n);
        if (r.label == ART_NO_LABEL) {
            continue;
        }
        sum_up(&r);
        double one = log(r.sum) - ((double)r.x[r.label] - r.max);
        *loss += one / counted;
        *loss_tol += (r.sum_tol / r.sum + 1e-14 * (fabs(one) + 1.0)) / counted;
        if (out) {
            gradient(&r, counted, out + n * r.classes, tol + n * r.classes);
        }
    }
}

void art_ref_cross_entropy_grad(const art_op_args *args, double *const *out, double *const *tol) {
    cross_entropy(args, out[ART_CROSS_ENTROPY_GRAD_LOSS], tol[ART_CROSS_ENTROPY_GRAD_LOSS],
                  out[ART_CROSS_ENTROPY_GRAD_DLOGITS], tol[ART_CROSS_ENTROPY_GRAD_DLOGITS]);
}

/* Rows whose first maximum is at their label. */
static double label_hits(const art_op_args *args, int64_t ignored) {
    double hits = 0.0;
    for (size_t n = 0; n < args->operand[0].dims[0]; n++) {
        row r = row_of(args, n);
        size_t first = 0;
        while ((double)r.x[first] != r.max) {
            first++;
        }
        hits += (int64_t)first == r.label && r.label != ignored;
    }
    return hits;
}

void art_ref_cross_entropy_eval(const art_op_args *args, double *const *out, double *const *tol) {
    double *hits = out[ART_CROSS_ENTROPY_EVAL_CORRECT];
    cross_entropy(args, out[ART_CROSS_ENTROPY_EVAL_LOSS], tol[ART_CROSS_ENTROPY_EVAL_LOSS], NULL,
                  NULL);
    *hits = label_hits(args, ART_NO_LABEL);
    *tol[ART_CROSS_ENTROPY_EVAL_CORRECT] = 0.0;
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

static element cosine_embedding(const art_op_args *args, double y, double t) {
    const double over = y - args->attr[ART_COSINE_EMBEDDING_GRAD_A_MARGIN].f;
    element e = {.value = t == 1 ? 1 - y : fmax(over, 0)};
    e.slope = t == 1 ? -1 : over >= 0;
    e.value_tol = 1e-14 * (1 + fabs(y));
    e.slope_tol = U * fabs(e.slope);
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
ELEMENT_LOSS(cosine_embedding, count_of)

/* (1 - t) softplus(y) + p t softplus(-y): three roundings, exp, log1p and their arguments. */
static element bce(const art_op_args *args, size_t i, double y, double t) {
    const unsigned n = args->n_attrs;
    const double p = n == 0 ? 1 : (double)(float)args->attr[n == 1 ? 0 : i % n].f;
    const double u = exp(-fabs(y)), rest = 1 - t;
    const double up = log1p(u) + fmax(y, 0), down = log1p(u) + fmax(-y, 0);
    const double yes = y > 0 ? 1 / (1 + u) : u / (1 + u), no = y > 0 ? u / (1 + u) : 1 / (1 + u);
    element e = {.value = rest * up + p * t * down, .slope = rest * yes - p * t * no};
    /* exp is off by 2.3 U and log1p by 6 U of their results, products and sums by U each. */
    e.value_tol = (12 * U + 1e-14) * e.value + 0x1p-140;
    e.slope_tol = 10 * U * (rest * yes + p * t * no) + 0x1p-140;
    return e;
}

static void bce_elements(const art_op_args *args, double *const *out, double *const *tol) {
    const float *y = args->operand[ART_BCE_WITH_LOGITS_GRAD_Y].data;
    const float *t = args->operand[ART_BCE_WITH_LOGITS_GRAD_TARGET].data;
    double *loss = out[ART_BCE_WITH_LOGITS_GRAD_LOSS], *dy = out[ART_BCE_WITH_LOGITS_GRAD_DY];
    const double over = count_of(args);
    *loss = *tol[ART_BCE_WITH_LOGITS_GRAD_LOSS] = 0.0;
    for (size_t i = 0; i < (size_t)over; i++) {
        element e = bce(args, i, (double)y[i], (double)t[i]);
        *loss += e.value / over;
        *tol[ART_BCE_WITH_LOGITS_GRAD_LOSS] += e.value_tol / over;
        if (dy) {
            dy[i] = e.slope / over;
            tol[ART_BCE_WITH_LOGITS_GRAD_DY][i] = e.slope_tol / over;
        }
    }
}

void art_ref_bce_with_logits_grad(const art_op_args *args, double *const *out, double *const *tol) {
    bce_elements(args, out, tol);
}

void art_ref_bce_with_logits_eval(const art_op_args *args, double *const *out, double *const *tol) {
    double *o[] = {NULL, NULL, out[ART_BCE_WITH_LOGITS_EVAL_LOSS], NULL};
    double *t[] = {NULL, NULL, tol[ART_BCE_WITH_LOGITS_EVAL_LOSS], NULL};
    bce_elements(args, o, t);
}

/* Losses of labels with weights: how an operation reads its attributes. */
typedef struct label_loss {
    unsigned fixed; /* attributes before the weights */
    bool logarithms;
    double smoothing;
    int64_t ignored;
} label_loss;

static double weight_of(const art_op_args *args, const label_loss *l, size_t c) {
    return args->n_attrs > l->fixed ? (double)(float)args->attr[l->fixed + c].f : 1.0;
}

/* -log p(c) of a row and the absolute error of its float way. */
static double minus_log(const row *r, const label_loss *l, size_t c, double *tol) {
    double value = l->logarithms ? -(double)r->x[c] : log(r->sum) - ((double)r->x[c] - r->max);
    *tol = 1e-14 * (fabs(value) + 1.0);
    *tol += l->logarithms ? 0 : r->sum_tol / r->sum + 1.01 * U * fabs((double)r->x[c] - r->max);
    return value;
}

/* One row: its part of the sum and, unless out is NULL, its gradient before the division. */
static void label_row(const art_op_args *args, const label_loss *l, const row *r, double parts[2],
                      double *out, double *tol) {
    double all = 0.0;
    for (size_t c = 0; c < r->classes; c++) {
        double own, q = l->smoothing / (double)r->classes;
        q = weight_of(args, l, c) * (q + ((int64_t)c == r->label ? 1 - l->smoothing : 0));
        all += q;
        parts[0] += q == 0 ? 0 : q * minus_log(r, l, c, &own);
        parts[1] += q == 0 ? 0 : q * own;
        if (out) {
            out[c] = -q;
            tol[c] = 3.03 * U * q;
        }
    }
    for (size_t c = 0; out && !l->logarithms && c < r->classes; c++) {
        double p = all * exponential(r, c) / r->sum;
        out[c] += p;
        /* At the label the difference is taken in double, from what is about one. */
        tol[c] += (int64_t)c == r->label ? 1e-15 * all : 0;
        tol[c] += p * (exponential_rel(r, c) + r->sum_tol / r->sum + 3.03 * U) + 0x1p-140;
    }
}

static void labels(const art_op_args *args, label_loss l, double *loss, double *loss_tol,
                   double *out, double *tol) {
    const art_array *y = &args->operand[0];
    const size_t rows = (size_t)art_count(y) / y->dims[y->ndim - 1];
    double over = 0.0, parts[2] = {0.0, 0.0};
    for (size_t n = 0; n < rows; n++) {
        row r = row_of(args, n);
        over += r.label == l.ignored ? 0 : weight_of(args, &l, r.label);
    }
    for (size_t n = 0; n < rows; n++) {
        row r = row_of(args, n);
        sum_up(&r);
        if (r.label != l.ignored) {
            label_row(args, &l, &r, parts, out ? out + n * r.classes : NULL,
                      out ? tol + n * r.classes : NULL);
        }
        for (size_t c = 0; out && c < r.classes; c++) {
            out[n * r.classes + c] /= over;
            tol[n * r.classes + c] /= over;
        }
    }
    *loss = parts[0] / over;
    *loss_tol = parts[1] / over;
}

static label_loss weighted_cross_entropy(const art_op_args *args) {
    return (label_loss){.fixed = 2,
                        .smoothing = args->attr[ART_WEIGHTED_CROSS_ENTROPY_GRAD_A_SMOOTHING].f,
                        .ignored = args->attr[ART_WEIGHTED_CROSS_ENTROPY_GRAD_A_IGNORE_INDEX].i};
}

static label_loss nll(const art_op_args *args) {
    return (label_loss){
        .fixed = 1, .logarithms = true, .ignored = args->attr[ART_NLL_GRAD_A_IGNORE_INDEX].i};
}

#define LABEL_LOSS(name)                                                                           \
    void art_ref_##name##_grad(const art_op_args *args, double *const *out, double *const *tol) {  \
        labels(args, name(args), out[2], tol[2], out[3], tol[3]);                                  \
    }                                                                                              \
    void art_ref_##name##_eval(const art_op_args *args, double *const *out, double *const *tol) {  \
        labels(args, name(args), out[2], tol[2], NULL, NULL);                                      \
        *out[3] = label_hits(args, name(args).ignored);                                            \
        *tol[3] = 0.0;                                                                             \
    }
LABEL_LOSS(weighted_cross_entropy)
LABEL_LOSS(nll)

/* Every place is a row; there is no count of right ones. */
void art_ref_places_cross_entropy_grad(const art_op_args *args, double *const *out,
                                       double *const *tol) {
    labels(args, weighted_cross_entropy(args), out[2], tol[2], out[3], tol[3]);
}

void art_ref_places_cross_entropy_eval(const art_op_args *args, double *const *out,
                                       double *const *tol) {
    labels(args, weighted_cross_entropy(args), out[2], tol[2], NULL, NULL);
}

/* Cross entropy of probabilities, whose rows all count alike. */
static void soft_cross_entropy(const art_op_args *args, double *loss, double *loss_tol, double *out,
                               double *tol) {
    const unsigned smoothing = ART_SOFT_CROSS_ENTROPY_GRAD_A_SMOOTHING;
    const label_loss l = {.fixed = smoothing + 1, .smoothing = args->attr[smoothing].f};
    const art_array *y = &args->operand[ART_SOFT_CROSS_ENTROPY_GRAD_Y];
    const float *target = args->operand[ART_SOFT_CROSS_ENTROPY_GRAD_TARGET].data;
    const double rows = y->dims[0];
    *loss = *loss_tol = 0.0;
    for (size_t n = 0; n < y->dims[0]; n++) {
        row r = row_at(y, n);
        const float *t = target + n * r.classes;
        double all = 0.0;
        sum_up(&r);
        for (size_t c = 0; c < r.classes; c++) {
            double q = (1 - l.smoothing) * (double)t[c] + l.smoothing / (double)r.classes, own;
            q *= weight_of(args, &l, c);
            all += q;
            *loss += q == 0 ? 0 : q * minus_log(&r, &l, c, &own) / rows;
            *loss_tol += q == 0 ? 0 : q * own / rows;
            if (out) {
                out[n * r.classes + c] = -q / rows;
                tol[n * r.classes + c] = 1e-14 * q / rows;
            }
        }
        for (size_t c = 0; out && c < r.classes; c++) {
            double *o = &out[n * r.classes + c], p = all * exponential(&r, c) / r.sum / rows;
            *o += p;
            tol[n * r.classes + c] +=
                p * (exponential_rel(&r, c) + r.sum_tol / r.sum) + 1.01 * U * fabs(*o) + 0x1p-140;
        }
    }
}

void art_ref_soft_cross_entropy_grad(const art_op_args *args, double *const *out,
                                     double *const *tol) {
    soft_cross_entropy(args, out[2], tol[2], out[3], tol[3]);
}

void art_ref_soft_cross_entropy_eval(const art_op_args *args, double *const *out,
                                     double *const *tol) {
    soft_cross_entropy(args, out[2], tol[2], NULL, NULL);
}
