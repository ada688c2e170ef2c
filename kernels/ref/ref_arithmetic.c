#include <math.h>

#include "ops/check.h"
#include "ref/ref_ops.h"

static double value(const art_op_args *args, unsigned slot, uint64_t i) {
    return (double)((const float *)args->operand[slot].data)[i];
}

/* The place in the smaller array of element i of the larger one. */
static uint64_t small_place(const art_array *large, const art_array *small, uint64_t i) {
    uint64_t place = 0, stride = 1;
    for (unsigned k = large->ndim; k-- > 0; i /= large->dims[k]) {
        unsigned ahead = large->ndim - small->ndim;
        uint32_t dim = k < ahead ? 1 : small->dims[k - ahead];
        place += dim == 1 ? 0 : i % large->dims[k] * stride;
        stride *= dim;
    }
    return place;
}

static double combined(int64_t how, double a, double b) {
    switch (how) {
    case ART_COMBINE_ADD:
        return a + b;
    case ART_COMBINE_SUB:
        return a - b;
    case ART_COMBINE_MUL:
        return a * b;
    case ART_COMBINE_DIV:
        return a / b;
    case ART_COMBINE_RSUB:
        return b - a;
    default:
        return b / a;
    }
}

void art_ref_combine(const art_op_args *args, double *const *out, double *const *tol) {
    const art_array *a = &args->operand[ART_COMBINE_A];
    for (uint64_t i = 0; i < art_count(a); i++) {
        uint64_t at = small_place(a, &args->operand[ART_COMBINE_OTHER], i);
        double y = combined(args->attr[ART_COMBINE_A_HOW].i, value(args, ART_COMBINE_A, i),
                            value(args, ART_COMBINE_OTHER, at));
        out[ART_COMBINE_Y][i] = y;
        tol[ART_COMBINE_Y][i] = ART_REF_U * fabs(y);
    }
}

void art_ref_affine(const art_op_args *args, double *const *out, double *const *tol) {
    double scale = args->attr[ART_AFFINE_A_SCALE].f, shift = args->attr[ART_AFFINE_A_SHIFT].f;
    for (uint64_t i = 0; i < art_count(&args->operand[0]); i++) {
        double part = scale * value(args, ART_AFFINE_X, i), y = part + shift;
        out[ART_AFFINE_Y][i] = y;
        /* Both numbers, the product and the sum. */
        tol[ART_AFFINE_Y][i] = 1.01 * ART_REF_U * (2 * fabs(part) + fabs(shift) + fabs(y));
    }
}

void art_ref_power(const art_op_args *args, double *const *out, double *const *tol) {
    int64_t halves = args->attr[ART_POWER_A_HALVES].i;
    for (uint64_t i = 0; i < art_count(&args->operand[0]); i++) {
        double y = pow(value(args, ART_POWER_X, i), (double)halves / 2);
        out[ART_POWER_Y][i] = y;
        /* A rounding a factor, those of the root, its product and the quotient. */
        double roundings = fabs((double)halves) / 2 + 4;
        tol[ART_POWER_Y][i] = 1.01 * ART_REF_U * roundings * fabs(y) + 0x1p-149;
    }
}

void art_ref_function(const art_op_args *args, double *const *out, double *const *tol) {
    for (uint64_t i = 0; i < art_count(&args->operand[0]); i++) {
        double x = value(args, ART_FUNCTION_X, i), y = fabs(x), roundings = 0.0;
        switch (args->attr[ART_FUNCTION_A_WHICH].i) {
        case ART_FUNCTION_EXP:
            y = exp(x);
            roundings = 4.0;
            break;
        case ART_FUNCTION_LOG:
            y = log(x);
            roundings = 1.01;
            break;
        case ART_FUNCTION_SIGN:
            y = x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x;
            break;
        }
        out[ART_FUNCTION_Y][i] = y;
        tol[ART_FUNCTION_Y][i] = roundings * ART_REF_U * fabs(y) + (roundings > 0.0) * 0x1p-149;
    }
}

void art_ref_expand(const art_op_args *args, double *const *out, double *const *tol) {
    const art_array *y = &args->operand[ART_EXPAND_Y];
    for (uint64_t i = 0; i < art_count(y); i++) {
        uint64_t at = small_place(y, &args->operand[ART_EXPAND_SMALL], i);
        out[ART_EXPAND_Y][i] = args->attr[ART_EXPAND_A_SCALE].f * value(args, ART_EXPAND_SMALL, at);
        tol[ART_EXPAND_Y][i] = 2.01 * ART_REF_U * fabs(out[ART_EXPAND_Y][i]);
    }
}

void art_ref_reduce(const art_op_args *args, double *const *out, double *const *tol) {
    const art_array *x = &args->operand[ART_REDUCE_X], *total = &args->operand[ART_REDUCE_TOTAL];
    double scale = args->attr[ART_REDUCE_A_SCALE].f;
    double terms = (double)art_count(x) / (double)art_count(total);
    for (uint64_t i = 0; i < art_count(total); i++) {
        out[ART_REDUCE_TOTAL][i] = tol[ART_REDUCE_TOTAL][i] = 0.0;
    }
    for (uint64_t i = 0; i < art_count(x); i++) {
        uint64_t at = small_place(x, total, i);
        out[ART_REDUCE_TOTAL][at] += scale * value(args, ART_REDUCE_X, i);
        /* Both this sum and the operation's are rounded in double. */
        tol[ART_REDUCE_TOTAL][at] +=
            2.0 * (terms + 2.0) * 0x1p-53 * fabs(scale * value(args, ART_REDUCE_X, i));
    }
    for (uint64_t i = 0; i < art_count(total); i++) {
        tol[ART_REDUCE_TOTAL][i] += 1.01 * ART_REF_U * fabs(out[ART_REDUCE_TOTAL][i]);
    }
}

void art_ref_matmul(const art_op_args *args, double *const *out, double *const *tol) {
    const art_array *x = &args->operand[ART_MATMUL_X], *y = &args->operand[ART_MATMUL_Y];
    int x_turned = args->attr[ART_MATMUL_A_X_TURNED].i != 0;
    int z_turned = args->attr[ART_MATMUL_A_Z_TURNED].i != 0;
    uint64_t rows = y->dims[y->ndim - 2], columns = y->dims[y->ndim - 1];
    uint64_t terms = x->dims[x->ndim - (x_turned ? 2 : 1)];
    for (uint64_t i = 0; i < art_count(y); i++) {
        uint64_t product = i / columns / rows, r = i / columns % rows, c = i % columns;
        double sum = 0.0, size = 0.0;
        for (uint64_t k = 0; k < terms; k++) {
            uint64_t x_at = product * rows * terms + (x_turned ? k * rows + r : r * terms + k);
            uint64_t z_at =
                product * terms * columns + (z_turned ? c * terms + k : k * columns + c);
            double term = value(args, ART_MATMUL_X, x_at) * value(args, ART_MATMUL_Z, z_at);
            sum += term;
            size += fabs(term);
        }
        out[ART_MATMUL_Y][i] = sum;
        tol[ART_MATMUL_Y][i] = 1.01 * ART_REF_U * (double)terms * size;
    }
}
