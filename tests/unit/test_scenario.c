/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Scenarios: what is wrong in a file is named with its line, and what is left out has its default;
 * a run is the same for the same seed; figures are what arithmetic says. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "fabric/scenario/quantity.h"
#include "scenario_bed.h"

static char err[512];

static void quantities_have_units(void **state)
{
	static const struct {
		enum quantity quantity;
		const char *text;
		double value;
	} all[] = {
		{QUANTITY_RATE, "100G", 100000}, {QUANTITY_RATE, "2.5Gb/s", 2500},
		{QUANTITY_TIME, "1.5us", 1500},	 {QUANTITY_TIME, "10 ms", 1e7},
		{QUANTITY_BYTES, "64KB", 64000}, {QUANTITY_BYTES, "1MiB", 1048576},
		{QUANTITY_PART, "30%", .3},	 {QUANTITY_PART, "1/8", .125},
		{QUANTITY_PART, "1e-5", 1e-5},	 {QUANTITY_TIME, "0", 0},
	};
	double v;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		assert_true(quantity_parse(all[i].quantity, all[i].text, &v));
		assert_true(fabs(v - all[i].value) <= 1e-9 * all[i].value);
	}
	assert_false(quantity_parse(QUANTITY_TIME, "10", &v));
	assert_false(quantity_parse(QUANTITY_TIME, "10G", &v));
	assert_false(quantity_parse(QUANTITY_RATE, "fast", &v));
	assert_false(quantity_parse(QUANTITY_PART, "1/0", &v));
	assert_false(quantity_parse(QUANTITY_NUMBER, "nan", &v));
	assert_false(quantity_parse(QUANTITY_NUMBER, "", &v));
}

static void what_is_left_out_has_its_default(void **state)
{
	struct scenario *s = good(STREAM);

	(void)state;
	assert_int_equal(s->seed, 1);
	assert_int_equal(s->duration_ns, 10000000);
	assert_int_equal(s->step_ns, 50000);
	assert_int_equal(s->network.topology.kind, TOPOLOGY_STAR);
	assert_int_equal(s->network.topology.hosts, 8);
	assert_int_equal(s->network.topology.looped, -1);
	assert_int_equal(s->network.link.rate_mbps, 100000);
	assert_int_equal(s->network.uplink.delay_ns, 1000);
	assert_string_equal(s->network.host.cc->name, "dcqcn");
	assert_int_equal(s->network.host.params.rp_max_rate, 100000);
	assert_int_equal(s->network.host.mtu, RNIC_MTU_4096);
	assert_true(s->network.headroom == UINT64_MAX);
	assert_int_equal(s->network.netswitch.buffer.lossless, 1u << 3);
	assert_int_equal(s->traffic[0].from.n, 1);
	assert_int_equal(s->traffic[0].bytes, 1000000);
	assert_int_equal(s->traffic[0].dscp, -1);
	assert_string_equal(s->traffic[0].name, "stream");
	assert_string_equal(s->name, "t");
	scenario_free(s);
}

/* Nor has one that has none the name that another was given. */
static void each_has_a_name_of_its_own(void **state)
{
	struct scenario *s = good("traffic: [{kind: stream, name: stream2}, {kind: stream}, {kind: "
				  "stream}, {kind: storm, every: 1ms}]\n");

	(void)state;
	assert_string_equal(s->traffic[0].name, "stream2");
	assert_string_equal(s->traffic[1].name, "stream3");
	assert_string_equal(s->traffic[2].name, "stream4");
	assert_string_equal(s->traffic[3].name, "storm");
	scenario_free(s);
}

