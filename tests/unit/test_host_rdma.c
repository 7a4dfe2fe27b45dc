/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The host's RDMA transport against our target, both in this process and moved on in turns. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/heap.h" /* DEADLINE_NEVER */
#include "base/time.h"
#include "heap_env.h"
#include "iwarp_like.h"
#include "netns.h"
#include "host_requests.h"
#include "nvmf/host/host.h"
#include "nvmf/rdma/host.h"
#include "nvmf/rdma/nudge.h"
#include "nvmf/rdma/rdma.h"
#include "plain_host.h"
#include "store/store.h"
#include "../skip.h"

#define NQN	 "nqn.2026-11.io.example:rdma"
#define PATIENCE (20 * NSEC_PER_SEC)

enum { IO_QUEUES = 1, IO_ENTRIES = 8 };

/* All on a clock that stands still unless a test moves it. */
static struct bed {
	uint64_t now_ns;
	struct target target;
	struct target_subsys subsys;
	struct target_ns ns;
	struct shares shares;
	struct transport_target *rt;
	struct transport_host *rdma;
	struct host host;
	struct host_queue queues[1 + IO_QUEUES];
	struct handle_place places[HOST_ADMIN_ENTRIES + IO_QUEUES * IO_ENTRIES];
	uint8_t scratch[HOST_SCRATCH_LEN];
} bed;

static int set_up(void **state)
{
	struct transport_host_config rc = {.host = "127.0.0.1",
					   .port = "4420",
					   .io_queues = IO_QUEUES,
					   .io_entries = IO_ENTRIES,
					   .resolve_timeout_ms = 2000};
	struct host_config hc = plain_host(NQN, IO_QUEUES, IO_ENTRIES);
	char why[256] = "";

	(void)state;
	memset(&bed, 0, sizeof(bed));
	bed.now_ns = time_now_ns();
	target_init(&bed.target, &heap_env, bed.now_ns);
	strcpy(bed.subsys.nqn, NQN);
	bed.ns = (struct target_ns){.nsid = 1, .lba_shift = 9};
	if (!iwarp_like_begin() || target_subsys_add(&bed.target, &bed.subsys) != 0 ||
	    store_mem_create(1 << 20, 512, 0, &bed.ns.store) != 0 ||
	    target_ns_add(&bed.subsys, &bed.ns) != 0 || shares_init(&bed.shares, 2 << 20) != 0 ||
	    rdma_transport.target_create(&bed.target.group, &bed.shares, NULL, &bed.rt, why,
					 sizeof(why)) != 0 ||
	    bed.rt->ops->listen(bed.rt, "127.0.0.1", "4420", why, sizeof(why)) != 0) {
		print_error("%s\n", why);
		return -1;
	}
	bed.rdma = rdma_transport.host_create(&rc, why, sizeof(why));
	if (!bed.rdma)
		return -1;
	bed.rdma->ops->attach(bed.rdma, &bed.host);
	return bed.rdma->ops->add_memory(bed.rdma, bed.scratch, sizeof(bed.scratch)) ||
	       host_init(&bed.host, &hc, bed.rdma->ops->queues, bed.rdma, bed.queues, bed.places,
			 bed.scratch);
}

static int tear_down(void **state)
{
	(void)state;
	bed.rdma->ops->destroy(bed.rdma);
	bed.rt->ops->shutdown(bed.rt);
	if (!bed.rt->ops->idle(bed.rt))
		return -1;
	bed.rt->ops->destroy(bed.rt);
	shares_fini(&bed.shares);
	target_fini(&bed.target);
	store_destroy(bed.ns.store);
	iwarp_like_end();
	return 0;
}

static void pump_host(void)
{
	struct pollfd fds[TRANSPORT_HOST_FDS];
	unsigned int n = bed.rdma->ops->pollfds(bed.rdma, fds);

	for (unsigned int i = 0; i < n; i++)
		fds[i].revents = POLLIN; /* it looks for itself */
	bed.rdma->ops->polled(bed.rdma, fds, n);
	bed.rdma->ops->process(bed.rdma, bed.now_ns, true);
	if (bed.now_ns >= host_next_deadline(&bed.host))
		host_tick(&bed.host, bed.now_ns);
}

