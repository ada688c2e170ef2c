#include "source.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "art_limits.h"
#include "core/crc32.h"
#include "ops/check.h"
#include "ops/targets.h"
#include "options.h"

#define RANDOM_BATCHES 4

/* `samples=48,seed=7`, each at most once. */
static bool parse_random(char *words, run_spec *spec) {
    bool seen[2] = {false, false};
    for (char *word = words; word != NULL && *words != '\0';) {
        char *comma = strchr(word, ',');
        if (comma != NULL) {
            *comma = '\0';
        }
        unsigned which = strncmp(word, "samples=", 8) == 0 ? 0 : 1;
        uint64_t *value = which == 0 ? &spec->samples : &spec->seed;
        if ((which == 1 && strncmp(word, "seed=", 5) != 0) || seen[which] ||
            !run_parse_number(strchr(word, '=') + 1, UINT64_MAX, value) ||
            (which == 0 && (*value == 0 || *value > ART_MAX_SAMPLES))) {
            return false;
        }
        seen[which] = true;
        word = comma == NULL ? NULL : comma + 1;
    }
    return true;
}

/* `IMAGES,LABELS`, exactly one comma. */
static bool parse_idx(char *rest, run_spec *spec) {
    char *comma = strchr(rest, ',');
    if (comma == NULL || comma == rest || comma[1] == '\0' || strchr(comma + 1, ',') != NULL) {
        return false;
    }
    *comma = '\0';
    spec->first = rest;
    spec->second = comma + 1;
    return true;
}

bool run_parse_spec(const char *text, run_spec *spec, char *why, size_t why_bytes) {
    memset(spec, 0, sizeof *spec);
    if (strlen(text) >= sizeof spec->text) {
        snprintf(why, why_bytes, "the data SPEC has %zu characters; at most %zu are possible",
                 strlen(text), sizeof spec->text - 1);
        return false;
    }
    strcpy(spec->text, text);
    bool good = false;
    if (strncmp(text, "idx:", 4) == 0) {
        spec->kind = RUN_IDX;
        good = parse_idx(spec->text + 4, spec);
    } else if (strncmp(text, "npz:", 4) == 0) {
        spec->kind = RUN_NPZ;
        spec->first = spec->text + 4;
        good = *spec->first != '\0';
    } else if (strcmp(text, "random") == 0 || strncmp(text, "random:", 7) == 0) {
        spec->kind = RUN_RANDOM;
        good = parse_random(spec->text + (text[6] == ':' ? 7 : 6), spec);
    }
    if (!good) {
        snprintf(why, why_bytes,
                 "'%.200s' names no data that armtrain-run reads; possible are "
                 "idx:IMAGES,LABELS, npz:FILE and random:[samples=N,seed=S]; for anything else "
                 "run `armtrain convert-data SPEC -o data.npz` and use npz:data.npz",
                 text);
    }
    return good;
}

/* A sample fits if it is the wanted one up to ones in its shape, or flattened. */
static bool fits(const run_column *column, const art_plan_tensor *t) {
    uint64_t have[RUN_MAX_DIMS], want[ART_MAX_DIMS], elements = 1;
    unsigned n_have = 0, n_want = 0;
    for (unsigned i = 0; i < column->ndim; i++) {
        if (column->dims[i] != 1) {
            have[n_have++] = column->dims[i];
        }
    }
    for (unsigned i = 1; i < t->shape_ndim; i++) {
        elements *= t->shape[i];
        if (t->shape[i] != 1) {
            want[n_want++] = t->shape[i];
        }
    }
    bool same = n_have == n_want && memcmp(have, want, n_have * sizeof have[0]) == 0;
    return column->row_elements == elements && (same || n_have <= 1 || n_want <= 1);
}

