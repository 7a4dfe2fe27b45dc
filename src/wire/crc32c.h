/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* CRC32C (Castagnoli), of NVMe/TCP's digests and MPA's FPDUs, in pieces: begin, what is there, end.
 */
#ifndef WEFT_WIRE_CRC32C_H
#define WEFT_WIRE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#define CRC32C_BEGIN 0xffffffffu
uint32_t crc32c_more(uint32_t state, const void *p, size_t len);
static inline uint32_t crc32c_end(uint32_t state)
{
	return ~state;
}
static inline uint32_t crc32c(const void *p, size_t len)
{
	return crc32c_end(crc32c_more(CRC32C_BEGIN, p, len));
}

#endif
