/* The packer: small problems decided as exhaustive trial decides them and placed greedily, in
 * memory of exactly the size asked for (the sanitizer builds watch its ends). */
#include <stdlib.h>

#include "core/rng.h"
#include "expect.h"
#include "pack/greedy.h"
#include "pack/search.h"

enum { MOST = 6, SECTIONS = 5 };

typedef struct {
    uint32_t start[MOST], stop[MOST], rank[MOST];
    int64_t size[MOST], offset[MOST];
    art_pack_problem problem;
} table;

static uint32_t below(uint64_t seed, uint64_t *place, uint32_t count) {
    return art_random_u32(seed, 0, (*place)++) % count;
}

static void make(table *t, uint64_t seed) {
    uint64_t place = 0;
    uint32_t n = 1 + below(seed, &place, MOST), start = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t most = SECTIONS - 1 - start;
        start += below(seed, &place, 3) == 0 && most > 0;
        t->start[i] = start;
        t->stop[i] = start + 1 + below(seed, &place, SECTIONS - start);
        t->size[i] = 1 + below(seed, &place, 7);
        t->rank[i] = i;
    }
    t->problem = (art_pack_problem){n, SECTIONS, t->start, t->stop, t->size, t->rank, 0, 100000};
}

static int64_t top_below(const table *t, const int *placed, uint32_t i) {
    int64_t top = 0;
    for (uint32_t j = 0; j < t->problem.n_buffers; j++) {
        int together = t->start[i] < t->stop[j] && t->start[j] < t->stop[i];
        int64_t end = t->offset[j] + t->size[j];
        top = placed[j] && together && end > top ? end : top;
    }
    return top;
}

/* Least height over all orders of stacking each buffer on those before it. */
static int64_t least_height(table *t, int *placed, int64_t height) {
    int64_t least = INT64_MAX;
    int any = 0;
    for (uint32_t i = 0; i < t->problem.n_buffers; i++) {
        if (!placed[i]) {
            any = 1;
            t->offset[i] = top_below(t, placed, i);
            int64_t end = t->offset[i] + t->size[i];
            placed[i] = 1;
            int64_t found = least_height(t, placed, end > height ? end : height);
            placed[i] = 0;
            least = found < least ? found : least;
        }
    }
    return any ? least : height;
}

static art_pack_outcome search(table *t, int64_t capacity, uint64_t limit, uint64_t *nodes) {
    t->problem.capacity = capacity;
    t->problem.node_limit = limit;
    void *workspace = malloc(art_pack_workspace_bytes(&t->problem));
    art_pack_outcome outcome = art_pack_search(&t->problem, workspace, t->offset, nodes);
    free(workspace);
    return outcome;
}

static void expect_packing(const table *t, int64_t capacity) {
    for (uint32_t i = 0; i < t->problem.n_buffers; i++) {
        EXPECT(t->offset[i] >= 0 && t->offset[i] + t->size[i] <= capacity);
        for (uint32_t j = 0; j < i; j++) {
            int together = t->start[i] < t->stop[j] && t->start[j] < t->stop[i];
            EXPECT(!together || t->offset[i] >= t->offset[j] + t->size[j] ||
                   t->offset[j] >= t->offset[i] + t->size[i]);
        }
    }
}

static void test_small_problems(void) {
    for (uint64_t seed = 0; seed < 2000; seed++) {
        table t;
        int placed[MOST] = {0};
        uint64_t nodes;
        make(&t, seed);
        int64_t least = least_height(&t, placed, 0);
        EXPECT(search(&t, least, 100000, &nodes) == ART_PACK_FOUND);
        expect_packing(&t, least);
        EXPECT(search(&t, least - 1, 100000, &nodes) == ART_PACK_INFEASIBLE);
    }
}

static void test_limit(void) {
    table t = {.start = {0, 0, 0}, .stop = {1, 1, 1}, .size = {3, 4, 5}, .rank = {0, 1, 2}};
    t.problem = (art_pack_problem){3, 1, t.start, t.stop, t.size, t.rank, 0, 0};
    uint64_t nodes = 9;
    EXPECT(search(&t, 12, 0, &nodes) == ART_PACK_LIMIT && nodes == 0);
    EXPECT(search(&t, 12, 2, &nodes) == ART_PACK_LIMIT && nodes == 2);
    EXPECT(search(&t, 12, 3, &nodes) == ART_PACK_FOUND && nodes == 3);
}

/* Greedy packings in the table's order are packings, and never lower than the least one. */
static void test_greedy_orders(void) {
    for (uint64_t seed = 0; seed < 2000; seed++) {
        table t;
        int placed[MOST] = {0};
        int64_t lower[MOST], upper[MOST];
        make(&t, seed);
        uint32_t n = t.problem.n_buffers;
        for (uint32_t i = 0; i < n; i++) {
            lower[i] = t.start[i];
            upper[i] = t.stop[i];
        }
        int64_t least = least_height(&t, placed, 0), height = 0;
        art_pack_order order = {n, lower, upper, t.size, t.rank, (int)(seed % 2)};
        uint32_t *sorted = malloc(n * sizeof(*sorted));
        art_pack_place(&order, sorted, t.offset);
        free(sorted);
        for (uint32_t i = 0; i < n; i++) {
            int64_t end = t.offset[i] + t.size[i];
            height = end > height ? end : height;
        }
        EXPECT(height >= least);
        expect_packing(&t, height);
    }
}

int main(void) {
    test_greedy_orders();
    test_small_problems();
    test_limit();
    return expect_done("pack");
}
