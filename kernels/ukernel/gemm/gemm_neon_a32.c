/* 4x8 tile: 8 of 16 registers hold sums; multiply and add round one after the other.
 *
 * ARMv7 NEON flushes subnormal operands and results to zero, so the compiler keeps plain vector
 * code away from it and the arithmetic is spelt out. Apart from such numbers the bits are those of
 * the levels `c` and `vec_sse2`. */
#include <arm_neon.h>

#define ART_GEMM_LEVEL neon_a32
#define ART_GEMM_WIDTH 4
#define ART_GEMM_MR 4
#define ART_GEMM_NV 2
#define ART_GEMM_FACTOR float32x2_t
#define ART_GEMM_SPREAD(p) vld1_dup_f32(p)
#define ART_GEMM_MULADD(acc, factor, row) vmlaq_lane_f32(acc, row, factor, 0)
#define ART_GEMM_MULADD_EACH(acc, a, b) vmlaq_f32(acc, a, b)
#define ART_GEMM_PLUS(x, y) vaddq_f32(x, y)
#define ART_GEMM_MULADD_LANE(acc, half, lane, row) vmlaq_lane_f32(acc, row, half, lane)
#define ART_GEMM_TERMS "ukernel/gemm/gemm_terms_a32.h"
#include "ukernel/gemm/gemm_impl.h"
