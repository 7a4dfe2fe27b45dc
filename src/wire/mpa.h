/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * MPA, which makes packets of a TCP stream: the request and the reply that start a connection
 * (RFC 5044 section 7.1; revision 2: RFC 6581), then FPDUs. An FPDU is a length, that much of DDP
 * (the ULPDU), zeros up to a multiple of four, and a CRC32C of all before. Where markers are agreed
 * on, one stands at each 512th byte of the stream from the first FPDU on, wherever that falls.
 */
#ifndef WEFT_WIRE_MPA_H
#define WEFT_WIRE_MPA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* --- request and reply ------------------------------------------------------------------------ */

#define MPA_START_LEN	 20
#define MPA_ENHANCED_LEN 4   /* begins the private data of revision 2 where MPA_ENHANCED says so */
#define MPA_PRIVATE_MAX	 512 /* with those four */
#define MPA_REVISION	 2   /* the latest */

/* Flags. */
#define MPA_MARKERS  0x80u /* the sender of this wants markers in what it receives */
#define MPA_CRC	     0x40u /* one who asks for it gets it both ways */
#define MPA_REJECT   0x20u /* of a reply */
#define MPA_ENHANCED 0x10u

struct mpa_start {
	bool reply;
	uint8_t flags;
	uint8_t rev;
	uint16_t private_len; /* of what follows; more than MPA_PRIVATE_MAX is an error of the
				 peer's */
};

/* -EBADMSG: what begins so is neither a request nor a reply. */
int mpa_start_get(struct mpa_start *ret, const uint8_t from[MPA_START_LEN]) must_use;
void mpa_start_put(uint8_t to[MPA_START_LEN], const struct mpa_start *s);

/*
 * Whether the first bytes of a stream can still become a request (or a reply): of n bytes, so that
 * who sends something else is known by its first ones.
 */
bool mpa_start_may_be(const uint8_t *from, size_t n, bool reply);

/* RFC 6581 section 6. p2p: the responder may send first, once a message of the initiator's says
 * that it is ready to receive (RTR). Of the three kinds a request names what it can do, a reply
 * what it wants. */
struct mpa_enhanced {
	bool p2p, rtr_send, rtr_write, rtr_read;
	uint16_t ird, ord; /* up to MPA_DEPTH_ANY */
};

/* The first that an initiator sends, so that the responder may (RFC 6581 section 9): each of no
 * bytes. */
enum mpa_rtr {
	MPA_RTR_NONE,
	MPA_RTR_WRITE,
	MPA_RTR_READ, /* has an answer, which is nobody's; one of ord while it is not there */
	MPA_RTR_SEND, /* takes a receive of the peer's */
};

#define MPA_DEPTH_ANY 0x3fffu /* not negotiated */

void mpa_enhanced_get(struct mpa_enhanced *ret, const uint8_t from[MPA_ENHANCED_LEN]);
void mpa_enhanced_put(uint8_t to[MPA_ENHANCED_LEN], const struct mpa_enhanced *e);

/* --- FPDUs ------------------------------------------------------------------------------------ */

#define MPA_LENGTH_LEN	   2
#define MPA_CRC_LEN	   4 /* in each FPDU; zero where none is agreed on */
#define MPA_MARKER_LEN	   4
#define MPA_MARKER_SPACING 512
#define MPA_MULPDU_MIN	   128 /* RFC 5044 section 3 */
#define MPA_MULPDU_MAX	   64768
#define MPA_PAD_MAX	   3

/* The zeros behind a ULPDU. */
static inline size_t mpa_pad(size_t ulpdu)
{
	return -(MPA_LENGTH_LEN + ulpdu) & 3;
}

/* All of an FPDU but markers. */
static inline size_t mpa_fpdu_len(size_t ulpdu)
{
	return MPA_LENGTH_LEN + ulpdu + mpa_pad(ulpdu) + MPA_CRC_LEN;
}

/* The most of DDP that one FPDU carries if it is to go in a TCP segment of emss bytes (RFC 5044
 * section 4.5), within the limits. */
size_t mpa_mulpdu(size_t emss, bool markers);

/* How far it is from a place in the stream, counted from the first FPDU, to the next marker; 0: one
 * stands there. */
static inline size_t mpa_to_marker(uint64_t at)
{
	return -at & (MPA_MARKER_SPACING - 1);
}

/* A marker's FPDUPTR: how far back the length of the FPDU is in which it stands; 0 where that
 * follows. */
uint16_t mpa_marker_get(const uint8_t from[MPA_MARKER_LEN]);
void mpa_marker_put(uint8_t to[MPA_MARKER_LEN], uint16_t back);

#endif
