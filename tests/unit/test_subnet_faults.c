/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The subnet manager where something is wrong or changes: SMPs are lost, links and nodes go, a
 * manager begins anew, answers make no sense, memory ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/heap.h"
#include "subnet_bed.h"

#define SEEDS 200

/* All are active, and reach each other. */
static void check_whole(const struct bed *b)
{
	struct bed_place ends[2 * BED_NODES];
	int n = bed_ends(b, ends);

	bed_check_active(b);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < n; k++)
			assert_int_equal(bed_walk(b, ends[i], ends[k]),
					 bed_least(b, ends[i], ends[k]));
}

struct lids {
	struct bed_place ends[2 * BED_NODES];
	uint16_t lid[2 * BED_NODES];
	int n;
};

static struct lids lids_of(const struct bed *b)
{
	struct lids l;

	l.n = bed_ends(b, l.ends);
	for (int i = 0; i < l.n; i++)
		l.lid[i] = bed_lid(b, l.ends[i]);
	return l;
}

static void check_kept(const struct bed *b, const struct lids *l)
{
	for (int i = 0; i < l->n; i++)
		assert_int_equal(bed_lid(b, l->ends[i]), l->lid[i]);
}

/* ---- losses ------------------------------------------------------------------------------------
 */

static void what_is_lost_is_asked_again(void **state)
{
	struct subnet_config config = bed_config;

	(void)state;
	config.retries = 12;
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct bed *b = bed_new(seed);

		if (seed % 2)
			bed_fat_tree(b);
		else
			bed_random_net(b);
		b->loss_percent = 10;
		bed_manage(b, 0, &config);
		bed_sweep(b);
		assert_int_equal(b->rc, 0);
		assert_in_range(subnet_counters(b->manager)->resent, 1, 100000);
		assert_int_equal(subnet_counters(b->manager)->unanswered, 0);
		check_whole(b);
		bed_end(b);
	}
}

static void the_manager_ends_where_nobody_answers(void **state)
{
	struct bed *b = bed_new(1);

	(void)state;
	bed_star(b);
	b->loss_percent = 100;
	bed_manage(b, 0, &bed_config);
	bed_sweep(b);
	assert_int_equal(b->rc, -ENODEV);
	assert_int_equal(subnet_nodes(b->manager), 0);
	assert_int_equal(subnet_counters(b->manager)->sent, bed_config.retries + 1);
	assert_int_equal(b->now, (bed_config.retries + 1) * bed_config.timeout_ns);
	/* And it can begin again. */
	b->loss_percent = 0;
	bed_sweep(b);
	assert_int_equal(b->rc, 0);
	check_whole(b);
	bed_end(b);
}

static void without_a_node_that_is_silent_the_rest_works(void **state)
{
	struct bed *b = bed_new(2);

	(void)state;
	bed_leaf_spine(b);
	b->nodes[1].dead = true; /* a spine */
	bed_manage(b, 0, &bed_config);
	bed_sweep(b);
	assert_int_equal(b->rc, -ENODEV);
	assert_int_equal(subnet_nodes(b->manager), b->n - 1);
	for (int node = 0; node < b->n; node++)
		for (unsigned p = 1; p <= b->nodes[node].nature.ports; p++)
			assert_int_equal(agent_state(b->nodes[node].agent, p),
					 node == 1 || b->nodes[node].ports[p].peer == 1
						 ? SMP_PORT_INIT
						 : SMP_PORT_ACTIVE);
	b->nodes[1].dead = false;
	bed_sweep(b);
	assert_int_equal(b->rc, 0);
	check_whole(b);
	bed_end(b);
}

/* ---- changes -----------------------------------------------------------------------------------
 */

static void a_second_sweep_changes_nothing(void **state)
{
	struct bed *b = bed_new(3);
	struct lids before;

	(void)state;
	bed_fat_tree(b);
	bed_manage(b, 0, &bed_config);
	bed_sweep(b);
	before = lids_of(b);
	bed_sweep(b);
	assert_int_equal(b->rc, 0);
	check_kept(b, &before);
	check_whole(b);
	bed_end(b);
}

