/* The table of leaf functions of one kernel level, gathered from the families. */
#ifndef ART_UKERNEL_UKERNEL_H
#define ART_UKERNEL_UKERNEL_H

#include "ukernel/gemm/gemm.h"
#include "ukernel/vec/vec.h"

typedef struct art_ukernels {
    const art_gemm_kernels *gemm; /* matrix products and convolutions: may fuse multiply and add */
    const art_vec_kernels *vec;   /* element-wise and reductions: equal bits on every level */
} art_ukernels;

#endif
