/* npz archives: zip files whose members are npy arrays. Members that are stored as they are can be
 * read in place; the archive's directory is all that has to be understood. Every number in it is
 * checked against the size of the file, and the members' checksums when they are opened. */
#include <stdio.h>
#include <string.h>

#include "column.h"
#include "core/crc32.h"
#include "engine/safetensors.h"

#define END_BYTES 22
#define END64_BYTES 56
#define LOCATOR_BYTES 20
#define CENTRAL_BYTES 46
#define LOCAL_BYTES 30
#define COMMENT_MAX 65535
#define MEMBERS_MAX 1000000

typedef struct archive {
    art_file file;
    const char *path;
    uint64_t begin; /* of the directory */
    uint64_t end;
    uint64_t members;
} archive;

typedef struct member {
    bool found;
    uint16_t flags, method;
    uint32_t crc;          /* of the unpacked bytes */
    uint64_t stored, size; /* bytes in the file and unpacked */
    uint64_t at;           /* of its local header */
} member;

static uint16_t u16(const unsigned char *p) {
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t u32(const unsigned char *p) {
    return (uint32_t)u16(p) | (uint32_t)u16(p + 2) << 16;
}

static uint64_t u64(const unsigned char *p) {
    return (uint64_t)u32(p) | (uint64_t)u32(p + 4) << 32;
}

static art_status damaged(const archive *a, const char *why, art_error *err) {
    return art_fail(err, ART_DATA, __FILE__, __LINE__,
                    "%s is no usable npz file (%s): save it again with np.savez", a->path, why);
}

/* The record of 64-bit sizes, to which a locator right before the end record points. */
static art_status read_end64(archive *a, uint64_t end_at, art_error *err) {
    unsigned char p[END64_BYTES];
    if (end_at < LOCATOR_BYTES) {
        return damaged(a, "its directory is missing", err);
    }
    ART_TRY(art_file_read(&a->file, end_at - LOCATOR_BYTES, p, LOCATOR_BYTES, err));
    uint64_t at = u64(p + 8);
    if (memcmp(p, "PK\6\7", 4) != 0 || at > end_at || end_at - at < END64_BYTES + LOCATOR_BYTES) {
        return damaged(a, "its 64-bit directory is missing", err);
    }
    ART_TRY(art_file_read(&a->file, at, p, END64_BYTES, err));
    if (memcmp(p, "PK\6\6", 4) != 0) {
        return damaged(a, "its 64-bit directory is missing", err);
    }
    a->members = u64(p + 32);
    a->begin = u64(p + 48);
    a->end = u64(p + 40);
    return ART_OK;
}

/* The end record lies before a comment of unknown length: the last place where everything fits. */
static art_status find_end(archive *a, uint64_t *at, unsigned char end[END_BYTES], art_error *err) {
    static unsigned char tail[END_BYTES + COMMENT_MAX];
    if (a->file.bytes < END_BYTES) {
        return damaged(a, "it is too short for a zip file", err);
    }
    size_t n = a->file.bytes < sizeof tail ? (size_t)a->file.bytes : sizeof tail;
    ART_TRY(art_file_read(&a->file, a->file.bytes - n, tail, n, err));
    for (size_t i = n - END_BYTES + 1; i-- > 0;) {
        if (memcmp(tail + i, "PK\5\6", 4) == 0 && u16(tail + i + 20) == n - END_BYTES - i) {
            memcpy(end, tail + i, END_BYTES);
            *at = a->file.bytes - n + i;
            return ART_OK;
        }
    }
    return damaged(a, "it is no zip file, or its end is missing", err);
}

static art_status read_end(archive *a, art_error *err) {
    unsigned char p[END_BYTES] = {0};
    uint64_t at = 0;
    ART_TRY(find_end(a, &at, p, err));
    a->members = u16(p + 10);
    a->end = u32(p + 12);
    a->begin = u32(p + 16);
    if (a->members == UINT16_MAX || a->end == UINT32_MAX || a->begin == UINT32_MAX) {
        ART_TRY(read_end64(a, at, err));
    }
    if (a->begin > at || a->end > at - a->begin || a->members > MEMBERS_MAX) {
        return damaged(a, "its directory lies outside the file", err);
    }
    a->end += a->begin;
    return ART_OK;
}

/* Replace sizes that did not fit into 32 bits by those of extra field 1, in its fixed order. */
static bool widen(member *m, const unsigned char *extra, size_t bytes) {
    uint64_t *const fields[] = {&m->size, &m->stored, &m->at};
    bool needed = m->size == UINT32_MAX || m->stored == UINT32_MAX || m->at == UINT32_MAX;
    while (needed && bytes >= 4) {
        size_t id = u16(extra), length = u16(extra + 2);
        extra += 4;
        bytes -= 4;
        if (length > bytes) {
            return false;
        }
        if (id == 1) {
            for (size_t i = 0; i < 3; i++) {
                if (*fields[i] != UINT32_MAX) {
                    continue;
                }
                if (length < 8) {
                    return false;
                }
                *fields[i] = u64(extra);
                extra += 8;
                length -= 8;
            }
            return true;
        }
        extra += length;
        bytes -= length;
    }
    return !needed;
}

/* The members that are read, in this order. */
enum { MEMBER_X, MEMBER_Y, MEMBER_ABOUT, MEMBERS };
static const char *const member_names[MEMBERS] = {"x.npy", "y.npy", "about.json"};

/* Read the directory entry at *at and move on; *which becomes the member's place in the list. */
static art_status read_member(const archive *a, uint64_t *at, member *m, unsigned *which,
                              art_error *err) {
    static unsigned char extra[UINT16_MAX];
    unsigned char p[CENTRAL_BYTES];
    char name[16];
    if (a->end - *at < CENTRAL_BYTES) {
        return damaged(a, "its directory ends too early", err);
    }
    ART_TRY(art_file_read(&a->file, *at, p, sizeof p, err));
    size_t name_bytes = u16(p + 28), extra_bytes = u16(p + 30), comment_bytes = u16(p + 32);
    uint64_t total = CENTRAL_BYTES + name_bytes + extra_bytes + comment_bytes;
    if (memcmp(p, "PK\1\2", 4) != 0 || total > a->end - *at) {
        return damaged(a, "its directory is damaged", err);
    }
    if (name_bytes < sizeof name) {
        ART_TRY(art_file_read(&a->file, *at + CENTRAL_BYTES, name, name_bytes, err));
        for (unsigned i = 0; i < MEMBERS; i++) {
            bool same = strlen(member_names[i]) == name_bytes &&
                        memcmp(name, member_names[i], name_bytes) == 0;
            *which = same ? i : *which;
        }
    }
    if (*which < MEMBERS) {
        m->found = true;
        m->flags = u16(p + 8);
        m->method = u16(p + 10);
        m->crc = u32(p + 16);
        m->stored = u32(p + 20);
        m->size = u32(p + 24);
        m->at = u32(p + 42);
        ART_TRY(art_file_read(&a->file, *at + CENTRAL_BYTES + name_bytes, extra, extra_bytes, err));
        if (!widen(m, extra, extra_bytes)) {
            return damaged(a, "a member's 64-bit sizes are missing", err);
        }
    }
    *at += total;
    return ART_OK;
}

static art_status find_members(archive *a, member members[MEMBERS], art_error *err) {
    memset(members, 0, MEMBERS * sizeof members[0]);
    ART_TRY(read_end(a, err));
    uint64_t at = a->begin;
    for (uint64_t i = 0; i < a->members; i++) {
        member m;
        unsigned which = MEMBERS;
        ART_TRY(read_member(a, &at, &m, &which, err));
        if (which < MEMBERS) {
            members[which] = m;
        }
    }
    ART_FAIL_IF(!members[MEMBER_X].found, err, ART_DATA,
                "%s holds no array named x; arrays named x and y are needed: np.savez(file, "
                "x=images, y=labels)",
                a->path);
    return ART_OK;
}

/* Where the bytes of a stored member begin. */
static art_status locate(const archive *a, const member *m, run_column *column, art_error *err) {
    unsigned char p[LOCAL_BYTES];
    ART_FAIL_IF((m->flags & 1) != 0, err, ART_DATA, "%s is encrypted; save it without a password",
                column->name);
    ART_FAIL_IF(m->method != 0, err, ART_DATA,
                "%s is compressed, which armtrain-run does not read: run `armtrain convert-data "
                "npz:%.120s -o data.npz` and use --data npz:data.npz",
                column->name, a->path);
    if (m->at > a->file.bytes || a->file.bytes - m->at < LOCAL_BYTES) {
        return damaged(a, "a member lies outside the file", err);
    }
    ART_TRY(art_file_read(&a->file, m->at, p, sizeof p, err));
    uint64_t start = m->at + LOCAL_BYTES + u16(p + 26) + u16(p + 28);
    bool inside = start <= a->file.bytes && m->size <= a->file.bytes - start;
    ART_FAIL_IF(memcmp(p, "PK\3\4", 4) != 0 || !inside || m->stored != m->size, err, ART_DATA,
                "%s should have %llu B from byte %llu on, the file has %llu B; the archive is "
                "damaged: save it again",
                column->name, (unsigned long long)m->size, (unsigned long long)start,
                (unsigned long long)a->file.bytes);
    column->offset = start;
    return ART_OK;
}

/* Read all bytes of a stored member once: training reads them in another order and could not tell
 * a damaged value from a right one. */
static art_status check_crc(const run_column *column, uint64_t start, const member *m,
                            art_error *err) {
    static unsigned char chunk[65536];
    uint32_t crc = 0;
    for (uint64_t done = 0; done < m->size;) {
        size_t n = m->size - done < sizeof chunk ? (size_t)(m->size - done) : sizeof chunk;
        ART_TRY(art_file_read(&column->file, start + done, chunk, n, err));
        crc = art_crc32(crc, chunk, n);
        done += n;
    }
    ART_FAIL_IF(crc != m->crc, err, ART_DATA,
                "%s is damaged: its bytes have the CRC-32 %08x, the archive says %08x; copy the "
                "file again or save it again",
                column->name, crc, m->crc);
    return ART_OK;
}

static art_status open_member(const archive *a, const member *m, char letter, run_column *column,
                              art_error *err) {
    memset(column, 0, sizeof *column);
    column->file.fd = -1;
    snprintf(column->name, sizeof column->name, "%.*s:%c", (int)sizeof column->name - 3, a->path,
             letter);
    ART_TRY(locate(a, m, column, err));
    ART_TRY(art_file_open(&column->file, a->path, err));
    uint64_t start = column->offset;
    art_status status = run_parse_npy(column, m->size, err);
    if (status == ART_OK) {
        status = check_crc(column, start, m, err);
    }
    if (status != ART_OK) {
        art_file_close(&column->file);
    }
    return status;
}

/* Nobody uses the text here, but it becomes a part of the weights' header: it must be one. */
static art_status find_about(const archive *a, const member *m, run_about *about, art_error *err) {
    run_column column = {.file = a->file};
    memset(about, 0, sizeof *about);
    if (!m->found) {
        return ART_OK;
    }
    snprintf(column.name, sizeof column.name, "%.*s:about", (int)sizeof column.name - 8, a->path);
    ART_FAIL_IF(m->size == 0 || m->size > RUN_ABOUT_MAX, err, ART_DATA,
                "%s has %llu bytes, 1 to %u are possible; convert the data again", column.name,
                (unsigned long long)m->size, RUN_ABOUT_MAX);
    ART_TRY(locate(a, m, &column, err));
    ART_TRY(check_crc(&column, column.offset, m, err));
    ART_TRY(art_st_check_metadata(&a->file, column.offset, column.offset + m->size, err));
    *about = (run_about){.offset = column.offset, .bytes = m->size, .crc = m->crc};
    return ART_OK;
}

static art_status open_members(archive *a, run_column *x, run_column *y, bool *has_y,
                               run_about *about, art_error *err) {
    member members[MEMBERS];
    ART_TRY(find_members(a, members, err));
    ART_TRY(find_about(a, &members[MEMBER_ABOUT], about, err));
    ART_TRY(open_member(a, &members[MEMBER_X], 'x', x, err));
    *has_y = members[MEMBER_Y].found;
    if (*has_y) {
        art_status status = open_member(a, &members[MEMBER_Y], 'y', y, err);
        if (status != ART_OK) {
            art_file_close(&x->file);
            return status;
        }
    }
    return ART_OK;
}

art_status run_open_npz(run_column *x, run_column *y, bool *has_y, run_about *about,
                        const char *path, art_error *err) {
    archive a = {.path = path};
    ART_TRY(art_file_open(&a.file, path, err));
    art_status status = open_members(&a, x, y, has_y, about, err);
    art_file_close(&a.file);
    return status;
}
