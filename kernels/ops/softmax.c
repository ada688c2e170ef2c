/* Softmax and its logarithm along one axis, and their gradients from the result. An array is
 * [outer, size, inner]. Axes without gaps (inner = 1) are kernels' work. Others are rare, and one
 * small copy of their code serves all levels: they are summed in ascending order.
 *
 * A masked softmax goes along the last axis; its gradient is that of a softmax. */
#include <math.h>
#include <string.h>

#include "core/math.h"
#include "ops/op_functions.h"
#include "ops/spans.h"

/* Not in line: the trainer for boards is to stay small. */
static __attribute__((noinline)) float power(float x) {
    return art_expf(x);
}

static __attribute__((noinline)) float logarithm(double x) {
    return (float)art_log(x);
}

static void softmax_row(const art_vec_kernels *vec, float *y, const float *x, size_t size) {
    double sum = vec->exp_sum(y, x, vec->row_max(x, size), size);
    vec->scale(y, y, (float)(1.0 / sum), size);
}

static void log_softmax_row(const art_vec_kernels *vec, float *y, const float *x, size_t size) {
    float max = vec->row_max(x, size);
    double sum = vec->exp_sum(NULL, x, max, size);
    vec->minus_both(y, x, max, logarithm(sum), size);
}

static float axis_max(const float *x, size_t size, size_t ld) {
    float max = -INFINITY;
    for (size_t i = 0; i < size; i++) {
        max = x[i * ld] > max ? x[i * ld] : max;
    }
    return max;
}

static void softmax_axis(float *y, const float *x, size_t size, size_t ld) {
    float max = axis_max(x, size, ld);
    double sum = 0.0;
    for (size_t i = 0; i < size; i++) {
        y[i * ld] = power(x[i * ld] - max);
        sum += (double)y[i * ld];
    }
    float k = (float)(1.0 / sum);
    for (size_t i = 0; i < size; i++) {
        y[i * ld] *= k;
    }
}

static void log_softmax_axis(float *y, const float *x, size_t size, size_t ld) {
    float max = axis_max(x, size, ld);
    double sum = 0.0;
    for (size_t i = 0; i < size; i++) {
        sum += (double)power(x[i * ld] - max);
    }
    float log_sum = logarithm(sum);
    for (size_t i = 0; i < size; i++) {
        y[i * ld] = (x[i * ld] - max) - log_sum;
    }
}

static void softmax_grad_axis(float *dx, const float *y, const float *dy, size_t size, size_t ld) {
    double sum = 0.0;
    for (size_t i = 0; i < size; i++) {
        sum += (double)y[i * ld] * (double)dy[i * ld];
    }
    for (size_t i = 0; i < size; i++) {
        dx[i * ld] = y[i * ld] * (dy[i * ld] - (float)sum);
    }
}

static void log_softmax_grad_axis(float *dx, const float *y, const float *dy, size_t size,
                                  size_t ld) {
    double sum = 0.0;
    for (size_t i = 0; i < size; i++) {
        sum += (double)dy[i * ld];
    }
    for (size_t i = 0; i < size; i++) {
        dx[i * ld] = dy[i * ld] - power(y[i * ld]) * (float)sum;
    }
}

/* One operand read, or two, and the last one written, in slot order. */
enum { X, Y };
enum { VALUE, DY, DX };
#define SLOTS(NAME)                                                                                \
    _Static_assert((int)ART_##NAME##_FWD_X == (int)X && (int)ART_##NAME##_FWD_Y == (int)Y &&       \
                       (int)ART_##NAME##_GRAD_Y == (int)VALUE &&                                   \
                       (int)ART_##NAME##_GRAD_DY == (int)DY &&                                     \
                       (int)ART_##NAME##_GRAD_DX == (int)DX &&                                     \
                       (int)ART_##NAME##_FWD_A_AXIS == 0 && (int)ART_##NAME##_GRAD_A_AXIS == 0,    \
                   "all have their operands in one order")
SLOTS(SOFTMAX);
SLOTS(LOG_SOFTMAX);

/* Handle the axis of `size` elements from element `at` on, `ld` apart. */
typedef void (*axis_fn)(const art_op_args *args, size_t at, size_t size, size_t ld);

typedef struct axis_job {
    const art_op_args *args;
    axis_fn fn;
    size_t size, inner;
    size_t all, per_tile; /* axes */
} axis_job;

static void run_tile(void *context, unsigned tile, unsigned thread) {
    const axis_job *job = context;
    size_t first = tile * job->per_tile;
    size_t last = first + job->per_tile < job->all ? first + job->per_tile : job->all;
    (void)thread;
    for (size_t i = first; i < last; i++) {
        size_t at = i / job->inner * job->size * job->inner + i % job->inner;
        job->fn(job->args, at, job->size, job->inner);
    }
}

static void run(const art_op_args *args, unsigned axis, double work, axis_fn fn) {
    const art_array *array = &args->operand[0];
    axis_job job = {.args = args, .fn = fn, .size = array->dims[axis], .inner = 1};
    for (unsigned i = axis + 1; i < array->ndim; i++) {
        job.inner *= array->dims[i];
    }
    job.all = (size_t)art_count(array) / job.size;
    job.per_tile = (size_t)art_ceil_div(ART_SPAN, job.size);
    art_pool_run(args->pool, art_tiles(job.all, job.per_tile), work * (double)art_count(array),
                 run_tile, &job);
}

