/* Between open and close the engine asks nobody for memory: the allocator and mmap of this
 * program count their calls. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)

int main(void) {
    printf("no_alloc: left out, the allocator of this build cannot be counted\n");
    return 0;
}

#else

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "armtrain.h"
#include "expect.h"
#include "plan_builder.h"

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *data);

static atomic_uint calls;

void *malloc(size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_calloc(n, bytes);
}

void *realloc(void *old, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    *out = __libc_memalign(alignment, bytes);
    return *out == NULL ? ENOMEM : 0;
}

void free(void *data) {
    atomic_fetch_add(&calls, 1);
    __libc_free(data);
}

/* The header gives this function the name that files with 64-bit offsets use. */
void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
    atomic_fetch_add(&calls, 1);
#ifdef SYS_mmap2
    return (void *)syscall(SYS_mmap2, address, bytes, protection, flags, file,
                           (long)(offset / 4096));
#else
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
#endif
}

static _Alignas(64) unsigned char plan[PB_BYTES];

/* Checkpoints and weights, with a failure on the way. The directory is made by mkdtemp before. */
static char dir[] = "/tmp/armtrain-test-XXXXXX";

static void store_and_load(art_engine *engine) {
    char file[64], note[256];
    art_error err;
    snprintf(file, sizeof file, "%s/w", dir);
    EXPECT(art_checkpoint_save(engine, dir, 1, &err) == ART_OK);
    EXPECT(art_checkpoint_load(engine, dir, note, sizeof note, &err) == ART_OK);
    EXPECT(art_engine_save_safetensors(engine, file, &err) == ART_OK);
    EXPECT(art_engine_load_safetensors(engine, file, &err) == ART_OK);
    EXPECT(art_engine_save_safetensors(engine, "/nowhere/at/all", &err) == ART_IO);
    snprintf(file, sizeof file, "%s/step-%012d.ckpt", dir, 10);
    EXPECT(unlink(file) == 0);
    snprintf(file, sizeof file, "%s/w", dir);
    EXPECT(unlink(file) == 0);
}

static void count(int clip) {
    float x[4 * MLP_IN], out[4 * MLP_OUT], weight[MLP_IN * MLP_HIDDEN];
    int32_t labels[4];
    double loss;
    uint64_t correct;
    art_engine *engine;
    art_error err;
    art_info info;
    art_run_state state;
    size_t bytes = build_mlp(plan, 4, 3, clip);
    const art_options options = {.threads = 3};
    unsigned before_open = atomic_load(&calls);
    EXPECT_STATUS(art_engine_open(&engine, plan, bytes, &options, &err), ART_OK, err, "");
    unsigned after_open = atomic_load(&calls);
    EXPECT(after_open > before_open); /* the counter works */
    EXPECT(art_engine_initialize(engine, &err) == ART_OK);
    for (uint32_t i = 0; i < 4; i++) {
        art_random_sample(engine, 1, i, x + i * MLP_IN, labels + i);
    }
    for (int i = 0; i < 10; i++) {
        EXPECT(art_engine_train_step(engine, x, labels, 4, &loss, &err) == ART_OK);
        EXPECT(art_engine_evaluate_step(engine, x, labels, 4, &loss, &correct, &err) == ART_OK);
        EXPECT(art_engine_predict_step(engine, x, 4, out, &err) == ART_OK);
    }
    EXPECT(art_engine_read(engine, "0.weight", weight, sizeof weight, &err) == ART_OK);
    EXPECT(art_engine_write(engine, "0.weight", weight, sizeof weight, &err) == ART_OK);
    EXPECT(art_engine_train_step(engine, x, labels, 9, &loss, &err) == ART_BATCH);
    art_engine_info(engine, &info);
    art_engine_get_state(engine, &state);
    art_engine_set_state(engine, &state);
    store_and_load(engine);
    EXPECT(atomic_load(&calls) == after_open);
    art_engine_close(engine);
    EXPECT(atomic_load(&calls) > after_open);
}

int main(void) {
    if (mkdtemp(dir) == NULL) {
        perror(dir);
        return 1;
    }
    count(0);
    count(1);
    rmdir(dir);
    return expect_done("no_alloc");
}

#endif
