/* Do the records of a plan make sense together? Proves, before anything runs, that live buffers
 * never overlap, that every value is written before it is read and not overwritten in between,
 * that persistent values change only where training may change them, and that every operation
 * accepts its operands and has the workspace it needs. */
#include <string.h>

#include "core/rng.h"
#include "engine/plan.h"
#include "ops/check.h"

/* Heap sort: in place, without recursion, n log n for any input. */
static void sift_down(uint64_t *keys, uint32_t root, uint32_t n) {
    for (uint64_t child = 2 * (uint64_t)root + 1; child < n; child = 2 * (uint64_t)root + 1) {
        if (child + 1 < n && keys[child + 1] > keys[child]) {
            child++;
        }
        if (keys[root] >= keys[child]) {
            return;
        }
        uint64_t swapped = keys[root];
        keys[root] = keys[child];
        keys[child] = swapped;
        root = (uint32_t)child;
    }
}

static void sort_keys(uint64_t *keys, uint32_t n) {
    for (uint32_t i = n / 2; i-- > 0;) {
        sift_down(keys, i, n);
    }
    for (uint32_t end = n; end-- > 1;) {
        uint64_t largest = keys[0];
        keys[0] = keys[end];
        keys[end] = largest;
        sift_down(keys, 0, end);
    }
}

/* Names are looked up and become streams of random numbers by their hash, so hashes must differ. */
static art_status check_names(const art_plan *plan, uint64_t *keys, art_error *err) {
    for (uint32_t i = 0; i < plan->n_tensors; i++) {
        keys[i] = art_stream_of_name(art_plan_name(plan, i));
    }
    sort_keys(keys, plan->n_tensors);
    for (uint32_t i = 1; i < plan->n_tensors; i++) {
        if (keys[i] != keys[i - 1]) {
            continue;
        }
        for (uint32_t t = 0; t < plan->n_tensors; t++) {
            const char *name = art_plan_name(plan, t);
            ART_FAIL_IF(art_stream_of_name(name) == keys[i], err, ART_PLAN_FORMAT,
                        "two tensors have the name '%s' (or names with the same hash): rename one",
                        name);
        }
    }
    return ART_OK;
}

static bool is_kept(const art_plan_tensor *t) {
    return t->role <= ART_ROLE_STATE || t->role == ART_ROLE_STACK;
}

/* Scratch holds no value for others, and a result is never replaced. */
static bool is_alone(const art_plan_tensor *t) {
    return t->role == ART_ROLE_WORKSPACE || t->role == ART_ROLE_METRIC;
}

/* A further tensor of a storage. */
static art_status join_storage(const art_plan *plan, art_storage *s, uint32_t tensor,
                               art_error *err) {
    const art_plan_tensor *t = &plan->tensors[tensor];
    const char *name = art_plan_name(plan, tensor), *other = art_plan_name(plan, s->tensor);
    ART_FAIL_IF(t->offset != s->offset || t->first != s->first || t->last != s->last, err,
                ART_PLAN_BUFFER,
                "tensors '%s' and '%s' share storage %u but not its place and lifetime: byte %llu, "
                "steps [%u, %u) and byte %llu, steps [%u, %u)",
                other, name, t->storage, (unsigned long long)s->offset, s->first, s->last,
                (unsigned long long)t->offset, t->first, t->last);
    ART_FAIL_IF(s->kept || is_kept(t), err, ART_PLAN_BUFFER,
                "tensors '%s' and '%s' share storage %u, but one of them is persistent", other,
                name, t->storage);
    ART_FAIL_IF(is_alone(t) || is_alone(&plan->tensors[s->tensor]), err, ART_PLAN_BUFFER,
                "tensors '%s' and '%s' share storage %u, but one of them is scratch or a result",
                other, name, t->storage);
    s->bytes = t->bytes > s->bytes ? t->bytes : s->bytes;
    s->batch |= t->role == ART_ROLE_INPUT || t->role == ART_ROLE_TARGET;
    return ART_OK;
}