static art_status check_shape(const run_column *column, const art_plan_tensor *t, const char *what,
                              art_error *err) {
    char have[192] = "", want[128] = "";
    size_t n = 0;
    if (fits(column, t)) {
        return ART_OK;
    }
    for (unsigned i = 0; i < column->ndim; i++) {
        n += (size_t)snprintf(have + n, sizeof have - n, "%s%llu", i == 0 ? "" : "x",
                              (unsigned long long)column->dims[i]);
    }
    n = 0;
    for (unsigned i = 1; i < t->shape_ndim; i++) {
        n += (size_t)snprintf(want + n, sizeof want - n, "%s%u", i == 1 ? "" : "x", t->shape[i]);
    }
    bool last = column->ndim == 3 && t->shape_ndim == 4 && column->dims[2] == t->shape[1] &&
                column->dims[0] == t->shape[2] && column->dims[1] == t->shape[3];
    ART_FAIL_IF(last, err, ART_SHAPE,
                "%s: one %s has shape %s, the plan wants %s; images look channels-last: use "
                "x.transpose(0, 3, 1, 2)",
                column->name, what, have, want);
    return art_fail(err, ART_SHAPE, __FILE__, __LINE__,
                    "%s: one %s has shape %s, the plan wants %s; reshape the data, or plan the "
                    "model for this shape",
                    column->name, what, n == 0 && have[0] == '\0' ? "()" : have, want);
}

const uint32_t *run_index_limits(const art_engine *engine) {
    art_info info;
    art_engine_info(engine, &info);
    return engine->index_limit == NULL ? NULL : engine->index_limit + info.input_elements;
}

static art_status check_floats(const run_column *column, bool bytes_allowed, art_error *err) {
    char type[16];
    bool good = column->kind == 'f' || (bytes_allowed && column->kind == 'u' && column->size == 1);
    ART_FAIL_IF(!good, err, ART_DATA, "%s has elements of type %s: %s", column->name,
                run_column_type(column, type),
                bytes_allowed ? "only uint8 has a fixed scale (divided by 255); scale the values "
                                "yourself, for example x.astype('float32') / x.max()"
                              : "convert the targets yourself: y.astype('float32')");
    return ART_OK;
}

/* Smallest and largest label of a column that counts, and the first bad one. */
typedef struct label_range {
    int64_t low, high, stray;
    uint64_t bad_row;
    bool bad, alike; /* there is one; all are the same */
} label_range;

static void note_stray(label_range *found, int64_t label, uint64_t row) {
    if (!found->bad) {
        *found = (label_range){found->low, found->high, label, row, true, true};
    }
    found->alike = found->alike && label == found->stray;
}

static art_status scan(const run_column *y, const art_info *info, label_range *found,
                       art_error *err) {
    static int64_t chunk[RUN_CHUNK];
    found->low = INT64_MAX;
    found->high = INT64_MIN;
    for (uint64_t first = 0; first < y->count; first += RUN_CHUNK) {
        size_t n = y->count - first < RUN_CHUNK ? (size_t)(y->count - first) : RUN_CHUNK;
        ART_TRY(run_column_integers(y, first, n, chunk, err));
        for (size_t i = 0; i < n; i++) {
            if (chunk[i] == info->ignored_label) {
                continue;
            }
            found->low = chunk[i] < found->low ? chunk[i] : found->low;
            found->high = chunk[i] > found->high ? chunk[i] : found->high;
            if (chunk[i] < 0 || chunk[i] >= (int64_t)info->n_classes) {
                note_stray(found, chunk[i], first + i);
            }
        }
    }
    return ART_OK;
}

/* What helps against labels that are no class. */
static void hint_at(const label_range *found, uint32_t classes, char *hint, size_t size) {
    const bool one = found->alike && found->stray == (int32_t)found->stray;
    if (found->low == 1 && found->high == (int64_t)classes) {
        snprintf(hint, size, "labels look 1-based: subtract 1");
        return;
    }
    if (found->low < 0 && !one) {
        snprintf(hint, size,
                 "drop the samples with negative labels, or make all of them -1: ignore_index=-1 "
                 "of the loss leaves such samples out");
        return;
    }
    int n = found->low < 0 ? 0 : snprintf(hint, size, "map the values to 0..%u", classes - 1);
    if (n > 0 && found->high < ART_MAX_DIM) {
        n += snprintf(hint + n, size - (size_t)n, ", or plan a model with %lld outputs",
                      (long long)found->high + 1);
    }
    if (one) {
        snprintf(hint + n, size - (size_t)n,
                 "%signore_index=%lld of the loss leaves such samples out", n > 0 ? "; " : "",
                 (long long)found->stray);
    }
}

