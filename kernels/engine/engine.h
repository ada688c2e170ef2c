/* The engine's inside, for the files of this folder (checkpoints and safetensors included).
 * Everything here is set up by art_engine_open and never grows. */
#ifndef ART_ENGINE_ENGINE_H
#define ART_ENGINE_ENGINE_H

#include "armtrain.h"
#include "engine/plan.h"

struct art_engine {
    art_plan plan;
    art_storages storages;
    art_phase_io io[3];
    unsigned char *arena; /* plan.header->arena_bytes bytes, mapped and touched */
    art_pool *pool;
    const art_level *level;
    art_run_state state;
    uint32_t augment_crc32; /* of the changes of training inputs, 0: none; of this run */
    art_monitor monitor;
    uint64_t seed;         /* options.seed: a new run starts with it */
    uint32_t *index_limit; /* per input element of a sample, rows of the table whose index it is, 0
                            * for none: in arena order, then in the user's; NULL without tables */
    double counted;        /* see art_engine_counted */
    uint64_t *step_nanoseconds; /* where the time of every step is added, NULL: nowhere */
    bool poison;
    bool ready;       /* weights have been initialised, written or loaded */
    art_op_args args; /* of the step being run */
};

static inline uint32_t art_engine_tensors(const art_engine *engine) {
    return engine->plan.n_tensors;
}

static inline const art_plan_tensor *art_engine_tensor(const art_engine *engine, uint32_t tensor) {
    return &engine->plan.tensors[tensor];
}

static inline const char *art_engine_tensor_name(const art_engine *engine, uint32_t tensor) {
    return art_plan_name(&engine->plan, tensor);
}

/* Address of a tensor in the arena (arena layout). */
static inline void *art_engine_tensor_data(const art_engine *engine, uint32_t tensor) {
    return engine->arena + engine->plan.tensors[tensor].offset;
}

/* Elements of a tensor at the planned batch. */
uint64_t art_engine_tensor_elements(const art_engine *engine, uint32_t tensor);

/* True for roles WEIGHT, FROZEN, BUFFER and STATE: values that outlive a step. A checkpoint
 * stores all of them, a safetensors file all but STATE. */
static inline bool art_role_is_kept(unsigned role) {
    return role <= ART_ROLE_STATE;
}

/* ART_USE before the first weights, and after a load that broke off half-way. */
art_status art_engine_check_ready(const art_engine *engine, art_error *err);

/* Complete the message of a load that broke off after it had changed weights. */
void art_engine_tell_incomplete(art_error *err);

/* Classes that a phase's loss distinguishes: the last dimension of its logits. */
uint32_t art_engine_classes(const art_engine *engine, const art_phase_io *io);

/* The kept tensor of that name, or ART_PLAN_NONE. */
uint32_t art_engine_find(const art_engine *engine, const char *name);

/* Copy elements [first, first + count) of the user's row-major array (shape, shape_ndim) from or to
 * a tensor's arena layout. Elements keep their bits. The range must lie inside the array. */
void art_layout_read(const art_engine *engine, uint32_t tensor, uint64_t first, uint64_t count,
                     void *out);
void art_layout_write(art_engine *engine, uint32_t tensor, uint64_t first, uint64_t count,
                      const void *in);

/* True if n float32 numbers at any address are finite; else *where is the first that is not. */
bool art_floats_are_finite(const void *data, uint64_t n, uint64_t *where);

/* True if the tensor's first `elements` arena elements are finite (integers always are); else
 * *where is the arena index of the first that is not. */
bool art_engine_is_finite(const art_engine *engine, uint32_t tensor, uint64_t elements,
                          uint64_t *where);

/* ART_NONFINITE naming the first WEIGHT, FROZEN, BUFFER or STATE tensor that holds a NaN or an
 * infinity; ART_OK when all are finite. */
art_status art_engine_check_kept(const art_engine *engine, art_error *err);

/* Run steps [first, last) with n samples. */
art_status art_engine_execute(art_engine *engine, uint32_t first, uint32_t last, uint32_t n,
                              art_error *err);

/* Compare the arena, what the kernel needs for it and options->beside_bytes with what the machine
 * and its limits leave, then map it and touch every page. */
art_status art_arena_open(art_engine *engine, const art_options *options, art_error *err);
void art_arena_close(art_engine *engine);

/* Fill every byte that holds no value at `step` with NaNs; step == n_steps: all but kept ones. */
void art_arena_poison(art_engine *engine, uint32_t step);

#endif
