/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "crowd.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "fabric/node.h"

#define POLL_NS (5 * NSEC_PER_USEC)

static const uint32_t rights =
	RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE | RNIC_ACCESS_REMOTE_READ;

struct host {
	struct rnic *rnic;
	struct node *node;
	struct rnic_pd *pd;
	struct rnic_cq *cq;
	struct rnic_mr *mr;
	struct rnic_qp *qp; /* of senders */
	uint8_t memory[CROWD_MESSAGE];
	struct prng random;
	uint64_t done; /* messages, since crowd_count() */
};

struct crowd {
	struct crowd_nature nature;
	struct fabric *fabric;
	struct link *link;
	struct host host[1 + CROWD_MAX];   /* the receiver is the first */
	struct rnic_qp *qp[1 + CROWD_MAX]; /* its queue pairs */
};

_Noreturn void crowd_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	exit(1);
}

static void must(int rc, const char *what)
{
	if (rc)
		crowd_fail("%s: error %d", what, rc);
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
	(void)user;
	crowd_fail("event %d", (int)event);
}

static struct gid gid_of(int i)
{
	return (struct gid){.raw = {[10] = 0xff, 0xff, 10, 0, 0, (uint8_t)i}};
}

static struct rnic_qp *qp_open(const struct crowd *c, struct host *h)
{
	struct rnic_qp_init init = {.type = RNIC_QPT_RC,
				    .send_cq = h->cq,
				    .recv_cq = h->cq,
				    .cap = {c->nature.depth, 1, 1, 1, 0},
				    .sq_sig_all = true};
	struct rnic_qp *qp;

	must(rnic_qp_create(h->pd, &init, &qp), "rnic_qp_create");
	return qp;
}

static void qp_connect(struct crowd *c, int from, int to, struct rnic_qp *qp, struct rnic_qp *peer)
{
	static const uint32_t mask[] = {
		[RNIC_QPS_INIT] = RNIC_QP_PKEY_INDEX | RNIC_QP_PORT | RNIC_QP_ACCESS_FLAGS,
		[RNIC_QPS_RTR] = RNIC_QP_AV | RNIC_QP_PATH_MTU | RNIC_QP_DEST_QPN | RNIC_QP_RQ_PSN |
				 RNIC_QP_MAX_DEST_RD_ATOMIC | RNIC_QP_MIN_RNR_TIMER,
		[RNIC_QPS_RTS] = RNIC_QP_TIMEOUT | RNIC_QP_RETRY_CNT | RNIC_QP_RNR_RETRY |
				 RNIC_QP_SQ_PSN | RNIC_QP_MAX_QP_RD_ATOMIC,
	};
	struct rnic_qp_attr a = {
		.access_flags = rights,
		.path_mtu = (enum rnic_mtu)c->nature.path_mtu,
		.dest_qpn = rnic_qp_num(peer),
		.max_rd_atomic = RNIC_MAX_RD_ATOM,
		.max_dest_rd_atomic = RNIC_MAX_RD_ATOM,
		.min_rnr_timer = 1,
		.timeout = 17,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.flow = {.sgid = gid_of(from), .dgid = gid_of(to), .sport = 50000},
	};

	if (c->nature.selective)
		must(rnic_qp_repeat_selectively(qp, rnic_qp_tag(peer)), "selective repeat");
	for (a.state = RNIC_QPS_INIT; a.state <= RNIC_QPS_RTS; a.state++)
		must(rnic_qp_modify(qp, &a, mask[a.state] | RNIC_QP_STATE, fabric_now(c->fabric)),
		     "rnic_qp_modify");
}

static void host_open(struct crowd *c, int i)
{
	static const struct rnic_ops ops = {
		.alloc = host_alloc,
		.free = host_free,
		.random = host_random,
		.cq_notify = host_notify,
		.async_event = host_event,
	};
	static const struct node_nature nature = {.tx_lag_ns = 200, .tick_lag_ns = 1000};
	const struct crowd_nature *n = &c->nature;
	struct host *h = &c->host[i];
	struct rnic_config config = {.slot = (uint8_t)(1 + i),
				     .max_qps = 16,
				     .max_keys = 4,
				     .window_bytes = n->window_bytes,
				     .socket_bytes = n->window_bytes,
				     .cc = i == 1 && n->first ? n->first : n->cc,
				     .cc_params = n->params};
	struct gid gid = gid_of(i);

	h->random.state = n->seed * 256 + (uint64_t)i;
	must(rnic_create(&h->rnic, &config, &ops, h), "rnic_create");
	must(rnic_pd_create(h->rnic, &h->pd), "rnic_pd_create");
	must(rnic_cq_create(h->rnic, 256, NULL, &h->cq), "rnic_cq_create");
	must(rnic_mr_create(h->pd, h->memory, CROWD_MESSAGE, (uintptr_t)h->memory, rights, &h->mr),
	     "rnic_mr_create");
	must(node_create(&h->node, c->fabric, c->link, &gid, h->rnic, &nature), "node_create");
}

