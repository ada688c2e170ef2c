/* Does a step take a parameter, a gradient, a statistic or an optimiser's state where it needs one,
 * and an update those of its own parameter? Kernels could not tell: all are floats of one size.
 *
 * Names tell what belongs to a parameter: gradient and state are called like it, followed by a word
 * (and by `~` and a number where that name was taken). */
#include <string.h>

#include "engine/plan.h"
#include "ops/blocks.h"

typedef struct slot_rule {
    unsigned op;
    unsigned slot;
    unsigned roles;   /* bits 1 << role */
    const char *word; /* follows the name of the step's parameter, or NULL */
} slot_rule;

#define IS(role) (1u << ART_ROLE_##role)
#define PARAMETER (IS(WEIGHT) | IS(FROZEN))
#define RULE(op, slot, roles, word)                                                                \
    { ART_OP_##op, ART_##op##_##slot, roles, word }

static const slot_rule rules[] = {
    RULE(LINEAR_FWD, W, PARAMETER, NULL),
    RULE(LINEAR_FWD, B, PARAMETER, NULL),
    RULE(LINEAR_GRAD_W, DW, IS(GRADIENT), NULL),
    RULE(LINEAR_GRAD_W, DB, IS(GRADIENT), NULL),
    RULE(LINEAR_GRAD_X, W, PARAMETER, NULL),
    RULE(CONV2D_FWD, W, PARAMETER, NULL),
    RULE(CONV2D_FWD, B, PARAMETER, NULL),
    RULE(CONV2D_GRAD_W, DW, IS(GRADIENT), NULL),
    RULE(CONV2D_GRAD_W, DB, IS(GRADIENT), NULL),
    RULE(CONV2D_GRAD_X, W, PARAMETER, NULL),
    RULE(CONV_TRANSPOSE2D_FWD, W, PARAMETER, NULL),
    RULE(CONV_TRANSPOSE2D_FWD, B, PARAMETER, NULL),
    RULE(CONV_TRANSPOSE2D_GRAD_W, DW, IS(GRADIENT), NULL),
    RULE(CONV_TRANSPOSE2D_GRAD_W, DB, IS(GRADIENT), NULL),
    RULE(CONV_TRANSPOSE2D_GRAD_X, W, PARAMETER, NULL),
    RULE(BATCHNORM2D_FWD, GAMMA, PARAMETER, NULL),
    RULE(BATCHNORM2D_FWD, BETA, PARAMETER, NULL),
    RULE(BATCHNORM2D_FWD, MEAN, IS(BUFFER), NULL),
    RULE(BATCHNORM2D_FWD, VAR, IS(BUFFER), NULL),
    RULE(BATCHNORM2D_APPLY, GAMMA, PARAMETER, NULL),
    RULE(BATCHNORM2D_APPLY, BETA, PARAMETER, NULL),
    RULE(BATCHNORM2D_EVAL, GAMMA, PARAMETER, NULL),
    RULE(BATCHNORM2D_EVAL, BETA, PARAMETER, NULL),
    RULE(BATCHNORM2D_EVAL, MEAN, IS(BUFFER), NULL),
    RULE(BATCHNORM2D_EVAL, VAR, IS(BUFFER), NULL),
    RULE(BATCHNORM2D_GRAD, GAMMA, PARAMETER, NULL),
    RULE(BATCHNORM2D_GRAD, DGAMMA, IS(GRADIENT), NULL),
    RULE(BATCHNORM2D_GRAD, DBETA, IS(GRADIENT), NULL),
    RULE(BATCHNORM2D_EVAL_GRAD, GAMMA, PARAMETER, NULL),
    RULE(BATCHNORM2D_EVAL_GRAD, MEAN, IS(BUFFER), NULL),
    RULE(BATCHNORM2D_EVAL_GRAD, VAR, IS(BUFFER), NULL),
    RULE(BATCHNORM2D_EVAL_GRAD, DGAMMA, IS(GRADIENT), NULL),
    RULE(BATCHNORM2D_EVAL_GRAD, DBETA, IS(GRADIENT), NULL),
    RULE(LAYERNORM_FWD, GAMMA, PARAMETER, NULL),
    RULE(LAYERNORM_FWD, BETA, PARAMETER, NULL),
    RULE(LAYERNORM_GRAD, GAMMA, PARAMETER, NULL),
    RULE(LAYERNORM_GRAD, DGAMMA, IS(GRADIENT), NULL),
    RULE(LAYERNORM_GRAD, DBETA, IS(GRADIENT), NULL),
    RULE(EMBEDDING_FWD, W, PARAMETER, NULL),
    RULE(EMBEDDING_GRAD, DW, IS(GRADIENT), NULL),
    RULE(CROSS_ENTROPY_GRAD, LOSS, IS(METRIC), NULL),
    RULE(CROSS_ENTROPY_EVAL, LOSS, IS(METRIC), NULL),
    RULE(CROSS_ENTROPY_EVAL, CORRECT, IS(METRIC), NULL),
    RULE(MSE_GRAD, LOSS, IS(METRIC), NULL),
    RULE(MSE_EVAL, LOSS, IS(METRIC), NULL),
    RULE(HUBER_GRAD, LOSS, IS(METRIC), NULL),
    RULE(HUBER_EVAL, LOSS, IS(METRIC), NULL),
    RULE(KL_DIV_GRAD, LOSS, IS(METRIC), NULL),
    RULE(KL_DIV_EVAL, LOSS, IS(METRIC), NULL),
    RULE(BCE_WITH_LOGITS_GRAD, LOSS, IS(METRIC), NULL),
    RULE(BCE_WITH_LOGITS_EVAL, LOSS, IS(METRIC), NULL),
    RULE(WEIGHTED_CROSS_ENTROPY_GRAD, LOSS, IS(METRIC), NULL),
    RULE(WEIGHTED_CROSS_ENTROPY_EVAL, LOSS, IS(METRIC), NULL),
    RULE(NLL_GRAD, LOSS, IS(METRIC), NULL),
    RULE(NLL_EVAL, LOSS, IS(METRIC), NULL),
    RULE(SOFT_CROSS_ENTROPY_GRAD, LOSS, IS(METRIC), NULL),
    RULE(SOFT_CROSS_ENTROPY_EVAL, LOSS, IS(METRIC), NULL),
    RULE(PLACES_CROSS_ENTROPY_GRAD, LOSS, IS(METRIC), NULL),
    RULE(PLACES_CROSS_ENTROPY_EVAL, LOSS, IS(METRIC), NULL),
    RULE(COSINE_EMBEDDING_GRAD, LOSS, IS(METRIC), NULL),
    RULE(COSINE_EMBEDDING_EVAL, LOSS, IS(METRIC), NULL),
    RULE(WEIGHTED_CROSS_ENTROPY_EVAL, CORRECT, IS(METRIC), NULL),
    RULE(NLL_EVAL, CORRECT, IS(METRIC), NULL),
    RULE(GRAD_SUMSQ, G, IS(GRADIENT), NULL),
    RULE(GRAD_SUMSQ, ACC, IS(METRIC), NULL),
    RULE(CLIP_SCALE, ACC, IS(METRIC), NULL),
    RULE(CLIP_SCALE, SCALE, IS(METRIC), NULL),
    RULE(CLIP_VALUE, G, IS(GRADIENT), NULL),
    RULE(SGD_STEP, W, IS(WEIGHT), NULL),
    RULE(SGD_STEP, G, IS(GRADIENT), ".grad"),
    RULE(SGD_STEP, MOMENTUM, IS(STATE), "/momentum"),
    RULE(SGD_STEP, SCALE, IS(METRIC), NULL),
    RULE(ADAM_STEP, W, IS(WEIGHT), NULL),
    RULE(ADAM_STEP, G, IS(GRADIENT), ".grad"),
    RULE(ADAM_STEP, M, IS(STATE), "/exp_avg"),
    RULE(ADAM_STEP, V, IS(STATE), "/exp_avg_sq"),
    RULE(ADAM_STEP, SCALE, IS(METRIC), NULL),
    RULE(ADAMW_STEP, W, IS(WEIGHT), NULL),
    RULE(ADAMW_STEP, G, IS(GRADIENT), ".grad"),
    RULE(ADAMW_STEP, M, IS(STATE), "/exp_avg"),
    RULE(ADAMW_STEP, V, IS(STATE), "/exp_avg_sq"),
    RULE(ADAMW_STEP, SCALE, IS(METRIC), NULL),
    RULE(RMSPROP_STEP, W, IS(WEIGHT), NULL),
    RULE(RMSPROP_STEP, G, IS(GRADIENT), ".grad"),
    RULE(RMSPROP_STEP, SQUARE_AVG, IS(STATE), "/square_avg"),
    RULE(RMSPROP_STEP, GRAD_AVG, IS(STATE), "/grad_avg"),
    RULE(RMSPROP_STEP, MOMENTUM, IS(STATE), "/momentum"),
    RULE(RMSPROP_STEP, SCALE, IS(METRIC), NULL),
    RULE(ADAGRAD_STEP, W, IS(WEIGHT), NULL),
    RULE(ADAGRAD_STEP, G, IS(GRADIENT), ".grad"),
    RULE(ADAGRAD_STEP, SUM, IS(STATE), "/sum"),
    RULE(ADAGRAD_STEP, SCALE, IS(METRIC), NULL),
    RULE(EMBEDDING_GRAD_ROWS, ROWS, IS(GRADIENT), NULL),
    RULE(EMBEDDING_SGD_STEP, W, IS(WEIGHT), NULL),
    RULE(EMBEDDING_SGD_STEP, ROWS, IS(GRADIENT), ".grad"),
    RULE(EMBEDDING_SGD_STEP, SCALE, IS(METRIC), NULL),
    RULE(EMBEDDING_ADAGRAD_STEP, W, IS(WEIGHT), NULL),
    RULE(EMBEDDING_ADAGRAD_STEP, ROWS, IS(GRADIENT), ".grad"),
    RULE(EMBEDDING_ADAGRAD_STEP, SCALE, IS(METRIC), NULL),
    RULE(EMBEDDING_ADAGRAD_STEP, SUM, IS(STATE), "/sum"),
};

_Static_assert((int)ART_SGD_STEP_W == 0 && (int)ART_ADAM_STEP_W == 0 &&
                   (int)ART_ADAMW_STEP_W == 0 && (int)ART_RMSPROP_STEP_W == 0 &&
                   (int)ART_ADAGRAD_STEP_W == 0 && (int)ART_EMBEDDING_SGD_STEP_W == 0 &&
                   (int)ART_EMBEDDING_ADAGRAD_STEP_W == 0,
               "an update's parameter is its first operand");

/* Is `name` the parameter's name and the word, and perhaps a number after `~`? */
static bool belongs(const char *name, const char *parameter, const char *word) {
    size_t stem = strlen(parameter), end = strlen(word);
    return strncmp(name, parameter, stem) == 0 && strncmp(name + stem, word, end) == 0 &&
           (name[stem + end] == '\0' || name[stem + end] == '~');
}

static art_status check_slot(const art_plan *plan, uint32_t step, const slot_rule *rule,
                             art_error *err) {
    uint32_t tensor = art_plan_operand(plan, step, rule->slot);
    if (tensor == ART_PLAN_NONE) {
        return ART_OK;
    }
    const char *op = art_op_find(plan->steps[step].op)->name, *name = art_plan_name(plan, tensor);
    unsigned role = plan->tensors[tensor].role;
    ART_FAIL_IF((rule->roles & 1u << role) == 0, err, ART_PLAN_FORMAT,
                "step %u (%s): operand %u, '%s', has role %u, which this operand cannot have", step,
                op, rule->slot, name, role);
    if (rule->word == NULL) {
        return ART_OK;
    }
    const char *parameter = art_plan_name(plan, art_plan_operand(plan, step, 0));
    ART_FAIL_IF(!belongs(name, parameter, rule->word), err, ART_PLAN_FORMAT,
                "step %u (%s): operand %u is '%s', '%s%s' expected", step, op, rule->slot, name,
                parameter, rule->word);
    return ART_OK;
}

/* An update of some rows has the gradient that an earlier step has made for the same indices. */
static art_status check_indices(const art_plan *plan, uint32_t step, unsigned rows_slot,
                                unsigned x_slot, art_error *err) {
    uint32_t rows = art_plan_operand(plan, step, rows_slot), made_for = ART_PLAN_NONE;
    uint32_t x = art_plan_operand(plan, step, x_slot);
    for (uint32_t i = 0; i < step; i++) {
        if (plan->steps[i].op == ART_OP_EMBEDDING_GRAD_ROWS &&
            art_plan_operand(plan, i, ART_EMBEDDING_GRAD_ROWS_ROWS) == rows) {
            made_for = art_plan_operand(plan, i, ART_EMBEDDING_GRAD_ROWS_X);
        }
    }
    ART_FAIL_IF(made_for != x, err, ART_PLAN_FORMAT,
                "step %u (%s): no earlier step has made '%s' for the indices '%s'", step,
                art_op_find(plan->steps[step].op)->name, art_plan_name(plan, rows),
                art_plan_name(plan, x));
    return ART_OK;
}

art_status art_plan_check_roles(const art_plan *plan, uint32_t step, art_error *err) {
    const unsigned op = plan->steps[step].op, update = art_blocks_update(op);
    /* An update by blocks has the operands of the update, but no factor of clipping at their end.
     */
    const unsigned slots = art_op_find(update)->n_operands - (op != update);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].op == update && rules[i].slot < slots) {
            ART_TRY(check_slot(plan, step, &rules[i], err));
        }
    }
    switch (op) {
    case ART_OP_EMBEDDING_SGD_STEP:
        return check_indices(plan, step, ART_EMBEDDING_SGD_STEP_ROWS, ART_EMBEDDING_SGD_STEP_X,
                             err);
    case ART_OP_EMBEDDING_ADAGRAD_STEP:
        return check_indices(plan, step, ART_EMBEDDING_ADAGRAD_STEP_ROWS,
                             ART_EMBEDDING_ADAGRAD_STEP_X, err);
    default:
        return ART_OK;
    }
}