static art_status build_storages(const art_plan *plan, art_storages *storages, art_error *err) {
    for (uint32_t i = 0; i < plan->n_tensors; i++) {
        storages->order[i] = (uint64_t)plan->tensors[i].storage << 32 | i;
    }
    sort_keys(storages->order, plan->n_tensors);
    storages->n = 0;
    for (uint32_t i = 0; i < plan->n_tensors; i++) {
        uint32_t tensor = (uint32_t)storages->order[i];
        const art_plan_tensor *t = &plan->tensors[tensor];
        if (i > 0 && storages->order[i] >> 32 == storages->order[i - 1] >> 32) {
            ART_TRY(join_storage(plan, &storages->storage[storages->n - 1], tensor, err));
        } else {
            art_storage fresh = {.offset = t->offset,
                                 .bytes = t->bytes,
                                 .first = t->first,
                                 .last = t->last,
                                 .tensor = tensor,
                                 .kept = is_kept(t),
                                 .batch = t->role == ART_ROLE_INPUT || t->role == ART_ROLE_TARGET};
            storages->storage[storages->n++] = fresh;
        }
        storages->of[tensor] = storages->n - 1;
        ART_FAIL_IF(is_kept(t) && (t->first != 0 || t->last != plan->n_steps), err, ART_PLAN_BUFFER,
                    "tensor '%s' is persistent but live only for steps [%u, %u) of %u",
                    art_plan_name(plan, tensor), t->first, t->last, plan->n_steps);
    }
    return ART_OK;
}

/* Among storages in order of offset, only followers that start before a storage's end can meet it.
 */
static art_status check_overlap(const art_plan *plan, art_storages *storages, art_error *err) {
    uint64_t end = 0;
    for (uint32_t i = 0; i < storages->n; i++) {
        storages->order[i] = storages->storage[i].offset / ART_ALIGNMENT << 32 | i;
    }
    sort_keys(storages->order, storages->n);
    for (uint32_t i = 0; i < storages->n; i++) {
        const art_storage *a = &storages->storage[(uint32_t)storages->order[i]];
        end = a->offset + a->bytes > end ? a->offset + a->bytes : end;
        for (uint32_t j = i + 1; j < storages->n; j++) {
            const art_storage *b = &storages->storage[(uint32_t)storages->order[j]];
            if (b->offset >= a->offset + a->bytes) {
                break;
            }
            ART_FAIL_IF(a->first < b->last && b->first < a->last, err, ART_PLAN_OVERLAP,
                        "'%s' (bytes [%llu, %llu), steps [%u, %u)) and '%s' (bytes [%llu, %llu), "
                        "steps [%u, %u)) overlap while both are live",
                        art_plan_name(plan, a->tensor), (unsigned long long)a->offset,
                        (unsigned long long)(a->offset + a->bytes), a->first, a->last,
                        art_plan_name(plan, b->tensor), (unsigned long long)b->offset,
                        (unsigned long long)(b->offset + b->bytes), b->first, b->last);
        }
    }
    uint64_t used = (end + ART_ALIGNMENT - 1) / ART_ALIGNMENT * ART_ALIGNMENT;
    ART_FAIL_IF(used != plan->header->arena_bytes, err, ART_PLAN_BUFFER,
                "the arena has %llu bytes but its last buffer ends at %llu",
                (unsigned long long)plan->header->arena_bytes, (unsigned long long)used);
    return ART_OK;
}

static art_status check_stacks(const art_plan *plan, art_error *err) {
    uint64_t planned = 0, need = (uint64_t)(plan->header->threads - 1) * ART_STACK_BYTES;
    unsigned count = 0;
    for (uint32_t i = 0; i < plan->n_tensors; i++) {
        if (plan->tensors[i].role == ART_ROLE_STACK) {
            planned += plan->tensors[i].bytes;
            count++;
        }
    }
    ART_FAIL_IF(planned != need || count > 1, err, ART_PLAN_BUFFER,
                "%u stack buffers of %llu bytes together are planned; %u threads need one of %llu",
                count, (unsigned long long)planned, plan->header->threads,
                (unsigned long long)need);
    return ART_OK;
}

