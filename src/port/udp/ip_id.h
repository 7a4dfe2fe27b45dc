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
 * So for each pair of addresses the last good identification is kept, and a packet is accepted when
 * its own follows from it: small for a small sender, within IP_ID_WINDOW plus one per microsecond
 * of silence for a counting one: what goes to another process in that time, we do not see. Of a
 * sender not heard of for IP_ID_FORGET_NS the first packet is believed. A packet that breaks the
 * rule is dropped, but remembered: when the next one continues it, the sender has changed its ways
 * (or restarted) and is believed again, at the cost of one packet, which the transport repeats.
 *
 * What a damaged packet's chance to pass is (random damage: each identification that would be
 * believed excuses one of 2^32 differences; of senders that set a UDP checksum, as weft does, it
 * has to pass these 16 bits on top, checked by the kernel). tests/unit/test_ip_id.c counts them.
 *
 *   IPv6                                           2^-32  the check is exact
 *   IPv4, small sender (weft)                      2^-26  64 identifications
 *   IPv4, counting sender (rxe), under way         2^-23  513 identifications
 *   IPv4, counting sender after t us of silence    (513 + t) * 2^-32: 2^-16 from 65 ms on
 *   IPv4, first packet of a sender, and of one     2^-16
 *   that was silent for a minute
 *
 * A pair loses its place to another only when IP_ID_WAYS others of its set have been heard since;
 * its next packet is then a first one.
 */
#ifndef WEFT_PORT_UDP_IP_ID_H
#define WEFT_PORT_UDP_IP_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/time.h"
#include "wire/flow.h"

#define IP_ID_SET_BITS	6
#define IP_ID_WAYS	8
#define IP_ID_SMALL	64
#define IP_ID_WINDOW	256
#define IP_ID_NS	1000 /* no sender is faster than that for long */
#define IP_ID_FORGET_NS (60 * NSEC_PER_SEC)

/* Small numbers are either a weft's or the beginning of a counter's: the second tells. */
enum ip_id_habit { IP_ID_UNCLEAR, IP_ID_STAYS_SMALL, IP_ID_COUNTS };

struct ip_id_sender {
	uint64_t pair;	   /* IPv4 addresses: the sender's, ours */
	uint64_t heard_ns; /* 0: never */
	uint64_t stray_ns; /* when the last packet broke the rule, 0: it did not */
	uint16_t last;	   /* identification of the last good packet */
	uint16_t next;	   /* the guess for the first packet of the next datagram */
	uint16_t stray;
	uint8_t habit; /* enum ip_id_habit */
};

struct ip_id_table {
	struct ip_id_sender way[1 << IP_ID_SET_BITS][IP_ID_WAYS];
};

/*
 * Is the ICRC at the end of this UDP payload right? piece: the packet's place in a super-packet
 * of several pieces that was received in one, -1 for a datagram received alone.
 */
bool ip_id_check(struct ip_id_table *, const struct flow *, const void *udp, size_t len, int piece,
		 uint64_t now) must_use;

#endif
