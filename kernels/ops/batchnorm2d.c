/* Batch normalisation over all but the last dimension. Statistics are saved once in float
 * (save_mean, save_invstd); every path then computes
 *     y = (x - mean) * (invstd * gamma) + beta
 * with the same kernel. The gradient through batch statistics is
 *     dx = (dy - mean(dy) - (x - mean) invstd^2 mean(dy (x - mean))) * (invstd * gamma). */
#include <math.h>

#include "ops/columns.h"
#include "ops/op_functions.h"

/* Operands as pointers, absent ones NULL; what each operation uses. */
typedef struct norm {
    const art_vec_kernels *vec;
    const float *x, *dy, *mean, *invstd, *var, *gamma, *beta;
    const double *sums; /* of dy, then of dy (x - mean) */
    float *to;
    double eps;
    int64_t rectifier; /* ART_RECTIFIER_*, what follows y */
    uint64_t rows, cols;
} norm;

static uint64_t rows_of(const art_array *x) {
    return art_mul_saturated(x->dims[0], art_mul_saturated(x->dims[1], x->dims[2]));
}

static float invstd_of(double var, double eps) {
    return (float)(1.0 / sqrt(var + eps));
}

/* invstd * gamma of column c, from saved or running statistics. */
static float slope_of(const norm *b, size_t c) {
    float invstd = b->invstd ? b->invstd[c] : invstd_of((double)b->var[c], b->eps);
    return b->gamma ? invstd * b->gamma[c] : invstd;
}

static void fill_affine(const void *context, size_t first, size_t n, art_col_constants *k) {
    const norm *b = context;
    for (size_t c = 0; c < n; c++) {
        k->k[0][c] = b->mean[first + c];
        k->k[1][c] = slope_of(b, first + c);
        k->k[2][c] = b->beta ? b->beta[first + c] : 0.0f;
    }
}

static void apply_affine(const void *context, size_t at, size_t rows, size_t ld, size_t n,
                         const art_col_constants *k) {
    const norm *b = context;
    art_vec_affine constants = {k->k[0], k->k[1], k->k[2]};
    b->vec->normalise(b->to + at, b->x + at, rows, ld, n, &constants);
}

/* The same, and the layer's rectifier over rows that are in the cache still. */
static void apply_rectified(const void *context, size_t at, size_t rows, size_t ld, size_t n,
                            const art_col_constants *k) {
    static const float no_numbers[2] = {0}; /* leaves read them before they know that none count */
    const norm *b = context;
    apply_affine(context, at, rows, ld, n, k);
    for (size_t r = 0; r < rows; r++) {
        float *y = b->to + at + r * ld;
        if (b->rectifier == ART_RECTIFIER_RELU) {
            b->vec->relu(y, y, n);
        } else {
            b->vec->relu6(y, y, n, no_numbers);
        }
    }
}

static void fill_centred(const void *context, size_t first, size_t n, art_col_constants *k) {
    const norm *b = context;
    for (size_t c = first; c < first + n; c++) {
        double invstd = (double)b->invstd[c], rows = (double)b->rows;
        k->k[0][c - first] = b->mean[c];
        k->k[1][c - first] = (float)(b->sums[c] / rows);
        k->k[2][c - first] = (float)(invstd * invstd * (b->sums[b->cols + c] / rows));
        k->k[3][c - first] = slope_of(b, c);
    }
}

static void apply_centred(const void *context, size_t at, size_t rows, size_t ld, size_t n,
                          const art_col_constants *k) {
    const norm *b = context;
    art_vec_centred constants = {k->k[0], k->k[1], k->k[2], k->k[3]};
    b->vec->normalise_grad(b->to + at, b->dy + at, b->x + at, rows, ld, n, &constants);
}

static void fill_slope(const void *context, size_t first, size_t n, art_col_constants *k) {
    for (size_t c = 0; c < n; c++) {
        k->k[0][c] = slope_of(context, first + c);
    }
}

static void apply_slope(const void *context, size_t at, size_t rows, size_t ld, size_t n,
                        const art_col_constants *k) {
    const norm *b = context;
    b->vec->scale_cols(b->to + at, b->dy + at, rows, ld, n, k->k[0]);
}

