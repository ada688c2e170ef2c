/* Weights as safetensors: the exact bytes, what is accepted, and what is refused before any weight
 * changes. The test of equality with the reference library is in tests/integration. */
#include "storage.h"

static const char header_text[] =
    "{\"bn1.bias\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
    "\"bn1.running_mean\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,32]},"
    "\"bn1.running_var\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[32,48]},"
    "\"bn1.weight\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[48,64]},"
    "\"conv1.bias\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[64,80]},"
    "\"conv1.weight\":{\"dtype\":\"F32\",\"shape\":[4,2,3,3],\"data_offsets\":[80,368]},"
    "\"conv2.weight\":{\"dtype\":\"F32\",\"shape\":[4,2,3,3],\"data_offsets\":[368,656]},"
    "\"fc.bias\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[656,668]},"
    "\"fc.weight\":{\"dtype\":\"F32\",\"shape\":[3,4],\"data_offsets\":[668,716]}}";

static art_engine *engine;
static bytes file;

/* A file of a header text and n bytes of data, of which byte i is i % 61. */
static void write_file(const char *header, size_t n) {
    uint64_t length = strlen(header);
    memcpy(file.data, &length, 8);
    memcpy(file.data + 8, header, length);
    for (size_t i = 0; i < n; i++) {
        file.data[8 + length + i] = (unsigned char)(i % 61);
    }
    file.n = 8 + length + n;
    write_bytes(in_dir("w"), file.data, file.n);
}

/* `header_text` with one part replaced (the first place where it occurs). */
static const char *with(const char *part, const char *by) {
    static char text[4096];
    const char *at = strstr(header_text, part);
    size_t head = (size_t)(at - header_text);
    memcpy(text, header_text, head);
    snprintf(text + head, sizeof text - head, "%s%s", by, at + strlen(part));
    return text;
}

static void refused(art_status code, const char *part) {
    art_error err;
    uint32_t before = digest(engine);
    EXPECT_STATUS(art_engine_load_safetensors(engine, in_dir("w"), &err), code, err, part);
    EXPECT(digest(engine) == before && engine->ready);
}

static void accepted(void) {
    art_error err;
    EXPECT_STATUS(art_engine_load_safetensors(engine, in_dir("w"), &err), ART_OK, err, "");
}

static float element(const char *name, uint64_t index) {
    float value;
    art_layout_read(engine, art_engine_find(engine, name), index, 1, &value);
    return value;
}

static void exact_bytes(void) {
    art_error err;
    float weight[4][2][3][3];
    static bytes again;
    scramble(engine, 3);
    EXPECT_STATUS(art_engine_save_safetensors(engine, in_dir("w"), &err), ART_OK, err, "");
    read_file(in_dir("w"), &file);
    size_t length = (sizeof header_text - 1 + 7) / 8 * 8;
    uint64_t stored;
    memcpy(&stored, file.data, 8);
    EXPECT(stored == length && file.n == 8 + length + 716);
    EXPECT(memcmp(file.data + 8, header_text, sizeof header_text - 1) == 0);
    for (size_t i = sizeof header_text - 1; i < length; i++) {
        EXPECT(file.data[8 + i] == ' ');
    }
    EXPECT(art_engine_read(engine, "conv1.weight", weight, sizeof weight, &err) == ART_OK);
    EXPECT(memcmp(file.data + 8 + length + 80, weight, sizeof weight) == 0);
    /* Torch's element [o][i][h][w] lies at [h][w][i][o] in the arena. */
    const float *arena = art_engine_tensor_data(engine, art_engine_find(engine, "conv1.weight"));
    EXPECT(weight[3][1][2][0] == arena[((2 * 3 + 0) * 2 + 1) * 4 + 3]);
    uint32_t before = digest(engine);
    art_engine *other = cnn_engine(9, 3, 2);
    other->state = engine->state;
    EXPECT_STATUS(art_engine_load_safetensors(other, in_dir("w"), &err), ART_OK, err, "");
    EXPECT_STATUS(art_engine_save_safetensors(other, in_dir("w2"), &err), ART_OK, err, "");
    read_file(in_dir("w2"), &again);
    EXPECT(again.n == file.n && memcmp(again.data, file.data, file.n) == 0);
    EXPECT(digest(engine) == before && count_names(storage_dir, ".tmp") == 0);
    art_engine_close(other);
}

