/* Operations to be counted: `count_kernels` lists level, name and floating-point operations of each
 * case that this processor can run, `count_kernels LEVEL NAME TIMES` runs one so many times.
 *
 * Operations are nominal: two per multiply-add, one per comparison, addition or function. */
#include "op_scene.h"

#define F32 ART_DTYPE_F32
#define NEW(NAME) scene_new(#NAME, ART_OP_##NAME, NULL)

enum { BATCH = 4, SIDE = 16, CHANNELS = 32, ROWS = 32, IN = 128, OUT = 96, LONG = 16384 };

static void image(scene *s, unsigned slot, int side, int channels) {
    scene_operand(s, slot, F32, 1, 4, BATCH, side, side, channels);
    scene_floats(s, slot, -1, 1);
}

static void floats(scene *s, unsigned slot, int batched, int rows, int columns) {
    scene_operand(s, slot, F32, batched, columns ? 2 : 1, rows, columns);
    scene_floats(s, slot, 0.1, 1);
}

static scene linear_fwd(void) {
    scene s = NEW(LINEAR_FWD);
    floats(&s, ART_LINEAR_FWD_X, 1, ROWS, IN);
    floats(&s, ART_LINEAR_FWD_W, 0, IN, OUT);
    floats(&s, ART_LINEAR_FWD_B, 0, OUT, 0);
    floats(&s, ART_LINEAR_FWD_Y, 1, ROWS, OUT);
    return s;
}

static scene linear_grad_x(void) {
    scene s = NEW(LINEAR_GRAD_X);
    floats(&s, ART_LINEAR_GRAD_X_DY, 1, ROWS, OUT);
    floats(&s, ART_LINEAR_GRAD_X_W, 0, IN, OUT);
    floats(&s, ART_LINEAR_GRAD_X_DX, 1, ROWS, IN);
    return s;
}

static scene linear_grad_w(void) {
    scene s = NEW(LINEAR_GRAD_W);
    floats(&s, ART_LINEAR_GRAD_W_X, 1, ROWS, IN);
    floats(&s, ART_LINEAR_GRAD_W_DY, 1, ROWS, OUT);
    floats(&s, ART_LINEAR_GRAD_W_DW, 0, IN, OUT);
    return s;
}

/* A 3x3 convolution of CHANNELS to CHANNELS, or one channel per group. */
static void convolution(scene *s, unsigned x, unsigned w, unsigned y, int groups) {
    const int64_t attrs[] = {1, 1, 1, 1, 1, 1, groups};
    image(s, x, SIDE, CHANNELS);
    image(s, y, SIDE, CHANNELS);
    scene_operand(s, w, F32, 0, 5, groups, 3, 3, CHANNELS / groups, CHANNELS / groups);
    scene_floats(s, w, -1, 1);
    for (int i = 0; i < 7; i++) {
        s->attr[i].i = attrs[i];
    }
}

#define CONVOLUTION(prefix, groups)                                                                \
    static scene prefix##_fwd(void) {                                                              \
        scene s = NEW(CONV2D_FWD);                                                                 \
        convolution(&s, ART_CONV2D_FWD_X, ART_CONV2D_FWD_W, ART_CONV2D_FWD_Y, groups);             \
        return s;                                                                                  \
    }                                                                                              \
    static scene prefix##_grad_x(void) {                                                           \
        scene s = NEW(CONV2D_GRAD_X);                                                              \
        convolution(&s, ART_CONV2D_GRAD_X_DX, ART_CONV2D_GRAD_X_W, ART_CONV2D_GRAD_X_DY, groups);  \
        return s;                                                                                  \
    }                                                                                              \
    static scene prefix##_grad_w(void) {                                                           \
        scene s = NEW(CONV2D_GRAD_W);                                                              \
        convolution(&s, ART_CONV2D_GRAD_W_X, ART_CONV2D_GRAD_W_DW, ART_CONV2D_GRAD_W_DY, groups);  \
        return s;                                                                                  \
    }
CONVOLUTION(conv, 1)
CONVOLUTION(depthwise, CHANNELS)

static scene relu(void) {
    scene s = NEW(RELU_FWD);
    floats(&s, ART_RELU_FWD_X, 1, LONG, 0);
    floats(&s, ART_RELU_FWD_Y, 1, LONG, 0);
    return s;
}

static scene tanh_of(void) {
    scene s = NEW(TANH_FWD);
    floats(&s, ART_TANH_FWD_X, 1, LONG, 0);
    floats(&s, ART_TANH_FWD_Y, 1, LONG, 0);
    return s;
}

