/* Layer norm and root-mean-square norm, compared as in op_scene.h. */
#include "op_scene.h"

#define F32 ART_DTYPE_F32
#define NEW(NAME, name) scene_new(#name, ART_OP_##NAME, art_ref_##name)

enum { AFFINE = 1, KEEPS = 2, DX = 4, SUMS = 8, CENTRED = 16 };

static void floats(scene *s, unsigned slot, int batched, int ndim, const int *d, double lo,
                   double hi) {
    const int dims[4] = {d[0], ndim > 1 ? d[1] : 1, ndim > 2 ? d[2] : 1, ndim > 3 ? d[3] : 1};
    scene_operand(s, slot, F32, batched, ndim, dims[0], dims[1], dims[2], dims[3]);
    scene_floats(s, slot, lo, hi);
}

static void vector(scene *s, unsigned slot, int n, double lo, double hi) {
    floats(s, slot, 0, 1, &n, lo, hi);
}

static void test_rows_fwd(const int *d, int parts, double lo, double hi) {
    scene s = NEW(LAYERNORM_FWD, layernorm_fwd);
    floats(&s, ART_LAYERNORM_FWD_X, 1, 3, d, lo, hi);
    floats(&s, ART_LAYERNORM_FWD_Y, 1, 3, d, 0, 1);
    if (parts & AFFINE) {
        vector(&s, ART_LAYERNORM_FWD_GAMMA, d[2], -2, 2);
        vector(&s, ART_LAYERNORM_FWD_BETA, d[2], -1, 1);
    }
    if (parts & KEEPS && parts & CENTRED) {
        floats(&s, ART_LAYERNORM_FWD_ROW_MEAN, 1, 2, d, 0, 1);
    }
    if (parts & KEEPS) {
        floats(&s, ART_LAYERNORM_FWD_ROW_INVSTD, 1, 2, d, 0, 1);
    }
    s.attr[ART_LAYERNORM_FWD_A_EPS].f = 1e-5;
    s.attr[ART_LAYERNORM_FWD_A_CENTRED].i = (parts & CENTRED) != 0;
    scene_verify(&s);
}

static void test_rows_grad(const int *d, int parts) {
    scene s = NEW(LAYERNORM_GRAD, layernorm_grad);
    floats(&s, ART_LAYERNORM_GRAD_X, 1, 3, d, -2, 3);
    floats(&s, ART_LAYERNORM_GRAD_DY, 1, 3, d, -1, 1);
    floats(&s, ART_LAYERNORM_GRAD_ROW_INVSTD, 1, 2, d, 0.5, 1);
    if (parts & CENTRED) {
        floats(&s, ART_LAYERNORM_GRAD_ROW_MEAN, 1, 2, d, 0.4, 0.6);
    }
    if (parts & AFFINE) {
        vector(&s, ART_LAYERNORM_GRAD_GAMMA, d[2], -2, 2);
    }
    if (parts & DX) {
        floats(&s, ART_LAYERNORM_GRAD_DX, 1, 3, d, 0, 1);
    }
    if (parts & SUMS) {
        vector(&s, ART_LAYERNORM_GRAD_DGAMMA, d[2], 0, 1);
        vector(&s, ART_LAYERNORM_GRAD_DBETA, d[2], 0, 1);
    }
    scene_verify(&s);
}

static void test_rows(const int *d) {
    test_rows_fwd(d, AFFINE | KEEPS | CENTRED, -2, 3);
    test_rows_fwd(d, AFFINE | KEEPS, -2, 3);
    test_rows_fwd(d, CENTRED, 99.9, 100.1);
    test_rows_fwd(d, CENTRED | KEEPS, 2, 2); /* no variance at all */
    test_rows_grad(d, AFFINE | DX | SUMS | CENTRED);
    test_rows_grad(d, AFFINE | DX | SUMS);
    test_rows_grad(d, DX | CENTRED);
    test_rows_grad(d, SUMS);
}

int main(void) {
    static const int rows[][3] = {{3, 1, 1},   {2, 3, 2},    {1, 5, 15},   {2, 2, 16},
                                  {3, 1, 17},  {2, 2, 67},   {5, 29, 8},   {2, 70, 33},
                                  {1, 9, 300}, {2, 1, 1025}, {1, 1, 20000}};
    scene_open_pools();
    scene_print_levels();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_rows(rows[i]);
    }
    scene_close_pools();
    printf("%u runs\n", scene_runs);
    return expect_done("sample_norm");
}
