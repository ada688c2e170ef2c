/* The public interface: opening, closing, and access to tensors and the run's state. */
#include "armtrain.h"

#include <stdlib.h>
#include <string.h>

#include "core/cpu.h"
#include "engine/engine.h"
#include "engine/indices.h"
#include "ops/targets.h"

const char *art_version(void) {
    return ART_VERSION;
}

/* Sub-blocks of the one allocation; every part starts at a multiple of 64. */
typedef struct block {
    size_t engine, pool, plan, storages, of, version, order, bytes;
} block;

static size_t place(size_t *end, size_t bytes) {
    size_t start = *end;
    *end += (bytes + 63) / 64 * 64;
    return start;
}

static block block_of(const art_plan_header *header) {
    size_t n = (size_t)header->tensors_count, end = 0;
    block b;
    b.engine = place(&end, sizeof(art_engine));
    b.pool = place(&end, art_pool_bytes());
    b.storages = place(&end, n * sizeof(art_storage));
    b.of = place(&end, n * sizeof(uint32_t));
    b.version = place(&end, n * sizeof(uint32_t));
    b.order = place(&end, n * sizeof(uint64_t));
    b.plan = place(&end, (size_t)header->file_bytes);
    b.bytes = end;
    return b;
}

static art_engine *make_engine(const art_plan_header *header, const void *plan) {
    block b = block_of(header);
    unsigned char *base = aligned_alloc(64, b.bytes);
    if (base == NULL) {
        return NULL;
    }
    memset(base, 0, b.plan);
    memcpy(base + b.plan, plan, (size_t)header->file_bytes);
    art_engine *engine = (art_engine *)(void *)(base + b.engine);
    engine->pool = (art_pool *)(void *)(base + b.pool);
    engine->storages.storage = (art_storage *)(void *)(base + b.storages);
    engine->storages.of = (uint32_t *)(void *)(base + b.of);
    engine->storages.version = (uint32_t *)(void *)(base + b.version);
    engine->storages.order = (uint64_t *)(void *)(base + b.order);
    engine->plan.header = (const art_plan_header *)(const void *)(base + b.plan);
    return engine;
}

/* Names of the levels that this processor has. */
static void list_levels(char *text, size_t text_bytes) {
    unsigned n;
    const art_level *levels = art_levels(&n);
    text[0] = '\0';
    for (unsigned i = 0; i < n; i++) {
        size_t used = strlen(text);
        if ((levels[i].features & ~art_cpu_features()) == 0 &&
            used + strlen(levels[i].name) + 2 < text_bytes) {
            strcat(text, used == 0 ? "" : " ");
            strcat(text, levels[i].name);
        }
    }
}

/* ARMTRAIN_CPU must make sense even where a named level overrides it: a misspelt limit is no limit
 * at all. */
static art_status choose_level(art_engine *engine, const char *name, art_error *err) {
    char available[160];
    list_levels(available, sizeof available);
    engine->level = art_level_select(NULL);
    ART_FAIL_IF(engine->level == NULL, err, ART_CPU,
                "ARMTRAIN_CPU=%.40s of the environment: this level is unknown or this processor "
                "lacks it; unset the variable or set it to one of: %s",
                art_cpu_cap(), available);
    if (name != NULL) {
        engine->level = art_level_select(name);
    }
    ART_FAIL_IF(engine->level == NULL, err, ART_CPU,
                "kernel level '%.40s' is unknown or this processor lacks it; it has: %s", name,
                available);
    return ART_OK;
}

static art_status start_pool(art_engine *engine, uint32_t asked, art_error *err) {
    uint32_t planned = engine->plan.header->threads, usable = asked == 0 ? art_cpu_usable() : asked;
    void *stacks = NULL;
    ART_FAIL_IF(asked > planned, err, ART_USE,
                "%u threads were asked for but the plan has memory for %u: use fewer or plan with "
                "%u",
                asked, planned, asked);
    for (uint32_t i = 0; i < engine->plan.n_tensors; i++) {
        if (art_engine_tensor(engine, i)->role == ART_ROLE_STACK) {
            stacks = art_engine_tensor_data(engine, i);
        }
    }
    return art_pool_start(engine->pool, usable < planned ? usable : planned, stacks, err);
}

