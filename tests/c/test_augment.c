/* Texts of --augment, and that no change leads out of a sample. */
#include <stdio.h>
#include <string.h>

#include "expect.h"
#include "run/augment.h"

static run_augment augment;
static char why[512];

static void test_texts(void) {
    EXPECT(run_parse_augment(NULL, &augment, why, sizeof why) && !augment.given);
    EXPECT(run_parse_augment("noise=0.5,crop=3,flip,shift=2", &augment, why, sizeof why));
    EXPECT(augment.given && augment.what.flip && augment.what.shift == 2);
    EXPECT(augment.what.crop == 3 && augment.what.noise == 0.5f);
    static const char *const wrong[] = {
        "",        ",",         "flip,",      "flip=",      "shift=", "=",   "shift=1x", "noise=-1",
        "noise=e", "noise=0x1", "crop=65536", "noise=1001", "flips",  "fli", "noise="};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        why[0] = '\0';
        EXPECT(!run_parse_augment(wrong[i], &augment, why, sizeof why) && why[0] != '\0');
    }
    char longest[400];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    EXPECT(!run_parse_augment(longest, &augment, why, sizeof why));
}

static void test_bounds(void) {
    static const uint32_t shapes[][3] = {{1, 1, 1}, {2, 1, 9}, {3, 5, 4}, {1, 7, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        uint32_t chw[3], least = shapes[i][1] > 1 ? shapes[i][1] : shapes[i][2];
        least = shapes[i][2] > 1 && shapes[i][2] < least ? shapes[i][2] : least;
        art_augment what = {true, least - 1, least - 1, 0.5f};
        art_error err;
        EXPECT(art_augment_check(&what, shapes[i], 3, chw, &err) ==
                   (least > 1 ? ART_OK : ART_SHAPE) ||
               what.shift == 0);
        size_t n = (size_t)chw[0] * chw[1] * chw[2];
        float from[64], to[66];
        for (size_t k = 0; k < n; k++) {
            from[k] = 1.0f;
        }
        to[0] = to[n + 1] = 77.0f;
        for (uint64_t sample = 0; sample < 500; sample++) {
            art_augment_sample(&what, chw, 3, 4, sample, from, to + 1);
            EXPECT(to[0] == 77.0f && to[n + 1] == 77.0f);
        }
        art_augment_sample(&what, chw, UINT64_MAX, UINT64_MAX, UINT64_MAX, from, to + 1);
        what.shift = least;
        EXPECT(art_augment_check(&what, shapes[i], 3, chw, &err) == ART_SHAPE);
    }
}

int main(void) {
    test_texts();
    test_bounds();
    return expect_done("augment");
}
