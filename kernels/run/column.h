/* Columns of samples in files: rows of one shape and type, read a piece at a time by position, so
 * that the size of the data never matters. */
#ifndef ART_RUN_COLUMN_H
#define ART_RUN_COLUMN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"
#include "engine/file_io.h"

#define RUN_MAX_DIMS 8
#define RUN_CHUNK 8192 /* most elements of one read */

typedef struct run_column {
    art_file file;
    char name[256];  /* for messages */
    uint64_t offset; /* file offset of the first row */
    uint64_t count;  /* rows */
    uint64_t row_elements;
    uint64_t dims[RUN_MAX_DIMS]; /* of a row */
    unsigned ndim;
    char kind;    /* f float, i signed, u unsigned, b bool */
    uint8_t size; /* bytes of an element */
    bool big_endian;
    bool whole; /* elements are indices: integers of any type are taken as they are */
} run_column;

/* Rows and their elements from a whole array's dimensions, first one the rows. *bytes is the size
 * of the array; false when that overflows. */
bool run_column_shape(run_column *column, const uint64_t *dims, unsigned ndim, uint64_t *bytes);

/* "uint8", "float64", ... */
const char *run_column_type(const run_column *column, char text[16]);

/* Elements [first, first + count) of a row as the network wants them: uint8 divided by 255, floats
 * as float32, indices as they are. count <= RUN_CHUNK. */
art_status run_column_floats(const run_column *column, uint64_t row, uint64_t first, size_t count,
                             float *out, art_error *err);

/* Rows [first, first + count) of a column of single integers. */
art_status run_column_integers(const run_column *column, uint64_t first, size_t count, int64_t *out,
                               art_error *err);

/* One IDX file. `command` is what to run when it is compressed. */
art_status run_open_idx(run_column *column, const char *path, const char *command, art_error *err);

/* What `armtrain convert-data` says of class names and preparation: bytes of an archive that become
 * the metadata of the weights. None where `bytes` is 0. */
typedef struct run_about {
    uint64_t offset, bytes;
    uint32_t crc;
} run_about;

#define RUN_ABOUT_MAX (1u << 20)

/* The arrays x and y of an npz archive whose members are stored; `has_y` tells whether it has a y.
 * Each column has its own open file. Reads both once as a whole, for their checksums. */
art_status run_open_npz(run_column *x, run_column *y, bool *has_y, run_about *about,
                        const char *path, art_error *err);

/* Shape, type and the offset of the data of an npy array of `bytes` bytes at column->offset. */
art_status run_parse_npy(run_column *column, uint64_t bytes, art_error *err);

#endif
