/* Losses of one label a row: softmax cross entropy of logits [N, classes], plain or with class
 * weights, label smoothing and an ignored label, and the same without smoothing of
 * log-probabilities (NLL). And cross entropy of a probability for each class, and of a label for
 * each place of a sample, which is a float.
 *
 * -log softmax(x)[t] = log(sum exp(x - max)) - (x[t] - max): finite for all finite logits.
 * The loss is the sum over counted rows of
 *   (1 - s) w[t] nll(t) + s / classes sum_c w[c] nll(c),
 * over the sum of w[t]; without weights that is the number of counted rows. With probabilities t[c]
 * it is the mean over rows of sum_c w[c] ((1 - s) t[c] + s / classes) nll(c). */
#include <string.h>

#include "core/math.h"
#include "ops/op_functions.h"
#include "ops/spans.h"
#include "ops/targets.h"

/* Operand slots of every operation here; the fourth is the gradient, or the count. */
enum { Y, TARGET, LOSS, RESULT };

#define SAME_SLOTS(NAME, first, gradient)                                                          \
    _Static_assert((int)ART_##NAME##_GRAD_##first == (int)Y &&                                     \
                       (int)ART_##NAME##_EVAL_##first == (int)Y &&                                 \
                       (int)ART_##NAME##_GRAD_TARGET == (int)TARGET &&                             \
                       (int)ART_##NAME##_EVAL_TARGET == (int)TARGET &&                             \
                       (int)ART_##NAME##_GRAD_LOSS == (int)LOSS &&                                 \
                       (int)ART_##NAME##_EVAL_LOSS == (int)LOSS &&                                 \
                       (int)ART_##NAME##_GRAD_##gradient == (int)RESULT &&                         \
                       (int)ART_##NAME##_EVAL_CORRECT == (int)RESULT,                              \
                   "all losses have their operands in one order")
SAME_SLOTS(CROSS_ENTROPY, LOGITS, DLOGITS);
SAME_SLOTS(WEIGHTED_CROSS_ENTROPY, Y, DY);
SAME_SLOTS(NLL, Y, DY);

/* Blocks of rows, each with its own partial sums: at most so many. */
enum { MAX_BLOCKS = 64 };

typedef struct loss_job {
    const art_vec_kernels *vec;
    const float *x;
    const int32_t *target;
    const float *soft;   /* probabilities in place of labels, or NULL */
    const float *places; /* labels of places in place of those of samples, or NULL */
    art_vec_soft shares;
    float *dx; /* NULL: only loss and hits */
    size_t rows, classes, block;
    bool logarithms;     /* x are log-probabilities */
    int64_t ignored;     /* rows with this label do not count; it need not be a class */
    const float *weight; /* of each class, or NULL: ones */
    double keep, share;  /* 1 - smoothing, smoothing / classes */
    double whole;        /* sum of all weights, where share needs it */
    double over;         /* sum of the counted rows' weights; with probabilities the rows */
    double loss[MAX_BLOCKS];
    int64_t hits[MAX_BLOCKS]; /* counted rows whose first maximum is the target */
} loss_job;

static double weight_of(const loss_job *job, int32_t label) {
    return job->weight ? (double)job->weight[label] : 1.0;
}

/* What no label and no attribute is. */
static const int64_t not_whole = INT64_MIN;

/* The label of a row, which may be the ignored one; not_whole for a number that is no label. */
static int64_t label_of(const loss_job *job, size_t row) {
    if (job->places == NULL) {
        return job->target[row];
    }
    float label = job->places[row];
    bool fits = label >= -0x1p31f && label < 0x1p31f;
    return fits && (float)(int32_t)label == label ? (int32_t)label : not_whole;
}

