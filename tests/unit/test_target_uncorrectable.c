/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Write Uncorrectable: blocks that read as an error of the medium until they are written again. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "target_bed.h"
#include "wire/nvme_log.h"

#define BROKEN STATUS(NVME_SC_READ_ERROR)

static struct bed *bed;

static int begin(void **state)
{
	(void)state;
	bed = bed_with_io();
	return 0;
}

static int end(void **state)
{
	(void)state;
	bed_destroy(bed);
	return 0;
}

static uint16_t rw_in(uint32_t nsid, uint8_t opcode, uint64_t slba, uint32_t nlb)
{
	bool data = opcode == NVME_IO_READ || opcode == NVME_IO_WRITE || opcode == NVME_IO_COMPARE;
	struct nvme_sqe s = bed_sqe(opcode, nsid, data ? nlb << (nsid == 5 ? 12 : 9) : 0);

	nvme_rw_set(&s, slba, nlb, 0);
	return bed_exec(&bed->io, &s, NULL);
}

static uint16_t rw(uint8_t opcode, uint64_t slba, uint32_t nlb)
{
	return rw_in(1, opcode, slba, nlb);
}

static uint16_t mark(uint64_t slba, uint32_t nlb)
{
	return rw(NVME_IO_WRITE_UNCORRECTABLE, slba, nlb);
}

static uint16_t copy(uint64_t to, const struct nvme_copy_range *ranges, uint32_t nr)
{
	struct nvme_sqe s = bed_sqe(NVME_IO_COPY, 1, nr * NVME_COPY_RANGE_LEN);
	struct wcursor w = wcursor_init(bed->memory, sizeof(bed->memory));

	for (uint32_t i = 0; i < nr; i++)
		nvme_copy_range_put(&w, &ranges[i]);
	nvme_rw_set(&s, to, nr, 0);
	return bed_exec(&bed->io, &s, NULL);
}

static void marked_blocks_read_as_errors_and_their_neighbours_do_not(void **state)
{
	static const struct {
		uint64_t slba;
		uint32_t nlb;
	} cases[] = {{0, 1}, {63, 1}, {63, 2}, {64, 64}, {100, 300}, {BED_BLOCKS - 1, 1}};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t slba = cases[i].slba;
		uint32_t nlb = cases[i].nlb;

		assert_int_equal(mark(slba, nlb), 0);
		for (uint64_t lba = slba; lba < slba + nlb; lba++)
			assert_int_equal(rw(NVME_IO_READ, lba, 1), BROKEN);
		if (slba)
			assert_int_equal(rw(NVME_IO_READ, slba - 1, 1), 0);
		if (slba + nlb < BED_BLOCKS)
			assert_int_equal(rw(NVME_IO_READ, slba + nlb, 1), 0);
		assert_int_equal(rw(NVME_IO_READ, 0, 2048), slba < 2048 ? BROKEN : 0);
		assert_int_equal(rw(NVME_IO_WRITE, slba, nlb), 0);
		assert_int_equal(rw(NVME_IO_READ, 0, 2048), 0);
		assert_int_equal(bed->allocated, 1); /* the controller: no memory without marks */
	}
	assert_int_equal(rw_in(5, NVME_IO_WRITE_UNCORRECTABLE, 7, 1), 0);
	assert_int_equal(rw_in(5, NVME_IO_READ, 7, 1), BROKEN);
	assert_int_equal(rw_in(1, NVME_IO_READ, 7, 1), 0); /* another namespace's */
}

