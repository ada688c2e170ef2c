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
    uint64_t rows, cols;
} norm;

static uint64_t rows_of(const art_array *x)
{
    return art_mul_saturated(x->dims[0], art_mul_saturated(x->dims[1], x->dims[2]));
}

static float invstd_of(double var, double eps)
{
    return (float)(1.0 / sqrt(var + eps));
}

/* invstd * gamma of column c, from saved or running statistics. */
static float slope_of(const norm *b, size_t c)
{
    float invstd = b->invstd ? b->invstd[c] : invstd_of((double)b->var[c], b->eps);
    return b->gamma ? invstd * b->gamma[c] : invstd;
}

static void fill_affine(const void *context, size_t first, size_t n, art_col_constants *k)
{
    const norm *b = context;
    for (size_t c = 0; c < n; c++) {
        k->k[0][c] = b->mean[first + c];
        k->k[1][c] = slope_of(b, first + c);
        k->k[2][c] = b->beta ? b->beta[first + c] : 0.0f;
    }
}

static void apply_affine(const void *context, size_t at, size_t rows, size_t ld, size_t n,
                         const art_col_constants *k)
{
    const norm *b = context;
    art_vec_affine constants = {k->k[0], k->k[1], k->k[2]};
    b->vec->normalise(b->to + at, b->x + at, rows, ld, n, &constants);
}

static void fill_centred(const void *context, size_t first, size_t n, art_col_constants *k)
{
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
                          const art_col_constants *k)
{
    const norm *b = context;
    art_vec_centred constants = {k->k[0], k->k[1], k->k[2], k->k[3]};
    b->vec->normalise_grad(b->to + at, b->dy + at, b->x + at, rows, ld, n, &constants);
}

static void fill_slope(const void *context, size_t first, size_t n, art_col_constants *k)
{
    for (size_t c = 0; c < n; c++) {
        k->k[0][c] = slope_of(context, first + c);
    }
}

static void apply_slope(const void *context, size_t at, size_t rows, size_t ld, size_t n,
                        const art_col_constants *k)
{
    const norm *b = context;
    b->vec->scale_cols(b->to + at, b->dy + at, rows, ld, n, k->k[0]);
}

/* ---- checks ---- */

/* A float image array with the dimensions of operand `other`. */
static art_status check_image(const art_op_args *args, unsigned slot, const char *name,
                              unsigned other, art_error *err)
{
    if (!art_present(args, slot)) {
        return ART_OK;
    }
    ART_TRY(art_check_operand(args, slot, name, ART_DTYPE_F32, 4, err));
    ART_TRY(art_check_dims(args, slot, name, args->operand[other].dims, err));
    return art_check_batched(args, slot, name, args->operand[other].batched, err);
}

static art_status check_rows(const art_array *x, const char *name, int training, art_error *err)
{
    ART_FAIL_IF(rows_of(x) > UINT32_MAX, err, ART_SHAPE, "%s has %llu rows, at most %u are possible",
                name, (unsigned long long)rows_of(x), UINT32_MAX);
    ART_FAIL_IF(training && rows_of(x) == 1, err, ART_SHAPE,
                "batch norm needs more than one value per channel to train, %s has 1 (%u sample of "
                "%u x %u): use at least 2 samples in every batch, or freeze the layer (eval mode)",
                name, x->dims[0], x->dims[1], x->dims[2]);
    return ART_OK;
}