/* ---- checks ---- */

/* How a slot must look: the images all alike, the others one float per channel. */
enum { IMAGE, CHANNELS };
typedef struct slot_rule {
    const char *name;
    int kind;
} slot_rule;

/* Rules in slot order; `image` is the slot whose dimensions are compared with. */
static art_status check_slots(const art_op_args *args, const slot_rule *rules,
                              const uint8_t *access, unsigned n, unsigned image, art_error *err) {
    const art_array *model = &args->operand[image];
    ART_TRY(art_check_operand(args, image, rules[image].name, ART_DTYPE_F32, 4, err));
    for (unsigned slot = 0; slot < n; slot++) {
        const char *name = rules[slot].name;
        int optional = access[slot] & ART_ACCESS_OPTIONAL;
        if (optional && !art_present(args, slot)) {
            continue;
        }
        if (rules[slot].kind == CHANNELS) {
            ART_TRY(art_check_vector(args, slot, name, ART_DTYPE_F32, model->dims[3], err));
            continue;
        }
        ART_TRY(art_check_operand(args, slot, name, ART_DTYPE_F32, 4, err));
        ART_TRY(art_check_dims(args, slot, name, model->dims, err));
        ART_TRY(art_check_batched(args, slot, name, model->batched, err));
    }
    return ART_OK;
}

#define CHECK_SLOTS(args, rules, access, image, err)                                               \
    check_slots(args, rules, (const uint8_t[])access, sizeof(rules) / sizeof((rules)[0]), image,   \
                err)

static art_status check_trainable(const art_array *x, art_error *err) {
    ART_FAIL_IF(rows_of(x) == 1, err, ART_SHAPE,
                "batch norm needs more than one value per channel to train, here is 1 (%u sample "
                "of %u x %u): use at least 2 samples in every batch, or freeze the layer (eval())",
                x->dims[0], x->dims[1], x->dims[2]);
    return ART_OK;
}

art_status art_op_batchnorm2d_fwd_check(const art_op_args *args, art_error *err) {
    static const slot_rule rules[] = {
        {"batchnorm2d_fwd.x", IMAGE},
        {"batchnorm2d_fwd.gamma", CHANNELS},
        {"batchnorm2d_fwd.beta", CHANNELS},
        {"batchnorm2d_fwd.mean", CHANNELS},
        {"batchnorm2d_fwd.var", CHANNELS},
        {"batchnorm2d_fwd.y", IMAGE},
        {"batchnorm2d_fwd.save_mean", CHANNELS},
        {"batchnorm2d_fwd.save_invstd", CHANNELS},
    };
    ART_TRY(CHECK_SLOTS(args, rules, ART_BATCHNORM2D_FWD_ACCESS, ART_BATCHNORM2D_FWD_X, err));
    ART_TRY(check_trainable(&args->operand[ART_BATCHNORM2D_FWD_X], err));
    return art_check_workspace(args, ART_BATCHNORM2D_FWD_WS, "batchnorm2d_fwd.ws",
                               art_op_batchnorm2d_fwd_workspace(args), err);
}

art_status art_op_batchnorm2d_eval_check(const art_op_args *args, art_error *err) {
    static const slot_rule rules[] = {
        {"batchnorm2d_eval.x", IMAGE},       {"batchnorm2d_eval.gamma", CHANNELS},
        {"batchnorm2d_eval.beta", CHANNELS}, {"batchnorm2d_eval.mean", CHANNELS},
        {"batchnorm2d_eval.var", CHANNELS},  {"batchnorm2d_eval.y", IMAGE},
    };
    return CHECK_SLOTS(args, rules, ART_BATCHNORM2D_EVAL_ACCESS, ART_BATCHNORM2D_EVAL_X, err);
}

