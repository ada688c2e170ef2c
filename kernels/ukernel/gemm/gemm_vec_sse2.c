/* 4x8 tile: 8 of 16 registers hold sums; no fused multiply-add on this level. */
#define ART_GEMM_LEVEL vec_sse2
#define ART_GEMM_WIDTH 4
#define ART_GEMM_MR 4
#define ART_GEMM_NV 2
#include "ukernel/gemm/gemm_impl.h"
