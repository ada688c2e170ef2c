/* Forward and input gradient: one gathered product.
 *
 * Both compute, for destination pixels on a regular grid, the sum over taps of source pixels times
 * weights. In the forward pass the grid is the output and taps move the source by +tap * dilation.
 * For the input gradient destination pixels fall into stride_h * stride_w classes by their
 * remainder; inside a class the taps that hit whole output positions are again regular, so no
 * product with an inserted zero is ever formed. Taps in the padding read a row of zeros. */
#include <string.h>

#include "ops/product.h"

/* One axis of one class: destination start + i * step; its source under tap j is
 * base + i * base_step + j * offset_step, the weights' kernel position tap + j * tap_step. */
typedef struct axis {
    int64_t start, step, count;
    int64_t base, base_step, offset_step, size;
    int64_t tap, tap_step, taps;
} axis;

typedef struct gather {
    const art_gemm_kernels *gemm;
    void (*leaf)(const art_gemm_rows *);
    const art_conv_shape *shape;
    const float *source, *weight, *bias;
    float *target, *workspace;
    axis (*axis_of)(const art_conv_shape *, int64_t class, bool vertical);
    int64_t source_c, source_cg, target_c, target_cg, target_h, target_w, groups;
    int64_t tap_stride, k_stride, column_stride, group_stride; /* of the weights, in floats */
    int64_t classes_w, classes, block_pixels;
    uint64_t blocks, panels, first_tile;
    unsigned panel_columns;
    bool depthwise;
    size_t scratch_floats;
} gather;

/* One tile of work, and what is common to its chunks. */
typedef struct work {
    const gather *g;
    axis h, w;
    const float *weight, *zeros;
    float *packed;
    int64_t first, last; /* pixels of the class */
    int64_t source_column, target_column;
    int64_t run_taps, run_terms, runs;
    unsigned columns;
} work;

/* A block of terms: runs [first, first + runs) of the class, k terms of each from k0. A run is a
 * tap's channels, or a whole kernel row's (art_merges_kernel_row). */
typedef struct chunk {
    int64_t first, k0;
    unsigned runs, k;
} chunk;

/* Where a destination pixel's source window starts. */
typedef struct place {
    int64_t h, w, at; /* at: floats from the source's start, may lie outside */
} place;

static axis forward_axis(const art_conv_shape *s, int64_t class, bool vertical) {
    (void)class;
    return (axis){
        .step = 1,
        .count = vertical ? s->out_h : s->out_w,
        .base = vertical ? -s->pad_h : -s->pad_w,
        .base_step = vertical ? s->stride_h : s->stride_w,
        .offset_step = vertical ? s->dil_h : s->dil_w,
        .size = vertical ? s->in_h : s->in_w,
        .tap_step = 1,
        .taps = vertical ? s->kernel_h : s->kernel_w,
    };
}

/* The smallest t >= 0 with t * a = b modulo m, for a without a common divisor with m. */
static int64_t solve_modulo(int64_t a, int64_t b, int64_t m) {
    int64_t r0 = m, r1 = a % m, t0 = 0, t1 = 1;
    while (r1 > 0) {
        int64_t q = r0 / r1, r = r0 - q * r1, t = t0 - q * t1;
        r0 = r1;
        r1 = r;
        t0 = t1;
        t1 = t;
    }
    return ((t0 % m + m) % m) * (b % m) % m;
}

static int64_t greatest_divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* Input position i is reached from output (i + pad - tap * dil) / stride where that is whole. Taps
 * are taken from the last to the first, so that source addresses ascend. */
static axis grad_x_axis(const art_conv_shape *s, int64_t class, bool vertical) {
    int64_t stride = vertical ? s->stride_h : s->stride_w, dil = vertical ? s->dil_h : s->dil_w;
    int64_t pad = vertical ? s->pad_h : s->pad_w, in = vertical ? s->in_h : s->in_w;
    int64_t kernel = vertical ? s->kernel_h : s->kernel_w;
    int64_t divisor = greatest_divisor(dil, stride), remainder = (class + pad) % stride;
    axis a = {.start = class, .step = stride, .count = (in - class - 1) / stride + 1};
    a.base_step = 1;
    a.size = vertical ? s->out_h : s->out_w;
    int64_t tap_step = stride / divisor;
    int64_t tap =
        remainder % divisor ? kernel : solve_modulo(dil / divisor, remainder / divisor, tap_step);
    if (tap >= kernel) {
        return a;
    }
    a.taps = (kernel - 1 - tap) / tap_step + 1;
    a.tap = tap + (a.taps - 1) * tap_step;
    a.tap_step = -tap_step;
    a.offset_step = dil / divisor;
    a.base = (class + pad - a.tap * dil) / stride;
    return a;
}

