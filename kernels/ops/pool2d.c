/* Max and average pooling over channels-last images. Gradients are gathered: every input pixel
 * adds up the windows that cover it, in a fixed order, so rows are independent tiles. */
#include "ops/op_functions.h"
#include "ops/spans.h"

/* Elements of one tile, in whole image rows. */
enum { TILE_ELEMENTS = 4096 };

/* Names of an operation's parts in messages. */
typedef struct pool_names {
    const char *in, *out, *idx;
    const char *kernel_h, *pad_h, *pad_w;
} pool_names;

#define POOL_NAMES(op, in, out)                                                                    \
    { op in, op out, op ".idx", op ".kernel_h", op ".pad_h", op ".pad_w" }

_Static_assert((int)ART_MAXPOOL2D_FWD_A_PAD_W == (int)ART_AVGPOOL2D_FWD_A_PAD_W &&
                   (int)ART_MAXPOOL2D_FWD_A_DIL_W == (int)ART_MAXPOOL2D_GRAD_A_DIL_W &&
                   (int)ART_MAXPOOL2D_FWD_A_OVER_W == (int)ART_AVGPOOL2D_FWD_A_OVER_W &&
                   (int)ART_MAXPOOL2D_FWD_A_OVER_W == (int)ART_MAXPOOL2D_GRAD_A_OVER_W &&
                   (int)ART_AVGPOOL2D_FWD_A_DIVISOR == (int)ART_AVGPOOL2D_GRAD_A_DIVISOR &&
                   (int)ART_AVGPOOL2D_FWD_A_OVER_W == (int)ART_AVGPOOL2D_GRAD_A_OVER_W,
               "all pooling operations share the first six attributes and the last two");

static art_vec_window window_of(const art_op_args *args, const art_array *in, const art_array *out,
                                int is_max) {
    const art_attr *attr = args->attr;
    return (art_vec_window){
        .in_h = (int32_t)in->dims[1],
        .in_w = (int32_t)in->dims[2],
        .out_h = (int32_t)out->dims[1],
        .out_w = (int32_t)out->dims[2],
        .kernel_h = (int32_t)attr[ART_MAXPOOL2D_FWD_A_KERNEL_H].i,
        .kernel_w = (int32_t)attr[ART_MAXPOOL2D_FWD_A_KERNEL_W].i,
        .stride_h = (int32_t)attr[ART_MAXPOOL2D_FWD_A_STRIDE_H].i,
        .stride_w = (int32_t)attr[ART_MAXPOOL2D_FWD_A_STRIDE_W].i,
        .pad_h = (int32_t)attr[ART_MAXPOOL2D_FWD_A_PAD_H].i,
        .pad_w = (int32_t)attr[ART_MAXPOOL2D_FWD_A_PAD_W].i,
        .dil_h = is_max ? (int32_t)attr[ART_MAXPOOL2D_FWD_A_DIL_H].i : 1,
        .dil_w = is_max ? (int32_t)attr[ART_MAXPOOL2D_FWD_A_DIL_W].i : 1,
        .count_include_pad = is_max ? 0 : (int32_t)attr[ART_AVGPOOL2D_FWD_A_COUNT_INCLUDE_PAD].i,
        .divisor = is_max ? 0 : (int32_t)attr[ART_AVGPOOL2D_FWD_A_DIVISOR].i,
        .channels = in->dims[3],
    };
}

/* ---- checks ---- */

static art_status check_attrs(const art_op_args *args, const pool_names *names, int is_max,
                              art_error *err) {
    const art_attr *attr = args->attr;
    int64_t kernel_h = attr[ART_MAXPOOL2D_FWD_A_KERNEL_H].i;
    int64_t kernel_w = attr[ART_MAXPOOL2D_FWD_A_KERNEL_W].i;
    ART_TRY(art_check_int(args, ART_MAXPOOL2D_FWD_A_PAD_H, names->pad_h, 0, kernel_h / 2, err));
    ART_TRY(art_check_int(args, ART_MAXPOOL2D_FWD_A_PAD_W, names->pad_w, 0, kernel_w / 2, err));
    ART_FAIL_IF(is_max && kernel_h * kernel_w > ART_MAX_POOL_PLACES, err, ART_SHAPE,
                "%s x kernel_w is %lld x %lld = %lld places, at most %u are possible",
                names->kernel_h, (long long)kernel_h, (long long)kernel_w,
                (long long)(kernel_h * kernel_w), ART_MAX_POOL_PLACES);
    return ART_OK;
}

