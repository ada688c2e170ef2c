/* Group norm (Wu and He, arXiv 1803.08494) over channels-last images: the columns of one sample are
 * what the columns of a batch are to batch norm, and the channels of a group are put together in
 * ascending order. Statistics are saved once in float. */
#include <math.h>
#include <string.h>

#include "ops/columns.h"
#include "ops/op_functions.h"

/* One sample, and constants of its channels in the workspace. */
typedef struct sample {
    const art_vec_kernels *vec;
    const float *x, *dy, *gamma, *beta;
    float *to;
    float *mean, *invstd, *dot, *shift; /* per channel; the last two for the gradient */
    double *sums;                       /* two per channel, of the sample */
    uint64_t rows;
    size_t cols, per_group, groups;
    double eps;
} sample;

static uint64_t pixels_of(const art_array *x) {
    return (uint64_t)x->dims[1] * x->dims[2];
}

/* ---- checks ---- */

enum { IMAGE, CHANNELS, GROUPS };
typedef struct slot_rule {
    const char *name;
    int kind;
} slot_rule;

/* Rules in slot order; slot 0 is x. */
static art_status check_slots(const art_op_args *args, const slot_rule *rules,
                              const uint8_t *access, unsigned n, int64_t groups, art_error *err) {
    const art_array *x = &args->operand[0];
    for (unsigned slot = 0; slot < n; slot++) {
        const char *name = rules[slot].name;
        if ((access[slot] & ART_ACCESS_OPTIONAL) && !art_present(args, slot)) {
            continue;
        }
        if (rules[slot].kind == CHANNELS) {
            ART_TRY(art_check_vector(args, slot, name, ART_DTYPE_F32, x->dims[3], err));
            continue;
        }
        const uint32_t pairs[2] = {x->dims[0], (uint32_t)groups};
        int image = rules[slot].kind == IMAGE;
        ART_TRY(art_check_operand(args, slot, name, ART_DTYPE_F32, image ? 4 : 2, err));
        ART_TRY(art_check_dims(args, slot, name, image ? x->dims : pairs, err));
        ART_TRY(art_check_batched(args, slot, name, x->batched, err));
    }
    ART_FAIL_IF(x->dims[3] % groups, err, ART_SHAPE,
                "%s has %u channels, %lld groups do not divide "
                "them",
                rules[0].name, x->dims[3], (long long)groups);
    return ART_OK;
}

#define CHECK_SLOTS(args, rules, access, groups, err)                                              \
    check_slots(args, rules, (const uint8_t[])access, sizeof(rules) / sizeof((rules)[0]), groups,  \
                err)

art_status art_op_groupnorm_fwd_check(const art_op_args *args, art_error *err) {
    static const slot_rule rules[] = {
        {"groupnorm_fwd.x", IMAGE},           {"groupnorm_fwd.gamma", CHANNELS},
        {"groupnorm_fwd.beta", CHANNELS},     {"groupnorm_fwd.y", IMAGE},
        {"groupnorm_fwd.group_mean", GROUPS}, {"groupnorm_fwd.group_invstd", GROUPS},
    };
    int64_t groups = args->attr[ART_GROUPNORM_FWD_A_GROUPS].i;
    ART_TRY(CHECK_SLOTS(args, rules, ART_GROUPNORM_FWD_ACCESS, groups, err));
    return art_check_workspace(args, ART_GROUPNORM_FWD_WS, "groupnorm_fwd.ws",
                               art_op_groupnorm_fwd_workspace(args), err);
}

art_status art_op_groupnorm_grad_check(const art_op_args *args, art_error *err) {
    static const slot_rule rules[] = {
        {"groupnorm_grad.x", IMAGE},           {"groupnorm_grad.gamma", CHANNELS},
        {"groupnorm_grad.group_mean", GROUPS}, {"groupnorm_grad.group_invstd", GROUPS},
        {"groupnorm_grad.dy", IMAGE},          {"groupnorm_grad.dx", IMAGE},
        {"groupnorm_grad.dgamma", CHANNELS},   {"groupnorm_grad.dbeta", CHANNELS},
    };
    int64_t groups = args->attr[ART_GROUPNORM_GRAD_A_GROUPS].i;
    ART_TRY(CHECK_SLOTS(args, rules, ART_GROUPNORM_GRAD_ACCESS, groups, err));
    return art_check_workspace(args, ART_GROUPNORM_GRAD_WS, "groupnorm_grad.ws",
                               art_op_groupnorm_grad_workspace(args), err);
}

