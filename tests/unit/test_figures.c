/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What each host does, as a target's tables have it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/sight.h"
#include "cli/counted.h"
#include "cli/served.h"
#include "target_bed.h"
#include "wire/nvme_status.h"

static struct target_figures *figures;
static struct served v;
static struct bed *bed;

static int begin(void **state)
{
	(void)state;
	figures = counted_figures();
	assert_non_null(figures);
	figures_init(figures);
	assert_true(served_here((const struct target_figures *const *)&figures, 1, &v));
	bed = bed_create();
	bed->target.group.figures = figures;
	return 0;
}

static int end(void **state)
{
	(void)state;
	bed_destroy(bed);
	counted_figures_free(figures);
	return 0;
}

static void connect_as(const char *hostnqn)
{
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
	uint64_t cntlid;

	snprintf(a.data.hostnqn, sizeof(a.data.hostnqn), "%s", hostnqn);
	bed_queue_open(bed, &bed->admin, 0);
	assert_int_equal(bed_connect(&bed->admin, &a, &cntlid), 0);
	assert_int_equal(bed_property_set(&bed->admin, NVME_PROP_CC, 0x460001), 0);
	a = bed_connect_args(1, (uint16_t)cntlid);
	snprintf(a.data.hostnqn, sizeof(a.data.hostnqn), "%s", hostnqn);
	bed_queue_open(bed, &bed->io, 1);
	assert_int_equal(bed_connect(&bed->io, &a, NULL), 0);
}

static void disconnect(void)
{
	bed_queue_close(&bed->io);
	bed_queue_close(&bed->admin);
}

static uint16_t rw(uint8_t opcode, uint32_t nsid, uint64_t slba, uint32_t nlb)
{
	struct nvme_sqe s = bed_sqe(opcode, nsid, nlb << 9);

	nvme_rw_set(&s, slba, nlb, 0);
	return PLAIN(bed_exec(&bed->io, &s, NULL));
}

static uint32_t host_row(const char *nqn)
{
	char buf[SERVED_NQN_MAX];

	for (uint32_t i = 0; i < v.host_count; i++)
		if (v.hosts[i].in_use && strcmp(served_host(&v, i, buf), nqn) == 0 && i)
			return i;
	return UINT32_MAX;
}

/* All rows of the kind, or one host's; of one there is at most one for each namespace. */
static struct figures_op_row sum(uint32_t host, uint32_t nsid, uint64_t opcode)
{
	struct figures_op_row all = {0};

	for (uint32_t i = 0; i < v.op_count; i++) {
		const struct figures_op_row *r = &v.ops[i];

		if (!r->commands || r->nsid != nsid || r->opcode != opcode ||
		    (host != UINT32_MAX && r->host != host))
			continue;
		all.commands += r->commands;
		all.errors += r->errors;
		all.bytes += r->bytes;
		all.latency_ns += r->latency_ns;
		for (unsigned b = 0; b < FIGURES_BUCKETS; b++)
			all.bucket[b] += r->bucket[b];
	}
	return all;
}

static uint64_t errors(uint32_t host, uint64_t status)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < v.error_count; i++)
		if (v.errors[i].host == host && v.errors[i].status == status)
			n += v.errors[i].count;
	return n;
}

static uint64_t refused(const char *reason)
{
	char buf[SERVED_REASON_MAX];

	for (uint32_t i = 0; i < v.reason_count; i++)
		if (strcmp(served_reason(&v.reasons[i], buf), reason) == 0)
			return v.reasons[i].count;
	return 0;
}

static void commands_are_counted_of_host_namespace_and_opcode(void **state)
{
	uint32_t host;

	(void)state;
	connect_as(BED_HOSTNQN);
	host = host_row(BED_HOSTNQN);
	assert_int_not_equal(host, UINT32_MAX);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rw(NVME_IO_READ, 1, 0, 8), 0);
	assert_int_equal(rw(NVME_IO_WRITE, 1, 0, 2), 0);
	assert_int_equal(rw(NVME_IO_READ, 2, 0, 1), 0);
	assert_int_equal(sum(host, 1, NVME_IO_READ).commands, 3);
	assert_int_equal(sum(host, 1, NVME_IO_READ).bytes, 3 * 8 * 512);
	assert_int_equal(sum(host, 1, NVME_IO_WRITE).commands, 1);
	assert_int_equal(sum(host, 1, NVME_IO_WRITE).bytes, 1024);
	assert_int_equal(sum(host, 2, NVME_IO_READ).commands, 1);
	assert_int_equal(sum(host, 0, FIGURES_FABRICS | NVMF_CONNECT).commands, 2);
	assert_int_equal(sum(host, 0, FIGURES_FABRICS | NVMF_PROPERTY_SET).commands, 1);
	assert_int_equal(v.hosts[host].rdma, 2);
	disconnect();
	assert_int_equal(v.hosts[host].rdma, 0);
	assert_int_equal(sum(host, 1, NVME_IO_READ).commands, 3); /* it stays */
}

