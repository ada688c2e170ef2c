/* One operation with its operands, run in every way that must not matter and compared with its
 * naive twin: all kernel levels, 1 to 3 threads, a batch smaller than planned, outputs in place.
 *
 * Every array ends at an unreadable page, bytes in front of it are canaries, bytes that are not
 * input are NaN (all bits one) before the run, and bytes beyond the actual batch must keep them. */
#ifndef ART_TESTS_OP_SCENE_H
#define ART_TESTS_OP_SCENE_H

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/cpu.h"
#include "expect.h"
#include "ops/check.h"
#include "ref/ref_ops.h"

enum { SCENE_THREADS = 3, SCENE_SLOTS = ART_MAX_OPERANDS, CANARY = 0xA5, UNUSED = 0xFF };

typedef struct scene {
    const char *name;
    unsigned code;
    const art_op *op;
    art_ref_fn ref;   /* NULL: levels are compared with each other only */
    art_op_args args; /* dims of the actual batch, data of the inputs */
    art_attr attr[16];
    int ws; /* slot of the workspace, -1 for none */
} scene;

static art_pool *scene_pools[SCENE_THREADS];
static unsigned scene_runs;

static inline void scene_open_pools(void) {
    for (unsigned t = 0; t < SCENE_THREADS; t++) {
        void *stacks = mmap(NULL, SCENE_THREADS * ART_STACK_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        scene_pools[t] = aligned_alloc(64, (art_pool_bytes() + 63) / 64 * 64);
        if (art_pool_start(scene_pools[t], t + 1, stacks, NULL) != ART_OK) {
            abort();
        }
    }
}

static inline void scene_close_pools(void) {
    for (unsigned t = 0; t < SCENE_THREADS; t++) {
        art_pool_stop(scene_pools[t]);
        free(scene_pools[t]);
    }
}

static inline scene scene_new(const char *name, unsigned code, art_ref_fn ref) {
    scene s = {.name = name, .code = code, .op = art_op_find(code), .ref = ref, .ws = -1};
    s.args.n_operands = s.op->n_operands;
    s.args.n_attrs = s.op->n_attrs;
    s.args.threads = SCENE_THREADS;
    s.args.learning_rate_scale = 1.0;
    s.args.seed = 42;
    for (int i = 0; i < s.op->n_operands; i++) {
        if ((s.op->access[i] & ~ART_ACCESS_OPTIONAL) == ART_ACCESS_SCRATCH) {
            s.ws = i;
        }
    }
    return s;
}

static inline size_t scene_elements(const scene *s, unsigned slot) {
    return (size_t)art_count(&s->args.operand[slot]);
}

static inline size_t scene_item(const scene *s, unsigned slot) {
    return (size_t)art_dtype_bytes(s->args.operand[slot].dtype);
}

/* Describe an operand and return its zeroed input data. */
static inline void *scene_operand(scene *s, unsigned slot, unsigned dtype, int batched, int ndim,
                                  ...) {
    art_array *a = &s->args.operand[slot];
    va_list dims;
    *a = (art_array){.ndim = (uint8_t)ndim, .dtype = (uint8_t)dtype, .batched = (uint8_t)batched};
    va_start(dims, ndim);
    for (int i = 0; i < ndim; i++) {
        a->dims[i] = (uint32_t)va_arg(dims, int);
    }
    va_end(dims);
    a->bytes = art_count(a) * art_dtype_bytes(dtype);
    return a->data = calloc(1, (size_t)a->bytes);
}

static inline void scene_free(scene *s) {
    for (int i = 0; i < SCENE_SLOTS; i++) {
        free(s->args.operand[i].data);
        s->args.operand[i].data = NULL;
    }
}

/* Reproducible values in [lo, hi). */
static inline void scene_fill(float *out, size_t n, double lo, double hi, uint32_t seed) {
    uint32_t state = seed * 2654435761u + 977u;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        out[i] = (float)(lo + (hi - lo) * (double)(state >> 8) * 0x1p-24);
    }
}

static inline void scene_floats(scene *s, unsigned slot, double lo, double hi) {
    scene_fill(s->args.operand[slot].data, scene_elements(s, slot), lo, hi, slot + 1);
}

/* How a run differs from the plainest one. */
typedef struct variant {
    const art_level *level;
    unsigned threads, spare_rows;
    int output, alias; /* output shares the buffer of slot alias, or -1 */
} variant;

typedef struct region {
    uint8_t *map, *data;
    size_t body, bytes, used;
} region;

