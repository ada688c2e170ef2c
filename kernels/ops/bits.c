/* One bit for each element of a rectifier's value: whether the gradient passes there. A sample's
 * bits start at a byte of their own, so that smaller batches are parts of larger ones. */
#include <string.h>

#include "ops/op_functions.h"
#include "ops/spans.h"

enum { BITS_OF_BYTE = 8, WORK = 16 };
enum { DY = ART_RECTIFIER_BITS_GRAD_DY, DX = ART_RECTIFIER_BITS_GRAD_DX };

/* A float is between 0 and a positive one where its bits are, as numbers; NaNs are above all. */
enum { BITS_OF_INFINITY = 0x7f800000, BITS_OF_SIX = 0x40c00000 };

/* Bytes and elements of a sample. */
typedef struct sample_size {
    size_t bytes, floats;
    int32_t end; /* bits of the first float above 0 where no gradient passes */
} sample_size;

static sample_size size_of(const art_array *values) {
    size_t floats = (size_t)(art_count(values) / values->dims[0]);
    return (sample_size){(size_t)art_ceil_div(floats, BITS_OF_BYTE), floats, BITS_OF_INFINITY + 1};
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

typedef int32_t four __attribute__((vector_size(16)));
static const four low = {1, 2, 4, 8}, high = {16, 32, 64, 128};

static four load(const float *from) {
    four value;
    memcpy(&value, from, sizeof value);
    return value;
}

static uint8_t byte_of(const float *y, int32_t end) {
    four a = load(y), b = load(y + 4);
    four set = ((a > 0) & (a < end) & low) | ((b > 0) & (b < end) & high);
    return (uint8_t)(set[0] | set[1] | set[2] | set[3]);
}

static void pass_byte(float *dx, const float *dy, uint8_t byte) {
    four all = {byte, byte, byte, byte};
    four a = load(dy) & ((all & low) == low), b = load(dy + 4) & ((all & high) == high);
    memcpy(dx, &a, sizeof a);
    memcpy(dx + 4, &b, sizeof b);
}

/* What is done with one byte and its elements: 8, or fewer at a sample's end. */
typedef void (*each_byte)(const sample_size *s, uint8_t *byte, float *to, const float *from,
                          size_t elements);

/* Do it with bytes [first, first + n). */
static inline void for_bytes(const sample_size *s, uint8_t *bits, float *to, const float *from,
                             size_t first, size_t n, each_byte each) {
    size_t row = first / s->bytes, byte = first % s->bytes;
    for (size_t b = first; b < first + n; b++) {
        size_t at = row * s->floats + byte * BITS_OF_BYTE;
        size_t left = s->floats - byte * BITS_OF_BYTE;
        each(s, bits + b, to ? to + at : NULL, from + at,
             left < BITS_OF_BYTE ? left : BITS_OF_BYTE);
        byte++;
        if (byte == s->bytes) {
            byte = 0;
            row++;
        }
    }
}

static void keep_byte(const sample_size *s, uint8_t *byte, float *to, const float *from,
                      size_t elements) {
    float some[BITS_OF_BYTE] = {0};
    (void)to;
    if (elements < BITS_OF_BYTE) {
        memcpy(some, from, elements * sizeof *from);
        from = some;
    }
    *byte = byte_of(from, s->end);
}

static void use_byte(const sample_size *s, uint8_t *byte, float *to, const float *from,
                     size_t elements) {
    float some[BITS_OF_BYTE] = {0};
    (void)s;
    if (elements == BITS_OF_BYTE) {
        pass_byte(to, from, *byte);
        return;
    }
    memcpy(some, from, elements * sizeof *from);
    pass_byte(some, some, *byte);
    memcpy(to, some, elements * sizeof *to);
}

static void keep(const art_op_args *args, const void *constants, size_t first, size_t n) {
    for_bytes(constants, args->operand[ART_RECTIFIER_BITS_BITS].data, NULL,
              art_in(args, ART_RECTIFIER_BITS_Y), first, n, keep_byte);
}

static void pass(const art_op_args *args, const void *constants, size_t first, size_t n) {
    for_bytes(constants, args->operand[ART_RECTIFIER_BITS_GRAD_BITS].data, art_out(args, DX),
              art_in(args, DY), first, n, use_byte);
}

art_status art_op_rectifier_bits_run(const art_op_args *args, art_error *err) {
    sample_size s = size_of(&args->operand[ART_RECTIFIER_BITS_Y]);
    (void)err;
    if (args->attr[ART_RECTIFIER_BITS_A_RECTIFIER].i == ART_RECTIFIER_RELU6) {
        s.end = BITS_OF_SIX;
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
