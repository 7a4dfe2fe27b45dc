/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* I/O commands of the target: what they do to the store, and what they refuse. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "target_bed.h"

static struct nvme_sqe rw(uint8_t opcode, uint32_t nsid, uint64_t slba, uint32_t nlb,
			  uint32_t shift)
{
	bool data = opcode != NVME_IO_WRITE_ZEROES;
	struct nvme_sqe s = bed_sqe(opcode, nsid, data ? nlb << shift : 0);

	nvme_rw_set(&s, slba, nlb, 0);
	return s;
}

static uint16_t do_rw(struct bed *b, uint8_t opcode, uint32_t nsid, uint64_t slba, uint32_t nlb)
{
	struct nvme_sqe s = rw(opcode, nsid, slba, nlb, nsid == 5 ? 12 : 9);

	return bed_exec(&b->io, &s, NULL);
}

static void fill(uint8_t *p, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 31 + i / 256 + seed);
}

static void what_is_written_is_read(void **state)
{
	static uint8_t want[TARGET_DATA_MAX];
	struct bed *b = bed_with_io();

	(void)state;
	fill(want, sizeof(want), 3);
	memcpy(b->memory, want, sizeof(want));
	assert_int_equal(do_rw(b, NVME_IO_WRITE, 1, 7, 2048), NVME_SC_SUCCESS); /* MDTS */
	memset(b->memory, 0, sizeof(b->memory));
	assert_int_equal(do_rw(b, NVME_IO_READ, 1, 7, 2048), NVME_SC_SUCCESS);
	assert_memory_equal(b->memory, want, sizeof(want));
	assert_int_equal(do_rw(b, NVME_IO_READ, 1, 8, 1), NVME_SC_SUCCESS);
	assert_memory_equal(b->memory, want + 512, 512);
	memcpy(b->memory, want, 8192);
	assert_int_equal(do_rw(b, NVME_IO_WRITE, 5, 3, 2), NVME_SC_SUCCESS); /* 4096-byte blocks */
	memset(b->memory, 0, 8192);
	assert_int_equal(do_rw(b, NVME_IO_READ, 5, 3, 2), NVME_SC_SUCCESS);
	assert_memory_equal(b->memory, want, 8192);
	bed_destroy(b);
}

static void what_hosts_do_is_counted(void **state)
{
	struct bed *b = bed_with_io();
	struct target_counters before = *b->target.counters, *n = b->target.counters;

	(void)state;
	assert_int_equal(before.controllers, 1);
	assert_int_equal(before.io_queues, 1);
	assert_int_equal(before.reads + before.writes, 0);
	assert_int_equal(do_rw(b, NVME_IO_WRITE, 1, 0, 8), NVME_SC_SUCCESS);
	assert_int_equal(do_rw(b, NVME_IO_READ, 1, 0, 2), NVME_SC_SUCCESS);
	assert_int_not_equal(do_rw(b, NVME_IO_READ, 1, BED_BLOCKS, 1), NVME_SC_SUCCESS);
	assert_int_equal(n->writes, 1);
	assert_int_equal(n->written_bytes, 8 * 512);
	assert_int_equal(n->reads, 1);
	assert_int_equal(n->read_bytes, 2 * 512);
	assert_int_equal(n->errors, before.errors + 1);
	assert_int_equal(n->commands, before.commands + 3);
	bed_destroy(b);
}

static void data_in_the_capsule_is_written(void **state)
{
	static uint8_t want[TARGET_CAPSULE_DATA];
	struct bed *b = bed_with_io();
	struct nvme_sqe s = rw(NVME_IO_WRITE, 1, 100, 16, 9);
	struct bed_cmd *c;

	(void)state;
	fill(want, sizeof(want), 9);
	s.sgl = (struct nvme_sgl){
		.type = NVME_SGL_DATA_BLOCK, .subtype = NVME_SGL_OFFSET, .len = sizeof(want)};
	c = bed_send_data(&b->io, &s, want, sizeof(want));
	assert_true(c->answered);
	assert_int_equal(c->cqe.status, NVME_SC_SUCCESS);
	bed_release(c);
	/* Not from the start of the data. */
	nvme_rw_set(&s, 200, 2, 0);
	s.sgl.addr = 512;
	s.sgl.len = 1024;
	c = bed_send_data(&b->io, &s, want, 512 + 1024);
	assert_int_equal(c->cqe.status, NVME_SC_SUCCESS);
	bed_release(c);
	assert_int_equal(do_rw(b, NVME_IO_READ, 1, 100, 16), NVME_SC_SUCCESS);
	assert_memory_equal(b->memory, want, sizeof(want));
	assert_int_equal(do_rw(b, NVME_IO_READ, 1, 200, 2), NVME_SC_SUCCESS);
	assert_memory_equal(b->memory, want + 512, 1024);
	bed_destroy(b);
}

static uint16_t with_sgl(struct bed *b, uint8_t opcode, uint8_t type, uint8_t subtype,
			 uint64_t addr, uint32_t len, size_t capsule)
{
	struct nvme_sqe s = rw(opcode, 1, 0, 2, 9);
	uint8_t data[TARGET_CAPSULE_DATA] = {0};
	struct bed_cmd *c;
	uint16_t status;

	s.sgl = (struct nvme_sgl){
		.addr = addr, .len = len, .key = BED_KEY, .type = type, .subtype = subtype};
	c = bed_send_data(&b->io, &s, data, capsule);
	assert_true(c->answered);
	status = PLAIN(c->cqe.status);
	bed_release(c);
	return status;
}

