/* The data readers, options and numbers of armtrain-run: what they read and what they refuse. */
#include <math.h>

#include "core/crc32.h"
#include "run/options.h"
#include "run/report.h"
#include "run/source.h"
#include "storage.h"

static const char *const command = "armtrain convert-data idx:i,l -o data.npz";
static art_error err;

/* --- IDX ------------------------------------------------------------------------------------- */

static void idx_open(const void *data, size_t n, art_status code, const char *part) {
    run_column column;
    write_bytes(in_dir("i"), data, n);
    EXPECT_STATUS(run_open_idx(&column, in_dir("i"), command, &err), code, err, part);
    if (code == ART_OK) {
        art_file_close(&column.file);
    }
}

static void idx_files(void) {
    static const unsigned char head[] = {0, 0, 8, 3, 0, 0, 0xEA, 0x60, 0, 0, 0, 28, 0, 0, 0, 28};
    run_column c;
    float x[4];
    int64_t y[2];
    idx_open("\x1F\x8B\x08\x08", 4, ART_DATA, command);
    idx_open(head, sizeof head, ART_DATA, "expected 47040016 B), got 16 B (0 entries)");
    idx_open("", 0, ART_DATA, "no IDX file");
    idx_open("\0\0\x0A\1\0\0\0\0", 8, ART_DATA, "no IDX file: its 4 first bytes are 00 00 0a 01");
    idx_open("\0\0\x08\7\0\0\0\0", 8, ART_DATA, "7 dimensions");
    idx_open("\0\0\x08\0\0\0\0\0", 8, ART_DATA, "0 dimensions");
    idx_open("\0\0\x08\2\0\0\0\1", 8, ART_DATA, "damaged");
    idx_open("\0\0\x08\1\0\0\0\x64"
             "12345",
             13, ART_DATA, "(100 entries, expected 108 B), got 13");
    idx_open("\0\0\x08\1\0\0\0\2xyz", 11, ART_DATA, "expected 10 B), got 11 B");
    unsigned char huge[28] = {0, 0, 14, 6};
    memset(huge + 4, 0xFF, 24);
    idx_open(huge, sizeof huge, ART_DATA, "more than any file holds");
    idx_open("\0\0\x08\3\0\0\0\2\0\0\0\1\0\0\0\2\0\x80\xFF\1", 20, ART_OK, "");
    EXPECT(run_open_idx(&c, in_dir("i"), command, &err) == ART_OK);
    EXPECT(c.count == 2 && c.row_elements == 2 && c.ndim == 2 && c.dims[1] == 2);
    EXPECT(run_column_floats(&c, 0, 0, 2, x, &err) == ART_OK);
    EXPECT(x[0] == 0.0f && x[1] == 128 / 255.0f);
    EXPECT(run_column_floats(&c, 1, 0, 2, x, &err) == ART_OK && x[0] == 1.0f);
    art_file_close(&c.file);
    idx_open("\0\0\x0B\1\0\0\0\2\xFF\xFE\1\2", 12, ART_OK, ""); /* big-endian int16 */
    EXPECT(run_open_idx(&c, in_dir("i"), command, &err) == ART_OK);
    EXPECT(run_column_integers(&c, 0, 2, y, &err) == ART_OK && y[0] == -2 && y[1] == 258);
    art_file_close(&c.file);
    idx_open("\0\0\x0E\1\0\0\0\1\x3F\xF8\0\0\0\0\0\0", 16, ART_OK, ""); /* big-endian 1.5 */
    EXPECT(run_open_idx(&c, in_dir("i"), command, &err) == ART_OK);
    EXPECT(run_column_floats(&c, 0, 0, 1, x, &err) == ART_OK && x[0] == 1.5f);
    art_file_close(&c.file);
}