static art_status open_parts(art_engine *engine, const art_options *options, art_error *err) {
    ART_TRY(art_plan_load(&engine->plan, engine->plan.header, err));
    ART_TRY(art_plan_check(&engine->plan, &engine->storages, engine->io, err));
    ART_TRY(choose_level(engine, options->kernel_level, err));
    ART_TRY(art_indices_reserve(engine, err));
    ART_TRY(art_arena_open(engine, options, err));
    ART_TRY(start_pool(engine, options->threads, err));
    return art_indices_find(engine, err);
}

art_status art_engine_open(art_engine **engine, const void *plan, size_t plan_bytes,
                           const art_options *options, art_error *err) {
    static const art_options defaults = {0};
    art_plan_header header;
    *engine = NULL;
    options = options == NULL ? &defaults : options;
    ART_TRY(art_plan_read_header(plan, plan_bytes, &header, err));
    art_engine *made = make_engine(&header, plan);
    ART_FAIL_IF(made == NULL, err, ART_MEMORY_MAP, "no memory for a plan of %zu bytes", plan_bytes);
    made->seed = options->seed;
    made->poison = options->poison != 0;
    made->state.seed = options->seed;
    made->state.learning_rate_scale = 1.0;
    art_status status = open_parts(made, options, err);
    if (status != ART_OK) {
        art_engine_close(made);
        return status;
    }
    *engine = made;
    return ART_OK;
}

void art_engine_close(art_engine *engine) {
    if (engine == NULL) {
        return;
    }
    art_pool_stop(engine->pool);
    art_arena_close(engine);
    free(engine->index_limit);
    free(engine);
}

uint32_t art_engine_classes(const art_engine *engine, const art_phase_io *io) {
    const art_plan_tensor *logits = art_engine_tensor(engine, io->logits);
    return logits->dims[logits->ndim - 1];
}

static uint64_t sample_elements(const art_engine *engine, uint32_t tensor) {
    return tensor == ART_PLAN_NONE
               ? 0
               : art_engine_tensor_elements(engine, tensor) / engine->plan.header->batch_size;
}

void art_engine_info(const art_engine *engine, art_info *info) {
    const art_plan_header *header = engine->plan.header;
    memset(info, 0, sizeof *info);
    info->arena_bytes = header->arena_bytes;
    info->batch_size = header->batch_size;
    info->threads = art_pool_threads(engine->pool);
    info->n_tensors = engine->plan.n_tensors;
    info->n_steps = engine->plan.n_steps;
    info->kernel_level = engine->level->name;
    memcpy(info->model_hash, header->model_hash, sizeof info->model_hash);
    for (unsigned phase = 3; phase-- > 0;) {
        const art_phase_io *io = &engine->io[phase];
        if (io->input != ART_PLAN_NONE) {
            info->input_elements = sample_elements(engine, io->input);
        }
        if (io->output != ART_PLAN_NONE) {
            info->output_elements = sample_elements(engine, io->output);
        }
        if (io->target != ART_PLAN_NONE) {
            info->target_elements = sample_elements(engine, io->target);
            info->target_is_label = art_engine_tensor(engine, io->target)->dtype == ART_DTYPE_I32;
            info->n_classes = info->target_is_label ? art_engine_classes(engine, io) : 0;
            info->ignored_label = (int32_t)io->ignored;
            info->targets = art_target_ranges[io->targets];
            if (io->targets == ART_TARGETS_PLACES) {
                info->targets.high = art_engine_classes(engine, io) - 1.0;
                info->targets.ignored = (double)io->ignored;
            }
        }
    }
}

void art_engine_get_state(const art_engine *engine, art_run_state *state) {
    *state = engine->state;
}

void art_engine_set_state(art_engine *engine, const art_run_state *state) {
    engine->state = *state;
}

void art_engine_get_monitor(const art_engine *engine, art_monitor *monitor) {
    *monitor = engine->monitor;
}

void art_engine_set_monitor(art_engine *engine, const art_monitor *monitor) {
    engine->monitor = *monitor;
}

art_status art_engine_check_ready(const art_engine *engine, art_error *err) {
    ART_FAIL_IF(!engine->ready, err, ART_USE,
                "the engine has no weights yet, or loading them broke off half-way: load a whole "
                "file, resume, or open and initialize it anew");
    return ART_OK;
}

