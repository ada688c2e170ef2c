/* The scalars of updates that also go row by row, computed in double and rounded once. */
#ifndef ART_OPS_OPTIMIZER_H
#define ART_OPS_OPTIMIZER_H

#include "ops/ops.h"

/* Attributes are those of sgd_step, or of adagrad_step; `scale` is the slot of clipping's factor.
 */
art_vec_sgd art_sgd_constants(const art_op_args *args, unsigned scale);
art_vec_adagrad art_adagrad_constants(const art_op_args *args, unsigned scale);

#endif
