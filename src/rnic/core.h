/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The inside of the RNIC core: its structs and what its files offer one another.
 *
 * A QP has three halves that share nothing but the work queues and the transmit turn:
 *
 *   requester (req.c)   walks the send queue and builds request packets
 *   completer (comp.c)  takes responses, moves the oldest unacknowledged PSN, completes WQEs
 *   responder (resp.c)  takes requests, touches memory, owes acknowledgements and READ responses
 *
 * The send queue is one ring with four positions, counted without wrapping:
 *
 *   cons <= una <= cur <= prod
 *
 *   [cons, una)  done; unsignaled, retired with the next signaled one
 *   [una, cur)   sent, or executed locally, and not acknowledged
 *   cur          the WQE the requester sends next, perhaps begun
 *
 * In PSNs the same is una_psn <= psn <= max_psn: [una_psn, psn) is on the way, [psn, max_psn) was
 * sent before a rewind and goes out again. A rewind (go-back-N) sets the cursor (cur, psn) back to
 * (una, una_psn); nothing else moves it back. `inflight` is the cost of [una_psn, psn).
 *
 * XRC splits a QP: an initiator has no responder, a target no requester and no completer (xrc.c).
 *
 * The unreliable services have no completer and no timers: unreliable.c sends and receives for them
 * and shares the building, checking and execution of packets.
 *
 * Timers: one per QP, armed lazily: it may fire early and is then armed again for what is due.
 */
#ifndef WEFT_RNIC_CORE_H
#define WEFT_RNIC_CORE_H

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/list.h"
#include "base/slots.h"
#include "rnic/permute.h"
#include "rnic/rnic.h"
#include "rnic/trace.h"

#define QP_TABLE_SIZE (1u << 16)
#define MCAST_BUCKETS 64
#define KEY_GEN_BITS  8
#define SRQN_BITS     16	  /* of an SRQ number; the slot stands above them */
#define QKEY_OWN      0x80000000u /* in a UD work request: take the QP's */

#define WINDOW_BYTES_DEFAULT (256u << 10)
/* What the smallest packet costs of a window: it takes about that much of a socket buffer. */
#define WINDOW_PKT_MIN	     512u
#define WINDOW_SHARE	     (16u << 10)
#define SOCKET_BYTES_DEFAULT (256u << 10)
#define PEER_SOCKETS	     256
#define TX_BURST_BYTES	     (64u << 10)
#define WIRE_OVERHEAD	     50u /* Ethernet, IPv4, UDP, ICRC around a packet */

/* No requester has more packets on the way: what is farther ahead is not the peer's. */
#define SEQ_AHEAD_MAX (1 << 16)

#define NULL_BYTES 4096 /* no payload is longer */

/* The probe: see req_timer_fired(). */
#define RTO_MIN_NS 5000000ull
#define DOUBT_NS   1000000ull
#define RTO_MAX_NS 1000000000ull /* where the QP has no transport timeout */
/* After so many without an answer the peer counts as gone, and no longer as slow. */
#define SILENT_PROBES 3

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* What is on the way to one socket, from all QPs: window.c. */
struct budget {
	uint32_t used;	     /* bytes */
	struct list waiting; /* rnic_qp.budget_node */
};

/* Why the last check of a key or a request said no. */
struct denial {
	enum rnic_cause cause;
	uint32_t key; /* 0: it was not about memory */
	uint64_t va, len;
};

struct rnic {
	struct rnic_ops ops;
	void *ctx;
	uint8_t slot;
	uint32_t window_bytes, socket_bytes;
	uint64_t pace_ns; /* when what the unreliable QPs have sent would be gone: unreliable.c */
	struct budget own_socket, peer_sockets[PEER_SOCKETS];
	struct rnic_counters counters;
	struct denial denial;
	struct timer_heap timers;    /* rnic_qp.timer */
	struct timer_heap cq_timers; /* rnic_cq.timer */
	uint64_t now;		     /* of the entry that is running, or of the last that had it */
	struct list active;	     /* QPs that may have something to send, in turn */
	struct list overflowed;	     /* CQs whose QPs are still to be put into error */
	struct permute qpn_permute, key_permute;
	uint32_t qpn_next;
	uint32_t pds, cqs, nqps;
	struct slots keys;
	uint64_t region_serial;
	struct slot *key_slots;
	struct permute srqn_permute;
	uint32_t srqn_next;
	struct rnic_srq **xrc_srqs; /* by the low bits of their numbers; NULL until there is one */
	uint32_t xrcds;
	struct list mcast[MCAST_BUCKETS]; /* who is attached to which group: mcast.c */
	uint8_t null_read[NULL_BYTES], null_written[NULL_BYTES]; /* of null regions */
	struct rnic_qp *qps[QP_TABLE_SIZE];
};

