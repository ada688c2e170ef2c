/* Weight and bias gradient: sums over pixels in blocks of ART_GEMM_KC, blocks in ascending order.
 * Threads own (group, output panel, kernel row, input channels) tiles, never pixels. Some rows of
 * the gradient alone are made by (output panel, rows) tiles: a sum is the same in both.
 *
 * Pixels whose tap lies in the padding are left out of the sum. Where a kernel row counts as one
 * long tap (art_merges_kernel_row), a block adds the pixels that have the whole row inside first,
 * then for each tap those that have only some of it. */
#include <string.h>

#include "ops/product.h"

enum {
    CHANNEL_BLOCK = 128, /* input channels of a tile, or rows of the gradient */
    BIAS_BLOCK = 64,     /* channels of a bias tile */
};

typedef struct weight_job {
    const art_gemm_kernels *gemm;
    const art_conv_shape *shape;
    const float *x, *dy;
    float *dw, *db, *workspace;
    size_t scratch_floats;
    int64_t in_cg, out_cg, pixels, groups;
    uint64_t panels, panel_groups, channel_blocks, row_tiles, first_tile;
    int64_t tile_rows;              /* kernel rows of a tile */
    int64_t group, first_row, rows; /* a job of some rows of a group: those from first_row on */
    unsigned panel_columns;
    bool depthwise, merged;
} weight_job;

/* One tile: its channels and kernel row, and its packed block of dy. */
typedef struct weight_tile {
    const weight_job *job;
    int64_t group, column, kh, channel; /* kh: the kernel row at work */
    unsigned columns, channels;
    float *packed;
    size_t ld;
    art_gemm_store store; /* SET in the first block */
} weight_tile;

/* Output columns [first, last). */
typedef struct range {
    int64_t first, last;
} range;

/* The pixels of a block that a sum takes, in ascending order. */
typedef struct pixel_list {
    const float *x[ART_GEMM_KC];
    uint32_t row[ART_GEMM_KC];
    unsigned count;
} pixel_list;

/* Copy the gradient's columns of pixels [first, first + count): the leaf's b. */
static void pack_dy(const weight_tile *t, int64_t first, unsigned count) {
    int64_t out_c = t->job->shape->out_c, column = t->group * t->job->out_cg + t->column;
    t->job->gemm->copy(t->job->dy + first * out_c + column, (size_t)out_c, count, t->columns,
                       t->packed);
}

/* Output columns [first, last) whose input columns iw + [low, high] are inside the image, iw
 * being that of kernel column 0. */
static range columns_inside(const art_conv_shape *s, int64_t low, int64_t high) {
    int64_t reach = s->in_w - 1 - high + s->pad_w; /* largest iw + pad */
    int64_t first = low >= s->pad_w ? 0 : (s->pad_w - low - 1) / s->stride_w + 1;
    int64_t last = reach < 0 ? 0 : reach / s->stride_w + 1;
    last = last < s->out_w ? last : s->out_w;
    return (range){first, last > first ? last : first};
}

/* Append the pixels of `inside` in output row `row` (counted over all images) that belong to
 * [first, last); x is the input row at column iw of output column 0. */
static void list_row(const weight_tile *t, range inside, int64_t row, int64_t first, int64_t last,
                     int64_t x, pixel_list *list) {
    const art_conv_shape *s = t->job->shape;
    int64_t start = row * s->out_w, from = start + inside.first, to = start + inside.last;
    from = from > first ? from : first;
    to = to < last ? to : last;
    x += (from - start) * s->stride_w * s->in_c;
    for (int64_t p = from; p < to; p++, x += s->stride_w * s->in_c) {
        list->x[list->count] = t->job->x + x;
        list->row[list->count++] = (uint32_t)(p - first) * (uint32_t)t->ld;
    }
}

/* The pixels of [first, last) in columns a, then b of each output row, where the input row is
 * inside; x moved by `column` input columns. */
static void list_pixels(const weight_tile *t, int64_t first, int64_t last, range a, range b,
                        int64_t column, pixel_list *list) {
    const art_conv_shape *s = t->job->shape;
    int64_t channel = t->job->depthwise ? t->column : t->group * t->job->in_cg + t->channel;
    list->count = 0;
    for (int64_t row = first / s->out_w; row * s->out_w < last; row++) {
        int64_t image = row / s->out_h, oh = row % s->out_h;
        int64_t ih = oh * s->stride_h - s->pad_h + t->kh * s->dil_h;
        if (ih >= 0 && ih < s->in_h) {
            int64_t iw = column - s->pad_w;
            int64_t x = ((image * s->in_h + ih) * s->in_w + iw) * s->in_c + channel;
            list_row(t, a, row, first, last, x, list);
            list_row(t, b, row, first, last, x, list);
        }
    }
}

