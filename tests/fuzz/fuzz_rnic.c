/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two RNIC cores with two connected pairs of RC QPs, and a wire between them that the input
 * controls: what is delivered, repeated, lost, changed or made up, what the consumers post and
 * take away, and how time passes. Nothing may be written outside what is registered for it, every
 * work request completes once and in order, and as long as nothing was forged nobody refuses
 * anything.
 * Input: two bytes of configuration, then steps, each a byte that names it and its arguments.
 */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/time.h"
#include "mem.h"
#include "rnic/ib/ib.h"

#define SIDES	   2
#define PAIRS	   2
#define MWS	   2
#define WIRE_MAX   64
#define STEPS_MAX  300
#define ROUNDS	   200	/* of a wire without faults, for things to come to rest */
#define ROUNDS_MAX 3000 /* and by then they must have */
#define TX_MAX	   20000
#define WRS	   32
#define GUARD	   4096
#define REGION	   32768
#define RECV_LEN   8192 /* no message is longer */
#define READ_ONLY  4096

struct packet {
	int to;
	struct flow flow;
	size_t len;
	uint8_t data[PKT_HDR_MAX + 4096];
};

struct queue { /* what one send or receive queue must complete */
	uint64_t posted, completed;
};

struct end {
	struct rnic_qp *qp;
	struct queue sq, rq;
};

struct side {
	struct world *world;
	int number;
	struct rnic *rnic;
	struct rnic_pd *pd;
	struct rnic_cq *cq[2];
	struct rnic_mr *mr, *mr_read_only, *mr_counter, *mr_null;
	struct rnic_mw *mw[MWS]; /* one of each type */
	struct end end[PAIRS];
	bool overflowed;
	bool paging_fails; /* now and then */
	uint64_t counted;  /* what counter must be when all is done */
};

struct world {
	struct side side[SIDES];
	struct packet *wire[WIRE_MAX];
	int on_wire;
	uint64_t now;
	uint32_t random;
	struct fuzz_mem mem;
	bool forged; /* something happened that a good peer and consumer do not do */
	enum rnic_mtu mtu;
	uint8_t rd_atomic, rnr_retry, timeout;
	const uint8_t *in, *in_end;
};

static struct {
	uint8_t before[GUARD], region[REGION], between[GUARD], read_only[READ_ONLY], after[GUARD];
	uint64_t counter; /* for fetch and add alone */
} memory[SIDES] __attribute__((aligned(64)));

static struct packet packets[WIRE_MAX];

static const struct gid gid[SIDES] = {{{[10] = 0xff, [11] = 0xff, 10, 0, 0, 1}},
				      {{[10] = 0xff, [11] = 0xff, 10, 0, 0, 2}}};

static uint8_t take(struct world *w)
{
	return w->in < w->in_end ? *w->in++ : 0;
}

static uint16_t take16(struct world *w)
{
	uint8_t high = take(w);

	return (uint16_t)(high << 8 | take(w));
}

/* ---- what the cores call ----------------------------------------------------------------------
 */

static void *do_alloc(void *ctx, size_t bytes)
{
	return fuzz_mem_alloc(&((struct side *)ctx)->world->mem, bytes);
}

static void do_free(void *ctx, void *p)
{
	fuzz_mem_free(&((struct side *)ctx)->world->mem, p);
}

static uint32_t do_random(void *ctx)
{
	struct world *w = ((struct side *)ctx)->world;

	return w->random = w->random * 1664525 + 1013904223;
}

static void on_notify(void *ctx, void *cq_user)
{
	must(cq_user == ctx);
}

static void on_event(void *ctx, enum rnic_event event, void *user)
{
	struct side *s = ctx;

	must(user == s);
	if (event == RNIC_EVENT_CQ_ERR)
		s->overflowed = true;
}

/* Asked for memory that is registered on demand, and for nothing beyond it. */
static bool page_in(void *ctx, void *p, size_t len, bool write)
{
	struct side *s = ctx;
	uint8_t *region = memory[s->number].region, *at = p;

	(void)write;
	must(at >= region && len && len <= REGION && at + len <= region + REGION);
	return !s->paging_fails || do_random(ctx) % 4;
}

static const struct rnic_ops ops = {
	.alloc = do_alloc,
	.free = do_free,
	.random = do_random,
	.cq_notify = on_notify,
	.async_event = on_event,
	.page_in = page_in,
};

