#include "core/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

size_t art_read_text(const char *path, char *text, size_t size) {
    size_t done = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    text[0] = '\0';
    if (file < 0) {
        return 0;
    }
    while (done + 1 < size) {
        ssize_t got = read(file, text + done, size - 1 - done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        done += (size_t)got;
    }
    close(file);
    text[done] = '\0';
    return done;
}

size_t art_read_text_at(const char *folder, const char *name, char *text, size_t size) {
    char path[ART_CGROUP_PATH + 64];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    text[0] = '\0';
    return length < 0 || (size_t)length >= sizeof path ? 0 : art_read_text(path, text, size);
}

uint64_t art_number_after(const char *text, const char *key, uint64_t fallback) {
    size_t length = strlen(key);
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, key, length) == 0) {
            char *end;
            unsigned long long value = strtoull(line + length, &end, 10);
            return end == line + length ? fallback : (uint64_t)value;
        }
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    return fallback;
}

/* Visit `mount``path` and every parent up to the mount point itself. Inside a container the path
 * may name groups that are not visible; the visitor just finds no files there. */
static void visit_upwards(const char *mount, const char *path, size_t path_length, int version,
                          art_cgroup_fn fn, void *context) {
    char folder[ART_CGROUP_PATH];
    size_t base = strlen(mount);
    if (base + path_length + 1 > sizeof folder) {
        path_length = 0;
    }
    memcpy(folder, mount, base);
    memcpy(folder + base, path, path_length);
    size_t length = base + path_length;
    while (length > base && folder[length - 1] == '/') {
        length--;
    }
    for (;;) {
        folder[length] = '\0';
        fn(context, folder, version);
        if (length <= base) {
            return;
        }
        while (length > base && folder[length - 1] != '/') {
            length--;
        }
        while (length > base && folder[length - 1] == '/') {
            length--;
        }
    }
}

/* True if the comma-separated list [list, end) holds the word. */
static int list_has(const char *list, const char *end, const char *word) {
    size_t length = strlen(word);
    while (list < end) {
        const char *comma = memchr(list, ',', (size_t)(end - list));
        const char *stop = comma == NULL ? end : comma;
        if ((size_t)(stop - list) == length && memcmp(list, word, length) == 0) {
            return 1;
        }
        list = stop + 1;
    }
    return 0;
}

/* Lines of /proc/self/cgroup read "id:controllers:path"; v2 has id 0 and no controllers. */
void art_cgroup_visit(const char *controller, art_cgroup_fn fn, void *context) {
    char text[4096], mount[64];
    art_read_text("/proc/self/cgroup", text, sizeof text);
    for (const char *line = text; *line != '\0';) {
        const char *stop = strchr(line, '\n');
        const char *end = stop == NULL ? line + strlen(line) : stop;
        const char *list = memchr(line, ':', (size_t)(end - line));
        const char *path = list == NULL ? NULL : memchr(list + 1, ':', (size_t)(end - list - 1));
        if (path != NULL && path == list + 1) {
            visit_upwards("/sys/fs/cgroup", path + 1, (size_t)(end - path - 1), 2, fn, context);
            visit_upwards("/sys/fs/cgroup/unified", path + 1, (size_t)(end - path - 1), 2, fn,
                          context);
        } else if (path != NULL && list_has(list + 1, path, controller)) {
            snprintf(mount, sizeof mount, "/sys/fs/cgroup/%s", controller);
            visit_upwards(mount, path + 1, (size_t)(end - path - 1), 1, fn, context);
        }
        line = stop == NULL ? end : stop + 1;
    }
}