/* Positions beyond 32 bits, on processors of 32 bits too: the last of 5,000,000 rows of 1000 B. */
static void idx_beyond_four_gigabytes(void) {
    static const unsigned char head[] = {0, 0, 8, 2, 0, 0x4C, 0x4B, 0x40, 0, 0, 3, 0xE8};
    run_column c;
    float x[1000];
    write_bytes(in_dir("big"), head, sizeof head);
    int fd = open(in_dir("big"), O_WRONLY | O_CLOEXEC);
    const off_t end = (off_t)sizeof head + 5000000000LL;
    EXPECT(fd >= 0);
    if (ftruncate(fd, end) != 0 || pwrite(fd, "\xFF", 1, end - 1) != 1) {
        printf("skipped: no sparse file of 5 GB in %s\n", storage_dir);
    } else {
        EXPECT(run_open_idx(&c, in_dir("big"), command, &err) == ART_OK && c.count == 5000000);
        EXPECT(run_column_floats(&c, 4999999, 0, 1000, x, &err) == ART_OK);
        EXPECT(x[998] == 0.0f && x[999] == 1.0f);
        art_file_close(&c.file);
    }
    close(fd);
    unlink(in_dir("big"));
}

/* A 32-bit count of seconds ends in 2038; a clock that is wrong may date files later. */
static void idx_dated_after_2038(void) {
    const struct timespec times[2] = {{.tv_sec = 2300000000LL}, {.tv_sec = 2300000000LL}};
    write_bytes(in_dir("late"), "\0\0\x08\1\0\0\0\2\1\2", 10);
    EXPECT(utimensat(AT_FDCWD, in_dir("late"), times, 0) == 0);
    run_column c;
    EXPECT(run_open_idx(&c, in_dir("late"), command, &err) == ART_OK && c.count == 2);
    art_file_close(&c.file);
}

/* --- npy and npz ----------------------------------------------------------------------------- */

/* An npy array: a header dictionary and data bytes. */
static size_t npy(unsigned char *out, unsigned version, const char *dictionary, const void *data,
                  size_t n) {
    size_t length = strlen(dictionary), start = version == 1 ? 10 : 12;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (unsigned char)version;
    out[7] = 0;
    memset(out + 8, 0, 4);
    out[8] = (unsigned char)length;
    out[9] = (unsigned char)(length >> 8);
    memcpy(out + start, dictionary, length);
    memcpy(out + start + length, data, n);
    return start + length + n;
}

static void npy_open(unsigned version, const char *dictionary, size_t n, art_status code,
                     const char *part) {
    static unsigned char array[1024], data[512];
    run_column c = {.name = "a"};
    size_t total = npy(array, version, dictionary, data, n);
    write_bytes(in_dir("a"), array, total);
    EXPECT(art_file_open(&c.file, in_dir("a"), &err) == ART_OK);
    EXPECT_STATUS(run_parse_npy(&c, total, &err), code, err, part);
    art_file_close(&c.file);
}

static void npy_headers(void) {
    const char *plain = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }      \n";
    npy_open(1, plain, 24, ART_OK, "");
    npy_open(2, plain, 24, ART_OK, "");
    npy_open(3, plain, 24, ART_OK, "");
    npy_open(4, plain, 24, ART_DATA, "version 1, 2 or 3");
    npy_open(1, plain, 23, ART_DATA, "needs 24 B, the file holds 23 B");
    npy_open(1, plain, 25, ART_DATA, "the file holds 25 B");
    npy_open(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (3,)}", 3, ART_OK, "");
    npy_open(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2)}", 24, ART_DATA,
             "Fortran");
    npy_open(1, "{'shape': (3,), 'fortran_order': False, 'descr': \">i8\"}", 24, ART_OK, "");
    npy_open(1, "{'descr': '<c8', 'fortran_order': False, 'shape': (3,)}", 24, ART_DATA, "'<c8'");
    npy_open(1, "{'descr': '|O', 'fortran_order': False, 'shape': (3,)}", 24, ART_DATA, "'|O'");
    npy_open(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}", 12, ART_DATA,
             "plain array");
    npy_open(1, "{'descr': '<f4', 'fortran_order': False, 'shape': ()}", 4, ART_DATA,
             "single number");
    npy_open(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 4)}", 4,
             ART_DATA, "needs");
    npy_open(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 4, ART_DATA, "plain");
    npy_open(1, "{'descr': '<f4', 'fortran_order': False}", 4, ART_DATA, "plain array");
    npy_open(1, "{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}", 4, ART_DATA, "plain array");
    npy_open(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1)}", 4,
             ART_DATA, "at most 9 dimensions");
}

