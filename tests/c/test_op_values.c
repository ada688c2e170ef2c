/* Operations on inputs with known answers, and every refusal with its message. */
#include "op_scene.h"

#define F32 ART_DTYPE_F32
#define NEAR(got, want, tol) EXPECT(fabs((double)(got) - (want)) <= (tol))

static const art_level *level(void) {
    unsigned n;
    return &art_levels(&n)[0];
}

static art_status run(scene *s, void **results, art_error *err) {
    return scene_run(s, (variant){level(), 1, 0, -1, -1}, results, err);
}

/* ---- losses ---- */

static scene cross_entropy(int rows, int classes, const float *logits, const int32_t *labels) {
    scene s = scene_new("cross_entropy_grad", ART_OP_CROSS_ENTROPY_GRAD, NULL);
    memcpy(scene_operand(&s, ART_CROSS_ENTROPY_GRAD_LOGITS, F32, 1, 2, rows, classes), logits,
           sizeof(float) * (size_t)(rows * classes));
    memcpy(scene_operand(&s, ART_CROSS_ENTROPY_GRAD_TARGET, ART_DTYPE_I32, 1, 1, rows), labels,
           sizeof(int32_t) * (size_t)rows);
    scene_operand(&s, ART_CROSS_ENTROPY_GRAD_LOSS, ART_DTYPE_F64, 0, 1, 1);
    scene_operand(&s, ART_CROSS_ENTROPY_GRAD_DLOGITS, F32, 1, 2, rows, classes);
    return s;
}

static double loss_of(int classes, const float *logits, int32_t label) {
    void *results[SCENE_SLOTS] = {NULL};
    art_error err;
    scene s = cross_entropy(1, classes, logits, &label);
    EXPECT_STATUS(run(&s, results, &err), ART_OK, err, "");
    double loss = *(double *)results[ART_CROSS_ENTROPY_GRAD_LOSS];
    const float *d = results[ART_CROSS_ENTROPY_GRAD_DLOGITS];
    for (int c = 0; c < classes; c++) {
        EXPECT(isfinite(d[c]) || isnan(loss));
    }
    free(results[ART_CROSS_ENTROPY_GRAD_LOSS]);
    free(results[ART_CROSS_ENTROPY_GRAD_DLOGITS]);
    scene_free(&s);
    return loss;
}

static void test_cross_entropy(void) {
    const float far[5] = {-249.87f, -424.13f, -460.29f, 378.10f, -292.61f};
    EXPECT(loss_of(5, far, 3) == 0.0);
    NEAR(loss_of(5, far, 0), 627.97, 1e-4);
    NEAR(loss_of(2, (const float[]){1e8f, 1e8f}, 0), 0.693147, 1e-6);
    NEAR(loss_of(2, (const float[]){1e8f, -1e8f}, 1), 2e8, 1e-6);
    NEAR(loss_of(3, (const float[]){-INFINITY, 0, 0}, 1), 0.693147, 1e-6);
    EXPECT(isnan(loss_of(2, (const float[]){NAN, 1}, 1)));
    EXPECT(isnan(loss_of(2, (const float[]){INFINITY, 1}, 1)));
}

static void test_labels(void) {
    const float logits[6] = {0, 1, 2, 3, 4, 5};
    art_error err;
    scene s = cross_entropy(2, 3, logits, (const int32_t[]){2, 3});
    EXPECT_STATUS(run(&s, NULL, &err), ART_LABEL, err,
                  "label 3 of sample 1 in this batch is out of range");
    EXPECT(strstr(err.text, "3 classes, labels must be 0 to 2") != NULL);
    scene_free(&s);
    s = cross_entropy(2, 3, logits, (const int32_t[]){-1, 0});
    EXPECT_STATUS(run(&s, NULL, &err), ART_LABEL, err, "label -1 of sample 0");
    scene_free(&s);
    s = cross_entropy(2, 3, logits, (const int32_t[]){ART_NO_LABEL, 0});
    EXPECT_STATUS(run(&s, NULL, &err), ART_OK, err, "");
    scene_free(&s);
}

