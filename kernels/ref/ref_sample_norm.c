/* Layer norm and root-mean-square norm. */
#include <math.h>

#include "ops/check.h"
#include "ref/ref_ops.h"

#define U ART_REF_U
/* Relative error of a sum in double, however long a row of the tests. */
#define DOUBLE 0x1p-40

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
        put(out, tol, ART_LAYERNORM_GRAD_DGAMMA, c, dot, U * fabs(dot) + DOUBLE * dot_size);
        put(out, tol, ART_LAYERNORM_GRAD_DBETA, c, sum, U * fabs(sum) + DOUBLE * sum_size);
    }
}
