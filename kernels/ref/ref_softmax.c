/* Twins of softmax and its logarithm. Tolerances count roundings in units of U: 2.2 an exponential
 * (core/math.h), which inherits that of its argument, and one an operation. */
#include <math.h>

#include "ops/check.h"
#include "ref/ref_ops.h"

/* Elements of one axis: `size` from `first` on, `ld` apart. */
typedef struct axis {
    size_t first, size, ld;
} axis;

typedef void (*axis_fn)(const art_op_args *args, axis a, double *out, double *tol);

static void each_axis(const art_op_args *args, axis_fn fn, double *out, double *tol) {
    const art_array *array = &args->operand[0];
    unsigned along = (unsigned)args->attr[0].i;
    size_t count = (size_t)art_count(array), inner = 1;
    for (unsigned i = along + 1; i < array->ndim; i++) {
        inner *= array->dims[i];
    }
    for (size_t i = 0; i < count; i++) {
        if (i / inner % array->dims[along] == 0) {
            fn(args, (axis){i, array->dims[along], inner}, out, tol);
        }
    }
}

static double at(const art_op_args *args, unsigned slot, axis a, size_t i) {
    return (double)((const float *)args->operand[slot].data)[a.first + i * a.ld];
}

/* Maximum and sum of exponentials of the first operand; *spread is the sum's error, in U. */
static double sum_of(const art_op_args *args, axis a, double *max, double *spread) {
    double sum = 0.0;
    *max = -INFINITY;
    *spread = 0.0;
    for (size_t i = 0; i < a.size; i++) {
        *max = fmax(*max, at(args, 0, a, i));
    }
    for (size_t i = 0; i < a.size; i++) {
        double d = at(args, 0, a, i) - *max, e = exp(d);
        sum += e;
        *spread += e * (e > 0.0 ? fabs(d) + 2.2 : 0.0);
    }
    return sum;
}

static double within(double roundings, double least) {
    return 1.01 * ART_REF_U * roundings + least;
}

static void softmax(const art_op_args *args, axis a, double *out, double *tol) {
    double max, spread, sum = sum_of(args, a, &max, &spread);
    for (size_t i = 0; i < a.size; i++) {
        double d = at(args, 0, a, i) - max, y = exp(d) / sum;
        out[a.first + i * a.ld] = y;
        tol[a.first + i * a.ld] = within(y * (fabs(d) + 4.2 + spread / sum), 0x1p-126);
    }
}

static void log_softmax(const art_op_args *args, axis a, double *out, double *tol) {
    double max, spread, sum = sum_of(args, a, &max, &spread);
    for (size_t i = 0; i < a.size; i++) {
        double d = at(args, 0, a, i) - max, y = d - log(sum);
        out[a.first + i * a.ld] = y;
        tol[a.first + i * a.ld] = within(fabs(d) + spread / sum + log(sum) + fabs(y), 0x1p-126);
    }
}

static void softmax_slope(const art_op_args *args, axis a, double *out, double *tol) {
    double sum = 0.0, whole = 0.0;
    for (size_t i = 0; i < a.size; i++) {
        sum += at(args, 0, a, i) * at(args, 1, a, i);
        whole += fabs(at(args, 0, a, i) * at(args, 1, a, i));
    }
    for (size_t i = 0; i < a.size; i++) {
        double y = at(args, 0, a, i), d = at(args, 1, a, i) - sum;
        double spare = 0x1p-52 * (double)a.size * whole;
        out[a.first + i * a.ld] = y * d;
        tol[a.first + i * a.ld] =
            within(fabs(y) * (fabs(sum) + 2.0 * fabs(d)), 0x1p-126) + fabs(y) * spare;
    }
}

static void log_softmax_slope(const art_op_args *args, axis a, double *out, double *tol) {
    double sum = 0.0, whole = 0.0;
    for (size_t i = 0; i < a.size; i++) {
        sum += at(args, 1, a, i);
        whole += fabs(at(args, 1, a, i));
    }
    for (size_t i = 0; i < a.size; i++) {
        double p = exp(at(args, 0, a, i)), dx = at(args, 1, a, i) - p * sum;
        double spare = 0x1p-52 * (double)a.size * whole;
        out[a.first + i * a.ld] = dx;
        tol[a.first + i * a.ld] =
            within(p * fabs(sum) * 4.2 + fabs(dx), 0x1p-126 * (1.0 + fabs(sum))) + p * spare;
    }
}

#define TWINS(name)                                                                                \
    void art_ref_##name##_fwd(const art_op_args *args, double *const *out, double *const *tol) {   \
        each_axis(args, name, out[1], tol[1]);                                                     \
    }                                                                                              \
    void art_ref_##name##_grad(const art_op_args *args, double *const *out, double *const *tol) {  \
        each_axis(args, name##_slope, out[2], tol[2]);                                             \
    }
TWINS(softmax)
TWINS(log_softmax)

/* Like a softmax of what counts: sums and the largest score are taken over that alone. */
void art_ref_masked_softmax_fwd(const art_op_args *args, double *const *out, double *const *tol) {
    const art_array *x = &args->operand[0], *mask = &args->operand[1];
    size_t size = x->dims[x->ndim - 1], rows = x->dims[x->ndim - 2];
    size_t count = (size_t)art_count(x), sample = count / x->dims[0];
    for (size_t first = 0; first < count; first += size) {
        const float *counts = mask->ndim ? (const float *)mask->data + first / sample * size : NULL;
        size_t row = first / size % rows;
        double max = -INFINITY, sum = 0.0, spread = 0.0;
        for (int pass = 0; pass < 3; pass++) {
            for (size_t i = 0; i < size; i++) {
                bool left_out = (args->attr[0].i != 0 && i > row) || (counts && counts[i] == 0.0f);
                double d = at(args, 0, (axis){first, size, 1}, i) - (pass ? max : 0.0);
                double e = left_out ? 0.0 : exp(d);
                if (pass == 0) {
                    max = left_out ? max : fmax(max, d);
                } else if (pass == 1) {
                    sum += e;
                    spread += e > 0.0 ? e * (fabs(d) + 2.2) : 0.0;
                } else {
                    double y = e > 0.0 ? e / sum : 0.0;
                    out[2][first + i] = y;
                    tol[2][first + i] =
                        left_out ? 0.0 : within(y * (fabs(d) + 4.2 + spread / sum), 0x1p-126);
                }
            }
        }
    }
}
