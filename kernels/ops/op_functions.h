/* Prototypes of art_op_NAME_check, _workspace and _run for every operation of the catalogue. */
#ifndef ART_OPS_OP_FUNCTIONS_H
#define ART_OPS_OP_FUNCTIONS_H

#include "ops/ops.h"

#define ART_OP(NAME, name, code, n_operands, n_attrs)                                              \
    art_status art_op_##name##_check(const art_op_args *args, art_error *err);                     \
    uint64_t art_op_##name##_workspace(const art_op_args *args);                                   \
    art_status art_op_##name##_run(const art_op_args *args, art_error *err);
#include "art_ops.def"
#undef ART_OP

#endif