/* A zip archive under construction. */
typedef struct zip {
    unsigned char data[FILE_MOST], central[4096];
    size_t n, n_central;
    unsigned members;
} zip;

static void u16(unsigned char *p, unsigned v) {
    p[0] = (unsigned char)v;
    p[1] = (unsigned char)(v >> 8);
}

static void u32(unsigned char *p, uint64_t v) {
    u16(p, (unsigned)(v & 0xFFFF));
    u16(p + 2, (unsigned)(v >> 16 & 0xFFFF));
}

/* Append a member; wide: its sizes are in a 64-bit extra field. */
static void zip_add(zip *z, const char *name, const void *data, size_t n, unsigned method,
                    bool wide) {
    unsigned char *local = z->data + z->n, *central = z->central + z->n_central;
    size_t name_bytes = strlen(name), extra = wide ? 28 : 0;
    memset(local, 0, 30);
    memset(central, 0, 46 + name_bytes + extra);
    memcpy(local, "PK\3\4", 4);
    u16(local + 26, (unsigned)name_bytes);
    memcpy(local + 30, name, name_bytes);
    memcpy(local + 30 + name_bytes, data, n);
    memcpy(central, "PK\1\2", 4);
    u16(central + 10, method);
    u32(central + 16, art_crc32(0, data, n));
    u32(central + 20, wide ? UINT32_MAX : n);
    u32(central + 24, wide ? UINT32_MAX : n);
    u16(central + 28, (unsigned)name_bytes);
    u16(central + 30, (unsigned)extra);
    u32(central + 42, wide ? UINT32_MAX : z->n);
    memcpy(central + 46, name, name_bytes);
    if (wide) {
        unsigned char *p = central + 46 + name_bytes;
        uint64_t fields[3] = {n, n, z->n};
        u16(p, 1);
        u16(p + 2, 24);
        memcpy(p + 4, fields, 24);
    }
    z->n += 30 + name_bytes + n;
    z->n_central += 46 + name_bytes + extra;
    z->members++;
}

static void zip_end(zip *z, bool wide, const char *comment) {
    size_t begin = z->n;
    memcpy(z->data + z->n, z->central, z->n_central);
    z->n += z->n_central;
    if (wide) {
        unsigned char *p = z->data + z->n;
        uint64_t fields[4] = {z->members, z->members, z->n_central, begin}, at = z->n;
        memset(p, 0, 76);
        memcpy(p, "PK\6\6", 4);
        memcpy(p + 24, fields, sizeof fields);
        memcpy(p + 56, "PK\6\7", 4);
        memcpy(p + 64, &at, 8);
        z->n += 76;
    }
    unsigned char *end = z->data + z->n;
    memset(end, 0, 22);
    memcpy(end, "PK\5\6", 4);
    u16(end + 10, wide ? 65535 : z->members);
    u32(end + 12, wide ? UINT32_MAX : z->n_central);
    u32(end + 16, wide ? UINT32_MAX : begin);
    u16(end + 20, (unsigned)strlen(comment));
    memcpy(end + 22, comment, strlen(comment));
    z->n += 22 + strlen(comment);
    write_bytes(in_dir("z"), z->data, z->n);
}

static run_about about;

static void npz_open(art_status code, const char *part) {
    run_column x, y;
    bool has_y;
    EXPECT_STATUS(run_open_npz(&x, &y, &has_y, &about, in_dir("z"), &err), code, err, part);
    if (code == ART_OK) {
        float value;
        EXPECT(has_y && x.count == 2 && y.count == 2);
        EXPECT(run_column_floats(&x, 1, 0, 1, &value, &err) == ART_OK && value == 2.5f);
        art_file_close(&x.file);
        art_file_close(&y.file);
    }
}

