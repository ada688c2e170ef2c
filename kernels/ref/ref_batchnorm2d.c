#include <math.h>

#include "ops/check.h"
#include "ref/ref_ops.h"

#define U ART_REF_U

/* Additions in float before a block's sum is handed over in double, and the roundings of a term. */
enum { BLOCK = ART_VEC_MAX_ROWS + 4 };

typedef struct view {
    size_t rows, cols;
} view;

static view view_of(const art_array *x) {
    return (view){(size_t)x->dims[0] * x->dims[1] * x->dims[2], x->dims[3]};
}

static const float *in(const art_op_args *args, unsigned slot) {
    return args->operand[slot].data;
}

static double value(const float *array, size_t c, double absent) {
    return array ? (double)array[c] : absent;
}

/* Exact statistics of one channel and what the float ones may be off. */
typedef struct stats {
    double mean, squares, mean_tol, squares_tol;
} stats;

static stats stats_of(const float *x, view v, size_t c) {
    stats s = {0};
    double spread = 0.0, largest = 0.0, rows = (double)v.rows;
    for (size_t r = 0; r < v.rows; r++) {
        s.mean += (double)x[r * v.cols + c] / rows;
    }
    for (size_t r = 0; r < v.rows; r++) {
        double d = (double)x[r * v.cols + c] - s.mean;
        s.squares += d * d;
        spread += fabs(d) / rows;
        largest = fmax(largest, fabs((double)x[r * v.cols + c]));
    }
    /* A block's shift is within `shift` of its mean, which is at most twice the spread off. */
    double shift = BLOCK * U * largest;
    s.mean_tol = BLOCK * U * (2.0 * spread + shift);
    s.squares_tol = BLOCK * U * (s.squares + rows * shift * shift);
    return s;
}

typedef struct running {
    unsigned slot;
    double batch, batch_tol;
} running;

static void update(const art_op_args *args, double *const *out, double *const *tol, size_t c,
                   running r) {
    if (!art_present(args, r.slot)) {
        return;
    }
    double momentum = args->attr[ART_BATCHNORM2D_FWD_A_MOMENTUM].f;
    double now = (1.0 - momentum) * (double)in(args, r.slot)[c] + momentum * r.batch;
    out[r.slot][c] = now;
    tol[r.slot][c] = momentum * r.batch_tol + 1.01 * U * fabs(now);
}

void art_ref_batchnorm2d_fwd(const art_op_args *args, double *const *out, double *const *tol) {
    const float *x = in(args, ART_BATCHNORM2D_FWD_X);
    const view v = view_of(&args->operand[ART_BATCHNORM2D_FWD_X]);
    const double rows = (double)v.rows, eps = args->attr[ART_BATCHNORM2D_FWD_A_EPS].f;
    for (size_t c = 0; c < v.cols; c++) {
        stats s = stats_of(x, v, c);
        double var = s.squares / rows, invstd = 1.0 / sqrt(var + eps);
        double invstd_rel = 0.51 * s.squares_tol / rows / (var + eps) + U;
        double gamma = value(in(args, ART_BATCHNORM2D_FWD_GAMMA), c, 1.0), k = invstd * gamma;
        double beta = value(in(args, ART_BATCHNORM2D_FWD_BETA), c, 0.0);
        out[ART_BATCHNORM2D_FWD_SAVE_MEAN][c] = s.mean;
        tol[ART_BATCHNORM2D_FWD_SAVE_MEAN][c] = s.mean_tol + U * fabs(s.mean);
        out[ART_BATCHNORM2D_FWD_SAVE_INVSTD][c] = invstd;
        tol[ART_BATCHNORM2D_FWD_SAVE_INVSTD][c] = invstd_rel * invstd;
        update(args, out, tol, c, (running){ART_BATCHNORM2D_FWD_MEAN, s.mean, s.mean_tol});
        update(args, out, tol, c,
               (running){ART_BATCHNORM2D_FWD_VAR, s.squares / (rows - 1.0),
                         s.squares_tol / (rows - 1.0)});
        for (size_t r = 0; r < v.rows; r++) {
            size_t i = r * v.cols + c;
            double d = (double)x[i] - s.mean, y = d * k + beta;
            out[ART_BATCHNORM2D_FWD_Y][i] = y;
            tol[ART_BATCHNORM2D_FWD_Y][i] =
                1.01 * (fabs(k) * (s.mean_tol + U * fabs(s.mean) + U * fabs(d)) +
                        fabs(d * k) * (invstd_rel + 2.0 * U) + U * fabs(y));
        }
    }
}

