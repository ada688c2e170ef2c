/* Plan files for C tests, made without Python: tensors and steps are declared, lifetimes and
 * offsets computed (first fit), workspaces added, and the file written with its checksum. Two
 * networks are ready: an MLP and a small CNN, with every phase, momentum and optional clipping. */
#ifndef ART_TESTS_PLAN_BUILDER_H
#define ART_TESTS_PLAN_BUILDER_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "art_plan.h"
#include "core/crc32.h"
#include "ops/ops.h"

#define PB_MAX 160
#define PB_BYTES 131072
#define PB_NONE ART_PLAN_NONE

typedef struct plan_builder {
    art_plan_tensor tensors[PB_MAX];
    art_plan_step steps[PB_MAX];
    uint32_t operands[PB_MAX * ART_MAX_OPERANDS];
    art_attr attrs[PB_MAX * 8];
    char strings[PB_BYTES / 8];
    uint32_t n_tensors, n_steps, n_operands, n_attrs, n_strings;
    uint32_t batch, threads;
} plan_builder;

static inline void pb_start(plan_builder *pb, uint32_t batch, uint32_t threads) {
    memset(pb, 0, sizeof *pb);
    pb->n_strings = 1;
    pb->batch = batch;
    pb->threads = threads;
}

static inline uint32_t pb_string(plan_builder *pb, const char *text) {
    uint32_t at = pb->n_strings;
    size_t size = strlen(text) + 1;
    memcpy(pb->strings + at, text, size);
    pb->n_strings += (uint32_t)size;
    return at;
}

/* A tensor whose layout is the user's own; dims end at the first 0 (at most 6). A batched
 * tensor's first dimension is the batch. */
static inline uint32_t pb_tensor(plan_builder *pb, const char *name, unsigned role, unsigned dtype,
                                 bool batched, const uint32_t *dims) {
    static const uint64_t sizes[] = {4, 8, 4, 1, 8};
    art_plan_tensor *t = &pb->tensors[pb->n_tensors];
    t->name = pb_string(pb, name);
    t->role = (uint8_t)role;
    t->dtype = (uint8_t)dtype;
    t->batched = batched;
    t->storage = pb->n_tensors;
    t->bytes = sizes[dtype];
    for (unsigned i = 0; i < ART_MAX_DIMS; i++) {
        t->ndim = (uint8_t)(dims[i] != 0 && t->ndim == i ? i + 1 : t->ndim);
        t->dims[i] = i < t->ndim ? dims[i] : 1;
        t->bytes *= t->dims[i];
        t->perm[i] = (uint8_t)i;
    }
    memcpy(t->shape, t->dims, sizeof t->shape);
    memcpy(t->view, t->dims, sizeof t->view);
    t->shape_ndim = t->ndim;
    return pb->n_tensors++;
}

#define PB_DIMS(...) ((const uint32_t[ART_MAX_DIMS + 1]){__VA_ARGS__})

static inline uint32_t pb_act(plan_builder *pb, const char *name, unsigned role,
                              const uint32_t *dims) {
    return pb_tensor(pb, name, role, ART_DTYPE_F32, true, dims);
}

/* A trained parameter of the user's shape seen as `view`, stored as permuted by `perm`. */
static inline uint32_t pb_weight(plan_builder *pb, const char *name, const uint32_t *dims,
                                 float bound) {
    uint32_t id = pb_tensor(pb, name, ART_ROLE_WEIGHT, ART_DTYPE_F32, false, dims);
    pb->tensors[id].init_kind = bound == 1.0f ? ART_INIT_CONSTANT : ART_INIT_UNIFORM;
    pb->tensors[id].init_a = bound == 1.0f ? 1.0 : -bound;
    pb->tensors[id].init_b = bound;
    return id;
}

static inline void pb_layout(plan_builder *pb, uint32_t id, const uint32_t *shape,
                             const uint32_t *view, const char *perm) {
    art_plan_tensor *t = &pb->tensors[id];
    t->shape_ndim = 0;
    for (unsigned i = 0, end = 0; i < ART_MAX_DIMS; i++) {
        end |= shape[i] == 0;
        t->shape_ndim = (uint8_t)(end ? t->shape_ndim : i + 1);
        t->shape[i] = end ? 1 : shape[i];
        t->view[i] = view[i] == 0 ? 1 : view[i];
        t->perm[i] = (uint8_t)(i < strlen(perm) ? perm[i] - '0' : (int)i);
    }
}