static void a_link_that_goes_is_gone_round_and_taken_again(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct bed *b = bed_new(seed);
		struct lids before;
		int node;
		unsigned port;

		bed_fat_tree(b);
		bed_manage(b, 0, &bed_config);
		bed_sweep(b);
		before = lids_of(b);
		do { /* one between switches */
			node = (int)bed_random(b, (uint32_t)b->n);
			port = 1 + bed_random(b, b->nodes[node].nature.ports);
		} while (!b->nodes[node].nature.is_switch ||
			 !b->nodes[b->nodes[node].ports[port].peer].nature.is_switch);
		bed_set_link(b, node, port, false);
		bed_sweep(b);
		assert_int_equal(b->rc, 0);
		check_whole(b);
		check_kept(b, &before);
		bed_set_link(b, node, port, true);
		assert_int_equal(agent_state(b->nodes[node].agent, port), SMP_PORT_INIT);
		bed_sweep(b);
		assert_int_equal(b->rc, 0);
		check_whole(b);
		check_kept(b, &before);
		bed_end(b);
	}
}

static void a_node_that_comes_back_has_its_lid_again(void **state)
{
	struct bed *b = bed_new(4);
	struct lids before;
	int late;

	(void)state;
	bed_star(b);
	bed_manage(b, 0, &bed_config);
	bed_sweep(b);
	before = lids_of(b);
	bed_set_link(b, 3, 1, false);
	bed_sweep(b);
	assert_int_equal(b->rc, 0);
	assert_int_equal(subnet_nodes(b->manager), b->n - 1);
	bed_set_link(b, 3, 1, true);
	bed_sweep(b);
	check_kept(b, &before);
	/* One that is new has what is free. */
	late = bed_add(b, false, 1, NULL);
	bed_join(b, late, 1);
	bed_sweep(b);
	assert_int_equal(b->rc, 0);
	check_kept(b, &before);
	check_whole(b);
	assert_int_equal(agent_lid(b->nodes[late].agent, 1), before.n + 1);
	bed_end(b);
}

/* Of two nets, each of which had a manager, one comes to be: who had a LID here keeps it. */
static void of_two_with_the_same_lid_the_elder_keeps_it(void **state)
{
	struct bed *b = bed_new(5);
	struct lids before;
	int sw, stranger;

	(void)state;
	bed_star(b);
	sw = bed_add(b, true, 4, NULL);
	stranger = bed_add(b, false, 1, NULL);
	bed_join(b, stranger, sw);
	bed_manage(b, stranger, &bed_config);
	bed_sweep(b);
	bed_unmanage(b);
	assert_int_equal(agent_lid(b->nodes[stranger].agent, 1), 1);
	bed_manage(b, 0, &bed_config);
	bed_sweep(b);
	before = lids_of(b);
	before.n -= 2;
	bed_join(b, sw, 1);
	bed_sweep(b);
	assert_int_equal(b->rc, 0);
	check_kept(b, &before);
	check_whole(b);
	bed_end(b);
}

static void another_manager_renumbers_nobody(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct bed *b = bed_new(seed);
		struct lids before;
		int home;

		bed_random_net(b);
		bed_manage(b, 0, &bed_config);
		bed_sweep(b);
		before = lids_of(b);
		bed_unmanage(b);
		home = b->n - 1; /* from elsewhere, at that: in another order */
		bed_manage(b, home, &bed_config);
		bed_sweep(b);
		assert_int_equal(b->rc, 0);
		check_kept(b, &before);
		check_whole(b);
		bed_end(b);
	}
}

