/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Data whose memory a list of descriptors names, in the capsule behind the command. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "target_bed.h"

#define ROOM 64 /* descriptors that a test can write down: more than a host may */

struct list_args {
	struct nvme_sgl d[ROOM];
	unsigned count; /* of d, in the capsule from byte at on */
	size_t at;
	uint64_t offset; /* that the command says */
	uint32_t len;	 /* the same of the list */
	uint8_t type, subtype;
	size_t capsule; /* bytes that come */
};

/* Of pieces of len bytes: the first at address 0, each next one further below the one before. */
static struct list_args pieces(unsigned count, uint32_t len)
{
	struct list_args a = {.count = count,
			      .len = count * NVME_SGL_LEN,
			      .type = NVME_SGL_LAST_SEGMENT,
			      .subtype = NVME_SGL_OFFSET,
			      .capsule = count * NVME_SGL_LEN};

	for (unsigned i = 0; i < count; i++)
		a.d[i] = (struct nvme_sgl){.addr = i ? BED_MEMORY - (uint64_t)i * 2 * len : 0,
					   .len = len,
					   .key = BED_KEY,
					   .type = NVME_SGL_KEYED_DATA_BLOCK,
					   .subtype = NVME_SGL_ADDRESS};
	return a;
}

static struct bed_cmd *send_list(struct bed_queue *q, struct nvme_sqe *s, const struct list_args *a)
{
	uint8_t data[TARGET_CAPSULE_DATA] = {0};
	struct wcursor w = wcursor_init(data + a->at, sizeof(data) - a->at);

	for (unsigned i = 0; i < a->count; i++)
		nvme_sgl_put(&w, &a->d[i]);
	assert_false(w.overrun);
	s->sgl = (struct nvme_sgl){
		.addr = a->offset, .len = a->len, .type = a->type, .subtype = a->subtype};
	return bed_send_data(q, s, data, a->capsule);
}

static uint16_t exec_list(struct bed *b, uint8_t opcode, uint64_t slba, uint32_t nlb,
			  const struct list_args *a)
{
	struct nvme_sqe s = bed_sqe(opcode, 1, 0);
	struct bed_cmd *c;

	nvme_rw_set(&s, slba, nlb, 0);
	c = send_list(&b->io, &s, a);
	assert_true(c->answered);
	bed_release(c);
	return PLAIN(c->cqe.status);
}

static uint8_t pattern(size_t i)
{
	return (uint8_t)(i * 31 + i / 251 + 1);
}

/* The host's memory as the descriptors go through it. */
static void check_or_fill(struct bed *b, const struct list_args *a, bool fill)
{
	size_t at = 0;

	for (unsigned i = 0; i < a->count; i++)
		for (uint32_t k = 0; k < a->d[i].len; k++, at++) {
			uint8_t *byte = &b->memory[a->d[i].addr + k];

			if (fill)
				*byte = pattern(at);
			else
				assert_int_equal(*byte, pattern(at));
		}
}

static void data_go_through_any_number_of_pieces_up_to_the_most(void **state)
{
	struct bed *b = bed_with_io();

	(void)state;
	for (unsigned n = 1; n <= TARGET_SGL_MAX; n++) {
		struct list_args a = pieces(n, 512);

		memset(b->memory, 0, sizeof(b->memory));
		check_or_fill(b, &a, true);
		assert_int_equal(exec_list(b, NVME_IO_WRITE, 40, n, &a), NVME_SC_SUCCESS);
		memset(b->memory, 0, sizeof(b->memory));
		assert_int_equal(exec_list(b, NVME_IO_READ, 40, n, &a), NVME_SC_SUCCESS);
		check_or_fill(b, &a, false);
		assert_int_equal(b->memory[512], 0);
		assert_int_equal(exec_list(b, NVME_IO_COMPARE, 40, n, &a), NVME_SC_SUCCESS);
	}
	bed_destroy(b);
}

