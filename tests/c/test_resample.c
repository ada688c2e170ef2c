/* Images of other sizes, compared as in op_scene.h. */
#include "op_scene.h"

#define F32 ART_DTYPE_F32

typedef struct sizes {
    int n, h, w, c, oh, ow;
} sizes;

static const sizes all[] = {
    {1, 1, 1, 1, 1, 1},   {2, 5, 7, 3, 3, 2},    {1, 6, 6, 17, 4, 5},   {2, 4, 5, 6, 8, 10},
    {1, 3, 4, 33, 7, 9},  {1, 7, 1, 5, 3, 4},    {3, 2, 9, 4, 11, 9},   {1, 1, 6, 2, 5, 1},
    {1, 13, 9, 1, 5, 31}, {4, 16, 16, 64, 7, 7}, {1, 2, 3, 65, 20, 30},
};
enum { N_SIZES = sizeof all / sizeof *all };

/* Forward (x, y) or gradient (dy, dx) of an operation; both have two operands. */
static void test(const char *name, unsigned code, art_ref_fn ref, const sizes *s, int gradient,
                 int n_attrs, const art_attr *attrs) {
    scene made = scene_new(name, code, ref);
    for (int i = 0; i < n_attrs; i++) {
        made.attr[i] = attrs[i];
    }
    for (unsigned slot = 0; slot < 2; slot++) {
        if (slot == (unsigned)gradient) {
            scene_operand(&made, slot, F32, 1, 4, s->n, s->h, s->w, s->c);
        } else {
            scene_operand(&made, slot, F32, 1, 4, s->n, s->oh, s->ow, s->c);
        }
    }
    scene_floats(&made, 0, -1, 1);
    scene_verify(&made);
}

#define BOTH(NAME, name, s, n, attrs)                                                              \
    test(#name "_fwd", ART_OP_##NAME##_FWD, art_ref_##name##_fwd, s, 0, n, attrs);                 \
    test(#name "_grad", ART_OP_##NAME##_GRAD, art_ref_##name##_grad, s, 1, n, attrs)

static void test_sizes(const sizes *s) {
    art_attr attrs[3] = {{.f = 0.0}, {.f = 0.0}, {.i = 0}};
    BOTH(ADAPTIVE_AVGPOOL2D, adaptive_avgpool2d, s, 0, attrs);
    BOTH(UPSAMPLE_NEAREST2D, upsample_nearest2d, s, 2, attrs);
    BOTH(UPSAMPLE_BILINEAR2D, upsample_bilinear2d, s, 3, attrs);
    attrs[2].i = 1;
    BOTH(UPSAMPLE_BILINEAR2D, upsample_bilinear2d, s, 3, attrs);
}

/* Sides that follow from a scale that is not their quotient. */
static void test_scale(double h, double w) {
    const sizes s = {2, 5, 4, 7, (int)floor(5 * h), (int)floor(4 * w)};
    const art_attr attrs[3] = {{.f = h}, {.f = w}, {.i = 0}};
    BOTH(UPSAMPLE_NEAREST2D, upsample_nearest2d, &s, 2, attrs);
    BOTH(UPSAMPLE_BILINEAR2D, upsample_bilinear2d, &s, 3, attrs);
}

/* A side that is not the scale times the input's. */
static void test_refusals(void) {
    scene s = scene_new("upsample_nearest2d_fwd", ART_OP_UPSAMPLE_NEAREST2D_FWD, NULL);
    art_op_args args;
    art_error err;
    scene_operand(&s, ART_UPSAMPLE_NEAREST2D_FWD_X, F32, 1, 4, 2, 5, 4, 3);
    scene_operand(&s, ART_UPSAMPLE_NEAREST2D_FWD_Y, F32, 1, 4, 2, 8, 6, 3);
    s.attr[0].f = s.attr[1].f = 1.5;
    EXPECT_STATUS(scene_check(&s, 0, &args, &err), ART_SHAPE, err,
                  "upsample_nearest2d_fwd.y has 8 pixels along axis 1, 5 of "
                  "upsample_nearest2d_fwd.x times 1.5 are 7");
    s.attr[0].f = 1.6;
    EXPECT_STATUS(scene_check(&s, 0, &args, &err), ART_OK, err, "");
    s.args.operand[ART_UPSAMPLE_NEAREST2D_FWD_Y].dims[3] = 2;
    EXPECT_STATUS(scene_check(&s, 0, &args, &err), ART_SHAPE, err, "upsample_nearest2d_fwd.y");
    scene_free(&s);
}

int main(void) {
    scene_open_pools();
    scene_print_levels();
    for (int i = 0; i < N_SIZES; i++) {
        test_sizes(&all[i]);
    }
    test_scale(1.5, 2.6);
    test_scale(0.7, 3.0);
    test_refusals();
    scene_close_pools();
    printf("%u runs\n", scene_runs);
    return expect_done("resample");
}
