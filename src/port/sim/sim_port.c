/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Three kinds of events stand in one heap, ordered by time and then by their number, so that
 * equal times have an order: a packet arrives, a node gets its turn to send, a node's timer is
 * served. A node has at most one of each of the latter two.
 */
#include "port/sim/sim_port.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/icrc.h"

#define SIM_PKT_MAX (PKT_HDR_MAX + 4096 + 4 + ICRC_LEN)
#define SIM_BATCH   64

enum event_kind { EVENT_PACKET, EVENT_TX, EVENT_TICK };

struct event {
	uint64_t at_ns, serial;
	enum event_kind kind;
	int node;
	struct packet *pkt;
};

struct packet {
	struct flow flow;
	uint32_t len;
	uint8_t data[]; /* UDP payload with its ICRC */
};

struct node {
	struct rnic *rnic;
	struct gid gid;
	bool gone;
	bool tx_due, tick_due;
	uint64_t tick_at_ns;
	uint64_t line_free_ns;	  /* when the last packet has left */
	uint64_t last_arrival_ns; /* of an ordered packet, at its receiver */
};

struct sim {
	struct prng prng;
	struct sim_wire wire;
	struct sim_counters counters;
	uint64_t now_ns, serial;
	struct node nodes[SIM_NODES_MAX];
	int nnodes;
	struct event *heap;
	size_t nheap, capheap;
	struct rnic_tx batch[SIM_BATCH];
};

/* ---- the heap ------------------------------------------------------------------------------- */

static bool before(const struct event *a, const struct event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->serial < b->serial;
}

