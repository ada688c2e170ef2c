/* Pooling and batch norm, compared as in op_scene.h. */
#include "op_scene.h"

#define F32 ART_DTYPE_F32
#define NEW(NAME, name) scene_new(#name, ART_OP_##NAME, art_ref_##name)

typedef struct window {
    int n, h, w, c, kh, kw, sh, sw, ph, pw, dh, dw, ceil;
} window;

static const window windows[] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 0},
    {2, 4, 4, 3, 2, 2, 2, 2, 0, 0, 1, 1, 0},
    {2, 5, 7, 6, 2, 2, 2, 2, 0, 0, 1, 1, 0},
    {1, 6, 6, 16, 3, 3, 2, 2, 1, 1, 1, 1, 0},
    {3, 7, 5, 17, 3, 3, 1, 1, 1, 1, 1, 1, 0},
    {1, 9, 9, 5, 3, 2, 1, 3, 0, 1, 2, 3, 0},
    {2, 8, 8, 33, 2, 3, 4, 5, 1, 1, 1, 1, 0},
    {1, 12, 11, 65, 5, 4, 3, 2, 2, 2, 1, 1, 0},
    {1, 6, 6, 4, 6, 6, 1, 1, 0, 0, 1, 1, 0},
    {1, 16, 15, 2, 15, 15, 1, 1, 7, 7, 1, 1, 0},
    {1, 15, 16, 5, 15, 15, 1, 1, 7, 7, 1, 1, 0},
    {1, 1, 1, 3, 2, 2, 1, 1, 1, 1, 2, 2, 0},
    {1, 1, 1, 21, 2, 2, 1, 1, 1, 1, 2, 2, 0},
    {8, 24, 24, 12, 2, 2, 2, 2, 0, 0, 1, 1, 0},
    {4, 16, 16, 64, 3, 3, 2, 2, 1, 1, 1, 1, 0},
    {1, 10, 10, 7, 3, 3, 2, 2, 1, 1, 3, 2, 0},
    /* runs of windows cut before their end */
    {1, 2, 1100, 1, 2, 2, 1, 1, 0, 0, 1, 1, 0},
    {1, 3, 9, 600, 2, 3, 1, 1, 1, 1, 1, 1, 0},
    {1, 3, 4, 1030, 2, 2, 1, 1, 0, 0, 1, 1, 0},
    /* last windows that reach beyond the padding, more than one pixel of them and in one axis */
    {2, 5, 7, 6, 2, 2, 2, 2, 0, 0, 1, 1, 1},
    {1, 8, 6, 17, 3, 3, 2, 3, 1, 1, 1, 1, 1},
    {2, 7, 9, 3, 4, 5, 4, 5, 2, 1, 1, 1, 1},
    {1, 2, 3, 5, 3, 4, 3, 3, 0, 0, 1, 1, 1},
    {1, 9, 10, 4, 3, 2, 3, 2, 1, 0, 2, 3, 1},
};
enum { N_WINDOWS = sizeof windows / sizeof *windows };

/* What the last window reaches beyond the padding if it may. */
static int over(const window *w, int in, int k, int stride, int pad, int dil) {
    int left = (in + 2 * pad - dil * (k - 1) - 1 + stride) % stride;
    int start = (int)art_window_out(in, k, stride, pad, dil) * stride - pad;
    return w->ceil && left && start < in ? stride - left : 0;
}

static int out_h(const window *w, int dil) {
    int in = w->h + over(w, w->h, w->kh, w->sh, w->ph, dil);
    return (int)art_window_out(in, w->kh, w->sh, w->ph, dil);
}

static int out_w(const window *w, int dil) {
    int in = w->w + over(w, w->w, w->kw, w->sw, w->pw, dil);
    return (int)art_window_out(in, w->kw, w->sw, w->pw, dil);
}

/* Averages divide by the inner part (0), all places (1) or a number of their own. */
static void set_window(scene *s, const window *w, int is_max, int divisor) {
    const int attrs[] = {w->kh, w->kw, w->sh, w->sw, w->ph, w->pw};
    for (int i = 0; i < 6; i++) {
        s->attr[i].i = attrs[i];
    }
    s->attr[6].i = is_max ? w->dh : divisor == 1;
    s->attr[7].i = is_max ? w->dw : divisor > 1 ? divisor : 0;
    s->attr[8].i = over(w, w->h, w->kh, w->sh, w->ph, is_max ? w->dh : 1);
    s->attr[9].i = over(w, w->w, w->kw, w->sw, w->pw, is_max ? w->dw : 1);
}

/* Numbers whose bits a sum or a masked lane could lose: -0 and subnormal ones. */
static void mix_small(scene *s, unsigned slot) {
    float *x = s->args.operand[slot].data;
    for (size_t i = 0; i < scene_elements(s, slot); i++) {
        x[i] = i % 7 == 2 ? -0.0f : i % 23 == 4 ? copysignf(1e-40f, x[i]) : x[i];
    }
}