#define PAIR_KEY(op, out, in) ((uint32_t)(op) << 8 | (uint32_t)(out) << 4 | (uint32_t)(in))

static bool may_share(unsigned op, unsigned out, unsigned in) {
    static const uint32_t pairs[] = {
#define PAIR(NAME, out, in) PAIR_KEY(ART_OP_##NAME, out, in),
        ART_INPLACE_PAIRS(PAIR)
#undef PAIR
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (pairs[i] == PAIR_KEY(op, out, in)) {
            return true;
        }
    }
    return false;
}

/* What a check needs to say where it is. */
typedef struct place {
    const art_plan *plan;
    art_storages *storages;
    const art_op *op;
    uint32_t step;
} place;

/* Two operands of a step may share storage if both are only read or the catalogue lists the pair.
 */
static art_status check_aliases(const place *at, art_error *err) {
    unsigned code = at->plan->steps[at->step].op;
    for (unsigned i = 0; i < at->op->n_operands; i++) {
        uint32_t a = art_plan_operand(at->plan, at->step, i);
        for (unsigned j = i + 1; j < at->op->n_operands && a != ART_PLAN_NONE; j++) {
            uint32_t b = art_plan_operand(at->plan, at->step, j);
            if (b == ART_PLAN_NONE || at->storages->of[a] != at->storages->of[b] ||
                (art_op_access(at->op, i) == ART_ACCESS_READ &&
                 art_op_access(at->op, j) == ART_ACCESS_READ)) {
                continue;
            }
            ART_FAIL_IF(!may_share(code, i, j) && !may_share(code, j, i), err, ART_PLAN_OVERLAP,
                        "step %u (%s): operands '%s' and '%s' share storage %u, which this "
                        "operation does not allow",
                        at->step, at->op->name, art_plan_name(at->plan, a),
                        art_plan_name(at->plan, b), at->plan->tensors[a].storage);
        }
    }
    return ART_OK;
}

/* Is the role one that may be used this way at all? */
static art_status check_use(const place *at, uint32_t tensor, unsigned access, art_error *err) {
    const art_plan_tensor *t = &at->plan->tensors[tensor];
    const char *name = art_plan_name(at->plan, tensor);
    ART_FAIL_IF(at->step < t->first || at->step >= t->last, err, ART_PLAN_BUFFER,
                "step %u (%s) uses '%s', which is live only for steps [%u, %u)", at->step,
                at->op->name, name, t->first, t->last);
    ART_FAIL_IF(t->role == ART_ROLE_STACK ||
                    (access == ART_ACCESS_SCRATCH) != (t->role == ART_ROLE_WORKSPACE),
                err, ART_PLAN_FORMAT,
                "step %u (%s): '%s' has role %u and cannot be used with access %u", at->step,
                at->op->name, name, t->role, access);
    bool writes = (access & ART_ACCESS_WRITE) != 0, reads = (access & ART_ACCESS_READ) != 0;
    bool trains = at->plan->steps[at->step].phase == ART_PHASE_TRAIN;
    ART_FAIL_IF(writes && t->role <= ART_ROLE_STATE &&
                    (!reads || !trains || t->role == ART_ROLE_FROZEN),
                err, ART_PLAN_FORMAT, "step %u (%s) would overwrite the persistent tensor '%s'",
                at->step, at->op->name, name);
    ART_FAIL_IF(writes && (t->role == ART_ROLE_INPUT || t->role == ART_ROLE_TARGET), err,
                ART_PLAN_FORMAT, "step %u (%s) would overwrite the batch in '%s'", at->step,
                at->op->name, name);
    return ART_OK;
}

/* A version of a tensor that some later step of the phase writes. */
#define WRITTEN_LATER UINT32_MAX