static void errors_are_counted_by_status(void **state)
{
	uint32_t host;

	(void)state;
	connect_as(BED_HOSTNQN);
	host = host_row(BED_HOSTNQN);
	assert_int_equal(rw(NVME_IO_READ, 1, BED_BLOCKS, 1), STATUS(NVME_SC_LBA_RANGE));
	assert_int_equal(rw(NVME_IO_READ, 1, BED_BLOCKS, 1), STATUS(NVME_SC_LBA_RANGE));
	assert_int_equal(rw(NVME_IO_WRITE, 2, 0, 1), STATUS(NVME_SC_NS_WRITE_PROTECTED));
	assert_int_equal(errors(host, NVME_SC_LBA_RANGE), 2);
	assert_int_equal(errors(host, NVME_SC_NS_WRITE_PROTECTED), 1);
	assert_int_equal(sum(host, 1, NVME_IO_READ).errors, 2);
	assert_int_equal(sum(host, 1, NVME_IO_READ).bytes, 0);
	disconnect();
}

static void whoever_makes_up_opcodes_gets_one_row(void **state)
{
	uint32_t rows = 0, host;

	(void)state;
	connect_as(BED_HOSTNQN);
	host = host_row(BED_HOSTNQN);
	for (unsigned op = 0x80; op < 0x100; op++)
		assert_int_not_equal(rw((uint8_t)op, op, 0, 1), 0);
	for (uint32_t i = 0; i < v.op_count; i++)
		rows += v.ops[i].host == host && v.ops[i].opcode == FIGURES_UNKNOWN;
	assert_int_equal(rows, 1);
	assert_int_equal(sum(host, 0, FIGURES_UNKNOWN).commands, 0x80);
	disconnect();
}

static void latency_lasts_until_the_turn_is_over(void **state)
{
	struct figures_op_row r;
	struct nvme_sqe s = bed_sqe(NVME_IO_READ, 1, 512);
	struct bed_cmd *c;

	(void)state;
	connect_as(BED_HOSTNQN);
	figures_settle(figures, bed->now);
	assert_int_equal(rw(NVME_IO_READ, 1, 0, 1), 0);
	assert_int_equal(rw(NVME_IO_READ, 1, 1, 1), 0);
	assert_int_equal(sum(UINT32_MAX, 1, NVME_IO_READ).bucket[2], 0);
	figures_settle(figures, bed->now + 10000);
	r = sum(UINT32_MAX, 1, NVME_IO_READ);
	assert_int_equal(r.bucket[2], 2); /* 8192 to 16384 ns */
	assert_int_equal(r.latency_ns, 20000);
	/* One that its store holds. */
	nvme_rw_set(&s, 0, 1, 0);
	bed->slow.hold = true;
	c = bed_send(&bed->io, &s);
	figures_settle(figures, bed->now + 50000);
	bed->now += 40 * NSEC_PER_MSEC;
	slow_release(bed);
	assert_true(c->answered);
	bed_release(c);
	figures_settle(figures, bed->now);
	r = sum(UINT32_MAX, 1, NVME_IO_READ);
	assert_int_equal(r.bucket[figures_bucket(40 * NSEC_PER_MSEC)], 1);
	assert_int_equal(r.latency_ns, 20000 + 40 * NSEC_PER_MSEC);
	disconnect();
}

/* The queue's row that is in use and has this number. */
static const struct figures_queue_row *queue_row(uint64_t qid)
{
	for (uint32_t i = 0; i < v.queue_count; i++)
		if (v.queues[i].entries && v.queues[i].qid == qid)
			return &v.queues[i];
	return NULL;
}

