/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The host's core against the target's by the loop transport, in an order and with losses of
 * connections that a seed decides, in virtual time; once with a target of one group, once of two.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/heap.h" /* DEADLINE_NEVER */
#include "base/time.h"
#include "heap_env.h"
#include "host_requests.h"
#include "nvmf/host/discovery.h"
#include "nvmf/loop/loop.h"
#include "plain_host.h"
#include "store/store.h"

#define SUBNQN "nqn.2024-01.test:disk"

enum {
	IO_QUEUES = 3,
	QUEUES = 1 + IO_QUEUES,
	ENTRIES = 16,
	NS_BYTES = 1 << 20,
	AREA = 256 << 10, /* of one request, at most */
};

struct bed {
	struct target target;
	struct target_subsys subsys;
	struct target_ns ns;
	struct store *store;
	struct shares shares;
	struct transport_target *there;
	/* Of a second group, where there is one. */
	struct target_group second;
	struct shares second_shares;
	struct transport_target *beside;
	struct transport_host *here;
	struct host_transport counted; /* here's, with what is sent counted */
	struct host host;
	struct host_config config;
	struct host_queue queues[QUEUES];
	struct handle_place places[HOST_ADMIN_ENTRIES + IO_QUEUES * ENTRIES];
	uint8_t scratch[HOST_SCRATCH_LEN], page[NVME_IDENTIFY_LEN];
	uint64_t now_ns, random;
	unsigned int in_capsule;
	bool deaf; /* the host's clock stands still */
};

static struct bed *bed;
static bool two_groups;

static uint32_t chance(uint32_t n)
{
	bed->random ^= bed->random << 13;
	bed->random ^= bed->random >> 7;
	bed->random ^= bed->random << 17;
	return (uint32_t)(bed->random >> 20) % n;
}

static uint32_t pick(void *ctx, uint32_t n)
{
	(void)ctx;
	return chance(n);
}

static int counted_submit(void *t, uint16_t qid, struct host_request *req, bool in_capsule)
{
	bed->in_capsule += in_capsule;
	return bed->here->ops->queues->submit(t, qid, req, in_capsule);
}

static bool happen_at(uint32_t where)
{
	switch (where) {
	case 0:
		return bed->here->ops->process(bed->here, bed->now_ns, true);
	case 1:
		return bed->there->ops->process(bed->there, bed->now_ns, true);
	case 2:
		return bed->beside->ops->process(bed->beside, bed->now_ns, true);
	case 3:
		return target_group_process(&bed->second, bed->now_ns);
	default:
		return target_group_process(&bed->target.group, bed->now_ns);
	}
}

/* One thing that can happen, there or here; false if there is none. */
static bool happen(void)
{
	uint32_t places = two_groups ? 5 : 2, first = chance(places);
	bool any = false;

	for (uint32_t i = 0; i < places && !any; i++)
		any = happen_at((first + i) % places);
	return any;
}

static void run(void)
{
	while (happen())
		;
	assert_int_equal(bed->there->ops->next_deadline(bed->there), DEADLINE_NEVER);
	if (two_groups)
		assert_int_equal(bed->beside->ops->next_deadline(bed->beside), DEADLINE_NEVER);
	assert_int_equal(bed->here->ops->next_deadline(bed->here), DEADLINE_NEVER);
}

/* One of the target's connections is lost. */
static void lose(void)
{
	uint32_t n = chance(QUEUES);

	list_for_each(g, &bed->target.groups, struct target_group, link)
		list_for_each(q, &g->queues, struct target_queue, link)
			if (n-- == 0 && !q->disconnected)
				q->ops->disconnect(q);
}

