/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The instance: packets in to their QP, the transmit turn, timers. */
#include "rnic/core.h"

/* A permutation has an even number of bits. */
static uint32_t even_bits(uint32_t n)
{
	uint32_t bits = 2;

	while (bits < NUMBER_BITS && n > 1u << bits)
		bits += 2;
	return bits;
}

static bool permute_create(struct rnic *r, struct permute *p, uint32_t bits)
{
	uint32_t mask = (1u << bits / 2) - 1;

	assert(bits / 2 <= PERMUTE_HALF_BITS);
	p->half_bits = bits / 2;
	p->round = r->ops.alloc(r->ctx, permute_words(p) * sizeof(*p->round));
	if (!p->round)
		return false;
	for (uint32_t i = 0; i < permute_words(p); i += 2) {
		uint32_t v = r->ops.random(r->ctx);

		p->round[i] = (uint16_t)(v & mask);
		p->round[i + 1] = (uint16_t)(v >> 16 & mask);
	}
	return true;
}

static void free_if_any(struct rnic *r, void *p)
{
	if (p)
		r->ops.free(r->ctx, p);
}

static void release(struct rnic *r)
{
	free_if_any(r, r->key_permute.round);
	free_if_any(r, r->srqn_permute.round);
	free_if_any(r, r->qpn_permute.round);
	free_if_any(r, r->xrc_srqs);
	free_if_any(r, r->free_rows);
	free_if_any(r, r->key_table);
	free_if_any(r, r->qps);
	r->ops.free(r->ctx, r);
}

