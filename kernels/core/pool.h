/* A persistent pool of worker threads on caller-provided stacks.
 *
 * Work is a fixed number of tiles; a tile's result never depends on which thread runs it or on
 * how many threads there are. Tiles are claimed from an atomic counter. Waiting threads spin a
 * few microseconds, then block in a futex. Nothing is allocated: storage and stacks belong to
 * the caller. */
#ifndef ART_CORE_POOL_H
#define ART_CORE_POOL_H

#include <stddef.h>

#include "armtrain.h"
#include "art_limits.h"

/* Regions below this many scalar operations (some 50 us of plain code on a 2 GHz core) cost more
 * to share than to do. */
#define ART_SMALL_COST 1.0e5

/* Run tile `tile` of the region; `thread` is in [0, threads) and names the private scratch. */
typedef void (*art_tile_fn)(void *context, unsigned tile, unsigned thread);

typedef struct art_pool art_pool;

/* Bytes of an art_pool (the caller provides them, 64-byte aligned). */
size_t art_pool_bytes(void);

/* Start threads - 1 workers; stacks holds (threads - 1) * ART_STACK_BYTES bytes.
 * A pool of one thread starts none and accepts stacks == NULL. */
art_status art_pool_start(art_pool *pool, unsigned threads, void *stacks, art_error *err);

/* Stop and join all workers. Safe on a pool that failed to start. */
void art_pool_stop(art_pool *pool);

/* Threads of the pool, >= 1. */
unsigned art_pool_threads(const art_pool *pool);

/* Run fn on every tile of [0, tiles) and return when all are done. `cost` is a rough count of
 * scalar operations of the whole region: small regions run on the calling thread alone (always
 * the same result). */
void art_pool_run(art_pool *pool, unsigned tiles, double cost, art_tile_fn fn, void *context);

#endif
