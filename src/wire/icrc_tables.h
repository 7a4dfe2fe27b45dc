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

#endif
