/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The loop transport: what it says of itself, what it waits for, and how it ends. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <string.h>
#include <cmocka.h>

#include "base/heap.h" /* DEADLINE_NEVER */
#include "base/time.h"
#include "heap_env.h"
#include "host_requests.h"
#include "nvmf/loop/loop.h"
#include "plain_host.h"
#include "store/store.h"

#define NQN "nqn.2026-11.io.example:loop"

enum { IO_QUEUES = 2, IO_ENTRIES = 16, BLOCKS = 4096 };

/* Keeps what it is told to do until a test lets it. */
struct slow_store {
	struct store store;
	struct store *below;
	bool hold;
	struct store_op *held[64];
	unsigned int count;
};

static struct bed {
	uint64_t now_ns;
	struct target target;
	struct target_subsys subsys;
	struct target_ns ns;
	struct slow_store slow;
	struct shares shares;
	struct transport_target *there;
	struct transport_host *here;
	struct host host;
	struct host_config config;
	struct host_queue queues[1 + IO_QUEUES];
	struct handle_place places[HOST_ADMIN_ENTRIES + IO_QUEUES * IO_ENTRIES];
	uint8_t scratch[HOST_SCRATCH_LEN];
	uint8_t data[IO_ENTRIES][64 << 10];
	unsigned int done;
} bed;

static void slow_submit(struct store *s, struct store_op *op)
{
	struct slow_store *slow = container_of(s, struct slow_store, store);

	if (slow->hold)
		slow->held[slow->count++] = op;
	else
		store_submit(slow->below, op);
}

static const struct store_ops slow_ops = {.name = "slow", .submit = slow_submit};

static void let_store_work(void)
{
	bed.slow.hold = false;
	while (bed.slow.count)
		store_submit(bed.slow.below, bed.slow.held[--bed.slow.count]);
}

static int set_up(void **state)
{
	const struct transport_host_config where = {
		.host = "here", .port = "1", .io_queues = IO_QUEUES, .io_entries = IO_ENTRIES};
	char why[128];

	(void)state;
	memset(&bed, 0, sizeof(bed));
	bed.now_ns = NSEC_PER_SEC;
	target_init(&bed.target, &heap_env, bed.now_ns);
	strcpy(bed.subsys.nqn, NQN);
	assert_int_equal(target_subsys_add(&bed.target, &bed.subsys), 0);
	assert_int_equal(store_mem_create(BLOCKS * 512, 512, 0, &bed.slow.below), 0);
	bed.slow.store = *bed.slow.below;
	bed.slow.store.ops = &slow_ops;
	bed.ns = (struct target_ns){.nsid = 1, .store = &bed.slow.store, .lba_shift = 9};
	assert_int_equal(target_ns_add(&bed.subsys, &bed.ns), 0);
	assert_int_equal(shares_init(&bed.shares, 2 << 20), 0);
	assert_int_equal(loop_transport.target_create(&bed.target.group, &bed.shares, NULL,
						      &bed.there, why, sizeof(why)),
			 0);
	assert_int_equal(bed.there->ops->listen(bed.there, "here", "1", why, sizeof(why)), 0);
	bed.here = loop_transport.host_create(&where, why, sizeof(why));
	assert_non_null(bed.here);
	bed.here->ops->attach(bed.here, &bed.host);
	bed.config = plain_host(NQN, IO_QUEUES, IO_ENTRIES);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	let_store_work();
	bed.here->ops->destroy(bed.here);
	bed.there->ops->shutdown(bed.there);
	while (bed.there->ops->process(bed.there, bed.now_ns, true))
		;
	assert_true(bed.there->ops->idle(bed.there));
	bed.there->ops->destroy(bed.there);
	assert_int_equal(bed.shares.pool.used, 0);
	shares_fini(&bed.shares);
	target_fini(&bed.target);
	store_destroy(bed.slow.below);
	return 0;
}

static void run(void)
{
	bool more;

	do {
		more = bed.there->ops->process(bed.there, bed.now_ns, true);
		more |= bed.here->ops->process(bed.here, bed.now_ns, true);
	} while (more);
}

static void bring_up(void)
{
	assert_int_equal(host_init(&bed.host, &bed.config, bed.here->ops->queues, bed.here,
				   bed.queues, bed.places, bed.scratch),
			 0);
	host_start(&bed.host, bed.now_ns);
	run();
}

static void done(struct host_request *req, uint64_t now_ns)
{
	(void)req;
	(void)now_ns;
	bed.done++;
}

static void start_read(struct host_request *req, uint16_t qid, void *data, uint32_t len)
{
	*req = (struct host_request){.done = done};
	host_prepare_read(req, 1, 0, len / 512, data, len);
	assert_int_equal(host_submit(&bed.host, qid, req, bed.now_ns), 0);
}

