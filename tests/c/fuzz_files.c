/* Mutated files: usage fuzz_files COUNT [FIRST]. COUNT inputs for each kind of file: checkpoints,
 * safetensors, npz, IDX.
 *
 * Deterministic: input i of a kind is a function of i alone, so a crash is repeated by FIRST = i.
 * Most checkpoints get a fitting checksum, so that the deep checks are reached. A refusal must
 * leave the engine as it was. Meant for a build under the sanitizers. */
#include "engine/checkpoint.h"
#include "run/source.h"
#include "storage.h"

typedef struct kind {
    const char *name;
    void (*make)(unsigned variant); /* fills `good` */
    void (*seal)(void);             /* makes checksums right again, mostly */
    void (*use)(void);              /* reads the file "f" in the test's directory */
    unsigned variants;
} kind;

static bytes good, mutant;
static art_engine *engine;
static uint32_t before;
static uint64_t random_state;
static unsigned long accepted, refused;
static art_error err;

/* SplitMix64. */
static uint64_t next_random(void) {
    uint64_t z = random_state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static size_t below(size_t n) {
    return n == 0 ? 0 : (size_t)(next_random() % n);
}

/* --- the good files -------------------------------------------------------------------------- */

static void make_checkpoint(unsigned variant) {
    engine->state.step = 1 + variant;
    if (art_checkpoint_save(engine, in_dir("c"), 1, &err) != ART_OK) {
        printf("%s\n", err.text);
        exit(1);
    }
    read_file(in_dir("c/step-000000000001.ckpt"), &good);
    empty_dir(in_dir("c"));
    before = digest(engine);
}

static void make_safetensors(unsigned variant) {
    (void)variant;
    if (art_engine_save_safetensors(engine, in_dir("f"), &err) != ART_OK) {
        printf("%s\n", err.text);
        exit(1);
    }
    read_file(in_dir("f"), &good);
}

static void put(const void *data, size_t n) {
    memcpy(good.data + good.n, data, n);
    good.n += n;
}

/* n <= 24 bytes, little-endian. */
static void put_number(uint64_t value, size_t n) {
    const uint64_t wide[3] = {value, 0, 0};
    put(wide, n);
}

/* A stored member with its directory entry in `central`: an array, or without a header plain bytes;
 * wide: 64-bit sizes in an extra field. */
static void put_member(const char *name, const char *header, const void *data, size_t n, bool wide,
                       bytes *central) {
    uint64_t size = header == NULL ? n : 10 + strlen(header) + n, at = good.n;
    static bytes local;
    uint32_t crc;
    put("PK\3\4", 4);
    put_number(0, 22);
    put_number(strlen(name), 2);
    put_number(0, 2);
    put(name, strlen(name));
    if (header != NULL) {
        put("\x93NUMPY\1\0", 8);
        put_number(strlen(header), 2);
        put(header, strlen(header));
    }
    put(data, n);
    crc = art_crc32(0, good.data + good.n - size, size);
    local = good;
    good = *central;
    put("PK\1\2", 4);
    put_number(0, 12);
    put_number(crc, 4);
    put_number(wide ? UINT32_MAX : size, 4);
    put_number(wide ? UINT32_MAX : size, 4);
    put_number(strlen(name), 2);
    put_number(wide ? 28 : 0, 2);
    put_number(0, 8);
    put_number(0, 2);
    put_number(wide ? UINT32_MAX : at, 4);
    put(name, strlen(name));
    if (wide) {
        put_number(1, 2);
        put_number(24, 2);
        put_number(size, 8);
        put_number(size, 8);
        put_number(at, 8);
    }
    *central = good;
    good = local;
}

static void make_npz(unsigned variant) {
    static bytes central;
    static unsigned char data[4096];
    static const int32_t labels[3] = {0, 1, 2};
    static const char about[] = "{\"classes\":\"[\\\"a\\\"]\",\"b\":\"\\u00e9\"}";
    bool wide = variant == 1;
    good.n = central.n = 0;
    put_member("about.json", NULL, about, sizeof about - 1, wide, &central);
    put_member("x.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2, 6, 6), }\n", data,
               3 * 72 * 4, wide, &central);
    put_member("y.npy", "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }\n", labels, 12,
               wide, &central);
    uint64_t begin = good.n, end64;
    put(central.data, central.n);
    end64 = good.n;
    if (wide) {
        put("PK\6\6", 4);
        put_number(0, 8);
        put_number(0, 8);
        put_number(0, 4);
        put_number(3, 8);
        put_number(3, 8);
        put_number(central.n, 8);
        put_number(begin, 8);
        put("PK\6\7", 4);
        put_number(0, 4);
        put_number(end64, 8);
        put_number(1, 4);
    }
    put("PK\5\6", 4);
    put_number(0, 6);
    put_number(wide ? 65535 : 3, 2);
    put_number(wide ? UINT32_MAX : central.n, 4);
    put_number(wide ? UINT32_MAX : begin, 4);
    put_number(0, 2);
}

static void make_idx(unsigned variant) {
    static const unsigned char images[] = {0, 0, 8, 4, 0, 0, 0, 3, 0, 0,
                                           0, 2, 0, 0, 0, 6, 0, 0, 0, 6};
    static const unsigned char labels[] = {0, 0, 11, 1, 0, 0, 0, 3, 0, 0, 0, 1, 0, 2};
    static const unsigned char pixels[3 * 72] = {255};
    good.n = 0;
    if (variant == 0) {
        put(images, sizeof images);
        put(pixels, sizeof pixels);
        write_bytes(in_dir("l"), labels, sizeof labels);
    } else {
        put(labels, sizeof labels);
    }
}

/* --- what is done with a mutant -------------------------------------------------------------- */

static void check_refusal(art_status status) {
    if (status == ART_OK) {
        accepted++;
    } else {
        refused++;
        EXPECT(err.text[0] != '\0' && digest(engine) == before);
    }
}

static void use_checkpoint(void) {
    char note[256];
    mkdir(in_dir("c"), 0755);
    if (rename(in_dir("f"), in_dir("c/step-000000000001.ckpt")) != 0) {
        exit(1);
    }
    art_status status = art_checkpoint_load(engine, in_dir("c"), note, sizeof note, &err);
    check_refusal(status);
    before = digest(engine);
}

static void use_safetensors(void) {
    check_refusal(art_engine_load_safetensors(engine, in_dir("f"), &err));
    before = digest(engine);
}

static void use_source(const char *spec) {
    static run_source source;
    char why[512];
    int32_t labels[4];
    if (!run_parse_spec(spec, &source.spec, why, sizeof why)) {
        exit(1);
    }
    art_status status = run_source_open(&source, engine, &err);
    check_refusal(status);
    for (uint64_t row = 0; status == ART_OK && row < source.count && row < 4; row++) {
        art_status put_status =
            run_source_put(&source, engine, ART_PHASE_TRAIN, row, (uint32_t)row, labels, &err);
        EXPECT(put_status == ART_OK || put_status == ART_NONFINITE);
    }
    if (status == ART_OK) {
        const char *about;
        EXPECT(run_source_about(&source, &about, &err) == ART_OK);
        EXPECT(about == NULL || strlen(about) == source.about.bytes);
        run_source_close(&source);
    }
}

static void use_npz(void) {
    char spec[512];
    snprintf(spec, sizeof spec, "npz:%s", in_dir("f"));
    use_source(spec);
}

static void use_idx(void) {
    char spec[1024];
    snprintf(spec, sizeof spec, "idx:%s,%s", in_dir("f"), in_dir("l"));
    use_source(spec);
}

/* --- mutation -------------------------------------------------------------------------------- */

/* Places near the beginning and the end hold the structure. */
static size_t place(void) {
    size_t n = mutant.n, near = n < 900 ? n : 900;
    switch (below(4)) {
    case 0:
        return below(n);
    case 1:
        return n - 1 - below(n < 250 ? n : 250);
    default:
        return below(near);
    }
}

static void change_word(void) {
    static const uint64_t values[] = {0,         1,          7,         255,       65535,
                                      INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX};
    size_t size = (size_t)1 << below(4), at = place() / size * size;
    uint64_t value = 0;
    if (at + size > mutant.n) {
        return;
    }
    memcpy(&value, mutant.data + at, size);
    value = below(2) == 0 ? values[below(9)] : value + below(17) - 8;
    memcpy(mutant.data + at, &value, size);
}

/* Insert, delete or copy a few bytes. */
static void move_bytes(void) {
    size_t at = place(), from = place(), n = 1 + below(24);
    if (at + n > mutant.n || from + n > mutant.n || mutant.n + n > sizeof mutant.data) {
        return;
    }
    switch (below(3)) {
    case 0:
        memmove(mutant.data + at, mutant.data + from, n);
        break;
    case 1:
        memmove(mutant.data + at, mutant.data + at + n, mutant.n - at - n);
        mutant.n -= n;
        break;
    default:
        memmove(mutant.data + at + n, mutant.data + at, mutant.n - at);
        mutant.n += n;
    }
}

static void mutate(void) {
    static const char text[] = "{}[]\"\\:,0123456789-.eu'() xyTF<>|=\n\x80\xFF";
    for (size_t changes = 1 + below(4); changes > 0 && mutant.n > 0; changes--) {
        switch (below(6)) {
        case 0:
            mutant.data[place()] ^= (unsigned char)(1u << below(8));
            break;
        case 1:
            mutant.data[place()] = (unsigned char)text[below(sizeof text - 1)];
            break;
        case 2:
            change_word();
            break;
        case 3:
            move_bytes();
            break;
        case 4:
            mutant.data[place()] = (unsigned char)next_random();
            break;
        default:
            if (below(4) == 0) {
                mutant.n = below(mutant.n + 1);
            }
        }
    }
}

/* Give a checkpoint the length and checksum that its header then promises. */
static void seal_checkpoint(void) {
    art_ckpt_header header;
    if (mutant.n < sizeof header || below(4) == 0) {
        return;
    }
    memcpy(&header, mutant.data, sizeof header);
    header.file_bytes = mutant.n;
    memcpy(mutant.data, &header, sizeof header);
    header.crc32 = art_crc32(0, mutant.data + ART_CKPT_CRC_START, mutant.n - ART_CKPT_CRC_START);
    memcpy(mutant.data, &header, sizeof header);
}

static uint32_t number_at(size_t at, size_t n) {
    uint32_t value = 0;
    memcpy(&value, mutant.data + at, n);
    return value;
}

/* Give the members of an archive with sizes of 32 bits their checksums. */
static void seal_npz(void) {
    if (below(4) == 0) {
        return;
    }
    for (size_t i = 0; i + 46 <= mutant.n; i++) {
        uint64_t size = number_at(i + 24, 4), at = number_at(i + 42, 4);
        if (memcmp(mutant.data + i, "PK\1\2", 4) != 0 || at + 30 > mutant.n) {
            continue;
        }
        uint64_t start = at + 30 + number_at(at + 26, 2) + number_at(at + 28, 2);
        if (start + size <= mutant.n) {
            uint32_t crc = art_crc32(0, mutant.data + start, size);
            memcpy(mutant.data + i + 16, &crc, 4);
        }
    }
}

static void leave(void) {
}

static const kind kinds[] = {
    {"checkpoint", make_checkpoint, seal_checkpoint, use_checkpoint, 1},
    {"safetensors", make_safetensors, leave, use_safetensors, 1},
    {"npz", make_npz, seal_npz, use_npz, 2},
    {"idx", make_idx, leave, use_idx, 2},
};

static void fuzz(const kind *k, uint64_t count, uint64_t first) {
    accepted = refused = 0;
    before = digest(engine);
    for (unsigned variant = 0; variant < k->variants; variant++) {
        k->make(variant);
        for (uint64_t i = first + variant; i < first + count; i += k->variants) {
            random_state = i * 0x2545F4914F6CDD1Du;
            mutant.n = good.n;
            memcpy(mutant.data, good.data, good.n);
            mutate();
            k->seal();
            write_bytes(in_dir("f"), mutant.data, mutant.n);
            k->use();
            if (expect_failures > 0) {
                printf("%s: input %llu\n", k->name, (unsigned long long)i);
                exit(1);
            }
        }
    }
    printf("fuzz_files: %s: %lu accepted, %lu refused\n", k->name, accepted, refused);
    fflush(stdout);
}

int main(int argc, char **argv) {
    uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    if (access("/dev/shm", W_OK) == 0) { /* so many files should not wear a disk */
        setenv("TMPDIR", "/dev/shm", 0);
    }
    storage_start();
    engine = cnn_engine(6, 1, 4);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        fuzz(&kinds[i], count, first);
    }
    art_engine_close(engine);
    storage_end();
    return expect_done("fuzz_files");
}