static scene add(void) {
    scene s = NEW(ADD);
    floats(&s, ART_ADD_A, 1, LONG, 0);
    floats(&s, ART_ADD_B, 1, LONG, 0);
    floats(&s, ART_ADD_Y, 1, LONG, 0);
    return s;
}

static scene sgd(void) {
    scene s = NEW(SGD_STEP);
    for (unsigned slot = 0; slot < 3; slot++) {
        floats(&s, slot, 0, LONG, 0);
    }
    s.attr[ART_SGD_STEP_A_LR].f = 1e-3;
    s.attr[ART_SGD_STEP_A_MOMENTUM].f = 0.9;
    s.args.step = 1;
    return s;
}

static scene adam(void) {
    scene s = NEW(ADAM_STEP);
    for (unsigned slot = 0; slot < 4; slot++) {
        floats(&s, slot, 0, LONG, 0);
    }
    s.attr[ART_ADAM_STEP_A_LR].f = 1e-3;
    s.attr[ART_ADAM_STEP_A_BETA1].f = 0.9;
    s.attr[ART_ADAM_STEP_A_BETA2].f = 0.999;
    s.attr[ART_ADAM_STEP_A_EPS].f = 1e-8;
    return s;
}

static scene batchnorm_fwd(void) {
    scene s = NEW(BATCHNORM2D_FWD);
    for (unsigned slot = ART_BATCHNORM2D_FWD_GAMMA; slot <= ART_BATCHNORM2D_FWD_SAVE_INVSTD;
         slot++) {
        floats(&s, slot, 0, CHANNELS, 0);
    }
    free(s.args.operand[ART_BATCHNORM2D_FWD_Y].data);
    image(&s, ART_BATCHNORM2D_FWD_X, SIDE, CHANNELS);
    image(&s, ART_BATCHNORM2D_FWD_Y, SIDE, CHANNELS);
    s.attr[ART_BATCHNORM2D_FWD_A_EPS].f = 1e-5;
    s.attr[ART_BATCHNORM2D_FWD_A_MOMENTUM].f = 0.1;
    return s;
}

static scene batchnorm_grad(void) {
    scene s = NEW(BATCHNORM2D_GRAD);
    for (unsigned slot = ART_BATCHNORM2D_GRAD_X; slot < ART_BATCHNORM2D_GRAD_WS; slot++) {
        if (slot == ART_BATCHNORM2D_GRAD_X || slot == ART_BATCHNORM2D_GRAD_DY ||
            slot == ART_BATCHNORM2D_GRAD_DX) {
            image(&s, slot, SIDE, CHANNELS);
        } else {
            floats(&s, slot, 0, CHANNELS, 0);
        }
    }
    return s;
}

/* 2x2 windows without overlap. */
static void window(scene *s, unsigned x, unsigned y, int channels, int is_max) {
    image(s, x, SIDE, channels);
    image(s, y, SIDE / 2, channels);
    for (int i = 0; i < 4; i++) {
        s->attr[i].i = 2;
    }
    s->attr[ART_MAXPOOL2D_FWD_A_DIL_H].i = s->attr[ART_MAXPOOL2D_FWD_A_DIL_W].i = is_max;
}

#define POOLING(suffix, channels)                                                                  \
    static scene maxpool_##suffix(void) {                                                          \
        scene s = NEW(MAXPOOL2D_FWD);                                                              \
        window(&s, ART_MAXPOOL2D_FWD_X, ART_MAXPOOL2D_FWD_Y, channels, 1);                         \
        scene_operand(&s, ART_MAXPOOL2D_FWD_IDX, ART_DTYPE_U8, 1, 4, BATCH, SIDE / 2, SIDE / 2,    \
                      channels);                                                                   \
        return s;                                                                                  \
    }                                                                                              \
    static scene maxpool_grad_##suffix(void) {                                                     \
        scene s = NEW(MAXPOOL2D_GRAD);                                                             \
        window(&s, ART_MAXPOOL2D_GRAD_DX, ART_MAXPOOL2D_GRAD_DY, channels, 1);                     \
        scene_operand(&s, ART_MAXPOOL2D_GRAD_IDX, ART_DTYPE_U8, 1, 4, BATCH, SIDE / 2, SIDE / 2,   \
                      channels);                                                                   \
        return s;                                                                                  \
    }                                                                                              \
    static scene avgpool_##suffix(void) {                                                          \
        scene s = NEW(AVGPOOL2D_FWD);                                                              \
        window(&s, ART_AVGPOOL2D_FWD_X, ART_AVGPOOL2D_FWD_Y, channels, 0);                         \
        return s;                                                                                  \
    }                                                                                              \
    static scene avgpool_grad_##suffix(void) {                                                     \
        scene s = NEW(AVGPOOL2D_GRAD);                                                             \
        window(&s, ART_AVGPOOL2D_GRAD_DX, ART_AVGPOOL2D_GRAD_DY, channels, 0);                     \
        return s;                                                                                  \
    }
