#include "options.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

const char run_usage[] =
    "usage: armtrain-run PLAN --data SPEC --epochs N [options]\n"
    "\n"
    "  --data SPEC            idx:IMAGES,LABELS | npz:FILE | random:[samples=N,seed=S]\n"
    "  --epochs N             epochs to reach, those of a resumed run included\n"
    "  --validation SPEC      data to evaluate after each epoch\n"
    "  --checkpoint DIR       keep the two newest checkpoints there; one run at a time\n"
    "  --checkpoint-every N   also after every N steps\n"
    "  --resume               continue from the newest checkpoint in DIR\n"
    "  --weights F            start from the weights of a safetensors file\n"
    "  --save F               write the weights to a safetensors file at the end; may be\n"
    "                         the file of --weights, but no other option's\n"
    "  --log F                write a JSON object a line and epoch\n"
    "  --seed S               key of everything random (default 0)\n"
    "  --threads T            at most the planned number (default: that or all processors)\n"
    "  --json                 print JSON alone on standard output\n"
    "  --quiet                print nothing but errors\n"
    "  --version, --help\n"
    "\n"
    "exit: 0 done, 1 failed, 2 usage, 3 does not fit into memory, 4 device or storage\n";

typedef enum kind { TEXT, NUMBER, FLAG } kind;

static const struct flag {
    const char *name;
    kind kind;
    size_t offset;
} flags[] = {
    {"--data", TEXT, offsetof(run_options, data)},
    {"--epochs", NUMBER, offsetof(run_options, epochs)},
    {"--validation", TEXT, offsetof(run_options, validation)},
    {"--checkpoint", TEXT, offsetof(run_options, checkpoint)},
    {"--checkpoint-every", NUMBER, offsetof(run_options, checkpoint_every)},
    {"--resume", FLAG, offsetof(run_options, resume)},
    {"--weights", TEXT, offsetof(run_options, weights)},
    {"--save", TEXT, offsetof(run_options, save)},
    {"--log", TEXT, offsetof(run_options, log)},
    {"--seed", NUMBER, offsetof(run_options, seed)},
    {"--threads", NUMBER, offsetof(run_options, threads)},
    {"--json", FLAG, offsetof(run_options, json)},
    {"--quiet", FLAG, offsetof(run_options, quiet)},
    {"--help", FLAG, offsetof(run_options, help)},
    {"--version", FLAG, offsetof(run_options, version)},
};
#define N_FLAGS (sizeof flags / sizeof flags[0])

bool run_parse_number(const char *text, uint64_t most, uint64_t *value) {
    *value = 0;
    if (*text == '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(*value, (uint64_t)10, value) ||
            __builtin_add_overflow(*value, (uint64_t)(*text - '0'), value)) {
            return false;
        }
    }
    return *value <= most;
}

/* The flag of `--name` or `--name=value`; *value is NULL without '='. */
static const struct flag *find_flag(const char *word, const char **value) {
    const char *equals = strchr(word, '=');
    size_t length = equals == NULL ? strlen(word) : (size_t)(equals - word);
    *value = equals == NULL ? NULL : equals + 1;
    for (size_t i = 0; i < N_FLAGS; i++) {
        if (strlen(flags[i].name) == length && strncmp(flags[i].name, word, length) == 0) {
            return &flags[i];
        }
    }
    return NULL;
}

static bool set_flag(const struct flag *flag, const char *value, run_options *options) {
    char *field = (char *)options + flag->offset;
    uint64_t number;
    switch (flag->kind) {
    case FLAG:
        *(bool *)field = true;
        return value == NULL;
    case TEXT:
        memcpy(field, &value, sizeof value);
        return value != NULL && *value != '\0';
    case NUMBER:
        if (value == NULL || !run_parse_number(value, UINT64_MAX, &number)) {
            return false;
        }
        memcpy(field, &number, sizeof number);
        return true;
    }
    return false;
}

static bool parse_words(int argc, char **argv, run_options *options, bool given[N_FLAGS], char *why,
                        unsigned why_bytes) {
    for (int i = 1; i < argc; i++) {
        const char *value, *word = argv[i];
        if (word[0] != '-' || word[1] == '\0') {
            if (options->plan != NULL) {
                snprintf(why, why_bytes, "'%s': only one plan is possible", word);
                return false;
            }
            options->plan = word;
            continue;
        }
        const struct flag *flag = find_flag(word, &value);
        if (flag == NULL) {
            snprintf(why, why_bytes, "'%s' is unknown", word);
            return false;
        }
        if (flag->kind != FLAG && value == NULL && i + 1 < argc) {
            value = argv[++i];
        }
        if (!set_flag(flag, value, options)) {
            snprintf(why, why_bytes, "%s needs %s", flag->name,
                     flag->kind == NUMBER ? "a whole number, 0 or more"
                     : flag->kind == TEXT ? "a value"
                                          : "no value");
            return false;
        }
        given[flag - flags] = true;
    }
    return true;
}

static bool is_given(const bool given[N_FLAGS], const char *name) {
    const char *value;
    return given[find_flag(name, &value) - flags];
}

bool run_parse_options(int argc, char **argv, run_options *options, char *why, unsigned why_bytes) {
    bool given[N_FLAGS] = {false};
    memset(options, 0, sizeof *options);
    if (!parse_words(argc, argv, options, given, why, why_bytes)) {
        return false;
    }
    if (options->help || options->version) {
        return true;
    }
    const char *missing =
        options->plan == NULL          ? "PLAN is missing"
        : options->data == NULL        ? "--data is missing"
        : !is_given(given, "--epochs") ? "--epochs is missing"
        : is_given(given, "--threads") && (options->threads == 0 || options->threads > UINT32_MAX)
            ? "--threads needs a whole number of at least 1 and at most 4294967295"
        : options->checkpoint == NULL && options->resume ? "--resume needs --checkpoint DIR"
        : options->checkpoint == NULL && is_given(given, "--checkpoint-every")
            ? "--checkpoint-every needs --checkpoint DIR"
        : is_given(given, "--checkpoint-every") && options->checkpoint_every == 0
            ? "--checkpoint-every needs a number of at least 1"
            : NULL;
    if (missing != NULL) {
        snprintf(why, why_bytes, "%s", missing);
        return false;
    }
    return true;
}