static inline void pb_share(plan_builder *pb, uint32_t id, uint32_t with) {
    pb->tensors[id].storage = pb->tensors[with].storage;
}

/* Bytes of workspace that the step in the making needs. */
static inline uint64_t pb_workspace(const plan_builder *pb, const art_op *op, const uint32_t *ids,
                                    const art_attr *attrs) {
    art_op_args args;
    memset(&args, 0, sizeof args);
    args.attr = attrs;
    args.n_operands = op->n_operands;
    args.threads = pb->threads;
    for (unsigned i = 0; i < op->n_operands; i++) {
        if (ids[i] != PB_NONE) {
            const art_plan_tensor *t = &pb->tensors[ids[i]];
            art_array *a = &args.operand[i];
            a->bytes = t->bytes;
            memcpy(a->dims, t->dims, sizeof a->dims);
            a->ndim = t->ndim;
            a->dtype = t->dtype;
            a->batched = t->batched;
        }
    }
    return op->workspace == NULL ? 0 : op->workspace(&args);
}

/* Append a step; its workspace, if it has one, is the last operand and is added here. */
static inline uint32_t pb_step(plan_builder *pb, unsigned code, unsigned phase, unsigned kind,
                               const char *layer, const uint32_t *ids, const art_attr *attrs) {
    const art_op *op = art_op_find(code);
    art_plan_step *s = &pb->steps[pb->n_steps];
    uint32_t filled[ART_MAX_OPERANDS];
    memcpy(filled, ids, op->n_operands * sizeof ids[0]);
    unsigned last = op->n_operands - 1u;
    if ((op->access[last] & ART_ACCESS_SCRATCH) != 0) {
        filled[last] = PB_NONE;
        uint64_t bytes = pb_workspace(pb, op, filled, attrs);
        if (bytes > 0) {
            char name[32];
            snprintf(name, sizeof name, "workspace%u", pb->n_steps);
            filled[last] = pb_tensor(pb, name, ART_ROLE_WORKSPACE, ART_DTYPE_U8, false,
                                     PB_DIMS((uint32_t)bytes));
        }
    }
    s->op = (uint16_t)code;
    s->phase = (uint8_t)phase;
    s->kind = (uint8_t)kind;
    s->layer = pb_string(pb, layer);
    s->operands = pb->n_operands;
    s->n_operands = op->n_operands;
    s->attrs = pb->n_attrs;
    s->n_attrs = op->n_attrs;
    memcpy(pb->operands + pb->n_operands, filled, op->n_operands * sizeof ids[0]);
    pb->n_operands += op->n_operands;
    if (attrs != NULL) {
        memcpy(pb->attrs + pb->n_attrs, attrs, op->n_attrs * sizeof attrs[0]);
        pb->n_attrs += op->n_attrs;
    }
    return pb->n_steps++;
}

#define PB_STEP(pb, OP, phase, kind, layer, ...)                                                   \
    pb_step(pb, ART_OP_##OP, phase, kind, layer, (const uint32_t[ART_MAX_OPERANDS]){__VA_ARGS__},  \
            NULL)
#define PB_STEP_ATTRS(pb, OP, phase, kind, layer, attrs, ...)                                      \
    pb_step(pb, ART_OP_##OP, phase, kind, layer, (const uint32_t[ART_MAX_OPERANDS]){__VA_ARGS__},  \
            attrs)

/* Steps at which tensor `id` must be in memory. */
static inline void pb_range(const plan_builder *pb, uint32_t id, uint32_t *first, uint32_t *last) {
    const art_plan_tensor *t = &pb->tensors[id];
    *first = UINT32_MAX;
    *last = 0;
    for (uint32_t s = 0; s < pb->n_steps; s++) {
        for (unsigned i = 0; i < pb->steps[s].n_operands; i++) {
            if (pb->operands[pb->steps[s].operands + i] == id) {
                *first = s < *first ? s : *first;
                *last = s + 1;
            }
        }
    }
    if (t->role <= ART_ROLE_STATE || t->role == ART_ROLE_STACK) {
        *first = 0;
        *last = pb->n_steps;
    }
    while (*first != UINT32_MAX && *first > 0 &&
           (t->role == ART_ROLE_INPUT || t->role == ART_ROLE_TARGET) &&
           pb->steps[*first - 1].phase == pb->steps[*first].phase) {
        --*first;
    }
    while (*last > 0 && *last < pb->n_steps &&
           (t->role == ART_ROLE_METRIC || t->role == ART_ROLE_OUTPUT) &&
           pb->steps[*last].phase == pb->steps[*last - 1].phase) {
        ++*last;
    }
}

