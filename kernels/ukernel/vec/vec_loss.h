/* Losses of the vec family: sums to one number and gradients. Part of vec_impl.h, which says what
 * holds for all of it. */

INLINE void error_block(double *acc, float *dy, const float *y, const float *t, float k, size_t n) {
    float e[LANES];
    for (size_t j = 0; j < n; j++) {
        e[j] = y[j] - t[j];
        acc[j] += (double)e[j] * (double)e[j];
    }
    if (dy) {
        for (size_t j = 0; j < n; j++) {
            dy[j] = e[j] * k;
        }
    }
}

static double FN(squared_error)(float *dy, const float *y, const float *t, float k, size_t n) {
    double acc[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        error_block(acc, dy ? dy + i : NULL, y + i, t + i, k, LANES);
    }
    error_block(acc, dy ? dy + i : NULL, y + i, t + i, k, n - i);
    return fold(acc);
}

INLINE void huber_block(double *acc, float *dy, const float *y, const float *t,
                        const art_vec_huber *k, size_t n) {
    float e[LANES];
    for (size_t j = 0; j < n; j++) {
        e[j] = y[j] - t[j];
        double d = (double)fabsf(e[j]);
        acc[j] += fabsf(e[j]) < k->bound ? k->curve * (d * d) : d - k->drop;
    }
    if (dy) {
        for (size_t j = 0; j < n; j++) {
            /* Zero and NaN stay what they are. */
            float far = e[j] > 0.0f ? k->outer : e[j] < 0.0f ? -k->outer : e[j];
            dy[j] = fabsf(e[j]) < k->bound ? e[j] * k->inner : far;
        }
    }
}

static double FN(huber)(float *dy, const float *y, const float *t, size_t n,
                        const art_vec_huber *constants) {
    const art_vec_huber k = *constants;
    double acc[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        huber_block(acc, dy ? dy + i : NULL, y + i, t + i, &k, LANES);
    }
    huber_block(acc, dy ? dy + i : NULL, y + i, t + i, &k, n - i);
    return fold(acc);
}

/* softplus(x) = max(x, 0) + log(1 + exp(-|x|)); no difference of nearly equal numbers anywhere. */
INLINE void bce_block(double *acc, float *dy, const float *y, const float *t, float k,
                      const float *weight, float all, size_t n) {
    float f[LANES], d[LANES];
    for (size_t j = 0; j < n; j++) {
        float x = y[j], u = art_expf(-fabsf(x)), rest = 1.0f - t[j];
        float p = (weight ? weight[j] : all) * t[j];
        float log1p = art_log1pf(u), large = 1.0f / (1.0f + u), small = u * large;
        float up = (x > 0.0f ? x : 0.0f) + log1p, down = (x < 0.0f ? -x : 0.0f) + log1p;
        f[j] = rest * up + p * down;
        d[j] = (rest * (x > 0.0f ? large : small) - p * (x > 0.0f ? small : large)) * k;
    }
    for (size_t j = 0; j < n; j++) {
        acc[j] += (double)f[j];
    }
    if (dy) {
        memcpy(dy, d, n * sizeof *dy);
    }
}

static double FN(bce)(float *dy, const float *y, const float *t, float k, size_t n,
                      const float *weight, float all) {
    double acc[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        bce_block(acc, dy ? dy + i : NULL, y + i, t + i, k, weight ? weight + i : NULL, all, LANES);
    }
    bce_block(acc, dy ? dy + i : NULL, y + i, t + i, k, weight ? weight + i : NULL, all, n - i);
    return fold(acc);
}

static double FN(gap_sum)(const float *x, float max, const float *weight, size_t n) {
    double acc[LANES] = {0};
    for (size_t i = 0; i < n; i++) {
        double w = weight ? (double)weight[i] : 1.0;
        acc[i % LANES] += w * (double)(max - x[i]);
    }
    return fold(acc);
}

