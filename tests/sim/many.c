/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Hundreds of cores in one world: each writes to its neighbour, and all to the first, over a link
 * that loses packets. Every byte must arrive; the same seed must give the same run.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/units.h"
#include "fabric/node.h"

#define NODES	 400
#define BYTES	 20000u
#define LIMIT_NS (60 * NSEC_PER_SEC)

struct host {
	struct rnic *rnic;
	struct node *node;
	struct rnic_pd *pd;
	struct rnic_cq *cq;
	struct rnic_mr *mr;
	struct rnic_qp *to_next, *from_last, *to_first;
	uint8_t out[BYTES], in[BYTES];
	struct prng random;
	uint32_t done;
};

struct run {
	uint64_t seed;
	struct fabric *fabric;
	struct link *link;
	struct host *host;	      /* NODES */
	struct rnic_qp *first[NODES]; /* of the first host, by who is at the other end */
	uint8_t (*pool)[BYTES];	      /* what all write to */
	struct rnic_mr *pool_mr;
	struct link_counters packets;
	uint64_t took_ns;
};

static _Noreturn void fail(const struct run *r, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "many: seed %llu at %llu ns: ", (unsigned long long)r->seed,
		(unsigned long long)fabric_now(r->fabric));
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\nreplay: many --seed %llu\n", (unsigned long long)r->seed);
	exit(1);
}

static void must(const struct run *r, int rc, const char *what)
{
	if (rc)
		fail(r, "%s: error %d", what, rc);
}

static void *host_alloc(void *ctx, size_t bytes)
{
	(void)ctx;
	return calloc(1, bytes);
}

static void host_free(void *ctx, void *p)
{
	(void)ctx;
	free(p);
}

static uint32_t host_random(void *ctx)
{
	struct host *h = ctx;

	return (uint32_t)prng_u64(&h->random);
}

static void host_notify(void *ctx, void *cq_user)
{
	(void)ctx;
	(void)cq_user;
}

static void host_event(void *ctx, enum rnic_event event, void *user)
{
	(void)ctx;
	(void)event;
	(void)user;
}

static const struct rnic_ops ops = {
	.alloc = host_alloc,
	.free = host_free,
	.random = host_random,
	.cq_notify = host_notify,
	.async_event = host_event,
};

static const uint32_t rights = RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE;

static struct gid gid_of(int i)
{
	return (struct gid){.raw = {[10] = 0xff, 0xff, 10, 0, (uint8_t)(i >> 8), (uint8_t)i}};
}

static struct rnic_qp *open_qp(struct run *r, struct host *h)
{
	struct rnic_qp_init init = {
		.type = RNIC_QPT_RC,
		.send_cq = h->cq,
		.recv_cq = h->cq,
		.cap = {4, 1, 1, 1, 0},
		.sq_sig_all = true,
	};
	struct rnic_qp *qp;

	must(r, rnic_qp_create(h->pd, &init, &qp), "rnic_qp_create");
	return qp;
}

static void connect_one(struct run *r, int from, int to, struct rnic_qp *qp, struct rnic_qp *peer)
{
	uint64_t now = fabric_now(r->fabric);
	struct rnic_qp_attr a = {
		.state = RNIC_QPS_INIT,
		.access_flags = rights,
		.path_mtu = RNIC_MTU_1024,
		.dest_qpn = rnic_qp_num(peer),
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.flow = {.sgid = gid_of(from), .dgid = gid_of(to), .sport = 50000},
	};

	must(r,
	     rnic_qp_modify(
		     qp, &a,
		     RNIC_QP_STATE | RNIC_QP_PKEY_INDEX | RNIC_QP_PORT | RNIC_QP_ACCESS_FLAGS, now),
	     "INIT");
	a.state = RNIC_QPS_RTR;
	must(r,
	     rnic_qp_modify(qp, &a,
			    RNIC_QP_STATE | RNIC_QP_AV | RNIC_QP_PATH_MTU | RNIC_QP_DEST_QPN |
				    RNIC_QP_RQ_PSN | RNIC_QP_MAX_DEST_RD_ATOMIC |
				    RNIC_QP_MIN_RNR_TIMER,
			    now),
	     "RTR");
	a.state = RNIC_QPS_RTS;
	must(r,
	     rnic_qp_modify(qp, &a,
			    RNIC_QP_STATE | RNIC_QP_TIMEOUT | RNIC_QP_RETRY_CNT |
				    RNIC_QP_RNR_RETRY | RNIC_QP_SQ_PSN | RNIC_QP_MAX_QP_RD_ATOMIC,
			    now),
	     "RTS");
}