static void pump_until(enum host_state wanted)
{
	uint64_t end = time_now_ns() + PATIENCE;

	while (bed.host.state != wanted && bed.host.state != HOST_FAILED && time_now_ns() < end) {
		bed.rt->ops->process(bed.rt, bed.now_ns, true);
		pump_host();
	}
	assert_string_equal(host_state_name(bed.host.state), host_state_name(wanted));
}

/* Connect is on its way, or there already, to a target that is left standing. */
static void connect_to_nobody(void)
{
	host_start(&bed.host, bed.now_ns);
	pump_until(HOST_CONNECT);
}

static void while_connect_is_not_answered_on_iwarp_more_is_sent(void **state)
{
	uint64_t wait = NUDGE_HOST_NS;

	(void)state;
	connect_to_nobody();
	for (unsigned int i = 0; i < 5; i++, wait *= 2) {
		assert_int_equal(bed.rdma->ops->next_deadline(bed.rdma), bed.now_ns + wait);
		bed.now_ns += wait - 1;
		pump_host();
		assert_int_equal(iwarp_like.empty_writes, i);
		bed.now_ns++;
		pump_host();
		assert_int_equal(iwarp_like.empty_writes, i + 1);
	}
	/* The answer ends that, and the WRITEs have done no harm. */
	pump_until(HOST_LIVE);
	bed.now_ns += 10 * NSEC_PER_SEC;
	pump_host();
	assert_int_equal(bed.rdma->ops->next_deadline(bed.rdma), DEADLINE_NEVER);
	assert_int_equal(iwarp_like.empty_writes, 5);
	assert_int_equal(bed.host.state, HOST_LIVE);
}

static void an_answered_connect_needs_no_more(void **state)
{
	(void)state;
	host_start(&bed.host, bed.now_ns);
	pump_until(HOST_LIVE);
	bed.now_ns += NSEC_PER_SEC;
	pump_host();
	assert_int_equal(bed.rdma->ops->next_deadline(bed.rdma), DEADLINE_NEVER);
	assert_int_equal(iwarp_like.empty_writes, 0);
}

static void other_transports_need_no_more(void **state)
{
	(void)state;
	iwarp_like_say_ib();
	connect_to_nobody();
	assert_int_equal(bed.rdma->ops->next_deadline(bed.rdma), DEADLINE_NEVER);
	bed.now_ns += NSEC_PER_SEC;
	pump_host();
	assert_int_equal(iwarp_like.empty_writes, 0);
	pump_until(HOST_LIVE);
}

static int (*req_notify)(struct ibv_cq *, int);
static unsigned arms;

static int count_arms(struct ibv_cq *cq, int solicited_only)
{
	arms++;
	return req_notify(cq, solicited_only);
}

/* As the target does. */
static void its_queue_is_armed_before_each_sleep(void **state)
{
	struct ibv_context *verbs;

	(void)state;
	host_start(&bed.host, bed.now_ns);
	pump_until(HOST_LIVE);
	verbs = rdma_host_of(bed.rdma)->verbs;
	req_notify = verbs->ops.req_notify_cq;
	verbs->ops.req_notify_cq = count_arms;
	for (int i = 0; i < 3; i++) {
		do
			arms = 0;
		while (bed.rdma->ops->process(bed.rdma, bed.now_ns, true));
		assert_int_equal(arms, 1);
	}
	verbs->ops.req_notify_cq = req_notify;
}

/* --- keys ---------------------------------------------------------------------------------------
 */

static struct io {
	struct host_request req;
	bool done;
	int removed; /* what its memory's removal said, from within done() */
} io;

static uint8_t data[2 << 20];

static void io_done(struct host_request *req, uint64_t now_ns)
{
	struct io *i = req->arg;

	(void)now_ns;
	i->done = true;
	if (i->removed)
		i->removed = bed.rdma->ops->remove_memory(bed.rdma, data);
}

