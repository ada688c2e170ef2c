/* Part of vec_impl.h: arithmetic of two arrays, or of an array and one number, and functions of
 * one. */

/* y = a o b; b is a number where `spread`. */
#define COMBINED(expression)                                                                       \
    if (spread) {                                                                                  \
        const float v = *b;                                                                        \
        IVDEP for (size_t i = 0; i < n; i++) {                                                     \
            float u = a[i];                                                                        \
            y[i] = expression;                                                                     \
        }                                                                                          \
    } else {                                                                                       \
        IVDEP for (size_t i = 0; i < n; i++) {                                                     \
            float u = a[i], v = b[i];                                                              \
            y[i] = expression;                                                                     \
        }                                                                                          \
    }                                                                                              \
    break

static void FN(combine)(float *y, const float *a, const float *b, size_t n, int how, int spread) {
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

static void FN(affine)(float *y, const float *x, float scale, float shift, size_t n) {
    IVDEP for (size_t i = 0; i < n; i++) {
        y[i] = x[i] * scale + shift;
    }
}

static void FN(function)(float *y, const float *x, size_t n, int which) {
    switch (which) {
    case ART_FUNCTION_EXP:
        IVDEP for (size_t i = 0; i < n; i++) {
            y[i] = art_expf(x[i]);
        }
        break;
    case ART_FUNCTION_LOG:
        for (size_t i = 0; i < n; i++) {
            y[i] = (float)art_log((double)x[i]);
        }
        break;
    case ART_FUNCTION_ABS:
        IVDEP for (size_t i = 0; i < n; i++) {
            y[i] = fabsf(x[i]);
        }
        break;
    default:
        IVDEP for (size_t i = 0; i < n; i++) {
            float u = x[i], s = u > 0.0f ? 1.0f : u;
            y[i] = u < 0.0f ? -1.0f : s;
        }
    }
}

enum { POWER_BLOCK = 64 };

/* x^(halves / 2): squared again and again, times the root for an odd number of halves. */
static void FN(power)(float *y, const float *x, size_t n, int halves) {
    for (size_t done = 0; done < n; done += POWER_BLOCK) {
        size_t count = n - done < POWER_BLOCK ? n - done : POWER_BLOCK;
        float base[POWER_BLOCK], result[POWER_BLOCK];
        int size = halves < 0 ? -halves : halves;
        for (size_t i = 0; i < count; i++) {
            base[i] = x[done + i];
            result[i] = size & 1 ? sqrtf(base[i]) : 1.0f;
        }
        for (int left = size >> 1; left > 0; left >>= 1) {
            for (size_t i = 0; i < count; i++) {
                result[i] = left & 1 ? result[i] * base[i] : result[i];
                base[i] = base[i] * base[i];
            }
        }
        for (size_t i = 0; i < count; i++) {
            y[done + i] = halves < 0 ? 1.0f / result[i] : result[i];
        }
    }
}