static void ask_one(struct crowd *c, struct host *h)
{
	struct rnic_sge sge = {(uintptr_t)h->memory, CROWD_MESSAGE, rnic_mr_lkey(h->mr)};
	struct rnic_send_wr wr = {.sge = &sge,
				  .num_sge = 1,
				  .opcode =
					  c->nature.reads ? RNIC_WR_RDMA_READ : RNIC_WR_RDMA_WRITE,
				  .remote_addr = (uintptr_t)c->host[0].memory,
				  .rkey = rnic_mr_rkey(c->host[0].mr)};

	must(rnic_post_send(h->qp, &wr, fabric_now(c->fabric)), "rnic_post_send");
	node_kick(h->node);
}

struct crowd *crowd_open(const struct crowd_nature *nature)
{
	struct crowd *c = calloc(1, sizeof(*c));

	if (!c || fabric_create(&c->fabric, nature->seed))
		abort();
	c->nature = *nature;
	must(link_create(&c->link, c->fabric, &nature->wire), "link_create");
	for (int i = 0; i <= nature->senders; i++)
		host_open(c, i);
	for (int i = 1; i <= nature->senders; i++) {
		c->host[i].qp = qp_open(c, &c->host[i]);
		c->qp[i] = qp_open(c, &c->host[0]);
		qp_connect(c, 0, i, c->qp[i], c->host[i].qp);
		qp_connect(c, i, 0, c->host[i].qp, c->qp[i]);
	}
	return c;
}

void crowd_close(struct crowd *c)
{
	for (int i = 1; i <= c->nature.senders; i++) {
		must(rnic_qp_destroy(c->host[i].qp), "rnic_qp_destroy");
		must(rnic_qp_destroy(c->qp[i]), "rnic_qp_destroy");
	}
	for (int i = 0; i <= c->nature.senders; i++) {
		struct host *h = &c->host[i];

		must(rnic_mr_destroy(h->mr), "rnic_mr_destroy");
		must(rnic_cq_destroy(h->cq), "rnic_cq_destroy");
		must(rnic_pd_destroy(h->pd), "rnic_pd_destroy");
		node_destroy(h->node);
		rnic_destroy(h->rnic);
	}
	link_destroy(c->link);
	fabric_destroy(c->fabric);
	free(c);
}

void crowd_begin(struct crowd *c, int sender)
{
	for (unsigned k = 0; k < c->nature.depth; k++)
		ask_one(c, &c->host[sender]);
}

void crowd_run_until(struct crowd *c, uint64_t ns)
{
	uint64_t at = fabric_now(c->fabric);

	while (at < ns) {
		at += POLL_NS;
		while (fabric_step(c->fabric, at))
			;
		for (int i = 1; i <= c->nature.senders; i++) {
			struct host *h = &c->host[i];
			struct rnic_wc wc;

			while (rnic_cq_poll(h->cq, &wc, 1) == 1) {
				if (wc.status != RNIC_WC_SUCCESS)
					crowd_fail("a request ends with %d", (int)wc.status);
				h->done++;
				ask_one(c, h);
			}
		}
	}
}

void crowd_count(struct crowd *c)
{
	for (int i = 1; i <= c->nature.senders; i++)
		c->host[i].done = 0;
}

struct crowd_got crowd_got(const struct crowd *c)
{
	double sum = 0, squares = 0;

	for (int i = 1; i <= c->nature.senders; i++) {
		double n = (double)c->host[i].done;

		sum += n;
		squares += n * n;
	}
	return (struct crowd_got){.bytes = sum * CROWD_MESSAGE,
				  .fairness = sum * sum / (c->nature.senders * squares)};
}

const struct link_counters *crowd_link(const struct crowd *c)
{
	return link_counters(c->link);
}

const struct rnic_counters *crowd_counters(const struct crowd *c, int host)
{
	return rnic_counters(c->host[host].rnic);
}

uint64_t crowd_queue_peak(struct crowd *c)
{
	return node_queue_peak(c->host[c->nature.reads].node);
}
