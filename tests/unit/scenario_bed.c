/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "scenario_bed.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

static char err[512];

struct scenario *good(const char *text)
{
	struct scenario *s = NULL;

	if (scenario_parse(&s, "t.yaml", text, strlen(text), err, sizeof(err)))
		fail_msg("%s", err);
	return s;
}

void bad(const char *text, const char *says)
{
	struct scenario *s;

	assert_int_equal(scenario_parse(&s, "t.yaml", text, strlen(text), err, sizeof(err)),
			 -EINVAL);
	if (!strstr(err, says))
		fail_msg("it says: %s\nand not: %s", err, says);
}

struct run_result *run_it(const struct scenario *s, uint64_t seed)
{
	struct run_options o = {.seed = seed};
	struct run_result *r = NULL;

	if (run(&r, s, &o, err, sizeof(err)))
		fail_msg("%s", err);
	return r;
}

double figure(const struct run_result *r, size_t i)
{
	return r->verdicts[i].got;
}

void meets_its_expectations(const char *text)
{
	struct scenario *s = good(text);
	struct run_result *r = run_it(s, 0);

	for (size_t i = 0; i < r->nverdicts; i++)
		if (!r->verdicts[i].met)
			fail_msg("%s is %g", s->expect[i].figure, figure(r, i));
	run_free(r);
	scenario_free(s);
}
