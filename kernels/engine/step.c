/* Training, evaluating and predicting one batch: data in, steps, results out. */
#include <math.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/indices.h"
#include "ops/targets.h"

static const char *const phase_names[3] = {"train", "evaluate", "predict"};

/* Elements per sample of a batched tensor. */
static uint64_t per_sample(const art_engine *engine, uint32_t tensor) {
    return art_engine_tensor_elements(engine, tensor) / engine->plan.header->batch_size;
}

static art_status check_call(const art_engine *engine, unsigned phase, uint32_t n, art_error *err) {
    const art_phase_io *io = &engine->io[phase];
    uint32_t planned = engine->plan.header->batch_size;
    ART_FAIL_IF(io->first == io->last, err, ART_USE,
                "the plan has no steps to %s: plan it again with them", phase_names[phase]);
    ART_TRY(art_engine_check_ready(engine, err));
    ART_FAIL_IF(n == 0, err, ART_BATCH, "the batch is empty; 1 to %u samples are possible",
                planned);
    ART_FAIL_IF(n > planned, err, ART_BATCH,
                "the batch has %u samples, the plan at most %u: split the batch or plan with "
                "batches of %u",
                n, planned, n);
    return ART_OK;
}

/* Copy the user's floats into a batched tensor, refusing those that would only spoil the run. Data
 * that are the tensor itself have been placed already, in arena layout (kernels/run does, so that
 * it needs no second copy of a batch). */
static art_status put_floats(art_engine *engine, uint32_t tensor, const float *data, uint32_t n,
                             art_error *err) {
    uint64_t each = per_sample(engine, tensor), where = 0;
    ART_FAIL_IF(data == NULL, err, ART_USE, "no data were given for '%s'",
                art_engine_tensor_name(engine, tensor));
    ART_FAIL_IF(!art_floats_are_finite(data, each * n, &where), err, ART_NONFINITE,
                "'%s': sample %llu of the batch is not finite at element %llu; repair or leave out "
                "that sample",
                art_engine_tensor_name(engine, tensor), (unsigned long long)(where / each),
                (unsigned long long)(where % each));
    if ((const void *)data != art_engine_tensor_data(engine, tensor)) {
        art_layout_write(engine, tensor, 0, each * n, data);
    }
    return ART_OK;
}

static art_status put_labels(art_engine *engine, const art_phase_io *io, const int32_t *labels,
                             uint32_t n, art_error *err) {
    uint32_t classes = art_engine_classes(engine, io);
    ART_FAIL_IF(labels == NULL, err, ART_USE, "no labels were given");
    for (uint32_t i = 0; i < n; i++) {
        if (labels[i] == io->ignored) {
            continue;
        }
        ART_FAIL_IF(labels[i] < 0 || (uint32_t)labels[i] >= classes, err, ART_LABEL,
                    "sample %u of the batch has label %d; the model has classes 0 to %u", i,
                    (int)labels[i], classes - 1);
    }
    memcpy(art_engine_tensor_data(engine, io->target), labels, n * sizeof labels[0]);
    return ART_OK;
}

/* A batch of samples or places that do not count has no mean loss: nothing is computed or changed.
 * Labels of places are floats, in the user's order or the arena's. */
static bool counts_for_nothing(const art_phase_io *io, const art_engine *engine, const void *target,
                               uint32_t n) {
    const int32_t *labels = target;
    const float *places = target;
    const bool integers = art_engine_tensor(engine, io->target)->dtype == ART_DTYPE_I32;
    const bool labelled = integers || io->targets == ART_TARGETS_PLACES;
    uint64_t i = 0, count = labelled ? per_sample(engine, io->target) * n : 0;
    while (i < count &&
           (integers ? labels[i] == io->ignored : (double)places[i] == (double)io->ignored)) {
        i++;
    }
    return count > 0 && i == count;
}

static art_status put_batch(art_engine *engine, unsigned phase, const float *x, const void *target,
                            uint32_t n, art_error *err) {
    const art_phase_io *io = &engine->io[phase];
    ART_TRY(check_call(engine, phase, n, err));
    if (engine->poison) {
        art_arena_poison(engine, engine->plan.n_steps);
    }
    ART_TRY(put_floats(engine, io->input, x, n, err));
    ART_TRY(art_indices_check(engine, io->input, n, err));
    if (phase == ART_PHASE_PREDICT) {
        return ART_OK;
    }
    if (art_engine_tensor(engine, io->target)->dtype == ART_DTYPE_I32) {
        return put_labels(engine, io, target, n, err);
    }
    return put_floats(engine, io->target, target, n, err);
}

/* Put a batch into a phase; *skip when nothing of it counts. */
static art_status begin_batch(art_engine *engine, unsigned phase, const float *x,
                              const void *target, uint32_t n, double *loss, bool *skip,
                              art_error *err) {
    ART_TRY(put_batch(engine, phase, x, target, n, err));
    *skip = counts_for_nothing(&engine->io[phase], engine, target, n);
    engine->counted = *skip ? 0.0 : n;
    *loss = 0.0;
    return ART_OK;
}

/* The first operand, in order of execution, that is not finite: what it is computed from is. Only
 * tensors that are still live after the loss can be looked at. */
