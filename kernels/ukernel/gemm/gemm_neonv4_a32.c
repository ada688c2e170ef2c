/* 4x8 tile: 8 of 16 registers hold sums, fused multiply-add (it has no form by lane).
 *
 * Subnormal operands and results are flushed to zero as in gemm_neon_a32.c; apart from such numbers
 * the bits are those of the other fusing levels. */
#include <arm_neon.h>

#define ART_GEMM_LEVEL neonv4_a32
#define ART_GEMM_WIDTH 4
#define ART_GEMM_MR 4
#define ART_GEMM_NV 2
#define ART_GEMM_FACTOR float32x4_t
#define ART_GEMM_SPREAD(p) vld1q_dup_f32(p)
#define ART_GEMM_MULADD(acc, factor, row) vfmaq_f32(acc, row, factor)
#define ART_GEMM_MULADD_EACH(acc, a, b) vfmaq_f32(acc, a, b)
#define ART_GEMM_PLUS(x, y) vaddq_f32(x, y)
#define ART_GEMM_MULADD_LANE(acc, half, lane, row) vfmaq_f32(acc, row, vdupq_lane_f32(half, lane))
#define ART_GEMM_TERMS "ukernel/gemm/gemm_terms_a32.h"
#include "ukernel/gemm/gemm_impl.h"
