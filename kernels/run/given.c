#include "given.h"

#include <string.h>

#include "core/crc32.h"

#define SAMPLES                                                                                    \
    16 /* that are compared, evenly spread: enough for other data, cheap for large ones */

/* Of words, options and times; never 0. */
static uint32_t schedule_crc32(const run_schedule *schedule) {
    uint32_t crc = 0;
    for (unsigned i = 0; i < schedule->n; i++) {
        const art_schedule *s = &schedule->parts[i];
        const unsigned char per_step = s->per_step;
        size_t values = 0;
        while (s->kind->options[values].name != NULL) {
            values++;
        }
        crc = art_crc32(crc, s->kind->word, strlen(s->kind->word));
        crc = art_crc32(crc, s->values, values * sizeof s->values[0]);
        crc = art_crc32(crc, s->milestones, s->n_milestones * sizeof s->milestones[0]);
        crc = art_crc32(crc, &per_step, 1);
    }
    return crc == 0 ? 1 : crc;
}

/* Go on with the first sample of a tensor's batch. */
static uint32_t add_sample(const run_loop *l, uint32_t tensor, uint64_t elements, uint32_t crc) {
    float chunk[256];
    for (uint64_t done = 0; done < elements;) {
        uint64_t left = elements - done, n = left < 256 ? left : 256;
        art_layout_read(l->engine, tensor, done, n, chunk);
        crc = art_crc32(crc, chunk, n * sizeof(float));
        done += n;
    }
    return crc;
}

/* Of some samples as they are in the data, with their targets, 0 if one is not finite: its batch
 * will tell. */
static uint32_t data_crc32(const run_loop *l) {
    const art_phase_io *io = &l->engine->io[ART_PHASE_TRAIN];
    uint64_t count = l->train.count, n = count < SAMPLES ? count : SAMPLES;
    uint32_t crc = 0;
    art_error ignored;
    run_source unchanged = l->train;
    unchanged.augment.given = false;
    for (uint64_t i = 0; i < n; i++) {
        if (run_source_put(&unchanged, l->engine, ART_PHASE_TRAIN, i * count / n, 0, l->labels,
                           &ignored) != ART_OK) {
            return 0;
        }
        crc = add_sample(l, io->input, l->info.input_elements, crc);
        crc = l->info.target_is_label ? art_crc32(crc, l->labels, sizeof l->labels[0])
                                      : add_sample(l, io->target, l->info.target_elements, crc);
    }
    return crc == 0 ? 1 : crc;
}

static bool is_other(uint32_t before, uint32_t now) {
    return before != 0 && now != 0 && before != now;
}

void run_compare_given(run_loop *l) {
    art_monitor m;
    art_engine_get_monitor(l->engine, &m);
    uint32_t schedule = schedule_crc32(&l->schedule);
    uint32_t data = l->options->checkpoint == NULL ? 0 : data_crc32(l);
    if (l->schedule.n == 0 && l->state.learning_rate_scale != 1.0) {
        run_note(l->options,
                 "note: no schedule is given, learning rates stay at %g times the plan's",
                 l->state.learning_rate_scale);
    } else if (is_other(m.schedule_crc32, schedule)) {
        run_note(l->options,
                 "note: the checkpoint was written under another schedule (or none) than this "
                 "run's, which holds from here on: the weights will be those of neither run alone");
    }
    if (is_other(m.data_crc32, data)) {
        run_note(l->options,
                 "note: the training data are not those of the checkpoint (up to %d samples were "
                 "compared): the run goes on with the new ones",
                 SAMPLES);
    }
    m.schedule_crc32 = schedule;
    m.data_crc32 = data;
    art_engine_set_monitor(l->engine, &m);
}
