#include "loop.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/checkpoint.h"
#include "given.h"
#include "watch.h"

#define NOTE_BYTES 4096

static volatile sig_atomic_t stop_signal;

static void remember(int number) {
    stop_signal = number;
}

/* What was ignored at the start stays ignored: so a shell's `&` and nohup start what shall outlive
 * them. */
static void catch_unless_ignored(int number, const struct sigaction *action) {
    struct sigaction before;
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
        sigaction(number, action, NULL);
    }
}

void run_catch_signals(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = remember;
    action.sa_flags = SA_RESTART | (int)SA_RESETHAND;
    catch_unless_ignored(SIGINT, &action);
    catch_unless_ignored(SIGTERM, &action);
    catch_unless_ignored(SIGHUP, &action);
    /* A full disk or a file size limit is an error of one write, not the end of the process. */
    action.sa_handler = SIG_IGN;
    action.sa_flags = 0;
    sigaction(SIGXFSZ, &action, NULL);
    sigaction(SIGPIPE, &action, NULL);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The engine counts the steps itself. */
static void store_state(run_loop *l) {
    art_run_state inside;
    art_engine_get_state(l->engine, &inside);
    l->state.step = inside.step;
    art_engine_set_state(l->engine, &l->state);
}

static art_status save(run_loop *l, art_error *err) {
    if (l->options->checkpoint == NULL) {
        return ART_OK;
    }
    store_state(l);
    return art_checkpoint_save_held(l->engine, l->options->checkpoint, l->lock, ART_CKPT_KEEP, err);
}

/* Does DIR hold checkpoints? A directory that is missing holds none. */
static art_status find_checkpoint(const char *path, bool *found, uint64_t *step, art_error *err) {
    art_dir dir;
    bool missing;
    *found = false;
    art_status status = art_dir_open(&dir, path, &missing, err);
    if (status == ART_OK) {
        status = art_ckpt_newest(&dir, UINT64_MAX, found, step, err);
        art_dir_close(&dir);
    }
    return missing ? ART_OK : status;
}

static art_status check_resumed(const run_loop *l, const art_run_state *state, art_error *err) {
    ART_FAIL_IF(state->seed != l->options->seed, err, ART_DATA,
                "the checkpoint was made with seed %llu, this run has seed %llu; the order of "
                "samples would differ: use --seed %llu",
                (unsigned long long)state->seed, (unsigned long long)l->options->seed,
                (unsigned long long)state->seed);
    ART_FAIL_IF(state->n_train != 0 && state->n_train != l->train.count, err, ART_DATA,
                "the checkpoint was made with %llu training samples, the data have %llu: use the "
                "same data, or start a new run in another directory",
                (unsigned long long)state->n_train, (unsigned long long)l->train.count);
    return ART_OK;
}

static art_status resume(run_loop *l, art_error *err) {
    char note[NOTE_BYTES];
    art_status status =
        art_checkpoint_load(l->engine, l->options->checkpoint, note, sizeof note, err);
    size_t length = strlen(note);
    if (length > 0) {
        note[length - (note[length - 1] == '\n')] = '\0';
        run_note(l->options, "%s", note);
    }
    ART_TRY(status);
    art_engine_get_state(l->engine, &l->state);
    ART_TRY(check_resumed(l, &l->state, err));
    run_note(l->options, "resumed at step %llu: %llu epoch(s) complete, %llu samples into the next",
             (unsigned long long)l->state.step, (unsigned long long)l->state.epoch,
             (unsigned long long)l->state.position);
    return ART_OK;
}

static art_status prepare_directory(run_loop *l, art_error *err) {
    const run_options *o = l->options;
    bool found, locked;
    uint64_t step = 0;
    if (o->checkpoint == NULL) {
        return ART_OK;
    }
    ART_TRY(art_dir_make(o->checkpoint, err));
    ART_TRY(art_dir_lock(o->checkpoint, &l->lock, &locked, err));
    if (!locked) {
        run_note(o, "note: the file system of %s has no locks: start no second run there",
                 o->checkpoint);
    }
    ART_TRY(find_checkpoint(o->checkpoint, &found, &step, err));
    ART_FAIL_IF(found && !o->resume, err, ART_IO,
                "%s holds checkpoints of an earlier run, newest of step %llu: continue it with "
                "--resume, or choose another directory",
                o->checkpoint, (unsigned long long)step);
    if (o->resume && !found) {
        run_note(o, "no checkpoint in %s yet: starting from the beginning", o->checkpoint);
    }
    return o->resume && found ? resume(l, err) : ART_OK;
}

/* Batch normalisation over one value has no variance: refuse data whose last batch would come to
 * that before the first step. */
static art_status check_smallest_batch(const run_loop *l, art_error *err) {
    const art_plan *plan = &l->engine->plan;
    const art_phase_io *io = &l->engine->io[ART_PHASE_TRAIN];
    uint64_t batch = l->info.batch_size, rest = l->train.count % batch;
    if (rest != 1 && !(rest == 0 && batch == 1)) {
        return ART_OK;
    }
    for (uint32_t step = io->first; step < io->last; step++) {
        if (plan->steps[step].op != ART_OP_BATCHNORM2D_FWD) {
            continue;
        }
        const art_plan_tensor *x =
            &plan->tensors[art_plan_operand(plan, step, ART_BATCHNORM2D_FWD_X)];
        ART_FAIL_IF(x->dims[1] == 1 && x->dims[2] == 1, err, ART_SHAPE,
                    "%llu samples in batches of %llu leave a last batch of 1, which gives batch "
                    "normalisation '%s' one value a channel and no variance; plan with another "
                    "--batch, or leave one sample out",
                    (unsigned long long)l->train.count, (unsigned long long)batch,
                    plan->strings + plan->steps[step].layer);
    }
    return ART_OK;
}

static art_status check_phases(const run_loop *l, art_error *err) {
    ART_FAIL_IF(l->engine->io[ART_PHASE_TRAIN].input == ART_PLAN_NONE, err, ART_USE,
                "the plan has no steps to train: plan it again with them");
    ART_FAIL_IF(l->options->validation != NULL &&
                    l->engine->io[ART_PHASE_EVALUATE].input == ART_PLAN_NONE,
                err, ART_USE,
                "the plan has no steps to evaluate: plan it again with them, or leave out "
                "--validation");
    return check_smallest_batch(l, err);
}

/* Say which batch a value that is not finite stopped; `of` is what the batch belongs to. */
static art_status name_batch(const run_loop *l, art_status status, uint64_t position,
                             const char *of, art_error *err) {
    if (status == ART_NONFINITE && err != NULL) {
        size_t used = strlen(err->text);
        snprintf(err->text + used, sizeof err->text - used, " (batch %llu of %s)",
                 (unsigned long long)(position / l->info.batch_size + 1), of);
    }
    return status;
}

static art_status put_batch(run_loop *l, uint32_t n, art_error *err) {
    l->train.augment.epoch = l->state.epoch;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t row =
            art_shuffle(l->options->seed, l->state.epoch, l->train.count, l->state.position + i);
        ART_TRY(run_source_put(&l->train, l->engine, ART_PHASE_TRAIN, row, i, l->labels, err));
    }
    return ART_OK;
}