/* Weights and optimiser state are read in the same phase only before their update. */
static art_status check_kept_read(const place *at, uint32_t tensor, art_error *err) {
    unsigned role = at->plan->tensors[tensor].role;
    bool updated_once = role == ART_ROLE_WEIGHT || role == ART_ROLE_STATE;
    ART_FAIL_IF(updated_once && at->storages->storage[at->storages->of[tensor]].writes != 0, err,
                ART_PLAN_FORMAT,
                "step %u (%s) reads '%s', which an earlier step of the phase has updated", at->step,
                at->op->name, art_plan_name(at->plan, tensor));
    return ART_OK;
}

/* Does the tensor hold its own value? A tensor that no step of the phase writes is a view of what
 * the storage holds when it is first read; one that was written, or read as a view, and then
 * overwritten by another holds nothing. */
static art_status check_read(const place *at, uint32_t tensor, art_error *err) {
    const art_storage *s = &at->storages->storage[at->storages->of[tensor]];
    const art_plan_tensor *t = &at->plan->tensors[tensor], *w = &at->plan->tensors[s->writer];
    const char *name = art_plan_name(at->plan, tensor);
    uint32_t *version = &at->storages->version[tensor];
    if (s->kept) {
        return check_kept_read(at, tensor, err);
    }
    ART_FAIL_IF(s->writes == 0 || *version == WRITTEN_LATER, err, ART_PLAN_FORMAT,
                "step %u (%s) reads '%s', which nothing has written before in this phase", at->step,
                at->op->name, name);
    *version = *version == 0 ? s->writes : *version;
    ART_FAIL_IF(*version != s->writes, err, ART_PLAN_OVERLAP,
                "step %u (%s) reads '%s', which '%s' has overwritten in place", at->step,
                at->op->name, name, art_plan_name(at->plan, s->writer));
    ART_FAIL_IF(t->bytes > w->bytes, err, ART_PLAN_BUFFER,
                "step %u (%s) reads %llu bytes of '%s' where '%s' has written %llu", at->step,
                at->op->name, (unsigned long long)t->bytes, name,
                art_plan_name(at->plan, s->writer), (unsigned long long)w->bytes);
    ART_FAIL_IF(t->dtype != w->dtype || t->batched != w->batched, err, ART_PLAN_FORMAT,
                "step %u (%s) reads '%s' (type %u, batched %u) as a view of '%s' (type %u, batched "
                "%u)",
                at->step, at->op->name, name, t->dtype, t->batched,
                art_plan_name(at->plan, s->writer), w->dtype, w->batched);
    return ART_OK;
}

/* A gradient's norm fills its own slot of the phase's only accumulator. */
static art_status check_fill(const place *at, uint32_t tensor, art_error *err) {
    art_storages *storages = at->storages;
    const char *name = art_plan_name(at->plan, tensor);
    uint32_t slots = at->plan->tensors[tensor].dims[0];
    int64_t slot = at->plan->attrs[at->plan->steps[at->step].attrs + ART_GRAD_SUMSQ_A_INDEX].i;
    if (storages->accumulator == ART_PLAN_NONE) {
        storages->accumulator = tensor;
    }
    ART_FAIL_IF(storages->accumulator != tensor, err, ART_PLAN_FORMAT,
                "step %u (%s) fills '%s', but '%s' holds the phase's gradient norms", at->step,
                at->op->name, name, art_plan_name(at->plan, storages->accumulator));
    ART_FAIL_IF(slots > at->plan->n_tensors, err, ART_PLAN_FORMAT,
                "step %u (%s): '%s' has %u slots for gradients, but the plan has %u tensors",
                at->step, at->op->name, name, slots, at->plan->n_tensors);
    ART_FAIL_IF(slot < 0 || slot >= (int64_t)slots, err, ART_PLAN_FORMAT,
                "step %u (%s): index is %lld, '%s' needs 0 to %u", at->step, at->op->name,
                (long long)slot, name, slots - 1);
    ART_FAIL_IF(storages->order[slot] != 0, err, ART_PLAN_FORMAT,
                "step %u (%s) fills slot %lld of '%s' again", at->step, at->op->name,
                (long long)slot, name);
    storages->order[slot] = 1;
    storages->filled++;
    return ART_OK;
}

