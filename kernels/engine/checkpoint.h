/* The bytes of checkpoint files, docs/checkpoint-format.md. The functions themselves are in
 * armtrain.h. */
#ifndef ART_ENGINE_CHECKPOINT_H
#define ART_ENGINE_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/file_io.h"

#define ART_CKPT_MAGIC "ARTCKPT\n"
#define ART_CKPT_VERSION_MAJOR 1
#define ART_CKPT_VERSION_MINOR 2
#define ART_CKPT_HEADER_1_0 168 /* bytes of the header of version 1.0, without `monitor` */
#define ART_CKPT_CRC_START 28
#define ART_CKPT_KEEP 2 /* files kept when the caller does not say */
#define ART_CKPT_PREFIX "step-"
#define ART_CKPT_MOST_STEPS (UINT64_MAX >> 1) /* of a run: counting on cannot wrap */
#define ART_CKPT_MOST_SCALE 1e6               /* of the learning rate */

typedef struct art_ckpt_header {
    uint8_t magic[8];
    uint16_t version_major;
    uint16_t version_minor;
    uint32_t header_bytes;
    uint64_t file_bytes;
    uint32_t crc32; /* of every byte from ART_CKPT_CRC_START on */
    uint32_t n_tensors;
    uint8_t model_hash[32];
    art_run_state state;
    char kernel_level[24];
    uint64_t directory_bytes;
    uint32_t update_crc32;  /* of what updates weights, 0: written before this was stored */
    uint32_t augment_crc32; /* of the changes of training inputs, 0: none */
    art_monitor monitor;
} art_ckpt_header;

typedef struct art_ckpt_record {
    uint32_t name_bytes;
    uint8_t role;
    uint8_t dtype;
    uint8_t ndim;
    uint8_t reserved; /* 0 */
    uint32_t shape[6];
    uint64_t offset;
    uint64_t bytes;
} art_ckpt_record;

_Static_assert(sizeof(art_run_state) == 64, "run state");
_Static_assert(offsetof(art_ckpt_header, crc32) == 24, "crc32");
_Static_assert(offsetof(art_ckpt_header, n_tensors) == ART_CKPT_CRC_START, "first checked byte");
_Static_assert(offsetof(art_ckpt_header, state) == 64, "state");
_Static_assert(offsetof(art_ckpt_header, state.loss_counted) == 96, "what counted");
_Static_assert(offsetof(art_ckpt_header, kernel_level) == 128, "kernel level");
_Static_assert(offsetof(art_ckpt_header, directory_bytes) == 152, "directory bytes");
_Static_assert(offsetof(art_ckpt_header, update_crc32) == 160, "update crc32");
_Static_assert(offsetof(art_ckpt_header, augment_crc32) == 164, "augment crc32");
_Static_assert(sizeof(art_monitor) == 64, "monitor");
_Static_assert(offsetof(art_ckpt_header, monitor) == ART_CKPT_HEADER_1_0, "monitor");
_Static_assert(sizeof(art_ckpt_header) == 232, "header size");
_Static_assert(sizeof(art_ckpt_record) == 48, "record size");

static inline uint64_t art_ckpt_padded(uint64_t bytes) {
    return (bytes + 7) / 8 * 8;
}

/* Everything of a header that follows from the engine: all but the checksum. */
void art_ckpt_describe(const art_engine *engine, art_ckpt_header *header);

/* The record of a tensor whose data begin at `offset`. */
void art_ckpt_record_of(const art_engine *engine, uint32_t tensor, uint64_t offset,
                        art_ckpt_record *record);

/* The step number in a checkpoint's file name; false for any other name. */
bool art_ckpt_step_of(const char *name, uint64_t *step);

/* The highest step number below `below` in a directory; *found is false if there is none. */
art_status art_ckpt_newest(art_dir *dir, uint64_t below, bool *found, uint64_t *step,
                           art_error *err);

/* DIR/step-NNNNNNNNNNNN.ckpt; refuses paths that are too long. */
art_status art_ckpt_path(const char *dir, uint64_t step, char path[ART_PATH_MAX], art_error *err);

/* Read a header and refuse, without naming the file, what cannot be a whole checkpoint of this
 * version. Does not verify the checksum. */
art_status art_ckpt_read_header(const art_file *file, art_ckpt_header *header, art_error *err);

#endif
