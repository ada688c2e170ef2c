#include "engine/json_scan.h"

#include <string.h>

#define END (-1)

void art_json_start(art_json *json, const art_file *file, uint64_t begin, uint64_t end) {
    json->file = file;
    json->at = begin;
    json->end = end;
    json->next = json->used = 0;
}

static uint64_t position(const art_json *json) {
    return json->at - (json->used - json->next);
}

static art_status bad(const art_json *json, const char *why, art_error *err) {
    return art_fail(err, ART_FILE_FORMAT, __FILE__, __LINE__,
                    "%s is not a usable safetensors file: %s at byte %llu of its header; copy or "
                    "save it again",
                    json->file->path, why, (unsigned long long)position(json));
}

/* The next byte without taking it, END at the end. */
static art_status look(art_json *json, int *byte, art_error *err) {
    *byte = END;
    if (json->next == json->used) {
        uint64_t left = json->end - json->at;
        if (left == 0) {
            return ART_OK;
        }
        size_t n = left < sizeof json->buffer ? (size_t)left : sizeof json->buffer;
        ART_TRY(art_file_read(json->file, json->at, json->buffer, n, err));
        json->at += n;
        json->next = 0;
        json->used = n;
    }
    *byte = json->buffer[json->next];
    return ART_OK;
}

static art_status take(art_json *json, int *byte, art_error *err) {
    ART_TRY(look(json, byte, err));
    if (*byte == END) {
        return bad(json, "the text ends too early", err);
    }
    json->next++;
    return ART_OK;
}

art_status art_json_peek(art_json *json, int *character, art_error *err) {
    for (;;) {
        ART_TRY(look(json, character, err));
        int c = *character;
        if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
            return ART_OK;
        }
        json->next++;
    }
}

art_status art_json_expect(art_json *json, char expected, art_error *err) {
    int c;
    ART_TRY(art_json_peek(json, &c, err));
    if (c != (unsigned char)expected) {
        char why[32] = "no 'x'";
        why[4] = expected;
        return bad(json, why, err);
    }
    json->next++;
    return ART_OK;
}

art_status art_json_more(art_json *json, char closing, bool *more, art_error *err) {
    int c;
    ART_TRY(art_json_peek(json, &c, err));
    *more = c == ',';
    if (*more) {
        json->next++;
        return ART_OK;
    }
    return art_json_expect(json, closing, err);
}

typedef struct text {
    char *out;
    size_t used, limit;
    bool whole;
} text;

/* Append one byte; keep to whole characters once something did not fit. */
static void append(text *t, const unsigned char *bytes, unsigned n) {
    if (!t->whole || t->used + n > t->limit) {
        t->whole = false;
        return;
    }
    memcpy(t->out + t->used, bytes, n);
    t->used += n;
}

static void append_code(text *t, uint32_t code) {
    static const struct {
        uint32_t below;
        unsigned char lead;
    } forms[] = {{0x80, 0}, {0x800, 0xC0}, {0x10000, 0xE0}, {0x110000, 0xF0}};
    unsigned char bytes[4];
    unsigned n = 0;
    while (code >= forms[n].below) {
        n++;
    }
    for (unsigned i = n; i > 0; i--, code >>= 6) {
        bytes[i] = (unsigned char)(0x80 | (code & 0x3F));
    }
    bytes[0] = (unsigned char)(forms[n].lead | code);
    if (bytes[0] == 0) {
        t->whole = false;
        return;
    }
    append(t, bytes, n + 1);
}

static art_status hex4(art_json *json, uint32_t *code, art_error *err) {
    *code = 0;
    for (int i = 0; i < 4; i++) {
        int c;
        ART_TRY(take(json, &c, err));
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) {
            return bad(json, "a wrong \\u escape", err);
        }
        *code = *code << 4 | (uint32_t)digit;
    }
    return ART_OK;
}

static art_status unicode_escape(art_json *json, text *t, art_error *err) {
    uint32_t code, low;
    int c, d;
    ART_TRY(hex4(json, &code, err));
    if (code >= 0xD800 && code < 0xDC00) {
        ART_TRY(take(json, &c, err));
        ART_TRY(take(json, &d, err));
        if (c != '\\' || d != 'u') {
            return bad(json, "half of a surrogate pair", err);
        }
        ART_TRY(hex4(json, &low, err));
        if (low < 0xDC00 || low > 0xDFFF) {
            return bad(json, "half of a surrogate pair", err);
        }
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code <= 0xDFFF) {
        return bad(json, "half of a surrogate pair", err);
    }
    append_code(t, code);
    return ART_OK;
}

static art_status escape(art_json *json, text *t, art_error *err) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c;
    ART_TRY(take(json, &c, err));
    if (c == 'u') {
        return unicode_escape(json, t, err);
    }
    const char *found = c == 0 ? NULL : strchr(from, c);
    if (found == NULL) {
        return bad(json, "an unknown escape", err);
    }
    append_code(t, (unsigned char)to[found - from]);
    return ART_OK;
}

/* A character of several bytes whose first one is `lead`: only the shortest form of a scalar
 * value is UTF-8. */
static art_status multibyte(art_json *json, text *t, unsigned lead, art_error *err) {
    static const uint32_t smallest[] = {0, 0x80, 0x800, 0x10000};
    unsigned more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    uint32_t code = lead & (0x3Fu >> more);
    bool good = lead >= 0xC0 && lead < 0xF8;
    for (unsigned i = 0; i < more && good; i++) {
        int c;
        ART_TRY(take(json, &c, err));
        good = (c & 0xC0) == 0x80;
        code = code << 6 | (uint32_t)(c & 0x3F);
    }
    if (!good || code < smallest[more] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
        return bad(json, "text that is not UTF-8", err);
    }
    append_code(t, code);
    return ART_OK;
}

art_status art_json_string(art_json *json, char *out, size_t out_bytes, bool *whole,
                           art_error *err) {
    text t = {.out = out, .used = 0, .limit = out_bytes - 1, .whole = true};
    ART_TRY(art_json_expect(json, '"', err));
    for (;;) {
        int c;
        ART_TRY(take(json, &c, err));
        if (c == '"') {
            break;
        }
        if (c < 0x20) {
            return bad(json, "a control character in a string", err);
        }
        if (c == '\\') {
            ART_TRY(escape(json, &t, err));
        } else if (c < 0x80) {
            append_code(&t, (uint32_t)c);
        } else {
            ART_TRY(multibyte(json, &t, (unsigned)c, err));
        }
    }
    out[t.used] = '\0';
    *whole = t.whole;
    return ART_OK;
}

art_status art_json_size(art_json *json, uint64_t *value, art_error *err) {
    int c;
    unsigned digits = 0;
    *value = 0;
    ART_TRY(art_json_peek(json, &c, err));
    while (c >= '0' && c <= '9') {
        bool leading_zero = digits == 1 && *value == 0;
        if (leading_zero || *value > (INT64_MAX - (uint64_t)(c - '0')) / 10) {
            return bad(json, "an impossible number", err);
        }
        *value = *value * 10 + (uint64_t)(c - '0');
        digits++;
        json->next++;
        ART_TRY(look(json, &c, err));
    }
    if (digits == 0) {
        return bad(json, "no whole number", err);
    }
    return ART_OK;
}
