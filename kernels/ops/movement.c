/* permute, slice, place: numbers change their places and nothing else. */
#include <string.h>

#include "ops/op_functions.h"
#include "ops/spans.h"

/* Side of the square that is transposed at once: both its sides stay in the first cache. */
enum { SQUARE = 16 };

/* ---- permute ---- */

/* Axes of y that are copied: `from` and `to` are strides in x and y, in floats. */
typedef struct axes {
    unsigned n;
    size_t extent[ART_MAX_DIMS], from[ART_MAX_DIMS], to[ART_MAX_DIMS];
} axes;

/* Axes of y in order, neighbours that stay together in x joined. */
static axes axes_of(const art_op_args *args) {
    const art_array *x = &args->operand[ART_PERMUTE_X], *y = &args->operand[ART_PERMUTE_Y];
    size_t stride[ART_MAX_DIMS], step = 1;
    axes a = {0};
    for (unsigned i = x->ndim; i-- > 0; step *= x->dims[i]) {
        stride[i] = step;
    }
    for (unsigned i = 0; i < y->ndim; i++) {
        size_t from = stride[i == 0 ? 0 : args->attr[i - 1].i], extent = y->dims[i];
        if (extent == 1) {
            continue;
        }
        if (a.n > 0 && a.from[a.n - 1] == from * extent) {
            a.extent[a.n - 1] *= extent;
            a.from[a.n - 1] = from;
        } else {
            a.extent[a.n] = extent;
            a.from[a.n++] = from;
        }
    }
    step = 1;
    for (unsigned i = a.n; i-- > 0; step *= a.extent[i]) {
        a.to[i] = step;
    }
    return a;
}

typedef struct permute_job {
    const float *x;
    float *y;
    axes outer;
    size_t rows, row_to;   /* the axis that lies side by side in x */
    size_t cols, col_from; /* the axis that lies side by side in y */
    uint64_t tiles, bands; /* bands of SQUARE rows for each place of the outer axes */
} permute_job;

static void permute_tile(void *context, unsigned tile, unsigned thread) {
    const permute_job *job = context;
    size_t r0 = (size_t)(tile % job->bands) * SQUARE, place = (size_t)(tile / job->bands);
    size_t r1 = r0 + SQUARE < job->rows ? r0 + SQUARE : job->rows;
    const float *x = job->x;
    float *y = job->y;
    (void)thread;
    for (unsigned i = job->outer.n; i-- > 0; place /= job->outer.extent[i]) {
        x += place % job->outer.extent[i] * job->outer.from[i];
        y += place % job->outer.extent[i] * job->outer.to[i];
    }
    for (size_t c0 = 0; c0 < job->cols; c0 += SQUARE) {
        size_t c1 = c0 + SQUARE < job->cols ? c0 + SQUARE : job->cols;
        for (size_t r = r0; r < r1; r++) {
            for (size_t c = c0; c < c1; c++) {
                y[r * job->row_to + c] = x[c * job->col_from + r];
            }
        }
    }
}

/* The last axis lies side by side in both: whole rows are copied, as many as make a span. */
static void rows_tile(void *context, unsigned tile, unsigned thread) {
    const permute_job *job = context;
    size_t rows = ART_SPAN / job->cols + 1, first = tile * rows;
    size_t end = first + rows < job->rows ? first + rows : job->rows;
    (void)thread;
    for (size_t row = first; row < end; row++) {
        const float *x = job->x;
        size_t place = row;
        for (unsigned i = job->outer.n; i-- > 0; place /= job->outer.extent[i]) {
            x += place % job->outer.extent[i] * job->outer.from[i];
        }
        memcpy(job->y + row * job->cols, x, job->cols * sizeof(float));
    }
}

/* How a permutation is cut into tiles. */
static permute_job permute_job_of(const art_op_args *args) {
    permute_job job = {.x = art_in(args, ART_PERMUTE_X), .y = art_out(args, ART_PERMUTE_Y)};
    axes a = axes_of(args);
    job.rows = job.cols = job.bands = 1;
    if (a.n == 0 || a.from[a.n - 1] == 1) {
        job.cols = a.n > 0 ? a.extent[--a.n] : 1;
        for (unsigned i = 0; i < a.n; i++) {
            job.rows *= a.extent[i];
        }
        job.outer = a;
        job.tiles = art_ceil_div(job.rows, ART_SPAN / job.cols + 1);
        return job;
    }
    job.tiles = 1;
    job.cols = a.extent[--a.n];
    job.col_from = a.from[a.n];
    for (unsigned i = 0; i < a.n; i++) {
        if (a.from[i] == 1) {
            job.rows = a.extent[i];
            job.row_to = a.to[i];
        } else {
            job.outer.extent[job.outer.n] = a.extent[i];
            job.outer.from[job.outer.n] = a.from[i];
            job.outer.to[job.outer.n++] = a.to[i];
            job.tiles *= a.extent[i];
        }
    }
    job.bands = art_ceil_div(job.rows, SQUARE);
    job.tiles *= job.bands;
    return job;
}