static void npz_abouts(const unsigned char *x, size_t nx, const unsigned char *y, size_t ny) {
    static zip z;
    static const struct {
        const char *text;
        size_t bytes;
        art_status code;
        const char *part;
    } texts[] = {
        {"{\"a\":\"b\"}", 9, ART_OK, ""},
        {"{}", 2, ART_OK, ""},
        {"{\"a\":1}", 7, ART_FILE_FORMAT, ""},
        {"{} x", 4, ART_FILE_FORMAT, "after the last brace"},
        {"{}\0", 3, ART_FILE_FORMAT, ""},
        {"[]", 2, ART_FILE_FORMAT, ""},
        {"", 0, ART_DATA, "1 to 1048576 are possible"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        memset(&z, 0, sizeof z);
        zip_add(&z, "x.npy", x, nx, 0, false);
        zip_add(&z, "about.json", texts[i].text, texts[i].bytes, 0, false);
        zip_add(&z, "y.npy", y, ny, 0, false);
        zip_end(&z, false, "");
        npz_open(texts[i].code, texts[i].part);
        EXPECT(texts[i].code != ART_OK || about.bytes == texts[i].bytes);
    }
}

static void npz_files(void) {
    static zip z;
    static unsigned char x[256], y[256];
    const double values[2] = {-1.0, 2.5};
    const int64_t labels[2] = {0, 1};
    size_t nx = npy(x, 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 1), }\n", values,
                    sizeof values);
    size_t ny = npy(y, 2, "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }\n", labels,
                    sizeof labels);
    npz_abouts(x, nx, y, ny);
    for (int wide = 0; wide < 2; wide++) {
        memset(&z, 0, sizeof z);
        zip_add(&z, "other.npy", "?", 1, 8, false);
        zip_add(&z, "x.npy", x, nx, 0, wide);
        zip_add(&z, "y.npy", y, ny, 0, false);
        zip_end(&z, wide, wide ? "a comment with PK\5\6 in it" : "");
        npz_open(ART_OK, "");
        for (size_t i = 0; i < 100; i++) {
            write_bytes(in_dir("z"), z.data, z.n * i / 100);
            npz_open(ART_DATA, "npz file");
        }
    }
    memset(&z, 0, sizeof z);
    zip_add(&z, "x.npy", x, nx, 8, false);
    zip_end(&z, false, "");
    npz_open(ART_DATA, "run `armtrain convert-data npz:");
    memset(&z, 0, sizeof z);
    zip_add(&z, "y.npy", x, nx, 0, false);
    zip_end(&z, false, "");
    npz_open(ART_DATA, "no array named x");
    memset(&z, 0, sizeof z);
    zip_add(&z, "x.npy", x, nx - 1, 0, false);
    zip_end(&z, false, "");
    npz_open(ART_DATA, "needs 16 B, the file holds 15 B");
}

/* A byte that changed in the data of a stored member is found before it is trained on. */
static void npz_checksums(void) {
    static zip z;
    static unsigned char x[256];
    const double values[2] = {-1.0, 2.5};
    size_t n = npy(x, 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 1), }\n", values,
                   sizeof values);
    for (size_t i = n - sizeof values; i < n; i++) {
        char said[64];
        memset(&z, 0, sizeof z);
        zip_add(&z, "x.npy", x, n, 0, false);
        zip_add(&z, "y.npy", x, n, 0, false);
        uint32_t before = art_crc32(0, x, n);
        z.data[35 + i] ^= 1;
        snprintf(said, sizeof said, "the CRC-32 %08x, the archive says %08x",
                 art_crc32(0, z.data + 35, n), before);
        zip_end(&z, false, "");
        npz_open(ART_DATA, said);
        npz_open(ART_DATA, "z:x is damaged");
    }
}

/* --- sources --------------------------------------------------------------------------------- */

