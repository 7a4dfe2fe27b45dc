/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "rnic_bed.h"

#include <stdlib.h>
#include <string.h>

static void *bed_alloc(void *ctx, size_t bytes)
{
	struct bed_side *s = ctx;

	if (s->allocs_left == 0)
		return NULL;
	if (s->allocs_left > 0)
		s->allocs_left--;
	s->allocs++;
	return calloc(1, bytes);
}

static void bed_free(void *ctx, void *p)
{
	struct bed_side *s = ctx;

	s->allocs--;
	free(p);
}

static uint32_t bed_random(void *ctx)
{
	struct bed_side *s = ctx;

	s->random = s->random * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(s->random >> 32);
}

static void bed_notify(void *ctx, void *cq_user)
{
	struct bed_side *s = ctx;

	(void)cq_user;
	s->notified++;
}

static void bed_event(void *ctx, enum rnic_event event, void *user)
{
	struct bed_side *s = ctx;

	(void)user;
	assert_true(s->nevents < BED_EVENTS);
	s->events[s->nevents++] = event;
}

static bool bed_page_in(void *ctx, void *p, size_t len, bool write)
{
	struct bed_side *s = ctx;
	const uint8_t *end = (const uint8_t *)p + len;

	if ((s->gone && end > s->gone) || (write && s->read_only && end > s->read_only))
		return false;
	s->paged_in++;
	return true;
}

static void bed_suspected(void *ctx, uint32_t qpn, uint32_t mtu)
{
	struct bed_side *s = ctx;

	assert_int_equal(qpn, rnic_qp_num(s->qp));
	assert_int_equal(mtu, 128u << s->bed->opts.mtu);
	s->suspected++;
}

static void bed_failed(void *ctx, const struct rnic_failure *f)
{
	struct bed_side *s = ctx;

	s->failures++;
	s->failure = *f;
	s->failed_to = *f->peer;
	s->failure.peer = &s->failed_to;
}

static const struct rnic_ops bed_ops = {
	.alloc = bed_alloc,
	.free = bed_free,
	.random = bed_random,
	.cq_notify = bed_notify,
	.async_event = bed_event,
	.page_in = bed_page_in,
	.mtu_suspected = bed_suspected,
	.qp_failed = bed_failed,
};

static struct gid gid_of(int side)
{
	return (struct gid){.raw = {[10] = 0xff, 0xff, 10, 0, 0, (uint8_t)(side + 1)}};
}

void bed_flows(struct bed *b, int side, struct rnic_qp_attr *a)
{
	a->flow = (struct flow){.sgid = gid_of(b->opts.one_host ? 0 : side),
				.dgid = gid_of(b->opts.one_host ? 0 : !side),
				.sport = 50000,
				.tos = b->opts.tos,
				.rate_mbps = b->opts.rate_mbps,
				.rocev1 = b->opts.rocev1};
}

static void side_open(struct bed *b, int i)
{
	struct bed_side *s = &b->side[i];
	struct rnic_config config = {.slot = (uint8_t)(i + 1),
				     .window_bytes = b->opts.window_bytes,
				     .socket_bytes = b->opts.socket_bytes,
				     .max_qps = b->opts.max_qps,
				     .max_keys = b->opts.max_keys,
				     .cc = b->opts.cc,
				     .cc_params = b->opts.cc_params};
	struct rnic_qp_init init = {.type = b->opts.type,
				    .path_mtu = b->opts.mtu,
				    .cap = b->opts.cap,
				    .sq_sig_all = !b->opts.not_all_signaled,
				    .qp_user = s};

	s->bed = b;
	s->allocs_left = -1;
	s->random = 1 + (uint64_t)i;
	if (b->opts.rows) {
		config.counters = &s->seen;
		config.qp_rows = s->rows;
		config.qp_rows_max = b->opts.rows;
	}
	assert_int_equal(rnic_create(&s->rnic, &config, &bed_ops, s), 0);
	assert_int_equal(rnic_pd_create(s->rnic, &s->pd), 0);
	assert_int_equal(rnic_cq_create(s->rnic, b->opts.cqe, s, &s->scq), 0);
	assert_int_equal(rnic_cq_create(s->rnic, b->opts.cqe, s, &s->rcq), 0);
	init.send_cq = s->scq;
	init.recv_cq = s->rcq;
	if (b->opts.srq) {
		struct rnic_srq_attr a = {init.cap.max_recv_wr, init.cap.max_recv_sge, 0};

		assert_int_equal(rnic_srq_create(s->pd, &a, s, &s->srq), 0);
		init.srq = s->srq;
	}
	assert_int_equal(rnic_qp_create(s->pd, &init, &s->qp), 0);
	s->mem = aligned_alloc(64, BED_MEM);
	memset(s->mem, 0, BED_MEM);
	assert_int_equal(rnic_mr_create(s->pd, s->mem, BED_MEM, (uintptr_t)s->mem, 0x1f, &s->mr),
			 0);
}

