#include "ops/check.h"
#include "ref/ref_ops.h"

/* Coordinates of element i of an array. */
static void unravel(const art_array *a, uint64_t i, uint64_t *at) {
    for (unsigned k = a->ndim; k-- > 0; i /= a->dims[k]) {
        at[k] = i % a->dims[k];
    }
}

static uint64_t ravel(const art_array *a, const uint64_t *at) {
    uint64_t i = 0;
    for (unsigned k = 0; k < a->ndim; k++) {
        i = i * a->dims[k] + at[k];
    }
    return i;
}

void art_ref_permute(const art_op_args *args, double *const *out, double *const *tol) {
    const art_array *x = &args->operand[ART_PERMUTE_X], *y = &args->operand[ART_PERMUTE_Y];
    for (uint64_t i = 0; i < art_count(y); i++) {
        uint64_t to[ART_MAX_DIMS] = {0}, from[ART_MAX_DIMS] = {0};
        unravel(y, i, to);
        from[0] = to[0];
        for (unsigned k = 1; k < y->ndim; k++) {
            from[args->attr[k - 1].i] = to[k];
        }
        out[ART_PERMUTE_Y][i] = (double)((const float *)x->data)[ravel(x, from)];
        tol[ART_PERMUTE_Y][i] = 0.0;
    }
}

/* Where an element of a part lies in the whole. */
static uint64_t whole_place(const art_op_args *args, const art_array *small, const art_array *whole,
                            uint64_t i) {
    uint64_t at[ART_MAX_DIMS] = {0};
    unravel(small, i, at);
    uint64_t *along = &at[args->attr[ART_SLICE_A_AXIS].i];
    *along = (uint64_t)args->attr[ART_SLICE_A_START].i +
             *along * (uint64_t)args->attr[ART_SLICE_A_STEP].i;
    return ravel(whole, at);
}

void art_ref_slice(const art_op_args *args, double *const *out, double *const *tol) {
    const art_array *x = &args->operand[ART_SLICE_X], *y = &args->operand[ART_SLICE_Y];
    for (uint64_t i = 0; i < art_count(y); i++) {
        out[ART_SLICE_Y][i] = (double)((const float *)x->data)[whole_place(args, y, x, i)];
        tol[ART_SLICE_Y][i] = 0.0;
    }
}

void art_ref_place(const art_op_args *args, double *const *out, double *const *tol) {
    const art_array *x = &args->operand[ART_PLACE_X], *y = &args->operand[ART_PLACE_Y];
    const float *whole = args->operand[ART_PLACE_WHOLE].data;
    double *to = out[ART_PLACE_Y];
    for (uint64_t i = 0; i < art_count(y); i++) {
        to[i] = whole ? (double)whole[i] : 0.0;
        tol[ART_PLACE_Y][i] = 0.0;
    }
    for (uint64_t i = 0; i < art_count(x); i++) {
        uint64_t at = whole_place(args, x, y, i);
        double value = (double)((const float *)x->data)[i];
        int adds = args->attr[ART_PLACE_A_ADD].i != 0;
        to[at] = adds ? to[at] + value : value;
        tol[ART_PLACE_Y][at] = adds ? ART_REF_U * (to[at] < 0 ? -to[at] : to[at]) : 0.0;
    }
}
