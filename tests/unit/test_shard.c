/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two shards driven by pollers, by their background threads alone, by several threads at once.
 */
#include "shard_bed.h"

#include <errno.h>
#include <pthread.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "netns.h"

/* One of each kind, of a length that takes many packets, from end 0. */
static void exchange(struct fixture *f, bool poll)
{
	struct end *a = &f->end[0], *b = &f->end[1];
	const uint32_t len = 1000001;
	struct rnic_wc wc;

	fill(a, 0, len, 1);
	post(a, 0, RNIC_WR_RDMA_WRITE, 0, len, b);
	assert_int_equal(await(a, poll).opcode, RNIC_WC_RDMA_WRITE);
	expect_equal(a, b, 0, len);

	fill(b, 1 << 20, len, 2);
	post(a, 1, RNIC_WR_RDMA_READ, 1 << 20, len, b);
	assert_int_equal(await(a, poll).opcode, RNIC_WC_RDMA_READ);
	expect_equal(a, b, 1 << 20, len);

	fill(a, 2 << 20, len, 3);
	post_recv(b, 2, 2 << 20, len);
	post(a, 2, RNIC_WR_SEND, 2 << 20, len, b);
	wc = await(b, poll);
	assert_int_equal(wc.opcode, RNIC_WC_RECV);
	assert_int_equal(wc.byte_len, len);
	assert_int_equal(await(a, poll).opcode, RNIC_WC_SEND);
	expect_equal(a, b, 2 << 20, len);

	meet(b);
	memset(b->mem + 64, 0, 8);
	meet(b);
	for (int i = 0; i < 10; i++) {
		post(a, 3, RNIC_WR_ATOMIC_FETCH_AND_ADD, 64, 8, b);
		assert_int_equal(await(a, poll).opcode, RNIC_WC_FETCH_ADD);
	}
	meet(b);
	assert_int_equal(*(uint64_t *)(b->mem + 64), 10);
	meet(b);
}

static void pollers_exchange_everything(void **state)
{
	for (int i = 0; i < 5; i++)
		exchange(*state, true);
}

static void threads_alone_exchange_everything(void **state)
{
	for (int i = 0; i < 5; i++)
		exchange(*state, false);
}

static void messages_pass_between_pollers_in_order(void **state)
{
	struct fixture *f = *state;
	struct end *a = &f->end[0], *b = &f->end[1];

	for (uint32_t i = 0; i < 3000; i++) {
		memcpy(a->mem + 8, &i, sizeof(i));
		post_recv(b, 0, 16, 8);
		post(a, 0, RNIC_WR_SEND, 8, 8, b);
		await(b, true);
		assert_memory_equal(b->mem + 16, &i, sizeof(i));
		await(a, true);
	}
}

/* Without those that a busy machine had sent again. */
static uint64_t packets_sent(struct end *e)
{
	const struct rnic_counters *c = rnic_counters(shard_rnic(e->shard));
	uint64_t n;

	shard_lock(e->shard);
	n = c->tx_packets - c->tx_retransmit;
	shard_unlock(e->shard);
	return n;
}

enum { HELD = 6 };

/* Polls until it has a lease and posts six, of which nothing is on the way but the first. Returns
 * how many of them have gone. */
static void find_nothing(struct end *a)
{
	struct rnic_wc wc;

	assert_int_equal(poll_cq(a, &wc, 1, true), 0);
}

static void find_something(struct end *a)
{
	shard_lock(a->shard);
	shard_polled(a->shard);
	shard_unlock(a->shard);
}

static uint64_t post_as_a_poller(struct end *a, const struct end *b, void (*poll)(struct end *))
{
	uint64_t before = packets_sent(a), until = time_now_ns() + NSEC_PER_MSEC;

	while (time_now_ns() < until)
		poll(a);
	for (int i = 0; i < HELD; i++)
		post_as(shard_posted, a, 0, RNIC_WR_RDMA_WRITE, 64u * i, 8, b);
	return packets_sent(a) - before;
}

