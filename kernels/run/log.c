/* The training log. A resumed run continues the file of the interrupted one, so that the log of a
 * run that was interrupted any number of times has the lines of an uninterrupted one. */
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/file_io.h"
#include "report.h"

#define LOG_LINE_MAX 4096

/* The epoch that a whole line tells of, 0 for none. */
static uint64_t epoch_of(const char *line) {
    const char *key = strstr(line, "\"epoch\"");
    if (key == NULL) {
        return 0;
    }
    key += strlen("\"epoch\"");
    key += strspn(key, " :");
    return strtoull(key, NULL, 10);
}

/* Copy the lines to keep; lines longer than any of ours are no log lines. */
static art_status copy_lines(const art_file *file, art_writer *writer, uint64_t epochs_done,
                             art_error *err) {
    char line[LOG_LINE_MAX], block[4096];
    size_t used = 0;
    bool whole = true;
    for (uint64_t at = 0; at < file->bytes; at++) {
        if (at % sizeof block == 0) {
            uint64_t left = file->bytes - at;
            size_t n = left < sizeof block ? (size_t)left : sizeof block;
            ART_TRY(art_file_read(file, at, block, n, err));
        }
        char c = block[at % sizeof block];
        if (used < sizeof line - 1) {
            line[used++] = c;
        } else {
            whole = false;
        }
        if (c != '\n') {
            continue;
        }
        line[used] = '\0';
        uint64_t epoch = whole ? epoch_of(line) : 0;
        if (epoch >= 1 && epoch <= epochs_done) {
            ART_TRY(art_writer_put(writer, line, used, err));
        }
        used = 0;
        whole = true;
    }
    return ART_OK;
}

/* Dropping lines must not empty a file that was never a log. A power failure may leave zeros, or
 * the beginning of a first line. */
static art_status check_log(const art_file *file, art_error *err) {
    static const char start[] = "{\"epoch\"";
    char head[sizeof start - 1] = "";
    size_t n = file->bytes < sizeof head ? (size_t)file->bytes : sizeof head;
    ART_TRY(art_file_read(file, 0, head, n, err));
    ART_FAIL_IF(n > 0 && head[0] != '\0' && memcmp(head, start, n) != 0, err, ART_IO,
                "%s exists and is no training log, which starts with %s: choose another file name",
                file->path, start);
    return ART_OK;
}

static art_status trim(const char *path, uint64_t epochs_done, art_error *err) {
    static art_writer writer;
    art_file file;
    ART_TRY(art_file_open(&file, path, err));
    art_status status = check_log(&file, err);
    if (status != ART_OK) {
        art_file_close(&file);
        return status;
    }
    status = art_writer_open(&writer, path, err);
    if (status == ART_OK && epochs_done > 0) {
        status = copy_lines(&file, &writer, epochs_done, err);
    }
    art_file_close(&file);
    if (status != ART_OK) {
        art_writer_abort(&writer);
        return status;
    }
    return art_writer_commit(&writer, err);
}

static bool is_regular(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

art_status run_log_open(const char *path, uint64_t epochs_done, int *fd, art_error *err) {
    *fd = -1;
    if (path == NULL) {
        return ART_OK;
    }
    if (is_regular(path)) {
        ART_TRY(trim(path, epochs_done, err));
    }
    /* Without O_NONBLOCK a pipe that nobody reads would be waited for; later writes do wait. */
    *fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    ART_FAIL_IF(*fd < 0 || fcntl(*fd, F_SETFL, O_APPEND) != 0, err, ART_IO,
                "cannot write the log %s: %s; %s", path, strerror(errno), art_errno_advice(errno));
    return ART_OK;
}

art_status run_log_write(int fd, const char *path, const run_record *record, art_error *err) {
    char line[LOG_LINE_MAX];
    if (fd < 0) {
        return ART_OK;
    }
    size_t left = run_record_json(record, line, sizeof line);
    for (const char *from = line; left > 0;) {
        ssize_t n = write(fd, from, left);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        ART_FAIL_IF(n <= 0, err, ART_IO, "cannot write the log %s: %s; %s", path, strerror(errno),
                    art_errno_advice(errno));
        from += n;
        left -= (size_t)n;
    }
    ART_FAIL_IF(is_regular(path) && fsync(fd) != 0, err, ART_IO, "cannot write the log %s: %s; %s",
                path, strerror(errno), art_errno_advice(errno));
    return ART_OK;
}
