/* Arithmetic with broadcasting, sums over axes and matrix products, on all levels, threads and
 * shapes, against their twins. */
#include "op_scene.h"

#define F32 ART_DTYPE_F32
#define NEW(NAME, name) scene_new(#name, ART_OP_##NAME, art_ref_##name)

typedef struct shape {
    int ndim, dims[6];
} shape;

static void operand(scene *s, unsigned slot, int batched, shape a, double lo, double hi) {
    const int *d = a.dims;
    scene_operand(s, slot, F32, batched, a.ndim, d[0], d[1], d[2], d[3], d[4], d[5]);
    scene_floats(s, slot, lo, hi);
}

/* A value, and one that stands for more of it, a batch or not. */
static const struct {
    shape large, small;
    int batched;
} pairs[] = {
    {{2, {3, 7}}, {2, {3, 7}}, 1},
    {{2, {3, 70}}, {1, {70}}, 0},
    {{2, {3, 70}}, {1, {1}}, 0},
    {{2, {3, 70}}, {2, {3, 1}}, 1},
    {{2, {1, 40000}}, {1, {40000}}, 0},
    {{2, {2, 40000}}, {2, {2, 1}}, 1},
    {{3, {2, 5, 33}}, {3, {2, 1, 33}}, 1},
    {{3, {2, 5, 33}}, {3, {2, 5, 1}}, 1},
    {{3, {2, 5, 33}}, {3, {1, 5, 1}}, 0},
    {{3, {4, 1, 9}}, {2, {1, 9}}, 0},
    {{4, {2, 6, 35, 18}}, {4, {2, 1, 35, 1}}, 1},
    {{4, {2, 6, 35, 18}}, {4, {2, 1, 1, 18}}, 1},
    {{4, {3, 4, 5, 6}}, {4, {3, 4, 1, 6}}, 1},
    {{4, {3, 4, 5, 6}}, {3, {4, 1, 6}}, 0},
    {{4, {3, 4, 5, 200}}, {3, {1, 1, 200}}, 0},
    {{4, {5, 1, 1, 1}}, {1, {1}}, 0},
    {{6, {2, 3, 2, 3, 2, 5}}, {6, {2, 1, 2, 1, 2, 1}}, 1},
    {{6, {2, 3, 2, 3, 2, 5}}, {5, {3, 1, 3, 1, 5}}, 0},
    {{3, {5, 300, 70}}, {1, {70}}, 0},
};
enum { N_PAIRS = sizeof pairs / sizeof pairs[0] };

static void test_broadcasting(void) {
    for (int i = 0; i < N_PAIRS; i++) {
        for (int how = 0; how <= ART_COMBINE_RDIV; how++) {
            scene s = NEW(COMBINE, combine);
            s.attr[ART_COMBINE_A_HOW].i = how;
            operand(&s, ART_COMBINE_A, 1, pairs[i].large, 0.5, 2);
            operand(&s, ART_COMBINE_OTHER, pairs[i].batched, pairs[i].small, 0.5, 2);
            operand(&s, ART_COMBINE_Y, 1, pairs[i].large, 0, 0);
            scene_verify(&s);
        }
        scene s = NEW(EXPAND, expand);
        s.attr[ART_EXPAND_A_SCALE].f = 0.3;
        operand(&s, ART_EXPAND_SMALL, pairs[i].batched, pairs[i].small, -1, 1);
        operand(&s, ART_EXPAND_Y, 1, pairs[i].large, 0, 0);
        scene_verify(&s);
        s = NEW(REDUCE, reduce);
        s.attr[ART_REDUCE_A_SCALE].f = -0.7;
        operand(&s, ART_REDUCE_X, 1, pairs[i].large, -1, 1);
        operand(&s, ART_REDUCE_TOTAL, pairs[i].batched, pairs[i].small, 0, 0);
        scene_verify(&s);
    }
}

static void test_functions(void) {
    static const int lengths[] = {1, 3, 15, 16, 17, 63, 64, 65, 130, 20000};
    for (int i = 0; i < 10; i++) {
        shape a = {2, {1, lengths[i]}};
        for (int halves = -64; halves <= 64; halves += i == 5 ? 1 : 9) {
            scene s = NEW(POWER, power);
            s.attr[ART_POWER_A_HALVES].i = halves;
            operand(&s, ART_POWER_X, 1, a, halves & 1 ? 0.4 : -2, halves & 1 ? 2 : -0.3);
            operand(&s, ART_POWER_Y, 1, a, 0, 0);
            scene_verify(&s);
        }
        for (int which = 0; which <= ART_FUNCTION_SIGN; which++) {
            scene s = NEW(FUNCTION, function);
            s.attr[ART_FUNCTION_A_WHICH].i = which;
            operand(&s, ART_FUNCTION_X, 1, a, which == ART_FUNCTION_LOG ? 0.001 : -9, 9);
            operand(&s, ART_FUNCTION_Y, 1, a, 0, 0);
            scene_verify(&s);
        }
        scene s = NEW(AFFINE, affine);
        s.attr[ART_AFFINE_A_SCALE].f = -1.3;
        s.attr[ART_AFFINE_A_SHIFT].f = 0.1 * i;
        operand(&s, ART_AFFINE_X, 1, a, -1, 1);
        operand(&s, ART_AFFINE_Y, 1, a, 0, 0);
        scene_verify(&s);
    }
}