/* The next block of terms behind `c`; false behind the last. A function of the shape alone. */
static bool next_chunk(const work *t, chunk *c) {
    if (c->runs == 0) {
        c->first = c->k0 = 0;
    } else if (c->k0 + c->k < t->run_terms) {
        c->k0 += c->k;
    } else {
        c->first += c->runs;
        c->k0 = 0;
    }
    if (c->first >= t->runs) {
        return false;
    }
    int64_t rest = t->run_terms - c->k0, together = ART_GEMM_KC / t->run_terms;
    c->k = (unsigned)(rest < ART_GEMM_KC ? rest : ART_GEMM_KC);
    together = together < 1 ? 1 : (together > ART_GEMM_TAPS ? ART_GEMM_TAPS : together);
    c->runs = (unsigned)(together < t->runs - c->first ? together : t->runs - c->first);
    return true;
}

/* Weights of the class's tap number `tap` from channel k0 on. */
static const float *tap_weight(const work *t, int64_t tap, int64_t k0) {
    int64_t kh = t->h.tap + tap / t->w.taps * t->h.tap_step;
    int64_t kw = t->w.tap + tap % t->w.taps * t->w.tap_step;
    return t->weight + (kh * t->g->shape->kernel_w + kw) * t->g->tap_stride + k0 * t->g->k_stride;
}

/* Copy a chunk's weights into the leaf's b. */
static void pack(const work *t, const chunk *c, size_t ld) {
    const gather *g = t->g;
    unsigned k = t->run_taps == 1 ? c->k : (unsigned)g->source_cg;
    int64_t taps = c->runs * t->run_taps, first = c->first * t->run_taps;
    float *out = t->packed;
    for (int64_t tap = first; tap < first + taps; tap++, out += k * ld) {
        const float *from = tap_weight(t, tap, c->k0);
        if (g->column_stride == 1) {
            g->gemm->copy(from, (size_t)g->k_stride, k, t->columns, out);
        } else {
            g->gemm->transpose(from, (size_t)g->column_stride, k, t->columns, out);
        }
    }
}

/* Few rows do not repay a copy: read whole vectors of weights where they are. */
static bool in_place(const work *t, const chunk *c) {
    const gather *g = t->g;
    return g->column_stride == 1 && t->last - t->first <= 2 * (int64_t)g->gemm->mr &&
           t->columns % g->gemm->width == 0 && !g->depthwise &&
           (c->runs * t->run_taps == 1 || t->w.tap_step == 1);
}

/* Source windows and destination pointers of `m` pixels from `pixel` on. */
static void locate(const work *t, int64_t pixel, unsigned m, place *places, float **c) {
    const gather *g = t->g;
    int64_t per_image = t->h.count * t->w.count, image = pixel / per_image;
    int64_t i = pixel % per_image / t->w.count, j = pixel % t->w.count;
    for (unsigned r = 0; r < m; r++) {
        int64_t row = image * g->target_h + t->h.start + i * t->h.step;
        int64_t y = t->h.base + i * t->h.base_step, x = t->w.base + j * t->w.base_step;
        c[r] = g->target + (row * g->target_w + t->w.start + j * t->w.step) * g->target_c +
               t->target_column;
        places[r].h = y;
        places[r].w = x;
        places[r].at = ((image * t->h.size + y) * t->w.size + x) * g->source_c + t->source_column;
        if (++j == t->w.count) {
            j = 0;
            if (++i == t->h.count) {
                i = 0;
                image++;
            }
        }
    }
}