static art_status check_labels(const run_column *y, const art_info *info, art_error *err) {
    char type[16], hint[192];
    const uint32_t classes = info->n_classes;
    label_range found = {.bad = false};
    ART_FAIL_IF(y->kind == 'f', err, ART_DATA,
                "%s has labels of type %s, integers are needed: convert whole numbers with "
                "y.astype('int32'), one-hot rows with y.argmax(axis=1)",
                y->name, run_column_type(y, type));
    ART_FAIL_IF(y->ndim > 1 || y->row_elements != 1, err, ART_DATA,
                "%s has %llu labels a sample, one is needed: shape (n,); for one-hot rows use "
                "y.argmax(axis=1)",
                y->name, (unsigned long long)y->row_elements);
    ART_TRY(scan(y, info, &found, err));
    if (!found.bad) {
        return ART_OK;
    }
    hint_at(&found, classes, hint, sizeof hint);
    return art_fail(err, ART_LABEL, __FILE__, __LINE__,
                    "%s: labels must lie in 0..%u, these lie in %lld..%lld%s; the first bad one is "
                    "in row %llu (counted from 0); %s",
                    y->name, classes - 1, (long long)found.low, (long long)found.high,
                    y->kind == 'u' && found.high == INT64_MAX ? " or more" : "",
                    (unsigned long long)found.bad_row, hint);
}

static art_status open_columns(run_source *s, art_error *err) {
    static char command[2 * ART_PATH_MAX + 64];
    bool has_y = true;
    if (s->spec.kind == RUN_IDX) {
        snprintf(command, sizeof command, "armtrain convert-data idx:%s,%s -o data.npz",
                 s->spec.first, s->spec.second);
        ART_TRY(run_open_idx(&s->x, s->spec.first, command, err));
        ART_TRY(run_open_idx(&s->y, s->spec.second, command, err));
    } else {
        ART_TRY(run_open_npz(&s->x, &s->y, &has_y, &s->about, s->spec.first, err));
    }
    s->count = s->x.count;
    ART_FAIL_IF(!has_y, err, ART_DATA, "%s has no targets (y), only inputs: add an array y",
                s->spec.first);
    ART_FAIL_IF(s->count == 0, err, ART_DATA, "%s holds no samples", s->x.name);
    ART_FAIL_IF(s->y.count != s->count, err, ART_DATA,
                "%s has %llu samples, %s has %llu targets; they must belong together one to one",
                s->x.name, (unsigned long long)s->count, s->y.name, (unsigned long long)s->y.count);
    return ART_OK;
}

/* Rows with a finite element that cannot be used: how many, and the first. */
typedef struct strays {
    uint64_t rows, row, element;
    float value;
} strays;

/* May element `at` of a row be `value`? */
typedef bool (*good_value)(const void *context, uint64_t at, float value);

static art_status find_strays(const run_column *column, good_value good, const void *context,
                              strays *found, art_error *err) {
    static float chunk[RUN_CHUNK];
    *found = (strays){0};
    for (uint64_t row = 0; row < column->count; row++) {
        bool stray = false;
        for (uint64_t done = 0; done < column->row_elements && !stray;) {
            uint64_t left = column->row_elements - done;
            size_t n = left < RUN_CHUNK ? (size_t)left : RUN_CHUNK;
            ART_TRY(run_column_floats(column, row, done, n, chunk, err));
            for (size_t i = 0; i < n && !stray; i++) {
                stray = isfinite(chunk[i]) && !good(context, done + i, chunk[i]);
                if (stray && found->rows++ == 0) {
                    *found = (strays){1, row, done + i, chunk[i]};
                }
            }
            done += n;
        }
    }
    return ART_OK;
}

static bool is_index(const void *context, uint64_t at, float value) {
    const uint32_t *limit = context;
    return limit[at] == 0 || art_is_index(value, limit[at]);
}

/* The first index of a sample that its table has no row for. */
static art_status scan_indices(const run_column *x, const uint32_t *limit, art_error *err) {
    strays s;
    ART_TRY(find_strays(x, is_index, limit, &s, err));
    ART_FAIL_IF(s.rows > 0, err, ART_LABEL,
                "%s: row %llu (counted from 0) has %.9g at element %llu, an index of an embedding "
                "whose rows are 0..%u; indices are whole numbers from 0: repair or leave out such "
                "samples, or plan with a larger num_embeddings (%llu in all)",
                x->name, (unsigned long long)s.row, (double)s.value, (unsigned long long)s.element,
                limit[s.element] - 1, (unsigned long long)s.rows);
    return ART_OK;
}

static bool is_target(const void *context, uint64_t at, float value) {
    (void)at;
    return art_target_is_good(context, value);
}

