/* Writing checkpoints, and what writing and loading share. */
#include "engine/checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/crc32.h"
#include "engine/kept.h"
#include "engine/monitor.h"
#include "ops/blocks.h"
#include "ops/check.h"

/* An update of some rows has the bits of the whole table's, which older plans have in its place. */
static uint16_t update_of(uint16_t op) {
    return op == ART_OP_EMBEDDING_SGD_STEP       ? ART_OP_SGD_STEP
           : op == ART_OP_EMBEDDING_ADAGRAD_STEP ? ART_OP_ADAGRAD_STEP
                                                 : (uint16_t)art_blocks_update(op);
}

static uint32_t part_crc32(const art_plan *plan, uint16_t op, uint32_t tensor,
                           const art_attr *attrs, unsigned n_attrs) {
    const char *name = art_plan_name(plan, tensor);
    uint32_t crc = art_crc32(0, &op, sizeof op);
    crc = art_crc32(crc, name, strlen(name));
    return art_crc32(crc, attrs, n_attrs * sizeof *attrs);
}

/* Operation, first operand's name and attributes of every step that updates or clips. They are
 * added, so that the steps' order, which is the plan's business, does not matter; an update by
 * blocks counts as the steps that it stands for. Never 0. */
static uint32_t update_crc32(const art_plan *plan) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < plan->header->n_train_steps; i++) {
        const art_plan_step *s = &plan->steps[i];
        if (s->kind != ART_STEP_AG && s->op != ART_OP_CLIP_VALUE) {
            continue;
        }
        const art_attr *attrs = &plan->attrs[s->attrs];
        const uint16_t op = update_of(s->op);
        unsigned n_attrs = s->n_attrs;
        if (art_blocks_update(s->op) != s->op) {
            n_attrs = art_op_find(op)->n_attrs;
            if (attrs[n_attrs].f > 0.0) {
                sum += part_crc32(plan, ART_OP_CLIP_VALUE, art_plan_operand(plan, i, 1),
                                  attrs + n_attrs, 1);
            }
        }
        sum += part_crc32(plan, op, art_plan_operand(plan, i, 0), attrs, n_attrs);
    }
    return sum == 0 ? 1 : sum;
}

void art_ckpt_describe(const art_engine *engine, art_ckpt_header *header) {
    uint64_t data_bytes = 0;
    memset(header, 0, sizeof *header);
    memcpy(header->magic, ART_CKPT_MAGIC, sizeof header->magic);
    header->version_major = ART_CKPT_VERSION_MAJOR;
    header->version_minor = ART_CKPT_VERSION_MINOR;
    header->header_bytes = sizeof *header;
    memcpy(header->model_hash, engine->plan.header->model_hash, sizeof header->model_hash);
    header->state = engine->state;
    header->monitor = engine->monitor;
    snprintf(header->kernel_level, sizeof header->kernel_level, "%s", engine->level->name);
    for (uint32_t i = 0; i < art_engine_tensors(engine); i++) {
        if (art_role_is_kept(art_engine_tensor(engine, i)->role)) {
            header->n_tensors++;
            header->directory_bytes += sizeof(art_ckpt_record) +
                                       art_ckpt_padded(strlen(art_engine_tensor_name(engine, i)));
            data_bytes += art_ckpt_padded(art_engine_tensor(engine, i)->bytes);
        }
    }
    header->update_crc32 = update_crc32(&engine->plan);
    header->augment_crc32 = engine->augment_crc32;
    header->file_bytes = sizeof *header + header->directory_bytes + data_bytes;
}

void art_ckpt_record_of(const art_engine *engine, uint32_t tensor, uint64_t offset,
                        art_ckpt_record *record) {
    const art_plan_tensor *t = art_engine_tensor(engine, tensor);
    memset(record, 0, sizeof *record);
    record->name_bytes = (uint32_t)strlen(art_engine_tensor_name(engine, tensor));
    record->role = t->role;
    record->dtype = t->dtype;
    record->ndim = t->shape_ndim;
    memcpy(record->shape, t->shape, sizeof record->shape);
    record->offset = offset;
    record->bytes = t->bytes;
}

bool art_ckpt_step_of(const char *name, uint64_t *step) {
    size_t prefix = sizeof ART_CKPT_PREFIX - 1;
    if (strncmp(name, ART_CKPT_PREFIX, prefix) != 0) {
        return false;
    }
    const char *digits = name + prefix;
    size_t n = strspn(digits, "0123456789");
    if (n < 12 || (n > 12 && digits[0] == '0') || strcmp(digits + n, ".ckpt") != 0) {
        return false;
    }
    *step = 0;
    for (size_t i = 0; i < n; i++) {
        if (__builtin_mul_overflow(*step, (uint64_t)10, step) ||
            __builtin_add_overflow(*step, (uint64_t)(digits[i] - '0'), step)) {
            return false;
        }
    }
    return true;
}

