/* Which elements of a sample become indices follows from the plan alone: the steps between the
 * input and a table only move numbers. So they are run once on the elements' own numbers, and what
 * arrives at a table are the numbers of its indices. */
#include "engine/indices.h"

#include <stdlib.h>
#include <string.h>

#include "ops/check.h"

/* Operations that move the bits of their first operand to their last and do nothing else. */
static bool moves(unsigned op) {
    return op == ART_OP_SLICE || op == ART_OP_PERMUTE || op == ART_OP_NHWC_TO_NCHW ||
           op == ART_OP_NCHW_TO_NHWC;
}

static uint32_t last_operand(const art_engine *engine, uint32_t step) {
    return art_plan_operand(&engine->plan, step,
                            art_op_find(engine->plan.steps[step].op)->n_operands - 1u);
}

static uint64_t sample_elements(const art_engine *engine, uint32_t tensor) {
    return art_engine_tensor_elements(engine, tensor) / engine->plan.header->batch_size;
}

/* A table's rows bound the elements that are its indices. */
static void bound(art_engine *engine, uint32_t step, uint64_t elements) {
    const art_plan *plan = &engine->plan;
    const art_plan_tensor *w =
        art_engine_tensor(engine, art_plan_operand(plan, step, ART_EMBEDDING_FWD_W));
    uint32_t x = art_plan_operand(plan, step, ART_EMBEDDING_FWD_X);
    bool turned = plan->attrs[plan->steps[step].attrs + ART_EMBEDDING_FWD_A_TURNED].i != 0;
    uint32_t rows = w->dims[turned];
    const uint32_t *numbers = art_engine_tensor_data(engine, x);
    for (uint64_t i = 0; i < sample_elements(engine, x); i++) {
        uint32_t *limit = &engine->index_limit[numbers[i] < elements ? numbers[i] : 0];
        *limit = *limit == 0 || rows < *limit ? rows : *limit;
    }
}

/* Run what moves the input of a phase. `moved` tells of every storage whether it holds some. */
static art_status follow(art_engine *engine, const art_phase_io *io, uint32_t *moved,
                         art_error *err) {
    const uint32_t *storage = engine->storages.of;
    uint64_t elements = sample_elements(engine, io->input);
    moved[storage[io->input]] = 1;
    for (uint32_t step = io->first; step < io->last; step++) {
        unsigned op = engine->plan.steps[step].op;
        uint32_t x = art_plan_operand(&engine->plan, step, 0), y = last_operand(engine, step);
        bool from_input = x != ART_PLAN_NONE && moved[storage[x]];
        if (op == ART_OP_EMBEDDING_FWD && from_input) {
            bound(engine, step, elements);
        }
        bool goes_on = moves(op) && from_input;
        if (goes_on) {
            ART_TRY(art_engine_execute(engine, step, step + 1, 1, err));
        }
        if (y != ART_PLAN_NONE) {
            moved[storage[y]] = goes_on;
        }
    }
    return ART_OK;
}

static bool has_tables(const art_plan *plan) {
    for (uint32_t step = 0; step < plan->n_steps; step++) {
        if (plan->steps[step].op == ART_OP_EMBEDDING_FWD) {
            return true;
        }
    }
    return false;
}

/* The shortest phase that takes samples. */
static const art_phase_io *taking_phase(const art_engine *engine) {
    unsigned phase = ART_PHASE_PREDICT;
    while (phase > 0 && engine->io[phase].input == ART_PLAN_NONE) {
        phase--;
    }
    return &engine->io[phase];
}

art_status art_indices_reserve(art_engine *engine, art_error *err) {
    const art_phase_io *io = taking_phase(engine);
    if (!has_tables(&engine->plan) || io->input == ART_PLAN_NONE) {
        return ART_OK;
    }
    uint64_t elements = sample_elements(engine, io->input);
    size_t bytes = (size_t)(elements * 2 * sizeof *engine->index_limit + 63) / 64 * 64;
    engine->index_limit = aligned_alloc(64, bytes);
    ART_FAIL_IF(engine->index_limit == NULL, err, ART_MEMORY_MAP,
                "no memory for the ranges of %llu indices", (unsigned long long)elements);
    memset(engine->index_limit, 0, bytes); /* all its pages */
    return ART_OK;
}

art_status art_indices_find(art_engine *engine, art_error *err) {
    const art_phase_io *io = taking_phase(engine);
    if (engine->index_limit == NULL) {
        return ART_OK;
    }
    uint64_t elements = sample_elements(engine, io->input);
    uint32_t *numbers = art_engine_tensor_data(engine, io->input);
    uint32_t *moved = engine->storages.version; /* which the check of the plan is done with */
    memset(moved, 0, engine->storages.n * sizeof *moved);
    for (uint64_t i = 0; i < elements; i++) {
        numbers[i] = (uint32_t)i;
    }
    ART_TRY(follow(engine, io, moved, err));
    memcpy(numbers, engine->index_limit, elements * sizeof *numbers);
    art_layout_read(engine, io->input, 0, elements, engine->index_limit + elements);
    return ART_OK;
}

void art_engine_index_limits(const art_engine *engine, uint32_t *limits) {
    art_info info;
    art_engine_info(engine, &info);
    size_t bytes = (size_t)info.input_elements * sizeof *limits;
    if (engine->index_limit == NULL) {
        memset(limits, 0, bytes);
    } else {
        memcpy(limits, engine->index_limit + info.input_elements, bytes);
    }
}

art_status art_indices_check(const art_engine *engine, uint32_t input, uint32_t n, art_error *err) {
    const float *x = art_engine_tensor_data(engine, input);
    uint64_t elements = engine->index_limit == NULL ? 0 : sample_elements(engine, input);
    for (uint64_t i = 0; i < elements * n; i++) {
        uint32_t rows = engine->index_limit[i % elements];
        ART_FAIL_IF(rows != 0 && !art_is_index(x[i], rows), err, ART_LABEL,
                    "sample %u of the batch has the index %.9g; the embedding has rows 0 to %u, "
                    "indices are whole numbers: repair or leave out that sample, or plan with a "
                    "larger num_embeddings",
                    (unsigned)(i / elements), (double)x[i], rows - 1);
    }
    return ART_OK;
}
