#include "augment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "art_limits.h"
#include "options.h"

enum { FLIP, SHIFT, CROP, NOISE, N_WORDS };
enum { TEXT_BYTES = 128 };

static const char *const words[N_WORDS] = {"flip", "shift", "crop", "noise"};
static const double most_noise = 1000.0;

static bool parse_pixels(const char *name, const char *text, uint32_t *value, char *why,
                         unsigned why_bytes) {
    uint64_t number;
    if (!run_parse_number(text, ART_AUGMENT_PIXELS, &number)) {
        snprintf(why, why_bytes, "%s needs a whole number from 0 to %d, got '%s'", name,
                 (int)ART_AUGMENT_PIXELS, text);
        return false;
    }
    *value = (uint32_t)number;
    return true;
}

/* A decimal number: the signs that strtod would also take (hexadecimal, nan, inf) are none. */
static bool parse_noise(const char *text, float *value, char *why, unsigned why_bytes) {
    char *end = NULL;
    bool decimal = *text != '\0' && text[strspn(text, "0123456789.e-")] == '\0';
    double number = decimal ? strtod(text, &end) : 0.0;
    if (!decimal || *end != '\0' || !(number >= 0.0 && number <= most_noise) ||
        (number != 0.0 && number < ART_MIN_FLOAT)) {
        snprintf(why, why_bytes, "noise needs a number from 0 to %g, got '%s'", most_noise, text);
        return false;
    }
    *value = (float)number;
    return true;
}

static bool parse_word(char *item, run_augment *a, bool seen[N_WORDS], char *why,
                       unsigned why_bytes) {
    char *value = strchr(item, '=');
    size_t length = value == NULL ? strlen(item) : (size_t)(value - item);
    unsigned which = 0;
    while (which < N_WORDS &&
           (strlen(words[which]) != length || strncmp(words[which], item, length) != 0)) {
        which++;
    }
    if (which == N_WORDS || seen[which] || (which == FLIP) != (value == NULL)) {
        snprintf(why, why_bytes,
                 "'%s' is unknown or given twice; possible are flip, shift=N, crop=N, noise=S",
                 item);
        return false;
    }
    seen[which] = true;
    switch (which) {
    case FLIP:
        a->what.flip = true;
        return true;
    case NOISE:
        return parse_noise(value + 1, &a->what.noise, why, why_bytes);
    default:
        return parse_pixels(words[which], value + 1,
                            which == SHIFT ? &a->what.shift : &a->what.crop, why, why_bytes);
    }
}

bool run_parse_augment(const char *text, run_augment *augment, char *why, unsigned why_bytes) {
    char copy[TEXT_BYTES];
    bool seen[N_WORDS] = {false};
    memset(augment, 0, sizeof *augment);
    if (text == NULL) {
        return true;
    }
    if (strlen(text) >= sizeof copy) {
        snprintf(why, why_bytes, "it has %zu characters, at most %d are possible", strlen(text),
                 TEXT_BYTES - 1);
        return false;
    }
    strcpy(copy, text);
    augment->given = true;
    for (char *item = copy; item != NULL;) {
        char *comma = strchr(item, ',');
        if (comma != NULL) {
            *comma = '\0';
        }
        if (!parse_word(item, augment, seen, why, why_bytes)) {
            return false;
        }
        item = comma == NULL ? NULL : comma + 1;
    }
    return true;
}

art_status run_augment_open(run_augment *a, art_engine *engine, uint64_t seed, art_error *err) {
    const art_phase_io *io = &engine->io[ART_PHASE_TRAIN];
    if (!a->given || io->input == ART_PLAN_NONE) {
        return ART_OK;
    }
    const art_plan_tensor *input = art_engine_tensor(engine, io->input);
    art_info info;
    art_engine_info(engine, &info);
    ART_TRY(art_augment_check(&a->what, input->shape + 1, input->shape_ndim - 1u, a->chw, err));
    ART_TRY(art_engine_set_augment(engine, &a->what, err));
    size_t elements = (size_t)info.input_elements;
    a->plain = malloc(2 * elements * sizeof(float));
    ART_FAIL_IF(a->plain == NULL, err, ART_MEMORY_MAP,
                "no memory for a sample to change (%zu bytes)", 2 * elements * sizeof(float));
    memset(a->plain, 0, 2 * elements * sizeof(float)); /* all its pages */
    a->changed = a->plain + elements;
    a->seed = seed;
    return ART_OK;
}
