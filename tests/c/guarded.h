/* Arrays that end at an unreadable page, so that a read or write past the end is a crash. */
#ifndef ART_TESTS_GUARDED_H
#define ART_TESTS_GUARDED_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct guarded {
    void *map;
    size_t map_bytes;
    float *data; /* ends at the protected page */
} guarded;

static inline guarded guarded_new(size_t floats) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = floats * sizeof(float);
    size_t body = (bytes + page - 1) / page * page;
    guarded g = {.map_bytes = body + page};
    g.map = mmap(NULL, g.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.map == MAP_FAILED || mprotect((char *)g.map + body, page, PROT_NONE) != 0) {
        abort();
    }
    g.data = (float *)((char *)g.map + body - bytes);
    return g;
}

static inline void guarded_free(guarded *g) {
    munmap(g->map, g->map_bytes);
}

/* Reproducible values in [-1, 1). */
static inline void fill_random(float *out, size_t count, uint32_t seed) {
    uint32_t state = seed * 2654435761u + 12345u;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        out[i] = (float)(state >> 8) * (2.0f / 16777216.0f) - 1.0f;
    }
}

static inline void fill_nan(float *out, size_t count) {
    for (size_t i = 0; i < count; i++) {
        out[i] = NAN;
    }
}

#endif
