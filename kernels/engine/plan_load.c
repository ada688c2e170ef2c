/* Record by record: is every field of a plan file in its range? Trusts nothing, knows nothing of
 * what records mean together (plan_check.c). */
#include <math.h>
#include <string.h>

#include "core/crc32.h"
#include "engine/plan.h"
#include "ops/check.h"

typedef struct section {
    const char *name;
    uint64_t size; /* bytes of one entry */
    uint64_t limit;
} section;

static const section sections[ART_PLAN_N_SECTIONS] = {
    {"tensors", sizeof(art_plan_tensor), ART_MAX_RECORDS},
    {"steps", sizeof(art_plan_step), ART_MAX_RECORDS},
    {"operands", sizeof(uint32_t), (uint64_t)ART_MAX_RECORDS *ART_MAX_OPERANDS},
    {"attrs", sizeof(art_attr), (uint64_t)ART_MAX_RECORDS * 16},
    {"swap", sizeof(art_plan_swap), 0},
    {"strings", 1, UINT32_MAX},
    {"meta", 1, UINT32_MAX},
};

typedef struct extent {
    uint64_t offset;
    uint64_t count;
} extent;

_Static_assert(sizeof(extent) * ART_PLAN_N_SECTIONS + offsetof(art_plan_header, tensors_offset) ==
                   sizeof(art_plan_header),
               "the header ends with one extent per section");

static void read_extents(const art_plan_header *header, extent extents[ART_PLAN_N_SECTIONS]) {
    memcpy(extents, &header->tensors_offset, sizeof(extent) * ART_PLAN_N_SECTIONS);
}

static uint64_t round_up(uint64_t value, uint64_t unit) {
    return (value + unit - 1) / unit * unit;
}

/* Sections follow each other in order, each at the next multiple of 8, up to the file's end. */
static art_status check_sections(const art_plan_header *header, const unsigned char *bytes,
                                 art_error *err) {
    extent extents[ART_PLAN_N_SECTIONS];
    uint64_t end = sizeof *header;
    read_extents(header, extents);
    for (int i = 0; i < ART_PLAN_N_SECTIONS; i++) {
        const section *s = &sections[i];
        uint64_t offset = extents[i].offset, count = extents[i].count, expected = round_up(end, 8);
        ART_FAIL_IF(offset != expected || offset > header->file_bytes, err, ART_PLAN_FORMAT,
                    "section %s starts at byte %llu, %llu expected in a file of %llu bytes",
                    s->name, (unsigned long long)offset, (unsigned long long)expected,
                    (unsigned long long)header->file_bytes);
        ART_FAIL_IF(count > s->limit || count > (header->file_bytes - offset) / s->size, err,
                    ART_PLAN_FORMAT,
                    "section %s has %llu entries of %llu bytes: at most %llu are supported and "
                    "%llu bytes are left",
                    s->name, (unsigned long long)count, (unsigned long long)s->size,
                    (unsigned long long)s->limit,
                    (unsigned long long)(header->file_bytes - offset));
        for (; end < offset; end++) {
            ART_FAIL_IF(bytes[end] != 0, err, ART_PLAN_FORMAT,
                        "byte %llu in the gap before section %s is not zero",
                        (unsigned long long)end, s->name);
        }
        end = offset + count * s->size;
    }
    ART_FAIL_IF(end != header->file_bytes, err, ART_PLAN_FORMAT,
                "%llu bytes follow the last section",
                (unsigned long long)(header->file_bytes - end));
    return ART_OK;
}

