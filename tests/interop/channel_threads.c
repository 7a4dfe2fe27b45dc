/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Who waits in ibv_get_cq_event(), and what wakes it: messages, events that another thread brings
 * about, signals, cancellation.
 * A plain verbs program; queue pairs of the first device talk to themselves.
 */
#include "first_device.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../skip.h"

enum { SIDES = 2, ROUNDS = 500, LIMIT_S = 60 };

static struct lone_qp side[SIDES];
static struct ibv_cq *sent[SIDES]; /* without a channel */
static uint8_t buf[64];

static int open_sides(void **state)
{
	(void)state;
	for (int i = 0; i < SIDES; i++) {
		struct lone_qp *l = &side[i];
		struct ibv_qp_init_attr qp = {
			.cap = {.max_send_wr = 32,
				.max_recv_wr = 32,
				.max_send_sge = 1,
				.max_recv_sge = 1},
			.qp_type = IBV_QPT_RC,
		};

		lone_qp_open(l, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
		l->cq = ibv_create_cq(l->ctx, 64, NULL, l->channel, 0);
		assert_non_null(l->cq);
		qp.send_cq = sent[i] = ibv_create_cq(l->ctx, 64, NULL, NULL, 0);
		assert_non_null(sent[i]);
		qp.recv_cq = l->cq;
		l->qp = ibv_create_qp(l->pd, &qp);
		assert_non_null(l->qp);
		bring_up(l->qp, l->qp->qp_num, to_itself(l->ctx), 0, IBV_QPS_RTS);
	}
	return 0;
}

static int close_sides(void **state)
{
	(void)state;
	for (int i = 0; i < SIDES; i++) {
		assert_int_equal(ibv_destroy_qp(side[i].qp), 0);
		assert_int_equal(ibv_destroy_cq(sent[i]), 0);
		assert_int_equal(ibv_dereg_mr(side[i].mr), 0);
		assert_int_equal(ibv_destroy_cq(side[i].cq), 0);
		assert_int_equal(ibv_destroy_comp_channel(side[i].channel), 0);
		assert_int_equal(ibv_dealloc_pd(side[i].pd), 0);
		assert_int_equal(ibv_close_device(side[i].ctx), 0);
	}
	return 0;
}

static void nap(long us)
{
	nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

/* To itself. That it was sent is looked at seldom: who looks receives, too. */
static void message(struct lone_qp *l)
{
	static int unseen[SIDES];
	const int of = (int)(l - side);
	struct ibv_wc wc;
	struct ibv_sge sge = {(uintptr_t)buf, 8, l->mr->lkey};
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.sg_list = &sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED},
			   *bad_send;

	assert_int_equal(ibv_post_recv(l->qp, &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(l->qp, &send, &bad_send), 0);
	for (unseen[of]++; unseen[of] > 24; unseen[of] -= ibv_poll_cq(sent[of], 1, &wc))
		;
}

static int event(struct lone_qp *l)
{
	struct ibv_cq *cq;
	void *context;
	int rc = ibv_get_cq_event(l->channel, &cq, &context);

	if (rc == 0)
		ibv_ack_cq_events(cq, 1);
	return rc;
}

static void arm(struct lone_qp *l)
{
	assert_int_equal(ibv_req_notify_cq(l->cq, 0), 0);
}

/* As programs do who sleep: events first, completions then; until so many have come. */
static void take(struct lone_qp *l, int messages)
{
	struct ibv_wc wc;
	int n;

	while (messages) {
		while (messages && (n = ibv_poll_cq(l->cq, 1, &wc)) != 0) {
			assert_int_equal(n, 1);
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			messages--;
		}
		if (!messages)
			break;
		arm(l);
		n = ibv_poll_cq(l->cq, 1, &wc);
		if (n) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			messages--;
		} else {
			assert_int_equal(event(l), 0);
		}
	}
}

struct waiter {
	struct lone_qp *of;
	int messages;
	pthread_t thread;
	atomic_int tid;
	int rc, err;
};

static void *takes(void *arg)
{
	struct waiter *w = arg;

	w->tid = gettid();
	take(w->of, w->messages);
	return NULL;
}

static void *waits(void *arg)
{
	struct waiter *w = arg;

	w->tid = gettid();
	arm(w->of);
	w->rc = event(w->of);
	w->err = errno;
	return NULL;
}

/* Events that are left over are taken. */
static void start(struct waiter *w, void *(*does)(void *), struct lone_qp *of, int messages)
{
	while (poll(&(struct pollfd){.fd = of->channel->fd, .events = POLLIN}, 1, 0) == 1)
		assert_int_equal(event(of), 0);
	*w = (struct waiter){.of = of, .messages = messages};
	assert_int_equal(pthread_create(&w->thread, NULL, does, w), 0);
}

/* What its thread's file of that name in /proc says. */
static void read_of(const struct waiter *w, const char *name, char line[256])
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", w->tid, name);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, 256, f));
	fclose(f);
}

