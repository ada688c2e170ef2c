/* Depth-first over packings in which the placements' offsets never decrease and every buffer lies
 * on another or on the floor. Buffers without common sections are decided on their own. */
#include "pack/search.h"

#include <string.h>

/* What a placement raised, and what it was before. */
typedef struct {
    int64_t before;
    int64_t *value;
} change;

typedef struct {
    const art_pack_problem *problem;
    int64_t *offset;
    int64_t *release;      /* a buffer: least offset above what is placed in its sections */
    int64_t *rest;         /* a section: bytes of its buffers that are not placed */
    int64_t *floor;        /* a section: least release of its buffers that are not placed, or 0 */
    change *changes;       /* what to undo, the newest last */
    uint32_t *placed;      /* a buffer: whether it is placed */
    uint32_t *live_begin;  /* a section: its buffers in `live`; one more marks the end */
    uint32_t *live;        /* buffers by section */
    uint32_t *other_begin; /* a buffer: its neighbours in `other`; one more marks the end */
    uint32_t *other;       /* buffers that share a section, by buffer */
    uint32_t *lists;       /* per recursion: candidates, and the items without the chosen one */
    unsigned char *stale;  /* a section: its floor may have risen */
    size_t n_changes;
    uint64_t nodes;
} search;

/* The group of items that is being decided: its sections, and the placement before. */
typedef struct {
    const uint32_t *items;
    uint32_t n_items;
    int64_t low;       /* no item may lie below */
    uint32_t low_rank; /* at `low`, no item of a lower rank may lie */
} group;

static int solve(search *s, const group *whole, uint32_t *lists);

static int overlap(const art_pack_problem *p, uint32_t a, uint32_t b) {
    return p->start[a] < p->stop[b] && p->start[b] < p->stop[a];
}

/* Ordered pairs of different buffers that share a section. */
static size_t count_pairs(const art_pack_problem *p) {
    size_t pairs = 0;
    for (uint32_t a = 0; a < p->n_buffers; a++) {
        for (uint32_t b = a + 1; b < p->n_buffers && p->start[b] < p->stop[a]; b++) {
            pairs += 2;
        }
    }
    return pairs;
}

static size_t count_live(const art_pack_problem *p) {
    size_t live = 0;
    for (uint32_t i = 0; i < p->n_buffers; i++) {
        live += p->stop[i] - p->start[i];
    }
    return live;
}

/* Candidates and what follows, for every number of items that can be left. */
static size_t count_lists(size_t n) {
    return n * (n + 1);
}

/* One a pair for the buffer that is placed later, and every section for every placement. */
static size_t count_changes(const art_pack_problem *p) {
    return count_pairs(p) / 2 + (size_t)p->n_buffers * p->n_sections;
}

size_t art_pack_workspace_bytes(const art_pack_problem *p) {
    size_t n = p->n_buffers, sections = p->n_sections, pairs = count_pairs(p);
    size_t words = n + (sections + 1) + count_live(p) + (n + 1) + pairs + n + count_lists(n);
    return (n + 2 * sections) * sizeof(int64_t) + count_changes(p) * sizeof(change) +
           words * sizeof(uint32_t) + sections;
}

static void *take(char **memory, size_t bytes) {
    void *taken = *memory;
    *memory += bytes;
    return taken;
}

static void lay_out(search *s, char *memory, uint32_t **items) {
    const art_pack_problem *p = s->problem;
    size_t n = p->n_buffers, sections = p->n_sections;
    s->release = take(&memory, n * sizeof(int64_t));
    s->rest = take(&memory, sections * sizeof(int64_t));
    s->floor = take(&memory, sections * sizeof(int64_t));
    s->changes = take(&memory, count_changes(p) * sizeof(change));
    s->placed = take(&memory, n * sizeof(uint32_t));
    s->live_begin = take(&memory, (sections + 1) * sizeof(uint32_t));
    s->live = take(&memory, count_live(p) * sizeof(uint32_t));
    s->other_begin = take(&memory, (n + 1) * sizeof(uint32_t));
    s->other = take(&memory, count_pairs(p) * sizeof(uint32_t));
    *items = take(&memory, n * sizeof(uint32_t));
    s->lists = take(&memory, count_lists(n) * sizeof(uint32_t));
    s->stale = (unsigned char *)memory;
}

