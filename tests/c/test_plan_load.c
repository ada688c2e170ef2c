/* A plan with one fault each: the opener names it with the right status, and never crashes. */
#include <stdlib.h>

#include "armtrain.h"
#include "expect.h"
#include "plan_builder.h"

static _Alignas(64) unsigned char good[PB_BYTES], bad[PB_BYTES];
static size_t bytes;

/* The plan under mutation, by its parts. */
typedef struct image {
    art_plan_header *header;
    art_plan_tensor *tensors;
    art_plan_step *steps;
    uint32_t *operands;
    art_attr *attrs;
    char *strings;
} image;

static image image_of(unsigned char *file) {
    art_plan_header *h = (void *)file;
    image im = {h,
                (void *)(file + h->tensors_offset),
                (void *)(file + h->steps_offset),
                (void *)(file + h->operands_offset),
                (void *)(file + h->attrs_offset),
                (char *)file + h->strings_offset};
    return im;
}

static uint32_t find(const image *im, const char *name) {
    for (uint32_t i = 0; i < im->header->tensors_count; i++) {
        if (strcmp(im->strings + im->tensors[i].name, name) == 0) {
            return i;
        }
    }
    printf("no tensor %s\n", name);
    exit(1);
}

static art_plan_tensor *tensor(const image *im, const char *name) {
    return &im->tensors[find(im, name)];
}

/* Operand slot of the first step with an operation. */
static uint32_t *operand(const image *im, unsigned op, unsigned slot) {
    for (uint32_t i = 0; i < im->header->steps_count; i++) {
        if (im->steps[i].op == op) {
            return &im->operands[im->steps[i].operands + slot];
        }
    }
    exit(1);
}

