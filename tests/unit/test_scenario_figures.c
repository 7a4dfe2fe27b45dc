/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What figures are made of: whose time a message's bytes count in, what an empty network would
 * take, who is a source, and which of many is a percentile. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>

#include "base/compiler.h"
#include "fabric/scenario/figures.h"
#include "scenario_bed.h"

/* What is posted behind others on its connection comes behind them: all that a line carries after
 * the warm-up is in the goodput, as in its use. */
static void a_message_counts_behind_those_before_it(void **state)
{
	struct scenario *s =
		good("duration: 60ms\n"
		     "warmup: 20ms\n"
		     "topology: {hosts: 21}\n"
		     "links: {rate: 40G}\n"
		     "hosts: {control: none}\n"
		     "traffic: [{kind: stream, from: 1-20, to: 0, bytes: 512KB, depth: 8}]\n"
		     "expect:\n"
		     "- {figure: goodput, at_least: 0}\n"
		     "- {figure: utilization, of: switch0 -> host0, at_least: 0.95}\n"
		     "- {figure: fairness, at_least: 0.99}\n");
	struct run_result *r = run_it(s, 0);
	double could = figure(r, 1) * 40 * .98; /* 4096 of 4096 + 82 */

	(void)state;
	assert_true(r->verdicts[1].met && r->verdicts[2].met);
	if (figure(r, 0) < could * .96 || figure(r, 0) > could * 1.01)
		fail_msg("%g Gb/s of %g", figure(r, 0), could);
	run_free(r);
	scenario_free(s);
}

/* The last step is as long as is left of the run. */
static void the_last_step_may_be_shorter(void **state)
{
	static const char *const steps[] = {"duration: 10ms\nstep: 3ms\n",
					    "duration: 1ms\nstep: 10ms\n"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		char text[256];
		struct scenario *s;
		struct run_result *r;
		const struct run_group *g;

		snprintf(text, sizeof(text),
			 "%shosts: {control: none}\n"
			 "traffic: [{kind: stream, from: 1, to: 0, bytes: 4KB}]\n"
			 "expect: [{figure: goodput, at_least: 1}]\n",
			 steps[i]);
		s = good(text);
		r = run_it(s, 0);
		g = &r->groups[0];
		assert_true(fabs(figure(r, 0) / g->goodput_gbps - 1) < .01);
		/* It begins with its first round trip, and is the same in the others. */
		assert_int_equal(g->goodput.n, i ? 1 : 4);
		assert_true(fabs(g->goodput.v[g->goodput.n - 1] / g->goodput_gbps - 1) < .01);
		run_free(r);
		scenario_free(s);
	}
}

static void of_a_hundred_the_99th_is_the_99th_percentile(void **state)
{
	double v[100];

	(void)state;
	for (int i = 0; i < 100; i++)
		v[i] = i + 1;
	assert_true(figures_percentile(v, 100, .5) == 50);
	assert_true(figures_percentile(v, 100, .99) == 99);
	assert_true(figures_percentile(v, 20, .95) == 19);
	assert_true(figures_percentile(v, 3, .5) == 2);
	assert_true(figures_percentile(v, 100, 1) == 100);
	assert_true(figures_percentile(v, 100, 0) == 1);
	assert_true(figures_percentile(v, 1, .99) == 1);
	assert_true(figures_percentile(v, 0, .5) == 0);
}

/* Of two frames the second, of one byte, waits at each switch for the first, which is full. */
static void an_ideal_message_is_as_fast_as_a_real_one(void **state)
{
	static const char *const shapes[] = {
		"topology: {kind: leaf-spine, leaves: 2, spines: 1, hosts: 1}\n",
		"topology: {kind: pair}\n",
		/* A fast line between slow ones, and a slow one between fast ones. */
		"topology: {kind: dumbbell, hosts: 1}\nuplinks: {rate: 100G}\n",
		"topology: {kind: dumbbell, hosts: 1}\nuplinks: {rate: 1G}\n",
		"topology: {kind: dumbbell, hosts: 1}\ninfiniband: {}\nuplinks: {rate: 1G}\n",
	};
	static const char *const bytes[] = {"4097", "8192", "100000"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(shapes) * ARRAY_SIZE(bytes); i++) {
		char text[512];

		snprintf(text, sizeof(text),
			 "%slinks: {rate: 10G, delay: 1us}\nhosts: {control: none}\n"
			 "traffic: [{kind: flows, from: 0, to: 1, bytes: %s}]\n"
			 "expect: [{figure: slowdown_p50, is: 1, within: 1%%}]\n",
			 shapes[i / ARRAY_SIZE(bytes)], bytes[i % ARRAY_SIZE(bytes)]);
		meets_its_expectations(text);
	}
}

