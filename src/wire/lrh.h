/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * InfiniBand's link layer: the local route header that is before the BTH of a packet within a
 * subnet (IBA volume 1, 7.7), the variant CRC behind its ICRC (7.8.2), and the link packets by
 * which a receiver says how much it has room for (7.9).
 */
#ifndef WEFT_WIRE_LRH_H
#define WEFT_WIRE_LRH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define LRH_LEN		8
#define VCRC_LEN	2
#define LANE_MANAGEMENT 15

enum lrh_next { LRH_NEXT_RAW, LRH_NEXT_RAW_IPV6, LRH_NEXT_BTH, LRH_NEXT_GRH };

struct lrh {
	uint8_t lane;	 /* 4 bits */
	uint8_t version; /* 4 bits: 0 */
	uint8_t sl;	 /* 4 bits */
	enum lrh_next next;
	uint16_t dlid, slid;
	uint16_t words; /* of four bytes, from the LRH to the ICRC; 11 bits */
};

void lrh_put(uint8_t at[LRH_LEN], const struct lrh *);
void lrh_take(const uint8_t at[LRH_LEN], struct lrh *ret);

/* Over all from the LRH to the ICRC, or over the first four bytes of a link packet; little-endian
 * on the wire, as the ICRC. */
uint16_t lrh_vcrc(const void *p, size_t len);

/*
 * A link packet: of a lane, how much its sender has sent, ever, and up to what total it may be
 * sent. Both count blocks of 64 bytes and go round after 4095.
 */
#define CREDIT_LEN	  6
#define CREDIT_BLOCK	  64
#define CREDIT_MASK	  0xfffu
#define CREDIT_BLOCKS_MAX 2048

struct credit {
	bool init; /* the link is being set up: the receiver begins to count here */
	uint8_t lane;
	uint16_t sent;	/* FCTBS */
	uint16_t limit; /* FCCL */
};

void credit_put(uint8_t at[CREDIT_LEN], const struct credit *);
/* False: no flow control packet, or a damaged one. */
bool credit_take(const uint8_t at[CREDIT_LEN], struct credit *ret) must_use;

#endif
