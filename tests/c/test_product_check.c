/* What the checks of linear layers and convolutions refuse: a good step is spoilt in one place at a
 * time, then in random places. A step that passes its check must run inside its arrays, which end
 * at unreadable pages. */
#include <stdbool.h>

#include "core/cpu.h"
#include "expect.h"
#include "guarded.h"
#include "ops/check.h"

typedef struct step {
    const art_op *op;
    art_op_args args;
    art_attr attr[16];
} step;

/* Operands of a small good step by slot: dimensions, batched. */
typedef struct good {
    unsigned code;
    struct {
        uint32_t dims[ART_MAX_DIMS];
        uint8_t ndim, batched;
    } operand[4];
} good;

/* Convolution: 2x5x6x4 to 2x3x3x6, kernel 3x3, stride 2, padding 1, 2 groups. */
#define X4                                                                                         \
    { {2, 5, 6, 4}, 4, 1 }
#define Y4                                                                                         \
    { {2, 3, 3, 6}, 4, 1 }
#define W5                                                                                         \
    { {2, 3, 3, 2, 3}, 5, 0 }
#define X2                                                                                         \
    { {3, 7}, 2, 1 }
#define Y2                                                                                         \
    { {3, 6}, 2, 1 }
#define W2                                                                                         \
    { {7, 6}, 2, 0 }
#define B1                                                                                         \
    { {6}, 1, 0 }
#define B4                                                                                         \
    { {4}, 1, 0 }
static const good goods[] = {
    {ART_OP_LINEAR_FWD, {X2, W2, B1, Y2}},
    {ART_OP_LINEAR_GRAD_W, {X2, Y2, W2, B1}},
    {ART_OP_LINEAR_GRAD_X, {Y2, W2, X2}},
    {ART_OP_CONV2D_FWD, {X4, W5, B1, Y4}},
    {ART_OP_CONV2D_GRAD_W, {X4, Y4, W5, B1}},
    {ART_OP_CONV2D_GRAD_X, {Y4, W5, X4}},
    {ART_OP_CONV_TRANSPOSE2D_FWD, {Y4, W5, B4, X4}},
    {ART_OP_CONV_TRANSPOSE2D_GRAD_W, {Y4, X4, W5, B4}},
    {ART_OP_CONV_TRANSPOSE2D_GRAD_X, {X4, W5, Y4}},
};
enum { N_GOODS = sizeof(goods) / sizeof(goods[0]), THREADS = 2 };
static const int64_t good_attrs[] = {2, 2, 1, 1, 1, 1, 2, 0, 0};

static art_pool *pool;

static step make(const good *g) {
    step s = {.op = art_op_find(g->code)};
    s.args.n_operands = s.op->n_operands;
    s.args.threads = THREADS;
    for (unsigned i = 0; i < s.op->n_attrs; i++) {
        s.attr[i].i = good_attrs[i];
    }
    unsigned ws = s.op->n_operands - 1u;
    for (unsigned i = 0; i < ws; i++) {
        art_array *a = &s.args.operand[i];
        a->ndim = g->operand[i].ndim;
        a->batched = g->operand[i].batched;
        memcpy(a->dims, g->operand[i].dims, sizeof(a->dims));
        a->bytes = art_count(a) * sizeof(float);
    }
    s.args.attr = s.attr;
    s.args.operand[ws] = (art_array){.ndim = 1, .dtype = ART_DTYPE_U8};
    s.args.operand[ws].bytes = s.op->workspace(&s.args);
    s.args.operand[ws].dims[0] = (uint32_t)s.args.operand[ws].bytes;
    return s;
}

static art_status check(step *s) {
    art_error err = {{0}, NULL, 0};
    s->args.attr = s->attr;
    art_status status = art_check_operation(s->op, &s->args, &err);
    EXPECT(status == ART_OK || strstr(err.text, s->op->name) || strstr(err.text, "conv2d."));
    return status;
}

static void expect_refused(step s, const char *what, unsigned slot) {
    if (check(&s) == ART_OK) {
        printf("%s: %s of operand %u was accepted\n", s.op->name, what, slot);
        expect_failures++;
    }
}

