/* Where samples come from: `idx:`, `npz:` and `random:` data behind one interface. */
#ifndef ART_RUN_SOURCE_H
#define ART_RUN_SOURCE_H

#include "augment.h"
#include "column.h"
#include "engine/engine.h"

typedef enum run_kind { RUN_IDX, RUN_NPZ, RUN_RANDOM } run_kind;

/* A SPEC taken apart; the strings are in `text`. */
typedef struct run_spec {
    run_kind kind;
    char text[ART_PATH_MAX];
    const char *first;  /* IMAGES or FILE */
    const char *second; /* LABELS */
    uint64_t samples;   /* of random data, 0: four batches */
    uint64_t seed;
} run_spec;

typedef struct run_source {
    run_spec spec;
    run_column x, y; /* not of random data */
    run_about about; /* of npz data */
    uint64_t count;  /* samples */
    float *sample;   /* one sample of random data */
    run_augment augment;
} run_source;

/* False for a SPEC that armtrain-run does not know; `why` says what is possible. */
bool run_parse_spec(const char *text, run_spec *spec, char *why, size_t why_bytes);

/* Open the data of source->spec and refuse what does not suit the plan; reads all labels once. */
art_status run_source_open(run_source *source, const art_engine *engine, art_error *err);
/* The text for the weights' metadata, NULL where the data have none. It is read anew each time. */
art_status run_source_about(const run_source *source, const char **text, art_error *err);
/* Refuse a validation that was converted with other class names or another preparation. */
art_status run_check_alike(const run_source *train, const run_source *validation, art_error *err);
/* Per element of an input the rows of the table whose index it is, 0 for none; NULL: no tables. */
const uint32_t *run_index_limits(const art_engine *engine);

void run_source_close(run_source *source);

/* Put sample `row` into place `slot` of a phase's batch: inputs and float targets go to the
 * arena, labels to labels[slot]. */
art_status run_source_put(const run_source *source, art_engine *engine, unsigned phase,
                          uint64_t row, uint32_t slot, int32_t *labels, art_error *err);

#endif