static art_status check_numbers(const art_plan_header *h, art_error *err) {
    ART_FAIL_IF(h->reserved0 != 0 || h->alignment != ART_ALIGNMENT, err, ART_PLAN_FORMAT,
                "reserved is %u and the alignment %u; 0 and %u expected", h->reserved0,
                h->alignment, ART_ALIGNMENT);
    ART_FAIL_IF(h->batch_size < 1 || h->batch_size > ART_MAX_DIM, err, ART_PLAN_FORMAT,
                "the planned batch is %u; 1 to %u are possible", h->batch_size, ART_MAX_DIM);
    ART_FAIL_IF(h->threads < 1 || h->threads > ART_MAX_THREADS, err, ART_PLAN_FORMAT,
                "%u threads are planned; 1 to %u are possible", h->threads, ART_MAX_THREADS);
    ART_FAIL_IF(
        h->arena_bytes == 0 || h->arena_bytes % ART_ALIGNMENT != 0 ||
            h->arena_bytes > ART_MAX_ARENA_BYTES,
        err, ART_PLAN_BUFFER, "the arena has %llu bytes; a multiple of %u up to %llu expected",
        (unsigned long long)h->arena_bytes, ART_ALIGNMENT, (unsigned long long)ART_MAX_ARENA_BYTES);
    ART_FAIL_IF(
        h->arena_bytes > SIZE_MAX / 2, err, ART_MEMORY_LIMIT,
        "the arena has %llu bytes, a %zu-bit process can have at most %zu: plan with a smaller "
        "batch or a budget, or use a 64-bit system",
        (unsigned long long)h->arena_bytes, 8 * sizeof(void *), SIZE_MAX / 2);
    ART_FAIL_IF(h->lower_bound_bytes > h->proved_minimum_bytes ||
                    h->proved_minimum_bytes > h->arena_bytes,
                err, ART_PLAN_FORMAT,
                "lower bound %llu, proved minimum %llu and arena %llu bytes are not in order",
                (unsigned long long)h->lower_bound_bytes,
                (unsigned long long)h->proved_minimum_bytes, (unsigned long long)h->arena_bytes);
    ART_FAIL_IF(h->budget_bytes != 0 && h->arena_bytes > h->budget_bytes, err, ART_PLAN_FORMAT,
                "the arena of %llu bytes is larger than its budget of %llu",
                (unsigned long long)h->arena_bytes, (unsigned long long)h->budget_bytes);
    uint64_t steps = (uint64_t)h->n_train_steps + h->n_evaluate_steps + h->n_predict_steps;
    ART_FAIL_IF(steps != h->steps_count || steps == 0 || h->tensors_count == 0, err,
                ART_PLAN_FORMAT, "%llu tensors, %llu steps, but %llu steps in phases",
                (unsigned long long)h->tensors_count, (unsigned long long)h->steps_count,
                (unsigned long long)steps);
    return ART_OK;
}

art_status art_plan_read_header(const void *bytes, size_t n_bytes, art_plan_header *header,
                                art_error *err) {
    ART_FAIL_IF(bytes == NULL || n_bytes < sizeof *header, err, ART_PLAN_FORMAT,
                "the file has %zu bytes; a plan has at least %zu", n_bytes, sizeof *header);
    memcpy(header, bytes, sizeof *header);
    ART_FAIL_IF(memcmp(header->magic, ART_PLAN_MAGIC, sizeof header->magic) != 0, err,
                ART_PLAN_FORMAT, "the file does not start like an armtrain plan");
    ART_FAIL_IF(header->version_major != ART_PLAN_VERSION_MAJOR ||
                    header->version_minor > ART_PLAN_VERSION_MINOR,
                err, ART_PLAN_FORMAT,
                "the plan has format version %u.%u, this armtrain reads %u.%u: plan again with "
                "this version",
                header->version_major, header->version_minor, ART_PLAN_VERSION_MAJOR,
                ART_PLAN_VERSION_MINOR);
    ART_FAIL_IF(header->header_bytes != sizeof *header, err, ART_PLAN_FORMAT,
                "the header says it has %u bytes, %zu expected", header->header_bytes,
                sizeof *header);
    ART_FAIL_IF(header->file_bytes != n_bytes, err, ART_PLAN_FORMAT,
                "the file has %zu bytes but was written with %llu: copy it again", n_bytes,
                (unsigned long long)header->file_bytes);
    uint32_t crc = art_crc32(0, (const unsigned char *)bytes + ART_PLAN_CRC_START,
                             n_bytes - ART_PLAN_CRC_START);
    ART_FAIL_IF(crc != header->crc32, err, ART_PLAN_CHECKSUM,
                "the checksum is %08x but was written as %08x: the file was changed or damaged, "
                "copy it again",
                crc, header->crc32);
    ART_TRY(check_numbers(header, err));
    return check_sections(header, bytes, err);
}

void art_plan_phase(const art_plan_header *header, unsigned phase, uint32_t *first,
                    uint32_t *last) {
    const uint32_t counts[3] = {header->n_train_steps, header->n_evaluate_steps,
                                header->n_predict_steps};
    *first = 0;
    for (unsigned i = 0; i < phase; i++) {
        *first += counts[i];
    }
    *last = *first + counts[phase];
}

static art_status check_strings(const art_plan *plan, art_error *err) {
    uint64_t n = plan->header->strings_count;
    ART_FAIL_IF(n == 0 || plan->strings[0] != '\0' || plan->strings[n - 1] != '\0', err,
                ART_PLAN_FORMAT, "the strings section does not start and end with NUL");
    return ART_OK;
}

