/* exp, expm1, log1p, tanh, erf in float and log, sin, cos in double from additions,
 * multiplications, divisions and bit operations alone, so that every machine, C library and kernel
 * level gives the same bits. Files that include this are built with -ffp-contract=off. The float
 * functions have no branches and vectorise; polynomial coefficients were fitted (Chebyshev nodes,
 * 60 digits) for this file.
 *
 * Bounds in units in the last place of the result, tests/c/test_math.c checks them:
 *   art_expf   1.1   every float, including subnormal results; inf above 88.73, 0 below -103.98
 *   art_tanhf  2.6   every float
 *   art_expm1f 1.2   every float; e^x - 1 up to 0, 0 above
 *   art_log1pf 2.2   0 <= x <= 1, nothing promised elsewhere
 *   art_erff   1.4   every float
 *   art_log    1.0   every double; log 0 = -inf, NaN below 0
 *   art_sin, art_cos  2.5  for |x| <= 2^20, nothing promised beyond */
#ifndef ART_CORE_MATH_H
#define ART_CORE_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define ART_TWO_PI 0x1.921fb54442d18p+2

static inline float art_float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t art_bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double art_double_of_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t art_bits_of_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* 2^n for -126 <= n <= 127. */
static inline float art_exp2i(int32_t n) {
    return art_float_of_bits((uint32_t)(n + 127) << 23);
}

/* e^x = 2^n (1 + p) with |x - n log 2| <= log(2) / 2; returns p, exact to 0.03 ulp of the formula
 * before rounding. |x| < 2^20, or NaN (then n has no meaning). */
static inline float art_exp_parts(float x, int32_t *n) {
    const float magic = 0x1.8p+23f; /* adding it rounds to an integer in the low bits */
    float t = x * 0x1.715476p+0f + magic;
    *n = (int32_t)(art_bits_of_float(t) - art_bits_of_float(magic));
    float k = t - magic;
    /* log 2 in two parts: 16 bits, so that k times it is exact, and the rest. */
    float r = (x - k * 0x1.62e4p-1f) - k * 0x1.7f7d1cp-20f;
    float q = 0x1.a124f2p-13f;
    q = q * r + 0x1.6d4324p-10f;
    q = q * r + 0x1.1110e0p-7f;
    q = q * r + 0x1.5554eap-5f;
    q = q * r + 0x1.555556p-3f;
    q = q * r + 0.5f;
    return r + r * r * q;
}

static inline float art_expf(float x) {
    int32_t n;
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    float p = art_exp_parts(x, &n);
    /* Two factors: 2^n alone may be outside the normal range. NaN stays whatever n is. */
    int32_t half = n >> 1;
    return (1.0f + p) * art_exp2i(half) * art_exp2i(n - half);
}

static inline float art_tanhf(float x) {
    int32_t n;
    uint32_t sign = art_bits_of_float(x) & 0x80000000u;
    float a = art_float_of_bits(art_bits_of_float(x) ^ sign);
    a = a > 10.0f ? 10.0f : a; /* rounds to 1 from 9.02 on */
    float p = art_exp_parts(2.0f * a, &n);
    float s = art_exp2i(n & 31);
    float t = s * p + (s - 1.0f); /* e^2a - 1 without cancellation */
    return art_float_of_bits(art_bits_of_float(t / (t + 2.0f)) | sign);
}

/* e^x - 1 where x <= 0, 0 above. */
static inline float art_expm1f(float x) {
    int32_t n;
    x = x > 0.0f ? 0.0f : x;
    x = x < -30.0f ? -30.0f : x; /* rounds to -1 from -17.33 on */
    float p = art_exp_parts(x, &n);
    float s = art_exp2i(-(-n & 63));
    return s * p + (s - 1.0f);
}

/* log(1 + x) = 2 atanh(x / (2 + x)) for 0 <= x <= 1. */
static inline float art_log1pf(float x) {
    float s = x / (2.0f + x), z = s * s;
    float r = 0x1.dba260p-3f;
    r = r * z + 0x1.bc8cf8p-3f;
    r = r * z + 0x1.24c926p-2f;
    r = r * z + 0x1.9998d4p-2f;
    r = r * z + 0x1.555556p-1f;
    return 2.0f * s + s * (z * r);
}

