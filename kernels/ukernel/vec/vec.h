/* Element-wise kernels and reductions: leaves that know pointers and counts, not plans.
 *
 * Every level gives the same bits: one body (vec_impl.h) without contraction, and reductions that
 * keep a fixed number of partial results (16 lanes, or one per column) whatever the register
 * width. An output may be exactly the same array as an input where the operation catalogue says
 * so; a partial overlap is not allowed. Nothing before or after the given elements is touched. */
#ifndef ART_UKERNEL_VEC_VEC_H
#define ART_UKERNEL_VEC_VEC_H

#include <stddef.h>
#include <stdint.h>

#include "art_levels.h"
#include "art_ops.h"

/* Dropout: element i survives where (random u32 of (seed, stream, i) >> 8) >= threshold. */
typedef struct art_vec_mask {
    uint64_t seed;
    uint64_t stream;
    uint32_t threshold; /* ceil(p * 2^24) */
    float scale;        /* 1 / (1 - p) */
} art_vec_mask;

/* One step of stochastic gradient descent:
 * g = scale g + weight_decay w; buffer = momentum buffer + damp g; w -= lr (g or buffer or both).
 */
typedef struct art_vec_sgd {
    float scale;
    float lr;
    float weight_decay;
    float momentum;
    float damp;   /* 1 - dampening */
    int first;    /* the buffer becomes g itself */
    int nesterov; /* step along g + momentum buffer */
} art_vec_sgd;

/* One step of Adam (Kingma and Ba, 2015, in torch's order of operations):
 * g = scale g + weight_decay w; m += rest1 (g - m); v = beta2 v + rest2 g g;
 * w -= rate * (m / (sqrt(v) / root + eps)). */
typedef struct art_vec_adam {
    float scale;
    float weight_decay;
    float rest1; /* 1 - beta1 */
    float beta2;
    float rest2; /* 1 - beta2 */
    float root;  /* sqrt(1 - beta2^t) */
    float eps;
    float rate;   /* lr / (1 - beta1^t) */
    int shrinks;  /* decoupled decay: w is multiplied by `shrink` before the step */
    float shrink; /* 1 - lr decay */
} art_vec_adam;

/* One step of RMSprop (torch's order of operations): g = scale g + weight_decay w;
 * square = alpha square + rest g g; mean += rest (g - mean);
 * buffer = momentum buffer + g / (sqrt(square - mean mean) + eps); w -= lr buffer. */
typedef struct art_vec_rmsprop {
    float scale;
    float weight_decay;
    float alpha;
    float rest; /* 1 - alpha */
    float eps;
    float momentum;
    float lr;
} art_vec_rmsprop;

/* One step of Adagrad: g = scale g + weight_decay w; sum += g g; w -= rate g / (sqrt(sum) + eps).
 */
typedef struct art_vec_adagrad {
    float scale;
    float weight_decay;
    float eps;
    float rate; /* lr / (1 + steps before * lr_decay) */
} art_vec_adagrad;
/* d = y - t: the sum of |d| < bound ? curve d^2 : |d| - drop; the gradient inner d there, else
 * outer with the sign of d. */
typedef struct art_vec_huber {
    float bound;
    float inner;
    float outer;
    double curve; /* 1 / (2 bound) */
    double drop;  /* bound / 2 */
} art_vec_huber;

/* Shares of a row's classes in its loss: q = weight (keep t + share) of their targets t. */
typedef struct art_vec_soft {
    const float *weight; /* of each class, or NULL: ones */
    double keep, share;
} art_vec_soft;

/* y = (x - mean) * slope + shift, one value per column: the one formula of normalisation. */
typedef struct art_vec_affine {
    const float *mean;
    const float *slope; /* invstd * gamma */
    const float *shift; /* beta */
} art_vec_affine;

/* dx = ((dy - dy_mean) - (x - mean) * dot) * slope, one value per column. */
typedef struct art_vec_centred {
    const float *mean;
    const float *dy_mean; /* mean of dy */
    const float *dot;     /* invstd^2 * mean of dy (x - mean) */
    const float *slope;   /* invstd * gamma */
} art_vec_centred;

