/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Making a world from its seed, taking it down, and what must be true when all is quiet. */
#include "rc_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rnic/cc/cc.h"
#include "rnic/trace.h"

static void *rc_world_alloc(void *ctx, size_t bytes)
{
	(void)ctx;
	return calloc(1, bytes);
}

static void rc_world_free(void *ctx, void *p)
{
	(void)ctx;
	free(p);
}

static uint32_t rc_world_random(void *ctx)
{
	struct rc_node *n = ctx;

	return (uint32_t)prng_u64(&n->keys);
}

static void rc_world_notify(void *ctx, void *cq_user)
{
	(void)ctx;
	(void)cq_user;
}

static void rc_world_event(void *ctx, enum rnic_event event, void *user)
{
	(void)ctx;
	if (event == RNIC_EVENT_CQ_ERR)
		((struct side *)user)->cq_overflowed = true;
	if (event == RNIC_EVENT_QP_LAST_WQE_REACHED)
		((struct side *)user)->last_wqe_events++;
}

static void rc_world_trace(void *ctx, int event, uint32_t qpn, uint64_t a, uint64_t b)
{
	static const char *const names[] = {
#define X(name, text, a, b) #name,
#include "rnic/trace.def"
#undef X
	};
	const struct rc_node *n = ctx;

	if (event == TRACE_rx || event == TRACE_tx) {
		const char *op = opcode_table[a >> 24].name;

		fprintf(stderr, "%12llu node %d qp %06x %s %s psn %06llx len %llu\n",
			(unsigned long long)fabric_now(n->w->fabric), n->index, qpn, names[event],
			op ? op : "?", (unsigned long long)(a & PSN_MASK), (unsigned long long)b);
		return;
	}
	fprintf(stderr, "%12llu node %d qp %06x %s %llu %llu\n",
		(unsigned long long)fabric_now(n->w->fabric), n->index, qpn, names[event],
		(unsigned long long)a, (unsigned long long)b);
}

static void must(const struct rc_world *w, int err, const char *what)
{
	expect(w, err == 0, "%s: error %d", what, err);
}

static struct gid gid_of(const struct rc_world *w, int node)
{
	if (w->one_host)
		node = 0;
	return (struct gid){.raw = {[10] = 0xff, 0xff, 10, 0, 0, (uint8_t)(node + 1)}};
}

struct rc_node *side_node(const struct side *s)
{
	return &s->w->nodes[s->node];
}

bool pair_may_fail(const struct side *s)
{
	return s->w->errors_allowed >> (s->index / 2) & 1;
}

void pair_allow_errors(struct side *s)
{
	s->w->errors_allowed |= 1ull << (s->index / 2);
}

/* ---- memory of one WR ----------------------------------------------------------------------- */

struct landing *landing_open(struct side *s, uint32_t len, uint32_t max_sge, uint32_t access)
{
	struct rc_world *w = s->w;
	struct landing *l = calloc(1, sizeof(*l));
	uint32_t left = len, at = 0;

	l->len = len;
	l->nsge = (uint32_t)prng_range(w->prng, len ? 1 : 0, min_of(max_sge, SGE_MAX));
	l->size = len + (size_t)(l->nsge + 1) * 16;
	l->buf = malloc(l->size);
	memset(l->buf, GUARD_BYTE, l->size);
	must(w,
	     rnic_mr_create(side_node(s)->pd, l->buf, l->size, (uintptr_t)l->buf, access, &l->mr),
	     "registering a landing");
	for (uint32_t i = 0; i < l->nsge; i++) {
		uint32_t n = i + 1 == l->nsge ? left : (uint32_t)prng_below(w->prng, left + 1);

		at += (uint32_t)prng_below(w->prng, 16);
		l->sge[i] = (struct rnic_sge){(uintptr_t)l->buf + at, n, rnic_mr_lkey(l->mr)};
		at += n;
		left -= n;
	}
	return l;
}

void landing_close(struct landing *l)
{
	if (!l)
		return;
	if (l->mr && rnic_mr_destroy(l->mr))
		abort();
	free(l->buf);
	free(l);
}

