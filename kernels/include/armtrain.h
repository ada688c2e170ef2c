/* armtrain: train neural networks from a plan file inside a fixed arena.
 *
 * The whole public C interface. A plan (docs/plan-format.md) is opened into an engine; after
 * art_engine_open returns nothing is allocated any more. All functions return a status; details go
 * to the caller's art_error. An engine is used by one thread at a time. */
#ifndef ARMTRAIN_H
#define ARMTRAIN_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ART_API __attribute__((visibility("default")))
#else
#define ART_API
#endif

#define ART_VERSION "0.1.0"

typedef enum art_status {
#define ART_STATUS(name, code, text) ART_##name = code,
#include "art_status.def"
#undef ART_STATUS
} art_status;

typedef struct art_error {
    char text[512];   /* what was refused, the numbers, the next step */
    const char *file; /* source position, for defects */
    int line;
} art_error;

typedef struct art_engine art_engine;

typedef struct art_options {
    uint64_t seed;            /* key of everything random */
    uint32_t threads;         /* 0: min(planned, usable processors); more than planned is refused */
    uint32_t poison;          /* tests: fill bytes that are not live with NaN around every step */
    const char *kernel_level; /* NULL: best of this processor; else a level name */
    uint32_t ignore_memory;   /* 1: do not compare the arena with free memory */
    uint64_t beside_bytes;    /* of the caller, not taken yet: they must fit beside the arena */
} art_options;

/* Where a training run stands; stored in checkpoints, everything that a resume needs. */
typedef struct art_run_state {
    uint64_t seed;
    uint64_t step;       /* optimiser steps done since initialisation */
    uint64_t epoch;      /* epochs completed */
    uint64_t position;   /* samples of the current epoch already used */
    double loss_counted; /* sum of art_engine_counted over the current epoch's steps */
    double loss_sum;     /* sum of their losses, each times what it counts */
    double learning_rate_scale;
    uint64_t n_train; /* samples of the training data, 0 if unknown */
} art_run_state;

/* What a run remembers of its epochs' measured values (engine/monitor.h), and sums of what it was
 * given (run/given.c); stored in checkpoints. */
typedef struct art_monitor {
    uint32_t quantity; /* of `best`, 0: nothing was measured yet */
    uint32_t plateau_quantity;
    uint32_t plateau_bad;      /* epochs without a better value */
    uint32_t plateau_cooldown; /* epochs to come that do not count as such */
    uint64_t epoch;            /* the last that was measured, counted from 1 */
    uint64_t best_epoch;
    double best;
    double plateau_best;
    double plateau_scale;    /* factor of the learning rates */
    uint32_t schedule_crc32; /* of the schedules, 0: unknown */
    uint32_t data_crc32;     /* of some training samples, 0: unknown */
} art_monitor;

/* Which numbers a loss takes as float targets. */
typedef struct art_target_range {
    double low, high; /* the least and the largest */
    double step;      /* 0: all between; else low and whole steps from it */
    double ignored;   /* one more that is taken and does not count, NaN: none */
    uint32_t shares;  /* 1: those of a sample are shares of 1 */
    const char
        *way; /* who needs that and what to do with others; NULL: all finite ones are taken */
} art_target_range;

typedef struct art_info {
    uint64_t arena_bytes;
    uint32_t batch_size;
    uint32_t threads; /* threads in use */
    uint32_t n_tensors;
    uint32_t n_steps;
    uint32_t target_is_label; /* 1: targets are class indices i32[N]; 0: float32 arrays */
    uint32_t n_classes;       /* last dimension of the logits, 0 without a label target */
    int32_t ignored_label;    /* samples or places with it do not count; it need not be a class */
    art_target_range targets; /* of float targets */
    uint64_t input_elements;  /* per sample */
    uint64_t target_elements; /* per sample */
    uint64_t output_elements; /* per sample */
    const char *kernel_level;
    uint8_t model_hash[32];
} art_info;

ART_API const char *art_version(void);
ART_API const char *art_status_text(art_status status);

/* Check every byte of a plan, map and touch its arena, start the threads. The plan's bytes are
 * copied; nothing is initialised yet: call art_engine_initialize, load or resume next. */
ART_API art_status art_engine_open(art_engine **engine, const void *plan, size_t plan_bytes,
                                   const art_options *options, art_error *err);
ART_API void art_engine_close(art_engine *engine);
ART_API void art_engine_info(const art_engine *engine, art_info *info);
/* For each of info.input_elements elements of a sample, in the user's order: the rows of the table
 * whose index it is, 0 where it is a number like any other. */
ART_API void art_engine_index_limits(const art_engine *engine, uint32_t *limits);
/* Bytes of the arena that are in memory now, in whole pages, as the kernel counts them; 0 where it
 * does not say. */
ART_API uint64_t art_engine_resident_bytes(const art_engine *engine);

/* Fill every persistent tensor by its initialiser, keyed by options.seed and its name. */
ART_API art_status art_engine_initialize(art_engine *engine, art_error *err);

