/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A target of two groups: what the admin plane and the queues of another thread have to do with
 * each other, message by message in one thread, and then with two.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/sight.h"
#include "cli/counted.h"
#include "cli/seen.h"
#include "target_bed.h"
#include "wire/nvme_log.h"

static struct bed *bed;
static struct target_group second;
static unsigned woken; /* times that the second group was */
static unsigned gone;  /* namespaces */

static void wake(void *ctx)
{
	assert_ptr_equal(ctx, &second);
	woken++;
}

static bool run_first(void)
{
	return target_group_process(&bed->target.group, bed->now);
}

static bool run_second(void)
{
	return target_group_process(&second, bed->now);
}

static void run_both(void)
{
	for (bool more = true; more;) {
		more = run_first();
		more |= run_second();
	}
}

static uint16_t status_of(struct bed_cmd *c)
{
	assert_true(c->answered);
	bed_release(c);
	return PLAIN(c->cqe.status);
}

/* An enabled controller, and an I/O queue of the second group whose Connect is sent. */
static struct bed_cmd *connecting(void)
{
	struct bed_connect a = bed_connect_args(1, 1);

	bed = bed_enabled();
	woken = gone = 0;
	target_group_init(&second, &bed->target, NULL, wake, &second, bed->now);
	bed_queue_open_in(&second, bed, &bed->io, 1);
	return bed_send_connect(&bed->io, &a);
}

