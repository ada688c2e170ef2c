/* Linear layers and convolutions: every level against the naive twin under the error bound of its
 * own arithmetic, and the same bits for every thread count, for levels that all fuse, and for a
 * batch inside a larger one. Outputs start as NaN and all arrays end at unreadable pages. */
#include <stdbool.h>

#include "core/cpu.h"
#include "expect.h"
#include "guarded.h"
#include "ops/op_functions.h"
#include "ref/ref_product.h"

typedef struct test_case {
    int n, c, h, w, o, kh, kw, sh, sw, ph, pw, dh, dw, groups, bias, over;
} test_case;

static const test_case cases[] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0},
    {2, 3, 5, 7, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 0},
    {3, 5, 9, 8, 49, 3, 3, 2, 2, 1, 1, 1, 1, 1, 0, 0},
    {2, 16, 8, 8, 48, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 0},
    {1, 47, 6, 5, 17, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0},
    {2, 64, 5, 5, 31, 1, 1, 2, 2, 0, 0, 1, 1, 1, 0, 0},
    {1, 4, 11, 13, 6, 5, 3, 3, 2, 2, 0, 1, 2, 2, 1, 0},
    {2, 6, 10, 10, 6, 3, 3, 1, 1, 2, 2, 2, 2, 3, 1, 0},
    {2, 7, 6, 6, 7, 3, 3, 1, 1, 1, 1, 1, 1, 7, 1, 0},
    {1, 8, 7, 7, 12, 2, 2, 3, 3, 0, 0, 1, 1, 4, 0, 0},
    /* depthwise: whole and part vectors, strides, dilation, larger than a block of taps */
    {2, 48, 5, 6, 48, 3, 3, 1, 1, 1, 1, 1, 1, 48, 1, 0},
    {1, 53, 7, 9, 53, 3, 3, 2, 2, 1, 1, 1, 1, 53, 0, 0},
    {1, 150, 4, 5, 150, 3, 3, 1, 1, 1, 1, 1, 1, 150, 1, 0},
    {1, 18, 12, 11, 18, 5, 3, 2, 3, 4, 2, 2, 1, 18, 1, 0},
    {1, 2, 17, 17, 2, 9, 9, 1, 1, 4, 4, 1, 1, 2, 1, 0},
    {2, 3, 8, 8, 12, 3, 3, 1, 1, 1, 1, 1, 1, 3, 0, 0},
    /* one more row and column of zeros at the end: even kernels whose output has the input's size
     */
    {2, 3, 6, 7, 5, 4, 2, 1, 1, 1, 0, 1, 1, 1, 1, 1},
    {1, 20, 5, 6, 20, 2, 4, 1, 1, 0, 1, 1, 1, 20, 1, 1},
    {2, 9, 5, 4, 7, 2, 2, 1, 1, 1, 1, 3, 3, 1, 0, 1},
    /* few channels: kernel rows as one tap, inside, at borders and never wholly inside */
    {3, 1, 12, 13, 6, 5, 5, 1, 1, 0, 0, 1, 1, 1, 1, 0},
    {2, 6, 9, 9, 12, 5, 5, 1, 1, 2, 2, 1, 1, 1, 1, 0},
    {2, 3, 20, 21, 64, 7, 7, 2, 2, 3, 3, 1, 1, 1, 0, 0},
    {2, 4, 3, 2, 5, 3, 7, 1, 1, 2, 5, 1, 1, 1, 1, 0},
    {1, 20, 4, 40, 3, 1, 3, 1, 1, 0, 1, 1, 1, 1, 1, 0},
    {1, 22, 4, 40, 24, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 0},
    /* stride larger than image or kernel, padding larger than kernel, taps that never meet */
    {2, 5, 3, 4, 7, 1, 1, 5, 6, 0, 0, 1, 1, 1, 1, 0},
    {1, 3, 6, 6, 4, 2, 2, 1, 1, 5, 5, 1, 1, 1, 1, 0},
    {1, 3, 11, 11, 4, 3, 3, 6, 4, 2, 2, 4, 6, 1, 0, 0},
    {1, 2, 9, 9, 3, 3, 3, 4, 4, 1, 1, 3, 3, 1, 1, 0},
    {1, 3, 12, 12, 5, 4, 4, 2, 2, 1, 1, 2, 2, 1, 1, 0},
    {1, 300, 3, 4, 5, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 0},
    {1, 1, 12, 12, 2, 9, 9, 1, 1, 4, 4, 1, 1, 1, 1, 0},
    {5, 13, 17, 19, 53, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 0},
    {9, 260, 1, 1, 97, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0},
    {33, 84, 1, 1, 10, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0},
    {1, 300, 1, 1, 64, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0},
    {3, 70, 1, 1, 80, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0},
    {600, 9, 1, 1, 7, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0},
};
enum { N_CASES = sizeof(cases) / sizeof(cases[0]), MOST_THREADS = 3, N_PASSES = 4 };

