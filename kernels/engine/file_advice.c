/* Error numbers and what helps against them; armtrain/files.py says the same. */
#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

#include "engine/file_io.h"

static const struct {
    int code;
    const char *advice;
} table[] = {
    {ENOSPC, "free some space or choose another directory"},
    {EDQUOT, "free some space or choose another directory"},
    {EFBIG, "raise the limit on file sizes (ulimit -f) or choose another directory"},
    {EACCES, "give this user the rights (ls -ld shows them) or choose another place"},
    {EPERM, "give this user the rights (ls -ld shows them) or choose another place"},
    {EROFS, "it is mounted read-only: choose another directory"},
    {ENOENT, "check the path"},
    {ENOTDIR, "check the path: a part of it is no directory"},
    {EISDIR, "it is a directory: name a file"},
    {ENAMETOOLONG, "use a shorter name"},
    {ELOOP, "check the symbolic links in the path"},
    {EMFILE, "close other files or raise their number (ulimit -n)"},
    {ENFILE, "close other programs"},
    {EBADF, "it is closed: redirect it to a file or to /dev/null"},
    {ENXIO, "it is a socket, or a pipe that nobody reads: name a regular file"},
    {EIO, "the medium may be failing: see dmesg, and use another one"},
};

/* Callers may still need their errno. */
static bool is_here_gone(void) {
    char path[ART_PATH_MAX];
    int code = errno;
    bool gone = getcwd(path, sizeof path) == NULL && errno == ENOENT;
    errno = code;
    return gone;
}

const char *art_errno_advice(int code) {
    if (code == ENOENT && is_here_gone()) {
        return "the current directory was deleted: change to one that exists";
    }
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (table[i].code == code) {
            return table[i].advice;
        }
    }
    return "choose another file or directory";
}