static void advance(uint64_t by_ns)
{
	uint64_t end_ns = bed->now_ns + by_ns;

	for (;;) {
		uint64_t host_ns = bed->deaf ? UINT64_MAX : host_next_deadline(&bed->host);
		uint64_t target_ns = target_next_deadline(&bed->target);
		uint64_t second_ns =
			two_groups ? target_group_next_deadline(&bed->second) : DEADLINE_NEVER;
		uint64_t next = min_of(host_ns, target_ns);

		next = min_of(next, second_ns);
		if (next > end_ns)
			break;
		bed->now_ns = max_of(bed->now_ns, next);
		if (host_ns <= bed->now_ns)
			host_tick(&bed->host, bed->now_ns);
		if (target_ns <= bed->now_ns)
			target_tick(&bed->target, bed->now_ns);
		if (second_ns <= bed->now_ns)
			(void)target_group_process(&bed->second, bed->now_ns);
		run();
	}
	bed->now_ns = end_ns;
}

static void set_up_second(const struct loop_order *order)
{
	char why[128];

	target_group_init(&bed->second, &bed->target, NULL, NULL, NULL, bed->now_ns);
	assert_int_equal(shares_init(&bed->second_shares, 2 << 20), 0);
	assert_int_equal(loop_transport.target_create(&bed->second, &bed->second_shares, bed->there,
						      &bed->beside, why, sizeof(why)),
			 0);
	loop_target_order(bed->beside, order);
}

static void tear_down_second(void)
{
	assert_true(bed->beside->ops->idle(bed->beside));
	bed->beside->ops->shutdown(bed->beside);
	bed->beside->ops->destroy(bed->beside);
	shares_fini(&bed->second_shares);
	assert_true(target_group_idle(&bed->second));
	target_group_fini(&bed->second);
}

static int setup(void **state)
{
	const struct transport_host_config where = {
		.host = "10.1.2.3", .port = "4420", .io_queues = IO_QUEUES, .io_entries = ENTRIES};
	const struct loop_order order = {.pick = pick};
	char why[128];

	(void)state;
	bed = calloc(1, sizeof(*bed));
	bed->now_ns = NSEC_PER_SEC;
	bed->random = 88172645463325252ull;
	target_init(&bed->target, &heap_env, bed->now_ns);
	strcpy(bed->subsys.nqn, SUBNQN);
	strcpy(bed->subsys.serial, "1");
	strcpy(bed->subsys.model, "weft");
	strcpy(bed->subsys.firmware, "0");
	assert_int_equal(target_subsys_add(&bed->target, &bed->subsys), 0);
	assert_int_equal(store_mem_create(NS_BYTES, 512, 0, &bed->store), 0);
	bed->ns = (struct target_ns){.nsid = 1, .store = bed->store, .lba_shift = 9};
	assert_int_equal(target_ns_add(&bed->subsys, &bed->ns), 0);
	assert_int_equal(shares_init(&bed->shares, 2 << 20), 0);
	assert_int_equal(loop_transport.target_create(&bed->target.group, &bed->shares, NULL,
						      &bed->there, why, sizeof(why)),
			 0);
	assert_int_equal(bed->there->ops->listen(bed->there, "10.1.2.3", "4420", why, sizeof(why)),
			 0);
	bed->here = loop_transport.host_create(&where, why, sizeof(why));
	assert_non_null(bed->here);
	bed->here->ops->attach(bed->here, &bed->host);
	bed->counted = *bed->here->ops->queues;
	bed->counted.submit = counted_submit;
	loop_target_order(bed->there, &order);
	loop_host_order(bed->here, &order);
	if (two_groups)
		set_up_second(&order);
	bed->config = plain_host(SUBNQN, IO_QUEUES, ENTRIES);
	bed->config.keep_alive_ms = 10000;
	bed->config.reconnect_delay_ns = NSEC_PER_SEC;
	bed->config.loss_timeout_ns = 60 * NSEC_PER_SEC;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	host_shutdown(&bed->host, bed->now_ns);
	run();
	advance(10 * NSEC_PER_SEC);
	assert_int_equal(bed->host.state, HOST_CLOSED);
	bed->here->ops->destroy(bed->here);
	if (two_groups)
		tear_down_second();
	assert_true(bed->there->ops->idle(bed->there));
	bed->there->ops->shutdown(bed->there);
	bed->there->ops->destroy(bed->there);
	assert_int_equal(bed->target.ctrl_count, 0);
	shares_fini(&bed->shares);
	target_fini(&bed->target);
	store_destroy(bed->store);
	free(bed);
	return 0;
}