/* The row's loss; *sum is that of its exponentials, which replace dx if there is one. */
static double row_loss(const loss_job *job, size_t row, double *sum) {
    const float *x = job->x + row * job->classes;
    const int32_t label = (int32_t)label_of(job, row);
    const double weight = job->keep * weight_of(job, label);
    if (job->logarithms) {
        return -weight * (double)x[label];
    }
    float *e = job->dx ? job->dx + row * job->classes : NULL;
    float max = job->vec->row_max(x, job->classes);
    double place = (double)x[label] - (double)max; /* before e overwrites x */
    double gaps = job->share > 0.0 ? job->vec->gap_sum(x, max, job->weight, job->classes) : 0.0;
    *sum = job->vec->exp_sum(e, x, max, job->classes);
    double logarithm = art_log(*sum);
    double smooth = job->share > 0.0 ? job->share * (job->whole * logarithm + gaps) : 0.0;
    return weight * (logarithm - place) + smooth;
}

/* dx = (all softmax - weight at the label - smoothed weights) / over, from the exponentials. */
static void row_gradient(const loss_job *job, size_t row, double sum) {
    float *e = job->dx + row * job->classes;
    const int32_t label = (int32_t)label_of(job, row);
    const double weight = weight_of(job, label), kept = job->keep * weight;
    if (job->logarithms) {
        memset(e, 0, job->classes * sizeof *e);
        e[label] = (float)(-kept / job->over);
        return;
    }
    double smooth = job->share > 0.0 ? job->share * job->whole : 0.0, all = kept + smooth;
    double others = job->share > 0.0 ? smooth - job->share * weight : 0.0;
    double whole = sum * job->over;
    /* In double: 1 - softmax of a sure prediction keeps its leading digits. */
    float at_label = (float)((all * ((double)e[label] - sum) + others * sum) / whole);
    float k = (float)(all / whole), m = (float)(job->share / job->over);
    if (job->share > 0.0) {
        job->vec->scale_minus(e, e, k, job->weight, m, job->classes);
    } else {
        job->vec->scale(e, e, k, job->classes);
    }
    e[label] = at_label;
}

/* Whether the first maximum is at the label; rows with NaN were found out by their loss. */
static int64_t row_hit(const loss_job *job, size_t row) {
    const float *x = job->x + row * job->classes;
    const int32_t label = (int32_t)label_of(job, row);
    const float at_label = x[label];
    if (at_label != job->vec->row_max(x, job->classes)) {
        return 0;
    }
    return job->vec->row_max(x, (size_t)label) < at_label || label == 0;
}

/* A row of probabilities: its loss, and its gradient if there is one. */
static double soft_row(const loss_job *job, size_t row) {
    const float *x = job->x + row * job->classes, *t = job->soft + row * job->classes;
    float *e = job->dx ? job->dx + row * job->classes : NULL;
    float max = job->vec->row_max(x, job->classes);
    double all, gaps = job->vec->soft_gaps(&all, x, max, t, job->classes, &job->shares);
    double sum = job->vec->exp_sum(e, x, max, job->classes);
    if (e) {
        job->vec->soft_grad(e, e, all / (sum * job->over), 1.0 / job->over, t, job->classes,
                            &job->shares);
    }
    return all * art_log(sum) + gaps;
}

static void ignore_row(const loss_job *job, size_t row) {
    if (job->dx) {
        memset(job->dx + row * job->classes, 0, job->classes * sizeof *job->dx);
    }
}

static void run_block(void *context, unsigned tile, unsigned thread) {
    loss_job *job = context;
    size_t first = tile * job->block;
    size_t last = first + job->block < job->rows ? first + job->block : job->rows;
    double total = 0.0;
    int64_t hits = 0;
    (void)thread;
    for (size_t row = first; row < last; row++) {
        if (job->soft) {
            total += soft_row(job, row);
            continue;
        }
        if (label_of(job, row) == job->ignored) {
            ignore_row(job, row);
            continue;
        }
        double sum = 0.0, loss = row_loss(job, row, &sum);
        total += loss;
        if (job->dx) {
            row_gradient(job, row, sum);
        } else {
            hits += loss == loss ? row_hit(job, row) : 0;
        }
    }
    job->loss[tile] = total;
    job->hits[tile] = hits;
}