static void descriptors_that_make_no_sense_are_refused(void **state)
{
	struct bed *b = bed_with_io();

	(void)state;
	for (uint8_t type = 0; type < 16; type++)
		for (uint8_t sub = 0; sub < 16; sub++) {
			bool keyed = type == NVME_SGL_KEYED_DATA_BLOCK &&
				     (sub == NVME_SGL_ADDRESS || sub == NVME_SGL_INVALIDATE);
			bool inside = type == NVME_SGL_DATA_BLOCK && sub == NVME_SGL_OFFSET;
			bool list = type == NVME_SGL_LAST_SEGMENT && sub == NVME_SGL_OFFSET;

			if (!keyed && !inside && !list)
				assert_int_equal(with_sgl(b, NVME_IO_WRITE, type, sub, 0, 1024, 0),
						 STATUS(NVME_SC_SGL_INVALID_TYPE));
		}
	/* Lengths other than the command's. */
	assert_int_equal(with_sgl(b, NVME_IO_WRITE, 4, 0, 0, 1023, 0),
			 STATUS(NVME_SC_SGL_INVALID_DATA));
	assert_int_equal(with_sgl(b, NVME_IO_READ, 4, 0, 0, 2048, 0),
			 STATUS(NVME_SC_SGL_INVALID_DATA));
	assert_int_equal(with_sgl(b, NVME_IO_READ, 4, 0, 0, 0, 0),
			 STATUS(NVME_SC_SGL_INVALID_DATA));
	/* Beyond the data that came in the capsule; offsets that wrap around. */
	assert_int_equal(with_sgl(b, NVME_IO_WRITE, 0, 1, 0, 1024, 1023),
			 STATUS(NVME_SC_SGL_INVALID_OFFSET));
	assert_int_equal(with_sgl(b, NVME_IO_WRITE, 0, 1, 0, 1024, 0),
			 STATUS(NVME_SC_SGL_INVALID_OFFSET));
	assert_int_equal(with_sgl(b, NVME_IO_WRITE, 0, 1, TARGET_CAPSULE_DATA - 512, 1024,
				  TARGET_CAPSULE_DATA),
			 STATUS(NVME_SC_SGL_INVALID_OFFSET));
	assert_int_equal(
		with_sgl(b, NVME_IO_WRITE, 0, 1, UINT64_MAX - 511, 1024, TARGET_CAPSULE_DATA),
		STATUS(NVME_SC_SGL_INVALID_OFFSET));
	/* A capsule cannot take what is read. */
	assert_int_equal(with_sgl(b, NVME_IO_READ, 0, 1, 0, 1024, 1024),
			 STATUS(NVME_SC_INVALID_FIELD));
	bed_destroy(b);
}

static void commands_beyond_the_namespace_are_refused(void **state)
{
	static const uint8_t ops[] = {NVME_IO_READ, NVME_IO_WRITE, NVME_IO_COMPARE,
				      NVME_IO_WRITE_ZEROES};
	struct bed *b = bed_with_io();

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(ops); i++) {
		assert_int_equal(do_rw(b, ops[i], 1, BED_BLOCKS, 1), STATUS(NVME_SC_LBA_RANGE));
		assert_int_equal(do_rw(b, ops[i], 1, BED_BLOCKS - 1, 2), STATUS(NVME_SC_LBA_RANGE));
		assert_int_equal(do_rw(b, ops[i], 1, UINT64_MAX, 1), STATUS(NVME_SC_LBA_RANGE));
		assert_int_equal(do_rw(b, ops[i], 1, UINT64_MAX - 1, 4), STATUS(NVME_SC_LBA_RANGE));
		assert_int_equal(do_rw(b, ops[i], 1, 1ull << 55, 1), STATUS(NVME_SC_LBA_RANGE));
		assert_int_equal(do_rw(b, ops[i], 5, 256, 1), STATUS(NVME_SC_LBA_RANGE));
	}
	assert_int_equal(do_rw(b, NVME_IO_WRITE_ZEROES, 1, BED_BLOCKS - 1, 1), NVME_SC_SUCCESS);
	bed_destroy(b);
}

static void more_than_mdts_is_refused(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe s = rw(NVME_IO_READ, 1, 0, 2049, 9);

	(void)state;
	assert_int_equal(bed_exec(&b->io, &s, NULL), STATUS(NVME_SC_INVALID_FIELD));
	s = rw(NVME_IO_WRITE, 1, 0, 4096, 9);
	assert_int_equal(bed_exec(&b->io, &s, NULL), STATUS(NVME_SC_INVALID_FIELD));
	bed_destroy(b);
}

static void namespaces_that_do_not_exist_are_refused(void **state)
{
	static const uint32_t bad[] = {
		0, 3, 4, 6, TARGET_NS_MAX, TARGET_NS_MAX + 1, NVME_NSID_ALL - 1, NVME_NSID_ALL};
	static const uint8_t ops[] = {NVME_IO_READ,    NVME_IO_WRITE,	     NVME_IO_FLUSH,
				      NVME_IO_COMPARE, NVME_IO_WRITE_ZEROES, NVME_IO_DSM,
				      NVME_IO_VERIFY};
	struct bed *b = bed_with_io();

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		for (unsigned j = 0; j < ARRAY_SIZE(ops); j++) {
			struct nvme_sqe s = bed_sqe(ops[j], bad[i], 512);

			assert_int_equal(bed_exec(&b->io, &s, NULL), STATUS(NVME_SC_INVALID_NS));
		}
	bed_destroy(b);
}