/* Who has no processor for a while finds that the thread was faster: not a hundred times. */
static void its_posts_go_with_its_next_call(struct fixture *f, void (*poll)(struct end *))
{
	struct end *a = &f->end[0], *b = &f->end[1];
	bool together = false;

	for (int i = 0; i < 100 && !together; i++) {
		uint64_t at_once = post_as_a_poller(a, b, poll), before = packets_sent(a);
		struct rnic_wc wc;
		int n;

		assert_in_range(at_once, 1, HELD);
		n = poll_cq(a, &wc, 1, true);
		together = at_once == 1 && packets_sent(a) - before == HELD - 1;
		for (; n < HELD; n++)
			await(a, true);
		assert_int_equal(packets_sent(a) - before, HELD - at_once);
	}
	assert_true(together);
}

static void what_a_poller_posts_goes_with_its_next_call(void **state)
{
	its_posts_go_with_its_next_call(*state, find_nothing);
}

static void who_always_finds_something_is_a_poller_too(void **state)
{
	its_posts_go_with_its_next_call(*state, find_something);
}

/* b spins on its memory, answers each WRITE of a by one of its own, and polls nothing. True if its
 * acknowledgement went with the answer; *ret_at_once: before that. */
static bool write_and_answer(struct end *a, struct end *b, uint64_t n, bool *ret_at_once)
{
	uint64_t before = packets_sent(b), until = time_now_ns() + LIMIT_S * NSEC_PER_SEC;
	struct rnic_wc wc;

	meet(a);
	memcpy(a->mem, &n, sizeof(n));
	post_as(shard_posted, a, 0, RNIC_WR_RDMA_WRITE, 0, sizeof(n), b);
	while (*(volatile uint64_t *)(void *)b->mem != n && time_now_ns() < until)
		;
	*ret_at_once = packets_sent(b) != before;
	post_as(shard_posted, b, 0, RNIC_WR_RDMA_WRITE, 4096, sizeof(n), a);
	n = packets_sent(b) - before;
	assert_int_equal(await(a, true).opcode, RNIC_WC_RDMA_WRITE);
	(void)!poll_cq(b, &wc, 1, false);
	return !*ret_at_once && n == 2;
}

/* Who has no processor for a while may find that the answer was not waited for: not each time.
 * Eight in succession have to be prompt first, which with ThreadSanitizer few are. */
static void who_answers_writes_acknowledges_them_with_the_answer(void **state)
{
	struct fixture *f = *state;
	struct end *a = &f->end[0], *b = &f->end[1];
	uint64_t n = 1, until = time_now_ns() + LIMIT_S * NSEC_PER_SEC;
	bool together, at_once;

	together = write_and_answer(a, b, n, &at_once);
	assert_true(at_once && !together); /* nobody knows yet */
	for (; !together && time_now_ns() < until; n++)
		together = write_and_answer(a, b, n + 1, &at_once);
	assert_true(together);
	/* And if it does not answer for once: */
	post_as(shard_posted, a, 0, RNIC_WR_RDMA_WRITE, 0, 8, b);
	assert_int_equal(await(a, true).opcode, RNIC_WC_RDMA_WRITE);
}

static void what_a_poller_posted_goes_without_it(void **state)
{
	struct fixture *f = *state;
	struct end *a = &f->end[0], *b = &f->end[1];
	uint64_t until = time_now_ns() + LIMIT_S * NSEC_PER_SEC;
	uint64_t before = packets_sent(a);

	post_as_a_poller(a, b, find_nothing);
	while (packets_sent(a) - before < HELD && time_now_ns() < until)
		nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
	assert_int_equal(packets_sent(a) - before, HELD);
	for (int i = 0; i < HELD; i++)
		await(a, true);
}

static void nothing_is_left_behind(struct fixture *f, void (*goes)(struct shard *))
{
	struct end *a = &f->end[0], *b = &f->end[1];
	uint64_t before = packets_sent(a);

	post_as_a_poller(a, b, find_nothing);
	shard_lock(a->shard);
	goes(a->shard);
	assert_int_equal(rnic_counters(shard_rnic(a->shard))->tx_packets - before, HELD);
	shard_unlock(a->shard);
	for (int i = 0; i < HELD; i++)
		await(a, false);
}

static void who_goes_to_sleep_leaves_nothing_behind(void **state)
{
	nothing_is_left_behind(*state, shard_sleeping);
}

static void who_gives_the_processor_away_leaves_nothing_behind(void **state)
{
	nothing_is_left_behind(*state, shard_leaving);
}

