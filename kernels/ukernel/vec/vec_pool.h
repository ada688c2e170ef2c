/* Pooling rows of the vec family, for vec_impl.h: channels are the vector axis.
 *
 * An output row is cut into runs of windows side by side that have the same taps inside the image,
 * and a run into registers of channels as in EACH_REGISTER. So the loops over a run know neither
 * padding nor the image. Gradients are added into the row window by window: an input's
 * contributions arrive in ascending order of output position. */

/* The taps of one window along one axis that lie inside the image. */
typedef struct taps {
    int32_t first, count;
    int32_t at; /* input position of the first */
} taps;

INLINE taps taps_inside(int32_t start, int32_t kernel, int32_t dil, int32_t size) {
    if (start >= 0 && start + (kernel - 1) * dil < size) {
        return (taps){0, kernel, start};
    }
    int32_t first = start < 0 ? (-start - 1) / dil + 1 : 0;
    int32_t end = start < size ? (size - 1 - start) / dil + 1 : 0;
    end = end < kernel ? end : kernel;
    return first < end ? (taps){first, end - first, start + first * dil} : (taps){0};
}

INLINE taps rows_inside(const art_vec_window *w, int32_t oh) {
    return taps_inside(oh * w->stride_h - w->pad_h, w->kernel_h, w->dil_h, w->in_h);
}

/* Windows with the same taps inside. */
typedef struct run {
    int32_t windows, rows, columns;
    size_t row_step, step, window_step; /* floats between taps and between windows */
    size_t channels;
    int32_t place;  /* of the first tap */
    int32_t places; /* of a kernel row */
    float count;    /* what an average divides by */
    size_t at;      /* first tap of the first window, in floats of its input row */
} run;

/* A run's part of a row stays in the first cache while its registers pass over it. */
enum { RUN_FLOATS = 1024 };

/* The longest run from window ow on. */
INLINE run run_from(const art_vec_window *w, taps down, int32_t ow) {
    int32_t start = ow * w->stride_w - w->pad_w, reach = start + (w->kernel_w - 1) * w->dil_w;
    taps right = taps_inside(start, w->kernel_w, w->dil_w, w->in_w);
    int32_t windows = 1, most = (int32_t)(RUN_FLOATS / w->channels);
    if (right.count == w->kernel_w) {
        windows = (w->in_w - 1 - reach) / w->stride_w + 1;
        windows = windows < most ? windows : most;
        windows = windows > w->out_w - ow ? w->out_w - ow : windows < 1 ? 1 : windows;
    }
    int inside = down.count > 0 && right.count > 0;
    return (run){
        .windows = windows,
        .rows = inside ? down.count : 0,
        .columns = right.count,
        .row_step = (size_t)w->dil_h * (size_t)w->in_w * w->channels,
        .step = (size_t)w->dil_w * w->channels,
        .window_step = (size_t)w->stride_w * w->channels,
        .channels = w->channels,
        .place = inside ? down.first * w->kernel_w + right.first : ART_VEC_NO_PLACE,
        .places = w->kernel_w,
        .at = (size_t)right.at * w->channels,
    };
}

/* Places of a window along one axis that are in the image or its padding. */
INLINE float places_counted(int32_t start, int32_t kernel, int32_t size, int32_t pad) {
    return (float)(kernel < size + pad - start ? kernel : size + pad - start);
}

/* The longest run from window ow of output row oh on, with what its averages divide by. */
INLINE run average_run(const art_vec_window *w, taps down, int32_t oh, int32_t ow) {
    run r = run_from(w, down, ow);
    r.count = (float)down.count * (float)r.columns;
    if (w->divisor) {
        r.count = (float)w->divisor;
    } else if (w->count_include_pad) {
        r.count = places_counted(oh * w->stride_h - w->pad_h, w->kernel_h, w->in_h, w->pad_h) *
                  places_counted(ow * w->stride_w - w->pad_w, w->kernel_w, w->in_w, w->pad_w);
    }
    return r;
}

