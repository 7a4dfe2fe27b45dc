/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The parts of a simulated network, each by itself: a switch's buffer, its marks, a port's
 * scheduler and the pauses that it heeds, routes. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "fabric/net/network.h"

/* ---- a buffer -------------------------------------------------------------------------------- */

static const struct buffer_nature nature = {
	.bytes = 100000,
	.reserve = 1000,
	.headroom = 10000,
	.alpha = .5,
	.alpha_lossy = 1,
	.resume_below = 2000,
	.lossless = 1u << 3,
};

static struct frame frame_of(uint8_t priority, uint32_t bytes)
{
	return (struct frame){.priority = priority, .bytes = bytes};
}

static void a_lossless_priority_fills_reserve_share_and_headroom(void **state)
{
	struct frame f = frame_of(3, 1000);
	struct buffer b;
	unsigned before = 0, after = 0;

	(void)state;
	assert_int_equal(buffer_init(&b, &nature, 2), 0);
	assert_int_equal(b.shared, 100000 - 2 * (8 * 1000 + 10000));
	while (!buffer_is_high(&b, 0, 3)) {
		assert_true(buffer_take(&b, &f, 0, 1));
		before++;
	}
	/* used = alpha * (shared - used): a third of it, and the reserve. */
	assert_in_range(before, 1 + 64 / 3, 2 + 64 / 3);
	while (buffer_take(&b, &f, 0, 1))
		after++;
	assert_int_equal(after, 9); /* the last of those before was the first in the headroom */
	assert_false(buffer_is_high(&b, 1, 3)); /* another port's is its own */
	for (unsigned i = 0; i < 10; i++) {
		assert_false(buffer_is_low(&b, 0, 3));
		buffer_leave(&b, &f, 0, 1);
	}
	for (unsigned i = 0; i < before - 1; i++)
		buffer_leave(&b, &f, 0, 1);
	assert_true(buffer_is_low(&b, 0, 3));
	assert_true(buffer_is_empty(&b));
	buffer_fini(&b);
}

static void a_lossy_queue_has_as_much_as_is_free(void **state)
{
	struct frame f = frame_of(0, 1000);
	struct buffer b;
	unsigned n = 0;

	(void)state;
	assert_int_equal(buffer_init(&b, &nature, 2), 0);
	while (buffer_take(&b, &f, 0, 1))
		n++;
	assert_in_range(n, 31, 34); /* half of 64 */
	assert_false(buffer_is_high(&b, 0, 0));
	while (n--)
		buffer_leave(&b, &f, 0, 1);
	assert_true(buffer_is_empty(&b));
	buffer_fini(&b);
}

static void a_buffer_that_is_all_headroom_is_none(void **state)
{
	struct buffer b;

	(void)state;
	assert_int_equal(buffer_init(&b, &nature, 6), -ENOSPC);
}

static void marks_grow_with_the_queue(void **state)
{
	static const struct mark_nature m = {.from = 1000, .all = 5000, .ppm = 200000};
	static const struct mark_nature none = {.from = 1000};

	(void)state;
	assert_int_equal(mark_chance(&m, 1000), 0);
	assert_int_equal(mark_chance(&m, 3000), 100000);
	assert_int_equal(mark_chance(&m, 5000), 200000);
	assert_int_equal(mark_chance(&m, 5001), 1000000);
	assert_int_equal(mark_chance(&none, 1u << 30), 0);
}

/* ---- a port ---------------------------------------------------------------------------------- */

struct bench {
	struct fabric *fabric;
	struct frame_pool pool;
	struct netport from, to;
	uint64_t bytes[PRIORITIES];
	uint8_t order[64];
	unsigned n;
	uint64_t last_ns;
};

static void arrived(struct netport *p, struct frame *f)
{
	struct bench *b = p->owner;

	b->bytes[f->priority] += f->bytes;
	if (b->n < ARRAY_SIZE(b->order))
		b->order[b->n] = f->priority;
	b->n++;
	b->last_ns = fabric_now(b->fabric);
	frame_free(&b->pool, f);
}

