/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The subnet manager over subnets of agents: what is set when a sweep is done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/heap.h"
#include "subnet_bed.h"

#define SEEDS 200

static struct subnet_config up_down(void)
{
	struct subnet_config c = bed_config;

	c.routing = SUBNET_UP_DOWN;
	return c;
}

static void (*const shapes[])(struct bed *) = {
	bed_pair, bed_star, bed_leaf_spine, bed_fat_tree, bed_ring, bed_ring_with_adapters,
};

/* ---- ways ------------------------------------------------------------------------------------ */

static void check_shortest(const struct bed *b, bool adapters_only)
{
	struct bed_place ends[2 * BED_NODES];
	int n = bed_ends(b, ends);

	for (int i = 0; i < n; i++)
		for (int k = 0; k < n; k++) {
			int least = bed_least(b, ends[i], ends[k]);
			int walked = bed_walk(b, ends[i], ends[k]);
			bool between_adapters = !b->nodes[ends[i].node].nature.is_switch &&
						!b->nodes[ends[k].node].nature.is_switch;

			assert_in_range(least, 0, 64);
			if (between_adapters || !adapters_only)
				assert_int_equal(walked, least);
			else
				assert_in_range(walked, least, 64);
		}
}

static void check_arrive(const struct bed *b)
{
	struct bed_place ends[2 * BED_NODES];
	int n = bed_ends(b, ends);

	for (int i = 0; i < n; i++)
		for (int k = 0; k < n; k++)
			assert_in_range(bed_walk(b, ends[i], ends[k]), 0, 64);
}

static void a_sweep_makes_all_active_with_the_shortest_ways(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct bed *b = bed_new(i);

		shapes[i](b);
		bed_manage(b, 0, &bed_config);
		bed_sweep(b);
		assert_int_equal(b->rc, 0);
		assert_int_equal(subnet_counters(b->manager)->bad, 0);
		assert_int_equal(subnet_counters(b->manager)->resent, 0);
		assert_int_equal(subnet_counters(b->manager)->sent,
				 subnet_counters(b->manager)->received);
		bed_check_active(b);
		check_shortest(b, false);
		bed_end(b);
	}
}

static void random_nets_have_the_shortest_ways(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct bed *b = bed_new(seed);

		bed_random_net(b);
		bed_manage(b, 0, &bed_config);
		bed_sweep(b);
		assert_int_equal(b->rc, 0);
		bed_check_active(b);
		check_shortest(b, false);
		bed_end(b);
	}
}

static void in_trees_up_and_down_is_the_shortest_way(void **state)
{
	static void (*const trees[])(struct bed *) = {bed_star, bed_leaf_spine, bed_fat_tree};
	const struct subnet_config config = up_down();

	(void)state;
	for (size_t i = 0; i < sizeof(trees) / sizeof(trees[0]); i++) {
		struct bed *b = bed_new(i);

		trees[i](b);
		bed_manage(b, 0, &config);
		bed_sweep(b);
		assert_int_equal(b->rc, 0);
		bed_check_active(b);
		check_shortest(b, true);
		assert_false(bed_has_circle(b));
		bed_end(b);
	}
}

static void a_ring_has_a_circle_of_shortest_ways(void **state)
{
	struct bed *b = bed_new(1);

	(void)state;
	bed_ring_with_adapters(b);
	bed_manage(b, 0, &bed_config);
	bed_sweep(b);
	assert_true(bed_has_circle(b));
	bed_end(b);
}

/* ---- up and down, by the rule itself ------------------------------------------------------------
 */

struct order {
	int height[BED_NODES]; /* less is higher */
};

static bool is_switch(const struct bed *b, int node)
{
	return b->nodes[node].nature.is_switch;
}

/* By distance from the root, and then by GUID. */
static void order_from(const struct bed *b, int root, struct order *o)
{
	struct bed_place top = {.node = root};
	int far[BED_NODES];

	for (int i = 0; i < b->n; i++)
		far[i] = is_switch(b, i) ? bed_least(b, top, (struct bed_place){.node = i}) : 0;
	for (int i = 0; i < b->n; i++) {
		o->height[i] = 0;
		for (int k = 0; k < b->n && is_switch(b, i); k++)
			o->height[i] += is_switch(b, k) &&
					(far[k] < far[i] || (far[k] == far[i] &&
							     b->nodes[k].nature.node_guid <
								     b->nodes[i].nature.node_guid));
	}
}

