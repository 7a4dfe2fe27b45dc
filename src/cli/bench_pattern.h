/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a verifying bench writes: each block says where it belongs, of which writing it is, and
 * has a CRC32C over all of it. A block that was torn, misplaced, lost or is stale shows.
 */
#ifndef WEFT_CLI_BENCH_PATTERN_H
#define WEFT_CLI_BENCH_PATTERN_H

#include <stdint.h>

enum { PATTERN_HEADER_LEN = 32 };

/* generation 0: any. len: at least PATTERN_HEADER_LEN, a multiple of 8. */
void pattern_fill(uint8_t *block, uint32_t len, uint64_t offset, uint32_t generation);
/* NULL if the block is as pattern_fill() made it, else what is wrong (static). */
const char *pattern_check(const uint8_t *block, uint32_t len, uint64_t offset, uint32_t generation);

#endif
