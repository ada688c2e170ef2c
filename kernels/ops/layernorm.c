/* Layer norm (Ba, Kiros and Hinton, arXiv 1607.06450) and, without a mean, root-mean-square norm:
 * statistics of every row of the last dimension, saved once in float. Sums of a row are taken in
 * double with a fixed tree, sums of a column in double row by row; a row or a column belongs to one
 * tile, so that threads change nothing. One small copy of the code serves all levels. */
#include <math.h>

#include "ops/op_functions.h"
#include "ops/spans.h"

enum { TILE = 16384 /* elements */, COLUMNS_OF_TILE = 32 };

typedef struct row_job {
    const float *x, *dy, *gamma, *beta, *mean, *invstd;
    float *to, *keep_mean, *keep_invstd, *dgamma, *dbeta;
    double eps;
    int centred;
    uint64_t rows, tile_rows;
    size_t cols;
} row_job;

static uint64_t rows_of(const art_array *x) {
    uint64_t rows = 1;
    for (unsigned i = 0; i + 1 < x->ndim; i++) {
        rows = art_mul_saturated(rows, x->dims[i]);
    }
    return rows;
}

static uint32_t cols_of(const art_array *x) {
    return x->dims[x->ndim - 1];
}

/* ---- checks ---- */

enum { LIKE_X, ROWS, COLUMNS };
typedef struct slot_rule {
    const char *name;
    int kind;
} slot_rule;

/* Rules in slot order; slot 0 is x. */
static art_status check_slots(const art_op_args *args, const slot_rule *rules,
                              const uint8_t *access, unsigned n, art_error *err) {
    const art_array *x = &args->operand[0];
    for (unsigned slot = 0; slot < n; slot++) {
        const char *name = rules[slot].name;
        if ((access[slot] & ART_ACCESS_OPTIONAL) && !art_present(args, slot)) {
            continue;
        }
        if (rules[slot].kind == COLUMNS) {
            ART_TRY(art_check_vector(args, slot, name, ART_DTYPE_F32, cols_of(x), err));
            continue;
        }
        unsigned rank = rules[slot].kind == ROWS ? x->ndim - 1u : slot ? x->ndim : ART_ANY_RANK;
        ART_TRY(art_check_operand(args, slot, name, ART_DTYPE_F32, rank, err));
        ART_FAIL_IF(x->ndim < 2, err, ART_SHAPE, "%s has %u dimensions, needs 2 at least", name,
                    x->ndim);
        ART_TRY(art_check_dims(args, slot, name, x->dims, err));
        ART_TRY(art_check_batched(args, slot, name, x->batched, err));
    }
    return ART_OK;
}

#define CHECK_SLOTS(args, rules, access, err)                                                      \
    check_slots(args, rules, (const uint8_t[])access, sizeof(rules) / sizeof((rules)[0]), err)

art_status art_op_layernorm_fwd_check(const art_op_args *args, art_error *err) {
    static const slot_rule rules[] = {
        {"layernorm_fwd.x", LIKE_X},      {"layernorm_fwd.gamma", COLUMNS},
        {"layernorm_fwd.beta", COLUMNS},  {"layernorm_fwd.y", LIKE_X},
        {"layernorm_fwd.row_mean", ROWS}, {"layernorm_fwd.row_invstd", ROWS},
    };
    ART_TRY(CHECK_SLOTS(args, rules, ART_LAYERNORM_FWD_ACCESS, err));
    ART_FAIL_IF(art_present(args, ART_LAYERNORM_FWD_ROW_MEAN) &&
                    !args->attr[ART_LAYERNORM_FWD_A_CENTRED].i,
                err, ART_PLAN_FORMAT, "layernorm_fwd.row_mean is kept of rows without one");
    return ART_OK;
}

art_status art_op_layernorm_grad_check(const art_op_args *args, art_error *err) {
    static const slot_rule rules[] = {
        {"layernorm_grad.x", LIKE_X},       {"layernorm_grad.gamma", COLUMNS},
        {"layernorm_grad.row_mean", ROWS},  {"layernorm_grad.row_invstd", ROWS},
        {"layernorm_grad.dy", LIKE_X},      {"layernorm_grad.dx", LIKE_X},
        {"layernorm_grad.dgamma", COLUMNS}, {"layernorm_grad.dbeta", COLUMNS},
    };
    return CHECK_SLOTS(args, rules, ART_LAYERNORM_GRAD_ACCESS, err);
}