static void hosts_are_told_what_it_is_and_carries(void **state)
{
	(void)state;
	bring_up();
	assert_int_equal(bed.host.state, HOST_LIVE);
	assert_int_equal(bed.host.io_queues, IO_QUEUES);
	assert_true(bed.host.id.sgls & NVME_SGLS_TRANSPORT);
	assert_false(bed.host.id.sgls & NVME_SGLS_KEYED);
	assert_int_equal(bed.host.id.msdbd, 1);
	assert_int_equal(bed.host.capsule_max, TARGET_CAPSULE_DATA);
}

/* Each connection learns from Connect which queue it is. */
static void the_queue_id_comes_with_connect(void **state)
{
	bool seen[1 + IO_QUEUES] = {false};

	(void)state;
	assert_int_equal(host_init(&bed.host, &bed.config, bed.here->ops->queues, bed.here,
				   bed.queues, bed.places, bed.scratch),
			 0);
	host_start(&bed.host, bed.now_ns);
	bed.there->ops->process(bed.there, bed.now_ns, true);
	list_for_each(q, &bed.target.group.queues, const struct target_queue, link)
		assert_int_equal(q->qid, TARGET_QID_UNKNOWN);
	run();
	list_for_each(q, &bed.target.group.queues, const struct target_queue, link) {
		assert_in_range(q->qid, 0, IO_QUEUES);
		assert_false(seen[q->qid]);
		seen[q->qid] = true;
	}
	for (int i = 0; i <= IO_QUEUES; i++)
		assert_true(seen[i]);
}

static void a_host_that_needs_keys_finds_it_unfit(void **state)
{
	struct host_transport keyed = *bed.here->ops->queues;

	(void)state;
	keyed.keyed = true;
	assert_int_equal(host_init(&bed.host, &bed.config, &keyed, bed.here, bed.queues, bed.places,
				   bed.scratch),
			 0);
	host_start(&bed.host, bed.now_ns);
	run();
	assert_int_equal(bed.host.state, HOST_FAILED);
	assert_int_equal(bed.host.failure.kind, HOST_FAIL_UNFIT);
}

static void where_nobody_listens_nobody_connects(void **state)
{
	const struct transport_host_config where = {.host = "elsewhere", .port = "1"};
	struct host_config config = {.subnqn = NQN, .hostnqn = NQN};
	struct transport_host *t;
	char why[128];

	(void)state;
	t = loop_transport.host_create(&where, why, sizeof(why));
	assert_non_null(t);
	t->ops->attach(t, &bed.host);
	assert_int_equal(host_init(&bed.host, &config, t->ops->queues, t, bed.queues, bed.places,
				   bed.scratch),
			 0);
	host_start(&bed.host, bed.now_ns);
	assert_int_equal(bed.host.state, HOST_FAILED);
	assert_int_equal(bed.host.failure.kind, HOST_FAIL_OPEN);
	assert_string_equal(
		t->ops->error(t),
		"cannot connect to elsewhere:1: no target of this process listens there");
	t->ops->destroy(t);
}

static void a_name_is_listened_on_once(void **state)
{
	char why[128] = "";

	(void)state;
	assert_int_equal(bed.there->ops->listen(bed.there, "here", "1", why, sizeof(why)),
			 -EADDRINUSE);
	assert_string_equal(why, "another target of this process listens on here port 1");
	assert_int_equal(bed.there->ops->listen(bed.there, NULL, "2", why, sizeof(why)), 0);
}

/* Work that is there makes the deadline come, as there is nothing that could wake anybody. */
static void who_has_work_is_called_at_once(void **state)
{
	struct host_request req;

	(void)state;
	bring_up();
	assert_int_equal(bed.there->ops->next_deadline(bed.there), DEADLINE_NEVER);
	assert_int_equal(bed.here->ops->next_deadline(bed.here), DEADLINE_NEVER);
	start_read(&req, 1, bed.data[0], 4096);
	assert_int_equal(bed.there->ops->next_deadline(bed.there), 0);
	assert_int_equal(bed.here->ops->next_deadline(bed.here), DEADLINE_NEVER);
	assert_true(bed.there->ops->process(bed.there, bed.now_ns, true));
	assert_int_equal(bed.there->ops->next_deadline(bed.there), DEADLINE_NEVER);
	assert_int_equal(bed.here->ops->next_deadline(bed.here), 0);
	assert_true(bed.here->ops->process(bed.here, bed.now_ns, true));
	assert_int_equal(bed.done, 1);
}

static void commands_wait_for_memory_and_go_on(void **state)
{
	static struct host_request reqs[IO_ENTRIES - 1];

	(void)state;
	bring_up();
	bed.slow.hold = true;
	bed.shares.budget[SHARE_FOR_IO].len = 256 << 10;
	for (int i = 0; i < IO_ENTRIES - 1; i++)
		start_read(&reqs[i], 1, bed.data[i], sizeof(bed.data[i]));
	run();
	assert_in_range(bed.slow.count, 1, 3); /* a host's share of four */
	for (int rounds = 0; bed.done < IO_ENTRIES - 1; rounds++) {
		assert_in_range(rounds, 0, IO_ENTRIES);
		let_store_work();
		bed.slow.hold = true;
		run();
	}
}