art_status art_ckpt_newest(art_dir *dir, uint64_t below, bool *found, uint64_t *step,
                           art_error *err) {
    const char *name;
    *found = false;
    ART_TRY(art_dir_rewind(dir, err));
    for (;;) {
        uint64_t number;
        ART_TRY(art_dir_next(dir, &name, err));
        if (name == NULL) {
            return ART_OK;
        }
        if (art_ckpt_step_of(name, &number) && number < below && (!*found || number > *step)) {
            *found = true;
            *step = number;
        }
    }
}

art_status art_ckpt_path(const char *dir, uint64_t step, char path[ART_PATH_MAX], art_error *err) {
    int n = snprintf(path, ART_PATH_MAX, "%s/" ART_CKPT_PREFIX "%012llu.ckpt", dir,
                     (unsigned long long)step);
    ART_FAIL_IF(n < 0 || n >= ART_PATH_MAX || dir[0] == '\0', err, ART_IO,
                "the checkpoint directory's path has %zu characters; 1 to %d are possible",
                strlen(dir), ART_PATH_MAX - 64);
    return ART_OK;
}

art_status art_ckpt_read_header(const art_file *file, art_ckpt_header *header, art_error *err) {
    memset(header, 0, sizeof *header);
    ART_FAIL_IF(file->bytes < ART_CKPT_HEADER_1_0, err, ART_FILE_FORMAT,
                "it has %llu bytes, a checkpoint has at least %d", (unsigned long long)file->bytes,
                ART_CKPT_HEADER_1_0);
    ART_TRY(art_file_read(file, 0, header, ART_CKPT_HEADER_1_0, err));
    ART_FAIL_IF(memcmp(header->magic, ART_CKPT_MAGIC, sizeof header->magic) != 0, err,
                ART_FILE_FORMAT, "it does not start like a checkpoint");
    ART_FAIL_IF(header->version_major != ART_CKPT_VERSION_MAJOR ||
                    header->version_minor > ART_CKPT_VERSION_MINOR,
                err, ART_FILE_FORMAT, "it has format version %u.%u, this armtrain reads %d.%d",
                header->version_major, header->version_minor, ART_CKPT_VERSION_MAJOR,
                ART_CKPT_VERSION_MINOR);
    if (header->version_minor < 2) { /* which counted samples, and in whole numbers */
        uint64_t samples;
        memcpy(&samples, &header->state.loss_counted, sizeof samples);
        header->state.loss_counted = (double)samples;
    }
    size_t needed = header->version_minor == 0 ? ART_CKPT_HEADER_1_0 : sizeof *header;
    ART_FAIL_IF(header->file_bytes != file->bytes || header->header_bytes != needed ||
                    file->bytes < needed,
                err, ART_FILE_FORMAT, "it has %llu bytes but was written with %llu",
                (unsigned long long)file->bytes, (unsigned long long)header->file_bytes);
    if (needed == ART_CKPT_HEADER_1_0) {
        header->monitor = art_monitor_fresh();
        return ART_OK;
    }
    return art_file_read(file, ART_CKPT_HEADER_1_0, &header->monitor, sizeof header->monitor, err);
}

static art_status put_padding(art_writer *writer, uint64_t bytes, art_error *err) {
    static const unsigned char zeros[8];
    return art_writer_put(writer, zeros, (size_t)(art_ckpt_padded(bytes) - bytes), err);
}

static art_status write_directory(art_writer *writer, const art_engine *engine, uint64_t offset,
                                  art_error *err) {
    for (uint32_t id = art_kept_next(engine, ART_ROLE_STATE, ART_PLAN_NONE); id != ART_PLAN_NONE;
         id = art_kept_next(engine, ART_ROLE_STATE, id)) {
        art_ckpt_record record;
        art_ckpt_record_of(engine, id, offset, &record);
        ART_TRY(art_writer_put(writer, &record, sizeof record, err));
        ART_TRY(art_writer_put(writer, art_engine_tensor_name(engine, id), record.name_bytes, err));
        ART_TRY(put_padding(writer, record.name_bytes, err));
        offset += art_ckpt_padded(record.bytes);
    }
    return ART_OK;
}