static void source_open(const art_engine *engine, const char *spec, art_status code,
                        const char *part) {
    static run_source s;
    char why[512];
    EXPECT(run_parse_spec(spec, &s.spec, why, sizeof why));
    EXPECT_STATUS(run_source_open(&s, engine, &err), code, err, part);
    if (code == ART_OK) {
        run_source_close(&s);
    }
}

/* n images of the CNN's shape as IDX, channels first or last, and labels of one byte. */
static const char *write_idx(unsigned n, bool last, const char *labels, unsigned n_labels) {
    static char spec[1300];
    unsigned char file[16384] = {0, 0, 8, 4, 0, 0, 0, (unsigned char)n};
    file[11] = last ? CNN_SIDE : CNN_IN;
    file[15] = CNN_SIDE;
    file[19] = last ? CNN_IN : CNN_SIDE;
    write_bytes(in_dir("i"), file, 20 + n * CNN_IN * CNN_SIDE * CNN_SIDE);
    unsigned char head[264] = {0, 0, 8, 1, 0, 0, 0, (unsigned char)n_labels};
    memcpy(head + 8, labels, n_labels);
    write_bytes(in_dir("l"), head, 8 + n_labels);
    snprintf(spec, sizeof spec, "idx:%s,%s", in_dir("i"), in_dir("l"));
    return spec;
}

/* One image of the CNN's shape and its label, as large as uint64 can hold it. */
static const char *write_npz_label(uint64_t label) {
    static zip z;
    static unsigned char x[16384], y[256];
    static const unsigned char pixels[CNN_IN * CNN_SIDE * CNN_SIDE];
    static char spec[1300], dictionary[128];
    snprintf(dictionary, sizeof dictionary,
             "{'descr': '|u1', 'fortran_order': False, 'shape': (1, %d, %d, %d), }\n", CNN_IN,
             CNN_SIDE, CNN_SIDE);
    memset(&z, 0, sizeof z);
    zip_add(&z, "x.npy", x, npy(x, 1, dictionary, pixels, sizeof pixels), 0, false);
    size_t n = npy(y, 1, "{'descr': '<u8', 'fortran_order': False, 'shape': (1,), }\n", &label, 8);
    zip_add(&z, "y.npy", y, n, 0, false);
    zip_end(&z, false, "");
    snprintf(spec, sizeof spec, "npz:%s", in_dir("z"));
    return spec;
}

static void sources(void) {
    art_engine *engine = cnn_engine(0, 1, 4);
    source_open(engine, write_idx(3, false, "\0\1\2", 3), ART_OK, "");
    source_open(engine, write_idx(3, false, "\0\1", 2), ART_DATA, "has 3 samples");
    source_open(engine, write_idx(0, false, "", 0), ART_DATA, "no samples");
    source_open(engine, write_idx(3, true, "\0\1\2", 3), ART_SHAPE, "channels-last");
    source_open(engine, write_idx(3, false, "\1\2\3", 3), ART_LABEL,
                "these lie in 1..3; the first bad one is in row 2 (counted from 0); labels look "
                "1-based");
    source_open(engine, write_idx(3, false, "\0\xFF\1", 3), ART_LABEL, "row 1");
    source_open(engine, write_idx(3, false, "\0\xFF\1", 3), ART_LABEL, "256 outputs");
    source_open(engine, write_npz_label(1), ART_OK, "");
    source_open(engine, write_npz_label(1ull << 63), ART_LABEL,
                "these lie in 9223372036854775807..9223372036854775807 or more; the first bad one "
                "is in row 0 (counted from 0); map the values to 0..");
    EXPECT(strstr(err.text, "outputs") == NULL);
    source_open(engine, "random:", ART_OK, "");
    source_open(engine, "npz:/nowhere/at/all.npz", ART_IO, "/nowhere/at/all.npz");
    art_engine_close(engine);
}

