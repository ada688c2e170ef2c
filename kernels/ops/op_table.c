/* The table of operations, made from the catalogue alone. */
#include "ops/op_functions.h"

#define ART_OP(NAME, name_, code, operands, attrs)                                                 \
    [code] = {.name = #name_,                                                                      \
              .n_operands = operands,                                                              \
              .n_attrs = attrs,                                                                    \
              .attr = ART_##NAME##_ATTRS,                                                          \
              .tail = ART_##NAME##_TAIL,                                                           \
              .access = ART_##NAME##_ACCESS,                                                       \
              .check = art_op_##name_##_check,                                                     \
              .workspace = art_op_##name_##_workspace,                                             \
              .run = art_op_##name_##_run},
static const art_op op_table[ART_OP_END] = {
#include "art_ops.def"
};
#undef ART_OP

const art_op *art_op_find(unsigned code) {
    return code < ART_OP_END && op_table[code].run ? &op_table[code] : NULL;
}
