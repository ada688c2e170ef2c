#include "ops/check.h"

#include <math.h>

uint64_t art_dtype_bytes(unsigned dtype) {
    static const uint8_t bytes[] = {
        [ART_DTYPE_F32] = 4, [ART_DTYPE_F64] = 8, [ART_DTYPE_I32] = 4,
        [ART_DTYPE_U8] = 1,  [ART_DTYPE_I64] = 8,
    };
    return dtype < sizeof bytes ? bytes[dtype] : 0;
}

/* An array of four dimensions is a batch of images, whose pixels kernels count in 32 bits. */
static art_status check_image(const art_array *array, const char *name, art_error *err) {
    const uint32_t *dims = array->dims;
    if (array->ndim != 4) {
        return ART_OK;
    }
    uint64_t rows = art_mul_saturated((uint64_t)dims[0] * dims[1], dims[2]);
    ART_FAIL_IF(dims[1] > ART_MAX_SIDE || dims[2] > ART_MAX_SIDE || rows > ART_MAX_ROWS, err,
                ART_SHAPE,
                "%s is too large: %u images of %u x %u; height and width may be %u, all pixels %u",
                name, dims[0], dims[1], dims[2], ART_MAX_SIDE, ART_MAX_ROWS);
    return ART_OK;
}

art_status art_check_operand(const art_op_args *args, unsigned slot, const char *name,
                             unsigned dtype, unsigned ndim, art_error *err) {
    const art_array *array = &args->operand[slot];
    ART_FAIL_IF(slot >= args->n_operands || !art_present(args, slot), err, ART_PLAN_FORMAT,
                "%s is missing and is needed", name);
    ART_FAIL_IF(array->dtype != dtype, err, ART_PLAN_FORMAT, "%s has element type %u, needs %u",
                name, array->dtype, dtype);
    ART_FAIL_IF(array->ndim > ART_MAX_DIMS || (ndim != ART_ANY_RANK && array->ndim != ndim), err,
                ART_SHAPE, "%s has %u dimensions, needs %u", name, array->ndim, ndim);
    for (unsigned i = 0; i < array->ndim; i++) {
        ART_FAIL_IF(array->dims[i] == 0, err, ART_SHAPE, "%s has an empty dimension %u", name, i);
    }
    uint64_t need = art_mul_saturated(art_count(array), art_dtype_bytes(dtype));
    ART_FAIL_IF(need > array->bytes || need > SIZE_MAX / 2, err, ART_PLAN_BUFFER,
                "%s has %llu bytes, its dimensions need %llu", name,
                (unsigned long long)array->bytes, (unsigned long long)need);
    return check_image(array, name, err);
}

art_status art_check_optional(const art_op_args *args, unsigned slot, const char *name,
                              unsigned dtype, unsigned ndim, art_error *err) {
    if (slot < args->n_operands && !art_present(args, slot)) {
        return ART_OK;
    }
    return art_check_operand(args, slot, name, dtype, ndim, err);
}

art_status art_check_dims(const art_op_args *args, unsigned slot, const char *name,
                          const uint32_t *dims, art_error *err) {
    const art_array *array = &args->operand[slot];
    for (unsigned i = 0; i < array->ndim; i++) {
        ART_FAIL_IF(array->dims[i] != dims[i], err, ART_SHAPE, "%s has dimension %u = %u, needs %u",
                    name, i, array->dims[i], dims[i]);
    }
    return ART_OK;
}

art_status art_check_matches(const art_op_args *args, unsigned slot, const char *name,
                             unsigned other, art_error *err) {
    const art_array *a = &args->operand[slot];
    const art_array *b = &args->operand[other];
    if (!art_present(args, slot)) {
        return ART_OK;
    }
    ART_FAIL_IF(art_count(a) != art_count(b) || a->dims[0] != b->dims[0], err, ART_SHAPE,
                "%s has %llu elements in %u rows, needs %llu in %u", name,
                (unsigned long long)art_count(a), a->dims[0], (unsigned long long)art_count(b),
                b->dims[0]);
    return art_check_batched(args, slot, name, b->batched, err);
}