static art_status check_tiles(uint64_t tiles, const char *what, art_error *err) {
    ART_FAIL_IF(tiles > UINT32_MAX, err, ART_SHAPE, "%s has %llu tiles, at most %u are possible",
                what, (unsigned long long)tiles, UINT32_MAX);
    return ART_OK;
}

static art_status check_value(const art_op_args *args, unsigned slot, const char *name,
                              unsigned like, art_error *err) {
    ART_TRY(art_check_operand(args, slot, name, ART_DTYPE_F32, ART_ANY_RANK, err));
    return art_check_batched(args, slot, name, args->operand[like].batched, err);
}

art_status art_op_permute_check(const art_op_args *args, art_error *err) {
    enum { X = ART_PERMUTE_X, Y = ART_PERMUTE_Y };
    const art_array *x = &args->operand[X], *y = &args->operand[Y];
    uint32_t dims[ART_MAX_DIMS] = {x->dims[0]};
    unsigned seen = 1;
    ART_TRY(check_value(args, X, "permute.x", X, err));
    ART_TRY(check_value(args, Y, "permute.y", X, err));
    ART_FAIL_IF(y->ndim != x->ndim, err, ART_SHAPE, "permute.y has %u dimensions, needs %u",
                y->ndim, x->ndim);
    ART_FAIL_IF(args->n_attrs + 1 != x->ndim, err, ART_PLAN_FORMAT,
                "permute.perm has %u axes, needs %u", args->n_attrs, x->ndim - 1);
    for (unsigned i = 1; i < x->ndim; i++) {
        ART_TRY(art_check_int(args, i - 1, "permute.perm", 1, x->ndim - 1, err));
        unsigned axis = (unsigned)args->attr[i - 1].i;
        ART_FAIL_IF(seen >> axis & 1, err, ART_PLAN_FORMAT, "permute.perm has axis %u twice", axis);
        seen |= 1u << axis;
        dims[i] = x->dims[axis];
    }
    ART_TRY(art_check_dims(args, Y, "permute.y", dims, err));
    return check_tiles(permute_job_of(args).tiles, "permute", err);
}

ART_NO_WORKSPACE(permute)

art_status art_op_permute_run(const art_op_args *args, art_error *err) {
    permute_job job = permute_job_of(args);
    (void)err;
    art_pool_run(args->pool, (unsigned)job.tiles, (double)art_count(&args->operand[ART_PERMUTE_X]),
                 job.row_to ? permute_tile : rows_tile, &job);
    return ART_OK;
}

/* ---- slice and place ---- */

/* One part of an axis: for each of `outer` places, `runs` runs of `run` floats, in the whole
 * `apart` floats from each other, the first at `start`. */
typedef struct part {
    uint64_t outer, runs, run, apart, start, whole,
        small; /* whole, small: floats per outer place */
} part;

typedef struct part_job {
    const art_op_args *args;
    const float *x, *whole;
    float *y;
    part part;
    uint64_t together; /* outer places of a tile */
    bool add;
} part_job;

static uint64_t product(const uint32_t *dims, unsigned from, unsigned to) {
    uint64_t count = 1;
    for (unsigned i = from; i < to; i++) {
        count *= dims[i];
    }
    return count;
}

static part part_of(const art_op_args *args, unsigned whole, unsigned small) {
    const art_array *w = &args->operand[whole], *s = &args->operand[small];
    unsigned axis = (unsigned)args->attr[ART_SLICE_A_AXIS].i;
    uint64_t start = (uint64_t)args->attr[ART_SLICE_A_START].i;
    uint64_t step = (uint64_t)args->attr[ART_SLICE_A_STEP].i, length = s->dims[axis];
    uint64_t inner = product(w->dims, axis + 1, w->ndim);
    part p = {.outer = product(w->dims, 0, axis), .start = start * inner};
    p.whole = w->dims[axis] * inner;
    p.small = length * inner;
    p.runs = step == 1 ? 1 : length;
    p.run = step == 1 ? length * inner : inner;
    p.apart = step * inner;
    return p;
}

static void slice_tile(void *context, unsigned tile, unsigned thread) {
    const part_job *job = context;
    const part *p = &job->part;
    uint64_t first = tile * job->together, end = first + job->together;
    (void)thread;
    for (uint64_t i = first; i < end && i < p->outer; i++) {
        const float *x = job->x + i * p->whole + p->start;
        float *y = job->y + i * p->small;
        for (uint64_t r = 0; r < p->runs; r++) {
            memcpy(y + r * p->run, x + r * p->apart, (size_t)p->run * sizeof(float));
        }
    }
}

