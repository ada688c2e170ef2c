/* A plugin of the user-mode emulator: how many guest instructions a program executed, written to
 * the file named by the argument out=FILE. For the host, whatever the guest.
 *
 * The few declarations of the emulator's plugin interface, version 1, that it uses are here because
 * distributions ship no header for it. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_info_t;
enum { ADD_U64 = 0 };

extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id,
                                                  void (*fn)(plugin_id, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, int operation,
                                                     void *counter, uint64_t value);
extern void qemu_plugin_register_atexit_cb(plugin_id id, void (*fn)(plugin_id, void *), void *data);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;
EXPORT int qemu_plugin_install(plugin_id id, const struct qemu_info_t *info, int argc, char **argv);

static uint64_t executed;
static char out[512];

static void translated(plugin_id id, struct qemu_plugin_tb *block) {
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, &executed,
                                             qemu_plugin_tb_n_insns(block));
}

static void finished(plugin_id id, void *data) {
    FILE *file = fopen(out, "w");
    (void)id;
    (void)data;
    if (file) {
        fprintf(file, "%llu\n", (unsigned long long)executed);
        fclose(file);
    }
}

int qemu_plugin_install(plugin_id id, const struct qemu_info_t *info, int argc, char **argv) {
    (void)info;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "out=", 4) == 0) {
            snprintf(out, sizeof out, "%s", argv[i] + 4);
        }
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, finished, NULL);
    return 0;
}