static void start(void)
{
	assert_int_equal(host_init(&bed->host, &bed->config, &bed->counted, bed->here, bed->queues,
				   bed->places, bed->scratch),
			 0);
	host_start(&bed->host, bed->now_ns);
	run();
	advance(NSEC_PER_SEC);
}

static void bring_up(void)
{
	start();
	if (bed->host.state != HOST_LIVE)
		fail_msg("state %s, failure %d, status %x", host_state_name(bed->host.state),
			 bed->host.failure.kind, bed->host.failure.status);
}

static void count_done(struct host_request *req, uint64_t now_ns)
{
	(void)now_ns;
	++*(unsigned int *)req->arg;
}

/* Runs one request to its end. */
static void exec(uint16_t qid, struct host_request *req)
{
	unsigned int done = 0;

	req->done = count_done;
	req->arg = &done;
	assert_int_equal(host_submit(&bed->host, qid, req, bed->now_ns), 0);
	run();
	assert_int_equal(done, 1);
	assert_int_equal(req->error, 0);
}

static uint16_t status(const struct host_request *req)
{
	return req->cqe.status & NVME_STATUS_CODE;
}

static void host_and_target_come_up_together(void **state)
{
	struct host_request req = {0};
	struct cursor c;
	struct nvme_id_ns id;
	struct host_namespace ns;
	const char *why;

	(void)state;
	bring_up();
	assert_int_equal(bed->host.io_queues, IO_QUEUES);
	assert_int_equal(bed->host.transfer_max, TARGET_DATA_MAX);
	assert_int_equal(bed->host.capsule_max, TARGET_CAPSULE_DATA);
	assert_int_equal(bed->target.ctrl_count, 1);
	host_prepare_identify(&req, NVME_CNS_NS, 1, bed->page);
	exec(0, &req);
	assert_int_equal(status(&req), 0);
	c = cursor_init(bed->page, sizeof(bed->page));
	nvme_id_ns_get(&c, &id);
	assert_int_equal(host_namespace_read(&id, 1, &ns, &why), 0);
	assert_int_equal(ns.blocks, NS_BYTES / 512);
	host_prepare_identify(&req, NVME_CNS_NS, TARGET_NS_MAX + 1, bed->page);
	exec(0, &req);
	assert_int_equal(status(&req), NVME_SC_INVALID_NS);
}

/* Two of three I/O queues are the second group's, with what their commands take. */
static void each_group_serves_its_queues(void **state)
{
	struct host_request req = {0};
	uint8_t buf[4096];

	(void)state;
	bring_up();
	list_for_each(q, &bed->second.queues, const struct target_queue, link)
		assert_int_not_equal(q->qid, 0);
	assert_int_equal(bed->second_shares.queue_count, 2);
	assert_int_equal(bed->second_shares.young_count, 0);
	assert_int_equal(bed->shares.queue_count, 2);
	for (uint16_t qid = 1; qid <= IO_QUEUES; qid++) {
		host_prepare_read(&req, 1, 0, 8, buf, sizeof(buf));
		exec(qid, &req);
		assert_int_equal(status(&req), 0);
	}
	assert_int_equal(bed->second.counters->reads, 2);
	assert_int_equal(bed->target.counters->reads, 1);
}

/* The host is told that it cannot have the queue, and all that came before is undone. */
static void a_group_that_has_no_room_ends_what_is_handed_to_it(void **state)
{
	(void)state;
	bed->second_shares.queue_count = SHARE_QUEUES_MAX;
	start();
	assert_int_not_equal(bed->host.state, HOST_LIVE);
	bed->second_shares.queue_count = 0;
	advance(20 * NSEC_PER_SEC);
	assert_true(target_group_idle(&bed->second));
}

