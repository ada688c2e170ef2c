/* The one body of the vec family: a level's file defines ART_VEC_LEVEL (suffix of the names) and
 * ART_VEC_WIDTH (floats of one register) and includes this. Only speed depends on either.
 *
 * Element-wise loops are plain and left to the compiler; IVDEP tells it that arrays are either
 * the same or disjoint. Reductions spell out their partial results. Nothing here may depend on
 * alignment, on the place of a tile, or on contraction of a product into a sum. */
#include "core/math.h"
#include "core/philox.h"
#include "ukernel/vec/vec.h"

#define ART_PASTE2(a, b) a##b
#define ART_PASTE(a, b) ART_PASTE2(a, b)
#define FN(name) level_##name
#if defined(__clang__)
#define IVDEP /* Clang compares the addresses at run time instead */
#define SHORT_IVDEP
#else
#define IVDEP _Pragma("GCC ivdep")
/* Where counting costs as much as the work: four registers a turn. */
#define SHORT_IVDEP IVDEP _Pragma("GCC unroll 4")
#endif
#define INLINE static inline __attribute__((always_inline))

/* One register of floats; `loose` is the same at any float's address. */
typedef float vfloat __attribute__((vector_size(4 * ART_VEC_WIDTH)));
typedef float loose __attribute__((vector_size(4 * ART_VEC_WIDTH), aligned(4), may_alias));

/* ---- element by element ---- */

/* Read as integers, what becomes zero lies between -0, the least, and -infinity, and NaN and what
 * is above zero lie over it: one comparison, which ARMv7's vectors may do as well. */
static void FN(relu)(float *y, const float *x, size_t n) {
    const int32_t minus_infinity = -0x800000;
    SHORT_IVDEP for (size_t i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits = bits > minus_infinity ? bits : 0;
        memcpy(&y[i], &bits, sizeof bits);
    }
}

static void FN(relu_grad)(float *dx, const float *y, const float *dy, size_t n) {
    SHORT_IVDEP for (size_t i = 0; i < n; i++) {
        float d = dy[i];
        dx[i] = y[i] > 0.0f ? d : 0.0f;
    }
}

static void FN(tanh)(float *y, const float *x, size_t n) {
    IVDEP for (size_t i = 0; i < n; i++) {
        y[i] = art_tanhf(x[i]);
    }
}

static void FN(tanh_grad)(float *dx, const float *y, const float *dy, size_t n) {
    IVDEP for (size_t i = 0; i < n; i++) {
        dx[i] = dy[i] * (1.0f - y[i] * y[i]);
    }
}

static void FN(add)(float *y, const float *a, const float *b, size_t n) {
    SHORT_IVDEP for (size_t i = 0; i < n; i++) {
        y[i] = a[i] + b[i];
    }
}

#define COMBINED(expression)                                                                       \
    IVDEP for (size_t i = 0; i < n; i++) {                                                         \
        float u = a[i], v = b[i];                                                                  \
        y[i] = expression;                                                                         \
    }                                                                                              \
    break

static void FN(combine)(float *y, const float *a, const float *b, size_t n, int how) {
    switch (how) {
    case ART_COMBINE_ADD:
        COMBINED(u + v);
    case ART_COMBINE_SUB:
        COMBINED(u - v);
    case ART_COMBINE_MUL:
        COMBINED(u * v);
    case ART_COMBINE_DIV:
        COMBINED(u / v);
    case ART_COMBINE_RSUB:
        COMBINED(v - u);
    default:
        COMBINED(v / u);
    }
}
#undef COMBINED

static void FN(scale)(float *y, const float *x, float k, size_t n) {
    SHORT_IVDEP for (size_t i = 0; i < n; i++) {
        y[i] = x[i] * k;
    }
}

static void FN(add_scaled)(float *y, const float *x, float k, size_t n) {
    SHORT_IVDEP for (size_t i = 0; i < n; i++) {
        y[i] += x[i] * k;
    }
}

#include "ukernel/vec/vec_activation.h"

enum { MASK_BLOCKS = 16 };