static void pieces_need_not_be_of_whole_blocks(void **state)
{
	static const uint32_t lens[] = {1, 510, 513, 0, 1000, 24};
	struct list_args a = pieces(ARRAY_SIZE(lens), 4096);
	struct bed *b = bed_with_io();

	(void)state;
	for (unsigned i = 0; i < a.count; i++)
		a.d[i].len = lens[i];
	a.d[3].key = 0; /* what names no bytes is not looked at */
	a.d[3].addr = UINT64_MAX;
	a.at = a.offset = 13;
	a.capsule += 13;
	check_or_fill(b, &a, true);
	assert_int_equal(exec_list(b, NVME_IO_WRITE, 0, 4, &a), NVME_SC_SUCCESS);
	memset(b->memory, 0, sizeof(b->memory));
	assert_int_equal(exec_list(b, NVME_IO_READ, 0, 4, &a), NVME_SC_SUCCESS);
	check_or_fill(b, &a, false);
	assert_int_equal(exec_list(b, NVME_IO_COMPARE, 0, 4, &a), NVME_SC_SUCCESS);
	bed_destroy(b);
}

static void pieces_may_lie_upon_each_other(void **state)
{
	struct list_args a = pieces(3, 512);
	struct bed *b = bed_with_io();

	(void)state;
	a.d[1].addr = a.d[2].addr = 100;
	memset(b->memory, 7, 1024);
	assert_int_equal(exec_list(b, NVME_IO_WRITE, 0, 3, &a), NVME_SC_SUCCESS);
	assert_int_equal(exec_list(b, NVME_IO_READ, 0, 3, &a), NVME_SC_SUCCESS);
	bed_destroy(b);
}

static void ranges_to_deallocate_may_come_in_pieces(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe s = bed_sqe(NVME_IO_DSM, 1, 0);
	struct list_args a = pieces(2, 8); /* one range, in halves */
	struct wcursor w = wcursor_init(b->memory + 100, NVME_DSM_RANGE_LEN);
	struct nvme_dsm_range range = {.nlb = 1, .slba = 5};
	struct bed_cmd *c;

	(void)state;
	nvme_dsm_range_put(&w, &range);
	a.d[0].addr = 100;
	a.d[1].addr = 108;
	s.cdw11 = NVME_DSM_AD;
	c = send_list(&b->io, &s, &a);
	assert_true(c->answered);
	assert_int_equal(c->cqe.status, NVME_SC_SUCCESS);
	bed_release(c);
	a.d[1].len = 7;
	c = send_list(&b->io, &s, &a);
	assert_int_equal(PLAIN(c->cqe.status), STATUS(NVME_SC_SGL_INVALID_DATA));
	bed_release(c);
	bed_destroy(b);
}

static uint16_t refused(struct bed *b, const struct list_args *a)
{
	uint16_t write = exec_list(b, NVME_IO_WRITE, 0, 4, a);

	assert_int_equal(exec_list(b, NVME_IO_READ, 0, 4, a), write);
	assert_int_not_equal(write, NVME_SC_SUCCESS);
	return write;
}