art_status art_op_batchnorm2d_fwd_check(const art_op_args *args, art_error *err)
{
    const art_array *x = &args->operand[ART_BATCHNORM2D_FWD_X];
    const uint32_t cols = x->dims[3];
    ART_TRY(art_check_operand(args, ART_BATCHNORM2D_FWD_X, "batchnorm2d_fwd.x", ART_DTYPE_F32, 4,
                              err));
    ART_TRY(art_check_operand(args, ART_BATCHNORM2D_FWD_Y, "batchnorm2d_fwd.y", ART_DTYPE_F32, 4,
                              err));
    ART_TRY(check_image(args, ART_BATCHNORM2D_FWD_Y, "batchnorm2d_fwd.y", ART_BATCHNORM2D_FWD_X,
                        err));
    ART_TRY(art_check_optional_vector(args, ART_BATCHNORM2D_FWD_GAMMA, "batchnorm2d_fwd.gamma",
                                      ART_DTYPE_F32, cols, err));
    ART_TRY(art_check_optional_vector(args, ART_BATCHNORM2D_FWD_BETA, "batchnorm2d_fwd.beta",
                                      ART_DTYPE_F32, cols, err));
    ART_TRY(art_check_optional_vector(args, ART_BATCHNORM2D_FWD_MEAN, "batchnorm2d_fwd.mean",
                                      ART_DTYPE_F32, cols, err));
    ART_TRY(art_check_optional_vector(args, ART_BATCHNORM2D_FWD_VAR, "batchnorm2d_fwd.var",
                                      ART_DTYPE_F32, cols, err));
    ART_TRY(art_check_vector(args, ART_BATCHNORM2D_FWD_SAVE_MEAN, "batchnorm2d_fwd.save_mean",
                             ART_DTYPE_F32, cols, err));
    ART_TRY(art_check_vector(args, ART_BATCHNORM2D_FWD_SAVE_INVSTD, "batchnorm2d_fwd.save_invstd",
                             ART_DTYPE_F32, cols, err));
    ART_TRY(art_check_float(args, ART_BATCHNORM2D_FWD_A_EPS, "batchnorm2d_fwd.eps", 0.0, 1e30, err));
    ART_TRY(art_check_float(args, ART_BATCHNORM2D_FWD_A_MOMENTUM, "batchnorm2d_fwd.momentum", 0.0,
                            1.0, err));
    ART_TRY(check_rows(x, "batchnorm2d_fwd.x", 1, err));
    return art_check_workspace(args, ART_BATCHNORM2D_FWD_WS, "batchnorm2d_fwd.ws",
                               art_op_batchnorm2d_fwd_workspace(args), err);
}

art_status art_op_batchnorm2d_eval_check(const art_op_args *args, art_error *err)
{
    const art_array *x = &args->operand[ART_BATCHNORM2D_EVAL_X];
    const uint32_t cols = x->dims[3];
    ART_TRY(art_check_operand(args, ART_BATCHNORM2D_EVAL_X, "batchnorm2d_eval.x", ART_DTYPE_F32, 4,
                              err));
    ART_TRY(art_check_operand(args, ART_BATCHNORM2D_EVAL_Y, "batchnorm2d_eval.y", ART_DTYPE_F32, 4,
                              err));
    ART_TRY(check_image(args, ART_BATCHNORM2D_EVAL_Y, "batchnorm2d_eval.y", ART_BATCHNORM2D_EVAL_X,
                        err));
    ART_TRY(art_check_optional_vector(args, ART_BATCHNORM2D_EVAL_GAMMA, "batchnorm2d_eval.gamma",
                                      ART_DTYPE_F32, cols, err));
    ART_TRY(art_check_optional_vector(args, ART_BATCHNORM2D_EVAL_BETA, "batchnorm2d_eval.beta",
                                      ART_DTYPE_F32, cols, err));
    ART_TRY(art_check_vector(args, ART_BATCHNORM2D_EVAL_MEAN, "batchnorm2d_eval.mean",
                             ART_DTYPE_F32, cols, err));
    ART_TRY(art_check_vector(args, ART_BATCHNORM2D_EVAL_VAR, "batchnorm2d_eval.var", ART_DTYPE_F32,
                             cols, err));
    ART_TRY(art_check_float(args, ART_BATCHNORM2D_EVAL_A_EPS, "batchnorm2d_eval.eps", 0.0, 1e30,
                            err));
    return check_rows(x, "batchnorm2d_eval.x", 0, err);
}

