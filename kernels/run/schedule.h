/* --schedule: what the text says. */
#ifndef ART_RUN_SCHEDULE_H
#define ART_RUN_SCHEDULE_H

#include "engine/schedule.h"

enum { RUN_SCHEDULES = 4 };

/* Schedules whose factors are multiplied, none: `n` is 0. */
typedef struct run_schedule {
    art_schedule parts[RUN_SCHEDULES];
    unsigned n;
} run_schedule;

/* NAME[:OPTION=VALUE,...][+NAME...]; false with the reason for anything else. NULL is none. */
bool run_parse_schedule(const char *text, run_schedule *schedule, char *why, unsigned why_bytes);

/* The product of the factors; `plateau` is the one that follows measured values. */
double run_schedule_scale(const run_schedule *schedule, uint64_t epoch, uint64_t step,
                          double plateau);

/* The schedule that follows measured values, NULL: none does. */
const art_schedule *run_schedule_plateau(const run_schedule *schedule);

#endif
