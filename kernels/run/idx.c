/* IDX files (the format of MNIST and its relatives): two zero bytes, element type, number of
 * dimensions, then big-endian 32-bit dimensions and the elements, big-endian too. */
#include <stdio.h>
#include <string.h>

#include "column.h"

#define IDX_MAX_DIMS 6

static const struct {
    unsigned char code;
    char kind;
    uint8_t size;
} types[] = {
    {0x08, 'u', 1}, {0x09, 'i', 1}, {0x0B, 'i', 2}, {0x0C, 'i', 4}, {0x0D, 'f', 4}, {0x0E, 'f', 8},
};

static bool find_type(run_column *column, unsigned char code) {
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].code == code) {
            column->kind = types[i].kind;
            column->size = types[i].size;
            column->big_endian = types[i].size > 1;
            return true;
        }
    }
    return false;
}

static art_status check_size(run_column *column, const uint64_t *dims, unsigned ndim,
                             art_error *err) {
    uint64_t bytes, expected;
    char text[128];
    size_t n = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < ndim; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%llu", i == 0 ? "" : "x",
                              (unsigned long long)dims[i]);
    }
    ART_FAIL_IF(!run_column_shape(column, dims, ndim, &bytes), err, ART_DATA,
                "%s: the header says %s elements, more than any file holds; copy the file again",
                column->name, text);
    expected = column->offset + bytes;
    uint64_t row_bytes = column->row_elements * column->size;
    uint64_t body = column->file.bytes > column->offset ? column->file.bytes - column->offset : 0;
    ART_FAIL_IF(column->file.bytes != expected, err, ART_DATA,
                "%s: the header says %s (%llu entries, expected %llu B), got %llu B (%llu "
                "entries); copy the file again",
                column->name, text, (unsigned long long)dims[0], (unsigned long long)expected,
                (unsigned long long)column->file.bytes,
                (unsigned long long)(row_bytes == 0 ? 0 : body / row_bytes));
    return ART_OK;
}

static art_status read_header(run_column *column, const char *command, art_error *err) {
    unsigned char head[4 + 4 * IDX_MAX_DIMS] = {0};
    uint64_t dims[IDX_MAX_DIMS];
    size_t got = column->file.bytes < sizeof head ? (size_t)column->file.bytes : sizeof head;
    ART_TRY(art_file_read(&column->file, 0, head, got, err));
    ART_FAIL_IF(got >= 2 && head[0] == 0x1F && head[1] == 0x8B, err, ART_DATA,
                "%s is compressed with gzip, which armtrain-run does not read: run `%s` and use "
                "--data npz:data.npz, or unpack the file",
                column->name, command);
    ART_FAIL_IF(
        got < 4 || head[0] != 0 || head[1] != 0 || !find_type(column, head[2]), err, ART_DATA,
        "%s is no IDX file: its %zu first bytes are %02x %02x %02x %02x, expected 00 00, an "
        "element type (08 to 0e) and the number of dimensions",
        column->name, got < 4 ? got : 4, head[0], head[1], head[2], head[3]);
    unsigned ndim = head[3];
    column->offset = 4 + 4 * (uint64_t)ndim;
    ART_FAIL_IF(ndim < 1 || ndim > IDX_MAX_DIMS || got < column->offset, err, ART_DATA,
                "%s is a damaged IDX file: %u dimensions (1 to %d are possible) in %llu B; copy it "
                "again",
                column->name, ndim, IDX_MAX_DIMS, (unsigned long long)column->file.bytes);
    for (unsigned i = 0; i < ndim; i++) {
        const unsigned char *p = head + 4 + 4 * i;
        dims[i] = (uint64_t)p[0] << 24 | (uint64_t)p[1] << 16 | (uint64_t)p[2] << 8 | p[3];
    }
    return check_size(column, dims, ndim, err);
}

art_status run_open_idx(run_column *column, const char *path, const char *command, art_error *err) {
    memset(column, 0, sizeof *column);
    column->file.fd = -1;
    snprintf(column->name, sizeof column->name, "%s", path);
    ART_TRY(art_file_open(&column->file, path, err));
    art_status status = read_header(column, command, err);
    if (status != ART_OK) {
        art_file_close(&column->file);
    }
    return status;
}
