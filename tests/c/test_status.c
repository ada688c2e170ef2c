/* Messages that are too long: paths lose their middle, never the advice at the end. */
#include "core/status.h"
#include "expect.h"

#define PATH_BYTES 4096

static char path[PATH_BYTES];
static art_error err;

/* A path of n times `part` between "/first/" and "/last". */
static void make_path(const char *part, size_t n) {
    strcpy(path, "/first/");
    for (size_t i = 0; i < n; i++) {
        strcat(path, part);
    }
    strcat(path, "/last");
}

static void expect_ends(const char *start, const char *end) {
    size_t n = strlen(err.text), m = strlen(end);
    EXPECT(n < sizeof err.text && n > sizeof err.text - 8);
    EXPECT(strncmp(err.text, start, strlen(start)) == 0 && strstr(err.text, "...") != NULL);
    EXPECT(n > m && strcmp(err.text + n - m, end) == 0);
}

static void paths(void) {
    make_path("0123456789", 400);
    art_fail(&err, ART_IO, __FILE__, __LINE__, "cannot read %s: denied; ask", path);
    expect_ends("cannot read /first/0123", "0123456789/last: denied; ask");
    art_fail(&err, ART_IO, __FILE__, __LINE__, "%s and %s are the same; choose", path, path);
    expect_ends("/first/0123", "0123456789/last are the same; choose");
    EXPECT(strstr(err.text, "/last and /first/") != NULL);
    make_path("a b", 200);
    art_fail(&err, ART_IO, __FILE__, __LINE__, "cannot read %s: denied; ask", path);
    EXPECT(strlen(err.text) == sizeof err.text - 1);
}

/* Characters of several bytes are kept or dropped whole, wherever the cut falls. */
static void whole_characters(void) {
    static const char *const fill[] = {"", "x", "xx"};
    for (size_t i = 0; i < 3; i++) {
        make_path("\xE2\x82\xAC", 300);
        art_fail(&err, ART_IO, __FILE__, __LINE__, "%s%s: ask", fill[i], path);
        char *cut = strstr(err.text, "...");
        EXPECT(cut != NULL && strncmp(cut - 3, "\xE2\x82\xAC...\xE2\x82\xAC", 9) == 0);
    }
}

static void short_texts(void) {
    art_fail(&err, ART_IO, __FILE__, __LINE__, "%0511d", 7);
    EXPECT(strlen(err.text) == 511 && err.text[510] == '7');
    art_fail(&err, ART_IO, __FILE__, __LINE__, "%s", "");
    EXPECT(err.text[0] == '\0');
    EXPECT(art_fail(NULL, ART_IO, __FILE__, __LINE__, "nobody reads this") == ART_IO);
}

int main(void) {
    paths();
    whole_characters();
    short_texts();
    return expect_done("status");
}