static void lists_that_make_no_sense_are_refused(void **state)
{
	struct bed *b = bed_with_io();
	struct list_args good = pieces(4, 512), a;

	(void)state;
	/* One more than MSDBD, and very many: here or not. */
	a = pieces(TARGET_SGL_MAX + 1, 2048 / 16);
	a.d[TARGET_SGL_MAX].len = 0;
	assert_int_equal(refused(b, &a), STATUS(NVME_SC_SGL_INVALID_COUNT));
	a.len = 0xfffffff0;
	assert_int_equal(refused(b, &a), STATUS(NVME_SC_SGL_INVALID_COUNT));
	/* No list, and half a descriptor. */
	static const uint32_t lens[] = {0, 1, 8, 15, 17, 63, 0xffffffff};
	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
		a = good;
		a.len = lens[i];
		assert_int_equal(refused(b, &a), STATUS(NVME_SC_SGL_INVALID_LAST));
	}
	/* Not in the capsule, or not all of it. */
	static const uint64_t offsets[] = {1, 64, 8192, 1ull << 32, UINT64_MAX, UINT64_MAX - 63};
	for (unsigned i = 0; i < ARRAY_SIZE(offsets); i++) {
		a = good;
		a.offset = offsets[i];
		assert_int_equal(refused(b, &a), STATUS(NVME_SC_SGL_INVALID_OFFSET));
	}
	a = good;
	a.capsule--;
	assert_int_equal(refused(b, &a), STATUS(NVME_SC_SGL_INVALID_OFFSET));
	a.capsule = 0;
	assert_int_equal(refused(b, &a), STATUS(NVME_SC_SGL_INVALID_OFFSET));
	/* Sums other than the command's; one that is its length in 32 bits does not exist. */
	a = good;
	a.d[3].len--;
	assert_int_equal(refused(b, &a), STATUS(NVME_SC_SGL_INVALID_DATA));
	a.d[3].len += 2;
	assert_int_equal(refused(b, &a), STATUS(NVME_SC_SGL_INVALID_DATA));
	a = pieces(TARGET_SGL_MAX, NVME_SGL_KEYED_LEN_MAX);
	assert_int_equal(refused(b, &a), STATUS(NVME_SC_SGL_INVALID_DATA));
	a = pieces(4, 0);
	assert_int_equal(refused(b, &a), STATUS(NVME_SC_SGL_INVALID_DATA));
	bed_destroy(b);
}

static void a_list_is_of_keyed_descriptors_only(void **state)
{
	struct bed *b = bed_with_io();

	(void)state;
	for (unsigned at = 0; at < 4; at++)
		for (uint8_t type = 0; type < 16; type++)
			for (uint8_t sub = 0; sub < 16; sub++) {
				struct list_args a = pieces(4, 512);
				bool segment =
					type == NVME_SGL_SEGMENT || type == NVME_SGL_LAST_SEGMENT;

				if (type == NVME_SGL_KEYED_DATA_BLOCK &&
				    (sub == NVME_SGL_ADDRESS || sub == NVME_SGL_INVALIDATE))
					continue;
				a.d[at].type = type;
				a.d[at].subtype = sub;
				assert_int_equal(refused(b, &a),
						 STATUS(segment ? NVME_SC_SGL_INVALID_LAST
								: NVME_SC_SGL_INVALID_TYPE));
			}
	bed_destroy(b);
}

/* An admin queue's capsule is the command alone. */
static void an_admin_command_has_no_list(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_IDENTIFY, 0, 0);
	struct list_args a = pieces(2, 2048);
	struct bed_cmd *c;

	(void)state;
	s.cdw10 = NVME_CNS_CTRL;
	c = send_list(&b->admin, &s, &a);
	assert_int_equal(PLAIN(c->cqe.status), STATUS(NVME_SC_SGL_INVALID_OFFSET));
	bed_release(c);
	bed_destroy(b);
}

/* As with other descriptors, nobody looks. */
static void a_command_without_data_may_have_any_list(void **state)
{
	struct bed *b = bed_with_io();
	struct list_args a = pieces(1, 512);

	(void)state;
	a.offset = UINT64_MAX;
	assert_int_equal(exec_list(b, NVME_IO_FLUSH, 0, 1, &a), NVME_SC_SUCCESS);
	bed_destroy(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_go_through_any_number_of_pieces_up_to_the_most),
		cmocka_unit_test(pieces_need_not_be_of_whole_blocks),
		cmocka_unit_test(pieces_may_lie_upon_each_other),
		cmocka_unit_test(ranges_to_deallocate_may_come_in_pieces),
		cmocka_unit_test(lists_that_make_no_sense_are_refused),
		cmocka_unit_test(a_list_is_of_keyed_descriptors_only),
		cmocka_unit_test(an_admin_command_has_no_list),
		cmocka_unit_test(a_command_without_data_may_have_any_list),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