/* Random words of MASK_BLOCKS consecutive Philox blocks, word w of block b at out[4 b + w]. */
INLINE void random_words(uint32_t out[4 * MASK_BLOCKS], const art_vec_mask *mask, uint64_t block) {
    const uint32_t seed0 = (uint32_t)mask->seed, seed1 = (uint32_t)(mask->seed >> 32);
    const uint32_t stream0 = (uint32_t)mask->stream, stream1 = (uint32_t)(mask->stream >> 32);
    IVDEP for (uint32_t b = 0; b < MASK_BLOCKS; b++) {
        uint32_t c0 = (uint32_t)(block + b), c1 = (uint32_t)((block + b) >> 32);
        uint32_t c2 = stream0, c3 = stream1, k0 = seed0, k1 = seed1;
        _Pragma("GCC unroll 10") for (int round = 0; round < ART_PHILOX_ROUNDS; round++) {
            art_philox_round(&c0, &c1, &c2, &c3, k0, k1);
            k0 += ART_PHILOX_W0;
            k1 += ART_PHILOX_W1;
        }
        out[4 * b] = c0;
        out[4 * b + 1] = c1;
        out[4 * b + 2] = c2;
        out[4 * b + 3] = c3;
    }
}

static void FN(dropout)(float *y, const float *x, size_t n, const art_vec_mask *mask,
                        uint64_t first) {
    uint32_t words[4 * MASK_BLOCKS];
    for (size_t done = 0; done < n;) {
        uint64_t index = first + done;
        size_t skip = (size_t)(index & 3);
        size_t count = 4 * MASK_BLOCKS - skip < n - done ? 4 * MASK_BLOCKS - skip : n - done;
        const float *from = x + done;
        float *to = y + done;
        random_words(words, mask, index >> 2);
        IVDEP for (size_t i = 0; i < count; i++) {
            float kept = from[i] * mask->scale;
            to[i] = words[skip + i] >> 8 >= mask->threshold ? kept : 0.0f;
        }
        done += count;
    }
}

/* One loop per combination of the flags, each without branches. */
INLINE void sgd_loop(float *w, const float *g, float *buffer, size_t n, art_vec_sgd k) {
    IVDEP for (size_t i = 0; i < n; i++) {
        float d = g[i] * k.scale + k.weight_decay * w[i];
        if (buffer) {
            float b = k.first ? d : k.momentum * buffer[i] + k.damp * d;
            buffer[i] = b;
            d = k.nesterov ? d + k.momentum * b : b;
        }
        w[i] -= k.lr * d;
    }
}

static void FN(sgd)(float *w, const float *g, float *buffer, size_t n, const art_vec_sgd *k) {
    art_vec_sgd c = *k;
    if (!buffer) {
        sgd_loop(w, g, NULL, n, c);
    } else if (c.first && c.nesterov) {
        c.first = 1, c.nesterov = 1;
        sgd_loop(w, g, buffer, n, c);
    } else if (c.first) {
        c.first = 1, c.nesterov = 0;
        sgd_loop(w, g, buffer, n, c);
    } else if (c.nesterov) {
        c.first = 0, c.nesterov = 1;
        sgd_loop(w, g, buffer, n, c);
    } else {
        c.first = 0, c.nesterov = 0;
        sgd_loop(w, g, buffer, n, c);
    }
}

INLINE void adam_loop(float *w, const float *g, float *m, float *v, size_t n, art_vec_adam c) {
    IVDEP for (size_t i = 0; i < n; i++) {
        float d = g[i] * c.scale + c.weight_decay * w[i];
        float first = m[i] + c.rest1 * (d - m[i]);
        float second = c.beta2 * v[i] + c.rest2 * (d * d);
        m[i] = first;
        v[i] = second;
        float from = c.shrinks ? w[i] * c.shrink : w[i];
        w[i] = from - c.rate * (first / (sqrtf(second) / c.root + c.eps));
    }
}

static void FN(adam)(float *w, const float *g, float *m, float *v, size_t n,
                     const art_vec_adam *k) {
    art_vec_adam c = *k;
    if (c.shrinks) {
        c.shrinks = 1;
        adam_loop(w, g, m, v, n, c);
    } else {
        c.shrinks = 0;
        adam_loop(w, g, m, v, n, c);
    }
}