/* Of which queue it is is not known before it is carried out. */
static void connect_takes_no_memory_of_io(void **state)
{
	(void)state;
	bed.shares.budget[SHARE_FOR_IO].len = 0;
	bring_up();
	assert_int_equal(bed.host.state, HOST_LIVE);
	assert_int_equal(bed.host.io_queues, IO_QUEUES);
}

/* The host's memory is its own again, whatever the store still does. */
static void who_has_closed_is_not_written_to(void **state)
{
	struct host_request req;

	(void)state;
	bring_up();
	bed.slow.hold = true;
	memset(bed.data[0], 0xee, 4096);
	start_read(&req, 1, bed.data[0], 4096);
	run();
	assert_int_equal(bed.slow.count, 1);
	host_reset(&bed.host, bed.now_ns);
	assert_int_equal(bed.done, 1);
	assert_int_equal(req.error, -ENOTCONN);
	run();
	assert_false(bed.there->ops->idle(bed.there)); /* the store has not answered */
	let_store_work();
	run();
	assert_true(bed.there->ops->idle(bed.there));
	for (int i = 0; i < 4096; i++)
		assert_int_equal(bed.data[0][i], 0xee);
}

static void when_the_target_ends_hosts_are_told(void **state)
{
	(void)state;
	bring_up();
	bed.there->ops->shutdown(bed.there);
	run();
	assert_true(bed.there->ops->idle(bed.there));
	assert_int_equal(bed.host.state, HOST_FAILED);
	assert_int_equal(bed.host.failure.kind, HOST_FAIL_LOST);
	assert_string_equal(bed.here->ops->error(bed.here),
			    "connection to here:1 lost: the target closed it");
}

/* Asked for, and not let in before the end. */
static void who_comes_at_the_end_is_refused(void **state)
{
	(void)state;
	assert_int_equal(host_init(&bed.host, &bed.config, bed.here->ops->queues, bed.here,
				   bed.queues, bed.places, bed.scratch),
			 0);
	host_start(&bed.host, bed.now_ns);
	bed.there->ops->shutdown(bed.there);
	run();
	assert_true(bed.there->ops->idle(bed.there));
	assert_int_equal(bed.host.state, HOST_FAILED);
	assert_string_equal(bed.here->ops->error(bed.here),
			    "cannot connect to here:1: the target refuses");
}

/* Newer ones drive out those that never say what they want. */
static void a_crowd_without_connect_makes_room(void **state)
{
	static struct transport_host *crowd[SHARE_YOUNG_HOST_MAX + 4];
	static struct host hosts[ARRAY_SIZE(crowd)];
	static struct host_queue queues[ARRAY_SIZE(crowd)];
	static struct handle_place places[ARRAY_SIZE(crowd)][HOST_ADMIN_ENTRIES];
	const struct transport_host_config where = {.host = "here", .port = "1"};
	struct host_config config = bed.config;
	char why[128];
	unsigned int failed = 0;

	(void)state;
	config.io_queues = 0;
	for (unsigned int i = 0; i < ARRAY_SIZE(crowd); i++) {
		crowd[i] = loop_transport.host_create(&where, why, sizeof(why));
		assert_non_null(crowd[i]);
		crowd[i]->ops->attach(crowd[i], &hosts[i]);
		assert_int_equal(host_init(&hosts[i], &config, crowd[i]->ops->queues, crowd[i],
					   &queues[i], places[i], bed.scratch),
				 0);
		host_start(&hosts[i], bed.now_ns);
		bed.there->ops->process(bed.there, bed.now_ns, true);
	}
	assert_in_range(bed.shares.young_count, 1, SHARE_YOUNG_HOST_MAX);
	for (unsigned int i = 0; i < ARRAY_SIZE(crowd); i++) {
		crowd[i]->ops->process(crowd[i], bed.now_ns, true);
		failed += hosts[i].state == HOST_FAILED;
		crowd[i]->ops->destroy(crowd[i]);
	}
	assert_int_equal(failed, 4);
	assert_int_equal(hosts[ARRAY_SIZE(crowd) - 1].state, HOST_CONNECT);
	run();
	bring_up();
	assert_int_equal(bed.host.state, HOST_LIVE);
}

#define BED_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BED_TEST(hosts_are_told_what_it_is_and_carries),
		BED_TEST(the_queue_id_comes_with_connect),
		BED_TEST(a_host_that_needs_keys_finds_it_unfit),
		BED_TEST(where_nobody_listens_nobody_connects),
		BED_TEST(a_name_is_listened_on_once),
		BED_TEST(who_has_work_is_called_at_once),
		BED_TEST(commands_wait_for_memory_and_go_on),
		BED_TEST(connect_takes_no_memory_of_io),
		BED_TEST(who_has_closed_is_not_written_to),
		BED_TEST(when_the_target_ends_hosts_are_told),
		BED_TEST(who_comes_at_the_end_is_refused),
		BED_TEST(a_crowd_without_connect_makes_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
