/* The engine on a small MLP: same bits under poison and threads, refusals that change nothing,
 * layouts, the run's state, opening and closing without leaks, memory limits. */
#define _GNU_SOURCE
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "armtrain.h"
#include "core/cgroup.h"
#include "expect.h"
#include "plan_builder.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

enum { BATCH = 4, WEIGHTS = MLP_IN * MLP_HIDDEN };

static _Alignas(64) unsigned char plan[PB_BYTES];
static size_t bytes;
static float x[BATCH * MLP_IN];
static int32_t labels[BATCH];

static art_engine *open_engine(uint32_t threads, uint32_t poison) {
    art_engine *engine;
    art_error err;
    const art_options options = {.seed = 7, .threads = threads, .poison = poison};
    EXPECT_STATUS(art_engine_open(&engine, plan, bytes, &options, &err), ART_OK, err, "");
    EXPECT_STATUS(art_engine_initialize(engine, &err), ART_OK, err, "");
    return engine;
}

static void make_batch(const art_engine *engine, uint64_t first) {
    for (uint32_t i = 0; i < BATCH; i++) {
        art_random_sample(engine, 3, first + i, x + i * MLP_IN, labels + i);
    }
}

/* Losses of some steps with batches of 1 to 4 samples, an evaluation and a prediction. */
static void run(uint32_t threads, uint32_t poison, double out[24]) {
    art_error err;
    art_engine *engine = open_engine(threads, poison);
    float predicted[BATCH * MLP_OUT];
    uint64_t correct;
    for (uint32_t i = 0; i < 20; i++) {
        make_batch(engine, i * BATCH);
        EXPECT_STATUS(art_engine_train_step(engine, x, labels, 1 + i % BATCH, &out[i], &err),
                      ART_OK, err, "");
    }
    EXPECT_STATUS(art_engine_evaluate_step(engine, x, labels, 3, &out[20], &correct, &err), ART_OK,
                  err, "");
    EXPECT_STATUS(art_engine_predict_step(engine, x, 3, predicted, &err), ART_OK, err, "");
    out[21] = (double)correct;
    out[22] = predicted[0];
    out[23] = predicted[3 * MLP_OUT - 1];
    art_engine_close(engine);
}

static void same_bits(void) {
    for (int clip = 0; clip < 2; clip++) {
        double plain[24], other[24];
        bytes = build_mlp(plan, BATCH, 4, clip);
        run(1, 0, plain);
        for (uint32_t threads = 1; threads <= 4; threads++) {
            run(threads, threads % 2, other);
            EXPECT(memcmp(plain, other, sizeof plain) == 0);
        }
        for (int i = 0; i < 24; i++) {
            EXPECT(isfinite(plain[i]));
        }
    }
}

static void information(void) {
    art_info info;
    art_engine *engine = open_engine(2, 0);
    art_engine_info(engine, &info);
    EXPECT(info.batch_size == BATCH && info.threads == 2 && info.n_classes == MLP_OUT);
    EXPECT(info.target_is_label == 1 && info.input_elements == MLP_IN);
    EXPECT(info.target_elements == 1 && info.output_elements == MLP_OUT);
    EXPECT(info.n_steps > 0 && info.n_tensors > 0 && info.kernel_level[0] != '\0');
    EXPECT(info.arena_bytes == ((const art_plan_header *)(const void *)plan)->arena_bytes);
    art_engine_close(engine);
}

static uint64_t sum(const uint64_t *values, uint32_t n) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++) {
        total += values[i];
    }
    return total;
}