static const struct {
    const char *name;
    uint32_t features;
    const art_gemm_kernels *gemm;
    bool fused;
} levels[] = {
#define LEVEL(level, bits, fuses, ...) {#level, (bits), &art_gemm_##level, (fuses)},
    ART_EACH_LEVEL(LEVEL, )};
enum { N_LEVELS = sizeof(levels) / sizeof(levels[0]) };

typedef struct arrays {
    guarded x, w, b, y, ws;
    size_t nx, nw, nb, ny;
} arrays;

static art_pool *pools[MOST_THREADS];

static art_array describe(const float *data, int ndim, const int *dims, int batched) {
    art_array a = {.data = (void *)(uintptr_t)data,
                   .ndim = (uint8_t)ndim,
                   .bytes = 4,
                   .batched = (uint8_t)batched,
                   .dtype = ART_DTYPE_F32};
    for (int i = 0; i < ndim; i++) {
        a.dims[i] = (uint32_t)dims[i];
        a.bytes *= (uint32_t)dims[i];
    }
    return a;
}

static int out_size(int in, int k, int s, int p, int d) {
    return (in + 2 * p - d * (k - 1) - 1) / s + 1;
}

static art_conv_shape shape_of(const test_case *t) {
    return (art_conv_shape){t->n,
                            t->h,
                            t->w,
                            t->c,
                            out_size(t->h + t->over, t->kh, t->sh, t->ph, t->dh),
                            out_size(t->w + t->over, t->kw, t->sw, t->pw, t->dw),
                            t->o,
                            t->kh,
                            t->kw,
                            t->sh,
                            t->sw,
                            t->ph,
                            t->pw,
                            t->dh,
                            t->dw,
                            t->groups};
}

typedef struct pass {
    art_status (*check)(const art_op_args *, art_error *);
    uint64_t (*workspace)(const art_op_args *);
    art_status (*run)(const art_op_args *, art_error *);
    unsigned slots[4]; /* of x, w, b, y in the operation, 9 for none */
    unsigned ws;
    char output; /* which array is written: 'y', 'x', 'w', 'b' */
} pass;

