#include "preflight.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

static const double large_input = 20.0, large_target = 1000.0;
static const double most_uneven = 1e-3;
static const double least_pixel = 128.0, most_pixel = 255.0;
enum { IMBALANCE = 10, LISTED = 8 };

/* What was seen of a column of numbers. */
typedef struct seen {
    double low, high;
    bool same;    /* all rows equal the first one */
    uint64_t bad; /* rows with a value that is not finite, and the first place */
    uint64_t bad_row, bad_element;
    uint64_t uneven, uneven_row; /* rows of shares that do not sum to 1, and the first */
    double uneven_sum;
} seen;

static float chunk[RUN_CHUNK], first_chunk[RUN_CHUNK];

/* Does a piece of a row equal that of row 0? */
static art_status compare(const run_column *c, uint64_t first, size_t n, seen *s, art_error *err) {
    ART_TRY(run_column_floats(c, 0, first, n, first_chunk, err));
    for (size_t i = 0; i < n && s->same; i++) {
        s->same = chunk[i] == first_chunk[i];
    }
    return ART_OK;
}

/* Indices have no size that means anything: `limit` is not 0 where one stands. */
static art_status look_at_row(const run_column *c, const uint32_t *limit, uint64_t row, seen *s,
                              double *sum, art_error *err) {
    uint64_t where = 0;
    *sum = 0.0;
    for (uint64_t done = 0; done < c->row_elements;) {
        uint64_t left = c->row_elements - done;
        size_t n = left < RUN_CHUNK ? (size_t)left : RUN_CHUNK;
        ART_TRY(run_column_floats(c, row, done, n, chunk, err));
        if (!art_floats_are_finite(chunk, n, &where)) {
            if (s->bad++ == 0) {
                s->bad_row = row;
                s->bad_element = done + where;
            }
            return ART_OK;
        }
        for (size_t i = 0; i < n; i++) {
            *sum += (double)chunk[i];
            if (limit != NULL && limit[done + i] != 0) {
                continue;
            }
            s->low = chunk[i] < s->low ? chunk[i] : s->low;
            s->high = chunk[i] > s->high ? chunk[i] : s->high;
        }
        if (s->same && row > 0) {
            ART_TRY(compare(c, done, n, s, err));
        }
        done += n;
    }
    return ART_OK;
}

/* Shares of float16 come closer to 1. */
static void look_at_sum(uint64_t row, double sum, seen *s) {
    if (fabs(sum - 1.0) > most_uneven && s->uneven++ == 0) {
        s->uneven_row = row;
        s->uneven_sum = sum;
    }
}

static art_status look_at(const run_column *c, const uint32_t *limit, seen *s, art_error *err) {
    *s = (seen){.low = INFINITY, .high = -INFINITY, .same = true};
    for (uint64_t row = 0; row < c->count; row++) {
        double sum;
        ART_TRY(look_at_row(c, limit, row, s, &sum, err));
        look_at_sum(row, sum, s);
    }
    ART_FAIL_IF(s->bad > 0, err, ART_NONFINITE,
                "%s: row %llu (counted from 0) is not finite at element %llu; repair or leave out "
                "that sample (%llu in all; nothing was trained)",
                c->name, (unsigned long long)s->bad_row, (unsigned long long)s->bad_element,
                (unsigned long long)s->bad);
    return ART_OK;
}

static void tell_inputs(const run_options *o, const char *role, const seen *s, uint64_t count) {
    if (s->low >= 0.0 && s->high >= least_pixel && s->high <= most_pixel) {
        run_note(o,
                 "warning: %s data: inputs lie in %g..%g, which looks like pixels that were not "
                 "scaled: give them as uint8, which is divided by 255, or divide them yourself",
                 role, s->low, s->high);
    } else if (-s->low > large_input || s->high > large_input) {
        run_note(o,
                 "warning: %s data: inputs lie in %g..%g; networks learn from values of about -1 "
                 "to 1: scale them",
                 role, s->low, s->high);
    }
    if (s->same && count > 1) {
        run_note(o,
                 "warning: %s data: all %llu samples have the same inputs: there is nothing to "
                 "learn from",
                 role, (unsigned long long)count);
    }
}

static void tell_targets(const run_options *o, const char *role, const seen *s, uint64_t count,
                         const art_target_range *range) {
    bool bounded = range->way != NULL && !isinf(range->high);
    if (s->same && count > 1) {
        run_note(o,
                 "warning: %s data: all %llu samples have the same targets: there is nothing to "
                 "learn",
                 role, (unsigned long long)count);
    }
    if (!bounded && (-s->low > large_target || s->high > large_target)) {
        run_note(o,
                 "warning: %s data: targets lie in %g..%g; losses and gradients grow with them: "
                 "scale them, and outputs back",
                 role, s->low, s->high);
    }
    if (range->shares && s->uneven > 0) {
        run_note(o,
                 "warning: %s data: %llu of %llu targets do not sum to 1, the first one, of row "
                 "%llu (counted from 0), but to %g: divide each by its sum, unless they are not "
                 "meant as probabilities of classes",
                 role, (unsigned long long)s->uneven, (unsigned long long)count,
                 (unsigned long long)s->uneven_row, s->uneven_sum);
    }
}

