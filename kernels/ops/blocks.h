/* Updates that make the gradient of their weight, block by block. */
#ifndef ART_OPS_BLOCKS_H
#define ART_OPS_BLOCKS_H

#include "art_ops.h"

/* The update that an operation repeats for every block: its operands but the last come first, its
 * attributes first, then the limit of clipping by value. Any other operation is its own. */
static inline unsigned art_blocks_update(unsigned op) {
    switch (op) {
    case ART_OP_BLOCKS_SGD_STEP:
        return ART_OP_SGD_STEP;
    case ART_OP_BLOCKS_ADAM_STEP:
        return ART_OP_ADAM_STEP;
    case ART_OP_BLOCKS_ADAMW_STEP:
        return ART_OP_ADAMW_STEP;
    case ART_OP_BLOCKS_RMSPROP_STEP:
        return ART_OP_RMSPROP_STEP;
    case ART_OP_BLOCKS_ADAGRAD_STEP:
        return ART_OP_ADAGRAD_STEP;
    default:
        return op;
    }
}

#endif