static void a_trap_makes_it_sweep_and_is_repressed(void **state)
{
	struct bed *b = bed_new(6);
	uint8_t mad[MAD_LEN];
	uint16_t dlid;

	(void)state;
	bed_ring_with_adapters(b);
	bed_manage(b, 0, &bed_config);
	bed_sweep(b);
	assert_false(agent_trap(b->nodes[1].agent, mad, &dlid));
	bed_set_link(b, 1, 2, false);
	assert_true(agent_trap(b->nodes[1].agent, mad, &dlid));
	assert_int_equal(dlid, agent_lid(b->nodes[0].agent, 1));
	assert_int_equal(subnet_next_deadline(b->manager), DEADLINE_NEVER);
	subnet_rx(b->manager, mad, b->now);
	assert_int_equal(subnet_counters(b->manager)->traps, 1);
	assert_false(agent_trap(b->nodes[1].agent, mad, &dlid));
	assert_int_equal(subnet_next_deadline(b->manager), b->now);
	subnet_tick(b->manager, b->now);
	assert_true(subnet_is_sweeping(b->manager));
	bed_run(b);
	assert_int_equal(b->sweeps, 2);
	assert_int_equal(b->rc, 0);
	check_whole(b);
	bed_end(b);
}

static void a_trap_in_a_sweep_makes_another_one(void **state)
{
	struct bed *b = bed_new(7);
	uint8_t mad[MAD_LEN];
	uint16_t dlid;

	(void)state;
	bed_star(b);
	bed_manage(b, 0, &bed_config);
	bed_sweep(b);
	bed_set_link(b, 1, 3, false);
	assert_true(agent_trap(b->nodes[1].agent, mad, &dlid));
	subnet_sweep(b->manager, b->now);
	subnet_rx(b->manager, mad, b->now);
	bed_run(b);
	assert_int_equal(b->sweeps, 2);
	assert_int_equal(subnet_next_deadline(b->manager), b->now);
	subnet_tick(b->manager, b->now);
	bed_run(b);
	assert_int_equal(b->sweeps, 3);
	assert_int_equal(subnet_next_deadline(b->manager), DEADLINE_NEVER);
	bed_end(b);
}

static void it_sweeps_by_time(void **state)
{
	struct subnet_config config = bed_config;
	struct bed *b = bed_new(8);

	(void)state;
	config.sweep_ns = 1000000000;
	bed_star(b);
	bed_manage(b, 0, &config);
	bed_sweep(b);
	assert_int_equal(subnet_next_deadline(b->manager), b->now + config.sweep_ns);
	b->now += config.sweep_ns;
	subnet_tick(b->manager, b->now);
	bed_run(b);
	assert_int_equal(b->sweeps, 2);
	bed_end(b);
}

/* Late answers to the one that was left are not taken for the new one's. */
static void a_sweep_under_way_begins_anew(void **state)
{
	struct bed *b = bed_new(9);

	(void)state;
	bed_fat_tree(b);
	bed_manage(b, 0, &bed_config);
	for (int i = 0; i < 5; i++) {
		subnet_sweep(b->manager, b->now);
		for (int k = 0; k < 40 * i && b->n_flying; k++) {
			struct bed_flying f = b->flying[0];

			b->flying[0] = b->flying[--b->n_flying];
			subnet_rx(b->manager, f.mad, b->now);
		}
	}
	bed_run(b);
	assert_int_equal(b->sweeps, 1);
	assert_int_equal(b->rc, 0);
	assert_in_range(subnet_counters(b->manager)->bad, 1, 100);
	check_whole(b);
	bed_end(b);
}

/* ---- nonsense ----------------------------------------------------------------------------------
 */

static void no_answer_with_wrong_bits_harms_it(void **state)
{
	struct subnet_config config = bed_config;
	uint64_t bad = 0;

	(void)state;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct bed *b = bed_new(seed);
		struct subnet_path path;

		if (seed % 4 == 0)
			bed_leaf_spine(b);
		else
			bed_random_net(b);
		config.routing = seed % 2 ? SUBNET_UP_DOWN : SUBNET_MIN_HOP;
		b->flip_percent = 10;
		bed_manage(b, 0, &config);
		for (int i = 0; i < 3; i++) {
			bed_sweep(b);
			for (uint16_t lid = 1; lid < 40; lid++)
				if (subnet_path(b->manager, 1, lid, 0, &path) == 0)
					assert_in_range(path.hops, 0, 64);
		}
		bad += subnet_counters(b->manager)->bad;
		bed_end(b);
	}
	assert_in_range(bad, SEEDS, UINT64_MAX);
}

