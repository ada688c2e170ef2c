/* Loading the newest intact checkpoint. A file is read twice: first its checksum is verified and
 * its directory compared with the plan, then its tensors go into the arena. */
#include "engine/checkpoint.h"

#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "art_limits.h"
#include "core/crc32.h"
#include "engine/kept.h"
#include "engine/monitor.h"
#include "ops/check.h"

/* Lines for the user, cut off when they do not fit, and the files that were skipped. */
typedef struct notes {
    char *text;
    size_t bytes, used;
    unsigned damaged, unreadable;
} notes;

static void __attribute__((format(printf, 2, 3))) add_note(notes *n, const char *format, ...) {
    va_list args;
    if (n->text == NULL || n->used + 1 >= n->bytes) {
        return;
    }
    va_start(args, format);
    int got = vsnprintf(n->text + n->used, n->bytes - n->used, format, args);
    va_end(args);
    size_t left = n->bytes - n->used - 1;
    n->used += got < 0 ? 0 : (size_t)got < left ? (size_t)got : left;
}

/* One open file and a buffer for its bytes. */
typedef struct reader {
    art_file file;
    art_ckpt_header header;
    unsigned char buffer[ART_FILE_BUFFER];
} reader;

static art_status verify_checksum(reader *r, art_error *err) {
    uint32_t crc = 0;
    for (uint64_t at = ART_CKPT_CRC_START; at < r->file.bytes;) {
        uint64_t left = r->file.bytes - at;
        size_t n = left < sizeof r->buffer ? (size_t)left : sizeof r->buffer;
        ART_TRY(art_file_read(&r->file, at, r->buffer, n, err));
        crc = art_crc32(crc, r->buffer, n);
        at += n;
    }
    ART_FAIL_IF(crc != r->header.crc32, err, ART_FILE_CHECKSUM,
                "its checksum is %08x but was written as %08x", crc, r->header.crc32);
    return ART_OK;
}

/* Compare the `bytes` bytes at `at` with what they must be. */
static art_status same_bytes(reader *r, uint64_t at, const void *expected, uint64_t bytes,
                             bool *same, art_error *err) {
    for (uint64_t done = 0; done < bytes && *same;) {
        size_t n = bytes - done < sizeof r->buffer ? (size_t)(bytes - done) : sizeof r->buffer;
        ART_TRY(art_file_read(&r->file, at + done, r->buffer, n, err));
        *same = memcmp(r->buffer, (const unsigned char *)expected + done, n) == 0;
        done += n;
    }
    return ART_OK;
}

/* The file is intact; is it of this model, with these tensors? */
static art_status verify_model(reader *r, const art_engine *engine, art_error *err) {
    art_ckpt_header want;
    art_ckpt_describe(engine, &want);
    ART_FAIL_IF(memcmp(r->header.model_hash, want.model_hash, sizeof want.model_hash) != 0, err,
                ART_PLAN_MODEL,
                "it belongs to another model (%02x%02x%02x%02x..., the plan's is "
                "%02x%02x%02x%02x...): use the plan it was trained with, or another directory",
                r->header.model_hash[0], r->header.model_hash[1], r->header.model_hash[2],
                r->header.model_hash[3], want.model_hash[0], want.model_hash[1], want.model_hash[2],
                want.model_hash[3]);
    bool same = r->header.n_tensors == want.n_tensors &&
                r->header.directory_bytes == want.directory_bytes &&
                r->header.file_bytes - r->header.header_bytes == want.file_bytes - sizeof want;
    ART_FAIL_IF(!same, err, ART_PLAN_MODEL,
                "it holds %u tensors in %llu bytes, this plan keeps %u in %llu: was it trained "
                "with another optimizer?",
                r->header.n_tensors, (unsigned long long)r->header.file_bytes, want.n_tensors,
                (unsigned long long)want.file_bytes);
    uint64_t at = r->header.header_bytes, offset = at + want.directory_bytes;
    for (uint32_t id = art_kept_next(engine, ART_ROLE_STATE, ART_PLAN_NONE); id != ART_PLAN_NONE;
         id = art_kept_next(engine, ART_ROLE_STATE, id)) {
        art_ckpt_record record;
        const char *name = art_engine_tensor_name(engine, id);
        art_ckpt_record_of(engine, id, offset, &record);
        ART_TRY(same_bytes(r, at, &record, sizeof record, &same, err));
        ART_TRY(same_bytes(r, at + sizeof record, name, record.name_bytes, &same, err));
        ART_FAIL_IF(!same, err, ART_PLAN_MODEL,
                    "it has another tensor where this plan has '%.200s': was it trained with "
                    "another optimizer or other layers frozen?",
                    name);
        at += sizeof record + art_ckpt_padded(record.name_bytes);
        offset += art_ckpt_padded(record.bytes);
    }
    return ART_OK;
}

/* The bytes are what was written; could a run have written them? `named` is the step of the name.
 */