static void a_receiver_not_ready_is_tried_again_by_the_thread(void **state)
{
	struct fixture *f = *state;
	struct end *a = &f->end[0], *b = &f->end[1];

	post(a, 0, RNIC_WR_SEND, 0, 100, b);
	nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
	post_recv(b, 0, 0, 100);
	await(b, false);
	await(a, false);
}

static void the_thread_takes_over_when_the_poller_stops(void **state)
{
	struct fixture *f = *state;
	struct end *a = &f->end[0], *b = &f->end[1];
	uint64_t until = time_now_ns() + 5 * NSEC_PER_MSEC;
	struct rnic_wc wc;

	while (time_now_ns() < until)
		assert_int_equal(poll_cq(b, &wc, 1, true), 0);
	/* Nobody polls b any more, yet its memory is served. */
	post(a, 0, RNIC_WR_RDMA_READ, 0, 4096, b);
	await(a, true);
}

static void deadlines_of_what_a_poller_posts_are_kept_without_it(void **state)
{
	const struct rnic_qp_attr nobody = {.state = RNIC_QPS_RESET};
	struct fixture *f = *state;
	struct end *a = &f->end[0], *b = &f->end[1];
	uint64_t until = time_now_ns() + 5 * NSEC_PER_MSEC;
	struct rnic_wc wc;
	int n = 0;

	shard_lock(b->shard);
	assert_int_equal(rnic_qp_modify(b->qp[0], &nobody, RNIC_QP_STATE, time_now_ns()), 0);
	shard_unlock(b->shard);
	/* The thread sleeps on the ports, and has not been told of the lease. */
	while (time_now_ns() < until)
		assert_int_equal(poll_cq(a, &wc, 1, true), 0);
	post(a, 0, RNIC_WR_RDMA_WRITE, 0, 100, b);
	until = time_now_ns() + LIMIT_S * NSEC_PER_SEC;
	while (!n && time_now_ns() < until) {
		nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
		n = poll_cq(a, &wc, 1, false);
	}
	assert_int_equal(n, 1);
	assert_int_equal(wc.status, RNIC_WC_RETRY_EXC_ERR);
}

static void a_sleeper_is_notified(void **state)
{
	struct fixture *f = *state;
	struct end *a = &f->end[0], *b = &f->end[1];

	for (int round = 0; round < 50; round++) {
		uint64_t until = time_now_ns() + (uint64_t)(round % 3) * 200 * NSEC_PER_USEC;
		int before = atomic_load(&b->notified);
		struct rnic_wc wc;

		/* Polls a while, so that it may have a lease, arms, and sleeps. */
		while (time_now_ns() < until)
			assert_int_equal(poll_cq(b, &wc, 1, true), 0);
		post_recv(b, 0, 0, 64);
		shard_lock(b->shard);
		rnic_cq_arm(b->cq, false);
		shard_sleeping(b->shard);
		shard_unlock(b->shard);
		post(a, 0, RNIC_WR_SEND, 0, 64, b);
		until = time_now_ns() + LIMIT_S * NSEC_PER_SEC;
		while (atomic_load(&b->notified) == before && time_now_ns() < until)
			nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
		assert_int_equal(atomic_load(&b->notified), before + 1);
		await(b, false);
		await(a, true);
	}
}

struct worker {
	struct fixture *f;
	int qp;
	pthread_t thread;
	atomic_int *done;
};

static void *work(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < 100; i++)
		post(&w->f->end[w->qp & 1], w->qp, i & 1 ? RNIC_WR_RDMA_READ : RNIC_WR_RDMA_WRITE,
		     (size_t)w->qp << 16, 20000, &w->f->end[!(w->qp & 1)]);
	return NULL;
}

static void threads_share_a_shard(void **state)
{
	struct fixture *f = *state;
	struct worker w[QPS];
	uint64_t until = time_now_ns() + LIMIT_S * NSEC_PER_SEC;
	struct rnic_wc wc[16];
	int done = 0;

	for (int i = 0; i < QPS; i++) {
		w[i] = (struct worker){.f = f, .qp = i};
		assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
	}
	while (done < QPS * 100 && time_now_ns() < until)
		for (int e = 0; e < 2; e++) {
			int n = poll_cq(&f->end[e], wc, 16, true);

			for (int i = 0; i < n; i++)
				assert_int_equal(wc[i].status, RNIC_WC_SUCCESS);
			done += n;
		}
	for (int i = 0; i < QPS; i++)
		pthread_join(w[i].thread, NULL);
	assert_int_equal(done, QPS * 100);
}

