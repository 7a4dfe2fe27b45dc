/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Compare and Write as one: what it does, what it refuses, and that nobody writes in between, of
 * one group of queues or another.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <string.h>
#include <cmocka.h>

#include "target_bed.h"

#define OLD 0x11
#define NEW 0x22

static struct bed *b;
static struct target_group second; /* of b->io, if there is one */
static bool two;

static void run_both(void)
{
	for (bool more = two; more;) {
		more = target_group_process(&b->target.group, b->now);
		more |= target_group_process(&second, b->now);
	}
}

static uint16_t status_of(struct bed_cmd *c)
{
	run_both();
	assert_true(c->answered);
	bed_release(c);
	return PLAIN(c->cqe.status);
}

static struct bed_cmd *send_block(struct bed_queue *q, uint8_t opcode, uint8_t fuse, uint64_t slba,
				  uint8_t with)
{
	struct nvme_sqe s = bed_sqe(opcode, 1, 512);
	uint8_t block[512];

	nvme_rw_set(&s, slba, 1, 0);
	s.flags |= fuse;
	if (opcode == NVME_IO_READ)
		return bed_send(q, &s);
	memset(block, with, sizeof(block));
	memcpy(b->memory + (opcode == NVME_IO_WRITE ? 4096 : 8192), block, sizeof(block));
	s.sgl.addr = opcode == NVME_IO_WRITE ? 4096 : 8192;
	return bed_send(q, &s);
}

struct both {
	struct bed_cmd *compare, *write;
};

static struct both send_pair(struct bed_queue *q, uint64_t slba, uint8_t old, uint8_t new)
{
	struct both p;

	p.compare = send_block(q, NVME_IO_COMPARE, NVME_SQE_FUSE_FIRST, slba, old);
	run_both();
	p.write = send_block(q, NVME_IO_WRITE, NVME_SQE_FUSE_SECOND, slba, new);
	run_both();
	return p;
}

static void assert_pair(struct both p, uint16_t compare, uint16_t write)
{
	assert_int_equal(status_of(p.compare), compare);
	assert_int_equal(status_of(p.write), write);
}

static uint8_t block_is(uint64_t slba)
{
	assert_int_equal(status_of(send_block(&b->io, NVME_IO_READ, 0, slba, 0)), 0);
	for (int i = 1; i < 512; i++)
		assert_int_equal(b->memory[i], b->memory[0]);
	return b->memory[0];
}

static void write_block(uint64_t slba, uint8_t with)
{
	assert_int_equal(status_of(send_block(&b->io, NVME_IO_WRITE, 0, slba, with)), 0);
}

static int one_group(void **state)
{
	(void)state;
	two = false;
	b = bed_with_io();
	write_block(3, OLD);
	return 0;
}

static int two_groups(void **state)
{
	struct bed_connect a = bed_connect_args(1, 1);
	struct bed_cmd *c;

	(void)state;
	two = true;
	b = bed_enabled();
	target_group_init(&second, &b->target, NULL, NULL, NULL, b->now);
	bed_queue_open_in(&second, b, &b->io, 1);
	c = bed_send_connect(&b->io, &a);
	assert_int_equal(status_of(c), 0);
	write_block(3, OLD);
	return 0;
}

static int end(void **state)
{
	(void)state;
	slow_release(b);
	run_both();
	bed_queue_close(&b->io);
	bed_queue_close(&b->other);
	bed_queue_close(&b->admin);
	run_both();
	assert_int_equal(b->ns.fused_lba, UINT64_MAX);
	assert_null(b->ns.fused);
	if (two)
		target_group_fini(&second);
	bed_destroy(b);
	return 0;
}

/* Another queue of the same controller, of the first group. */
static struct bed_queue *another(void)
{
	struct bed_connect a = bed_connect_args(2, 1);
	struct bed_cmd *c;

	bed_queue_open(b, &b->other, 2);
	c = bed_send_connect(&b->other, &a);
	assert_int_equal(status_of(c), 0);
	return &b->other;
}

/* --- what it does ----------------------------------------------------------------------------- */

static void what_is_equal_is_written(void **state)
{
	(void)state;
	assert_pair(send_pair(&b->io, 3, OLD, NEW), 0, 0);
	assert_int_equal(block_is(3), NEW);
	assert_pair(send_pair(&b->io, 3, NEW, OLD), 0, 0);
	assert_int_equal(block_is(3), OLD);
}