/* The norm of all gradients is read after each has filled its slot and nothing else has written. */
static art_status check_filled(const place *at, uint32_t tensor, art_error *err) {
    const art_storages *storages = at->storages;
    uint32_t slots = at->plan->tensors[tensor].dims[0];
    uint32_t filled = storages->accumulator == tensor ? storages->filled : 0;
    ART_FAIL_IF(filled != slots || storages->storage[storages->of[tensor]].writes != filled, err,
                ART_PLAN_FORMAT,
                "step %u (%s) reads '%s', of which gradients filled %u of %u slots in %u writes",
                at->step, at->op->name, art_plan_name(at->plan, tensor), filled, slots,
                storages->storage[storages->of[tensor]].writes);
    return check_read(at, tensor, err);
}

static void note_write(art_storages *storages, uint32_t tensor) {
    art_storage *s = &storages->storage[storages->of[tensor]];
    s->writes++;
    s->writer = tensor;
    storages->version[tensor] = s->writes;
}

static art_status check_flow_of_step(const place *at, art_error *err) {
    unsigned code = at->plan->steps[at->step].op;
    for (unsigned i = 0; i < at->op->n_operands; i++) {
        uint32_t tensor = art_plan_operand(at->plan, at->step, i);
        unsigned access = art_op_access(at->op, i);
        if (tensor == ART_PLAN_NONE) {
            continue;
        }
        ART_TRY(check_use(at, tensor, access, err));
        if (code == ART_OP_GRAD_SUMSQ && i == ART_GRAD_SUMSQ_ACC) {
            ART_TRY(check_fill(at, tensor, err));
        } else if (code == ART_OP_CLIP_SCALE && i == ART_CLIP_SCALE_ACC) {
            ART_TRY(check_filled(at, tensor, err));
        } else if (access & ART_ACCESS_READ) {
            ART_TRY(check_read(at, tensor, err));
        }
    }
    ART_TRY(check_aliases(at, err));
    for (unsigned i = 0; i < at->op->n_operands; i++) {
        uint32_t tensor = art_plan_operand(at->plan, at->step, i);
        if (tensor != ART_PLAN_NONE && (art_op_access(at->op, i) & ART_ACCESS_WRITE)) {
            note_write(at->storages, tensor);
        }
    }
    return ART_OK;
}

void art_plan_describe(const art_plan *plan, uint32_t step, art_op_args *args) {
    const art_plan_step *s = &plan->steps[step];
    args->attr = plan->attrs + s->attrs;
    args->n_attrs = s->n_attrs;
    args->n_operands = s->n_operands;
    for (unsigned i = 0; i < s->n_operands; i++) {
        uint32_t id = art_plan_operand(plan, step, i);
        art_array *array = &args->operand[i];
        memset(array, 0, sizeof *array);
        if (id == ART_PLAN_NONE) {
            continue;
        }
        const art_plan_tensor *t = &plan->tensors[id];
        array->bytes = t->bytes;
        memcpy(array->dims, t->dims, sizeof array->dims);
        array->ndim = t->ndim;
        array->dtype = t->dtype;
        array->batched = t->batched;
    }
}

static art_status check_workspace(const place *at, const art_op_args *args, art_error *err) {
    uint64_t need = at->op->workspace == NULL ? 0 : at->op->workspace(args), have = 0;
    const char *name = "none";
    for (unsigned i = 0; i < at->op->n_operands; i++) {
        uint32_t tensor = art_plan_operand(at->plan, at->step, i);
        if (tensor != ART_PLAN_NONE && art_op_access(at->op, i) == ART_ACCESS_SCRATCH) {
            have = at->plan->tensors[tensor].bytes;
            name = art_plan_name(at->plan, tensor);
        }
    }
    ART_FAIL_IF(
        have < need, err, ART_PLAN_WORKSPACE,
        "step %u (%s) needs a workspace of %llu bytes, the plan's (%s) has %llu: plan again "
        "with this version",
        at->step, at->op->name, (unsigned long long)need, name, (unsigned long long)have);
    return ART_OK;
}

