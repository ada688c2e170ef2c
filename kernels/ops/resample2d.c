/* Channels-last images of another size: adaptive averages and upsampling.
 *
 * Each axis maps an output place to a few input places side by side with weights; a pixel's weight
 * is the product of both. Gradients are gathered row by row: what an input row gave to output rows
 * comes back in ascending order of output position, so rows are independent tiles. */
#include <math.h>
#include <string.h>

#include "ops/op_functions.h"
#include "ops/spans.h"

/* Elements of one tile, in whole image rows. */
enum { TILE_ELEMENTS = 4096 };

/* Input places [first, first + count) of an output place: the weight of the first, of the others.
 */
typedef struct taps {
    int64_t first, count;
    double weight[2];
} taps;

typedef struct axis {
    int64_t in, out;
    double step; /* input places for one output place */
    taps (*at)(const struct axis *axis, int64_t o);
} axis;

static taps adaptive_at(const axis *a, int64_t o) {
    int64_t first = o * a->in / a->out, end = ((o + 1) * a->in - 1) / a->out + 1;
    double share = 1.0 / (double)(end - first);
    return (taps){first, end - first, {share, share}};
}

/* In float, and at factors of 1 and 2 in integers, as PyTorch does: the same pixels everywhere. */
static taps nearest_at(const axis *a, int64_t o) {
    int64_t source = (int64_t)((float)o * (float)a->step);
    if (a->out == a->in || a->out == 2 * a->in) {
        source = o * a->in / a->out;
    }
    return (taps){source < a->in ? source : a->in - 1, 1, {1.0, 1.0}};
}

static taps between(const axis *a, double source) {
    source = source < 0.0 ? 0.0 : source;
    int64_t first = (int64_t)source;
    double right = source - (double)first;
    if (first >= a->in - 1) {
        return (taps){a->in - 1, 1, {1.0, 1.0}};
    }
    return (taps){first, right > 0.0 ? 2 : 1, {1.0 - right, right}};
}

static taps linear_at(const axis *a, int64_t o) {
    return between(a, ((double)o + 0.5) * a->step - 0.5);
}

static taps aligned_at(const axis *a, int64_t o) {
    return between(a, (double)o * a->step);
}

/* ---- checks ---- */

/* Any sides, or as many times those of x as the attributes `scale` and the one behind it say. */
static art_status check(const art_op_args *args, unsigned in, const char *in_name, unsigned out,
                        const char *out_name, int scale, art_error *err) {
    const art_array *x = &args->operand[in], *y = &args->operand[out];
    ART_TRY(art_check_operand(args, in, in_name, ART_DTYPE_F32, 4, err));
    ART_TRY(art_check_operand(args, out, out_name, ART_DTYPE_F32, 4, err));
    ART_TRY(art_check_batched(args, out, out_name, x->batched, err));
    for (int i = 0; scale >= 0 && i < 2; i++) {
        double times = args->attr[scale + i].f, size = floor((double)x->dims[1 + i] * times);
        ART_FAIL_IF(times > 0.0 && size != (double)y->dims[1 + i], err, ART_SHAPE,
                    "%s has %u pixels along axis %d, %u of %s times %g are %.0f", out_name,
                    y->dims[1 + i], 1 + i, x->dims[1 + i], in_name, times, size);
    }
    const uint32_t want[4] = {x->dims[0], y->dims[1], y->dims[2], x->dims[3]};
    return art_check_dims(args, out, out_name, want, err);
}

art_status art_op_adaptive_avgpool2d_fwd_check(const art_op_args *args, art_error *err) {
    return check(args, ART_ADAPTIVE_AVGPOOL2D_FWD_X, "adaptive_avgpool2d_fwd.x",
                 ART_ADAPTIVE_AVGPOOL2D_FWD_Y, "adaptive_avgpool2d_fwd.y", -1, err);
}

art_status art_op_adaptive_avgpool2d_grad_check(const art_op_args *args, art_error *err) {
    return check(args, ART_ADAPTIVE_AVGPOOL2D_GRAD_DX, "adaptive_avgpool2d_grad.dx",
                 ART_ADAPTIVE_AVGPOOL2D_GRAD_DY, "adaptive_avgpool2d_grad.dy", -1, err);
}

#define UPSAMPLE_CHECKS(NAME, name)                                                                \
    art_status art_op_##name##_fwd_check(const art_op_args *args, art_error *err) {                \
        return check(args, ART_##NAME##_FWD_X, #name "_fwd.x", ART_##NAME##_FWD_Y, #name "_fwd.y", \
                     ART_##NAME##_FWD_A_SCALE_H, err);                                             \
    }                                                                                              \
    art_status art_op_##name##_grad_check(const art_op_args *args, art_error *err) {               \
        return check(args, ART_##NAME##_GRAD_DX, #name "_grad.dx", ART_##NAME##_GRAD_DY,           \
                     #name "_grad.dy", ART_##NAME##_GRAD_A_SCALE_H, err);                          \
    }
