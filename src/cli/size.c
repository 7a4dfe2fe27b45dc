/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/size.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int size_parse(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	static const char suffixes[] = "kmgtp";
	const char *suffix = NULL;
	unsigned long long v;
	unsigned int shift = 0;
	char *end;

	errno = 0;
	v = strtoull(text, &end, 0);
	if (*end)
		suffix = strchr(suffixes, tolower((unsigned char)*end));
	if (suffix) {
		shift = 10 * (unsigned int)(suffix - suffixes + 1);
		end++;
		if (*end == 'i')
			end++;
		if (*end == 'B')
			end++;
	}
	if (!isdigit((unsigned char)*text) || errno || *end || v > UINT64_MAX >> shift ||
	    v << shift < min || v << shift > max)
		return -EINVAL;
	*ret = v << shift;
	return 0;
}