/* Labels that count are in range; the sum of their weights, in order of rows. */
static art_status weigh_labels(loss_job *job, art_error *err) {
    const char *what = job->places ? "place" : "sample";
    size_t ignored = 0;
    job->over = 0.0;
    for (size_t row = 0; row < job->rows; row++) {
        int64_t label = label_of(job, row);
        if (label == job->ignored) {
            ignored++;
            continue;
        }
        ART_FAIL_IF(label < 0 || (uint64_t)label >= job->classes, err, ART_LABEL,
                    "label %.10g of %s %zu in this batch is out of range: the model has %zu "
                    "classes, labels must be 0 to %zu",
                    job->places ? (double)job->places[row] : (double)label, what, row, job->classes,
                    job->classes - 1);
        job->over += weight_of(job, (int32_t)label);
    }
    ART_FAIL_IF(ignored == job->rows, err, ART_LABEL,
                "all %zu %ss of this batch have the ignored label %d, so that it has no mean "
                "loss: leave some out, or take larger batches",
                job->rows, what, (int)job->ignored);
    ART_FAIL_IF(job->over == 0.0, err, ART_LABEL,
                "the labels of all %zu %ss of this batch have weight 0, so that it has no mean "
                "loss: leave these classes out, or give them a weight",
                job->rows, what);
    return ART_OK;
}

static loss_job job_of(const art_op_args *args) {
    const art_array *x = &args->operand[Y];
    return (loss_job){.vec = art_vec(args),
                      .x = x->data,
                      .target = args->operand[TARGET].data,
                      .rows = (size_t)art_count(x) / x->dims[x->ndim - 1],
                      .classes = x->dims[x->ndim - 1],
                      .ignored = ART_NO_LABEL,
                      .keep = 1.0};
}

/* The workspace is behind the result in every operation. */
enum { WS = RESULT + 1 };
_Static_assert((int)ART_WEIGHTED_CROSS_ENTROPY_GRAD_WS == (int)WS &&
                   (int)ART_WEIGHTED_CROSS_ENTROPY_EVAL_WS == (int)WS &&
                   (int)ART_NLL_GRAD_WS == (int)WS && (int)ART_NLL_EVAL_WS == (int)WS,
               "the workspace is the last operand");
enum { NLL_ATTRS = ART_NLL_GRAD_A_IGNORE_INDEX + 1 };
enum { SOFT_ATTRS = ART_SOFT_CROSS_ENTROPY_GRAD_A_SMOOTHING + 1 };
enum { WEIGHTED_ATTRS = ART_WEIGHTED_CROSS_ENTROPY_GRAD_A_IGNORE_INDEX + 1 };

static loss_job nll_job(const art_op_args *args) {
    loss_job job = job_of(args);
    job.logarithms = true;
    job.ignored = args->attr[ART_NLL_GRAD_A_IGNORE_INDEX].i;
    job.weight = art_weights(args, NLL_ATTRS, WS);
    return job;
}

static loss_job weighted_job_at(const art_op_args *args, unsigned ws) {
    const double smoothing = args->attr[ART_WEIGHTED_CROSS_ENTROPY_GRAD_A_SMOOTHING].f;
    loss_job job = job_of(args);
    job.ignored = args->attr[ART_WEIGHTED_CROSS_ENTROPY_GRAD_A_IGNORE_INDEX].i;
    job.weight = art_weights(args, WEIGHTED_ATTRS, ws);
    job.keep = 1.0 - smoothing;
    job.share = smoothing / (double)job.classes;
    for (size_t c = 0; c < job.classes; c++) {
        job.whole += weight_of(&job, (int32_t)c);
    }
    return job;
}

static loss_job weighted_job(const art_op_args *args) {
    return weighted_job_at(args, WS);
}

static loss_job places_job(const art_op_args *args, unsigned ws) {
    loss_job job = weighted_job_at(args, ws);
    job.places = args->operand[TARGET].data;
    return job;
}