static int begin(void **state)
{
	struct bed_cmd *c = connecting();

	(void)state;
	run_both();
	assert_int_equal(status_of(c), 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	bed->slow.hold = false;
	slow_release(bed);
	bed_queue_close(&bed->io);
	bed_queue_close(&bed->other);
	bed_queue_close(&bed->admin);
	run_both();
	assert_true(target_group_idle(&second));
	target_group_fini(&second);
	bed_destroy(bed);
	return 0;
}

static struct nvme_sqe rw(uint8_t opcode, uint32_t nsid, uint64_t slba)
{
	struct nvme_sqe s = bed_sqe(opcode, nsid, nsid == 5 ? 4096 : 512);

	nvme_rw_set(&s, slba, 1, 0);
	return s;
}

static struct bed_cmd *send_rw(struct bed_queue *q, uint8_t opcode)
{
	struct nvme_sqe s = rw(opcode, 1, 0);

	return bed_send(q, &s);
}

/* --- message by message -------------------------------------------------------------------- */

static void connect_goes_to_the_admin_plane_and_back(void **state)
{
	struct bed_cmd *c = connecting();

	(void)state;
	assert_false(c->answered);
	assert_int_equal(woken, 0);
	assert_true(run_first()); /* may it? */
	assert_int_equal(woken, 1);
	assert_null(bed->io.tq.ctrl);
	assert_true(run_second()); /* the transport has room */
	assert_true(run_first());  /* it is taken in */
	assert_false(c->answered);
	assert_int_equal(woken, 2);
	assert_true(run_second());
	assert_int_equal(status_of(c), 0);
	assert_non_null(bed->io.tq.ctrl);
	assert_false(run_first() || run_second());
	assert_int_equal(status_of(send_rw(&bed->io, NVME_IO_WRITE)), 0); /* in one thread */
	end(NULL);
}

/* What the admin plane has of it meanwhile is no store's. */
static void a_command_that_has_failed_does_not_stall_before_it_is_answered(void **state)
{
	struct bed_cmd *c;

	(void)state;
	bed->slow.hold = true;
	memset(bed->memory, 0x5a, 512);
	c = send_rw(&bed->io, NVME_IO_COMPARE);
	bed->now += TARGET_STALL_NS + NSEC_PER_SEC;
	slow_release(bed);
	assert_false(c->answered);
	target_group_watch(&second, bed->now);
	run_both();
	assert_int_equal(status_of(c), STATUS(NVME_SC_COMPARE_FAILED));
	assert_int_equal(bed->stalled, 0);
	assert_int_equal(bed->stalls_over, 0);
}

/* It comes back before the admin plane has heard that it did not. */
static void a_stall_in_another_group_is_told_by_the_first_ones_thread(void **state)
{
	struct bed_cmd *c;

	(void)state;
	bed->slow.hold = true;
	c = send_rw(&bed->io, NVME_IO_WRITE);
	bed->now += TARGET_STALL_NS;
	target_group_watch(&second, bed->now);
	assert_int_equal(bed->stalled, 0);
	slow_release(bed);
	assert_false(c->answered);
	assert_true(run_first());
	assert_int_equal(bed->stalled, 1);
	run_both();
	assert_int_equal(bed->stalls_over, 1);
	assert_int_equal(status_of(c), 0);
}

static void a_queue_that_is_lost_while_it_connects_leaves_nothing(void **state)
{
	(void)state;
	for (int when = 0; when < 4; when++) {
		struct bed_connect a = bed_connect_args(1, 1);
		struct bed_cmd *c = connecting();

		for (int i = 0; i < when; i++)
			(void)(i % 2 ? run_second() : run_first());
		bed_queue_close(&bed->io);
		run_both();
		assert_true(c->answered);
		assert_int_equal(bed->io.tq.live, 0);
		assert_true(target_group_idle(&second));
		/* Its place is free. */
		c->busy = false;
		bed_queue_open_in(&second, bed, &bed->io, 1);
		c = bed_send_connect(&bed->io, &a);
		run_both();
		assert_int_equal(status_of(c), 0);
		end(NULL);
	}
}

static void admin_queues_are_of_the_first_group(void **state)
{
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
	struct bed_cmd *c;

	(void)state;
	bed_queue_open_in(&second, bed, &bed->other, 0);
	c = bed_send_connect(&bed->other, &a);
	run_both();
	assert_int_equal(status_of(c), STATUS(NVME_SC_CONNECT_INVALID_PARAM));
}

/* Where a queue belongs whose first command is Connect. */
static struct target_group *group_for(struct bed_queue *q, uint16_t qid)
{
	struct nvme_sqe s = bed_sqe(NVME_FABRICS, 0, NVMF_CONNECT_DATA_LEN);
	struct bed_connect a = bed_connect_args(qid, 1);
	uint8_t wire[NVME_SQE_LEN];
	struct wcursor w = wcursor_init(wire, sizeof(wire));

	nvmf_connect_to_sqe(&a.co, &s);
	nvme_sqe_put(&w, &s);
	assert_ptr_equal(target_group_for(&q->tq, wire, NVME_SQE_LEN - 1), q->tq.group);
	return target_group_for(&q->tq, wire, sizeof(wire));
}

static void a_queue_goes_to_its_group_when_it_connects(void **state)
{
	struct nvme_sqe other = rw(NVME_IO_READ, 1, 0);
	struct bed_connect a = bed_connect_args(2, 1);
	struct bed_queue *q = &bed->other;
	uint8_t wire[NVME_SQE_LEN];
	struct wcursor w = wcursor_init(wire, sizeof(wire));
	struct bed_cmd *c;

	(void)state;
	nvme_sqe_put(&w, &other);
	bed_queue_open(bed, q, TARGET_QID_UNKNOWN);
	assert_ptr_equal(target_group_for(&q->tq, wire, sizeof(wire)), &bed->target.group);
	assert_ptr_equal(group_for(q, 0), &bed->target.group);
	/* In turn, the second comes first: the admin queue is with the first. */
	assert_ptr_equal(group_for(q, 2), &second);
	assert_ptr_equal(group_for(q, 2), &bed->target.group);
	assert_ptr_equal(group_for(q, 2), &second);
	woken = 0;
	target_queue_hand(&q->tq, &second);
	assert_int_equal(woken, 1);
	assert_false(q->arrived);
	bed->now += 20 * NSEC_PER_SEC; /* nobody's timer ends it */
	target_tick(&bed->target, bed->now);
	assert_false(q->disconnect_asked);
	run_second();
	assert_true(q->arrived);
	assert_ptr_equal(group_for(q, 0), &second); /* it goes once */
	c = bed_send_connect(q, &a);
	run_both();
	assert_int_equal(status_of(c), 0);
	assert_int_equal(status_of(send_rw(q, NVME_IO_READ)), 0); /* in one thread */
}

static void a_second_connect_does_not_overtake_the_first(void **state)
{
	struct bed_connect a = bed_connect_args(1, 1);
	struct bed_cmd *first = connecting(), *again = bed_send_connect(&bed->io, &a);

	(void)state;
	assert_int_equal(status_of(again), STATUS(NVME_SC_CMD_SEQ_ERROR));
	run_both();
	assert_int_equal(status_of(first), 0);
	end(NULL);
}

static void an_error_is_in_the_log_before_the_host_hears_of_it(void **state)
{
	struct nvme_sqe s = rw(NVME_IO_READ, 77, 0);
	struct bed_cmd *c = bed_send(&bed->io, &s);

	(void)state;
	assert_false(c->answered);
	assert_int_equal(bed->admin.tq.ctrl->error_count, 0);
	run_first();
	assert_int_equal(bed->admin.tq.ctrl->error_count, 1);
	assert_false(c->answered);
	run_second();
	assert_true(c->cqe.status & NVME_STATUS_MORE);
	assert_int_equal(status_of(c), STATUS(NVME_SC_INVALID_NS));
}

static void a_reset_ends_the_queues_of_another_thread_in_that(void **state)
{
	(void)state;
	assert_int_equal(bed_property_set(&bed->admin, NVME_PROP_CC, 0), 0);
	assert_false(bed->io.disconnect_asked);
	run_second();
	assert_true(bed->io.disconnect_asked);
	run_first();
	assert_false(run_second());
	bed_queue_close(&bed->io);
	run_both();
	assert_int_equal(bed->io.tq.live, 0);
	assert_int_equal(bed->allocated, 1);
}

static void a_queue_stays_while_an_order_for_it_is_under_way(void **state)
{
	(void)state;
	assert_int_equal(bed_property_set(&bed->admin, NVME_PROP_CC, 0), 0);
	bed_queue_close(&bed->io); /* its thread was faster */
	run_first();
	run_second();
	assert_int_equal(bed->io.tq.live, 1);
	run_first();
	run_second();
	assert_int_equal(bed->io.tq.live, 0);
}

/* What the admin plane is told of already is not written to. */
static void a_queue_that_its_host_closed_was_not_ended_by_an_order(void **state)
{
	struct target_subsys *none = NULL;

	(void)state;
	bed_queue_close(&bed->io);
	target_port_offer(&bed->target, &bed->port, &none, 0);
	run_second();
	assert_string_equal(bed->io.tq.why, "");
	run_both();
	assert_int_equal(bed->target.counters->queues_failed, 0);
	assert_int_equal(bed->io.tq.live, 0);
}

static void a_controller_stays_until_every_thread_has_forgotten_it(void **state)
{
	struct bed_cmd *c;

	(void)state;
	bed_queue_close(&bed->admin);
	assert_int_equal(bed->ctrls_gone, 1);
	assert_int_equal(bed->allocated, 1);
	c = send_rw(&bed->io, NVME_IO_READ); /* its thread does not know yet */
	assert_false(c->answered);
	run_second();
	assert_null(bed->io.tq.ctrl);
	assert_int_equal(bed->allocated, 1);
	run_both();
	assert_int_equal(status_of(c), NVME_SC_ABORT_QUEUE);
	assert_int_equal(bed->allocated, 0);
	assert_true(bed->io.disconnect_asked);
	assert_int_equal(status_of(send_rw(&bed->io, NVME_IO_READ)), STATUS(NVME_SC_CMD_SEQ_ERROR));
}

static void an_abort_finds_a_command_of_another_thread(void **state)
{
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_ABORT, 0, 0);
	struct bed_cmd *victim, *abort_cmd;

	(void)state;
	bed->io.hold_fetches = true;
	victim = send_rw(&bed->io, NVME_IO_WRITE);
	s.cdw10 = 1u | (uint32_t)victim->req.sqe.cid << 16;
	abort_cmd = bed_send(&bed->admin, &s);
	assert_false(victim->answered || abort_cmd->answered);
	run_both();
	assert_int_equal(abort_cmd->cqe.result, 0);
	assert_int_equal(status_of(abort_cmd), 0);
	assert_int_equal(status_of(victim), NVME_SC_ABORT_REQ);
}