static void a_read_only_namespace_is_not_written(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe dsm = bed_sqe(NVME_IO_DSM, 2, 16);

	(void)state;
	assert_int_equal(do_rw(b, NVME_IO_WRITE, 2, 0, 1), STATUS(NVME_SC_NS_WRITE_PROTECTED));
	assert_int_equal(do_rw(b, NVME_IO_WRITE_ZEROES, 2, 0, 1),
			 STATUS(NVME_SC_NS_WRITE_PROTECTED));
	dsm.cdw11 = NVME_DSM_AD;
	assert_int_equal(bed_exec(&b->io, &dsm, NULL), STATUS(NVME_SC_NS_WRITE_PROTECTED));
	assert_int_equal(do_rw(b, NVME_IO_READ, 2, 0, 1), NVME_SC_SUCCESS);
	bed_destroy(b);
}

static void a_store_that_fails_gives_the_standard_status(void **state)
{
	static const struct {
		int error;
		uint8_t opcode;
		uint16_t status;
	} cases[] = {
		{-EIO, NVME_IO_READ, STATUS(NVME_SC_READ_ERROR)},
		{-EIO, NVME_IO_WRITE, STATUS(NVME_SC_WRITE_FAULT)},
		{-EIO, NVME_IO_WRITE_ZEROES, STATUS(NVME_SC_WRITE_FAULT)},
		{-EIO, NVME_IO_COMPARE, STATUS(NVME_SC_READ_ERROR)},
		{-ENOSPC, NVME_IO_WRITE, STATUS(NVME_SC_CAP_EXCEEDED)},
		{-EROFS, NVME_IO_WRITE, STATUS(NVME_SC_NS_WRITE_PROTECTED)},
		{-ENOMEM, NVME_IO_WRITE, NVME_SC_INTERNAL},
	};
	struct bed *b = bed_with_io();
	struct nvme_sqe flush = bed_sqe(NVME_IO_FLUSH, 1, 0);

	(void)state;
	memset(b->memory, 0x5a, 512);
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		b->slow.fail = cases[i].error;
		assert_int_equal(do_rw(b, cases[i].opcode, 1, 0, 1), cases[i].status);
	}
	assert_int_equal(b->memory[0], 0x5a); /* a failed read sends nothing */
	b->slow.fail = -EIO;
	assert_int_equal(bed_exec(&b->io, &flush, NULL), STATUS(NVME_SC_WRITE_FAULT));
	bed_destroy(b);
}

static void force_unit_access_and_flush_reach_the_store(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe s = rw(NVME_IO_WRITE, 1, 0, 1, 9);
	struct nvme_sqe flush = bed_sqe(NVME_IO_FLUSH, 1, 0);
	struct nvme_sqe set = bed_sqe(NVME_ADMIN_SET_FEATURES, 0, 0);

	(void)state;
	assert_int_equal(bed_exec(&b->io, &s, NULL), 0);
	assert_int_equal(b->slow.writes_fua, 0);
	nvme_rw_set(&s, 0, 1, NVME_RW_FUA);
	assert_int_equal(bed_exec(&b->io, &s, NULL), 0);
	assert_int_equal(b->slow.writes_fua, 1);
	assert_int_equal(bed_exec(&b->io, &flush, NULL), 0);
	assert_int_equal(b->slow.flushes, 1);
	set.cdw10 = NVME_FID_VOLATILE_WC; /* cache off: every write goes through */
	assert_int_equal(bed_exec(&b->admin, &set, NULL), 0);
	nvme_rw_set(&s, 0, 1, 0);
	assert_int_equal(bed_exec(&b->io, &s, NULL), 0);
	assert_int_equal(b->slow.writes_fua, 2);
	bed_destroy(b);
}

/* NVM command set 1.0, Read and Compare: commit what is cached, then read it from the medium. */
static void reads_with_force_unit_access_are_of_what_is_durable(void **state)
{
	static const uint8_t opcodes[] = {NVME_IO_READ, NVME_IO_COMPARE};
	struct bed *b = bed_with_io();

	(void)state;
	memset(b->memory, 0x77, 512);
	assert_int_equal(do_rw(b, NVME_IO_WRITE, 1, 3, 1), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct nvme_sqe s = rw(opcodes[i], 1, 3, 1, 9);

		assert_int_equal(bed_exec(&b->io, &s, NULL), 0);
		assert_int_equal(b->slow.flushes, i);
		nvme_rw_set(&s, 3, 1, NVME_RW_FUA);
		assert_int_equal(bed_exec(&b->io, &s, NULL), 0);
		assert_int_equal(b->slow.flushes, i + 1);
		assert_int_equal(b->memory[0], 0x77);
		b->slow.fail = -EIO; /* what cannot be committed is not read either */
		assert_int_equal(bed_exec(&b->io, &s, NULL), STATUS(NVME_SC_WRITE_FAULT));
		b->slow.flushes--;
	}
	bed_destroy(b);
}

static void write_zeroes_zeroes_just_its_blocks(void **state)
{
	struct bed *b = bed_with_io();

	(void)state;
	for (uint32_t deac = 0; deac < 2; deac++) {
		struct nvme_sqe s = rw(NVME_IO_WRITE_ZEROES, 1, 10, 200, 9);

		nvme_rw_set(&s, 10, 200, deac ? NVME_WZ_DEAC : 0);
		memset(b->memory, 0xff, 300 * 512);
		assert_int_equal(do_rw(b, NVME_IO_WRITE, 1, 0, 300), 0);
		assert_int_equal(bed_exec(&b->io, &s, NULL), 0);
		assert_int_equal(do_rw(b, NVME_IO_READ, 1, 0, 300), 0);
		for (size_t i = 0; i < 300 * 512; i++)
			assert_int_equal(b->memory[i], i >= 10 * 512 && i < 210 * 512 ? 0 : 0xff);
	}
	bed_destroy(b);
}