static void fill(search *s, uint32_t *items) {
    const art_pack_problem *p = s->problem;
    uint32_t used = 0;
    for (uint32_t section = 0; section < p->n_sections; section++) {
        s->live_begin[section] = used;
        s->rest[section] = s->floor[section] = 0;
        s->stale[section] = 0;
        for (uint32_t i = 0; i < p->n_buffers && p->start[i] <= section; i++) {
            if (section < p->stop[i]) {
                s->live[used++] = i;
                s->rest[section] += p->size[i];
            }
        }
    }
    s->live_begin[p->n_sections] = used;
    used = 0;
    for (uint32_t i = 0; i < p->n_buffers; i++) {
        items[i] = i;
        s->release[i] = 0;
        s->placed[i] = 0;
        s->other_begin[i] = used;
        for (uint32_t j = 0; j < p->n_buffers && p->start[j] < p->stop[i]; j++) {
            if (j != i && overlap(p, i, j)) {
                s->other[used++] = j;
            }
        }
    }
    s->other_begin[p->n_buffers] = used;
}

static void add_rest(search *s, uint32_t i, int64_t bytes) {
    for (uint32_t section = s->problem->start[i]; section < s->problem->stop[i]; section++) {
        s->rest[section] += bytes;
    }
}

static void change_to(search *s, int64_t *value, int64_t to) {
    s->changes[s->n_changes++] = (change){*value, value};
    *value = to;
}

static void undo_changes(search *s, size_t kept) {
    while (s->n_changes > kept) {
        const change *last = &s->changes[--s->n_changes];
        *last->value = last->before;
    }
}

static void find_floor(search *s, uint32_t section) {
    int64_t floor = INT64_MAX;
    for (uint32_t k = s->live_begin[section]; k < s->live_begin[section + 1]; k++) {
        uint32_t j = s->live[k];
        int64_t release = s->placed[j] ? INT64_MAX : s->release[j];
        floor = release < floor ? release : floor;
    }
    floor = floor == INT64_MAX ? 0 : floor;
    if (floor != s->floor[section]) {
        change_to(s, &s->floor[section], floor);
    }
}

/* Whether every section from `first` to `last` can hold its rest at or above `low`. */
static int sections_fit(const search *s, uint32_t first, uint32_t last, int64_t low) {
    for (uint32_t section = first; section < last; section++) {
        int64_t floor = s->floor[section] > low ? s->floor[section] : low;
        if (floor + s->rest[section] > s->problem->capacity) {
            return 0;
        }
    }
    return 1;
}

/* Lift the neighbours of a placed buffer above its top and mark the sections whose floor may rise;
 * false when a neighbour can no longer fit. */
static int lift_neighbours(search *s, uint32_t i, int64_t top) {
    const art_pack_problem *p = s->problem;
    for (uint32_t k = s->other_begin[i]; k < s->other_begin[i + 1]; k++) {
        uint32_t j = s->other[k];
        if (s->placed[j] || s->release[j] >= top) {
            continue;
        }
        if (top + p->size[j] > p->capacity) {
            return 0;
        }
        for (uint32_t section = p->start[j]; section < p->stop[j]; section++) {
            s->stale[section] |= s->floor[section] == s->release[j];
        }
        change_to(s, &s->release[j], top);
    }
    return 1;
}

/* Put buffer i at its release; false when another one can no longer fit. */
static int place(search *s, uint32_t i, uint32_t first, uint32_t last) {
    const art_pack_problem *p = s->problem;
    int64_t top = s->release[i] + p->size[i];
    s->placed[i] = 1;
    s->offset[i] = s->release[i];
    add_rest(s, i, -p->size[i]);
    if (top > p->capacity) {
        return 0;
    }
    memset(s->stale + p->start[i], 1, p->stop[i] - p->start[i]);
    int fits = lift_neighbours(s, i, top);
    for (uint32_t section = first; section < last; section++) {
        if (s->stale[section] && fits) {
            find_floor(s, section);
        }
        s->stale[section] = 0;
    }
    return fits && sections_fit(s, first, last, s->offset[i]);
}

static void take_back(search *s, uint32_t i) {
    if (s->placed[i]) {
        s->placed[i] = 0;
        add_rest(s, i, s->problem->size[i]);
    }
}

/* Whether an earlier item equals item k in everything: trying both would be twice the same. */
static int seen_before(const art_pack_problem *p, const uint32_t *items, uint32_t k) {
    uint32_t i = items[k];
    for (uint32_t e = k; e > 0 && p->start[items[e - 1]] == p->start[i]; e--) {
        uint32_t j = items[e - 1];
        if (p->stop[j] == p->stop[i] && p->size[j] == p->size[i]) {
            return 1;
        }
    }
    return 0;
}

/* Write the buffers that may come next, by offset and rank.
 *
 * Of all packings within the capacity the one with the smallest sum of offsets is looked for. In
 * it, nothing lies above a place where another buffer fits entirely, and nothing floats. */
