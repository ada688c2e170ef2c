/* A table's gradient in the rows of a batch alone, and the updates that leave all other rows as
 * they are: memory and work follow the batch, not the table.
 *
 * The gradient has a row for each index. The first one of every row of the table has the sum, in
 * the order of the batch and from 0 as in the whole table's gradient; those of the same index after
 * it are 0, which no clipping and no update sees. So the weights have the bits of that gradient,
 * and only the sum of squares that clips by the norm goes over other places: these rows. A column
 * belongs to one tile, so that threads change nothing. */
#include "ops/embedding.h"
#include "ops/op_functions.h"
#include "ops/optimizer.h"
#include "ops/spans.h"

/* Slots of both updates. */
enum { W, ROWS, X, SCALE };
_Static_assert((int)ART_EMBEDDING_SGD_STEP_W == (int)W &&
                   (int)ART_EMBEDDING_SGD_STEP_ROWS == (int)ROWS &&
                   (int)ART_EMBEDDING_SGD_STEP_X == (int)X &&
                   (int)ART_EMBEDDING_SGD_STEP_SCALE == (int)SCALE &&
                   (int)ART_EMBEDDING_ADAGRAD_STEP_W == (int)W &&
                   (int)ART_EMBEDDING_ADAGRAD_STEP_ROWS == (int)ROWS &&
                   (int)ART_EMBEDDING_ADAGRAD_STEP_X == (int)X &&
                   (int)ART_EMBEDDING_ADAGRAD_STEP_SCALE == (int)SCALE,
               "updates of rows have their first operands in common");
_Static_assert((int)ART_EMBEDDING_SGD_STEP_A_NESTEROV == (int)ART_SGD_STEP_A_NESTEROV &&
                   (int)ART_EMBEDDING_ADAGRAD_STEP_A_EPS == (int)ART_ADAGRAD_STEP_A_EPS,
               "updates of rows have the attributes of the whole table's");

/* Columns [first, first + n) of a tile. */
static size_t columns_of(unsigned tile, size_t columns, size_t *first) {
    *first = (size_t)tile * ART_COLUMNS_OF_TILE;
    return columns - *first < ART_COLUMNS_OF_TILE ? columns - *first : ART_COLUMNS_OF_TILE;
}

/* ---- gradient ---- */

art_status art_op_embedding_grad_rows_check(const art_op_args *args, art_error *err) {
    enum { INDEX = ART_EMBEDDING_GRAD_ROWS_X, DY = ART_EMBEDDING_GRAD_ROWS_DY };
    const art_array *x = &args->operand[INDEX];
    uint32_t dims[ART_MAX_DIMS] = {0};
    ART_TRY(
        art_check_operand(args, INDEX, "embedding_grad_rows.x", ART_DTYPE_F32, ART_ANY_RANK, err));
    ART_FAIL_IF(x->ndim >= ART_MAX_DIMS || art_count(x) > ART_MAX_INDICES, err, ART_SHAPE,
                "embedding_grad_rows.x has %llu elements in %u dimensions, can have %u in %u",
                (unsigned long long)art_count(x), x->ndim, ART_MAX_INDICES, ART_MAX_DIMS - 1);
    ART_TRY(
        art_check_operand(args, DY, "embedding_grad_rows.dy", ART_DTYPE_F32, x->ndim + 1u, err));
    for (unsigned i = 0; i <= x->ndim; i++) {
        dims[i] = i < x->ndim ? x->dims[i] : args->operand[DY].dims[i];
    }
    ART_TRY(art_check_dims(args, DY, "embedding_grad_rows.dy", dims, err));
    ART_TRY(art_check_batched(args, DY, "embedding_grad_rows.dy", x->batched, err));
    ART_TRY(art_check_operand(args, ART_EMBEDDING_GRAD_ROWS_ROWS, "embedding_grad_rows.rows",
                              ART_DTYPE_F32, x->ndim + 1u, err));
    ART_TRY(
        art_check_dims(args, ART_EMBEDDING_GRAD_ROWS_ROWS, "embedding_grad_rows.rows", dims, err));
    return art_check_batched(args, ART_EMBEDDING_GRAD_ROWS_ROWS, "embedding_grad_rows.rows",
                             x->batched, err);
}

