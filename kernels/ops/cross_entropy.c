/* Softmax cross entropy of logits [N, classes] with labels i32[N], mean over N.
 * -log softmax(x)[t] = log(sum exp(x - max)) - (x[t] - max): finite for all finite logits. */
#include "core/math.h"
#include "ops/op_functions.h"
#include "ops/spans.h"

_Static_assert((int)ART_CROSS_ENTROPY_GRAD_LOGITS == (int)ART_CROSS_ENTROPY_EVAL_LOGITS &&
                   (int)ART_CROSS_ENTROPY_GRAD_TARGET == (int)ART_CROSS_ENTROPY_EVAL_TARGET &&
                   (int)ART_CROSS_ENTROPY_GRAD_LOSS == (int)ART_CROSS_ENTROPY_EVAL_LOSS,
               "both operations share their first operands");
enum { LOGITS = ART_CROSS_ENTROPY_GRAD_LOGITS, TARGET = ART_CROSS_ENTROPY_GRAD_TARGET };

/* Blocks of rows, each with its own partial sums: at most so many. */
enum { MAX_BLOCKS = 64 };

typedef struct loss_job {
    const art_vec_kernels *vec;
    const float *logits;
    const int32_t *target;
    float *dlogits; /* NULL: only loss and hits */
    size_t rows, classes, block;
    double loss[MAX_BLOCKS];
    int64_t hits[MAX_BLOCKS]; /* rows whose first maximum is the target */
} loss_job;

/* The row's loss; *sum is that of its exponentials, which replace dlogits if there is one. */
static double row_loss(const loss_job *job, size_t row, double *sum) {
    const float *x = job->logits + row * job->classes;
    float *e = job->dlogits ? job->dlogits + row * job->classes : NULL;
    float max = job->vec->row_max(x, job->classes);
    double place = (double)x[job->target[row]] - (double)max; /* before e overwrites x */
    *sum = job->vec->exp_sum(e, x, max, job->classes);
    return art_log(*sum) - place;
}

/* dlogits = (softmax - one at the label) / N from the exponentials in place. */
static void row_gradient(const loss_job *job, size_t row, double sum) {
    float *e = job->dlogits + row * job->classes;
    const int32_t label = job->target[row];
    double whole = sum * (double)job->rows;
    /* In double: 1 - softmax of a sure prediction keeps its leading digits. */
    float at_label = (float)(((double)e[label] - sum) / whole);
    job->vec->scale(e, e, (float)(1.0 / whole), job->classes);
    e[label] = at_label;
}

/* Whether the first maximum is at the label; rows with NaN were found out by their loss. */
static int64_t row_hit(const loss_job *job, size_t row) {
    const float *x = job->logits + row * job->classes;
    const float at_label = x[job->target[row]];
    if (at_label != job->vec->row_max(x, job->classes)) {
        return 0;
    }
    return job->vec->row_max(x, (size_t)job->target[row]) < at_label || job->target[row] == 0;
}

static void run_block(void *context, unsigned tile, unsigned thread) {
    loss_job *job = context;
    size_t first = tile * job->block;
    size_t last = first + job->block < job->rows ? first + job->block : job->rows;
    double total = 0.0;
    int64_t hits = 0;
    (void)thread;
    for (size_t row = first; row < last; row++) {
        double sum, loss = row_loss(job, row, &sum);
        total += loss;
        if (job->dlogits) {
            row_gradient(job, row, sum);
        } else {
            hits += loss == loss ? row_hit(job, row) : 0;
        }
    }
    job->loss[tile] = total;
    job->hits[tile] = hits;
}

static art_status check_labels(const loss_job *job, art_error *err) {
    for (size_t row = 0; row < job->rows; row++) {
        int32_t label = job->target[row];
        ART_FAIL_IF(label < 0 || (size_t)label >= job->classes, err, ART_LABEL,
                    "label %d of sample %zu in this batch is out of range: the model has %zu "
                    "classes, labels must be 0 to %zu",
                    label, row, job->classes, job->classes - 1);
    }
    return ART_OK;
}

static art_status run(const art_op_args *args, float *dlogits, int64_t *correct, art_error *err) {
    const art_array *x = &args->operand[LOGITS];
    loss_job job = {.vec = art_vec(args),
                    .logits = x->data,
                    .target = args->operand[TARGET].data,
                    .dlogits = dlogits,
                    .rows = x->dims[0],
                    .classes = x->dims[1]};
    ART_TRY(check_labels(&job, err));
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
    *(double *)args->operand[ART_CROSS_ENTROPY_GRAD_LOSS].data = loss / (double)job.rows;
    if (correct) {
        *correct = hits;
    }
    return ART_OK;
}

static art_status check(const art_op_args *args, const char *logits, const char *target,
                        const char *loss, art_error *err) {
    const art_array *x = &args->operand[LOGITS];
    ART_TRY(art_check_operand(args, LOGITS, logits, ART_DTYPE_F32, 2, err));
    ART_TRY(art_check_operand(args, TARGET, target, ART_DTYPE_I32, 1, err));
    ART_TRY(art_check_dims(args, TARGET, target, x->dims, err));
    ART_TRY(art_check_batched(args, TARGET, target, x->batched, err));
    return art_check_vector(args, ART_CROSS_ENTROPY_GRAD_LOSS, loss, ART_DTYPE_F64, 1, err);
}

art_status art_op_cross_entropy_grad_check(const art_op_args *args, art_error *err) {
    const unsigned dlogits = ART_CROSS_ENTROPY_GRAD_DLOGITS;
    ART_TRY(check(args, "cross_entropy_grad.logits", "cross_entropy_grad.target",
                  "cross_entropy_grad.loss", err));
    ART_TRY(art_check_operand(args, dlogits, "cross_entropy_grad.dlogits", ART_DTYPE_F32, 2, err));
    ART_TRY(art_check_dims(args, dlogits, "cross_entropy_grad.dlogits", args->operand[LOGITS].dims,
                           err));
    return art_check_batched(args, dlogits, "cross_entropy_grad.dlogits",
                             args->operand[LOGITS].batched, err);
}

ART_NO_WORKSPACE(cross_entropy_grad)

art_status art_op_cross_entropy_grad_run(const art_op_args *args, art_error *err) {
    return run(args, art_out(args, ART_CROSS_ENTROPY_GRAD_DLOGITS), NULL, err);
}

art_status art_op_cross_entropy_eval_check(const art_op_args *args, art_error *err) {
    ART_TRY(check(args, "cross_entropy_eval.logits", "cross_entropy_eval.target",
                  "cross_entropy_eval.loss", err));
    return art_check_vector(args, ART_CROSS_ENTROPY_EVAL_CORRECT, "cross_entropy_eval.correct",
                            ART_DTYPE_I64, 1, err);
}

ART_NO_WORKSPACE(cross_entropy_eval)

art_status art_op_cross_entropy_eval_run(const art_op_args *args, art_error *err) {
    return run(args, NULL, args->operand[ART_CROSS_ENTROPY_EVAL_CORRECT].data, err);
}
