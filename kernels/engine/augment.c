#include "engine/augment.h"

#include <string.h>

#include "core/crc32.h"
#include "core/rng.h"

/* Along one dimension: place i of the result is place `base + (i - shift) * window / size` of the
 * sample, mirrored before that if asked. */
typedef struct axis {
    uint32_t size, window, base;
    int64_t shift;
    bool mirrored;
} axis;

art_status art_augment_check(const art_augment *what, const uint32_t *shape, unsigned ndim,
                             uint32_t chw[3], art_error *err) {
    chw[0] = ndim >= 2 ? shape[0] : 1;
    chw[1] = ndim >= 3 ? shape[1] : 1;
    chw[2] = ndim >= 1 ? shape[ndim - 1] : 1;
    ART_FAIL_IF(ndim > 3, err, ART_SHAPE,
                "augmentation needs samples of shape (C, H, W), (C, L) or (F); these have %u "
                "dimensions",
                ndim);
    bool moves = what->flip || what->shift > 0 || what->crop > 0;
    ART_FAIL_IF(moves && ndim < 2, err, ART_SHAPE,
                "flip, shift and crop move pixels, but a sample is a row of %u values whose places "
                "mean something: noise alone is possible, or plan with the shape of the images",
                chw[2]);
    /* A side of one pixel stays as it is. */
    uint32_t least = chw[2] == 1 || (chw[1] > 1 && chw[1] < chw[2]) ? chw[1] : chw[2];
    uint32_t most = what->shift > what->crop ? what->shift : what->crop;
    ART_FAIL_IF(moves && most >= least, err, ART_SHAPE,
                "%s=%u leaves nothing of samples whose shorter side has %u pixels: at most %u is "
                "possible",
                what->shift > what->crop ? "shift" : "crop", most, least, least - 1);
    return ART_OK;
}

/* An index with noise is no row's number. */
static art_status check_noise(const art_engine *engine, const art_augment *what, art_error *err) {
    art_info info;
    art_engine_info(engine, &info);
    uint64_t elements = what == NULL || what->noise == 0.0f || engine->index_limit == NULL
                            ? 0
                            : info.input_elements;
    for (uint64_t i = 0; i < elements; i++) {
        uint32_t rows = engine->index_limit[elements + i];
        ART_FAIL_IF(rows != 0, err, ART_DATA,
                    "noise changes every element of an input, and element %llu is an index of an "
                    "embedding whose rows are 0..%u: leave noise out of the augmentation; "
                    "nn.Dropout after the embedding changes what it gives",
                    (unsigned long long)i, rows - 1);
    }
    return ART_OK;
}

art_status art_engine_set_augment(art_engine *engine, const art_augment *what, art_error *err) {
    engine->augment_crc32 = 0;
    ART_TRY(check_noise(engine, what, err));
    if (what != NULL && (what->flip || what->shift > 0 || what->crop > 0 || what->noise > 0.0f)) {
        uint32_t words[4] = {what->flip, what->shift, what->crop};
        memcpy(&words[3], &what->noise, sizeof words[3]);
        uint32_t crc = art_crc32(0, words, sizeof words);
        engine->augment_crc32 = crc == 0 ? 1 : crc;
    }
    return ART_OK;
}

static uint32_t below(uint32_t word, uint32_t n) {
    return (uint32_t)((uint64_t)word * n >> 32);
}

/* The three words decide how far it moves, how much smaller the window is, and where it lies. */
static axis draw(const art_augment *what, uint32_t size, uint32_t move, uint32_t smaller,
                 uint32_t place) {
    axis a = {.size = size, .window = size};
    if (size > 1) {
        a.shift = (int64_t)below(move, 2 * what->shift + 1) - what->shift;
        a.window = size - below(smaller, what->crop + 1);
        a.base = below(place, size - a.window + 1);
    }
    return a;
}

/* Where place i comes from, -1: from outside. */
static int64_t source_of(const axis *a, uint32_t i) {
    int64_t at = (int64_t)(a->mirrored ? a->size - 1 - i : i) - a->shift;
    if (at < 0 || at >= (int64_t)a->size) {
        return -1;
    }
    return a->base + at * a->window / a->size;
}

static void move(const axis *rows, const axis *columns, uint32_t channels, const float *from,
                 float *to) {
    uint32_t height = rows->size, width = columns->size;
    for (uint32_t x = 0; x < width; x++) {
        int64_t left = source_of(columns, x);
        for (uint32_t y = 0; y < height; y++) {
            int64_t top = left < 0 ? -1 : source_of(rows, y);
            uint64_t at = (uint64_t)top * width + (uint64_t)left;
            for (uint32_t c = 0; c < channels; c++) {
                uint64_t plane = (uint64_t)c * height * width;
                to[plane + (uint64_t)y * width + x] = top < 0 ? 0.0f : from[plane + at];
            }
        }
    }
}

/* `first` is the index of the first number. */
static void add_noise(float deviation, uint64_t seed, uint64_t stream, uint64_t first,
                      uint64_t elements, float *to) {
    float pair[2];
    for (uint64_t i = 0; i < elements; i++) {
        uint64_t index = first + i;
        if (i == 0 || (index & 1) == 0) {
            art_random_normal_pair(seed, stream, index >> 1, pair);
        }
        to[i] += deviation * pair[index & 1];
    }
}

void art_augment_sample(const art_augment *what, const uint32_t chw[3], uint64_t seed,
                        uint64_t epoch, uint64_t sample, const float *from, float *to) {
    uint32_t word[8];
    uint64_t stream = art_stream_of_name("augment") + epoch;
    art_philox(seed, stream, 2 * sample, word);
    art_philox(seed, stream, 2 * sample + 1, word + 4);
    axis rows = draw(what, chw[1], word[2], word[3], word[5]);
    axis columns = draw(what, chw[2], word[1], word[4], word[6]);
    columns.mirrored = what->flip && (word[0] & 1) != 0;
    move(&rows, &columns, chw[0], from, to);
    uint64_t elements = (uint64_t)chw[0] * chw[1] * chw[2];
    if (what->noise > 0.0f) {
        add_noise(what->noise, seed, art_stream_of_name("augment noise") + epoch, sample * elements,
                  elements, to);
    }
}