static const pass conv_passes[N_PASSES] = {
    {art_op_conv2d_fwd_check,
     art_op_conv2d_fwd_workspace,
     art_op_conv2d_fwd_run,
     {0, 1, 2, 3},
     4,
     'y'},
    {art_op_conv2d_grad_x_check,
     art_op_conv2d_grad_x_workspace,
     art_op_conv2d_grad_x_run,
     {2, 1, 9, 0},
     3,
     'x'},
    {art_op_conv2d_grad_w_check,
     art_op_conv2d_grad_w_workspace,
     art_op_conv2d_grad_w_run,
     {0, 2, 9, 1},
     4,
     'w'},
    {art_op_conv2d_grad_w_check,
     art_op_conv2d_grad_w_workspace,
     art_op_conv2d_grad_w_run,
     {0, 9, 3, 1},
     4,
     'b'},
};
/* The same products as steps of the transposed convolution from y to x, without bias. */
static const pass transposed_passes[N_PASSES - 1] = {
    {art_op_conv_transpose2d_fwd_check,
     art_op_conv_transpose2d_fwd_workspace,
     art_op_conv_transpose2d_fwd_run,
     {3, 1, 9, 0},
     4,
     'x'},
    {art_op_conv_transpose2d_grad_x_check,
     art_op_conv_transpose2d_grad_x_workspace,
     art_op_conv_transpose2d_grad_x_run,
     {0, 1, 9, 2},
     3,
     'y'},
    {art_op_conv_transpose2d_grad_w_check,
     art_op_conv_transpose2d_grad_w_workspace,
     art_op_conv_transpose2d_grad_w_run,
     {1, 2, 9, 0},
     4,
     'w'},
};
static const pass linear_passes[N_PASSES] = {
    {art_op_linear_fwd_check,
     art_op_linear_fwd_workspace,
     art_op_linear_fwd_run,
     {0, 1, 2, 3},
     4,
     'y'},
    {art_op_linear_grad_x_check,
     art_op_linear_grad_x_workspace,
     art_op_linear_grad_x_run,
     {2, 1, 9, 0},
     3,
     'x'},
    {art_op_linear_grad_w_check,
     art_op_linear_grad_w_workspace,
     art_op_linear_grad_w_run,
     {0, 2, 9, 1},
     4,
     'w'},
    {art_op_linear_grad_w_check,
     art_op_linear_grad_w_workspace,
     art_op_linear_grad_w_run,
     {0, 9, 3, 1},
     4,
     'b'},
};

static float *output_of(arrays *a, char output, size_t *count) {
    *count = output == 'y' ? a->ny : output == 'x' ? a->nx : output == 'w' ? a->nw : a->nb;
    return (output == 'y' ? a->y : output == 'x' ? a->x : output == 'w' ? a->w : a->b).data;
}

/* A workspace of exactly the bytes that the operation asks for, filled with NaN. */
static void add_workspace(const pass *p, art_op_args *args, guarded *ws) {
    uint64_t bytes = p->workspace(args);
    int dims[1] = {(int)bytes};
    *ws = guarded_new(bytes / sizeof(float));
    fill_nan(ws->data, bytes / sizeof(float));
    if (bytes) {
        args->operand[p->ws] = describe(ws->data, 1, dims, 0);
        args->operand[p->ws].dtype = ART_DTYPE_U8;
        args->operand[p->ws].bytes = bytes;
    }
}

/* Run one pass; the output array is NaN before. */
static void run_pass(const pass *p, const test_case *t, arrays *a, unsigned level, unsigned threads,
                     bool linear) {
    art_conv_shape s = shape_of(t);
    int xd[4] = {t->n, t->h, t->w, t->c}, yd[4] = {t->n, (int)s.out_h, (int)s.out_w, t->o};
    int wd[5] = {t->groups, t->kh, t->kw, t->c / t->groups, t->o / t->groups}, bd[1] = {t->o};
    int lx[2] = {t->n, t->c}, ly[2] = {t->n, t->o}, lw[2] = {t->c, t->o};
    art_attr attr[9] = {{t->sh}, {t->sw},     {t->ph},   {t->pw},  {t->dh},
                        {t->dw}, {t->groups}, {t->over}, {t->over}};
    art_level table = {.name = levels[level].name};
    table.kernels.gemm = levels[level].gemm;
    art_op_args args = {.attr = attr,
                        .n_operands = 5,
                        .threads = MOST_THREADS,
                        .pool = pools[threads - 1],
                        .level = &table};
    art_array operands[4] = {
        linear ? describe(a->x.data, 2, lx, 1) : describe(a->x.data, 4, xd, 1),
        linear ? describe(a->w.data, 2, lw, 0) : describe(a->w.data, 5, wd, 0),
        describe(a->b.data, 1, bd, 0),
        linear ? describe(a->y.data, 2, ly, 1) : describe(a->y.data, 4, yd, 1),
    };
    for (unsigned i = 0; i < 4; i++) {
        if (p->slots[i] != 9 && !(i == 2 && p->output == 'y' && !t->bias)) {
            args.operand[p->slots[i]] = operands[i];
        }
    }
    add_workspace(p, &args, &a->ws);
    art_error err = {{0}, NULL, 0};
    EXPECT_STATUS(p->check(&args, &err), ART_OK, err, "");
    size_t count;
    float *out = output_of(a, p->output, &count);
    fill_nan(out, count);
    EXPECT(p->run(&args, &err) == ART_OK);
    guarded_free(&a->ws);
}