/* A run that lies partly outside: its row of the source with zeros around. */
static const float *padded_run(const work *t, int64_t x, int64_t at, float *out) {
    const float *source = t->g->source;
    for (int64_t tap = 0; tap < t->run_taps; tap++, at += t->g->source_c) {
        bool inside = (uint64_t)(x + tap) < (uint64_t)t->w.size;
        for (int64_t k = 0; k < t->g->source_cg; k++) {
            out[tap * t->g->source_cg + k] = inside ? source[at + k] : 0.0f;
        }
    }
    return out;
}

/* How far the runs of a chunk lie from the window's start. */
static void list_moves(const work *t, const chunk *c, place *moves) {
    int64_t runs_w = t->run_taps == 1 ? t->w.taps : 1;
    int64_t th = c->first / runs_w, tw = c->first % runs_w;
    for (unsigned i = 0; i < c->runs; i++) {
        moves[i].h = th * t->h.offset_step;
        moves[i].w = tw * t->w.offset_step;
        moves[i].at = (moves[i].h * t->w.size + moves[i].w) * t->g->source_c + c->k0;
        if (++tw == runs_w) {
            tw = 0;
            th++;
        }
    }
}

/* The source rows of a pixel whose window leaves the image: zeros where a run lies outside. */
static void point_at_border(const work *t, unsigned runs, const place *moves, const place *pixel,
                            float *padded, const float **a) {
    int64_t starts = t->w.size - t->run_taps + 1;
    for (unsigned i = 0; i < runs; i++) {
        int64_t y = pixel->h + moves[i].h, x = pixel->w + moves[i].w, at = pixel->at + moves[i].at;
        const float *from = t->zeros;
        if (y >= 0 && y < t->h.size) {
            if (x >= 0 && x < starts) {
                from = t->g->source + at;
            } else if (t->run_taps > 1) {
                from = padded_run(t, x, at, padded + i * t->run_terms);
            }
        }
        a[i * t->g->gemm->mr] = from;
    }
}

/* All pixels of a tile against one chunk of weights. */
static void run_chunk(const work *t, const chunk *c, art_gemm_rows *tile) {
    const float *a[ART_GEMM_TAPS * ART_GEMM_MR_MAX];
    float *rows[ART_GEMM_MR_MAX], padded[ART_GEMM_MR_MAX * ART_GEMM_KC];
    place places[ART_GEMM_MR_MAX], moves[ART_GEMM_TAPS];
    int64_t pixels = t->last - t->first, mr = t->g->gemm->mr, steps = (pixels - 1) / mr + 1;
    int64_t inside_h = t->h.size - (t->h.taps - 1) * t->h.offset_step;
    int64_t inside_w = t->w.size - (t->w.taps - 1) * t->w.offset_step;
    tile->taps = c->runs;
    tile->k = c->k;
    list_moves(t, c, moves);
    for (int64_t step = 0; step < steps; step++) {
        int64_t first = pixels * step / steps;
        tile->m = (unsigned)(pixels * (step + 1) / steps - first);
        locate(t, t->first + first, tile->m, places, rows);
        for (unsigned r = 0; r < tile->m; r++) {
            const place *p = &places[r];
            if (p->h >= 0 && p->h < inside_h && p->w >= 0 && p->w < inside_w) {
                for (unsigned i = 0; i < c->runs; i++) {
                    a[i * mr + r] = t->g->source + (p->at + moves[i].at);
                }
            } else {
                point_at_border(t, c->runs, moves, p, padded + r * ART_GEMM_KC, a + r);
            }
        }
        tile->a = a;
        tile->c = rows;
        t->g->leaf(tile);
    }
    tile->a = NULL;
    tile->c = NULL;
}

/* Destination pixels that no tap reaches hold the bias, or zero. */
static void clear(const work *t) {
    place at;
    float *row;
    for (int64_t pixel = t->first; pixel < t->last; pixel++) {
        locate(t, pixel, 1, &at, &row);
        if (t->g->bias) {
            memcpy(row, t->g->bias + t->target_column, t->columns * sizeof(float));
        } else {
            memset(row, 0, t->columns * sizeof(float));
        }
    }
}

/* Which pixels, columns, class and group a tile number means; panels of a pixel block are
 * neighbours, so that they find the source pixels in cache. */
