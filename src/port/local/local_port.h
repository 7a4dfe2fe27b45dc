/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Between processes of one host: a filter before another port, which goes past that and the kernel
 * where both ends have agreed to. Packets go as they would to the wire, but for the ICRC, into the
 * ring of the peer's inbox (inbox.h), and from there to the core: nobody else touches them.
 *
 * A packet goes that way if its two addresses are the same, which makes them this host's, and the
 * slot of its destination has been met. All else is the port's behind.
 *
 * A peer that sleeps is woken by a datagram of the port behind, which is no packet
 * (PORT_DOORBELL_LEN), so that whoever sleeps does so on one descriptor.
 *
 * What finds no room waits if it is of a reliable service, which has a window, and is lost
 * otherwise. Where the peer has gone (its inbox says so, as the broker saw to), packets go by the
 * port behind again.
 */
#ifndef WEFT_PORT_LOCAL_LOCAL_PORT_H
#define WEFT_PORT_LOCAL_LOCAL_PORT_H

#include <stdint.h>

#include "base/compiler.h"
#include "port/port.h"

/* Puts itself before *io, which is its own then, unless it fails. The slot is that whose packets
 * *io receives. */
int local_port_before(struct port **io, uint8_t slot) must_use;

/* The rest is for ports of local_port_before() only. */

/* Its inbox, for others to send to: stays the port's. */
int local_port_inbox(const struct port *);
/* Changes when there is another inbox in this host: who has a slot may be another by then. */
uint32_t local_port_news(const struct port *);
/* From now on packets for the slot go to this inbox; or, if that fails, by the port behind. Takes
 * fd over, unless it fails. */
int local_port_meet(struct port *, uint8_t slot, int fd) must_use;
/* From now on they go by the port behind. */
void local_port_part(struct port *, uint8_t slot);

#endif
