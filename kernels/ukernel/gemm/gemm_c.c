/* The plain level: what the other levels must compute, written to be read. */
#include "ukernel/gemm/gemm.h"

enum { MR = 4, NR = 16 };

static void store_row(const float *block, float *c, const float *bias, unsigned n,
                      art_gemm_store store) {
    for (unsigned j = 0; j < n; j++) {
        if (store == ART_GEMM_ADD) {
            c[j] = c[j] + block[j];
        } else {
            c[j] = bias ? block[j] + bias[j] : block[j];
        }
    }
}

static void rows(const art_gemm_rows *t) {
    for (unsigned r = 0; r < t->m; r++) {
        float block[NR] = {0};
        const float *b = t->b;
        for (unsigned tap = 0; tap < t->taps; tap++) {
            const float *a = t->a[tap * MR + r];
            for (size_t k = 0; k < t->k; k++, b += t->ldb) {
                for (unsigned j = 0; j < t->n; j++) {
                    block[j] += a[k] * b[j];
                }
            }
        }
        store_row(block, t->c[r], t->bias, t->n, t->store);
    }
}

static void pixels(const art_gemm_pixels *t) {
    for (unsigned r = 0; r < t->m; r++) {
        float block[NR] = {0};
        for (unsigned p = 0; p < t->pixels; p++) {
            float x = t->x[p][t->offset + r];
            const float *b = t->b + t->row[p];
            for (unsigned j = 0; j < t->n; j++) {
                block[j] += x * b[j];
            }
        }
        store_row(block, t->c + r * t->ldc, NULL, t->n, t->store);
    }
}

static void depth_rows(const art_gemm_rows *t) {
    for (unsigned r = 0; r < t->m; r++) {
        float block[ART_GEMM_NR_MAX] = {0};
        for (unsigned tap = 0; tap < t->taps; tap++) {
            const float *a = t->a[tap * MR + r], *b = t->b + tap * t->ldb;
            for (unsigned j = 0; j < t->n; j++) {
                block[j] += a[j] * b[j];
            }
        }
        store_row(block, t->c[r], t->bias, t->n, t->store);
    }
}

static void depth_pixels(const art_gemm_pixels *t) {
    float block[ART_GEMM_NR_MAX] = {0};
    for (unsigned p = 0; p < t->pixels; p++) {
        const float *x = t->x[p] + t->offset, *b = t->b + t->row[p];
        for (unsigned j = 0; j < t->n; j++) {
            block[j] += x[j] * b[j];
        }
    }
    store_row(block, t->c, NULL, t->n, t->store);
}

/* The width is 1: a packed row is as long as the panel is wide. */
static void copy(const float *from, size_t stride, unsigned n_rows, unsigned columns, float *out) {
    for (unsigned k = 0; k < n_rows; k++) {
        for (unsigned j = 0; j < columns; j++) {
            out[k * columns + j] = from[k * stride + j];
        }
    }
}

static void transpose(const float *from, size_t stride, unsigned n_rows, unsigned columns,
                      float *out) {
    for (unsigned k = 0; k < n_rows; k++) {
        for (unsigned j = 0; j < columns; j++) {
            out[k * columns + j] = from[j * stride + k];
        }
    }
}

const art_gemm_kernels art_gemm_c = {.mr = MR,
                                     .nr = NR,
                                     .width = 1,
                                     .rows = rows,
                                     .pixels = pixels,
                                     .depth_rows = depth_rows,
                                     .depth_pixels = depth_pixels,
                                     .copy = copy,
                                     .transpose = transpose};