static void what_differs_is_left_alone(void **state)
{
	(void)state;
	assert_pair(send_pair(&b->io, 3, NEW, 0x33), STATUS(NVME_SC_COMPARE_FAILED),
		    NVME_SC_FUSED_FAIL);
	assert_int_equal(block_is(3), OLD);
}

static void a_store_that_fails_ends_both_or_the_write(void **state)
{
	(void)state;
	b->slow.fail = -EIO;
	assert_pair(send_pair(&b->io, 3, OLD, NEW), STATUS(NVME_SC_READ_ERROR), NVME_SC_FUSED_FAIL);
	assert_int_equal(block_is(3), OLD);
}

static void force_unit_access_commits_before_and_after(void **state)
{
	struct nvme_sqe s = bed_sqe(NVME_IO_COMPARE, 1, 512);
	struct both p;

	(void)state;
	memset(b->memory, OLD, 512);
	nvme_rw_set(&s, 3, 1, NVME_RW_FUA);
	s.flags |= NVME_SQE_FUSE_FIRST;
	p.compare = bed_send(&b->io, &s);
	s.opcode = NVME_IO_WRITE;
	s.flags ^= NVME_SQE_FUSE_FIRST | NVME_SQE_FUSE_SECOND;
	p.write = bed_send(&b->io, &s);
	assert_pair(p, 0, 0);
	assert_int_equal(b->slow.flushes, 1);
	assert_int_equal(b->slow.writes_fua, 1);
}

/* --- what it refuses ------------------------------------------------------------------------- */

static void halves_without_the_other_are_ended(void **state)
{
	struct bed_cmd *first, *c;

	(void)state;
	c = send_block(&b->io, NVME_IO_WRITE, NVME_SQE_FUSE_SECOND, 3, NEW);
	assert_int_equal(status_of(c), NVME_SC_FUSED_MISSING);
	first = send_block(&b->io, NVME_IO_COMPARE, NVME_SQE_FUSE_FIRST, 3, OLD);
	assert_false(first->answered);
	c = send_block(&b->io, NVME_IO_READ, 0, 3, 0); /* comes between, and is answered */
	assert_int_equal(status_of(c), 0);
	assert_int_equal(status_of(first), NVME_SC_FUSED_MISSING);
	c = send_block(&b->io, NVME_IO_WRITE, NVME_SQE_FUSE_SECOND, 3, NEW);
	assert_int_equal(status_of(c), NVME_SC_FUSED_MISSING);
	first = send_block(&b->io, NVME_IO_COMPARE, NVME_SQE_FUSE_FIRST, 3, OLD);
	assert_pair(send_pair(&b->io, 3, OLD, NEW), 0, 0); /* two firsts: the second counts */
	assert_int_equal(status_of(first), NVME_SC_FUSED_MISSING);
	assert_int_equal(block_is(3), NEW);
	first = send_block(&b->io, NVME_IO_COMPARE, NVME_SQE_FUSE_FIRST, 3, OLD);
	c = send_block(&b->io, NVME_IO_READ, NVME_SQE_FUSE_MASK, 3, 0);
	assert_int_equal(status_of(c), STATUS(NVME_SC_INVALID_FIELD));
	assert_int_equal(status_of(first), NVME_SC_FUSED_MISSING);
}

static void halves_are_of_one_queue(void **state)
{
	struct bed_queue *q = another();
	struct bed_cmd *first, *c;

	(void)state;
	first = send_block(&b->io, NVME_IO_COMPARE, NVME_SQE_FUSE_FIRST, 3, OLD);
	c = send_block(q, NVME_IO_WRITE, NVME_SQE_FUSE_SECOND, 3, NEW);
	assert_int_equal(status_of(c), NVME_SC_FUSED_MISSING);
	assert_false(first->answered);
	c = send_block(&b->io, NVME_IO_WRITE, NVME_SQE_FUSE_SECOND, 3, NEW);
	assert_pair((struct both){first, c}, 0, 0);
}