/* The metadata come first in the header and change nothing else; who loads them needs them not. */
static void with_metadata(void) {
    static const char start[] = "{\"__metadata__\":{\"a\":\"b\"},";
    static bytes plain;
    art_error err;
    read_file(in_dir("w"), &plain);
    EXPECT_STATUS(art_engine_save_safetensors_with(engine, in_dir("m"), "{\"a\":\"b\"}", &err),
                  ART_OK, err, "");
    read_file(in_dir("m"), &file);
    uint64_t length;
    memcpy(&length, file.data, 8);
    EXPECT(length % 8 == 0 && file.n == 8 + length + 716);
    EXPECT(memcmp(file.data + 8, start, sizeof start - 1) == 0);
    EXPECT(memcmp(file.data + 8 + sizeof start - 1, header_text + 1, sizeof header_text - 2) == 0);
    EXPECT(memcmp(file.data + 8 + length, plain.data + plain.n - 716, 716) == 0);
    EXPECT_STATUS(art_engine_load_safetensors(engine, in_dir("m"), &err), ART_OK, err, "");
    EXPECT_STATUS(art_engine_save_safetensors_with(engine, in_dir("m"), NULL, &err), ART_OK, err,
                  "");
    read_file(in_dir("m"), &file);
    EXPECT(file.n == plain.n && memcmp(file.data, plain.data, plain.n) == 0);
}

/* The mark of a best epoch comes first among the metadata, whatever these are. */
static void best_weights(void) {
    static const struct {
        const char *metadata, *start;
    } cases[] = {
        {NULL, "{\"__metadata__\":{\"armtrain.best\":\"seed 8, epoch 2, value 0.25\"},\"bn1"},
        {" { }", "{\"__metadata__\":{\"armtrain.best\":\"seed 8, epoch 2, value 0.25\"},\"bn1"},
        {"{ \"a\":\"b\"}", "{\"__metadata__\":{\"armtrain.best\":\"seed 8, epoch 2, value 0.25\","
                           "\"a\":\"b\"},\"bn1"},
    };
    const art_monitor before = engine->monitor;
    const art_run_state state = engine->state;
    art_error err;
    engine->monitor = (art_monitor){.best_epoch = 2, .best = 0.25};
    engine->state.seed = 8;
    engine->state.epoch = 3;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT_STATUS(art_engine_save_best(engine, in_dir("b"), cases[i].metadata, &err), ART_OK,
                      err, "");
        read_file(in_dir("b"), &file);
        EXPECT(memcmp(file.data + 8, cases[i].start, strlen(cases[i].start)) == 0);
        EXPECT_STATUS(art_engine_load_safetensors(engine, in_dir("b"), &err), ART_OK, err, "");
        EXPECT_STATUS(art_engine_check_best(engine, in_dir("b"), &err), ART_OK, err, "");
    }
    engine->monitor.best = 0.125;
    EXPECT_STATUS(art_engine_check_best(engine, in_dir("b"), &err), ART_DATA, err,
                  "it says 'seed 8, epoch 2, value 0.25', the checkpoint 'seed 8, epoch 2, value "
                  "0.125'");
    engine->state.epoch = 1; /* of the run itself, after its checkpoint */
    EXPECT_STATUS(art_engine_check_best(engine, in_dir("b"), &err), ART_OK, err, "");
    engine->state.seed = 9;
    EXPECT_STATUS(art_engine_check_best(engine, in_dir("b"), &err), ART_DATA, err,
                  "looked for from epoch 2 on");
    EXPECT_STATUS(art_engine_check_best(engine, in_dir("w"), &err), ART_DATA, err,
                  "it says 'nothing'");
    write_bytes(in_dir("b"), (const unsigned char *)"none", 4);
    EXPECT_STATUS(art_engine_check_best(engine, in_dir("b"), &err), ART_DATA, err,
                  "it says 'nothing'");
    engine->monitor = before;
    engine->state = state;
}