static inline void trace(struct rnic *r, enum trace_event e, uint32_t qpn, uint64_t a, uint64_t b)
{
	if (unlikely(r->ops.trace != NULL))
		r->ops.trace(r->ctx, (int)e, qpn, a, b);
}

/* ---- memory: mr.c, mw.c --------------------------------------------------------------------- */

struct rnic_pd {
	struct rnic *rnic;
	uint32_t users;
};

enum region_kind { REGION_MR, REGION_NULL, REGION_MW1, REGION_MW2 };

/* What a key leads to. */
struct region {
	enum region_kind kind;
	bool valid; /* a window: bound */
	bool paged; /* on demand: page_in before use */
	uint32_t key;
	uint32_t access;
	struct rnic_pd *pd;
	const struct rnic_qp *qp; /* type 2 window: the one QP it may be reached through */
	uint64_t iova, length;
	uint8_t *base;	 /* where iova lies */
	uint64_t serial; /* never given twice, for WQEs that name an object */
};

struct rnic_mr {
	struct region region;
	uint32_t windows; /* bound to it */
};

struct rnic_mw {
	struct region region;
	struct rnic_mr *mr; /* while bound */
	struct list node;   /* type 2: in the QP's windows while bound */
};

/* A window or region named by a WQE, which may be gone when the WQE is executed. */
struct region_ref {
	uint32_t key; /* its index is what counts */
	uint64_t serial;
};

int region_add(struct rnic_pd *, struct region *) must_use;
void region_del(struct region *);
struct region *region_find(const struct rnic *, uint32_t key);
/* A window's next key: same index, another low byte. */
void region_rekey(struct rnic *, struct region *, uint32_t key);
struct region *region_deref(const struct rnic *, struct region_ref);
/* The memory a local key stands for: NULL for a protection error. need: of enum rnic_access. */
uint8_t *mem_local(struct rnic_pd *, uint32_t lkey, uint64_t va, size_t len, uint32_t need);
/* Does the key give these rights to all of it? Nothing is brought in. */
bool mem_allowed(const struct rnic_pd *, uint32_t lkey, uint64_t va, size_t len, uint32_t need);
/* The same for a peer's key: regions and windows. All of len must be good; the first `touch` bytes
 * are about to be used. */
uint8_t *mem_remote(const struct rnic_qp *, uint32_t rkey, uint64_t va, size_t len, size_t touch,
		    uint32_t need);

struct send_wqe;
/* A BIND_MW or LOCAL_INV; -EINVAL. */
int mw_execute(struct rnic_qp *, const struct send_wqe *) must_use;
/* 0, or -EINVAL when the key is not a type 2 window bound to this QP. */
int mw_invalidate(struct rnic_qp *, uint32_t rkey) must_use;
void mw_unbind_all(struct rnic_qp *);

/* ---- completion queues: cq.c ---------------------------------------------------------------- */

enum cq_arming { CQ_UNARMED, CQ_ARMED_SOLICITED, CQ_ARMED };

struct cqe {
	struct rnic_wc wc;
	uint64_t time_ns;
};

struct rnic_cq {
	struct rnic *rnic;
	void *user;
	struct cqe *ring;
	bool lent; /* the ring, by the caller */
	uint32_t mask;
	uint32_t prod, cons;
	enum cq_arming arming;
	uint32_t told;	    /* prod when a CQ of one entry notified last, else none it has again */
	uint32_t solicited; /* prod behind the last solicited or failed entry */
	bool overflow, ignore_overrun;
	/* Moderation: notify after so many completions since the last time, or so long after the
	 * first of them. 0: off. */
	uint32_t moderate_count;
	uint64_t moderate_ns;
	uint32_t held; /* completions that would have notified */
	struct timer timer;
	uint32_t users;			/* two for a QP that has it as both its CQs */
	struct list send_qps, recv_qps; /* rnic_qp.send_cq_node, .recv_cq_node */
	struct list overflow_node;
};

void cq_push(struct rnic_cq *, const struct rnic_wc *, bool solicited);
/* Takes out what a QP has completed. */
void cq_purge(struct rnic_cq *, uint32_t qpn);
void cq_timer_fired(struct rnic_cq *);
/* Puts the QPs of overflowed CQs into error; at the end of every entry that may complete. */
void cq_settle_overflow(struct rnic *);

