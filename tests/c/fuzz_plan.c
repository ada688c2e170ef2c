/* Mutated plans: usage fuzz_plan COUNT [PLAN [FIRST]].
 *
 * Deterministic: input i is a function of i alone, so a crash is repeated by FIRST = i. Most inputs
 * get a fitting checksum, so that the deep checks are reached. What opens must also train,
 * evaluate and predict without a crash. Meant for a build under the sanitizers. */
#include <stdlib.h>

#include "armtrain.h"
#include "plan_cnn.h"

#define ARENA_MOST (16u << 20) /* larger arenas would only cost time */
#define BASES 4

typedef struct base {
    unsigned char *bytes;
    size_t n;
} base;

static _Alignas(64) unsigned char built[BASES][PB_BYTES], file[PB_BYTES];
static uint64_t random_state;

/* SplitMix64. */
static uint64_t next_random(void) {
    uint64_t z = random_state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static uint64_t below(uint64_t n) {
    return n == 0 ? 0 : next_random() % n;
}

/* Values at which sizes and indices tend to break. */
static uint64_t odd_value(uint64_t old) {
    static const uint64_t values[] = {0,          1,          2,          3,
                                      63,         64,         255,        65535,
                                      0x7fffffff, 0x80000000, 0xffffffff, UINT64_MAX,
                                      1ull << 32, 1ull << 62, 1ull << 63, 0x7ff0000000000000};
    switch (below(4)) {
    case 0:
        return values[below(sizeof values / sizeof values[0])];
    case 1:
        return old + below(9) - 4;
    case 2:
        return old ^ 1ull << below(64);
    default:
        return next_random() >> below(64);
    }
}

static void change_word(unsigned char *at, size_t size) {
    uint64_t value = 0;
    memcpy(&value, at, size);
    value = odd_value(value);
    memcpy(at, &value, size);
}

/* A place in a section: header (0, seldom), tensors, steps, operands, attributes or anywhere. */
static unsigned char *place_in(unsigned char *bytes, size_t n, size_t size) {
    static const size_t records[] = {sizeof(art_plan_tensor), sizeof(art_plan_step), 4, 8};
    art_plan_header *h = (void *)bytes;
    uint64_t part = below(16) == 0 ? 0 : 1 + below(5), extent[2] = {0, 0};
    if (part == 0 || part == 5) {
        return bytes + below((part == 0 ? sizeof *h : n) / size) * size;
    }
    memcpy(extent, &h->tensors_offset + 2 * (part - 1), sizeof extent);
    uint64_t at = extent[0] + below(extent[1] * records[part - 1] / size) * size;
    return at + size <= n ? bytes + at : bytes;
}

/* Exchange or copy whole records of the same section. */
static void change_records(unsigned char *bytes, size_t n) {
    static const size_t records[] = {sizeof(art_plan_tensor), sizeof(art_plan_step), 4, 8};
    unsigned char saved[sizeof(art_plan_tensor)];
    art_plan_header *h = (void *)bytes;
    uint64_t part = below(4), extent[2];
    size_t size = records[part];
    memcpy(extent, &h->tensors_offset + 2 * part, sizeof extent);
    if (extent[1] == 0 || extent[1] > n || extent[0] > n || extent[0] + extent[1] * size > n) {
        return;
    }
    unsigned char *a = bytes + extent[0] + below(extent[1]) * size;
    unsigned char *b = bytes + extent[0] + below(extent[1]) * size;
    memcpy(saved, a, size);
    memmove(a, b, size);
    if (below(2)) {
        memcpy(b, saved, size);
    }
}

/* Change one tensor's size consistently, so that only the operations can object. */
static void change_dims(unsigned char *bytes, size_t n) {
    art_plan_header *h = (void *)bytes;
    if (h->tensors_offset > n || h->tensors_offset % 8 != 0 || h->tensors_count == 0 ||
        h->tensors_count > (n - h->tensors_offset) / sizeof(art_plan_tensor)) {
        return;
    }
    art_plan_tensor *t = (void *)(bytes + h->tensors_offset);
    t += below(h->tensors_count);
    unsigned axis = (unsigned)below(ART_MAX_DIMS);
    uint32_t old = t->dims[axis] == 0 ? 1 : t->dims[axis], fresh = 1 + (uint32_t)below(2 * old);
    t->bytes = t->bytes / old * fresh;
    t->dims[axis] = fresh;
    memcpy(t->shape, t->dims, sizeof t->shape);
    memcpy(t->view, t->dims, sizeof t->view);
    t->shape_ndim = t->ndim;
    for (unsigned i = 0; i < ART_MAX_DIMS; i++) {
        t->perm[i] = (uint8_t)i;
    }
}

/* Apply one to three changes; returns the new size. */
static size_t mutate(unsigned char *bytes, size_t n) {
    for (uint64_t left = 1 + below(3); left > 0; left--) {
        switch (below(8)) {
        case 0:
            bytes[below(n)] = (unsigned char)next_random();
            break;
        case 1:
        case 2:
            change_word(place_in(bytes, n, 4), 4);
            break;
        case 3:
            change_word(place_in(bytes, n, 8), 8);
            break;
        case 4:
            change_word(place_in(bytes, n, 1), 1);
            break;
        case 5:
            change_dims(bytes, n);
            break;
        case 6:
            change_records(bytes, n);
            break;
        default:
            if (below(16) == 0) {
                n = below(n + 1);
                n = n < sizeof(art_plan_header) ? sizeof(art_plan_header) : n;
                ((art_plan_header *)(void *)bytes)->file_bytes = n;
            } else {
                bytes[below(n)] ^= (unsigned char)(1u << below(8));
            }
        }
    }
    return n;
}

/* One step of each phase with a whole and a single-sample batch; errors are fine, crashes not. */
static void use(art_engine *engine) {
    art_error err;
    art_info info;
    double loss;
    uint64_t correct;
    art_engine_info(engine, &info);
    size_t rows = info.batch_size;
    float *x = calloc(rows * info.input_elements + 1, sizeof *x);
    float *target = calloc(rows * (info.target_elements + 1), sizeof *target);
    float *out = calloc(rows * info.output_elements + 1, sizeof *out);
    if (x == NULL || target == NULL || out == NULL) {
        abort();
    }
    (void)art_engine_initialize(engine, &err);
    for (size_t i = 0; i < rows; i++) {
        art_random_sample(engine, 1, i, x + i * info.input_elements,
                          target + i * info.target_elements);
    }
    for (uint32_t n = info.batch_size;; n = 1) {
        (void)art_engine_train_step(engine, x, target, n, &loss, &err);
        (void)art_engine_evaluate_step(engine, x, target, n, &loss, &correct, &err);
        (void)art_engine_predict_step(engine, x, n, out, &err);
        if (n == 1) {
            break;
        }
    }
    free(x);
    free(target);
    free(out);
}

static art_status try_one(uint64_t index, const base *bases, size_t n_bases) {
    random_state = index * 0xD1342543DE82EF95u + 1;
    const base *from = &bases[below(n_bases)];
    memcpy(file, from->bytes, from->n);
    size_t n = mutate(file, from->n);
    const art_plan_header *h = (const void *)file;
    if (below(16) != 0) {
        pb_seal(file, n);
    }
    if (h->arena_bytes > ARENA_MOST && h->arena_bytes <= (uint64_t)1 << 37) {
        return ART_MEMORY_LIMIT;
    }
    art_engine *engine;
    art_error err;
    const art_options options = {.threads = 1, .ignore_memory = 1, .poison = below(8) == 0};
    art_status status = art_engine_open(&engine, file, n, &options, &err);
    if (status == ART_OK) {
        use(engine);
        art_engine_close(engine);
    }
    return status;
}

static size_t read_plan(const char *path, unsigned char *out) {
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) {
        perror(path);
        exit(2);
    }
    size_t n = fread(out, 1, PB_BYTES, stream);
    fclose(stream);
    if (n == PB_BYTES || n < sizeof(art_plan_header)) {
        fprintf(stderr, "%s: a plan of less than %d bytes is needed\n", path, PB_BYTES);
        exit(2);
    }
    return n;
}