static void whatever_reads_marked_blocks_fails(void **state)
{
	const struct nvme_copy_range sound[] = {{0, 7}, {32, 7}}, bad[] = {{0, 7}, {8, 3}};

	(void)state;
	memset(bed->memory, 0x5a, 64 * 512);
	assert_int_equal(rw(NVME_IO_WRITE, 0, 64), 0);
	assert_int_equal(mark(10, 4), 0);
	assert_int_equal(rw(NVME_IO_COMPARE, 8, 8), BROKEN);
	assert_int_equal(rw(NVME_IO_VERIFY, 0, 64), BROKEN);
	assert_int_equal(rw(NVME_IO_VERIFY, 14, 50), 0);
	assert_int_equal(copy(100, bad, 2), BROKEN);
	assert_int_equal(copy(100, sound, 2), 0);
	memset(bed->memory, 0x11, 512);
	assert_int_equal(rw(NVME_IO_READ, 10, 1), BROKEN);
	assert_int_equal(bed->memory[0], 0x11); /* nothing of it is sent */
	assert_int_equal(rw(NVME_IO_READ, 99, 1), 0);
	assert_int_equal(rw(NVME_IO_READ, 100, 1), 0);
	assert_int_equal(bed->memory[0], 0x5a);
}

static void a_write_heals_just_its_blocks(void **state)
{
	static const uint8_t opcodes[] = {NVME_IO_WRITE, NVME_IO_WRITE_ZEROES};
	const struct nvme_copy_range sound[] = {{0, 3}};

	(void)state;
	memset(bed->memory, 0x5a, 512 * 512);
	for (unsigned i = 0; i < ARRAY_SIZE(opcodes); i++) {
		assert_int_equal(mark(60, 300), 0);
		assert_int_equal(rw(opcodes[i], 100, 200), 0);
		assert_int_equal(rw(NVME_IO_READ, 99, 1), BROKEN);
		assert_int_equal(rw(NVME_IO_READ, 100, 200), 0);
		assert_int_equal(rw(NVME_IO_READ, 300, 1), BROKEN);
		assert_int_equal(rw(NVME_IO_READ, 359, 1), BROKEN);
	}
	assert_int_equal(copy(300, sound, 1), 0);
	assert_int_equal(rw(NVME_IO_READ, 300, 4), 0);
	assert_int_equal(rw(NVME_IO_READ, 304, 1), BROKEN);
	/* What fails has healed nothing. */
	bed->slow.fail = -EIO;
	assert_int_equal(rw(NVME_IO_WRITE, 304, 1), STATUS(NVME_SC_WRITE_FAULT));
	assert_int_equal(rw(NVME_IO_READ, 304, 1), BROKEN);
	assert_int_equal(rw(NVME_IO_WRITE_ZEROES, 0, BED_BLOCKS), 0);
	assert_int_equal(rw(NVME_IO_READ, 0, 2048), 0);
	assert_int_equal(bed->allocated, 1);
}

static void ns_gone(struct target_ns *ns)
{
	assert_null(ns->marks);
}

/* What there is to be emptied is emptied in pieces: the first is healed like the last. */
static void zeroing_in_pieces_heals_them_all(void **state)
{
	const uint32_t nlb = 16384, max = BED_MEMORY / 4 / 512;
	struct target_ns full = {.nsid = 7, .lba_shift = 9};

	(void)state;
	assert_int_equal(store_mem_create((uint64_t)nlb * 512, 512, 0, &full.store), 0);
	assert_int_equal(target_ns_add(&bed->subsys, &full), 0);
	memset(bed->memory, 0x5a, sizeof(bed->memory));
	for (uint32_t at = 0; at < nlb; at += max)
		assert_int_equal(rw_in(7, NVME_IO_WRITE, at, max), 0);
	assert_in_range(store_moment(full.store, 0, (uint64_t)nlb * 512), 1, nlb / 2 * 512);
	assert_int_equal(rw_in(7, NVME_IO_WRITE_UNCORRECTABLE, 0, 1), 0);
	assert_int_equal(rw_in(7, NVME_IO_WRITE_UNCORRECTABLE, nlb / 2, 1), 0);
	assert_int_equal(rw_in(7, NVME_IO_WRITE_UNCORRECTABLE, nlb - 1, 1), 0);
	assert_int_equal(rw_in(7, NVME_IO_WRITE_ZEROES, 0, nlb - 1), 0);
	for (uint32_t at = 0; at < nlb; at += max)
		assert_int_equal(rw_in(7, NVME_IO_READ, at, max), at + max < nlb ? 0 : BROKEN);
	assert_int_equal(bed->memory[0], 0);
	target_ns_remove(&bed->subsys, &full, ns_gone);
	store_destroy(full.store);
}