/* In the call that waits, that is: who sleeps for a lock may not have come to it yet, and a signal
 * that comes then ends nothing. */
static bool is_asleep(const struct waiter *w)
{
	char line[256];
	long call;

	read_of(w, "stat", line);
	if (!strstr(line, ") S "))
		return false;
	read_of(w, "syscall", line);
	return sscanf(line, "%ld", &call) == 1 && call != SYS_futex; /* "running" */
}

/* Until it sleeps. */
static void sleeps_for(const struct waiter *w, int looks, long us)
{
	while (!w->tid)
		nap(100);
	for (int asleep = 0; asleep < looks; nap(us))
		asleep = is_asleep(w) ? asleep + 1 : 0;
}

static void sleeps(const struct waiter *w)
{
	sleeps_for(w, 5, 1000);
}

static void sleeps_briefly(const struct waiter *w)
{
	sleeps_for(w, 2, 100);
}

/* How often the library's thread has gone to sleep. */
static long naps_of_the_library(void)
{
	DIR *tasks = opendir("/proc/self/task");
	long n = -1;

	assert_non_null(tasks);
	for (struct dirent *d; (d = readdir(tasks));) {
		char path[300], line[128];
		FILE *f;
		bool ours = false;

		snprintf(path, sizeof(path), "/proc/self/task/%s/status", d->d_name);
		f = fopen(path, "r");
		while (f && fgets(line, sizeof(line), f)) {
			ours |= strcmp(line, "Name:\tweft-shard\n") == 0;
			if (ours)
				sscanf(line, "voluntary_ctxt_switches: %ld", &n);
		}
		if (f)
			fclose(f);
	}
	closedir(tasks);
	return n;
}

/* Each when the one before has been taken, so that each finds it asleep. On a machine that is busy
 * it comes too late now and then: once more, in that case. */
static void who_waits_takes_in_itself_what_comes(void **state)
{
	const time_t end = time(NULL) + LIMIT_S;
	long naps;

	(void)state;
	do {
		naps = naps_of_the_library();
		for (int i = 0; i < ROUNDS; i++) {
			struct lone_qp *l = &side[0];
			struct ibv_wc wc;

			arm(l);
			message(l);
			assert_int_equal(event(l), 0);
			while (!ibv_poll_cq(l->cq, 1, &wc))
				;
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
		}
		naps = naps_of_the_library() - naps;
	} while (naps > ROUNDS / 8 && time(NULL) < end);
	assert_in_range(naps, 0, ROUNDS / 8);
}

static void two_that_wait_are_both_served(void **state)
{
	struct waiter w[SIDES];

	(void)state;
	for (int i = 0; i < SIDES; i++)
		start(&w[i], takes, &side[i], 2 * ROUNDS);
	for (int n = 0; n < ROUNDS; n++)
		for (int i = 0; i < SIDES; i++) {
			message(&side[i]);
			nap(n % 2 ? 20 : 0);
			message(&side[i]);
			nap(n % 16 ? 50 : 3000);
		}
	for (int i = 0; i < SIDES; i++)
		pthread_join(w[i].thread, NULL);
}