static void a_disconnect_waits_for_what_another_thread_still_does(void **state)
{
	struct nvme_sqe s = bed_sqe(NVME_FABRICS, NVMF_DISCONNECT, 0);
	struct bed_connect a = bed_connect_args(1, 1);
	struct bed_cmd *c, *w;

	(void)state;
	bed->slow.hold = true;
	w = send_rw(&bed->io, NVME_IO_WRITE);
	c = bed_send(&bed->io, &s);
	run_both();
	assert_false(w->answered || c->answered);
	slow_release(bed);
	assert_int_equal(status_of(w), 0);
	assert_false(c->answered);
	run_both();
	assert_int_equal(status_of(c), 0);
	bed_queue_open(bed, &bed->other, 1); /* its ID is free */
	assert_int_equal(bed_connect(&bed->other, &a, NULL), 0);
	c = send_rw(&bed->io, NVME_IO_READ);
	run_both();
	assert_int_equal(status_of(c), STATUS(NVME_SC_CMD_SEQ_ERROR));
	assert_int_equal(status_of(send_rw(&bed->other, NVME_IO_READ)), 0);
}

static void ns_gone(struct target_ns *ns)
{
	assert_ptr_equal(ns, &bed->ns);
	gone++;
}

static void a_namespace_is_gone_when_no_thread_has_work_for_it(void **state)
{
	struct bed_cmd *c;

	(void)state;
	bed->slow.hold = true;
	c = send_rw(&bed->io, NVME_IO_READ);
	target_ns_remove(&bed->subsys, &bed->ns, ns_gone);
	run_both();
	assert_int_equal(gone, 0);
	slow_release(bed);
	assert_int_equal(status_of(c), 0);
	assert_int_equal(gone, 0);
	run_first();
	assert_int_equal(gone, 1);
	c = send_rw(&bed->io, NVME_IO_READ);
	run_both();
	assert_int_equal(status_of(c), STATUS(NVME_SC_INVALID_NS));
}