static void batches(void) {
    static run_source s;
    char why[64];
    int32_t labels[4] = {-1, -1, -1, -1};
    float x[CNN_IN * CNN_SIDE * CNN_SIDE], expected[CNN_IN * CNN_SIDE * CNN_SIDE];
    art_engine *engine = cnn_engine(0, 1, 4);
    uint32_t input = engine->io[ART_PHASE_TRAIN].input;
    EXPECT(run_parse_spec("random:samples=9,seed=7", &s.spec, why, sizeof why));
    EXPECT(run_source_open(&s, engine, &err) == ART_OK && s.count == 9);
    int32_t label;
    art_random_sample(engine, 7, 5, expected, &label);
    EXPECT(run_source_put(&s, engine, ART_PHASE_TRAIN, 5, 2, labels, &err) == ART_OK);
    art_layout_read(engine, input, 2 * sizeof x / 4, sizeof x / 4, x);
    EXPECT(memcmp(x, expected, sizeof x) == 0 && labels[2] == label && labels[1] == -1);
    /* A batch placed in the arena gives the bits of a batch that is handed over. */
    float whole[4][CNN_IN * CNN_SIDE * CNN_SIDE];
    double handed = 0, placed = 0;
    for (uint32_t i = 0; i < 4; i++) {
        art_random_sample(engine, 7, i, whole[i], &labels[i]);
    }
    EXPECT(art_engine_train_step(engine, whole[0], labels, 4, &handed, &err) == ART_OK);
    uint32_t after = digest(engine);
    EXPECT(art_engine_initialize(engine, &err) == ART_OK);
    for (uint32_t i = 0; i < 4; i++) {
        EXPECT(run_source_put(&s, engine, ART_PHASE_TRAIN, i, i, labels, &err) == ART_OK);
    }
    EXPECT(art_engine_train_step(engine, art_engine_tensor_data(engine, input), labels, 4, &placed,
                                 &err) == ART_OK);
    EXPECT(handed == placed && digest(engine) == after);
    run_source_close(&s);
    art_engine_close(engine);
}

static void specs(void) {
    static const char *const bad[] = {
        "",
        "digits",
        "idx:",
        "idx:a",
        "idx:a,",
        "idx:,b",
        "idx:a,b,c",
        "npz:",
        "randomly",
        "random:samples=0",
        "random:samples=",
        "random:samples=1,samples=2",
        "random:seed=-1",
        "random:seed=1x",
        "random:sample=3",
        "random:seed=1,",
        "random:samples=99999999999999999999",
    };
    static run_spec s;
    char why[512];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EXPECT(!run_parse_spec(bad[i], &s, why, sizeof why) && strstr(why, "npz:FILE") != NULL);
    }
    EXPECT(run_parse_spec("idx:a b,c.d", &s, why, sizeof why) && strcmp(s.first, "a b") == 0 &&
           strcmp(s.second, "c.d") == 0);
    EXPECT(run_parse_spec("random:seed=3,samples=48", &s, why, sizeof why) && s.samples == 48 &&
           s.seed == 3);
    EXPECT(run_parse_spec("random:", &s, why, sizeof why) && s.samples == 0 && s.seed == 0);
}

static void options(void) {
    static const char *const bad[][8] = {
        {"run"},
        {"run", "p"},
        {"run", "p", "--data", "d"},
        {"run", "p", "--data", "d", "--epochs"},
        {"run", "p", "--data", "d", "--epochs", "x"},
        {"run", "p", "--data", "d", "--epochs=1", "--resume"},
        {"run", "p", "--data", "d", "--epochs=1", "--checkpoint-every=3"},
        {"run", "p", "--data", "d", "--epochs=1", "--checkpoint=c", "--checkpoint-every=0"},
        {"run", "p", "q", "--data", "d", "--epochs=1"},
        {"run", "p", "--data", "d", "--epochs=1", "--resume=1"},
        {"run", "p", "--data=", "--epochs=1"},
        {"run", "p", "--data", "d", "--epochs=1", "--unknown"},
    };
    run_options o;
    char why[256];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int n = 0;
        while (n < 8 && bad[i][n] != NULL) {
            n++;
        }
        why[0] = '\0';
        EXPECT(!run_parse_options(n, (char **)bad[i], &o, why, sizeof why) && why[0] != '\0');
    }
    const char *good[] = {"run", "--seed",    "18446744073709551615", "p", "--data",
                          "d",   "--epochs=3"};
    EXPECT(run_parse_options(7, (char **)good, &o, why, sizeof why) && o.seed == UINT64_MAX &&
           o.epochs == 3 && strcmp(o.plan, "p") == 0);
}

