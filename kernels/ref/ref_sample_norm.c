/* Layer norm, root-mean-square norm and group norm. */
#include <math.h>

#include "ops/check.h"
#include "ref/ref_ops.h"

#define U ART_REF_U
/* Relative error of a sum in double, however long a row of the tests. */
#define DOUBLE 0x1p-40

/* Additions in float before a block's sum is handed over in double, and the roundings of a term. */
enum { BLOCK = ART_VEC_MAX_ROWS + 4 };

static const float *in(const art_op_args *args, unsigned slot) {
    return args->operand[slot].data;
}

static double value(const float *array, size_t c, double absent) {
    return array ? (double)array[c] : absent;
}

static void put(double *const *out, double *const *tol, unsigned slot, size_t i, double v,
                double off) {
    if (out[slot]) {
        out[slot][i] = v;
        tol[slot][i] = off;
    }
}

/* ---- rows ---- */

typedef struct rows {
    size_t n, cols;
} rows;

static rows rows_of(const art_array *x) {
    rows r = {1, x->dims[x->ndim - 1]};
    for (unsigned i = 0; i + 1 < x->ndim; i++) {
        r.n *= x->dims[i];
    }
    return r;
}

void art_ref_layernorm_fwd(const art_op_args *args, double *const *out, double *const *tol) {
    const float *x = in(args, ART_LAYERNORM_FWD_X);
    const rows r = rows_of(&args->operand[ART_LAYERNORM_FWD_X]);
    const double n = (double)r.cols, eps = args->attr[ART_LAYERNORM_FWD_A_EPS].f;
    const int centred = args->attr[ART_LAYERNORM_FWD_A_CENTRED].i != 0;
    for (size_t i = 0; i < r.n; i++) {
        double mean = 0.0, square = 0.0, size = 0.0;
        for (size_t c = 0; c < r.cols; c++) {
            mean += centred ? (double)x[i * r.cols + c] / n : 0.0;
            size += fabs((double)x[i * r.cols + c]) / n;
        }
        for (size_t c = 0; c < r.cols; c++) {
            double d = (double)x[i * r.cols + c] - mean;
            square += d * d / n;
        }
        double mean_tol = centred ? U * fabs(mean) + DOUBLE * size : 0.0;
        double invstd = 1.0 / sqrt(square + eps);
        double invstd_rel = U + DOUBLE + DOUBLE * size * size * invstd * invstd;
        put(out, tol, ART_LAYERNORM_FWD_ROW_MEAN, i, mean, mean_tol);
        put(out, tol, ART_LAYERNORM_FWD_ROW_INVSTD, i, invstd, invstd_rel * invstd);
        for (size_t c = 0; c < r.cols; c++) {
            double d = (double)x[i * r.cols + c] - mean;
            double k = invstd * value(in(args, ART_LAYERNORM_FWD_GAMMA), c, 1.0);
            double y = d * k + value(in(args, ART_LAYERNORM_FWD_BETA), c, 0.0);
            put(out, tol, ART_LAYERNORM_FWD_Y, i * r.cols + c, y,
                1.01 * (fabs(k) * (mean_tol + U * fabs(d)) + fabs(d * k) * (invstd_rel + 2.0 * U) +
                        U * fabs(y)));
        }
    }
}

static void layernorm_dx(const art_op_args *args, rows r, size_t i, double *const *out,
                         double *const *tol) {
    const float *x = in(args, ART_LAYERNORM_GRAD_X) + i * r.cols;
    const float *dy = in(args, ART_LAYERNORM_GRAD_DY) + i * r.cols;
    const float *gamma = in(args, ART_LAYERNORM_GRAD_GAMMA);
    const float *means = in(args, ART_LAYERNORM_GRAD_ROW_MEAN);
    double mean = value(means, i, 0.0), n = (double)r.cols;
    double invstd = (double)in(args, ART_LAYERNORM_GRAD_ROW_INVSTD)[i];
    double sum = 0.0, dot = 0.0, sum_size = 0.0, dot_size = 0.0;
    for (size_t c = 0; c < r.cols; c++) {
        double g = (double)dy[c] * value(gamma, c, 1.0), d = (double)x[c] - mean;
        sum += g;
        dot += g * d;
        sum_size += fabs(g);
        dot_size += fabs(g * d);
    }
    double shift = means ? invstd * sum / n : 0.0, cube = invstd * invstd * invstd / n;
    double shift_tol = means ? U * fabs(shift) + DOUBLE * invstd * sum_size / n : 0.0;
    double slope = cube * dot, slope_tol = U * fabs(slope) + DOUBLE * cube * dot_size;
    for (size_t c = 0; c < r.cols; c++) {
        double g = (double)dy[c] * value(gamma, c, 1.0) * invstd, d = (double)x[c] - mean;
        double part = d * slope + shift;
        put(out, tol, ART_LAYERNORM_GRAD_DX, i * r.cols + c, g - part,
            1.01 * (2.0 * U * fabs(g) + 2.0 * U * fabs(d * slope) + fabs(d) * slope_tol +
                    shift_tol + U * fabs(part) + U * fabs(g - part)));
    }
}

