/* Directories: listing through the system call itself, since the C library's readdir allocates. */
#define _FILE_OFFSET_BITS 64
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/file_io.h"

/* The kernel's record: u64 inode, u64 offset, u16 record bytes, u8 type, then the name. */
#define RECORD_LENGTH_AT 16
#define RECORD_NAME_AT 19

art_status art_dir_open(art_dir *dir, const char *path, bool *missing, art_error *err) {
    dir->path = path;
    dir->at = dir->used = 0;
    dir->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (missing != NULL) {
        *missing = dir->fd < 0 && errno == ENOENT;
    }
    ART_FAIL_IF(dir->fd < 0, err, ART_IO, "cannot open the directory %s: %s; %s", path,
                strerror(errno), art_errno_advice(errno));
    return ART_OK;
}

art_status art_dir_open_again(art_dir *dir, int dir_fd, const char *path, art_error *err) {
    dir->path = path;
    dir->at = dir->used = 0;
    dir->fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ART_FAIL_IF(dir->fd < 0, err, ART_IO, "cannot open the directory %s: %s; %s", path,
                strerror(errno), art_errno_advice(errno));
    return ART_OK;
}

static long fill(art_dir *dir) {
    long got;
    do {
        got = syscall(SYS_getdents64, dir->fd, dir->buffer, sizeof dir->buffer);
    } while (got < 0 && errno == EINTR);
    dir->at = 0;
    dir->used = got > 0 ? (size_t)got : 0;
    return got;
}

art_status art_dir_next(art_dir *dir, const char **name, art_error *err) {
    *name = NULL;
    if (dir->at >= dir->used) {
        ART_FAIL_IF(fill(dir) < 0, err, ART_IO, "cannot list the directory %s: %s", dir->path,
                    strerror(errno));
    }
    if (dir->at < dir->used) {
        uint16_t length;
        memcpy(&length, dir->buffer + dir->at + RECORD_LENGTH_AT, sizeof length);
        *name = (const char *)dir->buffer + dir->at + RECORD_NAME_AT;
        dir->at += length;
    }
    return ART_OK;
}

art_status art_dir_rewind(art_dir *dir, art_error *err) {
    dir->at = dir->used = 0;
    ART_FAIL_IF(lseek(dir->fd, 0, SEEK_SET) < 0, err, ART_IO, "cannot list the directory %s: %s",
                dir->path, strerror(errno));
    return ART_OK;
}

void art_dir_close(art_dir *dir) {
    if (dir->fd >= 0) {
        close(dir->fd);
        dir->fd = -1;
    }
}

static bool is_directory(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Make the new name in `parent` survive a power failure; best effort, the first checkpoint's own
 * syncs report a bad medium. */
static void sync_parent(const char *parent) {
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

art_status art_dir_make(const char *path, art_error *err) {
    char part[ART_PATH_MAX], parent[ART_PATH_MAX] = ".";
    size_t length = strlen(path);
    ART_FAIL_IF(length == 0 || length >= sizeof part, err, ART_IO,
                "cannot make a directory whose path has %zu characters", length);
    if (is_directory(path)) {
        return ART_OK;
    }
    for (size_t i = 1; i <= length; i++) {
        if ((path[i] != '/' && path[i] != '\0') || path[i - 1] == '/') {
            continue;
        }
        memcpy(part, path, i);
        part[i] = '\0';
        if (!is_directory(part)) {
            ART_FAIL_IF(mkdir(part, 0755) != 0 && (errno != EEXIST || !is_directory(part)), err,
                        ART_IO, "cannot make the directory %s: %s; %s", part, strerror(errno),
                        art_errno_advice(errno));
            sync_parent(parent);
        }
        memcpy(parent, part, i + 1);
    }
    return ART_OK;
}

bool art_dir_takes_files(int dir_fd) {
    int fd = openat(dir_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0) {
        close(fd);
        return true;
    }
    /* In a deleted directory, which some file systems call a lack of rights. */
    struct stat info;
    int code = errno;
    if ((code == EPERM || code == ENOENT) && fstat(dir_fd, &info) == 0 && info.st_nlink == 0) {
        errno = ENOENT;
        return false;
    }
    errno = code;
    /* Not every file system has files without a name; then the rights must do. */
    return (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL || errno == ENOENT) &&
           faccessat(dir_fd, ".", W_OK | X_OK, 0) == 0;
}

static bool starts_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* `.PREFIX....PID-XXXXXXXX.tmp` as art_writer_open makes them. */
static bool is_temporary(const char *name, const char *prefix) {
    size_t length = strlen(name);
    if (length < 16 || name[0] != '.' || !starts_with(name + 1, prefix) ||
        strcmp(name + length - 4, ".tmp") != 0 || name[length - 13] != '-') {
        return false;
    }
    return strspn(name + length - 12, "0123456789abcdef") == 8;
}

/* A lock that can be had belongs to no living writer; process numbers would not tell, since they
 * are reused and mean nothing in another container. */
static void remove_orphan(int dir_fd, const char *name) {
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        unlinkat(dir_fd, name, 0);
    }
    close(fd);
}

void art_dir_sweep(int dir_fd, const char *prefix) {
    art_dir dir;
    const char *name;
    if (art_dir_open_again(&dir, dir_fd, "", NULL) != ART_OK) {
        return;
    }
    while (art_dir_next(&dir, &name, NULL) == ART_OK && name != NULL) {
        if (is_temporary(name, prefix)) {
            remove_orphan(dir_fd, name);
        }
    }
    art_dir_close(&dir);
}
