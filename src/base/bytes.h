/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Loads and stores of wire integers at any alignment. RoCE is big-endian, NVMe little-endian:
 * the name says which.
 */
#ifndef WEFT_BASE_BYTES_H
#define WEFT_BASE_BYTES_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

#define WEFT_LD_ST(bits, order)                                        \
	static inline uint##bits##_t ld_##order##bits(const void *p)   \
	{                                                              \
		uint##bits##_t v;                                      \
		memcpy(&v, p, sizeof(v));                              \
		return order##bits##toh(v);                            \
	}                                                              \
	static inline void st_##order##bits(void *p, uint##bits##_t v) \
	{                                                              \
		v = hto##order##bits(v);                               \
		memcpy(p, &v, sizeof(v));                              \
	}

WEFT_LD_ST(16, be)
WEFT_LD_ST(32, be)
WEFT_LD_ST(64, be)
WEFT_LD_ST(16, le)
WEFT_LD_ST(32, le)
WEFT_LD_ST(64, le)
#undef WEFT_LD_ST

static inline uint32_t ld_be24(const void *p)
{
	const uint8_t *b = p;
	return (uint32_t)b[0] << 16 | (uint32_t)b[1] << 8 | b[2];
}

static inline void st_be24(void *p, uint32_t v)
{
	uint8_t *b = p;
	b[0] = (uint8_t)(v >> 16);
	b[1] = (uint8_t)(v >> 8);
	b[2] = (uint8_t)v;
}

#endif