/* Every operand in turn: type, rank, each dimension, bytes, batched; required ones absent. */
static void test_each_operand(const good *g) {
    step s = make(g);
    EXPECT(check(&s) == ART_OK);
    for (unsigned slot = 0; slot < s.op->n_operands; slot++) {
        bool is_ws = slot + 1u == s.op->n_operands;
        art_array *a = &s.args.operand[slot], kept = *a;
        a->dtype = is_ws ? ART_DTYPE_F32 : ART_DTYPE_I32;
        expect_refused(s, "type", slot);
        *a = kept;
        a->bytes--;
        expect_refused(s, "bytes", slot);
        *a = kept;
        a->batched = !a->batched;
        expect_refused(s, "batched", slot);
        *a = kept;
        a->ndim = (uint8_t)(kept.ndim - 1u);
        if (a->ndim > 0) {
            expect_refused(s, "rank", slot);
        }
        for (unsigned i = 0; i < kept.ndim && !is_ws; i++) {
            static const uint32_t wrong[] = {0, 1, 8, 9, 1u << 31, UINT32_MAX};
            for (unsigned k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++) {
                *a = kept;
                a->dims[i] = wrong[k];
                expect_refused(s, "dimension", slot);
            }
        }
        *a = kept;
        if (!(s.op->access[slot] & ART_ACCESS_OPTIONAL) || is_ws) {
            *a = (art_array){.data = NULL};
            expect_refused(s, "absence", slot);
            *a = kept;
        }
    }
}

static void test_each_attr(const good *g) {
    static const int64_t wrong[] = {INT64_MIN, -1, 1 << 21, INT64_MAX, (int64_t)1 << 32};
    for (unsigned i = 0; i < make(g).op->n_attrs; i++) {
        for (unsigned k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++) {
            step s = make(g);
            s.attr[i].i = wrong[k];
            expect_refused(s, "attribute", i);
        }
    }
}

/* Without a weight gradient nothing but rows ties x to dy, whose images the bias gradient adds. */
static void test_bias_alone(const good *g) {
    step s = make(g);
    s.args.operand[ART_CONV2D_GRAD_W_DW] = (art_array){.data = NULL};
    EXPECT(check(&s) == ART_OK);
    for (unsigned slot = ART_CONV2D_GRAD_W_X; slot <= ART_CONV2D_GRAD_W_DY; slot++) {
        art_array *a = &s.args.operand[slot], kept = *a;
        a->batched = 0;
        expect_refused(s, "batched", slot);
        *a = kept;
        a->dims[0]++;
        a->bytes = art_count(a) * sizeof(float);
        expect_refused(s, "rows", slot);
        *a = kept;
    }
}

static uint32_t state = 1;

static uint32_t draw(uint32_t n) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
}

static int64_t any_attr(void) {
    static const int64_t edges[] = {0, -1, 1 << 20, 1 << 30, INT32_MAX, INT64_MAX, INT64_MIN};
    return draw(8) ? 1 + draw(7) : edges[draw(sizeof(edges) / sizeof(edges[0]))];
}

/* Spoil some dimensions and attributes, keeping the bytes in step with most of them. */
static void spoil(step *s) {
    for (unsigned n = 1 + draw(6); n > 0; n--) {
        unsigned slot = draw(s->op->n_operands - 1u);
        art_array *a = &s->args.operand[slot];
        switch (draw(3)) {
        case 0:
            a->dims[draw(a->ndim)] = draw(20) ? draw(10) : UINT32_MAX - draw(2);
            break;
        case 1:
            if (s->op->n_attrs) {
                s->attr[draw(s->op->n_attrs)].i = any_attr();
            }
            break;
        default:
            if ((s->op->access[slot] & ART_ACCESS_OPTIONAL) && draw(4) == 0) {
                *a = (art_array){.data = NULL, .ndim = 1, .dims = {6}};
            }
        }
    }
    for (unsigned slot = 0; slot + 1u < s->op->n_operands; slot++) {
        uint64_t bytes = art_mul_saturated(art_count(&s->args.operand[slot]), sizeof(float));
        s->args.operand[slot].bytes = bytes < 1u << 20 ? bytes : 1u << 20;
    }
    unsigned ws = s->op->n_operands - 1u;
    uint64_t need = s->op->workspace(&s->args);
    s->args.operand[ws].bytes = need < 1u << 20 ? need : 1u << 20;
    s->args.operand[ws].dims[0] = (uint32_t)s->args.operand[ws].bytes;
}