static uint32_t find_nonfinite(const art_engine *engine, const art_phase_io *io, uint32_t n,
                               uint64_t *where) {
    for (uint32_t step = io->first; step <= io->loss_step; step++) {
        const art_op *op = art_op_find(engine->plan.steps[step].op);
        for (unsigned pass = 0; pass < 2; pass++) { /* what is read, then what is written */
            for (unsigned i = 0; i < op->n_operands; i++) {
                uint32_t id = art_plan_operand(&engine->plan, step, i);
                unsigned access = art_op_access(op, i);
                if (id == ART_PLAN_NONE || access == ART_ACCESS_SCRATCH ||
                    ((access & ART_ACCESS_READ) == 0) != (pass == 1)) {
                    continue;
                }
                const art_plan_tensor *t = art_engine_tensor(engine, id);
                uint64_t elements = t->batched ? per_sample(engine, id) * n
                                               : art_engine_tensor_elements(engine, id);
                if (io->loss_step >= t->first && io->loss_step < t->last &&
                    !art_engine_is_finite(engine, id, elements, where)) {
                    return id;
                }
            }
        }
    }
    return io->loss;
}

/* The loss after its step; nothing that training changes has been touched by then but running
 * statistics. */
static art_status take_loss(const art_engine *engine, const art_phase_io *io, uint32_t n,
                            double *loss, art_error *err) {
    double value;
    memcpy(&value, art_engine_tensor_data(engine, io->loss), sizeof value);
    if (isfinite(value)) {
        *loss = value;
        return ART_OK;
    }
    uint64_t where = 0;
    uint32_t tensor = find_nonfinite(engine, io, n, &where);
    return art_fail(
        err, ART_NONFINITE, __FILE__, __LINE__,
        "the loss after %llu steps is %f; the first tensor that is not finite is '%s' "
        "(element %llu). This step changed no weight: lower the learning rate, clip the "
        "gradients, or go back to a checkpoint",
        (unsigned long long)engine->state.step, art_shown(value),
        art_engine_tensor_name(engine, tensor), (unsigned long long)where);
}

/* Under clipping all gradients exist before the first weight changes, and their norms are known. */
static art_status check_norms(const art_engine *engine, const art_phase_io *io, uint32_t clip_step,
                              art_error *err) {
    const art_plan *plan = &engine->plan;
    uint32_t acc = art_plan_operand(plan, clip_step, ART_CLIP_SCALE_ACC);
    const double *sums = art_engine_tensor_data(engine, acc);
    uint64_t n = art_engine_tensor_elements(engine, acc);
    for (uint32_t step = io->first; step < clip_step; step++) {
        if (plan->steps[step].op != ART_OP_GRAD_SUMSQ) {
            continue;
        }
        int64_t index = plan->attrs[plan->steps[step].attrs + ART_GRAD_SUMSQ_A_INDEX].i;
        bool known = art_plan_operand(plan, step, ART_GRAD_SUMSQ_ACC) == acc && index >= 0 &&
                     (uint64_t)index < n;
        uint32_t gradient = art_plan_operand(plan, step, ART_GRAD_SUMSQ_G);
        ART_FAIL_IF(
            known && !isfinite(sums[index]), err, ART_NONFINITE,
            "the gradient '%s' after %llu steps is not finite. This step changed no weight: "
            "lower the learning rate or go back to a checkpoint",
            art_plan_name(plan, gradient), (unsigned long long)engine->state.step);
    }
    return ART_OK;
}

art_status art_engine_train_step(art_engine *engine, const float *x, const void *target, uint32_t n,
                                 double *loss, art_error *err) {
    const art_phase_io *io = &engine->io[ART_PHASE_TRAIN];
    bool skip;
    ART_TRY(begin_batch(engine, ART_PHASE_TRAIN, x, target, n, loss, &skip, err));
    if (skip) {
        return ART_OK;
    }
    ART_TRY(art_engine_execute(engine, io->first, io->loss_step + 1, n, err));
    ART_TRY(take_loss(engine, io, n, loss, err));
    for (uint32_t step = io->loss_step + 1; step < io->last; step++) {
        ART_TRY(art_engine_execute(engine, step, step + 1, n, err));
        if (engine->plan.steps[step].op == ART_OP_CLIP_SCALE) {
            ART_TRY(check_norms(engine, io, step, err));
        }
    }
    engine->state.step++;
    return ART_OK;
}

art_status art_engine_evaluate_step(art_engine *engine, const float *x, const void *target,
                                    uint32_t n, double *loss, uint64_t *correct, art_error *err) {
    const art_phase_io *io = &engine->io[ART_PHASE_EVALUATE];
    bool skip;
    *correct = 0;
    ART_TRY(begin_batch(engine, ART_PHASE_EVALUATE, x, target, n, loss, &skip, err));
    if (skip) {
        return ART_OK;
    }
    ART_TRY(art_engine_execute(engine, io->first, io->loss_step + 1, n, err));
    ART_TRY(take_loss(engine, io, n, loss, err));
    if (io->correct != ART_PLAN_NONE) {
        memcpy(correct, art_engine_tensor_data(engine, io->correct), sizeof *correct);
    }
    return art_engine_execute(engine, io->loss_step + 1, io->last, n, err);
}

double art_engine_counted(const art_engine *engine) {
    return engine->counted;
}

art_status art_engine_predict_step(art_engine *engine, const float *x, uint32_t n, float *out,
                                   art_error *err) {
    const art_phase_io *io = &engine->io[ART_PHASE_PREDICT];
    ART_FAIL_IF(out == NULL, err, ART_USE, "no place was given for the prediction");
    ART_TRY(put_batch(engine, ART_PHASE_PREDICT, x, NULL, n, err));
    ART_TRY(art_engine_execute(engine, io->first, io->last, n, err));
    uint64_t each = per_sample(engine, io->output), where = 0;
    art_layout_read(engine, io->output, 0, each * n, out);
    ART_FAIL_IF(!art_floats_are_finite(out, each * n, &where), err, ART_NONFINITE,
                "'%s': the output of sample %llu of the batch is not finite at element %llu; the "
                "weights are not those of a good run, or the sample is far out of their range",
                art_engine_tensor_name(engine, io->output), (unsigned long long)(where / each),
                (unsigned long long)(where % each));
    return ART_OK;
}