static uint64_t queue_errors(uint64_t qid, uint64_t status)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < v.queue_error_count; i++) {
		const struct figures_queue_row *q = served_queue(&v, &v.queue_errors[i]);

		if (q && q->qid == qid && v.queue_errors[i].status == status)
			n += v.queue_errors[i].count;
	}
	return n;
}

static void a_queue_has_its_own_latency_and_errors(void **state)
{
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_KEEP_ALIVE, 0, 0);

	(void)state;
	connect_as(BED_HOSTNQN);
	figures_settle(figures, bed->now);
	assert_int_equal(bed_exec(&bed->admin, &s, NULL), 0);
	assert_int_equal(rw(NVME_IO_READ, 1, 0, 1), 0);
	assert_int_equal(bed_exec(&bed->admin, &s, NULL), 0); /* in turn, in one turn */
	for (int i = 0; i < 3; i++)
		assert_int_equal(rw(NVME_IO_READ, 1, BED_BLOCKS, 1), STATUS(NVME_SC_LBA_RANGE));
	assert_int_equal(rw(NVME_IO_WRITE, 2, 0, 1), STATUS(NVME_SC_NS_WRITE_PROTECTED));
	s.opcode = 0xc0;
	assert_int_not_equal(bed_exec(&bed->admin, &s, NULL), 0);
	figures_settle(figures, bed->now + 100000);
	assert_int_equal(queue_row(1)->latency_ns, 5 * 100000);
	assert_int_equal(queue_row(1)->bucket[2], 5); /* 65 to 262 us */
	assert_int_equal(queue_row(0)->bucket[2], 3);
	assert_int_equal(queue_errors(1, NVME_SC_LBA_RANGE), 3);
	assert_int_equal(queue_errors(1, NVME_SC_NS_WRITE_PROTECTED), 1);
	assert_int_equal(queue_errors(0, NVME_SC_LBA_RANGE), 0);
	assert_int_equal(queue_errors(0, NVME_SC_INVALID_OPCODE), 1);
	assert_int_equal(queue_row(1)->other_errors, 0);
	disconnect();
}

/* What it has done goes with it, be it in the turn that ends it. */
static void the_next_queue_begins_with_nothing(void **state)
{
	struct bed_connect a = bed_connect_args(1, 1);

	(void)state;
	connect_as(BED_HOSTNQN);
	assert_int_equal(rw(NVME_IO_READ, 1, BED_BLOCKS, 1), STATUS(NVME_SC_LBA_RANGE));
	bed_queue_close(&bed->io);
	assert_null(queue_row(1));
	assert_int_equal(queue_errors(1, NVME_SC_LBA_RANGE), 0);
	figures_settle(figures, bed->now);
	bed_queue_open(bed, &bed->io, 1);
	assert_int_equal(bed_connect(&bed->io, &a, NULL), 0);
	assert_int_equal(rw(NVME_IO_READ, 1, 0, 1), 0);
	bed_queue_close(&bed->io);
	bed_queue_open(bed, &bed->io, 1);
	assert_int_equal(bed_connect(&bed->io, &a, NULL), 0);
	figures_settle(figures, bed->now + 1000);
	assert_int_equal(queue_row(1)->commands, 1); /* its Connect */
	assert_int_equal(queue_row(1)->bucket[0], 1);
	assert_int_equal(queue_errors(1, NVME_SC_LBA_RANGE), 0);
	disconnect();
}

static void errors_without_a_row_are_the_queues_others(void **state)
{
	const uint16_t free_rows = figures->queue_errors_free;

	(void)state;
	connect_as(BED_HOSTNQN);
	assert_int_equal(rw(NVME_IO_READ, 1, BED_BLOCKS, 1), STATUS(NVME_SC_LBA_RANGE));
	figures->queue_errors_free = 0; /* as if others had them all */
	assert_int_equal(rw(NVME_IO_READ, 1, BED_BLOCKS, 1), STATUS(NVME_SC_LBA_RANGE));
	assert_int_equal(rw(NVME_IO_WRITE, 2, 0, 1), STATUS(NVME_SC_NS_WRITE_PROTECTED));
	assert_int_equal(queue_errors(1, NVME_SC_LBA_RANGE), 2);
	assert_int_equal(queue_row(1)->other_errors, 1);
	disconnect();
	assert_int_equal(figures->queue_errors_free, free_rows); /* it is given back */
}