/* Levels that fuse have other bits than those that do not; threads change none. */
static void verify_product(scene *s) {
    unsigned n;
    const art_level *levels = art_levels(&n);
    for (unsigned l = 0; l < n; l++) {
        void *base[SCENE_SLOTS] = {NULL};
        art_error err;
        variant plain = {&levels[l], 1, 0, -1, -1};
        if (levels[l].features & ~art_cpu_features()) {
            continue;
        }
        EXPECT_STATUS(scene_run(s, plain, base, &err), ART_OK, err, "");
        scene_compare(s, base);
        scene_same(s, (variant){&levels[l], 2, 2, -1, -1}, base);
        scene_same(s, (variant){&levels[l], 3, 0, -1, -1}, base);
        for (int i = 0; i < SCENE_SLOTS; i++) {
            free(base[i]);
        }
    }
    scene_free(s);
}

static void test_products(void) {
    static const struct {
        int batch, heads, rows, terms, columns;
    } cases[] = {
        {1, 1, 1, 1, 1},    {2, 3, 5, 7, 9},     {1, 1, 17, 256, 16},  {2, 1, 9, 257, 33},
        {1, 2, 64, 64, 64}, {3, 1, 130, 10, 49}, {1, 1, 300, 600, 50}, {4, 4, 6, 1, 3},
        {1, 1, 1, 513, 1},  {2, 2, 1, 40, 100},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int b = cases[i].batch, h = cases[i].heads, m = cases[i].rows, k = cases[i].terms;
        int p = cases[i].columns;
        for (int turned = 0; turned < 4; turned++) {
            bool x = turned & 1, z = turned & 2;
            scene s = NEW(MATMUL, matmul);
            s.attr[ART_MATMUL_A_X_TURNED].i = x;
            s.attr[ART_MATMUL_A_Z_TURNED].i = z;
            operand(&s, ART_MATMUL_X, 1, (shape){4, {b, h, x ? k : m, x ? m : k}}, -1, 1);
            operand(&s, ART_MATMUL_Z, 1, (shape){4, {b, h, z ? p : k, z ? k : p}}, -1, 1);
            operand(&s, ART_MATMUL_Y, 1, (shape){4, {b, h, m, p}}, 0, 0);
            verify_product(&s);
        }
    }
}

/* What would reach outside the operands is refused. */
static void refused(scene s, const char *text) {
    art_op_args args;
    art_error err = {0};
    EXPECT(scene_check(&s, 0, &args, &err) != ART_OK && strstr(err.text, text) != NULL);
    scene_free(&s);
}

static scene sum(shape x, shape total, int batched) {
    scene s = NEW(REDUCE, reduce);
    operand(&s, ART_REDUCE_X, 1, x, -1, 1);
    operand(&s, ART_REDUCE_TOTAL, batched, total, 0, 0);
    return s;
}

static scene product(shape x, shape z, shape y) {
    scene s = NEW(MATMUL, matmul);
    operand(&s, ART_MATMUL_X, 1, x, -1, 1);
    operand(&s, ART_MATMUL_Z, 1, z, -1, 1);
    operand(&s, ART_MATMUL_Y, 1, y, 0, 0);
    return s;
}

static void test_refusals(void) {
    refused(sum((shape){2, {3, 4}}, (shape){2, {3, 5}}, 1), "5 places");
    refused(sum((shape){2, {3, 4}}, (shape){2, {3, 4}}, 0), "3 places");
    refused(sum((shape){2, {3, 4}}, (shape){2, {1, 4}}, 1), "1 places");
    refused(sum((shape){2, {3, 4}}, (shape){3, {1, 1, 4}}, 0), "3 dimensions");
    refused(sum((shape){2, {3, 4}}, (shape){1, {4}}, 1), "1 places");
    refused(product((shape){3, {2, 3, 4}}, (shape){3, {2, 5, 6}}, (shape){3, {2, 3, 6}}),
            "matmul.z");
    refused(product((shape){3, {2, 3, 4}}, (shape){3, {2, 4, 6}}, (shape){3, {2, 4, 6}}),
            "matmul.x");
    refused(product((shape){2, {3, 4}}, (shape){2, {4, 6}}, (shape){2, {3, 6}}), "at least 3");
}

int main(void) {
    scene_open_pools();
    scene_print_levels();
    test_broadcasting();
    test_functions();
    test_products();
    test_refusals();
    scene_close_pools();
    printf("%u runs\n", scene_runs);
    return expect_done("arithmetic");
}