static void dropped(struct netport *p, struct frame *f)
{
	struct bench *b = p->owner;

	frame_free(&b->pool, f);
}

static const struct netport_ops ops = {.arrived = arrived, .dropped = dropped};

static struct bench *bench_open(const struct scheduler_nature *s)
{
	const struct line_nature line = {.rate_mbps = 10000, .delay_ns = 1000};
	struct bench *b = calloc(1, sizeof(*b));

	assert_non_null(b);
	assert_int_equal(fabric_create(&b->fabric, 1), 0);
	netport_init(&b->from, b->fabric, &b->pool, &ops, b, 0);
	netport_init(&b->to, b->fabric, &b->pool, &ops, b, 0);
	b->from.scheduler = *s;
	netport_join(&b->from, &b->to, &line);
	return b;
}

static void bench_close(struct bench *b)
{
	netport_fini(&b->from);
	netport_fini(&b->to);
	frame_pool_fini(&b->pool);
	fabric_destroy(b->fabric);
	free(b);
}

static void put(struct bench *b, uint8_t priority, uint32_t bytes)
{
	struct frame *f = frame_alloc(&b->pool);

	memset(f, 0, sizeof(*f));
	f->priority = priority;
	f->bytes = bytes;
	netport_send(&b->from, f);
}

static void run_to(struct bench *b, uint64_t ns)
{
	while (fabric_step(b->fabric, FABRIC_BEGIN_NS + ns))
		;
}

static void heed(struct bench *b, uint8_t mask, uint16_t quanta)
{
	struct frame f;

	frame_of_pause(&f, mask, quanta);
	netport_heed(&b->from, &f);
}

static void a_frame_takes_its_time(void **state)
{
	struct bench *b = bench_open(&(struct scheduler_nature){0});

	(void)state;
	put(b, 0, 1230); /* and 20 of gap: 1 us at 10 Gb/s */
	put(b, 0, 1230);
	run_to(b, 100000);
	assert_int_equal(b->n, 2);
	assert_int_equal(b->last_ns, FABRIC_BEGIN_NS + 2 * 1000 + 1000);
	bench_close(b);
}

static void strict_priorities_go_first_and_the_highest_of_them(void **state)
{
	static const uint8_t order[] = {0, 7, 6, 6, 0};
	struct bench *b = bench_open(&(struct scheduler_nature){.strict = 0xc0});

	(void)state;
	put(b, 0, 1000); /* has begun */
	put(b, 0, 1000);
	put(b, 6, 1000);
	put(b, 6, 1000);
	put(b, 7, 1000);
	run_to(b, 100000);
	assert_memory_equal(b->order, order, sizeof(order));
	bench_close(b);
}

static void others_share_by_their_weights(void **state)
{
	struct bench *b = bench_open(&(struct scheduler_nature){.weight = {[1] = 1, [2] = 3}});
	double part;

	(void)state;
	for (int i = 0; i < 4000; i++) {
		put(b, 1, 1500);
		put(b, 2, 300 + (uint32_t)(i % 5) * 300);
	}
	run_to(b, 2000000);
	part = (double)b->bytes[2] / (double)(b->bytes[1] + b->bytes[2]);
	assert_true(part > .74 && part < .76);
	bench_close(b);
}

static void they_do_beside_one_that_goes_first(void **state)
{
	struct bench *b = bench_open(
		&(struct scheduler_nature){.strict = 1u << 6, .weight = {[1] = 1, [2] = 3}});
	double part;

	(void)state;
	for (int i = 0; i < 4000; i++) {
		put(b, 1, 1500);
		put(b, 2, 1500);
	}
	for (uint64_t i = 1; i <= 1000; i++) { /* of every two frames that leave one is its */
		put(b, 6, 1500);
		run_to(b, i * 2432);
	}
	assert_true(b->bytes[6] >= 990 * 1500ull && b->bytes[1] + b->bytes[2] >= 900 * 1500ull);
	part = (double)b->bytes[2] / (double)(b->bytes[1] + b->bytes[2]);
	assert_true(part > .74 && part < .76);
	bench_close(b);
}

