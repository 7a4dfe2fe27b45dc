/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Connections, controllers and admin commands of the target. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "target_bed.h"

#define CC_ON (NVME_CC_EN | NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16)

/* --- Connect ------------------------------------------------------------------------------------
 */

static void refused_at(struct bed_queue *q, const struct bed_connect *a, bool in_data,
		       uint16_t offset)
{
	uint64_t result;

	assert_int_equal(bed_connect(q, a, &result), STATUS(NVME_SC_CONNECT_INVALID_PARAM));
	assert_int_equal(NVMF_CONNECT_IATTR(result), in_data);
	assert_int_equal(NVMF_CONNECT_IPO(result), offset);
	assert_null(q->tq.ctrl);
}

static void a_connect_that_is_wrong_names_the_wrong_field(void **state)
{
	struct bed *b = bed_create();
	struct bed_connect a, good = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
	struct bed_queue *q = &b->admin;

	(void)state;
	bed_queue_open(b, q, 0);
	a = good, strcpy(a.data.subnqn, "nqn.2026-11.io.example:none");
	refused_at(q, &a, true, NVMF_CONNECT_DATA_SUBNQN);
	a = good, memset(a.data.subnqn, 'n', sizeof(a.data.subnqn)); /* not terminated */
	refused_at(q, &a, true, NVMF_CONNECT_DATA_SUBNQN);
	a = good, memset(a.data.hostnqn, 'n', sizeof(a.data.hostnqn));
	refused_at(q, &a, true, NVMF_CONNECT_DATA_HOSTNQN);
	a = good, a.data.cntlid = 1;
	refused_at(q, &a, true, NVMF_CONNECT_DATA_CNTLID);
	a = good, a.data.cntlid = NVMF_CNTLID_STATIC;
	refused_at(q, &a, true, NVMF_CONNECT_DATA_CNTLID);
	a = good, a.co.qid = 1; /* not what the connection was made for */
	refused_at(q, &a, false, NVMF_CONNECT_SQE_QID);
	a = good, a.co.sqsize = 0;
	refused_at(q, &a, false, NVMF_CONNECT_SQE_SQSIZE);
	a = good, a.co.sqsize = TARGET_QUEUE_ENTRIES_MAX;
	refused_at(q, &a, false, NVMF_CONNECT_SQE_SQSIZE);
	a = good, a.co.sqsize = 64; /* more than the transport has receives for */
	refused_at(q, &a, false, NVMF_CONNECT_SQE_SQSIZE);
	a = good, a.co.recfmt = 1;
	assert_int_equal(bed_connect(q, &a, NULL), STATUS(NVME_SC_CONNECT_FORMAT));
	assert_int_equal(b->refused, 10);
	assert_int_equal(bed_connect(q, &good, NULL), NVME_SC_SUCCESS);
	bed_destroy(b);
}

static void a_second_connect_is_out_of_sequence(void **state)
{
	struct bed *b = bed_enabled();
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);

	(void)state;
	assert_int_equal(bed_connect(&b->admin, &a, NULL), STATUS(NVME_SC_CMD_SEQ_ERROR));
	assert_int_equal(b->ctrls_new, 1);
	bed_destroy(b);
}

static void only_hosts_on_the_list_may_connect(void **state)
{
	const char *const hosts[] = {"nqn.2026-11.io.example:other", BED_HOSTNQN};
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
	struct bed *b = bed_create();

	(void)state;
	b->subsys.hosts = hosts;
	b->subsys.host_count = 1;
	bed_queue_open(b, &b->admin, 0);
	assert_int_equal(bed_connect(&b->admin, &a, NULL), STATUS(NVME_SC_CONNECT_INVALID_HOST));
	b->subsys.host_count = 2;
	assert_int_equal(bed_connect(&b->admin, &a, NULL), NVME_SC_SUCCESS);
	bed_destroy(b);
}

static void a_host_without_a_name_comes_where_any_may(void **state)
{
	const char *const hosts[] = {BED_HOSTNQN};
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
	struct bed *b = bed_create();

	(void)state;
	memset(a.data.hostnqn, 0, sizeof(a.data.hostnqn));
	bed_queue_open(b, &b->admin, 0);
	b->subsys.hosts = hosts;
	b->subsys.host_count = 1;
	refused_at(&b->admin, &a, true, NVMF_CONNECT_DATA_HOSTNQN);
	b->subsys.hosts = NULL;
	assert_int_equal(bed_connect(&b->admin, &a, NULL), NVME_SC_SUCCESS);
	bed_destroy(b);
}

static void an_io_queue_must_fit_its_controller(void **state)
{
	struct bed *b = bed_enabled();
	struct bed_connect a, good = bed_connect_args(1, 1);

	(void)state;
	bed_queue_open(b, &b->io, 1);
	a = good, a.data.cntlid = 2;
	refused_at(&b->io, &a, true, NVMF_CONNECT_DATA_CNTLID);
	a = good, strcpy(a.data.hostnqn, "nqn.2026-11.io.example:other");
	refused_at(&b->io, &a, true, NVMF_CONNECT_DATA_HOSTNQN);
	a = good, a.data.hostid[3] ^= 1;
	refused_at(&b->io, &a, true, 0);
	assert_int_equal(bed_connect(&b->io, &good, NULL), NVME_SC_SUCCESS);
	bed_queue_open(b, &b->other, 1); /* the same queue ID once more */
	assert_int_equal(bed_connect(&b->other, &good, NULL), STATUS(NVME_SC_CMD_SEQ_ERROR));
	bed_queue_close(&b->other);
	bed_queue_open(b, &b->other, TARGET_IO_QUEUES_MAX + 1);
	a = good, a.co.qid = TARGET_IO_QUEUES_MAX + 1;
	refused_at(&b->other, &a, false, NVMF_CONNECT_SQE_QID);
	bed_destroy(b);
}