/* What is beyond the end is gone, and zeroes are there when it grows again. */
static void what_is_cut_off_is_healed(void **state)
{
	const uint64_t size = bed->ns.store->size;

	(void)state;
	assert_int_equal(mark(5, 1), 0);
	assert_int_equal(mark(20, 3), 0);
	bed->ns.store->size = 21 * 512;
	target_ns_changed(&bed->ns, &bed->subsys);
	assert_int_equal(rw(NVME_IO_READ, 20, 1), BROKEN);
	bed->ns.store->size = size;
	target_ns_changed(&bed->ns, &bed->subsys);
	assert_int_equal(rw(NVME_IO_READ, 5, 1), BROKEN);
	assert_int_equal(rw(NVME_IO_READ, 20, 1), BROKEN);
	assert_int_equal(rw(NVME_IO_READ, 21, 2), 0);
	bed->ns.store->size = 4 * 512;
	target_ns_changed(&bed->ns, &bed->subsys);
	assert_null(bed->ns.marks);
	bed->ns.store->size = size;
	target_ns_changed(&bed->ns, &bed->subsys);
	assert_int_equal(rw(NVME_IO_READ, 5, 1), 0);
}

static void deallocating_heals_nothing(void **state)
{
	struct nvme_sqe s = bed_sqe(NVME_IO_DSM, 1, NVME_DSM_RANGE_LEN);
	struct nvme_dsm_range range = {.slba = 0, .nlb = 64};
	struct wcursor w = wcursor_init(bed->memory, NVME_DSM_RANGE_LEN);

	(void)state;
	assert_int_equal(mark(5, 1), 0);
	nvme_dsm_range_put(&w, &range);
	s.cdw11 = NVME_DSM_AD;
	assert_int_equal(bed_exec(&bed->io, &s, NULL), 0);
	assert_int_equal(rw(NVME_IO_READ, 5, 1), BROKEN);
}

static void a_block_is_healed_when_its_write_has_ended(void **state)
{
	struct nvme_sqe s = bed_sqe(NVME_IO_WRITE, 1, 512);
	struct bed_cmd *c;

	(void)state;
	assert_int_equal(mark(3, 1), 0);
	nvme_rw_set(&s, 3, 1, 0);
	bed->slow.hold = true;
	c = bed_send(&bed->io, &s);
	assert_int_equal(rw(NVME_IO_READ, 3, 1), BROKEN);
	slow_release(bed);
	assert_true(c->answered);
	assert_int_equal(c->cqe.status, 0);
	bed_release(c);
	assert_int_equal(rw(NVME_IO_READ, 3, 1), 0);
}

static void a_compare_of_a_marked_block_takes_the_write_that_is_fused_to_it_along(void **state)
{
	struct nvme_sqe s = bed_sqe(NVME_IO_COMPARE, 1, 512);
	struct bed_cmd *first, *second;

	(void)state;
	assert_int_equal(mark(9, 1), 0);
	nvme_rw_set(&s, 9, 1, 0);
	s.flags |= NVME_SQE_FUSE_FIRST;
	first = bed_send(&bed->io, &s);
	s.opcode = NVME_IO_WRITE;
	s.flags ^= NVME_SQE_FUSE_FIRST | NVME_SQE_FUSE_SECOND;
	second = bed_send(&bed->io, &s);
	assert_true(first->answered && second->answered);
	assert_int_equal(PLAIN(first->cqe.status), BROKEN);
	assert_int_equal(PLAIN(second->cqe.status), NVME_SC_FUSED_FAIL);
	bed_release(first);
	bed_release(second);
	assert_int_equal(rw(NVME_IO_READ, 9, 1), BROKEN);
}