static inline void cq_settle(struct rnic *r)
{
	if (unlikely(!list_empty(&r->overflowed)))
		cq_settle_overflow(r);
}

/* ---- work queues: wq.c ---------------------------------------------------------------------- */

struct wqe_bind {
	struct region_ref mw, mr;
	uint64_t addr, length;
	uint32_t rkey, access;
};

struct send_wqe {
	uint64_t wr_id;
	uint64_t remote_addr;
	uint32_t rkey;
	uint32_t xrc_srqn;
	uint32_t imm_or_rkey;
	uint32_t length; /* of the message */
	uint32_t num_sge;
	uint32_t first_psn;
	uint32_t npkts;	     /* PSNs it takes; 0: executed locally */
	uint32_t chunk_pkts; /* READ: response packets asked for by one request */
	uint8_t opcode;	     /* enum rnic_wr_opcode */
	uint8_t flags;	     /* enum rnic_send_flags */
	uint8_t status;	     /* enum rnic_wc_status: not success once it failed here */
	uint8_t cause;	     /* and then, enum rnic_cause */
	bool begun;	     /* has its PSNs, or was executed */
	union {
		struct {
			uint64_t compare_add, swap;
		} atomic;
		struct wqe_bind bind;
		struct {
			struct flow flow;
			uint32_t qpn, qkey;
		} ud;
	};
	struct rnic_sge sge[]; /* or the inline bytes */
};

struct sq {
	uint8_t *mem;
	bool lent; /* by the caller */
	uint32_t mask, stride;
	uint32_t prod, cur, una, cons;
};

struct recv_wqe {
	uint64_t wr_id;
	uint32_t length;
	uint32_t num_sge;
	struct rnic_sge sge[];
};

/* A ring of receives: of a QP, or shared. */
struct rq {
	uint8_t *mem;
	bool lent; /* by the caller */
	uint32_t mask, stride;
	uint32_t max_sge;
	uint32_t prod, cons;
};

struct rnic_srq {
	struct rnic *rnic;
	struct rnic_pd *pd;
	struct rq rq;
	uint32_t limit; /* 0: not armed */
	uint32_t users; /* QPs; XRC: none counts, since none keeps it */
	void *user;
	/* XRC: */
	struct rnic_xrcd *xrcd;
	struct rnic_cq *cq;
	uint32_t srqn;
};

static inline struct send_wqe *sq_at(const struct sq *sq, uint32_t i)
{
	return (struct send_wqe *)(sq->mem + (size_t)(i & sq->mask) * sq->stride);
}

static inline struct recv_wqe *rq_at(const struct rq *rq, uint32_t i)
{
	return (struct recv_wqe *)(rq->mem + (size_t)(i & rq->mask) * rq->stride);
}

static inline bool rq_empty(const struct rq *rq)
{
	return rq->prod == rq->cons;
}

static inline bool wqe_is_local(const struct send_wqe *w)
{
	return w->opcode == RNIC_WR_LOCAL_INV || w->opcode == RNIC_WR_BIND_MW;
}

static inline bool wqe_is_atomic(const struct send_wqe *w)
{
	return w->opcode == RNIC_WR_ATOMIC_CMP_AND_SWP || w->opcode == RNIC_WR_ATOMIC_FETCH_AND_ADD;
}

/* Is it answered by a response of its own rather than by an ACK? */
static inline bool wqe_wants_response(const struct send_wqe *w)
{
	return w->opcode == RNIC_WR_RDMA_READ || wqe_is_atomic(w) ||
	       w->opcode == RNIC_WR_ATOMIC_WRITE;
}

/* ceil(len / mtu), a message of no bytes being one packet. */
static inline uint32_t pkts_of(uint32_t len, uint32_t mtu)
{
	return len ? (uint32_t)(((uint64_t)len + mtu - 1) / mtu) : 1;
}

