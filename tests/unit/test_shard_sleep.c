/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Who sleeps on a shard's socket, and what is taken in for him meanwhile. */
#include "shard_bed.h"

#include <poll.h>
#include <errno.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/time.h"
#include "engine/shard_priv.h"
#include "netns.h"

#define SOON_NS (150 * NSEC_PER_MSEC) /* sooner than the guard comes who looks after one asleep */

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static int attend_until(struct end *e, uint64_t *ret_until, uint64_t *ret_ticket)
{
	bool come;
	int fd;

	shard_lock(e->shard);
	fd = shard_attend(e->shard, true, ret_until, &come, ret_ticket);
	shard_unlock(e->shard);
	return fd;
}

static int attend(struct end *e, uint64_t *ret_ticket)
{
	return attend_until(e, NULL, ret_ticket);
}

static void attended(struct end *e, uint64_t ticket, bool readable)
{
	shard_lock(e->shard);
	shard_attended(e->shard, ticket, readable);
	shard_unlock(e->shard);
}

static bool readable_within(int fd, int ms)
{
	return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, ms) == 1;
}

/* Within the guard's time, which a busy machine may let pass: then once more. */
static void a_packet_waits_for_who_attends(void **state)
{
	struct fixture *f = *state;
	struct end *a = &f->end[0], *b = &f->end[1];
	const uint64_t until = time_now_ns() + LIMIT_S * NSEC_PER_SEC;
	struct rnic_wc wc;
	bool waited = false;

	while (!waited && time_now_ns() < until) {
		uint64_t ticket;
		int fd = attend(b, &ticket);

		assert_true(fd >= 0);
		post_recv(b, 0, 0, 8);
		post(a, 0, RNIC_WR_SEND, 8, 8, b);
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
		waited = readable_within(fd, 0) && !poll_cq(b, &wc, 1, false);
		attended(b, ticket, true);
		await(b, false);
		await(a, false);
	}
	assert_true(waited);
}

static void a_packet_for_one_who_never_comes_is_taken_by_the_thread(void **state)
{
	struct fixture *f = *state;
	struct end *a = &f->end[0], *b = &f->end[1];
	uint64_t ticket;

	assert_true(attend(b, &ticket) >= 0);
	for (int i = 0; i < 3; i++) {
		post_recv(b, 0, 0, 8);
		post(a, 0, RNIC_WR_SEND, 8, 8, b);
		await(b, false);
		await(a, false);
	}
	attended(b, ticket, false);
}

static void who_attended_and_went_away_leaves_the_socket_to_the_thread(void **state)
{
	struct fixture *f = *state;
	uint64_t ticket;

	for (int i = 0; i < 20; i++) {
		int fd = attend(&f->end[1], &ticket);

		assert_true(fd >= 0);
		attended(&f->end[1], ticket, readable_within(fd, 0));
		post_recv(&f->end[1], 0, 0, 8);
		post(&f->end[0], 0, RNIC_WR_SEND, 8, 8, &f->end[1]);
		await(&f->end[1], false);
		await(&f->end[0], false);
	}
}

/* A packet comes when it has looked for the last time, and is only in memory. */
static void what_comes_before_one_sleeps_keeps_it_awake(void **state)
{
	struct fixture *f = *state;
	struct end *a = &f->end[0], *b = &f->end[1];

	for (int i = 0; i < 50; i++) {
		uint64_t ticket;
		struct rnic_wc wc;
		bool come;

		post_recv(b, 0, 0, 8);
		shard_lock(b->shard);
		post(a, 0, RNIC_WR_SEND, 8, 8, b);
		assert_true(shard_attend(b->shard, true, NULL, &come, &ticket) >= 0);
		assert_true(come);
		assert_int_equal(rnic_cq_poll(b->cq, &wc, 1), 0); /* it has looked */
		shard_attended(b->shard, ticket, false);
		assert_int_equal(rnic_cq_poll(b->cq, &wc, 1), 1);
		shard_unlock(b->shard);
		await(a, false);
	}
}

static void while_a_second_one_sleeps_the_thread_serves(void **state)
{
	struct fixture *f = *state;
	struct end *a = &f->end[0], *b = &f->end[1];
	uint64_t first, second;

	assert_true(attend(b, &first) >= 0);
	assert_int_equal(attend(b, &second), -1);
	attended(b, first, false);
	post_recv(b, 0, 0, 8);
	post(a, 0, RNIC_WR_SEND, 8, 8, b);
	await(b, false);
	await(a, false);
	attended(b, second, false);
}