/* Only the steps of training are timed, and only while there is a place for times. */
static void steps_timed(void) {
    enum { MOST = 64 };
    art_error err;
    art_info info;
    double loss, timed_loss;
    uint64_t times[MOST] = {0}, before;
    art_engine *engine = open_engine(1, 0), *timed = open_engine(1, 0);
    art_engine_info(engine, &info);
    EXPECT(info.n_steps <= MOST);
    make_batch(engine, 0);
    art_engine_time_steps(timed, times);
    for (int i = 0; i < 50; i++) {
        EXPECT(art_engine_train_step(engine, x, labels, BATCH, &loss, &err) == ART_OK);
        EXPECT(art_engine_train_step(timed, x, labels, BATCH, &timed_loss, &err) == ART_OK);
        EXPECT(memcmp(&loss, &timed_loss, sizeof loss) == 0);
    }
    before = sum(times, info.n_steps);
    EXPECT(before > 0 && times[info.n_steps - 1] == 0);
    art_engine_time_steps(timed, NULL);
    EXPECT(art_engine_train_step(timed, x, labels, BATCH, &timed_loss, &err) == ART_OK);
    EXPECT(sum(times, info.n_steps) == before);
    art_engine_close(engine);
    art_engine_close(timed);
}

static void options_refused(void) {
    art_engine *engine;
    art_error err;
    art_options options = {.threads = 5};
    EXPECT_STATUS(art_engine_open(&engine, plan, bytes, &options, &err), ART_USE, err,
                  "5 threads were asked for but the plan has memory for 4");
    options.threads = 1;
    options.kernel_level = "abacus";
    EXPECT_STATUS(art_engine_open(&engine, plan, bytes, &options, &err), ART_CPU, err,
                  "'abacus' is unknown or this processor lacks it; it has: c");
}

static void batches_refused(void) {
    art_error err;
    double loss = 0;
    uint64_t correct;
    float before[WEIGHTS], after[WEIGHTS];
    art_engine *engine = open_engine(1, 0);
    make_batch(engine, 0);
    EXPECT(art_engine_read(engine, "0.weight", before, sizeof before, &err) == ART_OK);
    EXPECT_STATUS(art_engine_train_step(engine, x, labels, 0, &loss, &err), ART_BATCH, err,
                  "empty");
    EXPECT_STATUS(art_engine_train_step(engine, x, labels, 5, &loss, &err), ART_BATCH, err,
                  "5 samples, the plan at most 4");
    labels[2] = 3;
    EXPECT_STATUS(art_engine_train_step(engine, x, labels, 4, &loss, &err), ART_LABEL, err,
                  "sample 2 of the batch has label 3; the model has classes 0 to 2");
    labels[2] = -1;
    EXPECT_STATUS(art_engine_evaluate_step(engine, x, labels, 4, &loss, &correct, &err), ART_LABEL,
                  err, "label -1");
    labels[2] = ART_NO_LABEL;
    EXPECT_STATUS(art_engine_evaluate_step(engine, x, labels, 4, &loss, &correct, &err), ART_OK,
                  err, "");
    EXPECT(art_engine_counted(engine) == 3.0);
    labels[2] = 0;
    x[MLP_IN + 5] = NAN;
    EXPECT_STATUS(art_engine_train_step(engine, x, labels, 4, &loss, &err), ART_NONFINITE, err,
                  "'x.0': sample 1 of the batch is not finite at element 5");
    EXPECT_STATUS(art_engine_train_step(engine, x, labels, 1, &loss, &err), ART_OK, err, "");
    EXPECT(art_engine_read(engine, "0.weight", after, sizeof after, &err) == ART_OK);
    EXPECT(memcmp(before, after, sizeof before) != 0);
    art_engine_close(engine);
}

static void not_ready(void) {
    art_engine *engine;
    art_error err;
    double loss;
    const art_options options = {.threads = 1};
    EXPECT_STATUS(art_engine_open(&engine, plan, bytes, &options, &err), ART_OK, err, "");
    EXPECT_STATUS(art_engine_train_step(engine, x, labels, 1, &loss, &err), ART_USE, err,
                  "no weights yet");
    art_engine_close(engine);
}