/* A ring of max_wr (a power of two) receives. -ENOMEM. */
int rq_create(struct rnic *, struct rq *, uint32_t max_wr, uint32_t max_sge) must_use;
void rq_destroy(struct rnic *, struct rq *);
size_t rq_bytes(const struct rq *);
void rq_move(struct rnic *, struct rq *, void *mem);
/* -EINVAL, -ENOMEM as rnic_post_recv(). */
int rq_post(struct rq *, const struct rnic_recv_wr *) must_use;
uint32_t round_up_pow2(uint32_t n);
/* Moves the oldest shared receive into the QP's own ring, which is empty. */
void srq_pull(struct rnic_qp *);
int wq_create(struct rnic_qp *, struct rnic_qp_cap *) must_use;
void wq_destroy(struct rnic_qp *);
void wq_reset(struct rnic_qp *);
/* Completes the WQE at una, which must be done or failed, and retires what it retires. */
void sq_complete(struct rnic_qp *, enum rnic_wc_status);
void sq_flush(struct rnic_qp *);
void rq_flush(struct rnic_qp *);

/* Memory of a scatter list from byte `off` on: fills iov, or copies in. -EFAULT: protection error.
 */
int sge_gather(const struct rnic_qp *, const struct rnic_sge *, uint32_t num_sge, uint32_t off,
	       uint32_t len, struct iovec iov[RNIC_MAX_SGE], uint8_t *ret_niov) must_use;
int sge_scatter(struct rnic_pd *, const struct rnic_sge *, uint32_t num_sge, uint32_t off,
		const uint8_t *data, uint32_t len) must_use;
/* May all of it be reached with these rights? */
bool sge_allowed(const struct rnic_qp *, const struct rnic_sge *, uint32_t num_sge, uint32_t need);

/* ---- queue pairs: qp.c, qp_state.c ---------------------------------------------------------- */

struct req {
	uint32_t psn;	   /* of the cursor */
	uint32_t una_psn;  /* oldest unacknowledged */
	uint32_t max_psn;  /* never sent as yet */
	uint32_t inflight; /* bytes, by wqe_cost() */
	uint32_t window;   /* of inflight: what losses have left of window_bytes */
	uint32_t cut_psn;  /* where the last loss was, if cut */
	bool cut;
	uint32_t held_own, held_peer; /* of the sockets' budgets: window.c */
	uint32_t rd_out;	      /* READ requests and atomics on the way */
	uint32_t unasked;	      /* bytes sent since an acknowledgement was asked for */
	bool failed;		      /* WQE `cur` failed here; nothing goes out after it */
	bool probe;		      /* the oldest packet is to be sent once more */
	bool probed;		      /* and was: up to probe_end, with max_psn then probe_max */
	bool probe_tells; /* an acknowledgement of nothing but its packet is its answer */
	bool doubt;	  /* the probe was answered, or what it was for: loss, if nothing follows */
	bool implied_nak; /* already rewound for a response missing at una_psn */
	bool rnr_wait;	  /* until rnr_until_ns */
	bool rtt_running; /* for the packet rtt_psn, sent at rtt_start_ns */
	bool sqd_notified;
	bool acked, acked_full; /* a packet ever was; one as long as the path MTU */
	uint8_t retry_left, rnr_left;
	uint8_t backoff;   /* probes since the last progress */
	uint8_t rto_shift; /* probes since the last round trip was measured */
	uint32_t probe_end, probe_max;
	bool echo; /* a second answer to the probe of echo_psn, made at echo_ns, would show that the
		    * first was to the packet probed for, which only took its time */
	uint32_t echo_psn;
	uint64_t echo_ns;
	uint32_t rtt_psn;
	uint64_t rtt_start_ns, srtt_ns;
	uint64_t rnr_until_ns;
	uint64_t base_ns;  /* the transport timer runs from here; 0: nothing outstanding */
	uint64_t probe_ns; /* when to probe */
};

enum resp_owed { OWED_NOTHING, OWED_ACK, OWED_NAK_SEQ, OWED_RNR, OWED_NAK };
enum resp_msg { MSG_NONE, MSG_SEND, MSG_WRITE };

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
	uint64_t orig;	   /* atomic: the value found */
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