static void what_another_thread_brings_about_wakes_it(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_sge sge = {(uintptr_t)buf, 8, side[0].mr->lkey};
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct waiter w;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(ibv_post_recv(side[0].qp, &recv, &bad), 0);
	start(&w, waits, &side[0], 1);
	sleeps(&w);
	assert_int_equal(ibv_modify_qp(side[0].qp, &attr, IBV_QP_STATE), 0);
	pthread_join(w.thread, NULL);
	assert_int_equal(w.rc, 0);
	assert_int_equal(ibv_poll_cq(side[0].cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	attr.qp_state = IBV_QPS_RESET;
	assert_int_equal(ibv_modify_qp(side[0].qp, &attr, IBV_QP_STATE), 0);
	bring_up(side[0].qp, side[0].qp->qp_num, to_itself(side[0].ctx), 0, IBV_QPS_RTS);
}

/* One waits inside and at the descriptor by turns. What the descriptor says is so. */
static void waiting_at_the_descriptor_is_as_good(void **state)
{
	struct lone_qp *l = &side[0];
	struct pollfd p = {.fd = l->channel->fd, .events = POLLIN};
	struct ibv_wc wc;

	(void)state;
	for (int i = 0; i < 100; i++) {
		arm(l);
		message(l);
		if (i / 5 % 2)
			assert_int_equal(poll(&p, 1, 10000), 1);
		assert_int_equal(event(l), 0);
		while (!ibv_poll_cq(l->cq, 1, &wc))
			;
		assert_int_equal(poll(&p, 1, 0), 0);
	}
	assert_int_equal(fcntl(p.fd, F_SETFL, O_NONBLOCK), 0);
	arm(l);
	assert_int_equal(event(l), -1);
	assert_int_equal(errno, EAGAIN);
	message(l);
	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_int_equal(event(l), 0);
	take(l, 1);
	assert_int_equal(fcntl(p.fd, F_SETFL, 0), 0);
}

#if defined(__has_feature)
#define SANITIZED(by) __has_feature(by##_sanitizer)
#else
#define SANITIZED(by) 0
#endif

static atomic_int handled;

static void handler(int sig)
{
	(void)sig;
	handled++;
}

static void handle(int sig, int flags)
{
	struct sigaction act = {.sa_handler = flags < 0 ? SIG_DFL : handler,
				.sa_flags = flags < 0 ? 0 : flags};

	assert_int_equal(sigaction(sig, &act, NULL), 0);
}

/* Is the wait over once its thread has handled the signal? As one in read(2) would be. */
static void interrupted(int sig, bool ends)
{
	const int before = handled;
	struct waiter w;

	start(&w, waits, &side[0], 1);
	sleeps(&w);
	assert_int_equal(pthread_kill(w.thread, sig), 0);
	while (handled == before)
		nap(100);
	if (!ends) {
		sleeps(&w);
		message(&side[0]);
	}
	pthread_join(w.thread, NULL);
	assert_int_equal(w.rc, ends ? -1 : 0);
	if (ends) {
		assert_int_equal(w.err, EINTR);
		message(&side[0]);
	}
	take(&side[0], 1);
}

static void signals_end_a_wait_as_they_end_a_read(void **state)
{
	(void)state;
	if (SANITIZED(thread)) /* which has a handler run when the call that it came in is back */
		SKIP_CASE("ThreadSanitizer runs no handlers in a call that goes on");
	handle(SIGUSR1, SA_RESTART);
	interrupted(SIGUSR1, false);
	interrupted(SIGUSR1, false);
	handle(SIGUSR1, 0);
	interrupted(SIGUSR1, true);
	interrupted(SIGUSR1, true);
	handle(SIGUSR1, -1);
}

/* While packets come that are no event to it: a program that is to end is told once. The first of
 * all, for whoever has armed the other queue would have to be told. */
static void a_signal_ends_it_whatever_it_is_at(void **state)
{
	(void)state;
	handle(SIGUSR1, 0);
	for (int i = 0; i < 300; i++) {
		struct timespec limit;
		struct waiter w;

		start(&w, waits, &side[0], 1);
		sleeps_briefly(&w);
		for (int n = i % 7; n >= 0; n--)
			message(&side[1]);
		assert_int_equal(pthread_kill(w.thread, SIGUSR1), 0);
		clock_gettime(CLOCK_REALTIME, &limit);
		limit.tv_sec += 20;
		assert_int_equal(pthread_timedjoin_np(w.thread, NULL, &limit), 0);
		assert_int_equal(w.rc, -1);
		assert_int_equal(w.err, EINTR);
		for (int n = i % 7; n >= 0; n--)
			assert_int_equal(next_wc(side[1].cq).status, IBV_WC_SUCCESS);
	}
	handle(SIGUSR1, -1);
}

/* A call that needs the channel, and changes nothing. A handler could as well leave for good, and
 * take along what its thread holds. */
static void uses_the_channel(int sig)
{
	(void)sig;
	if (ibv_destroy_comp_channel(side[0].channel) != EBUSY)
		abort();
	handled++;
}

static void who_handles_a_signal_holds_nothing(void **state)
{
	struct sigaction act = {.sa_handler = uses_the_channel, .sa_flags = SA_RESTART};
	const int before = handled;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &act, NULL), 0);
	for (int i = 0; i < 300; i++) {
		struct timespec limit;
		struct waiter w;

		start(&w, waits, &side[0], 1);
		sleeps_briefly(&w);
		message(&side[0]);
		(void)pthread_kill(w.thread, SIGUSR1);
		clock_gettime(CLOCK_REALTIME, &limit);
		limit.tv_sec += 20;
		assert_int_equal(pthread_timedjoin_np(w.thread, NULL, &limit), 0);
		assert_int_equal(w.rc, 0);
		assert_int_equal(next_wc(side[0].cq).status, IBV_WC_SUCCESS);
	}
	assert_in_range(handled - before, 1, 300); /* some had gone before it came */
	handle(SIGUSR1, -1);
}

