/* The training loop. The Python package's loop (armtrain/runtime/loop.py) does the same: epoch e
 * trains the samples art_shuffle(seed, e, count, 0), art_shuffle(seed, e, count, 1), ... in batches
 * of the planned size, the last one as small as it is; an epoch's loss is the sum over its batches,
 * in order and in double precision, of loss times what counts (art_engine_counted), divided by the
 * sum of that. */
#ifndef ART_RUN_LOOP_H
#define ART_RUN_LOOP_H

#include "options.h"
#include "report.h"
#include "schedule.h"
#include "source.h"

typedef struct run_loop {
    const run_options *options;
    art_engine *engine;
    art_info info;
    run_source train;
    run_source validation; /* used with --validation */
    run_schedule schedule;
    uint32_t quantity; /* ART_MONITOR_*: what is watched */
    int32_t *labels;   /* of one batch */
    art_run_state state;
    double seconds;    /* training time of this epoch and process */
    uint64_t trained;  /* samples in it */
    uint64_t epochs;   /* completed by this process */
    run_record record; /* of the last of them */
    bool skipped;      /* a batch without samples that count was told */
    int log;
    int lock;    /* the checkpoint directory, open and locked; -1: none */
    int stopped; /* the signal that ended the run, 0: none */
} run_loop;

/* Let the first SIGINT, SIGTERM or SIGHUP only raise a flag; a second one takes its normal course.
 * One that was ignored when the process started stays ignored. */
void run_catch_signals(void);

/* Train until --epochs are complete or a signal asks to stop. Everything is open and checked. */
art_status run_train(run_loop *loop, art_error *err);

#endif
