/* Complete search for a packing that is not higher than a capacity; intervals and bytes only.
 *
 * Twin of `exact` in armtrain/memory/search.py, node for node; tests compare the two. */
#ifndef ART_PACK_SEARCH_H
#define ART_PACK_SEARCH_H

#include <stddef.h>
#include <stdint.h>

/* One recursion a buffer and lists of all that follow it: more would need too much memory. */
#define ART_PACK_MAX_BUFFERS 2000

typedef enum { ART_PACK_FOUND, ART_PACK_INFEASIBLE, ART_PACK_LIMIT } art_pack_outcome;

/* Buffers in ascending order of `start`; buffer i is live in sections start[i] <= s < stop[i]. */
typedef struct {
    uint32_t n_buffers;
    uint32_t n_sections;
    const uint32_t *start;
    const uint32_t *stop;
    const int64_t *size;
    const uint32_t *rank; /* a permutation: which of the possible next buffers is tried first */
    int64_t capacity;
    uint64_t node_limit;
} art_pack_problem;

/* Size of the memory that a search needs. */
size_t art_pack_workspace_bytes(const art_pack_problem *problem);

/* Decide whether the buffers fit into the capacity; `workspace` is 8-byte aligned. `offset` holds
 * the packing when one is found, `nodes` the placements tried. */
art_pack_outcome art_pack_search(const art_pack_problem *problem, void *workspace, int64_t *offset,
                                 uint64_t *nodes);

#endif