/* The places of all indices, in the order of the rows that they name. */
uint64_t art_op_embedding_grad_rows_workspace(const art_op_args *args) {
    return art_mul_saturated(art_count(&args->operand[ART_EMBEDDING_GRAD_ROWS_X]),
                             sizeof(uint32_t));
}

typedef struct collect_job {
    const float *x, *dy;
    float *rows;
    uint32_t *order;
    size_t n, columns;
    float padding;
} collect_job;

static bool before(const float *x, uint32_t a, uint32_t b) {
    return x[a] < x[b] || (x[a] == x[b] && a < b);
}

/* Let the place at `root` sink below all that come after it. */
static void sink(const collect_job *job, size_t root, size_t n) {
    uint32_t *order = job->order;
    for (size_t child = 2 * root + 1; child < n; root = child, child = 2 * root + 1) {
        child += child + 1 < n && before(job->x, order[child], order[child + 1]);
        if (!before(job->x, order[root], order[child])) {
            return;
        }
        uint32_t place = order[root];
        order[root] = order[child];
        order[child] = place;
    }
}

/* A heap sorts in the space of the result, and never slowly. */
static void sort_places(const collect_job *job) {
    for (size_t i = 0; i < job->n; i++) {
        job->order[i] = (uint32_t)i;
    }
    for (size_t root = job->n / 2; root-- > 0;) {
        sink(job, root, job->n);
    }
    for (size_t last = job->n; last-- > 1;) {
        uint32_t largest = job->order[0];
        job->order[0] = job->order[last];
        job->order[last] = largest;
        sink(job, 0, last);
    }
}

static void collect(void *context, unsigned tile, unsigned thread) {
    const collect_job *job = context;
    float *sum = NULL;
    size_t first, n = columns_of(tile, job->columns, &first);
    (void)thread;
    for (size_t k = 0; k < job->n; k++) {
        const size_t place = job->order[k];
        const float *dy = job->dy + place * job->columns + first;
        float *row = job->rows + place * job->columns + first;
        const bool again = k > 0 && job->x[job->order[k - 1]] == job->x[place];
        const bool counts = job->x[place] != job->padding;
        sum = again ? sum : row;
        for (size_t c = 0; c < n; c++) {
            const float value = counts ? dy[c] : 0.0f;
            row[c] = 0.0f; /* may be dy */
            sum[c] += value;
        }
    }
}

art_status art_op_embedding_grad_rows_run(const art_op_args *args, art_error *err) {
    const art_array *x = &args->operand[ART_EMBEDDING_GRAD_ROWS_X];
    collect_job job = {
        .x = x->data,
        .dy = art_in(args, ART_EMBEDDING_GRAD_ROWS_DY),
        .rows = art_out(args, ART_EMBEDDING_GRAD_ROWS_ROWS),
        .order = args->operand[ART_EMBEDDING_GRAD_ROWS_WS].data,
        .n = (size_t)art_count(x),
        .columns = args->operand[ART_EMBEDDING_GRAD_ROWS_ROWS].dims[x->ndim],
        .padding = (float)args->attr[ART_EMBEDDING_GRAD_ROWS_A_PADDING].i,
    };
    (void)err;
    sort_places(&job);
    art_pool_run(args->pool, art_tiles(job.columns, ART_COLUMNS_OF_TILE),
                 2.0 * (double)job.n * (double)job.columns, collect, &job);
    return ART_OK;
}

/* ---- updates ---- */

/* Update n elements of the table from `at` on, whose gradients stand in the rows from `from` on. */
typedef void (*row_fn)(const art_op_args *args, const void *constants, size_t at, size_t from,
                       size_t n);

typedef struct update_job {
    const art_op_args *args;
    const void *constants;
    row_fn update;
} update_job;

static void update_columns(void *context, unsigned tile, unsigned thread) {
    const update_job *job = context;
    const art_array *x = &job->args->operand[X];
    const float *index = x->data;
    const size_t columns = job->args->operand[W].dims[1], count = (size_t)art_count(x);
    size_t first, n = columns_of(tile, columns, &first);
    (void)thread;
    for (size_t i = 0; i < count; i++) {
        job->update(job->args, job->constants, (size_t)index[i] * columns + first,
                    i * columns + first, n);
    }
}

