/* The activations: NAME_value(x) and NAME_slope(kept, dy) of one element, in double. Each sets
 * *tol to its first-order error in units of U: one per rounding and attribute, E per exponential,
 * L and F per log1p and erf (core/math.h; one unit in the last place is two U at most). */
#include <math.h>

#include "ops/check.h"
#include "ref/ref_ops.h"

static const double E = 2.2, L = 4.4, F = 2.8, M = 2.4, PI = 3.14159265358979323846;

static double logistic(double x) {
    return 1.0 / (1.0 + exp(-x));
}

/* Roundings of 1 / (1 + e^-x) and of its complement, each to full accuracy. */
static const double S = 2.2 + 3.0;

static double sigmoid_value(double x, const double *k, double *tol) {
    (void)k;
    *tol = S * logistic(x);
    return logistic(x);
}

static double sigmoid_slope(double y, double dy, const double *k, double *tol) {
    (void)k;
    *tol = 3.0 * fabs(dy * y * (1.0 - y));
    return dy * y * (1.0 - y);
}

static double relu6_value(double x, const double *k, double *tol) {
    (void)k;
    *tol = 0.0;
    return x < 0.0 ? 0.0 : x > 6.0 ? 6.0 : x;
}

static double relu6_slope(double y, double dy, const double *k, double *tol) {
    (void)k;
    *tol = 0.0;
    return y > 0.0 && y < 6.0 ? dy : 0.0;
}

static double leaky_relu_value(double x, const double *k, double *tol) {
    double y = x > 0.0 ? x : x * k[0];
    *tol = x > 0.0 ? 0.0 : 2.0 * fabs(y);
    return y;
}

static double leaky_relu_slope(double y, double dy, const double *k, double *tol) {
    double d = y > 0.0 ? dy : dy * k[0];
    *tol = y > 0.0 ? 0.0 : 2.0 * fabs(d);
    return d;
}

static double elu_value(double x, const double *k, double *tol) {
    double y = x > 0.0 ? x * k[0] : expm1(x) * k[1];
    *tol = (x > 0.0 ? 2.0 : 2.0 + M) * fabs(y);
    return y;
}

static double elu_slope(double y, double dy, const double *k, double *tol) {
    double d = y <= 0.0 ? dy * (y + k[1]) : dy * k[0];
    *tol = 2.0 * fabs(d) + (y <= 0.0 ? fabs(dy * k[1]) : 0.0);
    return d;
}

static double silu_value(double x, const double *k, double *tol) {
    (void)k;
    *tol = S * fabs(x) * logistic(x);
    return x == -INFINITY ? NAN : x * logistic(x);
}

static double silu_slope(double x, double dy, const double *k, double *tol) {
    double s = logistic(x), r = logistic(-x);
    (void)k;
    *tol = fabs(dy) * s * ((S + 3.0) + fabs(x) * r * (2.0 * S + 4.0));
    return dy * s * (1.0 + x * r);
}

static double hard_step(double x) {
    return x < -3.0 ? 0.0 : x > 3.0 ? 6.0 : x + 3.0;
}

static double hardswish_value(double x, const double *k, double *tol) {
    double y = x * hard_step(x) / 6.0;
    (void)k;
    *tol = 3.0 * fabs(y);
    return y;
}

static double hardswish_slope(double x, double dy, const double *k, double *tol) {
    (void)k;
    int inside = x > -3.0 && x < 3.0;
    *tol = inside ? fabs(dy) * (fabs(x / 3.0) + 2.0 * fabs(x / 3.0 + 0.5)) : 0.0;
    return x <= -3.0 ? 0.0 : inside ? dy * (x / 3.0 + 0.5) : dy;
}

static double hardsigmoid_value(double x, const double *k, double *tol) {
    (void)k;
    *tol = 2.0 * hard_step(x) / 6.0;
    return hard_step(x) / 6.0;
}

static double hardsigmoid_slope(double y, double dy, const double *k, double *tol) {
    double d = y > 0.0 && y < 1.0 ? dy / 6.0 : 0.0;
    (void)k;
    *tol = fabs(d);
    return d;
}

/* 1 + erf(t) with t = x / sqrt 2; t is rounded twice, and |t erf'(t)| <= sqrt(2 / (pi e)). */
static double twice_normal(double x, double *tol) {
    double value = erf(x * sqrt(0.5));
    *tol = F * fabs(value) + 2.0 * sqrt(2.0 / (PI * 2.71828)) + (1.0 + value);
    return erfc(-x * sqrt(0.5));
}

static double gelu_value(double x, const double *k, double *tol) {
    double inner, value = twice_normal(x, &inner);
    (void)k;
    *tol = 0.5 * fabs(x) * (inner + value);
    return x == -INFINITY ? NAN : 0.5 * x * value;
}

static double gelu_slope(double x, double dy, const double *k, double *tol) {
    double inner, value = twice_normal(x, &inner), q = 0.5 * x * x;
    double rise = x * exp(-q) / sqrt(2.0 * PI);
    (void)k;
    *tol = fabs(dy) * (0.5 * inner + value + fabs(rise) * (q + E + 5.0));
    return dy * (0.5 * value + rise);
}

/* v and its derivative are products of seven rounded factors and sums of positive terms. */
static const double V = 8.0;

static double gelu_tanh_value(double x, const double *k, double *tol) {
    double v = sqrt(8.0 / PI) * x * (1.0 + 0.044715 * x * x), s = logistic(v);
    (void)k;
    *tol = s > 0.0 ? fabs(x) * s * (S + V * fabs(v) * logistic(-v)) : 0.0;
    return x == -INFINITY ? NAN : x * s;
}

