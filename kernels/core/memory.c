#include "core/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/cgroup.h"

typedef struct tightest {
    uint64_t bytes;
    const char *limit;
} tightest;

static void consider(tightest *best, uint64_t bytes, const char *limit) {
    if (bytes < best->bytes) {
        best->bytes = bytes;
        best->limit = limit;
    }
}

static uint64_t left(uint64_t limit, uint64_t used) {
    return limit > used ? limit - used : 0;
}

/* Value of a control file that holds one number; fallback for "max" or an unreadable file. */
static uint64_t read_number(const char *folder, const char *name, uint64_t fallback) {
    char text[64];
    return art_read_text_at(folder, name, text, sizeof text) == 0
               ? fallback
               : art_number_after(text, "", fallback);
}

/* Pages that Linux takes from a group's limit at once, for one processor; what is left of them on
 * others is not given back in time when the limit is reached, and memory.stat is as far behind. */
#define CHARGED_PAGES 64u
#define MOST_PROCESSORS 8 /* that a process has run on lately */

static uint64_t charged_ahead(void) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    processors = processors < 1 ? 1 : processors > MOST_PROCESSORS ? MOST_PROCESSORS : processors;
    return (uint64_t)processors * CHARGED_PAGES * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Of file pages that no program has mapped, half must stay, this much at most, as in MemAvailable:
 * code that is read again and again for lack of room ends in a kill, too. */
#define SPARED_FILE_BYTES (4u << 20)

uint64_t art_memory_droppable(const char *stat, int version) {
    static const char *const names[2][3] = {
        {"total_inactive_file ", "total_active_file ", "total_mapped_file "},
        {"inactive_file ", "active_file ", "file_mapped "},
    };
    const char *const *name = names[version == 2];
    uint64_t files = art_number_after(stat, name[0], 0) + art_number_after(stat, name[1], 0);
    uint64_t loose = left(files, art_number_after(stat, name[2], 0));
    return loose - (loose / 2 < SPARED_FILE_BYTES ? loose / 2 : SPARED_FILE_BYTES);
}

static void consider_group(void *context, const char *folder, int version) {
    char stat[8192];
    uint64_t limit, used;
    if (version == 2) {
        limit = read_number(folder, "memory.max", UINT64_MAX);
        used = read_number(folder, "memory.current", 0);
    } else {
        limit = read_number(folder, "memory.limit_in_bytes", UINT64_MAX);
        used = read_number(folder, "memory.usage_in_bytes", 0);
    }
    if (limit >= (uint64_t)1 << 62) { /* v1 writes "no limit" as a huge number */
        return;
    }
    art_read_text_at(folder, "memory.stat", stat, sizeof stat);
    used = left(used, art_memory_droppable(stat, version)) + charged_ahead();
    consider(context, left(limit, used),
             version == 2 ? "the control group's memory.max"
                          : "the control group's memory.limit_in_bytes");
}

/* Field `index` of /proc/self/statm in bytes: 0 is the address space, 5 data and stack. */
static uint64_t mapped_bytes(int index) {
    char text[256], *next = text;
    uint64_t pages = 0;
    art_read_text("/proc/self/statm", text, sizeof text);
    for (int i = 0; i <= index; i++) {
        pages = strtoull(next, &next, 10);
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Page tables have eight bytes a page and at most four levels; a thread has a stack of 16 KiB in
 * the kernel and some records of its own. */
#define TABLE_LEVELS 4
#define TABLE_ENTRY_BYTES 8
#define THREAD_KERNEL_BYTES (32u << 10)

uint64_t art_memory_kernel_bytes(uint64_t bytes, unsigned threads) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return bytes / page * TABLE_ENTRY_BYTES + TABLE_LEVELS * page +
           (uint64_t)threads * THREAD_KERNEL_BYTES;
}

uint64_t art_memory_available(const char **limit) {
    char text[1024];
    tightest best = {UINT64_MAX, "no limit known"};
    struct rlimit bound;
    if (art_read_text("/proc/meminfo", text, sizeof text) != 0) {
        uint64_t kib = art_number_after(text, "MemAvailable:", UINT64_MAX >> 10);
        consider(&best, kib << 10, "free memory (MemAvailable)");
    }
    art_cgroup_visit("memory", consider_group, &best);
    if (getrlimit(RLIMIT_AS, &bound) == 0 && bound.rlim_cur != RLIM_INFINITY) {
        consider(&best, left(bound.rlim_cur, mapped_bytes(0)), "the RLIMIT_AS of this process");
    }
    if (getrlimit(RLIMIT_DATA, &bound) == 0 && bound.rlim_cur != RLIM_INFINITY) {
        consider(&best, left(bound.rlim_cur, mapped_bytes(5)), "the RLIMIT_DATA of this process");
    }
    *limit = best.limit;
    return best.bytes;
}