static void buckets_end_where_they_say(void **state)
{
	(void)state;
	assert_int_equal(figures_bucket(0), 0);
	assert_int_equal(figures_bucket(4096), 0);
	assert_int_equal(figures_bucket(4097), 1);
	assert_int_equal(figures_bucket(8192), 1);
	assert_int_equal(figures_bucket(8193), 2);
	assert_int_equal(figures_bucket(1ull << 31), 19);
	assert_int_equal(figures_bucket((1ull << 31) + 1), 20);
	assert_int_equal(figures_bucket(UINT64_MAX), 20);
	assert_int_equal(figures_queue_bucket(0), 0);
	assert_int_equal(figures_queue_bucket(16384), 0);
	assert_int_equal(figures_queue_bucket(16385), 1);
	assert_int_equal(figures_queue_bucket(65536), 1);
	assert_int_equal(figures_queue_bucket(65537), 2);
	assert_int_equal(figures_queue_bucket(1ull << 26), 6);
	assert_int_equal(figures_queue_bucket((1ull << 26) + 1), 7);
	assert_int_equal(figures_queue_bucket(UINT64_MAX), 7);
}

static void who_is_refused_is_counted_by_reason(void **state)
{
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);

	(void)state;
	snprintf(a.data.subnqn, sizeof(a.data.subnqn), "nqn.2026-11.org.example:nothing");
	bed_queue_open(bed, &bed->admin, 0);
	assert_int_not_equal(bed_connect(&bed->admin, &a, NULL), 0);
	bed_queue_close(&bed->admin);
	target_rejected(&bed->target, "192.0.2.1", "no resources");
	target_rejected(&bed->target, "192.0.2.1", "no resources");
	assert_int_equal(refused(nvme_status_name(NVME_SC_CONNECT_INVALID_PARAM)), 1);
	assert_int_equal(refused("no resources"), 2);
	for (unsigned i = 0; i < 2 * FIGURES_REASONS; i++) { /* what a peer says has no row */
		char why[32];

		snprintf(why, sizeof(why), "it says so (%u)", i);
		target_rejected(&bed->target, "192.0.2.1", why);
	}
	assert_int_equal(refused("it says so"), 2 * FIGURES_REASONS);
	for (unsigned i = 0; i < 2 * FIGURES_REASONS; i++) {
		char why[32];

		snprintf(why, sizeof(why), "reason %u", i);
		target_rejected(&bed->target, "192.0.2.1", why);
	}
	assert_int_equal(refused("other"), FIGURES_REASONS + 4);
}

/* So many hosts come that there is no row for each: one who is there keeps his, and no sum is
 * less than what was done. */
static void hosts_that_are_gone_make_room(void **state)
{
	struct bed_queue *admin = &bed->other;
	const unsigned many = FIGURES_HOSTS + 100;
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
	uint32_t stays, others;

	(void)state;
	snprintf(a.data.hostnqn, sizeof(a.data.hostnqn), "nqn.2026-11.org.example:stays");
	bed_queue_open(bed, admin, 0);
	assert_int_equal(bed_connect(admin, &a, NULL), 0);
	stays = host_row("nqn.2026-11.org.example:stays");
	for (unsigned i = 0; i < many; i++) {
		char nqn[64];

		snprintf(nqn, sizeof(nqn), "nqn.2026-11.org.example:host-%u", i);
		connect_as(nqn);
		assert_int_equal(rw(NVME_IO_READ, 1, 0, 1), 0);
		assert_int_not_equal(rw(NVME_IO_READ, 1, BED_BLOCKS, 1), 0);
		disconnect();
	}
	figures_settle(figures, bed->now);
	assert_int_equal(host_row("nqn.2026-11.org.example:stays"), stays);
	assert_int_equal(v.hosts[stays].rdma, 1);
	assert_int_equal(host_row("nqn.2026-11.org.example:host-0"), UINT32_MAX);
	assert_int_not_equal(host_row("nqn.2026-11.org.example:host-611"), UINT32_MAX);
	others = host_row(FIGURES_OTHERS);
	assert_true(sum(others, 1, NVME_IO_READ).commands >= 2 * 100);
	assert_true(errors(others, NVME_SC_LBA_RANGE) >= 100);
	assert_int_equal(sum(UINT32_MAX, 1, NVME_IO_READ).commands, 2 * many);
	assert_int_equal(sum(UINT32_MAX, 1, NVME_IO_READ).errors, many);
	bed_queue_close(admin);
}