static loss_job soft_job(const art_op_args *args, unsigned ws) {
    const double smoothing = args->attr[ART_SOFT_CROSS_ENTROPY_GRAD_A_SMOOTHING].f;
    loss_job job = job_of(args);
    job.soft = args->operand[TARGET].data;
    job.shares.weight = art_weights(args, SOFT_ATTRS, ws);
    job.shares.keep = 1.0 - smoothing;
    job.shares.share = smoothing / (double)job.classes;
    job.over = (double)job.rows;
    return job;
}

static art_status run(const art_op_args *args, loss_job job, float *dx, int64_t *correct,
                      art_error *err) {
    if (job.soft) {
        ART_TRY(art_check_targets(args, TARGET, ART_TARGETS_CLASSES, err));
    } else {
        ART_TRY(weigh_labels(&job, err));
    }
    job.dx = dx;
    job.block = (size_t)art_ceil_div(job.rows, MAX_BLOCKS);
    unsigned blocks = art_tiles(job.rows, job.block);
    art_pool_run(args->pool, blocks, 10.0 * (double)job.rows * (double)job.classes, run_block,
                 &job);
    double loss = 0.0;
    int64_t hits = 0;
    for (unsigned i = 0; i < blocks; i++) {
        loss += job.loss[i];
        hits += job.hits[i];
    }
    *(double *)args->operand[LOSS].data = loss / job.over;
    if (args->counted) {
        *args->counted = job.over;
    }
    if (correct) {
        *correct = hits;
    }
    return ART_OK;
}

/* Targets: a label a sample, a probability a class, or a label a place. */
enum { LABELS, SOFT, PLACES };

/* Names of an operation's operands, its own name, and its attributes before the weights. */
typedef struct loss_names {
    const char *op, *y, *target, *loss, *result;
    unsigned attrs, targets;
} loss_names;

static art_status check_target(const art_op_args *args, const loss_names *name, art_error *err) {
    const art_array *x = &args->operand[Y], *t = &args->operand[TARGET];
    unsigned rank = name->targets == LABELS ? 1 : name->targets == SOFT ? 2 : ART_ANY_RANK;
    ART_TRY(art_check_operand(args, TARGET, name->target,
                              name->targets == LABELS ? ART_DTYPE_I32 : ART_DTYPE_F32, rank, err));
    if (name->targets == PLACES) {
        uint64_t rows = art_count(x) / x->dims[x->ndim - 1];
        ART_FAIL_IF(art_count(t) != rows || t->dims[0] != x->dims[0], err, ART_SHAPE,
                    "%s has %llu labels in %u samples, needs %llu in %u", name->target,
                    (unsigned long long)art_count(t), t->dims[0], (unsigned long long)rows,
                    x->dims[0]);
    } else {
        ART_TRY(art_check_dims(args, TARGET, name->target, x->dims, err));
    }
    return art_check_batched(args, TARGET, name->target, x->batched, err);
}

static art_status check(const art_op_args *args, const loss_names *name, art_error *err) {
    const art_array *x = &args->operand[Y];
    ART_TRY(art_check_operand(args, Y, name->y, ART_DTYPE_F32,
                              name->targets == PLACES ? ART_ANY_RANK : 2, err));
    ART_TRY(check_target(args, name, err));
    const uint32_t classes = x->dims[x->ndim - 1];
    ART_FAIL_IF(args->n_attrs > name->attrs && args->n_attrs - name->attrs != classes, err,
                ART_SHAPE, "%s has %u weights for %u classes", name->op,
                args->n_attrs - name->attrs, classes);
    return art_check_vector(args, LOSS, name->loss, ART_DTYPE_F64, 1, err);
}

