/* Numbers of 16 bits as float32, exactly. */
#ifndef ART_ENGINE_HALF_H
#define ART_ENGINE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float art_float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE 754 binary16. */
static inline float art_half_to_float(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 31u, fraction = half & 1023u;
    if (exponent == 31) {
        return art_float_of_bits(sign | 0x7F800000u | fraction << 13);
    }
    if (exponent > 0) {
        return art_float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    }
    float small = (float)fraction * 0x1p-24f;
    return sign != 0 ? -small : small;
}

/* The upper half of a float32. */
static inline float art_bfloat_to_float(uint16_t bits) {
    return art_float_of_bits((uint32_t)bits << 16);
}

#endif
