/* What a run remembers of the measured quantity of its epochs: the best value, for early stopping
 * and for keeping the best weights, and where ReduceLROnPlateau stands. Both front ends call this
 * one code; art_monitor is part of checkpoints. */
#ifndef ART_ENGINE_MONITOR_H
#define ART_ENGINE_MONITOR_H

#include <stdbool.h>

#include "armtrain.h"
#include "engine/schedule.h"

/* art_monitor.quantity. Less is better but for the accuracy. */
enum {
    ART_MONITOR_NOTHING = 0,
    ART_MONITOR_TRAIN_LOSS = 1,
    ART_MONITOR_VAL_LOSS = 2,
    ART_MONITOR_VAL_ACCURACY = 3,
};

/* Of a new run. */
art_monitor art_monitor_fresh(void);

/* Take the value of the epoch that is complete now, the `epoch`-th. `plateau`: the schedule of that
 * kind, or NULL. A change of the quantity, and epochs that were not measured, start the comparison
 * anew. True: no value before was as good. */
bool art_monitor_epoch(art_monitor *monitor, uint32_t quantity, double value, uint64_t epoch,
                       const art_schedule *plateau);

/* Has no value been as good as the best for `patience` epochs? 0: never. */
bool art_monitor_exhausted(const art_monitor *monitor, uint32_t quantity, uint64_t epoch,
                           uint64_t patience);

/* The first field of a stored monitor that no run could have; NULL: none. */
const char *art_monitor_senseless(const art_monitor *monitor, uint64_t epoch);

#endif
