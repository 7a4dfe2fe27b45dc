/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* InfiniBand's links in the simulator: credits, turns of lanes, and a subnet that a manager has set
 * up. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/units.h"
#include "fabric/net/arbiter.h"
#include "fabric/net/ibswitch.h"
#include "fabric/net/management.h"
#include "fabric/net/network.h"

/* ---- credits --------------------------------------------------------------------------------- */

static void a_sender_has_as_much_as_the_buffer_and_counts_round(void **state)
{
	struct credit_rx rx = {.blocks = 100};
	struct credit_tx tx = {0};

	(void)state;
	assert_false(credit_tx_may(&tx, 1)); /* nobody has said anything */
	for (unsigned round = 0; round < 300; round++) {
		unsigned n = 0;

		tx.limit = rx.said = credit_rx_limit(&rx);
		while (credit_tx_may(&tx, 7)) {
			credit_tx_sent(&tx, 7);
			assert_true(credit_rx_take(&rx, 7));
			n++;
		}
		assert_int_equal(n, 14); /* and two blocks are left */
		assert_int_equal(credit_rx_untold(&rx), 0);
		while (n--)
			credit_rx_release(&rx, 7);
		assert_int_equal(credit_rx_untold(&rx), 98);
	}
}

static void a_frame_that_was_lost_takes_no_room_for_long(void **state)
{
	struct credit_rx rx = {.blocks = 65};
	struct credit_tx tx = {.limit = credit_rx_limit(&rx)};

	(void)state;
	credit_tx_sent(&tx, 65); /* and it does not come */
	assert_false(credit_tx_may(&tx, 1));
	rx.got = tx.sent;
	tx.limit = credit_rx_limit(&rx);
	assert_true(credit_tx_may(&tx, 65));
	assert_false(credit_tx_may(&tx, 66));
}

static void a_buffer_takes_no_more_than_it_has(void **state)
{
	struct credit_rx rx = {.blocks = 10};

	(void)state;
	assert_true(credit_rx_take(&rx, 10));
	assert_false(credit_rx_take(&rx, 1));
	assert_int_equal(rx.used, 10);
}

static void the_most_that_can_be_told_is_half_the_circle(void **state)
{
	struct credit_rx rx = {.blocks = 4000, .got = 4090};
	struct credit_tx tx = {.sent = 4090};

	(void)state;
	tx.limit = credit_rx_limit(&rx);
	assert_true(credit_tx_may(&tx, 2048));
	assert_false(credit_tx_may(&tx, 2049));
}

/* ---- turns ----------------------------------------------------------------------------------- */

static struct smp_vl_arbitration table_of(unsigned n, const uint8_t (*entries)[2])
{
	struct smp_vl_arbitration t = {.n = n};

	for (unsigned i = 0; i < n; i++) {
		t.lane[i] = entries[i][0];
		t.weight[i] = entries[i][1];
	}
	return t;
}

/* So many packets of these lengths; counts the bytes of each lane. */
static void let_go(struct arbiter *a, uint8_t ready, const uint32_t length[8], unsigned packets,
		   uint64_t ret_bytes[8])
{
	memset(ret_bytes, 0, 8 * sizeof(*ret_bytes));
	for (unsigned i = 0; i < packets; i++) {
		unsigned lane = arbiter_next(a, ready, length);

		if (lane != ARBITER_NONE)
			ret_bytes[lane] += length[lane];
	}
}

static void lanes_share_by_their_weights(void **state)
{
	static const uint8_t entries[][2] = {{0, 64}, {1, 192}, {2, 0}};
	const struct smp_vl_arbitration low = table_of(3, entries), high = {.n = 0};
	const uint32_t length[8] = {4160, 1088, 64, 64};
	uint64_t bytes[8];
	struct arbiter a = {0};

	(void)state;
	arbiter_set(&a, &high, &low, 255);
	let_go(&a, 0x3, length, 20000, bytes);
	/* What exceeds a turn is forgiven: 4160 for 4096, and twelve of 1088 for 12288. */
	assert_true(bytes[1] * 100 > bytes[0] * 300 && bytes[1] * 100 < bytes[0] * 330);
	let_go(&a, 0x2, length, 10, bytes);
	assert_int_equal(bytes[1], 10 * 1088);			       /* alone it has all */
	assert_int_equal(arbiter_next(&a, 0x4, length), ARBITER_NONE); /* a weight of 0 */
	assert_int_equal(arbiter_next(&a, 0x8, length), ARBITER_NONE); /* no entry */
	assert_int_equal(arbiter_next(&a, 0, length), ARBITER_NONE);
}

static void the_high_table_yields_at_its_limit(void **state)
{
	static const uint8_t first[][2] = {{1, 255}}, second[][2] = {{0, 255}};
	const struct smp_vl_arbitration high = table_of(1, first), low = table_of(1, second);
	const uint32_t length[8] = {1024, 1024};
	static const struct {
		uint8_t limit;
		unsigned high, low; /* packets of 100 */
	} all[] = {{0, 50, 50}, {1, 80, 20}, {2, 88, 12}, {255, 100, 0}};
	uint64_t bytes[8];
	struct arbiter a = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		arbiter_set(&a, &high, &low, all[i].limit);
		let_go(&a, 0x3, length, 100, bytes);
		assert_in_range(bytes[1] / 1024, all[i].high - 1, all[i].high + 1);
		assert_in_range(bytes[0] / 1024, all[i].low ? all[i].low - 1 : 0, all[i].low + 1);
	}
	/* What is not wanted by the low table does not count. */
	arbiter_set(&a, &high, &low, 0);
	let_go(&a, 0x2, length, 100, bytes);
	assert_int_equal(bytes[1], 100 * 1024);
	assert_int_equal(arbiter_next(&a, 0x3, length), 1);
	assert_int_equal(arbiter_next(&a, 0x3, length), 0);
}

