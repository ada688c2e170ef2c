/* An update that makes its gradient block by block against the separate steps: the same bits on all
 * levels, for every block, thread count and batch inside a larger one. */
#include "op_scene.h"

#define F32 ART_DTYPE_F32

/* A linear layer where h is 0. */
typedef struct layer {
    int n, h, w, in, out, kh, kw, stride, pad, dil, groups;
} layer;

static const layer layers[] = {
    {3, 0, 0, 37, 53, 1, 1, 1, 0, 1, 1},  {300, 0, 0, 131, 50, 1, 1, 1, 0, 1, 1},
    {2, 6, 7, 24, 49, 3, 3, 1, 1, 1, 1},  {2, 9, 8, 30, 20, 3, 2, 2, 1, 2, 2},
    {1, 4, 5, 200, 12, 2, 2, 1, 0, 1, 4}, {5, 17, 19, 23, 5, 3, 3, 1, 1, 1, 1},
    {2, 3, 3, 22, 9, 3, 3, 1, 4, 1, 1},   {1, 6, 6, 3, 4, 3, 3, 1, 1, 2, 1},
};

typedef struct update {
    const char *name, *blocks_name;
    unsigned code, blocks;
    double attrs[6];
    int flag; /* attribute that is an integer 1, -1 for none */
} update;

static const update updates[] = {
    {"sgd_step",
     "blocks_sgd_step",
     ART_OP_SGD_STEP,
     ART_OP_BLOCKS_SGD_STEP,
     {0.1, 0.9, 0.2, 0.01},
     ART_SGD_STEP_A_NESTEROV},
    {"adam_step",
     "blocks_adam_step",
     ART_OP_ADAM_STEP,
     ART_OP_BLOCKS_ADAM_STEP,
     {0.1, 0.9, 0.99, 1e-8, 0.01},
     -1},
    {"adamw_step",
     "blocks_adamw_step",
     ART_OP_ADAMW_STEP,
     ART_OP_BLOCKS_ADAMW_STEP,
     {0.1, 0.9, 0.99, 1e-8, 0.01},
     -1},
    {"rmsprop_step",
     "blocks_rmsprop_step",
     ART_OP_RMSPROP_STEP,
     ART_OP_BLOCKS_RMSPROP_STEP,
     {0.1, 0.9, 1e-3, 0.01, 0.9},
     ART_RMSPROP_STEP_A_CENTERED},
    {"adagrad_step",
     "blocks_adagrad_step",
     ART_OP_ADAGRAD_STEP,
     ART_OP_BLOCKS_ADAGRAD_STEP,
     {0.1, 0.2, 0.01, 1e-3},
     -1},
};
enum { N_LAYERS = sizeof layers / sizeof *layers, N_UPDATES = sizeof updates / sizeof *updates };

static int out_size(int in, int k, const layer *l) {
    return (in + 2 * l->pad - l->dil * (k - 1) - 1) / l->stride + 1;
}

static void weight(scene *s, unsigned slot, const layer *l) {
    if (l->h == 0) {
        scene_operand(s, slot, F32, 0, 2, l->in, l->out);
    } else {
        scene_operand(s, slot, F32, 0, 5, l->groups, l->kh, l->kw, l->in / l->groups,
                      l->out / l->groups);
    }
    scene_floats(s, slot, 0.1, 1.0);
}

static void images(scene *s, unsigned x, unsigned dy, const layer *l) {
    if (l->h == 0) {
        scene_operand(s, x, F32, 1, 2, l->n, l->in);
        scene_operand(s, dy, F32, 1, 2, l->n, l->out);
    } else {
        scene_operand(s, x, F32, 1, 4, l->n, l->h, l->w, l->in);
        scene_operand(s, dy, F32, 1, 4, l->n, out_size(l->h, l->kh, l), out_size(l->w, l->kw, l),
                      l->out);
    }
    scene_fill(s->args.operand[x].data, scene_elements(s, x), -1.0, 1.0, 77);
    scene_fill(s->args.operand[dy].data, scene_elements(s, dy), -1.0, 1.0, 78);
}

