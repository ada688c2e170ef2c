/* Rows of a table by number: indices are whole numbers in floats, exact up to 2^24. The gradient of
 * the table adds up what belongs to each row in the order of the indices; a column of the table
 * belongs to one tile, so that threads change nothing. One small copy of the code serves all
 * levels. A table that a linear layer shares lies as that layer's weight, turned: a column is what
 * a row is otherwise. */
#include <string.h>

#include "ops/embedding.h"
#include "ops/op_functions.h"
#include "ops/spans.h"

enum { TILE = 16384 /* elements */ };

/* Slots: the indices, then those of the table and of the values by operation. */
enum { X };
_Static_assert((int)ART_EMBEDDING_FWD_X == (int)X && (int)ART_EMBEDDING_GRAD_X == (int)X &&
                   (int)ART_EMBEDDING_FWD_A_TURNED == (int)ART_EMBEDDING_GRAD_A_TURNED,
               "all operations have the indices and whether the table is turned first");

typedef struct table_job {
    const float *x;
    float *table;  /* read only where it is a weight */
    float *values; /* of every index; read only where they are a gradient */
    uint64_t n, rows_of_tile;
    size_t columns, row_step, column_step; /* of the table */
    int64_t padding;
} table_job;

/* ---- checks ---- */

art_status art_check_table(const art_op_args *args, const art_table_slots *at, art_error *err) {
    const art_array *x = &args->operand[at->x], *w = &args->operand[at->table];
    const unsigned turned = at->turned != 0;
    uint32_t dims[ART_MAX_DIMS] = {0};
    ART_TRY(art_check_operand(args, at->x, "embedding.x", ART_DTYPE_F32, ART_ANY_RANK, err));
    ART_TRY(art_check_operand(args, at->table, at->table_name, ART_DTYPE_F32, 2, err));
    ART_TRY(art_check_batched(args, at->table, at->table_name, 0, err));
    ART_FAIL_IF(x->ndim >= ART_MAX_DIMS, err, ART_SHAPE,
                "embedding.x has %u dimensions, can have %u at most", x->ndim, ART_MAX_DIMS - 1);
    ART_FAIL_IF(w->dims[turned] > ART_MAX_INDICES, err, ART_SHAPE,
                "%s has %u rows, %u at most have numbers that are exact", at->table_name,
                w->dims[turned], ART_MAX_INDICES);
    memcpy(dims, x->dims, x->ndim * sizeof dims[0]);
    dims[x->ndim] = w->dims[!turned];
    const char *name = at->values_name;
    ART_TRY(art_check_operand(args, at->values, name, ART_DTYPE_F32, x->ndim + 1u, err));
    ART_TRY(art_check_dims(args, at->values, name, dims, err));
    return art_check_batched(args, at->values, name, x->batched, err);
}

static unsigned turned_of(const art_op_args *args) {
    return args->attr[ART_EMBEDDING_FWD_A_TURNED].i != 0;
}

art_status art_op_embedding_fwd_check(const art_op_args *args, art_error *err) {
    const art_table_slots at = {X,
                                ART_EMBEDDING_FWD_W,
                                ART_EMBEDDING_FWD_Y,
                                turned_of(args),
                                "embedding_fwd.w",
                                "embedding_fwd.y"};
    return art_check_table(args, &at, err);
}

art_status art_op_embedding_grad_check(const art_op_args *args, art_error *err) {
    const art_table_slots at = {X,
                                ART_EMBEDDING_GRAD_DW,
                                ART_EMBEDDING_GRAD_DY,
                                turned_of(args),
                                "embedding_grad.dw",
                                "embedding_grad.dy"};
    return art_check_table(args, &at, err);
}

ART_NO_WORKSPACE(embedding_fwd)
ART_NO_WORKSPACE(embedding_grad)

/* ---- runs ---- */

static table_job job_of(const art_op_args *args, unsigned table, unsigned values) {
    const art_array *w = &args->operand[table];
    const unsigned turned = turned_of(args);
    return (table_job){.x = art_in(args, X),
                       .table = art_out(args, table),
                       .values = art_out(args, values),
                       .n = art_count(&args->operand[X]),
                       .columns = w->dims[!turned],
                       .row_step = turned ? 1 : w->dims[1],
                       .column_step = turned ? w->dims[1] : 1,
                       .padding = -1};
}

art_status art_check_indices(const art_array *x, uint32_t rows, art_error *err) {
    const float *index = x->data;
    for (uint64_t i = 0; i < art_count(x); i++) {
        ART_FAIL_IF(!art_is_index(index[i], rows), err, ART_LABEL,
                    "index %g at place %llu of the batch is out of range: the table has rows 0 to "
                    "%u, indices are their numbers",
                    art_shown(index[i]), (unsigned long long)i, rows - 1);
    }
    return ART_OK;
}

static void gather(void *context, unsigned tile, unsigned thread) {
    const table_job *job = context;
    uint64_t first = tile * job->rows_of_tile, last = first + job->rows_of_tile;
    (void)thread;
    for (uint64_t i = first; i < last && i < job->n; i++) {
        const float *row = job->table + (size_t)job->x[i] * job->row_step;
        float *to = job->values + i * job->columns;
        for (size_t c = 0; c < job->columns; c++) {
            to[c] = row[c * job->column_step];
        }
    }
}

static void scatter(void *context, unsigned tile, unsigned thread) {
    const table_job *job = context;
    size_t first = (size_t)tile * ART_COLUMNS_OF_TILE, last = first + ART_COLUMNS_OF_TILE;
    last = last < job->columns ? last : job->columns;
    (void)thread;
    for (uint64_t i = 0; i < job->n; i++) {
        const size_t row = (size_t)job->x[i];
        if ((int64_t)row == job->padding) {
            continue;
        }
        float *to = job->table + row * job->row_step;
        const float *dy = job->values + i * job->columns;
        for (size_t c = first; c < last; c++) {
            to[c * job->column_step] += dy[c];
        }
    }
}

art_status art_op_embedding_fwd_run(const art_op_args *args, art_error *err) {
    table_job job = job_of(args, ART_EMBEDDING_FWD_W, ART_EMBEDDING_FWD_Y);
    const art_array *w = &args->operand[ART_EMBEDDING_FWD_W];
    ART_TRY(art_check_indices(&args->operand[X], w->dims[turned_of(args)], err));
    job.rows_of_tile = art_ceil_div(TILE, job.columns);
    art_pool_run(args->pool, art_tiles(job.n, job.rows_of_tile),
                 2.0 * (double)job.n * (double)job.columns, gather, &job);
    return ART_OK;
}

art_status art_op_embedding_grad_run(const art_op_args *args, art_error *err) {
    table_job job = job_of(args, ART_EMBEDDING_GRAD_DW, ART_EMBEDDING_GRAD_DY);
    const art_array *dw = &args->operand[ART_EMBEDDING_GRAD_DW];
    ART_TRY(art_check_indices(&args->operand[X], dw->dims[turned_of(args)], err));
    job.padding = args->attr[ART_EMBEDDING_GRAD_A_PADDING].i;
    memset(dw->data, 0, (size_t)art_count(dw) * sizeof(float));
    art_pool_run(args->pool, art_tiles(job.columns, ART_COLUMNS_OF_TILE),
                 2.0 * (double)job.n * (double)job.columns, scatter, &job);
    return ART_OK;
}