static void magic(image *im) {
    im->header->magic[0] = 'X';
}
static void major(image *im) {
    im->header->version_major = 2;
}
static void minor_version(image *im) {
    im->header->version_minor = 1;
}
static void header_size(image *im) {
    im->header->header_bytes++;
}
static void reserved(image *im) {
    im->header->reserved0 = 1;
}
static void alignment(image *im) {
    im->header->alignment = 32;
}
static void no_batch(image *im) {
    im->header->batch_size = 0;
}
static void other_batch(image *im) {
    im->header->batch_size++;
}
static void no_threads(image *im) {
    im->header->threads = 0;
}
static void many_threads(image *im) {
    im->header->threads = 65;
}
static void more_threads(image *im) {
    im->header->threads++;
}
static void arena_unaligned(image *im) {
    im->header->arena_bytes += 4;
}
static void arena_huge(image *im) {
    im->header->arena_bytes = (uint64_t)1 << 60;
}
static void arena_large(image *im) {
    im->header->arena_bytes += 64;
}
static void arena_small(image *im) {
    im->header->arena_bytes -= 64;
    im->header->proved_minimum_bytes = im->header->lower_bound_bytes = 64;
}
static void over_budget(image *im) {
    im->header->budget_bytes = im->header->arena_bytes - 64;
}
static void bounds(image *im) {
    im->header->lower_bound_bytes = im->header->arena_bytes + 64;
}
static void phase_counts(image *im) {
    im->header->n_train_steps++;
}
static void phase_order(image *im) {
    im->header->n_train_steps--;
    im->header->n_evaluate_steps++;
}
static void section_gap(image *im) {
    im->header->attrs_offset += 8;
}
static void section_count(image *im) {
    im->header->operands_count = (uint64_t)1 << 61;
}
static void swaps(image *im) {
    im->header->swap_count = 1;
}
static void trailing(image *im) {
    im->header->meta_count--;
}
static void first_string(image *im) {
    im->strings[0] = 'a';
}
static void last_string(image *im) {
    im->strings[im->header->strings_count - 1] = 'a';
}
static void tensor_name(image *im) {
    im->tensors[0].name = (uint32_t)im->header->strings_count;
}
static void same_name(image *im) {
    im->tensors[1].name = im->tensors[0].name;
}
static void role(image *im) {
    im->tensors[0].role = 14;
}
static void dtype(image *im) {
    im->tensors[0].dtype = 9;
}
static void dims_zero(image *im) {
    im->tensors[0].dims[0] = 0;
}
static void dims_overflow(image *im) {
    for (int i = 0; i < 6; i++) {
        im->tensors[0].dims[i] = im->tensors[0].shape[i] = im->tensors[0].view[i] = 1u << 30;
    }
    im->tensors[0].ndim = im->tensors[0].shape_ndim = 6;
}
static void shape(image *im) {
    tensor(im, "0.weight")->shape[0]++;
}
static void permutation(image *im) {
    tensor(im, "0.weight")->perm[0] = 0;
}
static void tensor_bytes(image *im) {
    tensor(im, "0.weight")->bytes -= 4;
}
static void offset_unaligned(image *im) {
    tensor(im, "0.weight")->offset += 4;
}
static void offset_outside(image *im) {
    tensor(im, "0.weight")->offset = im->header->arena_bytes;
}
static void offset_wraps(image *im) {
    tensor(im, "0.weight")->offset = UINT64_MAX - 63;
}
static void lifetime_empty(image *im) {
    tensor(im, "x.0")->last = tensor(im, "x.0")->first;
}
static void lifetime_late(image *im) {
    tensor(im, "x.2")->last = (uint32_t)im->header->steps_count + 1;
}
static void init_nan(image *im) {
    tensor(im, "0.weight")->init_a = 0.0 / 0.0;
}
static void weight_type(image *im) {
    tensor(im, "0.bias")->dtype = ART_DTYPE_I32;
}
static void weight_dies(image *im) {
    tensor(im, "0.bias")->last--;
}
static void overlap(image *im) {
    tensor(im, "0.bias/momentum")->offset = tensor(im, "0.weight")->offset;
}
static void storage_moved(image *im) {
    tensor(im, "h.0")->offset += 64;
}
static void storage_kept(image *im) {
    art_plan_tensor *a = tensor(im, "0.bias"), *b = tensor(im, "0.bias/momentum");
    b->storage = a->storage;
    b->offset = a->offset;
}
static void dies_early(image *im) {
    tensor(im, "x.0")->last--;
}
static void operation(image *im) {
    im->steps[0].op = 999;
}
static void step_phase(image *im) {
    im->steps[0].phase = 1;
}
static void step_kind(image *im) {
    im->steps[0].kind = 5;
}
static void step_layer(image *im) {
    im->steps[0].layer = UINT32_MAX;
}
static void operand_count(image *im) {
    im->steps[0].n_operands--;
}
static void operand_index(image *im) {
    im->steps[0].operands = (uint32_t)im->header->operands_count - 1;
}
static void operand_id(image *im) {
    *operand(im, ART_OP_LINEAR_FWD, ART_LINEAR_FWD_X) = (uint32_t)im->header->tensors_count;
}
static void operand_missing(image *im) {
    *operand(im, ART_OP_LINEAR_FWD, ART_LINEAR_FWD_X) = PB_NONE;
}
static void attr_count(image *im) {
    im->steps[0].n_attrs = 1;
}
static void attr_nan(image *im) {
    im->attrs[0].f = 1.0 / 0.0;
}
static void shapes(image *im) {
    *operand(im, ART_OP_LINEAR_FWD, ART_LINEAR_FWD_W) = find(im, "2.weight");
}
static void wrong_batch(image *im) {
    *operand(im, ART_OP_LINEAR_FWD, ART_LINEAR_FWD_X) = find(im, "x.2");
}
static void reads_unwritten(image *im) {
    *operand(im, ART_OP_LINEAR_FWD, ART_LINEAR_FWD_X) = find(im, "h.0");
}
static void reads_overwritten(image *im) {
    *operand(im, ART_OP_RELU_GRAD, ART_RELU_GRAD_Y) = find(im, "a.0");
}
static void alias(image *im) {
    *operand(im, ART_OP_LINEAR_GRAD_W, ART_LINEAR_GRAD_W_DY) = find(im, "h.0");
    *operand(im, ART_OP_LINEAR_GRAD_W, ART_LINEAR_GRAD_W_DW) = find(im, "h.0");
}
static void overwrites_weight(image *im) {
    *operand(im, ART_OP_LINEAR_GRAD_W, ART_LINEAR_GRAD_W_DW) = find(im, "2.weight");
}
static void trains_frozen(image *im) {
    tensor(im, "0.bias")->role = ART_ROLE_FROZEN;
}
static void no_workspace(image *im) {
    *operand(im, ART_OP_LINEAR_FWD, ART_LINEAR_FWD_WS) = PB_NONE;
}
static void small_workspace(image *im) {
    art_plan_tensor *t = tensor(im, "workspace0");
    t->bytes = t->dims[0] = t->shape[0] = t->view[0] = t->dims[0] - 1;
}
static void stack_as_operand(image *im) {
    *operand(im, ART_OP_LINEAR_FWD, ART_LINEAR_FWD_X) = find(im, "thread_stacks");
}
static void no_input(image *im) {
    tensor(im, "x.0")->role = ART_ROLE_ACTIVATION;
}
static void no_loss(image *im) {
    tensor(im, "loss.0")->role = ART_ROLE_SAVED;
}
static void no_output(image *im) {
    tensor(im, "logits.2")->role = ART_ROLE_ACTIVATION;
}
static void batched_state(image *im) {
    tensor(im, "0.bias")->batched = 1;
}
static void reserved_tensor(image *im) {
    im->tensors[0].reserved[3] = 1;
}
static void reserved_step(image *im) {
    im->steps[0].reserved1 = 1;
}