static art_status check(const art_op_args *args, unsigned in, unsigned out, const pool_names *names,
                        int is_max, art_error *err) {
    const art_array *x = &args->operand[in], *y = &args->operand[out];
    ART_TRY(art_check_operand(args, in, names->in, ART_DTYPE_F32, 4, err));
    ART_TRY(art_check_operand(args, out, names->out, ART_DTYPE_F32, 4, err));
    ART_TRY(art_check_batched(args, out, names->out, x->batched, err));
    ART_TRY(check_attrs(args, names, is_max, err));
    art_vec_window w = window_of(args, x, y, is_max);
    int64_t over_h = args->attr[ART_MAXPOOL2D_FWD_A_OVER_H].i;
    int64_t over_w = args->attr[ART_MAXPOOL2D_FWD_A_OVER_W].i;
    int64_t out_h = art_window_out(w.in_h + over_h, w.kernel_h, w.stride_h, w.pad_h, w.dil_h);
    int64_t out_w = art_window_out(w.in_w + over_w, w.kernel_w, w.stride_w, w.pad_w, w.dil_w);
    ART_FAIL_IF(out_h < 1 || out_w < 1, err, ART_SHAPE,
                "%s of %d x %d is smaller than the window of %d x %d", names->in, w.in_h, w.in_w,
                w.kernel_h, w.kernel_w);
    ART_FAIL_IF((over_h && (out_h - 1) * w.stride_h - w.pad_h >= w.in_h) ||
                    (over_w && (out_w - 1) * w.stride_w - w.pad_w >= w.in_w),
                err, ART_SHAPE, "%s of %d x %d: the last of %lld x %lld windows starts outside",
                names->in, w.in_h, w.in_w, (long long)out_h, (long long)out_w);
    const uint32_t want[4] = {x->dims[0], (uint32_t)out_h, (uint32_t)out_w, x->dims[3]};
    return art_check_dims(args, out, names->out, want, err);
}

static art_status check_idx(const art_op_args *args, unsigned idx, unsigned out, const char *name,
                            art_error *err) {
    ART_TRY(art_check_optional(args, idx, name, ART_DTYPE_U8, 4, err));
    ART_TRY(art_check_dims(args, idx, name, args->operand[out].dims, err));
    return art_check_batched(args, idx, name, args->operand[out].batched, err);
}

art_status art_op_maxpool2d_fwd_check(const art_op_args *args, art_error *err) {
    static const pool_names names = POOL_NAMES("maxpool2d_fwd", ".x", ".y");
    ART_TRY(check(args, ART_MAXPOOL2D_FWD_X, ART_MAXPOOL2D_FWD_Y, &names, 1, err));
    return check_idx(args, ART_MAXPOOL2D_FWD_IDX, ART_MAXPOOL2D_FWD_Y, names.idx, err);
}

art_status art_op_maxpool2d_grad_check(const art_op_args *args, art_error *err) {
    static const pool_names names = POOL_NAMES("maxpool2d_grad", ".dx", ".dy");
    ART_TRY(check(args, ART_MAXPOOL2D_GRAD_DX, ART_MAXPOOL2D_GRAD_DY, &names, 1, err));
    ART_TRY(art_check_operand(args, ART_MAXPOOL2D_GRAD_IDX, names.idx, ART_DTYPE_U8, 4, err));
    return check_idx(args, ART_MAXPOOL2D_GRAD_IDX, ART_MAXPOOL2D_GRAD_DY, names.idx, err);
}

art_status art_op_avgpool2d_fwd_check(const art_op_args *args, art_error *err) {
    static const pool_names names = POOL_NAMES("avgpool2d_fwd", ".x", ".y");
    return check(args, ART_AVGPOOL2D_FWD_X, ART_AVGPOOL2D_FWD_Y, &names, 0, err);
}

art_status art_op_avgpool2d_grad_check(const art_op_args *args, art_error *err) {
    static const pool_names names = POOL_NAMES("avgpool2d_grad", ".dx", ".dy");
    return check(args, ART_AVGPOOL2D_GRAD_DX, ART_AVGPOOL2D_GRAD_DY, &names, 0, err);
}

ART_NO_WORKSPACE(maxpool2d_fwd)
ART_NO_WORKSPACE(maxpool2d_grad)
ART_NO_WORKSPACE(avgpool2d_fwd)
ART_NO_WORKSPACE(avgpool2d_grad)

/* ---- runs: rows of the written array, some at a time ---- */

typedef struct pool_job {
    art_vec_window window;
    const art_vec_kernels *vec;
    const float *from;
    const uint8_t *idx_in;
    float *to;
    uint8_t *idx_out;
    size_t to_row, to_image, from_image; /* elements */
    uint64_t to_h, rows, rows_per_tile;
    void (*row)(const struct pool_job *job, size_t image, int32_t row, size_t at);
} pool_job;

