/* Our exp, tanh, log, sin and cos: error bounds against the C library's wider functions, special
 * values, and the promise that compiled vector code gives the bits of the scalar function. */
#include <math.h>

#include "core/cpu.h"
#include "core/math.h"
#include "dispatch/levels.h"
#include "expect.h"

/* One unit in the last place of a float or double of this size. */
static double ulp_float(double x) {
    int e;
    frexp(fabs(x), &e);
    return ldexp(1.0, (e < -125 ? -125 : e) - 24);
}

static double ulp_double(double x) {
    int e;
    frexp(x, &e);
    return ldexp(1.0, e - 53);
}

static void test_float_bounds(void) {
    double worst_exp = 0.0, worst_tanh = 0.0, worst_expm1 = 0.0, worst_erf = 0.0;
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 1021) {
        float x = art_float_of_bits((uint32_t)bits);
        if (x != x) {
            EXPECT(art_expf(x) != art_expf(x) && art_tanhf(x) != art_tanhf(x));
            EXPECT(isnan(art_expm1f(x)) && isnan(art_log1pf(x)) && isnan(art_erff(x)));
            continue;
        }
        double e = exp((double)x), t = tanh((double)x);
        if (e < 0x1.fffffep127) {
            worst_exp = fmax(worst_exp, fabs((double)art_expf(x) - e) / ulp_float(e));
        } else {
            EXPECT(art_expf(x) >= 0x1.fffffep127f);
        }
        worst_tanh = fmax(worst_tanh, fabs((double)art_tanhf(x) - t) / ulp_float(t));
        double m = expm1(fmin((double)x, 0.0)), f = erf((double)x);
        worst_expm1 = fmax(worst_expm1, fabs((double)art_expm1f(x) - m) / ulp_float(m));
        worst_erf = fmax(worst_erf, fabs((double)art_erff(x) - f) / ulp_float(f));
    }
    printf("exp %.3f ulp, tanh %.3f ulp\n", worst_exp, worst_tanh);
    printf("expm1 %.3f ulp, erf %.3f ulp\n", worst_expm1, worst_erf);
    EXPECT(worst_exp <= 1.1);
    EXPECT(worst_tanh <= 2.6);
    EXPECT(worst_expm1 <= 1.2 && worst_erf <= 1.4);
}

static void test_log1p(void) {
    double worst = 0.0;
    for (uint32_t bits = 0; bits <= 0x3f800000u; bits += bits < 0x00800000u ? 4093 : 127) {
        float u = art_float_of_bits(bits);
        double l = log1p((double)u);
        worst = fmax(worst, fabs((double)art_log1pf(u) - l) / ulp_float(l));
    }
    printf("log1p %.3f ulp\n", worst);
    EXPECT(worst <= 2.2);
    EXPECT(art_log1pf(0.0f) == 0.0f && isnan(art_log1pf(NAN)));
    EXPECT(fabsf(art_log1pf(1.0f) - 0x1.62e43p-1f) <= 3 * 0x1p-24f);
}

static void test_double_bounds(void) {
    double worst_log = 0.0, worst_sin = 0.0, worst_cos = 0.0;
    uint64_t state = 88172645463325252u;
    for (int i = 0; i < 300000; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        double u = (double)(state >> 11) * 0x1p-53;
        double x = i & 1 ? 4.0 * u + 1e-300 : ldexp(1.0 + u, (int)(state % 2090) - 1070);
        double a = i & 1 ? 7.0 * u - 0.5 : (u - 0.5) * 0x1p21;
        long double l = logl((long double)x), s = sinl((long double)a), c = cosl((long double)a);
        worst_log = fmax(worst_log, (double)fabsl(art_log(x) - l) / ulp_double((double)l));
        worst_sin = fmax(worst_sin, (double)fabsl(art_sin(a) - s) / ulp_double((double)s));
        worst_cos = fmax(worst_cos, (double)fabsl(art_cos(a) - c) / ulp_double((double)c));
    }
    printf("log %.3f ulp, sin %.3f ulp, cos %.3f ulp\n", worst_log, worst_sin, worst_cos);
    EXPECT(worst_log <= 1.0);
    EXPECT(worst_sin <= 2.5 && worst_cos <= 2.5);
}

static void test_special_values(void) {
    EXPECT(art_expf(0.0f) == 1.0f && art_expf(-0.0f) == 1.0f);
    EXPECT(art_expf(INFINITY) == INFINITY && art_expf(-INFINITY) == 0.0f);
    EXPECT(art_expf(89.0f) == INFINITY && art_expf(-103.0f) > 0.0f && art_expf(-104.0f) == 0.0f);
    EXPECT(art_tanhf(INFINITY) == 1.0f && art_tanhf(-INFINITY) == -1.0f);
    EXPECT(art_tanhf(0.0f) == 0.0f && signbit(art_tanhf(-0.0f)));
    EXPECT(art_tanhf(0x1p-149f) == 0x1p-149f);
    EXPECT(art_expm1f(-INFINITY) == -1.0f && art_expm1f(0.0f) == 0.0f && art_expm1f(1.0f) == 0.0f);
    EXPECT(art_erff(INFINITY) == 1.0f && art_erff(-INFINITY) == -1.0f && signbit(art_erff(-0.0f)));
    EXPECT(art_log(1.0) == 0.0 && art_log(0.0) == -INFINITY && art_log(INFINITY) == INFINITY);
    EXPECT(isnan(art_log(-1.0)) && isnan(art_log(NAN)));
    EXPECT(art_sin(0.0) == 0.0 && art_cos(0.0) == 1.0);
    EXPECT(art_pow_u64(0.9, 0) == 1.0 && art_pow_u64(2.0, 10) == 1024.0);
    EXPECT(fabs(art_pow_u64(0.999, 1000) / pow(0.999, 1000) - 1.0) < 1e-14);
    EXPECT(art_pow_u64(0.9, UINT64_MAX) == 0.0);
}

static void test_vector_bits(void) {
    enum { N = 4096 };
    static float x[N], y[N], want[N];
    unsigned n;
    const art_level *levels = art_levels(&n);
    for (unsigned l = 0; l < n; l++) {
        if (levels[l].features & ~art_cpu_features()) {
            printf("skipped level %s: this processor lacks its features\n", levels[l].name);
            continue;
        }
        for (uint32_t chunk = 0; chunk < 64; chunk++) {
            for (uint32_t i = 0; i < N; i++) {
                float v = art_float_of_bits((chunk * N + i) * 16381u);
                x[i] = v != v ? 0.0f : v;
                want[i] = art_tanhf(x[i]);
            }
            levels[l].kernels.vec->tanh(y, x, N);
            EXPECT(memcmp(y, want, sizeof y) == 0);
            for (uint32_t i = 0; i < N; i++) {
                want[i] = art_expf(x[i] - 1.5f);
            }
            levels[l].kernels.vec->exp_sum(y, x, 1.5f, N);
            EXPECT(memcmp(y, want, sizeof y) == 0);
        }
    }
}

int main(void) {
    test_float_bounds();
    test_log1p();
    test_double_bounds();
    test_special_values();
    test_vector_bits();
    return expect_done("math");
}