static uint32_t candidates(const search *s, const group *g, uint32_t *out) {
    const art_pack_problem *p = s->problem;
    int64_t ceiling = INT64_MAX;
    for (uint32_t k = 0; k < g->n_items; k++) {
        int64_t top = s->release[g->items[k]] + p->size[g->items[k]];
        ceiling = top < ceiling ? top : ceiling;
    }
    uint32_t count = 0;
    for (uint32_t k = 0; k < g->n_items; k++) {
        uint32_t i = g->items[k];
        int64_t at = s->release[i];
        if (at < g->low || at >= ceiling || (at == g->low && p->rank[i] < g->low_rank) ||
            seen_before(p, g->items, k)) {
            continue;
        }
        uint32_t place_in = count++;
        for (; place_in > 0; place_in--) {
            uint32_t before = out[place_in - 1];
            if (s->release[before] < at ||
                (s->release[before] == at && p->rank[before] < p->rank[i])) {
                break;
            }
            out[place_in] = before;
        }
        out[place_in] = i;
    }
    return count;
}

/* Try every buffer that may come next in one group of items. */
static int branch(search *s, const group *g, uint32_t *lists) {
    const art_pack_problem *p = s->problem;
    uint32_t *rest = lists + g->n_items;
    uint32_t count = candidates(s, g, lists);
    uint32_t first = p->start[g->items[0]], last = 0;
    for (uint32_t k = 0; k < g->n_items; k++) {
        uint32_t stop = p->stop[g->items[k]];
        last = stop > last ? stop : last;
    }
    for (uint32_t c = 0; c < count; c++) {
        if (s->nodes >= p->node_limit) {
            return ART_PACK_LIMIT;
        }
        s->nodes++;
        uint32_t chosen = lists[c];
        size_t kept = s->n_changes;
        int64_t at = s->release[chosen];
        int outcome = ART_PACK_INFEASIBLE;
        if (place(s, chosen, first, last)) {
            uint32_t left = 0;
            for (uint32_t k = 0; k < g->n_items; k++) {
                if (g->items[k] != chosen) {
                    rest[left++] = g->items[k];
                }
            }
            group after = {rest, left, at, p->rank[chosen]};
            outcome = solve(s, &after, rest + left);
        }
        if (outcome != ART_PACK_INFEASIBLE) {
            return outcome;
        }
        take_back(s, chosen);
        undo_changes(s, kept);
    }
    return ART_PACK_INFEASIBLE;
}

/* Number of leading items that hang together by common sections. */
static uint32_t leading_group(const art_pack_problem *p, const uint32_t *items, uint32_t n_items) {
    uint32_t reach = p->stop[items[0]], count = 1;
    while (count < n_items && p->start[items[count]] < reach) {
        uint32_t stop = p->stop[items[count++]];
        reach = stop > reach ? stop : reach;
    }
    return count;
}

/* Place the groups of `length` items. `longer` becomes the next length that there is, or stays 0.
 */
static int solve_groups(search *s, const group *whole, uint32_t length, uint32_t *longer,
                        uint32_t *lists) {
    int outcome = ART_PACK_FOUND;
    uint32_t count;
    for (uint32_t k = 0; k < whole->n_items && outcome == ART_PACK_FOUND; k += count) {
        const uint32_t *items = whole->items + k;
        count = leading_group(s->problem, items, whole->n_items - k);
        if (count == length) {
            group part = {items, count, whole->low, whole->low_rank};
            outcome = branch(s, &part, lists);
        } else if (count > length && (*longer == 0 || count < *longer)) {
            *longer = count;
        }
    }
    return outcome;
}

/* Place all items, group by group, smaller groups first; on failure everything is as before. */
static int solve(search *s, const group *whole, uint32_t *lists) {
    if (whole->n_items == 0) {
        return ART_PACK_FOUND;
    }
    if (leading_group(s->problem, whole->items, whole->n_items) == whole->n_items) {
        return branch(s, whole, lists);
    }
    size_t kept = s->n_changes;
    int outcome = ART_PACK_FOUND;
    uint32_t longer = 0;
    do {
        uint32_t length = longer;
        longer = 0;
        outcome = solve_groups(s, whole, length, &longer, lists);
    } while (outcome == ART_PACK_FOUND && longer > 0);
    if (outcome == ART_PACK_INFEASIBLE) {
        for (uint32_t k = 0; k < whole->n_items; k++) {
            take_back(s, whole->items[k]);
        }
        undo_changes(s, kept);
    }
    return outcome;
}

art_pack_outcome art_pack_search(const art_pack_problem *problem, void *workspace, int64_t *offset,
                                 uint64_t *nodes) {
    search s = {.problem = problem, .offset = offset};
    uint32_t *items;
    lay_out(&s, workspace, &items);
    fill(&s, items);
    group all = {items, problem->n_buffers, 0, 0};
    int outcome = sections_fit(&s, 0, problem->n_sections, 0) ? solve(&s, &all, s.lists)
                                                              : ART_PACK_INFEASIBLE;
    *nodes = s.nodes;
    return (art_pack_outcome)outcome;
}