/* The first target that the loss does not take. */
static art_status scan_targets(const run_column *y, const art_target_range *range, art_error *err) {
    char steps[40] = "";
    strays s = {0};
    if (range->way != NULL) {
        ART_TRY(find_strays(y, is_target, range, &s, err));
    }
    if (range->step != 0.0) {
        snprintf(steps, sizeof steps, " in steps of %g", range->step);
    }
    ART_FAIL_IF(s.rows > 0, err, ART_LABEL,
                "%s: targets must lie in %g..%g%s, row %llu (counted from 0) has %.9g at element "
                "%llu; %s (%llu in all)",
                y->name, range->low, range->high, steps, (unsigned long long)s.row, (double)s.value,
                (unsigned long long)s.element, range->way, (unsigned long long)s.rows);
    return ART_OK;
}

static art_status check_inputs(run_source *s, const art_engine *engine, art_error *err) {
    const uint32_t *limit = run_index_limits(engine);
    bool all = limit != NULL;
    for (uint64_t i = 0; all && i < s->x.row_elements; i++) {
        all = limit[i] != 0;
    }
    s->x.whole = all && s->x.kind != 'f';
    s->y.whole = false;
    ART_FAIL_IF(limit != NULL && !all && s->x.kind == 'u', err, ART_DATA,
                "%s has elements of an unsigned type, some are indices and some numbers, and "
                "nobody can know their scale: give x.astype('float32'), the numbers scaled",
                s->x.name);
    if (!s->x.whole) {
        ART_TRY(check_floats(&s->x, true, err));
    }
    return limit == NULL ? ART_OK : scan_indices(&s->x, limit, err);
}

static art_status check_columns(run_source *s, const art_engine *engine, art_error *err) {
    art_info info;
    const art_phase_io *io = &engine->io[ART_PHASE_TRAIN];
    if (io->input == ART_PLAN_NONE) {
        io = &engine->io[ART_PHASE_EVALUATE];
    }
    art_engine_info(engine, &info);
    ART_TRY(check_shape(&s->x, art_engine_tensor(engine, io->input), "input", err));
    ART_TRY(check_inputs(s, engine, err));
    if (info.target_is_label) {
        return check_labels(&s->y, &info, err);
    }
    ART_TRY(check_shape(&s->y, art_engine_tensor(engine, io->target), "target", err));
    ART_TRY(check_floats(&s->y, false, err));
    return scan_targets(&s->y, &info.targets, err);
}

static art_status open_random(run_source *s, const art_engine *engine, art_error *err) {
    art_info info;
    art_engine_info(engine, &info);
    s->count = s->spec.samples != 0 ? s->spec.samples : RANDOM_BATCHES * (uint64_t)info.batch_size;
    size_t bytes = (size_t)(info.input_elements + info.target_elements) * sizeof(float);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ART_FAIL_IF(memory == MAP_FAILED, err, ART_MEMORY_MAP,
                "no memory for one sample of random data (%zu bytes)", bytes);
    s->sample = memory;
    return ART_OK;
}

art_status run_source_open(run_source *s, const art_engine *engine, art_error *err) {
    s->x.file.fd = s->y.file.fd = -1;
    s->sample = NULL;
    memset(&s->about, 0, sizeof s->about);
    if (s->spec.kind == RUN_RANDOM) {
        return open_random(s, engine, err);
    }
    art_status status = open_columns(s, err);
    if (status == ART_OK) {
        status = check_columns(s, engine, err);
    }
    if (status != ART_OK) {
        run_source_close(s);
    }
    return status;
}

art_status run_source_about(const run_source *s, const char **text, art_error *err) {
    static char about[RUN_ABOUT_MAX + 1];
    *text = NULL;
    if (s->about.bytes == 0) {
        return ART_OK;
    }
    ART_TRY(art_file_read(&s->x.file, s->about.offset, about, (size_t)s->about.bytes, err));
    ART_FAIL_IF(art_crc32(0, about, (size_t)s->about.bytes) != s->about.crc, err, ART_IO,
                "%s was changed while it was read: train again", s->spec.first);
    about[s->about.bytes] = '\0';
    *text = about;
    return ART_OK;
}

