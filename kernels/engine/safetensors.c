/* Saving and loading weights. The bytes written depend on names, shapes and values alone, never on
 * plan, budget or threads. */
#include "engine/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/half.h"
#include "engine/kept.h"

#define SAVED_ROLES ART_ROLE_BUFFER
#define CHUNK 8192 /* elements converted at a time */
#define IGNORED "num_batches_tracked"
#define MARK_BYTES 112

/* Text goes to the writer, or is only counted when there is none. */
typedef struct sink {
    art_writer *writer;
    uint64_t bytes;
} sink;

static art_status emit(sink *s, const char *text, size_t bytes, art_error *err) {
    s->bytes += bytes;
    return s->writer == NULL ? ART_OK : art_writer_put(s->writer, text, bytes, err);
}

/* A JSON string: characters above 127 stay as they are. */
static art_status emit_string(sink *s, const char *text, art_error *err) {
    static const char special[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    ART_TRY(emit(s, "\"", 1, err));
    for (; *text != '\0'; text++) {
        char escape[8];
        int n = 1;
        const char *found = strchr(special, *text);
        if (found != NULL) {
            n = snprintf(escape, sizeof escape, "\\%c", letters[found - special]);
        } else if ((unsigned char)*text < 0x20) {
            n = snprintf(escape, sizeof escape, "\\u%04x", (unsigned char)*text);
        } else {
            escape[0] = *text;
        }
        ART_TRY(emit(s, escape, (size_t)n, err));
    }
    return emit(s, "\"", 1, err);
}

static art_status emit_entry(sink *s, const art_engine *engine, uint32_t id, uint64_t begin,
                             art_error *err) {
    const art_plan_tensor *t = art_engine_tensor(engine, id);
    char text[256];
    size_t n;
    ART_TRY(emit_string(s, art_engine_tensor_name(engine, id), err));
    n = (size_t)snprintf(text, sizeof text, ":{\"dtype\":\"F32\",\"shape\":[");
    for (unsigned i = 0; i < t->shape_ndim; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%u", i == 0 ? "" : ",", t->shape[i]);
    }
    n += (size_t)snprintf(text + n, sizeof text - n, "],\"data_offsets\":[%llu,%llu]}",
                          (unsigned long long)begin, (unsigned long long)(begin + t->bytes));
    return emit(s, text, n, err);
}

/* What a file says of itself: `metadata`, an object of strings, and before that `mark`; either may
 * be NULL. */
typedef struct about {
    const char *mark, *metadata;
} about;

static art_status emit_about(sink *s, const about *a, art_error *err) {
    static const char key[] = "\"__metadata__\":", marked[] = "{\"" ART_ST_BEST "\":";
    const char *rest = a->metadata;
    ART_TRY(emit(s, key, sizeof key - 1, err));
    if (a->mark != NULL) {
        ART_TRY(emit(s, marked, sizeof marked - 1, err));
        ART_TRY(emit_string(s, a->mark, err));
        rest = rest == NULL ? "}" : strchr(rest, '{') + 1;
        rest += strspn(rest, " \t\r\n");
        ART_TRY(emit(s, ",", *rest != '}', err));
    }
    return emit(s, rest, strlen(rest), err);
}

static art_status emit_header(sink *s, const art_engine *engine, const about *a, art_error *err) {
    uint64_t begin = 0;
    bool first = a->mark == NULL && a->metadata == NULL;
    ART_TRY(emit(s, "{", 1, err));
    if (!first) {
        ART_TRY(emit_about(s, a, err));
    }
    for (uint32_t id = art_kept_next(engine, SAVED_ROLES, ART_PLAN_NONE); id != ART_PLAN_NONE;
         id = art_kept_next(engine, SAVED_ROLES, id)) {
        ART_TRY(emit(s, ",", first ? 0 : 1, err));
        ART_TRY(emit_entry(s, engine, id, begin, err));
        begin += art_engine_tensor(engine, id)->bytes;
        first = false;
    }
    ART_TRY(emit(s, "}", 1, err));
    return emit(s, "       ", (size_t)((8 - s->bytes % 8) % 8), err);
}

static art_status save_tensor(art_writer *writer, const art_engine *engine, uint32_t id,
                              art_error *err) {
    uint64_t elements = art_engine_tensor_elements(engine, id);
    for (uint64_t done = 0; done < elements;) {
        unsigned char *space;
        size_t room;
        ART_TRY(art_writer_space(writer, 4, &space, &room, err));
        uint64_t n = elements - done < room / 4 ? elements - done : room / 4;
        art_layout_read(engine, id, done, n, space);
        writer->used += (size_t)n * 4;
        done += n;
    }
    return ART_OK;
}

static art_status save(const art_engine *engine, const char *path, const about *a, art_error *err) {
    art_writer writer;
    sink count = {.writer = NULL};
    ART_TRY(art_engine_check_ready(engine, err));
    ART_TRY(emit_header(&count, engine, a, err));
    ART_TRY(art_writer_open(&writer, path, err));
    sink out = {.writer = &writer};
    ART_TRY(art_writer_put(&writer, &count.bytes, sizeof count.bytes, err));
    ART_TRY(emit_header(&out, engine, a, err));
    for (uint32_t id = art_kept_next(engine, SAVED_ROLES, ART_PLAN_NONE); id != ART_PLAN_NONE;
         id = art_kept_next(engine, SAVED_ROLES, id)) {
        ART_TRY(save_tensor(&writer, engine, id, err));
    }
    return art_writer_commit(&writer, err);
}

art_status art_engine_save_safetensors(const art_engine *engine, const char *path, art_error *err) {
    return art_engine_save_safetensors_with(engine, path, NULL, err);
}

art_status art_engine_save_safetensors_with(const art_engine *engine, const char *path,
                                            const char *metadata, art_error *err) {
    const about a = {NULL, metadata};
    return save(engine, path, &a, err);
}

/* Run, epoch and value of the best weights so far; `epoch` of the text is returned. */
static size_t best_mark(const art_engine *engine, char mark[MARK_BYTES]) {
    const art_monitor *m = &engine->monitor;
    int n = snprintf(mark, MARK_BYTES, "seed %llu, epoch ", (unsigned long long)engine->state.seed);
    snprintf(mark + n, MARK_BYTES - (size_t)n, "%llu, value %.17g",
             (unsigned long long)m->best_epoch, m->best);
    return (size_t)n;
}

art_status art_engine_save_best(const art_engine *engine, const char *path, const char *metadata,
                                art_error *err) {
    char mark[MARK_BYTES];
    const about a = {mark, metadata};
    best_mark(engine, mark);
    return save(engine, path, &a, err);
}

/* The mark of a file, empty for one without it and for one that is nothing of this kind. */
static void read_mark(const char *path, char mark[MARK_BYTES]) {
    art_error ignored;
    art_file file;
    uint64_t start;
    mark[0] = '\0';
    if (art_file_open(&file, path, &ignored) != ART_OK) {
        return;
    }
    if (art_st_data_start(&file, &start, &ignored) != ART_OK ||
        art_st_find_metadata(&file, start, ART_ST_BEST, mark, MARK_BYTES, &ignored) != ART_OK) {
        mark[0] = '\0';
    }
    art_file_close(&file);
}

art_status art_engine_check_best(const art_engine *engine, const char *path, art_error *err) {
    char have[MARK_BYTES], want[MARK_BYTES];
    size_t epoch_at = best_mark(engine, want);
    read_mark(path, have);
    /* A run that was killed before its checkpoint, or whose newest one is damaged. */
    bool later = strncmp(have, want, epoch_at) == 0 &&
                 strtoull(have + epoch_at, NULL, 10) > engine->state.epoch;
    ART_FAIL_IF(!later && strcmp(have, want) != 0, err, ART_DATA,
                "%s does not hold the best weights of this run: it says '%s', the checkpoint '%s'; "
                "keep the best weights in another file, or remove this one: then they are looked "
                "for from epoch %llu on",
                path, have[0] == '\0' ? "nothing" : have, want,
                (unsigned long long)engine->state.epoch + 1);
    return ART_OK;
}

/* Tensors [first, first + SEEN) of the plan, a bit for each that the file has. */
#define SEEN 65536u
typedef struct loader {
    art_engine *engine;
    const art_file *file;
    uint64_t start;
    uint32_t first;
    bool writing; /* into the arena; before, the values are only checked */
    uint8_t seen[SEEN / 8];
} loader;

static bool is_ignored(const char *name) {
    size_t n = strlen(name), k = sizeof IGNORED - 1;
    return n >= k && strcmp(name + n - k, IGNORED) == 0 && (n == k || name[n - k - 1] == '.');
}

/* The plan's tensor of an entry, ART_PLAN_NONE for one to ignore. */
static art_status find_entry(const loader *l, const art_st_entry *e, uint32_t *id, art_error *err) {
    *id = e->name_whole ? art_engine_find(l->engine, e->name) : ART_PLAN_NONE;
    if (*id != ART_PLAN_NONE && art_engine_tensor(l->engine, *id)->role <= SAVED_ROLES) {
        return ART_OK;
    }
    *id = ART_PLAN_NONE;
    ART_FAIL_IF(!e->name_whole || !is_ignored(e->name), err, ART_PLAN_MODEL,
                "%s holds '%.200s', which the plan's model does not have: load the file of this "
                "model, or remove that tensor from it",
                l->file->path, e->name);
    return ART_OK;
}

static bool is_float(const char *dtype) {
    return strcmp(dtype, "F32") == 0 || strcmp(dtype, "F64") == 0 || strcmp(dtype, "F16") == 0 ||
           strcmp(dtype, "BF16") == 0;
}

static art_status check_shape(const loader *l, const art_st_entry *e, uint32_t id, art_error *err) {
    const art_plan_tensor *t = art_engine_tensor(l->engine, id);
    char have[128], want[128];
    size_t n = 0;
    bool same = e->ndim == t->shape_ndim;
    for (unsigned i = 0; same && i < e->ndim; i++) {
        same = e->shape[i] == t->shape[i];
    }
    if (same) {
        return ART_OK;
    }
    have[0] = '\0';
    for (unsigned i = 0; i < e->ndim && i < ART_ST_DIMS && n < 90; i++) {
        n += (size_t)snprintf(have + n, sizeof have - n, "%s%llu", i == 0 ? "" : ", ",
                              (unsigned long long)e->shape[i]);
    }
    art_shape_text(t->shape, t->shape_ndim, want, sizeof want);
    return art_fail(err, ART_SHAPE, __FILE__, __LINE__,
                    "'%.200s' has shape (%s%s) in %s, but %s in the plan: nothing was loaded",
                    e->name, have, e->ndim == 1 ? "," : "", l->file->path, want);
}

static art_status check_entry(void *context, const art_st_entry *e, art_error *err) {
    loader *l = context;
    uint32_t id;
    ART_TRY(find_entry(l, e, &id, err));
    if (id == ART_PLAN_NONE) {
        return ART_OK;
    }
    ART_TRY(check_shape(l, e, id, err));
    ART_FAIL_IF(!is_float(e->dtype), err, ART_FILE_FORMAT,
                "'%.200s' has elements of type %s in %s; F32, F64, F16 or BF16 can be loaded",
                e->name, e->dtype, l->file->path);
    if (id < l->first || id - l->first >= SEEN) {
        return ART_OK;
    }
    uint8_t *byte = &l->seen[(id - l->first) / 8], bit = (uint8_t)(1u << id % 8);
    ART_FAIL_IF((*byte & bit) != 0, err, ART_FILE_FORMAT, "%s holds '%.200s' twice", l->file->path,
                e->name);
    *byte |= bit;
    return ART_OK;
}

/* Names, shapes, types; every tensor of the plan exactly once. */
static art_status check_all(loader *l, art_error *err) {
    ART_TRY(art_st_check_cover(l->file, l->start, err));
    for (l->first = 0; l->first < art_engine_tensors(l->engine); l->first += SEEN) {
        memset(l->seen, 0, sizeof l->seen);
        ART_TRY(art_st_walk_header(l->file, l->start, check_entry, l, err));
        for (uint32_t i = 0; i < SEEN && i < art_engine_tensors(l->engine) - l->first; i++) {
            uint32_t id = l->first + i;
            bool wanted = art_engine_tensor(l->engine, id)->role <= SAVED_ROLES;
            ART_FAIL_IF(wanted && (l->seen[i / 8] & 1u << i % 8) == 0, err, ART_PLAN_MODEL,
                        "%s lacks '%.200s', which the plan's model needs: nothing was loaded",
                        l->file->path, art_engine_tensor_name(l->engine, id));
        }
    }
    return ART_OK;
}

static void convert(const art_st_entry *e, const unsigned char *in, size_t count, float *out) {
    if (e->dtype_bytes == 4) {
        memcpy(out, in, count * 4);
        return;
    }
    bool brain = e->dtype[0] == 'B';
    for (size_t i = 0; i < count; i++) {
        if (e->dtype_bytes == 8) {
            double value;
            memcpy(&value, in + i * 8, 8);
            out[i] = (float)value;
        } else {
            uint16_t value;
            memcpy(&value, in + i * 2, 2);
            out[i] = brain ? art_bfloat_to_float(value) : art_half_to_float(value);
        }
    }
}

/* Read a tensor: once to check its values before any weight changes, then into the arena. The
 * second time only the medium can fail, or somebody who changes the file. */
static art_status read_entry(void *context, const art_st_entry *e, art_error *err) {
    loader *l = context;
    uint32_t id;
    float out[CHUNK];
    unsigned char in[CHUNK * 8];
    ART_TRY(find_entry(l, e, &id, err));
    if (id == ART_PLAN_NONE) {
        return ART_OK;
    }
    uint64_t elements = art_engine_tensor_elements(l->engine, id);
    ART_FAIL_IF((e->end - e->begin) / e->dtype_bytes != elements || !is_float(e->dtype), err,
                ART_IO, "%s was changed while it was loaded: load it again", l->file->path);
    for (uint64_t done = 0; done < elements;) {
        size_t n = elements - done < CHUNK ? (size_t)(elements - done) : CHUNK;
        uint64_t at = l->start + e->begin + done * e->dtype_bytes;
        ART_TRY(art_file_read(l->file, at, in, n * e->dtype_bytes, err));
        convert(e, in, n, out);
        uint64_t where = 0;
        ART_FAIL_IF(!art_floats_are_finite(out, n, &where), err, ART_NONFINITE,
                    "'%.150s' in %.200s holds a NaN, an infinity or more than a float32 can at "
                    "element %llu (counted from 0): %s",
                    e->name, l->file->path, (unsigned long long)(done + where),
                    l->writing ? "the file was changed while it was loaded"
                               : "nothing was loaded; use weights saved before they went wrong");
        if (l->writing) {
            art_layout_write(l->engine, id, done, n, out);
        }
        done += n;
    }
    return ART_OK;
}

static art_status load(art_engine *engine, const art_file *file, art_error *err) {
    loader l = {.engine = engine, .file = file};
    ART_TRY(art_st_data_start(file, &l.start, err));
    ART_TRY(check_all(&l, err));
    ART_TRY(art_st_walk_header(file, l.start, read_entry, &l, err));
    engine->ready = false; /* a failure from here on leaves some weights of each kind */
    l.writing = true;
    art_status status = art_st_walk_header(file, l.start, read_entry, &l, err);
    engine->ready = status == ART_OK;
    if (status != ART_OK) {
        art_engine_tell_incomplete(err);
    }
    return status;
}

art_status art_engine_load_safetensors(art_engine *engine, const char *path, art_error *err) {
    art_file file;
    ART_TRY(art_file_open(&file, path, err));
    art_status status = load(engine, &file, err);
    art_file_close(&file);
    return status;
}