static void a_host_may_go_while_its_queues_are_handed_on(void **state)
{
	(void)state;
	assert_int_equal(host_init(&bed->host, &bed->config, &bed->counted, bed->here, bed->queues,
				   bed->places, bed->scratch),
			 0);
	host_start(&bed->host, bed->now_ns);
	for (int i = 0; i < 10; i++) { /* the second thread sleeps */
		while (happen_at(0) || happen_at(1) || happen_at(4))
			;
		bed->now_ns += 100 * NSEC_PER_MSEC;
		host_tick(&bed->host, bed->now_ns);
	}
	assert_int_equal(bed->second_shares.queue_count, 0);
	assert_false(bed->beside->ops->idle(bed->beside));
	bed->now_ns += bed->config.command_timeout_ns;
	host_tick(&bed->host, bed->now_ns);
	assert_int_equal(bed->host.state, HOST_FAILED);
	run();
	assert_true(bed->beside->ops->idle(bed->beside));
	assert_int_equal(bed->second_shares.queue_count, 0);
	assert_true(target_group_idle(&bed->second));
}

static void what_is_written_is_read(void **state)
{
	static const uint32_t sizes[] = {512, 4096, 8192, 8704, 65536, AREA};
	uint8_t *out = malloc(AREA), *in = malloc(AREA);

	(void)state;
	bring_up();
	bed->in_capsule = 0;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct host_request req = {0};
		uint32_t n = sizes[i];

		for (uint32_t k = 0; k < n; k++)
			out[k] = (uint8_t)chance(256);
		memset(in, 0, n);
		host_prepare_write(&req, 1, i * 100, n / 512, out, n, i % 2);
		exec(1, &req);
		assert_int_equal(status(&req), 0);
		host_prepare_read(&req, 1, i * 100, n / 512, in, n);
		exec(2, &req);
		assert_int_equal(status(&req), 0);
		assert_memory_equal(in, out, n);
	}
	assert_int_equal(bed->in_capsule, 3); /* up to 8 KiB */
	free(out);
	free(in);
}

static void the_target_s_refusals_arrive_as_statuses(void **state)
{
	struct host_request req = {0};
	uint8_t buf[1024] = {0};

	(void)state;
	bring_up();
	host_prepare_read(&req, 1, NS_BYTES / 512 - 1, 2, buf, 1024);
	exec(1, &req);
	assert_int_equal(status(&req), NVME_SC_LBA_RANGE);
	assert_true(req.cqe.status & NVME_STATUS_DNR);
	host_prepare_read(&req, 2, 0, 2, buf, 1024);
	exec(1, &req);
	assert_int_equal(status(&req), NVME_SC_INVALID_NS);
	host_prepare_flush(&req, 1);
	exec(1, &req);
	assert_int_equal(status(&req), 0);
	host_prepare_write_zeroes(&req, 1, 0, 8, false);
	exec(1, &req);
	assert_int_equal(status(&req), 0);
	req.sqe.opcode = 0x7e;
	exec(1, &req);
	assert_int_equal(status(&req), NVME_SC_INVALID_OPCODE);
}

static void an_unknown_subsystem_is_named(void **state)
{
	(void)state;
	strcpy(bed->config.subnqn, "nqn.2024-01.test:other");
	start();
	assert_int_equal(bed->host.state, HOST_FAILED);
	assert_int_equal(bed->host.failure.kind, HOST_FAIL_STATUS);
	assert_int_equal(bed->host.failure.status & NVME_STATUS_CODE,
			 NVME_SC_CONNECT_INVALID_PARAM);
	assert_int_equal(NVMF_CONNECT_IATTR(bed->host.failure.result), 1);
	assert_int_equal(NVMF_CONNECT_IPO(bed->host.failure.result), NVMF_CONNECT_DATA_SUBNQN);
}

