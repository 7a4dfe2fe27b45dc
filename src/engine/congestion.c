/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "engine/congestion.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* "halving, dcqcn and none" */
static const char *names(char *buf, size_t size)
{
	size_t n = 0;

	for (const struct cc_ops *cc = cc_next(NULL); cc && n < size; cc = cc_next(cc)) {
		const char *between = n == 0 ? "" : cc_next(cc) ? ", " : " and ";

		n += (size_t)snprintf(buf + n, size - n, "%s%s", between, cc->name);
	}
	return buf;
}

static void set_param(struct cc_params *p, const char *at, size_t name_len, size_t len)
{
	const char *number = at + name_len + 1;
	uint64_t value = UINT64_MAX; /* none */
	uint32_t least, most;
	char *end;
	int rc;

	if (number[0] >= '0' && number[0] <= '9') {
		value = strtoull(number, &end, 10);
		if (end != at + len)
			value = UINT64_MAX;
	}
	rc = cc_set_param(p, at, name_len, value, &least, &most);
	if (rc == -ENOENT)
		log_warn("engine",
			 "WEFT_CC: there is no parameter %.*s; weft-congestion(7) has those there "
			 "are",
			 (int)name_len, at);
	else if (rc)
		log_warn("engine",
			 "WEFT_CC: in %.*s there is no number from %u to %u; it stays as it is",
			 (int)len, at, least, most);
}

const struct cc_ops *congestion_wanted(struct cc_params *ret)
{
	const char *at = secure_getenv("WEFT_CC");
	const struct cc_ops *cc = &cc_halving;
	char buf[128];

	*ret = cc_defaults;
	while (at) {
		size_t len = strcspn(at, ","), name_len = strcspn(at, ",=");
		const struct cc_ops *named;

		if (name_len < len) {
			set_param(ret, at, name_len, len);
		} else {
			named = cc_find(at, len);
			if (!named)
				log_warn("engine", "WEFT_CC=%.*s is none of %s; it is %s now",
					 (int)len, at, names(buf, sizeof(buf)), cc->name);
			else
				cc = named;
		}
		at = at[len] ? at + len + 1 : NULL;
	}
	return cc;
}
