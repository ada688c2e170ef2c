/* A small residual CNN for C tests that has most operations of the catalogue: two convolutions
 * (one grouped), batch norm, ReLU, max and average pooling, tanh, dropout, an addition, a linear
 * layer, cross entropy or MSE, SGD and Adam. */
#ifndef ART_TESTS_PLAN_CNN_H
#define ART_TESTS_PLAN_CNN_H

#include "plan_builder.h"

enum { CNN_SIDE = 6, CNN_IN = 2, CNN_MID = 4, CNN_OUT = 3 };

typedef struct cnn {
    plan_builder pb;
    pb_param w1, b1, gamma, beta, w2, w3, b3;
    uint32_t mean, var, v1; /* Adam's second moment of w1 lives in v1, the first in w1.m */
    uint32_t x, c1, save_mean, save_invstd, r1, p1, idx, t2, d2, pooled, flat, y;
} cnn;

static const art_attr cnn_conv1[9] = {{.i = 1}, {.i = 1}, {.i = 1}, {.i = 1},
                                      {.i = 1}, {.i = 1}, {.i = 1}};
static const art_attr cnn_conv2[9] = {{.i = 1}, {.i = 1}, {.i = 1}, {.i = 1},
                                      {.i = 1}, {.i = 1}, {.i = 2}};
static const art_attr cnn_max[10] = {{.i = 2}, {.i = 2}, {.i = 2}, {.i = 2},
                                     {.i = 0}, {.i = 0}, {.i = 1}, {.i = 1}};
static const art_attr cnn_avg[10] = {{.i = 3}, {.i = 3}, {.i = 3}, {.i = 3},
                                     {.i = 0}, {.i = 0}, {.i = 1}};
static const art_attr cnn_norm[2] = {{.f = 1e-5}, {.f = 0.1}};
static const art_attr cnn_drop[2] = {{.f = 0.25}, {.i = 77}};

static inline void cnn_conv_layout(plan_builder *pb, uint32_t id, uint32_t out, uint32_t in,
                                   uint32_t groups) {
    const uint32_t shape[7] = {out, in / groups, 3, 3};
    const uint32_t view[7] = {groups, out / groups, in / groups, 3, 3};
    pb_layout(pb, id, shape, view, "03421");
}

static inline void cnn_parameters(cnn *n) {
    plan_builder *pb = &n->pb;
    const uint32_t user3[7] = {CNN_OUT, CNN_MID};
    n->w1 =
        pb_parameter_with(pb, "conv1.weight", "exp_avg", PB_DIMS(1, 3, 3, CNN_IN, CNN_MID), 0.2f);
    n->b1 = pb_parameter(pb, "conv1.bias", PB_DIMS(CNN_MID), 0.2f);
    n->gamma = pb_parameter(pb, "bn1.weight", PB_DIMS(CNN_MID), 1.0f);
    n->beta = pb_parameter(pb, "bn1.bias", PB_DIMS(CNN_MID), 0.1f);
    n->w2 = pb_parameter(pb, "conv2.weight", PB_DIMS(2, 3, 3, CNN_MID / 2, CNN_MID / 2), 0.2f);
    n->w3 = pb_parameter(pb, "fc.weight", PB_DIMS(CNN_MID, CNN_OUT), 0.5f);
    n->b3 = pb_parameter(pb, "fc.bias", PB_DIMS(CNN_OUT), 0.5f);
    cnn_conv_layout(pb, n->w1.w, CNN_MID, CNN_IN, 1);
    cnn_conv_layout(pb, n->w2.w, CNN_MID, CNN_MID, 2);
    pb_layout(pb, n->w3.w, user3, user3, "10");
    n->v1 = pb_tensor(pb, "conv1.weight/exp_avg_sq", ART_ROLE_STATE, ART_DTYPE_F32, false,
                      PB_DIMS(1, 3, 3, CNN_IN, CNN_MID));
    n->mean =
        pb_tensor(pb, "bn1.running_mean", ART_ROLE_BUFFER, ART_DTYPE_F32, false, PB_DIMS(CNN_MID));
    n->var =
        pb_tensor(pb, "bn1.running_var", ART_ROLE_BUFFER, ART_DTYPE_F32, false, PB_DIMS(CNN_MID));
    pb->tensors[n->var].init_kind = ART_INIT_CONSTANT;
    pb->tensors[n->var].init_a = 1.0;
}