/* The first len bytes of the pieces are `want`; nothing else was touched beyond them. */
void landing_check(const struct rc_world *w, const struct landing *l, const uint8_t *want,
		   uint32_t len, const char *what)
{
	size_t at = 0;
	uint32_t done = 0;

	for (uint32_t i = 0; i < l->nsge; i++) {
		size_t start = (size_t)(l->sge[i].addr - (uintptr_t)l->buf);
		uint32_t n = min_of(l->sge[i].length, len - done);

		for (; at < start; at++)
			expect(w, l->buf[at] == GUARD_BYTE, "%s wrote between its pieces", what);
		expect(w, !want || memcmp(l->buf + at, want + done, n) == 0,
		       "%s brought wrong bytes", what);
		at += n;
		done += n;
		for (uint32_t k = n; k < l->sge[i].length; k++, at++)
			expect(w, l->buf[at] == GUARD_BYTE, "%s wrote beyond its length", what);
	}
	for (; at < l->size; at++)
		expect(w, l->buf[at] == GUARD_BYTE, "%s wrote beyond its buffer", what);
	expect(w, done == len, "%s is %u bytes, its list %u", what, len, done);
}

/* ---- making --------------------------------------------------------------------------------- */

static uint32_t pick(struct rc_world *w, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	uint32_t v[] = {a, b, c, d};

	return v[prng_below(w->prng, 4)];
}

/* Every algorithm with every other, and both recoveries with each of these. */
static const struct cc_ops *cc_of_node(const struct rc_world *w, int i)
{
	static const struct cc_ops *const all[] = {&cc_none, &cc_dcqcn, &cc_delay, &cc_halving};

	return all[w->seed >> (2 * (i & 1)) & 3];
}

static void choose(struct rc_world *w)
{
	struct prng *p = w->prng;
	struct link_nature *wire = &w->wire;
	uint64_t mood = prng_below(p, 8);

	*wire = (struct link_nature){
		.delay_ns = prng_range(p, 1000, 200000),
		.jitter_ns = prng_below(p, 50000),
		.reorder_ns = prng_below(p, 500000),
		.ns_per_byte_x1000 = prng_range(p, 10, 2000),
	};
	w->lags = (struct node_nature){.tx_lag_ns = prng_below(p, 20000),
				       .keep_ns = prng_below(p, 2) ? 50000 : 0,
				       .tick_lag_ns = prng_below(p, 200000)};
	if (mood == 1 || mood >= 5)
		wire->loss_ppm = pick(w, 500, 5000, 30000, 80000);
	if (mood == 2 || mood >= 5)
		wire->duplicate_ppm = pick(w, 1000, 10000, 50000, 200000);
	if (mood == 3 || mood >= 5)
		wire->reorder_ppm = pick(w, 1000, 10000, 50000, 200000);
	if (mood == 4 || mood >= 6)
		wire->corrupt_ppm = pick(w, 500, 5000, 20000, 50000);
	if (cc_of_node(w, 0) == &cc_dcqcn || cc_of_node(w, 1) == &cc_dcqcn)
		wire->mark_ppm = pick(w, 0, 1000, 50000, 500000);
	w->lossy = wire->loss_ppm || wire->corrupt_ppm;
	w->big = prng_below(p, 8) == 0;
	w->path_mtu = (uint32_t)prng_range(p, RNIC_MTU_256, RNIC_MTU_4096);
	w->mtu = 128u << w->path_mtu;
	w->max_len = w->big ? 256u << 10 : (uint32_t)prng_range(p, 1, 12) * w->mtu;
	w->rd_atomic = (uint8_t)pick(w, 1, 2, 4, 16);
	w->rnr_retry = prng_below(p, 6) ? 7 : (uint8_t)prng_below(p, 7);
	w->timeout = (uint8_t)prng_range(p, 10, 16);
	if (wire->mark_ppm) /* at the least rate a packet has to come before anybody gives up */
		w->timeout = max_of(w->timeout, (uint8_t)13);
	w->nnodes = prng_below(p, 6) ? 2 : 3;
	w->nsides = 2 * (int)prng_range(p, 1, w->big ? 2 : PAIRS_MAX);
}

static const uint32_t all_rights = RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE |
				   RNIC_ACCESS_REMOTE_READ | RNIC_ACCESS_REMOTE_ATOMIC;

/* All of it is there; only targets are ever on demand. */
static bool rc_world_page_in(void *ctx, void *p, size_t len, bool write)
{
	struct rc_node *n = ctx;
	const uint8_t *at = p;
	bool found = false;

	(void)write;
	for (int i = 0; i < n->w->nsides; i++) {
		const struct side *s = &n->w->sides[i];

		found = found || (at >= s->target && at + len <= s->target + s->target_len);
	}
	expect(n->w, found, "%zu bytes are paged in that are in no target", len);
	return true;
}

