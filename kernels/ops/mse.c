/* Mean squared error over all elements of the actual batch. */
#include "ops/op_functions.h"
#include "ops/spans.h"

_Static_assert((int)ART_MSE_GRAD_Y == (int)ART_MSE_EVAL_Y &&
                   (int)ART_MSE_GRAD_TARGET == (int)ART_MSE_EVAL_TARGET &&
                   (int)ART_MSE_GRAD_LOSS == (int)ART_MSE_EVAL_LOSS,
               "both operations share their first operands");

typedef struct mse_job {
    float *dy; /* NULL: only the loss */
    float slope;
} mse_job;

static double squared_error(const art_op_args *args, const void *constants, size_t first,
                            size_t n) {
    const mse_job *job = constants;
    return art_vec(args)->squared_error(job->dy ? job->dy + first : NULL,
                                        art_in(args, ART_MSE_GRAD_Y) + first,
                                        art_in(args, ART_MSE_GRAD_TARGET) + first, job->slope, n);
}

static art_status run(const art_op_args *args, float *dy) {
    uint64_t count = art_count(&args->operand[ART_MSE_GRAD_Y]);
    mse_job job = {dy, (float)(2.0 / (double)count)};
    double sum = art_sum_blocks(args, count, 4, squared_error, &job);
    *(double *)args->operand[ART_MSE_GRAD_LOSS].data = sum / (double)count;
    return ART_OK;
}

static art_status check(const art_op_args *args, const char *y, const char *target,
                        const char *loss, art_error *err) {
    ART_TRY(art_check_operand(args, ART_MSE_GRAD_Y, y, ART_DTYPE_F32, ART_ANY_RANK, err));
    ART_TRY(art_check_operand(args, ART_MSE_GRAD_TARGET, target, ART_DTYPE_F32, ART_ANY_RANK, err));
    ART_TRY(art_check_matches(args, ART_MSE_GRAD_TARGET, target, ART_MSE_GRAD_Y, err));
    return art_check_vector(args, ART_MSE_GRAD_LOSS, loss, ART_DTYPE_F64, 1, err);
}

art_status art_op_mse_grad_check(const art_op_args *args, art_error *err) {
    ART_TRY(check(args, "mse_grad.y", "mse_grad.target", "mse_grad.loss", err));
    ART_TRY(
        art_check_operand(args, ART_MSE_GRAD_DY, "mse_grad.dy", ART_DTYPE_F32, ART_ANY_RANK, err));
    return art_check_matches(args, ART_MSE_GRAD_DY, "mse_grad.dy", ART_MSE_GRAD_Y, err);
}

ART_NO_WORKSPACE(mse_grad)

art_status art_op_mse_grad_run(const art_op_args *args, art_error *err) {
    (void)err;
    return run(args, art_out(args, ART_MSE_GRAD_DY));
}

art_status art_op_mse_eval_check(const art_op_args *args, art_error *err) {
    return check(args, "mse_eval.y", "mse_eval.target", "mse_eval.loss", err);
}

ART_NO_WORKSPACE(mse_eval)

art_status art_op_mse_eval_run(const art_op_args *args, art_error *err) {
    (void)err;
    return run(args, NULL);
}
