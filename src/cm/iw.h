/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How a connection of iWARP is agreed on: MPA's request and reply over a TCP connection that stands
 * (RFC 5044 section 7.1, RFC 6581). Bytes in, bytes out; the caller has the socket and the clock.
 *
 *   initiator   iw_connect() gives what is to be sent; iw_rx() says IW_ACCEPTED or IW_REJECTED
 *   responder   iw_rx() says IW_REQUEST; iw_accept() or iw_reject() give what is to be sent
 *
 * What comes behind the peer's last word is the stream's: iw_rx() does not take it.
 */
#ifndef WEFT_CM_IW_H
#define WEFT_CM_IW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/mpa.h"

#define IW_OUT_MAX     (MPA_START_LEN + MPA_PRIVATE_MAX)
#define IW_PRIVATE_MAX (MPA_PRIVATE_MAX - MPA_ENHANCED_LEN) /* of the applications' */

/* What one side wants. */
struct iw_params {
	uint8_t rev;  /* of a request: 1 or 2; a reply has the request's */
	bool crc;     /* to be had by either is to be used by both */
	bool markers; /* wanted in what this side receives */
	bool p2p;     /* of a request: the responder may send first, after an RTR */
	uint16_t ird, ord;
	const void *private_data;
	size_t private_len; /* at most IW_PRIVATE_MAX */
};

/* What came of it. */
struct iw_agreed {
	bool crc, markers_in, markers_out;
	uint16_t ird, ord; /* ours */
	enum mpa_rtr rtr;  /* that the initiator sends */
};

enum iw_event {
	IW_MORE,     /* is needed */
	IW_REQUEST,  /* the peer's; what it asks for is beside */
	IW_ACCEPTED, /* see agreed */
	IW_REJECTED, /* by the peer, with its private data */
	IW_OLD,	     /* by a peer that knows no revision 2: to be tried again with 1, on another
			connection */
	IW_REFUSED, /* here: what the peer answers does not go with what was asked; a Terminate says
		       why */
	IW_BROKEN,  /* this is no MPA */
};

struct iw_conn {
	bool initiator;
	struct iw_params own; /* of an initiator; without its private data */
	uint8_t in[MPA_START_LEN + MPA_PRIVATE_MAX];
	size_t have;
	struct mpa_start start; /* the peer's */
	struct mpa_enhanced enhanced;
	/* Of IW_REQUEST, IW_ACCEPTED and IW_REJECTED; private_data is within in. */
	uint16_t peer_ird, peer_ord; /* MPA_DEPTH_ANY: it has not said */
	const uint8_t *private_data;
	size_t private_len;
	struct iw_agreed agreed; /* after IW_ACCEPTED or iw_accept() */
	uint16_t term;		 /* of IW_REFUSED: enum rdmap_term_cause */
};

/* Returns the length of what is to be sent first. -EINVAL: too much private data, another revision.
 */
int iw_connect(struct iw_conn *, const struct iw_params *, uint8_t out[IW_OUT_MAX]) must_use;
void iw_listen(struct iw_conn *);
/* Takes of the bytes what belongs to it, and says how many. */
enum iw_event iw_rx(struct iw_conn *, const uint8_t *bytes, size_t len, size_t *ret_used);
/*
 * After IW_REQUEST; each returns the length of what is to be sent. -EINVAL as iw_connect(). Of ord
 * no more is accepted than the peer takes; of ird what p says (RFC 6581 section 9.1 wants no less
 * than the peer's ord, and the peer sends no more than it is told).
 */
int iw_accept(struct iw_conn *, const struct iw_params *, uint8_t out[IW_OUT_MAX]) must_use;
/* After IW_REFUSED: the Terminate that is to be sent before the connection is closed; returns its
 * length. */
size_t iw_terminate(const struct iw_conn *, uint8_t out[IW_OUT_MAX]);
int iw_reject(struct iw_conn *, const void *private_data, size_t len,
	      uint8_t out[IW_OUT_MAX]) must_use;

#endif