static void rc_node_open(struct rc_world *w, int i)
{
	static const struct rnic_ops ops = {
		.alloc = rc_world_alloc,
		.free = rc_world_free,
		.random = rc_world_random,
		.cq_notify = rc_world_notify,
		.async_event = rc_world_event,
		.page_in = rc_world_page_in,
	};
	struct rc_node *n = &w->nodes[i];
	struct rnic_config config = {
		.slot = (uint8_t)prng_range(w->prng, 1, 255),
		.window_bytes = pick(w, 0, 0, 4096, 65536),
		.socket_bytes = pick(w, 0, 4096, 16384, 65536),
		.cc = cc_of_node(w, i),
	};
	struct rnic_ops o = ops;
	struct rnic_srq_attr srq = {0};
	struct gid gid = gid_of(w, i);
	char err[256];

	if (w->one_host)
		config.slot = (uint8_t)(config.slot % 64 + 64 * i + 1);
	n->w = w;
	n->index = i;
	n->slot = config.slot;
	n->keys.state = prng_u64(w->prng);
	if (w->trace)
		o.trace = rc_world_trace;
	must(w, rnic_create(&n->rnic, &config, &o, n), "rnic_create");
	must(w, rnic_pd_create(n->rnic, &n->pd), "rnic_pd_create");
	must(w, rnic_pd_create(n->rnic, &n->other_pd), "rnic_pd_create");
	must(w, rnic_xrcd_create(n->rnic, &n->xrcd), "rnic_xrcd_create");
	n->arena = malloc(ARENA_BYTES);
	for (uint32_t k = 0; k < ARENA_BYTES; k += 8) {
		uint64_t x = prng_u64(&n->keys);

		memcpy(n->arena + k, &x, 8);
	}
	srq.max_wr = n->srq_max_wr = (uint32_t)prng_range(w->prng, 1, 16);
	srq.max_sge = (uint32_t)prng_range(w->prng, 1, SGE_MAX);
	must(w, rnic_srq_create(n->pd, &srq, n, &n->srq), "rnic_srq_create");
	n->srq_max_sge = srq.max_sge;
	n->counters = calloc(COUNTERS, sizeof(*n->counters));
	must(w,
	     rnic_mr_create(n->pd, n->arena, ARENA_BYTES, (uintptr_t)n->arena,
			    RNIC_ACCESS_REMOTE_READ, &n->arena_mr),
	     "the arena's region");
	must(w,
	     rnic_mr_create(n->pd, n->arena + ARENA_BYTES / 2, ARENA_BYTES / 2,
			    (uintptr_t)n->arena + ARENA_BYTES / 2, 0, &n->half_mr),
	     "half the arena's region");
	must(w,
	     rnic_mr_create(n->other_pd, n->arena, ARENA_BYTES, (uintptr_t)n->arena,
			    RNIC_ACCESS_REMOTE_READ, &n->foreign_mr),
	     "the foreign region");
	must(w,
	     rnic_mr_create(n->pd, n->counters, COUNTERS * 8, 0x1000, all_rights, &n->counters_mr),
	     "the counters' region");
	must(w, node_create(&n->node, w->fabric, w->link, &gid, n->rnic, &w->lags), "node_create");
	if (w->one_host)
		must(w, node_share_host(n->node, n->slot), "node_share_host");
	if (w->capture)
		expect(w, node_capture(n->node, w->capture, err, sizeof(err)) == 0, "%s", err);
}

/* An initiator, and a target with its SRQ, which says in init what it has room for. */
static void xrc_open(struct side *s, struct rnic_qp_init *init)
{
	struct rc_node *n = side_node(s);
	struct rnic_srq_attr srq = {.max_wr = init->cap.max_recv_wr,
				    .max_sge = init->cap.max_recv_sge};
	struct rnic_qp_init target = {.type = RNIC_QPT_XRC_RECV, .xrcd = n->xrcd, .qp_user = s};

	init->type = RNIC_QPT_XRC_SEND;
	init->recv_cq = NULL;
	must(s->w, rnic_qp_create(n->pd, init, &s->qp), "an initiator");
	must(s->w, rnic_qp_create(NULL, &target, &s->xrc_target), "a target");
	must(s->w, rnic_xrc_srq_create(n->pd, &srq, n->xrcd, s->rcq, s, &s->xrc_srq), "its SRQ");
	init->cap.max_recv_wr = srq.max_wr;
	init->cap.max_recv_sge = srq.max_sge;
}