static void the_logs_name_the_block(void **state)
{
	struct nvme_get_log g = {.lid = NVME_LID_ERROR, .len = NVME_ERROR_ENTRY_LEN};
	struct nvme_sqe s = bed_sqe(0, 0, NVME_ERROR_ENTRY_LEN);
	struct nvme_error_entry e;
	struct nvme_smart smart;
	struct cursor c = cursor_init(bed->memory, NVME_SMART_LEN);

	(void)state;
	assert_int_equal(mark(777, 5), 0);
	assert_int_equal(rw(NVME_IO_READ, 700, 100), BROKEN);
	nvme_get_log_to_sqe(&g, &s);
	assert_int_equal(bed_exec(&bed->admin, &s, NULL), 0);
	nvme_error_entry_get(&c, &e);
	assert_int_equal(e.lba, 777);
	g = (struct nvme_get_log){.lid = NVME_LID_SMART, .len = NVME_SMART_LEN};
	s = bed_sqe(0, 0, NVME_SMART_LEN);
	nvme_get_log_to_sqe(&g, &s);
	assert_int_equal(bed_exec(&bed->admin, &s, NULL), 0);
	c = cursor_init(bed->memory, NVME_SMART_LEN);
	nvme_smart_get(&c, &smart);
	assert_int_equal(smart.media_errors.lo, 1);
}

static void what_may_not_be_written_may_not_be_marked(void **state)
{
	struct nvme_id_ctrl id;
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_IDENTIFY, 0, NVME_IDENTIFY_LEN);
	struct cursor c = cursor_init(bed->memory, NVME_IDENTIFY_LEN);

	(void)state;
	assert_int_equal(rw_in(2, NVME_IO_WRITE_UNCORRECTABLE, 0, 1),
			 STATUS(NVME_SC_NS_WRITE_PROTECTED));
	assert_int_equal(rw_in(3, NVME_IO_WRITE_UNCORRECTABLE, 0, 1), STATUS(NVME_SC_INVALID_NS));
	assert_int_equal(mark(BED_BLOCKS - 1, 2), STATUS(NVME_SC_LBA_RANGE));
	assert_int_equal(mark(UINT64_MAX, 1), STATUS(NVME_SC_LBA_RANGE));
	assert_int_equal(rw(NVME_IO_READ, 0, 2048), 0);
	s.cdw10 = NVME_CNS_CTRL;
	assert_int_equal(bed_exec(&bed->admin, &s, NULL), 0);
	nvme_id_ctrl_get(&c, &id);
	assert_true(id.oncs & NVME_ONCS_WRITE_UNCORR);
}

