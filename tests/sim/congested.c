/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Cores that write to one other through a queue that marks: what each congestion control makes of
 * it. The rate of one that does DCQCN is held beside a model of what was published all the while.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/dcqcn_model.h"
#include "base/bytes.h"
#include "base/units.h"
#include "fabric/node.h"
#include "rnic/cc/cc.h"

#define SENDERS_MAX 8
#define MESSAGE	    (64u << 10)
#define DEPTH	    8
#define LINE_MBPS   40000
#define SETTLE_NS   (20 * NSEC_PER_MSEC)
#define MEASURE_NS  (40 * NSEC_PER_MSEC)

static const uint32_t rights = RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE;

/* As in the paper: lines of 40 Gb/s, and a switch that marks from 5 KB on, a hundredth at 200 KB.
 */
static const struct link_nature wire = {
	.delay_ns = 2000,
	.ns_per_byte_x1000 = 200,
	.queue = {.ns_per_byte_x1000 = 200,
		  .bytes_max = 4 << 20,
		  .mark_from = 5000,
		  .mark_all = 200000,
		  .mark_ppm = 10000},
};

struct host {
	struct rnic *rnic;
	struct node *node;
	struct rnic_pd *pd;
	struct rnic_cq *cq;
	struct rnic_mr *mr;
	struct rnic_qp *qp; /* of senders */
	uint8_t memory[MESSAGE];
	struct prng random;
	uint64_t done; /* messages */
};

struct run {
	struct fabric *fabric;
	struct link *link;
	int senders;
	struct host host[1 + SENDERS_MAX];   /* the receiver is the first */
	struct rnic_qp *qp[1 + SENDERS_MAX]; /* its queue pairs */
};

struct outcome {
	double goodput, fairness; /* of the line's rate; Jain's index */
	uint64_t peak;		  /* of the queue, bytes */
	uint64_t lost, marked, cnps, steps;
};

static _Noreturn void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "congested: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	exit(1);
}

static void must(int rc, const char *what)
{
	if (rc)
		fail("%s: error %d", what, rc);
}

/* ---- DCQCN, watched ------------------------------------------------------------------------- */

static struct {
	const struct cc *cc; /* the one that is watched */
	struct model model;
	uint64_t notified, steps;
} watch;

static void compare(const struct cc *cc, uint64_t now)
{
	if (!model_agrees(&watch.model, cc->rate_kbps))
		fail("at %llu ns it is %u kb/s, and the model's rate %f Mb/s",
		     (unsigned long long)now, cc->rate_kbps, watch.model.rc);
	watch.steps++;
}

static void watched_start(struct cc *cc, uint64_t now)
{
	watch.cc = cc;
	watch.model = model_of(LINE_MBPS);
	cc_dcqcn.start(cc, now);
}

static void watched_sent(struct cc *cc, uint32_t bytes, uint64_t now)
{
	cc_dcqcn.sent(cc, bytes, now);
	model_run(&watch.model, now);
	model_sent(&watch.model, bytes);
	compare(cc, now);
}

static void watched_acked(struct cc *cc, uint32_t bytes, uint64_t now)
{
	cc_dcqcn.acked(cc, bytes, now);
}

static void watched_cnp(struct cc *cc, uint64_t now)
{
	cc_dcqcn.cnp(cc, now);
	model_run(&watch.model, now);
	model_cnp(&watch.model, now);
	watch.notified++;
	compare(cc, now);
}

static void watched_lost(struct cc *cc, uint32_t bytes, bool again, uint64_t now)
{
	(void)bytes;
	(void)again;
	(void)cc;
	fail("at %llu ns something is lost", (unsigned long long)now);
}

static const struct cc_ops watched = {
	.name = "watched",
	.start = watched_start,
	.sent = watched_sent,
	.acked = watched_acked,
	.lost = watched_lost,
	.cnp = watched_cnp,
};

/* ---- the world ------------------------------------------------------------------------------ */

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
	fail("event %d", (int)event);
}

