#include "paths.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/file_io.h"

#define MOST 11

typedef struct place {
    const char *option;
    const char *path; /* NULL: not given */
    bool written;
    bool exists;
    dev_t device; /* of the file, or of its directory when it does not exist yet */
    ino_t inode;
    char followed[ART_PATH_MAX];
    const char *name; /* of a file that does not exist, links followed */
} place;

/* False for a path whose directory does not exist: it is no other file's name. */
static bool locate(place *p) {
    struct stat info;
    p->exists = stat(p->path, &info) == 0;
    if (!p->exists) {
        if (art_path_follow(p->path, p->followed, &p->name, NULL) != ART_OK) {
            return false;
        }
        char *cut = p->followed + (p->name - p->followed), first = *cut;
        *cut = '\0';
        bool found = stat(cut == p->followed ? "." : p->followed, &info) == 0;
        *cut = first;
        if (!found) {
            return false;
        }
    }
    p->device = info.st_dev;
    p->inode = info.st_ino;
    return true;
}

static bool same_file(const place *a, const place *b) {
    return a->exists == b->exists && a->device == b->device && a->inode == b->inode &&
           (a->exists || strcmp(a->name, b->name) == 0);
}

static bool is_update(const place *a, const place *b) {
    return strcmp(a->option, "--weights") == 0 && strcmp(b->option, "--save") == 0;
}

bool run_paths_apart(const run_options *options, const run_spec *train, const run_spec *validation,
                     char *why, size_t why_bytes) {
    static place places[MOST];
    const place all[] = {
        {.option = "PLAN", .path = options->plan},
        {.option = "--data", .path = train->first},
        {.option = "--data", .path = train->second},
        {.option = "--validation", .path = validation->first},
        {.option = "--validation", .path = validation->second},
        {.option = "--weights", .path = options->weights},
        {.option = "--save", .path = options->save, .written = true},
        {.option = "--keep-best", .path = options->keep_best, .written = true},
        {.option = "--log", .path = options->log, .written = true},
        {.option = "--checkpoint", .path = options->checkpoint, .written = true},
    };
    size_t n = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        places[n] = all[i];
        if (all[i].path == NULL || !locate(&places[n])) {
            continue;
        }
        const place *now = &places[n];
        for (size_t k = 0; k < n && now->written; k++) {
            if (same_file(&places[k], now) && !is_update(&places[k], now)) {
                snprintf(why, why_bytes,
                         "%s would overwrite the file of %s (%.150s and %.150s are one file): name "
                         "another one",
                         now->option, places[k].option, now->path, places[k].path);
                return false;
            }
        }
        n++;
    }
    return true;
}