UPSAMPLE_CHECKS(UPSAMPLE_NEAREST2D, upsample_nearest2d)
UPSAMPLE_CHECKS(UPSAMPLE_BILINEAR2D, upsample_bilinear2d)

_Static_assert((int)ART_UPSAMPLE_NEAREST2D_FWD_A_SCALE_W ==
                       (int)ART_UPSAMPLE_NEAREST2D_FWD_A_SCALE_H + 1 &&
                   (int)ART_UPSAMPLE_BILINEAR2D_FWD_A_SCALE_W ==
                       (int)ART_UPSAMPLE_BILINEAR2D_FWD_A_SCALE_H + 1,
               "the scale of columns is behind that of rows");

ART_NO_WORKSPACE(adaptive_avgpool2d_fwd)
ART_NO_WORKSPACE(adaptive_avgpool2d_grad)
ART_NO_WORKSPACE(upsample_nearest2d_fwd)
ART_NO_WORKSPACE(upsample_nearest2d_grad)
ART_NO_WORKSPACE(upsample_bilinear2d_fwd)
ART_NO_WORKSPACE(upsample_bilinear2d_grad)

/* ---- runs: rows of the written array, some at a time ---- */

typedef struct resample_job {
    axis h, w;
    const art_vec_kernels *vec;
    const float *from;
    float *to;
    size_t channels;
    uint64_t rows, rows_per_tile;
    int gradient;
} resample_job;

static float weight_of(const taps *h, int64_t i, const taps *w, int64_t j) {
    return (float)(h->weight[i > 0] * w->weight[j > 0]);
}

/* Output row oh of an image from its input pixels. */
static void forward_row(const resample_job *j, float *y, const float *x, int64_t oh) {
    taps h = j->h.at(&j->h, oh);
    for (int64_t ow = 0; ow < j->w.out; ow++, y += j->channels) {
        taps w = j->w.at(&j->w, ow);
        for (int64_t a = 0; a < h.count; a++) {
            const float *row = x + (size_t)((h.first + a) * j->w.in + w.first) * j->channels;
            for (int64_t b = 0; b < w.count; b++, row += j->channels) {
                if (a + b == 0) {
                    j->vec->scale(y, row, weight_of(&h, a, &w, b), j->channels);
                } else {
                    j->vec->add_scaled(y, row, weight_of(&h, a, &w, b), j->channels);
                }
            }
        }
    }
}

