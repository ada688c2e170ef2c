/* Rows of tables on all levels, threads and shapes against their twins. */
#include "op_scene.h"

#define F32 ART_DTYPE_F32

/* Indices of any shape, a table of `rows` times `columns` that lies turned or not. */
typedef struct table_case {
    int ndim, dims[5], rows, columns, padding;
} table_case;

/* Indices of a table of `rows` rows. */
static void fill_indices(scene *s, unsigned slot, int rows) {
    float *x = s->args.operand[slot].data;
    scene_floats(s, slot, 0.0, rows);
    for (size_t i = 0; i < scene_elements(s, slot); i++) {
        x[i] = floorf(x[i]);
    }
}

static scene table(int grad, int turned, const table_case *c) {
    scene s = grad ? scene_new("embedding_grad", ART_OP_EMBEDDING_GRAD, art_ref_embedding_grad)
                   : scene_new("embedding_fwd", ART_OP_EMBEDDING_FWD, art_ref_embedding_fwd);
    unsigned w = grad ? ART_EMBEDDING_GRAD_DW : ART_EMBEDDING_FWD_W;
    unsigned y = grad ? ART_EMBEDDING_GRAD_DY : ART_EMBEDDING_FWD_Y;
    int d[6] = {0};
    memcpy(d, c->dims, sizeof c->dims);
    scene_operand(&s, 0, F32, 1, c->ndim, d[0], d[1], d[2], d[3], d[4]);
    d[c->ndim] = c->columns;
    scene_operand(&s, y, F32, 1, c->ndim + 1, d[0], d[1], d[2], d[3], d[4], d[5]);
    scene_operand(&s, w, F32, 0, 2, turned ? c->columns : c->rows, turned ? c->rows : c->columns);
    fill_indices(&s, 0, c->rows);
    scene_floats(&s, y, -1.0, 1.0);
    scene_floats(&s, w, -1.0, 1.0);
    s.attr[ART_EMBEDDING_GRAD_A_TURNED].i = turned;
    s.attr[ART_EMBEDDING_GRAD_A_PADDING].i = c->padding;
    return s;
}

static void test_tables(void) {
    static const table_case cases[] = {
        {1, {7}, 3, 5, 2},        {2, {3, 4}, 2, 1, 0},     {2, {2, 9}, 1, 33, -100},
        {3, {2, 3, 5}, 7, 17, 6}, {2, {40, 30}, 50, 64, 9}, {5, {2, 1, 2, 1, 3}, 4, 3, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int way = 0; way < 4; way++) {
            scene s = table(way & 1, way >> 1, &cases[i]);
            scene_verify(&s);
        }
    }
}

/* The gradient of a table in the rows of a batch. */
static scene rows_alone(const table_case *c) {
    enum { INDEX = ART_EMBEDDING_GRAD_ROWS_X, DY = ART_EMBEDDING_GRAD_ROWS_DY };
    scene s =
        scene_new("embedding_grad_rows", ART_OP_EMBEDDING_GRAD_ROWS, art_ref_embedding_grad_rows);
    int d[6] = {0};
    memcpy(d, c->dims, sizeof c->dims);
    scene_operand(&s, INDEX, F32, 1, c->ndim, d[0], d[1], d[2], d[3], d[4]);
    d[c->ndim] = c->columns;
    scene_operand(&s, DY, F32, 1, c->ndim + 1, d[0], d[1], d[2], d[3], d[4], d[5]);
    scene_operand(&s, ART_EMBEDDING_GRAD_ROWS_ROWS, F32, 1, c->ndim + 1, d[0], d[1], d[2], d[3],
                  d[4], d[5]);
    fill_indices(&s, INDEX, c->rows);
    scene_floats(&s, DY, -1.0, 1.0);
    s.attr[ART_EMBEDDING_GRAD_ROWS_A_PADDING].i = c->padding;
    return s;
}