static unsigned admit_calls;
static int admit_error;

static int admit(struct target_queue *q)
{
	assert_int_not_equal(q->qid, TARGET_QID_UNKNOWN);
	admit_calls++;
	return admit_error;
}

/* Of a queue whose ID comes with Connect that was refused: no more is known than before. */
static void refused_without_a_trace(struct bed_queue *q, uint16_t qid, uint16_t cntlid)
{
	struct bed_connect a = bed_connect_args(qid, cntlid);
	struct bed_cmd *c = bed_send_connect(q, &a);

	assert_true(c->answered);
	assert_int_equal(PLAIN(c->cqe.status), NVME_SC_CONNECT_CTRL_BUSY);
	assert_int_equal(c->cqe.sqid, 0);
	assert_int_equal(q->tq.qid, TARGET_QID_UNKNOWN);
	assert_null(q->tq.ctrl);
	bed_release(c);
}

static void *no_alloc(void *ctx, size_t bytes)
{
	(void)ctx;
	(void)bytes;
	return NULL;
}

static void after_a_refused_connect_a_queue_is_what_it_was(void **state)
{
	struct target_transport_ops ops = bed_ops;
	struct bed *b = bed_enabled();
	struct bed_connect a = bed_connect_args(2, 1);
	void *(*alloc)(void *ctx, size_t bytes) = b->target.env.alloc;

	(void)state;
	ops.admit = admit;
	bed_queue_open(b, &b->io, TARGET_QID_UNKNOWN);
	b->io.tq.ops = &ops;
	admit_calls = 0;
	admit_error = -ENOMEM;
	refused_without_a_trace(&b->io, 1, 1);
	admit_error = 0;
	b->target.env.alloc = no_alloc; /* the transport has let it in, the target does not */
	refused_without_a_trace(&b->io, 0, NVMF_CNTLID_DYNAMIC);
	b->target.env.alloc = alloc;
	assert_int_equal(admit_calls, 2);
	assert_true(b->io.tq.connect_timer.armed);
	assert_int_equal(bed_connect(&b->io, &a, NULL), NVME_SC_SUCCESS);
	assert_int_equal(admit_calls, 3);
	assert_int_equal(b->io.tq.qid, 2);
	assert_ptr_equal(b->admin.tq.ctrl->queues[2], &b->io.tq);
	assert_null(b->admin.tq.ctrl->queues[1]);
	bed_destroy(b);
}

static void an_io_queue_before_enable_is_refused(void **state)
{
	struct bed *b = bed_create();
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);

	(void)state;
	bed_queue_open(b, &b->admin, 0);
	assert_int_equal(bed_connect(&b->admin, &a, NULL), NVME_SC_SUCCESS);
	a = bed_connect_args(1, 1);
	bed_queue_open(b, &b->io, 1);
	refused_at(&b->io, &a, false, NVMF_CONNECT_SQE_QID);
	bed_destroy(b);
}

static void before_connect_and_enable_commands_are_out_of_sequence(void **state)
{
	struct bed *b = bed_create();
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
	struct nvme_sqe id = bed_sqe(NVME_ADMIN_IDENTIFY, 0, 4096);
	struct nvme_sqe read = bed_sqe(NVME_IO_READ, 1, 512);
	struct nvme_sqe get = bed_sqe(NVME_FABRICS, NVMF_PROPERTY_GET, 0);

	(void)state;
	id.cdw10 = NVME_CNS_CTRL;
	bed_queue_open(b, &b->admin, 0);
	bed_queue_open(b, &b->io, 1);
	assert_int_equal(bed_exec(&b->admin, &id, NULL), STATUS(NVME_SC_CMD_SEQ_ERROR));
	assert_int_equal(bed_exec(&b->admin, &get, NULL), STATUS(NVME_SC_CMD_SEQ_ERROR));
	assert_int_equal(bed_exec(&b->io, &read, NULL), STATUS(NVME_SC_CMD_SEQ_ERROR));
	assert_int_equal(bed_connect(&b->admin, &a, NULL), NVME_SC_SUCCESS);
	assert_int_equal(bed_exec(&b->admin, &id, NULL), STATUS(NVME_SC_CMD_SEQ_ERROR));
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC, CC_ON), NVME_SC_SUCCESS);
	assert_int_equal(bed_exec(&b->admin, &id, NULL), NVME_SC_SUCCESS);
	bed_destroy(b);
}

static void a_connection_that_never_connects_is_ended(void **state)
{
	struct bed *b = bed_create();

	(void)state;
	bed_queue_open(b, &b->admin, 0);
	assert_true(target_next_deadline(&b->target) == b->now + 15 * NSEC_PER_SEC);
	target_tick(&b->target, b->now + 15 * NSEC_PER_SEC - 1);
	assert_false(b->admin.disconnect_asked);
	target_tick(&b->target, b->now + 15 * NSEC_PER_SEC);
	assert_true(b->admin.disconnect_asked);
	bed_destroy(b);
}

/* --- properties ---------------------------------------------------------------------------------
 */