int bed_modify(struct bed *b, int side, enum rnic_qp_state to)
{
	struct rnic_qp_attr a = {
		.state = to,
		.access_flags = b->opts.access,
		.port_num = 1,
		.path_mtu = b->opts.mtu,
		.dest_qpn = rnic_qp_num(b->side[!side].qp),
		.rq_psn = b->opts.psn[!side],
		.sq_psn = b->opts.psn[side],
		.max_dest_rd_atomic = b->opts.rd_atomic,
		.max_rd_atomic = b->opts.rd_atomic,
		.min_rnr_timer = b->opts.min_rnr_timer,
		.timeout = b->opts.timeout,
		.retry_cnt = b->opts.retry_cnt,
		.rnr_retry = b->opts.rnr_retry,
		.qkey = BED_QKEY,
		.cc = b->opts.qp_cc,
		.cc_params = b->opts.qp_cc_params,
	};
	uint32_t mask = RNIC_QP_STATE;
	enum rnic_qp_state from = bed_state(b, side);

	bed_flows(b, side, &a);
	if (from == RNIC_QPS_RESET && to == RNIC_QPS_INIT)
		mask |= RNIC_QP_PKEY_INDEX | RNIC_QP_PORT |
			(b->opts.type == RNIC_QPT_UD ? RNIC_QP_QKEY : RNIC_QP_ACCESS_FLAGS);
	if (to == RNIC_QPS_RTR && b->opts.type != RNIC_QPT_UD)
		mask |= RNIC_QP_AV | RNIC_QP_PATH_MTU | RNIC_QP_DEST_QPN | RNIC_QP_RQ_PSN;
	if (to == RNIC_QPS_RTR && b->opts.type == RNIC_QPT_RC)
		mask |= RNIC_QP_MAX_DEST_RD_ATOMIC | RNIC_QP_MIN_RNR_TIMER;
	if (from == RNIC_QPS_RTR && to == RNIC_QPS_RTS) {
		mask |= RNIC_QP_SQ_PSN;
		if (b->opts.type == RNIC_QPT_RC)
			mask |= RNIC_QP_TIMEOUT | RNIC_QP_RETRY_CNT | RNIC_QP_RNR_RETRY |
				RNIC_QP_MAX_QP_RD_ATOMIC;
	}
	return rnic_qp_modify(b->side[side].qp, &a, mask, b->now);
}

void bed_connect(struct bed *b)
{
	for (int i = 0; i < 2; i++) {
		if (b->opts.selective)
			assert_int_equal(rnic_qp_repeat_selectively(b->side[i].qp,
								    rnic_qp_tag(b->side[!i].qp)),
					 0);
		assert_int_equal(bed_modify(b, i, RNIC_QPS_INIT), 0);
		assert_int_equal(bed_modify(b, i, RNIC_QPS_RTR), 0);
		assert_int_equal(bed_modify(b, i, RNIC_QPS_RTS), 0);
	}
}

