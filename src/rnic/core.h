/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The inside of the RNIC core that all services share (service.h): the instance, keys to memory,
 * completion queues, work queues, and what every queue pair has. What a queue pair does with
 * packets is its service's; of ib/ nothing is known here.
 *
 * The send queue is one ring with four positions, counted without wrapping:
 *
 *   cons <= una <= cur <= prod
 *
 *   [cons, una)  done; unsignaled, retired with the next signaled one
 *   [una, cur)   sent, or executed locally, and not acknowledged
 *   cur          the WQE that is sent next, perhaps begun
 *
 * Files call downward only:
 *
 *   service.c  which service a new queue pair is of
 *   rnic.c, mcast.c, post.c  packets, time and work requests to the queue pairs' services
 *   ib/, iwarp/  what the services of InfiniBand do, and that of iWARP
 *   qp.c       queue pairs, their state, and the way into error
 *   ecn.c, pacer.c, recv.c, srq.c, wq.c, sge.c, cq.c, mw.c, mr.c, xrcd.c
 */
#ifndef WEFT_RNIC_CORE_H
#define WEFT_RNIC_CORE_H

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/list.h"
#include "base/handles.h"
#include "base/units.h"
#include "rnic/cc/cc.h"
#include "rnic/permute.h"
#include "rnic/service.h"
#include "rnic/trace.h"

#define MCAST_BUCKETS  64
#define KEY_INDEX_BITS 24
#define KEY_GEN_BITS   8
#define NUMBER_BITS    16	   /* of a QP or SRQ number; the slot stands above them */
#define QKEY_OWN       0x80000000u /* in a UD work request: take the QP's */

#define WINDOW_BYTES_DEFAULT (256u << 10)
#define SOCKET_BYTES_DEFAULT (256u << 10)
#define PEER_SOCKETS	     256
#define TURN_BYTES_DEFAULT   (64u << 10)
/* What the smallest packet costs: it takes about that much of a socket buffer. */
#define PKT_COST_MIN 512u
/* More than a super-packet is not kept back for company: 15 packets of 4096, or 64 short ones. */
#define HELD_MAX      (57u << 10)
#define HELD_MIN      (HELD_MAX / 64)
#define WIRE_OVERHEAD 50u /* Ethernet, IPv4, UDP, ICRC around a packet */

#define NULL_BYTES 4096 /* no payload is longer */

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* What is on the way to one socket, from all QPs: ib/budget.c. */
struct budget {
	uint32_t used;	     /* bytes */
	struct list waiting; /* who needs more of it */
};

/* Why the last check of a key or a request said no. */
struct denial {
	enum rnic_cause cause;
	uint32_t key; /* 0: it was not about memory */
	uint64_t va, len;
};

enum { RECENT_REGIONS = 16 };

struct rnic {
	struct rnic_ops ops;
	void *ctx;
	uint8_t slot;
	uint32_t window_bytes, socket_bytes, turn_bytes, ask_bytes;
	uint64_t pace_ns; /* when what the unreliable QPs have sent would be gone */
	struct budget own_socket, peer_sockets[PEER_SOCKETS];
	struct rnic_counters *counters, own_counters;
	struct rnic_qp_row *rows, no_row; /* shown.c */
	uint32_t *free_rows, free_row_count;
	const uint64_t *traced;
	struct denial denial;
	struct timer_heap timers;      /* rnic_qp.timer */
	struct timer_heap cq_timers;   /* rnic_cq.timer */
	struct timer_heap pace_timers; /* rnic_qp.pace_timer */
	const struct cc_ops *cc;       /* of QPs whose address brings none; NULL: cc_of() */
	struct cc_params cc_params;
	uint32_t unsent; /* bytes posted since the last turn to send, HELD_MIN at least for each */
	bool hurried;	 /* one of them can not wait */
	bool idle;	 /* one of them found nothing on the way before it */
	bool pressing;	 /* of the active, some have more to send than qp_activate_for_ack() says */
	uint64_t polls;	 /* of completion queues, and one */
	uint64_t now;	 /* of the entry that is running, or of the last that had it */
	struct list active; /* QPs that may have something to send, in turn */
	struct list held;   /* those of them that rnic_hold() keeps from it */
	uint8_t held_priorities;
	struct list streams;	/* the same of those that have streams */
	struct list overflowed; /* CQs whose QPs are still to be put into error */
	struct permute qpn_permute, key_permute;
	uint32_t qpn_next;
	uint32_t pds, cqs, nqps;
	size_t kept_bytes; /* ib/kept.c */
	struct handles keys;
	struct region *recent_regions[RECENT_REGIONS]; /* each at its key's place, or NULL */
	uint64_t region_serial;
	struct handle_place *key_table;
	struct permute srqn_permute;
	uint32_t srqn_next;
	/* By the low bits of their numbers. Of SRQs none until there is one. */
	struct rnic_qp **qps;
	struct rnic_srq **xrc_srqs;
	uint32_t number_mask; /* of these bits, in both tables */
	uint32_t xrcds;
	struct list mcast[MCAST_BUCKETS]; /* who is attached to which group: mcast.c */
	uint8_t null_read[NULL_BYTES], null_written[NULL_BYTES]; /* of null regions */
};

