/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/words.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* One word from *at on, without its quotes; *at is behind it. */
static int take_word(char **at)
{
	char *from = *at, *to = *at, quote = '\0';

	for (; *from && (quote || !is_blank(*from)); from++) {
		if (*from == quote) {
			quote = '\0';
		} else if (!quote && (*from == '"' || *from == '\'')) {
			quote = *from;
		} else {
			if (*from == '\\' && quote != '\'' && from[1])
				from++;
			*to++ = *from;
		}
	}
	*at = from + (*from != '\0');
	*to = '\0';
	return quote ? -EINVAL : 0;
}

int words_split(char *line, char **words, size_t max)
{
	size_t n = 0;

	for (;;) {
		while (is_blank(*line))
			line++;
		if (!*line || *line == '#')
			return (int)n;
		if (n == max)
			return -E2BIG;
		words[n++] = line;
		if (take_word(&line) != 0)
			return -EINVAL;
	}
}
