/* matmul: y = x z for each pair of matrices, either of them transposed as it lies. Rows of x are
 * read where they are; its columns, where it is transposed, by the leaf of weight gradients. z is
 * packed in panels. Terms are summed in blocks of ART_GEMM_KC in ascending order. */
#include <string.h>

#include "ops/op_functions.h"
#include "ops/product.h"

enum { BLOCK_ROWS = 128 }; /* rows of a tile, which packs its panel of z once */

typedef struct matmul_job {
    const art_gemm_kernels *gemm;
    const float *x, *z;
    float *y, *workspace;
    uint64_t rows, terms, columns; /* of one product */
    bool x_turned, z_turned;
    size_t scratch_floats;
    uint64_t panels, blocks, block_rows, first_tile;
    unsigned panel_columns;
} matmul_job;

static uint32_t side(const art_array *a, unsigned from_last) {
    return a->dims[a->ndim - from_last];
}

/* Rows [0, m) of y from `row` on against terms [k0, k0 + k), x by rows. */
static void by_rows(const matmul_job *job, const float *x, uint64_t row, unsigned rows, uint64_t k0,
                    art_gemm_rows *tile, float *y) {
    const float *a[ART_GEMM_MR_MAX];
    float *c[ART_GEMM_MR_MAX];
    unsigned mr = job->gemm->mr, steps = (rows - 1) / mr + 1;
    for (unsigned step = 0; step < steps; step++) {
        unsigned first = rows * step / steps;
        tile->m = rows * (step + 1) / steps - first;
        for (unsigned r = 0; r < tile->m; r++) {
            a[r] = x + (row + first + r) * job->terms + k0;
            c[r] = y + (row + first + r) * job->columns;
        }
        tile->a = a;
        tile->c = c;
        job->gemm->rows(tile);
    }
    tile->a = NULL;
    tile->c = NULL;
}

/* The same, x by columns: row k of the matrix that lies there has the factors of term k. */
static void by_columns(const matmul_job *job, const float *x, uint64_t row, unsigned rows,
                       uint64_t k0, const art_gemm_rows *tile, float *y) {
    const float *from[ART_GEMM_KC];
    uint32_t at[ART_GEMM_KC];
    art_gemm_pixels product = {.x = from, .row = at, .b = tile->b, .n = tile->n};
    product.ldc = (size_t)job->columns;
    product.pixels = tile->k;
    product.store = tile->store;
    for (unsigned k = 0; k < tile->k; k++) {
        from[k] = x + (k0 + k) * job->rows + row;
        at[k] = k * (uint32_t)tile->ldb;
    }
    unsigned mr = job->gemm->mr, steps = (rows - 1) / mr + 1;
    for (unsigned step = 0; step < steps; step++) {
        unsigned first = rows * step / steps;
        product.offset = first;
        product.m = rows * (step + 1) / steps - first;
        product.c = y + (row + first) * job->columns;
        job->gemm->pixels(&product);
    }
}

static void matmul_tile(void *context, unsigned index, unsigned thread) {
    const matmul_job *job = context;
    uint64_t tile = job->first_tile + index, column = tile % job->panels * job->panel_columns;
    uint64_t row = tile / job->panels % job->blocks * job->block_rows;
    uint64_t product = tile / job->panels / job->blocks, wide = job->columns - column;
    uint64_t left = job->rows - row;
    unsigned rows = (unsigned)(left < job->block_rows ? left : job->block_rows);
    float *packed = art_product_scratch(job->workspace, job->scratch_floats, thread);
    const float *x = job->x + product * job->rows * job->terms;
    const float *z = job->z + product * job->terms * job->columns;
    float *y = job->y + product * job->rows * job->columns + column;
    art_gemm_rows part = {.b = packed, .taps = 1, .store = ART_GEMM_SET};
    part.n = (unsigned)(wide < job->panel_columns ? wide : job->panel_columns);
    part.ldb = art_ceil_div(part.n, job->gemm->width) * job->gemm->width;
    for (uint64_t k0 = 0; k0 < job->terms; k0 += ART_GEMM_KC) {
        uint64_t rest = job->terms - k0;
        part.k = (unsigned)(rest < ART_GEMM_KC ? rest : ART_GEMM_KC);
        if (job->z_turned) {
            job->gemm->transpose(z + column * job->terms + k0, (size_t)job->terms, part.k, part.n,
                                 packed);
        } else {
            job->gemm->copy(z + k0 * job->columns + column, (size_t)job->columns, part.k, part.n,
                            packed);
        }
        if (job->x_turned) {
            by_columns(job, x, row, rows, k0, &part, y);
        } else {
            by_rows(job, x, row, rows, k0, &part, y);
        }
        part.store = ART_GEMM_ADD;
    }
}

