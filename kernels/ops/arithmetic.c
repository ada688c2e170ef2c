/* combine, affine, power, function, expand: arithmetic element by element, with broadcasting. */
#include <math.h>

#include "core/math.h"
#include "ops/broadcast.h"
#include "ops/op_functions.h"

/* Rows of the last axis, cut into pieces of a span, several short rows to a tile. */
typedef struct row_job {
    const art_op_args *args;
    art_broadcast broadcast;
    uint64_t rows, run, pieces, together; /* pieces of a row; rows of a tile */
    const float *x, *small;
    float *y, scale;
    int how;
} row_job;

/* One number stands for a piece of a row: enough copies of it for a register, again and again. */
enum { COPIES = 256 };

static void combine_run(const row_job *job, uint64_t at, uint64_t small, uint64_t n) {
    const float *x = job->x + at, *other = job->small + small;
    float *y = job->y + at, copies[COPIES];
    if (job->broadcast.small[job->broadcast.n - 1] != 0) {
        art_vec(job->args)->combine(y, x, other, (size_t)n, job->how);
        return;
    }
    for (uint64_t i = 0; i < COPIES && i < n; i++) {
        copies[i] = *other;
    }
    for (uint64_t done = 0; done < n; done += COPIES) {
        uint64_t count = n - done < COPIES ? n - done : COPIES;
        art_vec(job->args)->combine(y + done, x + done, copies, (size_t)count, job->how);
    }
}

static void expand_run(const row_job *job, uint64_t at, uint64_t small, uint64_t n) {
    if (job->broadcast.small[job->broadcast.n - 1] != 0) {
        art_vec(job->args)->scale(job->y + at, job->small + small, job->scale, (size_t)n);
        return;
    }
    float value = job->small[small] * job->scale;
    for (uint64_t i = 0; i < n; i++) {
        job->y[at + i] = value;
    }
}

static void row_tile(void *context, unsigned tile, unsigned thread) {
    const row_job *job = context;
    const art_broadcast *b = &job->broadcast;
    uint64_t first = tile / job->pieces * job->together, end = first + job->together;
    uint64_t from = tile % job->pieces * ART_SPAN, left = job->run - from;
    uint64_t n = left < ART_SPAN ? left : ART_SPAN;
    (void)thread;
    for (uint64_t row = first; row < end && row < job->rows; row++) {
        uint64_t small = art_broadcast_place(b, row) + from * b->small[b->n - 1];
        uint64_t at = row * job->run + from;
        if (job->x) {
            combine_run(job, at, small, n);
        } else {
            expand_run(job, at, small, n);
        }
    }
}

static row_job row_job_of(const art_op_args *args, unsigned large, unsigned small) {
    row_job job = {.args = args,
                   .broadcast = art_broadcast_of(&args->operand[large], &args->operand[small])};
    job.run = art_broadcast_run(&job.broadcast);
    job.rows = art_count(&args->operand[large]) / job.run;
    job.pieces = art_ceil_div(job.run, ART_SPAN);
    job.together = job.run < ART_SPAN ? ART_SPAN / job.run : 1;
    job.small = args->operand[small].data;
    return job;
}

static uint64_t tiles_of(const row_job *job) {
    return art_ceil_div(job->rows, job->together) * job->pieces;
}

static art_status check_rows(const art_op_args *args, unsigned large, unsigned small,
                             const char *name, art_error *err) {
    row_job job = row_job_of(args, large, small);
    ART_FAIL_IF(tiles_of(&job) > UINT32_MAX, err, ART_SHAPE, "%s has too many rows", name);
    return ART_OK;
}

static void run_rows(row_job *job) {
    art_pool_run(job->args->pool, (unsigned)tiles_of(job), (double)(job->rows * job->run), row_tile,
                 job);
}

art_status art_op_combine_check(const art_op_args *args, art_error *err) {
    enum { A = ART_COMBINE_A, OTHER = ART_COMBINE_OTHER, Y = ART_COMBINE_Y };
    ART_TRY(art_check_broadcast(args, A, "combine.a", OTHER, "combine.other", err));
    ART_TRY(art_check_operand(args, Y, "combine.y", ART_DTYPE_F32, ART_ANY_RANK, err));
    ART_TRY(art_check_matches(args, Y, "combine.y", A, err));
    return check_rows(args, A, OTHER, "combine.a", err);
}

ART_NO_WORKSPACE(combine)

