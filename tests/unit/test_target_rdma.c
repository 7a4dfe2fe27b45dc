/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The target's RDMA transport, with a host that does what hosts should not. */
#include <string.h>

#include "base/heap.h" /* DEADLINE_NEVER */
#include "iwarp_like.h"
#include "netns.h"
#include "nvmf/transport/nudge.h"
#include "rdma_bed.h"

/* --- tests --------------------------------------------------------------------------------------
 */

static void a_host_writes_and_reads(void **state)
{
	(void)state;
	still_serving();
}

static void private_data_that_is_wrong_is_rejected_with_the_reason(void **state)
{
	static const struct {
		struct nvme_rdma_req req;
		uint8_t len, reads;
		uint16_t status;
	} cases[] = {
		{{.recfmt = 1, .hrqsize = 32, .hsqsize = 31}, 32, 1, NVME_RDMA_REJ_RECFMT},
		{{.qid = 65, .hrqsize = 32, .hsqsize = 31}, 32, 1, NVME_RDMA_REJ_QID},
		{{.hrqsize = 32, .hsqsize = 0}, 32, 1, NVME_RDMA_REJ_HSQSIZE},
		{{.hrqsize = 200, .hsqsize = 128}, 32, 1, NVME_RDMA_REJ_HSQSIZE},
		{{.hrqsize = 0, .hsqsize = 31}, 32, 1, NVME_RDMA_REJ_HRQSIZE},
		{{.hrqsize = 32, .hsqsize = 31}, 32, 0, NVME_RDMA_REJ_IRD},
		{{0}, 0, 1, NVME_RDMA_REJ_HSQSIZE}, /* IB pads with zeroes: no length to see */
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		struct client *c = client_open();
		struct cursor cur = cursor_init(c->private_data, NVME_RDMA_REJ_LEN);
		struct nvme_rdma_rej rej;

		client_connect(c, &cases[i].req, cases[i].len, cases[i].reads);
		wait_event(c, RDMA_CM_EVENT_REJECTED);
		assert_int_equal(c->status, NVME_RDMA_REJ_REASON);
		nvme_rdma_rej_get(&cur, &rej);
		assert_int_equal(rej.recfmt, 0);
		assert_int_equal(rej.status, cases[i].status);
		client_close(c);
	}
	assert_true(rdma_target_idle(bed.rt));
	still_serving();
}

static void a_capsule_too_short_or_too_long_ends_the_connection(void **state)
{
	static const size_t lens[] = {0, 1, 63, NVME_SQE_LEN + TARGET_CAPSULE_DATA + 1};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
		struct pair p = pair_open();

		send_bytes(p.io, lens[i]);
		wait_event(p.io, RDMA_CM_EVENT_DISCONNECTED);
		pair_close(&p);
	}
	still_serving();
}

static void a_key_that_does_not_exist_ends_the_connection(void **state)
{
	static const uint8_t ops[] = {NVME_IO_READ, NVME_IO_WRITE};

	(void)state;
	for (unsigned i = 0; i < 2 * ARRAY_SIZE(ops); i++) {
		struct pair p = pair_open();
		struct nvme_sqe s = sqe(p.io, ops[i / 2], 1, 512);

		if (i % 2)
			s.sgl.key ^= 0x5555;
		else
			s.sgl.addr += MEMORY; /* right behind the region */
		send_sqe(p.io, &s);
		wait_event(p.io, RDMA_CM_EVENT_DISCONNECTED);
		pair_close(&p);
	}
	still_serving();
}

/* More in-capsule data promised than sent: a status, and the connection goes on. */
static void a_promise_of_data_that_is_not_there_is_refused(void **state)
{
	struct pair p = pair_open();
	struct nvme_sqe s = sqe(p.io, NVME_IO_WRITE, 1, 4096);

	(void)state;
	nvme_rw_set(&s, 0, 8, 0);
	s.sgl = (struct nvme_sgl){.subtype = NVME_SGL_OFFSET, .len = 4096};
	assert_int_equal(exec(p.io, &s).status & NVME_STATUS_CODE, NVME_SC_SGL_INVALID_OFFSET);
	s = sqe(p.io, NVME_IO_FLUSH, 1, 0);
	assert_int_equal(exec(p.io, &s).status, NVME_SC_SUCCESS);
	pair_close(&p);
}

static void a_host_that_vanishes_in_the_middle_leaves_nothing_behind(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++) {
		struct pair p = pair_open();
		struct nvme_sqe s = sqe(p.io, i % 2 ? NVME_IO_READ : NVME_IO_WRITE, 1, 32768);

		nvme_rw_set(&s, 0, 64, 0);
		for (int k = 0; k < DEPTH / 2; k++)
			send_sqe(p.io, &s);
		for (int k = 0; k < i; k++)
			pump(NULL);
		rdma_disconnect(i % 3 ? p.io->id : p.admin->id);
		pump_until(p.io, i % 3 || p.io->last == RDMA_CM_EVENT_DISCONNECTED);
		pair_close(&p);
	}
	still_serving();
}

