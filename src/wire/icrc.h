/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The invariant CRC of RoCEv2 (annex A17; Linux rxe_icrc.c says the same): Ethernet CRC-32 over
 * eight 0xff bytes, the IP and UDP headers with their variable fields taken as ones, the BTH with
 * byte 4 taken as ones, and everything up to the last pad byte. Stored little-endian, complemented.
 *
 * The IPv4 identification is covered, and a UDP socket neither sets nor shows it: every function
 * takes it as ip_id. IPv6 has no such field and ignores ip_id.
 *
 * InfiniBand's own, without a GRH, is over the LRH, with the lane taken as ones, and on from the
 * BTH.
 *
 * RoCEv1's is that of a packet with a GRH (volume 1, 7.8.1): the GRH in the place of IP and UDP,
 * with its traffic class, flow label and hop limit taken as ones. No LRH is there, and all of one
 * would be ones: the same eight bytes.
 */
#ifndef WEFT_WIRE_ICRC_H
#define WEFT_WIRE_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/flow.h"
#include "wire/lrh.h"

struct icrc {
	uint32_t state;
};

/* Begins a packet whose UDP payload is udp_len bytes (BTH to ICRC, ICRC included; of RoCEv1 the
 * GRH's) with the first len bytes of that, at least the 12 of the BTH. The addresses and the source
 * port are f's. */
struct icrc icrc_begin(const struct flow *f, uint16_t ip_id, size_t udp_len, const void *head,
		       size_t len);
/*
 * The same in two steps, for what precedes the BTH is the same in all packets of a flow that have
 * that length. ip_id: 0 where there is none, over IPv6.
 */
struct icrc icrc_headers(const struct flow *f, size_t udp_len);
struct icrc icrc_behind(struct icrc headers, uint16_t ip_id, const void *head, size_t len);

/* What icrc_headers() has said lately, of RoCEv2. All zeroes at first. */
struct icrc_memo {
	struct icrc_remembered {
		struct gid sgid, dgid;
		uint32_t udp_len; /* 0: nothing */
		uint16_t sport;
		struct icrc headers;
	} of[16];
};
struct icrc icrc_recall(struct icrc_memo *m, const struct flow *f, size_t udp_len);

/* A packet of InfiniBand within a subnet: its LRH, and the first len bytes behind that, at least
 * the 12 of the BTH. */
struct icrc icrc_begin_local(const uint8_t lrh[LRH_LEN], const void *head, size_t len);
struct icrc icrc_update(struct icrc c, const void *data, size_t len);
/* The four bytes as they go on the wire, to be stored with st_le32. */
uint32_t icrc_end(struct icrc c);

/* A whole UDP payload, ICRC at its end, received on flow f (f->sgid the sender): is it right with
 * this identification? False also for a payload too short to hold BTH and ICRC. */
bool icrc_check(const struct flow *f, uint16_t ip_id, const void *udp, size_t udp_len);
/* The same behind icrc_headers(). */
bool icrc_check_behind(struct icrc headers, uint16_t ip_id, const void *udp, size_t udp_len);

/*
 * For a receiver that does not see the IPv4 header: the one identification with which the ICRC
 * is right, by the linearity of the CRC. False when there is none: then the packet is corrupt.
 * A hit protects with 16 bits only; the caller judges whether the value is plausible.
 */
bool icrc_solve_ip_id(const struct flow *f, const void *udp, size_t udp_len,
		      uint16_t *ret_ip_id) must_use;

#endif
