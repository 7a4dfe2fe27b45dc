/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A peer that packets go to: another's inbox (inbox.h), and the ring in it that is ours to fill.
 * Packets stand there as they would on the wire, but for the ICRC.
 *
 * What finds no room waits here, as it would in a socket's buffer; of that there is a limit.
 * Nothing that the peer does to the memory makes more of it than its own loss.
 */
#ifndef WEFT_PORT_LOCAL_PEER_H
#define WEFT_PORT_LOCAL_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/packet.h"

/* Bytes that wait for one peer. Reliable services keep less than that on the way; to others a
 * receiver is to be no slower than by a socket, whose buffer takes as much. */
#define PEER_WAITS_MAX ((size_t)16 << 20)

struct peer;

/* Whose inbox the descriptor, still the caller's, is; own: the slot that sends. -ECONNREFUSED: it
 * takes nothing of that. */
int peer_meet(struct peer **ret, int fd, uint8_t own) must_use;
/* Is that its inbox? */
bool peer_is(const struct peer *, int fd);
void peer_part(struct peer *);
/* In a forked child, where its memory is not. */
void peer_forked(struct peer *);

/* Has it gone, or does it take no more? What was sent there is lost. */
bool peer_is_gone(const struct peer *);
/* Puts a packet down for it; false: lost for want of room. peer_publish() shows it. */
bool peer_send(struct peer *, const struct packet_tx *) must_use;
/* Is there something that has found no room? */
bool peer_waits(const struct peer *);
/* Shows the peer what is new, what has waited included where there is room by now. True: it sleeps,
 * and is to be woken. */
bool peer_publish(struct peer *, uint64_t now) must_use;
/* There is something to look at, be it only room. The same. */
bool peer_ring(struct peer *) must_use;
/* After either: it has been woken, and others need not. */
void peer_woken(struct peer *);

#endif
