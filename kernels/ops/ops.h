/* Operations: what a step of a plan does. Blocking, packing and tile splitting live here; leaf
 * arithmetic in ukernel/. An operation knows its operands, never the plan or the engine. */
#ifndef ART_OPS_OPS_H
#define ART_OPS_OPS_H

#include "art_limits.h"
#include "art_ops.h"
#include "art_plan.h"
#include "core/pool.h"
#include "core/status.h"
#include "dispatch/levels.h"

/* One operand as the engine hands it over; all zero (no dimensions) for an absent optional one. */
typedef struct art_array {
    void *data;
    uint64_t bytes;              /* planned bytes of the tensor (never exceeded) */
    uint32_t dims[ART_MAX_DIMS]; /* arena dimensions; dims[0] is the actual batch if batched */
    uint8_t ndim;
    uint8_t dtype;
    uint8_t batched;
} art_array;

typedef union art_attr {
    int64_t i;
    double f;
} art_attr;

/* Everything one step needs. `data` pointers are NULL during check and workspace calls. */
typedef struct art_op_args {
    art_array operand[ART_MAX_OPERANDS];
    const art_attr *attr;
    unsigned n_attrs; /* with those of the tail */
    unsigned n_operands;
    unsigned threads; /* threads the workspace is planned for (>= pool threads) */
    art_pool *pool;
    const art_level *level;
    uint64_t seed;
    uint64_t step; /* optimiser steps done before this one */
    double learning_rate_scale;
    double *counted; /* where a loss tells what its mean is divided by if that is not the number of
                      * samples; NULL: nobody asks */
} art_op_args;

/* Shapes, dtypes, attributes and sizes at the planned batch: refuses anything on which run could
 * read or write outside its operands. Called once when the plan is opened; run trusts it. */
typedef art_status (*art_op_check)(const art_op_args *args, art_error *err);
/* Scratch bytes needed at the planned batch for args->threads, the maximum over all kernel levels
 * of all architectures: a function of shapes and threads only, mirrored by
 * armtrain/ir/workspace.py. */
typedef uint64_t (*art_op_workspace)(const art_op_args *args);
/* Do it. Fails only for values (labels, batch norm of one value), never for memory. */
typedef art_status (*art_op_run)(const art_op_args *args, art_error *err);

/* Name, 'i' or 'f', and the range of an attribute's values. */
typedef struct art_attr_spec {
    const char *name;
    char kind;
    double low, high;
} art_attr_spec;

typedef struct art_op {
    const char *name;
    uint8_t n_operands;
    uint8_t n_attrs;
    uint8_t tail;                     /* 1: any number of attributes may follow, all alike */
    const art_attr_spec *attr;        /* [n_attrs + tail], the last for all that follow */
    uint8_t access[ART_MAX_OPERANDS]; /* ART_ACCESS_* | ART_ACCESS_OPTIONAL */
    art_op_check check;         /* called by art_check_operation, after the attributes' ranges */
    art_op_workspace workspace; /* NULL: none */
    art_op_run run;
} art_op;

/* The operation of a code, or NULL for an unknown one. */
const art_op *art_op_find(unsigned code);

#endif