static void a_pause_stops_its_priority_until_it_ends(void **state)
{
	struct bench *b = bench_open(&(struct scheduler_nature){0});
	uint64_t quanta_ns = netport_quanta_ns(&b->from, 1000);

	(void)state;
	assert_int_equal(quanta_ns, 51200); /* 1000 times 512 bits at 10 Gb/s */
	heed(b, 1u << 3, 1000);
	put(b, 3, 1000);
	put(b, 4, 1000);
	run_to(b, quanta_ns);
	assert_int_equal(b->n, 1);
	assert_int_equal(b->order[0], 4);
	assert_int_equal(netport_ready(&b->from), 0);
	run_to(b, quanta_ns + 5000);
	assert_int_equal(b->n, 2);
	assert_int_equal(b->from.counters.paused_ns, quanta_ns);
	bench_close(b);
}

static void a_pause_of_none_lets_go_on(void **state)
{
	struct bench *b = bench_open(&(struct scheduler_nature){0});

	(void)state;
	heed(b, 0xff, 65535);
	put(b, 3, 1000);
	run_to(b, 5000);
	assert_int_equal(b->n, 0);
	heed(b, 1u << 3, 0);
	run_to(b, 10000);
	assert_int_equal(b->n, 1);
	assert_int_equal(b->from.counters.pauses_got, 1);
	bench_close(b);
}

static void a_watchdog_believes_no_pause_without_an_end(void **state)
{
	struct bench *b =
		bench_open(&(struct scheduler_nature){.watchdog_ns = 100000, .restore_ns = 300000});

	(void)state;
	put(b, 3, 1000);
	for (uint64_t at = 0; at < 200000; at += 10000) {
		heed(b, 1u << 3, 1000);
		put(b, 3, 1000);
		run_to(b, at + 10000);
	}
	assert_int_equal(b->from.counters.watchdog, 1);
	assert_in_range(b->from.counters.dropped, 9, 12);
	assert_in_range(b->n, 8, 12); /* what came after that went on */
	run_to(b, 600000);
	heed(b, 1u << 3, 1000); /* it is believed again */
	assert_int_equal(b->from.stopped, 1u << 3);
	bench_close(b);
}

/* Though it is about to believe another priority's again, which is later. */
static void a_watchdog_watches_all_priorities(void **state)
{
	struct bench *b =
		bench_open(&(struct scheduler_nature){.watchdog_ns = 100000, .restore_ns = 900000});

	(void)state;
	for (uint64_t at = 0; at < 400000; at += 10000) {
		heed(b, at < 200000 ? 1u << 3 : 1u << 4, 1000);
		put(b, 4, 1000);
		run_to(b, at + 10000);
	}
	assert_int_equal(b->from.counters.watchdog, 2);
	assert_int_equal(b->from.stopped, 0);
	bench_close(b);
}

/* ---- routes and shapes ----------------------------------------------------------------------- */

static struct network *network_of(const struct topology_nature *t)
{
	struct network_nature n = {
		.topology = *t,
		.link = {.rate_mbps = 10000, .delay_ns = 1000},
		.uplink = {.rate_mbps = 10000, .delay_ns = 1000},
		.host = {.params = cc_defaults,
			 .mtu = RNIC_MTU_1024,
			 .window_bytes = 65536,
			 .max_qps = 16},
		.netswitch = {.buffer = {.bytes = 10 << 20, .alpha = 1, .alpha_lossy = 1}},
		.headroom = UINT64_MAX,
	};
	struct network *net;
	char err[256];

	assert_int_equal(network_create(&net, &n, 1, err, sizeof(err)), 0);
	return net;
}