static uint64_t workspace(const art_array *x, uint64_t bytes_of_channel) {
    return art_col_workspace(pixels_of(x), x->dims[3]) + bytes_of_channel * x->dims[3];
}

uint64_t art_op_groupnorm_fwd_workspace(const art_op_args *args) {
    return workspace(&args->operand[ART_GROUPNORM_FWD_X], 2 * sizeof(float));
}

uint64_t art_op_groupnorm_grad_workspace(const art_op_args *args) {
    return workspace(&args->operand[ART_GROUPNORM_GRAD_X], 4 * sizeof(float) + 2 * sizeof(double));
}

/* ---- forward ---- */

static sample sample_of(const art_op_args *args, int64_t groups) {
    const art_array *x = &args->operand[0];
    sample s = {.vec = art_vec(args), .rows = pixels_of(x), .cols = x->dims[3]};
    s.groups = (size_t)groups;
    s.per_group = s.cols / s.groups;
    return s;
}

static void fill_affine(const void *context, size_t first, size_t n, art_col_constants *k) {
    const sample *s = context;
    for (size_t c = 0; c < n; c++) {
        k->k[0][c] = s->mean[first + c];
        k->k[1][c] = s->invstd[first + c] * (s->gamma ? s->gamma[first + c] : 1.0f);
        k->k[2][c] = s->beta ? s->beta[first + c] : 0.0f;
    }
}

static void apply_affine(const void *context, size_t at, size_t rows, size_t ld, size_t n,
                         const art_col_constants *k) {
    const sample *s = context;
    art_vec_affine constants = {k->k[0], k->k[1], k->k[2]};
    s->vec->normalise(s->to + at, s->x + at, rows, ld, n, &constants);
}

/* From the moments of channels to the mean and the reciprocal root of every group. */
static void group_statistics(const sample *s, const double *moments, float *keep_mean,
                             float *keep_invstd) {
    const double *means = moments, *squares = moments + s->cols;
    for (size_t g = 0; g < s->groups; g++) {
        size_t from = g * s->per_group, to = from + s->per_group;
        double mean = 0.0, all = 0.0;
        for (size_t c = from; c < to; c++) {
            mean += means[c];
        }
        mean /= (double)s->per_group;
        for (size_t c = from; c < to; c++) {
            double d = means[c] - mean;
            all += squares[c] + (double)s->rows * (d * d);
        }
        double var = all / ((double)s->rows * (double)s->per_group);
        float invstd = (float)(1.0 / sqrt(var + s->eps));
        for (size_t c = from; c < to; c++) {
            s->mean[c] = (float)mean;
            s->invstd[c] = invstd;
        }
        if (keep_mean) {
            keep_mean[g] = (float)mean;
        }
        if (keep_invstd) {
            keep_invstd[g] = invstd;
        }
    }
}

art_status art_op_groupnorm_fwd_run(const art_op_args *args, art_error *err) {
    sample s = sample_of(args, args->attr[ART_GROUPNORM_FWD_A_GROUPS].i);
    const art_col_split split = art_col_split_of(s.rows, s.cols);
    const float *x = art_in(args, ART_GROUPNORM_FWD_X);
    float *y = art_out(args, ART_GROUPNORM_FWD_Y);
    float *mean = art_out(args, ART_GROUPNORM_FWD_GROUP_MEAN);
    float *invstd = art_out(args, ART_GROUPNORM_FWD_GROUP_INVSTD);
    double *moments = args->operand[ART_GROUPNORM_FWD_WS].data;
    (void)err;
    s.gamma = art_in(args, ART_GROUPNORM_FWD_GAMMA);
    s.beta = art_in(args, ART_GROUPNORM_FWD_BETA);
    s.eps = args->attr[ART_GROUPNORM_FWD_A_EPS].f;
    s.mean = (float *)(moments + 2 * split.parts * s.cols);
    s.invstd = s.mean + s.cols;
    for (uint32_t i = 0; i < args->operand[ART_GROUPNORM_FWD_X].dims[0]; i++) {
        s.x = x + i * s.rows * s.cols;
        s.to = y + i * s.rows * s.cols;
        art_col_moments(args, s.x, split, moments);
        group_statistics(&s, moments, mean ? mean + i * s.groups : NULL,
                         invstd ? invstd + i * s.groups : NULL);
        art_col_run(args, s.rows, s.cols, fill_affine, apply_affine, &s);
    }
    return ART_OK;
}