static inline void trace(struct rnic *r, enum trace_event e, uint32_t qpn, uint64_t a, uint64_t b)
{
	if (unlikely(__atomic_load_n(&r->traced[e], __ATOMIC_RELAXED)))
		r->ops.trace(r->ctx, (int)e, qpn, a, b);
}

/* Of the instance, and of the queue pair. */
#define count(qp, name, n)                         \
	do {                                       \
		(qp)->rnic->counters->name += (n); \
		(qp)->row->name += (n);            \
	} while (0)

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
	uint32_t bound_mws;
};

struct rnic_mw {
	struct region region;
	struct rnic_mr *mr; /* while bound */
	struct list node;   /* type 2: in the QP's bound_mws */
};

/* A window or region named by a WQE, which may be gone when the WQE is executed. */
struct region_ref {
	uint32_t key; /* its index is what counts */
	uint64_t serial;
};

int region_add(struct rnic_pd *, struct region *) must_use;
void region_del(struct region *);
struct region *region_find(struct rnic *, uint32_t key);
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

/* ---- work queues: wq.c, post.c, sge.c, recv.c
 * -------------------------------------------------------------------- */

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
	uint32_t npkts; /* PSNs it takes; 0: executed locally */
	/* READ: response packets asked for by one request, from packet chunk_from on, and from
	 * chunk_at on; those before chunk_from are here. */
	uint32_t chunk_from, chunk_pkts, chunk_at, chunk_pkts_at;
	uint8_t opcode; /* enum rnic_wr_opcode */
	uint8_t flags;	/* enum rnic_send_flags */
	uint8_t status; /* enum rnic_wc_status: not success once it failed here */
	uint8_t cause;	/* and then, enum rnic_cause */
	bool begun;	/* has its PSNs, or was executed */
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
	return len > mtu ? (uint32_t)(((uint64_t)len + mtu - 1) / mtu) : 1;
}

/* A ring of max_wr (a power of two) receives. -ENOMEM. */
int rq_create(struct rnic *, struct rq *, uint32_t max_wr, uint32_t max_sge) must_use;
void rq_destroy(struct rnic *, struct rq *);
size_t rq_bytes(const struct rq *);
void rq_move(struct rnic *, struct rq *, void *mem);
/* -EINVAL, -ENOMEM as rnic_post_recv(). */
int rq_post(struct rq *, const struct rnic_recv_wr *) must_use;
/* Moves the oldest shared receive into the QP's own ring, which is empty. */
void srq_pull(struct rnic_qp *);
int wq_create(struct rnic_qp *, struct rnic_qp_cap *) must_use;
void wq_destroy(struct rnic_qp *);
void wq_reset(struct rnic_qp *);
/* Completes the WQE at una, which must be done or failed, and retires what it retires. */
void sq_complete(struct rnic_qp *, enum rnic_wc_status);
void sq_flush(struct rnic_qp *);
void rq_flush(struct rnic_qp *);

static inline void sge_copy(struct rnic_sge *to, const struct rnic_sge *from, uint32_t n)
{
	if (likely(n == 1))
		*to = *from;
	else if (n)
		memcpy(to, from, n * sizeof(*from));
}

/* -EINVAL: longer than any message. */
static inline int sge_total(const struct rnic_sge *sge, uint32_t n, uint32_t *ret_total)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < n; i++)
		total += sge[i].length;
	if (total > RNIC_MAX_MSG)
		return -EINVAL;
	*ret_total = (uint32_t)total;
	return 0;
}

/* Memory of a scatter list from byte `off` on, with the rights in need: fills iov, or copies in.
 * -EFAULT: protection error, and nothing is copied. */
int sge_gather(struct rnic_pd *, const struct rnic_sge *, uint32_t num_sge, uint32_t off,
	       uint32_t len, uint32_t need, struct iovec iov[RNIC_MAX_SGE],
	       uint8_t *ret_niov) must_use;
/* Memory that somebody may be watching: memcpy(), but for the last bytes, which are stored upwards
 * and once. */
