/* The header of npy arrays: a magic string, a version, and a Python dictionary of three keys in
 * plain text. Only what np.save writes is understood. */
#include <stdio.h>
#include <string.h>

#include "column.h"
#include "options.h"

#define HEADER_MAX 65536

typedef struct text {
    const char *at;
    const char *end;
} text;

static void skip_space(text *t) {
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\t')) {
        t->at++;
    }
}

static bool take(text *t, char c) {
    skip_space(t);
    if (t->at < t->end && *t->at == c) {
        t->at++;
        return true;
    }
    return false;
}

static bool take_word(text *t, const char *word) {
    size_t n = strlen(word);
    skip_space(t);
    if ((size_t)(t->end - t->at) >= n && memcmp(t->at, word, n) == 0) {
        t->at += n;
        return true;
    }
    return false;
}

/* A quoted string without escapes, cut into `out`. */
static bool take_string(text *t, char *out, size_t out_bytes) {
    skip_space(t);
    if (t->at >= t->end || (*t->at != '\'' && *t->at != '"')) {
        return false;
    }
    char quote = *t->at++;
    size_t n = 0;
    for (; t->at < t->end && *t->at != quote; t->at++) {
        if (*t->at == '\\' || n + 1 >= out_bytes) {
            return false;
        }
        out[n++] = *t->at;
    }
    out[n] = '\0';
    return take(t, quote);
}

static bool take_number(text *t, uint64_t *value) {
    char digits[24];
    size_t n = 0;
    skip_space(t);
    while (t->at < t->end && *t->at >= '0' && *t->at <= '9' && n + 1 < sizeof digits) {
        digits[n++] = *t->at++;
    }
    digits[n] = '\0';
    return run_parse_number(digits, INT64_MAX, value);
}

/* "(60000, 28, 28)", "(3,)" or "()". */
static bool take_shape(text *t, uint64_t *dims, unsigned *ndim) {
    *ndim = 0;
    if (!take(t, '(')) {
        return false;
    }
    while (!take(t, ')')) {
        if (*ndim > RUN_MAX_DIMS || !take_number(t, &dims[*ndim])) {
            return false;
        }
        (*ndim)++;
        if (!take(t, ',')) {
            return take(t, ')');
        }
    }
    return true;
}

typedef struct header {
    char descr[16];
    bool fortran;
    uint64_t dims[RUN_MAX_DIMS + 1];
    unsigned ndim;
} header;

static bool take_field(text *t, header *h, unsigned *seen) {
    char key[16];
    unsigned bit;
    bool good;
    if (!take_string(t, key, sizeof key) || !take(t, ':')) {
        return false;
    }
    if (strcmp(key, "descr") == 0) {
        bit = 1;
        good = take_string(t, h->descr, sizeof h->descr);
    } else if (strcmp(key, "fortran_order") == 0) {
        bit = 2;
        h->fortran = take_word(t, "True");
        good = h->fortran || take_word(t, "False");
    } else if (strcmp(key, "shape") == 0) {
        bit = 4;
        good = take_shape(t, h->dims, &h->ndim);
    } else {
        return false;
    }
    good = good && (*seen & bit) == 0;
    *seen |= bit;
    return good;
}

static bool parse_dictionary(text *t, header *h) {
    unsigned seen = 0;
    if (!take(t, '{')) {
        return false;
    }
    while (!take(t, '}')) {
        if (!take_field(t, h, &seen)) {
            return false;
        }
        if (!take(t, ',')) {
            if (!take(t, '}')) {
                return false;
            }
            break;
        }
    }
    skip_space(t);
    return seen == 7 && t->at == t->end;
}

static bool parse_type(run_column *column, const char *descr) {
    static const struct {
        char kind;
        const char *sizes;
    } types[] = {{'f', "248"}, {'i', "1248"}, {'u', "1248"}, {'b', "1"}};
    if (strlen(descr) != 3 || strchr("<>|=", descr[0]) == NULL) {
        return false;
    }
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].kind == descr[1] && strchr(types[i].sizes, descr[2]) != NULL) {
            column->kind = descr[1];
            column->size = (uint8_t)(descr[2] - '0');
            column->big_endian = descr[0] == '>' && column->size > 1;
            return true;
        }
    }
    return false;
}

static art_status apply(run_column *column, const header *h, uint64_t bytes, uint64_t head_bytes,
                        art_error *err) {
    uint64_t need;
    ART_FAIL_IF(!parse_type(column, h->descr), err, ART_DATA,
                "%s has elements of type '%s'; save it as float32 or integers", column->name,
                h->descr);
    ART_FAIL_IF(h->ndim == 0, err, ART_DATA, "%s is a single number; an array of samples is needed",
                column->name);
    ART_FAIL_IF(h->fortran && h->ndim > 1, err, ART_DATA,
                "%s is in Fortran order; save np.ascontiguousarray of it", column->name);
    bool fits = run_column_shape(column, h->dims, h->ndim, &need);
    ART_FAIL_IF(!fits || need != bytes - head_bytes, err, ART_DATA,
                "%s has %llu rows of %llu elements and needs %llu B, the file holds %llu B; save "
                "it again",
                column->name, (unsigned long long)column->count,
                (unsigned long long)column->row_elements, fits ? (unsigned long long)need : ~0ull,
                (unsigned long long)(bytes - head_bytes));
    column->offset += head_bytes;
    return ART_OK;
}

art_status run_parse_npy(run_column *column, uint64_t bytes, art_error *err) {
    static char buffer[HEADER_MAX];
    unsigned char head[12] = {0};
    header h = {.fortran = false};
    size_t got = bytes < sizeof head ? (size_t)bytes : sizeof head;
    ART_TRY(art_file_read(&column->file, column->offset, head, got, err));
    ART_FAIL_IF(got < sizeof head || memcmp(head, "\x93NUMPY", 6) != 0 || head[6] < 1 ||
                    head[6] > 3 || head[7] != 0,
                err, ART_DATA, "%s is no npy array of version 1, 2 or 3; save it again",
                column->name);
    size_t start = head[6] == 1 ? 10 : 12;
    uint64_t length = (uint64_t)head[8] | (uint64_t)head[9] << 8;
    if (head[6] > 1) {
        length |= (uint64_t)head[10] << 16 | (uint64_t)head[11] << 24;
    }
    ART_FAIL_IF(length > sizeof buffer || length > bytes - start, err, ART_DATA,
                "%s: its header should have %llu B, %llu are there and %zu are supported; save it "
                "again",
                column->name, (unsigned long long)length, (unsigned long long)(bytes - start),
                sizeof buffer);
    ART_TRY(art_file_read(&column->file, column->offset + start, buffer, (size_t)length, err));
    text t = {buffer, buffer + length};
    ART_FAIL_IF(!parse_dictionary(&t, &h), err, ART_DATA,
                "%s: its header is not what NumPy writes for a plain array of at most %d "
                "dimensions; save it again as float32 or integers",
                column->name, RUN_MAX_DIMS + 1);
    return apply(column, &h, bytes, start + length, err);
}
