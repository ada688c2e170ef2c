#include "ops/targets.h"

#include <math.h>

#include "ops/check.h"

/* float32 holds the exponentials of numbers up to the last high. */
const art_target_range art_target_ranges[] = {
    [ART_TARGETS_BINARY] = {0.0, 1.0, 0.0, NAN, 0,
                            "binary cross-entropy needs targets from 0 to 1: divide larger ones by "
                            "their largest value, make (y + 1) / 2 of -1 and 1"},
    [ART_TARGETS_CLASSES] = {0.0, 1.0, 0.0, NAN, 1,
                             "cross-entropy of probabilities needs targets from 0 to 1: divide the "
                             "numbers of a row by their sum"},
    [ART_TARGETS_PAIRS] = {-1.0, 1.0, 2.0, NAN, 0,
                           "cosine embedding needs 1 for pairs that are alike, else -1: make "
                           "2 * y - 1 of 0 and 1"},
    [ART_TARGETS_PLACES] =
        {0.0, 0.0, 1.0, NAN, 0,
         "cross-entropy of places needs whole numbers from 0, below the number "
         "of classes: subtract 1 from labels that begin with 1, map 255 of a mask "
         "to 1, leave places of one number out with the loss's ignore_index (as "
         "ignore_index=255), or plan more classes"},
    [ART_TARGETS_PROBABILITIES] = {0.0, INFINITY, 0.0, NAN, 0,
                                   "a KL divergence needs probabilities: plan with "
                                   "nn.KLDivLoss(log_target=True) for their logarithms"},
    [ART_TARGETS_LOGARITHMS] = {-INFINITY, 88.5, 0.0, NAN, 0,
                                "a KL divergence with log_target needs logarithms of "
                                "probabilities, which are 0 at most: plan without log_target for "
                                "probabilities"},
};

bool art_target_is_good(const art_target_range *range, float target) {
    double value = (double)target;
    if (range->way == NULL || value == range->ignored) {
        return true;
    }
    bool inside = value >= range->low && value <= range->high;
    if (!inside || range->step == 0.0) {
        return inside;
    }
    double steps = (value - range->low) / range->step;
    return (double)(int64_t)steps == steps;
}

art_status art_check_targets(const art_op_args *args, unsigned slot, unsigned range,
                             art_error *err) {
    const float *t = args->operand[slot].data;
    const size_t count = (size_t)art_count(&args->operand[slot]);
    const size_t row = count / args->operand[slot].dims[0];
    for (size_t i = 0; i < count; i++) {
        ART_FAIL_IF(!art_target_is_good(&art_target_ranges[range], t[i]), err, ART_LABEL,
                    "target %g of sample %zu in this batch, element %zu, is out of range: %s",
                    art_shown(t[i]), i / row, i % row, art_target_ranges[range].way);
    }
    return ART_OK;
}