static void what_is_said_counts(void **state)
{
	struct scenario *s =
		good("seed: 9\n"
		     "topology: {kind: leaf-spine, leaves: 2, spines: 1, hosts: 2}\n"
		     "links: {rate: 25G, delay: 2us}\n"
		     "uplinks: {rate: 100G}\n"
		     "other_links: [{between: [leaf1, spine0], delay: 1ms}]\n"
		     "hosts: {control: none, mtu: 1024, recovery: selective, parameters: "
		     "{rp_ai_rate: 7}}\n"
		     "switches: {headroom: 5KB, lossless: [], weights: {2: 5}, ecn_chance: 1%}\n"
		     "traffic:\n"
		     "- {kind: random, sizes: [[1KB, 50%], [2KB, 1]], load: 30%}\n"
		     "- {kind: stream, from: [0-1, 3], to: 2, verb: read}\n"
		     "- {kind: stream}\n"
		     "expect: [{figure: goodput, of: random, is: 5, within: 20%, published: x}]\n");

	(void)state;
	assert_int_equal(s->network.link.delay_ns, 2000);
	assert_int_equal(s->network.uplink.rate_mbps, 100000);
	assert_int_equal(s->network.uplink.delay_ns, 2000);
	assert_int_equal(s->network.overrides[0].line.delay_ns, 1000000);
	assert_int_equal(s->network.overrides[0].line.rate_mbps, 100000);
	assert_int_equal(s->network.host.params.rp_ai_rate, 7);
	assert_int_equal(s->network.host.params.rp_max_rate, 25000);
	assert_true(s->network.host.selective);
	assert_int_equal(s->network.headroom, 5000);
	assert_int_equal(s->network.netswitch.buffer.lossless, 0);
	assert_int_equal(s->network.netswitch.scheduler.weight[2], 5);
	assert_int_equal(s->network.netswitch.mark.ppm, 10000);
	assert_int_equal((int)sizes_mean(&s->traffic[0].sizes), 500 + 750);
	assert_int_equal(s->traffic[1].from.n, 3);
	assert_int_equal(s->traffic[1].from.v[2], 3);
	assert_true(s->traffic[1].reads);
	assert_string_equal(s->traffic[2].name, "stream2");
	assert_true(s->expect[0].least == 4 && s->expect[0].most == 6);
	scenario_free(s);
}