/* The first output place that reaches input place i or one behind it. */
static int64_t first_reaching(const axis *a, int64_t i) {
    int64_t low = 0, high = a->out;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        taps t = a->at(a, middle);
        if (t.first + t.count > i) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Input row ih of an image's gradient from its output pixels. */
static void gradient_row(const resample_job *j, float *dx, const float *dy, int64_t ih) {
    memset(dx, 0, (size_t)j->w.in * j->channels * sizeof *dx);
    for (int64_t oh = first_reaching(&j->h, ih); oh < j->h.out; oh++) {
        taps h = j->h.at(&j->h, oh);
        if (h.first > ih) {
            break;
        }
        const float *from = dy + (size_t)(oh * j->w.out) * j->channels;
        for (int64_t ow = 0; ow < j->w.out; ow++, from += j->channels) {
            taps w = j->w.at(&j->w, ow);
            float *to = dx + (size_t)w.first * j->channels;
            for (int64_t b = 0; b < w.count; b++, to += j->channels) {
                j->vec->add_scaled(to, from, weight_of(&h, ih - h.first, &w, b), j->channels);
            }
        }
    }
}

static void run_rows(void *context, unsigned tile, unsigned thread) {
    const resample_job *j = context;
    uint64_t first = tile * j->rows_per_tile, last = first + j->rows_per_tile;
    size_t x = (size_t)(j->h.in * j->w.in) * j->channels;
    size_t y = (size_t)(j->h.out * j->w.out) * j->channels;
    (void)thread;
    for (uint64_t r = first; r < last && r < j->rows; r++) {
        uint64_t height = (uint64_t)(j->gradient ? j->h.in : j->h.out);
        size_t image = (size_t)(r / height), row = (size_t)(r % height);
        if (j->gradient) {
            size_t at = row * (size_t)j->w.in * j->channels;
            gradient_row(j, j->to + image * x + at, j->from + image * y, (int64_t)row);
        } else {
            size_t at = row * (size_t)j->w.out * j->channels;
            forward_row(j, j->to + image * y + at, j->from + image * x, (int64_t)row);
        }
    }
}

typedef taps (*at_fn)(const axis *, int64_t);

/* scale: its first attribute, -1 for none. */
static axis axis_of(const art_op_args *args, const art_array *x, const art_array *y, int i,
                    int scale, at_fn at) {
    axis a = {.in = x->dims[1 + i], .out = y->dims[1 + i], .at = at};
    double times = scale < 0 ? 0.0 : args->attr[scale + i].f;
    if (at == aligned_at) {
        a.step = a.out > 1 ? (double)(a.in - 1) / (double)(a.out - 1) : 0.0;
    } else if (at == nearest_at) {
        a.step = (double)(times > 0.0 ? (float)(1.0 / times) : (float)a.in / (float)a.out);
    } else {
        a.step = times > 0.0 && a.in != a.out ? 1.0 / times : (double)a.in / (double)a.out;
    }
    return a;
}

static art_status run(const art_op_args *args, unsigned in, unsigned out, int gradient, int scale,
                      at_fn at) {
    const art_array *x = &args->operand[in], *y = &args->operand[out];
    const art_array *from = gradient ? y : x, *to = gradient ? x : y;
    resample_job job = {
        .h = axis_of(args, x, y, 0, scale, at),
        .w = axis_of(args, x, y, 1, scale, at),
        .vec = art_vec(args),
        .from = from->data,
        .to = to->data,
        .channels = x->dims[3],
        .rows = (uint64_t)to->dims[0] * to->dims[1],
        .gradient = gradient,
    };
    double larger = (double)(art_count(x) > art_count(y) ? art_count(x) : art_count(y));
    job.rows_per_tile = art_ceil_div(TILE_ELEMENTS, (uint64_t)to->dims[2] * to->dims[3]);
    art_pool_run(args->pool, art_tiles(job.rows, job.rows_per_tile), 4.0 * larger, run_rows, &job);
    return ART_OK;
}

art_status art_op_adaptive_avgpool2d_fwd_run(const art_op_args *args, art_error *err) {
    (void)err;
    return run(args, ART_ADAPTIVE_AVGPOOL2D_FWD_X, ART_ADAPTIVE_AVGPOOL2D_FWD_Y, 0, -1,
               adaptive_at);
}

art_status art_op_adaptive_avgpool2d_grad_run(const art_op_args *args, art_error *err) {
    (void)err;
    return run(args, ART_ADAPTIVE_AVGPOOL2D_GRAD_DX, ART_ADAPTIVE_AVGPOOL2D_GRAD_DY, 1, -1,
               adaptive_at);
}

art_status art_op_upsample_nearest2d_fwd_run(const art_op_args *args, art_error *err) {
    (void)err;
    return run(args, ART_UPSAMPLE_NEAREST2D_FWD_X, ART_UPSAMPLE_NEAREST2D_FWD_Y, 0,
               ART_UPSAMPLE_NEAREST2D_FWD_A_SCALE_H, nearest_at);
}

art_status art_op_upsample_nearest2d_grad_run(const art_op_args *args, art_error *err) {
    (void)err;
    return run(args, ART_UPSAMPLE_NEAREST2D_GRAD_DX, ART_UPSAMPLE_NEAREST2D_GRAD_DY, 1,
               ART_UPSAMPLE_NEAREST2D_GRAD_A_SCALE_H, nearest_at);
}

art_status art_op_upsample_bilinear2d_fwd_run(const art_op_args *args, art_error *err) {
    int aligned = args->attr[ART_UPSAMPLE_BILINEAR2D_FWD_A_ALIGN_CORNERS].i != 0;
    (void)err;
    return run(args, ART_UPSAMPLE_BILINEAR2D_FWD_X, ART_UPSAMPLE_BILINEAR2D_FWD_Y, 0,
               ART_UPSAMPLE_BILINEAR2D_FWD_A_SCALE_H, aligned ? aligned_at : linear_at);
}

art_status art_op_upsample_bilinear2d_grad_run(const art_op_args *args, art_error *err) {
    int aligned = args->attr[ART_UPSAMPLE_BILINEAR2D_GRAD_A_ALIGN_CORNERS].i != 0;
    (void)err;
    return run(args, ART_UPSAMPLE_BILINEAR2D_GRAD_DX, ART_UPSAMPLE_BILINEAR2D_GRAD_DY, 1,
               ART_UPSAMPLE_BILINEAR2D_GRAD_A_SCALE_H, aligned ? aligned_at : linear_at);
}
