/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/crc32c.h"

#include <isa-l/crc.h>

#include "base/compiler.h"

uint32_t crc32c_more(uint32_t state, const void *p, size_t len)
{
	/* It only reads, and takes an int. */
	for (unsigned char *at = (unsigned char *)p; len;) {
		int n = (int)min_of(len, (size_t)1 << 30);

		state = crc32_iscsi(at, n, state);
		at += n;
		len -= (size_t)n;
	}
	return state;
}
