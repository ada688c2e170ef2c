/* Activations, part of vec_impl.h: NAME_value(x) and NAME_slope(kept, dy) of one element, without
 * branches, and the loops over them. Formulas are torch's where rounding allows a choice between
 * ones of equal value; what is written differently avoids a cancellation or an overflow.
 *
 * NaN and infinities give what torch's double gives: comparisons are written so that NaN takes the
 * same side, and a function x f(x) is NaN at -infinity, as is its gradient at both infinities. */

/* s = 1 / (1 + e^-x) and r = 1 - s, both to full relative accuracy. */
INLINE void logistic(float x, float *s, float *r) {
    float a = art_float_of_bits(art_bits_of_float(x) & 0x7fffffffu);
    float e = art_expf(-a);
    float large = 1.0f / (1.0f + e), small = e * large;
    *s = x < 0.0f ? small : large;
    *r = x < 0.0f ? large : small;
}

INLINE float sigmoid_value(float x, const float *k) {
    (void)k;
    return 1.0f / (1.0f + art_expf(-x));
}

INLINE float sigmoid_slope(float y, float dy, const float *k) {
    (void)k;
    return dy * (y * (1.0f - y));
}

INLINE float relu6_value(float x, const float *k) {
    (void)k;
    x = x < 0.0f ? 0.0f : x;
    return x > 6.0f ? 6.0f : x;
}

INLINE float relu6_slope(float y, float dy, const float *k) {
    (void)k;
    return ((y > 0.0f) & (y < 6.0f)) ? dy : 0.0f;
}

INLINE float leaky_relu_value(float x, const float *k) {
    float scaled = x * k[0];
    return x > 0.0f ? x : scaled;
}

INLINE float leaky_relu_slope(float y, float dy, const float *k) {
    float scaled = dy * k[0];
    return y > 0.0f ? dy : scaled;
}

INLINE float elu_value(float x, const float *k) {
    float above = x * k[0], below = art_expm1f(x) * k[1];
    return x > 0.0f ? above : below;
}

INLINE float elu_slope(float y, float dy, const float *k) {
    float above = dy * k[0], below = dy * (y + k[1]);
    return y <= 0.0f ? below : above;
}

INLINE float silu_value(float x, const float *k) {
    (void)k;
    return x / (1.0f + art_expf(-x));
}

INLINE float silu_slope(float x, float dy, const float *k) {
    float s, r;
    (void)k;
    logistic(x, &s, &r);
    return dy * (s * (1.0f + x * r));
}

/* min(max(x + 3, 0), 6) */
INLINE float hard_step(float x) {
    float t = x + 3.0f;
    t = t < 0.0f ? 0.0f : t;
    return t > 6.0f ? 6.0f : t;
}

INLINE float hardswish_value(float x, const float *k) {
    (void)k;
    return x * hard_step(x) / 6.0f;
}

INLINE float hardswish_slope(float x, float dy, const float *k) {
    (void)k;
    float middle = dy * (x / 3.0f + 0.5f);
    float right = x < 3.0f ? middle : dy;
    return x <= -3.0f ? 0.0f : right;
}

INLINE float hardsigmoid_value(float x, const float *k) {
    (void)k;
    return hard_step(x) / 6.0f;
}

INLINE float hardsigmoid_slope(float y, float dy, const float *k) {
    (void)k;
    float d = dy / 6.0f;
    return ((y > 0.0f) & (y < 1.0f)) ? d : 0.0f;
}

/* 1 + erf(x / sqrt 2), twice the normal distribution function. */
INLINE float twice_normal(float x) {
    return 1.0f + art_erff(x * 0x1.6a09e6p-1f);
}

INLINE float gelu_value(float x, const float *k) {
    (void)k;
    return 0.5f * x * twice_normal(x);
}

INLINE float gelu_slope(float x, float dy, const float *k) {
    (void)k;
    float half = 0.5f * x;
    float density = 0x1.988454p-2f * art_expf(-half * x); /* 1 / sqrt(2 pi) */
    return dy * (0.5f * twice_normal(x) + x * density);
}

#define GELU_SCALE 0x1.988454p+0f /* sqrt(8 / pi) */

/* x (1 + tanh(v / 2)) / 2 = x / (1 + e^-v) loses no digits to a cancellation. */
INLINE float gelu_tanh_value(float x, const float *k) {
    (void)k;
    float v = GELU_SCALE * (x * (1.0f + 0.044715f * (x * x)));
    return x / (1.0f + art_expf(-v));
}

INLINE float gelu_tanh_slope(float x, float dy, const float *k) {
    float s, r, c = x > 12.0f ? 12.0f : x; /* 1 and 0 beyond; x^2 stays finite */
    (void)k;
    c = c < -12.0f ? -12.0f : c;
    float z = 0.044715f * (c * c);
    logistic(GELU_SCALE * (c * (1.0f + z)), &s, &r);
    float rise = GELU_SCALE * (1.0f + 3.0f * z);
    return dy * (s * (1.0f + c * (r * rise)) + (x - x));
}

/* With e = e^x and m = e (e + 2): tanh(log(1 + e)) = m / (m + 2), in floats 1 from x = 9 on. */
INLINE float mish_exp(float x) {
    return art_expf(x > 20.0f ? 20.0f : x);
}

INLINE float mish_value(float x, const float *k) {
    (void)k;
    float e = mish_exp(x), m = e * (e + 2.0f);
    return x * (m / (m + 2.0f));
}

INLINE float mish_slope(float x, float dy, const float *k) {
    (void)k;
    float e = mish_exp(x), m = e * (e + 2.0f), d = m + 2.0f, c = x > 20.0f ? 20.0f : x;
    float rise = 4.0f * (e * (e + 1.0f)) / (d * d);
    return dy * ((m / d + c * rise) + (x - x));
}

INLINE float softplus_value(float x, const float *k) {
    float z = x * k[0];
    float a = art_float_of_bits(art_bits_of_float(z) & 0x7fffffffu);
    float y = ((z < 0.0f ? 0.0f : z) + art_log1pf(art_expf(-a))) / k[0];
    return z > k[1] ? x : y;
}

INLINE float softplus_slope(float x, float dy, const float *k) {
    float z = x * k[0], d = dy / (1.0f + art_expf(-z));
    return z > k[1] ? dy : d;
}

#define ART_ACTIVATION(NAME, name, numbers, work, work_gradient)                                   \
    static void FN(name)(float *y, const float *x, size_t n, const float *k) {                     \
        const float c[2] = {k[0], k[1]};                                                           \
        IVDEP for (size_t i = 0; i < n; i++) {                                                     \
            y[i] = name##_value(x[i], c);                                                          \
        }                                                                                          \
    }                                                                                              \
    static void FN(name##_grad)(float *dx, const float *kept, const float *dy, size_t n,           \
                                const float *k) {                                                  \
        const float c[2] = {k[0], k[1]};                                                           \
        IVDEP for (size_t i = 0; i < n; i++) {                                                     \
            dx[i] = name##_slope(kept[i], dy[i], c);                                               \
        }                                                                                          \
    }
#include "ukernel/vec/vec_activation.def"
#undef ART_ACTIVATION