static art_status verify_state(const art_run_state *s, uint64_t named, art_error *err) {
    const struct limit {
        const char *field;
        uint64_t value, most;
    } limits[] = {
        {"step", s->step, ART_CKPT_MOST_STEPS},
        {"epoch", s->epoch, ART_MAX_EPOCHS},
        {"position", s->position, s->n_train == 0 ? UINT64_MAX : s->n_train},
    };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        ART_FAIL_IF(limits[i].value > limits[i].most, err, ART_FILE_FORMAT,
                    "its %s is %llu, at most %llu is possible", limits[i].field,
                    (unsigned long long)limits[i].value, (unsigned long long)limits[i].most);
    }
    ART_FAIL_IF(s->step != named, err, ART_FILE_FORMAT,
                "its step is %llu, its name says %llu: rename it", (unsigned long long)s->step,
                (unsigned long long)named);
    ART_FAIL_IF(!(s->loss_counted >= 0.0 && s->loss_counted <= (s->position ? DBL_MAX : 0.0)), err,
                ART_FILE_FORMAT,
                "its loss_counted is %g at position %llu: from 0 on is possible, 0 at 0",
                s->loss_counted, (unsigned long long)s->position);
    double most = ART_CKPT_MOST_SCALE;
    ART_FAIL_IF(!(s->learning_rate_scale >= 0.0 && s->learning_rate_scale <= most), err,
                ART_FILE_FORMAT, "its learning_rate_scale is %g, 0 to %g is possible",
                art_shown(s->learning_rate_scale), most);
    ART_FAIL_IF(s->loss_sum - s->loss_sum != 0.0, err, ART_FILE_FORMAT,
                "its loss_sum is %g, which is not finite", art_shown(s->loss_sum));
    return ART_OK;
}

/* A save refuses such numbers too. */
static art_status verify_finite(reader *r, const art_engine *engine, art_error *err) {
    uint64_t at = r->header.header_bytes + r->header.directory_bytes, where;
    for (uint32_t id = art_kept_next(engine, ART_ROLE_STATE, ART_PLAN_NONE); id != ART_PLAN_NONE;
         id = art_kept_next(engine, ART_ROLE_STATE, id)) {
        const art_plan_tensor *t = art_engine_tensor(engine, id);
        uint64_t bytes = t->dtype == ART_DTYPE_F32 ? t->bytes : 0;
        for (uint64_t done = 0; done < bytes;) {
            size_t n = bytes - done < sizeof r->buffer ? (size_t)(bytes - done) : sizeof r->buffer;
            ART_TRY(art_file_read(&r->file, at + done, r->buffer, n, err));
            ART_FAIL_IF(!art_floats_are_finite(r->buffer, n / sizeof(float), &where), err,
                        ART_FILE_FORMAT, "its '%.200s' is not finite at element %llu",
                        art_engine_tensor_name(engine, id),
                        (unsigned long long)(done / sizeof(float) + where));
            done += n;
        }
        at += art_ckpt_padded(t->bytes);
    }
    return ART_OK;
}

static art_status load_tensor(reader *r, art_engine *engine, uint32_t id, uint64_t at,
                              art_error *err) {
    size_t size = (size_t)art_dtype_bytes(art_engine_tensor(engine, id)->dtype);
    uint64_t elements = art_engine_tensor_elements(engine, id);
    for (uint64_t done = 0; done < elements;) {
        uint64_t most = sizeof r->buffer / size;
        uint64_t n = elements - done < most ? elements - done : most;
        ART_TRY(art_file_read(&r->file, at + done * size, r->buffer, (size_t)n * size, err));
        art_layout_write(engine, id, done, n, r->buffer);
        done += n;
    }
    return ART_OK;
}

/* `ready` is false while some tensors are the file's and some are not. */
static art_status load_tensors(reader *r, art_engine *engine, art_error *err) {
    uint64_t at = r->header.header_bytes + r->header.directory_bytes;
    engine->ready = false;
    for (uint32_t id = art_kept_next(engine, ART_ROLE_STATE, ART_PLAN_NONE); id != ART_PLAN_NONE;
         id = art_kept_next(engine, ART_ROLE_STATE, id)) {
        ART_TRY(load_tensor(r, engine, id, at, err));
        at += art_ckpt_padded(art_engine_tensor(engine, id)->bytes);
    }
    engine->state = r->header.state;
    engine->monitor = r->header.monitor;
    engine->ready = true;
    return ART_OK;
}

static art_status load_open_file(reader *r, art_engine *engine, uint64_t step, art_error *err) {
    ART_TRY(art_ckpt_read_header(&r->file, &r->header, err));
    ART_TRY(verify_checksum(r, err));
    ART_TRY(verify_model(r, engine, err));
    ART_TRY(verify_state(&r->header.state, step, err));
    const char *senseless = art_monitor_senseless(&r->header.monitor, r->header.state.epoch);
    ART_FAIL_IF(senseless != NULL, err, ART_FILE_FORMAT,
                "the %s of its measured epochs is none that a run can have", senseless);
    ART_TRY(verify_finite(r, engine, err));
    return load_tensors(r, engine, err);
}

