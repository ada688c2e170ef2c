/* First-fit and best-fit placement of buffers in a given order; intervals and bytes only.
 *
 * Twin of `place_plain` in armtrain/memory/greedy.py, offset for offset; tests compare the two. */
#ifndef ART_PACK_GREEDY_H
#define ART_PACK_GREEDY_H

#include <stdint.h>

typedef struct {
    uint32_t n_buffers;
    const int64_t *lower; /* buffer i is live at lower[i] <= time < upper[i] */
    const int64_t *upper;
    const int64_t *size;
    const uint32_t *order; /* a permutation */
    int best_fit;          /* the tightest gap that holds a buffer instead of the lowest one */
} art_pack_order;

/* Place every buffer; `sorted` has room for one number a buffer. */
void art_pack_place(const art_pack_order *problem, uint32_t *sorted, int64_t *offset);

#endif