static void properties_say_what_the_controller_is(void **state)
{
	struct bed *b = bed_enabled();
	struct nvme_sqe s = bed_sqe(NVME_FABRICS, 0, 0);
	struct nvmf_prop p = {.offset = 0x24};
	uint64_t cap = bed_property_get(&b->admin, NVME_PROP_CAP, true);

	(void)state;
	assert_int_equal(NVME_CAP_MQES(cap), TARGET_QUEUE_ENTRIES_MAX - 1);
	assert_int_equal(NVME_CAP_MPSMIN(cap), 0);
	assert_true(cap & NVME_CAP_CSS_NVM);
	assert_int_equal(bed_property_get(&b->admin, NVME_PROP_VS, false), NVME_VS(2, 0, 0));
	/* Base 2.0 section 3.1.3.22: how long until it is ready, in units of 500 ms. */
	assert_true(cap & NVME_CAP_CRWMS);
	assert_int_equal(bed_property_get(&b->admin, NVME_PROP_CRTO, false), NVME_CAP_TO(cap));
	assert_int_equal(bed_property_get(&b->admin, NVME_PROP_CC, false), CC_ON);
	nvmf_prop_to_sqe(&p, NVMF_PROPERTY_GET, &s);
	assert_int_equal(bed_exec(&b->admin, &s, NULL), STATUS(NVME_SC_INVALID_FIELD));
	p.offset = NVME_PROP_CAP; /* eight bytes asked for as four */
	nvmf_prop_to_sqe(&p, NVMF_PROPERTY_GET, &s);
	assert_int_equal(bed_exec(&b->admin, &s, NULL), STATUS(NVME_SC_INVALID_FIELD));
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CSTS, 0),
			 STATUS(NVME_SC_INVALID_FIELD));
	bed_destroy(b);
}

static void a_configuration_nobody_can_meet_is_fatal(void **state)
{
	static const uint32_t bad[] = {
		NVME_CC_EN,				   /* entry sizes zero */
		CC_ON | 1u << 7,			   /* pages of 8 KiB */
		CC_ON | 1u << 11,			   /* weighted arbitration */
		NVME_CC_EN | 7u << 16 | NVME_CC_IOCQES_16, /* SQEs of 128 bytes */
		CC_ON | 7u << 4,			   /* no command set for I/O */
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		struct bed *b = bed_enabled();

		assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC, 0), 0);
		assert_int_equal(bed_property_get(&b->admin, NVME_PROP_CSTS, false), 0);
		assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC, bad[i]), 0);
		assert_int_equal(bed_property_get(&b->admin, NVME_PROP_CSTS, false), NVME_CSTS_CFS);
		bed_destroy(b);
	}
}

static void a_reset_ends_io_queues_and_keeps_the_admin_queue(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe aer = bed_sqe(NVME_ADMIN_ASYNC_EVENT, 0, 0);
	struct bed_cmd *held = bed_send(&b->admin, &aer);

	(void)state;
	assert_false(held->answered);
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC, CC_ON & ~NVME_CC_EN), 0);
	assert_true(b->io.disconnect_asked);
	assert_false(b->admin.disconnect_asked);
	assert_true(held->answered);
	assert_int_equal(PLAIN(held->cqe.status), NVME_SC_ABORT_REQ);
	bed_queue_close(&b->io);
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC, CC_ON), 0);
	assert_int_equal(bed_property_get(&b->admin, NVME_PROP_CSTS, false), NVME_CSTS_RDY);
	bed_destroy(b);
}

static void write_a_block(struct bed_queue *q)
{
	struct nvme_sqe s = bed_sqe(NVME_IO_WRITE, 1, 512);

	nvme_rw_set(&s, 0, 1, 0);
	assert_int_equal(bed_exec(q, &s, NULL), NVME_SC_SUCCESS);
}

static void a_normal_shutdown_is_complete_when_all_is_flushed(void **state)
{
	struct bed *b = bed_with_io();

	(void)state;
	/* Nothing was written: there is nothing to wait for, not even a disk that hangs. */
	b->slow.hold = true;
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC, CC_ON | NVME_CC_SHN_NORMAL), 0);
	assert_int_equal(b->slow.flushes, 0);
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC, CC_ON), 0);
	b->slow.hold = false;
	write_a_block(&b->io);
	b->slow.hold = true;
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC, CC_ON | NVME_CC_SHN_NORMAL), 0);
	assert_int_equal(b->slow.flushes, 1);
	assert_int_equal(bed_property_get(&b->admin, NVME_PROP_CSTS, false) & NVME_CSTS_SHST_MASK,
			 NVME_CSTS_SHST_BUSY);
	slow_release(b);
	assert_int_equal(bed_property_get(&b->admin, NVME_PROP_CSTS, false) & NVME_CSTS_SHST_MASK,
			 NVME_CSTS_SHST_DONE);
	bed_destroy(b);
}

static uint64_t shut_down(struct bed *b)
{
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC, CC_ON | NVME_CC_SHN_NORMAL), 0);
	return bed_property_get(&b->admin, NVME_PROP_CSTS, false);
}