ART_NO_WORKSPACE(layernorm_fwd)
ART_NO_WORKSPACE(layernorm_grad)

/* ---- sums of a row in double: element i belongs to partial sum i mod LANES ---- */

enum { LANES = 16 };

static double fold(double acc[LANES]) {
    for (int half = LANES / 2; half > 0; half /= 2) {
        for (int j = 0; j < half; j++) {
            acc[j] += acc[j + half];
        }
    }
    return acc[0];
}

static double row_sum(const float *x, size_t n) {
    double acc[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t j = 0; j < LANES; j++) {
            acc[j] += (double)x[i + j];
        }
    }
    for (size_t j = 0; i + j < n; j++) {
        acc[j] += (double)x[i + j];
    }
    return fold(acc);
}

static double row_squares(const float *x, double mean, size_t n) {
    double acc[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t j = 0; j < LANES; j++) {
            double d = (double)x[i + j] - mean;
            acc[j] += d * d;
        }
    }
    for (size_t j = 0; i + j < n; j++) {
        double d = (double)x[i + j] - mean;
        acc[j] += d * d;
    }
    return fold(acc);
}

/* The sum of g = dy gamma, and *dot = that of g (x - mean); gamma may be NULL for ones. */
static double row_dots(double *dot, const float *dy, const float *x, const float *gamma,
                       double mean, size_t n) {
    double sum[LANES] = {0}, product[LANES] = {0}, g[LANES];
    for (size_t i = 0; i < n; i += LANES) {
        size_t many = n - i < LANES ? n - i : LANES;
        for (size_t j = 0; j < many; j++) {
            g[j] = gamma ? (double)dy[i + j] * (double)gamma[i + j] : (double)dy[i + j];
        }
        for (size_t j = 0; j < many; j++) {
            sum[j] += g[j];
            product[j] += g[j] * ((double)x[i + j] - mean);
        }
    }
    *dot = fold(product);
    return fold(sum);
}

/* ---- runs ---- */

static row_job job_of(const art_op_args *args) {
    const art_array *x = &args->operand[0];
    row_job job = {.x = x->data, .rows = rows_of(x), .cols = cols_of(x)};
    job.tile_rows = job.cols < TILE ? TILE / job.cols : 1;
    return job;
}

static void run_rows(const art_op_args *args, art_tile_fn fn, row_job *job) {
    art_pool_run(args->pool, art_tiles(job->rows, job->tile_rows),
                 4.0 * (double)job->rows * (double)job->cols, fn, job);
}

static uint64_t end_of(const row_job *job, uint64_t first) {
    return job->rows - first < job->tile_rows ? job->rows : first + job->tile_rows;
}

/* y = ((x - mean) * invstd) * gamma + beta */
static void row_affine(const row_job *job, float *y, const float *x, float mean, float invstd) {
    for (size_t c = 0; c < job->cols; c++) {
        y[c] = (x[c] - mean) * invstd;
    }
    for (size_t c = 0; job->gamma && c < job->cols; c++) {
        y[c] *= job->gamma[c];
    }
    for (size_t c = 0; job->beta && c < job->cols; c++) {
        y[c] += job->beta[c];
    }
}

static void forward_tile(void *context, unsigned tile, unsigned thread) {
    const row_job *job = context;
    const double n = (double)job->cols;
    uint64_t first = tile * job->tile_rows;
    (void)thread;
    for (uint64_t r = first; r < end_of(job, first); r++) {
        const float *x = job->x + r * job->cols;
        double mean = job->centred ? row_sum(x, job->cols) / n : 0.0;
        double square = row_squares(x, mean, job->cols) / n;
        float invstd = (float)(1.0 / sqrt(square + job->eps));
        if (job->keep_mean) {
            job->keep_mean[r] = (float)mean;
        }
        if (job->keep_invstd) {
            job->keep_invstd[r] = invstd;
        }
        row_affine(job, job->to + r * job->cols, x, (float)mean, invstd);
    }
}