static void what_is_wrong_is_named_with_its_line(void **state)
{
	(void)state;
	bad("", "a scenario is keys with values");
	bad("a: [", "t.yaml:");
	bad("seed: 1\n", "nobody sends anything");
	bad("sed: 1\n" STREAM, "t.yaml:1: there is no key 'sed' here; is 'seed' meant?");
	bad(STREAM "seed: 1\nseed: 2\n", "'seed' stands here twice");
	bad(STREAM "duration: 10\n", "t.yaml:2: duration takes a time, as 10ms");
	bad(STREAM "warmup: 10ms\n", "the warm-up is as long as all of it");
	bad(STREAM "topology: {kind: torus}\n", "kind is one of pair, star");
	bad(STREAM "topology: {hosts: 0}\n", "hosts: '0' is too little");
	bad(STREAM "topology: 5\n", "keys with values");
	bad(STREAM "topology: {kind: fat-tree, cores: 3}\n", "3 cores cannot be shared by 2");
	bad(STREAM "hosts: {control: magic}\n", "control is one of halving, dcqcn");
	bad(STREAM "hosts: {parameters: {rp_x: 1}}\n", "there is no parameter 'rp_x'");
	bad(STREAM "hosts: {parameters: {rp_gd: 99}}\n", "rp_gd is between 0 and 15");
	bad(STREAM "switches: {lossless: 3}\n", "lossless takes a list");
	bad(STREAM "switches: {lossless: [8]}\n", "a priority is a number from 0 to 7");
	bad(STREAM "hosts: {parameters: {rp_gd: 9, rp_gd: 8}}\n", "'rp_gd' stands here twice");
	bad(STREAM "switches: {weights: {3: 20, 3: 30}}\n", "a priority stands here twice: 3");
	bad(STREAM "switches: {weights: {8: 20}}\n", "a priority is a number from 0 to 7, not '8'");
	bad(STREAM "switches: {weights: {3: 1.5}}\n",
	    "a weight is a number from 1 to 255, not '1.5'");
	bad(STREAM "other_links: [{between: [host0]}]\n", "takes the two ends");
	bad(STREAM "other_links:\n"
		   "- {between: [host0, switch0], rate: 10G}\n"
		   "- {between: [switch0, host0], delay: 1ms}\n",
	    "t.yaml:4: the link between 'switch0' and 'host0' is in line 3 already");
	bad(STREAM "topology: {kind: fat-tree, leaves: 8, spines: 4}\n",
	    "'leaves' is nothing to 'fat-tree', which has pods edges aggregations cores hosts");
	bad(STREAM "topology: {leaves: 8}\n", "'leaves' is nothing to 'star', which has hosts");
	bad(STREAM "topology: {kind: pair, hosts: 64}\n", "'hosts' is nothing to 'pair'");
	bad(STREAM "topology: {kind: leaf-spine, looped_host: 3}\n",
	    "'looped_host' is nothing to 'leaf-spine'");
	bad(STREAM "topology: {kind: ring, looped_host: 24}\n",
	    "looped_host is a host of the ring, 0 to 23, or -1");
	bad("traffic: [{kind: stream, start: 10ms}]\n", "it does not start before the run is over");
	bad("traffic: [{from: 1}]\n", "what is done here?");
	bad("traffic: [{kind: stream, from: 8, to: 0}]\n", "there is no host 8: they are 0 to 7");
	bad("traffic: [{kind: stream, from: 0, to: 0}]\n", "nobody in `from`");
	bad("traffic: [{kind: storm}]\n", "a storm needs `every`");
	bad("traffic: [{kind: trace}]\n", "a trace needs a `file`");
	bad("traffic: [{kind: trace, file: none.csv}]\n", "none.csv: ");
	bad("traffic: [{kind: random, sizes: [[1KB, 50%]]}]\n", "the last point of sizes is 100%");
	bad("traffic: [{kind: random, sizes: novel}]\n", "sizes is one of web-search, hadoop");
	bad("traffic: [{kind: stream, name: a}, {kind: stream, name: a}]\n",
	    "there is a 'a' already");
	bad("traffic: [{kind: datagrams, bytes: 8192}]\n", "no more than the hosts' mtu, 4096");
	bad("traffic: [{kind: nvme, depth: 32}]\n", "a queue has 31 entries at most");
	bad("traffic: [{kind: nvme, bytes: 1MB}]\n", "a command moves 262144 bytes at most");
	bad(STREAM "infiniband: {}\nswitches: {}\n", "switches are Ethernet's");
	bad(STREAM "infiniband: {lanes: 3}\n", "lanes are 1, 2, 4 or 8, not 3");
	bad(STREAM "infiniband: {routing: magic}\n", "routing is one of min-hop, up-down");
	bad(STREAM "infiniband: {buffer: 4096}\n", "a buffer of 4096 bytes holds no frame");
	bad(STREAM "infiniband: {lane_of: {3: 1}}\n", "a lane is a number from 0 to 0, not '1'");
	bad(STREAM "infiniband: {lanes: 2, weights: {0: 1}}\n",
	    "weights or high are to name each lane");
	bad(STREAM "infiniband: {lanes: 2, lane_of: {0: 0, 0: 1}}\n", "stands here twice: 0");
	bad(STREAM "expect: [{figure: goodput, of: nobody, is: 1}]\n",
	    "there is no entry 'nobody' of the traffic for goodput");
	bad(STREAM "expect: [{figure: queue_most, of: stream, is: 1}]\n",
	    "queue_most is of a port");
	bad(STREAM "expect: [{figure: cnps, of: stream, is: 1}]\n", "cnps is of the whole run");
	bad(STREAM "expect: [{figure: goodput, from: 2ms, until: 2ms, at_most: 0}]\n",
	    "there is no time between them");
	bad(STREAM "expect: [{figure: goodput, until: 11ms, is: 1}]\n", "lower `until`");
	bad(STREAM "expect: [{figure: goodput, from: 10ms, is: 1}]\n", "lower `from`");
	bad(STREAM "expect: [{figure: dropped, from: 1ms, is: 1}]\n", "none of a part of the time");
	bad(STREAM "expect: [{figure: goodput, bytes_to: 1KB, is: 1}]\n", "none by the size");
	bad("traffic: [{kind: stream}, {kind: flows}]\nexpect: [{figure: fairness, is: 1}]\n",
	    "say by `of` which");
	bad(STREAM "infiniband: {lanes: 1.5}\n", "lanes takes a whole number");
	bad(STREAM "infiniband: {}\nhosts: {watchdog: 1ms}\n", "t.yaml:3: watchdog is Ethernet's");
	bad(STREAM "infiniband: {}\nlinks: {mtu: 1500}\n", "t.yaml:3: the mtu of links is");
	bad(STREAM "infiniband: {}\nother_links: [{between: [host0, switch0], mtu: 1500}]\n",
	    "say `hosts: mtu`");
	bad("infiniband: {}\ntraffic: [{kind: storm, every: 1ms}]\n", "pauses are Ethernet's");
	bad("traffic: [{kind: datagrams, bytes: 64, verb: read}]\n",
	    "'verb' is nothing to 'datagrams', which has from to pairs bytes depth stop");
	bad("traffic: [{kind: flows, sizes: hadoop}]\n", "'sizes' is nothing to 'flows'");
	bad("traffic: [{kind: flows, pair: yes}]\n", "there is no key 'pair' here");
	bad("traffic: [{kind: all-to-all, stop: 1ms}]\n", "'stop' is nothing to 'all-to-all'");
	bad("traffic: [{kind: random, pairs: yes}]\n", "'pairs' is nothing to 'random'");
	bad("traffic: [{kind: incast, every: 1ms}]\n", "say how many by `count`");
	bad("traffic: [{kind: storage, from: all, to: 0}]\n",
	    "nobody but itself in `to` for host 0");
	bad("traffic: [{kind: unreliable, sizes: hadoop}]\n", "'sizes' is nothing to 'unreliable'");
	bad(STREAM "switches: {headroom: 9223372036854775808}\n",
	    "headroom takes so many bytes, as 4096, 64KB or 1MiB, at most 1GB");
	bad(STREAM "topology: {kind: fat-tree, pods: 256, edges: 256, hosts: 65536}\n",
	    "these are 4294967296 hosts, more than 65536");
	bad(STREAM "expect: [{figure: speed, is: 1}]\n", "there is no figure 'speed'");
	bad(STREAM "expect: [{figure: goodput}]\n", "what is expected?");
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void what_cannot_be_is_told_when_it_runs(void **state)
{
	static const struct {
		const char *text, *says;
	} all[] = {
		{STREAM "other_links: [{between: [host0, host1]}]\n", "there is no link between"},
		{STREAM "topology: {hosts: 255}\ninfiniband: {}\n",
		 "switch0 has 255 ports, and a switch of InfiniBand has 254 at most"},
		{STREAM "switches: {buffer: 100KB, headroom: 50KB}\n", "more than its buffer"},
		{STREAM "expect: [{figure: dropped, of: nobody, is: 1}]\n",
		 "t:2: there is no port 'nobody' for dropped: one is 'host0 -> switch0'"},
		{STREAM "hosts: {queue_pairs: 4}\ntopology: {hosts: 64}\n"
			"switches: {buffer: 1GB}\nduration: 1ms\n",
		 NULL},
		{"hosts: {queue_pairs: 4}\ntraffic: [{kind: random, load: 100%, bytes: 1MB}]\n",
		 "no room for more queue pairs at once; raise `hosts: queue_pairs`"},
		{"hosts: {queue_pairs: 4}\ntraffic: [{kind: all-to-all}]\n",
		 "traffic 'all-to-all' cannot begin: a host has no room for so many queue pairs"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		struct scenario *s = good(all[i].text);
		struct run_options o = {0};
		struct run_result *r;
		int rc = run(&r, s, &o, err, sizeof(err));

		if (all[i].says) {
			assert_true(rc < 0);
			if (!strstr(err, all[i].says))
				fail_msg("it says: %s\nand not: %s", err, all[i].says);
		} else {
			assert_int_equal(rc, 0);
			run_free(r);
		}
		scenario_free(s);
	}
}

static void the_same_seed_is_the_same_run_of(const char *text)
{
	struct scenario *s = good(text);
	struct run_result *a = run_it(s, 0), *b = run_it(s, 0), *c = run_it(s, 2);

	assert_true(a->nflows > 10);
	assert_int_equal(a->nflows, b->nflows);
	assert_memory_equal(a->flows, b->flows, a->nflows * sizeof(*a->flows));
	assert_int_equal(a->totals.happenings, b->totals.happenings);
	assert_true(a->totals.happenings != c->totals.happenings);
	run_free(a);
	run_free(b);
	run_free(c);
	scenario_free(s);
}

static void the_same_seed_is_the_same_run(void **state)
{
	(void)state;
	the_same_seed_is_the_same_run_of(
		"duration: 2ms\ntraffic: [{kind: random, sizes: hadoop, load: 40%}]\n");
	the_same_seed_is_the_same_run_of("duration: 2ms\n"
					 "links: {loss: 1e-4}\n"
					 "infiniband: {lanes: 2, sweep: 500us}\n"
					 "traffic: [{kind: random, sizes: hadoop, load: 40%}]\n");
	the_same_seed_is_the_same_run_of(
		"duration: 1ms\nlinks: {loss: 1e-3}\n"
		"traffic: [{kind: nvme, from: 1-3, to: 0, sizes: [[4KB, 50%], [64KB, 100%]]}]\n");
}

/* A message of 1 MB at 10 Gb/s over a switch: 245 packets of 4096 with 90 bytes of headers and gap
 * each, 82 for those behind the first. */
static void figures_are_what_arithmetic_says(void **state)
{
	struct scenario *s = good(
		"duration: 20ms\n"
		"topology: {hosts: 3}\n"
		"links: {rate: 10G, delay: 10us}\n"
		"hosts: {control: none}\n"
		"traffic:\n"
		"- {kind: flows, name: one, from: 1, to: 0, bytes: 1MB, count: 5, every: 2ms}\n"
		"expect:\n"
		"- {figure: fct_p50, is: 863us, within: 1%}\n"
		"- {figure: slowdown_p99, is: 1, within: 1%}\n"
		"- {figure: goodput, is: 2, within: 1%}\n"
		"- {figure: goodput, from: 1ms, until: 2ms, at_most: 0}\n"
		"- {figure: done, is: 1, within: 0}\n"
		"- {figure: dropped, at_most: 0}\n"
		"- {figure: goodput, of: one, at_least: 3}\n"
		"- {figure: slowdown_p50, bytes_to: 10, at_least: 0}\n");
	struct run_result *r = run_it(s, 0);

	(void)state;
	for (size_t i = 0; i < 6; i++)
		if (!r->verdicts[i].met)
			fail_msg("%s is %g", r->verdicts[i].expected->figure, figure(r, i));
	assert_false(r->verdicts[6].met);
	assert_false(r->verdicts[7].met); /* of nothing */
	assert_int_equal(r->nflows, 5);
	assert_int_equal(r->totals.packets, 5 * 245);
	assert_int_equal(r->nsizes, 1);
	assert_int_equal(r->sizes[0].flows, 5);
	assert_true(r->sizes[0].fct_p50_ns > 855000 && r->sizes[0].fct_p50_ns < 871000);
	assert_int_equal(r->sizes[0].fct_p99_ns, r->sizes[0].fct_p50_ns);
	assert_int_equal(r->groups[0].fairness_over_time.n, 0); /* of one */
	run_free(r);
	scenario_free(s);
}

/* What is lost, marked and paused before the warm-up is over is not among them. */
static void figures_begin_with_the_end_of_the_warm_up(void **state)
{
	struct scenario *s =
		good("duration: 20ms\n"
		     "warmup: 10ms\n"
		     "links: {rate: 10G}\n"
		     "hosts: {timeout: 9}\n"
		     "switches: {buffer: 500KB, lossless: []}\n"
		     "traffic:\n"
		     "- {kind: flows, name: early, from: 1-7, to: 0, bytes: 500KB}\n"
		     "- {kind: flows, name: late, from: 1, to: 0, bytes: 1MB, count: 8, every: "
		     "1ms, start: 11ms}\n"
		     "expect:\n"
		     "- {figure: dropped, at_most: 0}\n"
		     "- {figure: dropped, of: switch0 -> host0, at_most: 0}\n"
		     "- {figure: marked, at_most: 0}\n"
		     "- {figure: resent, at_most: 0}\n"
		     "- {figure: cnps, at_most: 0}\n"
		     "- {figure: utilization, of: switch0 -> host0, is: 0.66, within: 5%}\n"
		     "- {figure: done, of: early, at_least: 0.9}\n");
	struct run_result *r = run_it(s, 0);

	(void)state;
	for (size_t i = 0; i < r->nverdicts; i++)
		if (!r->verdicts[i].met)
			fail_msg("%s is %g", r->verdicts[i].expected->figure, figure(r, i));
	assert_true(r->marks.n == 200);
	run_free(r);
	s->warmup_ns = 0;
	r = run_it(s, 0);
	assert_true(figure(r, 0) > 0 && figure(r, 3) > 0);
	run_free(r);
	scenario_free(s);
}

/* Of two who send 1 MB each one is ten times as fast: 1 and 0.12 MB in the first millisecond, then
 * what the other still has, then nothing. */
static void fairness_changes_with_time(void **state)
{
	struct scenario *s = good("duration: 12ms\nstep: 1ms\nlinks: {rate: 10G}\n"
				  "other_links: [{between: [host2, switch0], rate: 1G}]\n"
				  "traffic: [{kind: flows, from: 1-2, to: 0}]\n");
	struct run_result *r = run_it(s, 0);
	const struct run_series *f = &r->groups[0].fairness_over_time;

	(void)state;
	assert_int_equal(f->n, 12);
	assert_true(f->v[0] > .58 && f->v[0] < .65);
	assert_true(f->v[4] > .499 && f->v[4] < .501);
	assert_true(f->v[11] == 1);
	run_free(r);
	scenario_free(s);
}

static size_t flows_of(const char *text, uint64_t *ret_bytes)
{
	struct scenario *s = good(text);
	struct run_result *r = run_it(s, 0);
	size_t n = r->groups[0].flows;

	for (size_t i = 0; ret_bytes && i < r->nflows; i++)
		*ret_bytes += r->flows[i].bytes;
	run_free(r);
	scenario_free(s);
	return n;
}

/* However few there are to send, and though who is sent to does not. */
static void incasts_come_as_often_as_is_said(void **state)
{
	(void)state;
	assert_int_equal(flows_of("traffic: [{kind: incast, bytes: 1KB}]\n", NULL), 7);
	assert_int_equal(flows_of("traffic: [{kind: incast, from: 1-2, bytes: 1KB}]\n", NULL), 2);
	assert_int_equal(flows_of("traffic: [{kind: incast, fan_in: 3, count: 5, every: 100us, "
				  "bytes: 1KB}]\n",
				  NULL),
			 15);
}

/* Though messages come faster than nanoseconds: 0.2 of 64 lines of 100 Gb/s for 100 us are 1.6 MB.
 */
static void the_load_is_what_is_said(void **state)
{
	uint64_t bytes = 0;

	(void)state;
	flows_of("duration: 100us\ntopology: {hosts: 64}\nhosts: {queue_pairs: 4096}\n"
		 "traffic: [{kind: random, bytes: 64, load: 20%}]\n",
		 &bytes);
	assert_true(bytes > 16000000 * .98 && bytes < 16000000 * 1.02);
}

/* A message is due each 10 us, and takes 80. */
static void messages_that_are_due_wait_for_room(void **state)
{
	(void)state;
	assert_int_equal(flows_of("traffic: [{kind: flows, from: 1, to: 0, bytes: 1MB, "
				  "every: 10us, count: 100}]\n",
				  NULL),
			 100);
}

static void a_trace_is_played(void **state)
{
	char dir[] = "/tmp/weft-trace-XXXXXX", path[64], text[256];
	struct run_result *r;
	struct scenario *s;
	FILE *f;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/t.csv", dir);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs("start,from,to,bytes\n0.002,1,2,5000\n# later ones may come first\n0.001,3,0,100\n",
	      f);
	fclose(f);
	snprintf(text, sizeof(text), "until_done: yes\ntraffic: [{kind: trace, file: %s}]\n", path);
	s = good(text);
	r = run_it(s, 0);
	assert_int_equal(r->nflows, 2);
	assert_int_equal(r->flows[0].start_ns, 1000000);
	assert_int_equal(r->flows[0].from, 3);
	assert_int_equal(r->flows[1].bytes, 5000);
	assert_true(r->flows[0].took_ns && r->flows[1].took_ns);
	assert_in_range(r->totals.ended_ns, 2000000, 2200000);
	run_free(r);
	scenario_free(s);
	unlink(path);
	rmdir(dir);
}

/* Messages that begin at once are those of the file one after the other, whatever the C library's
 * qsort() does. */
static void a_trace_of_equal_starts_keeps_its_order(void **state)
{
	char path[] = "/tmp/weft-trace-XXXXXX", text[128];
	struct scenario *s;
	int fd = mkstemp(path);
	FILE *f = fdopen(fd, "w");

	(void)state;
	assert_non_null(f);
	for (unsigned i = 0; i < 1000; i++)
		fprintf(f, "0.00%u,%u,%u,%u\n", i % 3, i % 7, 7, i + 1);
	fclose(f);
	snprintf(text, sizeof(text), "traffic: [{kind: trace, file: %s}]\n", path);
	s = good(text);
	assert_int_equal(s->traffic[0].ntrace, 1000);
	for (size_t i = 1; i < 1000; i++) {
		const struct trace_line *l = &s->traffic[0].trace[i];

		assert_true(l->start_ns > l[-1].start_ns || l->bytes > l[-1].bytes);
	}
	scenario_free(s);
	unlink(path);
}

static void storage_reads_and_allreduce_end(void **state)
{
	struct scenario *s =
		good("until_done: yes\nduration: 100ms\n"
		     "traffic:\n"
		     "- {kind: allreduce, bytes: 1MB, count: 2}\n"
		     "- {kind: allreduce, algorithm: tree, bytes: 100KB, from: 0-6}\n"
		     "- {kind: all-to-all, bytes: 1KB, verb: read}\n"
		     "- {kind: storage, from: 0-3, to: 4-7, bytes: 64KB, stop: 1ms}\n");
	struct run_result *r = run_it(s, 0);

	(void)state;
	assert_int_equal(r->groups[0].done, 2 * 8 * 2 * 7);
	assert_int_equal(r->groups[1].done, 6 + 6);
	assert_int_equal(r->groups[2].done, 8 * 7);
	assert_true(r->groups[3].done > 16);
	for (size_t i = 0; i < r->ngroups; i++)
		assert_int_equal(r->groups[i].done, r->groups[i].flows);
	assert_true(r->totals.ended_ns < 10000000);
	run_free(r);
	scenario_free(s);
}

/* By host and target of the product, though frames are lost; over either kind of link. */
static void nvme_commands_end(void **state)
{
	static const char *const links[] = {"switches: {lossless: []}\n",
					    "infiniband: {lanes: 4}\n"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		char text[1024];
		struct scenario *s;
		struct run_result *r;

		snprintf(text, sizeof(text),
			 "until_done: yes\nduration: 1s\n"
			 "topology: {kind: star, hosts: 5}\n"
			 "links: {loss: 0.05%%}\n"
			 "hosts: {recovery: %s}\n%s"
			 "traffic:\n"
			 "- {kind: nvme, from: 0-2, to: 3-4, bytes: 4096, depth: 31, stop: 2ms}\n"
			 "- {kind: nvme, verb: write, from: 0, to: 1, bytes: 256KiB, depth: 4, "
			 "media: 5us, stop: 2ms}\n"
			 "- {kind: nvme, verb: write, from: 4, to: 1, bytes: 512, media: 20us, "
			 "stop: 2ms}\n",
			 i ? "selective" : "go-back-n", links[i]);
		s = good(text);
		r = run_it(s, 0);
		for (size_t k = 0; k < r->ngroups; k++) {
			assert_true(r->groups[k].flows > 4);
			assert_int_equal(r->groups[k].done, r->groups[k].flows);
		}
		assert_true(r->totals.lost > 0);
		assert_true(r->totals.resent > 0);
		/* No command of the last is faster than its disk. */
		for (size_t k = 0; k < r->nflows; k++)
			assert_true(r->flows[k].group != 2 || r->flows[k].took_ns > 20000);
		run_free(r);
		scenario_free(s);
	}
}

/* What is lost of these nobody sends again, and goodput is what arrives. */
/* A target reads what a host writes; the host, whose commands are small, answers as fast as it is
 * asked, however far away. */
static void far_hosts_write_as_fast_by_delay_as_without(void **state)
{
	static const char *const control[] = {"none", "delay"};
	double goodput[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		char text[512];
		struct run_result *r;
		struct scenario *s;

		snprintf(text, sizeof(text),
			 "duration: 100ms\nwarmup: 50ms\ntopology: {kind: pair}\n"
			 "links: {rate: 10G, delay: 500us}\n"
			 "hosts: {control: %s, recovery: selective}\n"
			 "traffic: [{kind: nvme, verb: write, from: 1, to: 0, bytes: 131072, "
			 "depth: 31}]\n"
			 "expect: [{figure: goodput, at_least: 1}]\n",
			 control[i]);
		s = good(text);
		r = run_it(s, 0);
		goodput[i] = figure(r, 0);
		run_free(r);
		scenario_free(s);
	}
	if (goodput[1] < goodput[0] * .9)
		fail_msg("%g Gb/s by delay, %g without", goodput[1], goodput[0]);
}

static void unreliable_messages_may_be_lost(void **state)
{
	struct scenario *s =
		good("duration: 2ms\n"
		     "topology: {kind: star, hosts: 6}\n"
		     "links: {loss: 1%}\n"
		     "hosts: {dscp: 0}\n"
		     "switches: {buffer: 1MB}\n"
		     "traffic:\n"
		     "- {kind: datagrams, from: 1, to: 0, bytes: 4096, stop: 1ms}\n"
		     "- {kind: unreliable, from: 2-3, to: 4, bytes: 16KiB, stop: 1ms}\n");
	struct run_result *r = run_it(s, 0);

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		assert_true(r->groups[i].bytes > 0);
		assert_true(r->groups[i].bytes < r->groups[i].flows * (i ? 16384 : 4096));
		assert_int_equal(r->groups[i].failed, 0);
	}
	/* Alone on a link, 2 of 100 datagrams are lost by the two links' errors. */
	assert_true((double)r->groups[0].bytes / (double)r->groups[0].flows / 4096 > .95);
	assert_int_equal(r->totals.resent, 0);
	run_free(r);
	scenario_free(s);
}

