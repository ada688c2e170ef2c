/* Files and engines for the tests of what is stored: a fresh directory, whole files as bytes, and
 * one number for all values that an engine keeps. */
#ifndef ART_TESTS_STORAGE_H
#define ART_TESTS_STORAGE_H

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/crc32.h"
#include "engine/engine.h"
#include "engine/file_io.h"
#include "expect.h"
#include "plan_cnn.h"

#define FILE_MOST 65536

typedef struct bytes {
    unsigned char data[FILE_MOST];
    size_t n;
} bytes;

static char storage_dir[256];

static inline void storage_start(void) {
    const char *base = getenv("TMPDIR");
    snprintf(storage_dir, sizeof storage_dir, "%.200s/armtrain-test-XXXXXX",
             base != NULL ? base : "/tmp");
    if (mkdtemp(storage_dir) == NULL) {
        perror(storage_dir);
        exit(1);
    }
}

/* DIR/name; sixteen results live at a time. */
static inline const char *in_dir(const char *name) {
    static char paths[16][600];
    static unsigned next;
    char *path = paths[next++ % 16];
    snprintf(path, sizeof paths[0], "%s/%s", storage_dir, name);
    return path;
}

static inline bool file_exists(const char *path) {
    return access(path, F_OK) == 0;
}

static inline void read_file(const char *path, bytes *b) {
    FILE *f = fopen(path, "rb");
    b->n = f == NULL ? 0 : fread(b->data, 1, sizeof b->data, f);
    if (f != NULL) {
        fclose(f);
    }
}

static inline void write_bytes(const char *path, const void *data, size_t n) {
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(data, 1, n, f) != n || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

/* Names in a directory that contain `part`. */
static inline int count_names(const char *path, const char *part) {
    DIR *dir = opendir(path);
    int n = 0;
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        n += strstr(e->d_name, part) != NULL;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return n;
}

static inline void empty_dir(const char *path) {
    DIR *dir = opendir(path);
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        unlinkat(dirfd(dir), e->d_name, 0);
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

static inline void storage_end(void) {
    DIR *dir = opendir(storage_dir);
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] != '.') {
            empty_dir(in_dir(e->d_name));
            rmdir(in_dir(e->d_name));
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    empty_dir(storage_dir);
    rmdir(storage_dir);
}

/* An initialised engine of the small CNN. */
static inline art_engine *cnn_engine(uint64_t seed, uint32_t threads, uint32_t batch) {
    static _Alignas(64) unsigned char plan[PB_BYTES];
    art_engine *engine;
    art_error err;
    const art_options options = {.seed = seed, .threads = threads, .kernel_level = "c"};
    size_t n = build_cnn(plan, batch, threads, false);
    if (art_engine_open(&engine, plan, n, &options, &err) != ART_OK ||
        art_engine_initialize(engine, &err) != ART_OK) {
        printf("cannot open the test's engine: %s\n", err.text);
        exit(1);
    }
    return engine;
}

/* One number for all kept tensors in the user's layout, and the run's state. */
static inline uint32_t digest(const art_engine *engine) {
    static unsigned char data[FILE_MOST];
    uint32_t crc = art_crc32(0, &engine->state, sizeof engine->state);
    crc = art_crc32(crc, &engine->monitor, sizeof engine->monitor);
    for (uint32_t i = 0; i < art_engine_tensors(engine); i++) {
        const art_plan_tensor *t = art_engine_tensor(engine, i);
        if (art_role_is_kept(t->role)) {
            art_layout_read(engine, i, 0, art_engine_tensor_elements(engine, i), data);
            crc = art_crc32(crc, data, (size_t)t->bytes);
        }
    }
    return crc;
}

/* Give every kept element another value, and state and monitor other numbers. */
static inline void scramble(art_engine *engine, uint32_t salt) {
    for (uint32_t i = 0; i < art_engine_tensors(engine); i++) {
        if (!art_role_is_kept(art_engine_tensor(engine, i)->role)) {
            continue;
        }
        float *data = art_engine_tensor_data(engine, i);
        for (uint64_t k = 0; k < art_engine_tensor_elements(engine, i); k++) {
            data[k] = (float)((k * 2654435761u + salt * 40503u + i * 977u) % 65521u) / 256.0f;
        }
    }
    engine->state = (art_run_state){.seed = 1,
                                    .step = 1000 + salt,
                                    .epoch = 2 + salt,
                                    .position = 3,
                                    .loss_counted = 2.5,
                                    .loss_sum = 0.1 + salt,
                                    .learning_rate_scale = 0.5,
                                    .n_train = 77};
    engine->monitor = (art_monitor){.quantity = 2,
                                    .plateau_quantity = 3,
                                    .plateau_bad = salt,
                                    .plateau_cooldown = 4,
                                    .epoch = 2 + salt,
                                    .best_epoch = 1,
                                    .best = 0.25 + salt,
                                    .plateau_best = 0.75,
                                    .plateau_scale = 0.5,
                                    .schedule_crc32 = 0xABCD + salt,
                                    .data_crc32 = 0xDCBA};
}

#endif