static const struct {
    const char *name;
    void (*change)(image *im);
    art_status status;
    const char *part;
} faults[] = {
    {"magic", magic, ART_PLAN_FORMAT, "does not start like"},
    {"major", major, ART_PLAN_FORMAT, "version 2.0"},
    {"minor", minor_version, ART_PLAN_FORMAT, "version 1.1"},
    {"header_size", header_size, ART_PLAN_FORMAT, "264 expected"},
    {"reserved", reserved, ART_PLAN_FORMAT, "reserved is 1"},
    {"alignment", alignment, ART_PLAN_FORMAT, "alignment 32"},
    {"no_batch", no_batch, ART_PLAN_FORMAT, "planned batch is 0"},
    {"other_batch", other_batch, ART_PLAN_FORMAT, "planned batch of 5"},
    {"no_threads", no_threads, ART_PLAN_FORMAT, "0 threads"},
    {"many_threads", many_threads, ART_PLAN_FORMAT, "65 threads"},
    {"more_threads", more_threads, ART_PLAN_BUFFER, "3 threads need one of 262144"},
    {"arena_unaligned", arena_unaligned, ART_PLAN_BUFFER, "multiple of 64"},
    {"arena_huge", arena_huge, ART_PLAN_BUFFER, "1152921504606846976"},
    {"arena_large", arena_large, ART_PLAN_BUFFER, "last buffer ends at"},
    {"arena_small", arena_small, ART_PLAN_BUFFER, "outside the arena"},
    {"over_budget", over_budget, ART_PLAN_FORMAT, "larger than its budget"},
    {"bounds", bounds, ART_PLAN_FORMAT, "not in order"},
    {"phase_counts", phase_counts, ART_PLAN_FORMAT, "steps in phases"},
    {"phase_order", phase_order, ART_PLAN_FORMAT, "phase 0 (1 expected)"},
    {"section_gap", section_gap, ART_PLAN_FORMAT, "section attrs starts at"},
    {"section_count", section_count, ART_PLAN_FORMAT, "section operands has 2305843009213693952"},
    {"swaps", swaps, ART_PLAN_FORMAT, "section swap has 1"},
    {"trailing", trailing, ART_PLAN_FORMAT, "1 bytes follow"},
    {"first_string", first_string, ART_PLAN_FORMAT, "start and end with NUL"},
    {"last_string", last_string, ART_PLAN_FORMAT, "start and end with NUL"},
    {"tensor_name", tensor_name, ART_PLAN_FORMAT, "tensor 0: its name"},
    {"same_name", same_name, ART_PLAN_FORMAT, "the name '0.weight'"},
    {"role", role, ART_PLAN_FORMAT, "unknown role 14"},
    {"dtype", dtype, ART_PLAN_FORMAT, "type 9"},
    {"dims_zero", dims_zero, ART_PLAN_FORMAT, "do not describe the same elements"},
    {"dims_overflow", dims_overflow, ART_PLAN_FORMAT, "do not describe the same elements"},
    {"shape", shape, ART_PLAN_FORMAT, "'0.weight'"},
    {"permutation", permutation, ART_PLAN_FORMAT, "'0.weight'"},
    {"tensor_bytes", tensor_bytes, ART_PLAN_BUFFER, "'0.weight' has a buffer of 508 bytes but 128"},
    {"offset_unaligned", offset_unaligned, ART_PLAN_BUFFER, "not at a multiple of 64"},
    {"offset_outside", offset_outside, ART_PLAN_BUFFER, "'0.weight' has 512 bytes at byte"},
    {"offset_wraps", offset_wraps, ART_PLAN_BUFFER, "outside the arena"},
    {"lifetime_empty", lifetime_empty, ART_PLAN_FORMAT, "'x.0' is live for steps [0, 0)"},
    {"lifetime_late", lifetime_late, ART_PLAN_FORMAT, "'x.2' is live for steps"},
    {"init_nan", init_nan, ART_PLAN_FORMAT, "initialiser's numbers"},
    {"weight_type", weight_type, ART_PLAN_FORMAT, "must be float32"},
    {"weight_dies", weight_dies, ART_PLAN_BUFFER, "'0.bias' is persistent but live only"},
    {"overlap", overlap, ART_PLAN_OVERLAP, "'0.bias/momentum'"},
    {"storage_moved", storage_moved, ART_PLAN_BUFFER, "not its place and lifetime"},
    {"storage_kept", storage_kept, ART_PLAN_BUFFER, "one of them is persistent"},
    {"dies_early", dies_early, ART_PLAN_BUFFER, "uses 'x.0', which is live only for"},
    {"operation", operation, ART_PLAN_FORMAT, "code 999 is unknown"},
    {"step_phase", step_phase, ART_PLAN_FORMAT, "phase 1 (0 expected)"},
    {"step_kind", step_kind, ART_PLAN_FORMAT, "kind 5"},
    {"step_layer", step_layer, ART_PLAN_FORMAT, "layer name outside"},
    {"operand_count", operand_count, ART_PLAN_FORMAT, "operands"},
    {"operand_index", operand_index, ART_PLAN_FORMAT, "operands"},
    {"operand_id", operand_id, ART_PLAN_FORMAT, "operand 0 is tensor"},
    {"operand_missing", operand_missing, ART_PLAN_FORMAT, "operand 0 is tensor 4294967295"},
    {"attr_count", attr_count, ART_PLAN_FORMAT, "attributes"},
    {"attr_nan", attr_nan, ART_PLAN_FORMAT, "sgd_step.lr is inf"},
    {"shapes", shapes, ART_SHAPE, "layer '0'"},
    {"wrong_batch", wrong_batch, ART_PLAN_BUFFER, "uses 'x.2'"},
    {"reads_unwritten", reads_unwritten, ART_PLAN_FORMAT, "reads 'h.0', which nothing has written"},
    {"reads_overwritten", reads_overwritten, ART_PLAN_OVERLAP, "which 'h.0' has overwritten"},
    {"alias", alias, ART_PLAN_OVERLAP, "operands 'h.0' and 'h.0' share storage"},
    {"overwrites_weight", overwrites_weight, ART_PLAN_FORMAT, "overwrite the persistent"},
    {"trains_frozen", trains_frozen, ART_PLAN_FORMAT, "overwrite the persistent tensor '0.bias'"},
    {"no_workspace", no_workspace, ART_PLAN_WORKSPACE, "linear_fwd.ws has 0 bytes"},
    {"small_workspace", small_workspace, ART_PLAN_WORKSPACE, "linear_fwd.ws has"},
    {"stack_as_operand", stack_as_operand, ART_PLAN_FORMAT, "'thread_stacks' has role 12"},
    {"no_input", no_input, ART_PLAN_FORMAT, "no tensor is the input at step 0"},
    {"no_loss", no_loss, ART_PLAN_FORMAT, "'loss.0' has role 7"},
    {"no_output", no_output, ART_PLAN_FORMAT, "no tensor is the output"},
    {"batched_state", batched_state, ART_PLAN_FORMAT, "'0.bias' is batched"},
    {"reserved_tensor", reserved_tensor, ART_PLAN_FORMAT, "reserved bytes"},
    {"reserved_step", reserved_step, ART_PLAN_FORMAT, "reserved 0 and 1"},
};

