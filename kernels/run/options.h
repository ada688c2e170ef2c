/* The command line of armtrain-run. */
#ifndef ART_RUN_OPTIONS_H
#define ART_RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    RUN_EXIT_OK = 0,
    RUN_EXIT_FAILED = 1,
    RUN_EXIT_USAGE = 2,
    RUN_EXIT_DOES_NOT_FIT = 3,
    RUN_EXIT_STORAGE = 4,
};

typedef struct run_options {
    const char *plan;
    const char *data;
    const char *validation; /* this and the following: NULL when not given */
    const char *checkpoint;
    const char *weights;
    const char *save;
    const char *log;
    const char *schedule;
    const char *augment;
    const char *monitor;
    const char *keep_best;
    uint64_t epochs;
    uint64_t checkpoint_every; /* steps, 0: only at the end of an epoch */
    uint64_t early_stopping;   /* epochs, 0: never */
    uint64_t seed;
    uint64_t threads;
    bool resume;
    bool no_preflight;
    bool json;
    bool quiet;
    bool help;
    bool version;
} run_options;

/* False for a wrong command line: `why` then says what is wrong. */
bool run_parse_options(int argc, char **argv, run_options *options, char *why, unsigned why_bytes);

/* Whole decimal number without a sign; false when it is none or larger than `most`. */
bool run_parse_number(const char *text, uint64_t most, uint64_t *value);

extern const char run_usage[];

#endif