static void side_open(struct rc_world *w, int i)
{
	struct side *s = &w->sides[i];
	struct rnic_qp_init init = {.type = RNIC_QPT_RC, .qp_user = s};
	struct rc_node *n;
	uint32_t cqe = 512;

	*s = (struct side){
		.w = w,
		.index = i,
		.peer = &w->sides[i ^ 1],
		.node = (int)prng_below(w->prng, (uint64_t)w->nnodes),
		.to_post = (uint32_t)prng_range(w->prng, 1, w->big ? 12 : 40),
		.action_gap_ns =
			prng_range(w->prng, 1000, prng_below(w->prng, 3) ? 200000 : 5000000),
	};
	/* The second of a pair mostly lives elsewhere. */
	if ((i & 1) && prng_below(w->prng, 8))
		s->node = (s->peer->node + 1) % w->nnodes;
	s->sends_tail = &s->sends;
	s->recvs_tail = &s->recvs;
	s->coming_tail = &s->coming;
	n = side_node(s);
	if (prng_below(w->prng, 12) == 0)
		s->mischief = (enum mischief)prng_range(w->prng, 1, MISCHIEFS - 1);
	s->mischief_at = (uint32_t)prng_below(w->prng, s->to_post + 1);
	s->xrc = i & 1 ? s->peer->xrc : prng_below(w->prng, 5) == 0;
	if (s->xrc)
		s->mischief = MISCHIEF_NONE;
	if (s->mischief == MISCHIEF_CQ_OVERFLOW) {
		cqe = 4;
		pair_allow_errors(s);
	}
	must(w, rnic_cq_create(n->rnic, cqe, s, &s->scq), "rnic_cq_create");
	s->rcq = s->scq;
	if (prng_below(w->prng, 2))
		must(w, rnic_cq_create(n->rnic, cqe, s, &s->rcq), "rnic_cq_create");
	init.send_cq = s->scq;
	init.recv_cq = s->rcq;
	s->srq = !s->xrc && prng_below(w->prng, 4) == 0;
	init.srq = s->srq ? n->srq : NULL;
	init.cap = (struct rnic_qp_cap){
		.max_send_wr = (uint32_t)prng_range(w->prng, 1, 32),
		.max_recv_wr = (uint32_t)prng_range(w->prng, 1, w->big ? 4 : 16),
		.max_send_sge = (uint32_t)prng_range(w->prng, 1, SGE_MAX),
		.max_recv_sge = (uint32_t)prng_range(w->prng, 1, SGE_MAX),
		.max_inline_data = (uint32_t)prng_below(w->prng, 300),
	};
	if (s->xrc)
		xrc_open(s, &init);
	else
		must(w, rnic_qp_create(n->pd, &init, &s->qp), "rnic_qp_create");
	s->cap = init.cap;
	s->qpn = rnic_qp_num(s->qp);

	s->target_len = w->max_len + 1024;
	s->target = malloc(s->target_len);
	s->model = malloc(s->target_len);
	s->owner = calloc(s->target_len, sizeof(*s->owner));
	memset(s->target, 0x11, s->target_len);
	memset(s->model, 0x11, s->target_len);
	s->target_iova = 0x700000000000 + prng_below(w->prng, 99);
	if (prng_below(w->prng, 2)) /* an ATOMIC_WRITE has both aligned */
		s->target_iova &= ~7ull;
	must(w,
	     rnic_mr_create(n->pd, s->target, s->target_len, s->target_iova,
			    all_rights | RNIC_ACCESS_MW_BIND, &s->target_mr),
	     "the target's region");
	s->cas_word = calloc(1, sizeof(*s->cas_word));
	must(w, rnic_mr_create(n->pd, s->cas_word, 8, 64, all_rights, &s->cas_mr), "a word");
	s->window_type1 = s->xrc || prng_below(w->prng, 3) == 0; /* 2B: of one QP that binds */
	must(w, rnic_mw_create(n->pd, s->window_type1 ? RNIC_MW_TYPE_1 : RNIC_MW_TYPE_2, &s->mw),
	     "rnic_mw_create");
	s->next_action_ns = fabric_now(w->fabric) + prng_below(w->prng, s->action_gap_ns);
}

