/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Data of commands, whatever these travel by: the same cases over each transport. */
#include <errno.h>

#include "transport_bed.h"

static void hosts_are_told_what_there_is(void **state)
{
	(void)state;
	bring_up();
	assert_int_equal(bed.host.io_queues, IO_QUEUES);
	assert_int_equal(bed.host.capsule_max, TARGET_CAPSULE_DATA);
	assert_int_equal(bed.host.transfer_max, TARGET_DATA_MAX);
	assert_int_equal(!!(bed.host.id.sgls & NVME_SGLS_KEYED), kind == &rdma_transport);
}

static void what_is_written_is_read(void **state)
{
	static const uint32_t lens[] = {512,   1024,	     4096,	8192,	 8704,
					65536, 131072 + 512, 300 << 10, DATA_MAX};

	(void)state;
	bring_up();
	for (unsigned int i = 0; i < ARRAY_SIZE(lens); i++) {
		fill(mem.out, lens[i], i);
		memset(mem.in, 0xee, sizeof(mem.in));
		assert_int_equal(do_write(i * 3, mem.out, lens[i]), NVME_SC_SUCCESS);
		assert_int_equal(do_read(i * 3, mem.in, lens[i]), NVME_SC_SUCCESS);
		assert_memory_equal(mem.in, mem.out, lens[i]);
		if (lens[i] < DATA_MAX)
			assert_int_equal(mem.in[lens[i]], 0xee);
	}
}

/* On both queues, of all lengths, several times over. */
static void full_queues_of_commands_are_answered(void **state)
{
	static struct host_request reqs[2 * IO_ENTRIES];
	static const uint32_t lens[] = {512, 4096, 8192, 16384, 65536};
	unsigned int answered;

	(void)state;
	bring_up();
	for (unsigned int round = 0; round < 20; round++) {
		bool write = round % 2 == 0;

		answered = 0;
		for (unsigned int i = 0; i < ARRAY_SIZE(reqs); i++) {
			uint32_t len = lens[(i + round / 2) % ARRAY_SIZE(lens)];

			reqs[i] = (struct host_request){0};
			if (write) {
				fill(mem.many[i], len, i + round);
				host_prepare_write(&reqs[i], 1, i * 128, len / 512, mem.many[i],
						   len, false);
			} else {
				memset(mem.many[i], 0, len);
				host_prepare_read(&reqs[i], 1, i * 128, len / 512, mem.many[i],
						  len);
			}
			submit(&reqs[i], (uint16_t)(1 + i % 2), &answered);
		}
		turn_until(answered == ARRAY_SIZE(reqs));
		for (unsigned int i = 0; i < ARRAY_SIZE(reqs); i++) {
			assert_int_equal(reqs[i].error, 0);
			assert_int_equal(reqs[i].cqe.status, 0);
			fill(mem.out, reqs[i].data_len, i + round - !write);
			assert_memory_equal(mem.many[i], mem.out, reqs[i].data_len);
		}
	}
}

enum { PIECES = 300 };

/* A buffer as pieces of different lengths, some of none; how many. */
static unsigned int cut(uint8_t *p, size_t len, unsigned int seed, struct iovec v[PIECES])
{
	unsigned int n = 0;

	for (size_t at = 0; at < len; n++) {
		size_t piece = n == PIECES - 1 ? len - at : (n * 977 + seed * 131) % (len / 50);

		piece = min_of(n % 7 == 3 ? 0 : piece, len - at);
		v[n] = (struct iovec){p + at, piece};
		at += piece;
	}
	return n;
}

/* What the transport was not told of, in the same process. */
static uint8_t unknown_out[DATA_MAX], unknown_in[DATA_MAX];

static void try_pieces(uint8_t *out, uint8_t *in, uint32_t len, unsigned int seed)
{
	struct host_request req = {0};
	struct iovec v[PIECES];

	fill(out, len, seed);
	memset(in, 0, len);
	cut(out, len, seed, v);
	host_prepare_write(&req, 1, 0, len / 512, NULL, len, false);
	req.iov = v;
	assert_int_equal(exec(&req, 1), NVME_SC_SUCCESS);
	cut(in, len, seed + 5, v);
	host_prepare_read(&req, 1, 0, len / 512, NULL, len);
	req.iov = v;
	assert_int_equal(exec(&req, 2), NVME_SC_SUCCESS);
	assert_memory_equal(in, out, len);
}

