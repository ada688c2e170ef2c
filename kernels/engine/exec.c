/* The step loop. It chooses nothing: operands, order and addresses are the plan's. */
#include <string.h>
#include <time.h>

#include "engine/engine.h"

static void bind_operands(art_engine *engine, uint32_t step, uint32_t n) {
    art_op_args *args = &engine->args;
    art_plan_describe(&engine->plan, step, args);
    for (unsigned i = 0; i < args->n_operands; i++) {
        uint32_t tensor = art_plan_operand(&engine->plan, step, i);
        if (tensor == ART_PLAN_NONE) {
            continue;
        }
        args->operand[i].data = art_engine_tensor_data(engine, tensor);
        if (args->operand[i].batched) {
            args->operand[i].dims[0] = n;
        }
    }
}

static art_status name_layer(const art_engine *engine, uint32_t step, art_status status,
                             art_error *err) {
    char detail[sizeof err->text];
    memcpy(detail, err->text, sizeof detail);
    return art_fail(err, status, err->file, err->line, "layer '%s' (step %u, %s): %.400s",
                    engine->plan.strings + engine->plan.steps[step].layer, step,
                    art_op_find(engine->plan.steps[step].op)->name, detail);
}

static uint64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static art_status run_step(art_engine *engine, uint32_t step, art_error *err) {
    const art_op *op = art_op_find(engine->plan.steps[step].op);
    if (engine->step_nanoseconds == NULL) {
        return op->run(&engine->args, err);
    }
    uint64_t began = nanoseconds();
    art_status status = op->run(&engine->args, err);
    engine->step_nanoseconds[step] += nanoseconds() - began;
    return status;
}

art_status art_engine_execute(art_engine *engine, uint32_t first, uint32_t last, uint32_t n,
                              art_error *err) {
    art_op_args *args = &engine->args;
    args->threads = engine->plan.header->threads;
    args->pool = engine->pool;
    args->level = engine->level;
    args->seed = engine->state.seed;
    args->step = engine->state.step;
    args->learning_rate_scale = engine->state.learning_rate_scale;
    args->counted = &engine->counted;
    for (uint32_t step = first; step < last; step++) {
        if (engine->poison) {
            art_arena_poison(engine, step);
        }
        bind_operands(engine, step, n);
        art_status status = run_step(engine, step, err);
        if (status != ART_OK) {
            return err == NULL ? status : name_layer(engine, step, status, err);
        }
    }
    return ART_OK;
}