/* ---- the two sides -----------------------------------------------------------------------------
 */

static int modify(struct world *w, int side, int pair, enum rnic_qp_state to, uint32_t mask)
{
	const struct rnic_qp_attr attr = {
		.state = to,
		.path_mtu = w->mtu,
		.dest_qpn = rnic_qp_num(w->side[!side].end[pair].qp),
		.rq_psn = 0xfffff0 + (uint32_t)!side,
		.sq_psn = 0xfffff0 + (uint32_t)side,
		.access_flags = 0x1f,
		.flow = {.sgid = gid[side], .dgid = gid[!side], .sport = 50000},
		.port_num = 1,
		.max_rd_atomic = w->rd_atomic,
		.max_dest_rd_atomic = w->rd_atomic,
		.min_rnr_timer = 1,
		.timeout = w->timeout,
		.retry_cnt = 3,
		.rnr_retry = w->rnr_retry,
		.en_sqd_async_notify = true,
	};

	return rnic_qp_modify(w->side[side].end[pair].qp, &attr, mask | RNIC_QP_STATE, w->now);
}

static void connect_pair(struct world *w, int pair)
{
	for (int i = 0; i < SIDES; i++) {
		must(!modify(w, i, pair, RNIC_QPS_INIT,
			     RNIC_QP_PKEY_INDEX | RNIC_QP_PORT | RNIC_QP_ACCESS_FLAGS));
		must(!modify(w, i, pair, RNIC_QPS_RTR,
			     RNIC_QP_AV | RNIC_QP_PATH_MTU | RNIC_QP_DEST_QPN | RNIC_QP_RQ_PSN |
				     RNIC_QP_MAX_DEST_RD_ATOMIC | RNIC_QP_MIN_RNR_TIMER));
		must(!modify(w, i, pair, RNIC_QPS_RTS,
			     RNIC_QP_TIMEOUT | RNIC_QP_RETRY_CNT | RNIC_QP_RNR_RETRY |
				     RNIC_QP_SQ_PSN | RNIC_QP_MAX_QP_RD_ATOMIC));
	}
}

static void mr_create(struct side *s)
{
	uint8_t *mem = memory[s->number].region;

	must(!rnic_mr_create(s->pd, mem, REGION, (uintptr_t)mem, 0x1f, &s->mr));
}

/* Another region under the same key: half as long, with fewer rights, or on demand. */
static void mr_rereg(struct side *s, uint8_t how)
{
	uint8_t *mem = memory[s->number].region;
	struct rnic_mr_attr a, now;
	int err;

	rnic_mr_query(s->mr, &a);
	a.addr = how & 1 ? mem + REGION / 2 : mem;
	a.iova = how & 2 ? (uintptr_t)mem : (uintptr_t)a.addr;
	a.length = how & 3 ? REGION / 2 : REGION;
	a.access = (how >> 2 & 0x1f) | (how & 0x80 ? RNIC_ACCESS_ON_DEMAND : 0);
	err = rnic_mr_rereg(s->mr, &a);
	must(err == 0 || err == -EINVAL || err == -EBUSY);
	rnic_mr_query(s->mr, &now);
	must(err || (now.addr == a.addr && now.length == a.length && now.access == a.access));
}

static void mw_create(struct side *s, int i)
{
	must(!rnic_mw_create(s->pd, i ? RNIC_MW_TYPE_1 : RNIC_MW_TYPE_2, &s->mw[i]));
}

static void side_open(struct world *w, int number, uint8_t config)
{
	struct side *s = &w->side[number];
	const struct rnic_config rc = {.slot = (uint8_t)(1 + number),
				       .window_bytes = config & 1 ? 4096 : 0,
				       .cc = config & 0x20 ? &cc_dcqcn : NULL};
	uint8_t *read_only = memory[number].read_only;

	*s = (struct side){.world = w, .number = number};
	must(!rnic_create(&s->rnic, &rc, &ops, s));
	must(!rnic_pd_create(s->rnic, &s->pd));
	for (int i = 0; i < 2; i++)
		must(!rnic_cq_create(s->rnic, config & 2 ? 4 : 512, s, &s->cq[i]));
	mr_create(s);
	must(!rnic_mr_create(s->pd, read_only, READ_ONLY, 0, RNIC_ACCESS_REMOTE_READ,
			     &s->mr_read_only));
	must(!rnic_mr_create(s->pd, &memory[number].counter, sizeof(uint64_t), 0,
			     RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_ATOMIC, &s->mr_counter));
	must(!rnic_mr_create_null(s->pd, RNIC_ACCESS_LOCAL_WRITE, &s->mr_null));
	for (int i = 0; i < MWS; i++)
		mw_create(s, i);
	for (int i = 0; i < PAIRS; i++) {
		struct rnic_qp_init init = {
			.type = RNIC_QPT_RC,
			.send_cq = s->cq[0],
			.recv_cq = s->cq[config & 4 ? 0 : 1],
			.cap = {WRS, WRS, 3, 3, 64},
			.sq_sig_all = config & 8,
			.qp_user = s,
		};

		must(!rnic_qp_create(s->pd, &init, &s->end[i].qp));
	}
}