static void a_forked_child_has_no_part_in_the_shard(void **state)
{
	struct fixture *f = *state;
	struct end *a = &f->end[0];
	int status;
	pid_t pid;

	/* With packets on the way, and the threads busy. */
	for (int i = 0; i < 20; i++)
		post(a, 0, RNIC_WR_RDMA_WRITE, 0, 100000, &f->end[1]);
	pid = fork();
	if (pid == 0) {
		struct rnic_wc wc;

		if (!shard_is_dead(a->shard))
			_exit(1);
		post(a, 0, RNIC_WR_RDMA_WRITE, 0, 100, &f->end[1]);
		if (poll_cq(a, &wc, 1, true) < 0)
			_exit(2);
		destroy_objects(a);
		shard_destroy(a->shard);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_false(shard_is_dead(a->shard));
	for (int i = 0; i < 20; i++)
		await(a, false);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

static void the_threads_sleep_besides_a_broken_port(void **state)
{
	uint64_t before;

	threads_alone_exchange_everything(state);
	before = cpu_ns();
	nanosleep(&(struct timespec){.tv_nsec = 300 * NSEC_PER_MSEC}, NULL);
	assert_in_range(cpu_ns() - before, 0, 50 * NSEC_PER_MSEC);
}

int main(void)
{
#define LOCAL_TEST(f)	    cmocka_unit_test_setup_teardown(f, setup_local, teardown)
#define BROKEN_PORT_TEST(f) cmocka_unit_test_setup_teardown(f, setup_one_of_two_broken, teardown)
#define TWO_PORTS_TEST(f)   cmocka_unit_test_setup_teardown(f, setup_two_ports, teardown)
#define SHARD_TEST(f)	    cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		SHARD_TEST(pollers_exchange_everything),
		SHARD_TEST(threads_alone_exchange_everything),
		SHARD_TEST(messages_pass_between_pollers_in_order),
		SHARD_TEST(what_a_poller_posts_goes_with_its_next_call),
		SHARD_TEST(who_always_finds_something_is_a_poller_too),
		SHARD_TEST(who_answers_writes_acknowledges_them_with_the_answer),
		SHARD_TEST(what_a_poller_posted_goes_without_it),
		SHARD_TEST(who_goes_to_sleep_leaves_nothing_behind),
		SHARD_TEST(who_gives_the_processor_away_leaves_nothing_behind),
		SHARD_TEST(a_receiver_not_ready_is_tried_again_by_the_thread),
		SHARD_TEST(the_thread_takes_over_when_the_poller_stops),
		SHARD_TEST(deadlines_of_what_a_poller_posts_are_kept_without_it),
		SHARD_TEST(a_sleeper_is_notified),
		SHARD_TEST(threads_share_a_shard),
		SHARD_TEST(a_forked_child_has_no_part_in_the_shard),
		LOCAL_TEST(pollers_exchange_everything),
		LOCAL_TEST(threads_alone_exchange_everything),
		LOCAL_TEST(messages_pass_between_pollers_in_order),
		LOCAL_TEST(who_always_finds_something_is_a_poller_too),
		LOCAL_TEST(who_goes_to_sleep_leaves_nothing_behind),
		LOCAL_TEST(a_receiver_not_ready_is_tried_again_by_the_thread),
		LOCAL_TEST(the_thread_takes_over_when_the_poller_stops),
		LOCAL_TEST(a_sleeper_is_notified),
		LOCAL_TEST(threads_share_a_shard),
		LOCAL_TEST(a_forked_child_has_no_part_in_the_shard),
		TWO_PORTS_TEST(pollers_exchange_everything),
		TWO_PORTS_TEST(threads_alone_exchange_everything),
		TWO_PORTS_TEST(a_forked_child_has_no_part_in_the_shard),
		BROKEN_PORT_TEST(pollers_exchange_everything),
		BROKEN_PORT_TEST(the_threads_sleep_besides_a_broken_port),
	};

	netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
