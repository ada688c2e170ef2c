/* 8x8 tile: 16 of 32 registers hold sums, fused multiply-add. */
#define ART_GEMM_LEVEL neon_a64
#define ART_GEMM_WIDTH 4
#define ART_GEMM_MR 8
#define ART_GEMM_NV 2
#define ART_GEMM_STEP_OWN
#define ART_GEMM_TERMS "ukernel/gemm/gemm_terms_a64.h"
#include "ukernel/gemm/gemm_impl.h"