struct rnic_qp {
	struct rnic *rnic;
	struct rnic_pd *pd;
	uint32_t qpn;
	enum rnic_qp_type type;
	enum rnic_qp_state state;
	enum rnic_cause cause; /* of its error, or of the error of its send queue */
	uint8_t service;       /* enum opcode_service: the high bits of its opcodes */
	bool sq_sig_all;
	bool deaf_to_itself;
	bool sqd_notify;
	bool responder_turn;
	uint32_t burst; /* sent in its present turn */
	/* Static rate: when what was sent is gone, and how long before that more may be sent. */
	uint64_t rate_ns, rate_ahead_ns;
	uint32_t mtu; /* bytes */
	struct rnic_qp_attr attr;
	struct list active_node;
	struct list budget_node;
	bool budget_woken;    /* it is its turn */
	uint32_t budget_need; /* what it waits for */
	struct budget *peer_socket;
	struct sq sq;
	struct req req;
	struct rnic_cq *send_cq, *recv_cq; /* either may be missing in XRC */
	struct timer timer;
	/* XRC target. Its pd, srq, recv_cq and recv_pd are of the SRQ that the last request named:
	 * xrc_select() sets them before each. */
	struct rnic_xrcd *xrcd;
	struct list xrcd_node;
	/* With an SRQ it holds one: what was taken for the message that is arriving. */
	struct rq rq;
	struct rnic_srq *srq;
	struct rnic_pd *recv_pd; /* the receives' keys are of this one: the SRQ's, or pd */
	struct resp resp;
	struct list send_cq_node, recv_cq_node;
	struct list windows;
	struct list groups;	 /* it is attached to */
	struct gid mcast_source; /* what it last sent to one from */
	struct rnic_qp_cap cap;
	void *user;
};

/* May the transition be made with these attributes? */
bool qp_transition_allowed(enum rnic_qp_type, enum rnic_qp_state from, enum rnic_qp_state to,
			   uint32_t mask);

/* To ERR: everything queued is flushed. */
void qp_fail(struct rnic_qp *);
/* The WQE at una completes with the status, the rest is flushed. */
void qp_fail_send(struct rnic_qp *, enum rnic_wc_status, enum rnic_cause);
/* The same for an unreliable service, whose error the peer does not see: to SQE. */
void qp_fail_sq(struct rnic_qp *, enum rnic_wc_status, enum rnic_cause);
/* The same by a request of the peer, with this BTH opcode, or by no request; no completion. */
void qp_fail_recv(struct rnic_qp *, enum rnic_cause, uint8_t opcode);
void qp_event(struct rnic_qp *, enum rnic_event);

static inline void qp_activate(struct rnic_qp *qp)
{
	if (list_empty(&qp->active_node))
		list_push_tail(&qp->rnic->active, &qp->active_node);
}

static inline bool qp_receives(const struct rnic_qp *qp)
{
	return qp->state >= RNIC_QPS_RTR && qp->state != RNIC_QPS_ERR;
}

static inline bool qp_is_unreliable(const struct rnic_qp *qp)
{
	return qp->type == RNIC_QPT_UC || qp->type == RNIC_QPT_UD;
}

static inline bool qp_requester_runs(const struct rnic_qp *qp)
{
	return qp->state == RNIC_QPS_RTS || qp->state == RNIC_QPS_SQD;
}

static inline bool qp_responder_runs(const struct rnic_qp *qp)
{
	return qp->state >= RNIC_QPS_RTR && qp->state <= RNIC_QPS_SQE;
}

/* The receive that the next message will have, or the arriving one has; NULL: there is none. */
static inline const struct recv_wqe *recv_peek(const struct rnic_qp *qp)
{
	if (likely(!rq_empty(&qp->rq)))
		return rq_at(&qp->rq, qp->rq.cons);
	if (qp->srq && !rq_empty(&qp->srq->rq))
		return rq_at(&qp->srq->rq, qp->srq->rq.cons);
	return NULL;
}

/* Makes it the QP's own, so that rq.cons is it. */
static inline void recv_take(struct rnic_qp *qp)
{
	if (unlikely(rq_empty(&qp->rq)))
		srq_pull(qp);
}

/* ---- the three halves ----------------------------------------------------------------------- */

struct pkt {
	struct pkt_hdr h;
	uint32_t flags; /* of its opcode */
	const uint8_t *payload;
	uint32_t len;
	uint8_t *mem; /* a WRITE's payload or an atomic goes here: found by check_request() */
};

/* Is packet idx of a WQE, or of a READ's response, as long as the path MTU? */
static inline bool pkt_is_full(const struct rnic_qp *qp, const struct send_wqe *w, uint32_t idx)
{
	return (idx + 1) * qp->mtu <= w->length;
}

void req_reset(struct rnic_qp *);
void req_start(struct rnic_qp *); /* RTR -> RTS */
/* Builds the next packet if there is one that may go. */
bool req_tx(struct rnic_qp *, struct rnic_tx *, uint64_t now);
/* Packet idx of a WQE. -EFAULT: protection error. */
int request_build(struct rnic_qp *, struct rnic_tx *, const struct send_wqe *, uint32_t idx,
		  bool ackreq) must_use;