/* An activation named after the phase. */
static inline uint32_t cnn_act(cnn *n, const char *name, unsigned phase, unsigned role,
                               const uint32_t *dims) {
    char text[32];
    snprintf(text, sizeof text, "%s.%u", name, phase);
    return pb_act(&n->pb, text, role, dims);
}

static inline void cnn_first_half(cnn *n, unsigned phase) {
    plan_builder *pb = &n->pb;
    const uint32_t batch = pb->batch;
    const uint32_t user[7] = {batch, CNN_IN, CNN_SIDE, CNN_SIDE};
    const uint32_t *full = PB_DIMS(batch, CNN_SIDE, CNN_SIDE, CNN_MID);
    n->x = cnn_act(n, "x", phase, ART_ROLE_INPUT, PB_DIMS(batch, CNN_SIDE, CNN_SIDE, CNN_IN));
    pb_layout(pb, n->x, user, user, "0231");
    n->c1 = cnn_act(n, "c1", phase, ART_ROLE_ACTIVATION, full);
    uint32_t norm = cnn_act(n, "n1", phase, ART_ROLE_ACTIVATION, full);
    n->r1 = cnn_act(n, "r1", phase, ART_ROLE_ACTIVATION, full);
    n->p1 = cnn_act(n, "p1", phase, ART_ROLE_ACTIVATION, PB_DIMS(batch, 3, 3, CNN_MID));
    PB_STEP_ATTRS(pb, CONV2D_FWD, phase, 0, "conv1", cnn_conv1, n->x, n->w1.w, n->b1.w, n->c1);
    n->idx = PB_NONE;
    if (phase == ART_PHASE_TRAIN) {
        n->save_mean =
            pb_tensor(pb, "mean", ART_ROLE_SAVED, ART_DTYPE_F32, false, PB_DIMS(CNN_MID));
        n->save_invstd =
            pb_tensor(pb, "invstd", ART_ROLE_SAVED, ART_DTYPE_F32, false, PB_DIMS(CNN_MID));
        n->idx =
            pb_tensor(pb, "idx", ART_ROLE_SAVED, ART_DTYPE_U8, true, PB_DIMS(batch, 3, 3, CNN_MID));
        PB_STEP_ATTRS(pb, BATCHNORM2D_FWD, phase, 0, "bn1", cnn_norm, n->c1, n->gamma.w, n->beta.w,
                      n->mean, n->var, norm, n->save_mean, n->save_invstd);
    } else {
        pb_share(pb, norm, n->c1);
        PB_STEP_ATTRS(pb, BATCHNORM2D_EVAL, phase, 0, "bn1", cnn_norm, n->c1, n->gamma.w, n->beta.w,
                      n->mean, n->var, norm);
    }
    pb_share(pb, n->r1, norm);
    PB_STEP(pb, RELU_FWD, phase, 0, "relu", norm, n->r1);
    PB_STEP_ATTRS(pb, MAXPOOL2D_FWD, phase, 0, "pool1", cnn_max, n->r1, n->p1, n->idx);
}

static inline void cnn_second_half(cnn *n, unsigned phase) {
    plan_builder *pb = &n->pb;
    const uint32_t batch = pb->batch, *small = PB_DIMS(batch, 3, 3, CNN_MID);
    uint32_t c2 = cnn_act(n, "c2", phase, ART_ROLE_ACTIVATION, small);
    n->t2 = cnn_act(n, "t2", phase, ART_ROLE_ACTIVATION, small);
    pb_share(pb, n->t2, c2);
    PB_STEP_ATTRS(pb, CONV2D_FWD, phase, 0, "conv2", cnn_conv2, n->p1, n->w2.w, PB_NONE, c2);
    PB_STEP(pb, TANH_FWD, phase, 0, "tanh", c2, n->t2);
    n->d2 = n->t2;
    if (phase == ART_PHASE_TRAIN) {
        n->d2 = cnn_act(n, "d2", phase, ART_ROLE_ACTIVATION, small);
        PB_STEP_ATTRS(pb, DROPOUT_FWD, phase, 0, "drop", cnn_drop, n->t2, n->d2);
    }
    uint32_t sum = cnn_act(n, "sum", phase, ART_ROLE_ACTIVATION, small);
    pb->tensors[sum].storage = pb->tensors[n->d2].storage;
    PB_STEP(pb, ADD, phase, 0, "add", n->d2, n->p1, sum);
    n->pooled = cnn_act(n, "pooled", phase, ART_ROLE_ACTIVATION, PB_DIMS(batch, 1, 1, CNN_MID));
    n->flat = cnn_act(n, "flat", phase, ART_ROLE_ACTIVATION, PB_DIMS(batch, CNN_MID));
    pb_share(pb, n->flat, n->pooled);
    PB_STEP_ATTRS(pb, AVGPOOL2D_FWD, phase, 0, "pool2", cnn_avg, sum, n->pooled);
    n->y =
        cnn_act(n, "y", phase, phase == ART_PHASE_PREDICT ? ART_ROLE_OUTPUT : ART_ROLE_ACTIVATION,
                PB_DIMS(batch, CNN_OUT));
    PB_STEP(pb, LINEAR_FWD, phase, 0, "fc", n->flat, n->w3.w, n->b3.w, n->y);
}