static void fill_arrays(arrays *a) {
    fill_random(a->x.data, a->nx, 1);
    fill_random(a->w.data, a->nw, 2);
    fill_random(a->b.data, a->nb, 3);
    fill_random(a->y.data, a->ny, 4);
}

/* |float sum - exact sum| <= gamma_t * sum |terms| with t roundings per element (Higham, Accuracy
 * and Stability of Numerical Algorithms, 2002, section 3.1): t terms and the block sums. */
static void compare(const float *got, const double *want, const double *magnitude, size_t count,
                    double terms, const char *what) {
    double u = 1.0 / (1 << 24), t = 2.0 * terms + terms / ART_GEMM_TAPS + 2.0;
    double gamma = t * u / (1.0 - t * u);
    for (size_t i = 0; i < count; i++) {
        double error = fabs(got[i] - want[i]);
        if (!(error <= gamma * magnitude[i])) {
            printf("%s element %zu: %.9g, exact %.9g, bound %.3g\n", what, i, got[i], want[i],
                   gamma * magnitude[i]);
            expect_failures++;
            return;
        }
    }
}

static void reference(const pass *p, const test_case *t, const arrays *a, double *want,
                      double *mag) {
    art_conv_shape s = shape_of(t);
    const float *bias = t->bias && p->slots[2] != 9 ? a->b.data : NULL;
    switch (p->output) {
    case 'y':
        art_ref_conv_forward(&s, a->x.data, a->w.data, bias, want, mag);
        break;
    case 'x':
        art_ref_conv_grad_x(&s, a->y.data, a->w.data, want, mag);
        break;
    case 'w':
        art_ref_conv_grad_w(&s, a->x.data, a->y.data, want, mag);
        break;
    default:
        art_ref_conv_grad_b(&s, a->y.data, want, mag);
    }
}

static void test_pass(const pass *p, const test_case *t, arrays *a, bool linear, const char *what) {
    uint32_t features = art_cpu_features();
    size_t count;
    float *out = output_of(a, p->output, &count);
    double *want = malloc(count * sizeof(double)), *mag = malloc(count * sizeof(double));
    float *same_class[2] = {malloc(count * sizeof(float)), malloc(count * sizeof(float))};
    bool seen[2] = {false, false};
    art_conv_shape s = shape_of(t);
    double terms = p->output == 'y'   ? (double)(s.kernel_h * s.kernel_w * s.in_c)
                   : p->output == 'x' ? (double)(s.kernel_h * s.kernel_w * s.out_c)
                                      : (double)(s.n * s.out_h * s.out_w);
    fill_arrays(a);
    reference(p, t, a, want, mag);
    for (unsigned level = 0; level < N_LEVELS; level++) {
        if (levels[level].features & ~features) {
            continue;
        }
        for (unsigned threads = 1; threads <= MOST_THREADS; threads++) {
            fill_arrays(a);
            run_pass(p, t, a, level, threads, linear);
            compare(out, want, mag, count, terms, what);
            unsigned class = levels[level].fused;
            if (seen[class] && memcmp(same_class[class], out, count * sizeof(float)) != 0) {
                printf("%s: level %s, %u threads: other bits\n", what, levels[level].name, threads);
                expect_failures++;
            }
            memcpy(same_class[class], out, count * sizeof(float));
            seen[class] = true;
        }
    }
    free(want);
    free(mag);
    free(same_class[0]);
    free(same_class[1]);
}