/* A loss that is not finite stops the step before any weight changes, and names the cause. */
static void nonfinite(void) {
    static const char *const names[4] = {"0.weight", "0.bias", "2.weight", "2.bias"};
    static const size_t sizes[4] = {WEIGHTS * 4, MLP_HIDDEN * 4, MLP_HIDDEN * MLP_OUT * 4,
                                    MLP_OUT * 4};
    for (int i = 0; i < 4; i++) {
        float values[WEIGHTS], before[WEIGHTS], after[WEIGHTS];
        art_error err;
        double loss = 0;
        art_run_state state;
        art_engine *engine = open_engine(1, 1);
        make_batch(engine, 0);
        EXPECT(art_engine_read(engine, names[i], values, sizes[i], &err) == ART_OK);
        values[1] = INFINITY;
        EXPECT(art_engine_write(engine, names[i], values, sizes[i], &err) == ART_OK);
        const char *other = names[i == 0 ? 1 : 0];
        size_t size = sizes[i == 0 ? 1 : 0];
        EXPECT(art_engine_read(engine, other, before, size, &err) == ART_OK);
        char part[64];
        snprintf(part, sizeof part, "not finite is '%s'", names[i]);
        EXPECT_STATUS(art_engine_train_step(engine, x, labels, 4, &loss, &err), ART_NONFINITE, err,
                      part);
        EXPECT(art_engine_read(engine, other, after, size, &err) == ART_OK);
        EXPECT(memcmp(before, after, size) == 0);
        art_engine_get_state(engine, &state);
        EXPECT(state.step == 0);
        art_engine_close(engine);
    }
}

/* The arena holds (I, O), the user sees (O, I). */
static void layouts(void) {
    float user[WEIGHTS], arena[WEIGHTS], back[WEIGHTS];
    art_error err;
    art_engine *engine = open_engine(1, 0);
    for (int i = 0; i < WEIGHTS; i++) {
        user[i] = (float)i;
    }
    EXPECT(art_engine_write(engine, "0.weight", user, sizeof user, &err) == ART_OK);
    EXPECT(art_engine_peek(engine, 0, arena, sizeof arena, &err) == ART_OK);
    for (int i = 0; i < WEIGHTS; i++) {
        EXPECT(arena[i] == user[i % MLP_HIDDEN * MLP_IN + i / MLP_HIDDEN]);
    }
    EXPECT(art_engine_read(engine, "0.weight", back, sizeof back, &err) == ART_OK);
    EXPECT(memcmp(user, back, sizeof user) == 0);
    EXPECT_STATUS(art_engine_read(engine, "0.weight", back, 8, &err), ART_SHAPE, err,
                  "'0.weight' has 512 bytes, 8 were given");
    EXPECT_STATUS(art_engine_read(engine, "9.weight", back, 8, &err), ART_USE, err, "'9.weight'");
    EXPECT_STATUS(art_engine_poke(engine, 999, back, 8, &err), ART_USE, err, "tensor 999");
    EXPECT_STATUS(art_engine_run_steps(engine, 0, 999, 1, &err), ART_USE, err, "[0, 999)");
    EXPECT_STATUS(art_engine_run_steps(engine, 0, 1, 5, &err), ART_BATCH, err, "1 to 4");
    art_engine_close(engine);
}

/* Everything random depends on the seed and the name alone. */
static void randomness(void) {
    float a[WEIGHTS], b[WEIGHTS];
    art_error err;
    art_engine *engine = open_engine(1, 0);
    EXPECT(art_engine_read(engine, "0.weight", a, sizeof a, &err) == ART_OK);
    memset(b, 0, sizeof b);
    EXPECT(art_engine_write(engine, "0.weight", b, sizeof b, &err) == ART_OK);
    art_run_state state = {.seed = 99, .step = 5, .learning_rate_scale = 0.5};
    art_engine_set_state(engine, &state);
    EXPECT(art_engine_initialize(engine, &err) == ART_OK);
    art_engine_get_state(engine, &state);
    EXPECT(state.seed == 7 && state.step == 0 && state.learning_rate_scale == 1.0);
    EXPECT(art_engine_read(engine, "0.weight", b, sizeof b, &err) == ART_OK);
    EXPECT(memcmp(a, b, sizeof a) == 0);
    for (int i = 0; i < WEIGHTS; i++) {
        EXPECT(a[i] >= -0.35f && a[i] < 0.35f && a[i] != a[(i + 1) % WEIGHTS]);
    }
    art_engine_close(engine);
    char seen[100] = {0};
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t at = art_shuffle(1, 2, 100, i);
        EXPECT(at < 100 && !seen[at]);
        seen[at % 100] = 1;
    }
}