art_status run_check_alike(const run_source *train, const run_source *validation, art_error *err) {
    const run_about *a = &train->about, *b = &validation->about;
    bool both = a->bytes != 0 && b->bytes != 0;
    ART_FAIL_IF(both && (a->bytes != b->bytes || a->crc != b->crc), err, ART_DATA,
                "%s was converted with other class names or another preparation than %s: convert "
                "it with `armtrain convert-data SPEC --like %s`",
                validation->spec.first, train->spec.first, train->spec.first);
    return ART_OK;
}

void run_source_close(run_source *s) {
    art_file_close(&s->x.file);
    art_file_close(&s->y.file);
}

/* A piece of a row. The engine checks whole batches too, but cannot name the row. */
static art_status read_floats(const run_column *column, uint64_t row, uint64_t first, size_t n,
                              float *out, art_error *err) {
    uint64_t where = 0;
    ART_TRY(run_column_floats(column, row, first, n, out, err));
    ART_FAIL_IF(!art_floats_are_finite(out, n, &where), err, ART_NONFINITE,
                "%s: row %llu (counted from 0) is not finite at element %llu; repair or leave out "
                "that sample",
                column->name, (unsigned long long)row, (unsigned long long)(first + where));
    return ART_OK;
}

static size_t chunk_at(uint64_t done, uint64_t elements) {
    return elements - done < RUN_CHUNK ? (size_t)(elements - done) : RUN_CHUNK;
}

static art_status put_floats(const run_column *column, art_engine *engine, uint32_t tensor,
                             uint64_t row, uint32_t slot, art_error *err) {
    static float chunk[RUN_CHUNK];
    uint64_t elements = column->row_elements;
    for (uint64_t done = 0; done < elements;) {
        size_t n = chunk_at(done, elements);
        ART_TRY(read_floats(column, row, done, n, chunk, err));
        art_layout_write(engine, tensor, slot * elements + done, n, chunk);
        done += n;
    }
    return ART_OK;
}

/* Change a whole sample and put it into the arena. */
static void put_changed(const run_augment *a, art_engine *engine, uint32_t tensor, uint64_t row,
                        uint32_t slot, const float *plain) {
    uint64_t elements = (uint64_t)a->chw[0] * a->chw[1] * a->chw[2];
    art_augment_sample(&a->what, a->chw, a->seed, a->epoch, row, plain, a->changed);
    art_layout_write(engine, tensor, slot * elements, elements, a->changed);
}

static art_status put_inputs(const run_source *s, art_engine *engine, uint32_t tensor, uint64_t row,
                             uint32_t slot, art_error *err) {
    const run_augment *a = &s->augment;
    if (!a->given) {
        return put_floats(&s->x, engine, tensor, row, slot, err);
    }
    for (uint64_t done = 0; done < s->x.row_elements;) {
        size_t n = chunk_at(done, s->x.row_elements);
        ART_TRY(read_floats(&s->x, row, done, n, a->plain + done, err));
        done += n;
    }
    put_changed(a, engine, tensor, row, slot, a->plain);
    return ART_OK;
}

static void put_random(const run_source *s, art_engine *engine, const art_phase_io *io,
                       uint64_t row, uint32_t slot, int32_t *label) {
    art_info info;
    art_engine_info(engine, &info);
    float *target = s->sample + info.input_elements;
    void *to = info.target_is_label ? (void *)label : target;
    art_random_sample(engine, s->spec.seed, row, s->sample, to);
    if (s->augment.given) {
        put_changed(&s->augment, engine, io->input, row, slot, s->sample);
    } else {
        art_layout_write(engine, io->input, slot * info.input_elements, info.input_elements,
                         s->sample);
    }
    if (!info.target_is_label) {
        art_layout_write(engine, io->target, slot * info.target_elements, info.target_elements,
                         target);
    }
}

art_status run_source_put(const run_source *s, art_engine *engine, unsigned phase, uint64_t row,
                          uint32_t slot, int32_t *labels, art_error *err) {
    const art_phase_io *io = &engine->io[phase];
    if (s->spec.kind == RUN_RANDOM) {
        put_random(s, engine, io, row, slot, &labels[slot]);
        return ART_OK;
    }
    ART_TRY(put_inputs(s, engine, io->input, row, slot, err));
    if (art_engine_tensor(engine, io->target)->dtype != ART_DTYPE_I32) {
        return put_floats(&s->y, engine, io->target, row, slot, err);
    }
    int64_t label;
    ART_TRY(run_column_integers(&s->y, row, 1, &label, err));
    labels[slot] = (int32_t)label;
    return ART_OK;
}
