/* reduce: sums over some axes, in double and in ascending order of places; where the last axis is
 * one of them its places go to LANES partial sums in turn. A function of the shape alone. */
#include "ops/broadcast.h"
#include "ops/op_functions.h"

enum {
    COLUMNS = 64, /* results of a tile that lie side by side */
    LANES = 8,
};

typedef struct reduce_job {
    const float *x;
    float *total;
    double scale;
    art_broadcast kept, gone; /* places of the results, and of what one result sums up */
    uint64_t results, terms;  /* without the last axis, if it stays, and in all */
    uint64_t run, stay;       /* the last axis: of the terms (1 if it stays), of the results */
    uint64_t panels;          /* of COLUMNS results along it */
} reduce_job;

static uint64_t place(const art_broadcast *axes, uint64_t index) {
    uint64_t at = 0;
    for (unsigned i = axes->n; i-- > 0; index /= axes->extent[i]) {
        at += index % axes->extent[i] * axes->large[i];
    }
    return at;
}

static uint64_t places(const art_broadcast *axes) {
    uint64_t count = 1;
    for (unsigned i = 0; i < axes->n; i++) {
        count *= axes->extent[i];
    }
    return count;
}

static void append(art_broadcast *axes, const art_broadcast *from, unsigned i) {
    axes->extent[axes->n] = from->extent[i];
    axes->large[axes->n++] = from->large[i];
}

static reduce_job reduce_job_of(const art_op_args *args) {
    reduce_job job = {.x = art_in(args, ART_REDUCE_X), .total = art_out(args, ART_REDUCE_TOTAL)};
    art_broadcast all =
        art_broadcast_of(&args->operand[ART_REDUCE_X], &args->operand[ART_REDUCE_TOTAL]);
    unsigned last = all.n - 1;
    bool stays = all.small[last] != 0;
    for (unsigned i = 0; i < last; i++) {
        append(all.small[i] != 0 ? &job.kept : &job.gone, &all, i);
    }
    job.scale = args->attr[ART_REDUCE_A_SCALE].f;
    job.results = places(&job.kept);
    job.terms = places(&job.gone);
    job.run = stays ? 1 : all.extent[last];
    job.stay = stays ? all.extent[last] : 1;
    job.panels = art_ceil_div(job.stay, COLUMNS);
    return job;
}

static double row_sum(const float *x, uint64_t n) {
    double lane[LANES] = {0};
    uint64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (unsigned j = 0; j < LANES; j++) {
            lane[j] += (double)x[i + j];
        }
    }
    for (unsigned j = 0; i + j < n; j++) {
        lane[j] += (double)x[i + j];
    }
    for (unsigned half = LANES / 2; half > 0; half /= 2) {
        for (unsigned j = 0; j < half; j++) {
            lane[j] += lane[j + half];
        }
    }
    return lane[0];
}

static void reduce_tile(void *context, unsigned tile, unsigned thread) {
    const reduce_job *job = context;
    uint64_t result = tile / job->panels, column = tile % job->panels * COLUMNS;
    uint64_t left = job->stay - column, n = left < COLUMNS ? left : COLUMNS;
    const float *x = job->x + place(&job->kept, result) + column;
    double sum[COLUMNS] = {0};
    (void)thread;
    for (uint64_t term = 0; term < job->terms; term++) {
        const float *row = x + place(&job->gone, term);
        if (job->run > 1) {
            sum[0] += row_sum(row, job->run);
            continue;
        }
        for (uint64_t c = 0; c < n; c++) {
            sum[c] += (double)row[c];
        }
    }
    for (uint64_t c = 0; c < n; c++) {
        job->total[result * job->stay + column + c] = (float)(sum[c] * job->scale);
    }
}

art_status art_op_reduce_check(const art_op_args *args, art_error *err) {
    ART_TRY(
        art_check_broadcast(args, ART_REDUCE_X, "reduce.x", ART_REDUCE_TOTAL, "reduce.total", err));
    reduce_job job = reduce_job_of(args);
    ART_FAIL_IF(job.results * job.panels > UINT32_MAX, err, ART_SHAPE,
                "reduce.total has too many rows");
    return ART_OK;
}

ART_NO_WORKSPACE(reduce)

art_status art_op_reduce_run(const art_op_args *args, art_error *err) {
    reduce_job job = reduce_job_of(args);
    (void)err;
    art_pool_run(args->pool, (unsigned)(job.results * job.panels),
                 2.0 * (double)art_count(&args->operand[ART_REDUCE_X]), reduce_tile, &job);
    return ART_OK;
}