int rnic_create(struct rnic **ret, const struct rnic_config *config, const struct rnic_ops *ops,
		void *ctx)
{
	uint32_t bits = config->max_qps ? even_bits(config->max_qps) : NUMBER_BITS;
	uint32_t keys = config->max_keys ? config->max_keys : RNIC_MAX_KEYS;
	struct rnic *r;

	if (config->slot == 0 || config->max_qps > RNIC_MAX_QPS || keys > RNIC_MAX_KEYS)
		return -EINVAL;
	r = ops->alloc(ctx, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->ops = *ops;
	r->ctx = ctx;
	r->qps = ops->alloc(ctx, sizeof(struct rnic_qp *) << bits);
	r->key_table = ops->alloc(ctx, sizeof(*r->key_table) * keys);
	r->number_mask = (1u << bits) - 1;
	if (!r->qps || !r->key_table || shown_init(r, config) ||
	    !permute_create(r, &r->qpn_permute, bits) ||
	    !permute_create(r, &r->srqn_permute, bits) ||
	    !permute_create(r, &r->key_permute,
			    keys > 1u << NUMBER_BITS ? KEY_INDEX_BITS : even_bits(keys))) {
		release(r);
		return -ENOMEM;
	}
	r->slot = config->slot;
	r->polls = 1;
	r->cc = config->cc;
	r->cc_params = config->cc_params ? *config->cc_params : cc_defaults;
	r->window_bytes = config->window_bytes ? config->window_bytes : WINDOW_BYTES_DEFAULT;
	r->socket_bytes = config->socket_bytes ? config->socket_bytes : SOCKET_BYTES_DEFAULT;
	r->turn_bytes = config->turn_bytes ? config->turn_bytes : TURN_BYTES_DEFAULT;
	r->ask_bytes = config->ask_bytes ? config->ask_bytes : UINT32_MAX;
	list_init(&r->own_socket.waiting);
	for (size_t i = 0; i < PEER_SOCKETS; i++)
		list_init(&r->peer_sockets[i].waiting);
	list_init(&r->active);
	list_init(&r->held);
	list_init(&r->streams);
	list_init(&r->overflowed);
	mcast_init(r);
	handles_init(&r->keys, r->key_table, keys, KEY_GEN_BITS);
	*ret = r;
	return 0;
}

void rnic_destroy(struct rnic *r)
{
	assert(r->nqps == 0 && r->cqs == 0 && r->pds == 0 && r->xrcds == 0);
	assert(r->own_socket.used == 0 && r->kept_bytes == 0);
	for (size_t i = 0; i < PEER_SOCKETS; i++)
		assert(r->peer_sockets[i].used == 0);
	release(r);
}

const struct rnic_counters *rnic_counters(const struct rnic *r)
{
	return r->counters;
}

/* ---- receiving ------------------------------------------------------------------------------ */

static bool flow_fits(const struct rnic_qp *qp, const struct flow *f)
{
	const struct flow *own = &qp->attr.flow;

	return gid_equal(&f->sgid, &own->dgid) && gid_equal(&f->dgid, &own->sgid) &&
	       f->scope == own->scope && f->rocev1 == own->rocev1;
}

/* One partition exists, and both ends are full members or one is. */
static bool pkey_fits(uint16_t pkey)
{
	return (pkey & 0x7fff) == (PKEY_DEFAULT & 0x7fff);
}

bool rnic_rx(struct rnic *r, const struct packet_rx *rx, uint64_t now)
{
	struct rnic_qp *qp;
	bool expected;
	struct pkt p;
	int hdr_len;

	r->now = now;
	r->counters->rx_packets++;
	hdr_len = pkt_hdr_decode(&p.h, rx->data, rx->len);
	if (hdr_len < 0) {
		r->counters->rx_drop_malformed++;
		return false;
	}
	p.flags = opcode_table[p.h.bth.opcode].flags;
	p.payload = rx->data + hdr_len;
	p.len = (uint32_t)(rx->len - (size_t)hdr_len - p.h.bth.pad);
	if (unlikely(p.h.bth.dqpn == MULTICAST_QPN)) {
		if (pkey_fits(p.h.bth.pkey))
			mcast_rx(r, &p, rx, now);
		else
			r->counters->rx_drop_flow++;
		qp_settle(r);
		return false;
	}
	qp = r->qps[p.h.bth.dqpn & r->number_mask];
	if (!qp || qp->qpn != p.h.bth.dqpn || !qp_receives(qp)) {
		r->counters->rx_drop_no_qp++;
		return false;
	}
	qp->row->rx_packets++;
	if ((!flow_fits(qp, &rx->flow) && !qp->service->datagrams) || !pkey_fits(p.h.bth.pkey) ||
	    unlikely(qp->selective && p.h.bth.tag != qp->tag_in)) {
		count(qp, rx_drop_flow, 1);
		return false;
	}
	if (unlikely((p.h.bth.opcode & SERVICE_MASK) != qp->service->opcodes) &&
	    !((p.h.bth.opcode & SERVICE_MASK) == SERVICE_WEFT && qp->selective)) {
		cnp_rx(qp, &p);
		qp_settle(r);
		return false;
	}
	if (unlikely(rx->flow.tos & FLOW_ECN_CE & ~FLOW_ECN_ECT0))
		ecn_rx(qp, &rx->flow);
	trace(r, TRACE_rx, qp->qpn, (uint64_t)p.h.bth.opcode << 24 | p.h.bth.psn, p.len);
	expected = qp->service->rx(qp, &p, rx, now);
	qp_settle(r);
	return expected;
}

/* ---- sending -------------------------------------------------------------------------------- */

static bool qp_tx(struct rnic_qp *qp, struct packet_tx *tx, uint64_t now)
{
	if (unlikely(qp->cnp_owed)) {
		cnp_tx(qp, tx);
		return true;
	}
	if (!pacer_allows(qp, now))
		return qp->service->tx_word && qp->service->tx_word(qp, tx);
	if (!qp->service->tx(qp, tx, now))
		return false;
	pacer_charge(qp, tx, now);
	return true;
}

/* A datagram says itself whom it is for, and in which class; who has none has nothing to wait with.
 */
static bool is_held(const struct rnic_qp *qp)
{
	const struct sq *sq = &qp->sq;
	const struct flow *next = &qp->attr.flow;

	if (qp->service->datagrams && sq->cur == sq->prod)
		return false;
	if (qp->service->datagrams)
		next = &sq_at(sq, sq->cur)->ud.flow;
	return qp->rnic->held_priorities >> flow_priority(next) & 1;
}

/* It waits until it is not held any more, but for what goes in another class. True: that is in tx.
 */
static bool held_tx(struct rnic_qp *qp, struct packet_tx *tx)
{
	struct rnic *r = qp->rnic;

	list_remove(&qp->active_node);
	list_push_tail(&r->held, &qp->active_node);
	if (!qp->cnp_owed || r->held_priorities >> cnp_priority(qp) & 1)
		return false;
	cnp_tx(qp, tx);
	return true;
}

void rnic_hold(struct rnic *r, uint8_t priorities)
{
	struct list *next;

	r->held_priorities = priorities;
	for (struct list *n = r->held.next; n != &r->held; n = next) {
		struct rnic_qp *qp = list_entry(n, struct rnic_qp, active_node);

		next = n->next;
		if (is_held(qp)) /* still, or again */
			continue;
		list_remove(&qp->active_node);
		qp_activate(qp);
	}
}

size_t rnic_tx(struct rnic *r, struct packet_tx *pkts, size_t max, uint64_t now)
{
	size_t n = 0;

	r->now = now;
	while (n < max && !list_empty(&r->active)) {
		struct rnic_qp *qp = list_entry(r->active.next, struct rnic_qp, active_node);
		bool more = true;

		if (unlikely(r->held_priorities) && is_held(qp)) {
			n += held_tx(qp, &pkts[n]);
			continue;
		}
		while (n < max && qp->burst < r->turn_bytes && (more = qp_tx(qp, &pkts[n], now))) {
			qp->burst += max_of(pkts[n++].payload_len, PKT_COST_MIN);
			if (unlikely(r->held_priorities) && is_held(qp))
				break; /* what is next is in another class */
		}
		if (!more || qp->burst >= r->turn_bytes) {
			list_remove(&qp->active_node);
			qp->burst = 0;
			qp->service->yield(qp, more);
			if (more)
				qp_activate(qp);
		}
		/* A QP that failed on the way may owe its peer a NAK. */
		qp_settle(r);
	}
	if (n < max) {
		r->unsent = 0;
		r->hurried = r->idle = false;
		r->pressing = false;
	}
	return n;
}

bool rnic_tx_can_wait(const struct rnic *r, bool more)
{
	return !r->hurried && (more || !r->idle) && r->unsent < HELD_MAX;
}

bool rnic_tx_only_acks(const struct rnic *r)
{
	return !r->pressing && !list_empty(&r->active);
}

bool rnic_tx_pending(const struct rnic *r)
{
	return !list_empty(&r->active);
}

/* ---- time ----------------------------------------------------------------------------------- */

uint64_t rnic_next_deadline(const struct rnic *r)
{
	uint64_t due = min_of(timer_heap_next(&r->timers), timer_heap_next(&r->cq_timers));

	return min_of(due, timer_heap_next(&r->pace_timers));
}

void rnic_tick(struct rnic *r, uint64_t now)
{
	struct timer *t;

	r->now = now;
	while ((t = timer_pop_due(&r->timers, now))) {
		struct rnic_qp *qp = container_of(t, struct rnic_qp, timer);

		qp->service->timer(qp, now);
	}
	while ((t = timer_pop_due(&r->pace_timers, now)))
		pacer_timer_fired(container_of(t, struct rnic_qp, pace_timer), now);
	while ((t = timer_pop_due(&r->cq_timers, now)))
		cq_timer_fired(container_of(t, struct rnic_cq, timer));
	qp_settle(r);
}
