/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The ICRC check of a receiver that does not see the IPv4 header.
 *
 * The ICRC covers the IPv4 identification, which no UDP socket shows. The CRC is linear, so of
 * any received packet one can say with which identification (if any) its ICRC is right. That alone
 * leaves 16 of the 32 bits of protection; the rest comes from knowing what the sender does:
 *
 *   - weft sends identification 0, and k in the k-th piece of a super-packet that a stack or an
 *     adapter cut: below IP_ID_SMALL;
 *   - Linux rxe counts up per pair of addresses, whichever of our processes the packets go to, and
 *     after an idle time jumps ahead by at most one per clock tick (1 ms or longer).
 *
 * So for each pair of addresses what it has done in the last IP_ID_FORGET_NS is kept: whether it
 * sent small identifications, over and over, and the last one that counted. A packet is looked at
 * when its own follows from either: when it is small; or when it is within IP_ID_WINDOW of the last
 * plus one per microsecond of silence: what goes to another process in that time, we do not see. Of
 * a sender of whom nothing is known, every packet is.
 *
 * Who can write another's address can make any packet's ICRC right, so that a right one says
 * nothing of the sender. Only what somebody above was waiting for does (ip_id_accept()): what a
 * queue pair took in its sequence, or the connection manager for a connection that it knows. What
 * anybody may send, datagrams and connection requests, teaches nothing.
 *
 * A packet that breaks the rule is dropped, but remembered: one that continues it afterwards is
 * looked at, for the sender may have changed its ways (or restarted). That costs one packet, which
 * the transport repeats. The first such since the last that was accepted is the one remembered, so
 * that whoever sends others keeps a restarted sender out for no longer than 65 ms.
 *
 * What a damaged packet's chance to pass is (random damage: each identification that would be
 * believed excuses one of 2^32 differences; of senders that set a UDP checksum, as weft does, it
 * has to pass these 16 bits on top, checked by the kernel). tests/unit/test_ip_id.c counts them.
 *
 *   IPv6                                           2^-32  the check is exact
 *   IPv4, small sender (weft)                      2^-26  64 identifications
 *   IPv4, counting sender (rxe), under way         2^-23  513 identifications
 *   IPv4, counting sender after t us of silence    (513 + t) * 2^-32: 2^-16 from 65 ms on
 *   IPv4, one that did both in the last minute     the two together
 *   IPv4, one of whom nothing was accepted in      2^-16
 *   the last minute: datagrams, requests to
 *   connect, the first packet
 *
 * A pair loses its place to another only when of IP_ID_WAYS others of its set packets have been
 * accepted since; its next packet is then a first one.
 */
#ifndef WEFT_PORT_UDP_IP_ID_H
#define WEFT_PORT_UDP_IP_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/time.h"
#include "wire/flow.h"
#include "wire/icrc.h"

#define IP_ID_SET_BITS	6
#define IP_ID_WAYS	8
#define IP_ID_SMALL	64
#define IP_ID_WINDOW	256
#define IP_ID_NS	NSEC_PER_USEC /* no sender is faster than that for long */
#define IP_ID_FORGET_NS (60 * NSEC_PER_SEC)

struct ip_id_sender {
	uint64_t pair;	   /* IPv4 addresses: the sender's, ours */
	uint64_t small_ns; /* when it last did as small senders do, 0: never */
	uint64_t count_ns; /* when it last counted, 0: never */
	uint64_t stray_ns; /* the first packet since then that broke the rule, 0: none did */
	uint16_t last;	   /* where it had counted to */
	uint16_t stray;
	bool unclear; /* it has counted among small numbers only: it may be a small sender */
	/* Of the last packet that was looked at; guesses for the next one, and no more. */
	uint16_t seen, next;
};

struct ip_id_table {
	struct ip_id_sender way[1 << IP_ID_SET_BITS][IP_ID_WAYS];
	struct ip_id_sender unknown; /* who has no place: knows nothing */
	uint32_t recent;	     /* the place that was found last, as a number */
	struct icrc_memo headers;
};

/* Who sent a packet, by what number. */
struct ip_id_found {
	struct ip_id_sender *sender; /* NULL: over IPv6 */
	uint64_t pair;
	uint16_t id;
};

/*
 * Is the ICRC at the end of this UDP payload right? piece: the packet's place in a super-packet
 * of several pieces that was received in one, -1 for a datagram received alone.
 */
bool ip_id_check(struct ip_id_table *, const struct flow *, const void *udp, size_t len, int piece,
		 uint64_t now, struct ip_id_found *ret) must_use;
/* The packet, the last that was checked, is one that nobody but its sender could have sent. */
void ip_id_accept(struct ip_id_table *, const struct ip_id_found *, uint64_t now);

#endif
