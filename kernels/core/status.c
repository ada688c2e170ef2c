/* Formatting of the caller-owned error and the one-line meaning of each status. */
#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>

static const struct {
    art_status code;
    const char *text;
} status_texts[] = {
#define ART_STATUS(name, code, text) {ART_##name, text},
#include "art_status.def"
#undef ART_STATUS
};

const char *art_status_text(art_status status) {
    for (size_t i = 0; i < sizeof status_texts / sizeof status_texts[0]; i++) {
        if (status_texts[i].code == status) {
            return status_texts[i].text;
        }
    }
    return "unknown status";
}

art_status art_fail(art_error *err, art_status code, const char *file, int line, const char *format,
                    ...) {
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        err->file = file;
        err->line = line;
    }
    return code;
}