static art_status open_plan(const void *file, size_t n, art_error *err) {
    art_engine *engine;
    const art_options options = {.threads = 1};
    memset(err, 0, sizeof *err);
    art_status status = art_engine_open(&engine, file, n, &options, err);
    EXPECT((status == ART_OK) == (engine != NULL));
    art_engine_close(engine);
    return status;
}

static void each_fault(void) {
    art_error err;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        memcpy(bad, good, bytes);
        image im = image_of(bad);
        faults[i].change(&im);
        pb_seal(bad, bytes);
        int before = expect_failures;
        EXPECT_STATUS(open_plan(bad, bytes, &err), faults[i].status, err, faults[i].part);
        if (expect_failures != before) {
            printf("  fault: %s\n", faults[i].name);
        }
    }
}

/* Without a new checksum every changed byte is noticed, and so is every truncation. */
static void each_byte(void) {
    art_error err;
    for (size_t i = 0; i < bytes; i++) {
        memcpy(bad, good, bytes);
        bad[i] ^= (unsigned char)(1u << i % 8);
        art_status status = open_plan(bad, bytes, &err);
        EXPECT(status == (i < 24 ? ART_PLAN_FORMAT : ART_PLAN_CHECKSUM));
        EXPECT(open_plan(good, i, &err) == ART_PLAN_FORMAT);
    }
    EXPECT(open_plan(good, bytes + 8, &err) == ART_PLAN_FORMAT);
    EXPECT(open_plan(NULL, 0, &err) == ART_PLAN_FORMAT);
}

/* The bytes may lie at any address. */
static void unaligned(void) {
    art_error err;
    memcpy(bad + 3, good, bytes);
    EXPECT_STATUS(open_plan(bad + 3, bytes, &err), ART_OK, err, "");
}

int main(void) {
    art_error err;
    bytes = build_mlp(good, 4, 2, false);
    EXPECT_STATUS(open_plan(good, bytes, &err), ART_OK, err, "");
    each_fault();
    each_byte();
    unaligned();
    bytes = build_mlp(good, 4, 1, true);
    EXPECT_STATUS(open_plan(good, bytes, &err), ART_OK, err, "");
    return expect_done("plan_load");
}