static double gelu_tanh_slope(double x, double dy, const double *k, double *tol) {
    double c = x > 12.0 ? 12.0 : x < -12.0 ? -12.0 : x, z = 0.044715 * c * c;
    double v = sqrt(8.0 / PI) * c * (1.0 + z), s = logistic(v), r = logistic(-v);
    double rise = c * r * sqrt(8.0 / PI) * (1.0 + 3.0 * z);
    double relative = S + V * fabs(v); /* of s and of r */
    (void)k;
    *tol = fabs(dy) * s * (relative + 4.0 + fabs(rise) * (2.0 * relative + V + 6.0));
    return isinf(x) ? NAN : dy * s * (1.0 + rise);
}

/* m = e (e + 2) has 2 E + 3 roundings, m / (m + 2) two more and the sum's. */
static const double T = 2.0 * 2.2 + 5.0;

static double mish_value(double x, const double *k, double *tol) {
    double y = x * tanh(log1p(exp(x)));
    (void)k;
    *tol = (T + 1.0) * fabs(y);
    return x == -INFINITY ? NAN : y;
}

static double mish_slope(double x, double dy, const double *k, double *tol) {
    double t = tanh(log1p(exp(x))), rise = x * (1.0 - t) * (1.0 + t) * logistic(x);
    (void)k;
    if (x > 0.0) { /* 1 - tanh^2 = 4 q / (1 + q)^2 with q = e^(-2 log(1 + e^x)) */
        double q = exp(-2.0 * (x + log1p(exp(-x))));
        rise = x * 4.0 * q / ((1.0 + q) * (1.0 + q)) * logistic(x);
    }
    /* Beyond 20 the float term stays that of 20. */
    double spare = x > 20.0 ? 0x1p-30 / ART_REF_U : 0.0;
    *tol = fabs(dy) * (t * (T + 2.0) + fabs(rise) * (2.0 * E + 1.0 + 2.0 * T + 5.0) + spare);
    return isinf(x) ? NAN : dy * (t + rise);
}

/* The slope of the other side of the threshold, for a beta x that may be rounded across it. */
static int near(double z, double threshold) {
    return fabs(z - threshold) <= 2.0 * ART_REF_U * fabs(z);
}

static double softplus_value(double x, const double *k, double *tol) {
    double z = x * k[0], rest = log1p(exp(-fabs(z)));
    double y = ((z > 0.0 ? z : 0.0) + rest) / k[0];
    *tol = (2.0 * fabs(z) * logistic(z) + (E + L) * rest) / k[0] + 3.0 * y;
    *tol += 0x1p-126 / k[0] / ART_REF_U; /* an exponential that vanishes */
    if (z > k[1]) {
        *tol = near(z, k[1]) ? *tol + rest / k[0] / ART_REF_U : 0.0;
        return x;
    }
    *tol += near(z, k[1]) ? rest / k[0] / ART_REF_U : 0.0;
    return y;
}

static double softplus_slope(double x, double dy, const double *k, double *tol) {
    double z = x * k[0], s = z > k[1] ? 1.0 : logistic(z), r = logistic(-z);
    *tol = z > k[1] ? 0.0 : fabs(dy) * s * (S + 1.0 + 2.0 * fabs(z) * r);
    *tol += near(z, k[1]) ? fabs(dy) * r / ART_REF_U : 0.0;
    return dy * s;
}

/* Roundings in units of U, and intermediate results that are subnormal or vanish; `size` bounds
 * what they are multiplied by. Beyond the largest float the result is infinite. */
static double tolerance(double value, double roundings, double size) {
    return fabs(value) > 0x1p127 ? INFINITY : 1.01 * ART_REF_U * roundings + 0x1p-126 * size;
}

/* A bound also where it is not finite, for results that are. */
static double magnitude(float x) {
    return 1.0 + fmin(fmax(fabs((double)x), 0.0), 1e30);
}

#define ART_ACTIVATION(NAME, name, numbers, work, work_gradient)                                   \
    void art_ref_##name##_fwd(const art_op_args *args, double *const *out, double *const *tol) {   \
        const double k[2] = {numbers > 0 ? args->attr[0].f : 0.0,                                  \
                             numbers > 1 ? args->attr[1].f : 0.0};                                 \
        const float *x = args->operand[0].data;                                                    \
        for (size_t i = 0; i < (size_t)art_count(&args->operand[0]); i++) {                        \
            out[1][i] = name##_value((double)x[i], k, &tol[1][i]);                                 \
            tol[1][i] = tolerance(out[1][i], tol[1][i], magnitude(x[i]));                          \
        }                                                                                          \
    }                                                                                              \
    void art_ref_##name##_grad(const art_op_args *args, double *const *out, double *const *tol) {  \
        const double k[2] = {numbers > 0 ? args->attr[0].f : 0.0,                                  \
                             numbers > 1 ? args->attr[1].f : 0.0};                                 \
        const float *kept = args->operand[0].data, *dy = args->operand[1].data;                    \
        for (size_t i = 0; i < (size_t)art_count(&args->operand[0]); i++) {                        \
            out[2][i] = name##_slope((double)kept[i], (double)dy[i], k, &tol[2][i]);               \
            double size = magnitude(kept[i]) * magnitude(dy[i]);                                   \
            tol[2][i] = tolerance(out[2][i], tol[2][i], size);                                     \
        }                                                                                          \
    }
#include "ukernel/vec/vec_activation.def"
#undef ART_ACTIVATION
