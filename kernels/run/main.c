/* armtrain-run: train a plan without Python. The engine does everything; this is the command line,
 * the data readers and the loop around it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/plan.h"
#include "loop.h"
#include "paths.h"
#include "preflight.h"
#include "watch.h"

static run_loop loop;

/* --json is among the arguments, be they right or wrong. */
static bool json_wanted;

static void complain(const char *text) {
    char line[1024];
    int n = snprintf(line, sizeof line, "armtrain-run: %s\n", text);
    if (n > 0 && write(STDERR_FILENO, line, (size_t)n < sizeof line ? (size_t)n : sizeof line)) {
        return;
    }
}

/* Tell people and programs why the run ends. */
static int refuse(const char *text, int code) {
    complain(text);
    if (json_wanted) {
        run_refusal(text, code);
    }
    return code;
}

/* The exit code of a status: its tens digit is the group. */
static int exit_code(art_status status) {
    switch (status / 10) {
    case 0:
        return RUN_EXIT_OK;
    case 2:
        return RUN_EXIT_DOES_NOT_FIT;
    case 3:
        return RUN_EXIT_STORAGE;
    default:
        return RUN_EXIT_FAILED;
    }
}

/* A standard stream that is closed would become the next file that is opened, and take what is
 * meant for people. Put something there that refuses its use. */
static void fill_standard_streams(void) {
    static const int modes[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", modes[fd]) != fd) {
            return;
        }
    }
}

/* The exit code of a run that did all it should, but may not have been able to tell. */
static int told_code(void) {
    char text[256];
    int code = run_output_error();
    if (code == 0) {
        return RUN_EXIT_OK;
    }
    if (code == EPIPE) {
        return RUN_EXIT_FAILED; /* the reader left: there is nobody to tell */
    }
    snprintf(text, sizeof text, "cannot write the standard output: %s; %s", strerror(code),
             art_errno_advice(code));
    complain(text);
    return RUN_EXIT_STORAGE;
}

