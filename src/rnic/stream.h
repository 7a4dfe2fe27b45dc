/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Queue pairs of iWARP: instead of packets they have a byte stream each, which somebody else has
 * set up (MPA's request and reply, RFC 5044 section 7.1) and reads and writes. Otherwise they are
 * as those of rnic.h: type RNIC_QPT_IWARP, INIT until they have their stream, RTS with it.
 *
 * Locking and time as there.
 */
#ifndef WEFT_RNIC_STREAM_H
#define WEFT_RNIC_STREAM_H

#include <sys/uio.h>

#include "base/units.h"
#include "rnic/rnic.h"
#include "wire/mpa.h"

struct rnic_stream_init {
	bool crc;		      /* of each FPDU, both ways */
	bool markers_in, markers_out; /* as each side asked for them */
	bool immediate, atomics;      /* the peer knows RFC 7306's */
	enum mpa_rtr rtr;	      /* that the initiator sends */
	bool listens_first; /* a responder: nothing is sent before the peer has, or, where no RTR
			       is to come, STREAM_PATIENCE_NS have passed */
	uint16_t ird, ord;  /* READs and atomics at a time: the peer's, ours; RNIC_MAX_RD_ATOM */
	uint32_t emss;	    /* of TCP, bytes */
	void *owner;	    /* whoever reads and writes the stream: rnic_stream_owner() */
};

/*
 * RFC 5044 section 7.1.2 has a responder wait for the first FPDU without end, and RFC 6581 has the
 * RTR for those who wait for one another then. Linux's siw asks for none, as initiator, and
 * programs in which the responder speaks first run on it because it does not wait either. What
 * comes before siw has read the reply ends the connection: so much time it is given.
 */
#define STREAM_PATIENCE_NS (2 * NSEC_PER_SEC)

/* INIT -> RTS. -EINVAL: another state, or more at a time than there can be. */
int rnic_stream_begin(struct rnic_qp *, const struct rnic_stream_init *, uint64_t now) must_use;
/* TCP's segments have another size now. */
void rnic_stream_set_emss(struct rnic_qp *, uint32_t emss);

/* Bytes of the peer's, in order. What comes after something was wrong is not looked at. */
void rnic_stream_rx(struct rnic_qp *, const uint8_t *bytes, size_t len, uint64_t now);

/* What goes out in one call: whole FPDUs. One of any kind has place in these many pieces and bytes.
 */
#define FPDU_BATCH_IOVS 512
#define FPDU_BATCH_ROOM 1024
struct fpdu_batch {
	struct iovec *iov;
	size_t iovs, iovs_max;
	uint8_t *room;
	size_t used, room_max;
	size_t bytes; /* of all pieces */
	/* Where what a peer reads is copied to before its CRC is reckoned: a program may write to
	 * it meanwhile, as it may with any RNIC. Room for two times what is asked for; NULL: none
	 * may. */
	uint8_t *copies;
	size_t copied, copies_max;
};

/* The next whose turn it is to send; NULL: none has anything. It leaves the row, and stands at its
 * end again if rnic_stream_tx() leaves something. */
struct rnic_qp *rnic_stream_next(struct rnic *);
void *rnic_stream_owner(const struct rnic_qp *);
/* That is NULL from now on. */
void rnic_stream_disown(struct rnic_qp *);
/* It has its turn again, that it was not asked in. */
void rnic_stream_wake(struct rnic_qp *);
/* Has any of them something to send? */
bool rnic_stream_pending(const struct rnic *);
/* Adds FPDUs until there is no more, no room, or more than max bytes. They name memory of the
 * application's and count as sent: the caller sends or copies them before anything else is called.
 * True: there is more. */
bool rnic_stream_tx(struct rnic_qp *, struct fpdu_batch *, size_t max, uint64_t now);

/* What is to become of the stream. */
enum rnic_stream_fate {
	RNIC_STREAM_STAYS,
	RNIC_STREAM_DRAINS, /* until something is sent, or answered, and then it ends */
	RNIC_STREAM_ENDS, /* once all is sent, by FIN; what comes until the peer's is thrown away */
	RNIC_STREAM_BREAKS, /* at once, by RST */
};
enum rnic_stream_fate rnic_stream_fate(const struct rnic_qp *);

/* The peer has closed its side, or (broken) TCP's connection is lost. To ERR. */
void rnic_stream_closed(struct rnic_qp *, bool broken, uint64_t now);
/* What the peer's Terminate said (enum rdmap_term_cause), or ours; -1: there was none. */
int rnic_stream_terminated(const struct rnic_qp *);

#endif