static void data_may_lie_in_pieces(void **state)
{
	static const uint32_t lens[] = {512, 1024, 8192, 8704, 65536, DATA_MAX};

	(void)state;
	bring_up();
	for (unsigned int i = 0; i < ARRAY_SIZE(lens); i++) {
		try_pieces(mem.out, mem.in, lens[i], i);
		try_pieces(unknown_out, mem.in, lens[i], i + 10);
		try_pieces(mem.out, unknown_in, lens[i], i + 20);
		try_pieces(unknown_out, unknown_in, lens[i], i + 30);
	}
}

/* More of them than there is memory to copy into: they wait for one another. */
static void memory_that_nobody_made_known_will_do(void **state)
{
	static struct host_request reqs[2 * IO_ENTRIES];
	static uint8_t unknown[2 * IO_ENTRIES][64 << 10];
	unsigned int answered = 0;

	(void)state;
	bring_up();
	for (unsigned int i = 0; i < ARRAY_SIZE(reqs); i++) {
		fill(unknown[i], sizeof(unknown[i]), i);
		host_prepare_write(&reqs[i], 1, i * 128, 128, unknown[i], sizeof(unknown[i]),
				   false);
		submit(&reqs[i], (uint16_t)(1 + i % 2), &answered);
	}
	turn_until(answered == ARRAY_SIZE(reqs));
	memset(unknown, 0, sizeof(unknown));
	for (unsigned int i = 0; i < ARRAY_SIZE(reqs); i++) {
		assert_int_equal(reqs[i].error, 0);
		assert_int_equal(reqs[i].cqe.status, 0);
		host_prepare_read(&reqs[i], 1, i * 128, 128, unknown[i], sizeof(unknown[i]));
		submit(&reqs[i], (uint16_t)(1 + i % 2), &answered);
	}
	turn_until(answered == 2 * ARRAY_SIZE(reqs));
	for (unsigned int i = 0; i < ARRAY_SIZE(reqs); i++) {
		fill(mem.out, sizeof(unknown[i]), i);
		assert_memory_equal(unknown[i], mem.out, sizeof(unknown[i]));
	}
}

static void comparing_says_whether_they_are_equal(void **state)
{
	static const uint32_t lens[] = {512, 4096, 8192, 100 << 10};

	(void)state;
	bring_up();
	fill(mem.out, sizeof(mem.out), 1);
	assert_int_equal(do_write(0, mem.out, 200 << 10), NVME_SC_SUCCESS);
	for (unsigned int i = 0; i < 2 * ARRAY_SIZE(lens); i++) {
		uint32_t len = lens[i / 2];
		struct host_request req = {.sqe = {.opcode = NVME_IO_COMPARE, .nsid = 1},
					   .data = mem.in,
					   .data_len = len,
					   .dir = NVMF_DIR_TO_CTRL};

		memcpy(mem.in, mem.out, len);
		mem.in[len - 1] ^= i & 1;
		nvme_rw_set(&req.sqe, 0, len / 512, 0);
		assert_int_equal(exec(&req, 1), i & 1 ? NVME_SC_COMPARE_FAILED : NVME_SC_SUCCESS);
	}
}

static void prepare_half(struct host_request *req, uint8_t opcode, uint8_t fuse, uint8_t *data)
{
	*req = (struct host_request){.sqe = {.opcode = opcode, .flags = fuse, .nsid = 1},
				     .data = data,
				     .data_len = 512,
				     .dir = NVMF_DIR_TO_CTRL};
	nvme_rw_set(&req->sqe, 5, 1, 0);
}

static void comparing_and_writing_are_one(void **state)
{
	struct host_request compare, write;
	unsigned int answered;

	(void)state;
	bring_up();
	memset(mem.out, 0x11, 512);
	memset(mem.out + 512, 0x22, 512);
	assert_int_equal(do_write(5, mem.out, 512), NVME_SC_SUCCESS);
	for (unsigned int i = 0; i < 2; i++) {
		prepare_half(&compare, NVME_IO_COMPARE, NVME_SQE_FUSE_FIRST, mem.out);
		prepare_half(&write, NVME_IO_WRITE, NVME_SQE_FUSE_SECOND, mem.out + 512);
		answered = 0;
		submit(&compare, 1, &answered);
		submit(&write, 1, &answered);
		turn_until(answered == 2);
		assert_int_equal(compare.cqe.status & NVME_STATUS_CODE,
				 i ? NVME_SC_COMPARE_FAILED : NVME_SC_SUCCESS);
		assert_int_equal(write.cqe.status & NVME_STATUS_CODE,
				 i ? NVME_SC_FUSED_FAIL : NVME_SC_SUCCESS);
		assert_int_equal(do_read(5, mem.in, 512), NVME_SC_SUCCESS);
		assert_int_equal(mem.in[0], 0x22);
		memset(mem.out + 512, 0x33, 512);
	}
	prepare_half(&write, NVME_IO_WRITE, NVME_SQE_FUSE_SECOND, mem.out);
	assert_int_equal(exec(&write, 1), NVME_SC_FUSED_MISSING);
}

