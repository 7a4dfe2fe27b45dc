/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* expect. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "fabric/scenario/read_priv.h"
#include "fabric/scenario/run.h"

static bool is_entry(const struct scenario *s, const char *name)
{
	for (size_t i = 0; i < s->ntraffic; i++)
		if (!strcmp(s->traffic[i].name, name))
			return true;
	return false;
}

/* That what is said besides its name is something to the figure. */
static bool check_subject(struct reader *r, const yaml_node_t *n, const struct scenario *s,
			  const struct expectation *e)
{
	const yaml_node_t *of = keys_find(r, n, "of");

	if (of && !(e->subject & (RUN_OF_TRAFFIC | RUN_OF_PORT)))
		return keys_fail(r, of, "%s is of the whole run, not of one", e->figure);
	if (of && e->subject & RUN_OF_TRAFFIC && !is_entry(s, e->of))
		return keys_fail(r, of, "there is no entry '%s' of the traffic for %s", e->of,
				 e->figure);
	if (of && e->subject & RUN_OF_PORT && is_entry(s, e->of))
		return keys_fail(r, of, "%s is of a port, as 'leaf0 -> host3', not of '%s'",
				 e->figure, e->of);
	if (!of && e->subject & RUN_OF_ONE && s->ntraffic > 1)
		return keys_fail(r, n, "%s is of one entry of the traffic: say by `of` which",
				 e->figure);
	if (!(e->subject & RUN_OF_TIME) && (keys_find(r, n, "from") || keys_find(r, n, "until")))
		return keys_fail(r, n, "of %s there is none of a part of the time", e->figure);
	if (!(e->subject & RUN_OF_SIZES) &&
	    (keys_find(r, n, "bytes_from") || keys_find(r, n, "bytes_to")))
		return keys_fail(r, n, "of %s there is none by the size of messages", e->figure);
	return true;
}

/* That there is some time of the run between from and until. */
static bool check_span(struct reader *r, const yaml_node_t *n, const struct scenario *s,
		       const struct expectation *e)
{
	if (e->until_ns > s->duration_ns)
		return keys_fail(r, keys_find(r, n, "until"),
				 "the run is over before that: lower `until`, or raise `duration`");
	if (e->from_ns >= s->duration_ns)
		return keys_fail(r, keys_find(r, n, "from"),
				 "the run is over by then: lower `from`, or raise `duration`");
	if (e->until_ns && e->from_ns >= e->until_ns)
		return keys_fail(r, n, "from is not before until: there is no time between them");
	return true;
}

static char *copy_of(struct reader *r, const yaml_node_t *n, const char *key)
{
	const char *text = keys_text(r, n, key);

	return text ? strdup(text) : NULL;
}

static bool read_expected(struct reader *r, const yaml_node_t *n, const struct scenario *s,
			  struct expectation *e)
{
	static const char *const own[] = {"figure", "of", "published", "text", NULL};

	if (!keys_is(r, n, YAML_MAPPING_NODE, "each of expect"))
		return false;
	*e = (struct expectation){.least = -INFINITY,
				  .most = INFINITY,
				  .value = NAN,
				  .line = (int)n->start_mark.line + 1};
	keys_defaults(SECTION_EXPECT, e);
	if (!keys_read(r, SECTION_EXPECT, n, e, own))
		return false;
	e->figure = copy_of(r, n, "figure");
	e->of = copy_of(r, n, "of");
	e->published = copy_of(r, n, "published");
	e->text = copy_of(r, n, "text");
	if (!e->figure)
		return keys_fail(r, n, "which `figure:`?");
	if (run_figure_subject(e->figure, &e->subject))
		return keys_fail(r, keys_find(r, n, "figure"),
				 "there is no figure '%s': weft-scenario(5) lists them", e->figure);
	if (!check_subject(r, n, s, e) || !check_span(r, n, s, e))
		return false;
	if (isnan(e->value) && isinf(e->least) && isinf(e->most))
		return keys_fail(r, n, "what is expected? Say it by `is`, `at_least` or `at_most`");
	if (!isnan(e->value)) {
		double off = fabs(e->value) * e->within;

		e->least = max_of(e->least, e->value - off);
		e->most = min_of(e->most, e->value + off);
	}
	return true;
}

bool read_expect(struct reader *r, const yaml_node_t *list, struct scenario *s)
{
	const yaml_node_t *one;

	if (!keys_is(r, list, YAML_SEQUENCE_NODE, "expect"))
		return false;
	s->expect = calloc(keys_count(list) + 1, sizeof(*s->expect));
	if (!s->expect)
		return keys_fail(r, list, "no memory");
	for (size_t i = 0; (one = keys_element(r, list, i)); i++)
		if (!read_expected(r, one, s, &s->expect[s->nexpect++]))
			return false;
	return true;
}
