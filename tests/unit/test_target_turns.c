/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Commands in many steps, at stores that answer at once: others have their turns in between. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "target_bed.h"

#define BLOCKS	 (1u << 28) /* of 4096 bytes: 1 TiB */
#define NSID	 7u
#define MOMENT	 (1ull << 30) /* of a range, at most */
#define RANGES	 256u
#define TURNS	 300000u
#define COMMANDS 60u

/* A large disk without bytes, which does what it is told from within submit. */
static struct disk {
	struct store store;
	struct target_ns ns;
	uint64_t bytes, ops, next; /* that it was asked for; where the last one ended */
	bool in_order;
	int fail_at; /* -EIO at the so-many-th operation; 0: never */
} disk;

static void disk_submit(struct store *s, struct store_op *op)
{
	(void)s;
	disk.in_order &= op->offset == disk.next;
	disk.next = op->offset + op->len;
	disk.bytes += op->len;
	disk.ops++;
	op->done(op, disk.fail_at && disk.ops == (uint64_t)disk.fail_at ? -EIO : 0);
}

static uint64_t disk_moment(struct store *s, uint64_t offset, uint64_t len)
{
	(void)s, (void)offset;
	return min_of(len, (uint64_t)MOMENT);
}

static const struct store_ops disk_ops = {
	.name = "large", .submit = disk_submit, .moment = disk_moment};

static struct bed *bed_with_disk(void)
{
	struct bed *b = bed_with_io();

	disk = (struct disk){
		.store = {.ops = &disk_ops, .size = BLOCKS * 4096ull, .block_size = 4096},
		.ns = {.nsid = NSID, .store = &disk.store, .lba_shift = 12},
		.in_order = true};
	assert_int_equal(target_ns_add(&b->subsys, &disk.ns), 0);
	return b;
}

/* No turn is asked for when there is nothing to go on with. */
static bool waits_for_a_turn(const struct bed *b)
{
	return target_next_deadline(&b->target) == 0;
}

static unsigned turns_until(struct bed *b, const struct bed_cmd *c)
{
	unsigned n = 0;

	while (!c->answered) {
		uint64_t ops = disk.ops;

		assert_true(waits_for_a_turn(b) && n++ < TURNS);
		target_tick(&b->target, b->now);
		assert_true(disk.ops - ops <= TARGET_TURN_MAX / 4096);
	}
	return n;
}

static struct bed_cmd *deallocate(struct bed *b, unsigned ranges, uint32_t nlb)
{
	struct nvme_sqe s = bed_sqe(NVME_IO_DSM, NSID, ranges * NVME_DSM_RANGE_LEN);
	struct wcursor w = wcursor_init(b->memory, ranges * NVME_DSM_RANGE_LEN);

	for (unsigned i = 0; i < ranges; i++)
		nvme_dsm_range_put(&w, &(struct nvme_dsm_range){.nlb = nlb});
	s.cdw10 = ranges - 1;
	s.cdw11 = NVME_DSM_AD;
	return bed_send(&b->io, &s);
}

static struct bed_cmd *range(struct bed *b, uint8_t opcode)
{
	struct nvme_sqe s = bed_sqe(opcode, NSID, 0);

	nvme_rw_set(&s, 0, 65536, 0); /* the most that it can name: 256 MiB */
	return bed_send(&b->io, &s);
}

static void end(struct bed *b, struct bed_cmd *c, uint16_t status)
{
	assert_int_equal(PLAIN(c->cqe.status), status);
	bed_release(c);
	bed_destroy(b);
}

static void ranges_of_everything_take_many_turns(void **state)
{
	struct nvme_sqe read = bed_sqe(NVME_IO_READ, 1, 512);
	struct bed *b = bed_with_disk();
	struct bed_cmd *c = deallocate(b, RANGES, BLOCKS);

	(void)state;
	assert_false(c->answered);
	assert_true(disk.bytes <= MOMENT);
	nvme_rw_set(&read, 0, 1, 0);
	assert_int_equal(bed_exec(&b->io, &read, NULL), NVME_SC_SUCCESS); /* others are served */
	assert_false(c->answered);
	assert_int_equal(turns_until(b, c), RANGES * (BLOCKS * 4096ull / MOMENT) - 1);
	assert_true(disk.bytes == BLOCKS * 4096ull * RANGES);
	assert_false(waits_for_a_turn(b));
	end(b, c, NVME_SC_SUCCESS);
}

