/* The plain level: what the other levels must compute, written to be read. */
#include "ukernel/gemm/gemm.h"

enum { MR = 4, NR = 16 };

static void store_row(const float *acc, float *c, const float *bias, unsigned n,
                      art_gemm_store store)
{
    for (unsigned j = 0; j < n; j++) {
        if (store == ART_GEMM_ADD) {
            c[j] = c[j] + acc[j];
        } else {
            c[j] = bias ? bias[j] + acc[j] : acc[j];
        }
    }
}

static void rows(const art_gemm_rows *t)
{
    for (unsigned r = 0; r < t->m; r++) {
        float acc[NR] = {0};
        const float *b = t->b;
        for (unsigned tap = 0; tap < t->taps; tap++) {
            const float *a = t->a[tap * MR + r];
            for (size_t k = 0; k < t->k; k++, b += t->ldb) {
                for (unsigned j = 0; j < t->n; j++) {
                    acc[j] += a[k] * b[j];
                }
            }
        }
        store_row(acc, t->c[r], t->bias, t->n, t->store);
    }
}

static void pixels(const art_gemm_pixels *t)
{
    for (unsigned r = 0; r < t->m; r++) {
        float acc[NR] = {0};
        const float *b = t->b;
        for (unsigned p = 0; p < t->pixels; p++, b += t->ldb) {
            for (unsigned j = 0; j < t->n; j++) {
                acc[j] += t->x[p][r] * b[j];
            }
        }
        store_row(acc, t->c + r * t->ldc, NULL, t->n, t->store);
    }
}

const art_gemm_kernels art_gemm_c = {
    .mr = MR, .nr = NR, .width = 1, .rows = rows, .pixels = pixels};
