/* Nothing lost: round trips, damage, failures of the medium at every call, leftovers, limits. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "engine/checkpoint.h"
#include "storage.h"

/* --- the system calls of a save, recorded and made to fail ----------------------------------- */

static char
    calls[4096]; /* one letter each: w write, f fsync of a file, d of a directory, r rename */
static size_t n_calls;
static int fail_at = -1; /* index of the call that fails */
static int fail_errno;
static unsigned odd; /* every third write is interrupted, every other one short */
static bool unsteady;

static bool fails(char letter) {
    if (n_calls + 1 < sizeof calls) {
        calls[n_calls++] = letter;
    }
    errno = fail_errno;
    return fail_at >= 0 && n_calls - 1 == (size_t)fail_at;
}

ssize_t write(int fd, const void *data, size_t n) {
    if (fd > 2 && fails('w')) {
        return -1;
    }
    if (fd > 2 && unsteady && ++odd % 3 == 0) {
        errno = EINTR;
        return -1;
    }
    return syscall(SYS_write, fd, data, fd > 2 && unsteady && n > 1 ? n / 2 : n);
}

int fsync(int fd) {
    struct stat info;
    fstat(fd, &info);
    return fails(S_ISDIR(info.st_mode) ? 'd' : 'f') ? -1 : (int)syscall(SYS_fsync, fd);
}

int renameat(int old_dir, const char *old, int new_dir, const char *new) {
    return fails('r') ? -1 : (int)syscall(SYS_renameat2, old_dir, old, new_dir, new, 0);
}

/* Reads that are left before the medium fails, -1: it never does. */
static int good_reads = -1;

ssize_t pread(int fd, void *data, size_t n, off_t at) {
    if (good_reads == 0) {
        errno = EIO;
        return -1;
    }
    good_reads -= good_reads > 0;
    return lseek(fd, at, SEEK_SET) < 0 ? -1 : syscall(SYS_read, fd, data, n);
}

/* What a file system without locks answers, 0: it has them. */
static int no_locks;

int flock(int fd, int how) {
    errno = no_locks;
    return no_locks != 0 ? -1 : (int)syscall(SYS_flock, fd, how);
}

static void start_calls(int at, int code) {
    n_calls = 0;
    memset(calls, 0, sizeof calls);
    fail_at = at;
    fail_errno = code;
}

static art_status save(art_engine *engine, const char *dir, art_error *err) {
    start_calls(-1, 0);
    return art_checkpoint_save(engine, dir, 2, err);
}

static char note[4096];

static art_status load(art_engine *engine, const char *dir, art_error *err) {
    return art_checkpoint_load(engine, dir, note, sizeof note, err);
}

/* --- tests ----------------------------------------------------------------------------------- */

static void round_trip(void) {
    art_error err;
    art_engine *a = cnn_engine(1, 1, 4), *b = cnn_engine(2, 3, 7);
    char dir[300];
    snprintf(dir, sizeof dir, "%s", in_dir("new/deep"));
    struct stat info;
    scramble(a, 5);
    a->state.step = 3000000000u;
    EXPECT_STATUS(load(b, in_dir("absent"), &err), ART_NO_CHECKPOINT, err, "absent");
    EXPECT_STATUS(save(a, dir, &err), ART_OK, err, "");
    EXPECT(stat(dir, &info) == 0 && (info.st_mode & 0777) == 0755);
    EXPECT(file_exists(in_dir("new/deep/step-003000000000.ckpt")));
    EXPECT_STATUS(load(b, dir, &err), ART_OK, err, "");
    EXPECT(note[0] == '\0');
    EXPECT(digest(a) == digest(b));
    EXPECT(b->state.step == 3000000000u && b->state.loss_sum == a->state.loss_sum);
    /* The same values give the same bytes, whatever batch and threads are planned. */
    static bytes first, second;
    read_file(in_dir("new/deep/step-003000000000.ckpt"), &first);
    EXPECT_STATUS(save(b, in_dir("other"), &err), ART_OK, err, "");
    read_file(in_dir("other/step-003000000000.ckpt"), &second);
    EXPECT(first.n == second.n && memcmp(first.data, second.data, first.n) == 0);
    empty_dir(dir);
    rmdir(dir);
    art_engine_close(a);
    art_engine_close(b);
}

