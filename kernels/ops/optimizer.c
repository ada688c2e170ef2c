/* The optimisers with torch's definitions. Scalars are computed in double and rounded once. */
#include <math.h>

#include "core/math.h"
#include "ops/op_functions.h"
#include "ops/optimizer.h"
#include "ops/spans.h"

/* A float array of w's size, not batched. */
static art_status check_array(const art_op_args *args, unsigned slot, const char *name,
                              art_error *err) {
    ART_TRY(art_check_operand(args, slot, name, ART_DTYPE_F32, ART_ANY_RANK, err));
    ART_TRY(art_check_matches(args, slot, name, 0, err));
    return art_check_batched(args, slot, name, 0, err);
}

static art_status check_arrays(const art_op_args *args, const char *const *names, unsigned n,
                               art_error *err) {
    for (unsigned slot = 0; slot < n; slot++) {
        ART_TRY(check_array(args, slot, names[slot], err));
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

art_vec_sgd art_sgd_constants(const art_op_args *args, unsigned scale) {
    const art_attr *attr = args->attr;
    return (art_vec_sgd){
        .scale = scale_of(args, scale),
        .lr = (float)(attr[ART_SGD_STEP_A_LR].f * args->learning_rate_scale),
        .weight_decay = (float)attr[ART_SGD_STEP_A_WEIGHT_DECAY].f,
        .momentum = (float)attr[ART_SGD_STEP_A_MOMENTUM].f,
        .damp = (float)(1.0 - attr[ART_SGD_STEP_A_DAMPENING].f),
        .first = args->step == 0,
        .nesterov = (int)attr[ART_SGD_STEP_A_NESTEROV].i,
    };
}

art_status art_op_sgd_step_run(const art_op_args *args, art_error *err) {
    art_vec_sgd k = art_sgd_constants(args, ART_SGD_STEP_SCALE);
    (void)err;
    art_run_spans(args, art_count(&args->operand[ART_SGD_STEP_W]), 4, sgd, &k);
    return ART_OK;
}

/* ---- Adam and AdamW: the same operands and attributes, another place of the decay ---- */

_Static_assert((int)ART_ADAM_STEP_SCALE == (int)ART_ADAMW_STEP_SCALE &&
                   (int)ART_ADAM_STEP_A_WEIGHT_DECAY == (int)ART_ADAMW_STEP_A_WEIGHT_DECAY,
               "AdamW has Adam's slots");

art_status art_op_adam_step_check(const art_op_args *args, art_error *err) {
    static const char *const names[] = {"adam_step.w", "adam_step.g", "adam_step.m", "adam_step.v"};
    ART_TRY(check_arrays(args, names, 4, err));
    return art_check_optional_vector(args, ART_ADAM_STEP_SCALE, "adam_step.scale", ART_DTYPE_F32, 1,
                                     err);
}

art_status art_op_adamw_step_check(const art_op_args *args, art_error *err) {
    static const char *const names[] = {"adamw_step.w", "adamw_step.g", "adamw_step.m",
                                        "adamw_step.v"};
    ART_TRY(check_arrays(args, names, 4, err));
    return art_check_optional_vector(args, ART_ADAMW_STEP_SCALE, "adamw_step.scale", ART_DTYPE_F32,
                                     1, err);
}

ART_NO_WORKSPACE(adam_step)
ART_NO_WORKSPACE(adamw_step)

static void adam(const art_op_args *args, const void *constants, size_t first, size_t n) {
    art_vec(args)->adam(art_out(args, ART_ADAM_STEP_W) + first,
                        art_in(args, ART_ADAM_STEP_G) + first,
                        art_out(args, ART_ADAM_STEP_M) + first,
                        art_out(args, ART_ADAM_STEP_V) + first, n, constants);
}

static art_status run_adam(const art_op_args *args, int decoupled) {
    const art_attr *attr = args->attr;
    double beta1 = attr[ART_ADAM_STEP_A_BETA1].f, beta2 = attr[ART_ADAM_STEP_A_BETA2].f;
    double lr = attr[ART_ADAM_STEP_A_LR].f * args->learning_rate_scale;
    double decay = attr[ART_ADAM_STEP_A_WEIGHT_DECAY].f;
    uint64_t t = args->step + 1;
    art_vec_adam k = {
        .scale = scale_of(args, ART_ADAM_STEP_SCALE),
        .weight_decay = decoupled ? 0.0f : (float)decay,
        .rest1 = (float)(1.0 - beta1),
        .beta2 = (float)beta2,
        .rest2 = (float)(1.0 - beta2),
        .root = (float)sqrt(1.0 - art_pow_u64(beta2, t)),
        .eps = (float)attr[ART_ADAM_STEP_A_EPS].f,
        .rate = (float)(lr / (1.0 - art_pow_u64(beta1, t))),
        .shrinks = decoupled,
        .shrink = (float)(1.0 - lr * decay),
    };
    art_run_spans(args, art_count(&args->operand[ART_ADAM_STEP_W]), 15, adam, &k);
    return ART_OK;
}

art_status art_op_adam_step_run(const art_op_args *args, art_error *err) {
    (void)err;
    return run_adam(args, 0);
}

art_status art_op_adamw_step_run(const art_op_args *args, art_error *err) {
    (void)err;
    return run_adam(args, 1);
}

/* ---- RMSprop ---- */

/* A state is there if and only if its hyper-parameter asks for it. */
static art_status check_asked(const art_op_args *args, unsigned slot, const char *name, double asks,
                              art_error *err) {
    int there = art_present(args, slot);
    ART_FAIL_IF(there != (asks != 0.0), err, ART_PLAN_FORMAT, "%s is %s, its attribute is %g", name,
                there ? "there" : "missing", asks);
    return ART_OK;
}

art_status art_op_rmsprop_step_check(const art_op_args *args, art_error *err) {
    static const char *const names[] = {"rmsprop_step.w", "rmsprop_step.g",
                                        "rmsprop_step.square_avg", "rmsprop_step.grad_avg",
                                        "rmsprop_step.momentum"};
    const art_attr *attr = args->attr;
    ART_TRY(check_arrays(args, names, 3, err));
    ART_TRY(check_asked(args, ART_RMSPROP_STEP_GRAD_AVG, names[3],
                        (double)attr[ART_RMSPROP_STEP_A_CENTERED].i, err));
    ART_TRY(check_asked(args, ART_RMSPROP_STEP_MOMENTUM, names[4],
                        attr[ART_RMSPROP_STEP_A_MOMENTUM].f, err));
    for (unsigned slot = ART_RMSPROP_STEP_GRAD_AVG; slot <= ART_RMSPROP_STEP_MOMENTUM; slot++) {
        if (art_present(args, slot)) {
            ART_TRY(check_array(args, slot, names[slot], err));
        }
    }
    return art_check_optional_vector(args, ART_RMSPROP_STEP_SCALE, "rmsprop_step.scale",
                                     ART_DTYPE_F32, 1, err);
}

ART_NO_WORKSPACE(rmsprop_step)

static void rmsprop(const art_op_args *args, const void *constants, size_t first, size_t n) {
    float *mean = art_out(args, ART_RMSPROP_STEP_GRAD_AVG);
    float *buffer = art_out(args, ART_RMSPROP_STEP_MOMENTUM);
    art_vec(args)->rmsprop(
        art_out(args, ART_RMSPROP_STEP_W) + first, art_in(args, ART_RMSPROP_STEP_G) + first,
        art_out(args, ART_RMSPROP_STEP_SQUARE_AVG) + first, mean ? mean + first : NULL,
        buffer ? buffer + first : NULL, n, constants);
}

art_status art_op_rmsprop_step_run(const art_op_args *args, art_error *err) {
    const art_attr *attr = args->attr;
    art_vec_rmsprop k = {
        .scale = scale_of(args, ART_RMSPROP_STEP_SCALE),
        .weight_decay = (float)attr[ART_RMSPROP_STEP_A_WEIGHT_DECAY].f,
        .alpha = (float)attr[ART_RMSPROP_STEP_A_ALPHA].f,
        .rest = (float)(1.0 - attr[ART_RMSPROP_STEP_A_ALPHA].f),
        .eps = (float)attr[ART_RMSPROP_STEP_A_EPS].f,
        .momentum = (float)attr[ART_RMSPROP_STEP_A_MOMENTUM].f,
        .lr = (float)(attr[ART_RMSPROP_STEP_A_LR].f * args->learning_rate_scale),
    };
    (void)err;
    art_run_spans(args, art_count(&args->operand[ART_RMSPROP_STEP_W]), 12, rmsprop, &k);
    return ART_OK;
}

/* ---- Adagrad ---- */

art_status art_op_adagrad_step_check(const art_op_args *args, art_error *err) {
    static const char *const names[] = {"adagrad_step.w", "adagrad_step.g", "adagrad_step.sum"};
    ART_TRY(check_arrays(args, names, 3, err));
    return art_check_optional_vector(args, ART_ADAGRAD_STEP_SCALE, "adagrad_step.scale",
                                     ART_DTYPE_F32, 1, err);
}

ART_NO_WORKSPACE(adagrad_step)

static void adagrad(const art_op_args *args, const void *constants, size_t first, size_t n) {
    art_vec(args)->adagrad(art_out(args, ART_ADAGRAD_STEP_W) + first,
                           art_in(args, ART_ADAGRAD_STEP_G) + first,
                           art_out(args, ART_ADAGRAD_STEP_SUM) + first, n, constants);
}

art_vec_adagrad art_adagrad_constants(const art_op_args *args, unsigned scale) {
    const art_attr *attr = args->attr;
    double lr = attr[ART_ADAGRAD_STEP_A_LR].f * args->learning_rate_scale;
    double slower = 1.0 + (double)args->step * attr[ART_ADAGRAD_STEP_A_LR_DECAY].f;
    return (art_vec_adagrad){
        .scale = scale_of(args, scale),
        .weight_decay = (float)attr[ART_ADAGRAD_STEP_A_WEIGHT_DECAY].f,
        .eps = (float)attr[ART_ADAGRAD_STEP_A_EPS].f,
        .rate = (float)(lr / slower),
    };
}

art_status art_op_adagrad_step_run(const art_op_args *args, art_error *err) {
    art_vec_adagrad k = art_adagrad_constants(args, ART_ADAGRAD_STEP_SCALE);
    (void)err;
    art_run_spans(args, art_count(&args->operand[ART_ADAGRAD_STEP_W]), 10, adagrad, &k);
    return ART_OK;
}
