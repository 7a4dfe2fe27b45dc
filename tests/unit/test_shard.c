/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two shards, as two processes would have them, over real sockets on loopback: driven by pollers,
 * by their background threads alone, by several threads at once. In a network namespace of its own.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "base/time.h"
#include "broker/leases.h"
#include "engine/shard.h"
#include "netns.h"
#include "port/local/local_port.h"
#include "port/udp/udp_port.h"

#define MEM (4u << 20)
#define ALL                                                                             \
	(RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE | RNIC_ACCESS_REMOTE_READ | \
	 RNIC_ACCESS_REMOTE_ATOMIC)
#define QPS	4
#define LIMIT_S 20

struct end {
	struct shard *shard;
	struct port *port; /* the one in use */
	uint8_t slot;
	struct rnic_pd *pd;
	struct rnic_cq *cq;
	struct rnic_mr *mr;
	struct rnic_qp *qp[QPS];
	uint8_t *mem;
	atomic_int notified;
};

struct fixture {
	struct leases leases;
	struct end end[2];
};

static void cq_notify(void *cq_user)
{
	struct end *e = cq_user;

	atomic_fetch_add(&e->notified, 1);
}

static void async_event(enum rnic_event event, void *object_user)
{
	(void)event;
	(void)object_user;
}

static const struct shard_upcalls upcalls = {cq_notify, async_event};

/* A port that reaches nobody, and to which nothing comes, to stand before the one in use. */
static bool reaches_nobody(const struct port *p, const struct flow *f)
{
	(void)p;
	(void)f;
	return false;
}

static struct port *idle_port(struct fixture *f)
{
	static struct port_ops ops; /* written once: other ends' threads read it */
	struct port *p;
	int fd;

	assert_true(leases_take(&f->leases, geteuid(), time_now_ns(), &fd) > 0);
	assert_int_equal(udp_port_create(&p, dup(fd)), 0);
	if (!ops.reaches) {
		ops = *p->ops;
		ops.reaches = reaches_nobody;
	}
	p->ops = &ops;
	return p;
}

/* A port of nothing but a descriptor. */
struct bare_port {
	struct port port; /* first */
	struct port_counters counters;
	bool sleeps, looked; /* whether it was said to when something was asked for last */
};

static bool bare_sleeps(struct port *p)
{
	return ((struct bare_port *)p)->sleeps = true;
}

static int bare_rx(struct port *p, uint64_t now, port_take *take, void *ctx)
{
	struct bare_port *b = (struct bare_port *)p;

	(void)now;
	(void)take;
	(void)ctx;
	b->looked = b->sleeps;
	b->sleeps = false;
	return p->fd < 0 ? 0 : -EIO;
}

static void bare_destroy(struct port *p)
{
	if (p->fd >= 0)
		close(p->fd);
	free(p);
}

static struct port *bare_port(int fd)
{
	static const struct port_ops ops = {.rx = bare_rx,
					    .reaches = reaches_nobody,
					    .sleeps = bare_sleeps,
					    .destroy = bare_destroy};
	struct bare_port *p = calloc(1, sizeof(*p));

	p->port = (struct port){.ops = &ops, .fd = fd, .counters = &p->counters};
	return &p->port;
}

enum ports { ONE, TWO, ONE_OF_TWO_BROKEN, LOCAL };

static void open_end(struct fixture *f, struct end *e, enum ports kind)
{
	int fd, slot = leases_take(&f->leases, geteuid(), time_now_ns(), &fd);
	struct port *ports[2];
	size_t n = 0;
	struct rnic *r;

	assert_true(slot > 0);
	if (kind == TWO)
		ports[n++] = idle_port(f);
	else if (kind == ONE_OF_TWO_BROKEN)
		ports[n++] = bare_port(eventfd(1, EFD_CLOEXEC)); /* and always readable */
	assert_int_equal(udp_port_create(&ports[n], dup(fd)), 0);
	if (kind == LOCAL)
		assert_int_equal(local_port_before(&ports[n], (uint8_t)slot), 0);
	e->slot = (uint8_t)slot;
	e->port = ports[n++];
	assert_int_equal(shard_create(&e->shard, ports, n, (uint8_t)slot, &upcalls), 0);
	e->mem = malloc(MEM);
	memset(e->mem, 0, MEM);
	shard_lock(e->shard);
	r = shard_rnic(e->shard);
	assert_int_equal(rnic_pd_create(r, &e->pd), 0);
	assert_int_equal(rnic_cq_create(r, 4096, e, &e->cq), 0);
	assert_int_equal(rnic_mr_create(e->pd, e->mem, MEM, (uintptr_t)e->mem, ALL, &e->mr), 0);
	for (int i = 0; i < QPS; i++) {
		struct rnic_qp_init init = {
			.type = RNIC_QPT_RC,
			.send_cq = e->cq,
			.recv_cq = e->cq,
			.cap = {256, 256, 4, 4, 128},
			.sq_sig_all = true,
		};

		assert_int_equal(rnic_qp_create(e->pd, &init, &e->qp[i]), 0);
	}
	shard_unlock(e->shard);
}