static bool answers(const struct smp *s, uint16_t attr_id, int node_type)
{
	struct smp_node_info n;

	if (s->attr_id != attr_id || s->method != MAD_GET_RESP || s->hop_count == 0)
		return false;
	smp_node_info_unpack(&n, s->data);
	return !node_type || n.node_type == node_type;
}

#define TAMPER_NODE(name, type, change)                    \
	static bool name(struct bed *b, struct smp *s)     \
	{                                                  \
		struct smp_node_info n;                    \
                                                           \
		if (answers(s, SMP_NODE_INFO, type)) {     \
			smp_node_info_unpack(&n, s->data); \
			change;                            \
			smp_node_info_pack(&n, s->data);   \
			b->tampered++;                     \
		}                                          \
		return true;                               \
	}

TAMPER_NODE(guid_of_zero, 0, n.node_guid = 0)
TAMPER_NODE(port_guid_of_zero, 0, n.port_guid = 0)
TAMPER_NODE(no_ports, 0, n.ports = 0)
TAMPER_NODE(too_many_ports, 0, n.ports = 255)
TAMPER_NODE(port_out_of_range, 0, n.local_port = (uint8_t)(n.ports + 1))
TAMPER_NODE(own_port_of_a_switch, SMP_NODE_SWITCH, n.local_port = 0)
TAMPER_NODE(unknown_type, 0, n.node_type = 9)
TAMPER_NODE(all_the_same_guid, SMP_NODE_ADAPTER, n.port_guid = 0x77)

#define TAMPER_PORT(name, change)                          \
	static bool name(struct bed *b, struct smp *s)     \
	{                                                  \
		struct smp_port_info p;                    \
                                                           \
		if (answers(s, SMP_PORT_INFO, 0)) {        \
			smp_port_info_unpack(&p, s->data); \
			change;                            \
			smp_port_info_pack(&p, s->data);   \
			b->tampered++;                     \
		}                                          \
		return true;                               \
	}

TAMPER_PORT(state_of_zero, p.state = 0)
TAMPER_PORT(unknown_state, p.state = 9)
TAMPER_PORT(no_mtu, p.mtu_cap = 0)
TAMPER_PORT(huge_mtu, p.mtu_cap = 15)
TAMPER_PORT(no_lanes, p.vl_cap = 0)
TAMPER_PORT(all_lanes_and_more, p.vl_cap = 6)

static bool no_table(struct bed *b, struct smp *s)
{
	struct smp_switch_info i;

	if (answers(s, SMP_SWITCH_INFO, 0)) {
		smp_switch_info_unpack(&i, s->data);
		i.linear_cap = 0;
		smp_switch_info_pack(&i, s->data);
		b->tampered++;
	}
	return true;
}

static bool refuses(struct bed *b, struct smp *s)
{
	if (s->hop_count) {
		s->status = MAD_BAD_ATTRIBUTE;
		b->tampered++;
	}
	return true;
}

static void nonsense_is_counted_and_left_out(void **state)
{
	static bool (*const ways[])(struct bed *, struct smp *) = {
		guid_of_zero,	   port_guid_of_zero,	 no_ports,     too_many_ports,
		port_out_of_range, own_port_of_a_switch, unknown_type, all_the_same_guid,
		state_of_zero,	   unknown_state,	 no_mtu,       huge_mtu,
		no_lanes,	   all_lanes_and_more,	 no_table,     refuses,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct bed *b = bed_new(i);

		bed_leaf_spine(b);
		b->tamper = ways[i];
		bed_manage(b, 0, &bed_config);
		bed_sweep(b);
		assert_in_range(b->tampered, 1, 100000);
		assert_in_range(subnet_counters(b->manager)->bad, 1, 100000);
		assert_true(b->rc == -EPROTO || b->rc == -ENODEV);
		b->tamper = NULL;
		bed_sweep(b);
		assert_int_equal(b->rc, 0);
		check_whole(b);
		bed_end(b);
	}
}

