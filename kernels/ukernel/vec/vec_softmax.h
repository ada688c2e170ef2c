/* Softmax and its logarithm of one axis without gaps. Part of vec_impl.h, which says what holds for
 * all of it. */

/* Sum of y dy, or of dy alone where y is NULL, of one axis without gaps; one copy. */
static __attribute__((noinline)) double dot_row(const float *y, const float *dy, size_t n) {
    double acc[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t j = i; j < i + LANES; j++) {
            acc[j - i] += y ? (double)y[j] * (double)dy[j] : (double)dy[j];
        }
    }
    for (size_t j = i; j < n; j++) {
        acc[j - i] += y ? (double)y[j] * (double)dy[j] : (double)dy[j];
    }
    return fold(acc);
}

static void FN(softmax_grad)(float *dx, const float *y, const float *dy, size_t n) {
    float sum = (float)dot_row(y, dy, n);
    IVDEP for (size_t i = 0; i < n; i++) {
        dx[i] = y[i] * (dy[i] - sum);
    }
}

static void FN(minus_both)(float *y, const float *x, float a, float b, size_t n) {
    IVDEP for (size_t i = 0; i < n; i++) {
        y[i] = (x[i] - a) - b;
    }
}

static void FN(log_softmax_grad)(float *dx, const float *y, const float *dy, size_t n) {
    float sum = (float)dot_row(NULL, dy, n);
    IVDEP for (size_t i = 0; i < n; i++) {
        dx[i] = dy[i] - art_expf(y[i]) * sum;
    }
}
