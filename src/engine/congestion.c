/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "engine/congestion.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* "halving, dcqcn, delay and none" */
static const char *names(char *buf, size_t size)
{
	size_t n = 0;

	for (const struct cc_ops *cc = cc_next(NULL); cc && n < size; cc = cc_next(cc)) {
		const char *between = n == 0 ? "" : cc_next(cc) ? ", " : " and ";

		n += (size_t)snprintf(buf + n, size - n, "%s%s", between, cc->name);
	}
	return buf;
}

static void set_param(struct congestion_place place, struct cc_params *p, const char *at,
		      size_t name_len, size_t len)
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
			 "%s: there is no parameter %.*s; weft-congestion(7) has those there are; "
			 "this one is passed over",
			 place.name, (int)name_len, at);
	else if (rc)
		log_warn("engine",
			 "%s: in %.*s there is no number from %u to %u; it stays as it is",
			 place.name, (int)len, at, least, most);
}

bool congestion_say(const char *words, struct congestion_place place, const struct cc_ops **cc,
		    struct cc_params *params)
{
	bool known = true;
	char buf[128];

	for (const char *at = words; at;) {
		size_t len = strcspn(at, ","), name_len = strcspn(at, ",=");
		const struct cc_ops *named = cc_find(at, len);

		if (name_len < len) {
			set_param(place, params, at, name_len, len);
		} else if (named) {
			*cc = named;
		} else {
			known = false;
			log_warn("engine", "%s%s%.*s is none of %s; %s is passed over", place.name,
				 place.line ? ": " : "=", (int)len, at, names(buf, sizeof(buf)),
				 place.line ? "the line" : "it");
		}
		at = at[len] ? at + len + 1 : NULL;
	}
	return known;
}