static void links_and_places(void) {
    art_error err;
    static bytes at_target;
    EXPECT(art_dir_make(in_dir("sub"), &err) == ART_OK);
    EXPECT(symlink("sub/target", in_dir("link")) == 0);
    EXPECT_STATUS(art_engine_save_safetensors(engine, in_dir("link"), &err), ART_OK, err, "");
    read_file(in_dir("sub/target"), &at_target);
    EXPECT(at_target.n > 716);
    EXPECT(symlink("loop", in_dir("loop")) == 0);
    EXPECT_STATUS(art_engine_save_safetensors(engine, in_dir("loop"), &err), ART_IO, err, "links");
    EXPECT_STATUS(art_engine_save_safetensors(engine, "/dev/null", &err), ART_IO, err,
                  "not a regular file");
    EXPECT_STATUS(art_engine_save_safetensors(engine, in_dir("no/w"), &err), ART_IO, err,
                  "create it");
    EXPECT_STATUS(art_engine_save_safetensors(engine, in_dir("sub/"), &err), ART_IO, err,
                  "not a regular file");
    EXPECT_STATUS(art_engine_load_safetensors(engine, in_dir("sub"), &err), ART_IO, err,
                  "not a regular file");
    EXPECT_STATUS(art_engine_load_safetensors(engine, in_dir("none"), &err), ART_IO, err, "none");
}

static void other_types(void) {
    write_file(header_text, 716);
    accepted();
    /* fc.bias as F16, BF16 and F64: the numbers 1, -2 and the smallest subnormal or 0.5. */
    static const struct {
        const char *dtype;
        size_t size;
        uint64_t bits[3];
        float values[3];
    } cases[] = {
        {"F16", 2, {0x3C00, 0xC000, 0x0001}, {1.0f, -2.0f, 0x1p-24f}},
        {"BF16", 2, {0x3F80, 0xC000, 0x3F00}, {1.0f, -2.0f, 0.5f}},
        {"F64", 8, {0x3FF0000000000000, 0xC000000000000000, 0x3FE0000000000001}, {1, -2, 0.5f}},
    };
    for (int i = 0; i < 3; i++) {
        char entry[128], *text;
        size_t end = 656 + 3 * cases[i].size;
        snprintf(entry, sizeof entry,
                 "\"%s\",\"shape\":[3],\"data_offsets\":[656,%zu]},"
                 "\"fc.weight\":{\"dtype\":\"F32\",\"shape\":[3,4],\"data_offsets\":[%zu,%zu]}}",
                 cases[i].dtype, end, end, end + 48);
        text = (char *)with("\"F32\",\"shape\":[3],\"data_offsets\":[656,668]}", entry);
        *strstr(strstr(text, "[3,4]"), "}}") = '\0';
        strcat(text, "}}");
        write_file(text, end + 48);
        for (int k = 0; k < 3; k++) {
            memcpy(file.data + 8 + strlen(text) + 656 + (size_t)k * cases[i].size,
                   &cases[i].bits[k], cases[i].size);
        }
        write_bytes(in_dir("w"), file.data, file.n);
        accepted();
        for (int k = 0; k < 3; k++) {
            EXPECT(element("fc.bias", (uint64_t)k) == cases[i].values[k]);
        }
    }
}

static void freedoms(void) {
    /* Metadata, an ignored counter, escapes, white space, and entries in another order. */
    write_file(with("{\"bn1.bias\"", " {\n\"__metadata__\": {\"format\":\"p\\u0074\"}, "
                                     "\"b\\u006e1.b\\/ias\""),
               716);
    refused(ART_PLAN_MODEL, "'bn1.b/ias', which the plan's model does not have");
    write_file(with("{\"bn1.bias\"", " {\n\"__metadata__\": {\"format\":\"p\\u0074\"}, "
                                     "\"b\\u006e1.bias\""),
               716);
    accepted();
    write_file(with("}}", "},\"bn1.num_batches_tracked\":{\"dtype\":\"I64\",\"shape\":[],"
                          "\"data_offsets\":[716,724]}}   "),
               724);
    accepted();
    /* fc.weight first in the header, last in the data. */
    static char moved[2048];
    const char *last = strstr(header_text, ",\"fc.weight\"");
    snprintf(moved, sizeof moved, "{%.*s,%.*s}", (int)strlen(last) - 2, last + 1,
             (int)(last - header_text) - 1, header_text + 1);
    write_file(moved, 716);
    accepted();
}