/* The host must not believe that its data are safe. */
static void a_normal_shutdown_is_not_complete_when_a_flush_fails(void **state)
{
	struct bed *b = bed_with_io();

	(void)state;
	write_a_block(&b->io);
	b->slow.fail = -EIO;
	assert_int_equal(shut_down(b), NVME_CSTS_RDY | NVME_CSTS_SHST_BUSY | NVME_CSTS_CFS);
	assert_int_equal(b->slow.flushes, 1);
	/* A store says so once: that the next flush succeeds brings nothing back. */
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC, 0), 0);
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC, CC_ON), 0);
	assert_int_equal(bed_property_get(&b->admin, NVME_PROP_CSTS, false), NVME_CSTS_RDY);
	assert_int_equal(shut_down(b), NVME_CSTS_RDY | NVME_CSTS_SHST_BUSY | NVME_CSTS_CFS);
	assert_int_equal(b->slow.flushes, 2);
	bed_destroy(b);
}

static void gone(struct target_ns *ns)
{
	(void)ns;
}

/* Nor are they because the namespace has gone since. */
static void what_a_flush_lost_is_not_forgotten_with_its_namespace(void **state)
{
	struct bed *b = bed_with_io();

	(void)state;
	write_a_block(&b->io);
	b->slow.hold = true;
	assert_int_equal(shut_down(b), NVME_CSTS_RDY | NVME_CSTS_SHST_BUSY);
	target_ns_remove(&b->subsys, &b->ns, gone);
	assert_int_equal(b->slow.count, 1);
	b->slow.count = 0;
	b->slow.held[0]->done(b->slow.held[0], -EIO);
	assert_int_equal(bed_property_get(&b->admin, NVME_PROP_CSTS, false),
			 NVME_CSTS_RDY | NVME_CSTS_SHST_BUSY | NVME_CSTS_CFS);
	bed_destroy(b);
}

/* Be it its own or another host's, of the same namespace. */
static void a_normal_shutdown_is_not_complete_after_a_flush_that_failed(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe s = bed_sqe(NVME_IO_FLUSH, 1, 0);

	(void)state;
	write_a_block(&b->io);
	b->slow.fail = -EIO;
	assert_int_not_equal(bed_exec(&b->io, &s, NULL), NVME_SC_SUCCESS);
	assert_int_equal(shut_down(b), NVME_CSTS_RDY | NVME_CSTS_SHST_BUSY | NVME_CSTS_CFS);
	bed_destroy(b);
}

/* Nothing is lost by one that could not be done then. */
static void a_flush_that_may_be_tried_again_says_nothing_of_data(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe s = bed_sqe(NVME_IO_FLUSH, 1, 0), w = bed_sqe(NVME_IO_WRITE, 1, 512);

	(void)state;
	write_a_block(&b->io);
	b->slow.fail = -ENOTCONN;
	assert_int_equal(bed_exec(&b->io, &s, NULL), NVME_SC_NS_NOT_READY);
	/* Nor by one whose blocks have gone since it was looked at. */
	nvme_rw_set(&w, 0, 1, NVME_RW_FUA);
	b->slow.fail = -ERANGE;
	assert_int_equal(bed_exec(&b->io, &w, NULL) & NVME_STATUS_CODE, NVME_SC_LBA_RANGE);
	assert_int_equal(b->store_failed, 1); /* of the first */
	assert_int_equal(bed_exec(&b->io, &s, NULL), NVME_SC_SUCCESS);
	assert_int_equal(shut_down(b), NVME_CSTS_RDY | NVME_CSTS_SHST_DONE);
	bed_destroy(b);
}

static void who_waits_for_no_flush_is_not_told_of_it(void **state)
{
	struct bed *b = bed_with_io();

	(void)state;
	write_a_block(&b->io);
	b->slow.hold = true;
	(void)shut_down(b);
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC, CC_ON), 0);
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC, CC_ON | NVME_CC_SHN_ABRUPT), 0);
	b->slow.hold = false;
	b->slow.count = 0;
	b->slow.held[0]->done(b->slow.held[0], -EIO);
	assert_int_equal(bed_property_get(&b->admin, NVME_PROP_CSTS, false),
			 NVME_CSTS_RDY | NVME_CSTS_SHST_DONE);
	bed_destroy(b);
}

static void an_abrupt_shutdown_waits_for_nothing(void **state)
{
	struct bed *b = bed_with_io();

	(void)state;
	b->slow.hold = true;
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC, CC_ON | NVME_CC_SHN_ABRUPT), 0);
	assert_int_equal(b->slow.flushes, 0);
	assert_int_equal(bed_property_get(&b->admin, NVME_PROP_CSTS, false) & NVME_CSTS_SHST_MASK,
			 NVME_CSTS_SHST_DONE);
	bed_destroy(b);
}

static void a_connection_lost_during_shutdown_leaves_nothing_behind(void **state)
{
	struct bed *b = bed_with_io();

	(void)state;
	write_a_block(&b->io);
	b->slow.hold = true;
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC, CC_ON | NVME_CC_SHN_NORMAL), 0);
	bed_queue_close(&b->admin);
	bed_queue_close(&b->io);
	assert_int_equal(b->allocated, 1); /* until the store is done with it */
	assert_false(target_idle(&b->target));
	slow_release(b);
	assert_int_equal(b->allocated, 0);
	assert_true(target_idle(&b->target));
	bed_destroy(b);
}

/* --- keep alive ---------------------------------------------------------------------------------
 */

