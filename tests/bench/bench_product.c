/* GFLOP/s of linear layers and convolutions, one thread, best level of this machine (or the level
 * named on the command line). Shapes are data; nothing is asserted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/cpu.h"
#include "dispatch/levels.h"
#include "ops/product.h"

static const struct {
    const char *name;
    art_conv_shape shape;
} rows[] = {
    {"64@32x32 3x3", {8, 32, 32, 64, 32, 32, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1}},
    {"64>128@32x32 3x3 s2", {8, 32, 32, 64, 16, 16, 128, 3, 3, 2, 2, 1, 1, 1, 1, 1}},
    {"128@16x16 3x3", {8, 16, 16, 128, 16, 16, 128, 3, 3, 1, 1, 1, 1, 1, 1, 1}},
    {"256@8x8 3x3", {32, 8, 8, 256, 8, 8, 256, 3, 3, 1, 1, 1, 1, 1, 1, 1}},
    {"512@4x4 3x3", {32, 4, 4, 512, 4, 4, 512, 3, 3, 1, 1, 1, 1, 1, 1, 1}},
    {"256>512@8x8 1x1 s2", {32, 8, 8, 256, 4, 4, 512, 1, 1, 2, 2, 0, 0, 1, 1, 1}},
    {"3>64@32x32 3x3", {8, 32, 32, 3, 32, 32, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1}},
    {"linear 784>512 b32", {32, 1, 1, 784, 1, 1, 512, 1, 1, 1, 1, 0, 0, 1, 1, 1}},
    {"gemm 256^3", {256, 1, 1, 256, 1, 1, 256, 1, 1, 1, 1, 0, 0, 1, 1, 1}},
    {"gemm 512^3", {512, 1, 1, 512, 1, 1, 512, 1, 1, 1, 1, 0, 0, 1, 1, 1}},
};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static float *filled(size_t count)
{
    float *p = aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64);
    for (size_t i = 0; i < count; i++) {
        p[i] = (float)(i % 17) * 0.1f - 0.8f;
    }
    return p;
}

int main(int argc, char **argv)
{
    enum { REPEATS = 7 };
    const art_level *level = art_level_select(argc > 1 ? argv[1] : NULL);
    art_pool *pool = aligned_alloc(64, (art_pool_bytes() + 63) / 64 * 64);
    art_error err;
    if (!level || art_pool_start(pool, 1, NULL, &err) != ART_OK) {
        fprintf(stderr, "no such level here\n");
        return 1;
    }
    art_op_args args = {.threads = 1, .pool = pool, .level = level};
    printf("level %s, GFLOP/s (median of %d)\n%-24s %8s %8s %8s\n", level->name, REPEATS, "shape",
           "forward", "grad x", "grad w");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const art_conv_shape *s = &rows[i].shape;
        float *x = filled((size_t)(s->n * s->in_h * s->in_w * s->in_c));
        float *y = filled((size_t)(s->n * s->out_h * s->out_w * s->out_c));
        float *w = filled((size_t)(s->kernel_h * s->kernel_w * s->in_c * s->out_c));
        float *ws = filled(1 << 18);
        double flop = 2.0 * (double)(s->n * s->out_h * s->out_w * s->out_c) *
                      (double)(s->kernel_h * s->kernel_w * s->in_c);
        printf("%-24s", rows[i].name);
        for (int pass = 0; pass < 3; pass++) {
            double times[REPEATS];
            int inner = (int)(2e8 / flop) + 1;
            for (int r = 0; r < REPEATS; r++) {
                double start = seconds();
                for (int k = 0; k < inner; k++) {
                    if (pass == 0) {
                        art_conv_forward(&args, s, x, w, NULL, y, ws);
                    } else if (pass == 1) {
                        art_conv_grad_x(&args, s, y, w, x, ws);
                    } else {
                        art_conv_grad_w(&args, s, x, y, w, ws);
                    }
                }
                times[r] = (seconds() - start) / inner;
            }
            qsort(times, REPEATS, sizeof(double), by_value);
            printf(" %8.1f", flop / times[REPEATS / 2] * 1e-9);
        }
        printf("\n");
        free(x);
        free(y);
        free(w);
        free(ws);
    }
    art_pool_stop(pool);
    free(pool);
    return 0;
}
