/* Dropout keeps no mask: forward and gradient draw it again from (seed, layer's stream, step,
 * element), see art_dropout_stream. */
#include <math.h>

#include "core/rng.h"
#include "ops/op_functions.h"
#include "ops/spans.h"

_Static_assert((int)ART_DROPOUT_FWD_X == (int)ART_DROPOUT_GRAD_DY &&
                   (int)ART_DROPOUT_FWD_Y == (int)ART_DROPOUT_GRAD_DX &&
                   (int)ART_DROPOUT_FWD_A_P == (int)ART_DROPOUT_GRAD_A_P &&
                   (int)ART_DROPOUT_FWD_A_STREAM == (int)ART_DROPOUT_GRAD_A_STREAM,
               "forward and gradient are one function on slots of the same numbers");

static art_status check(const art_op_args *args, const char *from, const char *to, art_error *err) {
    ART_TRY(art_check_operand(args, ART_DROPOUT_FWD_X, from, ART_DTYPE_F32, ART_ANY_RANK, err));
    ART_TRY(art_check_operand(args, ART_DROPOUT_FWD_Y, to, ART_DTYPE_F32, ART_ANY_RANK, err));
    return art_check_matches(args, ART_DROPOUT_FWD_Y, to, ART_DROPOUT_FWD_X, err);
}

static void drop(const art_op_args *args, const void *constants, size_t first, size_t n) {
    art_vec(args)->dropout(art_out(args, ART_DROPOUT_FWD_Y) + first,
                           art_in(args, ART_DROPOUT_FWD_X) + first, n, constants, first);
}

static art_status run(const art_op_args *args) {
    double p = args->attr[ART_DROPOUT_FWD_A_P].f;
    uint64_t stream = (uint64_t)args->attr[ART_DROPOUT_FWD_A_STREAM].i;
    art_vec_mask mask = {
        .seed = args->seed,
        .stream = art_dropout_stream(stream, args->step),
        .threshold = (uint32_t)ceil(p * 0x1p24),
        .scale = p < 1.0 ? (float)(1.0 / (1.0 - p)) : 0.0f,
    };
    art_run_spans(args, art_count(&args->operand[ART_DROPOUT_FWD_X]), 15, drop, &mask);
    return ART_OK;
}

art_status art_op_dropout_fwd_check(const art_op_args *args, art_error *err) {
    return check(args, "dropout_fwd.x", "dropout_fwd.y", err);
}

ART_NO_WORKSPACE(dropout_fwd)

art_status art_op_dropout_fwd_run(const art_op_args *args, art_error *err) {
    (void)err;
    return run(args);
}

art_status art_op_dropout_grad_check(const art_op_args *args, art_error *err) {
    return check(args, "dropout_grad.dy", "dropout_grad.dx", err);
}

ART_NO_WORKSPACE(dropout_grad)

art_status art_op_dropout_grad_run(const art_op_args *args, art_error *err) {
    (void)err;
    return run(args);
}