static void subsys_gone(struct target_subsys *s)
{
	assert_ptr_equal(s, &bed->subsys);
	gone += 100;
}

/* The subsystem's memory is its owner's again then, and the namespace asks thread after thread. */
static void a_subsystem_is_gone_after_its_namespaces_that_leave(void **state)
{
	struct bed_connect a = bed_connect_args(2, 1);

	(void)state;
	bed_queue_open(bed, &bed->other, 2);
	assert_int_equal(bed_connect(&bed->other, &a, NULL), 0);
	bed->slow.hold = true;
	send_rw(&bed->other, NVME_IO_READ);
	target_ns_remove(&bed->subsys, &bed->ns, ns_gone);
	bed_queue_close(&bed->io);
	bed_queue_close(&bed->other);
	bed_queue_close(&bed->admin);
	target_subsys_remove(&bed->subsys, subsys_gone);
	run_both();
	assert_int_equal(gone, 0);
	slow_release(bed); /* the first thread has nothing under way, and the second is asked */
	assert_int_equal(gone, 0);
	run_both();
	assert_int_equal(gone, 101);
}

/* The second thread's store is still at work for what the host sends again to the first. */
static void io_waits_for_what_another_thread_still_does(void **state)
{
	struct bed_queue *admin = calloc(1, sizeof(*admin));
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
	struct bed_cmd *old, *again;
	uint64_t cntlid;

	(void)state;
	bed->slow.hold = true;
	old = send_rw(&bed->io, NVME_IO_WRITE);
	bed_queue_close(&bed->admin); /* the second thread does not get to hear of it for a while */
	bed_queue_open(bed, admin, 0);
	assert_int_equal(bed_connect(admin, &a, &cntlid), 0);
	assert_int_equal(bed_property_set(admin, NVME_PROP_CC,
					  NVME_CC_EN | NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16),
			 0);
	a = bed_connect_args(1, (uint16_t)cntlid);
	bed_queue_open(bed, &bed->other, 1);
	assert_int_equal(bed_connect(&bed->other, &a, NULL), 0);
	bed->slow.hold = false;
	again = send_rw(&bed->other, NVME_IO_WRITE);
	assert_false(again->answered);
	run_both();
	assert_false(again->answered);
	slow_release(bed);
	assert_true(old->answered);
	assert_false(again->answered);
	run_both();
	assert_int_equal(status_of(again), 0);
	bed_queue_close(admin);
	run_both();
	free(admin);
}