static int open_descriptors(void) {
    int n = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder) != NULL) {
        n++;
    }
    closedir(folder);
    return n;
}

static uint64_t mapped_pages(void) {
    char text[128];
    art_read_text("/proc/self/statm", text, sizeof text);
    return strtoull(text, NULL, 10);
}

/* User-mode emulators accept a memory limit without applying it, and their process is not ours. */
static int memory_is_ours(void) {
    struct rlimit old, now;
    if (SANITIZED || getrlimit(RLIMIT_DATA, &old) != 0) {
        return 0;
    }
    const struct rlimit asked = {(rlim_t)1 << 30, old.rlim_max};
    setrlimit(RLIMIT_DATA, &asked);
    getrlimit(RLIMIT_DATA, &now);
    setrlimit(RLIMIT_DATA, &old);
    return now.rlim_cur == asked.rlim_cur;
}

static void open_and_close(void) {
    int descriptors = 0;
    uint64_t pages = 0;
    for (int i = 0; i < 60; i++) {
        art_engine_close(open_engine(1 + (uint32_t)i % 4, 0));
        if (i == 9) {
            descriptors = open_descriptors();
            pages = mapped_pages();
        }
    }
    EXPECT(open_descriptors() == descriptors);
    if (memory_is_ours()) { /* sanitizers keep freed memory for a while */
        EXPECT(mapped_pages() == pages);
    }
    art_engine_close(NULL);
}

/* In a child: a limit just above what the process has now leaves too little for the arena. */
static void limited(int resource, int field, const char *name) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char text[128], *next = text;
        uint64_t pages = 0;
        art_engine *engine;
        art_error err = {.text = ""};
        const art_options options = {.threads = 1};
        art_read_text("/proc/self/statm", text, sizeof text);
        for (int i = 0; i <= field; i++) {
            pages = strtoull(next, &next, 10);
        }
        rlim_t room = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + 200000;
        const struct rlimit limit = {room, room};
        setrlimit(resource, &limit);
        art_status status = art_engine_open(&engine, plan, bytes, &options, &err);
        int told = strstr(err.text, name) != NULL && strstr(err.text, "needs") != NULL &&
                   strstr(err.text, "smaller batch") != NULL;
        if (status != ART_MEMORY_LIMIT || !told) {
            printf("status %d: %s\n", (int)status, err.text);
        }
        fflush(stdout);
        _exit(status == ART_MEMORY_LIMIT && told ? 0 : 1);
    }
    int result = 1;
    EXPECT(child > 0 && waitpid(child, &result, 0) == child);
    EXPECT(result == 0);
}

static void memory_limits(void) {
    if (!memory_is_ours()) {
        printf("memory limits: left out, a sanitizer or emulator shares the address space\n");
        return;
    }
    bytes = build_mlp(plan, BATCH, 4, false);
    EXPECT(((art_plan_header *)(void *)plan)->arena_bytes > 300000);
    limited(RLIMIT_AS, 0, "RLIMIT_AS");
    limited(RLIMIT_DATA, 5, "RLIMIT_DATA");
}

int main(void) {
    same_bits();
    bytes = build_mlp(plan, BATCH, 4, false);
    information();
    steps_timed();
    options_refused();
    batches_refused();
    not_ready();
    nonfinite();
    layouts();
    randomness();
    open_and_close();
    memory_limits();
    return expect_done("engine");
}
