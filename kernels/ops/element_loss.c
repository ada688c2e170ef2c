/* Losses that go element by element: a sum over the actual batch times a constant. */
#include "ops/op_functions.h"
#include "ops/spans.h"
#include "ops/targets.h"

/* Operand slots of every operation here. */
enum { Y, TARGET, LOSS, DY };

#define SAME_SLOTS(NAME)                                                                           \
    _Static_assert((int)ART_##NAME##_GRAD_Y == (int)Y && (int)ART_##NAME##_EVAL_Y == (int)Y &&     \
                       (int)ART_##NAME##_GRAD_TARGET == (int)TARGET &&                             \
                       (int)ART_##NAME##_EVAL_TARGET == (int)TARGET &&                             \
                       (int)ART_##NAME##_GRAD_LOSS == (int)LOSS &&                                 \
                       (int)ART_##NAME##_EVAL_LOSS == (int)LOSS &&                                 \
                       (int)ART_##NAME##_GRAD_DY == (int)DY,                                       \
                   "all losses have their operands in one order")

typedef struct element_job {
    float *dy;          /* NULL: only the loss */
    double times, over; /* the loss is times the sum over this */
    float slope;        /* factor of the gradient */
    double margin;
    art_vec_huber huber;
    int log_target;
    const float *weight; /* of each column, or NULL: `all` */
    float all;
} element_job;

static float *dy_at(const element_job *job, size_t first) {
    return job->dy ? job->dy + first : NULL;
}

static element_job mse_job(const art_op_args *args, double count) {
    (void)args;
    return (element_job){.times = 1.0, .over = count, .slope = (float)(2.0 / count)};
}

static double mse_sum(const art_op_args *args, const void *constants, size_t first, size_t n) {
    const element_job *job = constants;
    return art_vec(args)->squared_error(dy_at(job, first), art_in(args, Y) + first,
                                        art_in(args, TARGET) + first, job->slope, n);
}

static element_job huber_job(const art_op_args *args, double count) {
    const double bound = args->attr[ART_HUBER_GRAD_A_BOUND].f;
    const double scale = args->attr[ART_HUBER_GRAD_A_SCALE].f;
    element_job job = {.times = scale, .over = count};
    job.huber.bound = (float)bound;
    job.huber.inner = bound > 0.0 ? (float)(scale / bound / count) : 0.0f;
    job.huber.outer = (float)(scale / count);
    job.huber.curve = bound > 0.0 ? 0.5 / bound : 0.0;
    job.huber.drop = 0.5 * bound;
    return job;
}

static double huber_sum(const art_op_args *args, const void *constants, size_t first, size_t n) {
    const element_job *job = constants;
    return art_vec(args)->huber(dy_at(job, first), art_in(args, Y) + first,
                                art_in(args, TARGET) + first, n, &job->huber);
}

static element_job kl_div_job(const art_op_args *args, double count) {
    const bool batchmean = args->attr[ART_KL_DIV_GRAD_A_BATCHMEAN].i != 0;
    const double over = batchmean ? (double)args->operand[Y].dims[0] : count;
    return (element_job){.times = 1.0,
                         .over = over,
                         .slope = (float)(-1.0 / over),
                         .log_target = args->attr[ART_KL_DIV_GRAD_A_LOG_TARGET].i != 0};
}

static double kl_div_sum(const art_op_args *args, const void *constants, size_t first, size_t n) {
    const element_job *job = constants;
    const art_vec_kernels *vec = art_vec(args);
    return (job->log_target ? vec->kl_div_log : vec->kl_div)(
        dy_at(job, first), art_in(args, Y) + first, art_in(args, TARGET) + first, job->slope, n);
}

static element_job cosine_embedding_job(const art_op_args *args, double count) {
    return (element_job){.times = 1.0,
                         .over = count,
                         .slope = (float)(1.0 / count),
                         .margin = args->attr[ART_COSINE_EMBEDDING_GRAD_A_MARGIN].f};
}

/* Exact but for the sum; what is not a number stays so. */
static double cosine_embedding_sum(const art_op_args *args, const void *constants, size_t first,
                                   size_t n) {
    const element_job *job = constants;
    const float *y = art_in(args, Y) + first, *t = art_in(args, TARGET) + first;
    float *dy = dy_at(job, first);
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        bool alike = t[i] > 0.0f;
        double gap = alike ? 1.0 - (double)y[i] : (double)y[i] - job->margin;
        bool costs = alike || !(gap < 0.0);
        sum += costs ? gap : 0.0;
        if (dy) {
            dy[i] = alike ? -job->slope : costs ? job->slope : 0.0f;
        }
    }
    return sum;
}

/* With one weight for all, the workspace holds it alone. */
static element_job bce_job(const art_op_args *args, unsigned ws, double count) {
    const float *weights = art_weights(args, 0, ws);
    return (element_job){.times = 1.0,
                         .over = count,
                         .slope = (float)(1.0 / count),
                         .weight = args->n_attrs > 1 ? weights : NULL,
                         .all = args->n_attrs == 1 ? weights[0] : 1.0f};
}