/* ---- completions -------------------------------------------------------------------------------
 */

static void reap(struct side *s)
{
	struct rnic_wc wc;

	for (int i = 0; i < 2; i++)
		while (rnic_cq_poll(s->cq[i], &wc, 1) == 1) {
			bool recv = wc.opcode & RNIC_WC_RECV;
			struct end *e = NULL;
			struct queue *q;

			for (int j = 0; j < PAIRS; j++)
				if (rnic_qp_num(s->end[j].qp) == wc.qp_num)
					e = &s->end[j];
			must(e && wc.status <= RNIC_WC_GENERAL_ERR);
			q = recv ? &e->rq : &e->sq;
			must(wc.wr_id > q->completed && wc.wr_id <= q->posted);
			/* One by one, unless successes go unsignaled. */
			if ((recv || e->qp->sq_sig_all) && !s->overflowed)
				must(wc.wr_id == q->completed + 1);
			q->completed = wc.wr_id;
			must(!recv || wc.status || wc.byte_len <= REGION);
		}
}

/* ---- the wire ----------------------------------------------------------------------------------
 */

static struct packet *wire_room(struct world *w)
{
	return w->on_wire < WIRE_MAX ? w->wire[w->on_wire++] : NULL;
}

static void wire_remove(struct world *w, int at)
{
	struct packet *p = w->wire[at];

	w->on_wire--;
	memmove(&w->wire[at], &w->wire[at + 1], (size_t)(w->on_wire - at) * sizeof(p));
	w->wire[w->on_wire] = p;
}

/* At most max packets of a side go on the wire; what finds no room there is lost. */
static size_t transmit(struct world *w, struct side *s, size_t max)
{
	struct packet_tx tx;
	size_t n = 0;

	while (n < max && rnic_tx(s->rnic, &tx, 1, w->now) == 1) {
		struct packet lost, *p = wire_room(w);
		struct pkt_hdr h;
		size_t at = tx.hdr_len;

		n++;
		p = p ? p : &lost;
		p->to = !s->number;
		p->flow = *tx.flow;
		must(gid_equal(&p->flow.sgid, &gid[s->number]));
		memcpy(p->data, tx.hdr, tx.hdr_len);
		must(tx.niov <= RNIC_MAX_SGE && tx.payload_len <= 4096);
		for (int i = 0; i < tx.niov; i++) {
			must(at + tx.iov[i].iov_len <= sizeof(p->data));
			memcpy(p->data + at, tx.iov[i].iov_base, tx.iov[i].iov_len);
			at += tx.iov[i].iov_len;
		}
		must(at == (size_t)tx.hdr_len + tx.payload_len && tx.payload_len <= 128u << w->mtu);
		memset(p->data + at, 0, tx.pad);
		p->len = at + tx.pad;
		must(p->len % 4 == 0);
		must(pkt_hdr_decode(&h, p->data, p->len) == tx.hdr_len && h.bth.pad == tx.pad);
	}
	must(n < TX_MAX);
	return n;
}

static void receive(struct world *w, int to, const struct flow *f, const uint8_t *data, size_t len)
{
	/* In memory of just this length, so that a sanitizer sees a read past the end. */
	uint8_t *exact = malloc(len + !len);

	must(exact);
	memcpy(exact, data, len);
	rnic_rx(w->side[to].rnic, &(struct packet_rx){.flow = *f, .data = exact, .len = len},
		w->now);
	free(exact);
}

static void deliver(struct world *w, int at, bool keep)
{
	struct packet *p = w->wire[at];

	receive(w, p->to, &p->flow, p->data, p->len);
	if (!keep)
		wire_remove(w, at);
}