static inline region region_new(size_t bytes, size_t used) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    region r = {.body = (bytes + page - 1) / page * page + page, .bytes = bytes, .used = used};
    r.map = mmap(NULL, r.body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (r.map == MAP_FAILED || mprotect(r.map + r.body, page, PROT_NONE) != 0) {
        abort();
    }
    r.data = r.map + r.body - bytes;
    memset(r.map, CANARY, r.body - bytes);
    memset(r.data, UNUSED, bytes);
    return r;
}

static inline bool all_bytes(const uint8_t *from, const uint8_t *to, uint8_t value) {
    while (from < to && *from == value) {
        from++;
    }
    return from == to;
}

/* Nothing outside [data, data + used) was written. */
static inline bool region_intact(const region *r) {
    return all_bytes(r->map, r->data, CANARY) &&
           all_bytes(r->data + r->used, r->data + r->bytes, UNUSED);
}

static inline bool reads(const scene *s, int slot) {
    return (s->op->access[slot] & ART_ACCESS_READ) != 0;
}

static inline bool writes(const scene *s, int slot) {
    return (s->op->access[slot] & ART_ACCESS_WRITE) != 0 && s->args.operand[slot].ndim;
}

/* Describe the planned batch and check it; adds the workspace. */
static inline art_status scene_check(const scene *s, unsigned spare_rows, art_op_args *args,
                                     art_error *err) {
    *args = s->args;
    args->attr = s->attr;
    for (int i = 0; i < s->op->n_operands; i++) {
        art_array *a = &args->operand[i];
        a->data = NULL;
        a->dims[0] += a->batched ? spare_rows : 0;
        a->bytes = art_count(a) * art_dtype_bytes(a->dtype);
    }
    uint64_t need = s->op->workspace(args);
    if (s->ws >= 0 && need > 0) {
        args->operand[s->ws] =
            (art_array){.ndim = 1, .dtype = ART_DTYPE_U8, .bytes = need, .dims = {(uint32_t)need}};
    }
    return art_check_operation(s->op, args, err);
}

static inline void scene_prepare(const scene *s, variant v, art_op_args *args, region *regions) {
    for (int i = 0; i < s->op->n_operands; i++) {
        art_array *a = &args->operand[i];
        if (!a->ndim || i == v.output) {
            continue;
        }
        size_t used = i == s->ws ? (size_t)a->bytes : (size_t)s->args.operand[i].bytes;
        regions[i] = region_new((size_t)a->bytes, used);
        if (i != s->ws && reads(s, i)) {
            memcpy(regions[i].data, s->args.operand[i].data, used);
        }
        a->data = regions[i].data;
        a->dims[0] = i == s->ws ? a->dims[0] : s->args.operand[i].dims[0];
    }
    if (v.output >= 0) {
        args->operand[v.output].data = regions[v.alias].data;
        args->operand[v.output].dims[0] = s->args.operand[v.output].dims[0];
    }
    args->level = v.level;
    args->pool = scene_pools[v.threads - 1];
}

/* Run a variant; copies of the written operands go to results. */
static inline art_status scene_run(const scene *s, variant v, void **results, art_error *err) {
    art_op_args args;
    region regions[SCENE_SLOTS] = {{0}};
    EXPECT_STATUS(scene_check(s, v.spare_rows, &args, err), ART_OK, *err, "");
    scene_prepare(s, v, &args, regions);
    art_status status = s->op->run(&args, err);
    scene_runs++;
    for (int i = 0; i < s->op->n_operands; i++) {
        if (results && writes(s, i)) {
            results[i] = malloc((size_t)s->args.operand[i].bytes);
            memcpy(results[i], args.operand[i].data, (size_t)s->args.operand[i].bytes);
        }
    }
    for (int i = 0; i < s->op->n_operands; i++) {
        if (!regions[i].map) {
            continue;
        }
        EXPECT(region_intact(&regions[i]));
        if (i != s->ws && !writes(s, i) && i != v.alias) {
            EXPECT(memcmp(regions[i].data, s->args.operand[i].data, regions[i].used) == 0);
        }
        munmap(regions[i].map, regions[i].body + (size_t)sysconf(_SC_PAGESIZE));
    }
    return status;
}

/* Equal bits, or NaN on both sides. */
static inline bool same(const void *a, const void *b, unsigned dtype, size_t n) {
    if (dtype != ART_DTYPE_F32) {
        return memcmp(a, b, n * (size_t)art_dtype_bytes(dtype)) == 0;
    }
    const float *x = a, *y = b;
    for (size_t i = 0; i < n; i++) {
        if (memcmp(&x[i], &y[i], sizeof *x) != 0 && !(x[i] != x[i] && y[i] != y[i])) {
            return false;
        }
    }
    return true;
}