/* ---- gradient ---- */

static void fill_sloped(const void *context, size_t first, size_t n, art_col_constants *k) {
    const sample *s = context;
    for (size_t c = 0; c < n; c++) {
        k->k[0][c] = s->mean[first + c];
        k->k[1][c] = s->invstd[first + c] * (s->gamma ? s->gamma[first + c] : 1.0f);
        k->k[2][c] = s->dot[first + c];
        k->k[3][c] = s->shift[first + c];
    }
}

static void apply_sloped(const void *context, size_t at, size_t rows, size_t ld, size_t n,
                         const art_col_constants *k) {
    const sample *s = context;
    art_vec_sloped constants = {k->k[0], k->k[1], k->k[2], k->k[3]};
    s->vec->centre_grad(s->to + at, s->dy + at, s->x + at, rows, ld, n, &constants);
}

/* Spread a sample's saved statistics over the channels. */
static void spread(const sample *s, const float *mean, const float *invstd) {
    for (size_t c = 0; c < s->cols; c++) {
        s->mean[c] = mean[c / s->per_group];
        s->invstd[c] = invstd[c / s->per_group];
    }
}

/* Add a sample's sums to those of dbeta and dgamma; from them the constants of every group. */
static void take_sums(const sample *s, double *totals) {
    const double count = (double)s->rows * (double)s->per_group;
    for (size_t g = 0; g < s->groups; g++) {
        size_t from = g * s->per_group, to = from + s->per_group;
        double invstd = (double)s->invstd[from], sum = 0.0, dot = 0.0;
        for (size_t c = from; c < to; c++) {
            double gamma = s->gamma ? (double)s->gamma[c] : 1.0;
            sum += gamma * s->sums[c];
            dot += gamma * s->sums[s->cols + c];
            totals[c] += s->sums[c];
            totals[s->cols + c] += s->sums[s->cols + c] * invstd;
        }
        for (size_t c = from; c < to; c++) {
            s->shift[c] = (float)(invstd * (sum / count));
            s->dot[c] = (float)(invstd * invstd * invstd * (dot / count));
        }
    }
}

static void store(float *to, const double *sums, size_t n) {
    for (size_t c = 0; to && c < n; c++) {
        to[c] = (float)sums[c];
    }
}

art_status art_op_groupnorm_grad_run(const art_op_args *args, art_error *err) {
    sample s = sample_of(args, args->attr[ART_GROUPNORM_GRAD_A_GROUPS].i);
    const art_col_split split = art_col_split_of(s.rows, s.cols);
    const float *x = art_in(args, ART_GROUPNORM_GRAD_X), *dy = art_in(args, ART_GROUPNORM_GRAD_DY);
    const float *mean = art_in(args, ART_GROUPNORM_GRAD_GROUP_MEAN);
    const float *invstd = art_in(args, ART_GROUPNORM_GRAD_GROUP_INVSTD);
    float *dx = art_out(args, ART_GROUPNORM_GRAD_DX);
    s.sums = args->operand[ART_GROUPNORM_GRAD_WS].data;
    double *totals = s.sums + 2 * split.parts * s.cols;
    (void)err;
    s.gamma = art_in(args, ART_GROUPNORM_GRAD_GAMMA);
    s.mean = (float *)(totals + 2 * s.cols);
    s.invstd = s.mean + s.cols;
    s.dot = s.invstd + s.cols;
    s.shift = s.dot + s.cols;
    memset(totals, 0, 2 * s.cols * sizeof *totals);
    for (uint32_t i = 0; i < args->operand[ART_GROUPNORM_GRAD_X].dims[0]; i++) {
        s.x = x + i * s.rows * s.cols;
        s.dy = dy + i * s.rows * s.cols;
        spread(&s, mean + i * s.groups, invstd + i * s.groups);
        art_col_dots(args, s.dy, s.x, s.mean, split, s.sums);
        take_sums(&s, totals);
        if (dx) {
            s.to = dx + i * s.rows * s.cols;
            art_col_run(args, s.rows, s.cols, fill_sloped, apply_sloped, &s);
        }
    }
    store(art_out(args, ART_GROUPNORM_GRAD_DBETA), totals, s.cols);
    store(art_out(args, ART_GROUPNORM_GRAD_DGAMMA), totals + s.cols, s.cols);
    return ART_OK;
}
