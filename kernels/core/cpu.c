/* Processor features and the number of usable processors. */
#define _GNU_SOURCE
#include "core/cpu.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/cgroup.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

/* State that the operating system saves on a task switch (XCR0). */
#define XCR0_YMM 0x06u
#define XCR0_ZMM 0xe6u

static uint32_t read_xcr0(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static uint32_t detect(void) {
    const uint32_t avx512 = (1u << 16) | (1u << 17) | (1u << 30) | (1u << 31); /* F DQ BW VL */
    uint32_t a, b, c, d, found = 0, saved = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) {
        return 0;
    }
    if (d & (1u << 26)) {
        found |= ART_CPU_SSE2;
    }
    int fma = (c & (1u << 12)) != 0;
    if ((c & (1u << 27)) && (c & (1u << 28))) { /* OSXSAVE and AVX */
        saved = read_xcr0();
    }
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        return found;
    }
    if (fma && (b & (1u << 5)) && (saved & XCR0_YMM) == XCR0_YMM) {
        found |= ART_CPU_AVX2_FMA;
        if ((b & avx512) == avx512 && (saved & XCR0_ZMM) == XCR0_ZMM) {
            found |= ART_CPU_AVX512;
        }
    }
    return found;
}

#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

static uint32_t detect(void) {
    return (getauxval(AT_HWCAP) & HWCAP_ASIMD) ? ART_CPU_NEON | ART_CPU_VFPV4 : 0u;
}

#elif defined(__arm__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

static uint32_t detect(void) {
    unsigned long bits = getauxval(AT_HWCAP);
    uint32_t found = (bits & HWCAP_NEON) ? ART_CPU_NEON : 0u;
    return found | ((bits & HWCAP_VFPv4) ? ART_CPU_VFPV4 : 0u);
}

#else

static uint32_t detect(void) {
    return 0;
}

#endif

uint32_t art_cpu_features(void) {
    /* Reading the features can trap into a hypervisor, so the answer is kept; bit 31 marks it. */
    static _Atomic uint32_t kept;
    uint32_t value = atomic_load_explicit(&kept, memory_order_relaxed);
    if (value == 0) {
        value = detect() | 1u << 31;
        atomic_store_explicit(&kept, value, memory_order_relaxed);
    }
    return value & ~(1u << 31);
}

const char *art_cpu_cap(void) {
    const char *cap = getenv("ARMTRAIN_CPU");
    return cap == NULL || cap[0] == '\0' ? NULL : cap;
}

/* Lower *processors to the whole processors that a group's quota grants, rounded up. */
static void apply_quota(void *context, const char *folder, int version) {
    unsigned *processors = context;
    char text[64];
    double quota = 0, period = 0;
    if (version == 2) {
        char *end;
        if (art_read_text_at(folder, "cpu.max", text, sizeof text) == 0) {
            return;
        }
        quota = strtod(text, &end); /* the word "max" reads as zero: no quota */
        period = strtod(end, NULL);
    } else {
        if (art_read_text_at(folder, "cpu.cfs_quota_us", text, sizeof text) != 0) {
            quota = strtod(text, NULL); /* -1: no quota */
        }
        if (art_read_text_at(folder, "cpu.cfs_period_us", text, sizeof text) != 0) {
            period = strtod(text, NULL);
        }
    }
    if (quota > 0 && period > 0 && quota / period < *processors) {
        double share = quota / period;
        unsigned whole = (unsigned)share;
        *processors = whole + (whole < share);
    }
}

unsigned art_cpu_usable(void) {
    cpu_set_t set;
    unsigned processors = 1;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        processors = (unsigned)CPU_COUNT(&set);
    }
    art_cgroup_visit("cpu", apply_quota, &processors);
    return processors < 1 ? 1 : processors;
}