/* Many at once: completions do not outgrow their queue where a lane has to wait. */
static void datagrams_go_on_where_a_lane_stops(void **state)
{
#define MANY_DATAGRAMS                                                              \
	"duration: 500us\n"                                                         \
	"topology: {hosts: 11}\n"                                                   \
	"traffic: [{kind: datagrams, from: 3-10, to: 0-2, bytes: 64, depth: 32}]\n" \
	"expect:\n"                                                                 \
	"- {figure: goodput, from: 400us, at_least: 80}\n"                          \
	"- {figure: dropped, at_most: 0}\n"
	(void)state;
	meets_its_expectations(MANY_DATAGRAMS);
	meets_its_expectations("infiniband: {}\n" MANY_DATAGRAMS);
}

/* Eight send datagrams in one lane to a host that has room for one of them; the other lane of the
 * first has the rest of its line. */
static void a_lane_that_waits_holds_up_no_other(void **state)
{
	(void)state;
	meets_its_expectations("duration: 2ms\n"
			       "warmup: 200us\n"
			       "topology: {hosts: 10}\n"
			       "infiniband: {lanes: 2}\n"
			       "traffic:\n"
			       "- {kind: datagrams, from: 1-8, to: 0, bytes: 4096, dscp: 0}\n"
			       "- {kind: stream, from: 1, to: 9, bytes: 64KB, dscp: 8}\n"
			       "expect:\n"
			       "- {figure: goodput, of: datagrams, at_least: 90}\n"
			       "- {figure: goodput, of: stream, at_least: 80}\n"
			       "- {figure: dropped, at_most: 0}\n");
}