static work tile_work(const gather *g, uint64_t tile) {
    int64_t column = (int64_t)(tile % g->panels * g->panel_columns);
    int64_t block = (int64_t)(tile / g->panels % g->blocks);
    uint64_t rest = tile / g->panels / g->blocks;
    int64_t class = (int64_t)(rest % (uint64_t)g->classes);
    int64_t group = (int64_t)(rest / (uint64_t)g->classes), width = g->target_cg - column;
    work t = {.g = g, .first = block * g->block_pixels};
    t.h = g->axis_of(g->shape, class / g->classes_w, true);
    t.w = g->axis_of(g->shape, class % g->classes_w, false);
    int64_t pixels = g->shape->n * t.h.count * t.w.count;
    t.last = pixels - t.first < g->block_pixels ? pixels : t.first + g->block_pixels;
    t.columns = (unsigned)(width < g->panel_columns ? width : g->panel_columns);
    t.weight = g->weight + group * g->group_stride + column * g->column_stride;
    t.source_column = g->depthwise ? column : group * g->source_cg;
    t.target_column = group * g->target_cg + column;
    bool merged =
        art_merges_kernel_row(t.w.taps, g->source_cg, t.w.offset_step, g->groups) && !g->depthwise;
    t.run_taps = merged ? t.w.taps : 1;
    t.run_terms = t.run_taps * g->source_cg;
    t.runs = t.h.taps * t.w.taps / t.run_taps;
    return t;
}

static void run_tile(void *context, unsigned index, unsigned thread) {
    const gather *g = context;
    work t = tile_work(g, g->first_tile + index);
    if (t.h.taps * t.w.taps == 0) {
        clear(&t);
        return;
    }
    float *zeros = art_product_scratch(g->workspace, g->scratch_floats, thread);
    memset(zeros, 0, ART_GEMM_KC * sizeof(float));
    t.zeros = zeros;
    t.packed = zeros + ART_GEMM_KC;
    size_t ld = art_ceil_div(t.columns, g->gemm->width) * g->gemm->width;
    art_gemm_rows tile = {.n = t.columns, .store = ART_GEMM_SET};
    tile.bias = g->bias ? g->bias + t.target_column : NULL;
    for (chunk c = {0}; t.first < t.last && next_chunk(&t, &c);) {
        if (in_place(&t, &c)) {
            tile.b = tap_weight(&t, c.first * t.run_taps, c.k0);
            tile.ldb = (size_t)g->k_stride;
        } else {
            pack(&t, &c, ld);
            tile.b = t.packed;
            tile.ldb = ld;
        }
        run_chunk(&t, &c, &tile);
        tile.store = ART_GEMM_ADD;
        tile.bias = NULL;
    }
}

/* Depthwise: all groups are the columns of one product whose columns do not mix. */
static void make_depthwise(gather *g) {
    g->depthwise = true;
    g->leaf = g->gemm->depth_rows;
    g->groups = 1;
    g->target_cg = g->target_c;
    g->column_stride = g->shape->kernel_h * g->shape->kernel_w;
    g->tap_stride = 1;
}

/* Enough tiles for every thread to have several, few enough that packing stays cheap. */
static void run(const art_op_args *args, gather *g, int64_t class_pixels) {
    enum { MOST_TILES = 1 << 30, LEAST_STEPS = 16, MOST_STEPS = 64 };
    const art_conv_shape *s = g->shape;
    unsigned threads = art_pool_threads(args->pool);
    g->gemm = args->level->kernels.gemm;
    g->leaf = g->gemm->rows;
    g->groups = s->groups;
    if (art_is_depthwise(s)) {
        make_depthwise(g);
    }
    uint64_t terms = (uint64_t)(s->kernel_h * s->kernel_w * g->source_cg);
    g->scratch_floats = art_product_floats(terms, (uint64_t)g->target_cg);
    unsigned most = g->depthwise ? ART_GEMM_NR_MAX : g->gemm->nr;
    g->panel_columns = art_panel_columns(g->gemm, most, g->target_cg);
    g->panels = art_ceil_div((uint64_t)g->target_cg, g->panel_columns);
    int64_t others = g->classes * g->groups * (int64_t)g->panels;
    int64_t blocks = others < 4 * threads ? 4 * threads / others : 1;
    int64_t steps = threads > 1 ? class_pixels / g->gemm->mr / blocks : MOST_STEPS;
    steps = steps < LEAST_STEPS ? LEAST_STEPS : steps > MOST_STEPS ? MOST_STEPS : steps;
    g->block_pixels = steps * g->gemm->mr;
    g->blocks = art_ceil_div((uint64_t)class_pixels, (uint64_t)g->block_pixels);
    uint64_t tiles = g->blocks * g->panels * (uint64_t)(g->classes * g->groups);
    double cost = (double)class_pixels * (double)g->classes * (double)g->target_c * (double)terms;
    for (uint64_t left = tiles; left > 0;) {
        unsigned count = left < MOST_TILES ? (unsigned)left : MOST_TILES;
        art_pool_run(args->pool, count, cost, run_tile, g);
        g->first_tile += count;
        left -= count;
    }
}

