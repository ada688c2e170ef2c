/* Clipping by the global norm: one sum of squares per gradient, then one factor for all.
 * Clipping by value: each gradient by itself, in place. */
#include <math.h>

#include "ops/op_functions.h"
#include "ops/spans.h"

static double sum_squares(const art_op_args *args, const void *constants, size_t first, size_t n) {
    (void)constants;
    return art_vec(args)->sum_squares(art_in(args, ART_GRAD_SUMSQ_G) + first, n);
}

art_status art_op_grad_sumsq_check(const art_op_args *args, art_error *err) {
    ART_TRY(art_check_operand(args, ART_GRAD_SUMSQ_G, "grad_sumsq.g", ART_DTYPE_F32, ART_ANY_RANK,
                              err));
    ART_TRY(art_check_operand(args, ART_GRAD_SUMSQ_ACC, "grad_sumsq.acc", ART_DTYPE_F64, 1, err));
    ART_TRY(art_check_batched(args, ART_GRAD_SUMSQ_ACC, "grad_sumsq.acc", 0, err));
    return art_check_int(args, ART_GRAD_SUMSQ_A_INDEX, "grad_sumsq.index", 0,
                         (int64_t)args->operand[ART_GRAD_SUMSQ_ACC].dims[0] - 1, err);
}

ART_NO_WORKSPACE(grad_sumsq)

art_status art_op_grad_sumsq_run(const art_op_args *args, art_error *err) {
    double *acc = args->operand[ART_GRAD_SUMSQ_ACC].data;
    (void)err;
    acc[args->attr[ART_GRAD_SUMSQ_A_INDEX].i] =
        art_sum_blocks(args, art_count(&args->operand[ART_GRAD_SUMSQ_G]), 2, sum_squares, NULL);
    return ART_OK;
}

art_status art_op_clip_scale_check(const art_op_args *args, art_error *err) {
    ART_TRY(art_check_operand(args, ART_CLIP_SCALE_ACC, "clip_scale.acc", ART_DTYPE_F64, 1, err));
    ART_TRY(art_check_batched(args, ART_CLIP_SCALE_ACC, "clip_scale.acc", 0, err));
    return art_check_vector(args, ART_CLIP_SCALE_SCALE, "clip_scale.scale", ART_DTYPE_F32, 1, err);
}

ART_NO_WORKSPACE(clip_scale)

art_status art_op_clip_scale_run(const art_op_args *args, art_error *err) {
    const double *acc = args->operand[ART_CLIP_SCALE_ACC].data;
    const uint32_t gradients = args->operand[ART_CLIP_SCALE_ACC].dims[0];
    double sum = 0.0;
    for (uint32_t i = 0; i < gradients; i++) {
        ART_FAIL_IF(!isfinite(acc[i]), err, ART_NONFINITE,
                    "the gradient norm is not finite: sum of squares %u of %u is %g; a smaller "
                    "learning rate may help",
                    i, gradients, art_shown(acc[i]));
        sum += acc[i];
    }
    double scale = args->attr[ART_CLIP_SCALE_A_MAX_NORM].f / (sqrt(sum) + 1e-6);
    *art_out(args, ART_CLIP_SCALE_SCALE) = (float)(scale < 1.0 ? scale : 1.0);
    return ART_OK;
}

art_status art_op_clip_value_check(const art_op_args *args, art_error *err) {
    return art_check_operand(args, ART_CLIP_VALUE_G, "clip_value.g", ART_DTYPE_F32, ART_ANY_RANK,
                             err);
}

ART_NO_WORKSPACE(clip_value)

static void clamp(const art_op_args *args, const void *limit, size_t first, size_t n) {
    art_vec(args)->clamp(art_out(args, ART_CLIP_VALUE_G) + first, *(const float *)limit, n);
}

art_status art_op_clip_value_run(const art_op_args *args, art_error *err) {
    float limit = (float)args->attr[ART_CLIP_VALUE_A_LIMIT].f;
    (void)err;
    art_run_spans(args, art_count(&args->operand[ART_CLIP_VALUE_G]), 2, clamp, &limit);
    return ART_OK;
}