/* And the other way round: the datagrams are of the lane that does not stop, one at a time. */
static void a_datagram_waits_for_its_own_lane(void **state)
{
	(void)state;
	meets_its_expectations(
		"duration: 2ms\n"
		"warmup: 200us\n"
		"topology: {hosts: 10}\n"
		"infiniband: {lanes: 2}\n"
		"traffic:\n"
		"- {kind: stream, from: 1-8, to: 0, bytes: 64KB, dscp: 0}\n"
		"- {kind: datagrams, from: 1, to: 9, bytes: 4096, depth: 1, dscp: 8}\n"
		"expect:\n"
		"- {figure: goodput, of: stream, at_least: 90}\n"
		"- {figure: goodput, of: datagrams, at_least: 80}\n"
		"- {figure: dropped, at_most: 0}\n");
}

static void what_is_lost_with_its_connection_is_told(void **state)
{
	(void)state;
	meets_its_expectations("duration: 20ms\n"
			       "links: {loss: 100%}\n"
			       "hosts: {retries: 0, timeout: 8}\n"
			       "traffic: [{kind: stream, from: 0, to: 1-7, bytes: 64, depth: 32}]\n"
			       "expect: [{figure: failed, is: 224, within: 0}]\n");
}

static void the_time_before_a_run_is_in_no_figure(void **state)
{
	(void)state;
	meets_its_expectations("duration: 100us\n"
			       "topology: {hosts: 64}\n"
			       "infiniband: {}\n"
			       "traffic: [{kind: flows, from: 1, to: 2, bytes: 4096}]\n"
			       "expect:\n"
			       "- {figure: subnet, at_least: 20}\n"
			       "- {figure: utilization, of: 'host0 -> switch0', at_most: 0}\n"
			       "- {figure: paused, at_most: 0}\n"
			       "- {figure: sweeps_failed, at_most: 0}\n");
}