static void only_compare_and_write_of_the_same_block_are_fused(void **state)
{
	static const uint8_t firsts[] = {NVME_IO_READ, NVME_IO_WRITE, NVME_IO_VERIFY};
	struct nvme_sqe s;
	struct both p;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(firsts); i++) {
		p.compare = send_block(&b->io, firsts[i], NVME_SQE_FUSE_FIRST, 3, OLD);
		p.write = send_block(&b->io, NVME_IO_WRITE, NVME_SQE_FUSE_SECOND, 3, NEW);
		assert_pair(p, STATUS(NVME_SC_INVALID_FIELD), NVME_SC_FUSED_FAIL);
	}
	p.compare = send_block(&b->io, NVME_IO_COMPARE, NVME_SQE_FUSE_FIRST, 3, OLD);
	p.write = send_block(&b->io, NVME_IO_COMPARE, NVME_SQE_FUSE_SECOND, 3, OLD);
	assert_pair(p, STATUS(NVME_SC_INVALID_FIELD), STATUS(NVME_SC_INVALID_FIELD));
	p.compare = send_block(&b->io, NVME_IO_COMPARE, NVME_SQE_FUSE_FIRST, 3, OLD);
	p.write = send_block(&b->io, NVME_IO_WRITE, NVME_SQE_FUSE_SECOND, 4, NEW);
	assert_pair(p, STATUS(NVME_SC_INVALID_FIELD), STATUS(NVME_SC_INVALID_FIELD));
	/* A half that is wrong by itself. */
	p.compare = send_block(&b->io, NVME_IO_COMPARE, NVME_SQE_FUSE_FIRST, 3, OLD);
	p.write = send_block(&b->io, NVME_IO_WRITE, NVME_SQE_FUSE_SECOND, BED_BLOCKS, NEW);
	assert_pair(p, NVME_SC_FUSED_FAIL, STATUS(NVME_SC_LBA_RANGE));
	p.compare = send_block(&b->io, NVME_IO_COMPARE, NVME_SQE_FUSE_FIRST, BED_BLOCKS, OLD);
	p.write = send_block(&b->io, NVME_IO_WRITE, NVME_SQE_FUSE_SECOND, BED_BLOCKS, NEW);
	assert_pair(p, STATUS(NVME_SC_LBA_RANGE), NVME_SC_FUSED_FAIL);
	/* More than is atomic. */
	s = bed_sqe(NVME_IO_COMPARE, 1, 1024);
	nvme_rw_set(&s, 3, 2, 0);
	s.flags |= NVME_SQE_FUSE_FIRST;
	assert_int_equal(status_of(bed_send(&b->io, &s)), STATUS(NVME_SC_AWU_EXCEEDED));
	assert_int_equal(block_is(3), OLD);
	/* Admin commands are not. */
	s = bed_sqe(NVME_ADMIN_KEEP_ALIVE, 0, 0);
	s.flags |= NVME_SQE_FUSE_FIRST;
	assert_int_equal(status_of(bed_send(&b->admin, &s)), STATUS(NVME_SC_INVALID_FIELD));
}

static void a_capsule_that_came_damaged_ends_the_other_half(void **state)
{
	struct bed_cmd *first = send_block(&b->io, NVME_IO_COMPARE, NVME_SQE_FUSE_FIRST, 3, OLD);
	struct nvme_sqe s = bed_sqe(NVME_IO_WRITE, 1, 512);
	struct bed_cmd *c = &b->io.cmds[40];
	uint8_t wire[NVME_SQE_LEN];
	struct wcursor w = wcursor_init(wire, sizeof(wire));

	(void)state;
	nvme_rw_set(&s, 3, 1, 0);
	s.flags |= NVME_SQE_FUSE_SECOND;
	nvme_sqe_put(&w, &s);
	*c = (struct bed_cmd){.queue = &b->io, .busy = true};
	target_req_damaged(&b->io.tq, &c->req, wire, sizeof(wire), b->now);
	assert_pair((struct both){first, c}, NVME_SC_FUSED_FAIL, NVME_SC_TRANSIENT_TRANSPORT);
}

/* --- as one ----------------------------------------------------------------------------------- */

/* A write that began before is done first; one that comes later is done after. */
static void nobody_writes_in_between(void **state)
{
	struct bed_queue *q = another();
	struct bed_cmd *before, *after, *beside;
	struct both p;

	(void)state;
	b->slow.hold = true;
	before = send_block(q, NVME_IO_WRITE, 0, 3, 0x55);
	assert_int_equal(b->slow.count, 1);
	p = send_pair(&b->io, 3, OLD, NEW);
	assert_int_equal(b->slow.count, 1); /* nothing is compared yet */
	after = send_block(q, NVME_IO_WRITE, 0, 3, 0x66);
	run_both();
	assert_int_equal(b->slow.count, 1); /* nor written */
	beside = send_block(q, NVME_IO_WRITE, 0, 4, 0x77);
	run_both();
	assert_int_equal(b->slow.count, 2); /* other blocks are */
	slow_release(b);
	run_both();
	assert_int_equal(status_of(before), 0);
	assert_int_equal(status_of(beside), 0);
	assert_int_equal(status_of(after), 0);
	/* It saw what was written before it, not what came after. */
	assert_pair(p, STATUS(NVME_SC_COMPARE_FAILED), NVME_SC_FUSED_FAIL);
	assert_int_equal(block_is(3), 0x66);
}

