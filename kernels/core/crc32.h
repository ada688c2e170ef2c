/* CRC-32 of plan files and checkpoints: zlib's polynomial (0xEDB88320, reflected) and chaining. */
#ifndef ART_CORE_CRC32_H
#define ART_CORE_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Checksum of `bytes` bytes appended to what `crc` covers; start with crc = 0. */
uint32_t art_crc32(uint32_t crc, const void *data, size_t bytes);

#endif
