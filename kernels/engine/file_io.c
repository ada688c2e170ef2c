/* Reading files and the crash-safe writer: temporary file -> write -> fsync -> rename -> fsync of
 * the directory. The order is what makes it safe: a name never points at bytes that are not on the
 * medium yet. */
#define _FILE_OFFSET_BITS 64
#include "engine/file_io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "core/crc32.h"

#define LINKS_MAX 16
#define NAME_TRIES 64

static const char *last_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static art_status open_at(art_file *file, int dir_fd, const char *name, const char *path,
                          art_error *err) {
    struct stat info;
    file->path = path;
    file->bytes = 0;
    do {
        file->fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } while (file->fd < 0 && errno == EINTR);
    ART_FAIL_IF(file->fd < 0, err, ART_IO, "cannot open %s: %s; %s", path, strerror(errno),
                art_errno_advice(errno));
    bool stated = fstat(file->fd, &info) == 0;
    if (!stated || !S_ISREG(info.st_mode)) {
        const char *why = stated ? "it is not a regular file; name a file" : strerror(errno);
        art_file_close(file);
        return art_fail(err, ART_IO, __FILE__, __LINE__, "cannot read %s: %s", path, why);
    }
    file->bytes = (uint64_t)info.st_size;
    return ART_OK;
}

art_status art_file_open(art_file *file, const char *path, art_error *err) {
    return open_at(file, AT_FDCWD, path, path, err);
}

art_status art_file_open_in(art_file *file, int dir_fd, const char *path, art_error *err) {
    return open_at(file, dir_fd, last_name(path), path, err);
}

void art_file_close(art_file *file) {
    if (file->fd >= 0) {
        close(file->fd);
        file->fd = -1;
    }
}