void mem_place(uint8_t *to, const uint8_t *from, size_t len);
int sge_scatter(struct rnic_pd *, const struct rnic_sge *, uint32_t num_sge, uint32_t off,
		const uint8_t *data, uint32_t len) must_use;
/* May all of it be reached with these rights? */
bool sge_allowed(const struct rnic_qp *, const struct rnic_sge *, uint32_t num_sge, uint32_t need);

/* ---- queue pairs: qp.c ---------------------------------------------------------------------- */

/* Of SQD: is what was begun all done, and does anybody want to know? */
enum drain { DRAINED, DRAINS, DRAINS_AND_TELLS };

struct rnic_qp {
	struct rnic *rnic;
	struct rnic_qp_row *row;
	struct rnic_pd *pd;
	const struct service *service;
	uint32_t qpn;
	enum rnic_qp_state state;
	enum rnic_cause cause; /* of its error, or of the error of its send queue */
	enum drain drain;
	bool sq_sig_all;
	bool deaf_to_itself;
	bool selective;		  /* it repeats what is lost, and no more */
	bool has_tag;		  /* tag_in was chosen */
	uint16_t tag_in, tag_out; /* in the packets of one that does */
	uint32_t burst;		  /* sent in its present turn */
	/* The pacer: when what was sent is gone, and how long before that more may be sent. */
	uint64_t paid_ns, ahead_ns;
	struct cc cc;
	/* It owes its peer a notification of congestion, and may not owe another before that. */
	bool cnp_owed;
	uint64_t cnp_next_ns;
	struct flow cnp_flow;
	uint32_t mtu; /* bytes */
	struct rnic_qp_attr attr;
	struct list active_node, *turns; /* where it stands in a row */
	struct sq sq;
	struct rnic_cq *send_cq, *recv_cq; /* either may be missing in XRC */
	struct timer timer;		   /* its service's */
	struct timer pace_timer;
	/* XRC target. Its pd, srq, recv_cq and recv_pd are of the SRQ that the last request
	 * named. */
	struct rnic_xrcd *xrcd;
	struct list xrcd_node;
	/* With an SRQ it holds one: what was taken for the message that is arriving. */
	struct rq rq;
	struct rnic_srq *srq;
	struct rnic_pd *recv_pd; /* the receives' keys are of this one: the SRQ's, or pd */
	struct list send_cq_node, recv_cq_node;
	struct list bound_mws;	 /* rnic_mw.node; of type 2 */
	struct list groups;	 /* it is attached to */
	struct gid mcast_source; /* what it last sent to one from */
	struct rnic_qp_cap cap;
	void *user;
};

/* ---- what is seen from outside: shown.c ----------------------------------------------------- */

int shown_init(struct rnic *, const struct rnic_config *) must_use; /* -ENOMEM */
void shown_take(struct rnic_qp *);
void shown_give_back(struct rnic_qp *);
/* After a change of its state or its attributes. */
void shown_attr(struct rnic_qp *);

int qp_create(const struct service *, struct rnic_pd *, struct rnic_qp_init *,
	      struct rnic_qp **ret) must_use;
/* rnic_qp_transition(). */
bool qp_transition(const struct service *, enum rnic_qp_state from, enum rnic_qp_state to,
		   uint32_t *ret_required, uint32_t *ret_optional);
/* To RTS, by nobody's wish but its service's. */
void qp_begin(struct rnic_qp *);
/* To ERR: everything queued is flushed. */
void qp_fail(struct rnic_qp *);
/* The WQE at una completes with the status, the rest is flushed. */
void qp_fail_send(struct rnic_qp *, enum rnic_wc_status, enum rnic_cause);
/* The same for an unreliable service, whose error the peer does not see: to SQE. */
void qp_fail_sq(struct rnic_qp *, enum rnic_wc_status, enum rnic_cause);
/* The same by a request of the peer, with this BTH opcode, or by no request; no completion. */
void qp_fail_recv(struct rnic_qp *, enum rnic_cause, uint8_t opcode);
void qp_event(struct rnic_qp *, enum rnic_event);
/* In SQD, after something was completed. */
void qp_check_drained(struct rnic_qp *);
/* Puts the QPs of overflowed CQs into error; at the end of every entry that may complete. */
void qp_settle_overflow(struct rnic *);

static inline void qp_settle(struct rnic *r)
{
	if (unlikely(!list_empty(&r->overflowed)))
		qp_settle_overflow(r);
}

/* For the acknowledgement of a short WRITE, which the program's answer may take along. */
static inline void qp_activate_for_ack(struct rnic_qp *qp)
{
	if (list_empty(&qp->active_node))
		list_push_tail(qp->turns, &qp->active_node);
}