/* The union of the ranges over each storage. */
static inline void pb_lifetimes(plan_builder *pb) {
    for (uint32_t i = 0; i < pb->n_tensors; i++) {
        uint32_t first = UINT32_MAX, last = 0;
        for (uint32_t j = 0; j < pb->n_tensors; j++) {
            if (pb->tensors[j].storage == pb->tensors[i].storage) {
                uint32_t a, b;
                pb_range(pb, j, &a, &b);
                first = a < first ? a : first;
                last = b > last ? b : last;
            }
        }
        pb->tensors[i].first = first;
        pb->tensors[i].last = last;
    }
}

static inline uint64_t pb_storage_bytes(const plan_builder *pb, uint32_t storage) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < pb->n_tensors; i++) {
        if (pb->tensors[i].storage == storage && pb->tensors[i].bytes > bytes) {
            bytes = pb->tensors[i].bytes;
        }
    }
    return (bytes + 63) / 64 * 64;
}

/* First fit in order of tensors: move up past every placed storage in the way. */
static inline uint64_t pb_place(plan_builder *pb) {
    uint64_t end = 0;
    for (uint32_t i = 0; i < pb->n_tensors; i++) {
        art_plan_tensor *t = &pb->tensors[i];
        uint64_t bytes = pb_storage_bytes(pb, t->storage);
        t->offset = 0;
        for (bool moved = true; moved && t->storage == i;) {
            moved = false;
            for (uint32_t j = 0; j < i; j++) {
                const art_plan_tensor *o = &pb->tensors[j];
                uint64_t other = pb_storage_bytes(pb, o->storage);
                if (t->first < o->last && o->first < t->last && t->offset < o->offset + other &&
                    o->offset < t->offset + bytes) {
                    t->offset = o->offset + other;
                    moved = true;
                }
            }
        }
        if (t->storage != i) {
            t->offset = pb->tensors[t->storage].offset;
        }
        end = t->offset + bytes > end ? t->offset + bytes : end;
    }
    return end;
}

/* Recompute the checksum of a plan that was changed in place. */
static inline void pb_seal(unsigned char *file, size_t bytes) {
    uint32_t crc = art_crc32(0, file + ART_PLAN_CRC_START, bytes - ART_PLAN_CRC_START);
    memcpy(file + offsetof(art_plan_header, crc32), &crc, sizeof crc);
}

/* Write the plan; out has PB_BYTES bytes and is 8-byte aligned. Returns the file's bytes. */
static inline size_t pb_finish(plan_builder *pb, unsigned char *out) {
    if (pb->threads > 1) {
        pb_tensor(pb, "thread_stacks", ART_ROLE_STACK, ART_DTYPE_U8, false,
                  PB_DIMS((pb->threads - 1) * ART_STACK_BYTES));
    }
    pb_lifetimes(pb);
    art_plan_header h = {.version_major = 1, .header_bytes = sizeof h, .alignment = 64};
    h.arena_bytes = h.proved_minimum_bytes = h.lower_bound_bytes = pb_place(pb);
    memcpy(h.magic, ART_PLAN_MAGIC, 8);
    h.batch_size = pb->batch;
    h.threads = pb->threads;
    for (uint32_t i = 0; i < pb->n_steps; i++) {
        h.n_train_steps += pb->steps[i].phase == ART_PHASE_TRAIN;
        h.n_evaluate_steps += pb->steps[i].phase == ART_PHASE_EVALUATE;
        h.n_predict_steps += pb->steps[i].phase == ART_PHASE_PREDICT;
    }
    const struct {
        const void *data;
        uint64_t count, size;
    } parts[ART_PLAN_N_SECTIONS] = {
        {pb->tensors, pb->n_tensors, sizeof(art_plan_tensor)},
        {pb->steps, pb->n_steps, sizeof(art_plan_step)},
        {pb->operands, pb->n_operands, sizeof(uint32_t)},
        {pb->attrs, pb->n_attrs, sizeof(art_attr)},
        {"", 0, sizeof(art_plan_swap)},
        {pb->strings, pb->n_strings, 1},
        {"{}", 2, 1},
    };
    uint64_t end = sizeof h;
    memset(out, 0, PB_BYTES);
    for (int i = 0; i < ART_PLAN_N_SECTIONS; i++) {
        uint64_t extent[2] = {(end + 7) / 8 * 8, parts[i].count};
        memcpy((unsigned char *)&h + offsetof(art_plan_header, tensors_offset) + 16 * i, extent,
               16);
        memcpy(out + extent[0], parts[i].data, parts[i].count * parts[i].size);
        end = extent[0] + parts[i].count * parts[i].size;
    }
    h.file_bytes = end;
    memcpy(out, &h, sizeof h);
    pb_seal(out, end);
    return end;
}