static void compare_sees_a_difference_in_any_byte(void **state)
{
	static const uint32_t at[] = {0, 511, 65535, 65536, 200 * 512 - 1};
	struct bed *b = bed_with_io();

	(void)state;
	fill(b->memory, 200 * 512, 4);
	assert_int_equal(do_rw(b, NVME_IO_WRITE, 1, 5, 200), 0);
	assert_int_equal(do_rw(b, NVME_IO_COMPARE, 1, 5, 200), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(at); i++) {
		b->memory[at[i]] ^= 0x80;
		assert_int_equal(do_rw(b, NVME_IO_COMPARE, 1, 5, 200),
				 STATUS(NVME_SC_COMPARE_FAILED));
		b->memory[at[i]] ^= 0x80;
	}
	/* With data in the capsule, and a store that takes its time. */
	{
		struct nvme_sqe s = rw(NVME_IO_COMPARE, 1, 5, 2, 9);
		struct bed_cmd *c;

		s.sgl = (struct nvme_sgl){.subtype = NVME_SGL_OFFSET, .len = 1024};
		b->slow.hold = true;
		c = bed_send_data(&b->io, &s, b->memory, 1024);
		assert_false(c->answered);
		slow_release(b);
		assert_true(c->answered);
		assert_int_equal(c->cqe.status, 0);
		bed_release(c);
	}
	bed_destroy(b);
}

static uint16_t verify(struct bed *b, uint64_t slba, uint32_t nlb, uint32_t flags)
{
	struct nvme_sqe s = bed_sqe(NVME_IO_VERIFY, 1, 0);

	nvme_rw_set(&s, slba, nlb, flags);
	return bed_exec(&b->io, &s, NULL);
}

/* Far more than one command could transfer; the host gets none of it. */
static void verify_reads_all_blocks_in_place(void **state)
{
	struct bed *b = bed_with_io();
	uint64_t before = b->io.tq.counts.reads;

	(void)state;
	memset(b->memory, 0x66, sizeof(b->memory));
	assert_int_equal(verify(b, 0, BED_BLOCKS, 0), 0);
	assert_int_equal(b->io.tq.counts.sectors_read, BED_BLOCKS);
	assert_int_equal(b->io.tq.counts.reads, before);
	assert_int_equal(verify(b, BED_BLOCKS - 1, 1, NVME_RW_FUA), 0);
	assert_int_equal(b->slow.flushes, 1);
	assert_int_equal(verify(b, BED_BLOCKS - 1, 2, 0), STATUS(NVME_SC_LBA_RANGE));
	assert_int_equal(verify(b, BED_BLOCKS, 1, 0), STATUS(NVME_SC_LBA_RANGE));
	assert_int_equal(verify(b, UINT64_MAX, 1, 0), STATUS(NVME_SC_LBA_RANGE));
	b->slow.fail = -EIO;
	assert_int_equal(verify(b, 0, 300, 0), STATUS(NVME_SC_READ_ERROR));
	for (unsigned i = 0; i < BED_MEMORY; i++)
		assert_int_equal(b->memory[i], 0x66);
	bed_destroy(b);
}

static uint16_t dsm(struct bed *b, const struct nvme_dsm_range *ranges, uint32_t nr, uint32_t len,
		    uint32_t attributes)
{
	struct nvme_sqe s = bed_sqe(NVME_IO_DSM, 1, len);
	struct wcursor w = wcursor_init(b->memory, sizeof(b->memory));

	for (uint32_t i = 0; i < nr; i++)
		nvme_dsm_range_put(&w, &ranges[i]);
	s.cdw10 = nr - 1;
	s.cdw11 = attributes;
	return bed_exec(&b->io, &s, NULL);
}

static void deallocate_zeroes_all_ranges_or_none(void **state)
{
	struct nvme_dsm_range r[256] = {{.slba = 0, .nlb = 2},
					{.slba = 9, .nlb = 0},
					{.slba = 100, .nlb = 50},
					{.slba = BED_BLOCKS, .nlb = 1}};
	struct bed *b = bed_with_io();

	(void)state;
	memset(b->memory, 0xff, 200 * 512);
	assert_int_equal(do_rw(b, NVME_IO_WRITE, 1, 0, 200), 0);
	assert_int_equal(dsm(b, r, 4, 64, NVME_DSM_AD), STATUS(NVME_SC_LBA_RANGE));
	assert_int_equal(do_rw(b, NVME_IO_READ, 1, 0, 200), 0);
	assert_int_equal(b->memory[0], 0xff);	  /* the first range was not touched either */
	assert_int_equal(dsm(b, r, 3, 48, 0), 0); /* a hint that means nothing here */
	assert_int_equal(do_rw(b, NVME_IO_READ, 1, 0, 200), 0);
	assert_int_equal(b->memory[0], 0xff);
	assert_int_equal(dsm(b, r, 3, 4096, NVME_DSM_AD), 0); /* a page, as Linux sends it */
	assert_int_equal(do_rw(b, NVME_IO_READ, 1, 0, 200), 0);
	for (size_t i = 0; i < 200 * 512; i++) {
		bool gone = i < 1024 || (i >= 100 * 512 && i < 150 * 512);

		assert_int_equal(b->memory[i], gone ? 0 : 0xff);
	}
	assert_int_equal(dsm(b, r, 3, 47, NVME_DSM_AD), STATUS(NVME_SC_SGL_INVALID_DATA));
	assert_int_equal(dsm(b, r, 3, 8192, NVME_DSM_AD), STATUS(NVME_SC_SGL_INVALID_DATA));
	for (unsigned i = 0; i < 256; i++)
		r[i] = (struct nvme_dsm_range){.slba = i * 3, .nlb = 1};
	assert_int_equal(dsm(b, r, 256, 4096, NVME_DSM_AD), 0); /* no stack of 256 calls */
	b->slow.fail = -EIO;
	assert_int_equal(dsm(b, r, 2, 32, NVME_DSM_AD), STATUS(NVME_SC_WRITE_FAULT));
	b->slow.fail = -EOPNOTSUPP; /* a store that cannot: it was a hint */
	assert_int_equal(dsm(b, r, 2, 32, NVME_DSM_AD), 0);
	bed_destroy(b);
}