static void note_level(const reader *r, const art_engine *engine, uint64_t step, notes *n) {
    char level[sizeof r->header.kernel_level + 1] = "";
    memcpy(level, r->header.kernel_level, sizeof r->header.kernel_level);
    for (char *c = level; *c != '\0'; c++) {
        *c = *c > ' ' && *c <= '~' ? *c : '?'; /* a terminal would obey what is no letter */
    }
    if (strcmp(level, engine->level->name) != 0) {
        add_note(n,
                 "checkpoint %llu was written with kernel level %s, this run uses %s: the last "
                 "bits may differ from those of an uninterrupted run\n",
                 (unsigned long long)step, level, engine->level->name);
    }
}

static void note_update(const reader *r, const art_engine *engine, uint64_t step, notes *n) {
    art_ckpt_header want;
    art_ckpt_describe(engine, &want);
    if (r->header.update_crc32 != 0 && r->header.update_crc32 != want.update_crc32) {
        add_note(n,
                 "checkpoint %llu was written under other settings of the optimizer (learning "
                 "rate, momentum, weight decay, ... or clipping) than this plan's, which hold from "
                 "here on: the weights will be those of neither run alone\n",
                 (unsigned long long)step);
    }
}

static void note_augment(const reader *r, const art_engine *engine, uint64_t step, notes *n) {
    const uint32_t was = r->header.augment_crc32, is = engine->augment_crc32;
    if (was != is) {
        add_note(n,
                 "checkpoint %llu was written under %s random changes of the training inputs "
                 "(augmentation), this run has %s: the weights will be those of neither run "
                 "alone\n",
                 (unsigned long long)step,
                 was == 0  ? "no"
                 : is == 0 ? "some"
                           : "other",
                 is == 0    ? "none"
                 : was == 0 ? "some"
                            : "its own");
    }
}

/* Load one file; *next is set when it is damaged and an older one shall be tried. */
static art_status try_file(art_engine *engine, const char *dir, uint64_t step, notes *n, bool *next,
                           art_error *err) {
    char path[ART_PATH_MAX];
    art_error detail = {.text = ""};
    reader r;
    *next = false;
    ART_TRY(art_ckpt_path(dir, step, path, err));
    art_status status = art_file_open(&r.file, path, &detail);
    if (status == ART_OK) {
        status = load_open_file(&r, engine, step, &detail);
        art_file_close(&r.file);
    }
    if (status == ART_OK) {
        note_level(&r, engine, step, n);
        note_update(&r, engine, step, n);
        note_augment(&r, engine, step, n);
        return ART_OK;
    }
    ART_FAIL_IF(status == ART_PLAN_MODEL, err, status, "cannot resume from %.200s: %.250s", path,
                detail.text);
    add_note(n, "skipped %s: %s\n", path, detail.text);
    *(status == ART_IO ? &n->unreadable : &n->damaged) += 1;
    *next = true;
    return ART_OK;
}

/* No file is left to try. */
static art_status none_usable(const art_engine *engine, const art_dir *dir, const notes *n,
                              bool was_ready, art_error *err) {
    art_status status = art_fail(
        err, ART_NO_CHECKPOINT, __FILE__, __LINE__,
        "%.200s holds no usable checkpoint (%u damaged, %u that cannot be read): %sstart a new run "
        "in another directory",
        dir->path, n->damaged, n->unreadable,
        n->unreadable == 0 ? "" : "check the medium and the rights and resume again, or ");
    if (was_ready && !engine->ready) {
        art_engine_tell_incomplete(err);
    }
    return status;
}

static art_status load_newest(art_engine *engine, art_dir *dir, notes *n, art_error *err) {
    uint64_t below = UINT64_MAX;
    bool was_ready = engine->ready;
    for (;;) {
        bool found, next;
        ART_TRY(art_ckpt_newest(dir, below, &found, &below, err));
        if (!found) {
            return none_usable(engine, dir, n, was_ready, err);
        }
        ART_TRY(try_file(engine, dir->path, below, n, &next, err));
        if (!next) {
            return ART_OK;
        }
    }
}

art_status art_checkpoint_load(art_engine *engine, const char *dir, char *note, size_t note_bytes,
                               art_error *err) {
    notes n = {.text = note_bytes == 0 ? NULL : note, .bytes = note_bytes};
    art_dir listing;
    bool missing;
    if (n.text != NULL) {
        n.text[0] = '\0';
    }
    art_status status = art_dir_open(&listing, dir, &missing, err);
    ART_FAIL_IF(missing, err, ART_NO_CHECKPOINT, "there is no directory %s", dir);
    ART_TRY(status);
    status = load_newest(engine, &listing, &n, err);
    art_dir_close(&listing);
    return status;
}
