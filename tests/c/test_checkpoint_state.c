/* Checkpoints whose checksum is right but whose state no run could have: each is skipped with the
 * field and its value, an older one is loaded, and nothing of it reaches the engine. */
#include "engine/checkpoint.h"
#include "engine/monitor.h"
#include "storage.h"

static char note[4096];

/* Change `n` bytes at `offset` of a file and make its checksum right again. */
static void patch(const char *path, size_t offset, const void *value, size_t n) {
    static bytes file;
    read_file(path, &file);
    memcpy(file.data + offset, value, n);
    uint32_t crc = art_crc32(0, file.data + ART_CKPT_CRC_START, file.n - ART_CKPT_CRC_START);
    memcpy(file.data + offsetof(art_ckpt_header, crc32), &crc, sizeof crc);
    write_bytes(path, file.data, file.n);
}

#define STATE(field) (offsetof(art_ckpt_header, state) + offsetof(art_run_state, field))
#define MONITOR(field)                                                                             \
    offsetof(art_ckpt_header, monitor) + offsetof(art_monitor, field),                             \
        sizeof((art_monitor *)NULL)->field

/* The newest checkpoint with these bytes is skipped, the older one with `old` loaded. */
static void expect_skipped(art_engine *a, uint32_t old, size_t offset, const void *value, size_t n,
                           const char *said) {
    art_error err;
    scramble(a, 1);
    EXPECT_STATUS(art_checkpoint_save(a, in_dir("s"), 2, &err), ART_OK, err, "");
    patch(in_dir("s/step-000000001001.ckpt"), offset, value, n);
    EXPECT_STATUS(art_checkpoint_load(a, in_dir("s"), note, sizeof note, &err), ART_OK, err, "");
    EXPECT(digest(a) == old);
    if (strstr(note, said) == NULL) {
        printf("not '%s' but: %s\n", said, note);
        EXPECT(false);
    }
}

static void skip_senseless(void) {
    static const uint64_t huge = UINT64_MAX, most = ART_CKPT_MOST_STEPS, other = 1002;
    static const uint64_t beyond = 78, epochs = 1ull << 31, zero = 0;
    static const double nan_ = 0.0 / 0.0, minus = -1.0, large = 1e300, infinite = 1.0 / 0.0;
    static const struct bad {
        size_t offset;
        const void *value;
        const char *said;
    } bad[] = {
        {STATE(step), &huge, "its step is 18446744073709551615, at most"},
        {STATE(step), &most, "its step is 9223372036854775807, its name says 1001"},
        {STATE(step), &other, "its step is 1002, its name says 1001: rename it"},
        {STATE(epoch), &huge, "its epoch is 18446744073709551615, at most 2147483647"},
        {STATE(epoch), &epochs, "its epoch is 2147483648, at most"},
        {STATE(position), &beyond, "its position is 78, at most 77"},
        {STATE(position), &zero, "its loss_counted is 2.5 at position 0: from 0 on"},
        {STATE(loss_counted), &nan_, "its loss_counted is"},
        {STATE(loss_counted), &infinite, "its loss_counted is inf at position 3"},
        {STATE(loss_counted), &minus, "its loss_counted is -1 at position 3"},
        {STATE(loss_sum), &nan_, "its loss_sum is"},
        {STATE(loss_sum), &infinite, "its loss_sum is inf"},
        {STATE(learning_rate_scale), &nan_, "its learning_rate_scale is"},
        {STATE(learning_rate_scale), &minus, "its learning_rate_scale is -1,"},
        {STATE(learning_rate_scale), &large, "its learning_rate_scale is 1e+300, 0 to"},
    };
    art_error err;
    art_engine *a = cnn_engine(1, 1, 4);
    scramble(a, 0);
    EXPECT_STATUS(art_checkpoint_save(a, in_dir("s"), 2, &err), ART_OK, err, "");
    uint32_t old = digest(a);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        expect_skipped(a, old, bad[i].offset, bad[i].value, 8, bad[i].said);
    }
    art_engine_close(a);
}