static uint16_t copy(struct bed *b, uint64_t to, const struct nvme_copy_range *ranges, uint32_t nr,
		     uint32_t dw12)
{
	struct nvme_sqe s = bed_sqe(NVME_IO_COPY, 1, nr * NVME_COPY_RANGE_LEN);
	struct wcursor w = wcursor_init(b->memory, sizeof(b->memory));

	for (uint32_t i = 0; i < nr; i++)
		nvme_copy_range_put(&w, &ranges[i]);
	nvme_rw_set(&s, to, 1, dw12);
	s.cdw12 |= nr - 1;
	return bed_exec(&b->io, &s, NULL);
}

/* Each block says where it was. */
static void mark_blocks(struct bed *b)
{
	for (unsigned i = 0; i < 1000; i++)
		memset(b->memory + (size_t)i * 512, (int)(i % 251), 512);
	assert_int_equal(do_rw(b, NVME_IO_WRITE, 1, 0, 1000), 0);
}

static unsigned block_of(struct bed *b, uint64_t slba)
{
	assert_int_equal(do_rw(b, NVME_IO_READ, 1, slba, 1), 0);
	assert_int_equal(b->memory[0], b->memory[511]);
	return b->memory[0];
}

static void ranges_are_copied_in_their_order(void **state)
{
	const struct nvme_copy_range r[] = {{200, 1}, {10, 0}, {11, 3}};
	const struct nvme_copy_range over[] = {{100, 49}};
	struct bed *b = bed_with_io();

	(void)state;
	mark_blocks(b);
	assert_int_equal(copy(b, 500, r, 3, 0), 0);
	assert_int_equal(block_of(b, 500), 200);
	assert_int_equal(block_of(b, 501), 201);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(block_of(b, 502 + i), 10 + i);
	assert_int_equal(block_of(b, 499), 499 % 251);
	assert_int_equal(block_of(b, 507), 507 % 251);
	/* Onto itself, both ways. */
	assert_int_equal(copy(b, 120, over, 1, 0), 0);
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(block_of(b, 120 + i), 100 + i);
	assert_int_equal(b->slow.writes_fua, 0);
	assert_int_equal(copy(b, 80, over, 1, NVME_RW_FUA), 0);
	assert_int_equal(b->slow.writes_fua, 1);
	assert_int_equal(block_of(b, 80), 100);
	bed_destroy(b);
}

static void a_copy_that_cannot_be_whole_changes_nothing(void **state)
{
	static struct nvme_copy_range many[256];
	const struct nvme_copy_range beyond[] = {{0, 0}, {BED_BLOCKS - 1, 1}},
				     two[] = {{3, 0}, {4, 0}};
	const struct nvme_copy_range whole[] = {{0, 127}}, more[] = {{0, 126}, {1, 1}};
	struct nvme_sqe s = bed_sqe(NVME_IO_COPY, 2, NVME_COPY_RANGE_LEN);
	struct bed *b = bed_with_io();

	(void)state;
	mark_blocks(b);
	assert_int_equal(copy(b, 500, beyond, 2, 0), STATUS(NVME_SC_LBA_RANGE));
	assert_int_equal(copy(b, BED_BLOCKS - 1, two, 2, 0), STATUS(NVME_SC_LBA_RANGE));
	assert_int_equal(copy(b, 500, two, 2, 1 << 8), STATUS(NVME_SC_INVALID_FIELD));
	assert_int_equal(copy(b, 500, more, 2, 0), STATUS(NVME_SC_IO_CMD_SIZE));
	assert_int_equal(copy(b, 500, many, 129, 0), STATUS(NVME_SC_IO_CMD_SIZE));
	assert_int_equal(bed_exec(&b->io, &s, NULL), STATUS(NVME_SC_NS_WRITE_PROTECTED));
	s = bed_sqe(NVME_IO_COPY, 1, NVME_COPY_RANGE_LEN);
	s.cdw12 = 1; /* more ranges than there are data */
	assert_int_equal(bed_exec(&b->io, &s, NULL), STATUS(NVME_SC_SGL_INVALID_DATA));
	b->slow.fail = -EIO;
	assert_int_equal(copy(b, 500, two, 2, 0), STATUS(NVME_SC_READ_ERROR));
	assert_int_equal(block_of(b, 500), 500 % 251);
	assert_int_equal(copy(b, 500, whole, 1, 0), 0); /* as much as may be */
	for (unsigned i = 0; i < 128; i++)
		many[i].slba = 127 - i;
	assert_int_equal(copy(b, 700, many, 128, 0), 0);
	assert_int_equal(block_of(b, 700), 127);
	assert_int_equal(block_of(b, 827), 0);
	bed_destroy(b);
}