static art_status write_tensor(art_writer *writer, const art_engine *engine, uint32_t id,
                               art_error *err) {
    size_t size = (size_t)art_dtype_bytes(art_engine_tensor(engine, id)->dtype);
    uint64_t elements = art_engine_tensor_elements(engine, id);
    for (uint64_t done = 0; done < elements;) {
        unsigned char *space;
        size_t room;
        ART_TRY(art_writer_space(writer, size, &space, &room, err));
        uint64_t n = elements - done < room / size ? elements - done : room / size;
        art_layout_read(engine, id, done, n, space);
        writer->used += (size_t)n * size;
        done += n;
    }
    return put_padding(writer, elements * size, err);
}

static art_status write_file(const art_engine *engine, int dir_fd, const char *path,
                             art_error *err) {
    art_ckpt_header header;
    art_writer writer;
    art_ckpt_describe(engine, &header);
    ART_TRY(art_writer_open_in(&writer, dir_fd, path, err));
    ART_TRY(art_writer_put(&writer, &header, ART_CKPT_CRC_START, err));
    ART_TRY(art_writer_flush(&writer, err));
    writer.crc = 0;
    ART_TRY(art_writer_put(&writer, (const char *)&header + ART_CKPT_CRC_START,
                           sizeof header - ART_CKPT_CRC_START, err));
    ART_TRY(write_directory(&writer, engine, sizeof header + header.directory_bytes, err));
    for (uint32_t id = art_kept_next(engine, ART_ROLE_STATE, ART_PLAN_NONE); id != ART_PLAN_NONE;
         id = art_kept_next(engine, ART_ROLE_STATE, id)) {
        ART_TRY(write_tensor(&writer, engine, id, err));
    }
    ART_TRY(art_writer_flush(&writer, err));
    uint32_t crc = writer.crc;
    ART_TRY(art_writer_patch(&writer, offsetof(art_ckpt_header, crc32), &crc, sizeof crc, err));
    return art_writer_commit(&writer, err);
}

/* Does the file at least have a header and the length that it promises? */
static bool looks_whole(int dir_fd, const char *path) {
    art_file file;
    art_ckpt_header header;
    if (art_file_open_in(&file, dir_fd, path, NULL) != ART_OK) {
        return false;
    }
    bool whole = art_ckpt_read_header(&file, &header, NULL) == ART_OK;
    art_file_close(&file);
    return whole;
}

/* Remove what is older than the newest `keep` whole files up to `step`. The new checkpoint is
 * safe already: what cannot be removed only takes space, and the next save tries again. */
static void prune(art_dir *dir, uint64_t step, uint32_t keep) {
    uint32_t whole = 0;
    bool found;
    uint64_t below = step == UINT64_MAX ? step : step + 1;
    while (art_ckpt_newest(dir, below, &found, &below, NULL) == ART_OK && found) {
        char file[ART_PATH_MAX];
        if (art_ckpt_path(dir->path, below, file, NULL) != ART_OK) {
            break;
        }
        if (whole >= keep) {
            unlinkat(dir->fd, strrchr(file, '/') + 1, 0);
        } else if (looks_whole(dir->fd, file)) {
            whole++;
        }
    }
}

art_status art_checkpoint_save(const art_engine *engine, const char *dir, uint32_t keep,
                               art_error *err) {
    return art_checkpoint_save_held(engine, dir, -1, keep, err);
}

/* Everything goes through one descriptor: the path may name another run's directory any moment. */
static art_status save_in(const art_engine *engine, art_dir *dir, const char *path, uint32_t keep,
                          art_error *err) {
    art_dir_sweep(dir->fd, ART_CKPT_PREFIX);
    ART_TRY(write_file(engine, dir->fd, path, err));
    prune(dir, engine->state.step, keep == 0 ? ART_CKPT_KEEP : keep);
    return ART_OK;
}

art_status art_checkpoint_save_held(const art_engine *engine, const char *dir, int held,
                                    uint32_t keep, art_error *err) {
    char path[ART_PATH_MAX];
    art_dir opened;
    ART_TRY(art_engine_check_ready(engine, err));
    ART_TRY(art_engine_check_kept(engine, err));
    ART_TRY(art_ckpt_path(dir, engine->state.step, path, err));
    if (held < 0) {
        ART_TRY(art_dir_make(dir, err));
        ART_TRY(art_dir_open(&opened, dir, NULL, err));
    } else {
        ART_TRY(art_dir_check_held(dir, held, err));
        ART_TRY(art_dir_open_again(&opened, held, dir, err));
    }
    art_status status = save_in(engine, &opened, path, keep, err);
    art_dir_close(&opened);
    if (status != ART_OK && held >= 0) {
        ART_TRY(art_dir_check_held(dir, held, err)); /* it was removed meanwhile: say that */
    }
    return status;
}
