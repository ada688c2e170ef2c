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
    ART_FAIL_IF(
        (t->role == ART_ROLE_WORKSPACE) != (plan->tensors[s->tensor].role == ART_ROLE_WORKSPACE),
        err, ART_PLAN_BUFFER, "tensors '%s' and '%s' share storage %u, but one of them is scratch",
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

/* Does the tensor hold its own value? A tensor that no step of the phase has written is a view of
 * what the storage holds; one that was written and then overwritten by another holds nothing. */
static art_status check_read(const place *at, uint32_t tensor, art_error *err) {
    const art_storage *s = &at->storages->storage[at->storages->of[tensor]];
    const char *name = art_plan_name(at->plan, tensor);
    if (s->kept) {
        return ART_OK;
    }
    ART_FAIL_IF(s->writes == 0, err, ART_PLAN_FORMAT,
                "step %u (%s) reads '%s', which nothing has written in this phase", at->step,
                at->op->name, name);
    uint32_t version = at->storages->version[tensor];
    ART_FAIL_IF(version != 0 && version != s->writes, err, ART_PLAN_OVERLAP,
                "step %u (%s) reads '%s', which '%s' has overwritten in place", at->step,
                at->op->name, name, art_plan_name(at->plan, s->writer));
    ART_FAIL_IF(
        at->plan->tensors[tensor].bytes > at->plan->tensors[s->writer].bytes, err, ART_PLAN_BUFFER,
        "step %u (%s) reads %llu bytes of '%s' where '%s' has written %llu", at->step, at->op->name,
        (unsigned long long)at->plan->tensors[tensor].bytes, name,
        art_plan_name(at->plan, s->writer), (unsigned long long)at->plan->tensors[s->writer].bytes);
    return ART_OK;
}

static void note_write(art_storages *storages, uint32_t tensor) {
    art_storage *s = &storages->storage[storages->of[tensor]];
    s->writes++;
    s->writer = tensor;
    storages->version[tensor] = s->writes;
}

static art_status check_flow_of_step(const place *at, art_error *err) {
    for (unsigned i = 0; i < at->op->n_operands; i++) {
        uint32_t tensor = art_plan_operand(at->plan, at->step, i);
        unsigned access = art_op_access(at->op, i);
        if (tensor == ART_PLAN_NONE) {
            continue;
        }
        ART_TRY(check_use(at, tensor, access, err));
        /* An accumulator of one slot per gradient (role METRIC) is filled slot by slot. */
        bool accumulates = access == (ART_ACCESS_READ | ART_ACCESS_WRITE) &&
                           at->plan->tensors[tensor].role == ART_ROLE_METRIC;
        if ((access & ART_ACCESS_READ) && !accumulates) {
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

/* At the start of a phase nothing is written but what the engine puts into inputs and targets. */
static void start_phase(const art_plan *plan, art_storages *storages) {
    for (uint32_t i = 0; i < storages->n; i++) {
        storages->storage[i].writes = 0;
    }
    memset(storages->version, 0, plan->n_tensors * sizeof storages->version[0]);
    for (uint32_t i = 0; i < plan->n_tensors; i++) {
        art_storage *s = &storages->storage[storages->of[i]];
        if (plan->tensors[i].role == ART_ROLE_INPUT || plan->tensors[i].role == ART_ROLE_TARGET) {
            s->writes = 1;
            s->writer = i;
            storages->version[i] = 1;
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

static art_status check_flow(const art_plan *plan, art_storages *storages, art_error *err) {
    for (unsigned phase = 0; phase < 3; phase++) {
        uint32_t first, last;
        art_plan_phase(plan->header, phase, &first, &last);
        start_phase(plan, storages);
        for (uint32_t step = first; step < last; step++) {
            place at = {plan, storages, art_op_find(plan->steps[step].op), step};
            ART_TRY(check_flow_of_step(&at, err));
            ART_TRY(check_operation(&at, err));
            if (step + 1 == last && phase == ART_PHASE_PREDICT) {
                ART_TRY(check_outputs(&at, err));
            }
        }
    }
    return ART_OK;
}

art_status art_plan_check(const art_plan *plan, art_storages *storages, art_error *err) {
    ART_TRY(check_names(plan, storages->order, err));
    ART_TRY(build_storages(plan, storages, err));
    ART_TRY(check_stacks(plan, err));
    ART_TRY(check_flow(plan, storages, err));
    return check_overlap(plan, storages, err);
}