art_status art_check_alike(const art_op_args *args, const char *const *names, unsigned n,
                           art_error *err) {
    for (unsigned slot = 0; slot < n; slot++) {
        ART_TRY(art_check_operand(args, slot, names[slot], ART_DTYPE_F32, ART_ANY_RANK, err));
        ART_TRY(art_check_matches(args, slot, names[slot], 0, err));
    }
    return ART_OK;
}

art_status art_check_batched(const art_op_args *args, unsigned slot, const char *name,
                             unsigned batched, art_error *err) {
    if (art_present(args, slot)) {
        ART_FAIL_IF(!args->operand[slot].batched != !batched, err, ART_PLAN_FORMAT,
                    "%s is %s, needs the opposite", name, batched ? "not batched" : "batched");
    }
    return ART_OK;
}

art_status art_check_vector(const art_op_args *args, unsigned slot, const char *name,
                            unsigned dtype, uint32_t n, art_error *err) {
    ART_TRY(art_check_operand(args, slot, name, dtype, 1, err));
    ART_TRY(art_check_dims(args, slot, name, &n, err));
    return art_check_batched(args, slot, name, 0, err);
}

art_status art_check_optional_vector(const art_op_args *args, unsigned slot, const char *name,
                                     unsigned dtype, uint32_t n, art_error *err) {
    if (slot < args->n_operands && !art_present(args, slot)) {
        return ART_OK;
    }
    return art_check_vector(args, slot, name, dtype, n, err);
}

art_status art_check_workspace(const art_op_args *args, unsigned slot, const char *name,
                               uint64_t need, art_error *err) {
    const art_array *ws = &args->operand[slot];
    if (art_present(args, slot)) {
        ART_TRY(art_check_operand(args, slot, name, ART_DTYPE_U8, 1, err));
        ART_TRY(art_check_batched(args, slot, name, 0, err));
    }
    uint64_t have = art_present(args, slot) ? ws->bytes : 0;
    ART_FAIL_IF(have < need, err, ART_PLAN_WORKSPACE,
                "%s has %llu bytes, the operation needs %llu for %u threads: plan again with this "
                "version",
                name, (unsigned long long)have, (unsigned long long)need, args->threads);
    return ART_OK;
}

art_status art_check_int(const art_op_args *args, unsigned index, const char *name, int64_t lo,
                         int64_t hi, art_error *err) {
    int64_t value = args->attr[index].i;
    ART_FAIL_IF(value < lo || value > hi, err, ART_PLAN_FORMAT, "%s is %lld, needs %lld to %lld",
                name, (long long)value, (long long)lo, (long long)hi);
    return ART_OK;
}

/* A float attribute is used as a float32: it is 0 or what every processor keeps apart from 0. */
static art_status check_attr(const art_attr_spec *spec, art_attr attr, const char *op,
                             art_error *err) {
    if (spec->kind == 'i') {
        ART_FAIL_IF((double)attr.i < spec->low || (double)attr.i > spec->high, err, ART_PLAN_FORMAT,
                    "%s.%s is %lld, needs %.0f to %.0f", op, spec->name, (long long)attr.i,
                    spec->low, spec->high);
        return ART_OK;
    }
    bool too_small = attr.f != 0.0 && fabs(attr.f) < ART_MIN_FLOAT;
    ART_FAIL_IF(!isfinite(attr.f) || attr.f < spec->low || attr.f > spec->high || too_small, err,
                ART_PLAN_FORMAT,
                "%s.%s is %g, needs a finite number from %g to %g, not between 0 and %g", op,
                spec->name, art_shown(attr.f), spec->low, spec->high, ART_MIN_FLOAT);
    return ART_OK;
}

art_status art_check_operation(const art_op *op, const art_op_args *args, art_error *err) {
    for (unsigned i = 0; i < op->n_attrs; i++) {
        ART_TRY(check_attr(&op->attr[i], args->attr[i], op->name, err));
    }
    for (unsigned i = op->n_attrs; op->tail && i < args->n_attrs; i++) {
        ART_TRY(check_attr(&op->attr[op->n_attrs], args->attr[i], op->name, err));
    }
    return op->check(args, err);
}