/* Equal maxima count for the first of them; a row with NaN is never right. */
static void test_correct(void) {
    const float logits[12] = {1, 1, 0, 1, 1, 0, 0, NAN, 0, -1, -1, -1};
    const int32_t labels[4] = {0, 1, 0, 0};
    void *results[SCENE_SLOTS] = {NULL};
    art_error err;
    scene s = scene_new("cross_entropy_eval", ART_OP_CROSS_ENTROPY_EVAL, NULL);
    memcpy(scene_operand(&s, ART_CROSS_ENTROPY_EVAL_LOGITS, F32, 1, 2, 4, 3), logits,
           sizeof logits);
    memcpy(scene_operand(&s, ART_CROSS_ENTROPY_EVAL_TARGET, ART_DTYPE_I32, 1, 1, 4), labels,
           sizeof labels);
    scene_operand(&s, ART_CROSS_ENTROPY_EVAL_LOSS, ART_DTYPE_F64, 0, 1, 1);
    scene_operand(&s, ART_CROSS_ENTROPY_EVAL_CORRECT, ART_DTYPE_I64, 0, 1, 1);
    EXPECT_STATUS(run(&s, results, &err), ART_OK, err, "");
    EXPECT(*(int64_t *)results[ART_CROSS_ENTROPY_EVAL_CORRECT] == 2);
    free(results[ART_CROSS_ENTROPY_EVAL_CORRECT]);
    free(results[ART_CROSS_ENTROPY_EVAL_LOSS]);
    scene_free(&s);
}

/* A loss of labels with one weight for each of three classes. */
static scene weighted(const int32_t *labels, const double *weights, int64_t ignored) {
    scene s = scene_new("nll_grad", ART_OP_NLL_GRAD, NULL);
    scene_operand(&s, ART_NLL_GRAD_Y, F32, 1, 2, 2, 3);
    memcpy(scene_operand(&s, ART_NLL_GRAD_TARGET, ART_DTYPE_I32, 1, 1, 2), labels,
           2 * sizeof labels[0]);
    scene_operand(&s, ART_NLL_GRAD_LOSS, ART_DTYPE_F64, 0, 1, 1);
    scene_operand(&s, ART_NLL_GRAD_DY, F32, 1, 2, 2, 3);
    s.attr[ART_NLL_GRAD_A_IGNORE_INDEX].i = ignored;
    for (unsigned c = 0; c < 3; c++) {
        s.attr[s.op->n_attrs + c].f = weights[c];
    }
    s.args.n_attrs += 3;
    return s;
}

static void test_uncounted_labels(void) {
    const double weights[3] = {1, 0, 2};
    art_error err;
    scene s = weighted((const int32_t[]){2, 2}, weights, 2);
    EXPECT_STATUS(run(&s, NULL, &err), ART_LABEL, err, "all 2 samples of this batch have the ign");
    scene_free(&s);
    s = weighted((const int32_t[]){1, 2}, weights, 2);
    EXPECT_STATUS(run(&s, NULL, &err), ART_LABEL, err, "the labels of all 2 samples of this batch");
    scene_free(&s);
    s = weighted((const int32_t[]){ART_NO_LABEL, 2}, weights, -1);
    EXPECT_STATUS(run(&s, NULL, &err), ART_LABEL, err, "label -100 of sample 0");
    scene_free(&s);
    s = weighted((const int32_t[]){-1, -1}, weights, -1);
    EXPECT_STATUS(run(&s, NULL, &err), ART_LABEL, err, "all 2 samples of this batch have the ign");
    scene_free(&s);
    s = weighted((const int32_t[]){0, 2}, weights, ART_NO_LABEL);
    EXPECT_STATUS(run(&s, NULL, &err), ART_OK, err, "");
    s.args.n_attrs = s.op->n_attrs;
    EXPECT_STATUS(run(&s, NULL, &err), ART_OK, err, "");
    art_op_args args;
    EXPECT_STATUS(scene_check(&s, 0, &args, &err), ART_OK, err, "");
    args.n_attrs = s.op->n_attrs + 2u;
    EXPECT_STATUS(art_check_operation(s.op, &args, &err), ART_SHAPE, err,
                  "nll_grad has 2 weights for 3 classes");
    s.attr[s.op->n_attrs].f = -1;
    EXPECT_STATUS(art_check_operation(s.op, &args, &err), ART_PLAN_FORMAT, err,
                  "nll_grad.weight is -1, needs");
    scene_free(&s);
}