static art_status check_grad(const art_op_args *args, const loss_names *name, art_error *err) {
    ART_TRY(check(args, name, err));
    ART_TRY(
        art_check_operand(args, RESULT, name->result, ART_DTYPE_F32, args->operand[Y].ndim, err));
    ART_TRY(art_check_dims(args, RESULT, name->result, args->operand[Y].dims, err));
    return art_check_batched(args, RESULT, name->result, args->operand[Y].batched, err);
}

static art_status check_eval(const art_op_args *args, const loss_names *name, art_error *err) {
    ART_TRY(check(args, name, err));
    return art_check_vector(args, RESULT, name->result, ART_DTYPE_I64, 1, err);
}

/* One operation: its job, kind, operands in messages, attributes before its weights, and where
 * gradient and count of right rows go. */
#define LABEL_OP(name, job, kind, y, result, attrs, dx, correct)                                   \
    art_status art_op_##name##_##kind##_check(const art_op_args *args, art_error *err) {           \
        static const loss_names names = {#name "_" #kind,                                          \
                                         #name "_" #kind "." #y,                                   \
                                         #name "_" #kind ".target",                                \
                                         #name "_" #kind ".loss",                                  \
                                         #name "_" #kind "." #result,                              \
                                         attrs,                                                    \
                                         LABELS};                                                  \
        return check_##kind(args, &names, err);                                                    \
    }                                                                                              \
    uint64_t art_op_##name##_##kind##_workspace(const art_op_args *args) {                         \
        return sizeof(float) * (args->n_attrs - attrs);                                            \
    }                                                                                              \
    art_status art_op_##name##_##kind##_run(const art_op_args *args, art_error *err) {             \
        return run(args, job(args), dx, correct, err);                                             \
    }
#define LABEL_LOSS(name, job, y, dy, attrs)                                                        \
    LABEL_OP(name, job, grad, y, dy, attrs, art_out(args, RESULT), NULL)                           \
    LABEL_OP(name, job, eval, y, correct, attrs, NULL, args->operand[RESULT].data)

LABEL_LOSS(cross_entropy, job_of, logits, dlogits, 0)
LABEL_LOSS(weighted_cross_entropy, weighted_job, y, dy, WEIGHTED_ATTRS)
LABEL_LOSS(nll, nll_job, y, dy, NLL_ATTRS)

/* Probabilities and places have no count of right rows. */
#define FLOAT_OP(NAME, op, job, attrs, targets, check, dx)                                         \
    _Static_assert((int)ART_##NAME##_Y == (int)Y && (int)ART_##NAME##_TARGET == (int)TARGET &&     \
                       (int)ART_##NAME##_LOSS == (int)LOSS,                                        \
                   "all losses have their operands in one order");                                 \
    art_status art_op_##op##_check(const art_op_args *args, art_error *err) {                      \
        static const loss_names names = {#op,       #op ".y", #op ".target", #op ".loss",          \
                                         #op ".dy", attrs,    targets};                            \
        return check(args, &names, err);                                                           \
    }                                                                                              \
    uint64_t art_op_##op##_workspace(const art_op_args *args) {                                    \
        return sizeof(float) * (args->n_attrs - attrs);                                            \
    }                                                                                              \
    art_status art_op_##op##_run(const art_op_args *args, art_error *err) {                        \
        return run(args, job(args, ART_##NAME##_WS), dx, NULL, err);                               \
    }
#define FLOAT_LOSS(NAME, op, job, attrs, targets)                                                  \
    _Static_assert((int)ART_##NAME##_GRAD_DY == (int)RESULT, "the gradient is the result");        \
    FLOAT_OP(NAME##_GRAD, op##_grad, job, attrs, targets, check_grad, art_out(args, RESULT))       \
    FLOAT_OP(NAME##_EVAL, op##_eval, job, attrs, targets, check, NULL)

FLOAT_LOSS(SOFT_CROSS_ENTROPY, soft_cross_entropy, soft_job, SOFT_ATTRS, SOFT)
FLOAT_LOSS(PLACES_CROSS_ENTROPY, places_cross_entropy, places_job, WEIGHTED_ATTRS, PLACES)