static struct gid gid_of(int i)
{
	return (struct gid){.raw = {[10] = 0xff, 0xff, 10, 0, 0, (uint8_t)i}};
}

static struct rnic_qp *qp_open(struct host *h)
{
	struct rnic_qp_init init = {.type = RNIC_QPT_RC,
				    .send_cq = h->cq,
				    .recv_cq = h->cq,
				    .cap = {DEPTH, 1, 1, 1, 0},
				    .sq_sig_all = true};
	struct rnic_qp *qp;

	must(rnic_qp_create(h->pd, &init, &qp), "rnic_qp_create");
	return qp;
}

static void qp_connect(struct run *r, int from, int to, struct rnic_qp *qp, struct rnic_qp *peer)
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

	for (a.state = RNIC_QPS_INIT; a.state <= RNIC_QPS_RTS; a.state++)
		must(rnic_qp_modify(qp, &a, mask[a.state] | RNIC_QP_STATE, fabric_now(r->fabric)),
		     "rnic_qp_modify");
}

static void host_open(struct run *r, int i, const struct cc_ops *cc, const struct cc_params *params)
{
	static const struct rnic_ops ops = {
		.alloc = host_alloc,
		.free = host_free,
		.random = host_random,
		.cq_notify = host_notify,
		.async_event = host_event,
	};
	static const struct node_nature nature = {.tx_lag_ns = 200, .tick_lag_ns = 1000};
	struct host *h = &r->host[i];
	struct rnic_config config = {.slot = (uint8_t)(1 + i),
				     .max_qps = 16,
				     .max_keys = 4,
				     .cc = cc,
				     .cc_params = params};
	struct gid gid = gid_of(i);

	h->random.state = (uint64_t)i;
	must(rnic_create(&h->rnic, &config, &ops, h), "rnic_create");
	must(rnic_pd_create(h->rnic, &h->pd), "rnic_pd_create");
	must(rnic_cq_create(h->rnic, 256, NULL, &h->cq), "rnic_cq_create");
	must(rnic_mr_create(h->pd, h->memory, MESSAGE, (uintptr_t)h->memory, rights, &h->mr),
	     "rnic_mr_create");
	must(node_create(&h->node, r->fabric, r->link, &gid, h->rnic, &nature), "node_create");
}

static void write_one(struct run *r, struct host *h)
{
	struct rnic_sge sge = {(uintptr_t)h->memory, MESSAGE, rnic_mr_lkey(h->mr)};
	struct rnic_send_wr wr = {.sge = &sge,
				  .num_sge = 1,
				  .opcode = RNIC_WR_RDMA_WRITE,
				  .remote_addr = (uintptr_t)r->host[0].memory,
				  .rkey = rnic_mr_rkey(r->host[0].mr)};

	must(rnic_post_send(h->qp, &wr, fabric_now(r->fabric)), "rnic_post_send");
	node_kick(h->node);
}

/* Each sender has always something to send. */
static void run_until(struct run *r, uint64_t end)
{
	uint64_t at = fabric_now(r->fabric);

	while (at < end) {
		at += 5000;
		while (fabric_step(r->fabric, at))
			;
		for (int i = 1; i <= r->senders; i++) {
			struct host *h = &r->host[i];
			struct rnic_wc wc;

			while (rnic_cq_poll(h->cq, &wc, 1) == 1) {
				if (wc.status != RNIC_WC_SUCCESS)
					fail("a WRITE ends with %d", (int)wc.status);
				h->done++;
				write_one(r, h);
			}
		}
	}
}

static struct outcome judge(struct run *r, const uint64_t *before)
{
	struct outcome o = {0};
	double sum = 0, squares = 0;