/* Operands 0 to n - 1 have the same dimensions, and the axis is one of them. */
static art_status check(const art_op_args *args, const char *const *names, unsigned n,
                        const char *axis, art_error *err) {
    const art_array *first = &args->operand[0];
    ART_TRY(art_check_operand(args, 0, names[0], ART_DTYPE_F32, ART_ANY_RANK, err));
    for (unsigned slot = 1; slot < n; slot++) {
        ART_TRY(art_check_operand(args, slot, names[slot], ART_DTYPE_F32, first->ndim, err));
        ART_TRY(art_check_dims(args, slot, names[slot], first->dims, err));
        ART_TRY(art_check_batched(args, slot, names[slot], first->batched, err));
    }
    return art_check_int(args, 0, axis, 1, first->ndim - 1, err);
}

/* One operation: its call of a kernel, its operands in messages, work per element. */
#define ALONG(name, operands, work, ...)                                                           \
    art_status art_op_##name##_check(const art_op_args *args, art_error *err) {                    \
        static const char *const names[] = {__VA_ARGS__};                                          \
        return check(args, names, operands, #name ".axis", err);                                   \
    }                                                                                              \
    ART_NO_WORKSPACE(name)                                                                         \
    art_status art_op_##name##_run(const art_op_args *args, art_error *err) {                      \
        (void)err;                                                                                 \
        run(args, (unsigned)args->attr[0].i, work, name);                                          \
        return ART_OK;                                                                             \
    }

#define BOTH(name)                                                                                 \
    static void name##_fwd(const art_op_args *args, size_t at, size_t size, size_t ld) {           \
        const float *x = art_in(args, X) + at;                                                     \
        if (ld == 1) {                                                                             \
            name##_row(art_vec(args), art_out(args, Y) + at, x, size);                             \
        } else {                                                                                   \
            name##_axis(art_out(args, Y) + at, x, size, ld);                                       \
        }                                                                                          \
    }                                                                                              \
    static void name##_grad(const art_op_args *args, size_t at, size_t size, size_t ld) {          \
        const float *y = art_in(args, VALUE) + at, *dy = art_in(args, DY) + at;                    \
        if (ld == 1) {                                                                             \
            art_vec(args)->name##_grad(art_out(args, DX) + at, y, dy, size);                       \
        } else {                                                                                   \
            name##_grad_axis(art_out(args, DX) + at, y, dy, size, ld);                             \
        }                                                                                          \
    }                                                                                              \
    ALONG(name##_fwd, 2, 15.0, #name "_fwd.x", #name "_fwd.y")                                     \
    ALONG(name##_grad, 3, 10.0, #name "_grad.y", #name "_grad.dy", #name "_grad.dx")
BOTH(softmax)
BOTH(log_softmax)

enum { SCORES = ART_MASKED_SOFTMAX_FWD_X, MASK = ART_MASKED_SOFTMAX_FWD_MASK };

/* Copy what counts of a row, minus infinity in place of the rest; tell whether anything counts. */
static bool counted(float *y, const float *x, const float *mask, size_t size) {
    bool any = false;
    for (size_t i = 0; i < size; i++) {
        bool counts = mask[i] != 0.0f;
        any |= counts;
        y[i] = counts ? x[i] : -INFINITY;
    }
    return any;
}

/* The share of what does not count is +0, also where nothing counts. */
static void masked_row(const art_op_args *args, size_t at, size_t size, size_t ld) {
    const art_array *scores = &args->operand[SCORES];
    const float *x = art_in(args, SCORES) + at;
    float *y = art_out(args, ART_MASKED_SOFTMAX_FWD_Y) + at;
    size_t row = at / size, last = row % scores->dims[scores->ndim - 2] + 1, used = size;
    (void)ld;
    if (args->attr[ART_MASKED_SOFTMAX_FWD_A_CAUSAL].i && last < size) {
        used = last;
    }
    if (art_present(args, MASK)) {
        size_t sample = at / ((size_t)art_count(scores) / scores->dims[0]);
        used = counted(y, x, art_in(args, MASK) + sample * size, used) ? used : 0;
        x = y;
    }
    if (used > 0) {
        softmax_row(art_vec(args), y, x, used);
    }
    memset(y + used, 0, (size - used) * sizeof *y);
}

art_status art_op_masked_softmax_fwd_check(const art_op_args *args, art_error *err) {
    static const char *const names[] = {"masked_softmax_fwd.x", "masked_softmax_fwd.mask",
                                        "masked_softmax_fwd.y"};
    const art_array *x = &args->operand[SCORES];
    ART_TRY(art_check_operand(args, SCORES, names[0], ART_DTYPE_F32, ART_ANY_RANK, err));
    ART_FAIL_IF(x->ndim < 3, err, ART_SHAPE, "%s has %u dimensions, needs at least 3", names[0],
                x->ndim);
    const uint32_t mask[] = {x->dims[0], x->dims[x->ndim - 1]};
    ART_TRY(art_check_optional(args, MASK, names[1], ART_DTYPE_F32, 2, err));
    ART_TRY(art_check_dims(args, MASK, names[1], mask, err));
    ART_TRY(art_check_batched(args, MASK, names[1], x->batched, err));
    ART_TRY(
        art_check_operand(args, ART_MASKED_SOFTMAX_FWD_Y, names[2], ART_DTYPE_F32, x->ndim, err));
    ART_TRY(art_check_dims(args, ART_MASKED_SOFTMAX_FWD_Y, names[2], x->dims, err));
    return art_check_batched(args, ART_MASKED_SOFTMAX_FWD_Y, names[2], x->batched, err);
}

ART_NO_WORKSPACE(masked_softmax_fwd)

art_status art_op_masked_softmax_fwd_run(const art_op_args *args, art_error *err) {
    (void)err;
    run(args, args->operand[SCORES].ndim - 1u, 15.0, masked_row);
    return ART_OK;
}
