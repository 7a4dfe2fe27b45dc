/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What no transport in software can pass on this machine: copying memory and, as every packet
 * carries an ICRC, checksumming it. One core, buffers larger than its caches. Prints two lines,
 * MiB/s each.
 */
#include <isa-l/crc.h>

#include "raw_bench.h"

enum { BUFFER = 64 << 20, PIECE = 64 << 10, ROUNDS = 8 };

static double mib_per_s(uint64_t ns)
{
	return (double)ROUNDS * (BUFFER >> 20) / ((double)ns / 1e9);
}

int main(void)
{
	uint8_t *from = malloc(BUFFER), *to = malloc(BUFFER);
	uint32_t sum = 0;
	uint64_t begun;

	if (!from || !to)
		die("malloc");
	memset(from, 0x5a, BUFFER);
	memset(to, 0xa5, BUFFER);
	begun = now_ns();
	for (int r = 0; r < ROUNDS; r++)
		for (size_t at = 0; at < BUFFER; at += PIECE)
			memcpy(to + at, from + at, PIECE);
	printf("memcpy %.0f\n", mib_per_s(now_ns() - begun));
	begun = now_ns();
	for (int r = 0; r < ROUNDS; r++)
		for (size_t at = 0; at < BUFFER; at += PIECE)
			sum ^= crc32_gzip_refl(0, from + at, PIECE);
	printf("crc32 %.0f %08x\n", mib_per_s(now_ns() - begun), sum);
	return 0;
}
