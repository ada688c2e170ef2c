/* Learning-rate schedules: the factor of the plan's learning rates as a function of time alone, so
 * that nothing of them has to be kept for a resumed run; but for the plateau's, which follows what
 * was measured (engine/monitor.h). Both front ends call this one code.
 *
 * Time is the number of complete epochs, or of optimiser steps. Words, options and formulas are
 * those of torch.optim.lr_scheduler, divided by the learning rate. */
#ifndef ART_ENGINE_SCHEDULE_H
#define ART_ENGINE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ART_SCHEDULE_VALUES = 5,      /* most options with one number */
    ART_SCHEDULE_MILESTONES = 16, /* most milestones */
};

struct art_schedule;

typedef struct art_schedule_option {
    const char *name; /* NULL ends the list */
    double low, high;
    double preset; /* NaN: the option must be given */
    bool whole;
} art_schedule_option;

typedef struct art_schedule_kind {
    const char *word;
    double (*scale)(const struct art_schedule *schedule, uint64_t time); /* NULL: the plateau */
    bool milestones;                                                     /* has a list of times */
    bool per_step; /* counts steps unless told otherwise */
    art_schedule_option options[ART_SCHEDULE_VALUES + 1];
} art_schedule_kind;

typedef struct art_schedule {
    const art_schedule_kind *kind;
    bool per_step;
    double values[ART_SCHEDULE_VALUES]; /* in the order of the options */
    uint64_t milestones[ART_SCHEDULE_MILESTONES];
    unsigned n_milestones;
} art_schedule;

/* The kinds by number, NULL behind the last. */
const art_schedule_kind *art_schedule_kind_at(unsigned index);
/* The kind called `word`, or NULL. */
const art_schedule_kind *art_schedule_find(const char *word);

/* Does it follow measured values? */
static inline bool art_schedule_is_plateau(const art_schedule *schedule) {
    return schedule->kind->scale == NULL;
}

/* The factor of the step after `epoch` complete epochs and `step` steps; `plateau` is the
 * plateau's. */
double art_schedule_scale(const art_schedule *schedule, uint64_t epoch, uint64_t step,
                          double plateau);

#endif