/* Product of all ART_MAX_DIMS entries; 0 if one is zero or the product does not fit. Entries from
 * `used` on must be 1. */
static uint64_t product(const uint32_t dims[ART_MAX_DIMS], unsigned used) {
    uint64_t result = 1;
    for (unsigned i = 0; i < ART_MAX_DIMS; i++) {
        if (dims[i] == 0 || dims[i] > ART_MAX_DIM || (i >= used && dims[i] != 1) ||
            __builtin_mul_overflow(result, dims[i], &result)) {
            return 0;
        }
    }
    return result;
}

static bool is_permutation(const uint8_t perm[ART_MAX_DIMS]) {
    unsigned seen = 0;
    for (unsigned i = 0; i < ART_MAX_DIMS; i++) {
        seen |= perm[i] < ART_MAX_DIMS ? 1u << perm[i] : 0;
    }
    return seen == (1u << ART_MAX_DIMS) - 1;
}

static art_status check_codes(const art_plan_tensor *t, const char *name, art_error *err) {
    ART_FAIL_IF(t->role > ART_ROLE_OUTPUT || art_dtype_bytes(t->dtype) == 0 || t->batched > 1 ||
                    t->init_kind > ART_INIT_NORMAL_BUT_ROW,
                err, ART_PLAN_FORMAT,
                "tensor '%s': unknown role %u, type %u, batched %u or initialiser %u", name,
                t->role, t->dtype, t->batched, t->init_kind);
    ART_FAIL_IF(t->ndim < 1 || t->ndim > ART_MAX_DIMS || t->shape_ndim < 1 ||
                    t->shape_ndim > ART_MAX_DIMS,
                err, ART_PLAN_FORMAT, "tensor '%s' has %u and %u dimensions; 1 to %u expected",
                name, t->ndim, t->shape_ndim, ART_MAX_DIMS);
    ART_FAIL_IF(t->reserved[0] | t->reserved[1] | t->reserved[2] | t->reserved[3], err,
                ART_PLAN_FORMAT, "tensor '%s': reserved bytes are not zero", name);
    ART_FAIL_IF(!isfinite(t->init_a) || !isfinite(t->init_b), err, ART_PLAN_FORMAT,
                "tensor '%s': the initialiser's numbers are not finite", name);
    ART_FAIL_IF(t->role <= ART_ROLE_BUFFER && t->dtype != ART_DTYPE_F32, err, ART_PLAN_FORMAT,
                "tensor '%s' is a parameter or buffer and must be float32", name);
    return ART_OK;
}

static art_status check_shape(const art_plan *plan, const art_plan_tensor *t, const char *name,
                              art_error *err) {
    uint64_t elements = product(t->dims, t->ndim), need;
    ART_FAIL_IF(elements == 0 || product(t->shape, t->shape_ndim) != elements ||
                    product(t->view, ART_MAX_DIMS) != elements || !is_permutation(t->perm),
                err, ART_PLAN_FORMAT,
                "tensor '%s': its dimensions, the user's shape, the view and the permutation do "
                "not describe the same elements",
                name);
    uint32_t batch = plan->header->batch_size;
    ART_FAIL_IF(t->batched && (t->dims[0] != batch || t->shape[0] != batch || t->view[0] != batch ||
                               t->perm[0] != 0),
                err, ART_PLAN_FORMAT,
                "tensor '%s' is batched but its first dimension is not the planned batch of %u",
                name, batch);
    ART_FAIL_IF(t->batched && t->role <= ART_ROLE_STATE, err, ART_PLAN_FORMAT,
                "tensor '%s' outlives a step and cannot be batched", name);
    ART_FAIL_IF(
        __builtin_mul_overflow(elements, art_dtype_bytes(t->dtype), &need) || need != t->bytes, err,
        ART_PLAN_BUFFER, "tensor '%s' has a buffer of %llu bytes but %llu elements of %u", name,
        (unsigned long long)t->bytes, (unsigned long long)elements,
        (unsigned)art_dtype_bytes(t->dtype));
    return ART_OK;
}