/* A world without end: behind each port is another switch, of whom nobody has heard. */
static bool ever_new(struct bed *b, struct smp *s)
{
	struct smp_node_info n;

	if (s->attr_id == SMP_NODE_INFO && s->hop_count) {
		smp_node_info_unpack(&n, s->data);
		n.node_type = SMP_NODE_SWITCH;
		n.ports = 4;
		n.node_guid = n.port_guid = (uint64_t)++b->tampered << 16;
		n.local_port = (uint8_t)(1 + b->tampered % 4);
		smp_node_info_pack(&n, s->data);
	}
	return true;
}

static void a_world_without_end_has_one(void **state)
{
	struct subnet_config config = bed_config;
	struct bed *b = bed_new(10);

	(void)state;
	config.retries = 0;
	config.window = 256;
	bed_ring(b);
	b->tamper = ever_new;
	bed_manage(b, 0, &config);
	bed_sweep(b);
	assert_true(b->rc == -ENOSPC || b->rc == -ENODEV);
	assert_in_range(subnet_nodes(b->manager), 64, SUBNET_NODES_MAX);
	bed_end(b);
}

static void what_is_too_far_is_left_out(void **state)
{
	struct bed *b = bed_new(11);
	int first = bed_add(b, false, 1, NULL), before = first;

	(void)state;
	for (int i = 0; i < 70; i++) {
		int sw = bed_add(b, true, 2, NULL);

		bed_join(b, before, sw);
		before = sw;
	}
	bed_manage(b, first, &bed_config);
	bed_sweep(b);
	assert_int_equal(b->rc, -ENODEV);
	assert_int_equal(subnet_nodes(b->manager), 1 + SMP_HOPS_MAX);
	bed_end(b);
}

static void a_switch_without_room_is_not_gone_by(void **state)
{
	struct agent_nature small = bed_nature;
	struct bed *b = bed_new(12);
	struct bed_place ends[2 * BED_NODES];
	int first, sw[4], n;

	(void)state;
	small.lids = 5;
	first = bed_add(b, false, 1, NULL);
	for (int i = 0; i < 4; i++)
		sw[i] = bed_add(b, true, 4, i == 1 ? &small : NULL);
	for (int i = 0; i < 4; i++)
		bed_join(b, sw[i], sw[(i + 1) % 4]);
	bed_join(b, first, sw[0]);
	bed_join(b, bed_add(b, false, 1, NULL), sw[2]);
	bed_manage(b, first, &bed_config);
	bed_sweep(b);
	assert_int_equal(b->rc, -EPROTO);
	bed_check_active(b);
	n = bed_ends(b, ends);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < n; k++)
			if (i != k && ends[i].node != sw[1] && ends[k].node != sw[1])
				assert_in_range(bed_walk(b, ends[i], ends[k]), 1, 5);
	bed_end(b);
}

/* ---- edges of the interface
 * ---------------------------------------------------------------------- */