/* Until the thread sleeps, on the ports or not. */
static void thread_sleeps(struct shard *s, bool listens)
{
	const uint64_t until = time_now_ns() + LIMIT_S * NSEC_PER_SEC;
	bool does = false;

	while (!does && time_now_ns() < until) {
		pause_ms(1);
		shard_lock(s);
		does = s->sleeps_until && s->listens == listens;
		shard_unlock(s);
	}
	assert_true(does);
}

/* As if another always were the first to come when it says that there is something. */
static int thread_listens_in_vain(struct end *e)
{
	int silent = eventfd(0, EFD_CLOEXEC), fd = e->port->fd;

	assert_true(silent >= 0);
	shard_lock(e->shard);
	e->port->fd = silent;
	shard_thread_wake(e->shard);
	shard_unlock(e->shard);
	thread_sleeps(e->shard, true);
	return fd;
}

static void thread_listens_again(struct end *e, int fd)
{
	shard_lock(e->shard);
	close(e->port->fd);
	e->port->fd = fd;
	shard_thread_wake(e->shard);
	shard_unlock(e->shard);
}

/* It is the first to come, and takes all; the thread, which listens as well, sleeps on. */
static void what_one_of_two_sleepers_took_in_is_acknowledged_without_it(void **state)
{
	struct fixture *f = *state;
	struct end *a = &f->end[0], *b = &f->end[1];
	int fd = thread_listens_in_vain(b);
	uint64_t first, second;

	assert_true(attend(b, &first) >= 0);
	assert_int_equal(attend(b, &second), -1);
	post_recv(b, 0, 0, 8);
	post(a, 0, RNIC_WR_SEND, 8, 8, b);
	attended(b, first, true);
	await(b, false);
	await(a, false);
	attended(b, second, false);
	thread_listens_again(b, fd);
}

/* The same of one whose ticket the thread has taken meanwhile. */
static void what_one_took_in_whose_ticket_is_over_is_acknowledged_without_it(void **state)
{
	struct fixture *f = *state;
	struct end *a = &f->end[0], *b = &f->end[1];
	uint64_t ticket;
	int fd;

	assert_true(attend(b, &ticket) >= 0);
	shard_lock(b->shard);
	b->shard->lease.attended = 0;
	shard_unlock(b->shard);
	fd = thread_listens_in_vain(b);
	post_recv(b, 0, 0, 8);
	post(a, 0, RNIC_WR_SEND, 8, 8, b);
	attended(b, ticket, true);
	await(b, false);
	await(a, false);
	thread_listens_again(b, fd);
}

/* Polls once, and never again. True if it was this that took in that the receiver is not ready, and
 * the thread slept past the time until which that is to be waited for; *ret_woken: it does no
 * more. */
static bool learns_of_a_deadline(struct end *a, bool *ret_woken)
{
	struct shard *s = a->shard;
	const uint64_t *naks = &rnic_counters(shard_rnic(s))->rx_rnr_nak;
	uint64_t before, slept;
	bool learned;

	shard_lock(s);
	before = *naks;
	slept = s->sleeps_until;
	(void)shard_progress(s);
	learned = *naks > before && slept > drive_next_deadline(&s->drive);
	*ret_woken = !s->sleeps_until;
	shard_unlock(s);
	return learned;
}

/* Who has no processor for some milliseconds finds that the thread was there: then once more. */
static void a_deadline_that_one_learns_of_who_polls_once_is_kept(void **state)
{
	const uint64_t until = time_now_ns() + LIMIT_S * NSEC_PER_SEC;
	struct fixture *f = *state;
	struct end *a = &f->end[0], *b = &f->end[1];
	int fd = thread_listens_in_vain(a);
	bool learned = false, woken = false;

	while (!learned && time_now_ns() < until) {
		post(a, 0, RNIC_WR_SEND, 8, 8, b);
		pause_ms(1);
		learned = learns_of_a_deadline(a, &woken);
		post_recv(b, 0, 0, 8);
		await(b, false);
		await(a, false);
	}
	assert_true(learned && woken);
	thread_listens_again(a, fd);
}