/* An update of the rows that a batch names, whose gradients stand where an index is first. */
static scene update(int adagrad, const table_case *c) {
    enum { W, ROWS, INDEX, SCALE, SUM };
    scene s = adagrad ? scene_new("embedding_adagrad_step", ART_OP_EMBEDDING_ADAGRAD_STEP,
                                  art_ref_embedding_adagrad_step)
                      : scene_new("embedding_sgd_step", ART_OP_EMBEDDING_SGD_STEP,
                                  art_ref_embedding_sgd_step);
    scene_operand(&s, W, F32, 0, 2, c->rows, c->columns);
    scene_operand(&s, INDEX, F32, 1, 2, c->dims[0], c->dims[1]);
    scene_operand(&s, ROWS, F32, 1, 3, c->dims[0], c->dims[1], c->columns);
    fill_indices(&s, INDEX, c->rows);
    scene_floats(&s, W, -1.0, 1.0);
    scene_floats(&s, ROWS, -1.0, 1.0);
    *(float *)scene_operand(&s, SCALE, F32, 0, 1, 1) = 0.75f;
    if (adagrad) {
        scene_operand(&s, SUM, F32, 0, 2, c->rows, c->columns);
        scene_floats(&s, SUM, 0.0, 1.0);
    }
    const float *x = s.args.operand[INDEX].data;
    for (size_t i = 0; i < scene_elements(&s, INDEX); i++) {
        for (size_t j = 0; j < i; j++) {
            if (x[j] == x[i]) {
                memset((float *)s.args.operand[ROWS].data + i * (size_t)c->columns, 0,
                       (size_t)c->columns * sizeof(float));
            }
        }
    }
    s.attr[ART_ADAGRAD_STEP_A_LR].f = 0.1;
    s.attr[ART_ADAGRAD_STEP_A_EPS].f = adagrad ? 1e-10 : 0.0;
    return s;
}

