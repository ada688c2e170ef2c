/* 6x16 tile: 12 of 16 registers hold sums, fused multiply-add. */
#define ART_GEMM_LEVEL vec_avx2
#define ART_GEMM_WIDTH 8
#define ART_GEMM_MR 6
#define ART_GEMM_NV 2
#include "ukernel/gemm/gemm_impl.h"
