/* One run in a directory. The lock is the kernel's (flock of the directory itself): it leaves no
 * file, needs no right to write, and ends with the process, also when that is killed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "engine/file_io.h"

#define LINE_BYTES 128

/* The process that a line of /proc/locks says holds the file, 0 if it is about something else:
 * "1: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF", devices in hexadecimal. */
static long holder_in(const char *line, const struct stat *file) {
    static const char mode[] = " WRITE ";
    char *end;
    const char *at = strstr(line, mode);
    if (at == NULL || strstr(line, ": FLOCK ") == NULL) {
        return 0;
    }
    long process = strtol(at + sizeof mode - 1, &end, 10);
    bool same = strtoul(end, &end, 16) == major(file->st_dev) && *end++ == ':';
    same = same && strtoul(end, &end, 16) == minor(file->st_dev) && *end++ == ':';
    return same && strtoull(end, NULL, 10) == file->st_ino ? process : 0;
}

/* The process that holds the lock, 0 where the kernel does not say. */
static long find_holder(int directory) {
    char block[1024], line[LINE_BYTES];
    struct stat file;
    size_t used = 0;
    long process = 0;
    int fd = open("/proc/locks", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 || fstat(directory, &file) != 0 ? 0 : read(fd, block, sizeof block);
    while (got > 0 && process == 0) {
        for (ssize_t i = 0; i < got && process == 0; i++) {
            line[used] = block[i] == '\n' ? '\0' : block[i];
            if (block[i] == '\n') {
                process = holder_in(line, &file);
                used = 0;
            } else if (used < sizeof line - 1) {
                used++;
            }
        }
        got = read(fd, block, sizeof block);
    }
    if (fd >= 0) {
        close(fd);
    }
    return process;
}

art_status art_dir_lock(const char *path, int *fd, bool *locked, art_error *err) {
    char who[40] = "";
    *locked = false;
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ART_FAIL_IF(*fd < 0, err, ART_IO, "cannot open the directory %s: %s; %s", path, strerror(errno),
                art_errno_advice(errno));
    while (flock(*fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR) {
            continue;
        }
        if (errno != EWOULDBLOCK) {
            return ART_OK;
        }
        long process = find_holder(*fd);
        close(*fd);
        *fd = -1;
        if (process > 0) {
            snprintf(who, sizeof who, " (process %ld)", process);
        }
        return art_fail(err, ART_IO, __FILE__, __LINE__,
                        "another run%s uses the checkpoint directory %s: wait for it or stop it, "
                        "or choose another directory",
                        who, path);
    }
    *locked = true;
    return ART_OK;
}

art_status art_dir_check_held(const char *path, int fd, art_error *err) {
    struct stat held, named;
    bool there = stat(path, &named) == 0;
    bool same = there && fstat(fd, &held) == 0 && held.st_dev == named.st_dev &&
                held.st_ino == named.st_ino;
    ART_FAIL_IF(
        !same, err, ART_IO,
        "the checkpoint directory %.200s %s while this run used it; no checkpoint was written, "
        "for the lock that keeps other runs out belongs to the old one: give that its name "
        "back and resume, or start again with another directory",
        path, there ? "was replaced by another one" : "was removed or renamed");
    return ART_OK;
}