/* What a run remembers of its measured epochs. The file's run has 3 epochs, its best is the 1st. */
static void skip_senseless_monitor(void) {
    static const uint32_t unknown = 4, many = 1u << 31;
    static const uint64_t to_come = 4, none = 0;
    static const double nan_ = 0.0 / 0.0, infinite = 1.0 / 0.0, minus = -0.5, above = 1.0 + 0x1p-52;
    static const struct bad {
        size_t offset, n;
        const void *value;
        const char *field;
    } bad[] = {
        {MONITOR(quantity), &unknown, "quantity"},
        {MONITOR(plateau_quantity), &unknown, "plateau_quantity"},
        {MONITOR(plateau_bad), &many, "plateau_bad"},
        {MONITOR(plateau_cooldown), &many, "plateau_cooldown"},
        {MONITOR(epoch), &to_come, "epoch"},
        {MONITOR(epoch), &none, "best_epoch"},
        {MONITOR(best_epoch), &to_come, "best_epoch"},
        {MONITOR(best), &nan_, "best"},
        {MONITOR(plateau_best), &infinite, "plateau_best"},
        {MONITOR(plateau_scale), &nan_, "plateau_scale"},
        {MONITOR(plateau_scale), &minus, "plateau_scale"},
        {MONITOR(plateau_scale), &above, "plateau_scale"},
    };
    char said[80];
    art_error err;
    art_engine *a = cnn_engine(1, 1, 4);
    scramble(a, 0);
    EXPECT_STATUS(art_checkpoint_save(a, in_dir("s"), 2, &err), ART_OK, err, "");
    uint32_t old = digest(a);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(said, sizeof said, "the %s of its measured epochs is none", bad[i].field);
        expect_skipped(a, old, bad[i].offset, bad[i].value, bad[i].n, said);
    }
    art_engine_close(a);
}

/* Before version 1.2 samples counted, in whole numbers. */
static void load_version_1_1(void) {
    static const uint64_t samples = 3;
    static const uint16_t minor = 1;
    art_error err;
    art_engine *a = cnn_engine(1, 1, 4);
    const char *path = in_dir("w/step-000000001000.ckpt");
    scramble(a, 0);
    EXPECT_STATUS(art_checkpoint_save(a, in_dir("w"), 2, &err), ART_OK, err, "");
    patch(path, offsetof(art_ckpt_header, version_minor), &minor, sizeof minor);
    patch(path, STATE(loss_counted), &samples, sizeof samples);
    a->state.loss_counted = 3.0;
    uint32_t old = digest(a);
    scramble(a, 1);
    EXPECT_STATUS(art_checkpoint_load(a, in_dir("w"), note, sizeof note, &err), ART_OK, err, "");
    EXPECT(a->state.loss_counted == 3.0 && digest(a) == old);
    art_engine_close(a);
}