static void test_rows(void) {
    static const table_case cases[] = {
        {1, {7}, 3, 5, 2},         {2, {3, 4}, 2, 1, 0},      {2, {2, 9}, 1, 33, -100},
        {3, {2, 3, 5}, 90, 17, 6}, {2, {10, 30}, 400, 40, 9}, {5, {2, 1, 2, 1, 3}, 4, 3, 1},
    };
    static const table_case tables[] = {{2, {3, 4}, 20, 1, 0}, {2, {4, 9}, 40, 33, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scene s = rows_alone(&cases[i]);
        scene_verify(&s);
    }
    for (size_t i = 0; i < 4; i++) {
        scene s = update(i & 1, &tables[i / 2]);
        scene_verify(&s);
    }
}

/* A sum starts from 0, as in the whole table, so that none is -0: only then is -0 - sum -0. */
static void test_sums_start_from_zero(void) {
    static const table_case one = {1, {3}, 9, 1, -100};
    static const uint32_t zeros[3] = {0};
    scene s = rows_alone(&one);
    void *results[SCENE_SLOTS] = {NULL};
    art_error err;
    unsigned n;
    for (size_t i = 0; i < 3; i++) {
        ((float *)s.args.operand[ART_EMBEDDING_GRAD_ROWS_X].data)[i] = i < 2 ? 8.0f : 1.0f;
        ((float *)s.args.operand[ART_EMBEDDING_GRAD_ROWS_DY].data)[i] = -0.0f;
    }
    EXPECT_STATUS(scene_run(&s, (variant){art_levels(&n), 1, 0, -1, -1}, results, &err), ART_OK,
                  err, "");
    EXPECT(memcmp(results[ART_EMBEDDING_GRAD_ROWS_ROWS], zeros, sizeof zeros) == 0);
    free(results[ART_EMBEDDING_GRAD_ROWS_ROWS]);
    scene_free(&s);
}

/* An index that is none touches nothing outside the table. */
static void test_indices(void) {
    static const table_case one = {1, {2}, 3, 4, -100};
    static const float bad[] = {3.0f, -1.0f, 1.5f, 1e30f, NAN};
    unsigned n;
    for (size_t i = 0; i < 2 * (sizeof bad / sizeof *bad); i++) {
        scene s = table(i & 1, 0, &one);
        ((float *)s.args.operand[0].data)[1] = bad[i / 2];
        variant plain = {art_levels(&n), 1, 0, -1, -1};
        art_error err;
        EXPECT_STATUS(scene_run(&s, plain, NULL, &err), ART_LABEL, err,
                      "at place 1 of the batch is out of range: the table has rows 0 to 2");
        scene_free(&s);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        static const table_case rows = {2, {1, 2}, 3, 4, -100};
        scene s = update(i & 1, &rows);
        ((float *)s.args.operand[ART_EMBEDDING_SGD_STEP_X].data)[1] = bad[i];
        art_error err;
        EXPECT_STATUS(scene_run(&s, (variant){art_levels(&n), 1, 0, -1, -1}, NULL, &err), ART_LABEL,
                      err, "at place 1 of the batch is out of range: the table has rows 0 to 2");
        scene_free(&s);
    }
}

static void refused(scene s, unsigned slot, unsigned dim, uint32_t size, const char *text) {
    art_op_args args;
    art_error err = {0};
    s.args.operand[slot].dims[dim] = size;
    EXPECT(scene_check(&s, 0, &args, &err) != ART_OK && strstr(err.text, text) != NULL);
    scene_free(&s);
}

static void test_refusals(void) {
    static const table_case one = {2, {2, 3}, 5, 4, -100};
    refused(table(0, 0, &one), ART_EMBEDDING_FWD_Y, 2, 5, "embedding_fwd.y");
    refused(table(0, 1, &one), ART_EMBEDDING_FWD_W, 0, 5, "embedding_fwd.y");
    refused(table(1, 0, &one), ART_EMBEDDING_GRAD_DY, 1, 2, "embedding_grad.dy");
    refused(table(1, 0, &one), ART_EMBEDDING_GRAD_DW, 0, (1u << 24) + 1, "16777216 at most");
    refused(rows_alone(&one), ART_EMBEDDING_GRAD_ROWS_DY, 1, 2, "embedding_grad_rows.dy");
    refused(rows_alone(&one), ART_EMBEDDING_GRAD_ROWS_ROWS, 2, 5, "embedding_grad_rows.rows");
    refused(rows_alone(&one), ART_EMBEDDING_GRAD_ROWS_X, 1, 1u << 24, "can have 16777216 in 5");
    refused(update(0, &one), ART_EMBEDDING_SGD_STEP_ROWS, 2, 5, "embedding_sgd_step.rows");
    refused(update(1, &one), ART_EMBEDDING_ADAGRAD_STEP_SUM, 0, 4, "embedding_adagrad_step.sum");
}

/* Only an update that leaves rows without a gradient as they are may leave them out. */
static void test_refused_updates(void) {
    static const table_case one = {2, {2, 3}, 5, 4, -100};
    static const struct {
        unsigned adagrad, attr;
        double value;
    } bad[] = {
        {0, ART_SGD_STEP_A_MOMENTUM, 0.9},
        {0, ART_SGD_STEP_A_WEIGHT_DECAY, 0.1},
        {1, ART_ADAGRAD_STEP_A_WEIGHT_DECAY, 0.1},
        {1, ART_ADAGRAD_STEP_A_EPS, 0.0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        scene s = update((int)bad[i].adagrad, &one);
        s.attr[bad[i].attr].f = bad[i].value;
        refused(s, 0, 0, 5, "change");
    }
}

int main(void) {
    scene_open_pools();
    scene_print_levels();
    test_tables();
    test_rows();
    test_sums_start_from_zero();
    test_indices();
    test_refusals();
    test_refused_updates();
    scene_close_pools();
    printf("%u runs\n", scene_runs);
    return expect_done("embedding");
}
