/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Input: two configurations, a zero between them. What is understood is written, read again and
 * means the same; the steps from one to the other name what there is.
 */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include <json-c/json.h>

#include "config/config.h"
#include "config/diff.h"

static struct config *read_one(const char *text, size_t len)
{
	struct json_object *doc = NULL;
	struct config *c = NULL;
	char why[300] = "";

	if (config_parse_text(text, len, &doc, why, sizeof(why)) != 0) {
		must(!doc && *why);
		return NULL;
	}
	if (config_read(doc, &c, why, sizeof(why)) != 0) {
		must(!c && *why);
		config_drop(doc);
		for (const char *p = why; *p; p++)
			must((unsigned char)*p >= ' ');
		return NULL;
	}
	return c;
}

static void check_steps(const struct config *from, const struct config *to, bool none)
{
	struct config_step *steps = NULL;
	size_t count;

	must(config_diff(from, to, &steps, &count) == 0);
	must(!none || count == 0);
	for (size_t i = 0; i < count; i++) {
		const struct config_step *s = &steps[i];

		must(s->type < STEP_TYPES && (s->subsys || s->port || s->type == STEP_DISCOVERY));
		must(!i || s[-1].type <= s->type);
		if (s->type == STEP_NS_ADD)
			must(s->ns->enable && *s->ns->path && s->ns->nsid);
	}
	free(steps);
}

static void check_same(const struct config *c)
{
	char *once = config_text(c->doc), *twice;
	struct config *again = read_one(once, strlen(once));

	must(again);
	twice = config_text(again->doc);
	must(strcmp(once, twice) == 0);
	check_steps(c, again, true);
	free(once);
	free(twice);
	config_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *zero = memchr(data, 0, size);
	size_t first = zero ? (size_t)(zero - data) : size;
	struct config *a = read_one((const char *)data, first), *b = NULL;

	if (zero)
		b = read_one((const char *)zero + 1, size - first - 1);
	if (a) {
		check_same(a);
		check_steps(NULL, a, false);
	}
	if (a && b) {
		check_steps(a, b, false);
		check_steps(b, a, false);
	}
	config_free(a);
	config_free(b);
	return 0;
}