void bed_second_pair(struct bed *b, struct rnic_qp *ret_old[2])
{
	for (int i = 0; i < 2; i++) {
		struct bed_side *s = &b->side[i];
		struct rnic_qp_init init = {.type = RNIC_QPT_RC,
					    .send_cq = s->scq,
					    .recv_cq = s->rcq,
					    .cap = b->opts.cap,
					    .sq_sig_all = true,
					    .qp_user = s};

		ret_old[i] = s->qp;
		assert_int_equal(rnic_qp_create(s->pd, &init, &s->qp), 0);
	}
	bed_connect(b);
}

struct bed *bed_open(const struct bed_opts *opts)
{
	struct bed *b = calloc(1, sizeof(*b));
	struct bed_opts *o = &b->opts;

	if (opts)
		*o = *opts;
	o->type = o->type ? o->type : RNIC_QPT_RC;
	o->mtu = o->mtu ? o->mtu : RNIC_MTU_1024;
	o->access = o->access ? o->access : 0xf;
	o->rd_atomic = o->rd_atomic || o->zero_rd_atomic ? o->rd_atomic : 4;
	o->timeout = o->timeout || o->zero_timeout ? o->timeout : 14;
	o->retry_cnt = o->retry_cnt || o->zero_retry ? o->retry_cnt : 7;
	o->rnr_retry = o->rnr_retry || o->zero_rnr_retry ? o->rnr_retry : 7;
	o->min_rnr_timer = o->min_rnr_timer ? o->min_rnr_timer : 12;
	o->cqe = o->cqe ? o->cqe : 256;
	if (!o->cap.max_send_wr)
		o->cap = (struct rnic_qp_cap){64, 64, 4, 4, 64};
	b->now = 1000 * MS;
	side_open(b, 0);
	side_open(b, 1);
	bed_connect(b);
	return b;
}

void bed_close(struct bed *b)
{
	for (int i = 0; i < 2; i++) {
		struct bed_side *s = &b->side[i];

		if (s->qp)
			assert_int_equal(rnic_qp_destroy(s->qp), 0);
		if (s->srq)
			assert_int_equal(rnic_srq_destroy(s->srq), 0);
		if (s->mr)
			assert_int_equal(rnic_mr_destroy(s->mr), 0);
		assert_int_equal(rnic_cq_destroy(s->scq), 0);
		assert_int_equal(rnic_cq_destroy(s->rcq), 0);
		assert_int_equal(rnic_pd_destroy(s->pd), 0);
		rnic_destroy(s->rnic);
		assert_int_equal(s->allocs, 0);
		free(s->mem);
	}
	free(b->log);
	free(b);
}

/* ---- packets -------------------------------------------------------------------------------- */

struct bed_pkt *bed_tx1(struct bed *b, int side)
{
	struct packet_tx tx;
	struct bed_pkt *p;
	size_t at;

	if (rnic_tx(b->side[side].rnic, &tx, 1, b->now) == 0)
		return NULL;
	if (b->nlog == b->caplog) {
		b->caplog = b->caplog ? b->caplog * 2 : 1024;
		assert_true(b->caplog < 1u << 18);
		b->log = realloc(b->log, b->caplog * sizeof(*b->log));
		for (uint32_t i = 0; i < b->nlog; i++)
			b->log[i].payload =
				b->log[i].data +
				(b->log[i].len - b->log[i].payload_len - b->log[i].h.bth.pad);
	}
	p = &b->log[b->nlog++];
	p->from = side;
	p->flow = *tx.flow;
	memcpy(p->data, tx.hdr, tx.hdr_len);
	at = tx.hdr_len;
	for (int i = 0; i < tx.niov; i++) {
		assert_true(at + tx.iov[i].iov_len + tx.pad <= BED_PKT_MAX);
		memcpy(p->data + at, tx.iov[i].iov_base, tx.iov[i].iov_len);
		at += tx.iov[i].iov_len;
	}
	assert_int_equal(at, tx.hdr_len + tx.payload_len);
	memset(p->data + at, 0, tx.pad);
	p->len = at + tx.pad;
	p->payload = p->data + tx.hdr_len;
	p->payload_len = tx.payload_len;
	assert_int_equal(p->len % 4, 0);
	assert_int_equal(pkt_hdr_decode(&p->h, p->data, p->len), tx.hdr_len);
	return p;
}

