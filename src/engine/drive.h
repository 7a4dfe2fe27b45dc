/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The loop over a core, its timers and the ports that its packets come and go by. It knows no lock
 * and no clock: who drives it (a shard, or a node of the simulator) serialises, and says what time
 * it is.
 */
#ifndef WEFT_ENGINE_DRIVE_H
#define WEFT_ENGINE_DRIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "port/port.h"
#include "rnic/rnic.h"

#define DRIVE_PORTS_MAX 4
#define DRIVE_TX_BATCH	64 /* of most: a simulation has many, with less */

struct drive {
	struct rnic *rnic;
	struct port *port[DRIVE_PORTS_MAX]; /* a packet goes by the first that reaches its end */
	int broken[DRIVE_PORTS_MAX];	    /* of several: -errno where it has no part any more */
	size_t ports;
	struct port *pushing; /* the one that sends of its own; NULL: none */
	uint64_t now;	      /* of the receive batch under way */
	struct packet_tx *tx; /* room for a batch, the caller's */
	size_t tx_room;
};

/* One to DRIVE_PORTS_MAX ports; they, the core and the room stay the caller's. */
void drive_init(struct drive *, struct rnic *, struct port *const *ports, size_t n,
		struct packet_tx *tx, size_t tx_room);

/* Sends what the core has to send, at most so many packets. True if more is left. */
bool drive_send(struct drive *, size_t max, uint64_t now);
/* One receive batch of each port, and the timers that are due. Returns the number of packets, or
 * -errno where no port is left that is not broken. */
int drive_receive(struct drive *, uint64_t now) must_use;

/* Before somebody sleeps on the descriptors, and who then does: see port_sleeps(), port_rouse(). */
bool drive_sleeps(struct drive *);
bool drive_rouse(struct drive *);

/* Has something come of which the descriptors will not tell? Without the lock. */
static inline bool drive_stirs(const struct drive *d)
{
	for (size_t i = 0; i < d->ports; i++)
		if (port_stirs(d->port[i]))
			return true;
	return false;
}

/* What follows is asked often. */
static inline bool drive_send_pending(const struct drive *d)
{
	return rnic_tx_pending(d->rnic) || (d->pushing && d->pushing->ops->pushes(d->pushing));
}

static inline bool drive_send_can_wait(const struct drive *d, bool more)
{
	return rnic_tx_can_wait(d->rnic, more);
}

static inline bool drive_send_only_acks(const struct drive *d)
{
	return rnic_tx_only_acks(d->rnic);
}

/* That have come, without what is none: a port's own datagrams. */
static inline uint64_t drive_packets(const struct drive *d)
{
	return rnic_counters(d->rnic)->rx_packets;
}

/* By which something was sent, so far. */
static inline uint64_t drive_calls(const struct drive *d)
{
	uint64_t n = 0;

	for (size_t i = 0; i < d->ports; i++)
		n += d->port[i]->counters->tx_batches;
	return n;
}

static inline uint64_t drive_next_deadline(const struct drive *d)
{
	uint64_t due = rnic_next_deadline(d->rnic);

	return d->pushing ? min_of(due, d->pushing->ops->next_deadline(d->pushing)) : due;
}

#endif