/* A number that is none, or that float32 cannot hold, is refused before any weight changes. */
static void wrong_numbers(void) {
    static const uint32_t bad[] = {0x7FC00000, 0xFF800000, 0x7F800000, 0xFFC12345};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_file(header_text, 716);
        memcpy(file.data + 8 + strlen(header_text) + 668 + 5 * 4, &bad[i], 4);
        write_bytes(in_dir("w"), file.data, file.n);
        refused(ART_NONFINITE, "'fc.weight' in ");
        refused(ART_NONFINITE, "at element 5 (counted from 0): nothing was loaded");
    }
    static const struct {
        const char *dtype;
        size_t size;
        uint64_t bits;
    } cases[] = {{"F64", 8, 0x47F0000000000000}, {"F16", 2, 0x7C00}, {"BF16", 2, 0xFF80}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char entry[128];
        snprintf(entry, sizeof entry, "\"%s\",\"shape\":[3,4],\"data_offsets\":[668,%zu]}",
                 cases[i].dtype, 668 + 12 * cases[i].size);
        const char *text = with("\"F32\",\"shape\":[3,4],\"data_offsets\":[668,716]}", entry);
        write_file(text, 668 + 12 * cases[i].size);
        memset(file.data + 8 + strlen(text) + 668, 0, 12 * cases[i].size);
        write_bytes(in_dir("w"), file.data, file.n);
        accepted();
        memcpy(file.data + 8 + strlen(text) + 668 + 2 * cases[i].size, &cases[i].bits,
               cases[i].size);
        write_bytes(in_dir("w"), file.data, file.n);
        refused(ART_NONFINITE, "more than a float32 can at element 2");
    }
}

static void wrong_contents(void) {
    write_file(with("\"fc.bias\"", "\"fc.bia\""), 716);
    refused(ART_PLAN_MODEL, "'fc.bia'");
    write_file(
        with(",\"fc.weight\":{\"dtype\":\"F32\",\"shape\":[3,4],\"data_offsets\":[668,716]}", ""),
        668);
    refused(ART_PLAN_MODEL, "lacks 'fc.weight'");
    write_file(with("[3,4]", "[4,3]"), 716);
    refused(ART_SHAPE, "'fc.weight' has shape (4, 3) in");
    refused(ART_SHAPE, "but (3, 4) in the plan");
    write_file(with("[3,4]", "[12]"), 716);
    refused(ART_SHAPE, "(12,)");
    write_file(with("\"fc.bias\":{\"dtype\":\"F32\"", "\"fc.bias\":{\"dtype\":\"I32\""), 716);
    refused(ART_FILE_FORMAT, "'fc.bias' has elements of type I32");
    write_file(with("\"fc.bias\":{\"dtype\":\"F32\"", "\"fc.bias\":{\"dtype\":\"F33\""), 716);
    refused(ART_FILE_FORMAT, "unknown element type 'F33'");
    write_file(with("}}", "},\"fc.weight/momentum\":{\"dtype\":\"F32\",\"shape\":[0],"
                          "\"data_offsets\":[716,716]}}"),
               716);
    refused(ART_PLAN_MODEL, "'fc.weight/momentum'");
    write_file(with("\"bn1.running_mean\"", "\"bn1.bias\""), 716);
    refused(ART_FILE_FORMAT, "holds 'bn1.bias' twice");
}

static void wrong_offsets(void) {
    write_file(header_text, 715);
    refused(ART_FILE_FORMAT, "lies at bytes 668 to 716, the file holds 715");
    write_file(header_text, 717);
    refused(ART_FILE_FORMAT, "they end at byte 716 of 717");
    write_file(with("[16,32]", "[0,16]"), 716);
    refused(ART_FILE_FORMAT, "overlap");
    write_file(with("[16,32]", "[17,33]"), 716);
    refused(ART_FILE_FORMAT, "overlap");
    write_file(with("[16,32]", "[32,16]"), 716);
    refused(ART_FILE_FORMAT, "lies at bytes 32 to 16");
    write_file(with("[16,32]", "[16,36]"), 716);
    refused(ART_FILE_FORMAT, "needs 16 bytes for its shape, its offsets give 20");
    write_file(
        with("[4],\"data_offsets\":[16,32]", "[4611686018427387904,4],\"data_offsets\":[16,16]"),
        716);
    refused(ART_FILE_FORMAT, "for its shape");
}

