#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/file_io.h"

#define LINE_MAX_BYTES 1024

uint64_t run_peak_rss_bytes(void) {
    char text[4096];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) {
        close(fd);
    }
    text[got > 0 ? got : 0] = '\0';
    const char *line = strstr(text, "VmHWM:");
    return line == NULL ? 0 : strtoull(line + 6, NULL, 10) * 1024;
}

void run_number(double value, char text[40]) {
    char digits[40];
    int precision = 1;
    if (!isfinite(value)) {
        snprintf(text, 40, "null");
        return;
    }
    do {
        snprintf(digits, sizeof digits, "%.*e", precision - 1, value);
    } while (strtod(digits, NULL) != value && precision++ < 17);
    int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent < -4 || exponent >= 16) {
        snprintf(text, 40, "%s", digits);
        return;
    }
    int decimals = precision - 1 - exponent;
    snprintf(text, 40, "%.*f", decimals < 1 ? 1 : decimals, value);
}

/* Of the first write to the standard output that failed. */
static int output_error;

int run_output_error(void) {
    return output_error;
}

/* Standard streams without buffering: one write a line, nothing is lost when the run is killed. A
 * stream that fails does not stop the run: weights are worth more than words. */
static void put(int fd, const char *text, size_t bytes) {
    while (bytes > 0 && (fd != STDOUT_FILENO || output_error == 0)) {
        ssize_t n = write(fd, text, bytes);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            output_error = fd == STDOUT_FILENO ? errno : output_error;
            return;
        }
        text += n;
        bytes -= (size_t)n;
    }
}

void run_print(const char *text) {
    put(STDOUT_FILENO, text, strlen(text));
}

void run_note(const run_options *options, const char *format, ...) {
    char text[8192];
    va_list args;
    if (options->quiet) {
        return;
    }
    va_start(args, format);
    int n = vsnprintf(text, sizeof text - 1, format, args);
    va_end(args);
    size_t length = n < 0 ? 0 : (size_t)n < sizeof text - 1 ? (size_t)n : sizeof text - 2;
    text[length] = '\n';
    put(options->json ? STDERR_FILENO : STDOUT_FILENO, text, length + 1);
}

size_t run_record_json(const run_record *r, char *line, size_t line_bytes) {
    char train[40], loss[40] = "null", accuracy[40] = "null", seconds[40], speed[40];
    run_number(r->train_loss, train);
    run_number(r->seconds, seconds);
    run_number(r->samples_per_second, speed);
    if (r->validated) {
        run_number(r->val_loss, loss);
    }
    if (r->validated && r->has_accuracy) {
        run_number(r->val_accuracy, accuracy);
    }
    int n = snprintf(
        line, line_bytes,
        "{\"epoch\": %llu, \"kernel_level\": \"%s\", \"train_loss\": %s, \"val_loss\": %s, "
        "\"val_accuracy\": %s, \"seconds\": %s, \"samples_per_second\": %s, \"arena_bytes\": %llu, "
        "\"peak_rss_bytes\": %llu, \"swap_read_bytes\": %llu, \"swap_written_bytes\": %llu}\n",
        (unsigned long long)r->epoch, r->kernel_level, train, loss, accuracy, seconds, speed,
        (unsigned long long)r->arena_bytes, (unsigned long long)r->peak_rss_bytes,
        (unsigned long long)r->swap_read_bytes, (unsigned long long)r->swap_written_bytes);
    return (size_t)n;
}

void run_report(const run_options *options, uint64_t epochs, const run_record *r) {
    enum { DECIMAL_BYTES = 340 }; /* of any double */
    char line[LINE_MAX_BYTES], loss[DECIMAL_BYTES] = "", accuracy[48] = "";
    if (r->validated) {
        snprintf(loss, sizeof loss, "  val loss %.4f", r->val_loss);
    }
    if (r->validated && r->has_accuracy) {
        snprintf(accuracy, sizeof accuracy, "  val accuracy %.2f %%", 100 * r->val_accuracy);
    }
    run_note(options, "epoch %llu/%llu  train loss %.4f%s%s  %.2f s  %.0f samples/s",
             (unsigned long long)r->epoch, (unsigned long long)epochs, r->train_loss, loss,
             accuracy, r->seconds, r->samples_per_second);
    if (options->json) {
        put(STDOUT_FILENO, line, run_record_json(r, line, sizeof line));
    }
}

