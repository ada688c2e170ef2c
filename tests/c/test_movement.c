/* permute, slice and place on all levels, threads and shapes against their twins. */
#include "op_scene.h"

#define F32 ART_DTYPE_F32
#define NEW(NAME, name) scene_new(#name, ART_OP_##NAME, art_ref_##name)

/* Describe an operand of `ndim` dimensions. */
static void operand(scene *s, unsigned slot, int ndim, const int *d) {
    static const int none[ART_MAX_DIMS];
    int dims[ART_MAX_DIMS];
    memcpy(dims, none, sizeof dims);
    memcpy(dims, d, (size_t)ndim * sizeof *d);
    scene_operand(s, slot, F32, 1, ndim, dims[0], dims[1], dims[2], dims[3], dims[4], dims[5]);
    scene_floats(s, slot, -1, 1);
}

static void test_permute(void) {
    static const struct {
        int ndim, dims[6], perm[5];
    } cases[] = {
        {2, {3, 7}, {1}},
        {3, {2, 5, 33}, {2, 1}},
        {3, {1, 40, 1}, {2, 1}},
        {4, {2, 17, 3, 20}, {2, 1, 3}},
        {4, {2, 6, 35, 18}, {1, 3, 2}},
        {4, {3, 4, 5, 6}, {3, 1, 2}},
        {4, {3, 4, 5, 6}, {2, 3, 1}},
        {5, {2, 3, 4, 5, 6}, {4, 2, 1, 3}},
        {5, {1, 2, 1, 70, 3}, {2, 3, 1, 4}},
        {6, {2, 3, 2, 3, 2, 5}, {5, 4, 3, 2, 1}},
        {6, {2, 3, 2, 3, 2, 5}, {2, 1, 4, 3, 5}},
        {4, {4, 64, 48, 40}, {3, 2, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int n = cases[i].ndim, to[6] = {cases[i].dims[0]};
        scene s = NEW(PERMUTE, permute);
        for (int k = 1; k < n; k++) {
            s.attr[k - 1].i = cases[i].perm[k - 1];
            to[k] = cases[i].dims[cases[i].perm[k - 1]];
        }
        s.args.n_attrs = (unsigned)n - 1;
        operand(&s, ART_PERMUTE_X, n, cases[i].dims);
        operand(&s, ART_PERMUTE_Y, n, to);
        scene_verify(&s);
    }
}

static void test_parts_of(int ndim, const int *whole, int axis, int start, int length, int step) {
    int small[6];
    memcpy(small, whole, (size_t)ndim * sizeof *small);
    small[axis] = length;
    for (int way = 0; way < 4; way++) {
        scene s = way == 0 ? NEW(SLICE, slice) : NEW(PLACE, place);
        s.attr[ART_SLICE_A_AXIS].i = axis;
        s.attr[ART_SLICE_A_START].i = start;
        s.attr[ART_SLICE_A_STEP].i = step;
        if (way == 0) {
            operand(&s, ART_SLICE_X, ndim, whole);
            operand(&s, ART_SLICE_Y, ndim, small);
        } else {
            s.attr[ART_PLACE_A_ADD].i = way == 3;
            operand(&s, ART_PLACE_X, ndim, small);
            operand(&s, ART_PLACE_Y, ndim, whole);
            if (way > 1) {
                operand(&s, ART_PLACE_WHOLE, ndim, whole);
            }
        }
        scene_verify(&s);
    }
}

static void test_parts(void) {
    test_parts_of(2, (const int[]){3, 70}, 1, 0, 70, 1);
    test_parts_of(2, (const int[]){3, 70}, 1, 11, 33, 1);
    test_parts_of(2, (const int[]){5, 70}, 1, 1, 23, 3);
    test_parts_of(3, (const int[]){4, 9, 17}, 1, 8, 1, 1);
    test_parts_of(3, (const int[]){4, 9, 17}, 2, 3, 5, 2);
    test_parts_of(4, (const int[]){2, 3, 40, 200}, 2, 7, 30, 1);
    test_parts_of(4, (const int[]){2, 3, 40, 200}, 3, 0, 100, 2);
    test_parts_of(6, (const int[]){2, 2, 3, 4, 3, 5}, 3, 1, 2, 2);
}

/* What would reach outside the operands is refused. */
static void refused(scene s, const char *text) {
    art_op_args args;
    art_error err = {0};
    EXPECT(scene_check(&s, 0, &args, &err) != ART_OK && strstr(err.text, text) != NULL);
    scene_free(&s);
}

static scene slice(int axis, int start, int step, const int *to) {
    scene s = NEW(SLICE, slice);
    operand(&s, ART_SLICE_X, 3, (const int[]){2, 5, 7});
    operand(&s, ART_SLICE_Y, 3, to);
    s.attr[ART_SLICE_A_AXIS].i = axis;
    s.attr[ART_SLICE_A_START].i = start;
    s.attr[ART_SLICE_A_STEP].i = step;
    return s;
}

static scene permute(int first, int second, unsigned n, const int *to) {
    scene s = NEW(PERMUTE, permute);
    operand(&s, ART_PERMUTE_X, 3, (const int[]){2, 5, 7});
    operand(&s, ART_PERMUTE_Y, 3, to);
    s.attr[0].i = first;
    s.attr[1].i = second;
    s.args.n_attrs = n;
    return s;
}

static void test_refusals(void) {
    refused(slice(2, 5, 1, (const int[]){2, 5, 3}), "reaches place 7 of 7");
    refused(slice(2, 0, 4, (const int[]){2, 5, 3}), "reaches place 8 of 7");
    refused(slice(3, 0, 1, (const int[]){2, 5, 3}), "axis");
    refused(slice(1, 0, 1, (const int[]){2, 5, 3}), "dimension 2");
    refused(slice(0, 0, 1, (const int[]){1, 5, 7}), "axis");
    refused(permute(1, 1, 2, (const int[]){2, 5, 5}), "twice");
    refused(permute(1, 3, 2, (const int[]){2, 5, 7}), "perm");
    refused(permute(2, 1, 1, (const int[]){2, 7, 5}), "perm");
    refused(permute(2, 1, 2, (const int[]){2, 5, 7}), "dimension 1");
    scene s = NEW(PLACE, place);
    operand(&s, ART_PLACE_X, 2, (const int[]){2, 3});
    operand(&s, ART_PLACE_Y, 2, (const int[]){2, 5});
    s.attr[ART_PLACE_A_AXIS].i = s.attr[ART_PLACE_A_STEP].i = s.attr[ART_PLACE_A_ADD].i = 1;
    refused(s, "place.whole");
}

int main(void) {
    scene_open_pools();
    scene_print_levels();
    test_permute();
    test_parts();
    test_refusals();
    scene_close_pools();
    printf("%u runs\n", scene_runs);
    return expect_done("movement");
}
