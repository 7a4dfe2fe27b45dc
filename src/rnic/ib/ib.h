/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The services of InfiniBand: their requester, completer and responder.
 *
 * A QP has three halves that share nothing but the work queues and the transmit turn:
 *
 *   requester (req.c)   walks the send queue and builds request packets
 *   completer (comp.c)  takes responses, moves the oldest unacknowledged PSN, completes WQEs
 *   responder (resp.c)  takes requests, touches memory, owes acknowledgements and READ responses
 *
 * In PSNs the positions of the send queue (core.h) are una_psn <= psn <= max_psn: [una_psn, psn) is
 * on the way, [psn, max_psn) was sent before a rewind and goes out again. A rewind (go-back-N) sets
 * the cursor (cur, psn) back to (una, una_psn); nothing else moves it back. `inflight` is the cost
 * of [una_psn, psn).
 *
 * XRC splits a QP: an initiator has no responder, a target no requester and no completer (xrc.c).
 *
 * The unreliable services have no completer and no timers: unreliable.c sends for them, uc.c and
 * ud.c receive, and share the building, checking and execution of packets.
 *
 * Timers: one per QP, armed lazily: it may fire early and is then armed again for what is due.
 *
 * Files call downward only: rc.c, xrc.c, uc.c and ud.c are the rows of the table; ib.c;
 * unreliable.c, comp.c, req.c, resp.c; go_back_n.c (recovery.h); selective.c; clocks.c; check.c,
 * execute.c; xrc_select.c, kept.c, flight.c, budget.c, build.c, attributes.c.
 */
#ifndef WEFT_RNIC_IB_IB_H
#define WEFT_RNIC_IB_IB_H

#include "rnic/core.h"
#include "rnic/ib/recovery.h"

/* No requester has more packets on the way: what is farther ahead is not the peer's. */
#define SEQ_AHEAD_MAX (1 << 16)

/* Of what a socket may hold: for so little nobody stands in line. */
#define FLIGHT_SHARE (16u << 10)

/* A packet ever was; one as long as the path MTU. */
enum acked { ACKED_NONE, ACKED_SHORT, ACKED_FULL };

struct req {
	uint32_t psn;		/* of the cursor */
	uint32_t una_psn;	/* oldest unacknowledged */
	uint32_t max_psn;	/* never sent as yet */
	uint32_t inflight;	/* bytes, by flight_cost() */
	uint32_t inflight_most; /* in the round trips of late */
	uint32_t rd_out;	/* READ requests and atomics on the way */
	uint32_t unasked;	/* bytes sent since an acknowledgement was asked for */
	uint64_t sent_poll;	/* UC, UD: rnic.polls when the last packet left */
	bool failed;		/* WQE `cur` failed here; nothing goes out after it */
	enum acked acked;
};

/* Of the sockets' budgets: budget.c. */
struct claim {
	struct budget *peer_socket;
	uint32_t held_own, held_peer;
	struct list node; /* in the line of one */
	bool woken;	  /* it is its turn */
	uint32_t need;	  /* what it waits for */
};

/* By their weight. OWED_TWICE: what came twice is to be told (selective repeat). */
enum resp_owed { OWED_NOTHING, OWED_TWICE, OWED_ACK, OWED_NAK_SEQ, OWED_RNR, OWED_NAK };
enum resp_msg { MSG_NONE, MSG_SEND, MSG_WRITE };

#define RES_MORE 4

enum res_kind { RES_READ, RES_ATOMIC, RES_ATOMIC_WRITE };

/* A READ or an atomic as the responder keeps it, to answer now and again for a duplicate. */
struct resp_res {
	enum res_kind kind;
	uint32_t first_psn, npkts;
	uint32_t msn;
	uint64_t va;
	uint32_t rkey, length;
	uint32_t xrc_srqn; /* XRC: whose protection domain the rkey is of */
	uint32_t next;	   /* READ: packet to send next; atomic: 1 once sent */
	uint32_t start;	   /* READ: where this answer began */
	uint32_t end; /* and where it ends: npkts, or before, where the peer asks for some again */
	struct {
		uint32_t from, end;
	} more[RES_MORE]; /* asked for behind that */
	uint32_t nmore;
	uint64_t orig; /* atomic: the value found */
};