typedef int32_t wide_ints __attribute__((vector_size(4 * ART_VEC_WIDTH)));
typedef int32_t loose_wide_ints
    __attribute__((vector_size(4 * ART_VEC_WIDTH), aligned(4), may_alias));
typedef uint64_t key_halves __attribute__((vector_size(16)));
typedef int32_t quad_ints __attribute__((vector_size(16)));
typedef int32_t loose_quad_ints __attribute__((vector_size(16), aligned(4), may_alias));

/* Where v takes the place of the maximum so far: it is larger, or NaN. With ART_VEC_COMPARE_BITS as
 * integers, for a processor whose vector unit takes some floats for others: a float's rank is its
 * sign and magnitude in two's complement, NaN above all. */
#ifdef ART_VEC_COMPARE_BITS
#define WINS_OF(name, type, ints)                                                                  \
    INLINE ints rank_##name(ints bits) {                                                           \
        ints size = bits & INT32_MAX, sign = bits >> 31, nan = size > 0x7f800000;                  \
        return (nan & INT32_MAX) | (~nan & ((size ^ sign) - sign));                                \
    }                                                                                              \
    INLINE ints wins_##name(type v, type best) {                                                   \
        ints rank = rank_##name((ints)v);                                                          \
        return (rank > rank_##name((ints)best)) | (rank == INT32_MAX);                             \
    }
#else
#define WINS_OF(name, type, ints)                                                                  \
    INLINE ints wins_##name(type v, type best) {                                                   \
        return (v > best) | (v != v);                                                              \
    }
#endif
WINS_OF(wide, vfloat, wide_ints)
WINS_OF(four, quad, quad_ints)

/* What registers and single floats do in different words: `take` is a comparison's result. A window
 * place in a lane is a key, in whatever form the register's bytes come and go best. */
#define LANES_OF(name, type, ints, loose_ints)                                                     \
    INLINE type pick_##name(ints take, type a, type b) {                                           \
        return (type)((take & (ints)a) | (~take & (ints)b));                                       \
    }                                                                                              \
    INLINE ints pick_key_##name(ints take, ints a, ints b) {                                       \
        return (take & a) | (~take & b);                                                           \
    }                                                                                              \
    /* Zero in the lanes in front of `skip`. */                                                    \
    INLINE type without_##name(type v, int32_t skip) {                                             \
        return (type)((ints)v & (*(const loose_ints *)lane_numbers >= skip));                      \
    }

/* Four lanes: each has its byte of the word in memory, the others are zero. */
#define KEYS_OF_FOUR(name, ints)                                                                   \
    INLINE ints key_##name(int32_t place) {                                                        \
        int32_t word = (int32_t)((uint32_t)place * 0x01010101u);                                   \
        return ((ints){0} + word) & (ints){0xff, 0xff00, 0xff0000, (int)0xff000000};               \
    }                                                                                              \
    INLINE ints load_keys_##name(const uint8_t *from) {                                            \
        int32_t word;                                                                              \
        memcpy(&word, from, sizeof word);                                                          \
        return ((ints){0} + word) & (ints){0xff, 0xff00, 0xff0000, (int)0xff000000};               \
    }                                                                                              \
    INLINE void store_keys_##name(uint8_t *to, ints keys) {                                        \
        key_halves halves = (key_halves)keys;                                                      \
        uint64_t half = halves[0] | halves[1];                                                     \
        uint32_t word = (uint32_t)(half | half >> 32);                                             \
        memcpy(to, &word, sizeof word);                                                            \
    }

static const int32_t lane_numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
LANES_OF(wide, vfloat, wide_ints, loose_wide_ints)
LANES_OF(four, quad, quad_ints, loose_quad_ints)
KEYS_OF_FOUR(four, quad_ints)
#if ART_VEC_WIDTH == 4
KEYS_OF_FOUR(wide, wide_ints)
#else
/* Bytes by way of 16 bits: from or to 32 in one step GCC converts them one by one. */
typedef uint8_t wide_bytes __attribute__((vector_size(ART_VEC_WIDTH)));
typedef uint16_t wide_shorts __attribute__((vector_size(2 * ART_VEC_WIDTH)));

