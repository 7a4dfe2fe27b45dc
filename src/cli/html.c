/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/html.h"

#include "base/utf8.h"

void html_put(FILE *f, const char *text)
{
	while (*text) {
		uint32_t c;
		size_t len = utf8_char(text, &c);

		if (len == 0 || (c < ' ' && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0)) {
			fputs("\xef\xbf\xbd", f);
			len = 1;
		} else if (c == '&') {
			fputs("&amp;", f);
		} else if (c == '<') {
			fputs("&lt;", f);
		} else if (c == '>') {
			fputs("&gt;", f);
		} else if (c == '"') {
			fputs("&quot;", f);
		} else if (c == '\'') {
			fputs("&#39;", f);
		} else {
			fwrite(text, 1, len, f);
		}
		text += len;
	}
}
