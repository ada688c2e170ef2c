/* Status codes, the caller-owned error text, and the two macros that propagate them.
 * Knows nothing of plans, tensors or threads. The library never prints, exits or aborts. */
#ifndef ART_CORE_STATUS_H
#define ART_CORE_STATUS_H

#include "armtrain.h"

/* Fill err (may be NULL) with the formatted detail and return code. */
art_status art_fail(art_error *err, art_status code, const char *file, int line, const char *format,
                    ...) __attribute__((format(printf, 5, 6)));

/* A number as messages show it: a NaN has a sign, which C prints and every processor chooses as it
 * likes. */
static inline double art_shown(double value) {
    return value == value ? value : __builtin_fabs(value);
}

/* Leave the function with code and a detail if cond holds. */
#define ART_FAIL_IF(cond, err, code, ...)                                                          \
    do {                                                                                           \
        if (cond) {                                                                                \
            return art_fail((err), (code), __FILE__, __LINE__, __VA_ARGS__);                       \
        }                                                                                          \
    } while (0)

/* Leave the function if the call fails; the callee has filled the error. */
#define ART_TRY(call)                                                                              \
    do {                                                                                           \
        art_status art_try_status = (call);                                                        \
        if (art_try_status != ART_OK) {                                                            \
            return art_try_status;                                                                 \
        }                                                                                          \
    } while (0)

#endif