static void FN(scale_minus)(float *y, const float *x, float k, const float *weight, float m,
                            size_t n) {
    if (weight) {
        IVDEP for (size_t i = 0; i < n; i++) {
            y[i] = x[i] * k - weight[i] * m;
        }
    } else {
        IVDEP for (size_t i = 0; i < n; i++) {
            y[i] = x[i] * k - m;
        }
    }
}

INLINE double soft_share(const art_vec_soft *k, const float *t, size_t i) {
    return (k->weight ? (double)k->weight[i] : 1.0) * (k->keep * (double)t[i] + k->share);
}

/* A class without a share counts nothing, however far it lies below. */
static double FN(soft_gaps)(double *all, const float *x, float max, const float *t, size_t n,
                            const art_vec_soft *k) {
    double acc[LANES] = {0}, shares[LANES] = {0};
    for (size_t i = 0; i < n; i++) {
        double q = soft_share(k, t, i);
        shares[i % LANES] += q;
        acc[i % LANES] += q == 0.0 ? 0.0 : q * ((double)max - (double)x[i]);
    }
    *all = fold(shares);
    return fold(acc);
}

/* In double: what is nearly equal at a sure prediction keeps its leading digits. */
static void FN(soft_grad)(float *dy, const float *e, double a, double b, const float *t, size_t n,
                          const art_vec_soft *k) {
    for (size_t i = 0; i < n; i++) {
        dy[i] = (float)((double)e[i] * a - soft_share(k, t, i) * b);
    }
}

static double FN(kl_div)(float *dy, const float *y, const float *t, float k, size_t n) {
    double acc[LANES] = {0};
    for (size_t i = 0; i < n; i++) {
        double p = (double)t[i];
        double entropy = p == 0.0 ? 0.0 : p * art_log(p);
        acc[i % LANES] += entropy - p * (double)y[i];
    }
    if (dy) {
        FN(scale)(dy, t, k, n);
    }
    return fold(acc);
}

static double FN(kl_div_log)(float *dy, const float *y, const float *t, float k, size_t n) {
    double acc[LANES] = {0};
    for (size_t i = 0; i < n; i += LANES) {
        float p[LANES];
        size_t count = n - i < LANES ? n - i : LANES;
        for (size_t j = 0; j < count; j++) {
            p[j] = art_expf(t[i + j]);
        }
        for (size_t j = 0; j < count; j++) {
            acc[j] += (double)p[j] * ((double)t[i + j] - (double)y[i + j]);
        }
        if (dy) {
            FN(scale)(dy + i, p, k, count);
        }
    }
    return fold(acc);
}

static float FN(row_max)(const float *x, size_t n) {
    float best[LANES];
    size_t i = 0;
    for (int j = 0; j < LANES; j++) {
        best[j] = -INFINITY;
    }
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) {
            float v = x[i + (size_t)j];
            best[j] = v > best[j] ? v : best[j];
        }
    }
    for (size_t j = 0; i + j < n; j++) {
        best[j] = x[i + j] > best[j] ? x[i + j] : best[j];
    }
    for (int j = 1; j < LANES; j++) {
        best[0] = best[j] > best[0] ? best[j] : best[0];
    }
    return best[0];
}

INLINE void exp_block(double *acc, float *e, const float *x, float max, size_t n) {
    float v[LANES];
    for (size_t j = 0; j < n; j++) {
        v[j] = art_expf(x[j] - max);
    }
    for (size_t j = 0; j < n; j++) {
        acc[j] += (double)v[j];
    }
    if (e) {
        memcpy(e, v, n * sizeof *e);
    }
}

static double FN(exp_sum)(float *e, const float *x, float max, size_t n) {
    double acc[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        exp_block(acc, e ? e + i : NULL, x + i, max, LANES);
    }
    exp_block(acc, e ? e + i : NULL, x + i, max, n - i);
    return fold(acc);
}