static double bce_sum(const art_op_args *args, const void *constants, size_t first, size_t n) {
    const element_job *job = constants;
    const float *y = art_in(args, Y), *t = art_in(args, TARGET);
    const size_t columns = job->weight ? args->operand[Y].dims[1] : n;
    double sum = 0.0;
    for (size_t i = first, end = first + n; i < end;) {
        size_t column = job->weight ? i % columns : 0;
        size_t part = columns - column < end - i ? columns - column : end - i;
        const float *weight = job->weight ? job->weight + column : NULL;
        sum += art_vec(args)->bce(dy_at(job, i), y + i, t + i, job->slope, part, weight, job->all);
        i += part;
    }
    return sum;
}

static void run(const art_op_args *args, element_job job, double work, art_block_fn sum,
                float *dy) {
    job.dy = dy;
    double total = art_sum_blocks(args, art_count(&args->operand[Y]), work, sum, &job);
    *(double *)args->operand[LOSS].data = job.times * total / job.over;
}

static art_status check(const art_op_args *args, const char *const *names, unsigned n,
                        art_error *err) {
    ART_TRY(art_check_operand(args, Y, names[Y], ART_DTYPE_F32, ART_ANY_RANK, err));
    ART_TRY(art_check_operand(args, TARGET, names[TARGET], ART_DTYPE_F32, ART_ANY_RANK, err));
    ART_TRY(art_check_matches(args, TARGET, names[TARGET], Y, err));
    ART_TRY(art_check_vector(args, LOSS, names[LOSS], ART_DTYPE_F64, 1, err));
    if (n > DY) {
        ART_TRY(art_check_operand(args, DY, names[DY], ART_DTYPE_F32, ART_ANY_RANK, err));
        ART_TRY(art_check_matches(args, DY, names[DY], Y, err));
    }
    return ART_OK;
}

/* The functions of one operation of loss `name`; `work` is scalar operations per element, `targets`
 * whether they can be used. */
#define ELEMENT_OP(name, op, n, work, targets, dy)                                                 \
    art_status art_op_##op##_check(const art_op_args *args, art_error *err) {                      \
        static const char *const names[] = {#op ".y", #op ".target", #op ".loss", #op ".dy"};      \
        return check(args, names, n, err);                                                         \
    }                                                                                              \
    ART_NO_WORKSPACE(op)                                                                           \
    art_status art_op_##op##_run(const art_op_args *args, art_error *err) {                        \
        const double count = (double)art_count(&args->operand[Y]);                                 \
        (void)err;                                                                                 \
        ART_TRY(targets);                                                                          \
        run(args, name##_job(args, count), work, name##_sum, dy);                                  \
        return ART_OK;                                                                             \
    }
#define ELEMENT_LOSS(NAME, name, work, targets)                                                    \
    SAME_SLOTS(NAME);                                                                              \
    ELEMENT_OP(name, name##_grad, 4, work, targets, art_out(args, DY))                             \
    ELEMENT_OP(name, name##_eval, 3, work, targets, NULL)

ELEMENT_LOSS(MSE, mse, 4, ART_OK)
ELEMENT_LOSS(HUBER, huber, 6, ART_OK)
ELEMENT_LOSS(KL_DIV, kl_div, 40,
             art_check_targets(args, TARGET,
                               ART_TARGETS_PROBABILITIES +
                                   (args->attr[ART_KL_DIV_GRAD_A_LOG_TARGET].i != 0),
                               err))
ELEMENT_LOSS(COSINE_EMBEDDING, cosine_embedding, 4,
             art_check_targets(args, TARGET, ART_TARGETS_PAIRS, err))

/* Binary cross-entropy has a workspace for its weights, and one weight for all or each column. */
SAME_SLOTS(BCE_WITH_LOGITS);
#define BCE_OP(NAME, op, n, dy)                                                                    \
    art_status art_op_##op##_check(const art_op_args *args, art_error *err) {                      \
        static const char *const names[] = {#op ".y", #op ".target", #op ".loss", #op ".dy"};      \
        ART_TRY(check(args, names, n, err));                                                       \
        return check_pos_weight(args, #op, err);                                                   \
    }                                                                                              \
    uint64_t art_op_##op##_workspace(const art_op_args *args) {                                    \
        return sizeof(float) * args->n_attrs;                                                      \
    }                                                                                              \
    art_status art_op_##op##_run(const art_op_args *args, art_error *err) {                        \
        const double count = (double)art_count(&args->operand[Y]);                                 \
        ART_TRY(art_check_targets(args, TARGET, ART_TARGETS_BINARY, err));                         \
        run(args, bce_job(args, ART_##NAME##_WS, count), 40, bce_sum, dy);                         \
        return ART_OK;                                                                             \
    }

static art_status check_pos_weight(const art_op_args *args, const char *op, art_error *err) {
    const art_array *y = &args->operand[Y];
    ART_FAIL_IF(args->n_attrs > 1 && (y->ndim != 2 || y->dims[1] != args->n_attrs), err, ART_SHAPE,
                "%s has %u weights for rows of %llu elements: none, one, or one for each of a "
                "flat row's elements are possible",
                op, args->n_attrs, (unsigned long long)(art_count(y) / y->dims[0]));
    return ART_OK;
}

BCE_OP(BCE_WITH_LOGITS_GRAD, bce_with_logits_grad, 4, art_out(args, DY))
BCE_OP(BCE_WITH_LOGITS_EVAL, bce_with_logits_eval, 3, NULL)
