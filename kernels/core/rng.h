/* Counter-based random numbers: a value is a pure function of (seed, stream, counter).
 * Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
 * Everything random in armtrain comes from here; Python calls these too. */
#ifndef ART_CORE_RNG_H
#define ART_CORE_RNG_H

#include <stdint.h>

/* Four 32-bit words of block `block` of stream `stream`: key = seed, counter = (block, stream). */
void art_philox(uint64_t seed, uint64_t stream, uint64_t block, uint32_t out[4]);

/* One 32-bit word: word `index` & 3 of block `index` >> 2. */
uint32_t art_random_u32(uint64_t seed, uint64_t stream, uint64_t index);

/* Uniform in [0, 1) with 24 bits: (u32 >> 8) * 2^-24, exact in float. */
float art_random_uniform(uint64_t seed, uint64_t stream, uint64_t index);

/* Standard normal by Box-Muller in double with our own log, sqrt, sin and cos. */
float art_random_normal(uint64_t seed, uint64_t stream, uint64_t index);

/* FNV-1a 64-bit hash of a name: stable stream ids for tensors and layers. */
uint64_t art_stream_of_name(const char *name);

/* Position `index` of the pseudo-random permutation of [0, count) keyed by (seed, stream):
 * a balanced Feistel network on Philox rounds with cycle walking, no memory. count >= 1. */
uint64_t art_permute(uint64_t seed, uint64_t stream, uint64_t count, uint64_t index);

#endif