/* Batch data in the user's layout: x is float32 [n, input...] (NCHW), target is int32 [n] or
 * float32 [n, ...]. n <= planned batch. Labels are checked against the number of classes. */
ART_API art_status art_engine_train_step(art_engine *engine, const float *x, const void *target,
                                         uint32_t n, double *loss, art_error *err);
/* loss: mean over what counts; correct: rows predicted right (0 without labels). */
ART_API art_status art_engine_evaluate_step(art_engine *engine, const float *x, const void *target,
                                            uint32_t n, double *loss, uint64_t *correct,
                                            art_error *err);
/* What the loss of the last training or evaluation step was divided by: class weights of the labels
 * that count, in sum, or their number; where a loss has no labels, n. 0: nothing counted, and the
 * step did nothing. Weighed with it, the losses of batches have the mean of all samples at once. */
ART_API double art_engine_counted(const art_engine *engine);
/* out: float32 [n, output...] in the user's layout; written but refused when not finite. */
ART_API art_status art_engine_predict_step(art_engine *engine, const float *x, uint32_t n,
                                           float *out, art_error *err);

ART_API void art_engine_get_state(const art_engine *engine, art_run_state *state);
ART_API void art_engine_set_state(art_engine *engine, const art_run_state *state);
ART_API void art_engine_get_monitor(const art_engine *engine, art_monitor *monitor);
ART_API void art_engine_set_monitor(art_engine *engine, const art_monitor *monitor);

/* One persistent tensor by name, in the user's layout (read and write are exact copies of
 * `bytes` bytes; the size must match). */
ART_API art_status art_engine_read(const art_engine *engine, const char *name, void *out,
                                   size_t bytes, art_error *err);
ART_API art_status art_engine_write(art_engine *engine, const char *name, const void *data,
                                    size_t bytes, art_error *err);
/* Raw arena bytes of any tensor by index in the plan, for tests and tools. */
ART_API art_status art_engine_peek(const art_engine *engine, uint32_t tensor, void *out,
                                   size_t bytes, art_error *err);
ART_API art_status art_engine_poke(art_engine *engine, uint32_t tensor, const void *data,
                                   size_t bytes, art_error *err);
/* Run single steps [first, last) of the plan with n samples, for tests and tools. */
ART_API art_status art_engine_run_steps(art_engine *engine, uint32_t first, uint32_t last,
                                        uint32_t n, art_error *err);
/* From now on add every step's nanoseconds to its element of `nanoseconds`, info.n_steps of them
 * that the caller keeps; NULL: measure nothing. */
ART_API void art_engine_time_steps(art_engine *engine, uint64_t *nanoseconds);

/* Weights and buffers as a safetensors file (torch's names and layouts), written crash-safe. */
ART_API art_status art_engine_save_safetensors(const art_engine *engine, const char *path,
                                               art_error *err);
/* Likewise with `metadata`, a JSON object of strings, as the file's `__metadata__`; NULL for none.
 */
ART_API art_status art_engine_save_safetensors_with(const art_engine *engine, const char *path,
                                                    const char *metadata, art_error *err);
/* Likewise with a mark of the run and of the best epoch that it remembers. */
ART_API art_status art_engine_save_best(const art_engine *engine, const char *path,
                                        const char *metadata, art_error *err);
/* After a resume: ART_DATA unless a file is what the run kept of its best epoch, or of one after
 * the checkpoint. */
ART_API art_status art_engine_check_best(const art_engine *engine, const char *path,
                                         art_error *err);
ART_API art_status art_engine_load_safetensors(art_engine *engine, const char *path,
                                               art_error *err);

/* Checkpoint files DIR/step-NNNNNNNNNNNN.ckpt (docs/checkpoint-format.md): temporary file in DIR,
 * write, fsync, rename, fsync DIR, then all but the newest `keep` are removed. Refuses to store
 * non-finite weights. */
ART_API art_status art_checkpoint_save(const art_engine *engine, const char *dir, uint32_t keep,
                                       art_error *err);
/* Likewise into a directory that the caller keeps open and locked as `held`. Refused when `dir`
 * names another one by now, or none: a directory made anew would let a second run in. */
ART_API art_status art_checkpoint_save_held(const art_engine *engine, const char *dir, int held,
                                            uint32_t keep, art_error *err);
/* Load the newest intact checkpoint of DIR. note: one line for each file skipped and why.
 * ART_NO_CHECKPOINT when there is none; the engine is then unchanged. */
ART_API art_status art_checkpoint_load(art_engine *engine, const char *dir, char *note,
                                       size_t note_bytes, art_error *err);

/* Counter-based sample of `random:` data: float32 x in [0, 1) and a label or float target. */
ART_API void art_random_sample(const art_engine *engine, uint64_t seed, uint64_t index, float *x,
                               void *target);
/* Index of the sample at `position` of epoch `epoch`. */
ART_API uint64_t art_shuffle(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t position);

#endif
