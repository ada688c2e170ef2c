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

/* Those of index 2 * pair and 2 * pair + 1, which cost hardly more than one. */
void art_random_normal_pair(uint64_t seed, uint64_t stream, uint64_t pair, float out[2]);

/* Stream of a dropout mask: the layer's stream ^ (step + 1) * 0x9E3779B97F4A7C15 (2^64 / golden
 * ratio, odd, so every step has its own). Element i of the layer's activation in arena order
 * survives where art_random_uniform(seed, this, i) >= p. */
uint64_t art_dropout_stream(uint64_t stream, uint64_t step);

/* FNV-1a 64-bit hash of a name: stable stream ids for tensors and layers. */
uint64_t art_stream_of_name(const char *name);

/* Position `index` of the pseudo-random permutation of [0, count) keyed by (seed, stream):
 * a balanced Feistel network on Philox rounds with cycle walking, no memory. count >= 1. */
uint64_t art_permute(uint64_t seed, uint64_t stream, uint64_t count, uint64_t index);

#endif