struct resp {
	uint32_t epsn;	   /* expected */
	uint64_t heard_ns; /* UC: when the last packet was taken, or it could first be */
	uint32_t ack_psn;  /* last SEND or WRITE packet taken */
	uint32_t msn;
	uint32_t oos_psn; /* the farthest packet dropped for coming out of sequence */
	enum resp_msg msg;
	enum resp_owed owed; /* one answer, after the READ responses */
	uint8_t syndrome;    /* of OWED_NAK, which is about nak_psn */
	uint32_t nak_psn;
	bool nak_open; /* a gap is known to the requester */
	/* And what follows from it may come until then: afterwards it shows another one. */
	uint64_t nak_until_ns;
	bool closing;	   /* ERR, and the answers owed still go out */
	bool established;  /* COMM_EST was reported */
	uint32_t recv_off; /* bytes of a SEND placed */
	struct {
		uint64_t va;
		uint32_t rkey, left, total;
	} write;
	uint32_t res_prod, res_send; /* ring of res: kept to RNIC_MAX_RD_ATOM behind res_prod */
	uint32_t res_done;	     /* answered once at least; res_send is behind it in a replay */
	struct resp_res res[RNIC_MAX_RD_ATOM];
};

/* So far beyond the oldest PSN nothing is sent by, or kept from, a peer that repeats selectively: a
 * window of the shortest packets. */
#define SELECTIVE_PSNS	1024u
#define SELECTIVE_WORDS (SELECTIVE_PSNS / 64)

struct kept_pkt;

struct selective {
	/* Of what is sent, by the low bits of PSNs from una_psn on: the peer has carried it out,
	 * and of a READ or an atomic the answer is here; or the peer keeps it, and may still refuse
	 * it. */
	uint64_t have[SELECTIVE_WORDS], held[SELECTIVE_WORDS];
	/* What was lost, and has not gone again yet. */
	uint64_t lost[SELECTIVE_WORDS];
	/* What went again was lost once more if something is there that is so far behind it: that
	 * was first sent afterwards. 0: it went once. */
	uint16_t after[SELECTIVE_PSNS];
	uint32_t nlost, next_lost;  /* packets; none is before that PSN */
	uint32_t off_wire;	    /* bytes, by flight_cost(), of what has arrived or was lost */
	uint32_t req_end, resp_end; /* requests and answers before that came, or were lost */
	uint32_t looked;	    /* before that PSN what was lost for the first time is known */
	uint32_t marks_end;	    /* no bit is set behind that PSN */
	uint32_t again;		    /* what is there behind that PSN may tell more; RNIC_PSN_NONE */
	uint32_t cut_psn; /* until that is acknowledged, losses are of one round trip; RNIC_PSN_NONE
			   */
	uint32_t looked_resp; /* the same of answers */
	/* Of what comes, packets behind one that is missing: kept.c. */
	struct kept_pkt **kept; /* by the low bits of their PSNs; NULL: there was none yet */
	uint32_t nkept;
	size_t kept_bytes;
	uint8_t bitmap[SELECTIVE_PSNS / 8]; /* as it was told last */
	uint8_t twice;			    /* packets that came twice, and that is not told yet */
};

struct ib_qp {
	struct rnic_qp qp;
	struct selective *selective; /* NULL: it goes back, and its peer does */
	bool responder_turn;
	struct claim claim;
	struct req req;
	struct recovery recovery;
	struct resp resp;
};

static inline struct ib_qp *ib_of(const struct rnic_qp *qp)
{
	return container_of(qp, struct ib_qp, qp);
}

#define SELECTIVE_TWICE_MAX 31 /* that can be told at once: the low bits of an AETH's syndrome */

static inline struct selective *selective_of(const struct rnic_qp *qp)
{
	return ib_of(qp)->selective;
}

static inline struct req *req_of(const struct rnic_qp *qp)
{
	return &ib_of(qp)->req;
}

static inline struct recovery *recovery_of(const struct rnic_qp *qp)
{
	return &ib_of(qp)->recovery;
}