/* The saved file alone, with one change: refused, and the engine is as before. */
static void refuse_damaged(art_engine *engine, const bytes *good, size_t length, size_t flip,
                           const char *part) {
    static bytes bad;
    art_error err;
    uint32_t before = digest(engine);
    memcpy(bad.data, good->data, good->n);
    if (flip < 8 * good->n) {
        bad.data[flip / 8] ^= (unsigned char)(1u << flip % 8);
    }
    write_bytes(in_dir("d/step-000000001001.ckpt"), bad.data, length);
    EXPECT_STATUS(load(engine, in_dir("d"), &err), ART_NO_CHECKPOINT, err, "1 damaged");
    EXPECT(strstr(note, "step-000000001001.ckpt") != NULL && strstr(note, part) != NULL);
    EXPECT(digest(engine) == before && engine->ready);
}

static void damage(void) {
    art_error err;
    static bytes good;
    art_engine *a = cnn_engine(1, 1, 4), *b = cnn_engine(2, 1, 4);
    scramble(a, 1);
    EXPECT_STATUS(save(a, in_dir("d"), &err), ART_OK, err, "");
    read_file(in_dir("d/step-000000001001.ckpt"), &good);
    for (size_t i = 0; i < 100; i++) {
        refuse_damaged(b, &good, good.n * i / 100, SIZE_MAX, "bytes");
    }
    for (size_t i = 0; i < 100; i++) {
        refuse_damaged(b, &good, good.n, 8 * good.n * i / 100 + i % 8, "");
    }
    for (size_t i = 0; i < 8 * sizeof(art_ckpt_header); i++) {
        refuse_damaged(b, &good, good.n, i, "");
    }
    memset(good.data + good.n, 0, 8);
    refuse_damaged(b, &good, good.n + 8, SIZE_MAX, "was written with");
    write_bytes(in_dir("d/step-000000001001.ckpt"), good.data, good.n);
    EXPECT_STATUS(load(b, in_dir("d"), &err), ART_OK, err, "");
    EXPECT(digest(a) == digest(b));
    art_engine_close(a);
    art_engine_close(b);
}

static void fall_back(void) {
    art_error err;
    art_engine *a = cnn_engine(1, 1, 4), *b = cnn_engine(2, 1, 4);
    scramble(a, 0);
    EXPECT_STATUS(save(a, in_dir("f"), &err), ART_OK, err, "");
    uint32_t old = digest(a);
    write_bytes(in_dir("f/step-000000001007.ckpt"), "", 0);
    write_bytes(in_dir("f/step-000000001008.ckpt"), "something else, quite long", 26);
    write_bytes(in_dir("f/step-12.ckpt"), "not ours", 8);
    EXPECT_STATUS(load(b, in_dir("f"), &err), ART_OK, err, "");
    EXPECT(strstr(note, "step-000000001007.ckpt: it has 0 bytes") != NULL);
    EXPECT(strstr(note, "step-000000001008.ckpt") != NULL && strstr(note, "step-12") == NULL);
    EXPECT(digest(b) == old && b->state.step == 1000);
    char small[20];
    EXPECT(art_checkpoint_load(b, in_dir("f"), small, sizeof small, &err) == ART_OK);
    EXPECT(strlen(small) == sizeof small - 1);
    EXPECT(art_checkpoint_load(b, in_dir("f"), NULL, 0, &err) == ART_OK);
    art_engine_close(a);
    art_engine_close(b);
}

static void other_models_and_levels(void) {
    static _Alignas(64) unsigned char plan[PB_BYTES];
    art_error err;
    art_engine *a = cnn_engine(1, 1, 4), *b;
    const art_options options = {.seed = 0};
    scramble(a, 0);
    EXPECT_STATUS(save(a, in_dir("m"), &err), ART_OK, err, "");
    size_t n = build_cnn(plan, 4, 1, false);
    plan[offsetof(art_plan_header, model_hash) + 3] = 7;
    pb_seal(plan, n);
    EXPECT(art_engine_open(&b, plan, n, &options, &err) == ART_OK);
    EXPECT(art_engine_initialize(b, &err) == ART_OK);
    uint32_t before = digest(b);
    EXPECT_STATUS(load(b, in_dir("m"), &err), ART_PLAN_MODEL, err, "00000007");
    EXPECT(digest(b) == before);
    art_engine_close(b);
    n = build_mlp(plan, 4, 1, false);
    EXPECT(art_engine_open(&b, plan, n, &options, &err) == ART_OK);
    EXPECT_STATUS(save(b, in_dir("m"), &err), ART_USE, err, "no weights yet");
    EXPECT_STATUS(load(b, in_dir("m"), &err), ART_PLAN_MODEL, err, "optimizer");
    art_engine_close(b);
    art_level other = *a->level;
    other.name = "another";
    const art_level *own = a->level;
    a->level = &other;
    EXPECT_STATUS(save(a, in_dir("m"), &err), ART_OK, err, "");
    a->level = own;
    EXPECT_STATUS(load(a, in_dir("m"), &err), ART_OK, err, "");
    EXPECT(strstr(note, "kernel level another, this run uses") != NULL);
    art_engine_close(a);
}