static void a_host_that_vanishes_leaves_its_io_to_finish(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe w = rw(NVME_IO_WRITE, 1, 0, 1, 9), r = rw(NVME_IO_READ, 1, 0, 1, 9);
	struct bed_cmd *busy, *waiting;

	(void)state;
	b->slow.hold = true;
	busy = bed_send(&b->io, &w);
	b->io.hold_fetches = true;
	waiting = bed_send(&b->io, &r);
	bed_queue_close(&b->admin);
	assert_true(b->io.disconnect_asked);
	assert_int_equal(b->ctrls_gone, 1);
	bed_queue_close(&b->io);
	assert_true(waiting->answered);
	assert_false(busy->answered);
	assert_int_equal(b->io.tq.live, 1);
	slow_release(b);
	assert_true(busy->answered);
	assert_int_equal(b->io.tq.live, 0);
	bed_destroy(b);
}

static void no_op(struct store_op *op, int error)
{
	(void)op;
	assert_int_equal(error, 0);
}

/* What a host does with these blocks in its next association must not be undone by the last one. */
static void a_command_of_several_steps_ends_with_its_connection(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe s = bed_sqe(NVME_IO_DSM, 1, 32);
	struct nvme_dsm_range ranges[2] = {{.slba = 0, .nlb = 8}, {.slba = 64, .nlb = 8}};
	struct wcursor w = wcursor_init(b->memory, 32);
	uint8_t block[512];
	struct iovec iov = {block, sizeof(block)};
	struct store_op read = {.opcode = STORE_READ,
				.offset = 64 * 512,
				.len = sizeof(block),
				.iov = &iov,
				.iov_count = 1,
				.done = no_op};
	struct bed_cmd *c;

	(void)state;
	memset(b->memory, 0x5a, 512);
	assert_int_equal(do_rw(b, NVME_IO_WRITE, 1, 64, 1), 0);
	for (int i = 0; i < 2; i++)
		nvme_dsm_range_put(&w, &ranges[i]);
	s.cdw10 = 1;
	s.cdw11 = NVME_DSM_AD;
	b->slow.hold = true;
	c = bed_send(&b->io, &s);
	bed_queue_close(&b->admin);
	bed_queue_close(&b->io);
	slow_release(b);
	assert_true(c->answered);
	store_submit(b->slow.below, &read);
	assert_int_equal(block[0], 0x5a);
	bed_destroy(b);
}

static struct bed_cmd *write_block(struct bed *b, struct bed_queue *q, uint8_t with)
{
	struct nvme_sqe w = rw(NVME_IO_WRITE, 1, 0, 1, 9);

	memset(b->memory, with, 512);
	return bed_send(q, &w);
}

/* A host with an I/O queue comes, or comes again. */
static void come(struct bed *b, struct bed_queue *admin, struct bed_queue *io, uint8_t who)
{
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
	uint64_t cntlid;

	a.data.hostid[0] ^= who;
	bed_queue_open(b, admin, 0);
	assert_int_equal(bed_connect(admin, &a, &cntlid), NVME_SC_SUCCESS);
	assert_int_equal(bed_property_set(admin, NVME_PROP_CC,
					  NVME_CC_EN | NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16),
			 NVME_SC_SUCCESS);
	a = bed_connect_args(1, (uint16_t)cntlid);
	a.data.hostid[0] ^= who;
	bed_queue_open(b, io, 1);
	assert_int_equal(bed_connect(io, &a, NULL), NVME_SC_SUCCESS);
}

static void go(struct bed_queue *admin, struct bed_queue *io)
{
	bed_queue_close(admin);
	bed_queue_close(io);
}

/* A store tells of data that it has lost once; each controller hears of it. */
static void what_is_lost_each_controller_is_told_once(void **state)
{
	static const struct {
		uint8_t opcode;
		uint32_t flags;
	} eats[] = {{NVME_IO_FLUSH, 0},
		    {NVME_IO_READ, NVME_RW_FUA},
		    {NVME_IO_WRITE, NVME_RW_FUA},
		    {NVME_IO_WRITE_ZEROES, NVME_RW_FUA}};
	const uint16_t lost = STATUS(NVME_SC_WRITE_FAULT);

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(eats); i++) {
		struct bed *b = bed_with_io();
		struct bed_queue *second = calloc(2, sizeof(*second)),
				 *late = calloc(2, sizeof(*late));
		struct nvme_sqe w = rw(NVME_IO_WRITE, 1, 0, 1, 9),
				flush = bed_sqe(NVME_IO_FLUSH, 1, 0);
		struct nvme_sqe eat = rw(eats[i].opcode, 1, 1, 1, 9);

		assert_true(second && late);
		come(b, &second[0], &second[1], 1);
		assert_int_equal(bed_exec(&b->io, &w, NULL), 0);
		assert_int_equal(bed_exec(&second[1], &w, NULL), 0);
		b->slow.fail = -ENOTCONN; /* nothing is said of what was written */
		assert_int_equal(bed_exec(&b->io, &flush, NULL), NVME_SC_NS_NOT_READY);
		assert_int_equal(bed_exec(&second[1], &flush, NULL), 0);
		b->slow.fail = -EIO;
		nvme_rw_set(&eat, 1, 1, eats[i].flags);
		assert_int_equal(bed_exec(&b->io, &eat, NULL), lost);
		come(b, &late[0], &late[1], 2);
		assert_int_equal(bed_exec(&second[1], &flush, NULL), lost);
		assert_int_equal(bed_exec(&second[1], &flush, NULL), 0);
		assert_int_equal(bed_exec(&late[1], &flush, NULL), 0);
		/* Of what it wrote before the other command says nothing. */
		if (eats[i].opcode != NVME_IO_FLUSH)
			assert_int_equal(bed_exec(&b->io, &flush, NULL), lost);
		assert_int_equal(bed_exec(&b->io, &flush, NULL), 0);
		go(&second[0], &second[1]);
		go(&late[0], &late[1]);
		bed_destroy(b);
		free(second);
		free(late);
	}
}

