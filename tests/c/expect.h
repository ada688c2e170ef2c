/* The least that a C test needs: count failures, say where, return them from main. */
#ifndef ART_TESTS_EXPECT_H
#define ART_TESTS_EXPECT_H

#include <stdio.h>
#include <string.h>

static int expect_failures;

#define EXPECT(cond)                                                                               \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #cond);                            \
            expect_failures++;                                                                     \
        }                                                                                          \
    } while (0)

/* The call returns `code`, and its message (in `err`) contains `part`. */
#define EXPECT_STATUS(call, code, err, part)                                                       \
    do {                                                                                           \
        int expect_got = (int)(call);                                                              \
        if (expect_got != (int)(code) || ((code) != 0 && strstr((err).text, part) == NULL)) {      \
            printf("%s:%d: %s\n  status %d (%d expected), message '%s' ('%s' expected)\n",         \
                   __FILE__, __LINE__, #call, expect_got, (int)(code),                             \
                   expect_got == 0 ? "" : (err).text, part);                                       \
            expect_failures++;                                                                     \
        }                                                                                          \
    } while (0)

static inline int expect_done(const char *name) {
    printf("%s: %s (%d failures)\n", name, expect_failures == 0 ? "ok" : "FAILED", expect_failures);
    return expect_failures != 0;
}

#endif
