/* SGD and Adam with torch's definitions. Scalars are computed in double and rounded once. */
#include <math.h>

#include "core/math.h"
#include "ops/op_functions.h"
#include "ops/spans.h"

/* All of slots [0, n) are float arrays of w's size, none batched; optional ones may be absent. */
static art_status check_arrays(const art_op_args *args, const char *const *names, unsigned n,
                               art_error *err) {
    for (unsigned slot = 0; slot < n; slot++) {
        ART_TRY(art_check_operand(args, slot, names[slot], ART_DTYPE_F32, ART_ANY_RANK, err));
        ART_TRY(art_check_matches(args, slot, names[slot], 0, err));
        ART_TRY(art_check_batched(args, slot, names[slot], 0, err));
    }
    return ART_OK;
}

/* The factor of clipping, 1 without it. */
static float scale_of(const art_op_args *args, unsigned slot) {
    const float *scale = art_in(args, slot);
    return scale ? *scale : 1.0f;
}

/* ---- SGD ---- */

art_status art_op_sgd_step_check(const art_op_args *args, art_error *err) {
    static const char *const names[] = {"sgd_step.w", "sgd_step.g", "sgd_step.momentum"};
    int has_buffer = art_present(args, ART_SGD_STEP_MOMENTUM);
    ART_TRY(check_arrays(args, names, has_buffer ? 3 : 2, err));
    ART_TRY(art_check_optional_vector(args, ART_SGD_STEP_SCALE, "sgd_step.scale", ART_DTYPE_F32, 1,
                                      err));
    ART_FAIL_IF(has_buffer != (args->attr[ART_SGD_STEP_A_MOMENTUM].f != 0.0), err, ART_PLAN_FORMAT,
                "sgd_step has momentum %g and %s momentum buffer",
                args->attr[ART_SGD_STEP_A_MOMENTUM].f, has_buffer ? "a" : "no");
    return ART_OK;
}

ART_NO_WORKSPACE(sgd_step)

static void sgd(const art_op_args *args, const void *constants, size_t first, size_t n) {
    float *buffer = art_out(args, ART_SGD_STEP_MOMENTUM);
    art_vec(args)->sgd(art_out(args, ART_SGD_STEP_W) + first, art_in(args, ART_SGD_STEP_G) + first,
                       buffer ? buffer + first : NULL, n, constants);
}

art_status art_op_sgd_step_run(const art_op_args *args, art_error *err) {
    const art_attr *attr = args->attr;
    art_vec_sgd k = {
        .scale = scale_of(args, ART_SGD_STEP_SCALE),
        .lr = (float)(attr[ART_SGD_STEP_A_LR].f * args->learning_rate_scale),
        .weight_decay = (float)attr[ART_SGD_STEP_A_WEIGHT_DECAY].f,
        .momentum = (float)attr[ART_SGD_STEP_A_MOMENTUM].f,
        .damp = (float)(1.0 - attr[ART_SGD_STEP_A_DAMPENING].f),
        .first = args->step == 0,
        .nesterov = (int)attr[ART_SGD_STEP_A_NESTEROV].i,
    };
    (void)err;
    art_run_spans(args, art_count(&args->operand[ART_SGD_STEP_W]), 4, sgd, &k);
    return ART_OK;
}

/* ---- Adam ---- */

art_status art_op_adam_step_check(const art_op_args *args, art_error *err) {
    static const char *const names[] = {"adam_step.w", "adam_step.g", "adam_step.m", "adam_step.v"};
    ART_TRY(check_arrays(args, names, 4, err));
    return art_check_optional_vector(args, ART_ADAM_STEP_SCALE, "adam_step.scale", ART_DTYPE_F32, 1,
                                     err);
}

ART_NO_WORKSPACE(adam_step)

static void adam(const art_op_args *args, const void *constants, size_t first, size_t n) {
    art_vec(args)->adam(art_out(args, ART_ADAM_STEP_W) + first,
                        art_in(args, ART_ADAM_STEP_G) + first,
                        art_out(args, ART_ADAM_STEP_M) + first,
                        art_out(args, ART_ADAM_STEP_V) + first, n, constants);
}

art_status art_op_adam_step_run(const art_op_args *args, art_error *err) {
    const art_attr *attr = args->attr;
    double beta1 = attr[ART_ADAM_STEP_A_BETA1].f, beta2 = attr[ART_ADAM_STEP_A_BETA2].f;
    double lr = attr[ART_ADAM_STEP_A_LR].f * args->learning_rate_scale;
    uint64_t t = args->step + 1;
    art_vec_adam k = {
        .scale = scale_of(args, ART_ADAM_STEP_SCALE),
        .weight_decay = (float)attr[ART_ADAM_STEP_A_WEIGHT_DECAY].f,
        .rest1 = (float)(1.0 - beta1),
        .beta2 = (float)beta2,
        .rest2 = (float)(1.0 - beta2),
        .root = (float)sqrt(1.0 - art_pow_u64(beta2, t)),
        .eps = (float)attr[ART_ADAM_STEP_A_EPS].f,
        .rate = (float)(lr / (1.0 - art_pow_u64(beta1, t))),
    };
    (void)err;
    art_run_spans(args, art_count(&args->operand[ART_ADAM_STEP_W]), 15, adam, &k);
    return ART_OK;
}