/* Without a schedule the rates stay as they are. */
static void set_rate(run_loop *l) {
    if (l->schedule.n > 0) {
        art_monitor monitor;
        art_engine_get_monitor(l->engine, &monitor);
        store_state(l); /* and learn the step */
        l->state.learning_rate_scale =
            run_schedule_scale(&l->schedule, l->state.epoch, l->state.step, monitor.plateau_scale);
        store_state(l);
    }
}

/* Samples of a batch whose labels the loss does not ignore. */
static uint32_t counted_of(const run_loop *l, uint32_t n) {
    uint32_t counted = n;
    for (uint32_t i = 0; l->info.target_is_label && i < n; i++) {
        counted -= l->labels[i] == l->info.ignored_label;
    }
    return counted;
}

static void tell_skipped(run_loop *l, uint32_t n) {
    if (!l->skipped) {
        run_note(l->options,
                 "note: all %u samples of batch %llu of epoch %llu have only the ignored label %d: "
                 "no step is made for such a batch (told once)",
                 n, (unsigned long long)(l->state.position / l->info.batch_size + 1),
                 (unsigned long long)l->state.epoch + 1, l->info.ignored_label);
        l->skipped = true;
    }
}

static art_status train_batch(run_loop *l, art_error *err) {
    const art_phase_io *io = &l->engine->io[ART_PHASE_TRAIN];
    double began = now(), loss;
    uint64_t left = l->train.count - l->state.position;
    uint32_t n = left < l->info.batch_size ? (uint32_t)left : l->info.batch_size;
    const void *target =
        l->info.target_is_label ? l->labels : art_engine_tensor_data(l->engine, io->target);
    char epoch[80];
    snprintf(epoch, sizeof epoch, "epoch %llu; checkpoints are as they were",
             (unsigned long long)l->state.epoch + 1);
    set_rate(l);
    art_status status = put_batch(l, n, err);
    if (status == ART_OK) {
        status = art_engine_train_step(l->engine, art_engine_tensor_data(l->engine, io->input),
                                       target, n, &loss, err);
    }
    ART_TRY(name_batch(l, status, l->state.position, epoch, err));
    const double counted = art_engine_counted(l->engine);
    if (counted == 0.0) {
        tell_skipped(l, n);
    }
    l->state.loss_sum += loss * counted;
    l->state.loss_counted += counted;
    l->state.position += n;
    l->trained += n;
    l->seconds += now() - began;
    return ART_OK;
}

