/* 8x48 tile: 24 of 32 registers hold sums, fused multiply-add. */
#define ART_GEMM_LEVEL vec_avx512
#define ART_GEMM_WIDTH 16
#define ART_GEMM_MR 8
#define ART_GEMM_NV 3
#include "ukernel/gemm/gemm_impl.h"
