/* A plan's bytes as typed records, and the two stages that make them trustworthy. After
 * art_plan_check has passed, every index, string, shape, offset and lifetime can be used as is. */
#ifndef ART_ENGINE_PLAN_H
#define ART_ENGINE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "art_plan.h"
#include "core/status.h"
#include "ops/ops.h"

typedef struct art_plan {
    const art_plan_header *header;
    const art_plan_tensor *tensors;
    const art_plan_step *steps;
    const uint32_t *operands;
    const art_attr *attrs;
    const char *strings;
    uint32_t n_tensors;
    uint32_t n_steps;
} art_plan;

/* One address range of the arena and the steps [first, last) at which it is live. */
typedef struct art_storage {
    uint64_t offset;
    uint64_t bytes; /* of the largest tensor in it */
    uint32_t first;
    uint32_t last;
    uint32_t tensor; /* one of its tensors, for messages */
    uint32_t writes; /* while checking: writes in this phase */
    uint32_t writer; /* while checking: the tensor of the last write */
    uint8_t kept;    /* holds a persistent tensor or a stack, and only that */
    uint8_t batch;   /* holds an input or target, written before a phase's first step */
} art_storage;

/* Arrays of n_tensors entries each, filled by art_plan_check. */
typedef struct art_storages {
    art_storage *storage;
    uint32_t n;
    uint32_t *of;         /* tensor -> its storage */
    uint32_t *version;    /* while checking: `writes` of the storage when this tensor was written */
    uint64_t *order;      /* the low 32 bits are storages in ascending order of offset; while
                           * checking: 1 for a filled slot of the accumulator */
    uint32_t accumulator; /* while checking: holds this phase's gradient norms, or ART_PLAN_NONE */
    uint32_t filled;      /* while checking: its filled slots */
} art_storages;

/* The steps of one phase and the tensors through which data enter and leave; ART_PLAN_NONE for
 * one that the phase does not have. */
typedef struct art_phase_io {
    uint32_t first; /* steps [first, last) */
    uint32_t last;
    uint32_t input;
    uint32_t logits; /* what the loss compares with the target */
    uint32_t target;
    uint32_t loss;
    uint32_t correct;
    uint32_t output;
    uint32_t loss_step; /* last when there is none */
    int64_t ignored;    /* of a loss of labels: samples or places with this one do not count */
    unsigned targets;   /* what float targets may be: of art_target_ranges */
} art_phase_io;

/* Bytes before the records: magic, versions, sizes and sections. `header` is filled from bytes
 * of any alignment. */
art_status art_plan_read_header(const void *bytes, size_t n_bytes, art_plan_header *header,
                                art_error *err);

/* Steps [*first, *last) of a phase. */
void art_plan_phase(const art_plan_header *header, unsigned phase, uint32_t *first, uint32_t *last);

/* Point `plan` into 8-byte aligned bytes whose header has been read; verify the checksum, strings
 * and every tensor and step record by itself. */
art_status art_plan_load(art_plan *plan, const void *bytes, art_error *err);

/* Verify what records mean together: storages, overlap, the flow of values through the steps,
 * operand checks, workspaces. Fills `io`. */
art_status art_plan_check(const art_plan *plan, art_storages *storages, art_phase_io io[3],
                          art_error *err);

/* Find where data enter and leave each phase, and verify the types that the engine relies on. */
art_status art_plan_find_io(const art_plan *plan, art_phase_io io[3], art_error *err);

/* Verify that a step takes parameters, gradients, statistics and state where it needs them, and
 * that an update takes the gradient and the state of its own parameter. */
art_status art_plan_check_roles(const art_plan *plan, uint32_t step, art_error *err);

/* Operand `slot` of a step: a tensor id or ART_PLAN_NONE. */
static inline uint32_t art_plan_operand(const art_plan *plan, uint32_t step, unsigned slot) {
    return plan->operands[plan->steps[step].operands + slot];
}

static inline const char *art_plan_name(const art_plan *plan, uint32_t tensor) {
    return plan->strings + plan->tensors[tensor].name;
}

/* How a step uses operand `slot`: ART_ACCESS_READ and the like, without the optional mark. */
static inline unsigned art_op_access(const art_op *op, unsigned slot) {
    return op->access[slot] & ~(unsigned)ART_ACCESS_OPTIONAL;
}

/* Describe a step's operands at the planned batch, `data` NULL, everything zero where absent. */
void art_plan_describe(const art_plan *plan, uint32_t step, art_op_args *args);

#endif
