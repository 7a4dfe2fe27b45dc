/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#ifndef WEFT_BASE_UTF8_H
#define WEFT_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* How many bytes of a terminated text are a character, which is *ret; 0: it is no UTF-8. */
static inline size_t utf8_char(const char *text, uint32_t *ret)
{
	const unsigned char *p = (const unsigned char *)text;
	const size_t n = *p < 0x80		   ? 1
			 : *p >= 0xf0 && *p < 0xf5 ? 4
			 : *p >= 0xe0 && *p < 0xf0 ? 3
			 : *p >= 0xc2 && *p < 0xe0 ? 2
						   : 0;
	uint32_t c = n > 1 ? *p & (0x7fu >> n) : *p;

	*ret = 0xfffd;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	/* Longer than need be, a surrogate, beyond the last. */
	if (n == 0 || (n == 3 && c < 0x800) || (n == 4 && c < 0x10000) ||
	    (c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
		return 0;
	*ret = c;
	return n;
}

#endif