static void pass_time(struct world *w, uint64_t to)
{
	w->now = max_of(w->now, to);
	for (int i = 0; i < SIDES; i++) {
		rnic_tick(w->side[i].rnic, w->now);
		must(rnic_next_deadline(w->side[i].rnic) > w->now);
	}
}

/* Both talk until neither has anything to say, timers included, or for a while: without receives
 * posted, or with a dead peer and no timeout, that may go on for ever. */
static bool settle(struct world *w, int rounds)
{
	for (int round = 0; round < rounds; round++) {
		uint64_t next = DEADLINE_NEVER;
		size_t moved = 0;

		for (int i = 0; i < SIDES; i++) {
			moved += transmit(w, &w->side[i], WIRE_MAX);
			for (; w->on_wire; moved++)
				deliver(w, 0, false);
			reap(&w->side[i]);
			next = min_of(next, rnic_next_deadline(w->side[i].rnic));
		}
		if (moved)
			continue;
		must(!rnic_tx_pending(w->side[0].rnic) && !rnic_tx_pending(w->side[1].rnic));
		if (next == DEADLINE_NEVER)
			return true;
		pass_time(w, next);
	}
	return false;
}

/* ---- steps -------------------------------------------------------------------------------------
 */

static uint32_t some_length(struct world *w)
{
	static const uint16_t lengths[] = {0,	1,    8,    63,	  64,	255, 256,
					   257, 1024, 1025, 4096, 4099, 8192};

	return lengths[take(w) % ARRAY_SIZE(lengths)];
}

/* A peer's key: mostly the region's, else a window's, one without the right, or none at all. */
static uint32_t some_rkey(struct world *w, const struct side *s, uint8_t choice)
{
	if (choice < 192 && s->mr)
		return rnic_mr_rkey(s->mr);
	if (choice < 224)
		return rnic_mw_rkey(s->mw[choice % MWS]);
	w->forged = true;
	return choice < 240 ? rnic_mr_rkey(s->mr_read_only) : choice * 0x01010101u;
}

static void post_send(struct world *w, struct side *s, struct end *e)
{
	struct side *peer = &w->side[!s->number];
	uint8_t *mem = memory[s->number].region, *peer_mem = memory[!s->number].region;
	uint8_t what = take(w), where = take(w), flags = take(w);
	uint32_t len = some_length(w), off = where * 64u;
	uint32_t lkey = s->mr ? rnic_mr_lkey(s->mr) : 0;
	/* In two pieces, so that a packet may have its payload from both. */
	struct rnic_sge sge[2] = {
		{(uintptr_t)mem + off, len / 3, lkey},
		{(uintptr_t)mem + off + len / 3, len - len / 3, lkey},
	};
	struct rnic_send_wr wr = {
		.wr_id = e->sq.posted + 1,
		.sge = sge,
		.num_sge = 2,
		.opcode = what % 10,
		.flags = flags & (RNIC_SEND_FENCE | RNIC_SEND_SIGNALED | RNIC_SEND_SOLICITED),
		.imm_or_rkey = 0x12345678,
		.remote_addr = (uintptr_t)peer_mem + REGION - 8192 - 64 * (flags >> 4),
		.rkey = some_rkey(w, peer, what),
		.compare_add = where,
		.swap = what,
	};
	bool atomic = wr.opcode == RNIC_WR_ATOMIC_CMP_AND_SWP ||
		      wr.opcode == RNIC_WR_ATOMIC_FETCH_AND_ADD;
	int err;

	if (len <= 64 && (flags & 8) && wr.opcode != RNIC_WR_RDMA_READ && !atomic)
		wr.flags |= RNIC_SEND_INLINE;
	if (atomic)
		sge[0].length = 8, wr.num_sge = 1;
	if (where % 16 == 15 && !(wr.flags & RNIC_SEND_INLINE))
		sge[1] = (struct rnic_sge){what, sge[1].length, rnic_mr_lkey(s->mr_null)};
	if (wr.opcode == RNIC_WR_ATOMIC_FETCH_AND_ADD && what < 192) {
		wr.remote_addr = 0;
		wr.rkey = rnic_mr_rkey(peer->mr_counter);
	}
	if (wr.opcode == RNIC_WR_SEND_WITH_INV)
		wr.imm_or_rkey = rnic_mw_rkey(peer->mw[where % MWS]);
	if (wr.opcode == RNIC_WR_LOCAL_INV)
		wr.imm_or_rkey = rnic_mw_rkey(s->mw[where % MWS]);
	if (wr.opcode == RNIC_WR_BIND_MW) {
		wr.bind.mw = s->mw[where % MWS];
		wr.bind.mr = s->mr;
		wr.bind.rkey = (rnic_mw_rkey(wr.bind.mw) & ~0xffu) | take(w);
		wr.bind.addr = (uintptr_t)mem;
		wr.bind.length = flags & 0x10 ? 0 : REGION;
		wr.bind.access = flags & 0xf;
	}
	/* A window may be unbound, or bound elsewhere: then it is right to refuse. */
	if (wr.opcode >= RNIC_WR_LOCAL_INV || what >= 192 || !s->mr || !peer->mr)
		w->forged = true;
	err = rnic_post_send(e->qp, &wr, w->now);
	must(err == 0 || err == -ENOMEM || err == -EINVAL);
	if (err)
		return;
	e->sq.posted++;
	if (wr.opcode == RNIC_WR_ATOMIC_FETCH_AND_ADD)
		peer->counted += wr.compare_add;
}