static void wrong_text(void) {
    static const struct {
        const char *part, *by, *message;
    } cases[] = {
        {"{\"bn1", "[\"bn1", "no '{'"},
        {"[0,16]", "[0,16,]", "no whole number"},
        {"[0,16]", "[0]", "1 data_offsets"},
        {"[0,16]", "[0,16.0]", "no ']'"},
        {"[0,16]", "[-0,16]", "no whole number"},
        {"[0,16]", "[00,16]", "impossible number"},
        {"[0,16]", "[0,99999999999999999999]", "impossible number"},
        {"\"dtype\"", "\"dtipe\"", "unknown or repeated key 'dtipe'"},
        {"\"dtype\":\"F32\"", "\"dtype\":\"F32\",\"dtype\":\"F32\"", "unknown or repeated key"},
        {"\"dtype\":\"F32\",", "", "lacks dtype"},
        {"bn1.bias", "bn1\\x.bias", "unknown escape"},
        {"bn1.bias", "bn1\\ud800.bias", "surrogate"},
        {"bn1.bias", "bn1\\udc00.bias", "surrogate"},
        {"bn1.bias", "bn1\\u00g0.bias", "\\u escape"},
        {"bn1.bias", "bn1\n.bias", "control character"},
        {"bn1.bias", "bn1\xC0\x80.bias", "not UTF-8"},
        {"bn1.bias", "bn1\xED\xA0\x80.bias", "not UTF-8"},
        {"}}", "}", "the text ends too early"},
        {"}}", "}}}", "follows the header's last brace"},
        {"}}", "},}", "no '\"'"},
        {"{\"bn1", "{\"__metadata__\":{\"a\":1},\"bn1", "no '\"'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file(with(cases[i].part, cases[i].by), 716);
        if (strcmp(cases[i].message, "the text ends too early") == 0) {
            refused(ART_FILE_FORMAT, "no '}'");
        } else {
            refused(ART_FILE_FORMAT, cases[i].message);
        }
    }
}

static void wrong_sizes(void) {
    write_bytes(in_dir("w"), "1234567", 7);
    refused(ART_FILE_FORMAT, "7 bytes");
    uint64_t length = 1u << 30;
    write_bytes(in_dir("w"), &length, 8);
    refused(ART_FILE_FORMAT, "1073741824");
    length = 0;
    write_bytes(in_dir("w"), &length, 8);
    refused(ART_FILE_FORMAT, "no '{'");
    write_file("{}", 0);
    refused(ART_PLAN_MODEL, "lacks 'conv1.weight'");
    write_file(header_text, 716);
    static bytes whole;
    read_file(in_dir("w"), &whole);
    for (size_t i = 0; i < 100; i++) {
        write_bytes(in_dir("w"), whole.data, whole.n * i / 100);
        refused(ART_FILE_FORMAT, "");
    }
}

/* More entries than one round of the overlap check holds, backwards. */
static void many_entries(void) {
    enum { MANY = 5000, BYTES = MANY * 96 };
    static char text[BYTES];
    size_t n = 0;
    for (int i = MANY; i-- > 0;) {
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "%c\"l%d.num_batches_tracked\":{\"dtype\":\"U8\",\"shape\":[1],"
                              "\"data_offsets\":[%d,%d]}",
                              i == MANY - 1 ? '{' : ',', i, i, i + 1);
    }
    snprintf(text + n, sizeof text - n, "}");
    uint64_t length = n + 1;
    FILE *f = fopen(in_dir("w"), "wb");
    EXPECT(f != NULL && fwrite(&length, 8, 1, f) == 1 && fwrite(text, length, 1, f) == 1 &&
           fwrite(text, MANY, 1, f) == 1 && fclose(f) == 0);
    refused(ART_PLAN_MODEL, "lacks 'conv1.weight'");
    f = fopen(in_dir("w"), "ab");
    EXPECT(f != NULL && fwrite(text, 1, 1, f) == 1 && fclose(f) == 0);
    refused(ART_FILE_FORMAT, "5000 of 5001");
}

int main(void) {
    storage_start();
    engine = cnn_engine(4, 1, 4);
    exact_bytes();
    with_metadata();
    best_weights();
    links_and_places();
    other_types();
    freedoms();
    wrong_numbers();
    wrong_contents();
    wrong_offsets();
    wrong_text();
    wrong_sizes();
    many_entries();
    art_engine_close(engine);
    storage_end();
    return expect_done("safetensors");
}