static void connect_end(struct end *e, const struct end *peer)
{
	static const struct gid lo = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};

	shard_lock(e->shard);
	for (int i = 0; i < QPS; i++) {
		struct rnic_qp_attr a = {
			.state = RNIC_QPS_INIT,
			.access_flags = ALL,
			.port_num = 1,
			.path_mtu = RNIC_MTU_4096,
			.dest_qpn = rnic_qp_num(peer->qp[i]),
			.flow = {.sgid = lo, .dgid = lo, .sport = 0xc000},
			.max_rd_atomic = 8,
			.max_dest_rd_atomic = 8,
			.min_rnr_timer = 1,
			.timeout = 14,
			.retry_cnt = 7,
			.rnr_retry = 7,
		};
		uint64_t now = shard_now(e->shard);

		assert_int_equal(rnic_qp_modify(e->qp[i], &a,
						RNIC_QP_STATE | RNIC_QP_PKEY_INDEX | RNIC_QP_PORT |
							RNIC_QP_ACCESS_FLAGS,
						now),
				 0);
		a.state = RNIC_QPS_RTR;
		assert_int_equal(rnic_qp_modify(e->qp[i], &a,
						RNIC_QP_STATE | RNIC_QP_AV | RNIC_QP_PATH_MTU |
							RNIC_QP_DEST_QPN | RNIC_QP_RQ_PSN |
							RNIC_QP_MAX_DEST_RD_ATOMIC |
							RNIC_QP_MIN_RNR_TIMER,
						now),
				 0);
		a.state = RNIC_QPS_RTS;
		assert_int_equal(rnic_qp_modify(e->qp[i], &a,
						RNIC_QP_STATE | RNIC_QP_TIMEOUT |
							RNIC_QP_RETRY_CNT | RNIC_QP_RNR_RETRY |
							RNIC_QP_SQ_PSN | RNIC_QP_MAX_QP_RD_ATOMIC,
						now),
				 0);
	}
	shard_unlock(e->shard);
}

/* Packets for the peer go by memory. */
static void meet_locally(struct end *e, const struct end *peer)
{
	shard_lock(e->shard);
	assert_int_equal(local_port_meet(e->port, peer->slot, dup(local_port_inbox(peer->port))),
			 0);
	shard_unlock(e->shard);
}

static int setup_ports(void **state, enum ports kind)
{
	struct fixture *f = calloc(1, sizeof(*f));
	char err[512];
	bool heir;

	assert_int_equal(leases_init(&f->leases, -1, -1, &heir, err, sizeof(err)), 0);
	open_end(f, &f->end[0], kind);
	open_end(f, &f->end[1], kind);
	connect_end(&f->end[0], &f->end[1]);
	connect_end(&f->end[1], &f->end[0]);
	if (kind == LOCAL) {
		meet_locally(&f->end[0], &f->end[1]);
		meet_locally(&f->end[1], &f->end[0]);
	}
	*state = f;
	return 0;
}

static int setup(void **state)
{
	return setup_ports(state, ONE);
}

static int setup_two_ports(void **state)
{
	return setup_ports(state, TWO);
}

static int setup_local(void **state)
{
	return setup_ports(state, LOCAL);
}

static int setup_one_of_two_broken(void **state)
{
	return setup_ports(state, ONE_OF_TWO_BROKEN);
}

static void destroy_objects(struct end *e)
{
	shard_lock(e->shard);
	for (int i = 0; i < QPS; i++)
		assert_int_equal(rnic_qp_destroy(e->qp[i]), 0);
	assert_int_equal(rnic_mr_destroy(e->mr), 0);
	assert_int_equal(rnic_cq_destroy(e->cq), 0);
	assert_int_equal(rnic_pd_destroy(e->pd), 0);
	shard_unlock(e->shard);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 2; i++) {
		destroy_objects(&f->end[i]);
		shard_destroy(f->end[i].shard);
		free(f->end[i].mem);
	}
	leases_fini(&f->leases);
	free(f);
	return 0;
}

static void post_as(void (*then)(struct shard *), struct end *e, int qp, uint32_t opcode, size_t at,
		    uint32_t len, const struct end *peer)
{
	struct rnic_sge sge = {(uintptr_t)e->mem + at, len, rnic_mr_lkey(e->mr)};
	struct rnic_send_wr wr = {
		.wr_id = (uint64_t)opcode << 32 | at,
		.sge = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.remote_addr = (uintptr_t)peer->mem + at,
		.rkey = rnic_mr_rkey(peer->mr),
		.compare_add = 1,
	};

	shard_lock(e->shard);
	assert_int_equal(rnic_post_send(e->qp[qp], &wr, shard_now(e->shard)), 0);
	then(e->shard);
	shard_unlock(e->shard);
}