/* Of two flushes that are under way at once the store fails one, for what was written before both.
 */
static void a_flush_beside_one_that_fails_fails(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe w = rw(NVME_IO_WRITE, 1, 0, 1, 9), flush = bed_sqe(NVME_IO_FLUSH, 1, 0);
	struct bed_cmd *c[2];

	(void)state;
	assert_int_equal(bed_exec(&b->io, &w, NULL), 0);
	b->slow.hold = true;
	for (unsigned i = 0; i < 2; i++)
		c[i] = bed_send(&b->io, &flush);
	b->slow.held[1]->done(b->slow.held[1], -EIO);
	b->slow.count = 1;
	slow_release(b);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(c[i]->answered);
		assert_int_equal(PLAIN(c[i]->cqe.status), STATUS(NVME_SC_WRITE_FAULT));
		bed_release(c[i]);
	}
	assert_int_equal(bed_exec(&b->io, &flush, NULL), 0);
	bed_destroy(b);
}

/*
 * A host sends what was not answered again through its next association, and new data after it.
 * What the store still works on would come later and win. All else does not wait for that store.
 */
static void what_a_host_does_next_waits_for_its_last_io_on_the_namespace(void **state)
{
	struct bed *b = bed_with_io();
	struct bed_queue *stranger = calloc(2, sizeof(*stranger));
	struct nvme_sqe r = rw(NVME_IO_READ, 1, 0, 1, 9), elsewhere = rw(NVME_IO_READ, 5, 0, 1, 12);
	struct nvme_sqe id = bed_sqe(NVME_ADMIN_IDENTIFY, 0, NVME_IDENTIFY_LEN);
	struct bed_cmd *busy, *c, *theirs;

	(void)state;
	assert_non_null(stranger);
	b->slow.hold = true;
	busy = write_block(b, &b->io, 1);
	go(&b->admin, &b->io);
	/* The store does nothing for anybody, but nobody else's commands wait outside it. */
	come(b, &stranger[0], &stranger[1], 1);
	theirs = bed_send(&stranger[1], &r);
	assert_int_equal(b->slow.count, 2);
	come(b, &b->admin, &b->other, 0);
	id.cdw10 = NVME_CNS_CTRL;
	assert_int_equal(bed_exec(&b->admin, &id, NULL), NVME_SC_SUCCESS);
	assert_int_equal(bed_exec(&b->other, &elsewhere, NULL), NVME_SC_SUCCESS);
	c = write_block(b, &b->other, 2);
	assert_false(c->answered);
	assert_int_equal(b->slow.count, 2);
	slow_release(b);
	assert_true(busy->answered && theirs->answered);
	assert_true(c->answered);
	assert_int_equal(c->cqe.status, NVME_SC_SUCCESS);
	bed_release(c);
	bed_release(theirs);
	assert_int_equal(bed_exec(&b->other, &r, NULL), NVME_SC_SUCCESS);
	assert_int_equal(b->memory[0], 2);
	go(&stranger[0], &stranger[1]);
	bed_destroy(b);
	free(stranger);
}

static void a_command_that_waits_so_can_be_aborted_and_ends_with_its_connection(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe abort = bed_sqe(NVME_ADMIN_ABORT, 0, 0);
	struct bed_cmd *busy, *c[2];
	uint64_t result;

	(void)state;
	b->slow.hold = true;
	busy = write_block(b, &b->io, 1);
	go(&b->admin, &b->io);
	come(b, &b->admin, &b->other, 0);
	for (int i = 0; i < 2; i++)
		c[i] = write_block(b, &b->other, 2);
	abort.cdw10 = 1 | (uint32_t)c[0]->req.sqe.cid << 16;
	assert_int_equal(bed_exec(&b->admin, &abort, &result), NVME_SC_SUCCESS);
	assert_int_equal(result, 0);
	assert_true(c[0]->answered);
	assert_int_equal(PLAIN(c[0]->cqe.status), NVME_SC_ABORT_REQ);
	assert_false(c[1]->answered);
	go(&b->admin, &b->other);
	assert_true(c[1]->answered);
	assert_int_equal(b->other.tq.live, 0);
	assert_int_equal(b->slow.count, 1);
	/* The third association of the host is held up by the first just so. */
	come(b, &b->admin, &b->other, 0);
	c[0] = write_block(b, &b->other, 3);
	assert_false(c[0]->answered);
	slow_release(b);
	assert_true(busy->answered && c[0]->answered);
	assert_int_equal(c[0]->cqe.status, NVME_SC_SUCCESS);
	bed_destroy(b);
}