static void post_recv(struct side *s, struct end *e, uint8_t arg)
{
	struct rnic_sge sge = {(uintptr_t)memory[s->number].region + arg * 32u,
			       arg == 255 ? 100u : RECV_LEN, s->mr ? rnic_mr_lkey(s->mr) : 0};
	struct rnic_recv_wr wr = {.wr_id = e->rq.posted + 1, .sge = &sge, .num_sge = 1};
	int err = rnic_post_recv(e->qp, &wr);

	must(err == 0 || err == -ENOMEM || err == -EINVAL);
	s->world->forged |= arg == 255 || !s->mr;
	if (!err)
		e->rq.posted++;
}

/* A packet nobody sent, but with numbers near those that count. */
static void make_up(struct world *w, struct side *s, struct end *e)
{
	struct pkt_hdr h = {.bth = {.opcode = take(w)}};
	uint8_t how = take(w), data[PKT_HDR_MAX + 1024 + 3];
	uint32_t len = some_length(w) % 1025;
	struct flow f = {.sgid = gid[!s->number], .dgid = gid[s->number], .tos = how >> 6};
	bool response = opcode_table[h.bth.opcode].flags & OPF_RESPONSE;

	h.bth.dqpn = rnic_qp_num(e->qp);
	h.bth.pkey = PKEY_DEFAULT;
	h.bth.psn = psn_add(response ? req_of(e->qp)->una_psn : resp_of(e->qp)->epsn,
			    (uint32_t)(int8_t)take(w));
	h.bth.ackreq = how & 1;
	h.bth.se = how & 2;
	h.bth.pad = how >> 2 & 3;
	h.aeth.syndrome = take(w);
	h.reth.rkey = h.atomic.rkey = some_rkey(w, s, take(w));
	h.reth.va = h.atomic.va = (uintptr_t)memory[s->number].region + (int16_t)take16(w);
	h.reth.dma_len = how & 16 ? len : take16(w);
	h.ieth_rkey = rnic_mw_rkey(s->mw[how % MWS]);
	memset(data, 0x5a, sizeof(data));
	len += (uint32_t)pkt_hdr_encode(&h, data) + h.bth.pad;
	w->forged = true;
	receive(w, s->number, &f, data, len);
}

