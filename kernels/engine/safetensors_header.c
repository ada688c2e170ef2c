/* Reading safetensors headers that anybody may have written. */
#include "engine/safetensors.h"

#include <string.h>

#include "engine/json_scan.h"

/* Offset-sorted ranges that one walk collects, 64 KiB of stack. */
#define WINDOW 4096

static const struct {
    const char *name;
    unsigned bytes;
} dtypes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
    {"U16", 2},  {"I16", 2}, {"F16", 2}, {"BF16", 2},    {"U32", 4},
    {"I32", 4},  {"F32", 4}, {"U64", 8}, {"I64", 8},     {"F64", 8},
};

#define BAD(file, err, ...)                                                                        \
    art_fail((err), ART_FILE_FORMAT, __FILE__, __LINE__,                                           \
             "%s is not a usable safetensors file: " __VA_ARGS__)

art_status art_st_data_start(const art_file *file, uint64_t *start, art_error *err) {
    uint64_t length;
    if (file->bytes < 8) {
        return BAD(file, err, "it has %llu bytes, the header length alone takes 8", file->path,
                   (unsigned long long)file->bytes);
    }
    ART_TRY(art_file_read(file, 0, &length, sizeof length, err));
    if (length > file->bytes - 8 || length > ART_ST_MAX_HEADER) {
        return BAD(file, err,
                   "its header should have %llu bytes, the file has %llu and at most %u are "
                   "supported; copy or save it again",
                   file->path, (unsigned long long)length, (unsigned long long)file->bytes,
                   ART_ST_MAX_HEADER);
    }
    *start = 8 + length;
    return ART_OK;
}

typedef struct parser {
    art_json json;
    art_st_entry entry;
    uint64_t elements; /* product of the shape */
    uint64_t data_bytes;
    const char *key; /* an entry of `__metadata__` whose text is wanted, or NULL */
    char *text;
    size_t text_bytes;
} parser;

static art_status parse_dtype(parser *p, art_error *err) {
    art_st_entry *e = &p->entry;
    bool whole;
    ART_TRY(art_json_string(&p->json, e->dtype, sizeof e->dtype, &whole, err));
    e->dtype_bytes = 0;
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (whole && strcmp(dtypes[i].name, e->dtype) == 0) {
            e->dtype_bytes = dtypes[i].bytes;
        }
    }
    if (e->dtype_bytes == 0) {
        return BAD(p->json.file, err, "'%.200s' has the unknown element type '%s'",
                   p->json.file->path, e->name, e->dtype);
    }
    return ART_OK;
}

/* An array of whole numbers: the first `limit` go to `out`, all are counted and multiplied. */
static art_status parse_sizes(parser *p, uint64_t *out, unsigned limit, unsigned *count,
                              uint64_t *product, art_error *err) {
    int c;
    bool more = true, overflow = false;
    *count = 0;
    *product = 1;
    ART_TRY(art_json_expect(&p->json, '[', err));
    ART_TRY(art_json_peek(&p->json, &c, err));
    if (c == ']') {
        return art_json_expect(&p->json, ']', err);
    }
    while (more) {
        uint64_t value;
        ART_TRY(art_json_size(&p->json, &value, err));
        if (*count < limit) {
            out[*count] = value;
        }
        (*count)++;
        overflow = __builtin_mul_overflow(*product, value, product) || overflow;
        ART_TRY(art_json_more(&p->json, ']', &more, err));
    }
    if (overflow || *count > 32) {
        *product = UINT64_MAX;
    }
    return ART_OK;
}