uint64_t art_op_matmul_workspace(const art_op_args *args) {
    const art_array *x = &args->operand[ART_MATMUL_X], *y = &args->operand[ART_MATMUL_Y];
    if (x->ndim < 2 || y->ndim < 2) {
        return 0;
    }
    unsigned terms = side(x, args->attr[ART_MATMUL_A_X_TURNED].i ? 2 : 1);
    return art_product_workspace(terms, side(y, 1), args->threads);
}

/* `slot` has y's leading dimensions and then rows and columns, turned or not. */
static art_status check_matrix(const art_op_args *args, unsigned slot, const char *name,
                               uint32_t rows, uint32_t columns, bool turned, art_error *err) {
    const art_array *y = &args->operand[ART_MATMUL_Y];
    uint32_t dims[ART_MAX_DIMS];
    memcpy(dims, y->dims, sizeof dims);
    dims[y->ndim - 2] = turned ? columns : rows;
    dims[y->ndim - 1] = turned ? rows : columns;
    ART_TRY(art_check_dims(args, slot, name, dims, err));
    return art_check_batched(args, slot, name, y->batched, err);
}

art_status art_op_matmul_check(const art_op_args *args, art_error *err) {
    enum { X = ART_MATMUL_X, Z = ART_MATMUL_Z, Y = ART_MATMUL_Y };
    static const char *const names[] = {"matmul.x", "matmul.z", "matmul.y"};
    const unsigned slots[] = {X, Z, Y};
    unsigned rank = args->operand[Y].ndim;
    for (unsigned i = 0; i < 3; i++) {
        ART_TRY(art_check_operand(args, slots[i], names[i], ART_DTYPE_F32, ART_ANY_RANK, err));
        ART_FAIL_IF(args->operand[slots[i]].ndim != rank || rank < 3, err, ART_SHAPE,
                    "%s has %u dimensions, all operands need as many, at least 3", names[i],
                    args->operand[slots[i]].ndim);
    }
    bool x_turned = args->attr[ART_MATMUL_A_X_TURNED].i != 0;
    bool z_turned = args->attr[ART_MATMUL_A_Z_TURNED].i != 0;
    uint32_t rows = side(&args->operand[Y], 2), columns = side(&args->operand[Y], 1);
    uint32_t terms = side(&args->operand[X], x_turned ? 2 : 1);
    ART_TRY(check_matrix(args, X, names[0], rows, terms, x_turned, err));
    ART_TRY(check_matrix(args, Z, names[1], terms, columns, z_turned, err));
    return art_check_workspace(args, ART_MATMUL_WS, "matmul.ws", art_op_matmul_workspace(args),
                               err);
}

art_status art_op_matmul_run(const art_op_args *args, art_error *err) {
    enum { MOST_TILES = 1 << 30 };
    const art_array *o = args->operand;
    unsigned threads = art_pool_threads(args->pool);
    matmul_job job = {.gemm = args->level->kernels.gemm};
    (void)err;
    job.x = o[ART_MATMUL_X].data;
    job.z = o[ART_MATMUL_Z].data;
    job.y = o[ART_MATMUL_Y].data;
    job.workspace = o[ART_MATMUL_WS].data;
    job.x_turned = args->attr[ART_MATMUL_A_X_TURNED].i != 0;
    job.z_turned = args->attr[ART_MATMUL_A_Z_TURNED].i != 0;
    job.rows = side(&o[ART_MATMUL_Y], 2);
    job.columns = side(&o[ART_MATMUL_Y], 1);
    job.terms = side(&o[ART_MATMUL_X], job.x_turned ? 2 : 1);
    job.scratch_floats = (size_t)art_product_floats(job.terms, job.columns);
    job.panel_columns = art_panel_columns(job.gemm, job.gemm->nr, (int64_t)job.columns);
    job.panels = art_ceil_div(job.columns, job.panel_columns);
    uint64_t products = art_count(&o[ART_MATMUL_Y]) / job.rows / job.columns;
    /* A tile packs its panel for all its rows: fewer rows only to keep threads busy. */
    bool enough = threads == 1 || products * job.panels >= 4 * threads;
    job.block_rows = enough ? BLOCK_ROWS : 4 * job.gemm->mr;
    job.blocks = art_ceil_div(job.rows, job.block_rows);
    double cost = (double)products * (double)job.rows * (double)job.columns * (double)job.terms;
    for (uint64_t left = products * job.panels * job.blocks; left > 0;) {
        unsigned count = left < MOST_TILES ? (unsigned)left : MOST_TILES;
        art_pool_run(args->pool, count, cost, matmul_tile, &job);
        job.first_tile += count;
        left -= count;
    }
    return ART_OK;
}
