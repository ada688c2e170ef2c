/* Weight and bias gradient: sums over pixels in blocks of ART_GEMM_KC, blocks in ascending order.
 * Threads own (group, output panel, kernel row, input channels) tiles, never pixels. */
#include <string.h>

#include "ops/check.h"
#include "ops/product.h"

enum {
    CHANNEL_BLOCK = 128, /* input channels of a tile: at most ART_GEMM_KC, the zero row's length */
    BIAS_BLOCK = 64,     /* channels of a bias tile */
};

typedef struct weight_job {
    const art_gemm_kernels *gemm;
    const art_conv_shape *shape;
    const float *x, *dy;
    float *dw, *db, *workspace;
    size_t scratch_floats;
    int64_t in_cg, out_cg, pixels;
    uint32_t panels, channel_blocks;
} weight_job;

/* One tile: its channels and kernel row. */
typedef struct weight_tile {
    int64_t group, column, kh, channel;
    unsigned columns, channels;
} weight_tile;

/* Copy the gradient's columns of pixels [first, first + count) into rows of `ld` floats. */
static void pack_dy(const weight_job *job, const weight_tile *t, int64_t first, unsigned count,
                    size_t ld, float *out)
{
    const float *from = job->dy + first * job->shape->out_c + t->group * job->out_cg + t->column;
    for (unsigned p = 0; p < count; p++, from += job->shape->out_c, out += ld) {
        memcpy(out, from, t->columns * sizeof(float));
        memset(out + t->columns, 0, (ld - t->columns) * sizeof(float));
    }
}

/* The input pixel under tap (kh, kw) for each output pixel; zeros in the padding. */
static void point(const weight_job *job, const weight_tile *t, int64_t kw, int64_t first,
                  unsigned count, const float *zeros, const float **x)
{
    const art_conv_shape *s = job->shape;
    int64_t per_image = s->out_h * s->out_w, image = first / per_image;
    int64_t oh = first % per_image / s->out_w, ow = first % s->out_w;
    int64_t channel = t->group * job->in_cg + t->channel;
    for (unsigned p = 0; p < count; p++) {
        int64_t ih = oh * s->stride_h - s->pad_h + t->kh * s->dil_h;
        int64_t iw = ow * s->stride_w - s->pad_w + kw * s->dil_w;
        bool inside = (uint64_t)ih < (uint64_t)s->in_h && (uint64_t)iw < (uint64_t)s->in_w;
        x[p] = inside ? job->x + ((image * s->in_h + ih) * s->in_w + iw) * s->in_c + channel
                      : zeros;
        if (++ow == s->out_w) {
            ow = 0;
            if (++oh == s->out_h) {
                oh = 0;
                image++;
            }
        }
    }
}

/* All kernel columns and channels of a tile against one block of pixels. */
static void add_block(const weight_job *job, const weight_tile *t, int64_t first, unsigned count,
                      const art_gemm_pixels *block, const float *zeros)
{
    const float *x[ART_GEMM_KC], *rows[ART_GEMM_KC];
    art_gemm_pixels product = *block;
    product.x = rows;
    for (int64_t kw = 0; kw < job->shape->kernel_w; kw++) {
        point(job, t, kw, first, count, zeros, x);
        int64_t tap = t->kh * job->shape->kernel_w + kw;
        int64_t taps = job->shape->kernel_h * job->shape->kernel_w;
        float *dw = job->dw + ((t->group * taps + tap) * job->in_cg + t->channel) * job->out_cg;
        for (unsigned r = 0; r < t->channels; r += job->gemm->mr) {
            for (unsigned p = 0; p < count; p++) {
                rows[p] = x[p] + r;
            }
            product.m = t->channels - r < job->gemm->mr ? t->channels - r : job->gemm->mr;
            product.c = dw + r * job->out_cg + t->column;
            job->gemm->pixels(&product);
        }
    }
}

static void weight_tile_run(void *context, unsigned index, unsigned thread)
{
    const weight_job *job = context;
    weight_tile t = {.channel = (int64_t)(index % job->channel_blocks) * CHANNEL_BLOCK};
    int64_t rest = index / job->channel_blocks;
    t.kh = rest % job->shape->kernel_h;
    rest /= job->shape->kernel_h;
    t.column = rest % job->panels * job->gemm->nr;
    t.group = rest / job->panels;
    int64_t width = job->out_cg - t.column, depth = job->in_cg - t.channel;
    t.columns = (unsigned)(width < job->gemm->nr ? width : job->gemm->nr);
    t.channels = (unsigned)(depth < CHANNEL_BLOCK ? depth : CHANNEL_BLOCK);
    float *zeros = art_product_scratch(job->workspace, job->scratch_floats, thread);
    float *packed = zeros + ART_GEMM_KC;
    memset(zeros, 0, ART_GEMM_KC * sizeof(float));
    size_t ld = (t.columns + job->gemm->width - 1) / job->gemm->width * job->gemm->width;
    art_gemm_pixels product = {.b = packed, .ldb = ld, .ldc = (size_t)job->out_cg};
    product.n = t.columns;
    product.store = ART_GEMM_SET;
    for (int64_t first = 0; first < job->pixels; first += ART_GEMM_KC) {
        int64_t left = job->pixels - first;
        product.pixels = (unsigned)(left < ART_GEMM_KC ? left : ART_GEMM_KC);
        pack_dy(job, &t, first, product.pixels, ld, packed);
        add_block(job, &t, first, product.pixels, &product, zeros);
        product.store = ART_GEMM_ADD;
    }
}

void art_conv_grad_w(const art_op_args *args, const art_conv_shape *s, const float *x,
                     const float *dy, float *dw, void *workspace)
{
    weight_job job = {.gemm = args->level->kernels.gemm, .shape = s, .x = x, .dy = dy, .dw = dw};
    job.workspace = workspace;
    job.in_cg = s->in_c / s->groups;
    job.out_cg = s->out_c / s->groups;
    job.pixels = s->n * s->out_h * s->out_w;
    /* The planned batch sized the workspace; a smaller one needs no more. */
    job.scratch_floats = art_product_floats((uint64_t)job.pixels, (uint64_t)job.out_cg);
    job.panels = (uint32_t)art_ceil_div((uint64_t)job.out_cg, job.gemm->nr);
    job.channel_blocks = (uint32_t)art_ceil_div((uint64_t)job.in_cg, CHANNEL_BLOCK);
    uint64_t tiles = (uint64_t)job.channel_blocks * (uint64_t)s->kernel_h * job.panels *
                     (uint64_t)s->groups;
    double taps = (double)(s->kernel_h * s->kernel_w);
    double cost = (double)job.pixels * taps * (double)job.in_cg * (double)s->out_c;
    art_pool_run(args->pool, (unsigned)tiles, cost, weight_tile_run, &job);
}

static void bias_tile_run(void *context, unsigned index, unsigned thread)
{
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

void art_conv_grad_b(const art_op_args *args, const art_conv_shape *s, const float *dy, float *db)
{
    weight_job job = {.shape = s, .dy = dy, .db = db, .pixels = s->n * s->out_h * s->out_w};
    unsigned tiles = (unsigned)art_ceil_div((uint64_t)s->out_c, BIAS_BLOCK);
    art_pool_run(args->pool, tiles, (double)job.pixels * (double)s->out_c, bias_tile_run, &job);
}