static void place_tile(void *context, unsigned tile, unsigned thread) {
    const part_job *job = context;
    const part *p = &job->part;
    uint64_t first = tile * job->together, end = first + job->together;
    (void)thread;
    for (uint64_t i = first; i < end && i < p->outer; i++) {
        const float *x = job->x + i * p->small;
        float *y = job->y + i * p->whole;
        if (!job->whole) {
            memset(y, 0, (size_t)p->whole * sizeof(float));
        } else if (job->whole != job->y) {
            memcpy(y, job->whole + i * p->whole, (size_t)p->whole * sizeof(float));
        }
        for (uint64_t r = 0; r < p->runs; r++) {
            float *to = y + p->start + r * p->apart;
            if (job->add) {
                art_vec(job->args)->add(to, to, x + r * p->run, (size_t)p->run);
            } else {
                memcpy(to, x + r * p->run, (size_t)p->run * sizeof(float));
            }
        }
    }
}

/* `small` is a part of `whole` along the step's axis. */
static art_status check_part(const art_op_args *args, unsigned whole, unsigned small,
                             const char *name, art_error *err) {
    const art_array *w = &args->operand[whole], *s = &args->operand[small];
    uint32_t dims[ART_MAX_DIMS];
    memcpy(dims, w->dims, sizeof dims);
    ART_TRY(art_check_int(args, ART_SLICE_A_AXIS, "slice.axis", 1, w->ndim - 1, err));
    ART_FAIL_IF(s->ndim != w->ndim, err, ART_SHAPE, "%s has %u dimensions, needs %u", name, s->ndim,
                w->ndim);
    unsigned axis = (unsigned)args->attr[ART_SLICE_A_AXIS].i;
    dims[axis] = s->dims[axis];
    ART_TRY(art_check_dims(args, small, name, dims, err));
    uint64_t last = (uint64_t)args->attr[ART_SLICE_A_START].i +
                    (uint64_t)args->attr[ART_SLICE_A_STEP].i * (dims[axis] - 1);
    ART_FAIL_IF(last >= w->dims[axis], err, ART_SHAPE, "%s reaches place %llu of %u", name,
                (unsigned long long)last, w->dims[axis]);
    return check_tiles(product(w->dims, 0, axis), name, err);
}

static void run_parts(const art_op_args *args, part_job *job, art_tile_fn fn) {
    uint64_t each = fn == slice_tile ? job->part.small : job->part.whole;
    job->args = args;
    job->together = ART_SPAN / each + 1;
    art_pool_run(args->pool, art_tiles(job->part.outer, job->together),
                 (double)(job->part.outer * each), fn, job);
}

art_status art_op_slice_check(const art_op_args *args, art_error *err) {
    ART_TRY(check_value(args, ART_SLICE_X, "slice.x", ART_SLICE_X, err));
    ART_TRY(check_value(args, ART_SLICE_Y, "slice.y", ART_SLICE_X, err));
    return check_part(args, ART_SLICE_X, ART_SLICE_Y, "slice.y", err);
}

ART_NO_WORKSPACE(slice)

art_status art_op_slice_run(const art_op_args *args, art_error *err) {
    part_job job = {.x = art_in(args, ART_SLICE_X), .y = art_out(args, ART_SLICE_Y)};
    (void)err;
    job.part = part_of(args, ART_SLICE_X, ART_SLICE_Y);
    run_parts(args, &job, slice_tile);
    return ART_OK;
}

art_status art_op_place_check(const art_op_args *args, art_error *err) {
    enum { X = ART_PLACE_X, WHOLE = ART_PLACE_WHOLE, Y = ART_PLACE_Y };
    const art_array *whole = &args->operand[WHOLE], *y = &args->operand[Y];
    ART_TRY(check_value(args, X, "place.x", X, err));
    ART_TRY(check_value(args, Y, "place.y", X, err));
    if (art_present(args, WHOLE)) {
        ART_TRY(check_value(args, WHOLE, "place.whole", X, err));
        ART_FAIL_IF(whole->ndim != y->ndim, err, ART_SHAPE,
                    "place.whole has %u dimensions, needs %u", whole->ndim, y->ndim);
        ART_TRY(art_check_dims(args, WHOLE, "place.whole", y->dims, err));
    }
    ART_FAIL_IF(args->attr[ART_PLACE_A_ADD].i && !art_present(args, WHOLE), err, ART_PLAN_FORMAT,
                "place.add needs place.whole, which is missing");
    return check_part(args, Y, X, "place.x", err);
}

ART_NO_WORKSPACE(place)

art_status art_op_place_run(const art_op_args *args, art_error *err) {
    part_job job = {.x = art_in(args, ART_PLACE_X), .y = art_out(args, ART_PLACE_Y)};
    (void)err;
    job.whole = args->operand[ART_PLACE_WHOLE].data;
    job.add = args->attr[ART_PLACE_A_ADD].i != 0;
    job.part = part_of(args, ART_PLACE_Y, ART_PLACE_X);
    run_parts(args, &job, place_tile);
    return ART_OK;
}