static void others_read_the_same(void **state)
{
	char a[SERVED_NQN_MAX], b[SERVED_NQN_MAX];
	struct served seen_v;
	struct seen s;
	uint32_t host;

	(void)state;
	connect_as("nqn.2026-11.org.example:\"quoted\\host\"");
	host = host_row("nqn.2026-11.org.example:\"quoted\\host\"");
	assert_int_not_equal(host, UINT32_MAX);
	assert_int_equal(rw(NVME_IO_READ, 1, 0, 8), 0);
	assert_int_not_equal(rw(NVME_IO_READ, 1, BED_BLOCKS, 1), 0);
	figures_settle(figures, bed->now);
	assert_int_equal(seen_open(&s, getpid(), false), 0);
	assert_int_equal(seen_read(&s), 0);
	assert_true(served_seen(&s, &seen_v));
	assert_int_equal(seen_v.host_count, v.host_count);
	assert_memory_equal(seen_v.hosts, v.hosts, sizeof(*v.hosts) * v.host_count);
	assert_memory_equal(seen_v.ops, v.ops, sizeof(*v.ops) * v.op_count);
	assert_memory_equal(seen_v.errors, v.errors, sizeof(*v.errors) * v.error_count);
	assert_memory_equal(seen_v.queues, v.queues, sizeof(*v.queues) * v.queue_count);
	assert_memory_equal(seen_v.queue_errors, v.queue_errors,
			    sizeof(*v.queue_errors) * v.queue_error_count);
	assert_memory_equal(seen_v.reasons, v.reasons, sizeof(*v.reasons) * v.reason_count);
	assert_string_equal(served_host(&seen_v, host, a), served_host(&v, host, b));
	assert_string_equal(served_host(&seen_v, UINT64_MAX, a), "");
	served_free(&seen_v);
	seen_close(&s);
	disconnect();
}

static void show_table(struct sight_head *h, const char *room, const char *keys, uint32_t columns,
		       uint32_t rows, uint64_t *offset)
{
	struct sight_entry *e = &h->entries[h->count++];

	*e = (struct sight_entry){.in_use = 1, .columns = columns, .rows = rows, .offset = *offset};
	snprintf(e->room, sizeof(e->room), "%s", room);
	snprintf(e->keys, sizeof(e->keys), "%s", keys);
	*offset += (uint64_t)rows * columns * sizeof(uint64_t);
}

