/* The placed buffers are kept by offset: one pass over them shows every gap from the floor up, and
 * nothing is sorted anew. */
#include "pack/greedy.h"

#include <string.h>

static int64_t gap_for(const art_pack_order *p, uint32_t i, const uint32_t *sorted, uint32_t placed,
                       const int64_t *offset) {
    int64_t top = 0, best = -1, best_slack = INT64_MAX;
    for (uint32_t k = 0; k < placed; k++) {
        uint32_t j = sorted[k];
        if (p->lower[j] >= p->upper[i] || p->lower[i] >= p->upper[j]) {
            continue;
        }
        int64_t slack = offset[j] - top - p->size[i];
        if (slack >= 0 && !p->best_fit) {
            return top;
        }
        if (slack >= 0 && slack < best_slack) {
            best = top;
            best_slack = slack;
        }
        int64_t end = offset[j] + p->size[j];
        top = end > top ? end : top;
    }
    return best < 0 ? top : best;
}

void art_pack_place(const art_pack_order *p, uint32_t *sorted, int64_t *offset) {
    for (uint32_t placed = 0; placed < p->n_buffers; placed++) {
        uint32_t i = p->order[placed], low = 0, high = placed;
        offset[i] = gap_for(p, i, sorted, placed, offset);
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (offset[sorted[middle]] <= offset[i]) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        memmove(sorted + low + 1, sorted + low, (placed - low) * sizeof(*sorted));
        sorted[low] = i;
    }
}
