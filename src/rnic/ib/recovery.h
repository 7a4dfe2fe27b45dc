/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Recovery from loss: what the requester and the completer tell it, and what it does about it,
 * which is to move the cursor back (or not, where both repeat selectively: selective.c), to send
 * the oldest packet once more, to wait, or to give up.
 *
 * Two clocks run while anything is outstanding:
 *   the transport timer of the standard: each expiry uses up a retry;
 *   the probe: after a few round trips of silence, doubling, without costing a retry. It makes a
 *   lost tail cheap where the standard's timeout is seconds.
 * Either sends the oldest packet once more, and no others: into silence that is as good as all of
 * them, and the answer tells whether they were lost or only wait at a slow peer. Where it does not
 * tell, and nothing else comes, the packet that is the oldest then goes once more. Sequence NAKs
 * use up no retries either: they come from a living peer. They do not restart the transport timer
 * unless they acknowledge something, so a packet that never arrives ends the QP.
 */
#ifndef WEFT_RNIC_IB_RECOVERY_H
#define WEFT_RNIC_IB_RECOVERY_H

#include "rnic/core.h"

enum recovery_state {
	RECOVERY_NONE,
	RECOVERY_PROBED, /* the oldest packet went once more: up to probe_end, with max_psn then
			  * probe_max */
	RECOVERY_DOUBT,	 /* the probe was answered, or what it was for: loss, if nothing follows */
	RECOVERY_RNR_WAIT, /* the peer has no receive: nothing goes out until rnr_until_ns */
	RECOVERY_STATES
};

/* A packet whose answer tells how long a round trip takes. */
struct timed_pkt {
	bool running;
	uint32_t psn;
	uint64_t sent_ns;
};

struct recovery {
	enum recovery_state state; /* set by enter() alone, which knows the ways there are */
	bool probe_due;		   /* the oldest packet is to be sent once more */
	bool probe_tells;	   /* an acknowledgement of nothing but its packet is its answer */
	bool implied_nak;	   /* already rewound for a response missing at una_psn */
	uint8_t retry_left, rnr_left;
	uint8_t backoff;   /* probes since the last progress */
	uint8_t rto_shift; /* probes since the last round trip was measured */
	uint32_t probe_end, probe_max;
	uint32_t lost_psn; /* where the last loss was; RNIC_PSN_NONE */
	struct timed_pkt timed;
	/* Sent behind it, and timed in its place if it was lost: in a queue that is full it may be
	 * the same of a window's packets that finds no room, time and again. */
	struct timed_pkt timed_else;
	/* A probe: a second answer to it would show that the first was to the packet probed for,
	 * which only took its time. */
	struct timed_pkt echo;
	/* Some of what was sent before this went again on its own, and may be answered twice;
	 * RNIC_PSN_NONE: nothing on the way did. */
	uint32_t again_psn;
	uint64_t srtt_ns;
	uint64_t rnr_until_ns;
	uint64_t base_ns;  /* the transport timer runs from here; 0: nothing outstanding */
	uint64_t probe_ns; /* when to probe */
};

void recovery_start(struct rnic_qp *); /* RTR -> RTS */
/* What goes before anything else: the oldest packet once more. */
bool recovery_tx(struct rnic_qp *, struct packet_tx *);
/* The packet at the cursor went out, for the first time or again; asked: for an answer of its own.
 * The cursor has not moved yet. */
void recovery_sent(struct rnic_qp *, bool asked, uint64_t now);
/* Others went again, so many from psn on. */
void recovery_resent(struct rnic_qp *, uint32_t psn, uint32_t n, uint64_t now);
/* What went again should be answered in a round trip. */
void recovery_look_soon(struct rnic_qp *, uint64_t now);
/* One is there, though others before it may be missing. */
void recovery_arrived(struct rnic_qp *, uint32_t psn);
void recovery_timer(struct rnic_qp *, uint64_t now);

/* una_psn moved: the clocks begin anew. */
void recovery_progress(struct rnic_qp *, uint64_t now);
/* The peer misses what una_psn names. */
void recovery_gap(struct rnic_qp *);
/* A later response came than the one due at una_psn. */
void recovery_gap_implied(struct rnic_qp *);
/* The peer has no receive for una_psn, and says for how long to wait. */
void recovery_rnr(struct rnic_qp *, uint8_t timer, uint64_t now);
/* A response to nothing that is outstanding. */
void recovery_stray(struct rnic_qp *, uint32_t psn, uint64_t now);

/* May nothing go out? */
static inline bool recovery_waits(const struct recovery *v)
{
	return v->state == RECOVERY_RNR_WAIT;
}

/* Has nobody answered since a probe? */
static inline bool recovery_silent(const struct recovery *v)
{
	return v->backoff;
}

#endif