void art_engine_tell_incomplete(art_error *err) {
    static const char text[] = "; some weights were replaced and some were not: load a whole file, "
                               "resume, or start again";
    size_t used = err == NULL ? 0 : strlen(err->text);
    if (err != NULL && sizeof err->text - used > sizeof text) {
        memcpy(err->text + used, text, sizeof text);
    }
}

uint32_t art_engine_find(const art_engine *engine, const char *name) {
    for (uint32_t i = 0; i < engine->plan.n_tensors; i++) {
        if (art_role_is_kept(art_engine_tensor(engine, i)->role) &&
            strcmp(art_engine_tensor_name(engine, i), name) == 0) {
            return i;
        }
    }
    return ART_PLAN_NONE;
}

static art_status find_for_copy(const art_engine *engine, const char *name, size_t bytes,
                                uint32_t *tensor, art_error *err) {
    *tensor = art_engine_find(engine, name);
    ART_FAIL_IF(*tensor == ART_PLAN_NONE, err, ART_USE,
                "the plan has no weight, buffer or optimiser state named '%.200s'", name);
    ART_FAIL_IF(bytes != art_engine_tensor(engine, *tensor)->bytes, err, ART_SHAPE,
                "'%s' has %llu bytes, %zu were given", name,
                (unsigned long long)art_engine_tensor(engine, *tensor)->bytes, bytes);
    return ART_OK;
}

art_status art_engine_read(const art_engine *engine, const char *name, void *out, size_t bytes,
                           art_error *err) {
    uint32_t tensor;
    ART_TRY(find_for_copy(engine, name, bytes, &tensor, err));
    art_layout_read(engine, tensor, 0, art_engine_tensor_elements(engine, tensor), out);
    return ART_OK;
}

art_status art_engine_write(art_engine *engine, const char *name, const void *data, size_t bytes,
                            art_error *err) {
    uint32_t tensor;
    ART_TRY(find_for_copy(engine, name, bytes, &tensor, err));
    art_layout_write(engine, tensor, 0, art_engine_tensor_elements(engine, tensor), data);
    engine->ready = true;
    return ART_OK;
}

static art_status check_raw(const art_engine *engine, uint32_t tensor, size_t bytes,
                            art_error *err) {
    ART_FAIL_IF(tensor >= engine->plan.n_tensors, err, ART_USE, "tensor %u of %u does not exist",
                tensor, engine->plan.n_tensors);
    ART_FAIL_IF(art_engine_tensor(engine, tensor)->role == ART_ROLE_STACK, err, ART_USE,
                "'%s' holds the stacks of running threads", art_engine_tensor_name(engine, tensor));
    ART_FAIL_IF(bytes != art_engine_tensor(engine, tensor)->bytes, err, ART_SHAPE,
                "'%s' has %llu bytes, %zu were given", art_engine_tensor_name(engine, tensor),
                (unsigned long long)art_engine_tensor(engine, tensor)->bytes, bytes);
    return ART_OK;
}

art_status art_engine_peek(const art_engine *engine, uint32_t tensor, void *out, size_t bytes,
                           art_error *err) {
    ART_TRY(check_raw(engine, tensor, bytes, err));
    memcpy(out, art_engine_tensor_data(engine, tensor), bytes);
    return ART_OK;
}

art_status art_engine_poke(art_engine *engine, uint32_t tensor, const void *data, size_t bytes,
                           art_error *err) {
    ART_TRY(check_raw(engine, tensor, bytes, err));
    memcpy(art_engine_tensor_data(engine, tensor), data, bytes);
    return ART_OK;
}

void art_engine_time_steps(art_engine *engine, uint64_t *nanoseconds) {
    engine->step_nanoseconds = nanoseconds;
}

art_status art_engine_run_steps(art_engine *engine, uint32_t first, uint32_t last, uint32_t n,
                                art_error *err) {
    ART_FAIL_IF(first > last || last > engine->plan.n_steps, err, ART_USE,
                "steps [%u, %u) of %u do not exist", first, last, engine->plan.n_steps);
    ART_FAIL_IF(n == 0 || n > engine->plan.header->batch_size, err, ART_BATCH,
                "%u samples were given; 1 to %u are possible", n, engine->plan.header->batch_size);
    return art_engine_execute(engine, first, last, n, err);
}