/* Version 1.0 ends before the monitor: it is read as that of a new run. */
static void load_version_1_0(void) {
    enum { LESS = sizeof(art_ckpt_header) - ART_CKPT_HEADER_1_0 };
    static const uint64_t samples = 2;
    static bytes file;
    art_ckpt_header header;
    art_error err;
    art_engine *a = cnn_engine(1, 1, 4);
    const char *path = in_dir("v/step-000000001000.ckpt");
    scramble(a, 0);
    EXPECT_STATUS(art_checkpoint_save(a, in_dir("v"), 2, &err), ART_OK, err, "");
    read_file(path, &file);
    memcpy(&header, file.data, sizeof header);
    header.version_minor = 0;
    memcpy(&header.state.loss_counted, &samples, sizeof samples);
    header.header_bytes = ART_CKPT_HEADER_1_0;
    header.file_bytes -= LESS;
    memmove(file.data + ART_CKPT_HEADER_1_0, file.data + sizeof header, file.n - sizeof header);
    memcpy(file.data, &header, ART_CKPT_HEADER_1_0);
    for (size_t at = ART_CKPT_HEADER_1_0, end = at + header.directory_bytes; at < end;) {
        art_ckpt_record record;
        memcpy(&record, file.data + at, sizeof record);
        record.offset -= LESS;
        memcpy(file.data + at, &record, sizeof record);
        at += sizeof record + art_ckpt_padded(record.name_bytes);
    }
    write_bytes(path, file.data, file.n - LESS);
    patch(path, 0, file.data, 1);
    a->monitor = art_monitor_fresh();
    a->state.loss_counted = 2.0;
    uint32_t fresh = digest(a);
    scramble(a, 1);
    EXPECT_STATUS(art_checkpoint_load(a, in_dir("v"), note, sizeof note, &err), ART_OK, err, "");
    EXPECT(digest(a) == fresh);
    /* With the header's bytes of later versions, and a higher version than is known. */
    static const uint32_t longer = sizeof header;
    static const uint16_t higher = ART_CKPT_VERSION_MINOR + 1;
    patch(path, offsetof(art_ckpt_header, header_bytes), &longer, sizeof longer);
    EXPECT_STATUS(art_checkpoint_load(a, in_dir("v"), note, sizeof note, &err), ART_NO_CHECKPOINT,
                  err, "1 damaged");
    patch(path, offsetof(art_ckpt_header, version_minor), &higher, sizeof higher);
    EXPECT_STATUS(art_checkpoint_load(a, in_dir("v"), note, sizeof note, &err), ART_NO_CHECKPOINT,
                  err, "1 damaged");
    EXPECT(strstr(note, "format version 1.3, this armtrain reads 1.2") != NULL);
    EXPECT(digest(a) == fresh);
    art_engine_close(a);
}

/* The second number of the first tensor. */
static void skip_what_is_not_finite(void) {
    static bytes file;
    static const float nan_ = 0.0f / 0.0f;
    art_error err;
    art_engine *a = cnn_engine(1, 1, 4);
    scramble(a, 0);
    EXPECT_STATUS(art_checkpoint_save(a, in_dir("t"), 2, &err), ART_OK, err, "");
    uint32_t old = digest(a);
    const char *path = in_dir("t/step-000000001000.ckpt");
    read_file(path, &file);
    art_ckpt_header header;
    memcpy(&header, file.data, sizeof header);
    patch(path, sizeof header + header.directory_bytes + 4, &nan_, 4);
    EXPECT_STATUS(art_checkpoint_load(a, in_dir("t"), note, sizeof note, &err), ART_NO_CHECKPOINT,
                  err, "1 damaged");
    EXPECT(strstr(note, "is not finite at element 1") != NULL);
    EXPECT(digest(a) == old);
    art_engine_close(a);
}

/* A terminal obeys control characters: they are not printed. */
static void print_level(void) {
    art_error err;
    art_engine *a = cnn_engine(1, 1, 4);
    scramble(a, 0);
    EXPECT_STATUS(art_checkpoint_save(a, in_dir("u"), 2, &err), ART_OK, err, "");
    patch(in_dir("u/step-000000001000.ckpt"), offsetof(art_ckpt_header, kernel_level),
          "\x1b[2Jx\n\xff", 8);
    EXPECT_STATUS(art_checkpoint_load(a, in_dir("u"), note, sizeof note, &err), ART_OK, err, "");
    EXPECT(strstr(note, "level ?[2Jx??, this run uses c") != NULL);
    art_engine_close(a);
}

int main(void) {
    storage_start();
    skip_senseless();
    skip_senseless_monitor();
    load_version_1_0();
    load_version_1_1();
    skip_what_is_not_finite();
    print_level();
    storage_end();
    return expect_done("checkpoint state");
}
