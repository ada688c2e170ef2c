/* Where do samples enter a phase, and where do loss and results leave it? */
#include "engine/plan.h"
#include "ops/targets.h"

typedef struct loss_op {
    unsigned code;
    unsigned phase;
    unsigned logits, target, loss; /* slots */
    int correct;                   /* slot or -1 */
    int ignored;                   /* attribute or -1 */
    unsigned targets;              /* ART_TARGETS_* of float targets */
    int logarithms;                /* attribute that makes it the next of them, or -1 */
} loss_op;

/* The training or the evaluation step of a loss of `y`. */
#define LOSS_STEP(NAME, PHASE, y, correct, ignored, targets, logarithms)                           \
    {                                                                                              \
        ART_OP_##NAME, ART_PHASE_##PHASE, ART_##NAME##_##y, ART_##NAME##_TARGET,                   \
            ART_##NAME##_LOSS, correct, ignored, ART_TARGETS_##targets, logarithms                 \
    }

/* Both steps of a loss of floats, without a count of right samples. */
#define FLOAT_LOSS(NAME, targets, logarithms)                                                      \
    LOSS_STEP(NAME##_GRAD, TRAIN, Y, -1, -1, targets, logarithms),                                 \
        LOSS_STEP(NAME##_EVAL, EVALUATE, Y, -1, -1, targets, logarithms)

/* Both steps of a loss of labels, some of which may be ignored. */
#define LABEL_LOSS(NAME, correct, targets)                                                         \
    LOSS_STEP(NAME##_GRAD, TRAIN, Y, -1, ART_##NAME##_GRAD_A_IGNORE_INDEX, targets, -1),           \
        LOSS_STEP(NAME##_EVAL, EVALUATE, Y, correct, ART_##NAME##_EVAL_A_IGNORE_INDEX, targets,    \
                  -1)

_Static_assert((int)ART_KL_DIV_GRAD_A_LOG_TARGET == (int)ART_KL_DIV_EVAL_A_LOG_TARGET,
               "both steps of a divergence have their attributes in one order");

static const loss_op loss_ops[] = {
    LOSS_STEP(CROSS_ENTROPY_GRAD, TRAIN, LOGITS, -1, -1, ANY, -1),
    LOSS_STEP(CROSS_ENTROPY_EVAL, EVALUATE, LOGITS, ART_CROSS_ENTROPY_EVAL_CORRECT, -1, ANY, -1),
    LABEL_LOSS(WEIGHTED_CROSS_ENTROPY, ART_WEIGHTED_CROSS_ENTROPY_EVAL_CORRECT, ANY),
    LABEL_LOSS(NLL, ART_NLL_EVAL_CORRECT, ANY),
    LABEL_LOSS(PLACES_CROSS_ENTROPY, -1, PLACES),
    FLOAT_LOSS(SOFT_CROSS_ENTROPY, CLASSES, -1),
    FLOAT_LOSS(MSE, ANY, -1),
    FLOAT_LOSS(HUBER, ANY, -1),
    FLOAT_LOSS(KL_DIV, PROBABILITIES, ART_KL_DIV_GRAD_A_LOG_TARGET),
    FLOAT_LOSS(BCE_WITH_LOGITS, BINARY, -1),
    FLOAT_LOSS(COSINE_EMBEDDING, PAIRS, -1),
};

static const char *const phase_names[3] = {"train", "evaluate", "predict"};

static const loss_op *find_loss_op(unsigned code, unsigned phase) {
    for (size_t i = 0; i < sizeof loss_ops / sizeof loss_ops[0]; i++) {
        if (loss_ops[i].code == code && loss_ops[i].phase == phase) {
            return &loss_ops[i];
        }
    }
    return NULL;
}

/* The only tensor of a role that is live at a step. */
static art_status find_live(const art_plan *plan, unsigned role, uint32_t step, const char *what,
                            uint32_t *found, art_error *err) {
    *found = ART_PLAN_NONE;
    for (uint32_t i = 0; i < plan->n_tensors; i++) {
        const art_plan_tensor *t = &plan->tensors[i];
        if (t->role != role || step < t->first || step >= t->last) {
            continue;
        }
        ART_FAIL_IF(*found != ART_PLAN_NONE, err, ART_PLAN_FORMAT,
                    "two tensors '%s' and '%s' are the %s at step %u", art_plan_name(plan, *found),
                    art_plan_name(plan, i), what, step);
        *found = i;
    }
    ART_FAIL_IF(*found == ART_PLAN_NONE, err, ART_PLAN_FORMAT, "no tensor is the %s at step %u",
                what, step);
    const art_plan_tensor *t = &plan->tensors[*found];
    ART_FAIL_IF(t->dtype != ART_DTYPE_F32 || !t->batched, err, ART_PLAN_FORMAT,
                "the %s '%s' is not a float32 batch", what, art_plan_name(plan, *found));
    return ART_OK;
}

static art_status check_metric(const art_plan *plan, uint32_t tensor, unsigned dtype,
                               art_error *err) {
    const art_plan_tensor *t = &plan->tensors[tensor];
    ART_FAIL_IF(t->role != ART_ROLE_METRIC || t->dtype != dtype || t->bytes != 8, err,
                ART_PLAN_FORMAT, "'%s' has role %u, type %u and %llu bytes; a result of 8 expected",
                art_plan_name(plan, tensor), t->role, t->dtype, (unsigned long long)t->bytes);
    return ART_OK;
}

static art_status check_target(const art_plan *plan, const art_phase_io *io, art_error *err) {
    const art_plan_tensor *t = &plan->tensors[io->target];
    bool labels = t->dtype == ART_DTYPE_I32 && t->bytes == 4ull * plan->header->batch_size;
    ART_FAIL_IF(t->role != ART_ROLE_TARGET || !t->batched || (!labels && t->dtype != ART_DTYPE_F32),
                err, ART_PLAN_FORMAT, "the loss's target '%s' is not a batch of labels or float32",
                art_plan_name(plan, io->target));
    ART_FAIL_IF(t->first > io->first, err, ART_PLAN_BUFFER,
                "the target '%s' is live from step %u only, the batch arrives before step %u",
                art_plan_name(plan, io->target), t->first, io->first);
    return ART_OK;
}

/* An integer attribute of a step; `otherwise` where it has none. */
static int64_t attribute(const art_plan *plan, uint32_t step, int index, int64_t otherwise) {
    return index < 0 ? otherwise : plan->attrs[plan->steps[step].attrs + (uint32_t)index].i;
}

static art_status find_loss(const art_plan *plan, unsigned phase, art_phase_io *io,
                            art_error *err) {
    for (uint32_t step = io->first; step < io->last; step++) {
        const loss_op *op = find_loss_op(plan->steps[step].op, phase);
        if (op == NULL) {
            continue;
        }
        ART_FAIL_IF(io->loss_step != io->last, err, ART_PLAN_FORMAT,
                    "the %s phase has two losses, at steps %u and %u", phase_names[phase],
                    io->loss_step, step);
        io->loss_step = step;
        io->logits = art_plan_operand(plan, step, op->logits);
        io->target = art_plan_operand(plan, step, op->target);
        io->loss = art_plan_operand(plan, step, op->loss);
        io->correct =
            op->correct < 0 ? ART_PLAN_NONE : art_plan_operand(plan, step, (unsigned)op->correct);
        io->ignored = attribute(plan, step, op->ignored, ART_NO_LABEL);
        io->targets = op->targets + (attribute(plan, step, op->logarithms, 0) != 0);
    }
    ART_FAIL_IF(io->loss_step == io->last, err, ART_PLAN_FORMAT, "the %s phase has no loss",
                phase_names[phase]);
    ART_TRY(check_metric(plan, io->loss, ART_DTYPE_F64, err));
    if (io->correct != ART_PLAN_NONE) {
        ART_TRY(check_metric(plan, io->correct, ART_DTYPE_I64, err));
    }
    return check_target(plan, io, err);
}

/* All phases take the same samples. */
static art_status check_same(const art_plan *plan, const char *what, uint32_t *seen,
                             uint32_t tensor, art_error *err) {
    if (tensor == ART_PLAN_NONE || *seen == ART_PLAN_NONE) {
        *seen = tensor == ART_PLAN_NONE ? *seen : tensor;
        return ART_OK;
    }
    const art_plan_tensor *a = &plan->tensors[*seen], *b = &plan->tensors[tensor];
    ART_FAIL_IF(a->bytes != b->bytes || a->dtype != b->dtype, err, ART_PLAN_FORMAT,
                "the %ss '%s' and '%s' of two phases differ: %llu and %llu bytes", what,
                art_plan_name(plan, *seen), art_plan_name(plan, tensor),
                (unsigned long long)a->bytes, (unsigned long long)b->bytes);
    return ART_OK;
}

art_status art_plan_find_io(const art_plan *plan, art_phase_io io[3], art_error *err) {
    uint32_t input = ART_PLAN_NONE, target = ART_PLAN_NONE;
    for (unsigned phase = 0; phase < 3; phase++) {
        art_phase_io *p = &io[phase];
        art_plan_phase(plan->header, phase, &p->first, &p->last);
        p->input = p->logits = p->target = p->loss = p->correct = p->output = ART_PLAN_NONE;
        p->loss_step = p->last;
        p->ignored = ART_NO_LABEL;
        p->targets = ART_TARGETS_ANY;
        if (p->first == p->last) {
            continue;
        }
        ART_TRY(find_live(plan, ART_ROLE_INPUT, p->first, "input", &p->input, err));
        if (phase == ART_PHASE_PREDICT) {
            ART_TRY(find_live(plan, ART_ROLE_OUTPUT, p->last - 1, "output", &p->output, err));
        } else {
            ART_TRY(find_loss(plan, phase, p, err));
        }
        ART_TRY(check_same(plan, "input", &input, p->input, err));
        ART_TRY(check_same(plan, "target", &target, p->target, err));
    }
    return ART_OK;
}