/* Bytes of the UTF-8 character at `p`, 0 when there is none. */
static size_t character_bytes(const unsigned char *p) {
    size_t n = p[0] < 0x80                   ? 1
               : p[0] >= 0xC2 && p[0] < 0xE0 ? 2
               : (p[0] & 0xF0) == 0xE0       ? 3
               : p[0] >= 0xF0 && p[0] < 0xF5 ? 4
                                             : 0;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    bool longer = (p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xF0 && p[1] < 0x90);
    bool beyond = (p[0] == 0xED && p[1] >= 0xA0) || (p[0] == 0xF4 && p[1] >= 0x90);
    return longer || beyond ? 0 : n;
}

/* A text as a JSON string; `out` is long enough for six characters a byte. Bytes of a path that are
 * no UTF-8 become the code points that Python gives them. */
static void quote(const char *text, char *out, size_t out_bytes) {
    const unsigned char *p = (const unsigned char *)text;
    size_t n = 0;
    out[n++] = '"';
    while (*p != '\0' && n + 8 < out_bytes) {
        size_t bytes = character_bytes(p);
        if (bytes == 0 || *p < 0x20) {
            n +=
                (size_t)snprintf(out + n, out_bytes - n, "\\u%04x", bytes == 0 ? 0xDC00u + *p : *p);
            p++;
            continue;
        }
        if (*p == '"' || *p == '\\') {
            out[n++] = '\\';
        }
        memcpy(out + n, p, bytes);
        n += bytes;
        p += bytes;
    }
    out[n++] = '"';
    out[n] = '\0';
}

void run_refusal(const char *message, int exit_code) {
    char text[6 * 1024 + 16], line[sizeof text + 64];
    quote(message, text, sizeof text);
    int n = snprintf(line, sizeof line, "{\"error\": %s, \"exit_code\": %d}\n", text, exit_code);
    put(STDOUT_FILENO, line, (size_t)n);
}

void run_summary(const run_options *options, uint64_t epochs, const run_record *record,
                 const run_ending *ending, const art_info *info) {
    char train[40] = "null", loss[40] = "null", accuracy[40] = "null", best[24] = "null";
    static char saved[6 * ART_PATH_MAX + 16] = "null", line[sizeof saved + LINE_MAX_BYTES];
    if (!options->json) {
        return;
    }
    if (record != NULL) {
        run_number(record->train_loss, train);
    }
    if (record != NULL && record->validated) {
        run_number(record->val_loss, loss);
    }
    if (record != NULL && record->validated && record->has_accuracy) {
        run_number(record->val_accuracy, accuracy);
    }
    if (ending->best_epoch > 0) {
        snprintf(best, sizeof best, "%llu", (unsigned long long)ending->best_epoch);
    }
    if (options->save != NULL) {
        quote(options->save, saved, sizeof saved);
    }
    int n = snprintf(line, sizeof line,
                     "{\"epochs\": %llu, \"train_loss\": %s, \"val_loss\": %s, \"val_accuracy\": "
                     "%s, \"best_epoch\": %s, \"stopped_early\": %s, \"kernel_level\": \"%s\", "
                     "\"threads\": %u, \"arena_bytes\": %llu, "
                     "\"peak_rss_bytes\": %llu, \"saved\": %s}\n",
                     (unsigned long long)epochs, train, loss, accuracy, best,
                     ending->stopped_early ? "true" : "false", info->kernel_level, info->threads,
                     (unsigned long long)info->arena_bytes,
                     (unsigned long long)run_peak_rss_bytes(), saved);
    put(STDOUT_FILENO, line, (size_t)n);
}