art_status art_op_layernorm_fwd_run(const art_op_args *args, art_error *err) {
    row_job job = job_of(args);
    (void)err;
    job.gamma = art_in(args, ART_LAYERNORM_FWD_GAMMA);
    job.beta = art_in(args, ART_LAYERNORM_FWD_BETA);
    job.to = art_out(args, ART_LAYERNORM_FWD_Y);
    job.keep_mean = art_out(args, ART_LAYERNORM_FWD_ROW_MEAN);
    job.keep_invstd = art_out(args, ART_LAYERNORM_FWD_ROW_INVSTD);
    job.eps = args->attr[ART_LAYERNORM_FWD_A_EPS].f;
    job.centred = args->attr[ART_LAYERNORM_FWD_A_CENTRED].i != 0;
    run_rows(args, forward_tile, &job);
    return ART_OK;
}

static void backward_tile(void *context, unsigned tile, unsigned thread) {
    const row_job *job = context;
    const double n = (double)job->cols;
    uint64_t first = tile * job->tile_rows;
    (void)thread;
    for (uint64_t r = first; r < end_of(job, first); r++) {
        const float *x = job->x + r * job->cols, *dy = job->dy + r * job->cols;
        float *dx = job->to + r * job->cols, mean = job->mean ? job->mean[r] : 0.0f;
        double invstd = (double)job->invstd[r], dot;
        double sum = row_dots(&dot, dy, x, job->gamma, (double)mean, job->cols);
        float slope = (float)(invstd * invstd * invstd * (dot / n));
        float shift = job->mean ? (float)(invstd * (sum / n)) : 0.0f;
        for (size_t c = 0; c < job->cols; c++) {
            float g = job->gamma ? dy[c] * job->gamma[c] : dy[c];
            dx[c] = g * job->invstd[r] - ((x[c] - mean) * slope + shift);
        }
    }
}

static void columns_tile(void *context, unsigned tile, unsigned thread) {
    const row_job *job = context;
    const size_t from = (size_t)tile * COLUMNS_OF_TILE;
    const size_t n = job->cols - from < COLUMNS_OF_TILE ? job->cols - from : COLUMNS_OF_TILE;
    double sum[COLUMNS_OF_TILE] = {0}, dot[COLUMNS_OF_TILE] = {0};
    (void)thread;
    for (uint64_t r = 0; r < job->rows; r++) {
        const float *x = job->x + r * job->cols + from, *dy = job->dy + r * job->cols + from;
        double mean = job->mean ? (double)job->mean[r] : 0.0, invstd = (double)job->invstd[r];
        for (size_t c = 0; c < n; c++) {
            sum[c] += (double)dy[c];
            dot[c] += (double)dy[c] * (((double)x[c] - mean) * invstd);
        }
    }
    for (size_t c = 0; c < n; c++) {
        if (job->dbeta) {
            job->dbeta[from + c] = (float)sum[c];
        }
        if (job->dgamma) {
            job->dgamma[from + c] = (float)dot[c];
        }
    }
}

art_status art_op_layernorm_grad_run(const art_op_args *args, art_error *err) {
    row_job job = job_of(args);
    (void)err;
    job.dgamma = art_out(args, ART_LAYERNORM_GRAD_DGAMMA);
    job.dbeta = art_out(args, ART_LAYERNORM_GRAD_DBETA);
    job.gamma = art_in(args, ART_LAYERNORM_GRAD_GAMMA);
    job.mean = art_in(args, ART_LAYERNORM_GRAD_ROW_MEAN);
    job.invstd = art_in(args, ART_LAYERNORM_GRAD_ROW_INVSTD);
    job.dy = art_in(args, ART_LAYERNORM_GRAD_DY);
    job.to = art_out(args, ART_LAYERNORM_GRAD_DX);
    if (job.dgamma || job.dbeta) { /* first: dx may lie where dy is */
        art_pool_run(args->pool, art_tiles(job.cols, COLUMNS_OF_TILE),
                     4.0 * (double)job.rows * (double)job.cols, columns_tile, &job);
    }
    if (job.to) {
        run_rows(args, backward_tile, &job);
    }
    return ART_OK;
}