static void refuse_nonfinite(void) {
    static const char *const names[] = {"conv1.weight", "bn1.running_var", "fc.bias/momentum"};
    art_error err;
    art_engine *a = cnn_engine(1, 1, 4);
    scramble(a, 0);
    EXPECT_STATUS(save(a, in_dir("n"), &err), ART_OK, err, "");
    uint32_t old = digest(a);
    for (int i = 0; i < 3; i++) {
        float *data = art_engine_tensor_data(a, art_engine_find(a, names[i]));
        float kept = data[1];
        a->state.step = 2000;
        data[1] = i == 1 ? -1.0f / 0.0f : 0.0f / 0.0f;
        EXPECT_STATUS(save(a, in_dir("n"), &err), ART_NONFINITE, err, names[i]);
        data[1] = kept;
    }
    EXPECT(count_names(in_dir("n"), "step-") == 1);
    EXPECT(load(a, in_dir("n"), &err) == ART_OK && digest(a) == old);
    art_engine_close(a);
}

static void keep_the_newest(void) {
    art_error err;
    art_engine *a = cnn_engine(1, 1, 4);
    char dir[300];
    snprintf(dir, sizeof dir, "%s", in_dir("k"));
    for (uint64_t step = 1; step <= 5; step++) {
        a->state.step = step;
        EXPECT_STATUS(save(a, dir, &err), ART_OK, err, "");
    }
    EXPECT(count_names(dir, "step-") == 2 && file_exists(in_dir("k/step-000000000004.ckpt")));
    write_bytes(in_dir("k/step-000000000006.ckpt"), "damaged", 7);
    write_bytes(in_dir("k/step-000000000100.ckpt"), "of the future", 13);
    write_bytes(in_dir("k/mine.txt"), "mine", 4);
    a->state.step = 7;
    EXPECT_STATUS(save(a, dir, &err), ART_OK, err, "");
    EXPECT(file_exists(in_dir("k/step-000000000007.ckpt"))); /* the damaged one does not count */
    EXPECT(file_exists(in_dir("k/step-000000000005.ckpt")));
    EXPECT(!file_exists(in_dir("k/step-000000000004.ckpt")));
    EXPECT(file_exists(in_dir("k/step-000000000100.ckpt")) && file_exists(in_dir("k/mine.txt")));
    a->state.step = 8;
    EXPECT(art_checkpoint_save(a, dir, 0, &err) == ART_OK); /* 0: the default */
    EXPECT(art_checkpoint_save(a, dir, 1, &err) == ART_OK);
    EXPECT(count_names(dir, "step-") == 2); /* 8 and the one of the future */
    art_engine_close(a);
}

static void sweep_leftovers(void) {
    art_error err;
    art_engine *a = cnn_engine(1, 1, 4);
    EXPECT(art_dir_make(in_dir("s"), &err) == ART_OK);
    write_bytes(in_dir("s/.step-000000000001.ckpt.123-0123abcd.tmp"), "half", 4);
    write_bytes(in_dir("s/.step-000000000002.ckpt.4567-ffffffff.tmp"), "half", 4);
    write_bytes(in_dir("s/.step-mine.tmp"), "mine", 4);
    int living = open(in_dir("s/.step-000000000002.ckpt.4567-ffffffff.tmp"), O_RDONLY);
    EXPECT(flock(living, LOCK_EX) == 0);
    EXPECT_STATUS(save(a, in_dir("s"), &err), ART_OK, err, "");
    EXPECT(count_names(in_dir("s"), ".tmp") == 2);
    EXPECT(!file_exists(in_dir("s/.step-000000000001.ckpt.123-0123abcd.tmp")));
    close(living);
    EXPECT_STATUS(save(a, in_dir("s"), &err), ART_OK, err, "");
    EXPECT(count_names(in_dir("s"), ".tmp") == 1);
    art_engine_close(a);
}