/* Two switches and lines of 20 ms: a request is not asked again before its answer can be there. */
static void a_manager_waits_as_long_as_its_lines_are(void **state)
{
	(void)state;
	meets_its_expectations("duration: 200ms\n"
			       "topology: {kind: dumbbell, hosts: 2}\n"
			       "links: {rate: 10G, delay: 20ms}\n"
			       "infiniband: {}\n"
			       "traffic: [{kind: datagrams, from: 1, to: 2, bytes: 64}]\n"
			       "expect:\n"
			       "- {figure: smps, at_most: 99}\n"
			       "- {figure: goodput, at_least: 0.001}\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(datagrams_go_on_where_a_lane_stops),
		cmocka_unit_test(a_lane_that_waits_holds_up_no_other),
		cmocka_unit_test(a_datagram_waits_for_its_own_lane),
		cmocka_unit_test(what_is_lost_with_its_connection_is_told),
		cmocka_unit_test(the_time_before_a_run_is_in_no_figure),
		cmocka_unit_test(a_manager_waits_as_long_as_its_lines_are),
		cmocka_unit_test(quantities_have_units),
		cmocka_unit_test(what_is_left_out_has_its_default),
		cmocka_unit_test(each_has_a_name_of_its_own),
		cmocka_unit_test(what_is_said_counts),
		cmocka_unit_test(what_is_wrong_is_named_with_its_line),
		cmocka_unit_test(what_cannot_be_is_told_when_it_runs),
		cmocka_unit_test(the_same_seed_is_the_same_run),
		cmocka_unit_test(figures_are_what_arithmetic_says),
		cmocka_unit_test(figures_begin_with_the_end_of_the_warm_up),
		cmocka_unit_test(fairness_changes_with_time),
		cmocka_unit_test(incasts_come_as_often_as_is_said),
		cmocka_unit_test(the_load_is_what_is_said),
		cmocka_unit_test(messages_that_are_due_wait_for_room),
		cmocka_unit_test(a_trace_is_played),
		cmocka_unit_test(a_trace_of_equal_starts_keeps_its_order),
		cmocka_unit_test(storage_reads_and_allreduce_end),
		cmocka_unit_test(nvme_commands_end),
		cmocka_unit_test(far_hosts_write_as_fast_by_delay_as_without),
		cmocka_unit_test(unreliable_messages_may_be_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