static art_status check_operation(const place *at, art_error *err) {
    art_op_args args;
    memset(&args, 0, sizeof args);
    args.threads = at->plan->header->threads;
    args.learning_rate_scale = 1.0;
    art_plan_describe(at->plan, at->step, &args);
    art_status status = art_check_operation(at->op, &args, err);
    if (status != ART_OK && err != NULL) {
        char detail[sizeof err->text];
        memcpy(detail, err->text, sizeof detail);
        return art_fail(err, status, err->file, err->line, "step %u (%s, layer '%s'): %.400s",
                        at->step, at->op->name, at->plan->strings + at->plan->steps[at->step].layer,
                        detail);
    }
    ART_TRY(status);
    return check_workspace(at, &args, err);
}

static void mark_written_later(const art_plan *plan, art_storages *storages, uint32_t step) {
    const art_op *op = art_op_find(plan->steps[step].op);
    for (unsigned i = 0; i < op->n_operands; i++) {
        uint32_t tensor = art_plan_operand(plan, step, i);
        if (tensor != ART_PLAN_NONE && (art_op_access(op, i) & ART_ACCESS_WRITE)) {
            storages->version[tensor] = WRITTEN_LATER;
        }
    }
}

/* At the start of a phase nothing is written but what the engine puts into its input and target. */
static void start_phase(const art_plan *plan, art_storages *storages, const art_phase_io *io) {
    for (uint32_t i = 0; i < storages->n; i++) {
        storages->storage[i].writes = 0;
    }
    memset(storages->version, 0, plan->n_tensors * sizeof storages->version[0]);
    memset(storages->order, 0, plan->n_tensors * sizeof storages->order[0]);
    storages->accumulator = ART_PLAN_NONE;
    storages->filled = 0;
    for (uint32_t step = io->first; step < io->last; step++) {
        mark_written_later(plan, storages, step);
    }
    const uint32_t fed[2] = {io->input, io->target};
    for (unsigned i = 0; i < 2; i++) {
        if (fed[i] != ART_PLAN_NONE) {
            note_write(storages, fed[i]);
        }
    }
}

/* The engine reads outputs after the phase's last step. */
static art_status check_outputs(const place *at, art_error *err) {
    for (uint32_t i = 0; i < at->plan->n_tensors; i++) {
        const art_plan_tensor *t = &at->plan->tensors[i];
        if (t->role == ART_ROLE_OUTPUT && at->step >= t->first && at->step < t->last) {
            ART_TRY(check_read(at, i, err));
        }
    }
    return ART_OK;
}

static art_status check_flow(const art_plan *plan, art_storages *storages, const art_phase_io io[3],
                             art_error *err) {
    for (unsigned phase = 0; phase < 3; phase++) {
        start_phase(plan, storages, &io[phase]);
        for (uint32_t step = io[phase].first; step < io[phase].last; step++) {
            place at = {plan, storages, art_op_find(plan->steps[step].op), step};
            ART_TRY(check_flow_of_step(&at, err));
            ART_TRY(check_operation(&at, err));
            ART_TRY(art_plan_check_roles(plan, step, err));
            if (step + 1 == io[phase].last && phase == ART_PHASE_PREDICT) {
                ART_TRY(check_outputs(&at, err));
            }
        }
    }
    return ART_OK;
}

art_status art_plan_check(const art_plan *plan, art_storages *storages, art_phase_io io[3],
                          art_error *err) {
    ART_TRY(check_names(plan, storages->order, err));
    ART_TRY(build_storages(plan, storages, err));
    ART_TRY(check_stacks(plan, err));
    ART_TRY(art_plan_find_io(plan, io, err));
    ART_TRY(check_flow(plan, storages, io, err));
    return check_overlap(plan, storages, err);
}