/* Each call of a save fails once: the older checkpoint stays the one that is loaded, no temporary
 * file stays, and the message tells what failed. */
static void fail_every_call(void) {
    art_error err;
    art_engine *a = cnn_engine(1, 1, 4), *b = cnn_engine(2, 1, 4);
    scramble(a, 0);
    EXPECT_STATUS(save(a, in_dir("e"), &err), ART_OK, err, "");
    EXPECT(calls[0] == 'd'); /* the new directory's own name */
    EXPECT_STATUS(save(a, in_dir("e"), &err), ART_OK, err, "");
    const char *tail = strchr(calls, 'f');
    EXPECT(tail != NULL && strcmp(tail, "frd") == 0);
    EXPECT(strspn(calls, "w") == (size_t)(tail - calls) && tail - calls >= 2);
    uint32_t old = digest(a);
    scramble(a, 1);
    int n = (int)n_calls;
    for (int i = 0; i < n; i++) {
        empty_dir(in_dir("e"));
        uint32_t new = digest(a);
        scramble(a, 0);
        EXPECT_STATUS(save(a, in_dir("e"), &err), ART_OK, err, "");
        scramble(a, 1);
        EXPECT(digest(a) == new);
        start_calls(i, i % 2 == 0 ? EIO : ENOSPC);
        art_status status = art_checkpoint_save(a, in_dir("e"), 2, &err);
        char failed = calls[i];
        start_calls(-1, 0);
        EXPECT(status == ART_IO && strstr(err.text, "step-000000001001.ckpt") != NULL);
        EXPECT(strstr(err.text, strerror(i % 2 == 0 ? EIO : ENOSPC)) != NULL);
        EXPECT(count_names(in_dir("e"), ".tmp") == 0);
        EXPECT(count_names(in_dir("e"), "step-") == (failed == 'd' ? 2 : 1));
        EXPECT(load(b, in_dir("e"), &err) == ART_OK && (failed == 'd' || digest(b) == old));
    }
    unsteady = true;
    EXPECT_STATUS(save(a, in_dir("e"), &err), ART_OK, err, "");
    unsteady = false;
    EXPECT(load(b, in_dir("e"), &err) == ART_OK && digest(b) == digest(a));
    art_engine_close(a);
    art_engine_close(b);
}

/* No room: on a small file system of its own where that may be mounted, else by a limit on the
 * size of files. */
static void no_room(bool mounted) {
    art_error err;
    art_engine *a = cnn_engine(1, 1, 4), *b = cnn_engine(2, 1, 4);
    struct rlimit limit;
    EXPECT(art_dir_make(in_dir("r"), &err) == ART_OK);
    if (mounted && mount("tmpfs", in_dir("r"), "tmpfs", 0, "size=12k") != 0) {
        printf("checkpoint: no file system can be mounted here, only the size limit is tested\n");
        mounted = false;
    }
    scramble(a, 0);
    EXPECT_STATUS(save(a, in_dir("r"), &err), ART_OK, err, "");
    uint32_t old = digest(a);
    scramble(a, 1);
    if (mounted) {
        static const char fill[12288];
        int fd = open(in_dir("r/fill"), O_WRONLY | O_CREAT, 0600);
        EXPECT(syscall(SYS_write, fd, fill, sizeof fill) > 0);
        close(fd);
    }
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    struct rlimit low = {mounted ? limit.rlim_cur : 1024, limit.rlim_max};
    setrlimit(RLIMIT_FSIZE, &low);
    art_status status = save(a, in_dir("r"), &err);
    setrlimit(RLIMIT_FSIZE, &limit);
    EXPECT(status == ART_IO);
    EXPECT(strstr(err.text, mounted ? "No space left" : "File too large") != NULL);
    EXPECT(!mounted || strstr(err.text, "bytes are free there") != NULL);
    EXPECT(count_names(in_dir("r"), ".tmp") == 0 && count_names(in_dir("r"), "step-") == 1);
    EXPECT(load(b, in_dir("r"), &err) == ART_OK && digest(b) == old);
    if (mounted) {
        EXPECT(umount(in_dir("r")) == 0);
    }
    art_engine_close(a);
    art_engine_close(b);
}