/* Samples of each class, and what follows from them. */
typedef struct census {
    uint64_t *of;
    uint32_t classes; /* the ignored one among them, if it is one */
    uint32_t counted; /* without it */
    uint32_t used, most, least;
} census;

/* Labels that do not count need not be classes. */
static art_status count_labels(const run_column *y, census *c, int32_t ignored, art_error *err) {
    static int64_t labels[RUN_CHUNK];
    for (uint64_t first = 0; first < y->count; first += RUN_CHUNK) {
        size_t n = y->count - first < RUN_CHUNK ? (size_t)(y->count - first) : RUN_CHUNK;
        ART_TRY(run_column_integers(y, first, n, labels, err));
        for (size_t i = 0; i < n; i++) {
            if (labels[i] == ignored) {
                continue;
            }
            ART_FAIL_IF(labels[i] < 0 || labels[i] >= (int64_t)c->classes, err, ART_LABEL,
                        "%s changed while it was read: row %llu has the label %lld", y->name,
                        (unsigned long long)(first + i), (long long)labels[i]);
            c->of[labels[i]]++;
        }
    }
    return ART_OK;
}

/* The first of the largest and of the smallest classes with samples. */
static void find_extremes(census *c, int32_t ignored) {
    for (uint32_t k = 0; k < c->classes; k++) {
        if ((int64_t)k == ignored) {
            continue;
        }
        c->counted++;
        if (c->of[k] == 0) {
            continue;
        }
        if (c->used++ == 0) {
            c->most = c->least = k;
        }
        c->most = c->of[k] > c->of[c->most] ? k : c->most;
        c->least = c->of[k] < c->of[c->least] ? k : c->least;
    }
}

static void tell_empty(const run_options *o, const char *role, const census *c, int32_t ignored) {
    char listed[LISTED * 16] = "";
    size_t used = 0;
    uint32_t empty = 0, lowest = 0;
    for (uint32_t k = 0; k < c->classes; k++) {
        if (c->of[k] > 0 || (int64_t)k == ignored) {
            continue;
        }
        lowest = empty == 0 ? k : lowest;
        if (empty++ < LISTED) {
            used += (size_t)snprintf(listed + used, sizeof listed - used, "%s%u",
                                     used == 0 ? "" : ", ", k);
        }
    }
    if (empty > 0) {
        run_note(o, "warning: %s data: %u of %u classes have no samples: %s%s%s", role, empty,
                 c->counted, listed, empty > LISTED ? ", ..." : "",
                 lowest == 0 ? "; if labels are counted from 1, subtract 1" : "");
    }
}

static void tell_classes(const run_options *o, const char *role, const census *c, uint64_t count,
                         int32_t ignored, bool training) {
    if (c->used == 0) {
        run_note(o,
                 "warning: %s data: all %llu samples have the ignored label %d: there is nothing "
                 "to learn from",
                 role, (unsigned long long)count, ignored);
        return;
    }
    if (c->used == 1 && count > 1) {
        run_note(o, "warning: %s data: all samples are of class %u: a classifier needs two or more",
                 role, c->most);
        return;
    }
    if (!training) {
        return;
    }
    tell_empty(o, role, c, ignored);
    if (c->of[c->most] > IMBALANCE * c->of[c->least]) {
        run_note(o,
                 "warning: %s data: class %u has %llu samples, class %u only %llu: weigh the "
                 "classes in the loss, or collect more",
                 role, c->most, (unsigned long long)c->of[c->most], c->least,
                 (unsigned long long)c->of[c->least]);
    }
}

static art_status look_at_labels(const run_source *s, const run_options *o, const art_info *info,
                                 const char *role, bool training, art_error *err) {
    census c = {.classes = info->n_classes};
    c.of = calloc(info->n_classes, sizeof *c.of);
    ART_FAIL_IF(c.of == NULL, err, ART_MEMORY_MAP, "no memory to count %u classes",
                info->n_classes);
    art_status status = count_labels(&s->y, &c, info->ignored_label, err);
    if (status == ART_OK) {
        find_extremes(&c, info->ignored_label);
        tell_classes(o, role, &c, s->count, info->ignored_label, training);
    }
    free(c.of);
    return status;
}

art_status run_preflight(const run_source *s, const art_engine *engine, const run_options *o,
                         bool training, art_error *err) {
    const char *role = training ? "training" : "validation";
    seen inputs, targets;
    art_info info;
    if (o->no_preflight || s->spec.kind == RUN_RANDOM) {
        return ART_OK;
    }
    art_engine_info(engine, &info);
    ART_TRY(look_at(&s->x, run_index_limits(engine), &inputs, err));
    if (!info.target_is_label) {
        ART_TRY(look_at(&s->y, NULL, &targets, err));
    }
    tell_inputs(o, role, &inputs, s->count);
    if (info.target_is_label) {
        return look_at_labels(s, o, &info, role, training, err);
    }
    tell_targets(o, role, &targets, s->count, &info.targets);
    return ART_OK;
}
