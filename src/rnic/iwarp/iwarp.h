/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A queue pair of iWARP inside: what it has beside struct rnic_qp.
 *
 *   iwarp.c      the row of operations, and the stream's begin and end
 *   request.c    work requests into FPDUs
 *   answer.c     READs and atomics of the peer's, in their order, into FPDUs
 *   receive.c    segments of the peer's to their place
 *   message.c    those of one segment
 *   terminate.c  the last message, of ours and of the peer's
 *
 * Nothing is acknowledged: who has handed a SEND or a WRITE to TCP has done it (RFC 5040
 * section 5.5). A READ or an atomic is done when it is answered, and answers come in the order of
 * the questions, so that the oldest of these is always the one at the send queue's una.
 */
#ifndef WEFT_RNIC_IWARP_IWARP_H
#define WEFT_RNIC_IWARP_IWARP_H

#include "rnic/core.h"
#include "rnic/iwarp/fpdu_in.h"
#include "rnic/iwarp/fpdu_out.h"
#include "rnic/stream.h"
#include "wire/rdmap.h"

/* A READ or an atomic that is to be answered. */
struct question {
	bool atomic;
	uint32_t done; /* of a READ: bytes */
	union {
		struct rdmap_read_request read;
		struct rdmap_atomic_request request;
	};
};

/* The message of a queue that is coming in. */
struct arriving {
	uint32_t msn; /* from 1 */
	uint32_t mo;  /* bytes that have come */
	uint8_t opcode;
};

struct iwarp_qp {
	struct rnic_qp qp;
	struct rnic_stream_init stream;
	bool begun; /* it has its stream */
	uint32_t mulpdu;

	/* To the peer. */
	struct fpdu_out out;
	uint32_t msn[DDP_QUEUES]; /* of the next message */
	uint32_t off;		  /* what has gone of the work request at sq.cur */
	bool written;		  /* of a WRITE with immediate data: all but these */
	uint32_t waiting;	  /* READs and atomics without an answer */
	enum mpa_rtr rtr;	  /* that is to be sent */
	bool rtr_asks;		  /* it was a READ, and is not answered */
	unsigned int nudges;	  /* since nothing has been heard */
	bool answers_turn;
	uint64_t sent_poll; /* rnic.polls, when something was sent last */

	/* From the peer. */
	bool heard;    /* anything */
	bool spoke_up; /* a responder that has waited long enough for it */
	struct fpdu_in in;
	struct arriving arriving[DDP_QUEUES];
	uint32_t answered; /* bytes, of the READ at sq.una */
	struct question question[RNIC_MAX_RD_ATOM];
	uint32_t asked, told; /* questions that came, and those of them that are answered */

	bool owes_terminate, terminated, hushed;
	struct rdmap_terminate terminate;
};

static inline struct iwarp_qp *iwarp_of(const struct rnic_qp *qp)
{
	return (struct iwarp_qp *)(uintptr_t)qp;
}

/* A segment in, with its header read. */
struct segment {
	struct ddp_hdr h;
	const uint8_t *payload;
	uint32_t len; /* of the payload */
	size_t whole; /* bytes, with its headers */
};

enum iwarp_put { PUT_NOTHING, PUT_ONE, PUT_NO_ROOM };

/* message.c: a message of len bytes at body, which with their header are no more than
 * FPDU_HEADERS_MAX. */
enum iwarp_put iwarp_put_message(struct rnic_qp *, struct fpdu_batch *, uint8_t opcode, uint32_t qn,
				 const uint8_t *body, size_t len);

/* request.c: one FPDU, if there is one that may go. */
enum iwarp_put iwarp_request_tx(struct rnic_qp *, struct fpdu_batch *);
/* That it is ready to receive. */
enum iwarp_put iwarp_rtr_tx(struct rnic_qp *, struct fpdu_batch *);
/* After the work request at sq.una is done: it and what was waiting behind it. */
void iwarp_request_done(struct rnic_qp *);

/* answer.c */
enum iwarp_put iwarp_answer_tx(struct rnic_qp *, struct fpdu_batch *);
static inline bool iwarp_answers(const struct iwarp_qp *w)
{
	return w->asked != w->told;
}
/* 0; an enum rdmap_term_cause if it cannot be answered. */
int iwarp_read_allowed(struct rnic_qp *, const struct rdmap_read_request *);

/* receive.c: fpdu_take() of a struct rnic_qp. */
int iwarp_receive(void *qp, const uint8_t *ulpdu, size_t len);

/* terminate.c */
/* The stream ends by a fault of the peer's, or one here; s: where it was seen, or NULL. To ERR. */
void iwarp_refuse(struct rnic_qp *, uint16_t cause, const struct segment *s,
		  const struct rdmap_read_request *);
/* The same by the work request at una. */
void iwarp_fail_request(struct rnic_qp *, uint16_t cause, enum rnic_wc_status, enum rnic_cause);
enum iwarp_put iwarp_terminate_tx(struct rnic_qp *, struct fpdu_batch *);
void iwarp_terminate_rx(struct rnic_qp *, const struct segment *);
/* What the last check of a key (rnic.denial) is to the peer: of a tagged segment, or of the source
 * of a READ. */
uint16_t iwarp_cause_of_denial(const struct rnic_qp *, bool tagged);

/* At most so much of memory is asked for at a time: of null regions there is no more. */
#define IWARP_PIECE NULL_BYTES

#endif