static void *map_bytes(size_t bytes, int fd) {
    int flags = MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0);
    int protection = fd < 0 ? PROT_READ | PROT_WRITE : PROT_READ;
    void *memory = mmap(NULL, bytes, protection, flags, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* What a run takes beside arena and labels before and while it trains: pages of the program's own
 * data and stack, readers' and writers' buffers, the kernel's for files. Runs that were refused
 * without it and killed later lay in a window of 250 KiB (control groups of version 1, x86-64). */
#define WORK_BYTES (512u << 10)

/* The engine copies the plan's bytes: they are mapped only while it opens. */
static art_status open_engine(const run_options *o, art_error *err) {
    art_file file;
    art_plan_header header;
    art_options options = {.seed = o->seed, .threads = (uint32_t)o->threads};
    ART_TRY(art_file_open(&file, o->plan, err));
    bool plausible = file.bytes >= 1 && file.bytes <= SIZE_MAX / 2;
    void *plan = plausible ? map_bytes((size_t)file.bytes, file.fd) : NULL;
    art_file_close(&file);
    ART_FAIL_IF(plan == NULL, err, ART_PLAN_FORMAT, "%s is no plan: it has %llu bytes", o->plan,
                (unsigned long long)file.bytes);
    art_status status = art_plan_read_header(plan, (size_t)file.bytes, &header, err);
    if (status == ART_OK) {
        options.beside_bytes = WORK_BYTES + (uint64_t)header.batch_size * sizeof loop.labels[0];
        status = art_engine_open(&loop.engine, plan, (size_t)file.bytes, &options, err);
    }
    munmap(plan, (size_t)file.bytes);
    ART_TRY(status);
    ART_TRY(art_engine_initialize(loop.engine, err));
    art_engine_info(loop.engine, &loop.info);
    loop.labels = map_bytes((size_t)loop.info.batch_size * sizeof loop.labels[0], -1);
    ART_FAIL_IF(loop.labels == NULL, err, ART_MEMORY_MAP, "no memory for the labels of a batch");
    memset(loop.labels, 0,
           (size_t)loop.info.batch_size * sizeof loop.labels[0]); /* all its pages */
    run_note(o, "%s: arena %llu bytes, kernels %s, threads %u", o->plan,
             (unsigned long long)loop.info.arena_bytes, loop.info.kernel_level, loop.info.threads);
    return o->weights == NULL ? ART_OK : art_engine_load_safetensors(loop.engine, o->weights, err);
}

static art_status run(const run_options *o, art_error *err) {
    static art_writer probe;
    if (o->save != NULL) {
        ART_TRY(art_writer_probe(&probe, o->save, err));
    }
    if (o->keep_best != NULL) {
        ART_TRY(art_writer_probe(&probe, o->keep_best, err));
    }
    ART_TRY(open_engine(o, err));
    ART_TRY(run_source_open(&loop.train, loop.engine, err));
    if (o->validation != NULL) {
        ART_TRY(run_source_open(&loop.validation, loop.engine, err));
        ART_TRY(run_check_alike(&loop.train, &loop.validation, err));
    }
    ART_TRY(run_augment_open(&loop.train.augment, loop.engine, o->seed, err));
    ART_TRY(run_preflight(&loop.train, loop.engine, o, true, err));
    if (o->validation != NULL) {
        ART_TRY(run_preflight(&loop.validation, loop.engine, o, false, err));
    }
    run_catch_signals();
    ART_TRY(run_train(&loop, err));
    if (o->save != NULL && loop.stopped == 0) {
        const char *about;
        ART_TRY(run_source_about(&loop.train, &about, err));
        ART_TRY(art_engine_save_safetensors_with(loop.engine, o->save, about, err));
        run_note(o, "weights: %s", o->save);
    }
    if (loop.stopped == 0) {
        const run_ending ending = {run_watch_best_epoch(&loop), run_watch_exhausted(&loop)};
        run_summary(o, loop.epochs, loop.epochs > 0 ? &loop.record : NULL, &ending, &loop.info);
    }
    return ART_OK;
}

/* `flag` is the one that is wrong where `why` does not name it. */
static int usage(const char *flag, const char *why) {
    char line[900];
    snprintf(line, sizeof line, "%s%s; see armtrain-run --help", flag, why);
    return refuse(line, RUN_EXIT_USAGE);
}

/* The exit code of a run that ended; what a signal stopped was told where to continue already. */
static int end_run(art_status status, const char *why) {
    int code = loop.stopped != 0 ? 128 + loop.stopped : exit_code(status);
    if (status != ART_OK) {
        return refuse(why, code);
    }
    if (loop.stopped != 0 && json_wanted) {
        run_refusal("interrupted", code);
    }
    return loop.stopped != 0 ? code : told_code();
}

int main(int argc, char **argv) {
    static run_options options;
    art_error err = {.text = ""};
    char why[512];
    fill_standard_streams();
    for (int i = 1; i < argc; i++) {
        json_wanted = json_wanted || strcmp(argv[i], "--json") == 0;
    }
    if (!run_parse_options(argc, argv, &options, why, sizeof why)) {
        return usage("", why);
    }
    if (options.help || options.version) {
        const char *text = options.help ? run_usage : "armtrain-run " ART_VERSION "\n";
        run_print(text);
        return told_code();
    }
    if (!run_parse_spec(options.data, &loop.train.spec, why, sizeof why)) {
        return usage("--data: ", why);
    }
    if (options.validation != NULL &&
        !run_parse_spec(options.validation, &loop.validation.spec, why, sizeof why)) {
        return usage("--validation: ", why);
    }
    if (!run_parse_augment(options.augment, &loop.train.augment, why, sizeof why)) {
        return usage("--augment: ", why);
    }
    if (!run_parse_schedule(options.schedule, &loop.schedule, why, sizeof why)) {
        return usage("--schedule: ", why);
    }
    if (!run_watch_options(&options, &loop.schedule, &loop.quantity, why, sizeof why)) {
        return usage("", why);
    }
    if (!run_paths_apart(&options, &loop.train.spec, &loop.validation.spec, why, sizeof why)) {
        return usage("", why);
    }
    loop.options = &options;
    art_status status = run(&options, &err);
    art_engine_close(loop.engine);
    return end_run(status, err.text);
}