/* What each half requires of the attributes. */
static void bring_up(struct rc_world *w, struct rnic_qp *qp, struct rnic_qp_attr a, bool requester,
		     bool responder)
{
	uint64_t now = fabric_now(w->fabric);

	a.state = RNIC_QPS_INIT;
	must(w,
	     rnic_qp_modify(
		     qp, &a,
		     RNIC_QP_STATE | RNIC_QP_PKEY_INDEX | RNIC_QP_PORT | RNIC_QP_ACCESS_FLAGS, now),
	     "INIT");
	a.state = RNIC_QPS_RTR;
	must(w,
	     rnic_qp_modify(
		     qp, &a,
		     RNIC_QP_STATE | RNIC_QP_AV | RNIC_QP_PATH_MTU | RNIC_QP_DEST_QPN |
			     RNIC_QP_RQ_PSN |
			     (responder ? RNIC_QP_MAX_DEST_RD_ATOMIC | RNIC_QP_MIN_RNR_TIMER : 0),
		     now),
	     "RTR");
	a.state = RNIC_QPS_RTS;
	must(w,
	     rnic_qp_modify(qp, &a,
			    RNIC_QP_STATE | RNIC_QP_TIMEOUT | RNIC_QP_SQ_PSN |
				    (requester ? RNIC_QP_RETRY_CNT | RNIC_QP_RNR_RETRY |
							 RNIC_QP_MAX_QP_RD_ATOMIC
					       : 0),
			    now),
	     "RTS");
}

static void side_connect(struct side *s, const uint32_t psn[2])
{
	struct rc_world *w = s->w;
	int me = s->index & 1;
	struct rnic_qp_attr a = {
		.access_flags = all_rights,
		.path_mtu = w->path_mtu,
		.dest_qpn = s->xrc ? rnic_qp_num(s->peer->xrc_target) : s->peer->qpn,
		.rq_psn = psn[!me],
		.sq_psn = psn[me],
		.max_rd_atomic = w->rd_atomic,
		.max_dest_rd_atomic = w->rd_atomic,
		.min_rnr_timer = (uint8_t)prng_range(w->prng, 1, 16),
		.timeout = w->timeout,
		.retry_cnt = 7,
		.rnr_retry = w->rnr_retry,
		.flow = {.sgid = gid_of(w, s->node),
			 .dgid = gid_of(w, s->peer->node),
			 .sport = 50000},
	};

	if (!s->xrc && w->seed / 16 % 2)
		must(w, rnic_qp_repeat_selectively(s->qp, rnic_qp_tag(s->peer->qp)),
		     "selective repeat");
	bring_up(w, s->qp, a, true, !s->xrc);
	if (s->xrc) {
		a.dest_qpn = s->peer->qpn;
		bring_up(w, s->xrc_target, a, false, true);
	}
}

static void meets(void *ctx, void *what)
{
	struct rc_node *n = ctx, *o = what;

	if (!n->vanished && !o->vanished)
		must(n->w, node_meet(n->node, o->node), "node_meet");
}

/* At once, as a rule; or when packets have gone the other way for a while. */
static void meet_neighbours(struct rc_world *w)
{
	for (int i = 0; i < w->nnodes; i++)
		for (int k = 0; k < w->nnodes; k++)
			fabric_at(w->fabric,
				  fabric_now(w->fabric) +
					  (prng_below(w->prng, 3)
						   ? 0
						   : prng_below(w->prng, 5 * NSEC_PER_MSEC)),
				  meets, &w->nodes[i], &w->nodes[k], NULL);
}