/* The least links from a switch to another by a way that may go up and then down, or down alone. */
static int legal(const struct bed *b, const struct order *o, int from, int to, bool may_go_up)
{
	int far[BED_NODES][2], queue[2 * BED_NODES], n = 0;

	memset(far, -1, sizeof(far));
	far[from][may_go_up] = 0;
	queue[n++] = 2 * from + may_go_up;
	for (int i = 0; i < n; i++) {
		int at = queue[i] / 2, up = queue[i] % 2;

		if (at == to)
			return far[at][up];
		for (unsigned p = 1; p <= b->nodes[at].nature.ports; p++) {
			const struct bed_port *l = &b->nodes[at].ports[p];
			bool goes_up;

			if (!l->up || !is_switch(b, l->peer))
				continue;
			goes_up = o->height[l->peer] < o->height[at];
			if ((goes_up && !up) || far[l->peer][goes_up] >= 0)
				continue;
			far[l->peer][goes_up] = far[at][up] + 1;
			queue[n++] = 2 * l->peer + goes_up;
		}
	}
	return -1;
}

/* What any table can do: down where that is possible, up where it is not. */
static int down_first(const struct bed *b, const struct order *o, int from, int to)
{
	int down = legal(b, o, from, to, false), best = -1;

	if (down >= 0)
		return down;
	for (unsigned p = 1; p <= b->nodes[from].nature.ports; p++) {
		const struct bed_port *l = &b->nodes[from].ports[p];
		int next;

		if (!l->up || !is_switch(b, l->peer) || o->height[l->peer] > o->height[from])
			continue;
		next = down_first(b, o, l->peer, to);
		if (next >= 0 && (best < 0 || next + 1 < best))
			best = next + 1;
	}
	return best;
}

/* Returns how many pairs could have a shorter way that goes up and then down. */
static int check_up_down(const struct bed *b, int root)
{
	struct bed_place ends[2 * BED_NODES];
	struct order o;
	int n = bed_ends(b, ends), longer = 0;

	order_from(b, root, &o);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < n; k++) {
			int outside = 0, from = ends[i].node, to = ends[k].node, least, walked;

			if (i == k)
				continue;
			if (!is_switch(b, from)) {
				from = b->nodes[from].ports[ends[i].port].peer;
				outside++;
			}
			if (!is_switch(b, to)) {
				to = b->nodes[to].ports[ends[k].port].peer;
				outside++;
			}
			least = legal(b, &o, from, to, true) + outside;
			walked = bed_walk(b, ends[i], ends[k]);
			assert_in_range(walked, least, down_first(b, &o, from, to) + outside);
			longer += walked > least;
		}
	assert_false(bed_has_circle(b));
	return longer;
}

static void a_ring_goes_up_and_down_without_a_circle(void **state)
{
	struct subnet_config config = up_down();

	(void)state;
	for (int root = 1; root < 10; root++) {
		struct bed *b = bed_new(7);

		bed_ring_with_adapters(b);
		if (!is_switch(b, root)) {
			bed_end(b);
			continue;
		}
		config.roots[0] = b->nodes[root].nature.node_guid;
		config.n_roots = 1;
		bed_manage(b, 0, &config);
		bed_sweep(b);
		assert_int_equal(b->rc, 0);
		bed_check_active(b);
		assert_int_equal(check_up_down(b, root), 0);
		bed_end(b);
	}
}

static void random_nets_go_up_and_down_without_a_circle(void **state)
{
	struct subnet_config config = up_down();
	int longer = 0;

	(void)state;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct bed *b = bed_new(seed);
		int root;

		bed_random_net(b);
		root = b->nodes[0].ports[1].peer;
		config.roots[0] = b->nodes[root].nature.node_guid;
		config.n_roots = 1;
		bed_manage(b, 0, &config);
		bed_sweep(b);
		assert_int_equal(b->rc, 0);
		bed_check_active(b);
		longer += check_up_down(b, root);
		/* The same with what it chooses itself. */
		bed_unmanage(b);
		config.n_roots = 0;
		bed_manage(b, 0, &config);
		bed_sweep(b);
		assert_int_equal(b->rc, 0);
		check_arrive(b);
		assert_false(bed_has_circle(b));
		bed_end(b);
	}
	assert_in_range(longer, 0, 1000000);
	print_message("%d pairs go down first and farther\n", longer);
}