static void bad_places(void) {
    art_error err;
    art_engine *a = cnn_engine(1, 1, 4);
    static char deep[5000];
    memset(deep, 'a', sizeof deep - 1);
    write_bytes(in_dir("file"), "x", 1);
    EXPECT_STATUS(save(a, in_dir("file"), &err), ART_IO, err, "file");
    EXPECT_STATUS(load(a, in_dir("file"), &err), ART_IO, err, "file");
    EXPECT_STATUS(save(a, deep, &err), ART_IO, err, "4999 characters");
    EXPECT_STATUS(save(a, "", &err), ART_IO, err, "0 characters");
    EXPECT(art_dir_make(in_dir("dir/step-000000000000.ckpt"), &err) == ART_OK);
    EXPECT_STATUS(save(a, in_dir("dir"), &err), ART_IO, err, "not a regular file");
    rmdir(in_dir("dir/step-000000000000.ckpt"));
    art_engine_close(a);
}

/* The medium fails while tensors are read: the engine refuses to go on with half of them, and both
 * messages say how to go on. */
static void fail_while_loading(void) {
    art_error err;
    double loss;
    static float x[4 * 2 * 8 * 8];
    static const int32_t labels[4];
    art_engine *a = cnn_engine(1, 1, 4), *b = cnn_engine(2, 1, 4);
    int broken = 0;
    scramble(a, 0);
    EXPECT_STATUS(save(a, in_dir("h"), &err), ART_OK, err, "");
    uint32_t whole = digest(a);
    for (int reads = 0; reads < 100; reads++) {
        art_engine_initialize(b, &err);
        uint32_t before = digest(b);
        good_reads = reads;
        art_status status = load(b, in_dir("h"), &err);
        good_reads = -1;
        if (status == ART_OK) {
            EXPECT(digest(b) == whole);
            break;
        }
        EXPECT(status == ART_NO_CHECKPOINT && strstr(err.text, "1 that cannot be read") != NULL);
        EXPECT(strstr(err.text, "resume again, or start a new run") != NULL);
        EXPECT(strstr(note, strerror(EIO)) != NULL && strstr(note, "see dmesg") != NULL);
        if (b->ready) {
            EXPECT(digest(b) == before && strstr(err.text, "some weights were") == NULL);
            continue;
        }
        broken++;
        EXPECT(strstr(err.text, "some weights were replaced and some were not: load a") != NULL);
        EXPECT_STATUS(art_engine_train_step(b, x, labels, 4, &loss, &err), ART_USE, err,
                      "broke off half-way: load a whole file, resume");
        EXPECT_STATUS(save(b, in_dir("h2"), &err), ART_USE, err, "broke off half-way");
        EXPECT_STATUS(load(b, in_dir("h"), &err), ART_OK, err, "");
        EXPECT(digest(b) == whole);
    }
    EXPECT(broken > 5);
    art_engine_close(a);
    art_engine_close(b);
}

/* One run in a directory, until its process ends in whatever way. */
static void lock_directory(void) {
    art_error err;
    char held[64], byte;
    int fd, second, told[2];
    bool locked;
    EXPECT(art_dir_make(in_dir("l"), &err) == ART_OK && pipe(told) == 0);
    EXPECT_STATUS(art_dir_lock(in_dir("none"), &fd, &locked, &err), ART_IO, err, "none");
    EXPECT_STATUS(art_dir_lock(in_dir("l"), &fd, &locked, &err), ART_OK, err, "");
    EXPECT_STATUS(art_dir_lock(in_dir("l"), &second, &locked, &err), ART_IO, err,
                  "wait for it or stop it");
    EXPECT(fd >= 0 && second < 0 && count_names(in_dir("l"), "") == 2); /* . and .. */
    close(fd);
    static const int codes[] = {ENOLCK, EOPNOTSUPP, EBADF};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        no_locks = codes[i];
        EXPECT_STATUS(art_dir_lock(in_dir("l"), &fd, &locked, &err), ART_OK, err, "");
        EXPECT(fd >= 0 && !locked);
        close(fd);
    }
    no_locks = 0;
    pid_t child = fork();
    if (child == 0) {
        int status = art_dir_lock(in_dir("l"), &fd, &locked, &err);
        (void)!syscall(SYS_write, told[1], status == ART_OK ? "y" : "n", 1);
        pause();
        _exit(0);
    }
    EXPECT(child > 0 && read(told[0], &byte, 1) == 1 && byte == 'y');
    EXPECT_STATUS(art_dir_lock(in_dir("l"), &fd, &locked, &err), ART_IO, err, "another run");
    snprintf(held, sizeof held, "(process %ld)", (long)child);
    if (strstr(err.text, held) == NULL) {
        printf("checkpoint: the kernel does not tell here who holds a lock: %s\n", err.text);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    EXPECT_STATUS(art_dir_lock(in_dir("l"), &fd, &locked, &err), ART_OK, err, "");
    close(fd);
    close(told[0]);
    close(told[1]);
}