/* More than there is room for is refused as a whole; room comes of writing. */
static void marks_have_a_limit(void **state)
{
	const uint32_t blocks = TARGET_MARKS_MAX * 64 * 2;
	struct target_ns huge = {.nsid = 7, .lba_shift = 9};
	uint32_t i;

	(void)state;
	assert_int_equal(store_mem_create((uint64_t)blocks * 512, 512, 0, &huge.store), 0);
	assert_int_equal(target_ns_add(&bed->subsys, &huge), 0);
	for (i = 0; i < TARGET_MARKS_MAX; i++) /* each far from the others, from both ends */
		assert_int_equal(rw_in(7, NVME_IO_WRITE_UNCORRECTABLE,
				       i % 2 ? i * 64ull : blocks - 64 - i * 64ull, 1),
				 0);
	assert_int_equal(rw_in(7, NVME_IO_WRITE_UNCORRECTABLE, 64 * 2, 1),
			 STATUS(NVME_SC_CAP_EXCEEDED));
	assert_int_equal(rw_in(7, NVME_IO_READ, 64 * 2, 1), 0);
	assert_int_equal(rw_in(7, NVME_IO_WRITE_UNCORRECTABLE, 64 + 1, 63), 0); /* where there is */
	assert_int_equal(rw_in(7, NVME_IO_WRITE_UNCORRECTABLE, 64 + 1, 64),
			 STATUS(NVME_SC_CAP_EXCEEDED));
	for (i = 0; i < TARGET_MARKS_MAX; i++)
		assert_int_equal(
			rw_in(7, NVME_IO_READ, i % 2 ? i * 64ull : blocks - 64 - i * 64ull, 1),
			BROKEN);
	assert_int_equal(rw_in(7, NVME_IO_WRITE, 64 * 3, 1), 0);
	assert_int_equal(rw_in(7, NVME_IO_WRITE_UNCORRECTABLE, 64 * 2, 1), 0);
	for (uint32_t at = 0; at < blocks; at += 65536)
		assert_int_equal(rw_in(7, NVME_IO_WRITE_ZEROES, at, min_of(65536u, blocks - at)),
				 0);
	assert_int_equal(bed->allocated, 1);
	assert_int_equal(rw_in(7, NVME_IO_WRITE_UNCORRECTABLE, 17, 65536), 0); /* all at once */
	assert_int_equal(rw_in(7, NVME_IO_READ, 17 + 65535, 1), BROKEN);
	target_ns_remove(&bed->subsys, &huge, ns_gone);
	assert_int_equal(bed->allocated, 1);
	store_destroy(huge.store);
}

static void marks_leave_with_their_namespace(void **state)
{
	(void)state;
	assert_int_equal(mark(0, 10), 0);
	assert_int_equal(bed->allocated, 2);
	target_ns_remove(&bed->subsys, &bed->ns, ns_gone);
	assert_int_equal(bed->allocated, 1);
	assert_int_equal(target_ns_add(&bed->subsys, &bed->ns), 0);
	assert_int_equal(rw(NVME_IO_READ, 0, 10), 0);
}

/* Against a plain array, in an order that means nothing. */
static void marks_are_as_a_map_of_all_blocks_would_have_them(void **state)
{
	static bool model[BED_BLOCKS];
	uint32_t x = 1;

	(void)state;
	memset(model, 0, sizeof(model));
	for (int i = 0; i < 3000; i++) {
		uint32_t slba, nlb, way;
		bool any = false;

		x = x * 1664525 + 1013904223;
		slba = (x >> 8) % BED_BLOCKS;
		x = x * 1664525 + 1013904223;
		nlb = 1 + (x >> 8) % (i % 3 ? 40 : 400);
		way = x >> 28;
		nlb = min_of(nlb, BED_BLOCKS - slba);
		for (uint32_t at = slba; at < slba + nlb; at++)
			any |= model[at];
		assert_int_equal(rw(NVME_IO_READ, slba, nlb), any ? BROKEN : 0);
		if (way < 5)
			assert_int_equal(mark(slba, nlb), 0);
		else if (way < 11)
			assert_int_equal(rw(NVME_IO_WRITE_ZEROES, slba, nlb), 0);
		for (uint32_t at = slba; at < slba + nlb && way < 11; at++)
			model[at] = way < 5;
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(marked_blocks_read_as_errors_and_their_neighbours_do_not),
		TEST(whatever_reads_marked_blocks_fails),
		TEST(a_write_heals_just_its_blocks),
		TEST(zeroing_in_pieces_heals_them_all),
		TEST(what_is_cut_off_is_healed),
		TEST(deallocating_heals_nothing),
		TEST(a_block_is_healed_when_its_write_has_ended),
		TEST(a_compare_of_a_marked_block_takes_the_write_that_is_fused_to_it_along),
		TEST(the_logs_name_the_block),
		TEST(what_may_not_be_written_may_not_be_marked),
		TEST(marks_have_a_limit),
		TEST(marks_leave_with_their_namespace),
		TEST(marks_are_as_a_map_of_all_blocks_would_have_them),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
