#include <string.h>

#include "ops/columns.h"

enum {
    GROUP = 64,         /* columns of one tile: with the rows of a block they fit the first cache */
    TILES = 16,         /* wanted at least, if there are rows enough */
    APPLY_TILE = 32768, /* elements */
    BLOCK = ART_VEC_MAX_ROWS,
};

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t parts_wanted(uint64_t rows, uint64_t cols) {
    uint64_t groups = art_ceil_div(cols, GROUP);
    return least(groups < TILES ? TILES / groups : 1, art_ceil_div(rows, BLOCK));
}

art_col_split art_col_split_of(uint64_t rows, uint64_t cols) {
    art_col_split s = {.rows = rows, .cols = cols, .groups = art_ceil_div(cols, GROUP)};
    s.part_rows = art_ceil_div(art_ceil_div(rows, parts_wanted(rows, cols)), BLOCK) * BLOCK;
    s.parts = art_ceil_div(rows, s.part_rows);
    return s;
}

uint64_t art_col_workspace(uint64_t rows, uint64_t cols) {
    return art_mul_saturated(parts_wanted(rows, cols) * 2 * sizeof(double), cols);
}

typedef struct col_job {
    const art_vec_kernels *vec;
    const float *x, *dy, *mean;
    const float *invstd; /* NULL, or of every row, and so is the mean */
    double *partials;
    art_col_split split;
} col_job;

/* What a tile covers. */
typedef struct col_tile {
    size_t r0, r1, c0, cols;
    double *a, *b; /* its two results per column */
} col_tile;

static col_tile tile_of(const col_job *job, unsigned tile) {
    const art_col_split *s = &job->split;
    uint64_t part = tile / s->groups, group = tile % s->groups;
    col_tile t = {.r0 = (size_t)(part * s->part_rows), .c0 = (size_t)(group * GROUP)};
    t.r1 = (size_t)least(t.r0 + s->part_rows, s->rows);
    t.cols = (size_t)least(GROUP, s->cols - t.c0);
    t.a = job->partials + part * 2 * s->cols + t.c0;
    t.b = t.a + s->cols;
    return t;
}

/* (n, mean, squares) joined with (more, mean2, squares2), per column. */
static void merge_moments(double n, double *mean, double *squares, double more, const double *mean2,
                          const double *squares2, size_t cols) {
    double share = more / (n + more), cross = n * share;
    for (size_t c = 0; c < cols; c++) {
        double d = mean2[c] - mean[c];
        mean[c] += d * share;
        squares[c] += squares2[c] + d * d * cross;
    }
}

static void moments_tile(void *context, unsigned tile, unsigned thread) {
    const col_job *job = context;
    col_tile t = tile_of(job, tile);
    float shift[GROUP], sum[GROUP], squares[GROUP];
    double block_mean[GROUP], block_squares[GROUP];
    (void)thread;
    memset(t.a, 0, t.cols * sizeof *t.a);
    memset(t.b, 0, t.cols * sizeof *t.b);
    for (size_t r = t.r0; r < t.r1; r += BLOCK) {
        size_t rows = (size_t)least(BLOCK, t.r1 - r), ld = (size_t)job->split.cols;
        job->vec->col_moments(shift, sum, squares, job->x + r * ld + t.c0, rows, ld, t.cols);
        for (size_t c = 0; c < t.cols; c++) {
            double rest = (double)sum[c] / (double)rows;
            double q = (double)squares[c] - (double)sum[c] * rest;
            block_mean[c] = (double)shift[c] + rest;
            block_squares[c] = q < 0.0 ? 0.0 : q;
        }
        merge_moments((double)(r - t.r0), t.a, t.b, (double)rows, block_mean, block_squares,
                      t.cols);
    }
}

static const float zeros[BLOCK];

static void dots_tile(void *context, unsigned tile, unsigned thread) {
    const col_job *job = context;
    col_tile t = tile_of(job, tile);
    float sum[GROUP], dot[GROUP] = {0};
    (void)thread;
    memset(t.a, 0, t.cols * sizeof *t.a);
    memset(t.b, 0, t.cols * sizeof *t.b);
    for (size_t r = t.r0; r < t.r1; r += BLOCK) {
        size_t rows = (size_t)least(BLOCK, t.r1 - r), ld = (size_t)job->split.cols;
        size_t at = r * ld + t.c0;
        if (job->invstd) {
            job->vec->row_dots_cols(sum, dot, job->dy + at, job->x + at,
                                    job->mean ? job->mean + r : zeros, job->invstd + r, rows, ld,
                                    t.cols);
        } else {
            job->vec->col_dots(sum, dot, job->dy + at, job->x ? job->x + at : NULL,
                               job->x ? job->mean + t.c0 : NULL, rows, ld, t.cols);
        }
        for (size_t c = 0; c < t.cols; c++) {
            t.a[c] += (double)sum[c];
            t.b[c] += (double)dot[c];
        }
    }
}

