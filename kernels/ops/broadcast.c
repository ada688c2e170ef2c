#include "ops/broadcast.h"

/* Dimension i of `small` counted as `large`'s are. */
static uint32_t small_dim(const art_array *large, const art_array *small, unsigned i) {
    unsigned ahead = large->ndim - small->ndim;
    return i < ahead ? 1 : small->dims[i - ahead];
}

art_broadcast art_broadcast_of(const art_array *large, const art_array *small) {
    uint64_t stride[ART_MAX_DIMS], along[ART_MAX_DIMS], step = 1, large_step = 1;
    art_broadcast b = {0};
    for (unsigned i = large->ndim; i-- > 0; large_step *= large->dims[i]) {
        uint32_t dim = small_dim(large, small, i);
        stride[i] = dim == 1 ? 0 : step;
        along[i] = large_step;
        step *= dim;
    }
    for (unsigned i = 0; i < large->ndim; i++) {
        uint64_t extent = large->dims[i];
        bool both_stay = b.n > 0 && b.small[b.n - 1] == stride[i] * extent;
        if (extent == 1) {
            continue;
        }
        if (both_stay && (stride[i] != 0) == (b.small[b.n - 1] != 0)) {
            b.extent[b.n - 1] *= extent;
            b.small[b.n - 1] = stride[i];
            b.large[b.n - 1] = along[i];
        } else {
            b.extent[b.n] = extent;
            b.large[b.n] = along[i];
            b.small[b.n++] = stride[i];
        }
    }
    if (b.n == 0) {
        b.extent[b.n] = b.large[b.n] = 1;
        b.small[b.n++] = 1;
    }
    return b;
}

art_status art_check_broadcast(const art_op_args *args, unsigned large, const char *large_name,
                               unsigned small, const char *small_name, art_error *err) {
    const art_array *l = &args->operand[large], *s = &args->operand[small];
    ART_TRY(art_check_operand(args, large, large_name, ART_DTYPE_F32, ART_ANY_RANK, err));
    ART_TRY(art_check_operand(args, small, small_name, ART_DTYPE_F32, ART_ANY_RANK, err));
    ART_FAIL_IF(s->ndim > l->ndim, err, ART_SHAPE, "%s has %u dimensions, %s %u", small_name,
                s->ndim, large_name, l->ndim);
    for (unsigned i = 0; i < l->ndim; i++) {
        uint32_t dim = small_dim(l, s, i);
        bool batch = i == 0 && l->batched;
        bool fits = dim == l->dims[i] && (!batch || s->batched);
        fits = fits || (dim == 1 && !(batch && s->batched));
        ART_FAIL_IF(!fits, err, ART_SHAPE, "%s has %u places where dimension %u of %s has %u",
                    small_name, dim, i, large_name, l->dims[i]);
    }
    ART_FAIL_IF(s->batched && (!l->batched || s->ndim != l->ndim), err, ART_PLAN_FORMAT,
                "%s is batched, needs the opposite or the dimensions of %s", small_name,
                large_name);
    return ART_OK;
}