/* ---- a subnet -------------------------------------------------------------------------------- */

static struct network_nature nature_of(enum topology_kind kind)
{
	struct network_nature n = {
		.topology = {.kind = kind,
			     .hosts = 3,
			     .switches = 4,
			     .leaves = 3,
			     .spines = 2,
			     .pods = 2,
			     .edges = 2,
			     .aggregations = 2,
			     .cores = 4,
			     .looped = -1},
		.link = {.rate_mbps = 100000, .delay_ns = 100},
		.uplink = {.rate_mbps = 100000, .delay_ns = 100},
		.host = {.mtu = RNIC_MTU_1024, .max_qps = 8, .window_bytes = 65536},
		.subnet = {.is_there = true,
			   .node = {.link = {.lanes = 4, .bytes = 16384, .frame_max = 1100},
				    .mtu_code = 3},
			   .config = {.lanes = 2,
				      .lane_of_sl = {0, 1, 0, 1},
				      .low = {.lane = {0, 1}, .weight = {10, 20}, .n = 2},
				      .high_limit = 255,
				      .hoq_life = 7,
				      .timeout_ns = NSEC_PER_MSEC,
				      .retries = 3,
				      .window = 8}},
	};

	return n;
}

static void a_manager_sets_up_any_shape(void **state)
{
	static const enum topology_kind kinds[] = {TOPOLOGY_PAIR, TOPOLOGY_STAR, TOPOLOGY_RING,
						   TOPOLOGY_LEAF_SPINE, TOPOLOGY_FAT_TREE};
	char err[256];

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		const struct network_nature nature = nature_of(kinds[k]);
		bool seen[LID_UNICAST_MAX + 1] = {false};
		struct network *n;

		assert_int_equal(network_create(&n, &nature, 1, err, sizeof(err)), 0);
		assert_int_equal(network_settle(n, err, sizeof(err)), 0);
		for (unsigned i = 0; i < network_hosts(n); i++) {
			const struct agent *a = host_node(network_host(n, i))->agent;
			uint16_t lid = agent_lid(a, 1);

			assert_in_range(lid, 1, LID_UNICAST_MAX);
			assert_false(seen[lid]);
			seen[lid] = true;
			assert_int_equal(agent_state(a, 1), SMP_PORT_ACTIVE);
			assert_int_equal(agent_lanes(a, 1), 2);
			assert_int_equal(agent_lane(a, 0, 1, 3), 1);
			assert_int_equal(agent_arbitration(a, 1, false)->n, 2);
			assert_int_equal(agent_arbitration(a, 1, false)->weight[1], 20);
			assert_int_equal(host_port(network_host(n, i))->stopped, 0);
		}
		for (unsigned i = 0; i < network_switches(n); i++) {
			const struct ibnode *s = ibswitch_node(network_ibswitch(n, i));

			for (unsigned p = 1; p <= s->ports; p++) {
				assert_int_equal(agent_state(s->agent, p), SMP_PORT_ACTIVE);
				assert_int_equal(agent_hoq_life(s->agent, p), 7);
			}
		}
		/* The way there and back has been found: it takes time, but not for ever. */
		assert_in_range(network_ideal_ns(n, 0, network_hosts(n) - 1, 1000), 200, 10000);
		assert_true(network_is_idle(n));
		assert_true(management_took_ns(network_management(n)) > 0);
		network_destroy(n);
	}
}

static void a_subnet_comes_up_though_smps_are_lost(void **state)
{
	struct network_nature nature = nature_of(TOPOLOGY_LEAF_SPINE);
	struct network *n;
	char err[256];

	(void)state;
	nature.link.loss_ppb = nature.uplink.loss_ppb = 20000000; /* 2 % */
	nature.subnet.config.retries = 10;
	assert_int_equal(network_create(&n, &nature, 7, err, sizeof(err)), 0);
	assert_int_equal(network_settle(n, err, sizeof(err)), 0);
	assert_true(management_counters(network_management(n))->resent > 0);
	for (unsigned i = 0; i < network_hosts(n); i++)
		assert_int_equal(agent_state(host_node(network_host(n, i))->agent, 1),
				 SMP_PORT_ACTIVE);
	network_destroy(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sender_has_as_much_as_the_buffer_and_counts_round),
		cmocka_unit_test(a_frame_that_was_lost_takes_no_room_for_long),
		cmocka_unit_test(a_buffer_takes_no_more_than_it_has),
		cmocka_unit_test(the_most_that_can_be_told_is_half_the_circle),
		cmocka_unit_test(lanes_share_by_their_weights),
		cmocka_unit_test(the_high_table_yields_at_its_limit),
		cmocka_unit_test(a_manager_sets_up_any_shape),
		cmocka_unit_test(a_subnet_comes_up_though_smps_are_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