static void test_maxpool(const window *w) {
    int oh = out_h(w, w->dh), ow = out_w(w, w->dw);
    for (int with_idx = 0; with_idx < 2; with_idx++) {
        scene s = NEW(MAXPOOL2D_FWD, maxpool2d_fwd);
        scene_operand(&s, ART_MAXPOOL2D_FWD_X, F32, 1, 4, w->n, w->h, w->w, w->c);
        scene_operand(&s, ART_MAXPOOL2D_FWD_Y, F32, 1, 4, w->n, oh, ow, w->c);
        if (with_idx) {
            scene_operand(&s, ART_MAXPOOL2D_FWD_IDX, ART_DTYPE_U8, 1, 4, w->n, oh, ow, w->c);
        }
        scene_floats(&s, ART_MAXPOOL2D_FWD_X, -1, 1);
        float *x = s.args.operand[ART_MAXPOOL2D_FWD_X].data;
        for (size_t i = 0; i < scene_elements(&s, ART_MAXPOOL2D_FWD_X); i++) {
            x[i] = i % 41 == 5 ? NAN : i % 53 == 7 ? -INFINITY : roundf(x[i] * 4.0f); /* ties */
            x[i] = i % 43 == 6 ? -NAN : i % 47 > 44 ? copysignf(1e-40f, x[i]) : x[i];
        }
        set_window(&s, w, 1, 0);
        scene_verify(&s);
    }
    scene s = NEW(MAXPOOL2D_GRAD, maxpool2d_grad);
    scene_operand(&s, ART_MAXPOOL2D_GRAD_DY, F32, 1, 4, w->n, oh, ow, w->c);
    scene_floats(&s, ART_MAXPOOL2D_GRAD_DY, -1, 1);
    mix_small(&s, ART_MAXPOOL2D_GRAD_DY);
    uint8_t *idx =
        scene_operand(&s, ART_MAXPOOL2D_GRAD_IDX, ART_DTYPE_U8, 1, 4, w->n, oh, ow, w->c);
    for (size_t i = 0; i < scene_elements(&s, ART_MAXPOOL2D_GRAD_IDX); i++) {
        idx[i] = i % 19 == 3 ? ART_VEC_NO_PLACE : (uint8_t)(i * 31 % (size_t)(w->kh * w->kw));
    }
    scene_operand(&s, ART_MAXPOOL2D_GRAD_DX, F32, 1, 4, w->n, w->h, w->w, w->c);
    set_window(&s, w, 1, 0);
    scene_verify(&s);
}

static void test_avgpool(const window *w, int divisor) {
    int oh = out_h(w, 1), ow = out_w(w, 1);
    scene s = NEW(AVGPOOL2D_FWD, avgpool2d_fwd);
    scene_operand(&s, ART_AVGPOOL2D_FWD_X, F32, 1, 4, w->n, w->h, w->w, w->c);
    scene_operand(&s, ART_AVGPOOL2D_FWD_Y, F32, 1, 4, w->n, oh, ow, w->c);
    scene_floats(&s, ART_AVGPOOL2D_FWD_X, -1, 1);
    mix_small(&s, ART_AVGPOOL2D_FWD_X);
    set_window(&s, w, 0, divisor);
    scene_verify(&s);
    s = NEW(AVGPOOL2D_GRAD, avgpool2d_grad);
    scene_operand(&s, ART_AVGPOOL2D_GRAD_DY, F32, 1, 4, w->n, oh, ow, w->c);
    scene_operand(&s, ART_AVGPOOL2D_GRAD_DX, F32, 1, 4, w->n, w->h, w->w, w->c);
    scene_floats(&s, ART_AVGPOOL2D_GRAD_DY, -1, 1);
    mix_small(&s, ART_AVGPOOL2D_GRAD_DY);
    set_window(&s, w, 0, divisor);
    scene_verify(&s);
}

/* Optional operands present in a batch-norm scene. */
enum { AFFINE = 1, RUNNING = 2, DX = 4, DGAMMA = 8, DBETA = 16 };

static void channels(scene *s, unsigned slot, int c, double lo, double hi) {
    scene_operand(s, slot, F32, 0, 1, c);
    scene_floats(s, slot, lo, hi);
}

static void image(scene *s, unsigned slot, const int *d, double lo, double hi) {
    scene_operand(s, slot, F32, 1, 4, d[0], d[1], d[2], d[3]);
    scene_floats(s, slot, lo, hi);
}