static void a_host_that_is_not_let_in_is_told(void **state)
{
	static const char *const hosts[] = {"nqn.2024-01.test:someone"};

	(void)state;
	bed->subsys.hosts = hosts;
	bed->subsys.host_count = 1;
	start();
	assert_int_equal(bed->host.state, HOST_FAILED);
	assert_int_equal(bed->host.failure.status & NVME_STATUS_CODE, NVME_SC_CONNECT_INVALID_HOST);
}

static void discovery_ended(struct host_discovery *d, uint64_t now_ns)
{
	(void)now_ns;
	++*(unsigned int *)d->arg;
}

static void the_discovery_log_names_the_subsystem(void **state)
{
	struct nvmf_disc_entry entries[4];
	unsigned int done = 0;
	struct host_discovery d = {.buffer = bed->page,
				   .entries = entries,
				   .max = 4,
				   .done = discovery_ended,
				   .arg = &done};
	bool found = false;

	(void)state;
	strcpy(bed->config.subnqn, NVMF_DISCOVERY_NQN);
	bring_up();
	assert_int_equal(host_discovery_start(&d, &bed->host, bed->now_ns), 0);
	run();
	assert_int_equal(done, 1);
	assert_int_equal(d.error, 0);
	for (uint32_t i = 0; i < d.count; i++) {
		if (entries[i].subtype != NVMF_SUBTYPE_NVM)
			continue;
		found = true;
		assert_string_equal(entries[i].subnqn, SUBNQN);
		assert_memory_equal(entries[i].traddr, "10.1.2.3", 8);
	}
	assert_true(found);
}

static void keep_alives_keep_the_controller(void **state)
{
	(void)state;
	bring_up();
	advance(3600 * NSEC_PER_SEC);
	assert_int_equal(bed->host.state, HOST_LIVE);
	assert_int_equal(bed->host.reconnects, 0);
}

static void a_host_that_sleeps_too_long_loses_its_controller_and_comes_back(void **state)
{
	struct host_request req = {.again = true};
	uint8_t buf[512];

	(void)state;
	bring_up();
	bed->deaf = true;
	advance(60 * NSEC_PER_SEC);
	assert_int_equal(bed->target.ctrl_count, 0);
	bed->deaf = false;
	advance(5 * NSEC_PER_SEC);
	assert_int_equal(bed->host.state, HOST_LIVE);
	assert_int_equal(bed->host.reconnects, 1);
	host_prepare_read(&req, 1, 0, 1, buf, sizeof(buf));
	exec(1, &req);
	assert_int_equal(status(&req), 0);
}

static void a_namespace_that_grows_is_announced(void **state)
{
	(void)state;
	bring_up();
	assert_int_equal(bed->host.event_out, true);
	target_ns_changed(&bed->ns, &bed->subsys);
	run();
	assert_int_equal(bed->host.state, HOST_LIVE);
	assert_int_equal(bed->host.event_out, true); /* asked for anew */
}

/* --- storms ---------------------------------------------------------------------------------- */

enum { STORM_SLOTS = 24, STORM_BLOCKS = 64, STORM_STEPS = 400, STORM_SEEDS = 150 };

struct storm_io {
	struct host_request req;
	bool busy, writing;
	uint32_t block;
	uint8_t fill;
	uint8_t buf[4096];
};

static struct storm_io *storm;
static uint8_t truth[STORM_BLOCKS];
static bool block_busy[STORM_BLOCKS];
static unsigned int storm_done;

static void storm_answered(struct host_request *req, uint64_t now_ns)
{
	struct storm_io *io = req->arg;

	(void)now_ns;
	assert_true(io->busy);
	io->busy = false;
	block_busy[io->block] = false;
	storm_done++;
	assert_int_equal(req->error, 0); /* a way back was left open: nothing is lost */
	assert_int_equal(status(req), 0);
	if (io->writing) {
		truth[io->block] = io->fill;
		return;
	}
	for (size_t i = 0; i < sizeof(io->buf); i++)
		assert_int_equal(io->buf[i], truth[io->block]);
}