static void connect_pair(struct run *r, int a, int b, struct rnic_qp *at_a, struct rnic_qp *at_b)
{
	connect_one(r, a, b, at_a, at_b);
	connect_one(r, b, a, at_b, at_a);
}

static void host_open(struct run *r, int i)
{
	static const struct node_nature nature = {.tx_lag_ns = 2000, .tick_lag_ns = 20000};
	struct host *h = &r->host[i];
	struct rnic_config config = {
		.slot = (uint8_t)(1 + i % 255), .max_qps = i ? 4 : NODES + 4, .max_keys = 4};
	struct gid gid = gid_of(i);

	h->random.state = r->seed + (uint64_t)i;
	for (size_t k = 0; k < BYTES; k++)
		h->out[k] = (uint8_t)prng_u64(&h->random);
	must(r, rnic_create(&h->rnic, &config, &ops, h), "rnic_create");
	must(r, rnic_pd_create(h->rnic, &h->pd), "rnic_pd_create");
	must(r, rnic_cq_create(h->rnic, i ? 16 : 16 * NODES, NULL, &h->cq), "rnic_cq_create");
	must(r,
	     rnic_mr_create(h->pd, h->out, sizeof(h->out) + sizeof(h->in), (uintptr_t)h->out,
			    rights, &h->mr),
	     "rnic_mr_create");
	h->to_next = open_qp(r, h);
	h->from_last = open_qp(r, h);
	if (i)
		h->to_first = open_qp(r, h);
	must(r, node_create(&h->node, r->fabric, r->link, &gid, h->rnic, &nature), "node_create");
}

static void write_to(struct run *r, int i, struct rnic_qp *qp, const void *where, uint32_t rkey)
{
	struct host *h = &r->host[i];
	struct rnic_sge sge = {(uintptr_t)h->out, BYTES, rnic_mr_lkey(h->mr)};
	struct rnic_send_wr wr = {
		.sge = &sge,
		.num_sge = 1,
		.opcode = RNIC_WR_RDMA_WRITE,
		.remote_addr = (uintptr_t)where,
		.rkey = rkey,
	};

	must(r, rnic_post_send(qp, &wr, fabric_now(r->fabric)), "rnic_post_send");
	node_kick(h->node);
}

static void run_open(struct run *r, uint64_t seed)
{
	static const struct link_nature nature = {
		.loss_ppm = 2000,
		.delay_ns = 2000,
		.jitter_ns = 500,
		.ns_per_byte_x1000 = 80, /* 100 Gbit/s */
	};

	r->seed = seed;
	if (fabric_create(&r->fabric, seed))
		abort();
	must(r, link_create(&r->link, r->fabric, &nature), "link_create");
	r->host = calloc(NODES, sizeof(*r->host));
	r->pool = calloc(NODES, sizeof(*r->pool));
	if (!r->host || !r->pool)
		abort();
	for (int i = 0; i < NODES; i++)
		host_open(r, i);
	must(r,
	     rnic_mr_create(r->host[0].pd, r->pool, NODES * sizeof(*r->pool), (uintptr_t)r->pool,
			    rights, &r->pool_mr),
	     "the pool's region");
	for (int i = 0; i < NODES; i++) {
		int next = (i + 1) % NODES;

		connect_pair(r, i, next, r->host[i].to_next, r->host[next].from_last);
		if (i) {
			r->first[i] = open_qp(r, &r->host[0]);
			connect_pair(r, i, 0, r->host[i].to_first, r->first[i]);
		}
	}
}