static art_status parse_field(parser *p, unsigned *seen, art_error *err) {
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    art_st_entry *e = &p->entry;
    char key[16];
    bool whole;
    unsigned count, which = 0;
    uint64_t offsets[2], ignored;
    ART_TRY(art_json_string(&p->json, key, sizeof key, &whole, err));
    while (which < 3 && (!whole || strcmp(key, keys[which]) != 0)) {
        which++;
    }
    if (which == 3 || (*seen & 1u << which) != 0) {
        return BAD(p->json.file, err, "the entry of '%.200s' has an unknown or repeated key '%s'",
                   p->json.file->path, e->name, key);
    }
    *seen |= 1u << which;
    ART_TRY(art_json_expect(&p->json, ':', err));
    if (which == 0) {
        return parse_dtype(p, err);
    }
    if (which == 1) {
        return parse_sizes(p, e->shape, ART_ST_DIMS, &e->ndim, &p->elements, err);
    }
    ART_TRY(parse_sizes(p, offsets, 2, &count, &ignored, err));
    if (count != 2) {
        return BAD(p->json.file, err, "'%.200s' has %u data_offsets, 2 are needed",
                   p->json.file->path, e->name, count);
    }
    e->begin = offsets[0];
    e->end = offsets[1];
    return ART_OK;
}

static art_status parse_entry(parser *p, art_error *err) {
    art_st_entry *e = &p->entry;
    unsigned seen = 0;
    bool more = true;
    uint64_t need;
    ART_TRY(art_json_expect(&p->json, '{', err));
    while (more) {
        ART_TRY(parse_field(p, &seen, err));
        ART_TRY(art_json_more(&p->json, '}', &more, err));
    }
    if (seen != 7) {
        return BAD(p->json.file, err, "the entry of '%.200s' lacks dtype, shape or data_offsets",
                   p->json.file->path, e->name);
    }
    if (e->begin > e->end || e->end > p->data_bytes) {
        return BAD(p->json.file, err,
                   "'%.200s' lies at bytes %llu to %llu, the file holds %llu bytes of tensors",
                   p->json.file->path, e->name, (unsigned long long)e->begin,
                   (unsigned long long)e->end, (unsigned long long)p->data_bytes);
    }
    if (__builtin_mul_overflow(p->elements, e->dtype_bytes, &need) || need != e->end - e->begin) {
        return BAD(p->json.file, err,
                   "'%.200s' needs %llu bytes for its shape, its offsets give %llu",
                   p->json.file->path, e->name, (unsigned long long)need,
                   (unsigned long long)(e->end - e->begin));
    }
    return ART_OK;
}

/* `__metadata__` is an object of strings. */
static art_status parse_metadata(parser *p, art_error *err) {
    art_json *json = &p->json;
    char text[32];
    bool whole, more = true;
    int c;
    ART_TRY(art_json_expect(json, '{', err));
    ART_TRY(art_json_peek(json, &c, err));
    if (c == '}') {
        return art_json_expect(json, '}', err);
    }
    while (more) {
        ART_TRY(art_json_string(json, text, sizeof text, &whole, err));
        ART_TRY(art_json_expect(json, ':', err));
        if (p->key != NULL && strcmp(text, p->key) == 0) {
            ART_TRY(art_json_string(json, p->text, p->text_bytes, &whole, err));
        } else {
            ART_TRY(art_json_string(json, text, sizeof text, &whole, err));
        }
        ART_TRY(art_json_more(json, '}', &more, err));
    }
    return ART_OK;
}

art_status art_st_check_metadata(const art_file *file, uint64_t begin, uint64_t end,
                                 art_error *err) {
    parser p = {.key = NULL};
    int c;
    art_json_start(&p.json, file, begin, end);
    ART_TRY(parse_metadata(&p, err));
    ART_TRY(art_json_peek(&p.json, &c, err));
    ART_FAIL_IF(c >= 0, err, ART_FILE_FORMAT,
                "%s: something comes after the last brace of its JSON", file->path);
    return ART_OK;
}

static art_status walk(parser *p, art_st_visit visit, void *context, art_error *err) {
    art_st_entry *e = &p->entry;
    unsigned count = 0;
    bool more = true;
    while (more) {
        ART_TRY(art_json_string(&p->json, e->name, sizeof e->name, &e->name_whole, err));
        ART_TRY(art_json_expect(&p->json, ':', err));
        if (e->name_whole && strcmp(e->name, "__metadata__") == 0) {
            ART_TRY(parse_metadata(p, err));
        } else {
            ART_TRY(parse_entry(p, err));
            if (++count > ART_ST_MAX_TENSORS) {
                return BAD(p->json.file, err, "it has more than %u tensors", p->json.file->path,
                           ART_ST_MAX_TENSORS);
            }
            ART_TRY(visit(context, e, err));
        }
        ART_TRY(art_json_more(&p->json, '}', &more, err));
    }
    return ART_OK;
}

