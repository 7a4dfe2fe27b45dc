/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Programs and threads that end in the midst of a call, as programs do: exit() in the handler of a
 * signal, and threads that another one cancels (rping ends its threads so). No call of verbs is a
 * point of cancellation but those that wait. And children that end, and destroy what they
 * inherited; and queue pairs that end. A plain verbs program; one queue pair of the first device
 * talks to itself.
 */
#include "first_device.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct bed {
	struct lone_qp lone;
	uint8_t buf[64];
} bed;

static int open_bed(void **state)
{
	struct ibv_qp_init_attr qp = {
		.cap = {.max_send_wr = 32, .max_recv_wr = 32, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	(void)state;
	lone_qp_open(&bed.lone, bed.buf, sizeof(bed.buf), IBV_ACCESS_LOCAL_WRITE);
	bed.lone.cq = ibv_create_cq(bed.lone.ctx, 64, NULL, bed.lone.channel, 0);
	assert_non_null(bed.lone.cq);
	qp.send_cq = qp.recv_cq = bed.lone.cq;
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

/* A message to itself: two completions. */
static void message(void)
{
	struct ibv_sge sge = {(uintptr_t)bed.buf, 8, bed.lone.mr->lkey};
	struct ibv_recv_wr recv = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.sg_list = &sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED},
			   *bad_send;

	if (ibv_post_recv(bed.lone.qp, &recv, &bad_recv) ||
	    ibv_post_send(bed.lone.qp, &send, &bad_send))
		abort();
}

/* ---- signals --------------------------------------------------------------------------------- */

static void leave(int sig)
{
	(void)sig;
	exit(0);
}

/* Polls until a signal comes, most of the time within the library. */
static void __attribute__((noreturn)) poll_until_signal(void)
{
	struct itimerval soon = {.it_value = {.tv_usec = 20000}};
	struct ibv_context *ctx = first_device();
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	struct ibv_wc wc;

	if (!cq || signal(SIGALRM, leave) == SIG_ERR || setitimer(ITIMER_REAL, &soon, NULL))
		_exit(1);
	for (;;)
		if (ibv_poll_cq(cq, 1, &wc))
			_exit(2);
}

static void a_program_that_exits_in_a_signal_handler_is_gone(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++) {
		pid_t pid = fork();
		time_t end = time(NULL) + 10;
		int status;
		pid_t got;

		assert_true(pid >= 0);
		if (pid == 0)
			poll_until_signal();
		while (!(got = waitpid(pid, &status, WNOHANG)) && time(NULL) < end)
			usleep(1000);
		if (!got) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			fail_msg("it hangs in exit()");
		}
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

/* ---- cancellation ---------------------------------------------------------------------------- */

static void *cancelled_in_the_fast_path(void *ret)
{
	time_t end = time(NULL) + 10;

	pthread_cancel(pthread_self()); /* comes true at the next point of cancellation */
	for (int i = 0; i < 200 && time(NULL) < end; i++) {
		struct ibv_wc wc[2];
		int got = 0;

		if (ibv_req_notify_cq(bed.lone.cq, 0))
			abort();
		message();
		while (got < 2 && time(NULL) < end)
			got += ibv_poll_cq(bed.lone.cq, 2 - got, wc);
	}
	*(int *)ret = 2;
	pthread_testcancel();
	return ret;
}

static void *cancelled_while_it_asks_the_broker(void *ret)
{
	struct ibv_port_attr a;

	pthread_cancel(pthread_self());
	if (ibv_query_port(bed.lone.ctx, 1, &a))
		abort();
	*(int *)ret = 2;
	pthread_testcancel();
	return ret;
}

static void *cancelled_while_it_opens(void *ret)
{
	struct ibv_context *c;

	pthread_cancel(pthread_self());
	c = ibv_open_device(bed.lone.ctx->device);
	if (!c || ibv_close_device(c))
		abort();
	*(int *)ret = 2;
	pthread_testcancel();
	return ret;
}

static void run_cancelled(void *(*fn)(void *))
{
	int progress = 0;
	void *result;
	pthread_t t;

	alarm(30); /* who finds a lock that nobody will open waits for ever */
	assert_int_equal(pthread_create(&t, NULL, fn, &progress), 0);
	assert_int_equal(pthread_join(t, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_int_equal(progress, 2);
	alarm(0);
}

static void posting_and_polling_are_no_points_of_cancellation(void **state)
{
	struct ibv_cq *cq;
	void *context;

	(void)state;
	run_cancelled(cancelled_in_the_fast_path);
	/* What it was armed for came, and nobody has taken it. */
	for (int i = 0; i < 200; i++) {
		assert_int_equal(ibv_get_cq_event(bed.lone.channel, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
	}
}

static void asking_the_broker_is_no_point_of_cancellation(void **state)
{
	struct ibv_port_attr a;

	(void)state;
	run_cancelled(cancelled_while_it_asks_the_broker);
	assert_int_equal(ibv_query_port(bed.lone.ctx, 1, &a), 0);
}

static void opening_is_no_point_of_cancellation(void **state)
{
	struct ibv_context *c;

	(void)state;
	run_cancelled(cancelled_while_it_opens);
	c = ibv_open_device(bed.lone.ctx->device);
	assert_non_null(c);
	assert_int_equal(ibv_close_device(c), 0);
}

/* ---- forks ----------------------------------------------------------------------------------- */

/* The channel's descriptor is the same open file in both. */
static void expect_event_after(int (*child)(void))
{
	struct pollfd p = {.fd = bed.lone.channel->fd, .events = POLLIN};
	struct ibv_wc wc[2];
	struct ibv_cq *cq;
	int status, got = 0;
	void *context;
	pid_t pid;

	assert_int_equal(ibv_req_notify_cq(bed.lone.cq, 0), 0);
	message();
	while (got < 2)
		got += ibv_poll_cq(bed.lone.cq, 2 - got, wc);
	assert_int_equal(poll(&p, 1, 10000), 1);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_int_equal(ibv_get_cq_event(bed.lone.channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
}

static int destroy_what_is_inherited(void)
{
	return ibv_destroy_qp(bed.lone.qp) || ibv_destroy_cq(bed.lone.cq);
}

static int ask_for_an_event(void)
{
	struct ibv_cq *cq;
	void *context;

	alarm(30);
	return !ibv_get_cq_event(bed.lone.channel, &cq, &context) || errno != EIO;
}

static void a_child_leaves_its_parents_events_alone(void **state)
{
	(void)state;
	expect_event_after(destroy_what_is_inherited);
	expect_event_after(ask_for_an_event);
}

/* Events are acknowledged by many, and what a parent has yet to acknowledge its child cannot. */
static void a_child_does_not_wait_for_what_its_parent_has_taken(void **state)
{
	struct ibv_wc wc[2];
	struct ibv_cq *cq;
	void *context;
	int status, got = 0;
	pid_t pid;

	(void)state;
	assert_int_equal(ibv_req_notify_cq(bed.lone.cq, 0), 0);
	message();
	while (got < 2)
		got += ibv_poll_cq(bed.lone.cq, 2 - got, wc);
	assert_int_equal(ibv_get_cq_event(bed.lone.channel, &cq, &context), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(10);
		_exit(destroy_what_is_inherited());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	ibv_ack_cq_events(cq, 1);
}

/* ---- queue pairs ----------------------------------------------------------------------------- */

/* The peer's completion says that it has it, and so must the sender's. */
static void what_the_peer_has_is_sent_though_the_queue_pair_ends(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_wc wc;

	(void)state;
	for (int i = 0; i < 200; i++) {
		message();
		wc = next_wc(bed.lone.cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		attr.qp_state = IBV_QPS_ERR;
		assert_int_equal(ibv_modify_qp(bed.lone.qp, &attr, IBV_QP_STATE), 0);
		wc = next_wc(bed.lone.cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		attr.qp_state = IBV_QPS_RESET;
		assert_int_equal(ibv_modify_qp(bed.lone.qp, &attr, IBV_QP_STATE), 0);
		bring_up(bed.lone.qp, bed.lone.qp->qp_num, to_itself(bed.lone.ctx), 0, IBV_QPS_RTS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_that_exits_in_a_signal_handler_is_gone),
		cmocka_unit_test_setup_teardown(posting_and_polling_are_no_points_of_cancellation,
						open_bed, close_bed),
		cmocka_unit_test_setup_teardown(a_child_leaves_its_parents_events_alone, open_bed,
						close_bed),
		cmocka_unit_test_setup_teardown(a_child_does_not_wait_for_what_its_parent_has_taken,
						open_bed, close_bed),
		cmocka_unit_test_setup_teardown(asking_the_broker_is_no_point_of_cancellation,
						open_bed, close_bed),
		cmocka_unit_test_setup_teardown(opening_is_no_point_of_cancellation, open_bed,
						close_bed),
		cmocka_unit_test_setup_teardown(
			what_the_peer_has_is_sent_though_the_queue_pair_ends, open_bed, close_bed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