static inline void qp_activate(struct rnic_qp *qp)
{
	qp->rnic->pressing = true;
	qp_activate_for_ack(qp);
}

static inline bool qp_receives(const struct rnic_qp *qp)
{
	return qp->state >= RNIC_QPS_RTR && qp->state != RNIC_QPS_ERR;
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

/* Completes the oldest receive with what is set in the wc. */
void recv_complete(struct rnic_qp *, struct rnic_wc *, bool solicited);
/* The denial says why. */
void recv_fail(struct rnic_qp *, enum rnic_wc_status);

/* ---- pace and congestion: pacer.c ----------------------------------------------------------- */

/* Gives the QP its turn then, if it has none before. */
void pacer_wake_at(struct rnic_qp *, uint64_t due);
void pacer_hold(struct rnic_qp *);
void pacer_pay(struct rnic_qp *, const struct packet_tx *, uint64_t now);
void pacer_timer_fired(struct rnic_qp *, uint64_t now);

static inline bool pacer_holds(const struct rnic_qp *qp, uint64_t now)
{
	return unlikely(qp->paid_ns > now + qp->ahead_ns);
}

/* May it send, by the rate of what it sent before? If not, it is woken. */
static inline bool pacer_allows(struct rnic_qp *qp, uint64_t now)
{
	if (!pacer_holds(qp, now))
		return true;
	pacer_hold(qp);
	return false;
}

/* A packet leaves. */
static inline void pacer_charge(struct rnic_qp *qp, const struct packet_tx *tx, uint64_t now)
{
	if (unlikely(tx->flow->rate_mbps || qp->cc.rate_kbps || qp->cc.ops->sent))
		pacer_pay(qp, tx, now);
}

/* What congestion control is told, where it wants to know; cc/cc.h says of what. */
void cc_tell_acked(struct rnic_qp *, uint32_t bytes);
void cc_tell_rtt(struct rnic_qp *, uint64_t rtt_ns);
void cc_begin(struct rnic_qp *); /* INIT -> RTR: nothing moved before */
void cc_lost(struct rnic_qp *, uint32_t bytes, bool again);
/* op: of cc.ops, one that takes nothing but the time, or NULL. */
void cc_tell(struct rnic_qp *, void (*op)(struct cc *, uint64_t now));

/* Which is to be its own. */
static inline const struct cc_ops *cc_of(const struct rnic_qp *qp)
{
	/* An address that brings parameters alone has the default, and not what others have. */
	const struct cc_ops *cc = qp->attr.cc || qp->attr.cc_params ? qp->attr.cc : qp->rnic->cc;

	if (cc)
		return cc;
	/* Within a host no way is narrow, and what ended programs have posted should be out soon.
	 */
	return qp->selective && !gid_equal(&qp->attr.flow.sgid, &qp->attr.flow.dgid) ? &cc_delay
										     : &cc_halving;
}

static inline void cc_acked(struct rnic_qp *qp, uint32_t bytes)
{
	if (unlikely(qp->cc.ops->acked != NULL))
		cc_tell_acked(qp, bytes);
}

static inline void cc_rtt(struct rnic_qp *qp, uint64_t rtt_ns)
{
	if (unlikely(qp->cc.ops->rtt != NULL))
		cc_tell_rtt(qp, rtt_ns);
}

/* ---- congestion that the network tells of: ecn.c --------------------------------------------- */

/* Its address was set: its packets say whether it answers to marks. */
void ecn_declare(struct rnic_qp *);
/* A packet came with the lower bit of ECN. */
void ecn_rx(struct rnic_qp *, const struct flow *);
/* One came that is of none of its service's operations. */
void cnp_rx(struct rnic_qp *, const struct pkt *);
uint8_t cnp_priority(const struct rnic_qp *);
/* The notification that it owes. */
void cnp_tx(struct rnic_qp *, struct packet_tx *);

/* ---- multicast: mcast.c --------------------------------------------------------------------- */

void mcast_init(struct rnic *);
/* A packet to MULTICAST_QPN: a copy for everyone attached. */
void mcast_rx(struct rnic *, struct pkt *, const struct packet_rx *, uint64_t now);

/* ---- XRC domains: xrcd.c -------------------------------------------------------------------- */

struct rnic_xrcd {
	struct rnic *rnic;
	uint32_t users;
	struct list targets; /* rnic_qp.xrcd_node */
};

/* A number for the SRQ. -ENOMEM. */
int xrc_number(struct rnic_srq *) must_use;
/* Gives the number back, and takes the SRQ from the targets that deal with it. */
void xrc_forget(struct rnic_srq *);
struct rnic_srq *xrc_find(const struct rnic *, uint32_t srqn);

#endif