static void maxpool_row(const pool_job *j, size_t image, int32_t row, size_t at) {
    j->vec->maxpool_row(j->to + at, j->idx_out ? j->idx_out + at : NULL,
                        j->from + image * j->from_image, &j->window, row);
}

static void maxpool_grad_row(const pool_job *j, size_t image, int32_t row, size_t at) {
    j->vec->maxpool_grad_row(j->to + at, j->from + image * j->from_image,
                             j->idx_in + image * j->from_image, &j->window, row);
}

static void avgpool_row(const pool_job *j, size_t image, int32_t row, size_t at) {
    j->vec->avgpool_row(j->to + at, j->from + image * j->from_image, &j->window, row);
}

static void avgpool_grad_row(const pool_job *j, size_t image, int32_t row, size_t at) {
    j->vec->avgpool_grad_row(j->to + at, j->from + image * j->from_image, &j->window, row);
}

static void run_rows(void *context, unsigned tile, unsigned thread) {
    const pool_job *job = context;
    uint64_t first = tile * job->rows_per_tile, last = first + job->rows_per_tile;
    (void)thread;
    for (uint64_t r = first; r < last && r < job->rows; r++) {
        size_t image = (size_t)(r / job->to_h), row = (size_t)(r % job->to_h);
        job->row(job, image, (int32_t)row, image * job->to_image + row * job->to_row);
    }
}

static art_status run(const art_op_args *args, unsigned from, unsigned to, pool_job job) {
    const art_array *a = &args->operand[from], *b = &args->operand[to];
    job.vec = art_vec(args);
    job.from = a->data;
    job.to = b->data;
    job.from_image = (size_t)a->dims[1] * a->dims[2] * a->dims[3];
    job.to_row = (size_t)b->dims[2] * b->dims[3];
    job.to_h = b->dims[1];
    job.to_image = job.to_row * b->dims[1];
    job.rows = (uint64_t)b->dims[0] * b->dims[1];
    job.rows_per_tile = art_ceil_div(TILE_ELEMENTS, job.to_row);
    double window = (double)job.window.kernel_h * job.window.kernel_w;
    art_pool_run(args->pool, art_tiles(job.rows, job.rows_per_tile),
                 window * (double)(a->dims[0] * (uint64_t)a->dims[1]) * a->dims[2] * a->dims[3],
                 run_rows, &job);
    return ART_OK;
}

art_status art_op_maxpool2d_fwd_run(const art_op_args *args, art_error *err) {
    const art_array *x = &args->operand[ART_MAXPOOL2D_FWD_X];
    const art_array *y = &args->operand[ART_MAXPOOL2D_FWD_Y];
    (void)err;
    return run(args, ART_MAXPOOL2D_FWD_X, ART_MAXPOOL2D_FWD_Y,
               (pool_job){.window = window_of(args, x, y, 1),
                          .row = maxpool_row,
                          .idx_out = args->operand[ART_MAXPOOL2D_FWD_IDX].data});
}

art_status art_op_maxpool2d_grad_run(const art_op_args *args, art_error *err) {
    const art_array *dx = &args->operand[ART_MAXPOOL2D_GRAD_DX];
    const art_array *dy = &args->operand[ART_MAXPOOL2D_GRAD_DY];
    (void)err;
    return run(args, ART_MAXPOOL2D_GRAD_DY, ART_MAXPOOL2D_GRAD_DX,
               (pool_job){.window = window_of(args, dx, dy, 1),
                          .row = maxpool_grad_row,
                          .idx_in = args->operand[ART_MAXPOOL2D_GRAD_IDX].data});
}

art_status art_op_avgpool2d_fwd_run(const art_op_args *args, art_error *err) {
    const art_array *x = &args->operand[ART_AVGPOOL2D_FWD_X];
    const art_array *y = &args->operand[ART_AVGPOOL2D_FWD_Y];
    (void)err;
    return run(args, ART_AVGPOOL2D_FWD_X, ART_AVGPOOL2D_FWD_Y,
               (pool_job){.window = window_of(args, x, y, 0), .row = avgpool_row});
}

art_status art_op_avgpool2d_grad_run(const art_op_args *args, art_error *err) {
    const art_array *dx = &args->operand[ART_AVGPOOL2D_GRAD_DX];
    const art_array *dy = &args->operand[ART_AVGPOOL2D_GRAD_DY];
    (void)err;
    return run(args, ART_AVGPOOL2D_GRAD_DY, ART_AVGPOOL2D_GRAD_DX,
               (pool_job){.window = window_of(args, dx, dy, 0), .row = avgpool_grad_row});
}