/* A sliding window over one image [in_h, in_w, channels]. */
typedef struct art_vec_window {
    int32_t in_h, in_w, out_h, out_w;
    int32_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dil_h, dil_w;
    int32_t count_include_pad; /* average: divide by all but what is beyond the padding, not by the
                                  inner part */
    int32_t divisor;           /* average: divide by this unless it is 0 */
    size_t channels;
} art_vec_window;

enum {
    ART_VEC_MAX_ROWS = 64,  /* most rows of col_moments and col_dots: the bound on their error */
    ART_VEC_NO_PLACE = 255, /* idx of a window that lies in the padding alone */
};

/* What is not plain from the parameters:
 *
 * relu           y = x > 0 or NaN ? x : 0
 * relu_grad      dx = y > 0 ? dy : 0
 * tanh           within the bound of art_tanhf; tanh_grad: dx = dy (1 - y^2)
 * combine        y = a o b by `how`, one of ART_COMBINE_ADD ...
 * NAME, NAME_grad of an activation: formulas of the catalogue of operations; kept is the operand
 *                that the gradient reads, k points to the function's numbers
 * dropout        y = survives(first + i) ? x * scale : 0
 * sgd            buffer may be NULL (no momentum)
 * rmsprop        mean (not centred) and buffer (no momentum) may be NULL; a difference below 0 is 0
 * clamp          x = x > limit ? limit : x < -limit ? -limit : x
 * sum_squares    in double: exact products, 16 partial sums, fixed tree
 * squared_error  sum of (y - t)^2 likewise; dy = (y - t) * k unless dy is NULL
 * huber          likewise; differences are rounded to float; dy may be NULL
 * kl_div         sum of t (log t - y) in double, 0 log 0 = 0; dy = t k unless dy is NULL
 * kl_div_log     the same where t is the logarithm
 * bce            sum of (1 - t) softplus(y) + p t softplus(-y); dy = its gradient times k unless dy
 *                is NULL; p = weight[i], or `all` where weight is NULL
 * gap_sum        sum of weight (max - x) in double, exact products; weight may be NULL for ones
 * scale_minus    y = x k - weight m, likewise
 * add_scaled     y = y + x k, two roundings
 * soft_gaps      sum of q (max - x) in double, where q is 0 nothing; *all = sum of q
 * soft_grad      dy = e a - q b, computed in double
 * row_max        NaN is ignored; -inf for n = 0
 * exp_sum        sum in double of exp(x - max), stored in e unless e is NULL
 * minus_both     y = (x - a) - b
 * softmax_grad   dx = y (dy - sum of y dy), the sum in double
 * log_softmax_grad  dx = dy - e^y sum of dy, likewise
 * col_moments    for each of n columns of x[rows][ld], rows <= ART_VEC_MAX_ROWS: shift = about the
 *                mean, sum = sum of (x - shift), squares = sum of (x - shift)^2
 * col_dots       sum = sum of dy, dot = sum of dy (x - mean); x, mean and dot may be NULL
 * normalise ...  rows of n columns, ld apart in all arrays
 * maxpool_row    output row oh of one image: first maximum in window order, the last NaN wins over
 *                all; idx (may be NULL) is its place kh * kernel_w + kw. Padding never wins.
 * maxpool_grad_row, avgpool_grad_row  input row ih of one image: +0 and what the windows that cover
 *                it add, in ascending order of output position
 * avgpool_row    sum over the window in ascending order, then one division */

#define ART_VEC(name, result, parameters) result(*name) parameters;
typedef struct art_vec_kernels {
#include "ukernel/vec/vec.def"
} art_vec_kernels;
#undef ART_VEC

/* One table a level, defined at the end of vec_impl.h. */
/* x86-64 has SSE2 at least: both levels are the same instructions, kept once. */
#if defined(__x86_64__)
#define art_vec_vec_sse2 art_vec_c
#endif

#define ART_VEC_DECLARE(level, ...) extern const art_vec_kernels art_vec_##level;
ART_EACH_LEVEL(ART_VEC_DECLARE, )
#undef ART_VEC_DECLARE

#endif