static void test_unit_targets(void) {
    static const float bad[] = {-0.001f, 1.001f, NAN};
    for (int i = 0; i < 3; i++) {
        art_error err;
        scene s = scene_new("bce_with_logits_eval", ART_OP_BCE_WITH_LOGITS_EVAL, NULL);
        scene_operand(&s, ART_BCE_WITH_LOGITS_EVAL_Y, F32, 1, 2, 2, 3);
        float *t = scene_operand(&s, ART_BCE_WITH_LOGITS_EVAL_TARGET, F32, 1, 2, 2, 3);
        scene_operand(&s, ART_BCE_WITH_LOGITS_EVAL_LOSS, ART_DTYPE_F64, 0, 1, 1);
        t[4] = bad[i];
        EXPECT_STATUS(run(&s, NULL, &err), ART_LABEL, err, "of sample 1 in this batch, element 1");
        art_op_args args;
        EXPECT_STATUS(scene_check(&s, 0, &args, &err), ART_OK, err, "");
        args.n_attrs = 2;
        EXPECT_STATUS(art_check_operation(s.op, &args, &err), ART_SHAPE, err,
                      "has 2 weights for rows of 3 elements");
        scene_free(&s);
    }
}

static void test_probabilities(void) {
    art_error err;
    void *results[SCENE_SLOTS] = {NULL};
    scene s = scene_new("soft_cross_entropy_grad", ART_OP_SOFT_CROSS_ENTROPY_GRAD, NULL);
    /* A class infinitely far below that has no share, and a sure prediction. */
    const float y[6] = {0, -INFINITY, 0, 40, 0, 0}, t[6] = {0.5f, 0, 0.5f, 1, 0, 0};
    memcpy(scene_operand(&s, ART_SOFT_CROSS_ENTROPY_GRAD_Y, F32, 1, 2, 2, 3), y, sizeof y);
    float *target = scene_operand(&s, ART_SOFT_CROSS_ENTROPY_GRAD_TARGET, F32, 1, 2, 2, 3);
    memcpy(target, t, sizeof t);
    scene_operand(&s, ART_SOFT_CROSS_ENTROPY_GRAD_LOSS, ART_DTYPE_F64, 0, 1, 1);
    scene_operand(&s, ART_SOFT_CROSS_ENTROPY_GRAD_DY, F32, 1, 2, 2, 3);
    EXPECT_STATUS(run(&s, results, &err), ART_OK, err, "");
    NEAR(*(double *)results[ART_SOFT_CROSS_ENTROPY_GRAD_LOSS], 0.5 * 0.693147, 1e-6);
    const float *d = results[ART_SOFT_CROSS_ENTROPY_GRAD_DY];
    EXPECT(d[0] == 0.0f && d[1] == 0.0f && d[2] == 0.0f);
    NEAR(d[3], -4.248354e-18, 1e-4);
    free(results[ART_SOFT_CROSS_ENTROPY_GRAD_LOSS]);
    free(results[ART_SOFT_CROSS_ENTROPY_GRAD_DY]);
    target[4] = 1.5f;
    EXPECT_STATUS(run(&s, NULL, &err), ART_LABEL, err,
                  "target 1.5 of sample 1 in this batch, elem");
    art_op_args args;
    EXPECT_STATUS(scene_check(&s, 0, &args, &err), ART_OK, err, "");
    args.n_attrs = 3;
    EXPECT_STATUS(art_check_operation(s.op, &args, &err), ART_SHAPE, err,
                  "soft_cross_entropy_grad has 2 weights for 3 classes");
    scene_free(&s);
}