/* Rows [0, rows) of the gradient from `dw` on against the listed pixels. */
static void add_rows(const weight_tile *t, const pixel_list *list, unsigned rows, float *dw,
                     art_gemm_store store) {
    const art_gemm_kernels *gemm = t->job->gemm;
    art_gemm_pixels product = {.x = list->x, .row = list->row, .b = t->packed, .n = t->columns};
    product.ldc = (size_t)t->job->out_cg;
    product.pixels = list->count;
    product.store = store;
    unsigned steps = (rows - 1) / gemm->mr + 1;
    for (unsigned step = 0; step < steps; step++) {
        unsigned r = rows * step / steps;
        product.offset = r;
        product.m = rows * (step + 1) / steps - r;
        product.c = dw + r * t->job->out_cg + t->column;
        gemm->pixels(&product);
    }
}

/* The gradient of depthwise weights lies tap by tap in each channel: add it one by one. */
static void add_depthwise(const weight_tile *t, const pixel_list *list, int64_t tap) {
    const art_conv_shape *s = t->job->shape;
    float block[ART_GEMM_NR_MAX];
    art_gemm_pixels product = {.x = list->x, .row = list->row, .b = t->packed, .c = block};
    product.pixels = list->count;
    product.m = 1;
    product.n = t->columns;
    t->job->gemm->depth_pixels(&product);
    for (unsigned j = 0; j < t->columns; j++) {
        float *dw = t->job->dw + (t->column + j) * s->kernel_h * s->kernel_w + tap;
        *dw = t->store == ART_GEMM_SET ? block[j] : *dw + block[j];
    }
}

/* All kernel columns and channels of a tile against one block of pixels. */
static void add_block(const weight_tile *t, int64_t first, int64_t last) {
    const weight_job *job = t->job;
    const art_conv_shape *s = job->shape;
    int64_t taps = s->kernel_h * s->kernel_w, row_tap = t->kh * s->kernel_w;
    float *dw = job->dw + ((t->group * taps + row_tap) * job->in_cg + t->channel) * job->out_cg;
    pixel_list list;
    art_gemm_store store = t->store;
    range whole = {0, 0};
    if (job->merged) {
        whole = columns_inside(s, 0, s->kernel_w - 1);
        list_pixels(t, first, last, whole, (range){0, 0}, 0, &list);
        add_rows(t, &list, (unsigned)(s->kernel_w * job->in_cg), dw, store);
        store = ART_GEMM_ADD;
    }
    for (int64_t kw = 0; kw < s->kernel_w; kw++) {
        int64_t column = kw * s->dil_w;
        range inside = columns_inside(s, column, column), left = inside, right = {0, 0};
        if (whole.last > whole.first) {
            left.last = whole.first;
            right = (range){whole.last, inside.last};
        }
        list_pixels(t, first, last, left, right, column, &list);
        if (job->depthwise) {
            add_depthwise(t, &list, row_tap + kw);
        } else if (list.count > 0 || store == ART_GEMM_SET) {
            add_rows(t, &list, t->channels, dw + kw * job->in_cg * job->out_cg, store);
        }
    }
}

static void set_panel(weight_tile *t, int64_t panel) {
    const weight_job *job = t->job;
    t->column = panel * job->panel_columns;
    int64_t width = job->out_cg - t->column;
    t->columns = (unsigned)(width < job->panel_columns ? width : job->panel_columns);
    t->ld = art_ceil_div(t->columns, job->gemm->width) * job->gemm->width;
}