static void blocks_are_verified_where_they_are(void **state)
{
	struct host_request req = {.sqe = {.opcode = NVME_IO_VERIFY, .nsid = 1}};

	(void)state;
	bring_up();
	nvme_rw_set(&req.sqe, 0, BLOCKS, 0);
	assert_int_equal(exec(&req, 1), NVME_SC_SUCCESS);
	bed.slow.error = -EIO;
	assert_int_equal(exec(&req, 1), NVME_SC_READ_ERROR);
	nvme_rw_set(&req.sqe, 1, BLOCKS, 0);
	assert_int_equal(exec(&req, 1), NVME_SC_LBA_RANGE);
}

static void blocks_are_copied_by_the_target(void **state)
{
	const struct nvme_copy_range ranges[] = {{.slba = 16, .nlb = 7}, {.slba = 0, .nlb = 0}};
	struct host_request req = {.sqe = {.opcode = NVME_IO_COPY, .nsid = 1},
				   .data = mem.many[0],
				   .data_len =
					   sizeof(ranges) / sizeof(ranges[0]) * NVME_COPY_RANGE_LEN,
				   .dir = NVMF_DIR_TO_CTRL};
	struct wcursor w = wcursor_init(mem.many[0], req.data_len);

	(void)state;
	bring_up();
	fill(mem.out, 24 * 512, 9);
	assert_int_equal(do_write(0, mem.out, 24 * 512), NVME_SC_SUCCESS);
	for (unsigned int i = 0; i < ARRAY_SIZE(ranges); i++)
		nvme_copy_range_put(&w, &ranges[i]);
	nvme_rw_set(&req.sqe, 100, 2, 0); /* as many ranges */
	assert_int_equal(exec(&req, 1), NVME_SC_SUCCESS);
	assert_int_equal(do_read(100, mem.in, 9 * 512), NVME_SC_SUCCESS);
	assert_memory_equal(mem.in, mem.out + 16 * 512, 8 * 512);
	assert_memory_equal(mem.in + 8 * 512, mem.out, 512);
	req.sqe.cdw12 |= 2 << 8;
	assert_int_equal(exec(&req, 1), NVME_SC_INVALID_FIELD);
}

static void blocks_are_zeroed_and_deallocated(void **state)
{
	struct host_request req = {0};
	struct nvme_dsm_range range = {.slba = 8, .nlb = 8};
	struct wcursor w = wcursor_init(mem.in, NVME_DSM_RANGE_LEN);

	(void)state;
	bring_up();
	memset(mem.out, 0x77, 16384);
	assert_int_equal(do_write(0, mem.out, 16384), NVME_SC_SUCCESS);
	host_prepare_write_zeroes(&req, 1, 0, 4, false);
	assert_int_equal(exec(&req, 1), NVME_SC_SUCCESS);
	nvme_dsm_range_put(&w, &range);
	req = (struct host_request){.sqe = {.opcode = NVME_IO_DSM, .nsid = 1, .cdw11 = NVME_DSM_AD},
				    .data = mem.in,
				    .data_len = NVME_DSM_RANGE_LEN,
				    .dir = NVMF_DIR_TO_CTRL};
	assert_int_equal(exec(&req, 1), NVME_SC_SUCCESS);
	req = (struct host_request){0};
	host_prepare_flush(&req, 1);
	assert_int_equal(exec(&req, 2), NVME_SC_SUCCESS);
	assert_int_equal(do_read(0, mem.in, 16384), NVME_SC_SUCCESS);
	for (unsigned int i = 0; i < 16384; i++) {
		bool zero = i < 4 * 512 || (i >= 8 * 512 && i < 16 * 512);

		assert_int_equal(mem.in[i], zero ? 0 : 0x77);
	}
}

