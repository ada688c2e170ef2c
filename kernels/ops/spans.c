#include "ops/spans.h"

/* Partial sums of one reduction: a block has at least MIN_BLOCK elements, there are at most
 * MAX_BLOCKS, so that the partial sums are a small array of the caller. */
enum { MIN_BLOCK = 4096, MAX_BLOCKS = 128 };

typedef struct span_job {
    const art_op_args *args;
    const void *constants;
    art_span_fn fn;
    uint64_t count;
} span_job;

static size_t part(uint64_t count, uint64_t first, uint64_t length) {
    return (size_t)(count - first < length ? count - first : length);
}

static void run_span(void *context, unsigned tile, unsigned thread) {
    const span_job *job = context;
    uint64_t first = (uint64_t)tile * ART_SPAN;
    (void)thread;
    job->fn(job->args, job->constants, (size_t)first, part(job->count, first, ART_SPAN));
}

void art_run_spans(const art_op_args *args, uint64_t count, double work, art_span_fn fn,
                   const void *constants) {
    span_job job = {args, constants, fn, count};
    art_pool_run(args->pool, art_tiles(count, ART_SPAN), work * (double)count, run_span, &job);
}

typedef struct block_job {
    const art_op_args *args;
    const void *constants;
    art_block_fn fn;
    uint64_t count;
    uint64_t block;
    double sums[MAX_BLOCKS];
} block_job;

static void run_block(void *context, unsigned tile, unsigned thread) {
    block_job *job = context;
    uint64_t first = tile * job->block;
    (void)thread;
    job->sums[tile] =
        job->fn(job->args, job->constants, (size_t)first, part(job->count, first, job->block));
}

double art_sum_blocks(const art_op_args *args, uint64_t count, double work, art_block_fn fn,
                      const void *constants) {
    block_job job = {.args = args, .constants = constants, .fn = fn, .count = count};
    job.block = art_ceil_div(count, MAX_BLOCKS);
    job.block = job.block < MIN_BLOCK ? MIN_BLOCK : job.block;
    unsigned blocks = art_tiles(count, job.block);
    art_pool_run(args->pool, blocks, work * (double)count, run_block, &job);
    double sum = 0.0;
    for (unsigned i = 0; i < blocks; i++) {
        sum += job.sums[i];
    }
    return sum;
}