static inline struct resp *resp_of(const struct rnic_qp *qp)
{
	return &ib_of(qp)->resp;
}

/* What waits in the peer's memory for what was lost before it does not wait on the way. */
static inline uint32_t on_the_way(const struct rnic_qp *qp)
{
	const struct selective *s = selective_of(qp);

	return req_of(qp)->inflight - (unlikely(s != NULL) ? s->off_wire : 0);
}

/* Does anything that was lost wait for room to go again? */
static inline bool lost_waits(const struct rnic_qp *qp)
{
	const struct selective *s = selective_of(qp);

	return unlikely(s != NULL) && s->nlost;
}

/* Has the requester anything to send, be it that there is no room for it as yet? */
static inline bool req_waits(const struct rnic_qp *qp)
{
	return qp->sq.cur != qp->sq.prod || lost_waits(qp);
}

/* Lets it be seen from outside, after some packets. */
static inline void req_show(struct rnic_qp *qp)
{
	qp->row->window = qp->cc.window;
	qp->row->rate = qp->cc.rate_kbps;
	qp->row->inflight = on_the_way(qp);
	qp->row->srtt_ns = recovery_of(qp)->srtt_ns;
}

/* ---- what all services have: ib.c ----------------------------------------------------------- */

void ib_init(struct rnic_qp *);
void ib_reset(struct rnic_qp *);
void ib_modified(struct rnic_qp *, const struct rnic_qp_attr *, uint32_t mask);
void ib_start_send(struct rnic_qp *);
void ib_stop(struct rnic_qp *);
void ib_hush(struct rnic_qp *);
bool ib_whole(const struct rnic_qp *);
void ib_query(const struct rnic_qp *, struct rnic_qp_attr *);
void ib_yield(struct rnic_qp *, bool more);

#define IB_OPERATIONS                                                                   \
	.qp_size = sizeof(struct ib_qp), .init = ib_init, .reset = ib_reset,            \
	.modified = ib_modified, .start_recv = resp_start, .start_send = ib_start_send, \
	.stop = ib_stop, .hush = ib_hush, .whole = ib_whole, .query = ib_query, .yield = ib_yield

/* The standard's table of transitions: attributes.c. */
#define IB_TRANSITIONS 9
extern const struct transition rc_transitions[IB_TRANSITIONS], uc_transitions[IB_TRANSITIONS],
	ud_transitions[IB_TRANSITIONS], xrc_initiator_transitions[IB_TRANSITIONS],
	xrc_target_transitions[IB_TRANSITIONS];

/* ---- the three halves ----------------------------------------------------------------------- */

void req_start(struct rnic_qp *);	 /* RTR -> RTS */
bool req_awaits(const struct rnic_qp *); /* an answer */
/* Builds the next packet if there is one that may go. */
bool req_tx(struct rnic_qp *, struct packet_tx *, uint64_t now);
/* Is what it sends next a piece of a message of several packets, or asks for one? */
bool req_is_long(const struct rnic_qp *);

/* Was the packet the, or an, expected one: see rnic_rx(). */
bool comp_rx(struct rnic_qp *, const struct pkt *, uint64_t now);
/* What a peer that repeats selectively has, and has not. */
bool comp_rx_sack(struct rnic_qp *, const struct pkt *, uint64_t now);
bool resp_rx(struct rnic_qp *, struct pkt *);

void resp_reset(struct rnic_qp *);
void resp_start(struct rnic_qp *); /* INIT -> RTR */
bool resp_tx(struct rnic_qp *, struct packet_tx *);
/* Is all that it owes one acknowledgement, or NAK? */
bool resp_owes_word(const struct rnic_qp *);
/* That, if so. */
bool resp_tx_word(struct rnic_qp *, struct packet_tx *);

/* ---- selective repeat: selective.c, kept.c --------------------------------------------------- */

