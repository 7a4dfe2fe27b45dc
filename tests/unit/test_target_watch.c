/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is told of stores that fail commands, or keep them. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>

#include "target_bed.h"

static struct bed_cmd *send_rw(struct bed *b, uint8_t opcode)
{
	struct nvme_sqe s = bed_sqe(opcode, 1, 512);

	nvme_rw_set(&s, 0, 1, 0);
	return bed_send(&b->io, &s);
}

static void watch_after(struct bed *b, uint64_t ns)
{
	b->now += ns;
	target_tick(&b->target, b->now);
	target_group_watch(&b->target.group, b->now);
}

static void what_a_store_fails_is_told_with_what_and_why(void **state)
{
	struct bed *b = bed_with_io();
	struct bed_cmd *c;

	(void)state;
	b->slow.fail = -ENOSPC;
	c = send_rw(b, NVME_IO_WRITE);
	assert_int_equal(PLAIN(c->cqe.status), STATUS(NVME_SC_CAP_EXCEEDED));
	assert_int_equal(b->store_failed, 1);
	assert_ptr_equal(b->of_store.ns, &b->ns);
	assert_int_equal(b->of_store.nsid, 1);
	assert_int_equal(b->of_store.opcode, STORE_WRITE);
	assert_int_equal(b->of_store.error, -ENOSPC);
	assert_int_equal(b->target.counters->store_errors, 1);
	bed_release(c);
	/* What a host may not ask for is no store's fault. */
	b->slow.fail = 0;
	c = send_rw(b, 0x7f);
	assert_true(c->answered && c->cqe.status);
	assert_int_equal(b->store_failed, 1);
	bed_release(c);
	bed_destroy(b);
}

static void a_command_that_a_store_keeps_is_told_once_and_when_it_comes_back(void **state)
{
	struct bed *b = bed_with_io();
	struct bed_cmd *read, *write;

	(void)state;
	watch_after(b, 100 * NSEC_PER_SEC);
	b->slow.hold = true;
	read = send_rw(b, NVME_IO_READ);
	b->now += 2 * NSEC_PER_SEC;
	write = send_rw(b, NVME_IO_WRITE);
	watch_after(b, TARGET_STALL_NS - 2 * NSEC_PER_SEC - 1);
	assert_int_equal(b->stalled, 0);
	watch_after(b, 1);
	assert_int_equal(b->stalled, 1);
	assert_int_equal(b->of_store.opcode, STORE_READ);
	assert_int_equal(b->of_store.waited_ns, TARGET_STALL_NS);
	watch_after(b, NSEC_PER_SEC);
	assert_int_equal(b->stalled, 1);
	watch_after(b, NSEC_PER_SEC);
	assert_int_equal(b->stalled, 2);
	assert_int_equal(b->of_store.opcode, STORE_WRITE);
	assert_int_equal(b->stalls_over, 0);
	watch_after(b, NSEC_PER_SEC);
	slow_release(b);
	assert_int_equal(b->stalls_over, 2);
	assert_int_equal(b->of_store.waited_ns, TARGET_STALL_NS + NSEC_PER_SEC);
	assert_int_equal(read->cqe.status, 0);
	assert_int_equal(write->cqe.status, 0);
	assert_int_equal(b->target.counters->stalls_over, 2);
	bed_release(read);
	bed_release(write);
	bed_destroy(b);
}

/* A target with one command and a disk that keeps it has nothing to do that would move its time. */
static void a_stall_is_told_as_long_as_it_is_though_nothing_else_happens(void **state)
{
	struct bed *b = bed_with_io();

	(void)state;
	b->slow.hold = true;
	send_rw(b, NVME_IO_READ);
	b->now += TARGET_STALL_NS + NSEC_PER_SEC;
	target_group_watch(&b->target.group, b->now);
	assert_int_equal(b->stalled, 1);
	assert_int_equal(b->of_store.waited_ns, TARGET_STALL_NS + NSEC_PER_SEC);
	b->now += NSEC_PER_SEC;
	target_group_watch(&b->target.group, b->now);
	slow_release(b);
	assert_int_equal(b->stalls_over, 1);
	assert_int_equal(b->of_store.waited_ns, TARGET_STALL_NS + 2 * NSEC_PER_SEC);
	bed_destroy(b);
}

static void the_end_of_a_stall_is_told_though_its_host_has_gone(void **state)
{
	struct bed *b = bed_with_io();
	struct bed_cmd *c;

	(void)state;
	b->slow.hold = true;
	c = send_rw(b, NVME_IO_WRITE);
	watch_after(b, TARGET_STALL_NS);
	assert_int_equal(b->stalled, 1);
	bed_queue_close(&b->io);
	bed_queue_close(&b->admin);
	slow_release(b);
	assert_true(c->answered);
	assert_int_equal(b->stalls_over, 1);
	assert_null(b->of_store.ctrl);
	bed_destroy(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_store_fails_is_told_with_what_and_why),
		cmocka_unit_test(a_command_that_a_store_keeps_is_told_once_and_when_it_comes_back),
		cmocka_unit_test(a_stall_is_told_as_long_as_it_is_though_nothing_else_happens),
		cmocka_unit_test(the_end_of_a_stall_is_told_though_its_host_has_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