/* Odd polynomial below 1; above, 1 - e^q with a polynomial q(|x| - 1) = log(1 - erf |x|). */
static inline float art_erff(float x) {
    uint32_t sign = art_bits_of_float(x) & 0x80000000u;
    float a = art_float_of_bits(art_bits_of_float(x) ^ sign);
    float b = a > 1.0f ? 1.0f : a, z = b * b;
    float p = -0x1.445f48p-17f;
    p = p * z + 0x1.d88750p-14f;
    p = p * z - 0x1.bccf66p-11f;
    p = p * z + 0x1.562a60p-8f;
    p = p * z - 0x1.b829c8p-6f;
    p = p * z + 0x1.ce2f08p-4f;
    p = p * z - 0x1.812746p-2f;
    p = p * z + 0x1.06eba8p-3f;
    float u = (a > 4.0f ? 4.0f : a) - 1.0f; /* rounds to 1 from 3.92 on */
    float q = 0x1.b77830p-20f;
    q = q * u - 0x1.147ed8p-15f;
    q = q * u + 0x1.4fcba8p-12f;
    q = q * u - 0x1.0d42e6p-9f;
    q = q * u + 0x1.4a3ac8p-7f;
    q = q * u - 0x1.5496a6p-5f;
    q = q * u - 0x1.afab6cp-1f;
    q = q * u - 0x1.51c9b2p+1f;
    q = q * u - 0x1.d97fc0p+0f;
    float y = a < 1.0f ? b + b * p : 1.0f - art_expf(q);
    return art_float_of_bits(art_bits_of_float(y) | sign);
}

/* x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)]; log(1 + f) = 2 atanh(f / (2 + f)). */
static inline double art_log(double x) {
    int k = 0;
    if (!(x > 0.0) || x > 0x1.fffffffffffffp+1023) {
        return x > 0.0 ? x : x == 0.0 ? -INFINITY : NAN;
    }
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        k = -54;
    }
    uint64_t bits = art_bits_of_double(x);
    k += (int)(bits >> 52) - 1023;
    double m = art_double_of_bits((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
    if (m > 0x1.6a09e667f3bcdp+0) {
        m *= 0.5;
        k++;
    }
    double f = m - 1.0, s = f / (2.0 + f), z = s * s;
    double r = 1.0 / 23;
    for (int i = 21; i >= 3; i -= 2) {
        r = r * z + 1.0 / i;
    }
    r *= 2.0 * z;
    /* log 2 in two parts: k times the first is exact. f - s (f - r) has less error than s (2 + r).
     */
    return k * 0x1.62e42ffp-1 - ((s * (f - r) - k * -0x1.718432a1b0e26p-35) - f);
}

/* sin and cos of r in [-pi/4, pi/4] by their Taylor series. */
static inline double art_sin_reduced(double r) {
    double z = r * r;
    double s = 1.0 / 355687428096000;
    s = s * z - 1.0 / 1307674368000;
    s = s * z + 1.0 / 6227020800;
    s = s * z - 1.0 / 39916800;
    s = s * z + 1.0 / 362880;
    s = s * z - 1.0 / 5040;
    s = s * z + 1.0 / 120;
    s = s * z - 1.0 / 6;
    return r + r * z * s;
}

static inline double art_cos_reduced(double r) {
    double z = r * r;
    double c = 1.0 / 20922789888000;
    c = c * z - 1.0 / 87178291200;
    c = c * z + 1.0 / 479001600;
    c = c * z - 1.0 / 3628800;
    c = c * z + 1.0 / 40320;
    c = c * z - 1.0 / 720;
    c = c * z + 1.0 / 24;
    double half = 0.5 * z, w = 1.0 - half;
    return w + (((1.0 - w) - half) + z * z * c);
}

/* sin(x + quadrant pi/2). */
static inline double art_sin_shifted(double x, uint32_t quadrant) {
    const double magic = 0x1.8p+52;
    double t = x * 0x1.45f306dc9c883p-1 + magic;
    double k = t - magic;
    quadrant += (uint32_t)art_bits_of_double(t);
    /* pi/2 in three parts of 33, 33 and 53 bits: k times the first two is exact. */
    double r = ((x - k * 0x1.921fb544p+0) - k * 0x1.0b4611a6p-34) - k * 0x1.3198a2e037073p-69;
    double y = quadrant & 1 ? art_cos_reduced(r) : art_sin_reduced(r);
    return quadrant & 2 ? -y : y;
}

static inline double art_sin(double x) {
    return art_sin_shifted(x, 0);
}

static inline double art_cos(double x) {
    return art_sin_shifted(x, 1);
}

/* base^exponent by repeated squaring, a fixed order of multiplications. */
static inline double art_pow_u64(double base, uint64_t exponent) {
    double power = 1.0;
    for (; exponent; exponent >>= 1) {
        power = exponent & 1 ? power * base : power;
        base *= base;
    }
    return power;
}

#endif