static art_status update(const art_op_args *args, const void *constants, row_fn fn, double work,
                         art_error *err) {
    update_job job = {args, constants, fn};
    ART_TRY(art_check_indices(&args->operand[X], args->operand[W].dims[0], err));
    art_pool_run(args->pool, art_tiles(args->operand[W].dims[1], ART_COLUMNS_OF_TILE),
                 work * (double)art_count(&args->operand[ROWS]), update_columns, &job);
    return ART_OK;
}

static art_status check_update(const art_op_args *args, const char *w, const char *rows,
                               const char *scale, art_error *err) {
    const art_table_slots at = {X, W, ROWS, 0, w, rows};
    ART_TRY(art_check_table(args, &at, err));
    return art_check_optional_vector(args, SCALE, scale, ART_DTYPE_F32, 1, err);
}

art_status art_op_embedding_sgd_step_check(const art_op_args *args, art_error *err) {
    const art_attr *attr = args->attr;
    ART_FAIL_IF(attr[ART_SGD_STEP_A_MOMENTUM].f != 0.0 ||
                    attr[ART_SGD_STEP_A_WEIGHT_DECAY].f != 0.0,
                err, ART_PLAN_FORMAT,
                "embedding_sgd_step has momentum %g and weight_decay %g, which change all rows: 0 "
                "needed",
                attr[ART_SGD_STEP_A_MOMENTUM].f, attr[ART_SGD_STEP_A_WEIGHT_DECAY].f);
    return check_update(args, "embedding_sgd_step.w", "embedding_sgd_step.rows",
                        "embedding_sgd_step.scale", err);
}

ART_NO_WORKSPACE(embedding_sgd_step)

static void sgd(const art_op_args *args, const void *constants, size_t at, size_t from, size_t n) {
    art_vec(args)->sgd(art_out(args, W) + at, art_in(args, ROWS) + from, NULL, n, constants);
}

art_status art_op_embedding_sgd_step_run(const art_op_args *args, art_error *err) {
    const art_vec_sgd k = art_sgd_constants(args, SCALE);
    return update(args, &k, sgd, 4, err);
}

art_status art_op_embedding_adagrad_step_check(const art_op_args *args, art_error *err) {
    const art_attr *attr = args->attr;
    const unsigned sum = ART_EMBEDDING_ADAGRAD_STEP_SUM;
    ART_FAIL_IF(attr[ART_ADAGRAD_STEP_A_WEIGHT_DECAY].f != 0.0 ||
                    attr[ART_ADAGRAD_STEP_A_EPS].f == 0.0,
                err, ART_PLAN_FORMAT,
                "embedding_adagrad_step has weight_decay %g and eps %g; all rows change unless the "
                "first is 0 and the other is not",
                attr[ART_ADAGRAD_STEP_A_WEIGHT_DECAY].f, attr[ART_ADAGRAD_STEP_A_EPS].f);
    ART_TRY(check_update(args, "embedding_adagrad_step.w", "embedding_adagrad_step.rows",
                         "embedding_adagrad_step.scale", err));
    ART_TRY(art_check_operand(args, sum, "embedding_adagrad_step.sum", ART_DTYPE_F32, 2, err));
    ART_TRY(art_check_dims(args, sum, "embedding_adagrad_step.sum", args->operand[W].dims, err));
    return art_check_batched(args, sum, "embedding_adagrad_step.sum", 0, err);
}

ART_NO_WORKSPACE(embedding_adagrad_step)

static void adagrad(const art_op_args *args, const void *constants, size_t at, size_t from,
                    size_t n) {
    art_vec(args)->adagrad(art_out(args, W) + at, art_in(args, ROWS) + from,
                           art_out(args, ART_EMBEDDING_ADAGRAD_STEP_SUM) + at, n, constants);
}

art_status art_op_embedding_adagrad_step_run(const art_op_args *args, art_error *err) {
    const art_vec_adagrad k = art_adagrad_constants(args, SCALE);
    return update(args, &k, adagrad, 10, err);
}
