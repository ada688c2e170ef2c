/* One bit for each element of a rectifier's value: whether the gradient passes there. A sample's
 * bits start at a byte of their own, so that smaller batches are parts of larger ones. */
#include <math.h>

#include "ops/op_functions.h"
#include "ops/spans.h"

enum { BITS_OF_BYTE = 8, WORK = 16 };
enum { DY = ART_RECTIFIER_BITS_GRAD_DY, DX = ART_RECTIFIER_BITS_GRAD_DX };

/* Bytes and elements of a sample. */
typedef struct sample_size {
    size_t bytes, floats;
    float most; /* no gradient from there on; NaN for no bound */
} sample_size;

static sample_size size_of(const art_array *values) {
    size_t floats = (size_t)(art_count(values) / values->dims[0]);
    return (sample_size){(size_t)art_ceil_div(floats, BITS_OF_BYTE), floats, NAN};
}

static art_status check(const art_op_args *args, unsigned values, unsigned bits, const char *name,
                        const char *bits_name, art_error *err) {
    const art_array *y = &args->operand[values];
    ART_TRY(art_check_operand(args, values, name, ART_DTYPE_F32, ART_ANY_RANK, err));
    ART_TRY(art_check_operand(args, bits, bits_name, ART_DTYPE_U8, 2, err));
    ART_TRY(art_check_batched(args, bits, bits_name, y->batched, err));
    uint64_t bytes = art_ceil_div(art_count(y) / y->dims[0], BITS_OF_BYTE);
    ART_FAIL_IF(bytes > UINT32_MAX, err, ART_SHAPE, "%s has too many elements a sample", name);
    return art_check_dims(args, bits, bits_name, (const uint32_t[2]){y->dims[0], (uint32_t)bytes},
                          err);
}

art_status art_op_rectifier_bits_check(const art_op_args *args, art_error *err) {
    return check(args, ART_RECTIFIER_BITS_Y, ART_RECTIFIER_BITS_BITS, "rectifier_bits.y",
                 "rectifier_bits.bits", err);
}

art_status art_op_rectifier_bits_grad_check(const art_op_args *args, art_error *err) {
    ART_TRY(check(args, DY, ART_RECTIFIER_BITS_GRAD_BITS, "rectifier_bits_grad.dy",
                  "rectifier_bits_grad.bits", err));
    ART_TRY(
        art_check_operand(args, DX, "rectifier_bits_grad.dx", ART_DTYPE_F32, ART_ANY_RANK, err));
    return art_check_matches(args, DX, "rectifier_bits_grad.dx", DY, err);
}

ART_NO_WORKSPACE(rectifier_bits)
ART_NO_WORKSPACE(rectifier_bits_grad)

/* Elements of byte `b`, the first one of which is at *at: fewer than 8 at a sample's end. */
static size_t elements_of(const sample_size *s, size_t b, size_t *at) {
    size_t start = b % s->bytes * BITS_OF_BYTE, left = s->floats - start;
    *at = b / s->bytes * s->floats + start;
    return left < BITS_OF_BYTE ? left : BITS_OF_BYTE;
}

static void keep(const art_op_args *args, const void *constants, size_t first, size_t n) {
    const sample_size *s = constants;
    uint8_t *bits = args->operand[ART_RECTIFIER_BITS_BITS].data;
    for (size_t b = first; b < first + n; b++) {
        size_t at, elements = elements_of(s, b, &at);
        const float *y = art_in(args, ART_RECTIFIER_BITS_Y) + at;
        unsigned byte = 0;
        for (size_t i = 0; i < elements; i++) {
            byte |= (unsigned)(y[i] > 0.0f && !(y[i] >= s->most)) << i;
        }
        bits[b] = (uint8_t)byte;
    }
}

static void pass(const art_op_args *args, const void *constants, size_t first, size_t n) {
    const uint8_t *bits = args->operand[ART_RECTIFIER_BITS_GRAD_BITS].data;
    for (size_t b = first; b < first + n; b++) {
        size_t at, elements = elements_of(constants, b, &at);
        const float *dy = art_in(args, DY) + at;
        float *dx = art_out(args, DX) + at;
        for (size_t i = 0; i < elements; i++) {
            dx[i] = bits[b] >> i & 1 ? dy[i] : 0.0f;
        }
    }
}

art_status art_op_rectifier_bits_run(const art_op_args *args, art_error *err) {
    sample_size s = size_of(&args->operand[ART_RECTIFIER_BITS_Y]);
    (void)err;
    if (args->attr[ART_RECTIFIER_BITS_A_RECTIFIER].i == ART_RECTIFIER_RELU6) {
        s.most = 6.0f;
    }
    art_run_spans(args, art_count(&args->operand[ART_RECTIFIER_BITS_BITS]), WORK, keep, &s);
    return ART_OK;
}

art_status art_op_rectifier_bits_grad_run(const art_op_args *args, art_error *err) {
    sample_size s = size_of(&args->operand[DY]);
    (void)err;
    art_run_spans(args, art_count(&args->operand[ART_RECTIFIER_BITS_GRAD_BITS]), WORK, pass, &s);
    return ART_OK;
}