static inline void scene_same(const scene *s, variant v, void *const *base) {
    void *results[SCENE_SLOTS] = {NULL};
    art_error err;
    EXPECT_STATUS(scene_run(s, v, results, &err), ART_OK, err, "");
    for (int i = 0; i < s->op->n_operands; i++) {
        if (results[i] &&
            !same(results[i], base[i], s->args.operand[i].dtype, scene_elements(s, (unsigned)i))) {
            printf("%s: level %s, %u threads, %u spare rows, slot %d in place of %d: slot %d has "
                   "other bits\n",
                   s->name, v.level->name, v.threads, v.spare_rows, v.output, v.alias, i);
            expect_failures++;
        }
        free(results[i]);
    }
}

static inline double value_at(const void *data, unsigned dtype, size_t i) {
    switch (dtype) {
    case ART_DTYPE_F32:
        return (double)((const float *)data)[i];
    case ART_DTYPE_F64:
        return ((const double *)data)[i];
    case ART_DTYPE_I64:
        return (double)((const int64_t *)data)[i];
    case ART_DTYPE_U8:
        return (double)((const uint8_t *)data)[i];
    default:
        return (double)((const int32_t *)data)[i];
    }
}

static inline void scene_compare(const scene *s, void *const *base) {
    double *out[SCENE_SLOTS] = {NULL}, *tol[SCENE_SLOTS] = {NULL};
    art_op_args args = s->args;
    args.attr = s->attr;
    for (int i = 0; i < s->op->n_operands; i++) {
        if (writes(s, i)) {
            out[i] = calloc(scene_elements(s, (unsigned)i), sizeof(double));
            tol[i] = calloc(scene_elements(s, (unsigned)i), sizeof(double));
        }
    }
    s->ref(&args, out, tol);
    for (int i = 0; i < s->op->n_operands; i++) {
        for (size_t j = 0; out[i] && j < scene_elements(s, (unsigned)i); j++) {
            double got = value_at(base[i], s->args.operand[i].dtype, j), want = out[i][j];
            if (!(fabs(got - want) <= tol[i][j]) && !(got == want) &&
                !(isnan(got) && isnan(want))) {
                printf("%s: slot %d element %zu is %.9g, exactly %.9g, off by %.3g of %.3g\n",
                       s->name, i, j, got, want, fabs(got - want), tol[i][j]);
                expect_failures++;
                break;
            }
        }
        free(out[i]);
        free(tol[i]);
    }
}

static const struct {
    unsigned code;
    int output, input;
} scene_inplace[] = {
#define PAIR(NAME, out, in) {ART_OP_##NAME, out, in},
    ART_INPLACE_PAIRS(PAIR)
#undef PAIR
};

/* Everything above for one scene; frees it. */
static inline void scene_verify(scene *s) {
    unsigned n;
    const art_level *levels = art_levels(&n);
    void *base[SCENE_SLOTS] = {NULL};
    art_error err;
    variant plain = {.level = &levels[0], .threads = 1, .output = -1, .alias = -1};
    EXPECT_STATUS(scene_run(s, plain, base, &err), ART_OK, err, "");
    if (s->ref) {
        scene_compare(s, base);
    }
    for (unsigned l = 0; l < n; l++) {
        if (levels[l].features & ~art_cpu_features()) {
            continue;
        }
        scene_same(s, (variant){&levels[l], 1, 0, -1, -1}, base);
        scene_same(s, (variant){&levels[l], 2, 2, -1, -1}, base);
        scene_same(s, (variant){&levels[l], 3, 0, -1, -1}, base);
        for (size_t i = 0; i < sizeof scene_inplace / sizeof *scene_inplace; i++) {
            if (scene_inplace[i].code == s->code && writes(s, scene_inplace[i].output) &&
                s->args.operand[scene_inplace[i].input].ndim) {
                scene_same(
                    s, (variant){&levels[l], 2, 1, scene_inplace[i].output, scene_inplace[i].input},
                    base);
            }
        }
    }
    for (int i = 0; i < SCENE_SLOTS; i++) {
        free(base[i]);
    }
    scene_free(s);
}

static inline void scene_print_levels(void) {
    unsigned n;
    const art_level *levels = art_levels(&n);
    for (unsigned l = 0; l < n; l++) {
        if (levels[l].features & ~art_cpu_features()) {
            printf("skipped level %s: this processor lacks its features\n", levels[l].name);
        }
    }
}

#endif