static void marks_of_blocks_are_asked_for_and_told_by_message(void **state)
{
	struct bed_cmd *c = send_rw(&bed->io, NVME_IO_WRITE_UNCORRECTABLE);

	(void)state;
	assert_false(c->answered);
	run_both();
	assert_int_equal(status_of(c), 0);
	c = send_rw(&bed->io, NVME_IO_READ);
	assert_false(c->answered);
	run_both();
	assert_int_equal(status_of(c), STATUS(NVME_SC_READ_ERROR));
	c = send_rw(&bed->io, NVME_IO_WRITE);
	assert_false(c->answered);
	run_both();
	assert_int_equal(status_of(c), 0);
	assert_int_equal(status_of(send_rw(&bed->io, NVME_IO_READ)), 0); /* nothing to ask for */
}

static void what_came_on_all_queues_is_counted_together(void **state)
{
	struct nvme_sqe log = bed_sqe(NVME_ADMIN_GET_LOG_PAGE, 0, NVME_SMART_LEN);
	struct nvme_get_log g = {.lid = NVME_LID_SMART, .len = NVME_SMART_LEN};
	struct nvme_smart smart;
	struct cursor c = cursor_init(bed->memory, NVME_SMART_LEN);

	(void)state;
	/* Traffic on an I/O queue keeps the controller. */
	for (int i = 0; i < 4; i++) {
		assert_int_equal(status_of(send_rw(&bed->io, NVME_IO_READ)), 0);
		bed->now += 4 * NSEC_PER_SEC;
		target_tick(&bed->target, bed->now);
		run_both();
	}
	assert_false(bed->admin.disconnect_asked);
	bed_queue_close(&bed->io);
	run_both();
	nvme_get_log_to_sqe(&g, &log);
	assert_int_equal(bed_exec(&bed->admin, &log, NULL), 0);
	nvme_smart_get(&c, &smart);
	assert_int_equal(smart.host_reads.lo, 4);
}

static void what_each_thread_counts_is_seen_together(void **state)
{
	struct target_counters *first = counted_target(), *other = counted_target();
	struct bed_connect a = bed_connect_args(2, 1);
	struct seen s;

	(void)state;
	bed = bed_enabled();
	bed->target.group.counters = bed->target.counters = first;
	target_group_init(&second, &bed->target, other, wake, &second, bed->now);
	bed_queue_open(bed, &bed->io, 2);
	assert_int_equal(bed_connect(&bed->io, &a, NULL), 0);
	a = bed_connect_args(1, 1);
	bed_queue_open_in(&second, bed, &bed->other, 1);
	(void)bed_send_connect(&bed->other, &a);
	run_both();
	assert_int_equal(status_of(send_rw(&bed->io, NVME_IO_READ)), 0);
	assert_int_equal(status_of(send_rw(&bed->other, NVME_IO_READ)), 0);
	assert_int_equal(first->reads, 1);
	assert_int_equal(other->reads, 1);
	assert_int_equal(seen_open(&s, getpid(), false), 0);
	assert_int_equal(seen_read(&s), 0);
	assert_int_equal(seen_sum(&s, "target", "reads"), 2);
	assert_int_equal(seen_sum(&s, "target", "io_queues"), 2);
	seen_close(&s);
	end(NULL);
	sight_release(first);
	sight_release(other);
}

/* --- two threads --------------------------------------------------------------------------- */

#define ROUNDS 90
#define THERE  (1u << 20) /* where the other thread's data is in the host's memory */

/* What the two threads of the host have to know of each other. */
static _Atomic unsigned to_connect, closed; /* rounds */
static _Atomic uint32_t to_cntlid;
static _Atomic bool over;
static unsigned handed_in; /* queues that were handed over and connected; the other thread's */

static bool answered_soon(struct bed_cmd *c, bool (*run)(void))
{
	for (int i = 0; i < 10000000 && !c->answered; i++)
		if (!run())
			sched_yield();
	return c->answered;
}

