/* Forward and input gradient: one gathered product.
 *
 * Both compute, for destination pixels on a regular grid, the sum over taps of source pixels times
 * weights. In the forward pass the grid is the output and taps move the source by +tap * dilation.
 * For the input gradient destination pixels fall into stride_h * stride_w classes by their
 * remainder; inside a class the taps that hit whole output positions are again regular, so no
 * product with an inserted zero is ever formed. Taps in the padding read a row of zeros. */
#include <string.h>

#include "ops/check.h"
#include "ops/product.h"

/* One axis of one class: destination start + i * step, source base + i * base_step + offset(tap). */
typedef struct axis {
    int64_t start, step, count;          /* destination positions */
    int64_t base, base_step, size;       /* source position of destination 0, source size */
    int64_t tap, tap_step, taps;         /* kernel positions used */
    int64_t offset, offset_step;         /* source offset of the first tap and from tap to tap */
} axis;

typedef struct gather {
    const art_gemm_kernels *gemm;
    const float *source, *weight, *bias;
    float *target;
    int64_t n, source_c, target_c, source_cg, target_cg, target_h, target_w, kernel_w;
    int64_t tap_stride, k_stride, column_stride, group_stride; /* of the weights, in floats */
    axis (*axis_of)(const struct gather *, int64_t remainder, int vertical);
    const art_conv_shape *shape;
    int64_t classes_w, classes;
    uint32_t panels, blocks, block_pixels;
    float *workspace;
    size_t scratch_floats;
} gather;

/* A block of terms: taps [first, first + taps) of the class, k channels from k0. */
typedef struct chunk {
    int64_t first, k0;
    unsigned taps, k;
} chunk;

/* Where the pixels of one tile come from. */
typedef struct place {
    const float *image;
    int64_t h, w;
} place;

static axis forward_axis(const gather *g, int64_t remainder, int vertical)
{
    const art_conv_shape *s = g->shape;
    (void)remainder;
    return (axis){
        .start = 0,
        .step = 1,
        .count = vertical ? s->out_h : s->out_w,
        .base = vertical ? -s->pad_h : -s->pad_w,
        .base_step = vertical ? s->stride_h : s->stride_w,
        .size = vertical ? s->in_h : s->in_w,
        .tap = 0,
        .tap_step = 1,
        .taps = vertical ? s->kernel_h : s->kernel_w,
        .offset = 0,
        .offset_step = vertical ? s->dil_h : s->dil_w,
    };
}

/* Input position i is reached from output (i + pad - tap * dil) / stride where that is whole. */
static axis grad_x_axis(const gather *g, int64_t remainder, int vertical)
{
    const art_conv_shape *s = g->shape;
    int64_t stride = vertical ? s->stride_h : s->stride_w, dil = vertical ? s->dil_h : s->dil_w;
    int64_t pad = vertical ? s->pad_h : s->pad_w, in = vertical ? s->in_h : s->in_w;
    int64_t kernel = vertical ? s->kernel_h : s->kernel_w;
    axis a = {.step = stride, .base_step = 1, .size = vertical ? s->out_h : s->out_w};
    a.start = ((remainder - pad) % stride + stride) % stride;
    a.count = a.start < in ? (in - a.start - 1) / stride + 1 : 0;
    a.base = (a.start + pad) / stride;
    while (a.tap < kernel && a.tap < stride && (a.tap * dil) % stride != remainder) {
        a.tap++;
    }
    if (a.tap >= kernel || (a.tap * dil) % stride != remainder) {
        return a;
    }
    a.tap_step = 1;
    while ((a.tap_step * dil) % stride != 0) {
        a.tap_step++;
    }
    a.taps = (kernel - 1 - a.tap) / a.tap_step + 1;
    a.offset = -((a.tap * dil - remainder) / stride);
    a.offset_step = -(a.tap_step * dil / stride);
    return a;
}

/* The next block of terms behind `c`; false behind the last. A function of the shape alone. */
static bool next_chunk(const gather *g, int64_t taps, chunk *c)
{
    if (c->taps == 0) {
        c->first = c->k0 = 0;
    } else if (c->k0 + c->k < g->source_cg) {
        c->k0 += c->k;
    } else {
        c->first += c->taps;
        c->k0 = 0;
    }
    if (c->first >= taps) {
        return false;
    }
    int64_t rest = g->source_cg - c->k0, together = ART_GEMM_KC / g->source_cg;
    c->k = (unsigned)(rest < ART_GEMM_KC ? rest : ART_GEMM_KC);
    together = together < 1 ? 1 : (together > ART_GEMM_TAPS ? ART_GEMM_TAPS : together);
    together = together < taps - c->first ? together : taps - c->first;
    c->taps = (unsigned)together;
    return true;
}

static int64_t weight_tap(const gather *g, const axis *h, const axis *w, int64_t tap)
{
    int64_t kh = h->tap + tap / w->taps * h->tap_step, kw = w->tap + tap % w->taps * w->tap_step;
    return kh * g->kernel_w + kw;
}