bool bed_deliver(struct bed *b, const struct bed_pkt *p)
{
	struct packet_rx rx = {.flow = p->flow, .data = p->data, .len = p->len};

	b->delivered++;
	return rnic_rx(b->side[!p->from].rnic, &rx, b->now);
}

bool bed_forge(struct bed *b, int from, struct pkt_hdr h, const void *payload, uint32_t len)
{
	struct bed_pkt *p = calloc(1, sizeof(*p));
	struct rnic_qp_attr a;
	size_t hdr_len;
	bool expected;

	bed_flows(b, from, &a);
	p->from = from;
	p->flow = a.flow;
	h.bth.dqpn = rnic_qp_num(b->side[!from].qp);
	h.bth.pkey = PKEY_DEFAULT;
	h.bth.pad = (uint8_t)(-len & 3);
	if (b->opts.selective && !h.bth.tag)
		h.bth.tag = rnic_qp_tag(b->side[!from].qp);
	hdr_len = pkt_hdr_encode(&h, p->data);
	if (len)
		memcpy(p->data + hdr_len, payload, len);
	p->len = hdr_len + len + h.bth.pad;
	expected = bed_deliver(b, p);
	free(p);
	return expected;
}

struct bed_pkt *bed_nth(struct bed *b, int side, uint8_t opcode, uint32_t n)
{
	for (uint32_t i = 0; i < b->nlog; i++)
		if (b->log[i].from == side && b->log[i].h.bth.opcode == opcode && n-- == 0)
			return &b->log[i];
	return NULL;
}

uint32_t bed_sent(struct bed *b, int side, uint8_t opcode)
{
	uint32_t n = 0;

	while (bed_nth(b, side, opcode, n))
		n++;
	return n;
}

bool bed_drop_some(struct bed *b, struct bed_pkt *p)
{
	struct bed_drop *d = b->filter_arg;

	if (p->from != d->side || (d->opcode >= 0 && p->h.bth.opcode != d->opcode))
		return true;
	d->seen++;
	return d->seen <= d->from || d->seen > d->from + d->count;
}

bool bed_drop_all(struct bed *b, struct bed_pkt *p)
{
	(void)b;
	(void)p;
	return false;
}

void bed_drop(struct bed *b, struct bed_drop *d)
{
	b->filter = bed_drop_some;
	b->filter_arg = d;
}

const struct rnic_counters *bed_counters(struct bed *b, int side)
{
	return rnic_counters(b->side[side].rnic);
}

void bed_run(struct bed *b)
{
	bool moved;

	do {
		moved = false;
		for (int i = 0; i < 2; i++) {
			struct bed_pkt *p;

			while ((p = bed_tx1(b, i))) {
				moved = true;
				if (b->filter && !b->filter(b, p))
					b->dropped++;
				else
					bed_deliver(b, p);
			}
		}
	} while (moved);
	assert_false(rnic_tx_pending(b->side[0].rnic) || rnic_tx_pending(b->side[1].rnic));
}

void bed_sleep(struct bed *b, uint64_t ns)
{
	uint64_t end = b->now + ns;

	bed_run(b);
	for (;;) {
		uint64_t next = min_of(rnic_next_deadline(b->side[0].rnic),
				       rnic_next_deadline(b->side[1].rnic));

		if (next > end)
			break;
		b->now = max_of(next, b->now);
		rnic_tick(b->side[0].rnic, b->now);
		rnic_tick(b->side[1].rnic, b->now);
		bed_run(b);
	}
	b->now = end;
}

/* ---- work ----------------------------------------------------------------------------------- */

