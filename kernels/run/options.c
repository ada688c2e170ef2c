#include "options.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "art_limits.h"

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
    "  --schedule S           factor of the learning rates, as cosine:T_max=N or\n"
    "                         linear:total_iters=N,interval=step+step:step_size=N\n"
    "                         or plateau:patience=N, which follows what is measured\n"
    "  --augment A            random changes of training inputs: flip,shift=N,crop=N,noise=S\n"
    "  --early-stopping N     stop after N epochs without a better value\n"
    "  --keep-best F          write the weights of the best epoch to a safetensors file\n"
    "  --monitor Q            val_loss (default with --validation), val_accuracy or\n"
    "                         train_loss: what these three look at\n"
    "  --no-preflight         do not read all data before the first step\n"
    "  --log F                write a JSON object a line and epoch\n"
    "  --seed S               key of everything random (default 0)\n"
    "  --threads T            at most the planned number (default: that or all processors)\n"
    "  --json                 print JSON alone on standard output, errors too\n"
    "  --quiet                print nothing but errors\n"
    "  --version, --help\n"
    "\n"
    "exit: 0 done, 1 failed, 2 usage, 3 does not fit into memory, 4 device or storage\n";

typedef enum kind { TEXT, NUMBER, FLAG } kind;

static const struct flag {
    const char *name;
    kind kind;
    size_t offset;
    uint64_t least, most; /* of a number */
} flags[] = {
    {"--data", TEXT, offsetof(run_options, data), 0, 0},
    {"--epochs", NUMBER, offsetof(run_options, epochs), 0, ART_MAX_EPOCHS},
    {"--validation", TEXT, offsetof(run_options, validation), 0, 0},
    {"--checkpoint", TEXT, offsetof(run_options, checkpoint), 0, 0},
    {"--checkpoint-every", NUMBER, offsetof(run_options, checkpoint_every), 1, ART_MAX_EPOCHS},
    {"--resume", FLAG, offsetof(run_options, resume), 0, 0},
    {"--weights", TEXT, offsetof(run_options, weights), 0, 0},
    {"--save", TEXT, offsetof(run_options, save), 0, 0},
    {"--schedule", TEXT, offsetof(run_options, schedule), 0, 0},
    {"--augment", TEXT, offsetof(run_options, augment), 0, 0},
    {"--no-preflight", FLAG, offsetof(run_options, no_preflight), 0, 0},
    {"--early-stopping", NUMBER, offsetof(run_options, early_stopping), 1, ART_MAX_EPOCHS},
    {"--keep-best", TEXT, offsetof(run_options, keep_best), 0, 0},
    {"--monitor", TEXT, offsetof(run_options, monitor), 0, 0},
    {"--log", TEXT, offsetof(run_options, log), 0, 0},
    {"--seed", NUMBER, offsetof(run_options, seed), 0, UINT64_MAX},
    {"--threads", NUMBER, offsetof(run_options, threads), 1, UINT32_MAX},
    {"--json", FLAG, offsetof(run_options, json), 0, 0},
    {"--quiet", FLAG, offsetof(run_options, quiet), 0, 0},
    {"--help", FLAG, offsetof(run_options, help), 0, 0},
    {"--version", FLAG, offsetof(run_options, version), 0, 0},
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
        if (value == NULL || !run_parse_number(value, flag->most, &number) ||
            number < flag->least) {
            return false;
        }
        memcpy(field, &number, sizeof number);
        return true;
    }
    return false;
}

static void say_needed(const struct flag *flag, char *why, unsigned why_bytes) {
    if (flag->kind == NUMBER) {
        snprintf(why, why_bytes, "%s needs a whole number of at least %llu and at most %llu",
                 flag->name, (unsigned long long)flag->least, (unsigned long long)flag->most);
    } else {
        snprintf(why, why_bytes, "%s needs %s", flag->name,
                 flag->kind == TEXT ? "a value" : "no value");
    }
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
            say_needed(flag, why, why_bytes);
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
    const char *missing = options->plan == NULL          ? "PLAN is missing"
                          : options->data == NULL        ? "--data is missing"
                          : !is_given(given, "--epochs") ? "--epochs is missing"
                          : options->checkpoint == NULL && options->resume
                              ? "--resume needs --checkpoint DIR"
                          : options->checkpoint == NULL && is_given(given, "--checkpoint-every")
                              ? "--checkpoint-every needs --checkpoint DIR"
                              : NULL;
    if (missing != NULL) {
        snprintf(why, why_bytes, "%s", missing);
        return false;
    }
    return true;
}
