#include <math.h>
#include <string.h>

#include "ops/check.h"
#include "ref/ref_ops.h"

/* One window position of one image and channel. */
typedef struct place {
    int64_t out; /* index of the output element */
    int64_t in[256 * 4];
    int64_t tap[256 * 4]; /* place in the window of each inner element */
    int64_t n;            /* inner elements */
    double divisor;
} place;

typedef void (*place_fn)(void *context, const place *p);

/* What an average divides by; `below` and `right` of the window's first place but for the padding
 * there are that many pixels. */
static double divisor(const art_attr *attr, int64_t below, int64_t right, int64_t inside) {
    int64_t h = below + 2 * attr[ART_AVGPOOL2D_FWD_A_PAD_H].i;
    int64_t w = right + 2 * attr[ART_AVGPOOL2D_FWD_A_PAD_W].i;
    int64_t kh = attr[ART_AVGPOOL2D_FWD_A_KERNEL_H].i, kw = attr[ART_AVGPOOL2D_FWD_A_KERNEL_W].i;
    if (attr[ART_AVGPOOL2D_FWD_A_DIVISOR].i) {
        return (double)attr[ART_AVGPOOL2D_FWD_A_DIVISOR].i;
    }
    if (!attr[ART_AVGPOOL2D_FWD_A_COUNT_INCLUDE_PAD].i) {
        return (double)inside;
    }
    return (double)(kh < h ? kh : h) * (double)(kw < w ? kw : w);
}

/* Visit all output elements; dil_h, dil_w 1 for averages. Windows of at most 1024 elements. */
static void each_place(const art_array *x, const art_array *y, const art_attr *attr, int is_max,
                       place_fn fn, void *context) {
    int64_t kh = attr[0].i, kw = attr[1].i, sh = attr[2].i, sw = attr[3].i;
    int64_t ph = attr[4].i, pw = attr[5].i;
    int64_t dh = is_max ? attr[ART_MAXPOOL2D_FWD_A_DIL_H].i : 1;
    int64_t dw = is_max ? attr[ART_MAXPOOL2D_FWD_A_DIL_W].i : 1;
    int64_t h = x->dims[1], w = x->dims[2], c = x->dims[3];
    int64_t outputs = (int64_t)art_count(y);
    for (int64_t o = 0; o < outputs; o++) {
        int64_t ow = o / c % y->dims[2], oh = o / c / y->dims[2] % y->dims[1];
        int64_t n = o / c / y->dims[2] / y->dims[1];
        place p = {.out = o};
        for (int64_t t = 0; t < kh * kw; t++) {
            int64_t ih = oh * sh - ph + t / kw * dh, iw = ow * sw - pw + t % kw * dw;
            if (ih >= 0 && ih < h && iw >= 0 && iw < w) {
                p.in[p.n] = ((n * h + ih) * w + iw) * c + o % c;
                p.tap[p.n++] = t;
            }
        }
        p.divisor = is_max ? 1.0 : divisor(attr, h - oh * sh, w - ow * sw, p.n);
        fn(context, &p);
    }
}

typedef struct sums {
    const float *from;
    const uint8_t *idx;
    double *out, *tol, *idx_out;
} sums;

static void take_max(void *context, const place *p) {
    sums *s = context;
    double best = -INFINITY;
    int64_t tap = ART_VEC_NO_PLACE;
    for (int64_t i = 0; i < p->n; i++) {
        double v = (double)s->from[p->in[i]];
        if (i == 0 || v > best || isnan(v)) {
            best = v;
            tap = p->tap[i];
        }
    }
    s->out[p->out] = best;
    s->tol[p->out] = 0.0;
    if (s->idx_out) {
        s->idx_out[p->out] = (double)tap;
    }
}