/* A process may show what it likes, in far less memory than it would take here. */
static void rows_that_are_made_up_are_no_more_than_ours(void **state)
{
	const int fd = memfd_create(SIGHT_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct sight_head *h = calloc(1, sizeof(*h));
	uint64_t offset = 1 << 20, row[2] = {1};
	struct served seen_v;
	struct seen s;

	(void)state;
	assert_non_null(h);
	assert_int_equal(ftruncate(fd, SIGHT_BYTES), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	h->magic = SIGHT_MAGIC;
	for (int group = 0; group < 2; group++) {
		for (uint64_t i = 0; i < 8 * FIGURES_HOSTS; i++) {
			row[1] = offset + i; /* each is another host */
			assert_int_equal(
				pwrite(fd, row, sizeof(row), (off_t)(offset + i * sizeof(row))),
				sizeof(row));
		}
		show_table(h, "target-hosts", "in_use host_00 ", 2, 8 * FIGURES_HOSTS, &offset);
		show_table(h, "target-commands", "host ", 1, 8 * FIGURES_OPS, &offset);
		show_table(h, "target-errors", "host ", 1, 8 * FIGURES_ERRORS, &offset);
		show_table(h, "target-queues", "host ", 1, 8 * FIGURES_QUEUES, &offset);
		show_table(h, "target-refusals", "count ", 1, 8 * FIGURES_REASONS, &offset);
	}
	assert_int_equal(pwrite(fd, h, sizeof(*h), 0), sizeof(*h));
	assert_int_equal(seen_open(&s, getpid(), false), 0);
	assert_int_equal(seen_read(&s), 0);
	assert_true(served_seen(&s, &seen_v));
	assert_int_equal(seen_v.host_count, 3 * FIGURES_HOSTS);
	assert_int_equal(seen_v.op_count, 3 * FIGURES_OPS);
	assert_int_equal(seen_v.hosts[3 * FIGURES_HOSTS - 1].in_use, 1);
	served_free(&seen_v);
	seen_close(&s);
	close(fd);
	free(h);
}

/* Of a host that has queues in two groups, and one that has them in the second alone. */
static void what_groups_count_is_shown_as_one(void **state)
{
	struct target_figures *other = counted_figures();
	const struct target_figures *const both[] = {figures, other};
	struct served here, seen_v;
	struct target_group g;
	struct seen s;

	(void)state;
	figures_init(other);
	target_group_init(&g, &bed->target, NULL, NULL, NULL, bed->now);
	g.figures = other;
	connect_as("nqn.2026-11.org.example:one");
	assert_int_equal(rw(NVME_IO_READ, 1, 0, 8), 0);
	assert_int_not_equal(rw(NVME_IO_READ, 1, BED_BLOCKS, 8), 0);
	/* As if the second had done the same, and another besides. */
	for (unsigned i = 0; i < 2; i++) {
		bed->io.tq.group = &g;
		memset(&bed->io.tq.shown, 0, sizeof(bed->io.tq.shown));
		if (i)
			strcpy(bed->io.tq.ctrl->hostnqn, "nqn.2026-11.org.example:two");
		figures_queue_begin(other, &bed->io.tq);
		bed->io.tq.group = &bed->target.group;
		bed->target.group.figures = other;
		assert_int_equal(rw(NVME_IO_READ, 1, 0, 16), 0);
		assert_int_not_equal(rw(NVME_IO_READ, 1, BED_BLOCKS, 8), 0);
		bed->target.group.figures = figures;
	}
	figures_settle(figures, bed->now);
	figures_settle(other, bed->now);
	assert_true(served_here(both, 2, &here));
	v = here;
	assert_int_equal(sum(host_row("nqn.2026-11.org.example:one"), 1, NVME_IO_READ).commands, 4);
	assert_int_equal(sum(host_row("nqn.2026-11.org.example:one"), 1, NVME_IO_READ).bytes,
			 24 * 512);
	assert_int_equal(sum(host_row("nqn.2026-11.org.example:two"), 1, NVME_IO_READ).commands, 2);
	assert_int_equal(errors(host_row("nqn.2026-11.org.example:one"), NVME_SC_LBA_RANGE), 2);
	assert_int_equal(errors(host_row("nqn.2026-11.org.example:two"), NVME_SC_LBA_RANGE), 1);
	assert_int_equal(queue_errors(1, NVME_SC_LBA_RANGE), 3); /* one each, in three rows */
	assert_int_equal(here.hosts[host_row("nqn.2026-11.org.example:one")].rdma, 3);
	/* Who looks from outside sees the same. */
	assert_int_equal(seen_open(&s, getpid(), false), 0);
	assert_int_equal(seen_read(&s), 0);
	assert_true(served_seen(&s, &seen_v));
	assert_int_equal(seen_v.op_count, here.op_count);
	assert_memory_equal(seen_v.hosts, here.hosts, sizeof(*here.hosts) * here.host_count);
	assert_memory_equal(seen_v.ops, here.ops, sizeof(*here.ops) * here.op_count);
	assert_memory_equal(seen_v.errors, here.errors, sizeof(*here.errors) * here.error_count);
	assert_memory_equal(seen_v.queues, here.queues, sizeof(*here.queues) * here.queue_count);
	assert_memory_equal(seen_v.queue_errors, here.queue_errors,
			    sizeof(*here.queue_errors) * here.queue_error_count);
	served_free(&seen_v);
	served_free(&here);
	seen_close(&s);
	bed->io.tq.shown.on = false;
	disconnect();
	target_group_fini(&g);
	counted_figures_free(other);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(commands_are_counted_of_host_namespace_and_opcode),
		TEST(errors_are_counted_by_status),
		TEST(whoever_makes_up_opcodes_gets_one_row),
		TEST(latency_lasts_until_the_turn_is_over),
		TEST(a_queue_has_its_own_latency_and_errors),
		TEST(the_next_queue_begins_with_nothing),
		TEST(errors_without_a_row_are_the_queues_others),
		TEST(buckets_end_where_they_say),
		TEST(who_is_refused_is_counted_by_reason),
		TEST(hosts_that_are_gone_make_room),
		TEST(others_read_the_same),
		TEST(rows_that_are_made_up_are_no_more_than_ours),
		TEST(what_groups_count_is_shown_as_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