static void conv_attrs(art_attr *attr, const layer *l) {
    const int values[9] = {l->stride, l->stride, l->pad, l->pad, l->dil, l->dil, l->groups};
    for (int i = 0; i < 9; i++) {
        attr[i].i = values[i];
    }
}

/* The update's own operands and attributes; every state is there. */
static void set_update(scene *s, const update *u, const layer *l) {
    const art_op *op = art_op_find(u->code);
    for (unsigned slot = 0; slot + 1u < op->n_operands; slot++) {
        if (slot != 1) {
            weight(s, slot, l);
        }
    }
    for (int i = 0; i < op->n_attrs; i++) {
        s->attr[i].f = u->attrs[i];
    }
    if (u->flag >= 0) {
        s->attr[u->flag].i = 1;
    }
    s->args.step = 3;
    s->args.learning_rate_scale = 0.5;
}

static scene blocks_scene(const update *u, const layer *l, int rows, double limit) {
    const unsigned x = art_op_find(u->code)->n_operands - 1u, first = art_op_find(u->code)->n_attrs;
    scene s = scene_new(u->blocks_name, u->blocks, NULL);
    set_update(&s, u, l);
    images(&s, x, x + 1, l);
    scene_operand(&s, 1, F32, 0, 2, rows, l->out / l->groups);
    s.attr[first].f = limit;
    conv_attrs(s.attr + first + 1, l);
    return s;
}

/* What the separate steps make of the scene: written operands of the update, by slot. */
static void separately(const update *u, const layer *l, double limit, variant v, void **results) {
    void *made[SCENE_SLOTS] = {NULL}, *clipped[SCENE_SLOTS] = {NULL};
    art_error err;
    scene product = l->h == 0 ? scene_new("linear_grad_w", ART_OP_LINEAR_GRAD_W, NULL)
                              : scene_new("conv2d_grad_w", ART_OP_CONV2D_GRAD_W, NULL);
    images(&product, ART_CONV2D_GRAD_W_X, ART_CONV2D_GRAD_W_DY, l);
    weight(&product, ART_CONV2D_GRAD_W_DW, l);
    conv_attrs(product.attr, l);
    EXPECT_STATUS(scene_run(&product, v, made, &err), ART_OK, err, "");
    scene clip = scene_new("clip_value", ART_OP_CLIP_VALUE, NULL);
    weight(&clip, 0, l);
    memcpy(clip.args.operand[0].data, made[ART_CONV2D_GRAD_W_DW], clip.args.operand[0].bytes);
    clip.attr[0].f = limit > 0.0 ? limit : 1e30;
    EXPECT_STATUS(scene_run(&clip, v, clipped, &err), ART_OK, err, "");
    scene step = scene_new(u->name, u->code, NULL);
    set_update(&step, u, l);
    weight(&step, 1, l);
    memcpy(step.args.operand[1].data, clipped[0], step.args.operand[1].bytes);
    EXPECT_STATUS(scene_run(&step, v, results, &err), ART_OK, err, "");
    results[1] = clipped[0];
    free(made[ART_CONV2D_GRAD_W_DW]);
    scene_free(&product);
    scene_free(&clip);
    scene_free(&step);
}

static void compare(const update *u, const layer *l, int rows, double limit, variant v) {
    void *want[SCENE_SLOTS] = {NULL}, *got[SCENE_SLOTS] = {NULL};
    art_error err;
    scene s = blocks_scene(u, l, rows, limit);
    const unsigned states = art_op_find(u->code)->n_operands - 1u;
    const size_t all = scene_elements(&s, 0) / s.args.operand[1].dims[1];
    const size_t first = (all - 1) / (size_t)rows * (size_t)rows,
                 columns = s.args.operand[1].dims[1];
    variant plain = {v.level, 1, 0, -1, -1};
    separately(u, l, limit, plain, want);
    EXPECT_STATUS(scene_run(&s, v, got, &err), ART_OK, err, "");
    for (unsigned slot = 0; slot < states; slot++) {
        bool g = slot == 1;
        const float *from = (const float *)want[slot] + (g ? first * columns : 0);
        size_t count = g ? (all - first) * columns : scene_elements(&s, slot);
        if (!same(got[slot], from, F32, count)) {
            printf("%s: layer %d, blocks of %d rows, limit %g, level %s, %u threads: slot %u has "
                   "other bits\n",
                   u->blocks_name, (int)(l - layers), rows, limit, v.level->name, v.threads, slot);
            expect_failures++;
        }
        free(got[slot]);
        free(want[slot]);
    }
    scene_free(&s);
}