/* A pair at the margin has a slope, one below it none, and what is not a number stays so. */
static void test_cosines(void) {
    art_error err;
    void *results[SCENE_SLOTS] = {NULL};
    scene s = scene_new("cosine_embedding_grad", ART_OP_COSINE_EMBEDDING_GRAD, NULL);
    const float y[4] = {0.25f, 0.125f, 0.5f, 0.75f}, t[4] = {-1, -1, -1, 1};
    float *cosine = scene_operand(&s, ART_COSINE_EMBEDDING_GRAD_Y, F32, 1, 2, 4, 1);
    memcpy(cosine, y, sizeof y);
    memcpy(scene_operand(&s, ART_COSINE_EMBEDDING_GRAD_TARGET, F32, 1, 2, 4, 1), t, sizeof t);
    scene_operand(&s, ART_COSINE_EMBEDDING_GRAD_LOSS, ART_DTYPE_F64, 0, 1, 1);
    scene_operand(&s, ART_COSINE_EMBEDDING_GRAD_DY, F32, 1, 2, 4, 1);
    s.attr[ART_COSINE_EMBEDDING_GRAD_A_MARGIN].f = 0.25;
    for (int i = 0; i < 2; i++) {
        EXPECT_STATUS(run(&s, results, &err), ART_OK, err, "");
        double loss = *(double *)results[ART_COSINE_EMBEDDING_GRAD_LOSS];
        const float *d = results[ART_COSINE_EMBEDDING_GRAD_DY];
        EXPECT(i == 0 ? loss == 0.125 : isnan(loss));
        EXPECT(d[0] == 0.25f && (d[1] == 0.0f) == (i == 0) && d[2] == 0.25f && d[3] == -0.25f);
        free(results[ART_COSINE_EMBEDDING_GRAD_LOSS]);
        free(results[ART_COSINE_EMBEDDING_GRAD_DY]);
        cosine[1] = NAN;
    }
    scene_free(&s);
}

/* ---- clipping ---- */

static art_status clip(const double *sums, int n, double max_norm, float *scale, art_error *err) {
    void *results[SCENE_SLOTS] = {NULL};
    scene s = scene_new("clip_scale", ART_OP_CLIP_SCALE, NULL);
    memcpy(scene_operand(&s, ART_CLIP_SCALE_ACC, ART_DTYPE_F64, 0, 1, n), sums,
           sizeof(double) * (size_t)n);
    scene_operand(&s, ART_CLIP_SCALE_SCALE, F32, 0, 1, 1);
    s.attr[ART_CLIP_SCALE_A_MAX_NORM].f = max_norm;
    art_status status = run(&s, results, err);
    *scale = *(float *)results[ART_CLIP_SCALE_SCALE];
    free(results[ART_CLIP_SCALE_SCALE]);
    scene_free(&s);
    return status;
}

static void test_clip(void) {
    art_error err;
    float scale;
    EXPECT_STATUS(clip((const double[]){25, 144}, 2, 1.0, &scale, &err), ART_OK, err, "");
    NEAR(3 * scale, 0.230769, 1e-6);
    NEAR(4 * scale, 0.307692, 1e-6);
    NEAR(12 * scale, 0.923077, 1e-6);
    EXPECT_STATUS(clip((const double[]){0}, 1, 1.0, &scale, &err), ART_OK, err, "");
    EXPECT(scale == 1.0f);
    EXPECT_STATUS(clip((const double[]){1, INFINITY}, 2, 1.0, &scale, &err), ART_NONFINITE, err,
                  "gradient norm is not finite: sum of squares 1 of 2 is inf");
    EXPECT_STATUS(clip((const double[]){NAN, 1}, 2, 1.0, &scale, &err), ART_NONFINITE, err,
                  "sum of squares 0 of 2 is");
}

/* ---- NaN and the borders of dropout ---- */

