#include "column.h"

#include <stdio.h>
#include <string.h>

#include "engine/half.h"

static unsigned char raw[RUN_CHUNK * 8];

bool run_column_shape(run_column *column, const uint64_t *dims, unsigned ndim, uint64_t *bytes) {
    uint64_t elements = 1;
    bool fits = ndim >= 1 && ndim <= RUN_MAX_DIMS + 1;
    column->count = dims[0];
    column->ndim = ndim - 1;
    for (unsigned i = 1; i < ndim && fits; i++) {
        column->dims[i - 1] = dims[i];
        fits = !__builtin_mul_overflow(elements, dims[i], &elements);
    }
    column->row_elements = elements;
    return fits && !__builtin_mul_overflow(elements, (uint64_t)column->size, bytes) &&
           !__builtin_mul_overflow(*bytes, column->count, bytes) && *bytes < (uint64_t)1 << 62;
}

const char *run_column_type(const run_column *column, char text[16]) {
    const char *kind = column->kind == 'f'   ? "float"
                       : column->kind == 'i' ? "int"
                       : column->kind == 'u' ? "uint"
                                             : "bool";
    snprintf(text, 16, "%s%u", kind, column->size * 8u);
    return text;
}

/* Read `count` elements from element `first` of the whole array on, into little-endian order. */
static art_status read_raw(const run_column *column, uint64_t first, size_t count, art_error *err) {
    size_t size = column->size;
    uint64_t at = column->offset + first * size;
    ART_TRY(art_file_read(&column->file, at, raw, count * size, err));
    if (!column->big_endian) {
        return ART_OK;
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t low = 0, high = size - 1; low < high; low++, high--) {
            unsigned char byte = raw[i * size + low];
            raw[i * size + low] = raw[i * size + high];
            raw[i * size + high] = byte;
        }
    }
    return ART_OK;
}

static float float_at(size_t i, size_t size) {
    double wide;
    float single;
    uint16_t half;
    switch (size) {
    case 8:
        memcpy(&wide, raw + i * 8, 8);
        return (float)wide;
    case 4:
        memcpy(&single, raw + i * 4, 4);
        return single;
    default:
        memcpy(&half, raw + i * 2, 2);
        return art_half_to_float(half);
    }
}

/* An unsigned value beyond int64 is out of every range of labels and indices: the largest number
 * stands for it. */
static int64_t integer_at(size_t i, size_t size, bool is_signed) {
    uint64_t value = 0;
    memcpy(&value, raw + i * size, size);
    unsigned shift = 64 - 8 * (unsigned)size;
    if (is_signed) {
        return (int64_t)(value << shift) >> shift;
    }
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

art_status run_column_floats(const run_column *column, uint64_t row, uint64_t first, size_t count,
                             float *out, art_error *err) {
    ART_TRY(read_raw(column, row * column->row_elements + first, count, err));
    if (column->whole) {
        for (size_t i = 0; i < count; i++) {
            out[i] = (float)integer_at(i, column->size, column->kind == 'i');
        }
        return ART_OK;
    }
    if (column->kind == 'u') {
        for (size_t i = 0; i < count; i++) {
            out[i] = (float)raw[i] / 255.0f;
        }
        return ART_OK;
    }
    for (size_t i = 0; i < count; i++) {
        out[i] = float_at(i, column->size);
    }
    return ART_OK;
}

art_status run_column_integers(const run_column *column, uint64_t first, size_t count, int64_t *out,
                               art_error *err) {
    ART_TRY(read_raw(column, first, count, err));
    for (size_t i = 0; i < count; i++) {
        out[i] = integer_at(i, column->size, column->kind == 'i');
    }
    return ART_OK;
}