static inline void cnn_loss(cnn *n, unsigned phase, bool mse, uint32_t dy) {
    plan_builder *pb = &n->pb;
    char text[16];
    snprintf(text, sizeof text, "target.%u", phase);
    uint32_t target =
        mse ? pb_act(pb, text, ART_ROLE_TARGET, PB_DIMS(pb->batch, CNN_OUT)) : pb_labels(pb, text);
    snprintf(text, sizeof text, "loss.%u", phase);
    uint32_t loss = pb_metric(pb, text, ART_DTYPE_F64);
    if (phase == ART_PHASE_TRAIN) {
        if (mse) {
            PB_STEP(pb, MSE_GRAD, phase, 4, "loss", n->y, target, loss, dy);
        } else {
            PB_STEP(pb, CROSS_ENTROPY_GRAD, phase, 4, "loss", n->y, target, loss, dy);
        }
    } else if (mse) {
        PB_STEP(pb, MSE_EVAL, phase, 4, "loss", n->y, target, loss);
    } else {
        uint32_t correct = pb_metric(pb, "correct.1", ART_DTYPE_I64);
        PB_STEP(pb, CROSS_ENTROPY_EVAL, phase, 4, "loss", n->y, target, loss, correct);
    }
}

/* From the loss back to the addition; returns the derivative of the sum. */
static inline uint32_t cnn_backward_head(cnn *n, uint32_t dy) {
    plan_builder *pb = &n->pb;
    const uint32_t batch = pb->batch;
    uint32_t dflat = pb_act(pb, "flat.d", ART_ROLE_DERIVATIVE, PB_DIMS(batch, CNN_MID));
    uint32_t dpooled = pb_act(pb, "pooled.d", ART_ROLE_DERIVATIVE, PB_DIMS(batch, 1, 1, CNN_MID));
    uint32_t dsum = pb_act(pb, "sum.d", ART_ROLE_DERIVATIVE, PB_DIMS(batch, 3, 3, CNN_MID));
    pb_share(pb, dpooled, dflat);
    PB_STEP(pb, LINEAR_GRAD_W, ART_PHASE_TRAIN, 1, "fc", n->flat, dy, n->w3.g, n->b3.g);
    PB_STEP(pb, LINEAR_GRAD_X, ART_PHASE_TRAIN, 2, "fc", dy, n->w3.w, dflat);
    pb_apply(pb, &n->w3, PB_NONE, "fc");
    pb_apply(pb, &n->b3, PB_NONE, "fc");
    PB_STEP_ATTRS(pb, AVGPOOL2D_GRAD, ART_PHASE_TRAIN, 2, "pool2", cnn_avg, dpooled, dsum);
    return dsum;
}