static void event_push(struct sim *s, struct event e)
{
	size_t i;

	if (s->nheap == s->capheap) {
		s->capheap = s->capheap ? s->capheap * 2 : 256;
		s->heap = realloc(s->heap, s->capheap * sizeof(*s->heap));
		if (!s->heap)
			abort(); /* a simulation without memory has no result */
	}
	e.serial = s->serial++;
	for (i = s->nheap++; i && before(&e, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = e;
}

static struct event event_pop(struct sim *s)
{
	struct event top = s->heap[0], last = s->heap[--s->nheap];
	size_t i = 0;

	for (;;) {
		size_t c = 2 * i + 1;

		if (c + 1 < s->nheap && before(&s->heap[c + 1], &s->heap[c]))
			c++;
		if (c >= s->nheap || !before(&s->heap[c], &last))
			break;
		s->heap[i] = s->heap[c];
		i = c;
	}
	s->heap[i] = last;
	return top;
}

/* ---- the wire ------------------------------------------------------------------------------- */

static struct packet *packet_frame(const struct rnic_tx *tx)
{
	size_t len = (size_t)tx->hdr_len + tx->payload_len + tx->pad + ICRC_LEN;
	struct packet *p = malloc(sizeof(*p) + len);
	struct icrc c;
	uint8_t *w;

	if (!p)
		abort();
	assert(len <= SIM_PKT_MAX);
	p->flow = *tx->flow;
	p->len = (uint32_t)len;
	memcpy(p->data, tx->hdr, tx->hdr_len);
	w = p->data + tx->hdr_len;
	for (int i = 0; i < tx->niov; i++) {
		memcpy(w, tx->iov[i].iov_base, tx->iov[i].iov_len);
		w += tx->iov[i].iov_len;
	}
	memset(w, 0, tx->pad);
	w += tx->pad;
	c = icrc_begin(&p->flow, 0, len, p->data, len - ICRC_LEN);
	st_le32(w, icrc_end(c));
	return p;
}

static int node_of(const struct sim *s, const struct gid *gid)
{
	for (int i = 0; i < s->nnodes; i++)
		if (gid_equal(&s->nodes[i].gid, gid))
			return i;
	return -1;
}

static void wire_carry(struct sim *s, struct node *from, struct packet *p, uint64_t leaves_ns)
{
	const struct sim_wire *w = &s->wire;
	uint64_t at = leaves_ns + w->delay_ns + prng_below(&s->prng, w->jitter_ns + 1);
	int to = node_of(s, &p->flow.dgid);

	if (to < 0) {
		s->counters.unroutable++;
		free(p);
		return;
	}
	if (prng_chance(&s->prng, w->loss_ppm)) {
		s->counters.lost++;
		free(p);
		return;
	}
	if (prng_chance(&s->prng, w->corrupt_ppm)) {
		uint64_t flips = prng_range(&s->prng, 1, 4);

		s->counters.corrupted++;
		while (flips--) {
			uint64_t bit = prng_below(&s->prng, (uint64_t)p->len * 8);

			p->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		if (prng_chance(&s->prng, 100000))
			p->len = (uint32_t)prng_below(&s->prng, p->len);
	}
	if (prng_chance(&s->prng, w->reorder_ppm)) {
		s->counters.reordered++;
		at += prng_below(&s->prng, w->reorder_ns + 1);
	} else {
		at = max_of(at, from->last_arrival_ns);
		from->last_arrival_ns = at;
	}
	event_push(s, (struct event){.at_ns = at, .kind = EVENT_PACKET, .node = to, .pkt = p});
}

static void node_send(struct sim *s, struct node *n)
{
	size_t max = 1 + prng_below(&s->prng, SIM_BATCH);
	size_t sent = rnic_tx(n->rnic, s->batch, max, s->now_ns);

	for (size_t i = 0; i < sent; i++) {
		struct packet *p = packet_frame(&s->batch[i]);

		s->counters.sent++;
		n->line_free_ns = max_of(n->line_free_ns, s->now_ns) +
				  p->len * s->wire.ns_per_byte_x1000 / 1000;
		if (prng_chance(&s->prng, s->wire.duplicate_ppm)) {
			struct packet *copy = malloc(sizeof(*p) + p->len);

			if (!copy)
				abort();
			memcpy(copy, p, sizeof(*p) + p->len);
			s->counters.duplicated++;
			wire_carry(s, n, copy, n->line_free_ns);
		}
		wire_carry(s, n, p, n->line_free_ns);
	}
}

static void node_receive(struct sim *s, struct node *n, const struct packet *p)
{
	struct rnic_rx rx = {.flow = p->flow, .data = p->data, .len = p->len - ICRC_LEN};

	if (!icrc_check(&p->flow, 0, p->data, p->len)) {
		s->counters.icrc_dropped++;
		return;
	}
	s->counters.delivered++;
	rnic_rx(n->rnic, &rx, s->now_ns);
}

/* ---- turns ---------------------------------------------------------------------------------- */

static void node_schedule(struct sim *s, int i)
{
	struct node *n = &s->nodes[i];
	uint64_t deadline;

	if (n->gone)
		return;
	if (!n->tx_due && rnic_tx_pending(n->rnic)) {
		uint64_t at = s->now_ns + prng_below(&s->prng, s->wire.tx_lag_ns + 1);

		n->tx_due = true;
		event_push(s, (struct event){.at_ns = max_of(at, n->line_free_ns),
					     .kind = EVENT_TX,
					     .node = i});
	}
	deadline = rnic_next_deadline(n->rnic);
	if (deadline != DEADLINE_NEVER && (!n->tick_due || deadline < n->tick_at_ns)) {
		uint64_t at =
			max_of(deadline, s->now_ns) + prng_below(&s->prng, s->wire.tick_lag_ns + 1);

		if (n->tick_due && at >= n->tick_at_ns)
			return;
		n->tick_due = true;
		n->tick_at_ns = at;
		event_push(s, (struct event){.at_ns = at, .kind = EVENT_TICK, .node = i});
	}
}

bool sim_step(struct sim *s, uint64_t until)
{
	struct event e;
	struct node *n;

	if (s->nheap == 0 || s->heap[0].at_ns >= until) {
		s->now_ns = max_of(s->now_ns, until);
		return false;
	}
	e = event_pop(s);
	assert(e.at_ns >= s->now_ns);
	s->now_ns = e.at_ns;
	n = &s->nodes[e.node];
	switch (e.kind) {
	case EVENT_PACKET:
		if (!n->gone)
			node_receive(s, n, e.pkt);
		free(e.pkt);
		break;
	case EVENT_TX:
		n->tx_due = false;
		if (!n->gone)
			node_send(s, n);
		break;
	case EVENT_TICK:
		if (!n->tick_due || n->tick_at_ns != e.at_ns)
			return true; /* an earlier one took its place */
		n->tick_due = false;
		if (!n->gone)
			rnic_tick(n->rnic, s->now_ns);
		break;
	}
	node_schedule(s, e.node);
	return true;
}

void sim_kick(struct sim *s, int node)
{
	node_schedule(s, node);
}

void sim_vanish(struct sim *s, int node)
{
	s->nodes[node].gone = true;
}

/* ---- life ----------------------------------------------------------------------------------- */

int sim_create(struct sim **ret, uint64_t seed, const struct sim_wire *wire)
{
	struct sim *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->prng.state = seed;
	s->wire = *wire;
	s->now_ns = 1000000000;
	*ret = s;
	return 0;
}

void sim_destroy(struct sim *s)
{
	while (s->nheap) {
		struct event e = event_pop(s);

		if (e.kind == EVENT_PACKET)
			free(e.pkt);
	}
	free(s->heap);
	free(s);
}

int sim_add(struct sim *s, struct rnic *r, const struct gid *gid)
{
	if (s->nnodes == SIM_NODES_MAX)
		return -ENOSPC;
	s->nodes[s->nnodes] = (struct node){.rnic = r, .gid = *gid};
	return s->nnodes++;
}

struct prng *sim_prng(struct sim *s)
{
	return &s->prng;
}

uint64_t sim_now(const struct sim *s)
{
	return s->now_ns;
}

const struct sim_counters *sim_counters(const struct sim *s)
{
	return &s->counters;
}

void sim_set_wire(struct sim *s, const struct sim_wire *wire)
{
	s->wire = *wire;
}
