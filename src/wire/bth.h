/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The base transport header and the extended headers: host-order structs, and one reader and
 * one writer for a whole packet's headers, driven by the opcode table.
 * Formats: IBA volume 1 chapter 9 (BTH 9.2, ETHs 9.3); not quoted here.
 */
#ifndef WEFT_WIRE_BTH_H
#define WEFT_WIRE_BTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/opcode.h"

#define BTH_LEN	      12
#define RETH_LEN      16
#define AETH_LEN      4
#define ATOMICETH_LEN 28
#define ATOMICACK_LEN 8
#define IMMDT_LEN     4
#define IETH_LEN      4
#define DETH_LEN      8
#define XRCETH_LEN    4
#define ICRC_LEN      4
#define PKT_HDR_MAX   48 /* the longest header: BTH + XRCETH + ATOMICETH = 44, and slack */

#define PKEY_DEFAULT  0xffff
#define PSN_MASK      0xffffffu
#define QPN_MASK      0xffffffu
#define MULTICAST_QPN 0xffffffu

struct bth {
	uint8_t opcode;
	bool se; /* solicited event */
	bool migreq;
	uint8_t pad; /* 0-3 bytes of padding after the payload */
	uint8_t tver;
	uint16_t pkey;
	bool fecn, becn;
	uint32_t dqpn;
	bool ackreq;
	uint32_t psn;
	uint16_t tag; /* the 13 reserved bits: zeros, but between wefts that agreed on more */
};

#define BTH_TAG_BITS 13

enum aeth_kind { /* bits 6:5 of the syndrome */
		 AETH_ACK = 0x00,
		 AETH_RNR_NAK = 0x20,
		 AETH_NAK = 0x60,
};

enum aeth_nak { /* low bits of a NAK */
		NAK_PSN_SEQ = 0,
		NAK_INVALID_REQ = 1,
		NAK_REMOTE_ACCESS = 2,
		NAK_REMOTE_OP = 3,
		NAK_INVALID_RD = 4,
};

#define AETH_CREDITS_INVALID 0x1f

/* All headers of a packet. Which are meaningful is opcode_table[bth.opcode].flags. */
struct pkt_hdr {
	struct bth bth;
	struct {
		uint64_t va;
		uint32_t rkey;
		uint32_t dma_len;
	} reth;
	struct {
		uint8_t syndrome;
		uint32_t msn; /* 24 bits */
	} aeth;
	struct {
		uint64_t va;
		uint32_t rkey;
		uint64_t swap_add;
		uint64_t compare;
	} atomic;
	uint64_t atomic_ack; /* original remote data */
	uint8_t immdt[4];    /* as on the wire: applications byte-swap it themselves */
	uint32_t ieth_rkey;
	struct {
		uint32_t qkey;
		uint32_t sqpn;
	} deth;
	uint32_t xrc_srqn; /* XRCETH: the shared receive queue that a request is for */
};

/*
 * Reads the headers of a packet of len bytes (BTH to the last payload or pad byte; the ICRC is
 * cut off by the caller). Returns the header length, or -EBADMSG for an unknown opcode, a wrong
 * transport version, or bytes too few for the headers and the pad count.
 */
int pkt_hdr_decode(struct pkt_hdr *h, const void *buf, size_t len) must_use;
/* Writes the headers; returns their length (at most PKT_HDR_MAX). buf holds PKT_HDR_MAX bytes. */
size_t pkt_hdr_encode(const struct pkt_hdr *h, void *buf);

/* IPv6, UDP, BTH, XRCETH, RETH, immediate, ICRC: the most that stands around a full payload. */
#define FULL_PACKET_HEADERS (40 + 8 + 12 + 4 + 16 + 4 + 4)

/* The largest path MTU (as the standard codes it, 1 for 256 to 5 for 4096 bytes) whose packets an
 * interface carries that takes IP packets of so many bytes. */
static inline uint8_t path_mtu_of(uint32_t interface_mtu)
{
	uint8_t mtu = 1;

	while (mtu < 5 && (256u << mtu) + FULL_PACKET_HEADERS <= interface_mtu)
		mtu++;
	return mtu;
}

/* PSN arithmetic modulo 2^24: a - b as a signed distance. */
static inline int32_t psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

static inline uint32_t psn_add(uint32_t a, uint32_t n)
{
	return (a + n) & PSN_MASK;
}

/* Nanoseconds of an RNR timer code (5 bits). */
uint64_t rnr_timer_ns(uint8_t code);

#endif
