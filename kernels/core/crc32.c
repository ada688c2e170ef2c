/* Eight bytes a round: table k holds the checksum of a byte followed by k zero bytes, so the
 * eight lookups of a round are independent of each other (the "slicing" method of Kounavis and
 * Berry, "A systematic approach to building high performance, software-based, CRC generators",
 * ISCC 2005). Reads words, so it is for little-endian machines like the rest of the engine. */
#include "core/crc32.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL 0xEDB88320u

static uint32_t tables[8][256];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void fill_tables(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (POLYNOMIAL & (0u - (crc & 1u)));
        }
        tables[0][byte] = crc;
    }
    for (uint32_t byte = 0; byte < 256; byte++) {
        for (int k = 1; k < 8; k++) {
            uint32_t before = tables[k - 1][byte];
            tables[k][byte] = (before >> 8) ^ tables[0][before & 255u];
        }
    }
}

uint32_t art_crc32(uint32_t crc, const void *data, size_t bytes) {
    const unsigned char *p = data;
    pthread_once(&tables_once, fill_tables);
    crc = ~crc;
    for (; bytes >= 8; bytes -= 8, p += 8) {
        uint32_t low, high;
        memcpy(&low, p, 4);
        memcpy(&high, p + 4, 4);
        low ^= crc;
        crc = tables[7][low & 255u] ^ tables[6][(low >> 8) & 255u] ^ tables[5][(low >> 16) & 255u] ^
              tables[4][low >> 24] ^ tables[3][high & 255u] ^ tables[2][(high >> 8) & 255u] ^
              tables[1][(high >> 16) & 255u] ^ tables[0][high >> 24];
    }
    for (; bytes > 0; bytes--, p++) {
        crc = (crc >> 8) ^ tables[0][(crc ^ *p) & 255u];
    }
    return ~crc;
}
