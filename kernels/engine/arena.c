/* The one mapping that holds everything a plan needs, taken whole before the first step. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/memory.h"
#include "engine/engine.h"

/* Words of memory that holds no value: a quiet NaN in every float32, a NaN in every float64. */
#define POISON 0x7fc00000u

/* Refuse what would end the process later: the kernel kills for a page that it cannot give. */
static art_status check_memory(const art_engine *engine, uint64_t beside, art_error *err) {
    const art_plan_header *header = engine->plan.header;
    const char *limit;
    uint64_t arena = header->arena_bytes, available = art_memory_available(&limit);
    uint64_t kernel = art_memory_kernel_bytes(arena, header->threads - 1), rest;
    bool fits = !__builtin_add_overflow(kernel, beside, &rest) && arena <= available &&
                rest <= available - arena;
    ART_FAIL_IF(!fits, err, ART_MEMORY_LIMIT,
                "the plan's arena needs %llu bytes, the kernel %llu for its pages and threads, the "
                "program %llu for batches and its work, but %s leaves %llu: plan with a smaller "
                "batch, a budget below that, or raise the limit",
                (unsigned long long)arena, (unsigned long long)kernel, (unsigned long long)beside,
                limit, (unsigned long long)available);
    return ART_OK;
}

art_status art_arena_open(art_engine *engine, const art_options *options, art_error *err) {
    size_t bytes = (size_t)engine->plan.header->arena_bytes;
    if (options->ignore_memory == 0) {
        ART_TRY(check_memory(engine, options->beside_bytes, err));
    }
    void *arena = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ART_FAIL_IF(arena == MAP_FAILED, err, ART_MEMORY_MAP,
                "the arena of %zu bytes could not be mapped (%s): plan with a smaller batch or a "
                "budget",
                bytes, strerror(errno));
    engine->arena = arena;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t at = 0; at < bytes; at += page) {
        *(volatile unsigned char *)(engine->arena + at) = 0;
    }
    return ART_OK;
}

void art_arena_close(art_engine *engine) {
    if (engine->arena != NULL) {
        munmap(engine->arena, (size_t)engine->plan.header->arena_bytes);
        engine->arena = NULL;
    }
}

uint64_t art_engine_resident_bytes(const art_engine *engine) {
    enum { PAGES = 256 };
    unsigned char in_memory[PAGES];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = 0;
    size_t total = ((size_t)engine->plan.header->arena_bytes + page - 1) / page;
    for (size_t first = 0; first < total; first += PAGES) {
        size_t n = total - first < PAGES ? total - first : PAGES;
        if (mincore(engine->arena + first * page, n * page, in_memory) != 0) {
            return 0;
        }
        for (size_t i = 0; i < n; i++) {
            pages += in_memory[i] & 1u;
        }
    }
    return (uint64_t)pages * page;
}

/* Fill bytes [from, to) of the arena; a word's bytes fall into place at any `from`. */
static void fill(unsigned char *arena, uint64_t from, uint64_t to) {
    const uint32_t word = POISON;
    for (; from < to && from % sizeof word != 0; from++) {
        arena[from] = (unsigned char)(word >> from % sizeof word * 8);
    }
    for (; from + sizeof word <= to; from += sizeof word) {
        memcpy(arena + from, &word, sizeof word);
    }
    for (; from < to; from++) {
        arena[from] = (unsigned char)(word >> from % sizeof word * 8);
    }
}

/* Does a storage hold something that must survive until `step` runs? Not so what this step is the
 * first to write, and scratch never. */
static bool holds_value(const art_engine *engine, const art_storage *s, uint32_t step) {
    if (s->kept) {
        return true;
    }
    return step >= s->first && step < s->last && (step > s->first || s->batch) &&
           engine->plan.tensors[s->tensor].role != ART_ROLE_WORKSPACE;
}

void art_arena_poison(art_engine *engine, uint32_t step) {
    uint64_t cursor = 0;
    for (uint32_t i = 0; i < engine->storages.n; i++) {
        const art_storage *s = &engine->storages.storage[(uint32_t)engine->storages.order[i]];
        if (holds_value(engine, s, step)) {
            fill(engine->arena, cursor, s->offset);
            cursor = s->offset + s->bytes;
        }
    }
    fill(engine->arena, cursor, engine->plan.header->arena_bytes);
}