static void test_batchnorm_fwd(const int *d, int parts, double lo, double hi) {
    scene s = NEW(BATCHNORM2D_FWD, batchnorm2d_fwd);
    image(&s, ART_BATCHNORM2D_FWD_X, d, lo, hi);
    image(&s, ART_BATCHNORM2D_FWD_Y, d, 0, 1);
    channels(&s, ART_BATCHNORM2D_FWD_SAVE_MEAN, d[3], 0, 1);
    channels(&s, ART_BATCHNORM2D_FWD_SAVE_INVSTD, d[3], 0, 1);
    if (parts & AFFINE) {
        channels(&s, ART_BATCHNORM2D_FWD_GAMMA, d[3], -2, 2);
        channels(&s, ART_BATCHNORM2D_FWD_BETA, d[3], -1, 1);
    }
    if (parts & RUNNING) {
        channels(&s, ART_BATCHNORM2D_FWD_MEAN, d[3], -1, 1);
        channels(&s, ART_BATCHNORM2D_FWD_VAR, d[3], 0.5, 2);
    }
    s.attr[ART_BATCHNORM2D_FWD_A_EPS].f = 1e-5;
    s.attr[ART_BATCHNORM2D_FWD_A_MOMENTUM].f = 0.1;
    scene_verify(&s);
}

static void test_batchnorm_eval(const int *d, int parts) {
    scene s = NEW(BATCHNORM2D_EVAL, batchnorm2d_eval);
    image(&s, ART_BATCHNORM2D_EVAL_X, d, -2, 3);
    image(&s, ART_BATCHNORM2D_EVAL_Y, d, 0, 1);
    channels(&s, ART_BATCHNORM2D_EVAL_MEAN, d[3], -1, 1);
    channels(&s, ART_BATCHNORM2D_EVAL_VAR, d[3], 0.01, 2);
    if (parts & AFFINE) {
        channels(&s, ART_BATCHNORM2D_EVAL_GAMMA, d[3], -2, 2);
        channels(&s, ART_BATCHNORM2D_EVAL_BETA, d[3], -1, 1);
    }
    s.attr[ART_BATCHNORM2D_EVAL_A_EPS].f = 1e-3;
    scene_verify(&s);
}

static void test_batchnorm_apply(const int *d, int parts, int rectifier) {
    scene s = NEW(BATCHNORM2D_APPLY, batchnorm2d_apply);
    image(&s, ART_BATCHNORM2D_APPLY_X, d, -2, 13);
    image(&s, ART_BATCHNORM2D_APPLY_Y, d, 0, 1);
    channels(&s, ART_BATCHNORM2D_APPLY_SAVE_MEAN, d[3], -1, 1);
    channels(&s, ART_BATCHNORM2D_APPLY_SAVE_INVSTD, d[3], 0.01, 2);
    if (parts & AFFINE) {
        channels(&s, ART_BATCHNORM2D_APPLY_GAMMA, d[3], -2, 2);
        channels(&s, ART_BATCHNORM2D_APPLY_BETA, d[3], -1, 1);
    }
    s.attr[ART_BATCHNORM2D_APPLY_A_RECTIFIER].i = rectifier;
    scene_verify(&s);
}

static void test_batchnorm_grad(const int *d, int parts) {
    scene s = NEW(BATCHNORM2D_GRAD, batchnorm2d_grad);
    image(&s, ART_BATCHNORM2D_GRAD_X, d, -2, 3);
    image(&s, ART_BATCHNORM2D_GRAD_DY, d, -1, 1);
    channels(&s, ART_BATCHNORM2D_GRAD_SAVE_MEAN, d[3], 0.4, 0.6);
    channels(&s, ART_BATCHNORM2D_GRAD_SAVE_INVSTD, d[3], 0.5, 1);
    if (parts & AFFINE) {
        channels(&s, ART_BATCHNORM2D_GRAD_GAMMA, d[3], -2, 2);
    }
    if (parts & DX) {
        image(&s, ART_BATCHNORM2D_GRAD_DX, d, 0, 1);
    }
    if (parts & DGAMMA) {
        channels(&s, ART_BATCHNORM2D_GRAD_DGAMMA, d[3], 0, 1);
    }
    if (parts & DBETA) {
        channels(&s, ART_BATCHNORM2D_GRAD_DBETA, d[3], 0, 1);
    }
    scene_verify(&s);
}

