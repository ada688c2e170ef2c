/* Two arrays of which the smaller one has dimensions of 1 where it stands for every place of the
 * larger one's, or none at all in front. Neighbouring axes of one kind are joined. */
#ifndef ART_OPS_BROADCAST_H
#define ART_OPS_BROADCAST_H

#include "ops/spans.h"

typedef struct art_broadcast {
    unsigned n;
    uint64_t extent[ART_MAX_DIMS];
    uint64_t small[ART_MAX_DIMS]; /* stride in the smaller array, 0 where it stands for all */
    uint64_t large[ART_MAX_DIMS]; /* stride in the larger array */
} art_broadcast;

/* How `small` lies in `large`; both were checked. There is at least one axis. */
art_broadcast art_broadcast_of(const art_array *large, const art_array *small);

/* Both are floats and fit; the smaller one may be batched or not, and then has no batch. */
art_status art_check_broadcast(const art_op_args *args, unsigned large, const char *large_name,
                               unsigned small, const char *small_name, art_error *err);

/* Elements of the last axis of `broadcast`, and offset in the smaller array of row `row` of all
 * others. */
static inline uint64_t art_broadcast_run(const art_broadcast *b) {
    return b->extent[b->n - 1];
}

static inline uint64_t art_broadcast_place(const art_broadcast *b, uint64_t row) {
    uint64_t place = 0;
    for (unsigned i = b->n - 1; i-- > 0; row /= b->extent[i]) {
        place += row % b->extent[i] * b->small[i];
    }
    return place;
}

#endif