INLINE void rmsprop_loop(float *w, const float *g, float *square, float *mean, float *buffer,
                         size_t n, art_vec_rmsprop c) {
    IVDEP for (size_t i = 0; i < n; i++) {
        float d = g[i] * c.scale + c.weight_decay * w[i];
        float second = c.alpha * square[i] + c.rest * (d * d);
        square[i] = second;
        if (mean) {
            float first = mean[i] + c.rest * (d - mean[i]);
            mean[i] = first;
            second -= first * first;
            second = second < 0.0f ? 0.0f : second;
        }
        float step = d / (sqrtf(second) + c.eps);
        if (buffer) {
            step = c.momentum * buffer[i] + step;
            buffer[i] = step;
        }
        w[i] -= c.lr * step;
    }
}

static void FN(rmsprop)(float *w, const float *g, float *square, float *mean, float *buffer,
                        size_t n, const art_vec_rmsprop *k) {
    if (mean && buffer) {
        rmsprop_loop(w, g, square, mean, buffer, n, *k);
    } else if (mean) {
        rmsprop_loop(w, g, square, mean, NULL, n, *k);
    } else if (buffer) {
        rmsprop_loop(w, g, square, NULL, buffer, n, *k);
    } else {
        rmsprop_loop(w, g, square, NULL, NULL, n, *k);
    }
}

static void FN(adagrad)(float *w, const float *g, float *sum, size_t n, const art_vec_adagrad *k) {
    const art_vec_adagrad c = *k;
    IVDEP for (size_t i = 0; i < n; i++) {
        float d = g[i] * c.scale + c.weight_decay * w[i];
        float total = sum[i] + d * d;
        sum[i] = total;
        w[i] -= c.rate * (d / (sqrtf(total) + c.eps));
    }
}

static void FN(clamp)(float *x, float limit, size_t n) {
    IVDEP for (size_t i = 0; i < n; i++) {
        float low = x[i] < -limit ? -limit : x[i];
        x[i] = low > limit ? limit : low;
    }
}

/* ---- reductions to one number: element i belongs to partial result i mod LANES ---- */

enum { LANES = 16 };

INLINE double fold(double acc[LANES]) {
    for (int half = LANES / 2; half > 0; half /= 2) {
        for (int j = 0; j < half; j++) {
            acc[j] += acc[j + half];
        }
    }
    return acc[0];
}

static double FN(sum_squares)(const float *x, size_t n) {
    double acc[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) {
            double v = (double)x[i + (size_t)j];
            acc[j] += v * v;
        }
    }
    for (size_t j = 0; i + j < n; j++) {
        acc[j] += (double)x[i + j] * (double)x[i + j];
    }
    return fold(acc);
}

#include "ukernel/vec/vec_loss.h"
#include "ukernel/vec/vec_softmax.h"

/* ---- reductions over rows, one result per column, rows in ascending order ----
 *
 * A column's result does not depend on its neighbours, so the last register may overlap the one
 * before and compute some columns twice. Narrow arrays use registers of four, then single floats.
 */

typedef float quad __attribute__((vector_size(16)));
typedef float loose_quad __attribute__((vector_size(16), aligned(4), may_alias));

/* First column of the register after the one at c, n when there is none. */
INLINE size_t next_register(size_t c, size_t width, size_t n) {
    return c + width >= n ? n : c + 2 * width > n ? n - width : c + width;
}

/* The two reductions for columns [c, c + width of `type`), by type of the register and of its
 * unaligned memory. */
#define COLUMNS(name, type, memory)                                                                \
    INLINE void moments_##name(float *shift, float *sum, float *squares, const float *x,           \
                               size_t rows, size_t ld, float per_row) {                            \
        type s = {0}, r = {0}, q = {0};                                                            \
        for (size_t i = 0; i < rows; i++) {                                                        \
            s += *(const memory *)(x + i * ld);                                                    \
        }                                                                                          \
        type k = s * per_row;                                                                      \
        for (size_t i = 0; i < rows; i++) {                                                        \
            type d = *(const memory *)(x + i * ld) - k;                                            \
            r += d;                                                                                \
            q += d * d;                                                                            \
        }                                                                                          \
        *(memory *)shift = k;                                                                      \
        *(memory *)sum = r;                                                                        \
        *(memory *)squares = q;                                                                    \
    }                                                                                              \
    INLINE void dots_##name(float *sum, float *dot, const float *dy, const float *x,               \
                            const float *mean, size_t rows, size_t ld) {                           \
        type s = {0}, p = {0}, k = *(const memory *)mean;                                          \
        for (size_t i = 0; i < rows; i++) {                                                        \
            type d = *(const memory *)(dy + i * ld);                                               \
            s += d;                                                                                \
            p += d * (*(const memory *)(x + i * ld) - k);                                          \
        }                                                                                          \
        *(memory *)sum = s;                                                                        \
        *(memory *)dot = p;                                                                        \
    }                                                                                              \
    INLINE void sums_##name(float *sum, const float *dy, size_t rows, size_t ld) {                 \
        type s = {0};                                                                              \
        for (size_t i = 0; i < rows; i++) {                                                        \
            s += *(const memory *)(dy + i * ld);                                                   \
        }                                                                                          \
        *(memory *)sum = s;                                                                        \
    }
