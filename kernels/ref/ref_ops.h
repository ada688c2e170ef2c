/* Naive twins of the operations without matrix products, in double, written to be read.
 *
 * A twin reads its float operands from args (`data` and dims, as run does) and fills for every
 * written slot out[slot], the exact result, and tol[slot], the largest error that the float
 * operation may make: the sum of its roundings, first order with a little to spare. Attributes,
 * step and seed are those of args. In-place operands must not be aliased here. */
#ifndef ART_REF_REF_OPS_H
#define ART_REF_REF_OPS_H

#include "ops/ops.h"

/* Half a unit in the last place: the relative error of one rounding. */
#define ART_REF_U 0x1p-24

typedef void (*art_ref_fn)(const art_op_args *args, double *const *out, double *const *tol);

void art_ref_maxpool2d_fwd(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_maxpool2d_grad(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_avgpool2d_fwd(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_avgpool2d_grad(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_batchnorm2d_fwd(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_batchnorm2d_eval(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_batchnorm2d_grad(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_batchnorm2d_eval_grad(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_relu_fwd(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_relu_grad(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_tanh_fwd(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_tanh_grad(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_dropout_fwd(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_dropout_grad(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_add(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_copy(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_nhwc_to_nchw(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_nchw_to_nhwc(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_cross_entropy_grad(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_cross_entropy_eval(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_mse_grad(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_mse_eval(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_grad_sumsq(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_clip_scale(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_sgd_step(const art_op_args *args, double *const *out, double *const *tol);
void art_ref_adam_step(const art_op_args *args, double *const *out, double *const *tol);

#endif