static void weight_tile_run(void *context, unsigned index, unsigned thread) {
    const weight_job *job = context;
    uint64_t rest = job->first_tile + index;
    weight_tile t = {.job = job, .store = ART_GEMM_SET};
    t.packed = art_product_scratch(job->workspace, job->scratch_floats, thread);
    t.channel = (int64_t)(rest % job->channel_blocks) * CHANNEL_BLOCK;
    rest /= job->channel_blocks;
    int64_t row = (int64_t)(rest % job->row_tiles) * job->tile_rows;
    int64_t end = row + job->tile_rows;
    end = end < job->shape->kernel_h ? end : job->shape->kernel_h;
    rest /= job->row_tiles;
    set_panel(&t, (int64_t)(rest % job->panels));
    t.group = (int64_t)(rest / job->panels);
    int64_t depth = job->in_cg - t.channel;
    t.channels = (unsigned)(depth < CHANNEL_BLOCK ? depth : CHANNEL_BLOCK);
    for (int64_t first = 0; first < job->pixels; first += ART_GEMM_KC) {
        int64_t left = job->pixels - first;
        unsigned count = (unsigned)(left < ART_GEMM_KC ? left : ART_GEMM_KC);
        pack_dy(&t, first, count);
        for (t.kh = row; t.kh < end; t.kh++) {
            add_block(&t, first, first + count);
        }
        t.store = ART_GEMM_ADD;
    }
}

/* Rows [row, end) of the tile's group against one block of pixels, tap by tap. */
static void add_block_rows(weight_tile *t, int64_t row, int64_t end, int64_t first, int64_t last) {
    const weight_job *job = t->job;
    const art_conv_shape *s = job->shape;
    float *dw = job->dw + (row - job->first_row) * job->out_cg;
    pixel_list list;
    while (row < end) {
        int64_t tap = row / job->in_cg, column = tap % s->kernel_w * s->dil_w;
        range inside = columns_inside(s, column, column);
        t->channel = row % job->in_cg;
        t->kh = tap / s->kernel_w;
        int64_t depth = job->in_cg - t->channel;
        t->channels = (unsigned)(depth < end - row ? depth : end - row);
        list_pixels(t, first, last, inside, (range){0, 0}, column, &list);
        if (list.count > 0 || t->store == ART_GEMM_SET) {
            add_rows(t, &list, t->channels, dw, t->store);
        }
        row += t->channels;
        dw += t->channels * job->out_cg;
    }
}

/* All panels of a tile meet a block of pixels while it is in cache, neighbours the same rows. */
static void rows_tile_run(void *context, unsigned index, unsigned thread) {
    const weight_job *job = context;
    int64_t panels = (int64_t)job->panels, groups = (int64_t)job->panel_groups;
    int64_t part = index / groups, parts = (int64_t)job->row_tiles, group = index % groups;
    int64_t row = job->first_row + job->rows * part / parts;
    int64_t end = job->first_row + job->rows * (part + 1) / parts;
    weight_tile t = {.job = job, .group = job->group, .store = ART_GEMM_SET};
    t.packed = art_product_scratch(job->workspace, job->scratch_floats, thread);
    for (int64_t first = 0; first < job->pixels; first += ART_GEMM_KC) {
        int64_t left = job->pixels - first;
        unsigned count = (unsigned)(left < ART_GEMM_KC ? left : ART_GEMM_KC);
        int64_t last = panels * (group + 1) / groups;
        for (int64_t panel = panels * group / groups; panel < last; panel++) {
            set_panel(&t, panel);
            pack_dy(&t, first, count);
            add_block_rows(&t, row, end, first, first + count);
        }
        t.store = ART_GEMM_ADD;
    }
}

static weight_job weight_job_of(const art_op_args *args, const art_conv_shape *s, const float *x,
                                const float *dy, float *dw, void *workspace) {
    unsigned threads = art_pool_threads(args->pool);
    weight_job job = {.gemm = args->level->kernels.gemm, .shape = s, .x = x, .dy = dy, .dw = dw};
    job.workspace = workspace;
    job.depthwise = art_is_depthwise(s);
    job.groups = job.depthwise ? 1 : s->groups;
    job.in_cg = s->in_c / s->groups;
    job.out_cg = s->out_c / job.groups;
    job.merged = art_merges_kernel_row(s->kernel_w, s->in_c, s->dil_w, s->groups);
    job.pixels = s->n * s->out_h * s->out_w;
    /* The planned batch sized the workspace; a smaller one needs no more. */
    job.scratch_floats = art_product_floats((uint64_t)job.pixels, (uint64_t)job.out_cg);
    /* Wide panels list a tap's pixels less often, narrow ones keep all threads busy. */
    bool wide = job.depthwise && (threads == 1 || job.out_cg >= ART_GEMM_NR_MAX * (int64_t)threads);
    unsigned most = wide ? ART_GEMM_NR_MAX : job.gemm->nr;
    job.panel_columns = art_panel_columns(job.gemm, most, job.out_cg);
    job.panels = art_ceil_div((uint64_t)job.out_cg, job.panel_columns);
    return job;
}

