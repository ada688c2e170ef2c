/* --monitor, --early-stopping, --keep-best and the schedule that follows measured values. The
 * Python package does the same in armtrain/runtime/watch.py. */
#ifndef ART_RUN_WATCH_H
#define ART_RUN_WATCH_H

#include "loop.h"

/* What is watched, ART_MONITOR_NOTHING if nothing asks for it; false with the reason for options
 * that contradict each other. */
bool run_watch_options(const run_options *options, const run_schedule *schedule, uint32_t *quantity,
                       char *why, unsigned why_bytes);

/* After a resume, before the first step. */
art_status run_watch_begin(run_loop *loop, art_error *err);

/* The record of the epoch is complete, and the epoch is counted. */
art_status run_watch_epoch(run_loop *loop, art_error *err);

/* Does early stopping end the run here? */
bool run_watch_exhausted(const run_loop *loop);

/* The epoch of the best value, 0: none was measured. */
uint64_t run_watch_best_epoch(const run_loop *loop);

/* Tell how it went. */
void run_watch_tell(const run_loop *loop);

#endif