POOLING(wide, CHANNELS)
POOLING(narrow, 6)

static scene softmax(void) {
    scene s = NEW(CROSS_ENTROPY_GRAD);
    floats(&s, ART_CROSS_ENTROPY_GRAD_LOGITS, 1, ROWS, 10);
    scene_operand(&s, ART_CROSS_ENTROPY_GRAD_TARGET, ART_DTYPE_I32, 1, 1, ROWS);
    scene_operand(&s, ART_CROSS_ENTROPY_GRAD_LOSS, ART_DTYPE_F64, 0, 1, 1);
    floats(&s, ART_CROSS_ENTROPY_GRAD_DLOGITS, 1, ROWS, 10);
    return s;
}

#define GEMM_WORK (2.0 * ROWS * IN * OUT)
#define CONV_WORK (2.0 * BATCH * SIDE * SIDE * 9 * CHANNELS)
#define IMAGE_WORK(channels) (1.0 * BATCH * SIDE * SIDE * (channels))

static const struct {
    const char *name;
    scene (*make)(void);
    double work;
} cases[] = {
    {"gemm", linear_fwd, GEMM_WORK},
    {"gemm_grad_x", linear_grad_x, GEMM_WORK},
    {"gemm_grad_w", linear_grad_w, GEMM_WORK},
    {"conv", conv_fwd, CONV_WORK *CHANNELS},
    {"conv_grad_x", conv_grad_x, CONV_WORK *CHANNELS},
    {"conv_grad_w", conv_grad_w, CONV_WORK *CHANNELS},
    {"depthwise", depthwise_fwd, CONV_WORK},
    {"depthwise_grad_x", depthwise_grad_x, CONV_WORK},
    {"depthwise_grad_w", depthwise_grad_w, CONV_WORK},
    {"relu", relu, LONG},
    {"tanh", tanh_of, LONG},
    {"add", add, LONG},
    {"sgd_momentum", sgd, 4.0 * LONG},
    {"adam", adam, 12.0 * LONG},
    {"batchnorm", batchnorm_fwd, 8.0 * IMAGE_WORK(CHANNELS)},
    {"batchnorm_grad", batchnorm_grad, 9.0 * IMAGE_WORK(CHANNELS)},
    {"maxpool", maxpool_wide, IMAGE_WORK(CHANNELS)},
    {"maxpool_grad", maxpool_grad_wide, IMAGE_WORK(CHANNELS)},
    {"avgpool", avgpool_wide, IMAGE_WORK(CHANNELS)},
    {"avgpool_grad", avgpool_grad_wide, IMAGE_WORK(CHANNELS)},
    {"maxpool_6_channels", maxpool_narrow, IMAGE_WORK(6)},
    {"maxpool_grad_6_channels", maxpool_grad_narrow, IMAGE_WORK(6)},
    {"avgpool_6_channels", avgpool_narrow, IMAGE_WORK(6)},
    {"avgpool_grad_6_channels", avgpool_grad_narrow, IMAGE_WORK(6)},
    {"softmax", softmax, 5.0 * ROWS * 10},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static int list(void) {
    unsigned n;
    const art_level *levels = art_levels(&n);
    for (unsigned l = 0; l < n; l++) {
        for (int i = 0; i < N_CASES && !(levels[l].features & ~art_cpu_features()); i++) {
            printf("%s %s %.0f\n", levels[l].name, cases[i].name, cases[i].work);
        }
    }
    return 0;
}

static int run(const art_level *level, scene s, unsigned times) {
    art_error err;
    art_op_args args;
    if (scene_check(&s, 0, &args, &err) != ART_OK) {
        fprintf(stderr, "%s: %s\n", s.name, err.text);
        return 1;
    }
    for (int i = 0; i < s.op->n_operands; i++) {
        args.operand[i].data =
            i == s.ws ? calloc(1, (size_t)args.operand[i].bytes) : s.args.operand[i].data;
    }
    args.level = level;
    args.pool = scene_pools[0];
    for (unsigned i = 0; i < times; i++) {
        if (s.op->run(&args, &err) != ART_OK) {
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        return list();
    }
    const art_level *level = art_level_select(argv[1]);
    scene_open_pools();
    for (int i = 0; level && i < N_CASES; i++) {
        if (strcmp(cases[i].name, argv[2]) == 0) {
            int status = run(level, cases[i].make(), (unsigned)atoi(argv[3]));
            scene_close_pools();
            return status;
        }
    }
    fprintf(stderr, "no case %s on level %s here\n", argv[2], argv[1]);
    return 2;
}
