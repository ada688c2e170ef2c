/* Random changes of training inputs: mirrored, moved, cut out and stretched, with noise.
 *
 * What happens to a sample is a function of (seed, epoch, its number) alone, so that nothing of it
 * has to be kept for a resumed run, and both front ends call this one code. The numbers of a sample
 * are words 0 to 6 of blocks 2 * sample and 2 * sample + 1 of art_philox in stream
 * art_stream_of_name("augment") + epoch; its noise is art_random_normal at sample * elements + i in
 * stream art_stream_of_name("augment noise") + epoch. A whole number below n is word * n / 2^32.
 *
 *   word 0: mirrored if odd            1, 2: moved by that - shift to the right and downwards
 *   3, 4: height and width less by that, at most crop      5, 6: the window's top and left place
 */
#ifndef ART_ENGINE_AUGMENT_H
#define ART_ENGINE_AUGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"
#include "engine/engine.h"

enum { ART_AUGMENT_PIXELS = 65535 }; /* most of shift and of crop */

typedef struct art_augment {
    bool flip;      /* left and right change places, every second time */
    uint32_t shift; /* at most so many pixels in each direction; what comes in is 0 */
    uint32_t crop;  /* a window smaller by at most that is stretched back, nearest pixels */
    float noise;    /* standard deviation of what is added to every value */
} art_augment;

/* Refuse what makes no sense for samples of `shape`, which is (C, H, W), (C, L) or (F): the last
 * takes noise alone. Writes channels, height and width. */
art_status art_augment_check(const art_augment *what, const uint32_t *shape, unsigned ndim,
                             uint32_t chw[3], art_error *err);

/* Tell the engine what the run does to training inputs, NULL: nothing. Its checkpoints say so, and
 * a resume from one that says something else is noted. Refuses noise on inputs that are indices. */
art_status art_engine_set_augment(art_engine *engine, const art_augment *what, art_error *err);

/* Write the changed sample; `from` and `to` are (C, H, W), row-major, and do not overlap. */
void art_augment_sample(const art_augment *what, const uint32_t chw[3], uint64_t seed,
                        uint64_t epoch, uint64_t sample, const float *from, float *to);

#endif
