/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define BUCKETS 1024

struct link_end {
	struct link *link;
	struct link_end *next; /* of its bucket */
	struct gid gid;
	uint8_t slot; /* of several that share the address; 0: it has its own */
	void (*arrive)(void *ctx, struct sim_packet *);
	void *arrive_ctx;
	uint64_t free_ns;	  /* when the last packet has left */
	uint64_t last_arrival_ns; /* of an ordered packet, at its receiver */
	uint64_t queue_free_ns;	  /* when all that is in the queue before it has come */
	uint64_t queue_peak;	  /* bytes */
};

struct link {
	struct fabric *fabric;
	struct link_nature nature;
	struct link_counters counters;
	struct link_end *ends[BUCKETS]; /* by address */
};

static struct link_end **bucket_of(struct link *l, const struct gid *gid)
{
	uint64_t h = 0;

	for (size_t i = 0; i < sizeof(gid->raw); i++)
		h = (h ^ gid->raw[i]) * 0x100000001b3u;
	return &l->ends[(h ^ h >> 32) % BUCKETS];
}

static struct link_end *end_of(struct link *l, const struct sim_packet *k)
{
	struct link_end *e = *bucket_of(l, &k->flow.dgid);

	while (e && (!gid_equal(&e->gid, &k->flow.dgid) ||
		     (e->slot && (k->len < BTH_LEN || k->data[5] != e->slot))))
		e = e->next;
	return e;
}

static void arrives(void *ctx, void *what)
{
	struct link_end *e = ctx;

	e->arrive(e->arrive_ctx, what);
}

static void corrupt(struct prng *r, struct sim_packet *k)
{
	uint64_t flips = prng_range(r, 1, 4);

	while (flips--) {
		uint64_t bit = prng_below(r, (uint64_t)k->len * 8);

		k->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	if (prng_chance(r, 100000))
		k->len = (uint32_t)prng_below(r, k->len);
}

static void mark(struct link *l, struct sim_packet *k, uint32_t ppm)
{
	uint8_t ecn = k->flow.tos & FLOW_ECN_MASK;

	if (!ecn || !prng_chance(fabric_prng(l->fabric), ppm))
		return;
	k->flow.tos |= FLOW_ECN_CE;
	l->counters.marked++;
}

/* Packets are taken into a queue when they are sent, so that they should all be as long on their
 * way to it. One that comes then: when it has come through, or 0 if there is no room for it. */
static uint64_t queued_until(struct link_end *to, struct sim_packet *k, uint64_t at)
{
	const struct link_queue *q = &to->link->nature.queue;
	uint64_t waiting = 0;

	if (!q->ns_per_byte_x1000)
		return at;
	if (to->queue_free_ns > at)
		waiting = (to->queue_free_ns - at) * 1000 / q->ns_per_byte_x1000;
	if (waiting + k->len > q->bytes_max)
		return 0;
	if (waiting > q->mark_all)
		mark(to->link, k, 1000000);
	else if (waiting > q->mark_from)
		mark(to->link, k,
		     (uint32_t)((waiting - q->mark_from) * q->mark_ppm /
				(q->mark_all - q->mark_from)));
	to->queue_peak = max_of(to->queue_peak, waiting + k->len);
	to->queue_free_ns = max_of(to->queue_free_ns, at) + k->len * q->ns_per_byte_x1000 / 1000;
	return to->queue_free_ns;
}

static void carry_one(struct link_end *from, struct sim_packet *k)
{
	struct link *l = from->link;
	const struct link_nature *n = &l->nature;
	struct prng *r = fabric_prng(l->fabric);
	uint64_t at = from->free_ns + n->delay_ns + prng_below(r, n->jitter_ns + 1);
	struct link_end *to = end_of(l, k);

	if (!to) {
		l->counters.unroutable++;
		free(k);
		return;
	}
	if (prng_chance(r, n->loss_ppm)) {
		l->counters.lost++;
		free(k);
		return;
	}
	if (prng_chance(r, n->corrupt_ppm)) {
		l->counters.corrupted++;
		corrupt(r, k);
	}
	mark(l, k, n->mark_ppm);
	if (prng_chance(r, n->reorder_ppm)) {
		l->counters.reordered++;
		at += prng_below(r, n->reorder_ns + 1);
	} else {
		at = max_of(at, from->last_arrival_ns);
		from->last_arrival_ns = at;
	}
	at = queued_until(to, k, at);
	if (!at) {
		l->counters.overflowed++;
		free(k);
		return;
	}
	fabric_at(l->fabric, at, arrives, to, k, free);
}

void link_carry(struct link_end *from, struct sim_packet *k)
{
	struct link *l = from->link;

	l->counters.sent++;
	from->free_ns = max_of(from->free_ns, fabric_now(l->fabric)) +
			k->len * l->nature.ns_per_byte_x1000 / 1000;
	if (prng_chance(fabric_prng(l->fabric), l->nature.duplicate_ppm)) {
		struct sim_packet *copy = malloc(sizeof(*k) + k->len);

		if (!copy)
			abort();
		memcpy(copy, k, sizeof(*k) + k->len);
		l->counters.duplicated++;
		carry_one(from, copy);
	}
	carry_one(from, k);
}

void link_share(struct link_end *e, uint8_t slot)
{
	e->slot = slot;
}

uint64_t link_queue_peak(struct link_end *e)
{
	uint64_t peak = e->queue_peak;

	e->queue_peak = 0;
	return peak;
}

uint64_t link_free_ns(const struct link_end *e)
{
	return e->free_ns;
}

int link_attach(struct link *l, const struct gid *gid,
		void (*arrive)(void *ctx, struct sim_packet *), void *ctx, struct link_end **ret)
{
	struct link_end *e = calloc(1, sizeof(*e)), **bucket = bucket_of(l, gid);

	if (!e)
		return -ENOMEM;
	*e = (struct link_end){
		.link = l, .next = *bucket, .gid = *gid, .arrive = arrive, .arrive_ctx = ctx};
	*bucket = *ret = e;
	return 0;
}

int link_create(struct link **ret, struct fabric *f, const struct link_nature *nature)
{
	struct link *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->fabric = f;
	l->nature = *nature;
	*ret = l;
	return 0;
}

void link_destroy(struct link *l)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct link_end *e = l->ends[i], *next; e; e = next) {
			next = e->next;
			free(e);
		}
	free(l);
}

const struct link_counters *link_counters(const struct link *l)
{
	return &l->counters;
}
