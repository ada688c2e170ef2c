/* Operations without matrix products: every level against the naive twin under the bound of its
 * own arithmetic, and the same bits on all levels, for all thread counts, for a batch inside a
 * larger one, and in place (op_scene.h). */
#include "op_scene.h"
#include "ops/spans.h"

#define F32 ART_DTYPE_F32
#define NEW(NAME, name) scene_new(#name, ART_OP_##NAME, art_ref_##name)

/* The fewest elements that three threads share: so many spans, and scalar operations enough. */
static int shared_length(double work) {
    double enough = ART_SMALL_COST / work;
    return (int)(enough > 3 * ART_SPAN ? enough : 3 * ART_SPAN) + 3;
}

/* Lengths: all tails of all register widths, around a block of a sum and a span, one that threads
 * share (`work` is scalar operations an element, or fewer), and for sums one whose blocks are
 * longer than the shortest. */
enum { N_LENGTHS = 65 + 7, N_SUM_LENGTHS = N_LENGTHS + 1 };
static int length(int i, double work) {
    const int longer[] = {127, 1000, 4095, 4097, 16383, 16385, shared_length(work), 600001};
    return i < 65 ? i + 1 : longer[i - 65];
}

/* A scene whose first `n` slots are vectors of one length with values in [lo, hi). */
static scene vectors(scene s, int n, int batched, int size, double lo, double hi) {
    for (int i = 0; i < n; i++) {
        scene_operand(&s, (unsigned)i, F32, batched, 1, size);
        scene_floats(&s, (unsigned)i, lo, hi);
    }
    return s;
}

static void verify(scene s) {
    scene_verify(&s);
}

static void test_elementwise(void) {
    for (int i = 0; i < N_LENGTHS; i++) {
        int n = length(i, 1);
        verify(vectors(NEW(RELU_FWD, relu_fwd), 2, 1, n, -1, 1));
        verify(vectors(NEW(RELU_GRAD, relu_grad), 3, 1, n, -1, 1));
        verify(vectors(NEW(TANH_FWD, tanh_fwd), 2, 1, length(i, 10), -9.5, 9.5));
        verify(vectors(NEW(TANH_GRAD, tanh_grad), 3, 1, n, -1, 1));
        verify(vectors(NEW(ADD, add), 3, 1, n, -1, 1));
        verify(vectors(NEW(COPY, copy), 2, 1, n, -1, 1));
    }
}

/* What a function treats apart: bends, infinities, NaN, where exponentials overflow or vanish. */
static const float activation_points[] = {
    0.0f,        -0.0f,    3.0f,      -3.0f,  6.0f,    1.0f,  -1.0f,  2.9999998f,
    -2.9999998f, INFINITY, -INFINITY, 1e20f,  -1e20f,  88.0f, -88.0f, 90.0f,
    -90.0f,      110.0f,   -110.0f,   1e-40f, -1e-40f, NAN};

static void activation(scene s, int slots, int size, double lo, double hi, const double *k) {
    enum { POINTS = sizeof activation_points / sizeof *activation_points };
    s = vectors(s, slots, 1, size, lo, hi);
    if (size >= POINTS) {
        memcpy(s.args.operand[0].data, activation_points, sizeof activation_points);
    }
    s.attr[0].f = k[0];
    s.attr[1].f = k[1];
    verify(s);
}

