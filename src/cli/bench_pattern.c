/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <ctype.h>
#include <isa-l.h>
#include <string.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "cli/bench_pattern.h"
#include "nvmf/auth/hash.h"

#define MAGIC 0x326e636274666577ull /* "weftbcn2" */

/* Header, little-endian: magic, offset, a fill seed, generation, kind; then the checksum, of the
 * rest of the block and of what stands before it. */
enum {
	AT_MAGIC = 0,
	AT_OFFSET = 8,
	AT_SEED = 16,
	AT_GENERATION = 24,
	AT_KIND = 28,
	AT_SUM = 32,
	SUM_LEN = PATTERN_HEADER_LEN - AT_SUM,
};

static const char *const names[PATTERN_KINDS] = {
	[PATTERN_CRC32C] = "crc32c", [PATTERN_CRC32] = "crc32",	  [PATTERN_CRC64] = "crc64",
	[PATTERN_SHA256] = "sha256", [PATTERN_SHA384] = "sha384", [PATTERN_SHA512] = "sha512",
	[PATTERN_META] = "meta",     [PATTERN_BYTES] = "pattern",
};

const char *pattern_name(enum pattern_kind kind)
{
	return names[kind];
}

bool pattern_kind_parse(const char *text, enum pattern_kind *ret)
{
	for (unsigned int i = 0; i < PATTERN_KINDS; i++) {
		if (strcmp(text, names[i]) == 0) {
			*ret = (enum pattern_kind)i;
			return true;
		}
	}
	return false;
}

static int digit(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

bool pattern_bytes_parse(const char *text, struct pattern *ret)
{
	bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	size_t len;

	if (!hex) {
		len = strlen(text);
		if (len == 0 || len > PATTERN_BYTES_MAX)
			return false;
		memcpy(ret->bytes, text, len);
		ret->bytes_len = (uint32_t)len;
		return true;
	}
	text += 2;
	len = strlen(text);
	if (len == 0 || len % 2 || len / 2 > PATTERN_BYTES_MAX ||
	    strspn(text, "0123456789abcdefABCDEF") != len)
		return false;
	for (size_t i = 0; i < len / 2; i++)
		ret->bytes[i] = (uint8_t)(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
	ret->bytes_len = (uint32_t)(len / 2);
	return true;
}

/* Of the block, whose own checksum is zero meanwhile. */
static void checksum(enum pattern_kind kind, uint8_t *block, uint32_t len, uint8_t sum[SUM_LEN])
{
	memset(block + AT_SUM, 0, SUM_LEN);
	memset(sum, 0, SUM_LEN);
	switch (kind) {
	case PATTERN_CRC32C:
		st_le32(sum, crc32_iscsi(block, (int)len, UINT32_MAX));
		break;
	case PATTERN_CRC32:
		st_le32(sum, crc32_gzip_refl(0, block, len));
		break;
	case PATTERN_CRC64:
		st_le64(sum, crc64_ecma_refl(0, block, len));
		break;
	case PATTERN_SHA256:
	case PATTERN_SHA384:
	case PATTERN_SHA512:
		/* Without memory for it the sum is zero, which no block has. */
		if (!auth_digest((uint8_t)(kind - PATTERN_SHA256 + NVMF_AUTH_SHA256), block, len,
				 sum))
			memset(sum, 0, SUM_LEN);
		break;
	case PATTERN_META:
	case PATTERN_BYTES:
	case PATTERN_KINDS:
		break;
	}
}

static void fill_bytes(const struct pattern *p, uint8_t *block, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		block[i] = p->bytes[i % p->bytes_len];
}

void pattern_fill(const struct pattern *p, uint8_t *block, uint32_t len, uint64_t offset,
		  uint32_t generation)
{
	uint64_t x = (offset + 1) * 0x9e3779b97f4a7c15ull ^ (uint64_t)generation << 32;
	uint8_t sum[SUM_LEN];

	if (p->kind == PATTERN_BYTES) {
		fill_bytes(p, block, len);
		return;
	}
	st_le64(block + AT_MAGIC, MAGIC);
	st_le64(block + AT_OFFSET, offset);
	st_le64(block + AT_SEED, x);
	st_le32(block + AT_GENERATION, generation);
	st_le32(block + AT_KIND, p->kind);
	for (uint32_t at = PATTERN_HEADER_LEN; at + 8 <= len; at += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(block + at, &x, 8);
	}
	checksum(p->kind, block, len, sum);
	memcpy(block + AT_SUM, sum, SUM_LEN);
}

/* The block is as it was when this returns. */
static bool sum_is_right(enum pattern_kind kind, uint8_t *block, uint32_t len)
{
	uint8_t found[SUM_LEN], sum[SUM_LEN];

	memcpy(found, block + AT_SUM, SUM_LEN);
	checksum(kind, block, len, sum);
	memcpy(block + AT_SUM, found, SUM_LEN);
	return memcmp(found, sum, SUM_LEN) == 0;
}

static const char *check_bytes(const struct pattern *p, const uint8_t *block, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		if (block[i] != p->bytes[i % p->bytes_len])
			return "it does not hold the pattern";
	return NULL;
}

const char *pattern_check(const struct pattern *p, uint8_t *block, uint32_t len, uint64_t offset,
			  uint32_t generation)
{
	if (p->kind == PATTERN_BYTES)
		return check_bytes(p, block, len);
	if (ld_le64(block + AT_MAGIC) != MAGIC)
		return "it was not written by a verifying bench with this block size";
	if (ld_le32(block + AT_KIND) != p->kind)
		return "it was written with another kind of --verify, or its checksum is wrong";
	if (!sum_is_right(p->kind, block, len))
		return "its checksum is wrong";
	if (ld_le64(block + AT_OFFSET) != offset)
		return "it belongs elsewhere";
	if (generation && ld_le32(block + AT_GENERATION) != generation)
		return "it is of an older writing: the last write was lost";
	return NULL;
}
