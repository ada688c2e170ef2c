#include "ref/ref_product.h"

#include <math.h>
#include <string.h>

typedef void (*term_fn)(void *context, int64_t x, int64_t w, int64_t y);

/* Call fn with the flat indices of x, w and y of every product of the convolution's definition:
 * y[n,oh,ow,g*Og+o] = sum over kh, kw, c of x[n,ih,iw,g*Cg+c] w[g,kh,kw,c,o]. */
static void each_term(const art_conv_shape *s, term_fn fn, void *context) {
    int64_t cg = s->in_c / s->groups, og = s->out_c / s->groups;
    int64_t outputs = s->n * s->out_h * s->out_w, taps = s->kernel_h * s->kernel_w;
    for (int64_t p = 0; p < outputs; p++) {
        int64_t n = p / (s->out_h * s->out_w), oh = p / s->out_w % s->out_h, ow = p % s->out_w;
        for (int64_t t = 0; t < taps; t++) {
            int64_t ih = oh * s->stride_h - s->pad_h + t / s->kernel_w * s->dil_h;
            int64_t iw = ow * s->stride_w - s->pad_w + t % s->kernel_w * s->dil_w;
            if (ih < 0 || ih >= s->in_h || iw < 0 || iw >= s->in_w) {
                continue;
            }
            int64_t pixel = ((n * s->in_h + ih) * s->in_w + iw) * s->in_c;
            for (int64_t c = 0; c < s->in_c; c++) {
                int64_t row = ((c / cg * taps + t) * cg + c % cg) * og;
                for (int64_t o = 0; o < og; o++) {
                    fn(context, pixel + c, row + o, p * s->out_c + c / cg * og + o);
                }
            }
        }
    }
}

typedef struct sums {
    const float *x, *w, *dy;
    double *out, *magnitude;
} sums;

static void add(sums *s, int64_t i, double term) {
    s->out[i] += term;
    s->magnitude[i] += fabs(term);
}

static void term_y(void *context, int64_t x, int64_t w, int64_t y) {
    sums *s = context;
    add(s, y, (double)s->x[x] * s->w[w]);
}

static void term_x(void *context, int64_t x, int64_t w, int64_t y) {
    sums *s = context;
    add(s, x, (double)s->dy[y] * s->w[w]);
}

static void term_w(void *context, int64_t x, int64_t w, int64_t y) {
    sums *s = context;
    add(s, w, (double)s->dy[y] * s->x[x]);
}

static void clear(sums *s, int64_t count) {
    memset(s->out, 0, (size_t)count * sizeof(double));
    memset(s->magnitude, 0, (size_t)count * sizeof(double));
}

void art_ref_conv_forward(const art_conv_shape *s, const float *x, const float *w, const float *b,
                          double *y, double *magnitude) {
    sums context = {.x = x, .w = w, .out = y, .magnitude = magnitude};
    int64_t count = s->n * s->out_h * s->out_w * s->out_c;
    clear(&context, count);
    each_term(s, term_y, &context);
    for (int64_t i = 0; b && i < count; i++) {
        add(&context, i, b[i % s->out_c]);
    }
}

void art_ref_conv_grad_x(const art_conv_shape *s, const float *dy, const float *w, double *dx,
                         double *magnitude) {
    sums context = {.dy = dy, .w = w, .out = dx, .magnitude = magnitude};
    clear(&context, s->n * s->in_h * s->in_w * s->in_c);
    each_term(s, term_x, &context);
}

void art_ref_conv_grad_w(const art_conv_shape *s, const float *x, const float *dy, double *dw,
                         double *magnitude) {
    sums context = {.x = x, .dy = dy, .out = dw, .magnitude = magnitude};
    clear(&context, s->kernel_h * s->kernel_w * s->in_c * s->out_c / s->groups);
    each_term(s, term_w, &context);
}

void art_ref_conv_grad_b(const art_conv_shape *s, const float *dy, double *db, double *magnitude) {
    sums context = {.out = db, .magnitude = magnitude};
    clear(&context, s->out_c);
    for (int64_t i = 0; i < s->n * s->out_h * s->out_w * s->out_c; i++) {
        add(&context, i % s->out_c, dy[i]);
    }
}