/* Make the output fit the input, so that odd attributes often pass. */
static void fit(step *s, const good *g) {
    if (s->op->n_attrs == 0) {
        return;
    }
    const struct {
        unsigned code, x, y, w; /* slots of the convolution's images and weight */
    } slots[] = {
        {ART_OP_CONV2D_FWD, 0, 3, 1},
        {ART_OP_CONV2D_GRAD_W, 0, 1, 2},
        {ART_OP_CONV2D_GRAD_X, 2, 0, 1},
        {ART_OP_CONV_TRANSPOSE2D_FWD, 3, 0, 1},
        {ART_OP_CONV_TRANSPOSE2D_GRAD_W, 1, 0, 2},
        {ART_OP_CONV_TRANSPOSE2D_GRAD_X, 0, 2, 1},
    };
    unsigned i = 0;
    while (slots[i].code != g->code) {
        i++;
    }
    const art_array *x = &s->args.operand[slots[i].x], *w = &s->args.operand[slots[i].w];
    art_array *y = &s->args.operand[slots[i].y];
    for (unsigned axis = 0; axis < 2; axis++) {
        int64_t stride = s->attr[axis].i, pad = s->attr[2 + axis].i, dil = s->attr[4 + axis].i;
        int64_t over = s->attr[7 + axis].i;
        bool sane = over >= 0 && over <= 64 && stride > 0 && stride <= 1 << 20 && pad >= 0 &&
                    pad <= 64 && dil > 0 && dil <= 1 << 20 && x->dims[1 + axis] < 64 &&
                    w->dims[1 + axis] < 64;
        if (sane && w->ndim == 5) {
            y->dims[1 + axis] = (uint32_t)art_window_out(x->dims[1 + axis] + over,
                                                         w->dims[1 + axis], stride, pad, dil);
        }
    }
}

static void run_guarded(step *s) {
    guarded data[ART_MAX_OPERANDS];
    for (unsigned i = 0; i < s->op->n_operands; i++) {
        size_t floats = s->args.operand[i].bytes / sizeof(float);
        data[i] = guarded_new(floats);
        fill_random(data[i].data, floats, i);
        s->args.operand[i].data = s->args.operand[i].ndim ? data[i].data : NULL;
    }
    unsigned n_levels;
    const art_level *levels = art_levels(&n_levels);
    for (unsigned i = 0; i < n_levels; i++) {
        if ((levels[i].features & ~art_cpu_features()) == 0) {
            s->args.level = &levels[i];
            s->args.pool = pool;
            EXPECT(s->op->run(&s->args, NULL) == ART_OK);
        }
    }
    for (unsigned i = 0; i < s->op->n_operands; i++) {
        guarded_free(&data[i]);
    }
}

static void test_random(void) {
    unsigned ran = 0;
    for (unsigned i = 0; i < 60000; i++) {
        const good *g = &goods[i % N_GOODS];
        step s = make(g);
        spoil(&s);
        if (draw(2)) {
            fit(&s, g);
            for (unsigned slot = 0; slot + 1u < s.op->n_operands; slot++) {
                s.args.operand[slot].bytes =
                    art_mul_saturated(art_count(&s.args.operand[slot]), sizeof(float));
            }
            unsigned ws = s.op->n_operands - 1u;
            s.args.operand[ws].bytes = s.op->workspace(&s.args);
            s.args.operand[ws].dims[0] = (uint32_t)s.args.operand[ws].bytes;
        }
        uint64_t largest = 0;
        for (unsigned slot = 0; slot < s.op->n_operands; slot++) {
            uint64_t bytes = s.args.operand[slot].bytes;
            largest = bytes > largest ? bytes : largest;
        }
        if (check(&s) == ART_OK && largest <= 1u << 20) {
            run_guarded(&s);
            ran++;
        }
    }
    printf("random steps that passed their check and ran: %u\n", ran);
    EXPECT(ran > 1000);
}

int main(void) {
    static char stack[ART_STACK_BYTES] __attribute__((aligned(4096)));
    art_error err;
    pool = aligned_alloc(64, (art_pool_bytes() + 63) / 64 * 64);
    EXPECT(art_pool_start(pool, THREADS, stack, &err) == ART_OK);
    for (unsigned i = 0; i < N_GOODS; i++) {
        test_each_operand(&goods[i]);
        test_each_attr(&goods[i]);
    }
    test_bias_alone(&goods[4]);
    test_random();
    art_pool_stop(pool);
    free(pool);
    return expect_done("test_product_check");
}