/* Through the branch with conv2; returns the derivative of p1. */
static inline uint32_t cnn_backward_branch(cnn *n, uint32_t dsum) {
    plan_builder *pb = &n->pb;
    const uint32_t *small = PB_DIMS(pb->batch, 3, 3, CNN_MID);
    uint32_t dd2 = pb_act(pb, "d2.d", ART_ROLE_DERIVATIVE, small);
    uint32_t dc2 = pb_act(pb, "c2.d", ART_ROLE_DERIVATIVE, small);
    uint32_t through = pb_act(pb, "p1.d.conv2", ART_ROLE_DERIVATIVE, small);
    uint32_t dp1 = pb_act(pb, "p1.d", ART_ROLE_DERIVATIVE, small);
    pb_share(pb, dc2, dd2);
    pb_share(pb, dp1, dsum);
    PB_STEP_ATTRS(pb, DROPOUT_GRAD, ART_PHASE_TRAIN, 2, "drop", cnn_drop, dsum, dd2);
    PB_STEP(pb, TANH_GRAD, ART_PHASE_TRAIN, 2, "tanh", n->t2, dd2, dc2);
    PB_STEP_ATTRS(pb, CONV2D_GRAD_W, ART_PHASE_TRAIN, 1, "conv2", cnn_conv2, n->p1, dc2, n->w2.g,
                  PB_NONE);
    PB_STEP_ATTRS(pb, CONV2D_GRAD_X, ART_PHASE_TRAIN, 2, "conv2", cnn_conv2, dc2, n->w2.w, through);
    pb_apply(pb, &n->w2, PB_NONE, "conv2");
    PB_STEP(pb, ADD, ART_PHASE_TRAIN, 2, "add", dsum, through, dp1);
    return dp1;
}

static inline void cnn_backward_stem(cnn *n, uint32_t dp1) {
    plan_builder *pb = &n->pb;
    const uint32_t *full = PB_DIMS(pb->batch, CNN_SIDE, CNN_SIDE, CNN_MID);
    const art_attr adam[5] = {{.f = 0.01}, {.f = 0.9}, {.f = 0.999}, {.f = 1e-8}, {.f = 0}};
    uint32_t dr1 = pb_act(pb, "r1.d", ART_ROLE_DERIVATIVE, full);
    uint32_t dn1 = pb_act(pb, "n1.d", ART_ROLE_DERIVATIVE, full);
    uint32_t dc1 = pb_act(pb, "c1.d", ART_ROLE_DERIVATIVE, full);
    pb_share(pb, dn1, dr1);
    pb_share(pb, dc1, dr1);
    PB_STEP_ATTRS(pb, MAXPOOL2D_GRAD, ART_PHASE_TRAIN, 2, "pool1", cnn_max, dp1, n->idx, dr1);
    PB_STEP(pb, RELU_GRAD, ART_PHASE_TRAIN, 2, "relu", n->r1, dr1, dn1);
    PB_STEP(pb, BATCHNORM2D_GRAD, ART_PHASE_TRAIN, 1, "bn1", n->c1, n->gamma.w, n->save_mean,
            n->save_invstd, dn1, dc1, n->gamma.g, n->beta.g);
    pb_apply(pb, &n->gamma, PB_NONE, "bn1");
    pb_apply(pb, &n->beta, PB_NONE, "bn1");
    PB_STEP_ATTRS(pb, CONV2D_GRAD_W, ART_PHASE_TRAIN, 1, "conv1", cnn_conv1, n->x, dc1, n->w1.g,
                  n->b1.g);
    PB_STEP_ATTRS(pb, ADAM_STEP, ART_PHASE_TRAIN, 3, "conv1", adam, n->w1.w, n->w1.g, n->w1.m,
                  n->v1, PB_NONE);
    pb_apply(pb, &n->b1, PB_NONE, "conv1");
}

/* The whole plan; returns its bytes. */
static inline size_t build_cnn(unsigned char *out, uint32_t batch, uint32_t threads, bool mse) {
    static cnn n;
    pb_start(&n.pb, batch, threads);
    cnn_parameters(&n);
    cnn_first_half(&n, ART_PHASE_TRAIN);
    cnn_second_half(&n, ART_PHASE_TRAIN);
    uint32_t dy = pb_act(&n.pb, "y.d", ART_ROLE_DERIVATIVE, PB_DIMS(batch, CNN_OUT));
    pb_share(&n.pb, dy, n.y);
    cnn_loss(&n, ART_PHASE_TRAIN, mse, dy);
    cnn_backward_stem(&n, cnn_backward_branch(&n, cnn_backward_head(&n, dy)));
    cnn_first_half(&n, ART_PHASE_EVALUATE);
    cnn_second_half(&n, ART_PHASE_EVALUATE);
    cnn_loss(&n, ART_PHASE_EVALUATE, mse, PB_NONE);
    cnn_first_half(&n, ART_PHASE_PREDICT);
    cnn_second_half(&n, ART_PHASE_PREDICT);
    return pb_finish(&n.pb, out);
}

#endif
