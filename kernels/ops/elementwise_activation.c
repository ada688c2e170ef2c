/* The activations of vec_activation.def: y[i] from x[i], and dx[i] from dy[i] and what the gradient
 * keeps. Flattened and image-shaped operands may be mixed. */
#include "ops/op_functions.h"
#include "ops/spans.h"

/* All activations number their operands alike; the first of a gradient is what it keeps. */
enum { X, Y };
enum { KEPT, DY, DX };
enum { MOST_NUMBERS = 2 };

/* The floats of the attributes; leaves of fewer numbers ignore the rest. */
typedef struct numbers {
    float k[MOST_NUMBERS];
} numbers;

static numbers numbers_of(const art_op_args *args, int count) {
    numbers n = {{0}};
    for (int i = 0; i < count; i++) {
        n.k[i] = (float)args->attr[i].f;
    }
    return n;
}

/* The three functions of one operation: its operands in messages, numbers, work per element. */
#define OPERATION(name, operands, numbers_, work, ...)                                             \
    art_status art_op_##name##_check(const art_op_args *args, art_error *err) {                    \
        static const char *const names[] = {__VA_ARGS__};                                          \
        return art_check_alike(args, names, operands, err);                                        \
    }                                                                                              \
    ART_NO_WORKSPACE(name)                                                                         \
    art_status art_op_##name##_run(const art_op_args *args, art_error *err) {                      \
        numbers n = numbers_of(args, numbers_);                                                    \
        (void)err;                                                                                 \
        art_run_spans(args, art_count(&args->operand[0]), work, name, &n);                         \
        return ART_OK;                                                                             \
    }

#define ART_ACTIVATION(NAME, name, numbers_, work, work_gradient)                                  \
    _Static_assert((int)ART_##NAME##_FWD_X == X && (int)ART_##NAME##_FWD_Y == Y &&                 \
                       (int)ART_##NAME##_GRAD_DY == DY && (int)ART_##NAME##_GRAD_DX == DX,         \
                   "slots of an activation");                                                      \
    static void name##_fwd(const art_op_args *args, const void *constants, size_t first,           \
                           size_t n) {                                                             \
        const numbers *k = constants;                                                              \
        art_vec(args)->name(art_out(args, Y) + first, art_in(args, X) + first, n, k->k);           \
    }                                                                                              \
    static void name##_grad(const art_op_args *args, const void *constants, size_t first,          \
                            size_t n) {                                                            \
        const numbers *k = constants;                                                              \
        art_vec(args)->name##_grad(art_out(args, DX) + first, art_in(args, KEPT) + first,          \
                                   art_in(args, DY) + first, n, k->k);                             \
    }                                                                                              \
    OPERATION(name##_fwd, 2, numbers_, work, #name "_fwd.x", #name "_fwd.y")                       \
    OPERATION(name##_grad, 3, numbers_, work_gradient, #name "_grad.kept", #name "_grad.dy",       \
              #name "_grad.dx")
#include "ukernel/vec/vec_activation.def"
#undef ART_ACTIVATION