art_status art_file_read(const art_file *file, uint64_t offset, void *out, size_t bytes,
                         art_error *err) {
    unsigned char *to = out;
    size_t done = 0;
    ART_FAIL_IF(offset > file->bytes || bytes > file->bytes - offset, err, ART_FILE_FORMAT,
                "%s has %llu bytes, bytes %llu to %llu were expected: copy or save it again",
                file->path, (unsigned long long)file->bytes, (unsigned long long)offset,
                (unsigned long long)(offset + bytes));
    while (done < bytes) {
        ssize_t got = pread(file->fd, to + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        ART_FAIL_IF(got < 0, err, ART_IO, "cannot read %s: %s (%zu bytes at byte %llu); %s",
                    file->path, strerror(errno), bytes, (unsigned long long)offset,
                    art_errno_advice(errno));
        ART_FAIL_IF(got == 0, err, ART_IO, "%s became shorter while it was read: it ends at %llu",
                    file->path, (unsigned long long)(offset + done));
        done += (size_t)got;
    }
    return ART_OK;
}

/* Close everything, remove the temporary file and say what failed, how far it came and what is
 * left: `errno` must be the failure's. */
static art_status writer_failed(art_writer *writer, const char *action, int line, art_error *err) {
    int code = errno;
    struct statvfs room;
    char free_text[64] = "";
    if (writer->dir_fd >= 0 && (code == ENOSPC || code == EDQUOT) &&
        fstatvfs(writer->dir_fd, &room) == 0) {
        snprintf(free_text, sizeof free_text, ", %llu bytes are free there",
                 (unsigned long long)room.f_bavail * room.f_frsize);
    }
    const char *kept = writer->exists ? "; the file that was there is unchanged" : "";
    unsigned long long flushed = writer->flushed;
    unsigned long long total = writer->flushed + writer->used;
    art_writer_abort(writer);
    return art_fail(err, ART_IO, __FILE__, line,
                    "cannot write %s: %s: %s (after %llu of at least %llu bytes%s)%s; %s",
                    writer->path, action, strerror(code), flushed, total, free_text, kept,
                    art_errno_advice(code));
}

/* Copy a path and find its last name. */
static art_status path_split(const char *path, char out[ART_PATH_MAX], const char **name,
                             art_error *err) {
    size_t n = strlen(path);
    ART_FAIL_IF(n == 0 || n >= ART_PATH_MAX, err, ART_IO,
                "cannot write a file whose path has %zu characters; 1 to %d are possible", n,
                ART_PATH_MAX - 1);
    memcpy(out, path, n + 1);
    *name = last_name(out);
    return ART_OK;
}

art_status art_path_follow(const char *path, char out[ART_PATH_MAX], const char **name,
                           art_error *err) {
    char link[ART_PATH_MAX];
    ART_TRY(path_split(path, out, name, err));
    for (int depth = 0;; depth++) {
        *name = last_name(out);
        ssize_t length = readlink(out, link, sizeof link - 1);
        if (length <= 0) {
            return ART_OK;
        }
        size_t head = link[0] == '/' ? 0 : (size_t)(*name - out);
        ART_FAIL_IF(depth == LINKS_MAX || head + (size_t)length >= ART_PATH_MAX, err, ART_IO,
                    "cannot write %s: too many or too long symbolic links", path);
        memcpy(out + head, link, (size_t)length);
        out[head + (size_t)length] = '\0';
    }
}

/* Open the directory of the target, or once more the one given, and look at what is there now. */
static art_status open_target(art_writer *writer, int dir_fd, art_error *err) {
    struct stat info;
    char saved = *writer->name;
    char *cut = writer->path + (writer->name - writer->path);
    *cut = '\0';
    const char *directory = writer->path[0] == '\0' ? "." : writer->path;
    writer->dir_fd = dir_fd < 0 ? open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                : openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (writer->dir_fd < 0) {
        int code = errno;
        art_status status = art_fail(
            err, ART_IO, __FILE__, __LINE__, "cannot write into the directory %s: %s; %s",
            directory, strerror(code), code == ENOENT ? "create it" : art_errno_advice(code));
        *cut = saved;
        return status;
    }
    *cut = saved;
    /* Links were followed to their end, or are replaced themselves: then there is no file yet. */
    writer->exists = fstatat(writer->dir_fd, writer->name, &info, AT_SYMLINK_NOFOLLOW) == 0;
    if (!writer->exists && errno == ENAMETOOLONG) { /* the temporary file's name is shorter */
        return writer_failed(writer, "its name", __LINE__, err);
    }
    writer->exists = writer->exists && !S_ISLNK(info.st_mode);
    writer->mode = writer->exists ? info.st_mode & 0777 : 0666;
    writer->owner = info.st_uid;
    writer->group = info.st_gid;
    if (saved == '\0' || (writer->exists && !S_ISREG(info.st_mode))) {
        art_writer_abort(writer);
        return art_fail(err, ART_IO, __FILE__, __LINE__,
                        "cannot write %s: it is not a regular file; choose another file name, or "
                        "move that away",
                        writer->path);
    }
    return ART_OK;
}

/* A file that replaces another one takes over who may read and write it. The owner follows where
 * that is allowed; another group never gets the rights that the old one had. A file system without
 * modes keeps its own. */
static void take_over_mode(const art_writer *writer, const struct stat *now) {
    bool same_owner = now->st_uid == writer->owner, same_group = now->st_gid == writer->group;
    if (!same_owner && fchown(writer->fd, writer->owner, writer->group) == 0) {
        same_group = true;
    }
    if (!same_group && fchown(writer->fd, (uid_t)-1, writer->group) == 0) {
        same_group = true;
    }
    (void)fchmod(writer->fd, same_group ? writer->mode : writer->mode & ~(mode_t)070);
}

/* Create and lock the temporary file. A sweeper of another process may remove it before it is
 * locked: then it has no name any more and another one is made. */
static bool create_temporary(art_writer *writer) {
    for (unsigned attempt = 0; attempt < NAME_TRIES; attempt++) {
        struct timespec now;
        struct stat info;
        clock_gettime(CLOCK_MONOTONIC, &now);
        uint32_t mark = ((uint32_t)now.tv_nsec << 2) ^ (uint32_t)now.tv_sec ^ (attempt << 24) ^
                        (uint32_t)((uintptr_t)writer >> 4);
        snprintf(writer->temporary, sizeof writer->temporary, ".%.200s.%ld-%08lx.tmp", writer->name,
                 (long)getpid(), (unsigned long)mark);
        writer->fd = openat(writer->dir_fd, writer->temporary,
                            O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, writer->mode);
        if (writer->fd < 0) {
            if (errno == EEXIST || errno == EINTR) {
                continue;
            }
            return false;
        }
        /* Waits only for a sweeper that tries this very file. A file system without locks is no
         * reason to fail: nobody can sweep there either. */
        while (flock(writer->fd, LOCK_EX) != 0 && errno == EINTR) {
        }
        if (fstat(writer->fd, &info) == 0 && info.st_nlink > 0) {
            if (writer->exists) {
                take_over_mode(writer, &info);
            }
            return true;
        }
        close(writer->fd);
        writer->fd = -1;
        errno = EEXIST;
    }
    return false;
}

/* In the directory `dir_fd`, or where the path leads if that is -1. */
static art_status start(art_writer *writer, int dir_fd, const char *path, art_error *err) {
    writer->fd = writer->dir_fd = -1;
    writer->flushed = 0;
    writer->crc = 0;
    writer->exists = false;
    writer->used = 0;
    writer->temporary[0] = '\0';
    art_status (*split)(const char *, char *, const char **, art_error *) =
        dir_fd < 0 ? art_path_follow : path_split;
    ART_TRY(split(path, writer->path, &writer->name, err));
    return open_target(writer, dir_fd, err);
}

static art_status open_writer(art_writer *writer, int dir_fd, const char *path, art_error *err) {
    ART_TRY(start(writer, dir_fd, path, err));
    art_dir_sweep(writer->dir_fd, writer->name);
    if (!create_temporary(writer)) {
        writer->temporary[0] = '\0';
        return writer_failed(writer, "creating a temporary file", __LINE__, err);
    }
    return ART_OK;
}

art_status art_writer_probe(art_writer *writer, const char *path, art_error *err) {
    ART_TRY(start(writer, -1, path, err));
    if (!art_dir_takes_files(writer->dir_fd)) {
        return writer_failed(writer, "creating a file in its directory", __LINE__, err);
    }
    art_writer_abort(writer);
    return ART_OK;
}

art_status art_writer_open(art_writer *writer, const char *path, art_error *err) {
    return open_writer(writer, -1, path, err);
}

art_status art_writer_open_in(art_writer *writer, int dir_fd, const char *path, art_error *err) {
    return open_writer(writer, dir_fd, path, err);
}

void art_writer_abort(art_writer *writer) {
    if (writer->fd >= 0) {
        close(writer->fd);
        writer->fd = -1;
    }
    if (writer->dir_fd >= 0) {
        if (writer->temporary[0] != '\0') {
            unlinkat(writer->dir_fd, writer->temporary, 0);
        }
        close(writer->dir_fd);
        writer->dir_fd = -1;
    }
}

static bool write_all(int fd, const unsigned char *data, size_t bytes, uint64_t *done) {
    while (bytes > 0) {
        ssize_t n = write(fd, data, bytes);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            errno = n == 0 ? EIO : errno;
            return false;
        }
        data += n;
        bytes -= (size_t)n;
        *done += (uint64_t)n;
    }
    return true;
}

