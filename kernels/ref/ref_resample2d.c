/* Resampling by the definition of each weight, for every pair of an output and an input place. */
#include <math.h>
#include <string.h>

#include "ops/check.h"
#include "ref/ref_ops.h"

/* Share of input place i in output place o of one axis; times is 0 where only sizes are known. */
typedef double (*share_fn)(int64_t i, int64_t o, int64_t in, int64_t out, double times);

static double adaptive(int64_t i, int64_t o, int64_t in, int64_t out, double times) {
    double from = floor((double)(o * in) / (double)out);
    double to = ceil((double)((o + 1) * in) / (double)out);
    (void)times;
    return (double)i >= from && (double)i < to ? 1.0 / (to - from) : 0.0;
}

static double nearest(int64_t i, int64_t o, int64_t in, int64_t out, double times) {
    float step = times > 0.0 ? (float)(1.0 / times) : (float)in / (float)out;
    double source = (double)floorf((float)o * step);
    if (out == in || out == 2 * in) {
        source = out == in ? (double)o : floor((double)o / 2.0);
    }
    return (double)i == fmin(source, (double)(in - 1)) ? 1.0 : 0.0;
}

static double hat(int64_t i, double source, int64_t in) {
    return fmax(1.0 - fabs((double)i - fmin(fmax(source, 0.0), (double)(in - 1))), 0.0);
}

static double linear(int64_t i, int64_t o, int64_t in, int64_t out, double times) {
    double step = times > 0.0 && in != out ? 1.0 / times : (double)in / (double)out;
    return hat(i, ((double)o + 0.5) * step - 0.5, in);
}

static double aligned(int64_t i, int64_t o, int64_t in, int64_t out, double times) {
    (void)times;
    return hat(i, out > 1 ? (double)o * (double)(in - 1) / (double)(out - 1) : 0.0, in);
}

/* For every weight that is not 0: to[...] += from[...] * weight; the roundings are that of the
 * weight, of the product and one addition a term. */
static void resample(const art_array *x, const art_array *y, const float *from, double *out,
                     double *tol, int gradient, const art_attr *scale, share_fn share) {
    const art_array *to = gradient ? x : y;
    int64_t c = x->dims[3], pixels_x = (int64_t)x->dims[1] * x->dims[2];
    int64_t pixels_y = (int64_t)y->dims[1] * y->dims[2];
    int64_t pixels_to = gradient ? pixels_x : pixels_y,
            pixels_from = pixels_x + pixels_y - pixels_to;
    memset(out, 0, (size_t)art_count(to) * sizeof(double));
    memset(tol, 0, (size_t)art_count(to) * sizeof(double));
    for (int64_t t = 0; t < pixels_to; t++) {
        double terms = 0.0;
        for (int64_t f = 0; f < pixels_from; f++) {
            int64_t i = gradient ? t : f, o = gradient ? f : t;
            double times_h = scale ? scale[0].f : 0.0, times_w = scale ? scale[1].f : 0.0;
            double weight = share(i / x->dims[2], o / y->dims[2], x->dims[1], y->dims[1], times_h) *
                            share(i % x->dims[2], o % y->dims[2], x->dims[2], y->dims[2], times_w);
            terms += weight > 0.0;
            for (int64_t k = 0; weight > 0.0 && k < x->dims[0] * c; k++) {
                int64_t at = (k / c * pixels_to + t) * c + k % c;
                double term = (double)from[(k / c * pixels_from + f) * c + k % c] * weight;
                out[at] += term;
                tol[at] += fabs(term);
            }
        }
        for (int64_t k = 0; k < x->dims[0] * c; k++) {
            tol[(k / c * pixels_to + t) * c + k % c] *= (terms + 2.0) * 1.01 * ART_REF_U;
        }
    }
}

#define RESAMPLINGS(NAME, name, scale_fwd, scale_grad, share_fwd, share_grad)                      \
    void art_ref_##name##_fwd(const art_op_args *args, double *const *out, double *const *tol) {   \
        const art_array *x = &args->operand[ART_##NAME##_FWD_X];                                   \
        resample(x, &args->operand[ART_##NAME##_FWD_Y], x->data, out[ART_##NAME##_FWD_Y],          \
                 tol[ART_##NAME##_FWD_Y], 0, scale_fwd, share_fwd);                                \
    }                                                                                              \
    void art_ref_##name##_grad(const art_op_args *args, double *const *out, double *const *tol) {  \
        const art_array *dy = &args->operand[ART_##NAME##_GRAD_DY];                                \
        resample(&args->operand[ART_##NAME##_GRAD_DX], dy, dy->data, out[ART_##NAME##_GRAD_DX],    \
                 tol[ART_##NAME##_GRAD_DX], 1, scale_grad, share_grad);                            \
    }
#define SCALE(NAME) (args->attr + ART_##NAME##_A_SCALE_H)
#define LINEAR(NAME) (args->attr[ART_##NAME##_A_ALIGN_CORNERS].i ? aligned : linear)

RESAMPLINGS(ADAPTIVE_AVGPOOL2D, adaptive_avgpool2d, NULL, NULL, adaptive, adaptive)
RESAMPLINGS(UPSAMPLE_NEAREST2D, upsample_nearest2d, SCALE(UPSAMPLE_NEAREST2D_FWD),
            SCALE(UPSAMPLE_NEAREST2D_GRAD), nearest, nearest)
RESAMPLINGS(UPSAMPLE_BILINEAR2D, upsample_bilinear2d, SCALE(UPSAMPLE_BILINEAR2D_FWD),
            SCALE(UPSAMPLE_BILINEAR2D_GRAD), LINEAR(UPSAMPLE_BILINEAR2D_FWD),
            LINEAR(UPSAMPLE_BILINEAR2D_GRAD))
