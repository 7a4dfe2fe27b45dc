/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "shard_bed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/time.h"
#include "broker/leases.h"
#include "port/local/local_port.h"
#include "port/udp/udp_port.h"

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

const struct shard_upcalls upcalls = {cq_notify, async_event};

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

	assert_true(leases_take(f->leases, geteuid(), time_now_ns(), &fd) > 0);
	assert_int_equal(udp_port_create(&p, dup(fd)), 0);
	if (!ops.reaches) {
		ops = *p->ops;
		ops.reaches = reaches_nobody;
	}
	p->ops = &ops;
	return p;
}

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

struct port *bare_port(int fd)
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
	int fd, slot = leases_take(f->leases, geteuid(), time_now_ns(), &fd);
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

	f->leases = calloc(1, sizeof(*f->leases));
	assert_int_equal(leases_init(f->leases, -1, -1, &heir, err, sizeof(err)), 0);
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

int setup(void **state)
{
	return setup_ports(state, ONE);
}

int setup_two_ports(void **state)
{
	return setup_ports(state, TWO);
}

int setup_local(void **state)
{
	return setup_ports(state, LOCAL);
}

int setup_one_of_two_broken(void **state)
{
	return setup_ports(state, ONE_OF_TWO_BROKEN);
}

void destroy_objects(struct end *e)
{
	shard_lock(e->shard);
	for (int i = 0; i < QPS; i++)
		assert_int_equal(rnic_qp_destroy(e->qp[i]), 0);
	assert_int_equal(rnic_mr_destroy(e->mr), 0);
	assert_int_equal(rnic_cq_destroy(e->cq), 0);
	assert_int_equal(rnic_pd_destroy(e->pd), 0);
	shard_unlock(e->shard);
}

int teardown(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 2; i++) {
		destroy_objects(&f->end[i]);
		shard_destroy(f->end[i].shard);
		free(f->end[i].mem);
	}
	leases_fini(f->leases);
	free(f->leases);
	free(f);
	return 0;
}

void post_as(void (*then)(struct shard *), struct end *e, int qp, uint32_t opcode, size_t at,
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

void post(struct end *e, int qp, uint32_t opcode, size_t at, uint32_t len, const struct end *peer)
{
	post_as(shard_flush, e, qp, opcode, at, len, peer);
}

void post_recv(struct end *e, int qp, size_t at, uint32_t len)
{
	struct rnic_sge sge = {(uintptr_t)e->mem + at, len, rnic_mr_lkey(e->mr)};
	struct rnic_recv_wr wr = {.wr_id = at, .sge = &sge, .num_sge = 1};

	shard_lock(e->shard);
	assert_int_equal(rnic_post_recv(e->qp[qp], &wr), 0);
	shard_unlock(e->shard);
}

int poll_cq(struct end *e, struct rnic_wc *wc, int max, bool progress)
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

struct rnic_wc await(struct end *e, bool poll)
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

void meet(struct end *e)
{
	shard_lock(e->shard);
	shard_unlock(e->shard);
}

void expect_equal(struct end *a, struct end *b, size_t at, size_t len)
{
	meet(a);
	meet(b);
	assert_memory_equal(a->mem + at, b->mem + at, len);
	meet(a);
	meet(b);
}

void fill(struct end *e, size_t at, size_t len, unsigned seed)
{
	meet(e);
	for (size_t i = 0; i < len; i++)
		e->mem[at + i] = (uint8_t)(seed + i * 7 + (i >> 9));
	meet(e);
}