int main(int argc, char **argv) {
    uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000;
    uint64_t first = argc > 3 ? strtoull(argv[3], NULL, 10) : 0, seen[100] = {0};
    base bases[BASES] = {{built[0], 0}, {built[1], 0}, {built[2], 0}, {built[3], 0}};
    size_t n_bases = BASES;
    bases[0].n = build_mlp(built[0], 4, 1, false);
    bases[1].n = build_mlp(built[1], 3, 1, true);
    bases[2].n = build_cnn(built[2], 3, 1, false);
    bases[3].n = build_cnn(built[3], 2, 1, true);
    if (argc > 2) {
        bases[0].n = read_plan(argv[2], built[0]);
        n_bases = 1;
    }
    for (size_t i = 0; i < n_bases; i++) {
        art_engine *engine;
        art_error err;
        const art_options options = {.threads = 1, .ignore_memory = 1};
        if (art_engine_open(&engine, bases[i].bytes, bases[i].n, &options, &err) != ART_OK) {
            fprintf(stderr, "plan %zu does not open unchanged: %s\n", i, err.text);
            return 1;
        }
        use(engine);
        art_engine_close(engine);
    }
    for (uint64_t i = first; i < first + count; i++) {
        seen[try_one(i, bases, n_bases) % 100]++;
    }
    printf("fuzz_plan: %llu plans, no crash;", (unsigned long long)count);
    for (int i = 0; i < 100; i++) {
        if (seen[i] > 0) {
            printf(" %s: %llu;", i == 0 ? "opened" : art_status_text((art_status)i),
                   (unsigned long long)seen[i]);
        }
    }
    printf("\n");
    return 0;
}
