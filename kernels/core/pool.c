/* The pool's protocol.
 *
 * One 64-bit word `work` holds (generation << 32 | tiles not yet claimed). A thread claims a tile
 * by lowering the count with compare-and-swap, so a late thread can never claim a tile of a
 * region that it has not seen: the generation differs. fn, context and tiles are plain fields:
 * they are written while no tile is claimed and read only after a claim, which pins the region
 * until the claimed tile is counted in `done`. The caller takes tiles too and then waits until
 * done == tiles; it never waits for a worker that claimed nothing, so a sleeping or preempted
 * worker delays nobody.
 *
 * Waiting threads spin a few microseconds and then block in a futex; without a free processor
 * for every thread they block at once. */
#define _GNU_SOURCE
#include "core/pool.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "art_plan.h"
#include "core/cpu.h"
#include "core/status.h"

/* Pauses before a waiting thread blocks: some 10 us. */
#if defined(__x86_64__) || defined(__i386__)
#define SPINS 300
#define PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define SPINS 400
#define PAUSE() __asm__ volatile("isb" ::: "memory") /* `yield` is a no-op on most cores */
#elif defined(__arm__)
#define SPINS 2000
#define PAUSE() __asm__ volatile("" ::: "memory")
#else
#define SPINS 2000
#define PAUSE() __asm__ volatile("" ::: "memory")
#endif

typedef struct worker {
    art_pool *pool;
    unsigned index;
    pthread_t handle;
} worker;

struct art_pool {
    unsigned threads;
    unsigned started; /* workers that exist */
    unsigned spins;
    art_tile_fn fn;
    void *context;
    uint32_t tiles;
    _Alignas(64) _Atomic uint64_t work;
    _Alignas(64) _Atomic uint32_t done; /* tiles finished; the caller blocks on it */
    _Atomic uint32_t caller_sleeps;
    _Alignas(64) _Atomic uint32_t wake; /* raised with every region; workers block on it */
    _Atomic uint32_t sleepers;
    _Atomic uint32_t stop;
    worker workers[ART_MAX_THREADS - 1];
};

size_t art_pool_bytes(void) {
    return sizeof(art_pool);
}

static void futex_wait(_Atomic uint32_t *word, uint32_t expected) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* Claim and run tiles of the current region until none is left. */
static void run_tiles(art_pool *pool, unsigned thread) {
    uint32_t finished = 0, tiles = 0;
    uint64_t work = atomic_load_explicit(&pool->work, memory_order_acquire);
    while ((uint32_t)work != 0) {
        if (!atomic_compare_exchange_weak_explicit(&pool->work, &work, work - 1,
                                                   memory_order_acq_rel, memory_order_acquire)) {
            continue;
        }
        tiles = pool->tiles;
        pool->fn(pool->context, tiles - (uint32_t)work, thread);
        finished++;
        work = atomic_load_explicit(&pool->work, memory_order_acquire);
    }
    if (finished == 0) {
        return;
    }
    uint32_t done = atomic_fetch_add(&pool->done, finished) + finished;
    if (done == tiles && thread != 0 && atomic_load(&pool->caller_sleeps) != 0) {
        futex_wake(&pool->done, 1);
    }
}

/* Return when there is work or the pool stops. */
static void await_work(art_pool *pool) {
    for (unsigned spin = 0; spin < pool->spins; spin++) {
        if ((uint32_t)atomic_load_explicit(&pool->work, memory_order_acquire) != 0) {
            return;
        }
        PAUSE();
    }
    for (;;) {
        /* Order matters: `wake` is read before `work`, and this thread counts as a sleeper before
         * the kernel compares `wake`, so a region started in between is never missed. */
        uint32_t seen = atomic_load(&pool->wake);
        if ((uint32_t)atomic_load(&pool->work) != 0 || atomic_load(&pool->stop) != 0) {
            return;
        }
        atomic_fetch_add(&pool->sleepers, 1);
        futex_wait(&pool->wake, seen);
        atomic_fetch_sub(&pool->sleepers, 1);
    }
}