void art_ref_maxpool2d_fwd(const art_op_args *args, double *const *out, double *const *tol) {
    const art_array *x = &args->operand[ART_MAXPOOL2D_FWD_X];
    const art_array *y = &args->operand[ART_MAXPOOL2D_FWD_Y];
    int has_idx = art_present(args, ART_MAXPOOL2D_FWD_IDX);
    sums s = {.from = x->data,
              .out = out[ART_MAXPOOL2D_FWD_Y],
              .tol = tol[ART_MAXPOOL2D_FWD_Y],
              .idx_out = has_idx ? out[ART_MAXPOOL2D_FWD_IDX] : NULL};
    each_place(x, y, args->attr, 1, take_max, &s);
    if (has_idx) {
        memset(tol[ART_MAXPOOL2D_FWD_IDX], 0, (size_t)art_count(y) * sizeof(double));
    }
}

/* What rounding to a subnormal number, the quotient alone, may be off by. */
#define SUBNORMAL_U 0x1p-150

static void average(void *context, const place *p) {
    sums *s = context;
    double sum = 0.0, magnitude = 0.0;
    for (int64_t i = 0; i < p->n; i++) {
        sum += (double)s->from[p->in[i]];
        magnitude += fabs((double)s->from[p->in[i]]);
    }
    s->out[p->out] = sum / p->divisor;
    s->tol[p->out] = (double)(p->n + 1) * 1.01 * ART_REF_U * magnitude / p->divisor + SUBNORMAL_U;
}

void art_ref_avgpool2d_fwd(const art_op_args *args, double *const *out, double *const *tol) {
    const art_array *x = &args->operand[ART_AVGPOOL2D_FWD_X];
    sums s = {.from = x->data, .out = out[ART_AVGPOOL2D_FWD_Y], .tol = tol[ART_AVGPOOL2D_FWD_Y]};
    each_place(x, &args->operand[ART_AVGPOOL2D_FWD_Y], args->attr, 0, average, &s);
}

/* Scatter; `tol` collects the magnitudes of a pixel's contributions. */
static void scatter(void *context, const place *p) {
    sums *s = context;
    for (int64_t i = 0; i < p->n; i++) {
        if (s->idx && s->idx[p->out] != p->tap[i]) {
            continue;
        }
        double d = (double)s->from[p->out] / (s->idx ? 1.0 : p->divisor);
        s->out[p->in[i]] += d;
        s->tol[p->in[i]] += fabs(d);
    }
}

static void gradient(const art_array *dx, const art_array *dy, const art_attr *attr, int is_max,
                     sums *s) {
    size_t n = (size_t)art_count(dx);
    /* A division and as many additions as windows cover a pixel. */
    double terms = (double)(attr[0].i * attr[1].i + 1);
    memset(s->out, 0, n * sizeof(double));
    memset(s->tol, 0, n * sizeof(double));
    each_place(dx, dy, attr, is_max, scatter, s);
    for (size_t i = 0; i < n; i++) {
        s->tol[i] *= terms * 1.01 * ART_REF_U;
        s->tol[i] += is_max ? 0.0 : terms * SUBNORMAL_U;
    }
}

void art_ref_maxpool2d_grad(const art_op_args *args, double *const *out, double *const *tol) {
    const art_array *dy = &args->operand[ART_MAXPOOL2D_GRAD_DY];
    sums s = {.from = dy->data,
              .idx = args->operand[ART_MAXPOOL2D_GRAD_IDX].data,
              .out = out[ART_MAXPOOL2D_GRAD_DX],
              .tol = tol[ART_MAXPOOL2D_GRAD_DX]};
    gradient(&args->operand[ART_MAXPOOL2D_GRAD_DX], dy, args->attr, 1, &s);
}

void art_ref_avgpool2d_grad(const art_op_args *args, double *const *out, double *const *tol) {
    const art_array *dy = &args->operand[ART_AVGPOOL2D_GRAD_DY];
    sums s = {
        .from = dy->data, .out = out[ART_AVGPOOL2D_GRAD_DX], .tol = tol[ART_AVGPOOL2D_GRAD_DX]};
    gradient(&args->operand[ART_AVGPOOL2D_GRAD_DX], dy, args->attr, 0, &s);
}