/* what: below 240 its remainder by 12 says what to do, above there is more. */
static void control(struct world *w, struct side *s, int pair, uint8_t what)
{
	struct end *e = &s->end[pair];
	int err = 0;

	switch (what < 240 ? what % 12 : what) {
	case 0:
		w->forged = true;
		err = modify(w, s->number, pair, RNIC_QPS_ERR, 0);
		break;
	case 1: /* anew, on both sides; what is on the wire may be of the old connection */
		w->forged = true;
		for (int i = 0; i < SIDES; i++) {
			reap(&w->side[i]);
			must(!modify(w, i, pair, RNIC_QPS_RESET, 0));
			w->side[i].end[pair].sq.completed = w->side[i].end[pair].sq.posted;
			w->side[i].end[pair].rq.completed = w->side[i].end[pair].rq.posted;
		}
		connect_pair(w, pair);
		break;
	case 2:
		err = modify(w, s->number, pair, RNIC_QPS_SQD,
			     what & 0x80 ? RNIC_QP_EN_SQD_ASYNC_NOTIFY : 0);
		break;
	case 3:
		err = modify(w, s->number, pair, RNIC_QPS_RTS, 0);
		break;
	case 4:
		w->forged = true;
		if (s->mr) {
			err = rnic_mr_destroy(s->mr);
			must(err == 0 || err == -EBUSY);
			s->mr = err ? s->mr : NULL;
			err = 0;
		} else {
			mr_create(s);
		}
		break;
	case 5:
		w->forged = true;
		must(!rnic_mw_destroy(s->mw[what / 12 % MWS]));
		mw_create(s, what / 12 % MWS);
		break;
	case 6:
		err = rnic_cq_resize(s->cq[what & 1], 1 + what);
		break;
	case 7:
		rnic_cq_arm(s->cq[what & 1], what & 0x80);
		break;
	case 8:
		reap(s);
		break;
	case 9:
		w->mem.fail_next = true;
		err = rnic_cq_resize(s->cq[what & 1], 600);
		must(w->mem.fail_next || err == -ENOMEM);
		w->mem.fail_next = false;
		err = 0;
		break;
	case 10:
		settle(w, ROUNDS);
		break;
	case 11: {
		struct rnic_qp_attr a;
		struct rnic_qp_cap cap;

		rnic_qp_query(e->qp, &a, &cap);
		must(a.state <= RNIC_QPS_ERR && cap.max_send_wr == WRS);
		break;
	}
	case 240:
		w->forged = true;
		if (s->mr)
			mr_rereg(s, take(w));
		break;
	case 241:
		w->forged = true;
		s->paging_fails = !s->paging_fails;
		break;
	}
	must(err == 0 || err == -EINVAL);
}

static void step(struct world *w)
{
	uint8_t what = take(w), arg = take(w);
	struct side *s = &w->side[arg & 1];
	int pair = arg >> 1 & 1;
	struct end *e = &s->end[pair];
	int at = w->on_wire ? arg % w->on_wire : 0;
	uint8_t raw[128];
	size_t len;

	switch (what % 10) {
	case 0:
		post_send(w, s, e);
		break;
	case 1:
		post_recv(s, e, take(w));
		break;
	case 2:
		transmit(w, s, 1 + arg / 4);
		break;
	case 3: /* in order */
		for (int n = arg; w->on_wire && n >= 0; n -= 8)
			deliver(w, 0, false);
		break;
	case 4: /* out of order, and perhaps twice */
		if (w->on_wire)
			deliver(w, at, what >= 128);
		break;
	case 5: /* lost */
		if (w->on_wire)
			wire_remove(w, at);
		break;
	case 6: /* changed on the way */
		if (!w->on_wire)
			break;
		w->forged = true;
		w->wire[at]->data[take(w) % w->wire[at]->len] ^= take(w);
		if (what >= 200)
			w->wire[at]->len -= take(w) % w->wire[at]->len;
		break;
	case 7:
		if (what < 128) {
			make_up(w, s, e);
			break;
		}
		w->forged = true;
		len = take(w) % sizeof(raw);
		for (size_t i = 0; i < len; i++)
			raw[i] = take(w);
		if (len >= 8 && arg & 4)
			st_be24(raw + 5, rnic_qp_num(e->qp));
		receive(w, s->number,
			&(struct flow){.sgid = gid[!s->number], .dgid = gid[s->number]}, raw, len);
		break;
	case 8: /* some time, or as far as something is due */
		if (arg & 4)
			pass_time(w, w->now + arg * 100000ull);
		else if (rnic_next_deadline(s->rnic) != DEADLINE_NEVER)
			pass_time(w, rnic_next_deadline(s->rnic));
		break;
	case 9:
		control(w, s, pair, take(w));
		break;
	}
}

/* ---- beginning and end --------------------------------------------------------------------------
 */

static void memory_fill(void)
{
	memset(memory, 0xa5, sizeof(memory));
	for (int i = 0; i < SIDES; i++) {
		memset(memory[i].region, i, REGION);
		memory[i].counter = 0;
	}
}

static void memory_check(void)
{
	static uint8_t untouched[GUARD];

	memset(untouched, 0xa5, sizeof(untouched));
	for (int i = 0; i < SIDES; i++) {
		must(!memcmp(memory[i].before, untouched, GUARD));
		must(!memcmp(memory[i].between, untouched, GUARD));
		must(!memcmp(memory[i].read_only, untouched, READ_ONLY));
		must(!memcmp(memory[i].after, untouched, GUARD));
	}
}