static void a_silent_host_loses_its_controller(void **state)
{
	struct bed *b = bed_with_io();

	(void)state;
	assert_true(target_next_deadline(&b->target) == b->now + 5 * NSEC_PER_SEC);
	b->now += 5 * NSEC_PER_SEC; /* there was traffic since Connect: one more period */
	target_tick(&b->target, b->now);
	assert_false(b->admin.disconnect_asked);
	b->now += 5 * NSEC_PER_SEC; /* and a look for what may lie unread */
	target_tick(&b->target, b->now);
	assert_false(b->admin.disconnect_asked);
	b->now += 5 * NSEC_PER_SEC / 16;
	target_tick(&b->target, b->now);
	assert_true(b->admin.disconnect_asked);
	assert_true(b->io.disconnect_asked);
	bed_queue_close(&b->admin);
	assert_int_equal(b->ctrls_gone, 1);
	bed_destroy(b);
}

/* The one who drives the target comes late: what was sent meanwhile may come later still. */
static void who_was_not_listened_to_is_not_silent(void **state)
{
	struct nvme_sqe ka = bed_sqe(NVME_ADMIN_KEEP_ALIVE, 0, 0);
	struct bed *b = bed_with_io();

	(void)state;
	assert_int_equal(bed_exec(&b->admin, &ka, NULL), NVME_SC_SUCCESS);
	for (int i = 0; i < 3; i++) {
		b->now += 8 * NSEC_PER_SEC; /* of 5 */
		target_tick(&b->target, b->now);
		assert_false(b->admin.disconnect_asked);
		b->now += 3 * NSEC_PER_SEC - 1;
		target_tick(&b->target, b->now);
		assert_int_equal(bed_exec(&b->admin, &ka, NULL), NVME_SC_SUCCESS);
		assert_false(b->admin.disconnect_asked);
	}
	/* However long it was, a host has no more than its time again, and once. */
	b->now += 1000 * NSEC_PER_SEC;
	target_tick(&b->target, b->now);
	assert_true(target_next_deadline(&b->target) == b->now + 5 * NSEC_PER_SEC);
	b->now += 100 * NSEC_PER_SEC;
	target_tick(&b->target, b->now);
	assert_true(b->admin.disconnect_asked);
	bed_queue_close(&b->admin);
	bed_queue_close(&b->io);
	bed_destroy(b);
}

static void keep_alive_and_traffic_keep_a_controller(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe ka = bed_sqe(NVME_ADMIN_KEEP_ALIVE, 0, 0);
	struct nvme_sqe flush = bed_sqe(NVME_IO_FLUSH, 1, 0);

	(void)state;
	for (int i = 0; i < 20; i++) {
		b->now += 4 * NSEC_PER_SEC;
		target_tick(&b->target, b->now);
		assert_int_equal(i % 2 ? bed_exec(&b->admin, &ka, NULL)
				       : bed_exec(&b->io, &flush, NULL),
				 NVME_SC_SUCCESS);
	}
	assert_false(b->admin.disconnect_asked);
	bed_destroy(b);
}

static void the_keep_alive_timeout_is_a_feature(void **state)
{
	struct bed *b = bed_enabled();
	struct nvme_sqe set = bed_sqe(NVME_ADMIN_SET_FEATURES, 0, 0);
	struct nvme_sqe get = bed_sqe(NVME_ADMIN_GET_FEATURES, 0, 0);
	uint64_t value;

	(void)state;
	set.cdw10 = get.cdw10 = NVME_FID_KEEP_ALIVE;
	assert_int_equal(bed_exec(&b->admin, &get, &value), 0);
	assert_int_equal(value, 5000);
	set.cdw11 = 12345;
	assert_int_equal(bed_exec(&b->admin, &set, NULL), 0);
	assert_int_equal(bed_exec(&b->admin, &get, &value), 0);
	assert_int_equal(value, 13000); /* rounded up to what KAS promises */
	assert_true(target_next_deadline(&b->target) == b->now + 13 * NSEC_PER_SEC);
	set.cdw11 = 0;
	assert_int_equal(bed_exec(&b->admin, &set, NULL), 0);
	assert_true(target_next_deadline(&b->target) == DEADLINE_NEVER);
	set.cdw11 = 0xffffffff;
	assert_int_equal(bed_exec(&b->admin, &set, NULL), STATUS(NVME_SC_KAT_INVALID));
	bed_destroy(b);
}

/* --- events and Abort ---------------------------------------------------------------------------
 */

static void four_event_requests_are_held_and_a_fifth_refused(void **state)
{
	struct bed *b = bed_enabled();
	struct nvme_sqe aer = bed_sqe(NVME_ADMIN_ASYNC_EVENT, 0, 0);
	struct bed_cmd *held[TARGET_AER_MAX];

	(void)state;
	for (int i = 0; i < TARGET_AER_MAX; i++) {
		held[i] = bed_send(&b->admin, &aer);
		assert_false(held[i]->answered);
	}
	assert_int_equal(bed_exec(&b->admin, &aer, NULL), STATUS(NVME_SC_ASYNC_LIMIT));
	bed_queue_close(&b->admin);
	for (int i = 0; i < TARGET_AER_MAX; i++)
		assert_true(held[i]->answered);
	bed_destroy(b);
}

/* Each host that leaves gives some back: these are no errors of its. */
static void event_requests_that_waited_in_vain_are_no_errors(void **state)
{
	struct bed *b = bed_enabled();
	struct nvme_sqe aer = bed_sqe(NVME_ADMIN_ASYNC_EVENT, 0, 0);
	const struct target_counters *n = b->target.counters;
	const uint32_t cc = NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16;

	(void)state;
	(void)bed_send(&b->admin, &aer);
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC, cc), 0); /* a reset */
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC, cc | NVME_CC_EN), 0);
	for (int i = 0; i < TARGET_AER_MAX; i++)
		(void)bed_send(&b->admin, &aer);
	assert_int_equal(n->errors, 0);
	assert_int_equal(bed_exec(&b->admin, &aer, NULL), STATUS(NVME_SC_ASYNC_LIMIT));
	assert_int_equal(n->errors, 1);
	bed_queue_close(&b->admin);
	assert_int_equal(n->errors, 1);
	bed_destroy(b);
}