static void shapes_have_the_ports_that_they_should(void **state)
{
	static const struct {
		struct topology_nature nature;
		unsigned hosts, switches, ports;
	} shapes[] = {
		{{.kind = TOPOLOGY_PAIR, .looped = -1}, 2, 0, 2},
		{{.kind = TOPOLOGY_STAR, .hosts = 5, .looped = -1}, 5, 1, 10},
		{{.kind = TOPOLOGY_DUMBBELL, .hosts = 3, .looped = -1}, 6, 2, 14},
		{{.kind = TOPOLOGY_PARKING_LOT, .hosts = 1, .switches = 4, .looped = -1}, 4, 4, 14},
		{{.kind = TOPOLOGY_RING, .hosts = 2, .switches = 3, .looped = -1}, 6, 3, 18},
		{{.kind = TOPOLOGY_LEAF_SPINE, .hosts = 4, .leaves = 3, .spines = 2, .looped = -1},
		 12,
		 5,
		 36},
		{{.kind = TOPOLOGY_FAT_TREE,
		  .hosts = 2,
		  .pods = 4,
		  .edges = 2,
		  .aggregations = 2,
		  .cores = 4,
		  .looped = -1},
		 16,
		 20,
		 96},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		struct network *n = network_of(&shapes[i].nature);

		assert_int_equal(network_hosts(n), shapes[i].hosts);
		assert_int_equal(network_switches(n), shapes[i].switches);
		assert_int_equal(network_ports(n), shapes[i].ports);
		assert_true(network_is_idle(n));
		network_destroy(n);
	}
}

static void a_leaf_has_a_way_by_each_spine(void **state)
{
	/* Four hosts at two leaves, two spines: nodes 0-3, 4-5, 6-7. */
	static const struct routes_link links[] = {
		{{0, 4}, {0, 0}}, {{1, 4}, {0, 1}}, {{2, 5}, {0, 0}}, {{3, 5}, {0, 1}},
		{{4, 6}, {2, 0}}, {{4, 7}, {3, 0}}, {{5, 6}, {2, 1}}, {{5, 7}, {3, 1}},
	};
	struct gid far = routes_gid(3), near = routes_gid(1), nobody = routes_gid(9);
	const struct route *r;
	struct routes *routes;

	(void)state;
	assert_int_equal(routes_create(&routes, 4, 4, links, ARRAY_SIZE(links)), 0);
	r = routes_find(routes, 4, &far);
	assert_int_equal(r->n, 2);
	assert_int_equal(r->port[0] + r->port[1], 2 + 3);
	r = routes_find(routes, 4, &near);
	assert_int_equal(r->n, 1);
	assert_int_equal(r->port[0], 1);
	r = routes_find(routes, 6, &far);
	assert_int_equal(r->n, 1);
	assert_int_equal(r->port[0], 1);
	assert_null(routes_find(routes, 4, &nobody));
	assert_int_equal(routes_hops(routes, 0, 3), 4);
	assert_int_equal(routes_hops(routes, 0, 1), 2);
	assert_int_equal(routes_set(routes, 4, 3, 3), 0);
	r = routes_find(routes, 4, &far);
	assert_int_equal(r->n, 1);
	assert_int_equal(r->port[0], 3);
	routes_destroy(routes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lossless_priority_fills_reserve_share_and_headroom),
		cmocka_unit_test(a_lossy_queue_has_as_much_as_is_free),
		cmocka_unit_test(a_buffer_that_is_all_headroom_is_none),
		cmocka_unit_test(marks_grow_with_the_queue),
		cmocka_unit_test(a_frame_takes_its_time),
		cmocka_unit_test(strict_priorities_go_first_and_the_highest_of_them),
		cmocka_unit_test(others_share_by_their_weights),
		cmocka_unit_test(they_do_beside_one_that_goes_first),
		cmocka_unit_test(a_pause_stops_its_priority_until_it_ends),
		cmocka_unit_test(a_pause_of_none_lets_go_on),
		cmocka_unit_test(a_watchdog_believes_no_pause_without_an_end),
		cmocka_unit_test(a_watchdog_watches_all_priorities),
		cmocka_unit_test(shapes_have_the_ports_that_they_should),
		cmocka_unit_test(a_leaf_has_a_way_by_each_spine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