void art_ref_layernorm_grad(const art_op_args *args, double *const *out, double *const *tol) {
    const float *x = in(args, ART_LAYERNORM_GRAD_X), *dy = in(args, ART_LAYERNORM_GRAD_DY);
    const rows r = rows_of(&args->operand[ART_LAYERNORM_GRAD_X]);
    for (size_t i = 0; i < r.n && out[ART_LAYERNORM_GRAD_DX]; i++) {
        layernorm_dx(args, r, i, out, tol);
    }
    for (size_t c = 0; c < r.cols; c++) {
        double sum = 0.0, dot = 0.0, sum_size = 0.0, dot_size = 0.0;
        for (size_t i = 0; i < r.n; i++) {
            double d = (double)dy[i * r.cols + c];
            double mean = value(in(args, ART_LAYERNORM_GRAD_ROW_MEAN), i, 0.0);
            double term = d * ((double)x[i * r.cols + c] - mean) *
                          (double)in(args, ART_LAYERNORM_GRAD_ROW_INVSTD)[i];
            sum += d;
            dot += term;
            sum_size += fabs(d);
            dot_size += fabs(term);
        }
        put(out, tol, ART_LAYERNORM_GRAD_DGAMMA, c, dot, 1.01 * BLOCK * U * dot_size);
        put(out, tol, ART_LAYERNORM_GRAD_DBETA, c, sum, 1.01 * BLOCK * U * sum_size);
    }
}

/* ---- groups ---- */

typedef struct image {
    size_t n, rows, cols, groups, per_group;
} image;

static image image_of(const art_array *x, int64_t groups) {
    image v = {x->dims[0], (size_t)x->dims[1] * x->dims[2], x->dims[3], (size_t)groups, 0};
    v.per_group = v.cols / v.groups;
    return v;
}

/* Where column c of pixel r of sample i is. */
static size_t at(image v, size_t i, size_t r, size_t c) {
    return (i * v.rows + r) * v.cols + c;
}

/* Exact statistics of one group and what the float ones may be off. */
typedef struct stats {
    double mean, var, mean_tol, var_tol;
} stats;

/* Add a channel's errors; a block's shift is within `shift` of its mean (see batch norm). */
static void add_channel(stats *s, const float *x, image v, size_t i, size_t c) {
    double mean = 0.0, squares = 0.0, spread = 0.0, largest = 0.0, n = (double)v.rows;
    for (size_t r = 0; r < v.rows; r++) {
        mean += (double)x[at(v, i, r, c)] / n;
        largest = fmax(largest, fabs((double)x[at(v, i, r, c)]));
    }
    for (size_t r = 0; r < v.rows; r++) {
        double d = (double)x[at(v, i, r, c)] - mean;
        squares += d * d;
        spread += fabs(d) / n;
    }
    double shift = BLOCK * U * largest, off = BLOCK * U * (2.0 * spread + shift);
    double apart = fabs(mean - s->mean), k = (double)v.per_group;
    s->mean_tol += off / k;
    s->var_tol += BLOCK * U * (squares / n + shift * shift) / k;
    s->var_tol += (2.0 * apart * off + off * off) / k;
}

static stats stats_of(const float *x, image v, size_t i, size_t g) {
    stats s = {0};
    const size_t from = g * v.per_group, to = from + v.per_group;
    const double count = (double)(v.rows * v.per_group);
    for (size_t c = from; c < to; c++) {
        for (size_t r = 0; r < v.rows; r++) {
            s.mean += (double)x[at(v, i, r, c)] / count;
        }
    }
    for (size_t c = from; c < to; c++) {
        for (size_t r = 0; r < v.rows; r++) {
            double d = (double)x[at(v, i, r, c)] - s.mean;
            s.var += d * d / count;
        }
        add_channel(&s, x, v, i, c);
    }
    s.var_tol += s.mean_tol * s.mean_tol + 2.0 * s.mean_tol * sqrt(s.var);
    return s;
}

void art_ref_groupnorm_fwd(const art_op_args *args, double *const *out, double *const *tol) {
    const float *x = in(args, ART_GROUPNORM_FWD_X);
    const image v =
        image_of(&args->operand[ART_GROUPNORM_FWD_X], args->attr[ART_GROUPNORM_FWD_A_GROUPS].i);
    const double eps = args->attr[ART_GROUPNORM_FWD_A_EPS].f;
    for (size_t j = 0; j < v.n * v.groups; j++) {
        size_t i = j / v.groups, from = j % v.groups * v.per_group;
        stats s = stats_of(x, v, i, j % v.groups);
        double invstd = 1.0 / sqrt(s.var + eps), off = s.mean_tol + U * fabs(s.mean);
        double invstd_rel = 0.51 * s.var_tol / (s.var + eps) + U;
        put(out, tol, ART_GROUPNORM_FWD_GROUP_MEAN, j, s.mean, off);
        put(out, tol, ART_GROUPNORM_FWD_GROUP_INVSTD, j, invstd, invstd_rel * invstd);
        for (size_t k = 0; k < v.rows * v.per_group; k++) {
            size_t c = from + k % v.per_group, e = at(v, i, k / v.per_group, c);
            double slope = invstd * value(in(args, ART_GROUPNORM_FWD_GAMMA), c, 1.0);
            double d = (double)x[e] - s.mean;
            double y = d * slope + value(in(args, ART_GROUPNORM_FWD_BETA), c, 0.0);
            put(out, tol, ART_GROUPNORM_FWD_Y, e, y,
                1.01 * (fabs(slope) * (off + U * fabs(d)) +
                        fabs(d * slope) * (invstd_rel + 2.0 * U) + U * fabs(y)));
        }
    }
}