/* Copy the panel's weights of a chunk into rows of `ld` floats, zero-filled. */
static void pack(const gather *g, const axis *h, const axis *w, const chunk *c, const float *weight,
                 unsigned columns, size_t ld, float *out)
{
    for (unsigned t = 0; t < c->taps; t++) {
        const float *from = weight + weight_tap(g, h, w, c->first + t) * g->tap_stride +
                            c->k0 * g->k_stride;
        float *rows = out + (size_t)t * c->k * ld;
        if (g->column_stride == 1) {
            for (unsigned k = 0; k < c->k; k++) {
                memcpy(rows + k * ld, from + k * g->k_stride, columns * sizeof(float));
                memset(rows + k * ld + columns, 0, (ld - columns) * sizeof(float));
            }
            continue;
        }
        for (unsigned j = 0; j < ld; j++) {
            const float *column = from + j * g->column_stride;
            for (unsigned k = 0; k < c->k; k++) {
                rows[k * ld + j] = j < columns ? column[k] : 0.0f;
            }
        }
    }
}

/* Source pixels and destination pointers of up to `m` pixels from `pixel` on. */
static void locate(const gather *g, const axis *h, const axis *w, int64_t pixel, unsigned m,
                   int64_t group, int64_t column, place *places, float **c)
{
    int64_t per_image = h->count * w->count, image = pixel / per_image;
    int64_t i = pixel % per_image / w->count, j = pixel % w->count;
    int64_t source_image = h->size * w->size * g->source_c;
    for (unsigned r = 0; r < m; r++) {
        int64_t row = (image * g->target_h + h->start + i * h->step) * g->target_w + w->start +
                      j * w->step;
        c[r] = g->target + row * g->target_c + group * g->target_cg + column;
        places[r].image = g->source + image * source_image + group * g->source_cg;
        places[r].h = h->base + i * h->base_step;
        places[r].w = w->base + j * w->base_step;
        if (++j == w->count) {
            j = 0;
            if (++i == h->count) {
                i = 0;
                image++;
            }
        }
    }
}

/* The source row of every tap and pixel; zeros where the tap lies outside. */
static void point(const gather *g, const axis *h, const axis *w, const chunk *c,
                  const place *places, unsigned m, const float *zeros, const float **a)
{
    int64_t th = c->first / w->taps, tw = c->first % w->taps;
    for (unsigned t = 0; t < c->taps; t++) {
        int64_t dh = h->offset + th * h->offset_step, dw = w->offset + tw * w->offset_step;
        for (unsigned r = 0; r < m; r++) {
            int64_t y = places[r].h + dh, x = places[r].w + dw;
            bool inside = (uint64_t)y < (uint64_t)h->size && (uint64_t)x < (uint64_t)w->size;
            a[t * g->gemm->mr + r] =
                inside ? places[r].image + (y * w->size + x) * g->source_c + c->k0 : zeros;
        }
        if (++tw == w->taps) {
            tw = 0;
            th++;
        }
    }
}

/* All pixels of a tile against one packed chunk. */
static void run_chunk(const gather *g, const axis *h, const axis *w, const chunk *c, int64_t first,
                      int64_t last, int64_t group, int64_t column, const art_gemm_rows *block,
                      const float *zeros)
{
    const float *a[ART_GEMM_TAPS * ART_GEMM_MR_MAX];
    float *rows[ART_GEMM_MR_MAX];
    place places[ART_GEMM_MR_MAX];
    art_gemm_rows tile = *block;
    tile.a = a;
    tile.c = rows;
    tile.taps = c->taps;
    tile.k = c->k;
    for (int64_t pixel = first; pixel < last; pixel += g->gemm->mr) {
        unsigned m = (unsigned)(last - pixel < g->gemm->mr ? last - pixel : g->gemm->mr);
        locate(g, h, w, pixel, m, group, column, places, rows);
        point(g, h, w, c, places, m, zeros, a);
        tile.m = m;
        g->gemm->rows(&tile);
    }
}

/* Destination pixels that no tap reaches are zero. */
static void clear(const gather *g, const axis *h, const axis *w, int64_t first, int64_t last,
                  int64_t group, int64_t column, unsigned columns)
{
    place places[1];
    float *row[1];
    for (int64_t pixel = first; pixel < last; pixel++) {
        locate(g, h, w, pixel, 1, group, column, places, row);
        memset(row[0], 0, columns * sizeof(float));
    }
}

