/* What a control group's files leave to others, from texts of memory.stat. */
#include "core/memory.h"
#include "expect.h"

static void loose_files(void) {
    const char *own = "anon 5\nactive_file 4096\ninactive_file 2048\nfile_mapped 2048\n";
    const char *old = "mapped_file 1\nactive_file 1\ntotal_mapped_file 2048\n"
                      "total_inactive_file 2048\ntotal_active_file 4096\n";
    EXPECT(art_memory_droppable(own, 2) == 2048);
    EXPECT(art_memory_droppable(old, 1) == 2048);
    EXPECT(art_memory_droppable(own, 1) == 0);
}

static void at_most_four_mebibytes_stay(void) {
    EXPECT(art_memory_droppable("active_file 8388608\n", 2) == 4u << 20);
    EXPECT(art_memory_droppable("active_file 1073741824\n", 2) == (1u << 30) - (4u << 20));
}

static void none(void) {
    EXPECT(art_memory_droppable("", 2) == 0);
    EXPECT(art_memory_droppable("file_mapped 9\n", 2) == 0);
    EXPECT(art_memory_droppable("active_file 7\nfile_mapped 9\n", 2) == 0);
    EXPECT(art_memory_droppable("active_file x\n", 2) == 0);
}

int main(void) {
    loose_files();
    at_most_four_mebibytes_stay();
    none();
    return expect_done("memory");
}