/* Small ones are what file systems send. */
static void small_ranges_take_none(void **state)
{
	struct bed *b = bed_with_disk();
	struct bed_cmd *c = deallocate(b, RANGES, 1);

	(void)state;
	assert_true(c->answered);
	assert_int_equal(disk.ops, RANGES);
	end(b, c, NVME_SC_SUCCESS);
}

static void a_verify_of_all_that_it_can_name_takes_many_turns(void **state)
{
	struct bed *b = bed_with_disk();
	struct bed_cmd *c = range(b, NVME_IO_VERIFY);

	(void)state;
	assert_true(!c->answered && disk.bytes <= TARGET_TURN_MAX);
	assert_int_equal(turns_until(b, c), (65536 * 4096ull) / TARGET_TURN_MAX - 1);
	assert_true(disk.in_order && disk.bytes == 65536 * 4096ull);
	end(b, c, NVME_SC_SUCCESS);
}

/* Each by itself is what a store does in a moment. */
static void many_that_come_in_one_turn_are_not_all_done_in_it(void **state)
{
	struct bed_cmd *c[COMMANDS];
	struct bed *b = bed_with_disk();

	(void)state;
	for (unsigned i = 0; i < COMMANDS; i++)
		c[i] = range(b, NVME_IO_WRITE_ZEROES);
	assert_true(c[0]->answered && !c[1]->answered);
	assert_int_equal(disk.ops, 1);
	assert_int_equal(turns_until(b, c[COMMANDS - 1]), COMMANDS - 1);
	for (unsigned i = 0; i < COMMANDS - 1; i++)
		bed_release(c[i]);
	end(b, c[COMMANDS - 1], NVME_SC_SUCCESS);
}

static void a_part_that_fails_is_the_last(void **state)
{
	struct bed *b = bed_with_disk();
	struct bed_cmd *c;

	(void)state;
	disk.fail_at = 3;
	c = deallocate(b, RANGES, BLOCKS);
	(void)turns_until(b, c);
	assert_int_equal(disk.ops, 3);
	end(b, c, STATUS(NVME_SC_WRITE_FAULT));
}

static void what_waits_for_a_turn_is_aborted_in_it(void **state)
{
	struct nvme_sqe abort = bed_sqe(NVME_ADMIN_ABORT, 0, 0);
	struct bed *b = bed_with_disk();
	struct bed_cmd *c = deallocate(b, RANGES, BLOCKS);
	uint64_t ops = disk.ops;

	(void)state;
	abort.cdw10 = 1u | (uint32_t)c->req.sqe.cid << 16;
	assert_int_equal(bed_exec(&b->admin, &abort, NULL), NVME_SC_SUCCESS);
	assert_int_equal(turns_until(b, c), 1);
	assert_int_equal(disk.ops, ops);
	end(b, c, NVME_SC_ABORT_REQ);
}

static void what_waits_for_a_turn_ends_with_its_connection(void **state)
{
	struct bed *b = bed_with_disk();
	struct bed_cmd *c = deallocate(b, RANGES, BLOCKS);
	uint64_t ops = disk.ops;

	(void)state;
	bed_queue_close(&b->io);
	assert_false(c->answered); /* nobody looks for it in the line */
	assert_int_equal(turns_until(b, c), 1);
	assert_int_equal(disk.ops, ops);
	bed_release(c);
	bed_destroy(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_of_everything_take_many_turns),
		cmocka_unit_test(small_ranges_take_none),
		cmocka_unit_test(a_verify_of_all_that_it_can_name_takes_many_turns),
		cmocka_unit_test(many_that_come_in_one_turn_are_not_all_done_in_it),
		cmocka_unit_test(a_part_that_fails_is_the_last),
		cmocka_unit_test(what_waits_for_a_turn_is_aborted_in_it),
		cmocka_unit_test(what_waits_for_a_turn_ends_with_its_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