static void test_case_all(const test_case *t, unsigned number) {
    art_conv_shape s = shape_of(t);
    arrays a = {.nx = (size_t)(s.n * s.in_h * s.in_w * s.in_c),
                .nb = (size_t)s.out_c,
                .nw = (size_t)(s.kernel_h * s.kernel_w * s.in_c * s.out_c / s.groups),
                .ny = (size_t)(s.n * s.out_h * s.out_w * s.out_c)};
    a.x = guarded_new(a.nx);
    a.w = guarded_new(a.nw);
    a.b = guarded_new(a.nb);
    a.y = guarded_new(a.ny);
    bool linear = s.in_h * s.in_w * s.kernel_h * s.kernel_w == 1;
    for (unsigned i = 0; i < N_PASSES; i++) {
        char what[64];
        snprintf(what, sizeof(what), "case %u pass %c", number, conv_passes[i].output);
        test_pass(&conv_passes[i], t, &a, false, what);
        if (linear) {
            test_pass(&linear_passes[i], t, &a, true, what);
        }
    }
    for (unsigned i = 0; i < N_PASSES - 1 && number % 3 == 0; i++) {
        char what[64];
        snprintf(what, sizeof(what), "case %u transposed pass %c", number,
                 transposed_passes[i].output);
        test_pass(&transposed_passes[i], t, &a, false, what);
    }
    guarded_free(&a.x);
    guarded_free(&a.w);
    guarded_free(&a.b);
    guarded_free(&a.y);
}

/* Samples of a batch have the bits that they have in a smaller batch. */
static void test_batch_independence(void) {
    test_case large = {7, 5, 9, 8, 19, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 0}, small = large;
    small.n = 3;
    art_conv_shape s = shape_of(&large);
    arrays a = {.nx = (size_t)(s.n * s.in_h * s.in_w * s.in_c),
                .nb = (size_t)s.out_c,
                .nw = (size_t)(s.kernel_h * s.kernel_w * s.in_c * s.out_c),
                .ny = (size_t)(s.n * s.out_h * s.out_w * s.out_c)};
    a.x = guarded_new(a.nx);
    a.w = guarded_new(a.nw);
    a.b = guarded_new(a.nb);
    a.y = guarded_new(a.ny);
    for (unsigned i = 0; i < 2; i++) {
        size_t count;
        float *out = output_of(&a, conv_passes[i].output, &count);
        size_t part = count / 7 * 3;
        float *whole = malloc(part * sizeof(float));
        fill_arrays(&a);
        run_pass(&conv_passes[i], &large, &a, 0, 1, false);
        memcpy(whole, out, part * sizeof(float));
        fill_arrays(&a);
        run_pass(&conv_passes[i], &small, &a, 0, 2, false);
        EXPECT(memcmp(whole, out, part * sizeof(float)) == 0);
        free(whole);
    }
    guarded_free(&a.x);
    guarded_free(&a.w);
    guarded_free(&a.b);
    guarded_free(&a.y);
}

int main(void) {
    static char stacks[(MOST_THREADS - 1) * MOST_THREADS * ART_STACK_BYTES]
        __attribute__((aligned(4096)));
    art_error err;
    for (unsigned i = 0; i < MOST_THREADS; i++) {
        pools[i] = aligned_alloc(64, (art_pool_bytes() + 63) / 64 * 64);
        EXPECT(art_pool_start(pools[i], i + 1, stacks + i * (MOST_THREADS - 1) * ART_STACK_BYTES,
                              &err) == ART_OK);
    }
    for (unsigned i = 0; i < N_LEVELS; i++) {
        if (levels[i].features & ~art_cpu_features()) {
            printf("skipped level %s: this processor lacks it\n", levels[i].name);
        }
    }
    for (unsigned i = 0; i < N_CASES; i++) {
        test_case_all(&cases[i], i);
    }
    test_batch_independence();
    for (unsigned i = 0; i < MOST_THREADS; i++) {
        art_pool_stop(pools[i]);
        free(pools[i]);
    }
    return expect_done("test_product");
}
