/* combine, affine, power, function, expand: arithmetic element by element, with broadcasting. */
#include <string.h>

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

static void combine_run(const row_job *job, uint64_t at, uint64_t small, uint64_t n) {
    int spread = job->broadcast.small[job->broadcast.n - 1] == 0;
    art_vec(job->args)->combine(job->y + at, job->x + at, job->small + small, (size_t)n, job->how,
                                spread);
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
    art_vec(args)->affine(art_out(args, ART_AFFINE_Y) + first, art_in(args, ART_AFFINE_X) + first,
                          (float)args->attr[ART_AFFINE_A_SCALE].f,
                          (float)args->attr[ART_AFFINE_A_SHIFT].f, n);
}

static void power(const art_op_args *args, const void *constants, size_t first, size_t n) {
    (void)constants;
    art_vec(args)->power(art_out(args, ART_POWER_Y) + first, art_in(args, ART_POWER_X) + first, n,
                         (int)args->attr[ART_POWER_A_HALVES].i);
}

static void function(const art_op_args *args, const void *constants, size_t first, size_t n) {
    (void)constants;
    art_vec(args)->function(art_out(args, ART_FUNCTION_Y) + first,
                            art_in(args, ART_FUNCTION_X) + first, n,
                            (int)args->attr[ART_FUNCTION_A_WHICH].i);
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
