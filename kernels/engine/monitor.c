#include "engine/monitor.h"

#include <math.h>
#include <stddef.h>

#include "art_limits.h"

/* Options of the schedule 'plateau', in its order. */
enum { FACTOR, PATIENCE, THRESHOLD, COOLDOWN, MIN_FACTOR };

art_monitor art_monitor_fresh(void) {
    return (art_monitor){.plateau_scale = 1.0};
}

/* As torch's threshold_mode 'rel': better by that share of the best value. */
static bool is_better(uint32_t quantity, double value, double best, double threshold) {
    return quantity == ART_MONITOR_VAL_ACCURACY ? value > best * (1.0 + threshold)
                                                : value < best * (1.0 - threshold);
}

static void watch_plateau(art_monitor *m, uint32_t quantity, double value,
                          const art_schedule *plateau) {
    const double *option = plateau->values;
    bool first = m->plateau_quantity != quantity;
    m->plateau_bad++;
    if (first || is_better(quantity, value, m->plateau_best, option[THRESHOLD])) {
        m->plateau_quantity = quantity;
        m->plateau_best = value;
        m->plateau_bad = 0;
    }
    if (m->plateau_cooldown > 0) {
        m->plateau_cooldown--;
        m->plateau_bad = 0;
    }
    if (m->plateau_bad > (uint32_t)option[PATIENCE]) {
        double reduced = fmax(m->plateau_scale * option[FACTOR], option[MIN_FACTOR]);
        m->plateau_scale = fmin(reduced, m->plateau_scale);
        m->plateau_cooldown = (uint32_t)option[COOLDOWN];
        m->plateau_bad = 0;
    }
}

bool art_monitor_epoch(art_monitor *m, uint32_t quantity, double value, uint64_t epoch,
                       const art_schedule *plateau) {
    if (m->epoch + 1 != epoch) {
        m->quantity = m->plateau_quantity = ART_MONITOR_NOTHING;
    }
    bool better = m->quantity != quantity || is_better(quantity, value, m->best, 0.0);
    m->epoch = epoch;
    if (better) {
        m->quantity = quantity;
        m->best = value;
        m->best_epoch = epoch;
    }
    if (plateau == NULL) {
        m->plateau_quantity = ART_MONITOR_NOTHING;
        m->plateau_bad = m->plateau_cooldown = 0;
    } else {
        watch_plateau(m, quantity, value, plateau);
    }
    return better;
}

bool art_monitor_exhausted(const art_monitor *m, uint32_t quantity, uint64_t epoch,
                           uint64_t patience) {
    return patience > 0 && m->quantity == quantity && m->epoch == epoch &&
           epoch - m->best_epoch >= patience;
}

const char *art_monitor_senseless(const art_monitor *m, uint64_t epoch) {
    const struct rule {
        const char *field;
        bool holds;
    } rules[] = {
        {"quantity", m->quantity <= ART_MONITOR_VAL_ACCURACY},
        {"epoch", m->epoch <= epoch},
        {"best_epoch", m->best_epoch <= m->epoch},
        {"best", isfinite(m->best)},
        {"plateau_quantity", m->plateau_quantity <= ART_MONITOR_VAL_ACCURACY},
        {"plateau_bad", m->plateau_bad <= ART_MAX_EPOCHS},
        {"plateau_cooldown", m->plateau_cooldown <= ART_MAX_EPOCHS},
        {"plateau_best", isfinite(m->plateau_best)},
        {"plateau_scale", m->plateau_scale >= 0.0 && m->plateau_scale <= 1.0},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (!rules[i].holds) {
            return rules[i].field;
        }
    }
    return NULL;
}