art_status art_op_batchnorm2d_apply_check(const art_op_args *args, art_error *err) {
    static const slot_rule rules[] = {
        {"batchnorm2d_apply.x", IMAGE},
        {"batchnorm2d_apply.gamma", CHANNELS},
        {"batchnorm2d_apply.beta", CHANNELS},
        {"batchnorm2d_apply.save_mean", CHANNELS},
        {"batchnorm2d_apply.save_invstd", CHANNELS},
        {"batchnorm2d_apply.y", IMAGE},
    };
    return CHECK_SLOTS(args, rules, ART_BATCHNORM2D_APPLY_ACCESS, ART_BATCHNORM2D_APPLY_X, err);
}

art_status art_op_batchnorm2d_grad_check(const art_op_args *args, art_error *err) {
    static const slot_rule rules[] = {
        {"batchnorm2d_grad.x", IMAGE},
        {"batchnorm2d_grad.gamma", CHANNELS},
        {"batchnorm2d_grad.save_mean", CHANNELS},
        {"batchnorm2d_grad.save_invstd", CHANNELS},
        {"batchnorm2d_grad.dy", IMAGE},
        {"batchnorm2d_grad.dx", IMAGE},
        {"batchnorm2d_grad.dgamma", CHANNELS},
        {"batchnorm2d_grad.dbeta", CHANNELS},
    };
    ART_TRY(CHECK_SLOTS(args, rules, ART_BATCHNORM2D_GRAD_ACCESS, ART_BATCHNORM2D_GRAD_X, err));
    ART_TRY(check_trainable(&args->operand[ART_BATCHNORM2D_GRAD_X], err));
    return art_check_workspace(args, ART_BATCHNORM2D_GRAD_WS, "batchnorm2d_grad.ws",
                               art_op_batchnorm2d_grad_workspace(args), err);
}

art_status art_op_batchnorm2d_eval_grad_check(const art_op_args *args, art_error *err) {
    static const slot_rule rules[] = {
        {"batchnorm2d_eval_grad.x", IMAGE},         {"batchnorm2d_eval_grad.gamma", CHANNELS},
        {"batchnorm2d_eval_grad.mean", CHANNELS},   {"batchnorm2d_eval_grad.var", CHANNELS},
        {"batchnorm2d_eval_grad.dy", IMAGE},        {"batchnorm2d_eval_grad.dx", IMAGE},
        {"batchnorm2d_eval_grad.dgamma", CHANNELS}, {"batchnorm2d_eval_grad.dbeta", CHANNELS},
    };
    ART_TRY(CHECK_SLOTS(args, rules, ART_BATCHNORM2D_EVAL_GRAD_ACCESS, ART_BATCHNORM2D_EVAL_GRAD_DY,
                        err));
    ART_FAIL_IF(art_present(args, ART_BATCHNORM2D_EVAL_GRAD_DGAMMA) &&
                    !art_present(args, ART_BATCHNORM2D_EVAL_GRAD_X),
                err, ART_PLAN_FORMAT, "batchnorm2d_eval_grad.x is missing, dgamma needs it");
    return art_check_workspace(args, ART_BATCHNORM2D_EVAL_GRAD_WS, "batchnorm2d_eval_grad.ws",
                               art_op_batchnorm2d_eval_grad_workspace(args), err);
}

/* ---- workspaces: partial results of the columns ---- */

static uint64_t workspace(const art_array *x) {
    return art_col_workspace(rows_of(x), x->dims[3]);
}

uint64_t art_op_batchnorm2d_fwd_workspace(const art_op_args *args) {
    return workspace(&args->operand[ART_BATCHNORM2D_FWD_X]);
}

ART_NO_WORKSPACE(batchnorm2d_eval)
ART_NO_WORKSPACE(batchnorm2d_apply)

uint64_t art_op_batchnorm2d_grad_workspace(const art_op_args *args) {
    return workspace(&args->operand[ART_BATCHNORM2D_GRAD_X]);
}

uint64_t art_op_batchnorm2d_eval_grad_workspace(const art_op_args *args) {
    int reduces = art_present(args, ART_BATCHNORM2D_EVAL_GRAD_DGAMMA) ||
                  art_present(args, ART_BATCHNORM2D_EVAL_GRAD_DBETA);
    return reduces ? workspace(&args->operand[ART_BATCHNORM2D_EVAL_GRAD_DY]) : 0;
}