static void *second_thread(void *arg)
{
	struct bed_queue *q = &bed->io;
	struct bed_cmd *c;

	(void)arg;
	for (unsigned round = 1;; round++) {
		struct bed_connect a = bed_connect_args(1, 0);
		struct nvme_sqe s = bed_sqe(NVME_FABRICS, 0, NVMF_CONNECT_DATA_LEN);
		struct wcursor w = wcursor_init(bed->memory + THERE, NVMF_CONNECT_DATA_LEN);
		bool in;

		while (to_connect < round && !over)
			if (!run_second())
				sched_yield();
		if (over)
			return NULL;
		a.data.cntlid = (uint16_t)to_cntlid;
		if (round % 2)
			bed_queue_open_in(&second, bed, q, 1);
		while (round % 2 == 0 && !q->arrived)
			if (!run_second())
				sched_yield();
		nvmf_connect_to_sqe(&a.co, &s);
		s.sgl.addr = THERE;
		nvmf_connect_data_put(&w, &a.data);
		c = bed_send(q, &s);
		assert(answered_soon(c, run_second));
		in = PLAIN(c->cqe.status) == 0; /* the controller may be gone already */
		bed_release(c);
		handed_in += in && q->arrived;
		for (unsigned i = 0; in && !q->disconnect_asked && (round % 3 || i < 100); i++) {
			s = rw(i % 13 == 7 ? NVME_IO_WRITE_UNCORRECTABLE
			       : i % 2	   ? NVME_IO_READ
					   : NVME_IO_WRITE,
			       i % 16	? 5
			       : i % 32 ? 2
					: 9,
			       i % 8);
			s.sgl.addr = THERE;
			c = bed_send(q, &s);
			assert(answered_soon(c, run_second));
			bed_release(c);
			(void)run_second();
		}
		if (in && round % 7 == 0 && !q->disconnect_asked) {
			s = bed_sqe(NVME_FABRICS, NVMF_DISCONNECT, 0);
			c = bed_send(q, &s);
			assert(answered_soon(c, run_second));
			bed_release(c);
		}
		bed_queue_close(q);
		while (q->tq.live)
			if (!run_second())
				sched_yield();
		closed = round;
	}
}

/* It came to the first thread, which has seen by its Connect that it is the second's. */
static void hand_over(struct bed_queue *q)
{
	struct target_group *g;

	bed_queue_open(bed, q, TARGET_QID_UNKNOWN);
	do
		g = group_for(q, 1);
	while (g != &second);
	target_queue_hand(&q->tq, g);
}

static void threads_ns_gone(struct target_ns *ns)
{
	assert_ptr_equal(ns, &bed->ro);
	gone++;
}

static uint16_t exec_first(struct nvme_sqe *s)
{
	struct bed_cmd *c = bed_send(&bed->admin, s);

	assert_true(answered_soon(c, run_first));
	return status_of(c);
}

/* A namespace leaves and comes again, what runs is aborted, logs are read. */
static void disturb(unsigned i)
{
	struct nvme_sqe log = bed_sqe(NVME_ADMIN_GET_LOG_PAGE, 0, NVME_SMART_LEN);
	struct nvme_get_log g = {.lid = i % 2 ? NVME_LID_SMART : NVME_LID_ERROR,
				 .len = NVME_SMART_LEN};
	struct nvme_sqe abort_sqe = bed_sqe(NVME_ADMIN_ABORT, 0, 0);
	unsigned before = gone;

	nvme_get_log_to_sqe(&g, &log);
	assert_int_equal(exec_first(&log), 0);
	abort_sqe.cdw10 = 1u | i << 16;
	assert_int_equal(exec_first(&abort_sqe), 0);
	target_ns_remove(&bed->subsys, &bed->ro, threads_ns_gone);
	while (gone == before)
		if (!run_first())
			sched_yield();
	assert_int_equal(target_ns_add(&bed->subsys, &bed->ro), 0);
	target_ns_changed(&bed->big, &bed->subsys);
}