static void post(struct end *e, int qp, uint32_t opcode, size_t at, uint32_t len,
		 const struct end *peer)
{
	post_as(shard_flush, e, qp, opcode, at, len, peer);
}

static void post_recv(struct end *e, int qp, size_t at, uint32_t len)
{
	struct rnic_sge sge = {(uintptr_t)e->mem + at, len, rnic_mr_lkey(e->mr)};
	struct rnic_recv_wr wr = {.wr_id = at, .sge = &sge, .num_sge = 1};

	shard_lock(e->shard);
	assert_int_equal(rnic_post_recv(e->qp[qp], &wr), 0);
	shard_unlock(e->shard);
}

/* As ibv_poll_cq has it. */
static int poll_cq(struct end *e, struct rnic_wc *wc, int max, bool progress)
{
	int n;

	shard_lock(e->shard);
	n = rnic_cq_poll(e->cq, wc, max);
	if (n == 0 && progress) {
		shard_progress(e->shard);
		n = rnic_cq_poll(e->cq, wc, max);
	}
	shard_unlock(e->shard);
	return n;
}

static struct rnic_wc await(struct end *e, bool poll)
{
	uint64_t until = time_now_ns() + LIMIT_S * NSEC_PER_SEC;
	struct rnic_wc wc = {0};
	int n;

	while ((n = poll_cq(e, &wc, 1, poll)) == 0 && time_now_ns() < until)
		if (!poll)
			nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
	assert_int_equal(n, 1);
	assert_int_equal(wc.status, RNIC_WC_SUCCESS);
	return wc;
}

/* What its shard does to an end's memory, and what we do, comes before or after this; a program
 * learns it from a completion, which came over the network, of which a thread checker knows
 * nothing. */
static void meet(struct end *e)
{
	shard_lock(e->shard);
	shard_unlock(e->shard);
}

static void expect_equal(struct end *a, struct end *b, size_t at, size_t len)
{
	meet(a);
	meet(b);
	assert_memory_equal(a->mem + at, b->mem + at, len);
	meet(a);
	meet(b);
}

static void fill(struct end *e, size_t at, size_t len, unsigned seed)
{
	meet(e);
	for (size_t i = 0; i < len; i++)
		e->mem[at + i] = (uint8_t)(seed + i * 7 + (i >> 9));
	meet(e);
}

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

static uint64_t packets_sent(struct end *e)
{
	uint64_t n;

	shard_lock(e->shard);
	n = rnic_counters(shard_rnic(e->shard))->tx_packets;
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

/* Who has no processor for a while may find that the answer was not waited for: not each time. */
static void who_answers_writes_acknowledges_them_with_the_answer(void **state)
{
	struct fixture *f = *state;
	struct end *a = &f->end[0], *b = &f->end[1];
	bool together, at_once;
	uint64_t n = 1;

	together = write_and_answer(a, b, n, &at_once);
	assert_true(at_once && !together); /* nobody knows yet */
	for (; n < 1000 && !together; n++)
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

/* ---- who sleeps on the socket
 * ---------------------------------------------------------------- */

static int attend(struct end *e, uint64_t *ret_ticket)
{
	bool come;
	int fd;

	shard_lock(e->shard);
	fd = shard_attend(e->shard, true, NULL, &come, ret_ticket);
	shard_unlock(e->shard);
	return fd;
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
		SHARD_TEST(marks_are_read_from_the_socket),
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
		SHARD_TEST(a_sleeper_is_notified),
		SHARD_TEST(threads_share_a_shard),
		SHARD_TEST(a_packet_waits_for_who_attends),
		SHARD_TEST(a_packet_for_one_who_never_comes_is_taken_by_the_thread),
		SHARD_TEST(who_attended_and_went_away_leaves_the_socket_to_the_thread),
		SHARD_TEST(while_a_second_one_sleeps_the_thread_serves),
		SHARD_TEST(who_waits_for_events_is_served_by_the_thread),
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
		LOCAL_TEST(a_packet_waits_for_who_attends),
		LOCAL_TEST(a_packet_for_one_who_never_comes_is_taken_by_the_thread),
		LOCAL_TEST(who_attended_and_went_away_leaves_the_socket_to_the_thread),
		LOCAL_TEST(while_a_second_one_sleeps_the_thread_serves),
		LOCAL_TEST(what_comes_before_one_sleeps_keeps_it_awake),
		LOCAL_TEST(a_forked_child_has_no_part_in_the_shard),
		TWO_PORTS_TEST(pollers_exchange_everything),
		TWO_PORTS_TEST(threads_alone_exchange_everything),
		TWO_PORTS_TEST(nobody_attends_two_ports),
		TWO_PORTS_TEST(a_forked_child_has_no_part_in_the_shard),
		BROKEN_PORT_TEST(pollers_exchange_everything),
		BROKEN_PORT_TEST(the_threads_sleep_besides_a_broken_port),
		cmocka_unit_test(nobody_attends_what_has_no_descriptor),
		cmocka_unit_test(who_catches_up_leaves_nothing_for_later),
	};

	netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
