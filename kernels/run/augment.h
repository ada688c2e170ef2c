/* --augment: what the text says, and the sample that is changed. */
#ifndef ART_RUN_AUGMENT_H
#define ART_RUN_AUGMENT_H

#include "engine/augment.h"
#include "engine/engine.h"

typedef struct run_augment {
    art_augment what;
    bool given;
    uint32_t chw[3];
    uint64_t seed, epoch; /* of the batches to come */
    float *plain;         /* one sample as it is, and as it becomes */
    float *changed;
} run_augment;

/* flip,shift=N,crop=N,noise=S, each at most once; false with the reason for anything else. NULL is
 * none. */
bool run_parse_augment(const char *text, run_augment *augment, char *why, unsigned why_bytes);

/* Check it against the plan, tell the engine, and take memory for a sample. */
art_status run_augment_open(run_augment *augment, art_engine *engine, uint64_t seed,
                            art_error *err);

#endif