static void strangers_packets_are_counted_and_nothing_more(void **state)
{
	struct bed *b = bed_new(13);
	uint8_t mad[MAD_LEN] = {0};
	struct smp s = {.mgmt_class = SMP_CLASS_DR, .method = MAD_GET_RESP, .returning = true};

	(void)state;
	bed_pair(b);
	bed_manage(b, 0, &bed_config);
	subnet_rx(b->manager, mad, 0);
	smp_encode(&s, mad);
	subnet_rx(b->manager, mad, 0);
	s.method = MAD_TRAP; /* of nothing */
	smp_encode(&s, mad);
	subnet_rx(b->manager, mad, 0);
	s.tid = 0xff;
	s.method = MAD_GET_RESP;
	s.hop_count = 255;
	smp_encode(&s, mad);
	subnet_rx(b->manager, mad, 0);
	assert_int_equal(subnet_counters(b->manager)->bad, 4);
	assert_false(subnet_is_sweeping(b->manager));
	assert_int_equal(subnet_next_deadline(b->manager), DEADLINE_NEVER);
	bed_sweep(b);
	assert_int_equal(b->rc, 0);
	bed_end(b);
}

static void configurations_that_cannot_be_are_refused(void **state)
{
	const struct subnet_ops none = {0};
	struct subnet_manager *m;
	struct subnet_config c;

	(void)state;
	c = bed_config;
	c.window = 0;
	assert_int_equal(subnet_create(&m, &c, &none, NULL), -EINVAL);
	c.window = SUBNET_WINDOW_MAX + 1;
	assert_int_equal(subnet_create(&m, &c, &none, NULL), -EINVAL);
	c = bed_config;
	c.lanes = 3;
	assert_int_equal(subnet_create(&m, &c, &none, NULL), -EINVAL);
	c = bed_config;
	c.lane_of_sl[9] = 15;
	assert_int_equal(subnet_create(&m, &c, &none, NULL), -EINVAL);
	c = bed_config;
	c.timeout_ns = 0;
	assert_int_equal(subnet_create(&m, &c, &none, NULL), -EINVAL);
	c = bed_config;
	c.low.n = SMP_VL_ARBITRATION_MAX + 1;
	assert_int_equal(subnet_create(&m, &c, &none, NULL), -EINVAL);
}

/* Each allocation of a sweep fails once: it ends, and says so; the next one is whole. */
static void a_sweep_without_memory_ends(void **state)
{
	int fails = 1;

	(void)state;
	for (bool failed = true; failed; fails++) {
		struct bed *b = bed_new(14);

		bed_ring_with_adapters(b);
		bed_manage(b, 0, &bed_config);
		b->made = 0;
		b->fails_at = fails;
		bed_sweep(b);
		failed = b->made >= fails;
		assert_int_equal(b->rc, failed ? -ENOMEM : 0);
		b->fails_at = 0;
		bed_sweep(b);
		assert_int_equal(b->rc, 0);
		check_whole(b);
		bed_end(b);
	}
	assert_in_range(fails, 30, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_lost_is_asked_again),
		cmocka_unit_test(the_manager_ends_where_nobody_answers),
		cmocka_unit_test(without_a_node_that_is_silent_the_rest_works),
		cmocka_unit_test(a_second_sweep_changes_nothing),
		cmocka_unit_test(a_link_that_goes_is_gone_round_and_taken_again),
		cmocka_unit_test(a_node_that_comes_back_has_its_lid_again),
		cmocka_unit_test(of_two_with_the_same_lid_the_elder_keeps_it),
		cmocka_unit_test(another_manager_renumbers_nobody),
		cmocka_unit_test(a_trap_makes_it_sweep_and_is_repressed),
		cmocka_unit_test(a_trap_in_a_sweep_makes_another_one),
		cmocka_unit_test(it_sweeps_by_time),
		cmocka_unit_test(a_sweep_under_way_begins_anew),
		cmocka_unit_test(no_answer_with_wrong_bits_harms_it),
		cmocka_unit_test(nonsense_is_counted_and_left_out),
		cmocka_unit_test(a_world_without_end_has_one),
		cmocka_unit_test(what_is_too_far_is_left_out),
		cmocka_unit_test(a_switch_without_room_is_not_gone_by),
		cmocka_unit_test(strangers_packets_are_counted_and_nothing_more),
		cmocka_unit_test(configurations_that_cannot_be_are_refused),
		cmocka_unit_test(a_sweep_without_memory_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