static void test_nan(void) {
    const float x[4] = {NAN, -0.0f, -1, 2};
    float y[4];
    unsigned n;
    const art_level *levels = art_levels(&n);
    for (unsigned l = 0; l < n; l++) {
        if (levels[l].features & ~art_cpu_features()) {
            continue;
        }
        levels[l].kernels.vec->relu(y, x, 4);
        EXPECT(isnan(y[0]) && y[1] == 0.0f && y[2] == 0.0f && y[3] == 2.0f);
        EXPECT(levels[l].kernels.vec->row_max(x, 4) == 2.0f);
        EXPECT(levels[l].kernels.vec->row_max(x, 0) == -INFINITY);
        EXPECT(isnan(levels[l].kernels.vec->sum_squares(x, 4)));
    }
}

/* ReLU bit by bit, at every place of a vector. */
static void test_relu_bits(void) {
    static const uint32_t kept[] = {0x00000000, 0x00000001, 0x007fffff, 0x3f800000, 0x7f7fffff,
                                    0x7f800000, 0x7fc00001, 0xffc00001, 0xffffffff};
    static const uint32_t zeroed[] = {0x80000000, 0x80000001, 0x807fffff, 0xbf800000, 0xff800000};
    enum {
        KEPT = sizeof kept / sizeof *kept,
        ALL = KEPT + sizeof zeroed / sizeof *zeroed,
        N = 131
    };
    uint32_t from[N], want[N], got[N];
    for (unsigned i = 0; i < N; i++) {
        unsigned at = i % ALL;
        from[i] = at < KEPT ? kept[at] : zeroed[at - KEPT];
        want[i] = at < KEPT ? kept[at] : 0;
    }
    unsigned n;
    const art_level *levels = art_levels(&n);
    for (unsigned l = 0; l < n; l++) {
        if (levels[l].features & ~art_cpu_features()) {
            continue;
        }
        levels[l].kernels.vec->relu((float *)got, (const float *)from, N);
        EXPECT(memcmp(got, want, sizeof got) == 0);
    }
}

/* A gradient is a sum that starts at +0: what a window passes on as -0 arrives as +0. */
static void test_pool_gradient_sign(void) {
    enum { CHANNELS = 21, WIDTH = 4 };
    const art_vec_window w = {1, WIDTH, 1, WIDTH, 1, 1, 1, 1, 0, 0, 1, 1, 0, 0, CHANNELS};
    float dy[WIDTH * CHANNELS], dx[WIDTH * CHANNELS];
    const float zeros[WIDTH * CHANNELS] = {0};
    const uint8_t idx[WIDTH * CHANNELS] = {0};
    for (unsigned i = 0; i < WIDTH * CHANNELS; i++) {
        dy[i] = -0.0f;
    }
    unsigned n;
    const art_level *levels = art_levels(&n);
    for (unsigned l = 0; l < n; l++) {
        if (levels[l].features & ~art_cpu_features()) {
            continue;
        }
        levels[l].kernels.vec->maxpool_grad_row(dx, dy, idx, &w, 0);
        EXPECT(memcmp(dx, zeros, sizeof dx) == 0);
        levels[l].kernels.vec->avgpool_grad_row(dx, dy, &w, 0);
        EXPECT(memcmp(dx, zeros, sizeof dx) == 0);
    }
}

/* The table of every level has every function of the family. */
static void test_tables(void) {
    unsigned n;
    const art_level *levels = art_levels(&n);
    for (unsigned l = 0; l < n; l++) {
#define ART_VEC(name, result, parameters) EXPECT(levels[l].kernels.vec->name != NULL);
#include "ukernel/vec/vec.def"
#undef ART_VEC
    }
#define ART_OP(NAME, name, code, operands, attrs) EXPECT(art_op_find(code) != NULL);
#include "art_ops.def"
#undef ART_OP
}

/* ---- batch norm of one value ---- */