/* RESET or INIT -> RTR with a peer that does the same. -ENOMEM. */
int selective_begin(struct rnic_qp *) must_use;
void selective_end(struct rnic_qp *);
/* Forgets what the peer has, as it does. */
void selective_forget(struct rnic_qp *);
/* What was lost goes again, one packet at a time. */
bool selective_tx(struct rnic_qp *, struct packet_tx *, uint64_t now);
/* Of the WQE, from its packet idx on, so many go again for another reason. */
void selective_goes_again(struct rnic_qp *, const struct send_wqe *, uint32_t idx, uint32_t n);
/* The peer has carried out all before `end`, though some of the answers are missing. */
void selective_arrived(struct rnic_qp *, uint32_t end);
/* The answer with that PSN is here. */
void selective_answered(struct rnic_qp *, uint32_t psn);
bool selective_has(const struct rnic_qp *, uint32_t psn);
/* una_psn moves over so many of the WQE, from its packet idx on. */
void selective_passed(struct rnic_qp *, const struct send_wqe *, uint32_t idx, uint32_t n);
/* After any of these: looks for what is missing. */
void selective_look(struct rnic_qp *);
/* Is there anything that is missing, as far as is known? */
bool selective_misses(const struct rnic_qp *);
/* That was lost, whether it went again or not. False: there is nothing. */
bool selective_again(struct rnic_qp *);
/* So was all that is not known to have arrived. */
void selective_doubt(struct rnic_qp *);
/* What the peer keeps behind the PSN `end` that it expects. */
void selective_keeps(struct rnic_qp *, uint32_t end, const uint8_t *bitmap, uint32_t len);
/* The begun WQE with that PSN, and which of its packets that is; NULL: there is none. */
struct send_wqe *selective_wqe(struct rnic_qp *, uint32_t psn, uint32_t *ret_idx);

/* A request ahead of the expected one. False: it cannot be kept. */
bool kept_add(struct rnic_qp *, const struct pkt *);
/* The expected one, if it was kept: its memory is the caller's, until kept_free(). */
struct kept_pkt *kept_take(struct rnic_qp *, struct pkt *ret);
void kept_free(struct rnic_qp *, struct kept_pkt *);
void kept_drop(struct rnic_qp *);
/* So many PSNs from there on are not expected any more. */
void kept_skip(struct rnic_qp *, uint32_t psn, uint32_t n);
/* How many bytes of the bitmap tell of all. */
uint32_t kept_tell(struct rnic_qp *);
/* A request came that had come before: the peer is to know what it has sent in vain. */
void kept_came_twice(struct rnic_qp *);

/* ---- building: build.c ---------------------------------------------------------------------- */

/* Which packet of a READ's the request began with that asked for packet idx, and behind which it
 * ended. */
static inline uint32_t chunk_begin(const struct send_wqe *w, uint32_t idx)
{
	return idx < w->chunk_at ? idx - (idx - w->chunk_from) % w->chunk_pkts
				 : idx - (idx - w->chunk_at) % w->chunk_pkts_at;
}

/* One of the first size ends at chunk_at at the latest, where a chunk began when that was set. */
static inline uint32_t chunk_end(const struct send_wqe *w, uint32_t idx)
{
	uint32_t pkts = idx < w->chunk_at ? w->chunk_pkts : w->chunk_pkts_at;

	return min_of(chunk_begin(w, idx) + pkts, w->npkts);
}

/* How many PSNs the packet sent for packet idx of the WQE takes. */
static inline uint32_t request_span(const struct send_wqe *w, uint32_t idx)
{
	return w->opcode == RNIC_WR_RDMA_READ ? chunk_end(w, idx) - idx : 1;
}

/* Is packet idx of a WQE, or of a READ's response, as long as the path MTU? */
static inline bool pkt_is_full(const struct rnic_qp *qp, const struct send_wqe *w, uint32_t idx)
{
	return (idx + 1) * qp->mtu <= w->length;
}

/* Packet idx of a WQE, or the request for so many of a READ. -EFAULT: protection error. */
int request_build(struct rnic_qp *, struct packet_tx *, const struct send_wqe *, uint32_t idx,
		  uint32_t span, bool ackreq) must_use;
/* Fills in header bytes and pad of a packet whose flow, dqpn, h, niov and payload_len are set. */
void packet_finish(struct rnic_qp *, struct packet_tx *, struct pkt_hdr *);
/* The same of one whose opcode is of no service. */
void packet_finish_own(struct rnic_qp *, struct packet_tx *, struct pkt_hdr *);

