/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What switches and links do to what hosts send. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>

#include "base/compiler.h"
#include "base/units.h"
#include "fabric/net/network.h"
#include "fabric/traffic/play.h"
#include "scenario_bed.h"

/* Until nothing is under way: 1 s at most. What has been paused so often. */
static uint64_t pauses_of(const char *text)
{
	struct scenario *s = good(text);
	struct network *n;
	struct play *p;
	uint64_t pauses = 0, end;
	char err[256];

	assert_int_equal(network_create(&n, &s->network, 1, err, sizeof(err)), 0);
	assert_int_equal(play_create(&p, n, play_kinds, s->traffic, s->ntraffic, s->duration_ns, 0,
				     s->step_ns, err, sizeof(err)),
			 0);
	end = fabric_now(network_fabric(n)) + NSEC_PER_SEC;
	while (fabric_step(network_fabric(n), end))
		;
	for (unsigned i = 0; i < network_ports(n); i++)
		pauses += network_port(n, i)->counters.pauses_sent;
	assert_true(play_is_done(p) && !p->items);
	assert_true(network_is_idle(n));
	play_destroy(p);
	network_destroy(n);
	scenario_free(s);
	return pauses;
}

/* The frame that has no room says stop, where no headroom does. */
static void a_port_without_headroom_pauses_who_sends(void **state)
{
	(void)state;
	assert_true(pauses_of("duration: 2ms\n"
			      "topology: {hosts: 3}\n"
			      "hosts: {control: none}\n"
			      "switches: {headroom: 0, alpha: 1/64, ecn_all: 0}\n"
			      "traffic: [{kind: stream, from: 1-2, to: 0, stop: 1ms}]\n") >= 10);
}

/* A packet of 4096 bytes is one of 4156 with its headers: 20 + 8 + 12 + 16 and the CRC's 4. At a
 * link that takes less, of a host or of switches, full ones are dropped, and short ones arrive. */
static void what_is_longer_than_a_links_mtu_is_dropped(void **state)
{
	static const char *const links[] = {
		"links: {mtu: 4155}\n",
		"uplinks: {mtu: 4155}\n",
		"other_links: [{between: [host3, switch1], mtu: 4155}]\n",
		"links: {mtu: 4156}\n",
		"uplinks: {mtu: 1500}\nhosts: {mtu: 1024}\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		char text[512];

		snprintf(text, sizeof(text),
			 "duration: 2s\nuntil_done: yes\n"
			 "topology: {kind: dumbbell, hosts: 2}\n"
			 "%s"
			 "traffic:\n"
			 "- {kind: flows, name: long, from: 0, to: 3, bytes: 4096}\n"
			 "- {kind: flows, name: short, from: 1, to: 3, bytes: 1000}\n"
			 "expect:\n"
			 "- {figure: done, of: short, at_least: 1}\n"
			 "- {figure: failed, of: long, is: %d, within: 0}\n"
			 "- {figure: dropped, at_least: %d, at_most: %d}\n",
			 links[i], i < 3, i < 3 ? 8 : 0, i < 3 ? 16 : 0); /* with retries */
		meets_its_expectations(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_port_without_headroom_pauses_who_sends),
		cmocka_unit_test(what_is_longer_than_a_links_mtu_is_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