/* 0 when nothing counts. */
static double mean(double sum, double counted) {
    return counted == 0.0 ? 0.0 : sum / counted;
}

/* Mean loss and accuracy over the validation data; gives up when a signal arrives. */
static art_status validate(run_loop *l, art_error *err) {
    const art_phase_io *io = &l->engine->io[ART_PHASE_EVALUATE];
    double sum = 0.0, counted = 0.0, loss;
    uint64_t right = 0, correct, labelled = 0, count = l->validation.count;
    const void *target =
        l->info.target_is_label ? l->labels : art_engine_tensor_data(l->engine, io->target);
    for (uint64_t first = 0; first < count && stop_signal == 0;) {
        uint64_t left = count - first;
        uint32_t n = left < l->info.batch_size ? (uint32_t)left : l->info.batch_size;
        art_status status = ART_OK;
        for (uint32_t i = 0; i < n && status == ART_OK; i++) {
            status = run_source_put(&l->validation, l->engine, ART_PHASE_EVALUATE, first + i, i,
                                    l->labels, err);
        }
        if (status == ART_OK) {
            status =
                art_engine_evaluate_step(l->engine, art_engine_tensor_data(l->engine, io->input),
                                         target, n, &loss, &correct, err);
        }
        ART_TRY(name_batch(l, status, first, "the evaluation", err));
        const double counts = art_engine_counted(l->engine);
        sum += loss * counts;
        counted += counts;
        right += correct;
        labelled += counted_of(l, n);
        first += n;
    }
    l->record.validated = true;
    l->record.measured = counted > 0.0;
    l->record.has_accuracy = l->info.target_is_label != 0 && labelled > 0;
    l->record.val_loss = mean(sum, counted);
    l->record.val_accuracy = mean((double)right, (double)labelled);
    return ART_OK;
}

