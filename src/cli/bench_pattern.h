/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a verifying bench writes: each block says where it belongs, of which writing it is, and
 * has a checksum over all of it, of one of fio's kinds. A block that was torn, misplaced, lost or
 * is stale shows. A block of plain bytes (PATTERN_BYTES) holds those alone, and shows what is not
 * them.
 */
#ifndef WEFT_CLI_BENCH_PATTERN_H
#define WEFT_CLI_BENCH_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

enum { PATTERN_HEADER_LEN = 96, PATTERN_BYTES_MAX = 512 };

enum pattern_kind {
	PATTERN_CRC32C,
	PATTERN_CRC32,
	PATTERN_CRC64,
	PATTERN_SHA256,
	PATTERN_SHA384,
	PATTERN_SHA512,
	PATTERN_META,  /* place and writing, no checksum */
	PATTERN_BYTES, /* bytes[], again and again */
	PATTERN_KINDS
};

struct pattern {
	enum pattern_kind kind;
	uint8_t bytes[PATTERN_BYTES_MAX];
	uint32_t bytes_len;
};

/* As fio calls it. */
const char *pattern_name(enum pattern_kind kind);
bool pattern_kind_parse(const char *text, enum pattern_kind *ret);
/* "0xdeadbeef", the first digits first, or the bytes of a word; false: it is neither, or too long.
 */
bool pattern_bytes_parse(const char *text, struct pattern *ret);

/* generation 0: any. len: at least PATTERN_HEADER_LEN, a multiple of 8. */
void pattern_fill(const struct pattern *p, uint8_t *block, uint32_t len, uint64_t offset,
		  uint32_t generation);
/* NULL if the block is as pattern_fill() made it, else what is wrong (static). It is as before
 * then. */
const char *pattern_check(const struct pattern *p, uint8_t *block, uint32_t len, uint64_t offset,
			  uint32_t generation);

#endif
