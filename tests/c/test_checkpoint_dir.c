/* Which directory a checkpoint goes to: the one that the run holds, whatever its name means by
 * then, and never through a link. */
#include "engine/checkpoint.h"
#include "storage.h"

static char note[4096];

static art_status save(const art_engine *engine, const char *dir, art_error *err) {
    return art_checkpoint_save(engine, dir, 2, err);
}

static art_status load(art_engine *engine, const char *dir, art_error *err) {
    return art_checkpoint_load(engine, dir, note, sizeof note, err);
}

/* A checkpoint goes into the directory that the run holds, and into no other of its name. */
static void held_directory(void) {
    art_error err;
    int fd;
    bool locked;
    art_engine *a = cnn_engine(1, 1, 4);
    EXPECT(art_dir_make(in_dir("v"), &err) == ART_OK);
    EXPECT_STATUS(art_dir_lock(in_dir("v"), &fd, &locked, &err), ART_OK, err, "");
    EXPECT_STATUS(art_checkpoint_save_held(a, in_dir("v"), fd, 2, &err), ART_OK, err, "");
    EXPECT(symlink("v", in_dir("v-link")) == 0);
    EXPECT_STATUS(art_checkpoint_save_held(a, in_dir("v-link"), fd, 2, &err), ART_OK, err, "");
    EXPECT(rename(in_dir("v"), in_dir("v-old")) == 0);
    EXPECT_STATUS(art_checkpoint_save_held(a, in_dir("v"), fd, 2, &err), ART_IO, err,
                  "was removed or renamed while this run used it");
    EXPECT(!file_exists(in_dir("v")));
    EXPECT(mkdir(in_dir("v"), 0755) == 0);
    EXPECT_STATUS(art_checkpoint_save_held(a, in_dir("v"), fd, 2, &err), ART_IO, err,
                  "was replaced by another one while this run used it");
    EXPECT(count_names(in_dir("v"), "") == 2 && count_names(in_dir("v-old"), ".ckpt") == 1);
    EXPECT(rmdir(in_dir("v")) == 0 && rename(in_dir("v-old"), in_dir("v")) == 0);
    EXPECT_STATUS(art_checkpoint_save_held(a, in_dir("v"), fd, 2, &err), ART_OK, err, "");
    close(fd);
    art_engine_close(a);
}

/* Once checked, a directory is used by its descriptor alone: what has its name by then is another
 * run's. */
static void descriptors_are_not_names(void) {
    static art_writer writer;
    art_error err;
    art_dir mine;
    art_file file;
    EXPECT(art_dir_make(in_dir("u"), &err) == ART_OK);
    EXPECT_STATUS(art_dir_open(&mine, in_dir("u"), NULL, &err), ART_OK, err, "");
    EXPECT(rename(in_dir("u"), in_dir("u-mine")) == 0 && mkdir(in_dir("u"), 0755) == 0);
    EXPECT_STATUS(art_writer_open_in(&writer, mine.fd, in_dir("u/f"), &err), ART_OK, err, "");
    EXPECT_STATUS(art_writer_put(&writer, "mine", 4, &err), ART_OK, err, "");
    EXPECT_STATUS(art_writer_commit(&writer, &err), ART_OK, err, "");
    EXPECT(file_exists(in_dir("u-mine/f")) && !file_exists(in_dir("u/f")));
    EXPECT_STATUS(art_file_open_in(&file, mine.fd, in_dir("u/f"), &err), ART_OK, err, "");
    EXPECT(file.bytes == 4);
    art_file_close(&file);
    art_dir again;
    EXPECT_STATUS(art_dir_open_again(&again, mine.fd, in_dir("u"), &err), ART_OK, err, "");
    const char *name = "";
    bool seen = false;
    while (art_dir_next(&again, &name, &err) == ART_OK && name != NULL) {
        seen = seen || strcmp(name, "f") == 0;
    }
    EXPECT(seen);
    art_dir_close(&again);
    art_dir_close(&mine);
}

/* A link with the name of the next file is replaced; what it points to belongs to somebody else. */
static void foreign_links(void) {
    static const char *const targets[] = {"../user", "nowhere", "."};
    static const char file[] = "y/step-000000000000.ckpt";
    art_error err;
    bytes user;
    struct stat info;
    art_engine *a = cnn_engine(1, 1, 4);
    EXPECT(art_dir_make(in_dir("y"), &err) == ART_OK);
    write_bytes(in_dir("user"), "mine", 4);
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        unlink(in_dir(file));
        EXPECT(symlink(targets[i], in_dir(file)) == 0);
        EXPECT_STATUS(save(a, in_dir("y"), &err), ART_OK, err, "");
        EXPECT(lstat(in_dir(file), &info) == 0 && S_ISREG(info.st_mode));
        EXPECT(!file_exists(in_dir("y/nowhere")));
        EXPECT_STATUS(load(a, in_dir("y"), &err), ART_OK, err, "");
    }
    read_file(in_dir("user"), &user);
    EXPECT(user.n == 4 && memcmp(user.data, "mine", 4) == 0);
    art_engine_close(a);
}

int main(void) {
    storage_start();
    held_directory();
    descriptors_are_not_names();
    foreign_links();
    storage_end();
    return expect_done("checkpoint directory");
}
