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

/* Matrix products have a twin of their own, ref_product.h. */
#define ART_OP(NAME, name, code, n_operands, n_attrs)                                              \
    void art_ref_##name(const art_op_args *args, double *const *out, double *const *tol);
#include "art_ops.def"
#undef ART_OP

#endif
