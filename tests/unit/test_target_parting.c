/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Disconnect: an I/O queue that ends by a command. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "target_bed.h"

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

static struct nvme_sqe parting(void)
{
	return bed_sqe(NVME_FABRICS, NVMF_DISCONNECT, 0);
}

static struct bed_cmd *send_rw(struct bed_queue *q, uint8_t opcode, uint8_t fuse)
{
	struct nvme_sqe s = bed_sqe(opcode, 1, 512);

	s.flags |= fuse;
	nvme_rw_set(&s, 0, 1, 0);
	return bed_send(q, &s);
}

static uint16_t status_of(struct bed_cmd *c)
{
	assert_true(c->answered);
	bed_release(c);
	return PLAIN(c->cqe.status);
}

static uint16_t connect_again(struct bed_queue *q)
{
	struct bed_connect a = bed_connect_args(1, 1);

	bed_queue_open(bed, q, 1);
	return bed_connect(q, &a, NULL);
}

static void the_queue_is_gone_and_its_id_is_free(void **state)
{
	struct nvme_sqe s = parting();

	(void)state;
	assert_int_equal(connect_again(&bed->other), STATUS(NVME_SC_CMD_SEQ_ERROR));
	bed_queue_close(&bed->other);
	assert_int_equal(bed_exec(&bed->io, &s, NULL), 0);
	assert_int_equal(status_of(send_rw(&bed->io, NVME_IO_READ, 0)),
			 STATUS(NVME_SC_CMD_SEQ_ERROR));
	assert_int_equal(bed_exec(&bed->io, &s, NULL), STATUS(NVME_SC_CMD_SEQ_ERROR));
	assert_int_equal(connect_again(&bed->other), 0);
	assert_int_equal(status_of(send_rw(&bed->other, NVME_IO_READ, 0)), 0);
	/* The host ends the connection, or in a moment the target does. */
	assert_false(bed->io.disconnect_asked);
	bed->now += 2 * NSEC_PER_SEC;
	target_tick(&bed->target, bed->now);
	assert_true(bed->io.disconnect_asked);
	assert_int_equal(bed->io.tq.why[0], 0);
	assert_false(bed->other.disconnect_asked || bed->admin.disconnect_asked);
}

static void its_other_commands_end_before(void **state)
{
	struct nvme_sqe s = parting();
	struct bed_cmd *in_store, *read, *in_fetch, *first, *c;

	(void)state;
	bed->slow.hold = true;
	in_store = send_rw(&bed->io, NVME_IO_WRITE, 0);
	read = send_rw(&bed->io, NVME_IO_READ, 0);
	bed->io.hold_fetches = true;
	in_fetch = send_rw(&bed->io, NVME_IO_WRITE, 0);
	first = send_rw(&bed->io, NVME_IO_COMPARE, NVME_SQE_FUSE_FIRST);
	c = bed_send(&bed->io, &s);
	assert_int_equal(status_of(in_fetch), NVME_SC_ABORT_QUEUE);
	assert_true(first->answered);
	bed_release(first);
	assert_false(in_store->answered || read->answered || c->answered);
	assert_int_equal(connect_again(&bed->other), STATUS(NVME_SC_CMD_SEQ_ERROR));
	bed_queue_close(&bed->other);
	slow_release(bed);
	assert_int_equal(status_of(in_store), 0); /* it is written, and so it is said */
	assert_int_equal(status_of(read), NVME_SC_ABORT_QUEUE);
	assert_int_equal(status_of(c), 0);
	assert_int_equal(connect_again(&bed->other), 0);
}

static void what_waits_in_the_store_ends_at_once(void **state)
{
	struct nvme_sqe s = parting();
	struct bed_cmd *in_store[4];

	(void)state;
	bed->slow.hold = bed->slow.cancels = true;
	for (int i = 0; i < 4; i++)
		in_store[i] = send_rw(&bed->io, NVME_IO_READ, 0);
	assert_int_equal(bed_exec(&bed->io, &s, NULL), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(status_of(in_store[i]), NVME_SC_ABORT_QUEUE);
}

static void it_is_for_io_queues_alone(void **state)
{
	struct nvme_sqe s = parting(), id = bed_sqe(NVME_ADMIN_IDENTIFY, 0, NVME_IDENTIFY_LEN);
	struct cursor c = cursor_init(bed->memory, NVME_IDENTIFY_LEN);
	struct nvme_id_ctrl ctrl;

	(void)state;
	assert_int_equal(bed_exec(&bed->admin, &s, NULL), STATUS(NVME_SC_DISCONNECT_INVALID_QTYPE));
	s.cdw10 = 1; /* a record format that is none */
	assert_int_equal(bed_exec(&bed->io, &s, NULL), STATUS(NVME_SC_CONNECT_FORMAT));
	s.cdw10 = 0;
	bed_queue_open(bed, &bed->other, 2);
	assert_int_equal(bed_exec(&bed->other, &s, NULL), STATUS(NVME_SC_CMD_SEQ_ERROR));
	id.cdw10 = NVME_CNS_CTRL;
	assert_int_equal(bed_exec(&bed->admin, &id, NULL), 0);
	nvme_id_ctrl_get(&c, &ctrl);
	assert_int_equal(ctrl.ofcs, NVME_OFCS_DISCONNECT);
	assert_int_equal(status_of(send_rw(&bed->io, NVME_IO_READ, 0)), 0);
}

/* Before and after it is answered, by either side, the controller first or last. */
static void whatever_ends_meanwhile_leaves_nothing(void **state)
{
	(void)state;
	for (unsigned how = 0; how < 8; how++) {
		struct nvme_sqe s = parting();
		struct bed_cmd *w;

		if (how) {
			bed_destroy(bed);
			bed = bed_with_io();
		}
		bed->slow.hold = how & 1;
		w = send_rw(&bed->io, NVME_IO_WRITE, 0);
		(void)bed_send(&bed->io, &s);
		if (how & 2)
			bed_queue_close(how & 4 ? &bed->admin : &bed->io);
		if (how & 4)
			assert_int_equal(bed->admin.tq.disconnected ||
						 bed_property_set(&bed->admin, NVME_PROP_CC, 0) ==
							 0,
					 true);
		slow_release(bed);
		assert_true(w->answered);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(the_queue_is_gone_and_its_id_is_free),   TEST(its_other_commands_end_before),
		TEST(what_waits_in_the_store_ends_at_once),   TEST(it_is_for_io_queues_alone),
		TEST(whatever_ends_meanwhile_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
