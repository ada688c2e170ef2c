/* Files: bounded reads, directories, and writing that never damages a file that was good. Knows
 * nothing of plans or tensors. Nothing here allocates: buffers are in the caller's structs. */
#ifndef ART_ENGINE_FILE_IO_H
#define ART_ENGINE_FILE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/status.h"

#define ART_FILE_BUFFER 65536
#define ART_PATH_MAX 4096
#define ART_NAME_MAX 256

/* What helps against an error number, the last part of a message. */
const char *art_errno_advice(int code);

/* A regular file open for reading. */
typedef struct art_file {
    int fd;
    uint64_t bytes;   /* its size when it was opened */
    const char *path; /* the caller's, for messages; must outlive the file */
} art_file;

/* Refuses what is not a regular file (a pipe would block, a device has no size). */
art_status art_file_open(art_file *file, const char *path, art_error *err);
/* Likewise, the file of the path's last name in the directory `dir_fd`. */
art_status art_file_open_in(art_file *file, int dir_fd, const char *path, art_error *err);
void art_file_close(art_file *file);
/* Read exactly `bytes` bytes at `offset`; a file that ends before is ART_FILE_FORMAT. */
art_status art_file_read(const art_file *file, uint64_t offset, void *out, size_t bytes,
                         art_error *err);

/* Copy `path`, following a symbolic link in its last component, so that a link stays and what it
 * points to is replaced. *name is the last component of `out`. */
art_status art_path_follow(const char *path, char out[ART_PATH_MAX], const char **name,
                           art_error *err);

/* The new content of a file; a file that is replaced hands on its mode. It goes to
 * `.NAME.PID-XXXXXXXX.tmp` in the same directory, locked while its writer lives; commit syncs and
 * renames it over the target and syncs the directory. After any failure the writer is closed and
 * its temporary file removed: just return. */
typedef struct art_writer {
    int fd;
    int dir_fd;
    uint64_t flushed; /* bytes given to the system */
    uint32_t crc;     /* of what was flushed since the caller set it last */
    bool exists;      /* there was a file to replace */
    mode_t mode;      /* of that file, else what the umask cuts from */
    uid_t owner;      /* of that file */
    gid_t group;
    size_t used;             /* bytes waiting in the buffer */
    char path[ART_PATH_MAX]; /* the target */
    const char *name;        /* its last component */
    char temporary[ART_NAME_MAX];
    unsigned char buffer[ART_FILE_BUFFER];
} art_writer;

/* Could `path` be written? Leaves nothing behind, so that a run can ask before it starts. */
art_status art_writer_probe(art_writer *writer, const char *path, art_error *err);
art_status art_writer_open(art_writer *writer, const char *path, art_error *err);
/* Likewise for a name that the program chose, the path's last one, in the directory `dir_fd`: a
 * symbolic link there is replaced itself, since what it points to was never meant. */
art_status art_writer_open_in(art_writer *writer, int dir_fd, const char *path, art_error *err);
art_status art_writer_put(art_writer *writer, const void *data, size_t bytes, art_error *err);
/* Free space of the buffer, at least `least` bytes (<= ART_FILE_BUFFER): fill some of it and
 * count that in with `used`. */
art_status art_writer_space(art_writer *writer, size_t least, unsigned char **space, size_t *room,
                            art_error *err);
art_status art_writer_flush(art_writer *writer, art_error *err);
/* Overwrite bytes that were flushed; `crc` does not follow. */
art_status art_writer_patch(art_writer *writer, uint64_t offset, const void *data, size_t bytes,
                            art_error *err);
art_status art_writer_commit(art_writer *writer, art_error *err);
void art_writer_abort(art_writer *writer);

/* The names in a directory, one after the other, without an allocation. */
typedef struct art_dir {
    int fd;
    const char *path;
    size_t at, used;
    _Alignas(8) unsigned char buffer[4096];
} art_dir;

/* *missing (may be NULL) tells whether the failure is that there is no such directory. */
art_status art_dir_open(art_dir *dir, const char *path, bool *missing, art_error *err);
/* Likewise of the directory that is open as `dir_fd`, whatever `path` names by now. */
art_status art_dir_open_again(art_dir *dir, int dir_fd, const char *path, art_error *err);
/* *name is NULL after the last one; it lives until the next call. */
art_status art_dir_next(art_dir *dir, const char **name, art_error *err);
art_status art_dir_rewind(art_dir *dir, art_error *err);
void art_dir_close(art_dir *dir);
/* Make `path` and its missing parents (mode 0755), and their names durable. */
art_status art_dir_make(const char *path, art_error *err);
/* May files be created in the directory? Leaves nothing behind; errno tells why not. */
bool art_dir_takes_files(int dir_fd);
/* Hold the directory alone until *fd is closed, at the latest when the process ends, however it
 * ends. Nothing is written. *locked is false where the file system has no locks: then *fd only
 * keeps the directory open. Both front ends lock the directory itself (flock), so that they see
 * each other. */
art_status art_dir_lock(const char *path, int *fd, bool *locked, art_error *err);
/* ART_IO unless `path` still names the directory that is open as `fd`. */
art_status art_dir_check_held(const char *path, int fd, art_error *err);
/* Remove temporary files for targets whose name starts with `prefix` and whose writer is dead. */
void art_dir_sweep(int dir_fd, const char *prefix);

#endif