/* Sums over a channel of one sample, and the error of the float ones. */
typedef struct sums {
    double dy, dot, dy_tol, dot_tol;
} sums;

static sums sums_of(const art_op_args *args, image v, size_t i, size_t c) {
    const float *x = in(args, ART_GROUPNORM_GRAD_X), *dy = in(args, ART_GROUPNORM_GRAD_DY);
    size_t g = i * v.groups + c / v.per_group;
    double mean = (double)in(args, ART_GROUPNORM_GRAD_GROUP_MEAN)[g];
    sums s = {0};
    for (size_t r = 0; r < v.rows; r++) {
        double d = (double)dy[at(v, i, r, c)], term = d * ((double)x[at(v, i, r, c)] - mean);
        s.dy += d;
        s.dot += term;
        s.dy_tol += BLOCK * U * fabs(d);
        s.dot_tol += BLOCK * U * fabs(term);
    }
    return s;
}

static void groupnorm_dx(const art_op_args *args, image v, size_t j, double *const *out,
                         double *const *tol) {
    const float *x = in(args, ART_GROUPNORM_GRAD_X), *dy = in(args, ART_GROUPNORM_GRAD_DY);
    const float *gammas = in(args, ART_GROUPNORM_GRAD_GAMMA);
    size_t i = j / v.groups, from = j % v.groups * v.per_group;
    double mean = (double)in(args, ART_GROUPNORM_GRAD_GROUP_MEAN)[j];
    double invstd = (double)in(args, ART_GROUPNORM_GRAD_GROUP_INVSTD)[j];
    double count = (double)(v.rows * v.per_group), cube = invstd * invstd * invstd / count;
    sums all = {0};
    for (size_t c = from; c < from + v.per_group; c++) {
        double gamma = value(gammas, c, 1.0);
        sums s = sums_of(args, v, i, c);
        all.dy += gamma * s.dy;
        all.dot += gamma * s.dot;
        all.dy_tol += fabs(gamma) * s.dy_tol;
        all.dot_tol += fabs(gamma) * s.dot_tol;
    }
    double shift = invstd / count * all.dy, slope = cube * all.dot;
    double shift_tol = invstd / count * all.dy_tol + U * fabs(shift);
    double slope_tol = cube * all.dot_tol + U * fabs(slope);
    for (size_t k = 0; k < v.rows * v.per_group; k++) {
        size_t c = from + k % v.per_group, e = at(v, i, k / v.per_group, c);
        double g = (double)dy[e] * invstd * value(gammas, c, 1.0), d = (double)x[e] - mean;
        double part = d * slope + shift;
        put(out, tol, ART_GROUPNORM_GRAD_DX, e, g - part,
            1.01 * (2.0 * U * fabs(g) + 2.0 * U * fabs(d * slope) + fabs(d) * slope_tol +
                    shift_tol + U * fabs(part) + U * fabs(g - part)));
    }
}

void art_ref_groupnorm_grad(const art_op_args *args, double *const *out, double *const *tol) {
    const image v =
        image_of(&args->operand[ART_GROUPNORM_GRAD_X], args->attr[ART_GROUPNORM_GRAD_A_GROUPS].i);
    for (size_t j = 0; j < v.n * v.groups && out[ART_GROUPNORM_GRAD_DX]; j++) {
        groupnorm_dx(args, v, j, out, tol);
    }
    for (size_t c = 0; c < v.cols; c++) {
        sums all = {0};
        for (size_t i = 0; i < v.n; i++) {
            sums s = sums_of(args, v, i, c);
            double invstd =
                (double)in(args, ART_GROUPNORM_GRAD_GROUP_INVSTD)[i * v.groups + c / v.per_group];
            all.dy += s.dy;
            all.dot += s.dot * invstd;
            all.dy_tol += s.dy_tol;
            all.dot_tol += s.dot_tol * invstd;
        }
        put(out, tol, ART_GROUPNORM_GRAD_DGAMMA, c, all.dot,
            1.01 * (all.dot_tol + U * fabs(all.dot)));
        put(out, tol, ART_GROUPNORM_GRAD_DBETA, c, all.dy, 1.01 * (all.dy_tol + U * fabs(all.dy)));
    }
}