art_status art_op_combine_run(const art_op_args *args, art_error *err) {
    row_job job = row_job_of(args, ART_COMBINE_A, ART_COMBINE_OTHER);
    (void)err;
    job.x = art_in(args, ART_COMBINE_A);
    job.y = art_out(args, ART_COMBINE_Y);
    job.how = (int)args->attr[ART_COMBINE_A_HOW].i;
    run_rows(&job);
    return ART_OK;
}

art_status art_op_expand_check(const art_op_args *args, art_error *err) {
    ART_TRY(
        art_check_broadcast(args, ART_EXPAND_Y, "expand.y", ART_EXPAND_SMALL, "expand.small", err));
    return check_rows(args, ART_EXPAND_Y, ART_EXPAND_SMALL, "expand.y", err);
}

ART_NO_WORKSPACE(expand)

art_status art_op_expand_run(const art_op_args *args, art_error *err) {
    row_job job = row_job_of(args, ART_EXPAND_Y, ART_EXPAND_SMALL);
    (void)err;
    job.y = art_out(args, ART_EXPAND_Y);
    job.scale = (float)args->attr[ART_EXPAND_A_SCALE].f;
    run_rows(&job);
    return ART_OK;
}

/* ---- functions of one element ---- */

static art_status check_alike(const art_op_args *args, const char *x, const char *y,
                              art_error *err) {
    ART_TRY(art_check_operand(args, 0, x, ART_DTYPE_F32, ART_ANY_RANK, err));
    ART_TRY(art_check_operand(args, 1, y, ART_DTYPE_F32, ART_ANY_RANK, err));
    return art_check_matches(args, 1, y, 0, err);
}

static void affine(const art_op_args *args, const void *constants, size_t first, size_t n) {
    (void)constants;
    art_vec(args)->scale_minus(
        art_out(args, ART_AFFINE_Y) + first, art_in(args, ART_AFFINE_X) + first,
        (float)args->attr[ART_AFFINE_A_SCALE].f, NULL, -(float)args->attr[ART_AFFINE_A_SHIFT].f, n);
}

enum { POWER_BLOCK = 64 };

/* x^(halves / 2): squared again and again, times the root for an odd number of halves. */
static void power(const art_op_args *args, const void *constants, size_t first, size_t n) {
    const float *x = art_in(args, ART_POWER_X) + first;
    float *y = art_out(args, ART_POWER_Y) + first;
    int halves = (int)args->attr[ART_POWER_A_HALVES].i, size = halves < 0 ? -halves : halves;
    (void)constants;
    for (size_t done = 0; done < n; done += POWER_BLOCK) {
        size_t count = n - done < POWER_BLOCK ? n - done : POWER_BLOCK;
        float base[POWER_BLOCK], result[POWER_BLOCK];
        for (size_t i = 0; i < count; i++) {
            base[i] = x[done + i];
            result[i] = size & 1 ? sqrtf(base[i]) : 1.0f;
        }
        for (int left = size >> 1; left > 0; left >>= 1) {
            for (size_t i = 0; i < count; i++) {
                result[i] = left & 1 ? result[i] * base[i] : result[i];
                base[i] = base[i] * base[i];
            }
        }
        for (size_t i = 0; i < count; i++) {
            y[done + i] = halves < 0 ? 1.0f / result[i] : result[i];
        }
    }
}

static float sign(float x) {
    return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x;
}

static void function(const art_op_args *args, const void *constants, size_t first, size_t n) {
    const float *x = art_in(args, ART_FUNCTION_X) + first;
    float *y = art_out(args, ART_FUNCTION_Y) + first;
    int64_t which = args->attr[ART_FUNCTION_A_WHICH].i;
    (void)constants;
    if (which == ART_FUNCTION_EXP) {
        art_vec(args)->exp_sum(y, x, 0.0f, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        y[i] = which == ART_FUNCTION_LOG   ? (float)art_log((double)x[i])
               : which == ART_FUNCTION_ABS ? fabsf(x[i])
                                           : sign(x[i]);
    }
}

/* The three functions of operation `name`. */
#define OF_ONE(name, work)                                                                         \
    art_status art_op_##name##_check(const art_op_args *args, art_error *err) {                    \
        return check_alike(args, #name ".x", #name ".y", err);                                     \
    }                                                                                              \
    ART_NO_WORKSPACE(name)                                                                         \
    art_status art_op_##name##_run(const art_op_args *args, art_error *err) {                      \
        (void)err;                                                                                 \
        art_run_spans(args, art_count(&args->operand[0]), work, name, NULL);                       \
        return ART_OK;                                                                             \
    }

OF_ONE(affine, 1)
OF_ONE(power, 8)
OF_ONE(function, 10)