void rc_world_open(struct rc_world *w, uint64_t seed, const struct rc_options *o)
{
	memset(w, 0, sizeof(*w));
	w->seed = seed;
	w->trace = o->trace;
	w->capture = o->capture;
	w->one_host = o->one_host;
	if (fabric_create(&w->fabric, seed))
		abort();
	w->prng = fabric_prng(w->fabric);
	choose(w);
	must(w, link_create(&w->link, w->fabric, &w->wire), "link_create");
	for (int i = 0; i < w->nnodes; i++)
		rc_node_open(w, i);
	if (w->one_host)
		meet_neighbours(w);
	for (int i = 0; i < w->nsides; i++)
		side_open(w, i);
	for (int i = 0; i < w->nsides; i += 2) {
		uint32_t psn[2];

		/* Often close to the wrap. */
		for (int k = 0; k < 2; k++)
			psn[k] = (uint32_t)(prng_below(w->prng, 2)
						    ? PSN_MASK - prng_below(w->prng, 64)
						    : prng_below(w->prng, PSN_MASK));
		side_connect(&w->sides[i], psn);
		side_connect(&w->sides[i + 1], psn);
	}
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Is x the sum of some of the n values? */
static bool subset_sum(uint64_t x, const uint64_t *v, uint32_t n)
{
	if (x == 0)
		return true;
	if (n == 0)
		return false;
	return subset_sum(x, v + 1, n - 1) || (x >= v[0] && subset_sum(x - v[0], v + 1, n - 1));
}

void rc_world_check_end(struct rc_world *w)
{
	for (int i = 0; i < w->nnodes; i++) {
		struct rc_node *n = &w->nodes[i];

		for (int c = 0; c < COUNTERS; c++) {
			uint64_t rest = n->counters[c] - n->counted[c];

			if (n->nambiguous[c] > 20)
				continue; /* too many to tell apart */
			expect(w, subset_sum(rest, n->ambiguous[c], n->nambiguous[c]),
			       "counter %d of node %d is %llu, %llu were added for certain", c, i,
			       (unsigned long long)n->counters[c],
			       (unsigned long long)n->counted[c]);
		}
		if (!n->vanished)
			expect(w, !rnic_tx_pending(n->rnic), "node %d never comes to rest", i);
	}
	for (int i = 0; i < w->nsides; i++) {
		struct side *s = &w->sides[i];

		if (pair_may_fail(s) || s->send_failed || s->peer->send_failed || s->recv_failed)
			continue;
		expect(w, memcmp(s->target, s->model, s->target_len) == 0,
		       "side %d: the target differs from what was written", i);
		expect(w, *s->cas_word == s->cas_model, "side %d: the word to swap differs", i);
		expect(w, s->ncoming == 0, "side %d: %u messages never arrived", i, s->ncoming);
	}
}

static void side_close(struct side *s)
{
	struct wr_rec *wr;
	struct recv_rec *rv;
	struct msg_rec *m;

	if (s->qp && rnic_qp_destroy(s->qp))
		abort();
	if (s->xrc) {
		must(s->w, rnic_qp_destroy(s->xrc_target), "rnic_qp_destroy");
		must(s->w, rnic_srq_destroy(s->xrc_srq), "rnic_srq_destroy");
	}
	must(s->w, rnic_mw_destroy(s->mw), "rnic_mw_destroy");
	must(s->w, rnic_mr_destroy(s->target_mr), "rnic_mr_destroy");
	must(s->w, rnic_mr_destroy(s->cas_mr), "rnic_mr_destroy");
	landing_close(s->betrayed_remote);
	must(s->w, rnic_cq_destroy(s->scq), "rnic_cq_destroy");
	if (s->rcq != s->scq)
		must(s->w, rnic_cq_destroy(s->rcq), "rnic_cq_destroy");
	while ((wr = s->sends)) {
		s->sends = wr->next;
		landing_close(wr->land);
		landing_close(wr->source);
		free(wr->data);
		free(wr);
	}
	while ((rv = s->recvs)) {
		s->recvs = rv->next;
		landing_close(rv->land);
		free(rv);
	}
	while ((m = s->coming)) {
		s->coming = m->next;
		free(m->data);
		free(m);
	}
	free(s->target);
	free(s->model);
	free(s->owner);
	free(s->cas_word);
}

void rc_world_close(struct rc_world *w)
{
	struct recv_rec *rv;

	for (int i = 0; i < w->nsides; i++)
		side_close(&w->sides[i]);
	for (int i = 0; i < w->nnodes; i++) {
		struct rc_node *n = &w->nodes[i];

		must(w, rnic_srq_destroy(n->srq), "rnic_srq_destroy");
		while ((rv = n->srq_recvs)) {
			n->srq_recvs = rv->next;
			landing_close(rv->land);
			free(rv);
		}
		must(w, rnic_mr_destroy(n->arena_mr), "rnic_mr_destroy");
		must(w, rnic_mr_destroy(n->half_mr), "rnic_mr_destroy");
		must(w, rnic_mr_destroy(n->foreign_mr), "rnic_mr_destroy");
		must(w, rnic_mr_destroy(n->counters_mr), "rnic_mr_destroy");
		must(w, rnic_xrcd_destroy(n->xrcd), "rnic_xrcd_destroy");
		must(w, rnic_pd_destroy(n->pd), "rnic_pd_destroy");
		must(w, rnic_pd_destroy(n->other_pd), "rnic_pd_destroy");
		free(n->arena);
		free(n->counters);
		node_destroy(n->node);
		rnic_destroy(n->rnic);
	}
	link_destroy(w->link);
	fabric_destroy(w->fabric);
}