static void who_waits_for_events_is_served_by_the_thread(void **state)
{
	struct fixture *f = *state;
	struct end *b = &f->end[1];
	uint64_t ticket;

	shard_lock(b->shard);
	shard_told(b->shard, true);
	shard_unlock(b->shard);
	assert_int_equal(attend(b, &ticket), -1);
	attended(b, ticket, false);
	shard_lock(b->shard);
	shard_told(b->shard, false);
	shard_unlock(b->shard);
	assert_true(attend(b, &ticket) >= 0);
	attended(b, ticket, false);
}

static uint64_t probes(struct end *e)
{
	uint64_t n;

	shard_lock(e->shard);
	n = rnic_counters(shard_rnic(e->shard))->probes;
	shard_unlock(e->shard);
	return n;
}

/* While one sleeps that sees to the timers that it knows of, and that for longer than we wait. */
static bool is_probed_for(struct end *a, int qp, const struct end *b, unsigned int times)
{
	uint64_t before = probes(a), ticket, until, end = time_now_ns() + SOON_NS;
	struct rnic_wc wc;
	bool enough = false;

	assert_true(attend_until(a, &until, &ticket) >= 0);
	post(a, qp, RNIC_WR_RDMA_WRITE, 0, 8, b);
	while (!enough && time_now_ns() < end) {
		pause_ms(1);
		enough = probes(a) - before >= times;
	}
	enough &= time_now_ns() < end;
	attended(a, ticket, false);
	/* The next one knows of no timer of this one's. */
	for (end += LIMIT_S * NSEC_PER_SEC; !enough && time_now_ns() < end; pause_ms(1))
		if (poll_cq(a, &wc, 1, false))
			break;
	return enough;
}

/* Nobody answers. On a machine that is too busy for that once more. */
static void what_another_posts_while_one_sleeps_is_sent_again_in_time(void **state)
{
	const struct rnic_qp_attr nobody = {.state = RNIC_QPS_RESET};
	struct fixture *f = *state;
	struct end *a = &f->end[0], *b = &f->end[1];
	bool in_time = false;

	shard_lock(b->shard);
	for (int i = 0; i < QPS; i++)
		assert_int_equal(rnic_qp_modify(b->qp[i], &nobody, RNIC_QP_STATE, time_now_ns()),
				 0);
	shard_unlock(b->shard);
	for (int i = 0; i < QPS && !in_time; i++)
		in_time = is_probed_for(a, i, b, 3);
	assert_true(in_time);
}

/* It stops with a message that is to be acknowledged: true, unless it had no processor for so long
 * that its lease was over. */
static bool polls_until_it_has_come(struct end *a, struct end *b)
{
	const uint64_t until = time_now_ns() + NSEC_PER_MSEC;
	struct rnic_wc wc;
	bool left;

	while (time_now_ns() < until)
		assert_int_equal(poll_cq(b, &wc, 1, true), 0);
	post_recv(b, 0, 0, 8);
	post(a, 0, RNIC_WR_SEND, 8, 8, b);
	assert_int_equal(await(b, true).opcode, RNIC_WC_RECV);
	shard_lock(b->shard);
	left = drive_send_pending(&b->shard->drive);
	shard_unlock(b->shard);
	return left;
}

static void what_a_poller_leaves_behind_while_another_sleeps_is_sent_soon(void **state)
{
	const uint64_t limit = time_now_ns() + LIMIT_S * NSEC_PER_SEC;
	struct fixture *f = *state;
	struct end *a = &f->end[0], *b = &f->end[1];
	bool soon = false;

	while (!soon && time_now_ns() < limit) {
		uint64_t ticket, until, end = time_now_ns() + SOON_NS;

		pause_ms(5); /* the last one's lease is over */
		assert_true(attend_until(b, &until, &ticket) >= 0);
		soon = polls_until_it_has_come(a, b);
		await(a, false);
		soon &= time_now_ns() < end;
		attended(b, ticket, false);
	}
	assert_true(soon);
}