/* ---- runs ---- */

static norm norm_of(const art_op_args *args, unsigned image) {
    const art_array *x = &args->operand[image];
    return (norm){.vec = art_vec(args), .rows = rows_of(x), .cols = x->dims[3]};
}

/* One channel's new running value: momentum weighs the batch's. */
static void update_running(float *running, double batch, double momentum) {
    *running = (float)((1.0 - momentum) * (double)*running + momentum * batch);
}

/* From moments to save_mean, save_invstd and the running statistics. */
static void save_statistics(const art_op_args *args, const norm *b, const double *moments) {
    const double rows = (double)b->rows, eps = args->attr[ART_BATCHNORM2D_FWD_A_EPS].f;
    const double momentum = args->attr[ART_BATCHNORM2D_FWD_A_MOMENTUM].f;
    float *mean = art_out(args, ART_BATCHNORM2D_FWD_MEAN);
    float *var = art_out(args, ART_BATCHNORM2D_FWD_VAR);
    float *save_mean = art_out(args, ART_BATCHNORM2D_FWD_SAVE_MEAN);
    float *save_invstd = art_out(args, ART_BATCHNORM2D_FWD_SAVE_INVSTD);
    for (size_t c = 0; c < b->cols; c++) {
        double squares = moments[b->cols + c];
        save_mean[c] = (float)moments[c];
        save_invstd[c] = invstd_of(squares / rows, eps);
        if (mean) {
            update_running(&mean[c], moments[c], momentum);
        }
        if (var) {
            update_running(&var[c], squares / (rows - 1.0), momentum);
        }
    }
}

art_status art_op_batchnorm2d_fwd_run(const art_op_args *args, art_error *err) {
    norm b = norm_of(args, ART_BATCHNORM2D_FWD_X);
    double *moments = args->operand[ART_BATCHNORM2D_FWD_WS].data;
    ART_TRY(check_trainable(&args->operand[ART_BATCHNORM2D_FWD_X], err));
    b.x = art_in(args, ART_BATCHNORM2D_FWD_X);
    b.gamma = art_in(args, ART_BATCHNORM2D_FWD_GAMMA);
    b.beta = art_in(args, ART_BATCHNORM2D_FWD_BETA);
    b.mean = art_in(args, ART_BATCHNORM2D_FWD_SAVE_MEAN);
    b.invstd = art_in(args, ART_BATCHNORM2D_FWD_SAVE_INVSTD);
    b.to = art_out(args, ART_BATCHNORM2D_FWD_Y);
    art_col_moments(args, b.x, art_col_split_of(b.rows, b.cols), moments);
    save_statistics(args, &b, moments);
    art_col_run(args, b.rows, b.cols, fill_affine, apply_affine, &b);
    return ART_OK;
}

art_status art_op_batchnorm2d_eval_run(const art_op_args *args, art_error *err) {
    norm b = norm_of(args, ART_BATCHNORM2D_EVAL_X);
    (void)err;
    b.x = art_in(args, ART_BATCHNORM2D_EVAL_X);
    b.gamma = art_in(args, ART_BATCHNORM2D_EVAL_GAMMA);
    b.beta = art_in(args, ART_BATCHNORM2D_EVAL_BETA);
    b.mean = art_in(args, ART_BATCHNORM2D_EVAL_MEAN);
    b.var = art_in(args, ART_BATCHNORM2D_EVAL_VAR);
    b.eps = args->attr[ART_BATCHNORM2D_EVAL_A_EPS].f;
    b.to = art_out(args, ART_BATCHNORM2D_EVAL_Y);
    art_col_run(args, b.rows, b.cols, fill_affine, apply_affine, &b);
    return ART_OK;
}

