/* Formatting of the caller-owned error and the one-line meaning of each status. */
#include "core/status.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

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

/* Room for two paths of the system's greatest length and what is said about them. */
#define LONG_TEXT 9216
#define CUT "..."
#define SHORTEST_CUT 16

static bool inside_character(char byte) {
    return ((unsigned char)byte & 0xc0) == 0x80;
}

/* The longest word of a text, as its first byte; *length gets its bytes. */
static char *longest_word(char *text, size_t *length) {
    char *found = text;
    *length = 0;
    for (char *word = text; *word != '\0';) {
        size_t n = strcspn(word, " \n");
        if (n > *length) {
            found = word;
            *length = n;
        }
        word += n + (word[n] != '\0');
    }
    return found;
}

/* Shorten the longest words, which are paths, in their middle until the text fits: both ends of a
 * path help to find it, and the advice at the end of a message must not be lost. */
static void shorten(char *text, size_t room) {
    size_t length = strlen(text), bytes;
    while (length >= room) {
        char *word = longest_word(text, &bytes);
        size_t removed = length - room + 1 + strlen(CUT);
        if (bytes < SHORTEST_CUT) {
            text[room - 1] = '\0';
            return;
        }
        if (removed > bytes / 2) {
            removed = bytes / 2;
        }
        char *from = word + (bytes - removed) / 2, *to = from + removed;
        while (from > word && inside_character(*from)) {
            from--;
        }
        while (inside_character(*to)) {
            to++;
        }
        memcpy(from, CUT, strlen(CUT));
        memmove(from + strlen(CUT), to, strlen(to) + 1);
        length = strlen(text);
    }
}

art_status art_fail(art_error *err, art_status code, const char *file, int line, const char *format,
                    ...) {
    if (err != NULL) {
        char text[LONG_TEXT];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        shorten(text, sizeof err->text);
        memcpy(err->text, text, strlen(text) + 1);
        err->file = file;
        err->line = line;
    }
    return code;
}