static bool all_done(struct run *r)
{
	bool all = true;

	for (int i = 0; i < NODES; i++) {
		struct host *h = &r->host[i];
		struct rnic_wc wc;

		while (rnic_cq_poll(h->cq, &wc, 1) == 1) {
			if (wc.status != RNIC_WC_SUCCESS)
				fail(r, "host %d: a WRITE ends with %d", i, (int)wc.status);
			h->done++;
		}
		all = all && h->done == (i ? 2 : 1);
	}
	return all;
}

static void run_check(struct run *r)
{
	for (int i = 0; i < NODES; i++) {
		const struct host *h = &r->host[i];

		if (memcmp(r->host[(i + 1) % NODES].in, h->out, BYTES) != 0)
			fail(r, "the neighbour of host %d has other bytes", i);
		if (i && memcmp(r->pool[i], h->out, BYTES) != 0)
			fail(r, "the first host has other bytes of host %d", i);
	}
}

static void run_close(struct run *r)
{
	must(r, rnic_mr_destroy(r->pool_mr), "rnic_mr_destroy");
	for (int i = 1; i < NODES; i++)
		must(r, rnic_qp_destroy(r->first[i]), "rnic_qp_destroy");
	for (int i = 0; i < NODES; i++) {
		struct host *h = &r->host[i];

		must(r, rnic_qp_destroy(h->to_next), "rnic_qp_destroy");
		must(r, rnic_qp_destroy(h->from_last), "rnic_qp_destroy");
		if (h->to_first)
			must(r, rnic_qp_destroy(h->to_first), "rnic_qp_destroy");
		must(r, rnic_mr_destroy(h->mr), "rnic_mr_destroy");
		must(r, rnic_cq_destroy(h->cq), "rnic_cq_destroy");
		must(r, rnic_pd_destroy(h->pd), "rnic_pd_destroy");
		node_destroy(h->node);
		rnic_destroy(h->rnic);
	}
	link_destroy(r->link);
	fabric_destroy(r->fabric);
	free(r->host);
	free(r->pool);
}

static struct run run(uint64_t seed)
{
	struct run r = {0};
	uint64_t at = FABRIC_BEGIN_NS;

	run_open(&r, seed);
	for (int i = 0; i < NODES; i++) {
		const struct host *next = &r.host[(i + 1) % NODES];

		write_to(&r, i, r.host[i].to_next, next->in, rnic_mr_rkey(next->mr));
		if (i)
			write_to(&r, i, r.host[i].to_first, r.pool[i], rnic_mr_rkey(r.pool_mr));
	}
	do {
		at += 100000;
		while (fabric_step(r.fabric, at))
			;
		if (at > LIMIT_NS)
			fail(&r, "hangs");
	} while (!all_done(&r));
	run_check(&r);
	r.packets = *link_counters(r.link);
	r.took_ns = at - FABRIC_BEGIN_NS;
	run_close(&r);
	return r;
}

int main(int argc, char **argv)
{
	unsigned long long seed = 1;
	struct run a, b;

	if (argc > 1 &&
	    (argc != 3 || strcmp(argv[1], "--seed") != 0 || sscanf(argv[2], "%llu", &seed) != 1)) {
		fprintf(stderr, "usage: many [--seed N]\n");
		return 2;
	}
	a = run(seed);
	b = run(seed);
	if (a.took_ns != b.took_ns || memcmp(&a.packets, &b.packets, sizeof(a.packets)) != 0) {
		fprintf(stderr, "many: seed %llu: two runs differ\n", seed);
		return 1;
	}
	printf("%d cores, %llu packets, %llu lost, in %llu us of their time\n", NODES,
	       (unsigned long long)a.packets.sent, (unsigned long long)a.packets.lost,
	       (unsigned long long)a.took_ns / 1000);
	return a.packets.lost ? 0 : 1;
}
