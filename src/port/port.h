/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A port: where packets go out and come in. Who makes and reads them (a shard, the broker) knows
 * this table and not what is behind it: sockets, a simulated wire, or a filter, which is a port
 * that stands before another and lets its packets pass. What only one kind of port can do is in
 * that kind's header.
 *
 * Single-threaded: the caller serialises. No call blocks.
 */
#ifndef WEFT_PORT_PORT_H
#define WEFT_PORT_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/packet.h"

/* A datagram of this length is no packet: it wakes who sleeps on the descriptor. */
#define PORT_DOORBELL_LEN 17 /* packets are multiples of four bytes */

struct port;

struct port_counters { /* one line each in port/counters.def, which also documents them */
#define X(name, unit, text) uint64_t name;
#include "port/counters.def"
#undef X
};

/* Takes a packet. Returns whether it was one that nobody but its sender could have sent. */
typedef bool port_take(void *ctx, const struct packet_rx *);

struct port_ops {
	int (*rx)(struct port *, uint64_t now, port_take *, void *ctx);
	size_t (*tx)(struct port *, const struct packet_tx *pkts, size_t n,
		     struct packet_sent *ret_sent);
	void (*at)(struct port *, uint64_t now);		   /* NULL: it need not know */
	bool (*reaches)(const struct port *, const struct flow *); /* NULL: whatever it is */
	bool (*sleeps)(struct port *); /* NULL: its descriptor tells of all that comes */
	bool (*rouse)(struct port *);  /* NULL: along with sleeps only, as is the next */
	bool (*stirs)(const struct port *);
	void (*want_headers)(struct port *); /* NULL: flows are whole anyway */
	/* A port that sends of its own, streams for one. NULL: all three. */
	bool (*push)(struct port *, uint64_t now); /* as much as there is, or true: more is left */
	bool (*pushes)(const struct port *);	   /* is there anything? */
	uint64_t (*next_deadline)(
		const struct port *); /* when rx is next to be called in any case */
	void (*forked)(struct port *);
	void (*destroy)(struct port *);
};

/* What every port begins with. A filter has these of the port behind it. */
struct port {
	const struct port_ops *ops;
	int fd;		/* readable when packets wait; -1: there is none, or no longer */
	size_t rx_room; /* bytes that may be on the way to it, as far as it knows; 0: it does not */
	struct port_counters *counters; /* seen from outside: base/sight.h */
};

/* Receives one batch and calls take for every good packet. Returns the number of packets taken, bad
 * ones included, 0 when nothing waits, or -errno for a port that is broken. now: monotonic. */
static inline int port_rx(struct port *p, uint64_t now, port_take *take, void *ctx)
{
	return p->ops->rx(p, now, take, ctx);
}

/* Before port_tx(), by who knows it: what time it is. */
static inline void port_at(struct port *p, uint64_t now)
{
	if (p->ops->at)
		p->ops->at(p, now);
}

/* Sends n packets; flow->sport is a wish. What finds no room counts as lost on the wire: the
 * transport recovers. Returns the number that were sent; ret_sent, if not NULL, has room for n. */
static inline size_t port_tx(struct port *p, const struct packet_tx *pkts, size_t n,
			     struct packet_sent *ret_sent)
{
	return p->ops->tx(p, pkts, n, ret_sent);
}

/* Of several ports, who sends a packet is the first that can. */
static inline bool port_reaches(const struct port *p, const struct flow *f)
{
	return !p->ops->reaches || p->ops->reaches(p, f);
}

/* Somebody is going to sleep on the descriptor. False: something has come of which that will not
 * tell. Holds until the next port_rx(). */
static inline bool port_sleeps(struct port *p)
{
	return !p->ops->sleeps || p->ops->sleeps(p);
}

/* Has something come of which the descriptor will not tell? Of any thread's call. */
static inline bool port_stirs(const struct port *p)
{
	return p->ops->stirs && p->ops->stirs(p);
}

/* Who sleeps on the descriptor is woken, by the descriptor. False: that cannot be. */
static inline bool port_rouse(struct port *p)
{
	return !p->ops->rouse || p->ops->rouse(p);
}

/* From now on what is received says its TTL or hop limit, and the IPv6 flow label, in its flow: the
 * network header before a datagram has them, and connections need not pay for it. What a port
 * cannot say stays 0. */
static inline void port_want_headers(struct port *p)
{
	if (p->ops->want_headers)
		p->ops->want_headers(p);
}

/* In a forked child: closes its copies of the descriptors. The port then sends and receives
 * nothing, and is to be destroyed only. */
static inline void port_forked(struct port *p)
{
	p->ops->forked(p);
}

static inline void port_destroy(struct port *p)
{
	p->ops->destroy(p);
}

#endif