static void gather_tile(void *context, unsigned index, unsigned thread)
{
    const gather *g = context;
    int64_t block = index % g->blocks, rest = index / g->blocks;
    int64_t column = rest % g->panels * g->gemm->nr;
    rest /= g->panels;
    int64_t class = rest % g->classes, group = rest / g->classes;
    axis h = g->axis_of(g, class / g->classes_w, 1), w = g->axis_of(g, class % g->classes_w, 0);
    int64_t pixels = g->n * h.count * w.count, first = block * g->block_pixels;
    int64_t last = first + g->block_pixels < pixels ? first + g->block_pixels : pixels;
    int64_t width = g->target_cg - column;
    unsigned columns = (unsigned)(width < g->gemm->nr ? width : g->gemm->nr);
    if (h.taps * w.taps == 0) {
        clear(g, &h, &w, first, last, group, column, columns);
        return;
    }
    float *zeros = art_product_scratch(g->workspace, g->scratch_floats, thread);
    float *packed = zeros + ART_GEMM_KC;
    memset(zeros, 0, ART_GEMM_KC * sizeof(float));
    const float *weight = g->weight + group * g->group_stride + column * g->column_stride;
    size_t ld = (columns + g->gemm->width - 1) / g->gemm->width * g->gemm->width;
    art_gemm_rows tile = {.b = packed, .ldb = ld, .n = columns, .store = ART_GEMM_SET};
    tile.bias = g->bias ? g->bias + group * g->target_cg + column : NULL;
    for (chunk c = {0}; first < last && next_chunk(g, h.taps * w.taps, &c);) {
        pack(g, &h, &w, &c, weight, columns, ld, packed);
        run_chunk(g, &h, &w, &c, first, last, group, column, &tile, zeros);
        tile.store = ART_GEMM_ADD;
        tile.bias = NULL;
    }
}

/* Enough tiles for every thread to have several, few enough that packing stays cheap. */
static void run(const art_op_args *args, gather *g, uint64_t terms, int64_t class_pixels)
{
    g->gemm = args->level->kernels.gemm;
    g->scratch_floats = art_product_floats(terms, (uint64_t)g->target_cg);
    g->panels = (uint32_t)art_ceil_div((uint64_t)g->target_cg, g->gemm->nr);
    int64_t wanted = class_pixels / 8 / g->gemm->mr * g->gemm->mr;
    int64_t least = 32 * (int64_t)g->gemm->mr, most = 64 * (int64_t)g->gemm->mr;
    g->block_pixels = (uint32_t)(wanted < least ? least : (wanted > most ? most : wanted));
    g->blocks = (uint32_t)art_ceil_div((uint64_t)class_pixels, g->block_pixels);
    uint64_t tiles = (uint64_t)g->blocks * g->panels * (uint64_t)g->classes *
                     (uint64_t)g->shape->groups;
    double cost = (double)class_pixels * (double)g->classes * (double)g->target_c * (double)terms;
    art_pool_run(args->pool, (unsigned)tiles, cost, gather_tile, g);
}

void art_conv_forward(const art_op_args *args, const art_conv_shape *s, const float *x,
                      const float *w, const float *b, float *y, void *workspace)
{
    int64_t in_cg = s->in_c / s->groups, out_cg = s->out_c / s->groups;
    gather g = {
        .source = x, .weight = w, .bias = b, .target = y, .shape = s, .axis_of = forward_axis,
        .n = s->n, .source_c = s->in_c, .target_c = s->out_c, .source_cg = in_cg,
        .target_cg = out_cg, .target_h = s->out_h, .target_w = s->out_w, .kernel_w = s->kernel_w,
        .tap_stride = in_cg * out_cg, .k_stride = out_cg, .column_stride = 1,
        .group_stride = s->kernel_h * s->kernel_w * in_cg * out_cg,
        .classes_w = 1, .classes = 1, .workspace = workspace,
    };
    run(args, &g, (uint64_t)(s->kernel_h * s->kernel_w * in_cg), s->n * s->out_h * s->out_w);
}

void art_conv_grad_x(const art_op_args *args, const art_conv_shape *s, const float *dy,
                     const float *w, float *dx, void *workspace)
{
    int64_t in_cg = s->in_c / s->groups, out_cg = s->out_c / s->groups;
    gather g = {
        .source = dy, .weight = w, .target = dx, .shape = s, .axis_of = grad_x_axis,
        .n = s->n, .source_c = s->out_c, .target_c = s->in_c, .source_cg = out_cg,
        .target_cg = in_cg, .target_h = s->in_h, .target_w = s->in_w, .kernel_w = s->kernel_w,
        .tap_stride = in_cg * out_cg, .k_stride = 1, .column_stride = out_cg,
        .group_stride = s->kernel_h * s->kernel_w * in_cg * out_cg,
        .classes_w = s->stride_w, .classes = s->stride_h * s->stride_w, .workspace = workspace,
    };
    int64_t rows = (int64_t)art_ceil_div((uint64_t)s->in_h, (uint64_t)s->stride_h);
    int64_t columns = (int64_t)art_ceil_div((uint64_t)s->in_w, (uint64_t)s->stride_w);
    run(args, &g, (uint64_t)(s->kernel_h * s->kernel_w * out_cg), s->n * rows * columns);
}

uint64_t art_product_floats(uint64_t terms, uint64_t columns)
{
    uint64_t rows = terms < ART_GEMM_KC ? terms : ART_GEMM_KC;
    uint64_t width = columns < ART_GEMM_NR_MAX ? art_ceil_div(columns, 16) * 16 : ART_GEMM_NR_MAX;
    return ART_GEMM_KC + art_ceil_div(rows * width, 16) * 16;
}

uint64_t art_product_workspace(uint64_t terms, uint64_t columns, unsigned threads)
{
    return art_product_floats(terms, columns) * sizeof(float) * threads;
}