static void test_bits(void) {
    unsigned n;
    const art_level *levels = art_levels(&n);
    for (unsigned i = 0; i < n * N_LAYERS * N_UPDATES; i++) {
        const art_level *level = &levels[i % n];
        const layer *l = &layers[i / n % N_LAYERS];
        const update *u = &updates[i / n / N_LAYERS];
        const int all = l->kh * l->kw * l->in;
        const int blocks[] = {1, 7, 16, 130, all};
        for (unsigned b = 0; b < 5 && !(level->features & ~art_cpu_features()); b++) {
            int rows = blocks[b] < all ? blocks[b] : all;
            variant v = {level, 1 + b % SCENE_THREADS, b % 2 ? 2 : 0, -1, -1};
            compare(u, l, rows, b % 2 ? 0.0 : 0.05, v);
        }
    }
}

static art_status checked(const scene *s, art_error *err) {
    art_op_args args;
    return scene_check(s, 0, &args, err);
}

static void refused(scene s, const char *text) {
    art_error err = {0};
    EXPECT(checked(&s, &err) != ART_OK);
    if (strstr(err.text, text) == NULL) {
        printf("'%s' does not say '%s'\n", err.text, text);
        expect_failures++;
    }
    scene_free(&s);
}

/* Blocks that are no rows of the weight, and weights whose rows are no sums of their own. */
static void test_refusals(void) {
    static const layer matrix = {3, 0, 0, 8, 5, 1, 1, 1, 0, 1, 1},
                       depthwise = {2, 5, 5, 6, 6, 3, 3, 1, 1, 1, 6},
                       merged = {2, 5, 5, 3, 6, 3, 3, 1, 1, 1, 1},
                       conv = {2, 5, 5, 24, 6, 3, 3, 1, 1, 1, 1};
    for (unsigned i = 0; i < N_UPDATES; i++) {
        const update *u = &updates[i];
        const unsigned x = art_op_find(u->code)->n_operands - 1u;
        const unsigned limit = art_op_find(u->code)->n_attrs;
        art_error err;
        scene good = blocks_scene(u, &matrix, 8, 0.0);
        EXPECT(checked(&good, &err) == ART_OK);
        scene_free(&good);
        refused(blocks_scene(u, &matrix, 9, 0.0), ".g has 9 rows, the weight has 8");
        refused(blocks_scene(u, &conv, 9 * 24 + 1, 0.0), ".g has 217 rows, the weight has 216");
        refused(blocks_scene(u, &depthwise, 1, 0.0), "is made as a whole");
        refused(blocks_scene(u, &merged, 9, 0.0), "is made as a whole");
        scene s = blocks_scene(u, &matrix, 8, 0.0);
        s.args.operand[1].dims[1]++;
        refused(s, ".g ");
        s = blocks_scene(u, &matrix, 8, 0.0);
        s.args.operand[1].batched = 1;
        refused(s, ".g is batched");
        s = blocks_scene(u, &matrix, 8, 0.0);
        s.args.operand[1].dtype = ART_DTYPE_I32;
        refused(s, ".g ");
        s = blocks_scene(u, &conv, 16, 0.0);
        s.attr[limit + 1].i = 0;
        refused(s, "stride_h");
        s = blocks_scene(u, &conv, 16, NAN);
        refused(s, "limit");
        s = blocks_scene(u, &conv, 16, 0.0);
        s.args.operand[2].dims[0]++;
        refused(s, u->name);
        for (unsigned slot = 0; slot < x + 2; slot++) {
            s = blocks_scene(u, &matrix, 8, 0.0);
            free(s.args.operand[slot].data);
            s.args.operand[slot] = (art_array){0};
            refused(s, "");
        }
    }
}

int main(void) {
    scene_open_pools();
    test_bits();
    test_refusals();
    scene_close_pools();
    printf("%u runs\n", scene_runs);
    return expect_done("blocks");
}