static art_status walk_header(parser *p, const art_file *file, uint64_t start, art_st_visit visit,
                              void *context, art_error *err) {
    int c;
    art_json_start(&p->json, file, 8, start);
    p->data_bytes = file->bytes - start;
    ART_TRY(art_json_expect(&p->json, '{', err));
    ART_TRY(art_json_peek(&p->json, &c, err));
    if (c == '}') {
        ART_TRY(art_json_expect(&p->json, '}', err));
    } else {
        ART_TRY(walk(p, visit, context, err));
    }
    ART_TRY(art_json_peek(&p->json, &c, err));
    if (c >= 0) {
        return BAD(file, err, "something follows the header's last brace", file->path);
    }
    return ART_OK;
}

art_status art_st_walk_header(const art_file *file, uint64_t start, art_st_visit visit,
                              void *context, art_error *err) {
    parser p = {.key = NULL};
    return walk_header(&p, file, start, visit, context, err);
}

static art_status pass_over(void *context, const art_st_entry *entry, art_error *err) {
    (void)context;
    (void)entry;
    (void)err;
    return ART_OK;
}

art_status art_st_find_metadata(const art_file *file, uint64_t start, const char *key, char *text,
                                size_t text_bytes, art_error *err) {
    parser p = {.key = key, .text = text, .text_bytes = text_bytes};
    text[0] = '\0';
    return walk_header(&p, file, start, pass_over, NULL, err);
}

/* The ranges with the lowest offsets from `position` on, in order. */
typedef struct cover {
    uint64_t position;
    uint64_t total; /* ranges that are not empty */
    size_t used;
    struct {
        uint64_t begin, end;
    } range[WINDOW];
} cover;

static art_status collect(void *context, const art_st_entry *entry, art_error *err) {
    cover *c = context;
    (void)err;
    if (entry->begin == entry->end) {
        return ART_OK;
    }
    c->total++;
    if (entry->begin < c->position ||
        (c->used == WINDOW && entry->begin >= c->range[WINDOW - 1].begin)) {
        return ART_OK;
    }
    size_t at = c->used;
    while (at > 0 && c->range[at - 1].begin > entry->begin) {
        at--;
    }
    size_t moved = c->used - at;
    if (c->used == WINDOW) {
        moved--;
    } else {
        c->used++;
    }
    memmove(&c->range[at + 1], &c->range[at], moved * sizeof c->range[0]);
    c->range[at].begin = entry->begin;
    c->range[at].end = entry->end;
    return ART_OK;
}

/* Each round takes up the next WINDOW ranges, so that a header in any order needs no memory. A
 * range that begins inside an earlier one is not reached or not where the last one ended: both
 * show. */
art_status art_st_check_cover(const art_file *file, uint64_t start, art_error *err) {
    cover c = {.position = 0, .total = 0, .used = WINDOW};
    uint64_t done = 0, data_bytes = file->bytes - start;
    while (c.used == WINDOW) {
        c.used = 0;
        c.total = 0;
        ART_TRY(art_st_walk_header(file, start, collect, &c, err));
        for (size_t i = 0; i < c.used; i++) {
            if (c.range[i].begin != c.position) {
                return BAD(file, err, "bytes %llu to %llu of its tensors overlap or belong to none",
                           file->path, (unsigned long long)c.position,
                           (unsigned long long)c.range[i].begin);
            }
            c.position = c.range[i].end;
        }
        done += c.used;
    }
    if (done != c.total || c.position != data_bytes) {
        return BAD(file, err,
                   "its tensors overlap or do not fill it: they end at byte %llu of %llu; copy or "
                   "save it again",
                   file->path, (unsigned long long)c.position, (unsigned long long)data_bytes);
    }
    return ART_OK;
}
