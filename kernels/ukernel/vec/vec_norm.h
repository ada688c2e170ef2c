/* Normalisation by statistics of a sample; a part of vec_impl.h. */

static void FN(centre_grad)(float *dx, const float *dy, const float *x, size_t rows, size_t ld,
                            size_t n, const art_vec_sloped *k) {
    const float *mean = k->mean, *slope = k->slope, *dot = k->dot, *shift = k->shift;
    for (size_t i = 0; i < rows; i++) {
        IVDEP for (size_t c = 0; c < n; c++) {
            size_t at = i * ld + c;
            dx[at] = dy[at] * slope[c] - ((x[at] - mean[c]) * dot[c] + shift[c]);
        }
    }
}

/* Columns in registers as in COLUMNS, with constants of rows. */
#define ROW_DOTS(name, type, memory)                                                               \
    INLINE void row_dots_##name(float *sum, float *dot, const float *dy, const float *x,           \
                                const float *mean, const float *invstd, size_t rows, size_t ld) {  \
        type s = {0}, p = {0};                                                                     \
        for (size_t i = 0; i < rows; i++) {                                                        \
            type d = *(const memory *)(dy + i * ld);                                               \
            s += d;                                                                                \
            p += d * ((*(const memory *)(x + i * ld) - mean[i]) * invstd[i]);                      \
        }                                                                                          \
        *(memory *)sum = s;                                                                        \
        *(memory *)dot = p;                                                                        \
    }
ROW_DOTS(wide, vfloat, loose)
ROW_DOTS(four, quad, loose_quad)
ROW_DOTS(one, single, loose_single)

static void FN(row_dots_cols)(float *sum, float *dot, const float *dy, const float *x,
                              const float *mean, const float *invstd, size_t rows, size_t ld,
                              size_t n) {
#define ROWS(name, c)                                                                              \
    row_dots_##name(sum + (c), dot + (c), dy + (c), x + (c), mean, invstd, rows, ld)
    EACH_REGISTER(ROWS)
}

/* One pass per part, so that absent ones need no loops of their own. */
static void FN(row_affine)(float *y, const float *x, size_t n, const art_vec_row *k) {
    const float mean = k->mean, invstd = k->invstd, *gamma = k->gamma, *beta = k->beta;
    IVDEP for (size_t c = 0; c < n; c++) {
        y[c] = (x[c] - mean) * invstd;
    }
    if (gamma) {
        IVDEP for (size_t c = 0; c < n; c++) {
            y[c] *= gamma[c];
        }
    }
    if (beta) {
        IVDEP for (size_t c = 0; c < n; c++) {
            y[c] += beta[c];
        }
    }
}

INLINE void row_affine_grad_loop(float *dx, const float *dy, const float *x, size_t n,
                                 art_vec_row k) {
    IVDEP for (size_t c = 0; c < n; c++) {
        float g = k.gamma ? dy[c] * k.gamma[c] : dy[c];
        dx[c] = g * k.invstd - ((x[c] - k.mean) * k.dot + k.shift);
    }
}

static void FN(row_affine_grad)(float *dx, const float *dy, const float *x, size_t n,
                                const art_vec_row *k) {
    art_vec_row c = *k;
    if (c.gamma) {
        row_affine_grad_loop(dx, dy, x, n, c);
    } else {
        c.gamma = NULL;
        row_affine_grad_loop(dx, dy, x, n, c);
    }
}