static void who_comes_while_it_is_written_waits(void **state)
{
	static const uint8_t opcodes[] = {NVME_IO_WRITE, NVME_IO_WRITE_ZEROES, NVME_IO_DSM,
					  NVME_IO_COPY};
	struct bed_queue *q = another();

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(opcodes); i++) {
		struct nvme_sqe s = bed_sqe(opcodes[i], 1, 0);
		struct nvme_dsm_range range = {.slba = 3, .nlb = 1};
		struct wcursor w = wcursor_init(b->memory, NVME_DSM_RANGE_LEN);
		struct bed_cmd *c, *read;
		struct both p;

		write_block(3, OLD);
		b->slow.hold = true;
		p = send_pair(&b->io, 3, OLD, NEW);
		assert_int_equal(b->slow.count, 1); /* it is being compared */
		s.sgl.len = opcodes[i] == NVME_IO_WRITE ? 4 * 512 : 0;
		nvme_rw_set(&s, 1, 4, 0);
		if (opcodes[i] == NVME_IO_DSM) {
			nvme_dsm_range_put(&w, &range);
			s.sgl.len = NVME_DSM_RANGE_LEN;
			s.cdw10 = 0;
			s.cdw11 = NVME_DSM_AD;
		} else {
			memset(b->memory, 0, 4 * 512);
		}
		if (opcodes[i] == NVME_IO_COPY) { /* of zeroes, in four ranges */
			memset(b->memory, 0, 4 * NVME_COPY_RANGE_LEN);
			for (uint8_t j = 0; j < 4; j++)
				b->memory[j * NVME_COPY_RANGE_LEN + 8] = (uint8_t)(100 + j);
			s.sgl.len = 4 * NVME_COPY_RANGE_LEN;
		}
		s.sgl.key = BED_KEY;
		c = bed_send(q, &s);
		run_both();
		assert_int_equal(b->slow.count, 1);
		read = send_block(q, NVME_IO_READ, 0, 3, 0); /* reading is not writing */
		assert_int_equal(b->slow.count, 2);
		slow_release(b);
		run_both();
		assert_pair(p, 0, 0);
		assert_int_equal(status_of(c), 0);
		assert_int_equal(status_of(read), 0);
		assert_int_equal(block_is(3), 0);
	}
}

/* Of several at once each sees what the one before it has written: just one takes a lock. */
static void one_of_many_takes_the_lock(void **state)
{
	struct bed_queue *q = another();
	struct both p[8];
	int taken = 0;

	(void)state;
	b->slow.hold = true;
	for (int i = 0; i < 8; i++)
		p[i] = send_pair(i % 2 ? q : &b->io, 3, OLD, (uint8_t)(0x40 + i));
	while (b->slow.count) {
		slow_release(b);
		run_both();
	}
	for (int i = 0; i < 8; i++) {
		bool took = status_of(p[i].compare) == 0;

		assert_int_equal(status_of(p[i].write), took ? 0 : NVME_SC_FUSED_FAIL);
		taken += took;
		if (took)
			assert_int_equal(block_is(3), 0x40 + i);
	}
	assert_int_equal(taken, 1);
}

/* Its data may never come: nobody waits for that. */
static void a_host_that_sends_no_data_holds_up_nobody(void **state)
{
	struct bed_queue *q = another();
	struct both p;

	(void)state;
	b->io.hold_fetches = true;
	p = send_pair(&b->io, 3, OLD, NEW);
	assert_int_equal(status_of(send_block(q, NVME_IO_WRITE, 0, 3, OLD)), 0);
	memset(b->memory + 4096, NEW, 512);
	bed_fetch_now(p.write);
	run_both();
	assert_int_equal(status_of(send_block(q, NVME_IO_WRITE, 0, 3, OLD)), 0);
	memset(b->memory + 8192, OLD, 512);
	bed_fetch_now(p.compare);
	assert_pair(p, 0, 0);
	b->io.hold_fetches = false;
	assert_int_equal(block_is(3), NEW);
}