/* Of what comes in marked; here its sender has marked it himself. */
static void marks_are_read_from_the_socket(void **state)
{
	struct fixture *f = *state;
	struct end *a = &f->end[0], *b = &f->end[1];
	struct rnic_qp_attr attr;

	shard_lock(a->shard);
	rnic_qp_query(a->qp[0], &attr, NULL);
	attr.flow.tos = 0x60 | 3;
	attr.state = RNIC_QPS_SQD;
	assert_int_equal(rnic_qp_modify(a->qp[0], &attr, RNIC_QP_STATE, shard_now(a->shard)), 0);
	assert_int_equal(
		rnic_qp_modify(a->qp[0], &attr, RNIC_QP_STATE | RNIC_QP_AV, shard_now(a->shard)),
		0);
	attr.state = RNIC_QPS_RTS;
	assert_int_equal(rnic_qp_modify(a->qp[0], &attr, RNIC_QP_STATE, shard_now(a->shard)), 0);
	shard_unlock(a->shard);
	post(a, 1, RNIC_WR_RDMA_WRITE, 0, 64, b);
	await(a, true);
	shard_lock(b->shard);
	assert_int_equal(rnic_counters(shard_rnic(b->shard))->rx_ecn_marked, 0);
	shard_unlock(b->shard);
	post(a, 0, RNIC_WR_RDMA_WRITE, 0, 64, b);
	await(a, true);
	shard_lock(b->shard);
	assert_true(rnic_counters(shard_rnic(b->shard))->rx_ecn_marked > 0);
	shard_unlock(b->shard);
}

/* One descriptor to sleep on does not say what waits at the other. */
static void nobody_attends_two_ports(void **state)
{
	struct fixture *f = *state;
	uint64_t ticket;

	assert_int_equal(attend(&f->end[0], &ticket), -1);
	attended(&f->end[0], ticket, false);
}

static void nobody_attends_what_has_no_descriptor(void **state)
{
	struct port *p = bare_port(-1);
	uint64_t ticket;
	struct end e;

	(void)state;
	assert_int_equal(shard_create(&e.shard, &p, 1, 1, &upcalls), 0);
	assert_int_equal(attend(&e, &ticket), -1);
	assert_int_equal(ticket, 0); /* or the thread would rely on us */
	attended(&e, ticket, false);
	shard_destroy(e.shard);
}

/* A port may put off looking where that costs much, while somebody polls; not for who polls once.
 */
static void who_catches_up_leaves_nothing_for_later(void **state)
{
	struct port *p = bare_port(-1);
	struct bare_port *b = (struct bare_port *)p;
	struct shard *s;

	(void)state;
	assert_int_equal(shard_create(&s, &p, 1, 1, &upcalls), 0);
	shard_lock(s);
	b->sleeps = b->looked = false;
	shard_catch_up(s);
	assert_true(b->looked);
	shard_unlock(s);
	shard_destroy(s);
}

int main(void)
{
#define LOCAL_TEST(f)	  cmocka_unit_test_setup_teardown(f, setup_local, teardown)
#define TWO_PORTS_TEST(f) cmocka_unit_test_setup_teardown(f, setup_two_ports, teardown)
#define SHARD_TEST(f)	  cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		SHARD_TEST(marks_are_read_from_the_socket),
		SHARD_TEST(a_packet_waits_for_who_attends),
		SHARD_TEST(a_packet_for_one_who_never_comes_is_taken_by_the_thread),
		SHARD_TEST(who_attended_and_went_away_leaves_the_socket_to_the_thread),
		SHARD_TEST(while_a_second_one_sleeps_the_thread_serves),
		SHARD_TEST(who_waits_for_events_is_served_by_the_thread),
		SHARD_TEST(what_another_posts_while_one_sleeps_is_sent_again_in_time),
		SHARD_TEST(what_a_poller_leaves_behind_while_another_sleeps_is_sent_soon),
		LOCAL_TEST(a_packet_waits_for_who_attends),
		LOCAL_TEST(a_packet_for_one_who_never_comes_is_taken_by_the_thread),
		LOCAL_TEST(who_attended_and_went_away_leaves_the_socket_to_the_thread),
		LOCAL_TEST(while_a_second_one_sleeps_the_thread_serves),
		LOCAL_TEST(what_comes_before_one_sleeps_keeps_it_awake),
		LOCAL_TEST(what_one_of_two_sleepers_took_in_is_acknowledged_without_it),
		LOCAL_TEST(what_one_took_in_whose_ticket_is_over_is_acknowledged_without_it),
		LOCAL_TEST(a_deadline_that_one_learns_of_who_polls_once_is_kept),
		TWO_PORTS_TEST(nobody_attends_two_ports),
		cmocka_unit_test(nobody_attends_what_has_no_descriptor),
		cmocka_unit_test(who_catches_up_leaves_nothing_for_later),
	};

	netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