/* A disk's time, and the fetching of what is written, are no congestion. */
static void a_command_alone_is_as_fast_as_in_an_empty_network(void **state)
{
	static const char *const what[] = {"verb: read, bytes: 4096", "verb: read, bytes: 65536",
					   "verb: write, bytes: 4096", "verb: write, bytes: 32768"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(what); i++) {
		char text[512];

		snprintf(text, sizeof(text),
			 "duration: 2ms\nwarmup: 500us\n"
			 "topology: {kind: dumbbell, hosts: 1}\n"
			 "hosts: {control: none}\n"
			 "traffic: [{kind: nvme, from: 0, to: 1, depth: 1, media: 10us, %s}]\n"
			 "expect: [{figure: slowdown_p50, is: 1, within: 2%%}]\n",
			 what[i]);
		meets_its_expectations(text);
	}
}

/* Host 1 stands twice in `from`, and host 2 once: each fills its line. */
static void a_host_is_one_source_however_often_it_is_named(void **state)
{
	struct scenario *s =
		good("duration: 2ms\nstep: 500us\n"
		     "hosts: {control: none}\n"
		     "traffic: [{kind: stream, from: [1, 1, 2], to: [3, 4, 5], pairs: yes, "
		     "bytes: 64KB}]\n"
		     "expect:\n"
		     "- {figure: fairness, at_least: 0.999}\n"
		     "- {figure: source_least, at_least: 90}\n");
	struct run_result *r = run_it(s, 0);
	const struct run_series *f = &r->groups[0].fairness_over_time;

	(void)state;
	assert_true(r->verdicts[0].met && r->verdicts[1].met);
	assert_int_equal(f->n, 4);
	for (size_t i = 0; i < f->n; i++)
		assert_true(f->v[i] > .999);
	run_free(r);
	scenario_free(s);
}

static uint64_t offered_by(const char *text)
{
	struct scenario *s = good(text);
	struct run_result *r = run_it(s, 0);
	uint64_t bytes = 0;

	for (size_t i = 0; i < r->nflows; i++)
		bytes += r->flows[i].bytes;
	run_free(r);
	scenario_free(s);
	return bytes;
}

/* Of seven lines of 100 Gb/s and one of 10, half is 222 MB in 5 ms, whoever has the slow one. */
static void the_load_is_of_all_links(void **state)
{
#define LOAD_OF_A_SLOW_ONE(kind)                                  \
	"duration: 5ms\nhosts: {queue_pairs: 16384}\n"            \
	"other_links: [{between: [host0, switch0], rate: 10G}]\n" \
	"traffic: [{kind: " kind ", bytes: 16KB, load: 50%}]\n"
	static const char *const all[] = {LOAD_OF_A_SLOW_ONE("random"),
					  LOAD_OF_A_SLOW_ONE("incast, count: 0")};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		double part = (double)offered_by(all[i]) / (710e9 / 8 * .5 * 5e-3);

		if (part < .95 || part > 1.05)
			fail_msg("%g of what is said", part);
	}
}

/* A run that is over early, and an entry of which no message has begun. */
static void of_nothing_there_is_no_figure(void **state)
{
	struct scenario *s = good("duration: 1ms\nuntil_done: yes\n"
				  "traffic:\n"
				  "- {kind: flows, from: 1, to: 0, bytes: 64}\n"
				  "- {kind: random, bytes: 1GB, load: 0.01%}\n"
				  "expect:\n"
				  "- {figure: done, of: random, at_least: 0}\n"
				  "- {figure: failed, of: random, at_most: 0}\n"
				  "- {figure: done, of: flows, at_least: 1}\n"
				  "- {figure: failed, at_most: 0}\n");
	struct run_result *r = run_it(s, 0);

	(void)state;
	assert_int_equal(r->groups[1].flows, 0);
	assert_false(r->verdicts[0].met || r->verdicts[1].met);
	assert_true(r->verdicts[2].met && r->verdicts[3].met);
	run_free(r);
	scenario_free(s);
	s = good("duration: 1ms\nuntil_done: yes\n"
		 "traffic: [{kind: flows, from: 1, to: 0, bytes: 64}]\n"
		 "expect: [{figure: goodput, from: 900us, at_most: 0}]\n");
	r = run_it(s, 0);
	assert_false(r->verdicts[0].met);
	run_free(r);
	scenario_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_counts_behind_those_before_it),
		cmocka_unit_test(the_last_step_may_be_shorter),
		cmocka_unit_test(of_a_hundred_the_99th_is_the_99th_percentile),
		cmocka_unit_test(an_ideal_message_is_as_fast_as_a_real_one),
		cmocka_unit_test(a_command_alone_is_as_fast_as_in_an_empty_network),
		cmocka_unit_test(a_host_is_one_source_however_often_it_is_named),
		cmocka_unit_test(the_load_is_of_all_links),
		cmocka_unit_test(of_nothing_there_is_no_figure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
