/* Naive twins of the convolution operations, in double, written to be read. A linear layer is the
 * 1x1 case. `magnitude` arrays receive the sum of absolute terms, for error bounds. */
#ifndef ART_REF_REF_PRODUCT_H
#define ART_REF_REF_PRODUCT_H

#include "ops/product.h"

/* For each output element: result and sum of |terms|. Arrays in arena layout. */
void art_ref_conv_forward(const art_conv_shape *s, const float *x, const float *w, const float *b,
                          double *y, double *magnitude);
void art_ref_conv_grad_x(const art_conv_shape *s, const float *dy, const float *w, double *dx,
                         double *magnitude);
void art_ref_conv_grad_w(const art_conv_shape *s, const float *x, const float *dy, double *dw,
                         double *magnitude);
void art_ref_conv_grad_b(const art_conv_shape *s, const float *dy, double *db, double *magnitude);

#endif