INLINE wide_ints key_wide(int32_t place) {
    return (wide_ints){0} + place;
}

INLINE wide_ints load_keys_wide(const uint8_t *from) {
    wide_bytes places;
    memcpy(&places, from, sizeof places);
    return __builtin_convertvector(__builtin_convertvector(places, wide_shorts), wide_ints);
}

INLINE void store_keys_wide(uint8_t *to, wide_ints keys) {
    wide_shorts shorts = __builtin_convertvector(keys, wide_shorts);
    wide_bytes places = __builtin_convertvector(shorts, wide_bytes);
    memcpy(to, &places, sizeof places);
}
#endif

/* One comparison settles most floats. */
INLINE int32_t wins_one(float v, float best) {
    return __builtin_expect(v <= best, 1) ? 0 : v > best || v != v;
}

INLINE float pick_one(int32_t take, float a, float b) {
    return take ? a : b;
}

INLINE int32_t pick_key_one(int32_t take, int32_t a, int32_t b) {
    return take ? a : b;
}

INLINE float without_one(float v, int32_t skip) {
    (void)skip;
    return v;
}

INLINE int32_t key_one(int32_t place) {
    return place;
}

INLINE int32_t load_keys_one(const uint8_t *from) {
    return *from;
}

INLINE void store_keys_one(uint8_t *to, int32_t key) {
    *to = (uint8_t)key;
}

/* The usual windows with their loops unrolled. */
#define BY_TAPS(FUNCTION, ...)                                                                     \
    if (r->rows == 2 && r->columns == 2) {                                                         \
        FUNCTION(__VA_ARGS__, r, 2, 2);                                                            \
    } else if (r->rows == 3 && r->columns == 3) {                                                  \
        FUNCTION(__VA_ARGS__, r, 3, 3);                                                            \
    } else {                                                                                       \
        FUNCTION(__VA_ARGS__, r, r->rows, r->columns);                                             \
    }
#define BY_COLUMNS(FUNCTION, ...)                                                                  \
    if (r->columns == 2) {                                                                         \
        FUNCTION(__VA_ARGS__, r, skip, 2);                                                         \
    } else if (r->columns == 3) {                                                                  \
        FUNCTION(__VA_ARGS__, r, skip, 3);                                                         \
    } else {                                                                                       \
        FUNCTION(__VA_ARGS__, r, skip, r->columns);                                                \
    }

typedef float one_memory __attribute__((may_alias));

/* A run's windows, for one register of channels and `rows` x `columns` taps. Sums get zero in
 * lanes that the register before has done, which changes no bit of a sum that started at +0. */