static void numbers(void) {
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0.1, "0.1"},
        {1.0, "1.0"},
        {0.0, "0.0"},
        {-2.5, "-2.5"},
        {100000.0, "100000.0"},
        {1.0 / 3, "0.3333333333333333"},
        {1e-5, "1e-05"},
        {0.0001, "0.0001"},
        {1e16, "1e+16"},
        {123456789012345.0, "123456789012345.0"},
        {5e-324, "5e-324"},
        {2.302585092994046, "2.302585092994046"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {NAN, "null"},
        {INFINITY, "null"},
    };
    char text[40];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run_number(cases[i].value, text);
        EXPECT(strcmp(text, cases[i].text) == 0);
    }
    EXPECT(run_peak_rss_bytes() > 100000);
}

static void logs(void) {
    run_record r = {.epoch = 3, .kernel_level = "c", .train_loss = 0.5};
    static bytes b;
    int fd;
    const char *text =
        "{\"epoch\": 1, \"a\": 1}\n{\"epoch\":2}\nnoise\n{\"epoch\": 3}\n{\"epoch\": 2";
    write_bytes(in_dir("log"), text, strlen(text));
    EXPECT(run_log_open(in_dir("log"), 2, &fd, &err) == ART_OK);
    EXPECT(run_log_write(fd, in_dir("log"), &r, &err) == ART_OK);
    close(fd);
    read_file(in_dir("log"), &b);
    b.data[b.n] = '\0';
    const char *expected =
        "{\"epoch\": 1, \"a\": 1}\n{\"epoch\":2}\n{\"epoch\": 3, \"kernel_level\": "
        "\"c\", \"train_loss\": 0.5, \"val_loss\": null, \"val_accuracy\": null, ";
    EXPECT(strncmp((char *)b.data, expected, strlen(expected)) == 0);
    EXPECT(run_log_open(in_dir("log"), 0, &fd, &err) == ART_OK);
    close(fd);
    read_file(in_dir("log"), &b);
    EXPECT(b.n == 0);
    EXPECT(run_log_open("/dev/null", 0, &fd, &err) == ART_OK);
    EXPECT(run_log_write(fd, "/dev/null", &r, &err) == ART_OK);
    close(fd);
    EXPECT_STATUS(run_log_open(in_dir("no/log"), 0, &fd, &err), ART_IO, err,
                  "cannot write the log");
    EXPECT(run_log_open(NULL, 0, &fd, &err) == ART_OK && fd == -1);
    static const struct {
        const char *text;
        bool log;
    } cases[] = {{"my notes\n", false}, {"{\"a\": 1}\n", false}, {"{", true}, {"", true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_bytes(in_dir("log"), cases[i].text, strlen(cases[i].text));
        art_status status = run_log_open(in_dir("log"), 0, &fd, &err);
        EXPECT((status == ART_OK) == cases[i].log);
        EXPECT(cases[i].log || strstr(err.text, "is no training log") != NULL);
        read_file(in_dir("log"), &b);
        EXPECT(cases[i].log || b.n == strlen(cases[i].text));
        if (status == ART_OK) {
            close(fd);
        }
    }
}

int main(void) {
    storage_start();
    idx_files();
    idx_beyond_four_gigabytes();
    idx_dated_after_2038();
    npy_headers();
    npz_files();
    npz_checksums();
    sources();
    batches();
    specs();
    options();
    numbers();
    logs();
    storage_end();
    return expect_done("readers");
}