static void it_ends_with_its_connection_wherever_it_is(void **state)
{
	struct bed_connect a = bed_connect_args(1, 1);
	struct bed_queue *q = another();

	(void)state;
	for (int when = 0; when < 5; when++) {
		struct bed_cmd *before = NULL;
		struct both p = {0};

		if (when == 3) { /* it waits for its turn */
			b->slow.hold = true;
			before = send_block(q, NVME_IO_WRITE, 0, 3, OLD);
		}
		b->slow.hold |= when == 4; /* it has it */
		b->io.hold_fetches = when == 1 || when == 2;
		if (when == 0)
			p.compare =
				send_block(&b->io, NVME_IO_COMPARE, NVME_SQE_FUSE_FIRST, 3, OLD);
		else
			p = send_pair(&b->io, 3, OLD, NEW);
		if (when == 2)
			bed_fetch_now(p.compare);
		bed_queue_close(&b->io);
		run_both();
		slow_release(b);
		run_both();
		assert_true(p.compare->answered && (!p.write || p.write->answered));
		assert_int_equal(b->io.tq.live, 0);
		if (before)
			assert_int_equal(status_of(before), 0);
		bed_queue_open_in(two ? &second : NULL, b, &b->io, 1);
		assert_int_equal(status_of(bed_send_connect(&b->io, &a)), 0);
		if (when < 4)
			assert_int_equal(block_is(3), OLD);
	}
}

static uint64_t abort_cmd(const struct bed_cmd *c)
{
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_ABORT, 0, 0);
	struct bed_cmd *abort;

	s.cdw10 = c->queue->tq.qid | (uint32_t)c->req.sqe.cid << 16;
	abort = bed_send(&b->admin, &s);
	assert_int_equal(status_of(abort), 0);
	return abort->cqe.result;
}

static void it_can_be_aborted_while_it_waits(void **state)
{
	struct bed_cmd *first, *c;
	struct both p;

	(void)state;
	first = send_block(&b->io, NVME_IO_COMPARE, NVME_SQE_FUSE_FIRST, 3, OLD);
	assert_int_equal(abort_cmd(first), 0);
	assert_int_equal(status_of(first), NVME_SC_ABORT_REQ);
	c = send_block(&b->io, NVME_IO_WRITE, NVME_SQE_FUSE_SECOND, 3, NEW);
	assert_int_equal(status_of(c), NVME_SC_FUSED_FAIL);
	b->io.hold_fetches = true;
	p = send_pair(&b->io, 3, OLD, NEW);
	bed_fetch_now(p.write);
	assert_int_equal(abort_cmd(p.compare), 0);
	assert_pair(p, NVME_SC_ABORT_REQ, NVME_SC_FUSED_FAIL);
	b->io.hold_fetches = false;
	assert_int_equal(block_is(3), OLD);
}

static unsigned gone;

static void ns_gone(struct target_ns *ns)
{
	(void)ns;
	gone++;
}

/* It may wait for the other one for ever, and its namespace is to go. */
static void a_half_does_not_keep_a_namespace_that_is_removed(void **state)
{
	struct bed_cmd *first = send_block(&b->io, NVME_IO_COMPARE, NVME_SQE_FUSE_FIRST, 3, OLD);

	(void)state;
	gone = 0;
	run_both();
	target_ns_remove(&b->subsys, &b->ro, ns_gone); /* not its own */
	run_both();
	assert_int_equal(gone, 1);
	assert_false(first->answered);
	target_ns_remove(&b->subsys, &b->ns, ns_gone);
	run_both();
	assert_int_equal(gone, 2);
	assert_int_equal(status_of(first), STATUS(NVME_SC_INVALID_NS));
	assert_int_equal(status_of(send_block(&b->io, NVME_IO_WRITE, NVME_SQE_FUSE_SECOND, 3, NEW)),
			 NVME_SC_FUSED_FAIL);
}

#define BOTH(f)                                              \
	cmocka_unit_test_setup_teardown(f, one_group, end),  \
	{                                                    \
#f " (two groups)", f, two_groups, end, NULL \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(what_is_equal_is_written),
		BOTH(what_differs_is_left_alone),
		BOTH(a_store_that_fails_ends_both_or_the_write),
		BOTH(force_unit_access_commits_before_and_after),
		BOTH(halves_without_the_other_are_ended),
		BOTH(halves_are_of_one_queue),
		BOTH(only_compare_and_write_of_the_same_block_are_fused),
		BOTH(a_capsule_that_came_damaged_ends_the_other_half),
		BOTH(nobody_writes_in_between),
		BOTH(who_comes_while_it_is_written_waits),
		BOTH(one_of_many_takes_the_lock),
		BOTH(a_host_that_sends_no_data_holds_up_nobody),
		BOTH(it_ends_with_its_connection_wherever_it_is),
		BOTH(it_can_be_aborted_while_it_waits),
		BOTH(a_half_does_not_keep_a_namespace_that_is_removed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