void art_conv_forward(const art_op_args *args, const art_conv_shape *s, const float *x,
                      const float *w, const float *b, float *y, void *workspace) {
    int64_t in_cg = s->in_c / s->groups, out_cg = s->out_c / s->groups;
    gather g = {
        .shape = s,
        .source = x,
        .weight = w,
        .bias = b,
        .target = y,
        .workspace = workspace,
        .axis_of = forward_axis,
        .source_c = s->in_c,
        .source_cg = in_cg,
        .target_c = s->out_c,
        .target_cg = out_cg,
        .target_h = s->out_h,
        .target_w = s->out_w,
        .tap_stride = in_cg * out_cg,
        .k_stride = out_cg,
        .column_stride = 1,
        .group_stride = s->kernel_h * s->kernel_w * in_cg * out_cg,
        .classes_w = 1,
        .classes = 1,
    };
    run(args, &g, s->n * s->out_h * s->out_w);
}

void art_conv_transpose(const art_op_args *args, const art_conv_shape *s, const float *dy,
                        const float *w, const float *b, float *dx, void *workspace) {
    int64_t in_cg = s->in_c / s->groups, out_cg = s->out_c / s->groups;
    int64_t classes_h = s->stride_h < s->in_h ? s->stride_h : s->in_h;
    int64_t classes_w = s->stride_w < s->in_w ? s->stride_w : s->in_w;
    gather g = {
        .shape = s,
        .source = dy,
        .weight = w,
        .bias = b,
        .target = dx,
        .workspace = workspace,
        .axis_of = grad_x_axis,
        .source_c = s->out_c,
        .source_cg = out_cg,
        .target_c = s->in_c,
        .target_cg = in_cg,
        .target_h = s->in_h,
        .target_w = s->in_w,
        .tap_stride = in_cg * out_cg,
        .k_stride = 1,
        .column_stride = out_cg,
        .group_stride = s->kernel_h * s->kernel_w * in_cg * out_cg,
        .classes_w = classes_w,
        .classes = classes_h * classes_w,
    };
    int64_t rows = (s->in_h - 1) / s->stride_h + 1, columns = (s->in_w - 1) / s->stride_w + 1;
    run(args, &g, s->n * rows * columns);
}

void art_conv_grad_x(const art_op_args *args, const art_conv_shape *s, const float *dy,
                     const float *w, float *dx, void *workspace) {
    art_conv_transpose(args, s, dy, w, NULL, dx, workspace);
}

uint64_t art_product_floats(uint64_t terms, uint64_t columns) {
    uint64_t rows = terms < ART_GEMM_KC ? terms : ART_GEMM_KC;
    uint64_t width = columns < ART_GEMM_NR_MAX
                         ? art_ceil_div(columns, ART_GEMM_WIDTH_MAX) * ART_GEMM_WIDTH_MAX
                         : ART_GEMM_NR_MAX;
    return ART_GEMM_KC + art_ceil_div(rows * width, 16) * 16;
}

uint64_t art_product_workspace(uint64_t terms, uint64_t columns, unsigned threads) {
    return art_product_floats(terms, columns) * sizeof(float) * threads;
}