struct rnic_sge bed_sge(struct bed *b, int side, uint32_t off, uint32_t len)
{
	struct bed_side *s = &b->side[side];

	return (struct rnic_sge){(uintptr_t)s->mem + off, len, rnic_mr_lkey(s->mr)};
}

int bed_send(struct bed *b, int side, uint64_t wr_id, uint32_t off, uint32_t len)
{
	struct rnic_sge sge = bed_sge(b, side, off, len);
	struct rnic_send_wr wr = {
		.wr_id = wr_id, .sge = &sge, .num_sge = 1, .opcode = RNIC_WR_SEND};

	return rnic_post_send(b->side[side].qp, &wr, b->now);
}

int bed_recv(struct bed *b, int side, uint64_t wr_id, uint32_t off, uint32_t len)
{
	struct rnic_sge sge = bed_sge(b, side, off, len);
	struct rnic_recv_wr wr = {.wr_id = wr_id, .sge = &sge, .num_sge = 1};

	return b->side[side].srq ? rnic_post_srq_recv(b->side[side].srq, &wr)
				 : rnic_post_recv(b->side[side].qp, &wr);
}

uint64_t bed_remote_addr(struct bed *b, int peer, uint32_t off)
{
	return (uintptr_t)b->side[peer].mem + off;
}

int bed_rdma(struct bed *b, int side, uint64_t wr_id, uint32_t opcode, uint32_t off,
	     uint32_t remote_off, uint32_t len)
{
	struct rnic_sge sge = bed_sge(b, side, off, len);
	struct rnic_send_wr wr = {
		.wr_id = wr_id,
		.sge = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.remote_addr = bed_remote_addr(b, !side, remote_off),
		.rkey = rnic_mr_rkey(b->side[!side].mr),
	};

	return rnic_post_send(b->side[side].qp, &wr, b->now);
}

int bed_atomic(struct bed *b, int side, uint64_t wr_id, uint32_t opcode, uint32_t off,
	       uint32_t remote_off, uint64_t compare_add, uint64_t swap)
{
	struct rnic_sge sge = bed_sge(b, side, off, 8);
	struct rnic_send_wr wr = {
		.wr_id = wr_id,
		.sge = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.remote_addr = bed_remote_addr(b, !side, remote_off),
		.rkey = rnic_mr_rkey(b->side[!side].mr),
		.compare_add = compare_add,
		.swap = swap,
	};

	return rnic_post_send(b->side[side].qp, &wr, b->now);
}

void bed_fill(struct bed *b, int side, uint32_t off, uint32_t len, uint8_t seed)
{
	for (uint32_t i = 0; i < len; i++)
		b->side[side].mem[off + i] = (uint8_t)(seed + i * 7 + (i >> 8));
}

/* ---- expectations --------------------------------------------------------------------------- */

struct rnic_wc bed_wc(struct bed *b, int side, bool recv)
{
	struct bed_side *s = &b->side[side];
	struct rnic_wc wc;

	assert_int_equal(rnic_cq_poll(recv ? s->rcq : s->scq, &wc, 1), 1);
	assert_int_equal(wc.qp_num, rnic_qp_num(s->qp));
	return wc;
}

void bed_expect(struct bed *b, int side, bool recv, uint64_t wr_id, enum rnic_wc_status status)
{
	struct rnic_wc wc = bed_wc(b, side, recv);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

void bed_expect_none(struct bed *b, int side)
{
	assert_true(rnic_cq_empty(b->side[side].scq));
	assert_true(rnic_cq_empty(b->side[side].rcq));
}

enum rnic_qp_state bed_state(struct bed *b, int side)
{
	struct rnic_qp_attr a;

	rnic_qp_query(b->side[side].qp, &a, NULL);
	return a.state;
}

bool bed_saw_event(struct bed *b, int side, enum rnic_event event)
{
	for (uint32_t i = 0; i < b->side[side].nevents; i++)
		if (b->side[side].events[i] == event)
			return true;
	return false;
}
