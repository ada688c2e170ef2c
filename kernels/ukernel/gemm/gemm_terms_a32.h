/* How ARMv7 adds the terms of a product: four factors that lie side by side in memory come with one
 * load and are used by lane; loading each on its own into all lanes of a register would take longer
 * than the multiplies. Included by gemm_impl.h; an element's terms are added in the same order as
 * one by one. The including file defines ART_GEMM_MULADD_LANE (vector + lane 0 or 1 of half a
 * vector
 * * vector). */
enum { ART_GROUP = 4 };
_Static_assert((int)ART_GROUP == ART_GEMM_WIDTH,
               "the terms of a group are the lanes of a register");
_Static_assert(ART_GEMM_MR <= ART_GEMM_WIDTH, "a register holds the factors of all rows");

/* acc + factors[lane] * row; the instruction holds the lane's number. */
ART_INLINE art_vf art_muladd_lane(art_vf acc, art_vf factors, unsigned lane, art_vf row) {
    switch (lane) {
    case 0:
        return ART_GEMM_MULADD_LANE(acc, vget_low_f32(factors), 0, row);
    case 1:
        return ART_GEMM_MULADD_LANE(acc, vget_low_f32(factors), 1, row);
    case 2:
        return ART_GEMM_MULADD_LANE(acc, vget_high_f32(factors), 0, row);
    default:
        return ART_GEMM_MULADD_LANE(acc, vget_high_f32(factors), 1, row);
    }
}

ART_INLINE void art_load_row(art_vf *row, const float *b, unsigned nv) {
#pragma GCC unroll 4
    for (unsigned v = 0; v < nv; v++) {
        row[v] = art_load(b + v * ART_GEMM_WIDTH);
    }
}

ART_INLINE void art_multiply_row(art_vf *acc, art_vf factors, unsigned lane, const art_vf *row,
                                 unsigned nv) {
#pragma GCC unroll 4
    for (unsigned v = 0; v < nv; v++) {
        acc[v] = art_muladd_lane(acc[v], factors, lane, row[v]);
    }
}

/* n terms of every row: acc[r] += a[r][k] * row k of b. */
ART_INLINE void art_terms_along(art_vf acc[][ART_GEMM_NV], const float *b, size_t ldb,
                                const float *const *a, size_t n, unsigned m, unsigned nv) {
    size_t k = 0;
    for (; k + ART_GROUP <= n; k += ART_GROUP) {
        art_vf factors[ART_GEMM_MR];
#pragma GCC unroll 8
        for (unsigned r = 0; r < m; r++) {
            factors[r] = art_load(a[r] + k);
        }
#pragma GCC unroll 4
        for (unsigned lane = 0; lane < ART_GROUP; lane++, b += ldb) {
            art_vf row[ART_GEMM_NV];
            art_load_row(row, b, nv);
#pragma GCC unroll 8
            for (unsigned r = 0; r < m; r++) {
                art_multiply_row(acc[r], factors[r], lane, row, nv);
            }
        }
    }
    for (; k < n; k++, b += ldb) {
        art_step(acc, b, a, k, m, nv);
    }
}

/* All pixels: acc[r] += x[p][offset + r] * row of pixel p. */
ART_INLINE void art_terms_across(art_vf acc[][ART_GEMM_NV], const art_gemm_pixels *t, unsigned m,
                                 unsigned nv) {
    for (unsigned p = 0; p < t->pixels; p++) {
        const float *x = t->x[p] + t->offset, *b = t->b + t->row[p];
        const float *a[ART_GEMM_MR];
        if (m < ART_GEMM_WIDTH) {
#pragma GCC unroll 8
            for (unsigned r = 0; r < m; r++) {
                a[r] = x + r;
            }
            art_step(acc, b, a, 0, m, nv);
            continue;
        }
        art_vf factors = art_load(x), row[ART_GEMM_NV];
        art_load_row(row, b, nv);
#pragma GCC unroll 8
        for (unsigned r = 0; r < m; r++) {
            art_multiply_row(acc[r], factors, r, row, nv);
        }
    }
}
