#include "schedule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "art_limits.h"
#include "options.h"

enum { TEXT_BYTES = 512 };

/* A decimal number: the signs that strtod would also take (hexadecimal, nan, inf) are none. */
static bool parse_real(const char *text, double *value) {
    char *end;
    if (*text == '\0' || text[strspn(text, "0123456789.e-")] != '\0') {
        return false;
    }
    *value = strtod(text, &end);
    return *end == '\0' && isfinite(*value);
}

static bool parse_milestones(char *text, art_schedule *s) {
    char *rest = NULL;
    s->n_milestones = 0;
    for (char *word = strtok_r(text, "/", &rest); word != NULL; word = strtok_r(NULL, "/", &rest)) {
        if (s->n_milestones == ART_SCHEDULE_MILESTONES ||
            !run_parse_number(word, ART_MAX_EPOCHS, &s->milestones[s->n_milestones]) ||
            s->milestones[s->n_milestones] == 0) {
            return false;
        }
        s->n_milestones++;
    }
    return s->n_milestones > 0;
}

/* One of the options with a number. */
static bool parse_value(const char *name, const char *text, art_schedule *s, char *why,
                        unsigned why_bytes) {
    const art_schedule_option *options = s->kind->options;
    for (unsigned i = 0; options[i].name != NULL; i++) {
        const art_schedule_option *o = &options[i];
        if (strcmp(o->name, name) != 0) {
            continue;
        }
        double value;
        if (!parse_real(text, &value) || value < o->low || value > o->high ||
            (o->whole && value != floor(value))) {
            snprintf(why, why_bytes, "%s's %s needs a %snumber from %g to %.10g, got '%s'",
                     s->kind->word, name, o->whole ? "whole " : "", o->low, o->high, text);
            return false;
        }
        s->values[i] = value;
        return true;
    }
    snprintf(why, why_bytes, "'%s' is not an option of %s", name, s->kind->word);
    return false;
}

static bool parse_option(char *item, art_schedule *s, char *why, unsigned why_bytes) {
    char *value = strchr(item, '=');
    if (value == NULL) {
        snprintf(why, why_bytes, "'%s' is no OPTION=VALUE", item);
        return false;
    }
    *value++ = '\0';
    if (strcmp(item, "interval") == 0) {
        bool plateau = art_schedule_is_plateau(s);
        s->per_step = strcmp(value, "step") == 0 && !plateau;
        snprintf(why, why_bytes, "interval needs epoch%s, got '%s'", plateau ? "" : " or step",
                 value);
        return s->per_step || strcmp(value, "epoch") == 0;
    }
    if (s->kind->milestones && strcmp(item, "milestones") == 0) {
        snprintf(why, why_bytes, "milestones needs 1 to %d whole numbers with / between them",
                 (int)ART_SCHEDULE_MILESTONES);
        return parse_milestones(value, s);
    }
    return parse_value(item, value, s, why, why_bytes);
}

static void say_kinds(const char *word, char *why, unsigned why_bytes) {
    int used = snprintf(why, why_bytes, "'%s' is unknown, available are", word);
    for (unsigned i = 0; art_schedule_kind_at(i) != NULL; i++) {
        used += snprintf(why + used, why_bytes - (unsigned)used, "%s %s", i == 0 ? "" : ",",
                         art_schedule_kind_at(i)->word);
    }
}

static bool parse_part(char *text, art_schedule *s, char *why, unsigned why_bytes) {
    char *rest = NULL, *options = strchr(text, ':');
    if (options != NULL) {
        *options++ = '\0';
    }
    s->kind = art_schedule_find(text);
    if (s->kind == NULL) {
        text[strnlen(text, 64)] = '\0';
        say_kinds(text, why, why_bytes);
        return false;
    }
    s->per_step = s->kind->per_step;
    for (unsigned i = 0; s->kind->options[i].name != NULL; i++) {
        s->values[i] = s->kind->options[i].preset;
    }
    for (char *item = options == NULL ? NULL : strtok_r(options, ",", &rest); item != NULL;
         item = strtok_r(NULL, ",", &rest)) {
        if (!parse_option(item, s, why, why_bytes)) {
            return false;
        }
    }
    const char *missing = s->kind->milestones && s->n_milestones == 0 ? "milestones" : NULL;
    for (unsigned i = 0; s->kind->options[i].name != NULL; i++) {
        missing = isnan(s->values[i]) ? s->kind->options[i].name : missing;
    }
    if (missing != NULL) {
        snprintf(why, why_bytes, "%s needs %s=N", s->kind->word, missing);
    }
    return missing == NULL;
}

bool run_parse_schedule(const char *text, run_schedule *schedule, char *why, unsigned why_bytes) {
    char copy[TEXT_BYTES], *rest = NULL;
    memset(schedule, 0, sizeof *schedule);
    if (text == NULL) {
        return true;
    }
    if (strlen(text) >= sizeof copy) {
        snprintf(why, why_bytes, "it has %zu characters, at most %d are possible", strlen(text),
                 TEXT_BYTES - 1);
        return false;
    }
    strcpy(copy, text);
    for (char *part = strtok_r(copy, "+", &rest); part != NULL; part = strtok_r(NULL, "+", &rest)) {
        if (schedule->n == RUN_SCHEDULES) {
            snprintf(why, why_bytes, "at most %d schedules can be multiplied", (int)RUN_SCHEDULES);
            return false;
        }
        if (!parse_part(part, &schedule->parts[schedule->n++], why, why_bytes)) {
            return false;
        }
        const art_schedule *last = &schedule->parts[schedule->n - 1];
        if (art_schedule_is_plateau(last) && run_schedule_plateau(schedule) != last) {
            snprintf(why, why_bytes, "only one of the schedules can be a plateau");
            return false;
        }
    }
    snprintf(why, why_bytes, "it names no schedule");
    return schedule->n > 0;
}

double run_schedule_scale(const run_schedule *schedule, uint64_t epoch, uint64_t step,
                          double plateau) {
    double scale = 1.0;
    for (unsigned i = 0; i < schedule->n; i++) {
        scale *= art_schedule_scale(&schedule->parts[i], epoch, step, plateau);
    }
    return scale;
}

const art_schedule *run_schedule_plateau(const run_schedule *schedule) {
    for (unsigned i = 0; i < schedule->n; i++) {
        if (art_schedule_is_plateau(&schedule->parts[i])) {
            return &schedule->parts[i];
        }
    }
    return NULL;
}
