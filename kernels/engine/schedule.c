#include "engine/schedule.h"

#include <math.h>
#include <string.h>

#include "art_limits.h"
#include "core/math.h"

static const double pi = 3.14159265358979323846;

static double share_of(uint64_t time, double total) {
    return fmin((double)time, total) / total;
}

/* From `first` at 0 to `last` at 1 along half a cosine. */
static double anneal(double first, double last, double share) {
    return last + (first - last) * 0.5 * (1.0 + art_cos(pi * share));
}

static double constant(const art_schedule *s, uint64_t time) {
    return (double)time < s->values[1] ? s->values[0] : 1.0;
}

static double linear(const art_schedule *s, uint64_t time) {
    return s->values[0] + (s->values[1] - s->values[0]) * share_of(time, s->values[2]);
}

static double stairs(const art_schedule *s, uint64_t time) {
    return art_pow_u64(s->values[1], time / (uint64_t)s->values[0]);
}

static double multi_stairs(const art_schedule *s, uint64_t time) {
    uint64_t passed = 0;
    for (unsigned i = 0; i < s->n_milestones; i++) {
        passed += time >= s->milestones[i];
    }
    return art_pow_u64(s->values[0], passed);
}

static double exponential(const art_schedule *s, uint64_t time) {
    return art_pow_u64(s->values[0], time);
}

static double polynomial(const art_schedule *s, uint64_t time) {
    return art_pow_u64(1.0 - share_of(time, s->values[0]), (uint64_t)s->values[1]);
}

/* Down for T_max, up for T_max, and again. */
static double cosine(const art_schedule *s, uint64_t time) {
    uint64_t half = (uint64_t)s->values[0];
    return anneal(1.0, s->values[1], (double)(time % (2 * half)) / (double)half);
}

static double one_cycle(const art_schedule *s, uint64_t time) {
    double total = s->values[0], top = s->values[1] * total - 1.0, at = (double)time;
    double first = 1.0 / s->values[2], last = first / s->values[3];
    if (at < top) {
        return anneal(first, 1.0, at / top);
    }
    return anneal(1.0, last, fmin(1.0, (at - top) / (total - 1.0 - top)));
}

#define TIMES                                                                                      \
    { "total_iters", 1, ART_MAX_EPOCHS, 5, true }
#define GAMMA(preset)                                                                              \
    { "gamma", 0, 1, preset, false }
#define NEEDED(name)                                                                               \
    { name, 1, ART_MAX_EPOCHS, NAN, true }

static const art_schedule_kind kinds[] = {
    {"constant", constant, false, false, {{"factor", 0, 1, 1.0 / 3.0, false}, TIMES}},
    {"linear",
     linear,
     false,
     false,
     {{"start_factor", 0, 1, 1.0 / 3.0, false}, {"end_factor", 0, 1, 1, false}, TIMES}},
    {"step", stairs, false, false, {NEEDED("step_size"), GAMMA(0.1)}},
    {"multistep", multi_stairs, true, false, {GAMMA(0.1)}},
    {"exponential", exponential, false, false, {GAMMA(NAN)}},
    {"polynomial", polynomial, false, false, {TIMES, {"power", 1, 1000, 1, true}}},
    {"cosine", cosine, false, false, {NEEDED("T_max"), {"eta_min_factor", 0, 1, 0, false}}},
    {"one_cycle",
     one_cycle,
     false,
     true,
     {{"total_steps", 2, ART_MAX_EPOCHS, NAN, true},
      {"pct_start", 0, 1 - 0x1p-20, 0.3, false},
      {"div_factor", 1, 1e9, 25, false},
      {"final_div_factor", 1, 1e9, 1e4, false}}},
    {"plateau",
     NULL,
     false,
     false,
     {{"factor", 0, 1 - 0x1p-20, 0.1, false},
      {"patience", 0, ART_MAX_EPOCHS - 1, 10, true},
      {"threshold", 0, 1, 1e-4, false},
      {"cooldown", 0, ART_MAX_EPOCHS, 0, true},
      {"min_factor", 0, 1, 0, false}}},
};

const art_schedule_kind *art_schedule_kind_at(unsigned index) {
    return index < sizeof kinds / sizeof kinds[0] ? &kinds[index] : NULL;
}

const art_schedule_kind *art_schedule_find(const char *word) {
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].word, word) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

double art_schedule_scale(const art_schedule *schedule, uint64_t epoch, uint64_t step,
                          double plateau) {
    return art_schedule_is_plateau(schedule)
               ? plateau
               : schedule->kind->scale(schedule, schedule->per_step ? step : epoch);
}