/* By GUID each of the rim is above the next or below it: all the way down is a long way round. */
static void a_wheel_goes_by_its_hub(void **state)
{
	struct subnet_config config = up_down();

	(void)state;
	config.n_roots = 1;
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct bed *b = bed_new(seed);
		int hub;

		bed_wheel(b);
		hub = b->nodes[0].ports[1].peer;
		config.roots[0] = b->nodes[hub].nature.node_guid;
		bed_manage(b, 0, &config);
		bed_sweep(b);
		assert_int_equal(b->rc, 0);
		assert_int_equal(check_up_down(b, hub), 0);
		bed_end(b);
	}
}

/* ---- shares ------------------------------------------------------------------------------------
 */

static void each_leaf_spreads_what_is_elsewhere_over_its_spines(void **state)
{
	struct bed *b = bed_new(3);
	struct bed_place ends[2 * BED_NODES];
	int n;

	(void)state;
	bed_leaf_spine(b);
	bed_manage(b, 0, &bed_config);
	bed_sweep(b);
	n = bed_ends(b, ends);
	for (int leaf = 0; leaf < b->n; leaf++) {
		int to[BED_PORTS + 1] = {0};

		if (!is_switch(b, leaf) || b->nodes[leaf].nature.ports == BED_LEAVES)
			continue;
		for (int i = 0; i < n; i++)
			if (!is_switch(b, ends[i].node))
				to[agent_forward(b->nodes[leaf].agent, bed_lid(b, ends[i]))]++;
		for (unsigned p = 1; p <= b->nodes[leaf].nature.ports; p++)
			assert_int_equal(to[p],
					 is_switch(b, b->nodes[leaf].ports[p].peer)
						 ? (BED_LEAVES - 1) * BED_LEAF_HOSTS / BED_SPINES
						 : 1);
	}
	bed_end(b);
}

/* ---- ports -------------------------------------------------------------------------------------
 */

static void ports_have_the_lanes_and_turns_of_the_configuration(void **state)
{
	struct bed *b = bed_new(4);
	const struct agent *sw;

	(void)state;
	bed_star(b);
	bed_manage(b, 0, &bed_config);
	bed_sweep(b);
	sw = b->nodes[1].agent;
	for (unsigned p = 1; p <= 6; p++) {
		const struct smp_vl_arbitration *low = agent_arbitration(sw, p, false);
		const struct smp_vl_arbitration *high = agent_arbitration(sw, p, true);

		assert_int_equal(agent_lanes(sw, p), 4);
		assert_memory_equal(low->lane, "\0\1\2", 3);
		assert_memory_equal(low->weight, "\1\2\3", 3);
		assert_int_equal(low->n, 3);
		assert_int_equal(high->lane[0], 3);
		assert_int_equal(high->weight[0], 10);
		assert_int_equal(high->n, 1);
		assert_int_equal(agent_high_limit(sw, p), 7);
		assert_int_equal(agent_hoq_life(sw, p), 12);
		assert_int_equal(agent_mtu_code(sw, p), 5);
		for (unsigned in = 0; in <= 6; in++)
			for (unsigned sl = 0; sl < 16; sl++)
				assert_int_equal(agent_lane(sw, in, p, sl), sl % 4);
	}
	assert_int_equal(agent_lane(b->nodes[0].agent, 0, 1, 6), 2);
	assert_int_equal(agent_lanes(b->nodes[0].agent, 1), 4);
	assert_int_equal(agent_high_limit(b->nodes[0].agent, 1), 7);
	bed_end(b);
}