art_status art_op_batchnorm2d_grad_check(const art_op_args *args, art_error *err)
{
    const art_array *x = &args->operand[ART_BATCHNORM2D_GRAD_X];
    const uint32_t cols = x->dims[3];
    ART_TRY(art_check_operand(args, ART_BATCHNORM2D_GRAD_X, "batchnorm2d_grad.x", ART_DTYPE_F32, 4,
                              err));
    ART_TRY(art_check_operand(args, ART_BATCHNORM2D_GRAD_DY, "batchnorm2d_grad.dy", ART_DTYPE_F32,
                              4, err));
    ART_TRY(check_image(args, ART_BATCHNORM2D_GRAD_DY, "batchnorm2d_grad.dy",
                        ART_BATCHNORM2D_GRAD_X, err));
    ART_TRY(check_image(args, ART_BATCHNORM2D_GRAD_DX, "batchnorm2d_grad.dx",
                        ART_BATCHNORM2D_GRAD_X, err));
    ART_TRY(art_check_optional_vector(args, ART_BATCHNORM2D_GRAD_GAMMA, "batchnorm2d_grad.gamma",
                                      ART_DTYPE_F32, cols, err));
    ART_TRY(art_check_vector(args, ART_BATCHNORM2D_GRAD_SAVE_MEAN, "batchnorm2d_grad.save_mean",
                             ART_DTYPE_F32, cols, err));
    ART_TRY(art_check_vector(args, ART_BATCHNORM2D_GRAD_SAVE_INVSTD, "batchnorm2d_grad.save_invstd",
                             ART_DTYPE_F32, cols, err));
    ART_TRY(art_check_optional_vector(args, ART_BATCHNORM2D_GRAD_DGAMMA, "batchnorm2d_grad.dgamma",
                                      ART_DTYPE_F32, cols, err));
    ART_TRY(art_check_optional_vector(args, ART_BATCHNORM2D_GRAD_DBETA, "batchnorm2d_grad.dbeta",
                                      ART_DTYPE_F32, cols, err));
    ART_TRY(check_rows(x, "batchnorm2d_grad.x", 1, err));
    return art_check_workspace(args, ART_BATCHNORM2D_GRAD_WS, "batchnorm2d_grad.ws",
                               art_op_batchnorm2d_grad_workspace(args), err);
}

art_status art_op_batchnorm2d_eval_grad_check(const art_op_args *args, art_error *err)
{
    const art_array *dy = &args->operand[ART_BATCHNORM2D_EVAL_GRAD_DY];
    const uint32_t cols = dy->dims[3];
    ART_TRY(art_check_operand(args, ART_BATCHNORM2D_EVAL_GRAD_DY, "batchnorm2d_eval_grad.dy",
                              ART_DTYPE_F32, 4, err));
    ART_TRY(check_image(args, ART_BATCHNORM2D_EVAL_GRAD_X, "batchnorm2d_eval_grad.x",
                        ART_BATCHNORM2D_EVAL_GRAD_DY, err));
    ART_TRY(check_image(args, ART_BATCHNORM2D_EVAL_GRAD_DX, "batchnorm2d_eval_grad.dx",
                        ART_BATCHNORM2D_EVAL_GRAD_DY, err));
    ART_TRY(art_check_optional_vector(args, ART_BATCHNORM2D_EVAL_GRAD_GAMMA,
                                      "batchnorm2d_eval_grad.gamma", ART_DTYPE_F32, cols, err));
    ART_TRY(art_check_vector(args, ART_BATCHNORM2D_EVAL_GRAD_MEAN, "batchnorm2d_eval_grad.mean",
                             ART_DTYPE_F32, cols, err));
    ART_TRY(art_check_vector(args, ART_BATCHNORM2D_EVAL_GRAD_VAR, "batchnorm2d_eval_grad.var",
                             ART_DTYPE_F32, cols, err));
    ART_TRY(art_check_optional_vector(args, ART_BATCHNORM2D_EVAL_GRAD_DGAMMA,
                                      "batchnorm2d_eval_grad.dgamma", ART_DTYPE_F32, cols, err));
    ART_TRY(art_check_optional_vector(args, ART_BATCHNORM2D_EVAL_GRAD_DBETA,
                                      "batchnorm2d_eval_grad.dbeta", ART_DTYPE_F32, cols, err));
    ART_FAIL_IF(art_present(args, ART_BATCHNORM2D_EVAL_GRAD_DGAMMA) &&
                    !art_present(args, ART_BATCHNORM2D_EVAL_GRAD_X),
                err, ART_PLAN_FORMAT, "batchnorm2d_eval_grad.x is missing, dgamma needs it");
    ART_TRY(art_check_float(args, ART_BATCHNORM2D_EVAL_GRAD_A_EPS, "batchnorm2d_eval_grad.eps", 0.0,
                            1e30, err));
    ART_TRY(check_rows(dy, "batchnorm2d_eval_grad.dy", 0, err));
    return art_check_workspace(args, ART_BATCHNORM2D_EVAL_GRAD_WS, "batchnorm2d_eval_grad.ws",
                               art_op_batchnorm2d_eval_grad_workspace(args), err);
}
