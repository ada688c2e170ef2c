/* The thread pool: every tile runs exactly once, results have the same bits for any number of
 * threads, sleeping workers wake, and starting and stopping leaks nothing. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "art_plan.h"
#include "core/pool.h"
#include "expect.h"

#define TILES_MAX 257
#define COST 1e9 /* never a small region */

typedef struct region {
    atomic_uint runs[TILES_MAX];
    double sums[TILES_MAX];
    atomic_uint busy[ART_MAX_THREADS]; /* tiles that a thread is in: at most one */
    atomic_uint clashes;
    unsigned threads;
} region;

static void work(void *context, unsigned tile, unsigned thread) {
    region *r = context;
    if (thread >= r->threads || atomic_fetch_add(&r->busy[thread], 1) != 0) {
        atomic_fetch_add(&r->clashes, 1);
    }
    double sum = 0;
    for (unsigned i = 1; i < 50 + tile % 7 * 40; i++) {
        sum += 1.0 / (i * (tile + 1.0));
    }
    r->sums[tile] += sum; /* plain: a race here is a defect that the thread sanitizer sees */
    atomic_fetch_add(&r->runs[tile], 1);
    atomic_fetch_sub(&r->busy[thread], 1);
}

static void *map_stacks(unsigned threads) {
    return mmap(NULL, (size_t)threads * ART_STACK_BYTES, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static art_pool *start(unsigned threads, void **stacks) {
    art_error err;
    art_pool *pool = aligned_alloc(64, art_pool_bytes());
    *stacks = map_stacks(ART_MAX_THREADS);
    EXPECT_STATUS(art_pool_start(pool, threads, threads == 1 ? NULL : *stacks, &err), ART_OK, err,
                  "");
    EXPECT(art_pool_threads(pool) == threads);
    return pool;
}

static void stop(art_pool *pool, void *stacks) {
    art_pool_stop(pool);
    art_pool_stop(pool); /* twice is harmless */
    free(pool);
    munmap(stacks, (size_t)ART_MAX_THREADS * ART_STACK_BYTES);
}

static void run_regions(art_pool *pool, region *r, int regions) {
    memset(r, 0, sizeof *r);
    r->threads = art_pool_threads(pool);
    for (int i = 0; i < regions; i++) {
        unsigned tiles = (unsigned)(i * 7919) % (TILES_MAX + 1);
        art_pool_run(pool, tiles, i % 5 == 0 ? 1.0 : COST, work, r);
        if (i % 97 == 0) {
            usleep(300); /* long enough for the workers to fall asleep */
        }
    }
}

static void stress(void) {
    static region first, r;
    const int regions = 1500;
    for (unsigned threads = 1; threads <= 8; threads++) {
        void *stacks;
        art_pool *pool = start(threads, &stacks);
        run_regions(pool, threads == 1 ? &first : &r, regions);
        stop(pool, stacks);
        if (threads == 1) {
            continue;
        }
        EXPECT(atomic_load(&r.clashes) == 0);
        EXPECT(memcmp(first.sums, r.sums, sizeof r.sums) == 0);
        for (unsigned tile = 0; tile < TILES_MAX; tile++) {
            EXPECT(atomic_load(&r.runs[tile]) == atomic_load(&first.runs[tile]));
        }
    }
}

/* A region is complete when art_pool_run returns: its results can be read at once. */
static void completeness(void) {
    static region r;
    void *stacks;
    art_pool *pool = start(3, &stacks);
    for (int i = 0; i < 500; i++) {
        memset(&r, 0, sizeof r);
        r.threads = 3;
        art_pool_run(pool, 64, COST, work, &r);
        unsigned ran = 0;
        for (unsigned tile = 0; tile < 64; tile++) {
            ran += atomic_load(&r.runs[tile]);
        }
        EXPECT(ran == 64);
    }
    stop(pool, stacks);
}

static void open_and_close(void) {
    void *stacks;
    for (int i = 0; i < 100; i++) {
        stop(start(1 + (unsigned)i % 8, &stacks), stacks);
    }
}

static void refusals(void) {
    art_error err;
    art_pool *pool = aligned_alloc(64, art_pool_bytes());
    EXPECT_STATUS(art_pool_start(pool, 0, NULL, &err), ART_USE, err, "1 to 64");
    art_pool_stop(pool);
    EXPECT_STATUS(art_pool_start(pool, 65, NULL, &err), ART_USE, err, "65 threads");
    EXPECT_STATUS(art_pool_start(pool, 2, NULL, &err), ART_BUG, err, "no stacks");
    art_pool_stop(pool);
    free(pool);
}

int main(void) {
    stress();
    completeness();
    open_and_close();
    refusals();
    return expect_done("pool");
}