void req_rewind(struct rnic_qp *);
void req_timer_fired(struct rnic_qp *, uint64_t now);
void req_timer_arm(struct rnic_qp *);
void req_clock_restart(struct rnic_qp *, uint64_t now); /* after progress */
void req_check_drained(struct rnic_qp *);

/* ---- what is on the way: window.c ----------------------------------------------------------- */

/* What packets [from, to) of a WQE cost. */
uint32_t wqe_cost(const struct rnic_qp *, const struct send_wqe *, uint32_t from, uint32_t to);
uint32_t read_chunk_pkts(const struct rnic_qp *);
void window_set_peer(struct rnic_qp *); /* after a change of its address */
/* May so much more of the WQE go? If only the budget says no, the QP is woken later. */
bool window_allows(struct rnic_qp *, const struct send_wqe *, uint32_t cost);
/* Must an acknowledgement be asked for, so that the window moves on before it is used up? */
bool window_needs_answer(const struct rnic_qp *, const struct send_wqe *, uint32_t cost);
void window_take(struct rnic_qp *, const struct send_wqe *, uint32_t cost);
void window_give_back(struct rnic_qp *, const struct send_wqe *, uint32_t cost);
void window_lost(struct rnic_qp *);    /* the packet at una was: before a rewind for it */
void window_clear(struct rnic_qp *);   /* nothing is on the way: after a rewind */
void window_silent(struct rnic_qp *);  /* what is on the way is not in any buffer any more */
void window_leave(struct rnic_qp *);   /* nothing is on the way, and nothing will be */
void window_pass_on(struct rnic_qp *); /* it has nothing to send: wake who waits */

/* These three say whether the packet was the, or an, expected one: see rnic_rx(). */
bool comp_rx(struct rnic_qp *, const struct pkt *, uint64_t now);

void resp_reset(struct rnic_qp *);
void resp_start(struct rnic_qp *); /* INIT -> RTR */
bool resp_rx(struct rnic_qp *, struct pkt *);
bool resp_tx(struct rnic_qp *, struct rnic_tx *);

/* The first request in sequence on a QP in RTR is an event. */
void resp_established(struct rnic_qp *);
/* Completes the oldest receive with what is set in the wc. */
void recv_complete(struct rnic_qp *, struct rnic_wc *, bool solicited);
void recv_fail(struct rnic_qp *, enum rnic_wc_status);

/* UC and UD: unreliable.c. */
bool unreliable_tx(struct rnic_qp *, struct rnic_tx *, uint64_t now);
bool unreliable_rx(struct rnic_qp *, struct pkt *, const struct rnic_rx *);

/* ---- multicast: mcast.c --------------------------------------------------------------------- */

void mcast_init(struct rnic *);
/* A packet to MULTICAST_QPN: a copy for everyone attached. */
void mcast_rx(struct rnic *, struct pkt *, const struct rnic_rx *);

/* ---- XRC: xrc.c ----------------------------------------------------------------------------- */

struct rnic_xrcd {
	struct rnic *rnic;
	uint32_t users;
	struct list targets; /* rnic_qp.xrcd_node */
};

/* A number for the SRQ. -ENOMEM. */
int xrc_number(struct rnic_srq *) must_use;
/* Gives the number back, and takes the SRQ from the targets that deal with it. */
void xrc_forget(struct rnic_srq *);
/* The protection domain of an SRQ that the target may reach; NULL: there is none. */
struct rnic_pd *xrc_pd(const struct rnic_qp *, uint32_t srqn);
void xrc_settle(struct rnic_qp *); /* after a completion */

/* What a request packet comes to: check.c. */
enum verdict {
	VERDICT_ACCEPT,
	VERDICT_DUPLICATE,
	VERDICT_NAK_SEQ,
	VERDICT_RNR,
	VERDICT_DROP,
	/* From here on the QP goes into error. */
	VERDICT_INVALID,	 /* NAK invalid request */
	VERDICT_ACCESS,		 /* NAK remote access error */
	VERDICT_RECV_TOO_SHORT,	 /* NAK invalid request, the RECV fails for its length */
	VERDICT_RECV_PROTECTION, /* NAK remote operational error, the RECV fails */
	VERDICT_RECV_INVALIDATE, /* NAK remote access error, the RECV fails */
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

/* Fills in header bytes and pad of a packet whose flow, dqpn, h, niov and payload_len are set. */
void tx_finish(struct rnic_qp *, struct rnic_tx *, struct pkt_hdr *);

#endif