static void run_tiles(const art_op_args *args, art_tile_fn fn, col_job *job) {
    const art_col_split *s = &job->split;
    job->vec = art_vec(args);
    art_pool_run(args->pool, (unsigned)(s->groups * s->parts),
                 2.0 * (double)s->rows * (double)s->cols, fn, job);
}

void art_col_moments(const art_op_args *args, const float *x, art_col_split split,
                     double *partials) {
    col_job job = {.x = x, .partials = partials, .split = split};
    size_t cols = (size_t)split.cols;
    run_tiles(args, moments_tile, &job);
    for (uint64_t p = 1; p < split.parts; p++) {
        uint64_t before = p * split.part_rows;
        const double *other = partials + p * 2 * cols;
        merge_moments((double)before, partials, partials + cols,
                      (double)least(split.part_rows, split.rows - before), other, other + cols,
                      cols);
    }
}

static void run_dots(const art_op_args *args, col_job *job) {
    double *partials = job->partials;
    size_t both = 2 * (size_t)job->split.cols;
    run_tiles(args, dots_tile, job);
    for (uint64_t p = 1; p < job->split.parts; p++) {
        for (size_t c = 0; c < both; c++) {
            partials[c] += partials[p * both + c];
        }
    }
}

void art_col_dots(const art_op_args *args, const float *dy, const float *x, const float *mean,
                  art_col_split split, double *partials) {
    col_job job = {.x = x, .dy = dy, .mean = mean, .partials = partials, .split = split};
    run_dots(args, &job);
}

void art_col_row_dots(const art_op_args *args, const float *dy, const float *x, const float *mean,
                      const float *invstd, art_col_split split, double *partials) {
    col_job job = {.x = x, .dy = dy, .mean = mean, .invstd = invstd};
    job.partials = partials;
    job.split = split;
    run_dots(args, &job);
}

/* ---- constants per column, applied to all rows ---- */

typedef struct apply_job {
    uint64_t rows, cols, tile_rows;
    art_col_fill fill;
    art_col_apply apply;
    const void *context;
} apply_job;

/* Repeat the constants of `cols` columns up to `wide` entries. */
static void repeat(art_col_constants *k, size_t cols, size_t wide) {
    for (int j = 0; j < 4; j++) {
        for (size_t c = cols; c < wide; c++) {
            k->k[j][c] = k->k[j][c - cols];
        }
    }
}

static void apply_tile(void *context, unsigned tile, unsigned thread) {
    const apply_job *job = context;
    const size_t cols = (size_t)job->cols;
    const size_t r0 = (size_t)(tile * job->tile_rows);
    const size_t rows = (size_t)least(job->tile_rows, job->rows - r0);
    art_col_constants k = {0};
    (void)thread;
    if (cols <= ART_COL_CHUNK) {
        size_t wide = cols * (ART_COL_CHUNK / cols), all = rows * cols, at = r0 * cols;
        job->fill(job->context, 0, cols, &k);
        repeat(&k, cols, wide);
        job->apply(job->context, at, all / wide, wide, wide, &k);
        job->apply(job->context, at + all / wide * wide, 1, 0, all % wide, &k);
        return;
    }
    for (size_t c = 0; c < cols; c += ART_COL_CHUNK) {
        size_t n = (size_t)least(ART_COL_CHUNK, cols - c);
        job->fill(job->context, c, n, &k);
        job->apply(job->context, r0 * cols + c, rows, cols, n, &k);
    }
}

void art_col_run(const art_op_args *args, uint64_t rows, uint64_t cols, art_col_fill fill,
                 art_col_apply apply, const void *context) {
    apply_job job = {rows, cols, art_ceil_div(APPLY_TILE, cols), fill, apply, context};
    job.tile_rows = job.tile_rows < BLOCK ? BLOCK : job.tile_rows;
    art_pool_run(args->pool, art_tiles(rows, job.tile_rows), 2.0 * (double)rows * (double)cols,
                 apply_tile, &job);
}
