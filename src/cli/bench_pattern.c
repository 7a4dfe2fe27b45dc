/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <isa-l.h>
#include <string.h>

#include "base/bytes.h"
#include "cli/bench_pattern.h"

#define MAGIC 0x68636e6274666577ull /* "weftbnch" */

/* Header, little-endian: magic, offset, a fill seed, generation, CRC of all but itself. */
enum { AT_MAGIC = 0, AT_OFFSET = 8, AT_SEED = 16, AT_GENERATION = 24, AT_CRC = 28 };

static uint32_t checksum(const uint8_t *block, uint32_t len)
{
	unsigned char *p = (unsigned char *)(uintptr_t)block; /* ISA-L's parameter lacks const */
	uint32_t crc = crc32_iscsi(p, AT_CRC, UINT32_MAX);

	return crc32_iscsi(p + PATTERN_HEADER_LEN, (int)(len - PATTERN_HEADER_LEN), crc);
}

void pattern_fill(uint8_t *block, uint32_t len, uint64_t offset, uint32_t generation)
{
	uint64_t x = (offset + 1) * 0x9e3779b97f4a7c15ull ^ (uint64_t)generation << 32;

	st_le64(block + AT_MAGIC, MAGIC);
	st_le64(block + AT_OFFSET, offset);
	st_le64(block + AT_SEED, x);
	st_le32(block + AT_GENERATION, generation);
	for (uint32_t at = PATTERN_HEADER_LEN; at + 8 <= len; at += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(block + at, &x, 8);
	}
	st_le32(block + AT_CRC, checksum(block, len));
}

const char *pattern_check(const uint8_t *block, uint32_t len, uint64_t offset, uint32_t generation)
{
	if (ld_le64(block + AT_MAGIC) != MAGIC)
		return "it was not written by a verifying bench with this block size";
	if (ld_le32(block + AT_CRC) != checksum(block, len))
		return "its checksum is wrong";
	if (ld_le64(block + AT_OFFSET) != offset)
		return "it belongs elsewhere";
	if (generation && ld_le32(block + AT_GENERATION) != generation)
		return "it is of an older writing: the last write was lost";
	return NULL;
}
