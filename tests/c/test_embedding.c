/* Rows of tables on all levels, threads and shapes against their twins. */
#include "op_scene.h"

#define F32 ART_DTYPE_F32

/* Indices of any shape, a table of `rows` times `columns` that lies turned or not. */
typedef struct table_case {
    int ndim, dims[5], rows, columns, padding;
} table_case;

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
    scene_floats(&s, 0, 0.0, c->rows);
    scene_floats(&s, y, -1.0, 1.0);
    scene_floats(&s, w, -1.0, 1.0);
    float *x = s.args.operand[0].data;
    for (size_t i = 0; i < scene_elements(&s, 0); i++) {
        x[i] = floorf(x[i]);
    }
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
}

int main(void) {
    scene_open_pools();
    scene_print_levels();
    test_tables();
    test_indices();
    test_refusals();
    scene_close_pools();
    printf("%u runs\n", scene_runs);
    return expect_done("embedding");
}
