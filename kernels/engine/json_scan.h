/* A strict JSON reader for untrusted file headers: a cursor over a range of a file that hands out
 * strings and whole numbers. It holds no document, so its memory does not depend on the file. */
#ifndef ART_ENGINE_JSON_SCAN_H
#define ART_ENGINE_JSON_SCAN_H

#include "engine/file_io.h"

typedef struct art_json {
    const art_file *file;
    uint64_t at;  /* file offset of the next byte to load */
    uint64_t end; /* the document ends before this offset */
    size_t next, used;
    unsigned char buffer[4096];
} art_json;

void art_json_start(art_json *json, const art_file *file, uint64_t begin, uint64_t end);

/* The next character that is not white space, without taking it; -1 at the end. */
art_status art_json_peek(art_json *json, int *character, art_error *err);
/* Take the character `expected` after white space. */
art_status art_json_expect(art_json *json, char expected, art_error *err);
/* Take a string and decode it to NUL-terminated UTF-8. *whole is false if it is longer than the
 * buffer or contains a NUL: then `out` holds its beginning. */
art_status art_json_string(art_json *json, char *out, size_t out_bytes, bool *whole,
                           art_error *err);
/* Take a whole number below 2^63, written without sign, point or exponent. */
art_status art_json_size(art_json *json, uint64_t *value, art_error *err);
/* After an element of an object or array: take ',' (*more is true) or `closing`. */
art_status art_json_more(art_json *json, char closing, bool *more, art_error *err);

#endif