	for (int i = 1; i <= r->senders; i++) {
		double n = (double)(r->host[i].done - before[i]);

		sum += n;
		squares += n * n;
	}
	o.goodput = sum * MESSAGE * 8000 / MEASURE_NS / LINE_MBPS;
	o.fairness = sum * sum / (r->senders * squares);
	o.peak = node_queue_peak(r->host[0].node);
	o.lost = link_counters(r->link)->overflowed;
	o.marked = link_counters(r->link)->marked;
	o.cnps = rnic_counters(r->host[0].rnic)->tx_cnp;
	o.steps = watch.steps;
	return o;
}

static void run_close(struct run *r)
{
	for (int i = 1; i <= r->senders; i++) {
		must(rnic_qp_destroy(r->host[i].qp), "rnic_qp_destroy");
		must(rnic_qp_destroy(r->qp[i]), "rnic_qp_destroy");
	}
	for (int i = 0; i <= r->senders; i++) {
		struct host *h = &r->host[i];

		must(rnic_mr_destroy(h->mr), "rnic_mr_destroy");
		must(rnic_cq_destroy(h->cq), "rnic_cq_destroy");
		must(rnic_pd_destroy(h->pd), "rnic_pd_destroy");
		node_destroy(h->node);
		rnic_destroy(h->rnic);
	}
	link_destroy(r->link);
	fabric_destroy(r->fabric);
	free(r);
}

/* The first sender's queue pair is watched where a notification means something. */
static struct outcome run(const struct cc_ops *cc, int senders)
{
	struct run *r = calloc(1, sizeof(*r));
	struct cc_params params = cc_defaults;
	uint64_t before[1 + SENDERS_MAX];
	struct outcome o;

	if (!r || fabric_create(&r->fabric, 1))
		abort();
	params.rp_max_rate = LINE_MBPS;
	params.rp_time_reset = MODEL_TIMER_NS / 1000;
	params.rp_min_rate = 1;
	memset(&watch, 0, sizeof(watch));
	r->senders = senders;
	must(link_create(&r->link, r->fabric, &wire), "link_create");
	for (int i = 0; i <= senders; i++)
		host_open(r, i, i == 1 && cc == &cc_dcqcn ? &watched : cc, &params);
	for (int i = 1; i <= senders; i++) {
		r->host[i].qp = qp_open(&r->host[i]);
		r->qp[i] = qp_open(&r->host[0]);
		qp_connect(r, 0, i, r->qp[i], r->host[i].qp);
		qp_connect(r, i, 0, r->host[i].qp, r->qp[i]);
		for (int k = 0; k < DEPTH; k++)
			write_one(r, &r->host[i]);
	}
	run_until(r, FABRIC_BEGIN_NS + SETTLE_NS);
	node_queue_peak(r->host[0].node);
	for (int i = 1; i <= senders; i++)
		before[i] = r->host[i].done;
	run_until(r, FABRIC_BEGIN_NS + SETTLE_NS + MEASURE_NS);
	o = judge(r, before);
	run_close(r);
	printf("%-8s %d: %5.1f %% of the line, fairness %.3f, queue up to %4llu KB, %llu lost, "
	       "%llu marked, %llu notifications, %llu steps as in the model\n",
	       cc->name, senders, 100 * o.goodput, o.fairness, (unsigned long long)o.peak / 1000,
	       (unsigned long long)o.lost, (unsigned long long)o.marked, (unsigned long long)o.cnps,
	       (unsigned long long)o.steps);
	return o;
}

int main(void)
{
	static const int crowds[] = {1, 2, 8};

	for (size_t i = 0; i < ARRAY_SIZE(crowds); i++) {
		const struct outcome none = run(&cc_none, crowds[i]);
		const struct outcome dcqcn = run(&cc_dcqcn, crowds[i]);

		if (none.marked || none.cnps)
			fail("who would not answer is marked");
		if (dcqcn.lost || dcqcn.goodput < 0.95 || dcqcn.fairness < 0.99 ||
		    dcqcn.steps < 1000)
			fail("that is not what DCQCN makes of it");
		if (crowds[i] > 1 && (!dcqcn.cnps || dcqcn.peak > none.peak / 4))
			fail("the queue is no shorter with it");
	}
	return 0;
}