/* A parameter with its gradient and the state that the optimiser calls `state`. */
typedef struct pb_param {
    uint32_t w, g, m;
} pb_param;

static inline pb_param pb_parameter_with(plan_builder *pb, const char *name, const char *state,
                                         const uint32_t *dims, float bound) {
    char text[64];
    pb_param p;
    p.w = pb_weight(pb, name, dims, bound);
    snprintf(text, sizeof text, "%s/%s", name, state);
    p.m = pb_tensor(pb, text, ART_ROLE_STATE, ART_DTYPE_F32, false, dims);
    snprintf(text, sizeof text, "%s.grad", name);
    p.g = pb_tensor(pb, text, ART_ROLE_GRADIENT, ART_DTYPE_F32, false, dims);
    return p;
}

static inline pb_param pb_parameter(plan_builder *pb, const char *name, const uint32_t *dims,
                                    float bound) {
    return pb_parameter_with(pb, name, "momentum", dims, bound);
}

static inline void pb_apply(plan_builder *pb, const pb_param *p, uint32_t scale,
                            const char *layer) {
    const art_attr sgd[5] = {{.f = 0.05}, {.f = 0.9}, {.f = 0}, {.f = 1e-4}, {.i = 0}};
    PB_STEP_ATTRS(pb, SGD_STEP, ART_PHASE_TRAIN, 3, layer, sgd, p->w, p->g, p->m, scale);
}

/* Apply all parameters at once after clipping, or nothing (they were applied one by one). */
static inline void pb_clip(plan_builder *pb, const pb_param *params, unsigned n, uint32_t acc) {
    uint32_t scale = pb_tensor(pb, "clip_scale", ART_ROLE_METRIC, ART_DTYPE_F32, false, PB_DIMS(1));
    for (unsigned i = 0; i < n; i++) {
        const art_attr index = {.i = i};
        PB_STEP_ATTRS(pb, GRAD_SUMSQ, ART_PHASE_TRAIN, 1, "clip", &index, params[i].g, acc);
    }
    const art_attr norm = {.f = 1.0};
    PB_STEP_ATTRS(pb, CLIP_SCALE, ART_PHASE_TRAIN, 3, "clip", &norm, acc, scale);
    for (unsigned i = 0; i < n; i++) {
        pb_apply(pb, &params[i], scale, "clip");
    }
}

static inline uint32_t pb_metric(plan_builder *pb, const char *name, unsigned dtype) {
    return pb_tensor(pb, name, ART_ROLE_METRIC, dtype, false, PB_DIMS(1));
}

static inline uint32_t pb_labels(plan_builder *pb, const char *name) {
    return pb_tensor(pb, name, ART_ROLE_TARGET, ART_DTYPE_I32, true, PB_DIMS(pb->batch));
}

enum { MLP_IN = 8, MLP_HIDDEN = 16, MLP_OUT = 3 };

/* Linear, ReLU (in place), Linear in one phase; returns the logits, *x and *h its values. */
static inline uint32_t mlp_forward(plan_builder *pb, unsigned phase, const pb_param p[4],
                                   uint32_t *x, uint32_t *h) {
    char name[4][16];
    const char *kinds[4] = {"x", "a", "h", "logits"};
    for (int i = 0; i < 4; i++) {
        snprintf(name[i], sizeof name[i], "%s.%u", kinds[i], phase);
    }
    *x = pb_act(pb, name[0], ART_ROLE_INPUT, PB_DIMS(pb->batch, MLP_IN));
    uint32_t a = pb_act(pb, name[1], ART_ROLE_ACTIVATION, PB_DIMS(pb->batch, MLP_HIDDEN));
    *h = pb_act(pb, name[2], ART_ROLE_ACTIVATION, PB_DIMS(pb->batch, MLP_HIDDEN));
    pb_share(pb, *h, a);
    uint32_t y =
        pb_act(pb, name[3], phase == ART_PHASE_PREDICT ? ART_ROLE_OUTPUT : ART_ROLE_ACTIVATION,
               PB_DIMS(pb->batch, MLP_OUT));
    PB_STEP(pb, LINEAR_FWD, phase, 0, "0", *x, p[0].w, p[1].w, a);
    PB_STEP(pb, RELU_FWD, phase, 0, "1", a, *h);
    PB_STEP(pb, LINEAR_FWD, phase, 0, "2", *h, p[2].w, p[3].w, y);
    return y;
}