static void a_changed_namespace_is_told_once_until_the_log_is_read(void **state)
{
	struct bed *b = bed_enabled();
	struct nvme_sqe aer = bed_sqe(NVME_ADMIN_ASYNC_EVENT, 0, 0);
	struct nvme_sqe set = bed_sqe(NVME_ADMIN_SET_FEATURES, 0, 0);
	struct nvme_sqe log = bed_sqe(0, 0, 4096);
	struct nvme_get_log g = {.lid = NVME_LID_CHANGED_NS, .len = 4096};
	struct bed_cmd *first = bed_send(&b->admin, &aer), *second;

	(void)state;
	target_ns_changed(&b->ns, &b->subsys); /* the host did not ask to be told */
	assert_false(first->answered);
	set.cdw10 = NVME_FID_ASYNC_EVENT;
	set.cdw11 = NVME_OAES_NS_ATTR;
	assert_int_equal(bed_exec(&b->admin, &set, NULL), 0);
	target_ns_changed(&b->big, &b->subsys);
	assert_true(first->answered);
	assert_int_equal(first->cqe.result, NVME_AER_RESULT(NVME_AER_NOTICE, NVME_NOTICE_NS_CHANGED,
							    NVME_LID_CHANGED_NS));
	second = bed_send(&b->admin, &aer);
	target_ns_changed(&b->ns, &b->subsys);
	assert_false(second->answered);
	nvme_get_log_to_sqe(&g, &log);
	assert_int_equal(bed_exec(&b->admin, &log, NULL), 0);
	assert_int_equal(ld_le32(b->memory), 1);
	assert_int_equal(ld_le32(b->memory + 4), 5);
	assert_int_equal(ld_le32(b->memory + 8), 0);
	assert_int_equal(bed_exec(&b->admin, &log, NULL), 0);
	assert_int_equal(ld_le32(b->memory), 0); /* reading clears it */
	target_ns_changed(&b->ns, &b->subsys);
	assert_true(second->answered);
	bed_destroy(b);
}

static uint64_t abort_cmd(struct bed *b, uint16_t sqid, uint16_t cid)
{
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_ABORT, 0, 0);
	uint64_t result;

	s.cdw10 = sqid | (uint32_t)cid << 16;
	assert_int_equal(bed_exec(&b->admin, &s, &result), NVME_SC_SUCCESS);
	return result;
}

static void abort_finds_what_can_still_be_aborted(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe aer = bed_sqe(NVME_ADMIN_ASYNC_EVENT, 0, 0);
	struct nvme_sqe write = bed_sqe(NVME_IO_WRITE, 1, 512);
	struct bed_cmd *held = bed_send(&b->admin, &aer), *waiting, *busy;

	(void)state;
	assert_int_equal(abort_cmd(b, 0, 0xbeef), 1);
	assert_int_equal(abort_cmd(b, 9, 0), 1);
	assert_int_equal(abort_cmd(b, 0xffff, 0), 1);
	assert_int_equal(abort_cmd(b, 0, aer.cid), 0);
	assert_true(held->answered);
	assert_int_equal(PLAIN(held->cqe.status), NVME_SC_ABORT_REQ);
	b->io.hold_fetches = true;
	waiting = bed_send(&b->io, &write);
	assert_int_equal(abort_cmd(b, 1, write.cid), 0);
	assert_true(waiting->answered);
	assert_int_equal(PLAIN(waiting->cqe.status), NVME_SC_ABORT_REQ);
	b->io.hold_fetches = false;
	b->slow.hold = true;
	busy = bed_send(&b->io, &write); /* the store has it */
	assert_int_equal(abort_cmd(b, 1, write.cid), 1);
	assert_false(busy->answered);
	slow_release(b);
	assert_int_equal(PLAIN(busy->cqe.status), NVME_SC_SUCCESS);
	bed_destroy(b);
}

/* --- what is unknown or malformed ---------------------------------------------------------------
 */

static void unknown_commands_get_the_standard_status(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe s;

	(void)state;
	for (unsigned op = 0; op < 256; op++) {
		static const uint8_t admin_known[] = {0x02, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x18};
		static const uint8_t io_known[] = {0x00, 0x01, 0x02, 0x04, 0x05,
						   0x08, 0x09, 0x0c, 0x19};

		s = bed_sqe((uint8_t)op, 1, 0);
		if (op != NVME_FABRICS && !memchr(admin_known, (int)op, sizeof(admin_known)))
			assert_int_equal(bed_exec(&b->admin, &s, NULL),
					 STATUS(NVME_SC_INVALID_OPCODE));
		if (op != NVME_FABRICS && !memchr(io_known, (int)op, sizeof(io_known)))
			assert_int_equal(bed_exec(&b->io, &s, NULL),
					 STATUS(NVME_SC_INVALID_OPCODE));
	}
	for (unsigned type = 0; type < 256; type++) {
		s = bed_sqe(NVME_FABRICS, type, 0);
		if (type == NVMF_AUTH_SEND || type == NVMF_AUTH_RECV) /* test_target_auth.c */
			continue;
		if (type == NVMF_DISCONNECT) /* test_target_parting.c */
			continue;
		if (type != NVMF_CONNECT)
			assert_int_equal(bed_exec(&b->io, &s, NULL),
					 STATUS(NVME_SC_INVALID_OPCODE));
		if (type != NVMF_CONNECT && type != NVMF_PROPERTY_GET && type != NVMF_PROPERTY_SET)
			assert_int_equal(bed_exec(&b->admin, &s, NULL),
					 STATUS(NVME_SC_INVALID_OPCODE));
	}
	bed_destroy(b);
}