art_status art_writer_flush(art_writer *writer, art_error *err) {
    uint64_t before = writer->flushed;
    if (!write_all(writer->fd, writer->buffer, writer->used, &writer->flushed)) {
        writer->used -= (size_t)(writer->flushed - before);
        return writer_failed(writer, "writing", __LINE__, err);
    }
    writer->crc = art_crc32(writer->crc, writer->buffer, writer->used);
    writer->used = 0;
    return ART_OK;
}

art_status art_writer_space(art_writer *writer, size_t least, unsigned char **space, size_t *room,
                            art_error *err) {
    if (sizeof writer->buffer - writer->used < least) {
        ART_TRY(art_writer_flush(writer, err));
    }
    *space = writer->buffer + writer->used;
    *room = sizeof writer->buffer - writer->used;
    return ART_OK;
}

art_status art_writer_put(art_writer *writer, const void *data, size_t bytes, art_error *err) {
    const unsigned char *from = data;
    while (bytes > 0) {
        unsigned char *space;
        size_t room;
        ART_TRY(art_writer_space(writer, 1, &space, &room, err));
        size_t n = bytes < room ? bytes : room;
        memcpy(space, from, n);
        writer->used += n;
        from += n;
        bytes -= n;
    }
    return ART_OK;
}

art_status art_writer_patch(art_writer *writer, uint64_t offset, const void *data, size_t bytes,
                            art_error *err) {
    uint64_t ignored = 0;
    ART_TRY(art_writer_flush(writer, err));
    if (lseek(writer->fd, (off_t)offset, SEEK_SET) < 0 ||
        !write_all(writer->fd, data, bytes, &ignored) || lseek(writer->fd, 0, SEEK_END) < 0) {
        return writer_failed(writer, "writing", __LINE__, err);
    }
    return ART_OK;
}

/* fsync that some file systems refuse for directories is no failure of the medium. */
static bool sync_directory(int fd) {
    int result;
    do {
        result = fsync(fd);
    } while (result != 0 && errno == EINTR);
    return result == 0 || errno == EINVAL || errno == EROFS;
}

art_status art_writer_commit(art_writer *writer, art_error *err) {
    ART_TRY(art_writer_flush(writer, err));
    int result;
    do {
        result = fsync(writer->fd);
    } while (result != 0 && errno == EINTR);
    if (result != 0) {
        return writer_failed(writer, "forcing it to the medium", __LINE__, err);
    }
    if (renameat(writer->dir_fd, writer->temporary, writer->dir_fd, writer->name) != 0) {
        return writer_failed(writer, "renaming", __LINE__, err);
    }
    writer->temporary[0] = '\0';
    if (!sync_directory(writer->dir_fd)) {
        int code = errno;
        art_writer_abort(writer);
        return art_fail(err, ART_IO, __FILE__, __LINE__,
                        "%s was written (%llu bytes), but its directory could not be forced to the "
                        "medium: %s; after a power failure the previous file may be back",
                        writer->path, (unsigned long long)writer->flushed, strerror(code));
    }
    result = close(writer->fd);
    int code = errno;
    writer->fd = -1;
    art_writer_abort(writer);
    ART_FAIL_IF(result != 0 && code != EINTR, err, ART_IO, "cannot write %s: closing: %s",
                writer->path, strerror(code));
    return ART_OK;
}