static scene batchnorm(int n, int h, int w, int c) {
    scene s = scene_new("batchnorm2d_fwd", ART_OP_BATCHNORM2D_FWD, NULL);
    scene_operand(&s, ART_BATCHNORM2D_FWD_X, F32, 1, 4, n, h, w, c);
    scene_operand(&s, ART_BATCHNORM2D_FWD_Y, F32, 1, 4, n, h, w, c);
    scene_operand(&s, ART_BATCHNORM2D_FWD_SAVE_MEAN, F32, 0, 1, c);
    scene_operand(&s, ART_BATCHNORM2D_FWD_SAVE_INVSTD, F32, 0, 1, c);
    s.attr[ART_BATCHNORM2D_FWD_A_EPS].f = 1e-5;
    s.attr[ART_BATCHNORM2D_FWD_A_MOMENTUM].f = 0.1;
    return s;
}

static void test_batchnorm_of_one(void) {
    art_error err;
    art_op_args args;
    scene s = batchnorm(1, 1, 1, 4);
    EXPECT_STATUS(scene_check(&s, 0, &args, &err), ART_SHAPE, err,
                  "more than one value per channel");
    /* Planned for more, a last batch of one sample. */
    EXPECT_STATUS(scene_run(&s, (variant){level(), 1, 3, -1, -1}, NULL, &err), ART_SHAPE, err,
                  "at least 2 samples in every batch, or freeze");
    scene_free(&s);
}

/* ---- refusals of checks: each row spoils one thing of a good scene ---- */

static scene maxpool(void) {
    scene s = scene_new("maxpool2d_fwd", ART_OP_MAXPOOL2D_FWD, NULL);
    scene_operand(&s, ART_MAXPOOL2D_FWD_X, F32, 1, 4, 2, 6, 6, 3);
    scene_operand(&s, ART_MAXPOOL2D_FWD_Y, F32, 1, 4, 2, 3, 3, 3);
    scene_operand(&s, ART_MAXPOOL2D_FWD_IDX, ART_DTYPE_U8, 1, 4, 2, 3, 3, 3);
    for (int i = 0; i < 8; i++) {
        s.attr[i].i = i < 4 ? 2 : i < 6 ? 0 : 1;
    }
    return s;
}

static scene sgd(void) {
    scene s = scene_new("sgd_step", ART_OP_SGD_STEP, NULL);
    scene_operand(&s, ART_SGD_STEP_W, F32, 0, 2, 3, 4);
    scene_operand(&s, ART_SGD_STEP_G, F32, 0, 2, 3, 4);
    scene_operand(&s, ART_SGD_STEP_MOMENTUM, F32, 0, 2, 3, 4);
    s.attr[ART_SGD_STEP_A_MOMENTUM].f = 0.9;
    return s;
}

static scene loss(void) {
    return cross_entropy(2, 3, (const float[6]){0}, (const int32_t[2]){0});
}

static scene norm(void) {
    return batchnorm(2, 3, 3, 4);
}

static scene sumsq(void) {
    scene s = scene_new("grad_sumsq", ART_OP_GRAD_SUMSQ, NULL);
    scene_operand(&s, ART_GRAD_SUMSQ_G, F32, 0, 1, 8);
    scene_operand(&s, ART_GRAD_SUMSQ_ACC, ART_DTYPE_F64, 0, 1, 2);
    return s;
}

enum { DIM0, DIM1, DIM2, DIM3, NDIM, DTYPE, BYTES, BATCHED, ABSENT, INT_ATTR, FLOAT_ATTR };