static art_status check_tensor(const art_plan *plan, uint32_t index, art_error *err) {
    const art_plan_tensor *t = &plan->tensors[index];
    uint64_t arena = plan->header->arena_bytes;
    ART_FAIL_IF(t->name >= plan->header->strings_count, err, ART_PLAN_FORMAT,
                "tensor %u: its name lies outside the strings section", index);
    const char *name = plan->strings + t->name;
    ART_TRY(check_codes(t, name, err));
    ART_TRY(check_shape(plan, t, name, err));
    ART_FAIL_IF(t->offset % ART_ALIGNMENT != 0, err, ART_PLAN_BUFFER,
                "tensor '%s' starts at byte %llu, not at a multiple of %u", name,
                (unsigned long long)t->offset, ART_ALIGNMENT);
    ART_FAIL_IF(t->bytes > arena || t->offset > arena - t->bytes, err, ART_PLAN_BUFFER,
                "tensor '%s' has %llu bytes at byte %llu, outside the arena of %llu bytes", name,
                (unsigned long long)t->bytes, (unsigned long long)t->offset,
                (unsigned long long)arena);
    ART_FAIL_IF(t->first >= t->last || t->last > plan->n_steps, err, ART_PLAN_FORMAT,
                "tensor '%s' is live for steps [%u, %u) of %u", name, t->first, t->last,
                plan->n_steps);
    return ART_OK;
}

static art_status check_attrs(const art_plan *plan, uint32_t index, const art_op *op,
                              art_error *err) {
    const art_plan_step *s = &plan->steps[index];
    bool counted = s->n_attrs == op->n_attrs || (op->tail && s->n_attrs > op->n_attrs);
    ART_FAIL_IF(!counted || s->attrs > plan->header->attrs_count ||
                    s->n_attrs > plan->header->attrs_count - s->attrs,
                err, ART_PLAN_FORMAT, "step %u (%s): attributes %u + %u of %llu; %u expected",
                index, op->name, s->attrs, s->n_attrs,
                (unsigned long long)plan->header->attrs_count, op->n_attrs);
    return ART_OK;
}

static art_status check_step(const art_plan *plan, uint32_t index, unsigned phase, art_error *err) {
    const art_plan_step *s = &plan->steps[index];
    const art_op *op = art_op_find(s->op);
    ART_FAIL_IF(op == NULL, err, ART_PLAN_FORMAT,
                "step %u: operation code %u is unknown: plan again with this version", index,
                s->op);
    ART_FAIL_IF(
        s->phase != phase || s->kind > 4 || s->reserved != 0 || s->reserved1 != 0 ||
            s->layer >= plan->header->strings_count,
        err, ART_PLAN_FORMAT,
        "step %u (%s): phase %u (%u expected), kind %u, reserved %u and %u, or a layer name "
        "outside the strings section",
        index, op->name, s->phase, phase, s->kind, s->reserved, s->reserved1);
    ART_FAIL_IF(s->n_operands != op->n_operands || s->operands > plan->header->operands_count ||
                    s->n_operands > plan->header->operands_count - s->operands,
                err, ART_PLAN_FORMAT, "step %u (%s): operands %u + %u of %llu; %u expected", index,
                op->name, s->operands, s->n_operands,
                (unsigned long long)plan->header->operands_count, op->n_operands);
    for (unsigned i = 0; i < op->n_operands; i++) {
        uint32_t id = plan->operands[s->operands + i];
        bool absent = id == ART_PLAN_NONE && (op->access[i] & ART_ACCESS_OPTIONAL) != 0;
        ART_FAIL_IF(id >= plan->n_tensors && !absent, err, ART_PLAN_FORMAT,
                    "step %u (%s): operand %u is tensor %u of %u", index, op->name, i, id,
                    plan->n_tensors);
    }
    return check_attrs(plan, index, op, err);
}

art_status art_plan_load(art_plan *plan, const void *bytes, art_error *err) {
    const unsigned char *base = bytes;
    const art_plan_header *header = bytes;
    plan->header = header;
    plan->tensors = (const void *)(base + header->tensors_offset);
    plan->steps = (const void *)(base + header->steps_offset);
    plan->operands = (const void *)(base + header->operands_offset);
    plan->attrs = (const void *)(base + header->attrs_offset);
    plan->strings = (const void *)(base + header->strings_offset);
    plan->n_tensors = (uint32_t)header->tensors_count;
    plan->n_steps = (uint32_t)header->steps_count;
    ART_TRY(check_strings(plan, err));
    for (uint32_t i = 0; i < plan->n_tensors; i++) {
        ART_TRY(check_tensor(plan, i, err));
    }
    for (unsigned phase = 0; phase < 3; phase++) {
        uint32_t first, last;
        art_plan_phase(header, phase, &first, &last);
        for (uint32_t i = first; i < last; i++) {
            ART_TRY(check_step(plan, i, phase, err));
        }
    }
    return ART_OK;
}