static uint64_t abort_cmd(struct bed *b, const struct bed_cmd *c)
{
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_ABORT, 0, 0);
	uint64_t result;

	s.cdw10 = 1 | (uint32_t)c->req.sqe.cid << 16;
	assert_int_equal(bed_exec(&b->admin, &s, &result), NVME_SC_SUCCESS);
	return result;
}

static void abort_ends_what_waits_in_the_store(void **state)
{
	static const uint8_t opcodes[] = {NVME_IO_READ,	   NVME_IO_WRITE,  NVME_IO_WRITE_ZEROES,
					  NVME_IO_COMPARE, NVME_IO_VERIFY, NVME_IO_FLUSH};
	struct bed *b = bed_with_io();

	(void)state;
	b->slow.hold = b->slow.cancels = true;
	memset(b->memory, 0x5a, 512);
	for (unsigned i = 0; i < ARRAY_SIZE(opcodes); i++) {
		struct nvme_sqe s = rw(opcodes[i], 1, 0, 1, 9);
		struct bed_cmd *c = bed_send(&b->io, &s);

		assert_false(c->answered);
		assert_int_equal(abort_cmd(b, c), 0);
		assert_true(c->answered);
		assert_int_equal(PLAIN(c->cqe.status), NVME_SC_ABORT_REQ);
		assert_int_equal(b->memory[0], 0x5a);
		bed_release(c);
		assert_int_equal(b->slow.count, 0);
	}
	bed_destroy(b);
}

/* The result says that it did not happen at once; it happens when it can. */
static void abort_ends_what_the_store_has_begun_when_it_is_done(void **state)
{
	static const struct {
		uint8_t opcode;
		uint32_t nlb;
		uint16_t status;
	} cases[] = {
		{NVME_IO_READ, 1, NVME_SC_ABORT_REQ},
		{NVME_IO_WRITE, 1, NVME_SC_SUCCESS}, /* it is written, and so it is said */
		{NVME_IO_VERIFY, 1, NVME_SC_SUCCESS},
		{NVME_IO_VERIFY, 1000, NVME_SC_ABORT_REQ},
		{NVME_IO_COMPARE, 1000, NVME_SC_ABORT_REQ},
	};
	struct bed *b = bed_with_io();

	(void)state;
	memset(b->memory, 0, sizeof(b->memory));
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		struct nvme_sqe s = rw(cases[i].opcode, 1, 0, cases[i].nlb, 9);
		struct bed_cmd *c;

		b->slow.hold = true;
		c = bed_send(&b->io, &s);
		assert_int_equal(b->slow.count, 1);
		assert_int_equal(abort_cmd(b, c), 1);
		assert_false(c->answered);
		slow_release(b);
		assert_true(c->answered);
		assert_int_equal(PLAIN(c->cqe.status), cases[i].status);
		bed_release(c);
	}
	bed_destroy(b);
}

static void commands_in_flight_finish_out_of_order(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe w = rw(NVME_IO_WRITE, 1, 0, 1, 9), id = rw(NVME_IO_READ, 5, 0, 1, 12);
	struct bed_cmd *slow[8], *fast;

	(void)state;
	b->slow.hold = true;
	for (int i = 0; i < 8; i++)
		slow[i] = bed_send(&b->io, &w);
	fast = bed_send(&b->io, &id); /* of another store */
	assert_true(fast->answered);
	slow_release(b);
	for (int i = 0; i < 8; i++) {
		assert_true(slow[i]->answered);
		assert_int_equal(slow[i]->cqe.status, 0);
	}
	bed_destroy(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(what_hosts_do_is_counted),
		cmocka_unit_test(data_in_the_capsule_is_written),
		cmocka_unit_test(descriptors_that_make_no_sense_are_refused),
		cmocka_unit_test(commands_beyond_the_namespace_are_refused),
		cmocka_unit_test(more_than_mdts_is_refused),
		cmocka_unit_test(namespaces_that_do_not_exist_are_refused),
		cmocka_unit_test(a_read_only_namespace_is_not_written),
		cmocka_unit_test(a_store_that_fails_gives_the_standard_status),
		cmocka_unit_test(force_unit_access_and_flush_reach_the_store),
		cmocka_unit_test(reads_with_force_unit_access_are_of_what_is_durable),
		cmocka_unit_test(write_zeroes_zeroes_just_its_blocks),
		cmocka_unit_test(compare_sees_a_difference_in_any_byte),
		cmocka_unit_test(verify_reads_all_blocks_in_place),
		cmocka_unit_test(deallocate_zeroes_all_ranges_or_none),
		cmocka_unit_test(ranges_are_copied_in_their_order),
		cmocka_unit_test(a_copy_that_cannot_be_whole_changes_nothing),
		cmocka_unit_test(a_host_that_vanishes_leaves_its_io_to_finish),
		cmocka_unit_test(a_command_of_several_steps_ends_with_its_connection),
		cmocka_unit_test(what_is_lost_each_controller_is_told_once),
		cmocka_unit_test(a_flush_beside_one_that_fails_fails),
		cmocka_unit_test(what_a_host_does_next_waits_for_its_last_io_on_the_namespace),
		cmocka_unit_test(
			a_command_that_waits_so_can_be_aborted_and_ends_with_its_connection),
		cmocka_unit_test(abort_ends_what_waits_in_the_store),
		cmocka_unit_test(abort_ends_what_the_store_has_begun_when_it_is_done),
		cmocka_unit_test(commands_in_flight_finish_out_of_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
