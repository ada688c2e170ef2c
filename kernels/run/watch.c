#include "watch.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/monitor.h"

static const struct quantity {
    const char *word, *shown;
    bool validation;
} quantities[] = {
    [ART_MONITOR_TRAIN_LOSS] = {"train_loss", "train loss", false},
    [ART_MONITOR_VAL_LOSS] = {"val_loss", "val loss", true},
    [ART_MONITOR_VAL_ACCURACY] = {"val_accuracy", "val accuracy", true},
};
enum { QUANTITIES = sizeof quantities / sizeof quantities[0] };

static uint32_t find_quantity(const char *word) {
    uint32_t i = ART_MONITOR_TRAIN_LOSS;
    while (i < QUANTITIES && strcmp(quantities[i].word, word) != 0) {
        i++;
    }
    return i;
}

bool run_watch_options(const run_options *o, const run_schedule *schedule, uint32_t *quantity,
                       char *why, unsigned why_bytes) {
    bool asked =
        o->early_stopping > 0 || o->keep_best != NULL || run_schedule_plateau(schedule) != NULL;
    *quantity = ART_MONITOR_NOTHING;
    if (!asked) {
        snprintf(why, why_bytes,
                 "--monitor needs --early-stopping, --keep-best or --schedule plateau, which "
                 "follow it");
        return o->monitor == NULL;
    }
    uint32_t preset = o->validation == NULL ? ART_MONITOR_TRAIN_LOSS : ART_MONITOR_VAL_LOSS;
    *quantity = o->monitor == NULL ? preset : find_quantity(o->monitor);
    if (*quantity == QUANTITIES) {
        snprintf(why, why_bytes,
                 "--monitor needs train_loss, val_loss or val_accuracy, got '%.60s'", o->monitor);
        return false;
    }
    if (quantities[*quantity].validation && o->validation == NULL) {
        snprintf(why, why_bytes, "--monitor %s needs --validation SPEC", o->monitor);
        return false;
    }
    return true;
}

art_status run_watch_begin(run_loop *l, art_error *err) {
    art_monitor m;
    struct stat info;
    const char *keep = l->options->keep_best;
    ART_FAIL_IF(l->quantity == ART_MONITOR_VAL_ACCURACY && !l->info.target_is_label, err, ART_DATA,
                "--monitor val_accuracy needs labels, this plan's targets are numbers: use "
                "val_loss");
    art_engine_get_monitor(l->engine, &m);
    if (keep == NULL || m.quantity == ART_MONITOR_NOTHING) {
        return ART_OK;
    }
    if (stat(keep, &info) == 0) {
        /* Another value than before is followed from the next epoch on, whose weights replace it.
         */
        return m.quantity == l->quantity ? art_engine_check_best(l->engine, keep, err) : ART_OK;
    }
    run_note(l->options, "note: %s is missing: the best weights are looked for from epoch %llu on",
             keep, (unsigned long long)l->state.epoch + 1);
    m.quantity = ART_MONITOR_NOTHING;
    art_engine_set_monitor(l->engine, &m);
    return ART_OK;
}

art_status run_watch_epoch(run_loop *l, art_error *err) {
    const run_record *r = &l->record;
    const double values[QUANTITIES] = {
        [ART_MONITOR_TRAIN_LOSS] = r->train_loss,
        [ART_MONITOR_VAL_LOSS] = r->val_loss,
        [ART_MONITOR_VAL_ACCURACY] = r->val_accuracy,
    };
    art_monitor m;
    /* Of labels that are all ignored nothing is measured. */
    if (l->quantity == ART_MONITOR_NOTHING ||
        (quantities[l->quantity].validation && !r->measured)) {
        return ART_OK;
    }
    art_engine_get_monitor(l->engine, &m);
    bool better = art_monitor_epoch(&m, l->quantity, values[l->quantity], l->state.epoch,
                                    run_schedule_plateau(&l->schedule));
    art_engine_set_monitor(l->engine, &m);
    if (!better || l->options->keep_best == NULL) {
        return ART_OK;
    }
    /* Before the checkpoint that knows of it: a run that is killed between does this epoch again.
     */
    const char *about;
    ART_TRY(run_source_about(&l->train, &about, err));
    return art_engine_save_best(l->engine, l->options->keep_best, about, err);
}

bool run_watch_exhausted(const run_loop *l) {
    art_monitor m;
    art_engine_get_monitor(l->engine, &m);
    return l->state.position == 0 && l->quantity != ART_MONITOR_NOTHING &&
           art_monitor_exhausted(&m, l->quantity, l->state.epoch, l->options->early_stopping);
}

uint64_t run_watch_best_epoch(const run_loop *l) {
    art_monitor m;
    art_engine_get_monitor(l->engine, &m);
    bool measured = l->quantity != ART_MONITOR_NOTHING && m.quantity == l->quantity;
    return measured ? m.best_epoch : 0;
}

void run_watch_tell(const run_loop *l) {
    art_monitor m;
    const run_options *o = l->options;
    if (run_watch_best_epoch(l) == 0) {
        return;
    }
    art_engine_get_monitor(l->engine, &m);
    const char *shown = quantities[l->quantity].shown;
    if (run_watch_exhausted(l)) {
        run_note(o, "stopped early after epoch %llu: no better %s for %llu epoch(s)",
                 (unsigned long long)l->state.epoch, shown,
                 (unsigned long long)(l->state.epoch - m.best_epoch));
    }
    run_note(o, "best %s %.6g after epoch %llu%s%s", shown, m.best,
             (unsigned long long)m.best_epoch, o->keep_best == NULL ? "" : ", its weights are in ",
             o->keep_best == NULL ? "" : o->keep_best);
}
