/* relu, tanh, add, copy: y[i] from x[i]. Flattened and image-shaped operands may be mixed. */
#include <string.h>

#include "ops/op_functions.h"
#include "ops/spans.h"

static uint64_t count_of(const art_op_args *args) {
    return art_count(&args->operand[0]);
}

static void relu_fwd(const art_op_args *args, const void *constants, size_t first, size_t n) {
    (void)constants;
    art_vec(args)->relu(art_out(args, ART_RELU_FWD_Y) + first, art_in(args, ART_RELU_FWD_X) + first,
                        n);
}

static void relu_grad(const art_op_args *args, const void *constants, size_t first, size_t n) {
    (void)constants;
    art_vec(args)->relu_grad(art_out(args, ART_RELU_GRAD_DX) + first,
                             art_in(args, ART_RELU_GRAD_Y) + first,
                             art_in(args, ART_RELU_GRAD_DY) + first, n);
}

static void tanh_fwd(const art_op_args *args, const void *constants, size_t first, size_t n) {
    (void)constants;
    art_vec(args)->tanh(art_out(args, ART_TANH_FWD_Y) + first, art_in(args, ART_TANH_FWD_X) + first,
                        n);
}

static void tanh_grad(const art_op_args *args, const void *constants, size_t first, size_t n) {
    (void)constants;
    art_vec(args)->tanh_grad(art_out(args, ART_TANH_GRAD_DX) + first,
                             art_in(args, ART_TANH_GRAD_Y) + first,
                             art_in(args, ART_TANH_GRAD_DY) + first, n);
}

static void add(const art_op_args *args, const void *constants, size_t first, size_t n) {
    (void)constants;
    art_vec(args)->add(art_out(args, ART_ADD_Y) + first, art_in(args, ART_ADD_A) + first,
                       art_in(args, ART_ADD_B) + first, n);
}

static void copy(const art_op_args *args, const void *constants, size_t first, size_t n) {
    (void)constants;
    memcpy(art_out(args, ART_COPY_Y) + first, art_in(args, ART_COPY_X) + first, n * sizeof(float));
}

/* The three functions of operation `name`: its operands in messages, and work per element. */
#define ELEMENTWISE(name, work, ...)                                                               \
    art_status art_op_##name##_check(const art_op_args *args, art_error *err) {                    \
        static const char *const names[] = {__VA_ARGS__};                                          \
        return art_check_alike(args, names, sizeof names / sizeof names[0], err);                  \
    }                                                                                              \
    ART_NO_WORKSPACE(name)                                                                         \
    art_status art_op_##name##_run(const art_op_args *args, art_error *err) {                      \
        (void)err;                                                                                 \
        art_run_spans(args, count_of(args), work, name, NULL);                                     \
        return ART_OK;                                                                             \
    }

ELEMENTWISE(relu_fwd, 1, "relu_fwd.x", "relu_fwd.y")
ELEMENTWISE(relu_grad, 1, "relu_grad.y", "relu_grad.dy", "relu_grad.dx")
ELEMENTWISE(tanh_fwd, 10, "tanh_fwd.x", "tanh_fwd.y")
ELEMENTWISE(tanh_grad, 1, "tanh_grad.y", "tanh_grad.dy", "tanh_grad.dx")
ELEMENTWISE(add, 1, "add.a", "add.b", "add.y")
ELEMENTWISE(copy, 1, "copy.x", "copy.y")
