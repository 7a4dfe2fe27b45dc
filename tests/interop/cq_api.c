/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Completion queues by their contract: moderation, times of completions and the clock they are of;
 * and static rates, which that clock measures.
 * A plain verbs program; one queue pair of the first device talks to itself.
 */
#include "first_device.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct bed {
	struct lone_qp lone;
	struct ibv_cq_ex *cq;
	uint8_t buf[4096];
} bed;

static int open_bed(void **state)
{
	struct ibv_cq_init_attr_ex cq = {
		.cqe = 64,
		.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK | IBV_WC_EX_WITH_CVLAN,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
	};
	struct ibv_qp_init_attr qp = {
		.cap = {.max_send_wr = 32, .max_recv_wr = 32, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	(void)state;
	lone_qp_open(&bed.lone, bed.buf, sizeof(bed.buf), IBV_ACCESS_LOCAL_WRITE);
	cq.channel = bed.lone.channel;
	bed.cq = ibv_create_cq_ex(bed.lone.ctx, &cq);
	assert_non_null(bed.cq);
	qp.send_cq = qp.recv_cq = bed.lone.cq = ibv_cq_ex_to_cq(bed.cq);
	bed.lone.qp = ibv_create_qp(bed.lone.pd, &qp);
	assert_non_null(bed.lone.qp);
	bring_up(bed.lone.qp, bed.lone.qp->qp_num, to_itself(bed.lone.ctx), 0, IBV_QPS_RTS);
	return 0;
}

static int close_bed(void **state)
{
	(void)state;
	lone_qp_close(&bed.lone);
	return 0;
}

/* A message to itself: unsignaled, so that it is one completion, of the receive. */
static void message(void)
{
	struct ibv_sge sge = {(uintptr_t)bed.buf, 8, bed.lone.mr->lkey};
	struct ibv_recv_wr recv = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad_send;

	assert_int_equal(ibv_post_recv(bed.lone.qp, &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(bed.lone.qp, &send, &bad_send), 0);
}

/* This thread's next sched_yield(), which is before the C library's, takes until one has come. */
static _Thread_local bool comes_meanwhile;
static int event_within(int ms);

__attribute__((visibility("default"))) int sched_yield(void)
{
	if (comes_meanwhile) {
		comes_meanwhile = false;
		message();
		assert_true(event_within(5000));
	}
	return (int)syscall(SYS_sched_yield);
}

static int moderate(uint16_t count, uint16_t period_us)
{
	struct ibv_modify_cq_attr a = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = {.cq_count = count, .cq_period = period_us},
	};

	return ibv_modify_cq(bed.lone.cq, &a);
}

static int event_within(int ms)
{
	struct pollfd p = {.fd = bed.lone.channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;

	if (poll(&p, 1, ms) != 1)
		return 0;
	assert_int_equal(ibv_get_cq_event(bed.lone.channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	return 1;
}

static void poll_one(void)
{
	struct ibv_poll_cq_attr none = {0};
	time_t end = time(NULL) + 10;

	while (ibv_start_poll(bed.cq, &none))
		assert_true(time(NULL) < end);
	assert_int_equal(bed.cq->status, IBV_WC_SUCCESS);
}

static void drain(int count)
{
	for (int i = 0; i < count; i++) {
		poll_one();
		ibv_end_poll(bed.cq);
	}
}

static void arm(void)
{
	assert_int_equal(ibv_req_notify_cq(bed.lone.cq, 0), 0);
}

static uint64_t raw_clock(void)
{
	struct ibv_values_ex v = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	assert_int_equal(ibv_query_rt_values_ex(bed.lone.ctx, &v), 0);
	assert_int_equal(v.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	return (uint64_t)v.raw_clock.tv_sec * 1000000000 + (uint64_t)v.raw_clock.tv_nsec;
}

static void events_wait_for_the_count_or_the_period(void **state)
{
	struct ibv_modify_cq_attr bad = {.attr_mask = 2};
	uint64_t began;

	(void)state;
	assert_int_equal(ibv_modify_cq(bed.lone.cq, &bad), EOPNOTSUPP);
	/* The longest period: 65 ms. */
	assert_int_equal(moderate(4, UINT16_MAX), 0);
	arm();
	for (int i = 0; i < 4; i++)
		message();
	assert_true(event_within(10000));
	drain(4);
	/* One alone is told of in the end, by nobody but the clock. */
	arm();
	began = raw_clock();
	message();
	assert_true(event_within(10000));
	assert_true(raw_clock() - began >= UINT16_MAX * 1000ull);
	/* The fourth does not wait for a clock that stands. */
	assert_int_equal(moderate(0, 0), 0);
	arm();
	message();
	assert_true(event_within(10000));
	assert_false(event_within(0));
	drain(2);
}

/* As with mlx5; a program that drains first and one that does not both go on. */
static void arming_tells_of_completions_that_are_there(void **state)
{
	(void)state;
	message();
	drain(1);
	message();
	message();
	assert_false(event_within(100)); /* not armed; both are there by then */
	arm();
	assert_true(event_within(10000));
	assert_false(event_within(0));
	drain(1);
	arm(); /* one is left */
	assert_true(event_within(10000));
	drain(1);
	arm();
	assert_false(event_within(100));
	message();
	assert_true(event_within(10000));
	arm(); /* before it is polled: it was told of */
	assert_false(event_within(100));
	drain(1);
}

/* A program that finds no completion looks for events next: what came before them must be told. */
static void none_is_the_answer_of_the_moment_only(void **state)
{
	struct ibv_poll_cq_attr none = {0};
	time_t end = time(NULL) + 10;
	int rc;

	(void)state;
	arm();
	comes_meanwhile = true;
	do {
		rc = ibv_start_poll(bed.cq, &none);
		assert_true(time(NULL) < end);
	} while (comes_meanwhile);
	assert_int_equal(rc, 0);
	ibv_end_poll(bed.cq);
}

static void completions_are_stamped_by_the_devices_clock(void **state)
{
	struct ibv_values_ex unknown = {.comp_mask = 2};
	struct ibv_device_attr_ex a;
	uint64_t last = raw_clock(), began = (uint64_t)time(NULL);

	(void)state;
	assert_int_equal(ibv_query_device_ex(bed.lone.ctx, NULL, &a), 0);
	assert_int_equal(a.hca_core_clock, 1000000); /* kHz: nanoseconds */
	assert_int_equal(a.completion_timestamp_mask, UINT64_MAX);
	assert_int_equal(a.cq_mod_caps.max_cq_count, UINT16_MAX);
	assert_int_equal(ibv_query_rt_values_ex(bed.lone.ctx, &unknown), EINVAL);
	for (int i = 0; i < 5; i++) {
		uint64_t ts, wall;

		message();
		poll_one();
		ts = ibv_wc_read_completion_ts(bed.cq);
		wall = ibv_wc_read_completion_wallclock_ns(bed.cq) / 1000000000;
		assert_int_equal(ibv_wc_read_cvlan(bed.cq), 0);
		ibv_end_poll(bed.cq);
		assert_true(ts >= last);
		last = raw_clock();
		assert_true(ts <= last);
		assert_true(wall + 1 >= began && wall <= (uint64_t)time(NULL) + 1);
	}
}

static void a_static_rate_is_kept_to_and_told(void **state)
{
	enum { LEN = 8 << 20, BURST = 64 << 10, BYTES_PER_MS = 312500 };
	struct ibv_qp_init_attr init = {
		.send_cq = bed.lone.cq,
		.recv_cq = bed.lone.cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct ibv_ah_attr ah = to_itself(bed.lone.ctx);
	uint8_t *from = calloc(1, LEN), *to = calloc(1, LEN);
	struct ibv_mr *from_mr = ibv_reg_mr(bed.lone.pd, from, LEN, 0);
	struct ibv_mr *to_mr =
		ibv_reg_mr(bed.lone.pd, to, LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct ibv_qp *qp = ibv_create_qp(bed.lone.pd, &init);
	struct ibv_sge sge = {(uintptr_t)from, LEN, from_mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
	struct ibv_qp_attr attr;
	uint64_t began;

	(void)state;
	ah.static_rate = IBV_RATE_2_5_GBPS;
	bring_up(qp, qp->qp_num, ah, IBV_ACCESS_REMOTE_WRITE, IBV_QPS_RTS);
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_AV, &init), 0);
	assert_int_equal(attr.ah_attr.static_rate, IBV_RATE_2_5_GBPS);
	memset(from, 7, LEN);
	wr.wr.rdma.remote_addr = (uintptr_t)to;
	wr.wr.rdma.rkey = to_mr->rkey;
	began = raw_clock();
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	poll_one();
	ibv_end_poll(bed.cq);
	assert_true((raw_clock() - began) / 1000000 >= (LEN - BURST) / BYTES_PER_MS);
	assert_memory_equal(from, to, LEN);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dereg_mr(from_mr), 0);
	assert_int_equal(ibv_dereg_mr(to_mr), 0);
	free(from);
	free(to);
}

static void what_a_cq_does_not_have_is_refused(void **state)
{
	static const uint64_t fields[] = {IBV_WC_EX_WITH_FLOW_TAG, IBV_WC_EX_WITH_TM_INFO};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct ibv_cq_init_attr_ex a = {.cqe = 1, .wc_flags = fields[i]};

		assert_null(ibv_create_cq_ex(bed.lone.ctx, &a));
		assert_int_equal(errno, EOPNOTSUPP);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_wait_for_the_count_or_the_period),
		cmocka_unit_test(arming_tells_of_completions_that_are_there),
		cmocka_unit_test(none_is_the_answer_of_the_moment_only),
		cmocka_unit_test(completions_are_stamped_by_the_devices_clock),
		cmocka_unit_test(a_static_rate_is_kept_to_and_told),
		cmocka_unit_test(what_a_cq_does_not_have_is_refused),
	};

	return cmocka_run_group_tests(tests, open_bed, close_bed);
}