void art_ref_batchnorm2d_eval(const art_op_args *args, double *const *out, double *const *tol) {
    const float *x = in(args, ART_BATCHNORM2D_EVAL_X);
    const view v = view_of(&args->operand[ART_BATCHNORM2D_EVAL_X]);
    const double eps = args->attr[ART_BATCHNORM2D_EVAL_A_EPS].f;
    for (size_t i = 0; i < v.rows * v.cols; i++) {
        size_t c = i % v.cols;
        double invstd = 1.0 / sqrt((double)in(args, ART_BATCHNORM2D_EVAL_VAR)[c] + eps);
        double k = invstd * value(in(args, ART_BATCHNORM2D_EVAL_GAMMA), c, 1.0);
        double d = (double)x[i] - (double)in(args, ART_BATCHNORM2D_EVAL_MEAN)[c];
        double y = d * k + value(in(args, ART_BATCHNORM2D_EVAL_BETA), c, 0.0);
        out[ART_BATCHNORM2D_EVAL_Y][i] = y;
        tol[ART_BATCHNORM2D_EVAL_Y][i] = 1.01 * U * (4.0 * fabs(d * k) + fabs(y));
    }
}

static double rectified(double y, int64_t rectifier) {
    double most = rectifier == ART_RECTIFIER_RELU6 ? 6.0 : INFINITY;
    return rectifier == ART_RECTIFIER_NONE ? y : fmin(fmax(y, 0.0), most);
}

void art_ref_batchnorm2d_apply(const art_op_args *args, double *const *out, double *const *tol) {
    const float *x = in(args, ART_BATCHNORM2D_APPLY_X);
    const view v = view_of(&args->operand[ART_BATCHNORM2D_APPLY_X]);
    for (size_t i = 0; i < v.rows * v.cols; i++) {
        size_t c = i % v.cols;
        double k = (double)in(args, ART_BATCHNORM2D_APPLY_SAVE_INVSTD)[c] *
                   value(in(args, ART_BATCHNORM2D_APPLY_GAMMA), c, 1.0);
        double d = (double)x[i] - (double)in(args, ART_BATCHNORM2D_APPLY_SAVE_MEAN)[c];
        double y = d * k + value(in(args, ART_BATCHNORM2D_APPLY_BETA), c, 0.0);
        out[ART_BATCHNORM2D_APPLY_Y][i] =
            rectified(y, args->attr[ART_BATCHNORM2D_APPLY_A_RECTIFIER].i);
        tol[ART_BATCHNORM2D_APPLY_Y][i] = 1.01 * U * (4.0 * fabs(d * k) + fabs(y));
    }
}

/* Sums over the rows of one channel and the error of the float ones. */
typedef struct sums {
    double dy, dot, dy_tol, dot_tol;
} sums;

static sums sums_of(const float *dy, const float *x, double mean, view v, size_t c) {
    sums s = {0};
    for (size_t r = 0; r < v.rows; r++) {
        double d = (double)dy[r * v.cols + c];
        double centred = x ? (double)x[r * v.cols + c] - mean : 0.0;
        s.dy += d;
        s.dot += d * centred;
        s.dy_tol += BLOCK * U * fabs(d);
        s.dot_tol += BLOCK * U * fabs(d * centred);
    }
    return s;
}

/* Store dgamma and dbeta of one channel, where wanted. */
static void store(const sums *s, double invstd, size_t c, double *dgamma, double *dgamma_tol,
                  double *dbeta, double *dbeta_tol) {
    if (dgamma) {
        dgamma[c] = s->dot * invstd;
        dgamma_tol[c] = 1.01 * (s->dot_tol * invstd + 2.0 * U * fabs(s->dot * invstd));
    }
    if (dbeta) {
        dbeta[c] = s->dy;
        dbeta_tol[c] = s->dy_tol + 1.01 * U * fabs(s->dy);
    }
}

