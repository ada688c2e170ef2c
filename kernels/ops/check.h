/* Checks that operations share. A plan file is untrusted: every size is computed without overflow
 * before it is compared, and after an operation's check its run may trust dims and bytes.
 * `name` is always "operation.operand" or "operation.attribute", as it appears in messages. */
#ifndef ART_OPS_CHECK_H
#define ART_OPS_CHECK_H

#include <stdbool.h>

#include "ops/ops.h"

/* a * b into *out; false when it does not fit. */
static inline bool art_mul_fits(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

/* a * b, or UINT64_MAX when it does not fit: a size that no buffer has. */
static inline uint64_t art_mul_saturated(uint64_t a, uint64_t b) {
    uint64_t product;
    return art_mul_fits(a, b, &product) ? product : UINT64_MAX;
}

static inline uint64_t art_ceil_div(uint64_t a, uint64_t b) {
    return a / b + (a % b != 0);
}

/* An absent optional operand has no dimensions (and no data while running). */
static inline bool art_present(const art_op_args *args, unsigned slot) {
    return args->operand[slot].ndim != 0;
}

/* Elements of an operand at its current dims, UINT64_MAX when they do not fit. */
static inline uint64_t art_count(const art_array *array) {
    uint64_t count = 1;
    for (unsigned i = 0; i < array->ndim; i++) {
        count = art_mul_saturated(count, array->dims[i]);
    }
    return count;
}

/* Bytes of one element, 0 for an unknown type. */
uint64_t art_dtype_bytes(unsigned dtype);

/* Output positions of a sliding window: floor((in + 2 pad - dil (kernel - 1) - 1) / stride) + 1, or
 * 0 when the window is larger than the padded input; what windows reach beyond the padding counts
 * as input. All arguments at most INT32_MAX. */
static inline int64_t art_window_out(int64_t in, int64_t kernel, int64_t stride, int64_t pad,
                                     int64_t dil) {
    int64_t room = in + 2 * pad - dil * (kernel - 1) - 1;
    return room < 0 ? 0 : room / stride + 1;
}

/* Whether a float is the number of one of `rows` rows. */
static inline bool art_is_index(float value, uint32_t rows) {
    return value >= 0.0f && value < (float)rows && value == (float)(uint32_t)value;
}

enum { ART_ANY_RANK = 0 };

/* The operand is there, has this type and rank, no empty dimension, and its bytes hold it. */
art_status art_check_operand(const art_op_args *args, unsigned slot, const char *name,
                             unsigned dtype, unsigned ndim, art_error *err);

/* The same for an optional operand that is present; nothing otherwise. */
art_status art_check_optional(const art_op_args *args, unsigned slot, const char *name,
                              unsigned dtype, unsigned ndim, art_error *err);

/* A present operand's dimensions are exactly dims[0..ndim); rank and type were checked. */
art_status art_check_dims(const art_op_args *args, unsigned slot, const char *name,
                          const uint32_t *dims, art_error *err);

/* A present operand goes element by element with operand `other`: as many elements, as many rows
 * (dims[0]), and both batched or neither. Ranks may differ: flattening is free. */
art_status art_check_matches(const art_op_args *args, unsigned slot, const char *name,
                             unsigned other, art_error *err);

/* Slots 0 to n - 1 are float arrays that go element by element with the first. */
art_status art_check_alike(const art_op_args *args, const char *const *names, unsigned n,
                           art_error *err);

/* A present operand is batched (1) or not (0). */
art_status art_check_batched(const art_op_args *args, unsigned slot, const char *name,
                             unsigned batched, art_error *err);

/* A required float vector of `n` elements that does not depend on the batch. */
art_status art_check_vector(const art_op_args *args, unsigned slot, const char *name,
                            unsigned dtype, uint32_t n, art_error *err);

/* The same, or absent. */
art_status art_check_optional_vector(const art_op_args *args, unsigned slot, const char *name,
                                     unsigned dtype, uint32_t n, art_error *err);

/* The workspace operand holds `need` bytes (it may be absent when need is 0). */
art_status art_check_workspace(const art_op_args *args, unsigned slot, const char *name,
                               uint64_t need, art_error *err);

/* lo <= attribute <= hi, for a range that depends on the operands. */
art_status art_check_int(const art_op_args *args, unsigned index, const char *name, int64_t lo,
                         int64_t hi, art_error *err);

/* All attributes are in their ranges of the catalogue, and the operation accepts its operands. */
art_status art_check_operation(const art_op *op, const art_op_args *args, art_error *err);

/* Defines the workspace function of an operation that needs none. */
#define ART_NO_WORKSPACE(name)                                                                     \
    uint64_t art_op_##name##_workspace(const art_op_args *args) {                                  \
        (void)args;                                                                                \
        return 0;                                                                                  \
    }

#endif