static void test_batchnorm_eval_grad(const int *d, int parts) {
    scene s = NEW(BATCHNORM2D_EVAL_GRAD, batchnorm2d_eval_grad);
    image(&s, ART_BATCHNORM2D_EVAL_GRAD_DY, d, -1, 1);
    channels(&s, ART_BATCHNORM2D_EVAL_GRAD_MEAN, d[3], 0.4, 0.6);
    channels(&s, ART_BATCHNORM2D_EVAL_GRAD_VAR, d[3], 0.5, 1);
    s.attr[ART_BATCHNORM2D_EVAL_GRAD_A_EPS].f = 1e-5;
    if (parts & AFFINE) {
        channels(&s, ART_BATCHNORM2D_EVAL_GRAD_GAMMA, d[3], -2, 2);
    }
    if (parts & DX) {
        image(&s, ART_BATCHNORM2D_EVAL_GRAD_DX, d, 0, 1);
    }
    if (parts & DGAMMA) {
        image(&s, ART_BATCHNORM2D_EVAL_GRAD_X, d, -2, 3);
        channels(&s, ART_BATCHNORM2D_EVAL_GRAD_DGAMMA, d[3], 0, 1);
    }
    if (parts & DBETA) {
        channels(&s, ART_BATCHNORM2D_EVAL_GRAD_DBETA, d[3], 0, 1);
    }
    scene_verify(&s);
}

static void test_bits(const int *d) {
    int bytes = (d[1] * d[2] * d[3] + 7) / 8;
    for (int rectifier = 1; rectifier < 3; rectifier++) {
        scene s = NEW(RECTIFIER_BITS, rectifier_bits);
        image(&s, ART_RECTIFIER_BITS_Y, d, -2, 8);
        float *y = s.args.operand[ART_RECTIFIER_BITS_Y].data;
        y[0] = NAN, y[1] = 0.0f;
        scene_operand(&s, ART_RECTIFIER_BITS_BITS, ART_DTYPE_U8, 1, 2, d[0], bytes);
        s.attr[ART_RECTIFIER_BITS_A_RECTIFIER].i = rectifier;
        scene_verify(&s);
    }
    scene s = NEW(RECTIFIER_BITS_GRAD, rectifier_bits_grad);
    uint8_t *bits =
        scene_operand(&s, ART_RECTIFIER_BITS_GRAD_BITS, ART_DTYPE_U8, 1, 2, d[0], bytes);
    for (size_t i = 0; i < scene_elements(&s, ART_RECTIFIER_BITS_GRAD_BITS); i++) {
        bits[i] = (uint8_t)(i * 167 % 251);
    }
    image(&s, ART_RECTIFIER_BITS_GRAD_DY, d, -1, 1);
    image(&s, ART_RECTIFIER_BITS_GRAD_DX, d, 0, 1);
    scene_verify(&s);
}

static void test_batchnorm(const int *d) {
    test_batchnorm_fwd(d, AFFINE | RUNNING, -2, 3);
    test_batchnorm_fwd(d, AFFINE, 99.9, 100.1);
    test_batchnorm_fwd(d, RUNNING, 2, 2); /* no variance at all */
    test_batchnorm_eval(d, AFFINE);
    test_batchnorm_eval(d, 0);
    for (int rectifier = 0; rectifier < 3; rectifier++) {
        test_batchnorm_apply(d, AFFINE, rectifier);
        test_batchnorm_apply(d, 0, rectifier);
    }
    test_batchnorm_grad(d, AFFINE | DX | DGAMMA | DBETA);
    test_batchnorm_grad(d, DX);
    test_batchnorm_grad(d, AFFINE | DGAMMA);
    test_batchnorm_eval_grad(d, AFFINE | DX | DGAMMA | DBETA);
    test_batchnorm_eval_grad(d, DX);
    test_batchnorm_eval_grad(d, DX | DBETA);
}

int main(void) {
    static const int shapes[][4] = {{2, 1, 1, 300},  {3, 9, 7, 130},  {4, 4, 4, 257},
                                    {1, 33, 2, 64},  {5, 13, 1, 512}, {16, 24, 24, 12},
                                    {8, 32, 32, 65}, {1, 1, 2, 1025}};
    scene_open_pools();
    scene_print_levels();
    for (int i = 0; i < N_WINDOWS; i++) {
        test_maxpool(&windows[i]);
        if (windows[i].ceil || windows[i].h * windows[i].w >= windows[i].kh * windows[i].kw) {
            test_avgpool(&windows[i], 0);
            test_avgpool(&windows[i], 1);
            test_avgpool(&windows[i], 7);
        }
    }
    for (int c = 1; c <= 37; c++) { /* registers of every width, whole and overlapping */
        window w = {2, 5, 6, c, 3, 3, 2, 1, 1, 1, 1, 1, c % 3 == 0};
        test_maxpool(&w);
        test_avgpool(&w, c % 2);
    }
    for (int c = 1; c <= 65; c++) {
        test_batchnorm((const int[4]){2, 5, 1 + c % 7, c});
        test_bits((const int[4]){3, 1, 1 + c % 3, c + 1});
    }
    for (int i = 0; i < 8; i++) {
        test_batchnorm(shapes[i]);
        test_bits(shapes[i]);
    }
    scene_close_pools();
    printf("%u runs\n", scene_runs);
    return expect_done("image_ops");
}
