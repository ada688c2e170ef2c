/* Small readings of /proc and of the control groups (v1 and v2) this process is in.
 * No allocation: files are read into the caller's buffer. */
#ifndef ART_CORE_CGROUP_H
#define ART_CORE_CGROUP_H

#include <stddef.h>
#include <stdint.h>

/* Longest path of a control file that is considered. */
#define ART_CGROUP_PATH 512

/* Called for the process's own group and each of its parents; `folder` is the group's folder,
 * `version` 1 or 2. */
typedef void (*art_cgroup_fn)(void *context, const char *folder, int version);

/* Visit the groups that bind this process for a controller ("cpu" or "memory"). */
void art_cgroup_visit(const char *controller, art_cgroup_fn fn, void *context);

/* Read at most size - 1 bytes of a file and end them with NUL; bytes read, 0 if unreadable. */
size_t art_read_text(const char *path, char *text, size_t size);

/* Read folder/name likewise. */
size_t art_read_text_at(const char *folder, const char *name, char *text, size_t size);

/* The unsigned number after `key` at the start of a line of text; fallback if there is none. */
uint64_t art_number_after(const char *text, const char *key, uint64_t fallback);

#endif