static unsigned mode_of(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 ? info.st_mode & 0777u : 0;
}

/* A file that is replaced hands on its mode, a new one follows the umask. */
static void keep_modes(void) {
    static const unsigned modes[] = {0600, 0640, 0444, 0664};
    static art_writer writer;
    art_error err;
    mode_t before = umask(027);
    EXPECT_STATUS(art_writer_open(&writer, in_dir("m-new"), &err), ART_OK, err, "");
    EXPECT_STATUS(art_writer_commit(&writer, &err), ART_OK, err, "");
    EXPECT(mode_of(in_dir("m-new")) == 0640);
    umask(before);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        write_bytes(in_dir("m-old"), "old", 3);
        EXPECT(chmod(in_dir("m-old"), modes[i]) == 0);
        EXPECT_STATUS(art_writer_open(&writer, in_dir("m-old"), &err), ART_OK, err, "");
        EXPECT(mode_of(in_dir(writer.temporary)) == modes[i]);
        EXPECT_STATUS(art_writer_put(&writer, "new", 3, &err), ART_OK, err, "");
        EXPECT_STATUS(art_writer_commit(&writer, &err), ART_OK, err, "");
        EXPECT(mode_of(in_dir("m-old")) == modes[i]);
        unlink(in_dir("m-old"));
    }
    unlink(in_dir("m-new"));
}

/* What a save would refuse is refused by asking, which leaves nothing behind. */
static void probe(void) {
    static art_writer writer;
    art_error err;
    EXPECT(art_dir_make(in_dir("p"), &err) == ART_OK);
    EXPECT_STATUS(art_writer_probe(&writer, in_dir("p/f"), &err), ART_OK, err, "");
    EXPECT(count_names(in_dir("p"), "f") == 0 && count_names(in_dir("p"), ".tmp") == 0);
    EXPECT_STATUS(art_writer_probe(&writer, in_dir("p/no/f"), &err), ART_IO, err, "create it");
    EXPECT_STATUS(art_writer_probe(&writer, in_dir("p"), &err), ART_IO, err, "not a regular file");
    EXPECT_STATUS(art_writer_probe(&writer, in_dir("p/"), &err), ART_IO, err, "not a regular");
    EXPECT_STATUS(art_writer_probe(&writer, "", &err), ART_IO, err, "0 characters");
    EXPECT(strcmp(art_errno_advice(ENOSPC), art_errno_advice(EACCES)) != 0);
    if (geteuid() != 0) {
        EXPECT(chmod(in_dir("p"), 0555) == 0);
        EXPECT_STATUS(art_writer_probe(&writer, in_dir("p/f"), &err), ART_IO, err, "the rights");
        EXPECT(chmod(in_dir("p"), 0755) == 0);
        return;
    }
    EXPECT(chmod(storage_dir, 0755) == 0);
    pid_t child = fork();
    if (child == 0) { /* somebody who may not write there */
        bool refused = setgid(65534) == 0 && setuid(65534) == 0 &&
                       art_writer_probe(&writer, in_dir("p/f"), &err) == ART_IO &&
                       strstr(err.text, "give this user the rights") != NULL;
        _exit(refused ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT(status == 0);
}

int main(void) {
    storage_start();
    round_trip();
    damage();
    fall_back();
    other_models_and_levels();
    refuse_nonfinite();
    keep_the_newest();
    sweep_leftovers();
    fail_every_call();
    no_room(true);
    no_room(false);
    bad_places();
    fail_while_loading();
    lock_directory();
    keep_modes();
    probe();
    storage_end();
    return expect_done("checkpoint");
}