art_status art_op_batchnorm2d_apply_run(const art_op_args *args, art_error *err) {
    norm b = norm_of(args, ART_BATCHNORM2D_APPLY_X);
    (void)err;
    b.x = art_in(args, ART_BATCHNORM2D_APPLY_X);
    b.gamma = art_in(args, ART_BATCHNORM2D_APPLY_GAMMA);
    b.beta = art_in(args, ART_BATCHNORM2D_APPLY_BETA);
    b.mean = art_in(args, ART_BATCHNORM2D_APPLY_SAVE_MEAN);
    b.invstd = art_in(args, ART_BATCHNORM2D_APPLY_SAVE_INVSTD);
    b.rectifier = args->attr[ART_BATCHNORM2D_APPLY_A_RECTIFIER].i;
    b.to = art_out(args, ART_BATCHNORM2D_APPLY_Y);
    art_col_run(args, b.rows, b.cols, fill_affine, b.rectifier ? apply_rectified : apply_affine,
                &b);
    return ART_OK;
}

/* dgamma = invstd * sum of dy (x - mean), dbeta = sum of dy; either may be NULL. */
static void store_sums(const norm *b, const double *sums, float *dgamma, float *dbeta) {
    for (size_t c = 0; c < b->cols; c++) {
        if (dgamma) {
            float invstd = b->invstd ? b->invstd[c] : invstd_of((double)b->var[c], b->eps);
            dgamma[c] = (float)(sums[b->cols + c] * (double)invstd);
        }
        if (dbeta) {
            dbeta[c] = (float)sums[c];
        }
    }
}

art_status art_op_batchnorm2d_grad_run(const art_op_args *args, art_error *err) {
    norm b = norm_of(args, ART_BATCHNORM2D_GRAD_X);
    double *sums = args->operand[ART_BATCHNORM2D_GRAD_WS].data;
    (void)err;
    b.x = art_in(args, ART_BATCHNORM2D_GRAD_X);
    b.dy = art_in(args, ART_BATCHNORM2D_GRAD_DY);
    b.gamma = art_in(args, ART_BATCHNORM2D_GRAD_GAMMA);
    b.mean = art_in(args, ART_BATCHNORM2D_GRAD_SAVE_MEAN);
    b.invstd = art_in(args, ART_BATCHNORM2D_GRAD_SAVE_INVSTD);
    b.to = art_out(args, ART_BATCHNORM2D_GRAD_DX);
    b.sums = sums;
    art_col_dots(args, b.dy, b.x, b.mean, art_col_split_of(b.rows, b.cols), sums);
    store_sums(&b, sums, art_out(args, ART_BATCHNORM2D_GRAD_DGAMMA),
               art_out(args, ART_BATCHNORM2D_GRAD_DBETA));
    if (b.to) {
        art_col_run(args, b.rows, b.cols, fill_centred, apply_centred, &b);
    }
    return ART_OK;
}

art_status art_op_batchnorm2d_eval_grad_run(const art_op_args *args, art_error *err) {
    norm b = norm_of(args, ART_BATCHNORM2D_EVAL_GRAD_DY);
    float *dgamma = art_out(args, ART_BATCHNORM2D_EVAL_GRAD_DGAMMA);
    float *dbeta = art_out(args, ART_BATCHNORM2D_EVAL_GRAD_DBETA);
    double *sums = args->operand[ART_BATCHNORM2D_EVAL_GRAD_WS].data;
    (void)err;
    b.dy = art_in(args, ART_BATCHNORM2D_EVAL_GRAD_DY);
    b.gamma = art_in(args, ART_BATCHNORM2D_EVAL_GRAD_GAMMA);
    b.mean = art_in(args, ART_BATCHNORM2D_EVAL_GRAD_MEAN);
    b.var = art_in(args, ART_BATCHNORM2D_EVAL_GRAD_VAR);
    b.eps = args->attr[ART_BATCHNORM2D_EVAL_GRAD_A_EPS].f;
    b.to = art_out(args, ART_BATCHNORM2D_EVAL_GRAD_DX);
    if (dgamma || dbeta) {
        b.x = dgamma ? art_in(args, ART_BATCHNORM2D_EVAL_GRAD_X) : NULL;
        art_col_dots(args, b.dy, b.x, b.mean, art_col_split_of(b.rows, b.cols), sums);
        store_sums(&b, sums, dgamma, dbeta);
    }
    if (b.to) {
        art_col_run(args, b.rows, b.cols, fill_slope, apply_slope, &b);
    }
    return ART_OK;
}