static const struct spoiled {
    scene (*make)(void);
    int slot, what;
    double value;
    art_status status;
    const char *message;
} refusals[] = {
    {maxpool, 0, ABSENT, 0, ART_PLAN_FORMAT, "maxpool2d_fwd.x is missing"},
    {maxpool, 0, DTYPE, ART_DTYPE_F64, ART_PLAN_FORMAT, "maxpool2d_fwd.x has element type 1"},
    {maxpool, 0, NDIM, 3, ART_SHAPE, "maxpool2d_fwd.x has 3 dimensions, needs 4"},
    {maxpool, 0, DIM1, 0, ART_SHAPE, "maxpool2d_fwd.x has an empty dimension 1"},
    {maxpool, 0, DIM1, 4294967295.0, ART_PLAN_BUFFER, "maxpool2d_fwd.x has"},
    {maxpool, 0, BYTES, 863, ART_PLAN_BUFFER, "has 863 bytes, its dimensions need 864"},
    {maxpool, 1, DIM2, 2, ART_SHAPE, "maxpool2d_fwd.y has dimension 2 = 2, needs 3"},
    {maxpool, 1, BYTES, 0, ART_PLAN_BUFFER, "maxpool2d_fwd.y has 0 bytes"},
    {maxpool, 1, BATCHED, 0, ART_PLAN_FORMAT, "maxpool2d_fwd.y is not batched"},
    {maxpool, 2, DIM3, 2, ART_SHAPE, "maxpool2d_fwd.idx has dimension 3 = 2, needs 3"},
    {maxpool, 2, DTYPE, ART_DTYPE_I32, ART_PLAN_FORMAT, "maxpool2d_fwd.idx has element type"},
    {maxpool, ART_MAXPOOL2D_FWD_A_KERNEL_H, INT_ATTR, 0, ART_PLAN_FORMAT, "kernel_h is 0, needs 1"},
    {maxpool, ART_MAXPOOL2D_FWD_A_KERNEL_W, INT_ATTR, 128, ART_SHAPE,
     "2 x 128 = 256 places, at most 255"},
    {maxpool, ART_MAXPOOL2D_FWD_A_KERNEL_W, INT_ATTR, 7, ART_SHAPE, "smaller than the window"},
    {maxpool, ART_MAXPOOL2D_FWD_A_STRIDE_W, INT_ATTR, 0, ART_PLAN_FORMAT, "stride_w is 0"},
    {maxpool, ART_MAXPOOL2D_FWD_A_STRIDE_W, INT_ATTR, -1e18, ART_PLAN_FORMAT, "stride_w is -"},
    {maxpool, ART_MAXPOOL2D_FWD_A_PAD_H, INT_ATTR, 2, ART_PLAN_FORMAT, "pad_h is 2, needs 0 to 1"},
    {maxpool, ART_MAXPOOL2D_FWD_A_DIL_W, INT_ATTR, 9e18, ART_PLAN_FORMAT, "dil_w is 9"},
    {maxpool, ART_MAXPOOL2D_FWD_A_DIL_W, INT_ATTR, 1048577, ART_PLAN_FORMAT,
     "maxpool2d_fwd.dil_w is 1048577, needs 1 to 1048576"},
    {sgd, 1, DIM1, 5, ART_PLAN_BUFFER, "sgd_step.g has 48 bytes, its dimensions need 60"},
    {sgd, 1, DIM1, 3, ART_SHAPE, "sgd_step.g has 9 elements in 3 rows, needs 12 in 3"},
    {sgd, 0, BATCHED, 1, ART_PLAN_FORMAT, "sgd_step.w is batched"},
    {sgd, 2, ABSENT, 0, ART_PLAN_FORMAT, "sgd_step has momentum 0.9 and no momentum buffer"},
    {sgd, ART_SGD_STEP_A_LR, FLOAT_ATTR, NAN, ART_PLAN_FORMAT, "sgd_step.lr is nan"},
    {sgd, ART_SGD_STEP_A_LR, FLOAT_ATTR, INFINITY, ART_PLAN_FORMAT, "sgd_step.lr is inf"},
    {sgd, ART_SGD_STEP_A_LR, FLOAT_ATTR, 1e39, ART_PLAN_FORMAT, "sgd_step.lr is 1e+39, needs"},
    {sgd, ART_SGD_STEP_A_LR, FLOAT_ATTR, 1e-50, ART_PLAN_FORMAT, "sgd_step.lr is 1e-50, needs"},
    {sgd, ART_SGD_STEP_A_NESTEROV, INT_ATTR, 2, ART_PLAN_FORMAT, "sgd_step.nesterov is 2"},
    {loss, 1, DIM0, 1, ART_SHAPE, "cross_entropy_grad.target has dimension 0 = 1, needs 2"},
    {loss, 2, DTYPE, ART_DTYPE_F32, ART_PLAN_FORMAT, "cross_entropy_grad.loss has element type 0"},
    {loss, 2, BYTES, 7, ART_PLAN_BUFFER, "cross_entropy_grad.loss has 7 bytes"},
    {norm, ART_BATCHNORM2D_FWD_SAVE_MEAN, DIM0, 3, ART_SHAPE,
     "save_mean has dimension 0 = 3, needs 4"},
    {norm, ART_BATCHNORM2D_FWD_A_EPS, FLOAT_ATTR, -1, ART_PLAN_FORMAT, "eps is -1, needs"},
    {norm, ART_BATCHNORM2D_FWD_A_MOMENTUM, FLOAT_ATTR, 1.5, ART_PLAN_FORMAT, "momentum is 1.5"},
    {norm, ART_BATCHNORM2D_FWD_WS, BYTES, 63, ART_PLAN_WORKSPACE,
     "batchnorm2d_fwd.ws has 63 bytes, the operation needs 64"},
    {norm, ART_BATCHNORM2D_FWD_WS, ABSENT, 0, ART_PLAN_WORKSPACE, "ws has 0 bytes"},
    {sumsq, ART_GRAD_SUMSQ_A_INDEX, INT_ATTR, 2, ART_PLAN_FORMAT, "index is 2, needs 0 to 1"},
    {sumsq, ART_GRAD_SUMSQ_A_INDEX, INT_ATTR, -1, ART_PLAN_FORMAT, "index is -1"},
};