COLUMNS(wide, vfloat, loose)
COLUMNS(four, quad, loose_quad)

/* One float as a register of one. */
typedef float single __attribute__((vector_size(4)));
typedef float loose_single __attribute__((vector_size(4), may_alias));
COLUMNS(one, single, loose_single)

/* Call REDUCE(name, c) for registers that cover columns [0, n). */
#define EACH_REGISTER(REDUCE)                                                                      \
    if (n >= ART_VEC_WIDTH) {                                                                      \
        for (size_t c = 0; c < n; c = next_register(c, ART_VEC_WIDTH, n)) {                        \
            REDUCE(wide, c);                                                                       \
        }                                                                                          \
    } else if (n >= 4) {                                                                           \
        for (size_t c = 0; c < n; c = next_register(c, 4, n)) {                                    \
            REDUCE(four, c);                                                                       \
        }                                                                                          \
    } else {                                                                                       \
        for (size_t c = 0; c < n; c++) {                                                           \
            REDUCE(one, c);                                                                        \
        }                                                                                          \
    }

static void FN(col_moments)(float *shift, float *sum, float *squares, const float *x, size_t rows,
                            size_t ld, size_t n) {
    const float per_row = 1.0f / (float)rows;
#define MOMENTS(name, c)                                                                           \
    moments_##name(shift + (c), sum + (c), squares + (c), x + (c), rows, ld, per_row)
    EACH_REGISTER(MOMENTS)
}

static void FN(col_dots)(float *sum, float *dot, const float *dy, const float *x, const float *mean,
                         size_t rows, size_t ld, size_t n) {
#define DOTS(name, c) dots_##name(sum + (c), dot + (c), dy + (c), x + (c), mean + (c), rows, ld)
#define SUMS(name, c) sums_##name(sum + (c), dy + (c), rows, ld)
    if (x) {
        EACH_REGISTER(DOTS)
    } else {
        EACH_REGISTER(SUMS)
    }
}

/* ---- rows of columns with one set of constants per column ---- */

static void FN(normalise)(float *y, const float *x, size_t rows, size_t ld, size_t n,
                          const art_vec_affine *k) {
    const float *mean = k->mean, *slope = k->slope, *shift = k->shift;
    for (size_t i = 0; i < rows; i++) {
        IVDEP for (size_t c = 0; c < n; c++) {
            y[i * ld + c] = (x[i * ld + c] - mean[c]) * slope[c] + shift[c];
        }
    }
}

static void FN(normalise_grad)(float *dx, const float *dy, const float *x, size_t rows, size_t ld,
                               size_t n, const art_vec_centred *k) {
    const float *mean = k->mean, *dy_mean = k->dy_mean, *dot = k->dot, *slope = k->slope;
    for (size_t i = 0; i < rows; i++) {
        IVDEP for (size_t c = 0; c < n; c++) {
            size_t at = i * ld + c;
            dx[at] = ((dy[at] - dy_mean[c]) - (x[at] - mean[c]) * dot[c]) * slope[c];
        }
    }
}

static void FN(scale_cols)(float *y, const float *x, size_t rows, size_t ld, size_t n,
                           const float *k) {
    for (size_t i = 0; i < rows; i++) {
        IVDEP for (size_t c = 0; c < n; c++) {
            y[i * ld + c] = x[i * ld + c] * k[c];
        }
    }
}

#include "ukernel/vec/vec_pool.h"

#define ART_VEC(name, result, parameters) .name = FN(name),
const art_vec_kernels ART_PASTE(art_vec_, ART_VEC_LEVEL) = {
#include "ukernel/vec/vec.def"
};
#undef ART_VEC
