#include "ops/check.h"
#include "ref/ref_ops.h"

/* Element of a table, whichever way it lies, for column c of an index. */
static uint64_t table_place(const art_array *table, int64_t turned, uint64_t row, uint64_t c) {
    return turned ? c * table->dims[1] + row : row * table->dims[1] + c;
}

void art_ref_embedding_fwd(const art_op_args *args, double *const *out, double *const *tol) {
    const art_array *x = &args->operand[ART_EMBEDDING_FWD_X];
    const art_array *w = &args->operand[ART_EMBEDDING_FWD_W];
    int64_t turned = args->attr[ART_EMBEDDING_FWD_A_TURNED].i;
    uint64_t columns = w->dims[turned ? 0 : 1];
    for (uint64_t i = 0; i < art_count(x) * columns; i++) {
        uint64_t row = (uint64_t)((const float *)x->data)[i / columns];
        uint64_t at = table_place(w, turned, row, i % columns);
        out[ART_EMBEDDING_FWD_Y][i] = (double)((const float *)w->data)[at];
        tol[ART_EMBEDDING_FWD_Y][i] = 0.0;
    }
}

/* A sum of k numbers, whose partial sums are at most the sum of their sizes. */
void art_ref_embedding_grad(const art_op_args *args, double *const *out, double *const *tol) {
    const art_array *x = &args->operand[ART_EMBEDDING_GRAD_X];
    const art_array *dw = &args->operand[ART_EMBEDDING_GRAD_DW];
    const float *dy = args->operand[ART_EMBEDDING_GRAD_DY].data;
    int64_t turned = args->attr[ART_EMBEDDING_GRAD_A_TURNED].i;
    uint64_t columns = dw->dims[turned ? 0 : 1];
    for (uint64_t i = 0; i < art_count(dw); i++) {
        out[ART_EMBEDDING_GRAD_DW][i] = tol[ART_EMBEDDING_GRAD_DW][i] = 0.0;
    }
    for (uint64_t i = 0; i < art_count(x) * columns; i++) {
        uint64_t row = (uint64_t)((const float *)x->data)[i / columns];
        if ((int64_t)row != args->attr[ART_EMBEDDING_GRAD_A_PADDING].i) {
            uint64_t at = table_place(dw, turned, row, i % columns);
            double size = dy[i] < 0.0f ? -(double)dy[i] : (double)dy[i];
            out[ART_EMBEDDING_GRAD_DW][at] += (double)dy[i];
            tol[ART_EMBEDDING_GRAD_DW][at] += (double)art_count(x) * ART_REF_U * size;
        }
    }
}

/* The same sums, each where its index stands first; what a row holds is 0 elsewhere. */
void art_ref_embedding_grad_rows(const art_op_args *args, double *const *out, double *const *tol) {
    const art_array *x = &args->operand[ART_EMBEDDING_GRAD_ROWS_X];
    const art_array *dy = &args->operand[ART_EMBEDDING_GRAD_ROWS_DY];
    const float *index = x->data, *values = dy->data;
    double *rows = out[ART_EMBEDDING_GRAD_ROWS_ROWS], *error = tol[ART_EMBEDDING_GRAD_ROWS_ROWS];
    uint64_t columns = dy->dims[x->ndim];
    for (uint64_t i = 0; i < art_count(dy); i++) {
        rows[i] = error[i] = 0.0;
    }
    for (uint64_t i = 0; i < art_count(x) * columns; i++) {
        uint64_t first = 0;
        while (index[first] != index[i / columns]) {
            first++;
        }
        if ((int64_t)index[first] != args->attr[ART_EMBEDDING_GRAD_ROWS_A_PADDING].i) {
            double size = values[i] < 0.0f ? -(double)values[i] : (double)values[i];
            rows[first * columns + i % columns] += (double)values[i];
            error[first * columns + i % columns] += (double)art_count(x) * ART_REF_U * size;
        }
    }
}