static void spoil(art_op_args *args, art_attr *attr, const struct spoiled *r) {
    art_array *a = &args->operand[r->what < INT_ATTR ? r->slot : 0];
    switch (r->what) {
    case NDIM:
        a->ndim = (uint8_t)r->value;
        break;
    case DTYPE:
        a->dtype = (uint8_t)r->value;
        break;
    case BYTES:
        a->bytes = (uint64_t)r->value;
        a->dims[0] = r->status == ART_PLAN_WORKSPACE ? (uint32_t)r->value : a->dims[0];
        break;
    case BATCHED:
        a->batched = (uint8_t)r->value;
        break;
    case ABSENT:
        *a = (art_array){0};
        break;
    case INT_ATTR:
        attr[r->slot].i = (int64_t)r->value;
        break;
    case FLOAT_ATTR:
        attr[r->slot].f = r->value;
        break;
    default:
        a->dims[r->what] = (uint32_t)r->value;
    }
}

static void test_refusals(void) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        art_error err;
        art_op_args args;
        scene s = refusals[i].make();
        EXPECT_STATUS(scene_check(&s, 0, &args, &err), ART_OK, err, "");
        spoil(&args, s.attr, &refusals[i]);
        EXPECT_STATUS(art_check_operation(s.op, &args, &err), refusals[i].status, err,
                      refusals[i].message);
        scene_free(&s);
    }
    /* Dimensions whose product wraps around to something small. */
    scene s = maxpool();
    art_error err;
    art_op_args args;
    (void)scene_check(&s, 0, &args, &err);
    for (int d = 0; d < 4; d++) {
        args.operand[0].dims[d] = 65536;
    }
    EXPECT_STATUS(art_check_operation(s.op, &args, &err), ART_PLAN_BUFFER, err,
                  "its dimensions need 1844");
    scene_free(&s);
    EXPECT(art_op_find(0) == NULL && art_op_find(ART_OP_END) == NULL);
}

int main(void) {
    scene_open_pools();
    test_cross_entropy();
    test_labels();
    test_correct();
    test_uncounted_labels();
    test_unit_targets();
    test_probabilities();
    test_cosines();
    test_clip();
    test_nan();
    test_relu_bits();
    test_pool_gradient_sign();
    test_tables();
    test_batchnorm_of_one();
    test_refusals();
    scene_close_pools();
    return expect_done("op_values");
}