static void fused_commands_and_prps_are_refused(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe s = bed_sqe(NVME_IO_READ, 1, 512);

	(void)state;
	s.flags = NVME_SQE_PSDT_SGL | 1;
	assert_int_equal(bed_exec(&b->io, &s, NULL), STATUS(NVME_SC_INVALID_FIELD));
	s.flags = 0;
	assert_int_equal(bed_exec(&b->io, &s, NULL), STATUS(NVME_SC_INVALID_FIELD));
	s.flags = NVME_SQE_PSDT_SGL_META;
	assert_int_equal(bed_exec(&b->io, &s, NULL), STATUS(NVME_SC_INVALID_FIELD));
	bed_destroy(b);
}

static void a_capsule_too_short_for_a_command_ends_the_connection(void **state)
{
	struct bed *b = bed_with_io();
	struct bed_cmd *c = &b->io.cmds[0];
	uint8_t wire[NVME_SQE_LEN] = {0};

	(void)state;
	*c = (struct bed_cmd){.queue = &b->io, .busy = true};
	target_req_recv(&b->io.tq, &c->req, wire, 63, NULL, 0, b->now);
	assert_true(c->answered);
	assert_true(b->io.disconnect_asked);
	bed_destroy(b);
}

static void the_head_pointer_goes_round_unless_the_host_wants_none(void **state)
{
	struct bed *b = bed_with_io();
	struct nvme_sqe s = bed_sqe(NVME_IO_FLUSH, 1, 0);
	struct bed_connect a = bed_connect_args(2, 1);
	struct bed_cmd *c;

	(void)state;
	for (unsigned i = 0; i < 100; i++) { /* Connect was the first of 32 */
		c = bed_send(&b->io, &s);
		assert_int_equal(c->cqe.sqhd, (i + 2) % 32);
		bed_release(c);
	}
	bed_queue_open(b, &b->other, 2);
	a.co.cattr = NVMF_CATTR_NO_SQ_FLOW;
	assert_int_equal(bed_connect(&b->other, &a, NULL), 0);
	c = bed_send(&b->other, &s);
	assert_int_equal(c->cqe.sqhd, 0xffff);
	bed_release(c);
	bed_destroy(b);
}

/* --- many controllers ---------------------------------------------------------------------------
 */

/* Connects admin queues from one address until it is refused; how many went through. */
static unsigned connect_all(struct bed *b, struct bed_queue *queues, unsigned max, uint8_t peer,
			    const char *subnqn, uint16_t *ret_refusal)
{
	for (unsigned i = 0; i < max; i++) {
		struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);

		strcpy(a.data.subnqn, subnqn);
		a.data.hostid[0] = (uint8_t)i; /* it costs nothing to be another */
		a.data.hostid[1] = peer;
		bed_queue_open(b, &queues[i], 0);
		queues[i].tq.peer[0] = peer;
		*ret_refusal = bed_connect(&queues[i], &a, NULL);
		if (*ret_refusal) {
			bed_queue_close(&queues[i]);
			return i;
		}
	}
	return max;
}

static void close_all(struct bed_queue *queues, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		bed_queue_close(&queues[i]);
}

static void an_address_has_no_more_controllers_than_are_left(void **state)
{
	const unsigned max = TARGET_CTRLS_MAX + 1;
	struct bed_queue *q = calloc(max, sizeof(*q)), *other = calloc(max, sizeof(*other));
	struct bed_queue *disc = calloc(max, sizeof(*disc));
	struct bed *b = bed_create();
	unsigned n, m, d;
	uint16_t refusal;

	(void)state;
	assert_true(q && other && disc);
	n = connect_all(b, q, max, 1, BED_NQN, &refusal);
	assert_int_equal(n, TARGET_CTRLS_MAX / 2);
	assert_int_equal(refusal, NVME_SC_CONNECT_CTRL_BUSY);
	m = connect_all(b, other, max, 2, BED_NQN, &refusal);
	assert_int_equal(m, TARGET_CTRLS_MAX / 4);
	/* Those for discovery are counted apart. */
	d = connect_all(b, disc, max, 1, NVMF_DISCOVERY_NQN, &refusal);
	assert_int_equal(d, TARGET_DISCOVERY_HOST_MAX);
	assert_int_equal(refusal, NVME_SC_CONNECT_CTRL_BUSY);
	close_all(other, m);
	m = connect_all(b, other, max, 3, BED_NQN, &refusal);
	assert_int_equal(m, TARGET_CTRLS_MAX / 4);
	close_all(q, n);
	close_all(other, m);
	close_all(disc, d);
	bed_destroy(b);
	free(q);
	free(other);
	free(disc);
}

