/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/utf8.h"

/* What changes the order in which a line is read, and what ends it. */
static bool reorders(uint32_t c)
{
	return c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069);
}

/* The length of the character at p in UTF-8; 0 for none, and for what moves a terminal's cursor or
 * shows a line as another. */
static size_t character(const char *p)
{
	uint32_t c;
	size_t len = utf8_char(p, &c);

	return c < ' ' || (c >= 0x7f && c < 0xa0) || reorders(c) ? 0 : len;
}

void text_tame(char *text)
{
	while (*text) {
		size_t len = character(text);

		if (!len) {
			*text = '?';
			len = 1;
		}
		text += len;
	}
}

void text_put_json(FILE *f, const char *text)
{
	while (*text) {
		size_t len = character(text);
		uint32_t c;

		if (len || *text == '\n') {
			len = len ? len : 1;
			fwrite(text, 1, len, f);
		} else {
			len = max_of(utf8_char(text, &c), 1u);
			fprintf(f, "\\u%04x", c);
		}
		text += len;
	}
}

void text_cut(char *text, int width)
{
	for (; *text; text++)
		if (((unsigned char)*text & 0xc0) != 0x80 && width-- == 0)
			*text-- = 0;
}