static void *worker_main(void *argument) {
    const worker *self = argument;
    art_pool *pool = self->pool;
    while (atomic_load(&pool->stop) == 0) {
        await_work(pool);
        run_tiles(pool, self->index);
    }
    return NULL;
}

/* The thread sanitizer keeps almost a megabyte of its own data on every stack. */
#if defined(__SANITIZE_THREAD__)
#define OWN_STACKS 0
#else
#define OWN_STACKS 1
#endif

static int start_worker(art_pool *pool, unsigned i, unsigned char *stack) {
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error != 0) {
        return error;
    }
    if (OWN_STACKS) {
        error = pthread_attr_setstack(&attributes, stack, ART_STACK_BYTES);
    }
    if (error == 0) {
        pool->workers[i].pool = pool;
        pool->workers[i].index = i + 1;
        error =
            pthread_create(&pool->workers[i].handle, &attributes, worker_main, &pool->workers[i]);
    }
    pthread_attr_destroy(&attributes);
    return error;
}

art_status art_pool_start(art_pool *pool, unsigned threads, void *stacks, art_error *err) {
    memset(pool, 0, sizeof *pool);
    pool->threads = 1;
    ART_FAIL_IF(threads < 1 || threads > ART_MAX_THREADS, err, ART_USE,
                "a pool of %u threads was asked for; 1 to %u are possible", threads,
                ART_MAX_THREADS);
    ART_FAIL_IF(threads > 1 && stacks == NULL, err, ART_BUG, "a pool of %u threads has no stacks",
                threads);
    pool->threads = threads;
    if (threads == 1) {
        return ART_OK;
    }
    pool->spins = threads <= art_cpu_usable() ? SPINS : 0;
    /* Signals belong to the caller's thread: workers are created with all of them blocked. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = 0;
    for (unsigned i = 0; i + 1 < threads && error == 0; i++) {
        error = start_worker(pool, i, (unsigned char *)stacks + (size_t)i * ART_STACK_BYTES);
        pool->started += error == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        unsigned started = pool->started;
        art_pool_stop(pool);
        return art_fail(err, ART_USE, __FILE__, __LINE__,
                        "thread %u of %u could not be started (%s); use fewer threads", started + 2,
                        threads, strerror(error));
    }
    return ART_OK;
}

void art_pool_stop(art_pool *pool) {
    atomic_store(&pool->stop, 1);
    atomic_fetch_add(&pool->wake, 1);
    futex_wake(&pool->wake, INT_MAX);
    for (unsigned i = 0; i < pool->started; i++) {
        pthread_join(pool->workers[i].handle, NULL);
    }
    pool->started = 0;
    pool->threads = 1;
}

unsigned art_pool_threads(const art_pool *pool) {
    return pool->threads;
}

static void await_done(art_pool *pool, uint32_t tiles) {
    for (unsigned spin = 0; spin < pool->spins; spin++) {
        if (atomic_load_explicit(&pool->done, memory_order_acquire) == tiles) {
            return;
        }
        PAUSE();
    }
    atomic_store(&pool->caller_sleeps, 1);
    for (uint32_t done = atomic_load(&pool->done); done != tiles; done = atomic_load(&pool->done)) {
        futex_wait(&pool->done, done);
    }
    atomic_store(&pool->caller_sleeps, 0);
}

void art_pool_run(art_pool *pool, unsigned tiles, double cost, art_tile_fn fn, void *context) {
    if (pool->threads == 1 || tiles <= 1 || cost < ART_SMALL_COST) {
        for (unsigned tile = 0; tile < tiles; tile++) {
            fn(context, tile, 0);
        }
        return;
    }
    pool->fn = fn;
    pool->context = context;
    pool->tiles = tiles;
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
    uint64_t generation = (atomic_load_explicit(&pool->work, memory_order_relaxed) >> 32) + 1;
    atomic_store(&pool->work, generation << 32 | tiles);
    atomic_fetch_add(&pool->wake, 1);
    if (atomic_load(&pool->sleepers) != 0) {
        futex_wake(&pool->wake, tiles - 1 < INT_MAX ? (int)(tiles - 1) : INT_MAX);
    }
    run_tiles(pool, 0);
    await_done(pool, tiles);
}