static void storm_start(struct storm_io *io)
{
	uint32_t block = chance(STORM_BLOCKS);

	if (block_busy[block])
		return;
	io->block = block;
	io->busy = block_busy[block] = true;
	io->writing = chance(2);
	io->req = (struct host_request){.done = storm_answered, .arg = io, .again = true};
	if (io->writing) {
		io->fill = (uint8_t)chance(256);
		memset(io->buf, io->fill, sizeof(io->buf));
		host_prepare_write(&io->req, 1, block * 8, 8, io->buf, sizeof(io->buf), false);
	} else {
		memset(io->buf, 0xee, sizeof(io->buf));
		host_prepare_read(&io->req, 1, block * 8, 8, io->buf, sizeof(io->buf));
	}
	assert_int_equal(
		host_submit(&bed->host, (uint16_t)(1 + chance(IO_QUEUES)), &io->req, bed->now_ns),
		0);
}

static void lost_connections_lose_no_data(void **state)
{
	unsigned int total = 0, reconnects = 0;

	storm = calloc(STORM_SLOTS, sizeof(*storm));
	for (uint64_t seed = 1; seed <= STORM_SEEDS; seed++) {
		memset(truth, 0, sizeof(truth));
		memset(block_busy, 0, sizeof(block_busy));
		memset(storm, 0, STORM_SLOTS * sizeof(*storm));
		storm_done = 0;
		if (seed > 1)
			assert_int_equal(setup(state), 0);
		bed->random = seed * 0x9e3779b97f4a7c15ull;
		bring_up();
		for (int step = 0; step < STORM_STEPS; step++) {
			struct storm_io *io = &storm[chance(STORM_SLOTS)];

			if (!io->busy)
				storm_start(io);
			for (uint32_t i = chance(6); i > 0; i--)
				happen();
			if (chance(100) == 0)
				lose();
			if (chance(50) == 0)
				advance(chance(3) * NSEC_PER_SEC);
		}
		run();
		for (int i = 0; i < 100 && bed->host.state != HOST_LIVE; i++)
			advance(NSEC_PER_SEC);
		assert_int_equal(bed->host.state, HOST_LIVE);
		for (int i = 0; i < STORM_SLOTS; i++)
			if (storm[i].busy)
				fail_msg("seed %llu: a request was never answered",
					 (unsigned long long)seed);
		total += storm_done;
		reconnects += bed->host.reconnects;
		if (seed < STORM_SEEDS)
			assert_int_equal(teardown(state), 0);
	}
	/* The storms were storms, and work was done in them. */
	assert_in_range(total, STORM_SEEDS * 50, STORM_SEEDS * STORM_STEPS);
	assert_in_range(reconnects, STORM_SEEDS, STORM_SEEDS * 20);
	free(storm);
}

static int setup_one(void **state)
{
	two_groups = false;
	return setup(state);
}

static int setup_two(void **state)
{
	two_groups = true;
	return setup(state);
}

#define TWO_TEST(f) cmocka_unit_test_setup_teardown(f, setup_two, teardown)
#define BED_TEST(f) cmocka_unit_test_setup_teardown(f, setup_one, teardown), TWO_TEST(f)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BED_TEST(host_and_target_come_up_together),
		TWO_TEST(each_group_serves_its_queues),
		TWO_TEST(a_group_that_has_no_room_ends_what_is_handed_to_it),
		TWO_TEST(a_host_may_go_while_its_queues_are_handed_on),
		BED_TEST(what_is_written_is_read),
		BED_TEST(the_target_s_refusals_arrive_as_statuses),
		BED_TEST(an_unknown_subsystem_is_named),
		BED_TEST(a_host_that_is_not_let_in_is_told),
		BED_TEST(the_discovery_log_names_the_subsystem),
		BED_TEST(keep_alives_keep_the_controller),
		BED_TEST(a_host_that_sleeps_too_long_loses_its_controller_and_comes_back),
		BED_TEST(a_namespace_that_grows_is_announced),
		BED_TEST(lost_connections_lose_no_data),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