void art_ref_batchnorm2d_grad(const art_op_args *args, double *const *out, double *const *tol) {
    const float *x = in(args, ART_BATCHNORM2D_GRAD_X), *dy = in(args, ART_BATCHNORM2D_GRAD_DY);
    const view v = view_of(&args->operand[ART_BATCHNORM2D_GRAD_X]);
    const double rows = (double)v.rows;
    double *dx = out[ART_BATCHNORM2D_GRAD_DX], *dx_tol = tol[ART_BATCHNORM2D_GRAD_DX];
    for (size_t c = 0; c < v.cols; c++) {
        double mean = (double)in(args, ART_BATCHNORM2D_GRAD_SAVE_MEAN)[c];
        double invstd = (double)in(args, ART_BATCHNORM2D_GRAD_SAVE_INVSTD)[c];
        double k = invstd * value(in(args, ART_BATCHNORM2D_GRAD_GAMMA), c, 1.0);
        sums s = sums_of(dy, x, mean, v, c);
        store(&s, invstd, c, out[ART_BATCHNORM2D_GRAD_DGAMMA], tol[ART_BATCHNORM2D_GRAD_DGAMMA],
              out[ART_BATCHNORM2D_GRAD_DBETA], tol[ART_BATCHNORM2D_GRAD_DBETA]);
        double a = s.dy / rows, b = invstd * invstd * s.dot / rows;
        double a_tol = s.dy_tol / rows + U * fabs(a);
        double b_tol = invstd * invstd * s.dot_tol / rows + U * fabs(b);
        for (size_t r = 0; dx && r < v.rows; r++) {
            size_t i = r * v.cols + c;
            double d = (double)x[i] - mean, left = (double)dy[i] - a, all = left - d * b;
            dx[i] = all * k;
            dx_tol[i] = 1.01 * (fabs(k) * (a_tol + U * fabs(left) + fabs(d) * b_tol +
                                           2.0 * U * fabs(d * b) + U * fabs(all)) +
                                2.0 * U * fabs(dx[i]));
        }
    }
}

void art_ref_batchnorm2d_eval_grad(const art_op_args *args, double *const *out,
                                   double *const *tol) {
    const float *dy = in(args, ART_BATCHNORM2D_EVAL_GRAD_DY);
    const view v = view_of(&args->operand[ART_BATCHNORM2D_EVAL_GRAD_DY]);
    const double eps = args->attr[ART_BATCHNORM2D_EVAL_GRAD_A_EPS].f;
    double *dx = out[ART_BATCHNORM2D_EVAL_GRAD_DX], *dx_tol = tol[ART_BATCHNORM2D_EVAL_GRAD_DX];
    for (size_t c = 0; c < v.cols; c++) {
        double mean = (double)in(args, ART_BATCHNORM2D_EVAL_GRAD_MEAN)[c];
        double invstd = 1.0 / sqrt((double)in(args, ART_BATCHNORM2D_EVAL_GRAD_VAR)[c] + eps);
        double k = invstd * value(in(args, ART_BATCHNORM2D_EVAL_GRAD_GAMMA), c, 1.0);
        sums s = sums_of(dy, in(args, ART_BATCHNORM2D_EVAL_GRAD_X), mean, v, c);
        store(&s, invstd, c, out[ART_BATCHNORM2D_EVAL_GRAD_DGAMMA],
              tol[ART_BATCHNORM2D_EVAL_GRAD_DGAMMA], out[ART_BATCHNORM2D_EVAL_GRAD_DBETA],
              tol[ART_BATCHNORM2D_EVAL_GRAD_DBETA]);
        for (size_t r = 0; dx && r < v.rows; r++) {
            size_t i = r * v.cols + c;
            dx[i] = (double)dy[i] * k;
            dx_tol[i] = 3.01 * U * fabs(dx[i]);
        }
    }
}