static inline void mlp_backward(plan_builder *pb, const pb_param p[4], uint32_t x, uint32_t h,
                                uint32_t dy, bool clip) {
    uint32_t dh = pb_act(pb, "h.d", ART_ROLE_DERIVATIVE, PB_DIMS(pb->batch, MLP_HIDDEN));
    uint32_t da = pb_act(pb, "a.d", ART_ROLE_DERIVATIVE, PB_DIMS(pb->batch, MLP_HIDDEN));
    pb_share(pb, da, dh);
    PB_STEP(pb, LINEAR_GRAD_W, ART_PHASE_TRAIN, 1, "2", h, dy, p[2].g, p[3].g);
    PB_STEP(pb, LINEAR_GRAD_X, ART_PHASE_TRAIN, 2, "2", dy, p[2].w, dh);
    if (!clip) {
        pb_apply(pb, &p[2], PB_NONE, "2");
        pb_apply(pb, &p[3], PB_NONE, "2");
    }
    PB_STEP(pb, RELU_GRAD, ART_PHASE_TRAIN, 2, "1", h, dh, da);
    PB_STEP(pb, LINEAR_GRAD_W, ART_PHASE_TRAIN, 1, "0", x, da, p[0].g, p[1].g);
    if (!clip) {
        pb_apply(pb, &p[0], PB_NONE, "0");
        pb_apply(pb, &p[1], PB_NONE, "0");
        return;
    }
    uint32_t acc = pb_tensor(pb, "norms", ART_ROLE_METRIC, ART_DTYPE_F64, false, PB_DIMS(4));
    pb_clip(pb, p, 4, acc);
}

/* The 8-16-3 MLP with cross entropy; returns the plan's bytes. */
static inline size_t build_mlp(unsigned char *out, uint32_t batch, uint32_t threads, bool clip) {
    static plan_builder pb;
    uint32_t x, h;
    pb_start(&pb, batch, threads);
    const pb_param p[4] = {pb_parameter(&pb, "0.weight", PB_DIMS(MLP_IN, MLP_HIDDEN), 0.35f),
                           pb_parameter(&pb, "0.bias", PB_DIMS(MLP_HIDDEN), 0.35f),
                           pb_parameter(&pb, "2.weight", PB_DIMS(MLP_HIDDEN, MLP_OUT), 0.25f),
                           pb_parameter(&pb, "2.bias", PB_DIMS(MLP_OUT), 0.25f)};
    const uint32_t user0[7] = {MLP_HIDDEN, MLP_IN}, user2[7] = {MLP_OUT, MLP_HIDDEN};
    for (int i = 0; i < 2; i++) {
        pb_layout(&pb, i == 0 ? p[0].w : p[0].m, user0, user0, "10");
        pb_layout(&pb, i == 0 ? p[2].w : p[2].m, user2, user2, "10");
    }
    uint32_t logits = mlp_forward(&pb, ART_PHASE_TRAIN, p, &x, &h);
    uint32_t target = pb_labels(&pb, "target.0"), loss = pb_metric(&pb, "loss.0", ART_DTYPE_F64);
    uint32_t dy = pb_act(&pb, "logits.d", ART_ROLE_DERIVATIVE, PB_DIMS(batch, MLP_OUT));
    pb_share(&pb, dy, logits);
    PB_STEP(&pb, CROSS_ENTROPY_GRAD, ART_PHASE_TRAIN, 4, "loss", logits, target, loss, dy);
    mlp_backward(&pb, p, x, h, dy, clip);
    logits = mlp_forward(&pb, ART_PHASE_EVALUATE, p, &x, &h);
    target = pb_labels(&pb, "target.1");
    loss = pb_metric(&pb, "loss.1", ART_DTYPE_F64);
    uint32_t correct = pb_metric(&pb, "correct.1", ART_DTYPE_I64);
    PB_STEP(&pb, CROSS_ENTROPY_EVAL, ART_PHASE_EVALUATE, 4, "loss", logits, target, loss, correct);
    mlp_forward(&pb, ART_PHASE_PREDICT, p, &x, &h);
    return pb_finish(&pb, out);
}

#endif