static void a_full_queue_of_commands_is_answered(void **state)
{
	struct pair p = pair_open();
	struct nvme_sqe s = sqe(p.io, NVME_IO_WRITE, 1, 2048);
	unsigned answered = p.io->received;

	(void)state;
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < DEPTH - 2; i++) {
			nvme_rw_set(&s, i * 4, 4, 0);
			send_sqe(p.io, &s);
			/* The bytes of a SEND must stay until it is done. */
			pump_until(p.io, p.io->sent >= answered + i + 1);
		}
		answered += DEPTH - 2;
		pump_until(p.io, p.io->received == answered);
		for (unsigned i = 0; i < DEPTH - 2; i++)
			post_recv(p.io, (answered - (DEPTH - 2) + i) % DEPTH);
	}
	assert_int_equal(p.io->failed, 0);
	pair_close(&p);
}

/* --- a host that is silent ----------------------------------------------------------------------
 */

static struct client *connected_at_a_stopped_clock(void)
{
	assert_true(iwarp_like_begin());
	bed.stopped_ns = time_now_ns();
	return connected(0, 1);
}

static void let_go(struct client *c)
{
	rdma_disconnect(c->id);
	pump_until(c, rdma_target_idle(bed.rt));
	client_close(c);
	iwarp_like_end();
	bed.stopped_ns = 0;
}

/* However long it takes. */
static void never_asked(struct client *c)
{
	bed.stopped_ns += 2 * NUDGE_TARGET_NS;
	pump(c);
	assert_int_equal(iwarp_like.empty_reads, 0);
	let_go(c);
}

static void a_silent_host_on_iwarp_is_made_to_answer_once(void **state)
{
	struct client *c = connected_at_a_stopped_clock();

	(void)state;
	pump_until(c, rdma_target_next_deadline(bed.rt) != DEADLINE_NEVER);
	assert_int_equal(rdma_target_next_deadline(bed.rt), bed.stopped_ns + NUDGE_TARGET_NS);
	bed.stopped_ns += NUDGE_TARGET_NS - 1;
	pump(c);
	assert_int_equal(iwarp_like.empty_reads, 0);
	bed.stopped_ns++;
	pump(c);
	assert_int_equal(iwarp_like.empty_reads, 1);
	assert_int_equal(rdma_target_next_deadline(bed.rt), DEADLINE_NEVER);
	bed.stopped_ns += 2 * NUDGE_TARGET_NS;
	/* The connection is none the worse for it. The data of Connect are fetched by READ: the
	 * only one that the host admits is free again. */
	nvme_connect(c, 0, NVMF_CNTLID_DYNAMIC);
	assert_int_equal(iwarp_like.empty_reads, 1);
	assert_int_equal(c->failed, 0);
	let_go(c);
}

static void a_host_that_was_heard_is_left_alone(void **state)
{
	struct client *c = connected_at_a_stopped_clock();

	(void)state;
	nvme_connect(c, 0, NVMF_CNTLID_DYNAMIC);
	for (int i = 0; i < 10; i++)
		pump(c);
	assert_true(rdma_target_next_deadline(bed.rt) > bed.stopped_ns + 2 * NUDGE_TARGET_NS);
	never_asked(c);
}

static void a_silent_host_that_vanishes_is_not_asked(void **state)
{
	struct client *c = connected_at_a_stopped_clock();

	(void)state;
	pump_until(c, rdma_target_next_deadline(bed.rt) != DEADLINE_NEVER);
	rdma_disconnect(c->id);
	pump_until(c, rdma_target_idle(bed.rt));
	assert_int_equal(rdma_target_next_deadline(bed.rt), DEADLINE_NEVER);
	never_asked(c);
}

static void a_silent_host_on_other_transports_is_left_alone(void **state)
{
	struct client *c;

	(void)state;
	assert_true(iwarp_like_begin());
	iwarp_like_say_ib();
	bed.stopped_ns = time_now_ns();
	c = connected(0, 1);
	for (uint64_t end = time_now_ns() + 50 * NSEC_PER_MSEC; time_now_ns() < end;) {
		pump(c);
		assert_int_equal(rdma_target_next_deadline(bed.rt), DEADLINE_NEVER);
	}
	never_asked(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_writes_and_reads),
		cmocka_unit_test(private_data_that_is_wrong_is_rejected_with_the_reason),
		cmocka_unit_test(a_capsule_too_short_or_too_long_ends_the_connection),
		cmocka_unit_test(a_key_that_does_not_exist_ends_the_connection),
		cmocka_unit_test(a_promise_of_data_that_is_not_there_is_refused),
		cmocka_unit_test(a_host_that_vanishes_in_the_middle_leaves_nothing_behind),
		cmocka_unit_test(a_full_queue_of_commands_is_answered),
		cmocka_unit_test(a_silent_host_on_iwarp_is_made_to_answer_once),
		cmocka_unit_test(a_host_that_was_heard_is_left_alone),
		cmocka_unit_test(a_silent_host_that_vanishes_is_not_asked),
		cmocka_unit_test(a_silent_host_on_other_transports_is_left_alone),
	};

	netns_enter();
	return cmocka_run_group_tests(tests, rdma_bed_set_up, rdma_bed_tear_down);
}
