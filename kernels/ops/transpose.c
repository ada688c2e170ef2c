/* Between channels-last images and torch's flatten order: one matrix transpose per sample. */
#include "ops/op_functions.h"
#include "ops/spans.h"

/* Side of the square that is transposed at once: both its sides stay in the first cache. */
enum { SQUARE = 16 };

typedef struct transpose_job {
    const float *x;
    float *y;
    size_t rows, cols; /* of x, per sample */
    unsigned bands;    /* of SQUARE rows, per sample */
} transpose_job;

static void transpose_band(void *context, unsigned tile, unsigned thread) {
    const transpose_job *job = context;
    const size_t rows = job->rows, cols = job->cols;
    const size_t sample = tile / job->bands, r0 = (size_t)(tile % job->bands) * SQUARE;
    const size_t r1 = r0 + SQUARE < rows ? r0 + SQUARE : rows;
    const float *x = job->x + sample * rows * cols;
    float *y = job->y + sample * rows * cols;
    (void)thread;
    for (size_t c0 = 0; c0 < cols; c0 += SQUARE) {
        size_t c1 = c0 + SQUARE < cols ? c0 + SQUARE : cols;
        for (size_t c = c0; c < c1; c++) {
            for (size_t r = r0; r < r1; r++) {
                y[c * rows + r] = x[r * cols + c];
            }
        }
    }
}

static void transpose(const art_op_args *args, size_t samples, size_t rows, size_t cols) {
    transpose_job job = {art_in(args, 0), art_out(args, 1), rows, cols, art_tiles(rows, SQUARE)};
    art_pool_run(args->pool, (unsigned)samples * job.bands,
                 (double)samples * (double)rows * (double)cols, transpose_band, &job);
}

/* `image` is the slot of rank 4, the other one has as many elements and rows. */
static art_status check(const art_op_args *args, unsigned image, const char *x, const char *y,
                        art_error *err) {
    ART_TRY(art_check_operand(args, 0, x, ART_DTYPE_F32, image == 0 ? 4 : ART_ANY_RANK, err));
    ART_TRY(art_check_operand(args, 1, y, ART_DTYPE_F32, image == 1 ? 4 : ART_ANY_RANK, err));
    ART_TRY(art_check_matches(args, 1, y, 0, err));
    const uint32_t *dims = args->operand[image].dims;
    uint64_t pixels = (uint64_t)dims[1] * dims[2];
    uint64_t longest = pixels > dims[3] ? pixels : dims[3];
    uint64_t bands = art_mul_saturated(dims[0], art_ceil_div(longest, SQUARE));
    ART_FAIL_IF(bands > UINT32_MAX, err, ART_SHAPE, "%s has %llu tiles, at most %u are possible", x,
                (unsigned long long)bands, UINT32_MAX);
    return ART_OK;
}

art_status art_op_nhwc_to_nchw_check(const art_op_args *args, art_error *err) {
    return check(args, ART_NHWC_TO_NCHW_X, "nhwc_to_nchw.x", "nhwc_to_nchw.y", err);
}

ART_NO_WORKSPACE(nhwc_to_nchw)

art_status art_op_nhwc_to_nchw_run(const art_op_args *args, art_error *err) {
    const uint32_t *dims = args->operand[ART_NHWC_TO_NCHW_X].dims;
    (void)err;
    transpose(args, dims[0], (size_t)dims[1] * dims[2], dims[3]);
    return ART_OK;
}

art_status art_op_nchw_to_nhwc_check(const art_op_args *args, art_error *err) {
    return check(args, ART_NCHW_TO_NHWC_Y, "nchw_to_nhwc.x", "nchw_to_nhwc.y", err);
}

ART_NO_WORKSPACE(nchw_to_nhwc)

art_status art_op_nchw_to_nhwc_run(const art_op_args *args, art_error *err) {
    const uint32_t *dims = args->operand[ART_NCHW_TO_NHWC_Y].dims;
    (void)err;
    transpose(args, dims[0], dims[3], (size_t)dims[1] * dims[2]);
    return ART_OK;
}
