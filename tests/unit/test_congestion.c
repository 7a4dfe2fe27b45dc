/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* WEFT_CC: the congestion control that the user names, and what is said of one that there is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/congestion_rules.h"

static char said[1024];
static struct cc_params params;

/* And what standard error had of it meanwhile. */
static const struct cc_ops *wanted(const char *name)
{
	struct congestion_rules *rules;
	const struct congestion *c;
	const struct cc_ops *cc;
	int fds[2], before = dup(STDERR_FILENO);
	ssize_t n;

	if (name)
		setenv("WEFT_CC", name, 1);
	else
		unsetenv("WEFT_CC");
	assert_int_equal(pipe(fds), 0);
	dup2(fds[1], STDERR_FILENO);
	close(fds[1]);
	rules = congestion_read();
	assert_non_null(rules);
	c = congestion_choose(rules, NULL, NULL);
	cc = c->cc;
	params = c->params;
	congestion_free(rules);
	dup2(before, STDERR_FILENO);
	close(before);
	n = read(fds[0], said, sizeof(said) - 1);
	assert_true(n >= 0);
	said[n] = '\0';
	close(fds[0]);
	return cc;
}

static void it_is_the_one_that_was_named(void **state)
{
	(void)state;
	assert_null(wanted(NULL));
	assert_ptr_equal(wanted("halving"), &cc_halving);
	assert_ptr_equal(wanted("none"), &cc_none);
	assert_ptr_equal(wanted("dcqcn"), &cc_dcqcn);
	assert_ptr_equal(wanted("delay"), &cc_delay);
	assert_string_equal(said, "");
	assert_memory_equal(&params, &cc_defaults, sizeof(params));
}

static void of_one_that_there_is_not_the_log_tells_which_there_are(void **state)
{
	(void)state;
	assert_null(wanted("cubic"));
	assert_non_null(strstr(said, "WEFT_CC=cubic"));
	assert_non_null(strstr(said, "halving"));
	assert_non_null(strstr(said, "dcqcn, delay and none"));
	assert_null(wanted(""));
	assert_string_equal(said, "");
}

static void parameters_are_set_by_their_names(void **state)
{
	struct cc_params want = cc_defaults;

	(void)state;
	want.rp_ai_rate = 5;
	want.np_cnp_dscp = 0;
	assert_ptr_equal(wanted("dcqcn,rp_ai_rate=5,np_cnp_dscp=0"), &cc_dcqcn);
	assert_string_equal(said, "");
	assert_memory_equal(&params, &want, sizeof(want));
	assert_null(wanted("rp_ai_rate=5,np_cnp_dscp=0"));
	assert_memory_equal(&params, &want, sizeof(want));
}

static void of_those_that_are_wrong_the_log_tells(void **state)
{
	(void)state;
	assert_ptr_equal(wanted("dcqcn,rp_quick=1,np_cnp_dscp=64,rp_ai_rate=-1,rp_gd=,rp_gd=1x"),
			 &cc_dcqcn);
	assert_memory_equal(&params, &cc_defaults, sizeof(params));
	assert_non_null(strstr(said, "there is no parameter rp_quick"));
	assert_non_null(strstr(said, "in np_cnp_dscp=64 there is no number from 0 to 63"));
	assert_non_null(strstr(said, "in rp_ai_rate=-1 there is no number from 1 to 100000"));
	assert_non_null(strstr(said, "in rp_gd= there is"));
	assert_non_null(strstr(said, "in rp_gd=1x there is"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_the_one_that_was_named),
		cmocka_unit_test(of_one_that_there_is_not_the_log_tells_which_there_are),
		cmocka_unit_test(parameters_are_set_by_their_names),
		cmocka_unit_test(of_those_that_are_wrong_the_log_tells),
	};

	unsetenv("WEFT_LOG");
	setenv("WEFT_CC_FILE", "", 1); /* nor what this machine has */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