/* Of which only the first bytes are not zero: the rest comes all the same. */
static void pages_come_whole(void **state)
{
	struct host_request req = {0};
	unsigned int any = 0;

	(void)state;
	bring_up();
	memset(mem.in, 0xee, sizeof(mem.in));
	host_prepare_get_log(&req, NVME_LID_EFFECTS, 0, mem.in, 4096);
	assert_int_equal(exec(&req, 0), NVME_SC_SUCCESS);
	for (unsigned int i = 2048; i < 4096; i++)
		assert_int_equal(mem.in[i], 0);
	assert_int_equal(mem.in[4096], 0xee);
	for (unsigned int i = 0; i < 2048; i++)
		any += mem.in[i] != 0;
	assert_in_range(any, 1, 512);
	memset(mem.in, 0xee, sizeof(mem.in));
	req = (struct host_request){0};
	host_prepare_get_log(&req, NVME_LID_ERROR, 0, mem.in, 64 << 10);
	assert_int_equal(exec(&req, 0), NVME_SC_SUCCESS);
	for (unsigned int i = 64 * TARGET_ERRLOG_ENTRIES; i < 64 << 10; i++)
		assert_int_equal(mem.in[i], 0);
	assert_int_equal(mem.in[64 << 10], 0xee);
}

static void commands_wait_for_memory_and_go_on(void **state)
{
	static struct host_request reqs[IO_ENTRIES - 1];
	unsigned int answered = 0;

	(void)state;
	bring_up();
	bed.slow.hold = true;
	bed.shares.budget[SHARE_FOR_IO].len = 256 << 10;
	for (int i = 0; i < IO_ENTRIES - 1; i++) {
		fill(mem.many[i], sizeof(mem.many[i]), (unsigned)i);
		reqs[i] = (struct host_request){0};
		host_prepare_write(&reqs[i], 1, (uint64_t)i * 128, 128, mem.many[i],
				   sizeof(mem.many[i]), false);
		submit(&reqs[i], 1, &answered);
	}
	turn_until(bed.slow.count);
	for (uint64_t end = time_now_ns() + PATIENCE;
	     answered < IO_ENTRIES - 1 && time_now_ns() < end; turn()) {
		assert_in_range(bed.slow.count, 0, 3); /* a host's share of four */
		let_store_work();
		bed.slow.hold = true;
	}
	assert_int_equal(answered, IO_ENTRIES - 1);
	bed.slow.hold = false;
	for (int i = 0; i < IO_ENTRIES - 1; i++) {
		assert_int_equal(do_read((uint64_t)i * 128, mem.in, 65536), NVME_SC_SUCCESS);
		assert_memory_equal(mem.in, mem.many[i], 65536);
	}
}

/* By a clock that stands still: nothing is looked at because it is time to. */
static void who_polls_sends_on_when_there_is_room(void **state)
{
	static struct host_request reqs[IO_ENTRIES - 1];
	unsigned int answered = 0;
	uint64_t now;

	(void)state;
	bring_up();
	for (unsigned int i = 0; i < ARRAY_SIZE(reqs); i++) {
		reqs[i] = (struct host_request){0};
		fill(mem.many[i], 65536, i);
		host_prepare_write(&reqs[i], 1, i * 128, 128, mem.many[i], 65536, false);
		submit(&reqs[i], 1, &answered);
	}
	now = time_now_ns();
	for (uint64_t end = now + PATIENCE; answered < ARRAY_SIZE(reqs) && time_now_ns() < end;) {
		bed.there->ops->process(bed.there, now, true);
		bed.here->ops->process(bed.here, now, false);
	}
	assert_int_equal(answered, ARRAY_SIZE(reqs));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		BED_TEST(hosts_are_told_what_there_is),
		BED_TEST(what_is_written_is_read),
		BED_TEST(full_queues_of_commands_are_answered),
		BED_TEST(data_may_lie_in_pieces),
		BED_TEST(memory_that_nobody_made_known_will_do),
		BED_TEST(comparing_says_whether_they_are_equal),
		BED_TEST(comparing_and_writing_are_one),
		BED_TEST(blocks_are_verified_where_they_are),
		BED_TEST(blocks_are_copied_by_the_target),
		BED_TEST(blocks_are_zeroed_and_deallocated),
		BED_TEST(pages_come_whole),
		BED_TEST(commands_wait_for_memory_and_go_on),
		BED_TEST(who_polls_sends_on_when_there_is_room),
	};

	if (transport_choose(argc, argv))
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
