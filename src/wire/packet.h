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

/* The headers, into room for their length rounded up to sixteen. Returns where they end. Copies of
 * sixteen bytes are an instruction each, where one of any length is a call. */
static inline uint8_t *packet_tx_copy_hdr(uint8_t *to, const struct packet_tx *t)
{
	_Static_assert(PKT_HDR_MAX % 16 == 0, "what is read is within");
	for (size_t i = 0; i < t->hdr_len; i += 16)
		memcpy(to + i, t->hdr + i, 16);
	return to + t->hdr_len;
}

/* What follows them. */
static inline uint8_t *packet_tx_copy_rest(uint8_t *at, const struct packet_tx *t)
{
	for (size_t i = 0; i < t->niov; i++) {
		memcpy(at, t->iov[i].iov_base, t->iov[i].iov_len);
		at += t->iov[i].iov_len;
	}
	for (uint8_t i = 0; i < t->pad; i++)
		*at++ = 0;
	return at;
}

/* All of it in one piece. */
static inline uint8_t *packet_tx_copy(uint8_t *at, const struct packet_tx *t)
{
	memcpy(at, t->hdr, t->hdr_len);
	return packet_tx_copy_rest(at + t->hdr_len, t);
}

/* What a port made of a packet to send, for who wants to know. */
struct packet_sent {
	uint16_t sport; /* 0: it was not sent */
	uint16_t ip_id; /* of the IPv4 header, as the ICRC covers it */
	uint32_t icrc;
};

#endif