/* With a wire that loses nothing and receives for all, everything posted gets done. */
static void finish(struct world *w)
{
	bool alive = true, quiet;

	for (int i = 0; i < SIDES; i++)
		for (int j = 0; j < PAIRS; j++) {
			struct end *e = &w->side[i].end[j];

			while (e->rq.posted - e->rq.completed < WRS &&
			       e->qp->state != RNIC_QPS_RESET)
				post_recv(&w->side[i], e, 0);
			if (e->qp->state == RNIC_QPS_SQD)
				must(!modify(w, i, j, RNIC_QPS_RTS, 0));
			alive = alive && e->qp->state == RNIC_QPS_RTS;
		}
	if (!alive)
		return;
	quiet = settle(w, ROUNDS_MAX);
	if (w->side[0].overflowed || w->side[1].overflowed)
		return;
	must(quiet);
	for (int i = 0; i < SIDES; i++)
		for (int j = 0; j < PAIRS; j++) {
			const struct rnic_qp *qp = w->side[i].end[j].qp;

			must(qp->state == RNIC_QPS_RTS && qp->sq.una == qp->sq.prod);
		}
	for (int i = 0; i < SIDES; i++) /* each took effect, and once */
		must(memory[i].counter == w->side[i].counted);
}

static void wind_up(struct world *w)
{
	settle(w, ROUNDS);
	if (!w->forged && !w->side[0].overflowed && !w->side[1].overflowed)
		finish(w);
	for (int i = 0; i < SIDES; i++) {
		struct side *s = &w->side[i];

		if (!w->forged && !s->overflowed)
			must(rnic_counters(s->rnic)->tx_nak_access == 0);
		for (int j = 0; j < PAIRS; j++) {
			struct end *e = &s->end[j];

			if (e->qp->state != RNIC_QPS_RESET)
				must(!modify(w, i, j, RNIC_QPS_ERR, 0));
			reap(s);
			must(s->overflowed ||
			     (e->sq.completed == e->sq.posted || !e->qp->sq_sig_all));
			must(s->overflowed || e->rq.completed == e->rq.posted);
		}
	}
	for (int i = 0; i < SIDES; i++) {
		struct side *s = &w->side[i];

		for (int j = 0; j < PAIRS; j++)
			must(!rnic_qp_destroy(s->end[j].qp));
		for (int j = 0; j < MWS; j++)
			must(!rnic_mw_destroy(s->mw[j]));
		must(!s->mr || !rnic_mr_destroy(s->mr));
		must(!rnic_mr_destroy(s->mr_read_only) && !rnic_mr_destroy(s->mr_counter));
		must(!rnic_mr_destroy(s->mr_null));
		must(!rnic_cq_destroy(s->cq[0]) && !rnic_cq_destroy(s->cq[1]));
		must(!rnic_pd_destroy(s->pd));
		must(rnic_next_deadline(s->rnic) == DEADLINE_NEVER);
		rnic_destroy(s->rnic);
	}
	must(w->mem.blocks == 0);
	memory_check();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t timeouts[] = {0, 1, 10, 14};
	struct world w = {.now = 1000000000, .random = 7, .in = data, .in_end = data + size};
	uint8_t config = take(&w), more = take(&w);

	memory_fill();
	for (int i = 0; i < WIRE_MAX; i++)
		w.wire[i] = &packets[i];
	w.mtu = config & 0x80 ? RNIC_MTU_1024 : RNIC_MTU_256;
	w.rd_atomic = 1 + (more & 15);
	w.rnr_retry = more & 0x10 ? 7 : 1;
	w.timeout = timeouts[more >> 6];
	for (int i = 0; i < SIDES; i++)
		side_open(&w, i, config);
	for (int i = 0; i < 2 * PAIRS && config & 0x40; i++)
		must(!rnic_qp_repeat_selectively(w.side[i % 2].end[i / 2].qp,
						 rnic_qp_tag(w.side[!(i % 2)].end[i / 2].qp)));
	for (int i = 0; i < PAIRS; i++)
		connect_pair(&w, i);
	for (int i = 0; i < STEPS_MAX && w.in < w.in_end; i++)
		step(&w);
	wind_up(&w);
	return 0;
}