void art_conv_grad_w(const art_op_args *args, const art_conv_shape *s, const float *x,
                     const float *dy, float *dw, void *workspace) {
    enum { MOST_TILES = 1 << 30 };
    unsigned threads = art_pool_threads(args->pool);
    weight_job job = weight_job_of(args, s, x, dy, dw, workspace);
    job.channel_blocks = art_ceil_div((uint64_t)job.in_cg, CHANNEL_BLOCK);
    uint64_t tiles = job.channel_blocks * job.panels * (uint64_t)job.groups;
    /* A tile packs dy once for all its kernel rows: split them only to keep threads busy. */
    job.tile_rows = threads == 1 || tiles >= 4 * threads ? s->kernel_h : 1;
    job.row_tiles = art_ceil_div((uint64_t)s->kernel_h, (uint64_t)job.tile_rows);
    tiles *= job.row_tiles;
    double cost = (double)job.pixels * (double)(s->kernel_h * s->kernel_w * s->in_c) *
                  (double)(s->out_c / s->groups);
    for (uint64_t left = tiles; left > 0;) {
        unsigned count = left < MOST_TILES ? (unsigned)left : MOST_TILES;
        art_pool_run(args->pool, count, cost, weight_tile_run, &job);
        job.first_tile += count;
        left -= count;
    }
}

void art_conv_grad_w_rows(const art_op_args *args, const art_conv_shape *s, const float *x,
                          const float *dy, int64_t first, int64_t rows, float *dw,
                          void *workspace) {
    weight_job job = weight_job_of(args, s, x, dy, dw, workspace);
    unsigned threads = art_pool_threads(args->pool);
    int64_t of_group = s->kernel_h * s->kernel_w * job.in_cg;
    for (int64_t end = first + rows; first < end; first += job.rows) {
        job.group = first / of_group;
        job.first_row = first % of_group;
        job.rows = of_group - job.first_row;
        job.rows = job.rows < end - first ? job.rows : end - first;
        /* Every tile lists pixels and packs dy: cut only to keep threads busy. */
        uint64_t wanted = threads == 1 ? 1 : 4 * threads;
        job.panel_groups = job.panels < wanted ? job.panels : wanted;
        uint64_t parts = art_ceil_div(wanted, job.panel_groups);
        uint64_t most = art_ceil_div((uint64_t)job.rows, CHANNEL_BLOCK);
        job.row_tiles = parts < most ? parts : most;
        double cost = (double)job.pixels * (double)job.rows * (double)job.out_cg;
        art_pool_run(args->pool, (unsigned)(job.row_tiles * job.panel_groups), cost, rows_tile_run,
                     &job);
        job.dw += job.rows * job.out_cg;
    }
}

static void bias_tile_run(void *context, unsigned index, unsigned thread) {
    const weight_job *job = context;
    int64_t channels = job->shape->out_c, first = (int64_t)index * BIAS_BLOCK;
    unsigned width = (unsigned)(channels - first < BIAS_BLOCK ? channels - first : BIAS_BLOCK);
    float total[BIAS_BLOCK] = {0};
    (void)thread;
    for (int64_t start = 0; start < job->pixels; start += ART_GEMM_KC) {
        float block[BIAS_BLOCK] = {0};
        int64_t stop = start + ART_GEMM_KC < job->pixels ? start + ART_GEMM_KC : job->pixels;
        for (int64_t p = start; p < stop; p++) {
            const float *row = job->dy + p * channels + first;
            for (unsigned j = 0; j < width; j++) {
                block[j] += row[j];
            }
        }
        for (unsigned j = 0; j < width; j++) {
            total[j] += block[j];
        }
    }
    memcpy(job->db + first, total, width * sizeof(float));
}

void art_conv_grad_b(const art_op_args *args, const art_conv_shape *s, const float *dy, float *db) {
    weight_job job = {.shape = s, .dy = dy, .db = db, .pixels = s->n * s->out_h * s->out_w};
    unsigned tiles = (unsigned)art_ceil_div((uint64_t)s->out_c, BIAS_BLOCK);
    art_pool_run(args->pool, tiles, (double)job.pixels * (double)s->out_c, bias_tile_run, &job);
}