/* Numbers as layers use them, and other ones; narrow and wide ranges. */
static void test_activations(void) {
    static const double numbers[][2] = {
        {0.01, 1.0}, {1.0507009873554805, 1.7580993408473766}, {1.0, 20.0}, {2.5, 1.5}, {0.3, 0.0}};
    for (int i = 0; i < N_LENGTHS; i++) {
        const double *k = numbers[i % 5];
        double wide = i % 3 ? 7.0 : 90.0;
#define ART_ACTIVATION(NAME, name, count, work, work_gradient)                                     \
    activation(NEW(NAME##_FWD, name##_fwd), 2, length(i, work), -wide, wide, k);                   \
    activation(NEW(NAME##_GRAD, name##_grad), 3, length(i, work_gradient), -wide, wide, k);
#include "ukernel/vec/vec_activation.def"
#undef ART_ACTIVATION
    }
}

static void test_dropout(void) {
    static const double rates[] = {0.0, 0.1, 0.5, 0.999, 1.0};
    for (int i = 0; i < N_LENGTHS; i++) {
        for (int p = 0; p < 5; p++) {
            scene s = vectors(NEW(DROPOUT_FWD, dropout_fwd), 2, 1, length(i, 15), -1, 1);
            s.attr[ART_DROPOUT_FWD_A_P].f = rates[p];
            s.attr[ART_DROPOUT_FWD_A_STREAM].i = -77;
            s.args.step = (uint64_t)p;
            verify(s);
        }
        scene s = vectors(NEW(DROPOUT_GRAD, dropout_grad), 2, 1, length(i, 15), -1, 1);
        s.attr[ART_DROPOUT_GRAD_A_P].f = 0.25;
        s.args.seed = 0x123456789ABCDEFu;
        verify(s);
    }
}

static void test_sgd(int size, int momentum, int nesterov, uint64_t step, int scaled) {
    scene s = vectors(NEW(SGD_STEP, sgd_step), momentum ? 3 : 2, 0, size, -1, 1);
    s.attr[ART_SGD_STEP_A_LR].f = 0.05;
    s.attr[ART_SGD_STEP_A_MOMENTUM].f = momentum ? 0.9 : 0.0;
    s.attr[ART_SGD_STEP_A_DAMPENING].f = momentum && !nesterov ? 0.1 : 0.0;
    s.attr[ART_SGD_STEP_A_WEIGHT_DECAY].f = size & 1 ? 1e-2 : 0.0;
    s.attr[ART_SGD_STEP_A_NESTEROV].i = nesterov;
    s.args.step = step;
    s.args.learning_rate_scale = 0.3;
    if (scaled) {
        *(float *)scene_operand(&s, ART_SGD_STEP_SCALE, F32, 0, 1, 1) = 0.37f;
    }
    verify(s);
}

/* AdamW has Adam's slots. */
static void test_adam(int size, uint64_t step, double decay, int scaled, int decoupled) {
    scene s = decoupled ? NEW(ADAMW_STEP, adamw_step) : NEW(ADAM_STEP, adam_step);
    s = vectors(s, 4, 0, size, -1, 1);
    scene_floats(&s, ART_ADAM_STEP_V, 1e-4, 1);
    s.attr[ART_ADAM_STEP_A_LR].f = 1e-3;
    s.attr[ART_ADAM_STEP_A_BETA1].f = 0.9;
    s.attr[ART_ADAM_STEP_A_BETA2].f = 0.999;
    s.attr[ART_ADAM_STEP_A_EPS].f = 1e-8;
    s.attr[ART_ADAM_STEP_A_WEIGHT_DECAY].f = decay;
    s.args.step = step;
    if (scaled) {
        *(float *)scene_operand(&s, ART_ADAM_STEP_SCALE, F32, 0, 1, 1) = 0.37f;
    }
    verify(s);
}

/* Means and mean squares such that every variance is well above its rounding errors. */
static void test_rmsprop(int size, int centered, int momentum, int scaled) {
    scene s = vectors(NEW(RMSPROP_STEP, rmsprop_step), 2, 0, size, -1, 1);
    scene_operand(&s, ART_RMSPROP_STEP_SQUARE_AVG, F32, 0, 1, size);
    scene_floats(&s, ART_RMSPROP_STEP_SQUARE_AVG, 0.3, 1);
    if (centered) {
        scene_operand(&s, ART_RMSPROP_STEP_GRAD_AVG, F32, 0, 1, size);
        scene_floats(&s, ART_RMSPROP_STEP_GRAD_AVG, -0.4, 0.4);
    }
    if (momentum) {
        scene_operand(&s, ART_RMSPROP_STEP_MOMENTUM, F32, 0, 1, size);
        scene_floats(&s, ART_RMSPROP_STEP_MOMENTUM, -1, 1);
    }
    s.attr[ART_RMSPROP_STEP_A_LR].f = 0.01;
    s.attr[ART_RMSPROP_STEP_A_ALPHA].f = 0.97;
    s.attr[ART_RMSPROP_STEP_A_EPS].f = 1e-8;
    s.attr[ART_RMSPROP_STEP_A_WEIGHT_DECAY].f = size & 1 ? 1e-2 : 0.0;
    s.attr[ART_RMSPROP_STEP_A_MOMENTUM].f = momentum ? 0.9 : 0.0;
    s.attr[ART_RMSPROP_STEP_A_CENTERED].i = centered;
    s.args.learning_rate_scale = 0.3;
    if (scaled) {
        *(float *)scene_operand(&s, ART_RMSPROP_STEP_SCALE, F32, 0, 1, 1) = 0.37f;
    }
    verify(s);
}

static void test_adagrad(int size, uint64_t step, double decay, int scaled) {
    scene s = vectors(NEW(ADAGRAD_STEP, adagrad_step), 3, 0, size, -1, 1);
    scene_floats(&s, ART_ADAGRAD_STEP_SUM, 0, 1);
    s.attr[ART_ADAGRAD_STEP_A_LR].f = 0.01;
    s.attr[ART_ADAGRAD_STEP_A_LR_DECAY].f = 0.1;
    s.attr[ART_ADAGRAD_STEP_A_WEIGHT_DECAY].f = decay;
    s.attr[ART_ADAGRAD_STEP_A_EPS].f = 1e-10;
    s.args.step = step;
    s.args.learning_rate_scale = 0.3;
    if (scaled) {
        *(float *)scene_operand(&s, ART_ADAGRAD_STEP_SCALE, F32, 0, 1, 1) = 0.37f;
    }
    verify(s);
}

static void test_optimizers(void) {
    for (int i = 0; i < N_LENGTHS; i++) {
        int n = length(i, 4); /* SGD's work, the least of all */
        test_sgd(n, 0, 0, 3, i & 1);
        for (int v = 0; v < 4; v++) {
            test_sgd(n, 1, v & 1, (uint64_t)(v & 2), i & 1);
        }
        for (int v = 0; v < 4; v++) {
            test_rmsprop(n, v & 1, v & 2, i & 1);
        }
        double decay = i & 1 ? 0.01 : 0.0;
        test_adam(n, (uint64_t)i * 7, decay, i & 2, 0);
        test_adam(n, (uint64_t)i * 7, decay, i & 2, 1);
        test_adagrad(n, (uint64_t)i * 7, decay, i & 2);
    }
}

/* A training step of a loss and its evaluation, whose first three slots are alike. */
static void verify_loss(scene grad, scene eval, int size) {
    scene_operand(&grad, ART_MSE_GRAD_LOSS, ART_DTYPE_F64, 0, 1, 1);
    scene_operand(&eval, ART_MSE_EVAL_LOSS, ART_DTYPE_F64, 0, 1, 1);
    scene_operand(&grad, ART_MSE_GRAD_DY, F32, 1, 1, size);
    verify(grad);
    verify(eval);
}

static void test_sums(void) {
    for (int i = 0; i < N_SUM_LENGTHS; i++) {
        scene s = vectors(NEW(GRAD_SUMSQ, grad_sumsq), 1, 0, length(i, 1), -3, 3);
        double *acc = scene_operand(&s, ART_GRAD_SUMSQ_ACC, ART_DTYPE_F64, 0, 1, 3);
        acc[0] = 1.5, acc[1] = -1, acc[2] = 9;
        s.attr[ART_GRAD_SUMSQ_A_INDEX].i = 1;
        verify(s);
        verify_loss(vectors(NEW(MSE_GRAD, mse_grad), 2, 1, length(i, 1), -3, 3),
                    vectors(NEW(MSE_EVAL, mse_eval), 2, 1, length(i, 1), -3, 3), length(i, 1));
        s = NEW(CLIP_SCALE, clip_scale);
        double *sums = scene_operand(&s, ART_CLIP_SCALE_ACC, ART_DTYPE_F64, 0, 1, i + 1);
        for (int j = 0; j <= i; j++) {
            sums[j] = j * 0.25;
        }
        scene_operand(&s, ART_CLIP_SCALE_SCALE, F32, 0, 1, 1);
        s.attr[ART_CLIP_SCALE_A_MAX_NORM].f = 2.5;
        verify(s);
        s = vectors(NEW(CLIP_VALUE, clip_value), 1, 0, length(i, 1), -3, 3);
        s.attr[ART_CLIP_VALUE_A_LIMIT].f = 1.1;
        verify(s);
    }
}

static void signs(const scene *s) {
    const art_array *target = &s->args.operand[ART_COSINE_EMBEDDING_GRAD_TARGET];
    float *t = target->data;
    for (size_t i = 0; i < (size_t)art_count(target); i++) {
        t[i] = t[i] < 0 ? -1 : 1;
    }
}

/* Blocks do not depend on a loss's numbers: the longest sums have one choice of them. */
static void test_element_losses(void) {
    static const double bounds[] = {0.0, 0.5, 2.0};
    for (int i = 0; i < N_SUM_LENGTHS; i++) {
        for (int b = 0; b < (i < N_LENGTHS ? 3 : 1); b++) {
            scene s = vectors(NEW(HUBER_GRAD, huber_grad), 2, 1, length(i, 1), -3, 3);
            scene e = vectors(NEW(HUBER_EVAL, huber_eval), 2, 1, length(i, 1), -3, 3);
            s.attr[ART_HUBER_GRAD_A_BOUND].f = e.attr[ART_HUBER_EVAL_A_BOUND].f = bounds[b];
            s.attr[ART_HUBER_GRAD_A_SCALE].f = e.attr[ART_HUBER_EVAL_A_SCALE].f = 1.0 + b;
            verify_loss(s, e, length(i, 1));
        }
        for (int flags = 0; flags < (i < N_LENGTHS ? 4 : 1); flags++) {
            double low = flags & 1 ? -9 : 0, high = flags & 1 ? 0 : 1;
            scene s = vectors(NEW(KL_DIV_GRAD, kl_div_grad), 2, 1, length(i, 1), -9, 0);
            scene e = vectors(NEW(KL_DIV_EVAL, kl_div_eval), 2, 1, length(i, 1), -9, 0);
            scene_floats(&s, ART_KL_DIV_GRAD_TARGET, low, high);
            scene_floats(&e, ART_KL_DIV_EVAL_TARGET, low, high);
            s.attr[ART_KL_DIV_GRAD_A_LOG_TARGET].i = e.attr[ART_KL_DIV_EVAL_A_LOG_TARGET].i =
                flags & 1;
            s.attr[ART_KL_DIV_GRAD_A_BATCHMEAN].i = e.attr[ART_KL_DIV_EVAL_A_BATCHMEAN].i =
                flags >> 1;
            verify_loss(s, e, length(i, 1));
        }
        scene s =
            vectors(NEW(COSINE_EMBEDDING_GRAD, cosine_embedding_grad), 2, 1, length(i, 1), -1, 1);
        scene e =
            vectors(NEW(COSINE_EMBEDDING_EVAL, cosine_embedding_eval), 2, 1, length(i, 1), -1, 1);
        signs(&s), signs(&e);
        s.attr[ART_COSINE_EMBEDDING_GRAD_A_MARGIN].f =
            e.attr[ART_COSINE_EMBEDDING_EVAL_A_MARGIN].f = 0.25;
        verify_loss(s, e, length(i, 1));
    }
}

static void test_cross_entropy_of(int rows, int classes, double spread) {
    scene s = NEW(CROSS_ENTROPY_GRAD, cross_entropy_grad);
    scene e = NEW(CROSS_ENTROPY_EVAL, cross_entropy_eval);
    scene_operand(&s, ART_CROSS_ENTROPY_GRAD_LOGITS, F32, 1, 2, rows, classes);
    scene_operand(&e, ART_CROSS_ENTROPY_EVAL_LOGITS, F32, 1, 2, rows, classes);
    scene_floats(&s, ART_CROSS_ENTROPY_GRAD_LOGITS, -spread, spread);
    scene_floats(&e, ART_CROSS_ENTROPY_EVAL_LOGITS, -spread, spread);
    int32_t *a = scene_operand(&s, ART_CROSS_ENTROPY_GRAD_TARGET, ART_DTYPE_I32, 1, 1, rows);
    int32_t *b = scene_operand(&e, ART_CROSS_ENTROPY_EVAL_TARGET, ART_DTYPE_I32, 1, 1, rows);
    for (int i = 0; i < rows; i++) {
        a[i] = b[i] = i % 5 == 3 ? ART_NO_LABEL : i * 7 % classes;
    }
    scene_operand(&s, ART_CROSS_ENTROPY_GRAD_LOSS, ART_DTYPE_F64, 0, 1, 1);
    scene_operand(&e, ART_CROSS_ENTROPY_EVAL_LOSS, ART_DTYPE_F64, 0, 1, 1);
    scene_operand(&s, ART_CROSS_ENTROPY_GRAD_DLOGITS, F32, 1, 2, rows, classes);
    scene_operand(&e, ART_CROSS_ENTROPY_EVAL_CORRECT, ART_DTYPE_I64, 0, 1, 1);
    scene_verify(&s);
    scene_verify(&e);
}

static void test_cross_entropy(void) {
    static const int rows[] = {1, 2, 5, 63, 64, 65, 130};
    static const int classes[] = {1, 2, 3, 7, 10, 15, 16, 17, 33, 100, 1000};
    for (int r = 0; r < 7; r++) {
        for (int c = 0; c < 11; c++) {
            test_cross_entropy_of(rows[r], classes[c], r & 1 ? 5.0 : 80.0);
        }
    }
    test_cross_entropy_of(3, 10, 1e8);
}

/* Axes without gaps and with few, many and more than a band of neighbours. */
static void test_softmax_of(int outer, int size, int inner, double spread) {
    scene s[] = {NEW(SOFTMAX_FWD, softmax_fwd), NEW(LOG_SOFTMAX_FWD, log_softmax_fwd),
                 NEW(SOFTMAX_GRAD, softmax_grad), NEW(LOG_SOFTMAX_GRAD, log_softmax_grad)};
    for (unsigned k = 0; k < 4; k++) {
        unsigned slots = k < 2 ? 2 : 3;
        for (unsigned slot = 0; slot < slots; slot++) {
            scene_operand(&s[k], slot, F32, 1, 3, outer, size, inner);
            scene_floats(&s[k], slot, -spread, spread);
        }
        if (k >= 2) {
            scene_floats(&s[k], 0, k == 2 ? 0 : -spread, k == 2 ? 1 : 0);
        }
        s[k].attr[0].i = 1;
        verify(s[k]);
    }
}

static void test_softmax(void) {
    static const int sizes[] = {1, 2, 3, 15, 16, 17, 40}, inners[] = {1, 2, 15, 16, 17, 33, 130};
    for (int a = 0; a < 7; a++) {
        for (int b = 0; b < 7; b++) {
            test_softmax_of(1 + (a + b) % 3, sizes[a], inners[b], b & 1 ? 5.0 : 90.0);
        }
    }
    test_softmax_of(700, 100, 1, 5.0);
    test_softmax_of(2, 50000, 1, 5.0);
    test_softmax_of(3, 30, 500, 1e8);
    test_softmax_of(70, 2, 3, 5.0);
}

/* Causal or not; with and without a mask that leaves out some keys, or all of a sample's. */
static void test_masked_softmax_of(int heads, int rows, int keys, int causal, int masked) {
    scene s = NEW(MASKED_SOFTMAX_FWD, masked_softmax_fwd);
    for (unsigned slot = 0; slot < 3; slot += 2) {
        scene_operand(&s, slot, F32, 1, 4, 3, heads, rows, keys);
        scene_floats(&s, slot, -9, 9);
    }
    if (masked) {
        float *mask = scene_operand(&s, 1, F32, 1, 2, 3, keys);
        for (int i = 0; i < 3 * keys; i++) {
            mask[i] = i < 2 * keys && i * 7 % 5 > 1 ? 0.5f : 0.0f;
            float *x = s.args.operand[0].data; /* what is left out is not looked at */
            for (int row = 0; row < heads * rows && mask[i] == 0.0f; row++) {
                x[(i / keys * heads * rows + row) * keys + i % keys] = row & 1 ? NAN : 1e30f;
            }
        }
    }
    s.attr[0].i = causal;
    verify(s);
}

static void test_masked_softmax(void) {
    static const int sizes[] = {1, 2, 15, 16, 17, 40};
    for (int a = 0; a < 6; a++) {
        for (int b = 0; b < 6; b++) {
            test_masked_softmax_of(1 + a % 2, sizes[a], sizes[b], a != 1, b != 2);
        }
    }
    test_masked_softmax_of(2, 300, 300, 1, 0);
}

/* What is no number stays none, along its axis alone; -inf has the share 0. */
static void test_softmax_specials(void) {
    for (int inner = 1; inner <= 2; inner++) {
        scene s[] = {NEW(SOFTMAX_FWD, softmax_fwd), NEW(LOG_SOFTMAX_FWD, log_softmax_fwd)};
        for (unsigned k = 0; k < 2; k++) {
            float *x = scene_operand(&s[k], 0, F32, 1, 3, 4, 3, inner);
            scene_operand(&s[k], 1, F32, 1, 3, 4, 3, inner);
            scene_floats(&s[k], 0, -2, 2);
            x[0] = -INFINITY;
            x[3 * inner] = INFINITY;
            x[6 * inner] = NAN;
            for (int i = 0; i < 3; i++) {
                x[9 * inner + i * inner] = -INFINITY;
            }
            s[k].attr[0].i = 1;
            verify(s[k]);
        }
    }
}

/* Binary cross-entropy: no weight, one, one for each column. */
static void test_bce_of(int rows, int columns, unsigned weights) {
    scene s[] = {NEW(BCE_WITH_LOGITS_GRAD, bce_with_logits_grad),
                 NEW(BCE_WITH_LOGITS_EVAL, bce_with_logits_eval)};
    for (int k = 0; k < 2; k++) {
        scene_operand(&s[k], ART_BCE_WITH_LOGITS_GRAD_Y, F32, 1, 2, rows, columns);
        scene_operand(&s[k], ART_BCE_WITH_LOGITS_GRAD_TARGET, F32, 1, 2, rows, columns);
        scene_operand(&s[k], ART_BCE_WITH_LOGITS_GRAD_LOSS, ART_DTYPE_F64, 0, 1, 1);
        scene_floats(&s[k], ART_BCE_WITH_LOGITS_GRAD_Y, rows & 1 ? -4 : -110, rows & 1 ? 4 : 110);
        scene_floats(&s[k], ART_BCE_WITH_LOGITS_GRAD_TARGET, 0, 1);
        s[k].args.n_attrs = weights;
        for (unsigned i = 0; i < weights; i++) {
            s[k].attr[i].f = 0.3 * (i + 1);
        }
    }
    scene_operand(&s[0], ART_BCE_WITH_LOGITS_GRAD_DY, F32, 1, 2, rows, columns);
    verify(s[0]);
    verify(s[1]);
}

static void test_bce(void) {
    for (int rows = 1; rows < 300; rows += rows + 1) {
        for (int columns = 1; columns <= 16; columns++) {
            test_bce_of(rows, columns, 0);
            test_bce_of(rows, columns, 1);
            test_bce_of(rows, columns, (unsigned)columns);
        }
    }
    test_bce_of(700, 100, 0);
    test_bce_of(9000, 7, 7);
}

/* Of a class, and of none. */
static const int64_t ignored_labels[5] = {0, -1, INT32_MIN, INT32_MAX, ART_NO_LABEL};

/* Weights, smoothing and an ignored label, and the same of log-probabilities. */
static void label_scene(scene s, int rows, int classes, unsigned fixed, bool weights) {
    const int32_t ignored = (int32_t)s.attr[fixed - 1].i;
    scene_operand(&s, ART_NLL_GRAD_Y, F32, 1, 2, rows, classes);
    scene_floats(&s, ART_NLL_GRAD_Y, rows & 1 ? -5 : -80, 0);
    int32_t *labels = scene_operand(&s, ART_NLL_GRAD_TARGET, ART_DTYPE_I32, 1, 1, rows);
    for (int i = 0; i < rows; i++) {
        labels[i] = i % 5 == 3 ? ignored : (i * 7 + 1) % classes;
    }
    scene_operand(&s, ART_NLL_GRAD_LOSS, ART_DTYPE_F64, 0, 1, 1);
    for (unsigned c = 0; weights && c < (unsigned)classes; c++) {
        s.attr[fixed + c].f = c == 2 ? 0 : 0.5 * c + 0.1;
    }
    s.args.n_attrs = fixed + (weights ? (unsigned)classes : 0);
    if (s.code == ART_OP_NLL_GRAD || s.code == ART_OP_WEIGHTED_CROSS_ENTROPY_GRAD) {
        scene_operand(&s, ART_NLL_GRAD_DY, F32, 1, 2, rows, classes);
    } else {
        scene_operand(&s, ART_NLL_EVAL_CORRECT, ART_DTYPE_I64, 0, 1, 1);
    }
    verify(s);
}

static void test_weighted_labels_of(int rows, int classes, double smoothing, bool weights) {
    scene w[] = {NEW(WEIGHTED_CROSS_ENTROPY_GRAD, weighted_cross_entropy_grad),
                 NEW(WEIGHTED_CROSS_ENTROPY_EVAL, weighted_cross_entropy_eval)};
    scene n[] = {NEW(NLL_GRAD, nll_grad), NEW(NLL_EVAL, nll_eval)};
    const int64_t ignored = ignored_labels[(rows + classes) % 5];
    for (int k = 0; k < 2; k++) {
        w[k].attr[ART_WEIGHTED_CROSS_ENTROPY_GRAD_A_SMOOTHING].f = smoothing;
        w[k].attr[ART_WEIGHTED_CROSS_ENTROPY_GRAD_A_IGNORE_INDEX].i = ignored;
        n[k].attr[ART_NLL_GRAD_A_IGNORE_INDEX].i = ignored;
        label_scene(w[k], rows, classes, 2, weights);
        label_scene(n[k], rows, classes, 1, weights);
    }
}

static void test_weighted_labels(void) {
    static const int rows[] = {1, 2, 5, 64, 65, 130};
    static const int classes[] = {2, 3, 7, 10, 14};
    for (int r = 0; r < 6; r++) {
        for (int c = 0; c < 5; c++) {
            for (int s = 0; s < 3; s++) {
                test_weighted_labels_of(rows[r], classes[c], 0.5 * s, false);
                test_weighted_labels_of(rows[r], classes[c], 0.5 * s, true);
            }
        }
        test_weighted_labels_of(rows[r], 1000, 0.1, false);
    }
}

/* A label for each place of a sample, as a float. */
static void test_places_of(int samples, int places, int classes, double smoothing, bool weights) {
    static const int64_t exact[4] = {0, -1, 255, -(1 << 24)};
    const int64_t ignored = exact[(samples + classes) % 4];
    scene s[] = {NEW(PLACES_CROSS_ENTROPY_GRAD, places_cross_entropy_grad),
                 NEW(PLACES_CROSS_ENTROPY_EVAL, places_cross_entropy_eval)};
    for (int k = 0; k < 2; k++) {
        scene_operand(&s[k], ART_PLACES_CROSS_ENTROPY_GRAD_Y, F32, 1, 3, samples, places, classes);
        scene_floats(&s[k], ART_PLACES_CROSS_ENTROPY_GRAD_Y, places & 1 ? -5 : -80, 0);
        float *t =
            scene_operand(&s[k], ART_PLACES_CROSS_ENTROPY_GRAD_TARGET, F32, 1, 2, samples, places);
        for (int i = 0; i < samples * places; i++) {
            t[i] = (float)(i % 5 == 3 ? ignored : (i * 3 + 1) % classes);
        }
        scene_operand(&s[k], ART_PLACES_CROSS_ENTROPY_GRAD_LOSS, ART_DTYPE_F64, 0, 1, 1);
        s[k].attr[ART_PLACES_CROSS_ENTROPY_GRAD_A_SMOOTHING].f = smoothing;
        s[k].attr[ART_PLACES_CROSS_ENTROPY_GRAD_A_IGNORE_INDEX].i = ignored;
        s[k].args.n_attrs = 2 + (weights ? (unsigned)classes : 0);
        for (unsigned c = 2; c < s[k].args.n_attrs; c++) {
            s[k].attr[c].f = c == 3 ? 0 : 0.5 * c;
        }
    }
    scene_operand(&s[0], ART_PLACES_CROSS_ENTROPY_GRAD_DY, F32, 1, 3, samples, places, classes);
    verify(s[0]);
    verify(s[1]);
}

static void test_places(void) {
    test_places_of(2, 1, 3, 0.0, false);
    test_places_of(3, 40, 10, 0.0, false);
    test_places_of(1, 65, 7, 0.3, true);
    test_places_of(4, 2, 5, 0.0, true);
}

/* Probabilities, some of them 0 and 1. */
static void test_soft_of(int rows, int classes, double smoothing, bool weights) {
    scene s[] = {NEW(SOFT_CROSS_ENTROPY_GRAD, soft_cross_entropy_grad),
                 NEW(SOFT_CROSS_ENTROPY_EVAL, soft_cross_entropy_eval)};
    for (int k = 0; k < 2; k++) {
        scene_operand(&s[k], ART_SOFT_CROSS_ENTROPY_GRAD_Y, F32, 1, 2, rows, classes);
        scene_floats(&s[k], ART_SOFT_CROSS_ENTROPY_GRAD_Y, rows & 1 ? -5 : -80, 0);
        float *t =
            scene_operand(&s[k], ART_SOFT_CROSS_ENTROPY_GRAD_TARGET, F32, 1, 2, rows, classes);
        scene_floats(&s[k], ART_SOFT_CROSS_ENTROPY_GRAD_TARGET, 0, 1);
        for (int c = 0; c < classes; c++) {
            t[c] = c == classes / 2 ? 1.0f : 0.0f;
        }
        scene_operand(&s[k], ART_SOFT_CROSS_ENTROPY_GRAD_LOSS, ART_DTYPE_F64, 0, 1, 1);
        s[k].attr[ART_SOFT_CROSS_ENTROPY_GRAD_A_SMOOTHING].f = smoothing;
        s[k].args.n_attrs = 1 + (weights ? (unsigned)classes : 0);
        for (unsigned c = 1; c < s[k].args.n_attrs; c++) {
            s[k].attr[c].f = c == 2 ? 0 : 0.5 * c;
        }
    }
    scene_operand(&s[0], ART_SOFT_CROSS_ENTROPY_GRAD_DY, F32, 1, 2, rows, classes);
    verify(s[0]);
    verify(s[1]);
}

static void test_soft(void) {
    static const int rows[] = {1, 2, 65, 130};
    static const int classes[] = {1, 3, 10, 14};
    for (int r = 0; r < 4; r++) {
        for (int c = 0; c < 4; c++) {
            test_soft_of(rows[r], classes[c], 0.0, false);
            test_soft_of(rows[r], classes[c], 0.3, true);
        }
        test_soft_of(rows[r], 100, 0.1, false);
    }
}

static void test_transposes(void) {
    static const int shapes[][4] = {{1, 1, 1, 1},  {2, 3, 5, 7},    {3, 4, 4, 16}, {1, 17, 1, 33},
                                    {2, 5, 3, 64}, {4, 31, 31, 40}, {1, 1, 1, 50}, {2, 40, 40, 1}};
    for (int i = 0; i < 8; i++) {
        const int *d = shapes[i], flat = d[1] * d[2] * d[3];
        scene s = NEW(NHWC_TO_NCHW, nhwc_to_nchw);
        scene_operand(&s, ART_NHWC_TO_NCHW_X, F32, 1, 4, d[0], d[1], d[2], d[3]);
        scene_operand(&s, ART_NHWC_TO_NCHW_Y, F32, 1, 2, d[0], flat);
        scene_floats(&s, ART_NHWC_TO_NCHW_X, -1, 1);
        verify(s);
        s = NEW(NCHW_TO_NHWC, nchw_to_nhwc);
        scene_operand(&s, ART_NCHW_TO_NHWC_X, F32, 1, 2, d[0], flat);
        scene_operand(&s, ART_NCHW_TO_NHWC_Y, F32, 1, 4, d[0], d[1], d[2], d[3]);
        scene_floats(&s, ART_NCHW_TO_NHWC_X, -1, 1);
        verify(s);
    }
}

int main(void) {
    scene_open_pools();
    scene_print_levels();
    test_elementwise();
    test_activations();
    test_dropout();
    test_optimizers();
    test_sums();
    test_element_losses();
    test_cross_entropy();
    test_softmax();
    test_masked_softmax();
    test_softmax_specials();
    test_bce();
    test_weighted_labels();
    test_soft();
    test_places();
    test_transposes();
    scene_close_pools();
    printf("%u runs\n", scene_runs);
    return expect_done("vec_ops");
}
