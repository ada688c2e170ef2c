/* What a run tells: a line an epoch for people, a JSON object an epoch for programs. */
#ifndef ART_RUN_REPORT_H
#define ART_RUN_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"
#include "options.h"

/* One epoch; the names are the log's keys. */
typedef struct run_record {
    uint64_t epoch; /* counted from 1 */
    const char *kernel_level;
    double train_loss;
    bool validated, has_accuracy;
    bool measured; /* something of the validation data counted; not logged */
    double val_loss;
    double val_accuracy;
    double seconds;
    double samples_per_second;
    uint64_t arena_bytes;
    uint64_t peak_rss_bytes;
    uint64_t swap_read_bytes;
    uint64_t swap_written_bytes;
} run_record;

/* Highest resident memory of this process alone, 0 where the kernel does not say. */
uint64_t run_peak_rss_bytes(void);

/* The shortest decimal number that reads back as `value`. */
void run_number(double value, char text[40]);

/* Write to the standard output. */
void run_print(const char *text);

/* errno of the first write to the standard output that failed, 0: none did. */
int run_output_error(void);

/* A remark for people: on standard output, on standard error with --json, nowhere with --quiet. */
void run_note(const run_options *options, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A record as one line of JSON; returns its bytes. */
size_t run_record_json(const run_record *record, char *line, size_t line_bytes);

/* The epoch's line, and with --json its object. */
void run_report(const run_options *options, uint64_t epochs, const run_record *record);

/* What was watched. */
typedef struct run_ending {
    uint64_t best_epoch; /* 0: nothing was */
    bool stopped_early;
} run_ending;

/* With --json the last object of a run that trained `epochs` epochs; record: the last or NULL. */
void run_summary(const run_options *options, uint64_t epochs, const run_record *record,
                 const run_ending *ending, const art_info *info);

/* With --json the object that ends a run that failed. */
void run_refusal(const char *message, int exit_code);

/* The log: *fd is -1 without one. Lines of epochs beyond `epochs_done` are dropped, since they will
 * be trained again, and so is a last line that a power failure cut short. */
art_status run_log_open(const char *path, uint64_t epochs_done, int *fd, art_error *err);
art_status run_log_write(int fd, const char *path, const run_record *record, art_error *err);

#endif