/* ---- what is on the way: flight.c ----------------------------------------------------------- */

/* What packets [from, to) of a WQE cost. */
uint32_t flight_cost(const struct rnic_qp *, const struct send_wqe *, uint32_t from, uint32_t to);
/* Of how many packets a READ is asked for at once. */
uint32_t flight_chunk_pkts(const struct rnic_qp *);
/* May so much more of the WQE go? If only a budget says no, the QP is woken later. */
bool flight_allows(struct rnic_qp *, const struct send_wqe *, uint32_t cost);
/* How much more would the window let go? */
uint32_t flight_room(const struct rnic_qp *);
/* Must an acknowledgement be asked for, so that the window moves on before it is used up? */
bool flight_needs_answer(const struct rnic_qp *, const struct send_wqe *, uint32_t cost);
void flight_sent(struct rnic_qp *, const struct send_wqe *, uint32_t cost);
void flight_acked(struct rnic_qp *, const struct send_wqe *, uint32_t cost);
void flight_clear(struct rnic_qp *); /* nothing is on the way: after a rewind */

/* ---- what sockets may hold: budget.c -------------------------------------------------------- */

static inline struct budget *budget_of(const struct rnic_qp *qp, const struct send_wqe *w)
{
	return w->opcode == RNIC_WR_RDMA_READ ? &qp->rnic->own_socket
					      : ib_of(qp)->claim.peer_socket;
}

/* Is there so much left of it, or will the QP be woken when there is? */
bool budget_allows(struct rnic_qp *, const struct send_wqe *, uint32_t bytes);
/* Would others wait, were so much of it taken? */
bool budget_scarce(const struct rnic_qp *, const struct send_wqe *, uint32_t bytes);
void budget_take(struct rnic_qp *, const struct send_wqe *, uint32_t bytes);
void budget_give_back(struct rnic_qp *, const struct send_wqe *, uint32_t bytes);
void budget_give_up(struct rnic_qp *);	/* what is on the way is not in any buffer any more */
void budget_leave(struct rnic_qp *);	/* and nothing will be */
void budget_pass_on(struct rnic_qp *);	/* it has nothing to send: wake who waits */
void budget_set_peer(struct rnic_qp *); /* after a change of its address */

/* ---- unreliable.c --------------------------------------------------------------------------- */

/* Has it sent since the program polled last? Then it sends in bulk. */
bool unreliable_awaits(const struct rnic_qp *);
bool unreliable_tx(struct rnic_qp *, struct packet_tx *, uint64_t now);
/* A receive can not be written to. */
void unreliable_recv_broken(struct rnic_qp *);

/* ---- XRC: xrc_select.c ---------------------------------------------------------------------- */

/* The protection domain of an SRQ that the target may reach; NULL: there is none. */
struct rnic_pd *xrc_pd(const struct rnic_qp *, uint32_t srqn);
void xrc_settle(struct rnic_qp *); /* after a completion */

/* ---- what a request packet comes to: check.c, execute.c ------------------------------------- */

enum verdict {
#define X(name, text) VERDICT_##name,
#include "rnic/ib/verdict.def"
#undef X
};

/* A request that is refused for a reason that is not about memory. */
static inline enum verdict deny(struct rnic_qp *qp, enum rnic_cause cause, enum verdict v)
{
	qp->rnic->denial = (struct denial){.cause = cause};
	return v;
}

enum verdict check_request(struct rnic_qp *, struct pkt *);
/* Turns an XRC target to the SRQ that a request in sequence names. */
enum verdict xrc_select(struct rnic_qp *, uint32_t srqn);
/* The same of one that is in sequence. */
enum verdict check_execution(struct rnic_qp *, struct pkt *);
/* Carry out what was checked: VERDICT_ACCEPT, or what its memory came to. */
enum verdict execute_send(struct rnic_qp *, const struct pkt *);
enum verdict execute_write(struct rnic_qp *, const struct pkt *);
void message_done(struct rnic_qp *);
/* The first request in sequence on a QP in RTR is an event. */
void resp_established(struct rnic_qp *);

#endif
