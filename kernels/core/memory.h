/* How much memory this process can still get, and which limit says so. */
#ifndef ART_CORE_MEMORY_H
#define ART_CORE_MEMORY_H

#include <stdint.h>

/* The tightest of MemAvailable, the memory limits of the control groups (v1 and v2, all parents)
 * minus what they use beyond file pages that can be dropped, and what the kernel takes ahead for up
 * to 8 processors (256 KiB each, with pages of 4 KiB), RLIMIT_AS and RLIMIT_DATA minus what this
 * process has mapped. *limit names it. UINT64_MAX when nothing is known. */
uint64_t art_memory_available(const char **limit);

/* Bytes of file pages that the kernel can drop from a control group with that memory.stat (of
 * version 1 or 2): pages that a program has mapped are needed back at once and are none of them. */
uint64_t art_memory_droppable(const char *stat, int version);

/* What the kernel takes for itself, and counts as this process's, to map `bytes` and to run
 * `threads` more threads. */
uint64_t art_memory_kernel_bytes(uint64_t bytes, unsigned threads);

#endif