static void two_threads_serve_one_target(void **state)
{
	struct target_subsys *none = NULL;
	pthread_t thread;

	(void)state;
	bed = bed_create();
	gone = 0;
	to_connect = closed = handed_in = 0;
	over = false;
	target_group_init(&second, &bed->target, NULL, NULL, NULL, bed->now);
	assert_int_equal(pthread_create(&thread, NULL, second_thread, NULL), 0);
	for (unsigned round = 1; round <= ROUNDS; round++) {
		struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
		uint64_t cntlid;

		bed_queue_open(bed, &bed->admin, 0);
		assert_int_equal(bed_connect(&bed->admin, &a, &cntlid), 0);
		assert_int_equal(
			bed_property_set(&bed->admin, NVME_PROP_CC,
					 NVME_CC_EN | NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16),
			0);
		to_cntlid = (uint32_t)cntlid;
		if (round % 2 == 0)
			hand_over(&bed->io);
		to_connect = round;
		for (unsigned i = 0; i < round % 5; i++)
			disturb(i);
		if (round % 4 == 1) { /* the order to end meets a queue that may have ended */
			target_port_offer(&bed->target, &bed->port, &none, 0);
			target_port_offer(&bed->target, &bed->port, NULL, 0);
		}
		if (round % 3 == 1) /* or the controller just ends, or the queue does before */
			assert_int_equal(bed_property_set(&bed->admin, NVME_PROP_CC, 0), 0);
		if (round % 3 == 2)
			bed_queue_close(&bed->admin);
		while (closed < round)
			if (!run_first())
				sched_yield();
		bed_queue_close(&bed->admin);
		while (bed->target.ctrl_count || bed->admin.tq.live)
			if (!run_first())
				sched_yield();
	}
	over = true;
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(handed_in);
	run_both();
	assert_true(target_group_idle(&second));
	target_group_fini(&second);
	bed_destroy(bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connect_goes_to_the_admin_plane_and_back),
		cmocka_unit_test(a_queue_that_is_lost_while_it_connects_leaves_nothing),
		cmocka_unit_test(a_second_connect_does_not_overtake_the_first),
		cmocka_unit_test_setup_teardown(a_queue_goes_to_its_group_when_it_connects, begin,
						end),
		cmocka_unit_test_setup_teardown(admin_queues_are_of_the_first_group, begin, end),
		cmocka_unit_test_setup_teardown(an_error_is_in_the_log_before_the_host_hears_of_it,
						begin, end),
		cmocka_unit_test_setup_teardown(a_reset_ends_the_queues_of_another_thread_in_that,
						begin, end),
		cmocka_unit_test_setup_teardown(a_queue_stays_while_an_order_for_it_is_under_way,
						begin, end),
		cmocka_unit_test_setup_teardown(
			a_queue_that_its_host_closed_was_not_ended_by_an_order, begin, end),
		cmocka_unit_test_setup_teardown(
			a_controller_stays_until_every_thread_has_forgotten_it, begin, end),
		cmocka_unit_test_setup_teardown(
			a_command_that_has_failed_does_not_stall_before_it_is_answered, begin, end),
		cmocka_unit_test_setup_teardown(
			a_stall_in_another_group_is_told_by_the_first_ones_thread, begin, end),
		cmocka_unit_test_setup_teardown(an_abort_finds_a_command_of_another_thread, begin,
						end),
		cmocka_unit_test_setup_teardown(
			a_disconnect_waits_for_what_another_thread_still_does, begin, end),
		cmocka_unit_test_setup_teardown(a_subsystem_is_gone_after_its_namespaces_that_leave,
						begin, end),
		cmocka_unit_test_setup_teardown(a_namespace_is_gone_when_no_thread_has_work_for_it,
						begin, end),
		cmocka_unit_test_setup_teardown(io_waits_for_what_another_thread_still_does, begin,
						end),
		cmocka_unit_test_setup_teardown(marks_of_blocks_are_asked_for_and_told_by_message,
						begin, end),
		cmocka_unit_test_setup_teardown(what_came_on_all_queues_is_counted_together, begin,
						end),
		cmocka_unit_test(what_each_thread_counts_is_seen_together),
		cmocka_unit_test(two_threads_serve_one_target),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
