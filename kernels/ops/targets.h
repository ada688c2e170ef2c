/* Which numbers the losses take as targets: one list for the operations, which refuse others batch
 * by batch, and for whoever looks at data before. */
#ifndef ART_OPS_TARGETS_H
#define ART_OPS_TARGETS_H

#include <stdbool.h>

#include "ops/ops.h"

/* Of art_target_ranges; a KL divergence has the last two, in the order of its log_target. */
enum {
    ART_TARGETS_ANY,
    ART_TARGETS_BINARY,
    ART_TARGETS_CLASSES,
    ART_TARGETS_PAIRS,
    ART_TARGETS_PLACES, /* `high` and `ignored` are those of no loss: the last class and the
                         * ignored label take their places */
    ART_TARGETS_PROBABILITIES,
    ART_TARGETS_LOGARITHMS,
};

extern const art_target_range art_target_ranges[];

bool art_target_is_good(const art_target_range *range, float target);

/* While running: ART_LABEL if an element of a float operand is none of a range's. */
art_status art_check_targets(const art_op_args *args, unsigned slot, unsigned range,
                             art_error *err);

#endif