/* The epoch's samples are trained: validate, tell, and count it. */
static art_status finish_epoch(run_loop *l, art_error *err) {
    run_record *r = &l->record;
    memset(r, 0, sizeof *r);
    if (l->options->validation != NULL) {
        ART_TRY(validate(l, err));
        if (stop_signal != 0) {
            return save(l, err); /* validates again when resumed */
        }
    }
    r->epoch = l->state.epoch + 1;
    r->kernel_level = l->info.kernel_level;
    r->train_loss = mean(l->state.loss_sum, l->state.loss_counted);
    r->seconds = l->seconds;
    r->samples_per_second = l->seconds > 0.0 ? (double)l->trained / l->seconds : 0.0;
    r->arena_bytes = l->info.arena_bytes;
    r->peak_rss_bytes = run_peak_rss_bytes();
    l->state.epoch++;
    l->state.position = 0;
    l->state.loss_counted = l->state.loss_sum = 0.0;
    store_state(l);
    l->epochs++;
    ART_TRY(run_watch_epoch(l, err));
    ART_TRY(run_log_write(l->log, l->options->log, r, err));
    run_report(l->options, l->options->epochs, r);
    return save(l, err);
}

static art_status train_epoch(run_loop *l, art_error *err) {
    uint64_t every = l->options->checkpoint_every;
    l->seconds = 0.0;
    l->trained = 0;
    while (l->state.position < l->train.count) {
        ART_TRY(train_batch(l, err));
        if (l->state.position == l->train.count) {
            break;
        }
        if (stop_signal != 0) {
            return save(l, err);
        }
        art_run_state inside;
        art_engine_get_state(l->engine, &inside);
        if (every != 0 && inside.step % every == 0) {
            ART_TRY(save(l, err));
        }
    }
    return finish_epoch(l, err);
}

static void tell_stop(const run_loop *l) {
    if (l->options->checkpoint == NULL) {
        run_note(l->options, "stopped; without a checkpoint directory the run is not saved");
    } else {
        run_note(l->options, "stopped; a checkpoint is in %s, continue with --resume",
                 l->options->checkpoint);
    }
}

/* Checkpoints and log of the steps to come can be written. */
static art_status open_outputs(run_loop *l, art_error *err) {
    const run_options *o = l->options;
    art_dir dir;
    if (o->checkpoint != NULL && l->state.epoch < o->epochs) {
        ART_TRY(art_dir_open(&dir, o->checkpoint, NULL, err));
        bool good = art_dir_takes_files(dir.fd);
        int code = errno;
        art_dir_close(&dir);
        ART_FAIL_IF(!good, err, ART_IO, "cannot write checkpoints into %s: %s; %s", o->checkpoint,
                    strerror(code), art_errno_advice(code));
    }
    return run_log_open(o->log, l->state.epoch, &l->log, err);
}

static art_status begin(run_loop *l, art_error *err) {
    const run_options *o = l->options;
    art_engine_get_state(l->engine, &l->state);
    ART_TRY(check_phases(l, err));
    ART_TRY(prepare_directory(l, err));
    ART_TRY(run_watch_begin(l, err));
    if (l->train.count < l->info.batch_size) {
        run_note(o,
                 "note: %llu samples are fewer than the planned batch of %u: every epoch is one "
                 "batch of %llu",
                 (unsigned long long)l->train.count, l->info.batch_size,
                 (unsigned long long)l->train.count);
    }
    if (l->state.n_train != l->train.count) {
        l->state.position = 0;
        l->state.loss_counted = l->state.loss_sum = 0.0;
        l->state.n_train = l->train.count;
    }
    store_state(l);
    run_compare_given(l);
    if (l->state.epoch >= o->epochs) {
        run_note(o, "already finished: %llu of %llu epochs are complete, nothing to do",
                 (unsigned long long)l->state.epoch, (unsigned long long)o->epochs);
    }
    return open_outputs(l, err);
}

/* The lock of the checkpoint directory stays until the process ends. */
art_status run_train(run_loop *l, art_error *err) {
    l->log = l->lock = -1;
    ART_TRY(begin(l, err));
    art_status status = ART_OK;
    while (status == ART_OK && l->state.epoch < l->options->epochs && stop_signal == 0 &&
           !run_watch_exhausted(l)) {
        status = train_epoch(l, err);
    }
    if (l->log >= 0) {
        close(l->log);
    }
    ART_TRY(status);
    if (stop_signal != 0) {
        l->stopped = stop_signal;
        tell_stop(l);
    } else {
        run_watch_tell(l);
    }
    return ART_OK;
}