static void read_some(uint32_t bytes, bool known)
{
	uint64_t end = time_now_ns() + PATIENCE;

	io = (struct io){.req = {.done = io_done, .arg = &io}, .removed = known ? -1 : 0};
	host_prepare_read(&io.req, 1, 0, bytes / 512, data, bytes);
	if (known)
		assert_int_equal(bed.rdma->ops->add_memory(bed.rdma, data, sizeof(data)), 0);
	assert_int_equal(host_submit(&bed.host, 1, &io.req, bed.now_ns), 0);
	while (!io.done && time_now_ns() < end) {
		bed.rt->ops->process(bed.rt, bed.now_ns, true);
		pump_host();
	}
	assert_true(io.done);
	assert_int_equal(io.req.error, 0);
}

static void a_key_that_the_response_leaves_valid_is_invalidated(void **state)
{
	(void)state;
	host_start(&bed.host, bed.now_ns);
	pump_until(HOST_LIVE);
	if (!rdma_host_of(bed.rdma)->windows)
		SKIP_CASE("the device has no memory windows");
	/* The target does it: nothing more is posted. */
	iwarp_like.invalidations = 0;
	read_some(4096, true);
	assert_int_equal(io.removed, 0);
	assert_int_equal(iwarp_like.invalidations, 0);
	iwarp_like.plain_responses = true;
	for (unsigned int i = 1; i <= 3 * IO_ENTRIES; i++) {
		read_some(4096, true);
		assert_int_equal(io.req.cqe.status, 0);
		/* Nobody reaches the memory when it is the caller's again. */
		assert_int_equal(io.removed, 0);
		assert_int_equal(iwarp_like.invalidations, i);
	}
	assert_int_equal(bed.host.state, HOST_LIVE);
}

static void memory_for_large_commands_goes_whatever_became_of_them(void **state)
{
	const struct rdma_host *r = rdma_host_of(bed.rdma);
	unsigned int regions = r->region_count;

	(void)state;
	host_start(&bed.host, bed.now_ns);
	pump_until(HOST_LIVE);
	bed.host.transfer_max = sizeof(data); /* the target refuses what is beyond its MDTS */
	for (unsigned int i = 0; i < 100; i++) {
		read_some(sizeof(data), false);
		assert_int_not_equal(io.req.cqe.status, 0);
		assert_int_equal(r->region_count, regions);
	}
	assert_int_equal(bed.host.state, HOST_LIVE);
}

static void a_connection_ends_while_a_key_is_invalidated(void **state)
{
	struct rdma_host_queue *q = &rdma_host_of(bed.rdma)->queues[1];
	uint64_t end = time_now_ns() + PATIENCE;

	(void)state;
	host_start(&bed.host, bed.now_ns);
	pump_until(HOST_LIVE);
	if (!rdma_host_of(bed.rdma)->windows)
		SKIP_CASE("the device has no memory windows");
	iwarp_like.plain_responses = true;
	/* There is no room to ask for it. */
	io = (struct io){.req = {.done = io_done, .arg = &io}};
	host_prepare_read(&io.req, 1, 0, 8, data, 4096);
	assert_int_equal(host_submit(&bed.host, 1, &io.req, bed.now_ns), 0);
	q->send_room = 0;
	while (!q->uninvalidated && time_now_ns() < end) {
		bed.rt->ops->process(bed.rt, bed.now_ns, true);
		pump_host();
	}
	assert_int_equal(q->uninvalidated, 1);
	assert_false(io.done);
	host_queue_lost(&bed.host, 1, NULL, bed.now_ns);
	assert_true(io.done);
	assert_int_equal(io.req.error, -ENOTCONN);
	assert_int_equal(bed.host.state, HOST_FAILED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(while_connect_is_not_answered_on_iwarp_more_is_sent,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_answered_connect_needs_no_more, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(other_transports_need_no_more, set_up, tear_down),
		cmocka_unit_test_setup_teardown(its_queue_is_armed_before_each_sleep, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_key_that_the_response_leaves_valid_is_invalidated,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			memory_for_large_commands_goes_whatever_became_of_them, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_connection_ends_while_a_key_is_invalidated,
						set_up, tear_down),
	};

	netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