/* The less of both ends counts, and service levels go round in the lanes that there are. */
static void a_link_can_what_both_ends_can(void **state)
{
	struct agent_nature poor = bed_nature;
	struct bed *b = bed_new(5);
	const struct agent *sw;
	struct subnet_path path;
	int first, other;

	(void)state;
	poor.lanes = 2;
	poor.mtu_code = 3;
	poor.speed_code = 1;
	first = bed_add(b, false, 1, NULL);
	bed_add(b, true, 4, NULL);
	other = bed_add(b, false, 1, &poor);
	bed_link(b, first, 1, 1, 1);
	bed_link(b, other, 1, 1, 2);
	bed_manage(b, 0, &bed_config);
	bed_sweep(b);
	sw = b->nodes[1].agent;
	assert_int_equal(agent_lanes(sw, 1), 4);
	assert_int_equal(agent_lanes(sw, 2), 2);
	assert_int_equal(agent_lanes(b->nodes[other].agent, 1), 2);
	assert_int_equal(agent_mtu_code(sw, 1), 5);
	assert_int_equal(agent_mtu_code(sw, 2), 3);
	assert_int_equal(agent_mtu_code(b->nodes[other].agent, 1), 3);
	assert_int_equal(agent_lane(sw, 1, 2, 3), 1);
	assert_int_equal(agent_lane(sw, 2, 1, 3), 3);
	assert_int_equal(agent_arbitration(sw, 2, false)->n, 2);
	assert_int_equal(agent_arbitration(sw, 2, true)->n, 0);
	assert_int_equal(subnet_path(b->manager, agent_lid(b->nodes[first].agent, 1),
				     agent_lid(b->nodes[other].agent, 1), 3, &path),
			 0);
	assert_int_equal(path.hops, 2);
	assert_int_equal(path.mtu_code, 3);
	assert_int_equal(path.rate_code, 3); /* 10 Gb/s: four lanes of 2.5 */
	assert_int_equal(path.sl, 3);
	assert_int_equal(subnet_path(b->manager, 1, 999, 0, &path), -ENOENT);
	assert_int_equal(subnet_path(b->manager, 0xffff, 1, 0, &path), -ENOENT);
	bed_end(b);
}

static void what_was_found_is_told(void **state)
{
	struct bed *b = bed_new(6);
	struct bed_place ends[2 * BED_NODES];
	struct subnet_path path;
	int n;

	(void)state;
	bed_fat_tree(b);
	bed_manage(b, 0, &bed_config);
	bed_sweep(b);
	n = bed_ends(b, ends);
	assert_int_equal(subnet_nodes(b->manager), n);
	for (int i = 0; i < n; i++) {
		const struct subnet_node *node = subnet_node(b->manager, (unsigned)i);
		const struct bed_node *mine = NULL;

		for (int k = 0; k < b->n; k++)
			if (b->nodes[k].nature.node_guid == node->guid)
				mine = &b->nodes[k];
		assert_non_null(mine);
		assert_int_equal(node->is_switch, mine->nature.is_switch);
		assert_int_equal(node->ports, mine->nature.ports);
		assert_int_equal(node->lid, agent_lid(mine->agent, node->port));
		assert_string_equal(node->description, mine->nature.description);
	}
	for (int i = 0; i < n; i++)
		for (int k = 0; k < n; k++) {
			assert_int_equal(subnet_path(b->manager, bed_lid(b, ends[i]),
						     bed_lid(b, ends[k]), 0, &path),
					 0);
			assert_int_equal(path.hops, bed_walk(b, ends[i], ends[k]));
		}
	bed_end(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sweep_makes_all_active_with_the_shortest_ways),
		cmocka_unit_test(random_nets_have_the_shortest_ways),
		cmocka_unit_test(in_trees_up_and_down_is_the_shortest_way),
		cmocka_unit_test(a_ring_has_a_circle_of_shortest_ways),
		cmocka_unit_test(a_ring_goes_up_and_down_without_a_circle),
		cmocka_unit_test(random_nets_go_up_and_down_without_a_circle),
		cmocka_unit_test(a_wheel_goes_by_its_hub),
		cmocka_unit_test(each_leaf_spreads_what_is_elsewhere_over_its_spines),
		cmocka_unit_test(ports_have_the_lanes_and_turns_of_the_configuration),
		cmocka_unit_test(a_link_can_what_both_ends_can),
		cmocka_unit_test(what_was_found_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
