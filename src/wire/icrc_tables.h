/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Powers of 1/x modulo the CRC-32 polynomial, reflected (bit 31 is the coefficient of x^0): what
 * takes a CRC remainder back over bytes it has run through.
 */
#ifndef WEFT_WIRE_ICRC_TABLES_H
#define WEFT_WIRE_ICRC_TABLES_H

#include <stdint.h>

extern const uint32_t icrc_back_low[256];  /* [i]: back over i bytes */
extern const uint32_t icrc_back_high[256]; /* [i]: back over 256 i bytes */
/* [i][v]: v in the i-th four bits of a byte that comes four bytes later, the lowest first. */
extern const uint32_t icrc_back_4[2][16];
/* Forward: [i][v]: v in the i-th four bits of two bytes, 24 bytes later, those two included. */
extern const uint32_t icrc_ahead_24[4][16];

#endif
