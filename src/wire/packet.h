/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a port carries: packets, between whoever makes and reads them (a core, the broker) and a
 * network. Of a network that has an ICRC the port computes and checks it: only the port knows all
 * that it covers.
 */
#ifndef WEFT_WIRE_PACKET_H
#define WEFT_WIRE_PACKET_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "wire/bth.h"
#include "wire/flow.h"

#define PACKET_IOV_MAX 32 /* pieces of a payload */

/* One received packet: ICRC checked and cut off. flow.sgid is the sender, flow.dgid ourselves;
 * ECN is in flow.tos. The bytes are borrowed for the call. */
struct packet_rx {
	struct flow flow;
	const uint8_t *data;
	size_t len;
	uint16_t ip_id; /* of the IPv4 header that its ICRC was checked with */
	uint32_t icrc;
};

/* One packet to send: headers, then the payload in place (application memory), then pad bytes; the
 * ICRC is added. flow.sgid is ourselves. */
struct packet_tx {
	const struct flow *flow;
	uint8_t hdr[PKT_HDR_MAX];
	uint8_t hdr_len;
	uint8_t pad; /* zero bytes to append, 0-3 */
	uint8_t niov;
	uint32_t payload_len;
	struct iovec iov[PACKET_IOV_MAX];
};

/* Bytes, without the ICRC. */
static inline size_t packet_tx_len(const struct packet_tx *t)
{
	return (size_t)t->hdr_len + t->payload_len + t->pad;
}

/* All of these in one piece. Returns where it ends. */
static inline uint8_t *packet_tx_copy(uint8_t *at, const struct packet_tx *t)
{
	memcpy(at, t->hdr, t->hdr_len);
	at += t->hdr_len;
	for (size_t i = 0; i < t->niov; i++) {
		memcpy(at, t->iov[i].iov_base, t->iov[i].iov_len);
		at += t->iov[i].iov_len;
	}
	memset(at, 0, t->pad);
	return at + t->pad;
}

/* What a port made of a packet to send, for who wants to know. */
struct packet_sent {
	uint16_t sport; /* 0: it was not sent */
	uint16_t ip_id; /* of the IPv4 header, as the ICRC covers it */
	uint32_t icrc;
};

#endif