/* Whoever asks in vain costs the others next to nothing. */
static void a_subsystem_has_no_more_controllers_than_ids(void **state)
{
	enum { IDS = 1000 };
	struct bed_queue *q = calloc(IDS + 1, sizeof(*q));
	struct bed *b = bed_create();
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
	uint64_t begun, cntlid;
	uint16_t refusal, free_one;

	(void)state;
	assert_non_null(q);
	b->subsys.cntlid_min = 500;
	b->subsys.cntlid_max = 500 + IDS - 1;
	assert_int_equal(connect_all(b, q, IDS + 1, 1, BED_NQN, &refusal), IDS);
	assert_int_equal(refusal, NVME_SC_CONNECT_CTRL_BUSY);
	bed_queue_open(b, &q[IDS], 0);
	begun = time_now_ns();
	for (int i = 0; i < IDS; i++)
		assert_int_equal(bed_connect(&q[IDS], &a, NULL), NVME_SC_CONNECT_CTRL_BUSY);
	assert_true(time_now_ns() - begun < 3 * NSEC_PER_SEC);
	free_one = q[700].tq.ctrl->cntlid;
	bed_queue_close(&q[700]);
	assert_int_equal(bed_connect(&q[IDS], &a, &cntlid), NVME_SC_SUCCESS);
	assert_int_equal(cntlid, free_one);
	close_all(q, IDS + 1);
	bed_destroy(b);
	free(q);
}

/* The flush of a normal shutdown goes on when the host has gone; a store may take for ever. */
static void controllers_that_still_flush_are_their_hosts(void **state)
{
	struct bed_connect other = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
	struct bed_queue *q = calloc(1, sizeof(*q));
	struct bed *b = bed_create();
	unsigned n = 0;

	(void)state;
	assert_non_null(q);
	b->slow.hold = true;
	for (; n <= TARGET_CTRLS_MAX; n++) {
		struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
		uint32_t cc = NVME_CC_EN | NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16;

		bed_queue_open(b, q, 0);
		q->tq.peer[0] = 1;
		if (bed_connect(q, &a, NULL))
			break;
		assert_int_equal(bed_property_set(q, NVME_PROP_CC, cc), 0);
		q->tq.ctrl->written_ns[0] = 1; /* as if it had an I/O queue */
		assert_int_equal(bed_property_set(q, NVME_PROP_CC, cc | NVME_CC_SHN_NORMAL), 0);
		bed_queue_close(q);
	}
	bed_queue_close(q);
	assert_int_equal(n, TARGET_CTRLS_MAX / 2);
	assert_int_equal(b->slow.count, n);
	bed_queue_open(b, q, 0);
	q->tq.peer[0] = 2;
	assert_int_equal(bed_connect(q, &other, NULL), NVME_SC_SUCCESS);
	bed_queue_close(q);
	slow_release(b);
	assert_int_equal(b->target.ctrl_count, 0);
	bed_destroy(b);
	free(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connect_that_is_wrong_names_the_wrong_field),
		cmocka_unit_test(a_second_connect_is_out_of_sequence),
		cmocka_unit_test(only_hosts_on_the_list_may_connect),
		cmocka_unit_test(a_host_without_a_name_comes_where_any_may),
		cmocka_unit_test(an_io_queue_must_fit_its_controller),
		cmocka_unit_test(after_a_refused_connect_a_queue_is_what_it_was),
		cmocka_unit_test(an_io_queue_before_enable_is_refused),
		cmocka_unit_test(before_connect_and_enable_commands_are_out_of_sequence),
		cmocka_unit_test(a_connection_that_never_connects_is_ended),
		cmocka_unit_test(properties_say_what_the_controller_is),
		cmocka_unit_test(a_configuration_nobody_can_meet_is_fatal),
		cmocka_unit_test(a_reset_ends_io_queues_and_keeps_the_admin_queue),
		cmocka_unit_test(a_normal_shutdown_is_complete_when_all_is_flushed),
		cmocka_unit_test(a_normal_shutdown_is_not_complete_when_a_flush_fails),
		cmocka_unit_test(what_a_flush_lost_is_not_forgotten_with_its_namespace),
		cmocka_unit_test(a_normal_shutdown_is_not_complete_after_a_flush_that_failed),
		cmocka_unit_test(a_flush_that_may_be_tried_again_says_nothing_of_data),
		cmocka_unit_test(who_waits_for_no_flush_is_not_told_of_it),
		cmocka_unit_test(an_abrupt_shutdown_waits_for_nothing),
		cmocka_unit_test(a_connection_lost_during_shutdown_leaves_nothing_behind),
		cmocka_unit_test(a_silent_host_loses_its_controller),
		cmocka_unit_test(who_was_not_listened_to_is_not_silent),
		cmocka_unit_test(keep_alive_and_traffic_keep_a_controller),
		cmocka_unit_test(the_keep_alive_timeout_is_a_feature),
		cmocka_unit_test(four_event_requests_are_held_and_a_fifth_refused),
		cmocka_unit_test(event_requests_that_waited_in_vain_are_no_errors),
		cmocka_unit_test(a_changed_namespace_is_told_once_until_the_log_is_read),
		cmocka_unit_test(abort_finds_what_can_still_be_aborted),
		cmocka_unit_test(unknown_commands_get_the_standard_status),
		cmocka_unit_test(fused_commands_and_prps_are_refused),
		cmocka_unit_test(a_capsule_too_short_for_a_command_ends_the_connection),
		cmocka_unit_test(the_head_pointer_goes_round_unless_the_host_wants_none),
		cmocka_unit_test(an_address_has_no_more_controllers_than_are_left),
		cmocka_unit_test(a_subsystem_has_no_more_controllers_than_ids),
		cmocka_unit_test(controllers_that_still_flush_are_their_hosts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
