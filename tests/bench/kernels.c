/* Products of the engine and of a BLAS in turns, called from tests/bench/products.py: what is timed
 * is a loop of C, so that no interpreter counts. Arrays are the caller's. */
#include <stdlib.h>
#include <time.h>

#include "dispatch/levels.h"
#include "ops/product.h"

#define BENCH_API __attribute__((visibility("default")))

typedef struct bench {
    art_pool *pool;
    art_op_args args;
} bench;

/* cblas_sgemm with integers of 32 and of 64 bits. */
typedef void (*sgemm_32)(int, int, int, int, int, int, float, const float *, int, const float *,
                         int, float, float *, int);
typedef void (*sgemm_64)(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t,
                         const float *, int64_t, float, float *, int64_t);
enum { ROW_MAJOR = 101, AS_IT_LIES = 111 };

static double thread_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* One thread at a kernel level, NULL when it is unknown here. */
BENCH_API bench *bench_open(const char *level) {
    const art_level *found = art_level_select(level);
    bench *made = calloc(1, sizeof *made);
    art_pool *pool = aligned_alloc(64, (art_pool_bytes() + 63) / 64 * 64);
    art_error err;
    if (!found || !made || !pool || art_pool_start(pool, 1, NULL, &err) != ART_OK) {
        free(made);
        free(pool);
        return NULL;
    }
    made->pool = pool;
    made->args = (art_op_args){.threads = 1, .pool = pool, .level = found};
    return made;
}

BENCH_API void bench_close(bench *opened) {
    art_pool_stop(opened->pool);
    free(opened->pool);
    free(opened);
}

/* Bytes of scratch that every pass of a convolution has enough of. */
BENCH_API uint64_t bench_scratch_bytes(const art_conv_shape *s) {
    uint64_t most = 0;
    const int64_t window = s->kernel_h * s->kernel_w;
    const int64_t terms[] = {window * s->in_c, window * s->out_c, s->n * s->out_h * s->out_w};
    const int64_t columns[] = {s->out_c, s->in_c, s->out_c};
    for (unsigned i = 0; i < 3; i++) {
        uint64_t bytes = art_product_workspace((uint64_t)terms[i], (uint64_t)columns[i], 1);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Seconds of this thread for `count` times y = x w (pass 0), x = y wT (1) or w = xT y (2). */
BENCH_API double bench_conv(const bench *opened, int pass, const art_conv_shape *shape, float *x,
                            float *w, float *y, void *scratch, int count) {
    double began = thread_seconds();
    for (int i = 0; i < count; i++) {
        if (pass == 0) {
            art_conv_forward(&opened->args, shape, x, w, NULL, y, scratch);
        } else if (pass == 1) {
            art_conv_grad_x(&opened->args, shape, y, w, x, scratch);
        } else {
            art_conv_grad_w(&opened->args, shape, x, y, w, scratch);
        }
    }
    return thread_seconds() - began;
}

/* The same for y[m,n] = x[m,k] w[k,n] by a BLAS. */
BENCH_API double bench_sgemm(void *function, int integer_bits, int m, int n, int k, const float *x,
                             const float *w, float *y, int count) {
    double began = thread_seconds();
    for (int i = 0; i < count; i++) {
        if (integer_bits == 64) {
            ((sgemm_64)function)(ROW_MAJOR, AS_IT_LIES, AS_IT_LIES, m, n, k, 1.0f, x, k, w, n, 0.0f,
                                 y, n);
        } else {
            ((sgemm_32)function)(ROW_MAJOR, AS_IT_LIES, AS_IT_LIES, m, n, k, 1.0f, x, k, w, n, 0.0f,
                                 y, n);
        }
    }
    return thread_seconds() - began;
}