/* Who waits cannot know then which it was: it waits otherwise, once it knows of both. */
static void so_they_do_where_some_end_it_and_some_do_not(void **state)
{
	(void)state;
	if (SANITIZED(thread)) /* which has a handler run when the call that it came in is back */
		SKIP_CASE("ThreadSanitizer runs no handlers in a call that goes on");
	handle(SIGUSR1, SA_RESTART);
	handle(SIGUSR2, 0);
	interrupted(SIGUSR1, false); /* this one it learns by */
	for (int i = 0; i < 3; i++) {
		interrupted(SIGUSR1, false);
		interrupted(SIGUSR2, true);
	}
	handle(SIGUSR1, -1);
	handle(SIGUSR2, -1);
}

static void one_that_is_cancelled_leaves_the_others_their_messages(void **state)
{
	struct waiter w;
	void *result;

	(void)state;
	if (SANITIZED(address))
		SKIP_CASE("AddressSanitizer takes a cancelled thread's stack for one in use");
	if (SANITIZED(thread)) /* which sees none of its own calls in a call that may block */
		SKIP_CASE("ThreadSanitizer sees no lock that a thread takes while it is cancelled");
	for (int i = 0; i < 3; i++) {
		start(&w, waits, &side[0], 1);
		sleeps(&w);
		assert_int_equal(pthread_cancel(w.thread), 0);
		assert_int_equal(pthread_join(w.thread, &result), 0);
		assert_ptr_equal(result, PTHREAD_CANCELED);
		message(&side[0]);
		take(&side[0], 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_signal_ends_it_whatever_it_is_at),
		cmocka_unit_test(who_handles_a_signal_holds_nothing),
		cmocka_unit_test(who_waits_takes_in_itself_what_comes),
		cmocka_unit_test(two_that_wait_are_both_served),
		cmocka_unit_test(what_another_thread_brings_about_wakes_it),
		cmocka_unit_test(waiting_at_the_descriptor_is_as_good),
		cmocka_unit_test(signals_end_a_wait_as_they_end_a_read),
		cmocka_unit_test(so_they_do_where_some_end_it_and_some_do_not),
		cmocka_unit_test(one_that_is_cancelled_leaves_the_others_their_messages),
	};

	return cmocka_run_group_tests(tests, open_sides, close_sides);
}
