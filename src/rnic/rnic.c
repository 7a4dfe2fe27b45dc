/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The instance: packets in to their QP, the transmit turn, timers. */
#include "rnic/core.h"

#define KEY_INDEX_BITS 24

static void permute_init(struct rnic *r, struct permute *p, uint32_t bits)
{
	uint32_t mask = (1u << bits / 2) - 1;

	assert(bits / 2 <= PERMUTE_HALF_BITS);
	p->half_bits = bits / 2;
	for (uint32_t i = 0; i < permute_words(p); i += 2) {
		uint32_t v = r->ops.random(r->ctx);

		p->round[i] = (uint16_t)(v & mask);
		p->round[i + 1] = (uint16_t)(v >> 16 & mask);
	}
}

int rnic_create(struct rnic **ret, const struct rnic_config *config, const struct rnic_ops *ops,
		void *ctx)
{
	struct rnic *r;

	if (config->slot == 0)
		return -EINVAL;
	r = ops->alloc(ctx, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->key_slots = ops->alloc(ctx, sizeof(*r->key_slots) * RNIC_MAX_KEYS);
	if (!r->key_slots) {
		ops->free(ctx, r);
		return -ENOMEM;
	}
	r->ops = *ops;
	r->ctx = ctx;
	r->slot = config->slot;
	r->window_bytes = config->window_bytes ? config->window_bytes : WINDOW_BYTES_DEFAULT;
	r->socket_bytes = config->socket_bytes ? config->socket_bytes : SOCKET_BYTES_DEFAULT;
	list_init(&r->own_socket.waiting);
	for (size_t i = 0; i < PEER_SOCKETS; i++)
		list_init(&r->peer_sockets[i].waiting);
	list_init(&r->active);
	list_init(&r->overflowed);
	mcast_init(r);
	slots_init(&r->keys, r->key_slots, RNIC_MAX_KEYS, KEY_GEN_BITS);
	permute_init(r, &r->qpn_permute, 16);
	permute_init(r, &r->srqn_permute, SRQN_BITS);
	permute_init(r, &r->key_permute, KEY_INDEX_BITS);
	*ret = r;
	return 0;
}

void rnic_destroy(struct rnic *r)
{
	assert(r->nqps == 0 && r->cqs == 0 && r->pds == 0 && r->xrcds == 0);
	assert(r->own_socket.used == 0);
	for (size_t i = 0; i < PEER_SOCKETS; i++)
		assert(r->peer_sockets[i].used == 0);
	if (r->xrc_srqs)
		r->ops.free(r->ctx, r->xrc_srqs);
	r->ops.free(r->ctx, r->key_slots);
	r->ops.free(r->ctx, r);
}

const struct rnic_counters *rnic_counters(const struct rnic *r)
{
	return &r->counters;
}

/* ---- receiving ------------------------------------------------------------------------------ */

static bool flow_fits(const struct rnic_qp *qp, const struct flow *f)
{
	const struct flow *own = &qp->attr.flow;

	return gid_equal(&f->sgid, &own->dgid) && gid_equal(&f->dgid, &own->sgid) &&
	       f->scope == own->scope;
}

/* One partition exists, and both ends are full members or one is. */
static bool pkey_fits(uint16_t pkey)
{
	return (pkey & 0x7fff) == (PKEY_DEFAULT & 0x7fff);
}

bool rnic_rx(struct rnic *r, const struct rnic_rx *rx, uint64_t now)
{
	struct rnic_qp *qp;
	bool expected;
	struct pkt p;
	int hdr_len;

	r->now = now;
	r->counters.rx_packets++;
	hdr_len = pkt_hdr_decode(&p.h, rx->data, rx->len);
	if (hdr_len < 0) {
		r->counters.rx_drop_malformed++;
		return false;
	}
	p.flags = opcode_table[p.h.bth.opcode].flags;
	p.payload = rx->data + hdr_len;
	p.len = (uint32_t)(rx->len - (size_t)hdr_len - p.h.bth.pad);
	if (unlikely(p.h.bth.dqpn == MULTICAST_QPN)) {
		if (pkey_fits(p.h.bth.pkey))
			mcast_rx(r, &p, rx);
		else
			r->counters.rx_drop_flow++;
		cq_settle(r);
		return false;
	}
	qp = p.h.bth.dqpn >> 16 == r->slot ? r->qps[p.h.bth.dqpn & (QP_TABLE_SIZE - 1)] : NULL;
	if (!qp || !qp_receives(qp)) {
		r->counters.rx_drop_no_qp++;
		return false;
	}
	if ((!flow_fits(qp, &rx->flow) && qp->type != RNIC_QPT_UD) || !pkey_fits(p.h.bth.pkey)) {
		r->counters.rx_drop_flow++;
		return false;
	}
	if ((p.h.bth.opcode & SERVICE_MASK) != qp->service) {
		r->counters.rx_drop_service++;
		return false;
	}
	/* An XRC initiator takes responses only, a target requests only. */
	if (unlikely(qp->service == SERVICE_XRC) && !(p.flags & OPF_RESPONSE) != !!qp->xrcd) {
		r->counters.rx_drop_service++;
		return false;
	}
	trace(r, TRACE_rx, qp->qpn, (uint64_t)p.h.bth.opcode << 24 | p.h.bth.psn, p.len);
	if (unlikely(qp_is_unreliable(qp)))
		expected = unreliable_rx(qp, &p, rx);
	else if (p.flags & OPF_RESPONSE)
		expected = comp_rx(qp, &p, now);
	else
		expected = resp_rx(qp, &p);
	cq_settle(r);
	return expected;
}

/* ---- sending -------------------------------------------------------------------------------- */

void tx_finish(struct rnic_qp *qp, struct rnic_tx *tx, struct pkt_hdr *h)
{
	struct rnic *r = qp->rnic;

	tx->pad = (uint8_t)(-tx->payload_len & 3);
	h->bth.opcode |= qp->service;
	h->bth.pad = tx->pad;
	h->bth.tver = 0;
	h->bth.migreq = false;
	h->bth.pkey = PKEY_DEFAULT;
	h->bth.fecn = h->bth.becn = false;
	tx->hdr_len = (uint8_t)pkt_hdr_encode(h, tx->hdr);
	r->counters.tx_packets++;
	r->counters.tx_bytes += tx->payload_len;
	trace(r, TRACE_tx, qp->qpn, (uint64_t)h->bth.opcode << 24 | h->bth.psn, tx->payload_len);
}

/* The static rate of an address (IBA volume 1, 9.11): no more than a burst at once, and not more
 * than the rate in the long run. */
static uint64_t rate_time(uint32_t mbps, uint32_t bytes)
{
	return bytes * 8000ull / mbps;
}

static bool rate_allows(struct rnic_qp *qp, uint64_t now)
{
	uint64_t due;

	if (likely(qp->rate_ns <= now + qp->rate_ahead_ns))
		return true;
	due = qp->rate_ns - qp->rate_ahead_ns / 2;
	if (!qp->timer.armed || due < qp->timer.deadline_ns)
		timer_arm(&qp->rnic->timers, &qp->timer, due);
	return false;
}

static void rate_charge(struct rnic_qp *qp, const struct rnic_tx *tx, uint64_t now)
{
	uint32_t mbps = tx->flow->rate_mbps;

	if (likely(!mbps))
		return;
	qp->rate_ahead_ns = rate_time(mbps, TX_BURST_BYTES);
	qp->rate_ns = max_of(qp->rate_ns, now) +
		      rate_time(mbps, tx->hdr_len + tx->payload_len + WIRE_OVERHEAD);
}

/* One packet of this QP. Requester and responder begin by turns, so that neither starves. */
static bool qp_tx(struct rnic_qp *qp, struct rnic_tx *tx, uint64_t now)
{
	bool sent;

	if (!rate_allows(qp, now))
		return false;
	if (unlikely(qp_is_unreliable(qp)))
		sent = unreliable_tx(qp, tx, now);
	else if (qp->responder_turn)
		sent = resp_tx(qp, tx) || req_tx(qp, tx, now);
	else
		sent = req_tx(qp, tx, now) || resp_tx(qp, tx);
	if (sent)
		rate_charge(qp, tx, now);
	return sent;
}

size_t rnic_tx(struct rnic *r, struct rnic_tx *pkts, size_t max, uint64_t now)
{
	size_t n = 0;

	r->now = now;
	while (n < max && !list_empty(&r->active)) {
		struct rnic_qp *qp = list_entry(r->active.next, struct rnic_qp, active_node);
		bool more = true;

		while (n < max && qp->burst < TX_BURST_BYTES && (more = qp_tx(qp, &pkts[n], now)))
			qp->burst += max_of(pkts[n++].payload_len, WINDOW_PKT_MIN);
		if (!more || qp->burst >= TX_BURST_BYTES) {
			list_remove(&qp->active_node);
			/* A QP that has sent all begins anew with its requests: a lone ACK
			 * behind them is shorter, so that both travel in one datagram. */
			qp->responder_turn = more && !qp->responder_turn;
			qp->burst = 0;
			qp->budget_woken = false;
			if (more)
				qp_activate(qp);
			else
				window_pass_on(qp);
		}
		/* A QP that failed on the way may owe its peer a NAK. */
		cq_settle(r);
	}
	return n;
}

bool rnic_tx_pending(const struct rnic *r)
{
	return !list_empty(&r->active);
}

/* ---- time ----------------------------------------------------------------------------------- */

uint64_t rnic_next_deadline(const struct rnic *r)
{
	return min_of(timer_heap_next(&r->timers), timer_heap_next(&r->cq_timers));
}

void rnic_tick(struct rnic *r, uint64_t now)
{
	struct timer *t;

	r->now = now;
	while ((t = timer_pop_due(&r->timers, now)))
		req_timer_fired(container_of(t, struct rnic_qp, timer), now);
	while ((t = timer_pop_due(&r->cq_timers, now)))
		cq_timer_fired(container_of(t, struct rnic_cq, timer));
	cq_settle(r);
}