#define MAX_POOLS(name, type, memory, ints)                                                        \
    INLINE void max_taps_##name(float *y, uint8_t *idx, const float *x, const run *r,              \
                                int32_t rows, int32_t columns) {                                   \
        for (int32_t i = 0; i < r->windows; i++, y += r->channels, x += r->window_step) {          \
            type best = (type){0} - INFINITY;                                                      \
            if (rows > 0) {                                                                        \
                best = *(const memory *)x;                                                         \
            }                                                                                      \
            ints key = key_##name(r->place);                                                       \
            for (int32_t kh = 0, here = r->place; kh < rows; kh++, here += r->places) {            \
                const float *from = x + (size_t)kh * r->row_step;                                  \
                for (int32_t kw = kh == 0; kw < columns; kw++) {                                   \
                    type v = *(const memory *)(from + (size_t)kw * r->step);                       \
                    ints take = wins_##name(v, best);                                              \
                    best = pick_##name(take, v, best);                                             \
                    key = pick_key_##name(take, key_##name(here + kw), key);                       \
                }                                                                                  \
            }                                                                                      \
            *(memory *)y = best;                                                                   \
            if (idx) {                                                                             \
                store_keys_##name(idx, key);                                                       \
                idx += r->channels;                                                                \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    INLINE void max_##name(float *y, uint8_t *idx, const float *x, const run *r) {                 \
        BY_TAPS(max_taps_##name, y, idx, x);                                                       \
    }                                                                                              \
    INLINE void max_grad_taps_##name(float *dx, const float *dy, const uint8_t *idx, const run *r, \
                                     int32_t skip, int32_t columns) {                              \
        for (int32_t i = 0; i < r->windows; i++, dx += r->window_step) {                           \
            type d = without_##name(*(const memory *)dy, skip);                                    \
            ints keys = load_keys_##name(idx);                                                     \
            for (int32_t kw = 0; kw < columns; kw++) {                                             \
                memory *to = (memory *)(dx + (size_t)kw * r->step);                                \
                *to += pick_##name(keys == key_##name(r->place + kw), d, (type){0});               \
            }                                                                                      \
            dy += r->channels;                                                                     \
            idx += r->channels;                                                                    \
        }                                                                                          \
    }                                                                                              \
    INLINE void max_grad_##name(float *dx, const float *dy, const uint8_t *idx, const run *r,      \
                                int32_t skip) {                                                    \
        BY_COLUMNS(max_grad_taps_##name, dx, dy, idx);                                             \
    }
MAX_POOLS(wide, vfloat, loose, wide_ints)
MAX_POOLS(four, quad, loose_quad, quad_ints)
MAX_POOLS(one, float, one_memory, int32_t)

#define AVERAGE_POOLS(name, type, memory)                                                          \
    INLINE void average_taps_##name(float *y, const float *x, const run *r, int32_t rows,          \
                                    int32_t columns) {                                             \
        for (int32_t i = 0; i < r->windows; i++, y += r->channels, x += r->window_step) {          \
            type sum = {0};                                                                        \
            for (int32_t kh = 0; kh < rows; kh++) {                                                \
                const float *from = x + (size_t)kh * r->row_step;                                  \
                for (int32_t kw = 0; kw < columns; kw++) {                                         \
                    sum += *(const memory *)(from + (size_t)kw * r->step);                         \
                }                                                                                  \
            }                                                                                      \
            *(memory *)y = sum / r->count;                                                         \
        }                                                                                          \
    }                                                                                              \
    INLINE void average_##name(float *y, const float *x, const run *r) {                           \
        BY_TAPS(average_taps_##name, y, x);                                                        \
    }                                                                                              \
    INLINE void average_grad_taps_##name(float *dx, const float *dy, const run *r, int32_t skip,   \
                                         int32_t columns) {                                        \
        for (int32_t i = 0; i < r->windows; i++, dx += r->window_step, dy += r->channels) {        \
            type d = without_##name(*(const memory *)dy / r->count, skip);                         \
            for (int32_t kw = 0; kw < columns; kw++) {                                             \
                *(memory *)(dx + (size_t)kw * r->step) += d;                                       \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    INLINE void average_grad_##name(float *dx, const float *dy, const run *r, int32_t skip) {      \
        BY_COLUMNS(average_grad_taps_##name, dx, dy);                                              \
    }
AVERAGE_POOLS(wide, vfloat, loose)
AVERAGE_POOLS(four, quad, loose_quad)
AVERAGE_POOLS(one, float, one_memory)

/* Lanes of the register at channel c that the one before has done. */
#define SKIP_wide(c) (int32_t)(-(c) % ART_VEC_WIDTH)
#define SKIP_four(c) (int32_t)(-(c) % 4)
#define SKIP_one(c) 0

/* Registers of maxima need masks: without vectors of integers a float at a time is faster. */
#if defined(__arm__) && !defined(__ARM_NEON)
#define EACH_MASKED(REDUCE)                                                                        \
    for (size_t c = 0; c < n; c++) {                                                               \
        REDUCE(one, c);                                                                            \
    }
#else
#define EACH_MASKED(REDUCE) EACH_REGISTER(REDUCE)
#endif

static void FN(maxpool_row)(float *y, uint8_t *idx, const float *x, const art_vec_window *w,
                            int32_t oh) {
    const size_t n = w->channels;
    const taps down = rows_inside(w, oh);
    x += (size_t)down.at * (size_t)w->in_w * n;
    for (int32_t ow = 0; ow < w->out_w;) {
        const run r = run_from(w, down, ow);
        const size_t at = (size_t)ow * n;
#define MAXIMA(name, c) max_##name(y + at + (c), idx ? idx + at + (c) : NULL, x + r.at + (c), &r)
        EACH_MASKED(MAXIMA)
        ow += r.windows;
    }
}

static void FN(avgpool_row)(float *y, const float *x, const art_vec_window *w, int32_t oh) {
    const size_t n = w->channels;
    const taps down = rows_inside(w, oh);
    x += (size_t)down.at * (size_t)w->in_w * n;
    for (int32_t ow = 0; ow < w->out_w;) {
        const run r = average_run(w, down, oh, ow);
        const size_t at = (size_t)ow * n;
#define AVERAGES(name, c) average_##name(y + at + (c), x + r.at + (c), &r)
        EACH_REGISTER(AVERAGES)
        ow += r.windows;
    }
}

/* First and last output row whose window covers input row ih. */
INLINE int32_t first_window(const art_vec_window *w, int32_t ih) {
    int32_t reach = ih + w->pad_h - (w->kernel_h - 1) * w->dil_h;
    return reach <= 0 ? 0 : (reach - 1) / w->stride_h + 1;
}

INLINE int32_t last_window(const art_vec_window *w, int32_t ih) {
    int32_t last = (ih + w->pad_h) / w->stride_h;
    return last < w->out_h ? last : w->out_h - 1;
}

static void FN(maxpool_grad_row)(float *dx, const float *dy, const uint8_t *idx,
                                 const art_vec_window *w, int32_t ih) {
    const size_t n = w->channels;
    const int32_t last = last_window(w, ih);
    memset(dx, 0, (size_t)w->in_w * n * sizeof *dx);
    for (int32_t oh = first_window(w, ih); oh <= last; oh++) {
        const int32_t below = ih + w->pad_h - oh * w->stride_h;
        if (below % w->dil_h) {
            continue; /* between two taps */
        }
        const taps down = {.first = below / w->dil_h, .count = 1};
        for (int32_t ow = 0; ow < w->out_w;) {
            const run r = run_from(w, down, ow);
            const size_t at = ((size_t)oh * (size_t)w->out_w + (size_t)ow) * n;
#define MAX_GRADS(name, c)                                                                         \
    max_grad_##name(dx + r.at + (c), dy + at + (c), idx + at + (c), &r, SKIP_##name(c))
            EACH_MASKED(MAX_GRADS)
            ow += r.windows;
        }
    }
}

static void FN(avgpool_grad_row)(float *dx, const float *dy, const art_vec_window *w, int32_t ih) {
    const size_t n = w->channels;
    const int32_t last = last_window(w, ih);
    memset(dx, 0, (size_t)w->in_w * n * sizeof *dx);
    for (int32_t oh = first_window(w, ih); oh <= last; oh++) {
        const taps down = rows_inside(w, oh);
        for (int32_t ow = 0; ow < w->out_w;) {
            const run r = average_run(w, down, oh, ow);
            const size_t at = ((size_t)oh * (size_t)w->out_w + (size_t)ow) * n;
#define AVERAGE_GRADS(name, c)                                                                     \
    average_grad_##name(dx + r.at + (c), dy + at + (c), &r, SKIP_##name(c))
            EACH_REGISTER(AVERAGE_GRADS)
            ow += r.windows;
        }
    }
}
