/* Weights and buffers as safetensors files: 8-byte little-endian header length, a JSON header,
 * the tensors. The functions themselves are in armtrain.h. */
#ifndef ART_ENGINE_SAFETENSORS_H
#define ART_ENGINE_SAFETENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/file_io.h"

/* Limits of what is read: the format's own for the header, and one on the number of tensors that
 * keeps checking a hostile file a matter of seconds. */
#define ART_ST_MAX_HEADER 100000000u
#define ART_ST_MAX_TENSORS 65536u
#define ART_ST_DIMS 8u

/* The entry of `__metadata__` by which a file is known as the best weights of a run. */
#define ART_ST_BEST "armtrain.best"

/* One entry of a header. */
typedef struct art_st_entry {
    char name[1024];
    bool name_whole; /* false: longer than that, or with a NUL in it */
    char dtype[8];
    unsigned dtype_bytes;
    unsigned ndim; /* may exceed ART_ST_DIMS, of which only the first are kept */
    uint64_t shape[ART_ST_DIMS];
    uint64_t begin, end; /* bytes after the header */
} art_st_entry;

/* Called for each entry; `context` is the caller's. */
typedef art_status (*art_st_visit)(void *context, const art_st_entry *entry, art_error *err);

/* Where the tensors begin; refuses impossible header lengths. */
art_status art_st_data_start(const art_file *file, uint64_t *start, art_error *err);

/* Parse the whole header and visit every entry but `__metadata__` in file order. Each entry's
 * offsets lie inside the file and match its shape. */
art_status art_st_walk_header(const art_file *file, uint64_t start, art_st_visit visit,
                              void *context, art_error *err);

/* The text of an entry of `__metadata__`, empty without one; the header is parsed as above. */
art_status art_st_find_metadata(const art_file *file, uint64_t start, const char *key, char *text,
                                size_t text_bytes, art_error *err);

/* Bytes [begin, end) of a file are an object of strings, as `__metadata__` is. */
art_status art_st_check_metadata(const art_file *file, uint64_t begin, uint64_t end,
                                 art_error *err);

/* Entries cover all bytes after the header exactly once. */
art_status art_st_check_cover(const art_file *file, uint64_t start, art_error *err);

#endif
