/* Texts of --schedule: what they mean, and that no text leads out of a buffer. */
#include <stdio.h>
#include <string.h>

#include "expect.h"
#include "run/schedule.h"

static run_schedule schedule;
static char why[512];

static void test_meaning(void) {
    EXPECT(run_parse_schedule(NULL, &schedule, why, sizeof why) && schedule.n == 0);
    EXPECT(run_schedule_scale(&schedule, 5, 7, 0.5) == 1.0);
    EXPECT(run_parse_schedule("step:step_size=2,gamma=0.5+multistep:milestones=3/9,gamma=0.25,"
                              "interval=step",
                              &schedule, why, sizeof why));
    EXPECT(schedule.n == 2 && schedule.parts[1].n_milestones == 2);
    EXPECT(run_schedule_scale(&schedule, 1, 2, 0.5) == 1.0);
    EXPECT(run_schedule_scale(&schedule, 2, 3, 0.5) == 0.125);
    EXPECT(run_schedule_scale(&schedule, 4, 9, 0.5) == 0.015625);
}

/* Every factor of every kind stays within what a checkpoint takes, however late it is. */
static void test_range(void) {
    static const char *const texts[] = {"constant",
                                        "linear",
                                        "step:step_size=1",
                                        "multistep:milestones=1",
                                        "exponential:gamma=1",
                                        "polynomial:power=1000",
                                        "cosine:T_max=3",
                                        "one_cycle:total_steps=2"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        EXPECT(run_parse_schedule(texts[i], &schedule, why, sizeof why));
        for (uint64_t time = 1; time != 0; time = time * 3 > time ? time * 3 : 0) {
            double scale = run_schedule_scale(&schedule, time, time, 0.5);
            EXPECT(scale >= 0.0 && scale <= 1.0);
        }
    }
}

/* Every text cut short, and with every character replaced, is either taken or refused. */
static void test_damage(void) {
    static const char text[] =
        "multistep:milestones=3/4,gamma=0.5+linear:total_iters=9,interval=step";
    static const char signs[] = ":=,+/.-0x";
    char copy[sizeof text];
    for (size_t i = 0; i < sizeof text - 1; i++) {
        memcpy(copy, text, sizeof copy);
        for (size_t j = 0; j < sizeof signs; j++) {
            copy[i] = signs[j]; /* the last one ends the text */
            why[0] = '\0';
            bool taken = run_parse_schedule(copy, &schedule, why, sizeof why);
            EXPECT(taken ? schedule.n > 0 : why[0] != '\0');
        }
    }
    EXPECT(!run_parse_schedule("step:step_size=2", &schedule, why, 8) || schedule.n == 1);
    EXPECT(!run_parse_schedule("zigzag", &schedule, why, sizeof why));
}

int main(void) {
    test_meaning();
    test_range();
    test_damage();
    return expect_done("schedule");
}
