/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The sans-I/O RNIC core: what an adapter's hardware does, as a state machine.
 *
 * It does no I/O: no sockets, no clock, no threads, no randomness of its own; memory for objects
 * comes from ops->alloc at set-up, none is taken on the data path. Every entry that can move time
 * takes `now` (nanoseconds on any monotonic clock). Packets go in through rnic_rx() after the
 * port has checked and cut off the ICRC, and come out of rnic_tx() without one: only the port
 * knows the IP identification it covers.
 *
 * Locking: one struct rnic is one shard; the caller serialises every call on it and on its objects.
 *
 * Numbers: statuses, opcodes, access bits, states and attribute masks have the values of
 * <infiniband/verbs.h> (struct rnic_sge and struct rnic_wc its layout too), so that the verbs face
 * passes them through; src/verbs asserts each. The core does not include verbs.h.
 *
 * Errors: 0 or -errno. What a peer does wrong is a NAK or a drop (and a counter), never an error
 * here.
 */
#ifndef WEFT_RNIC_RNIC_H
#define WEFT_RNIC_RNIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/heap.h"
#include "rnic/cause.h"
#include "wire/packet.h"

struct cc_ops;
struct cc_params;
struct rnic;
struct rnic_pd;
struct rnic_mr;
struct rnic_mw;
struct rnic_cq;
struct rnic_qp;
struct rnic_srq;
struct rnic_xrcd;

#define RNIC_MAX_SGE	 PACKET_IOV_MAX
#define RNIC_MAX_INLINE	 1024
#define RNIC_MAX_RD_ATOM 64 /* responder resources and initiator depth of a QP; a power of 2 */
#define RNIC_MAX_QP_WR	 16384
#define RNIC_MAX_CQE	 (1 << 20)
#define RNIC_MAX_MSG	 (1u << 31)
#define RNIC_MAX_QPS	 (1u << 16)
#define RNIC_MAX_KEYS	 (1u << 17) /* memory regions and windows together */
#define RNIC_PSN_NONE	 UINT32_MAX

/* ---- values that equal verbs.h -------------------------------------------------------------- */

enum rnic_qp_state {
	RNIC_QPS_RESET,
	RNIC_QPS_INIT,
	RNIC_QPS_RTR,
	RNIC_QPS_RTS,
	RNIC_QPS_SQD,
	RNIC_QPS_SQE,
	RNIC_QPS_ERR
};
enum rnic_qp_type {
	RNIC_QPT_RC = 2,
	RNIC_QPT_UC,
	RNIC_QPT_UD,
	RNIC_QPT_XRC_SEND = 9, /* initiator: has a send queue only */
	RNIC_QPT_XRC_RECV,     /* target: has no queue, its requests name shared receive queues */
	RNIC_QPT_IWARP = 64    /* to verbs it is RC on another transport: rnic/stream.h */
};
enum rnic_mtu { RNIC_MTU_256 = 1, RNIC_MTU_512, RNIC_MTU_1024, RNIC_MTU_2048, RNIC_MTU_4096 };

enum rnic_access {
	RNIC_ACCESS_LOCAL_WRITE = 1 << 0,
	RNIC_ACCESS_REMOTE_WRITE = 1 << 1,
	RNIC_ACCESS_REMOTE_READ = 1 << 2,
	RNIC_ACCESS_REMOTE_ATOMIC = 1 << 3,
	RNIC_ACCESS_MW_BIND = 1 << 4,
	RNIC_ACCESS_ZERO_BASED = 1 << 5,
	RNIC_ACCESS_ON_DEMAND = 1 << 6,
};

enum rnic_wr_opcode {
	RNIC_WR_RDMA_WRITE,
	RNIC_WR_RDMA_WRITE_WITH_IMM,
	RNIC_WR_SEND,
	RNIC_WR_SEND_WITH_IMM,
	RNIC_WR_RDMA_READ,
	RNIC_WR_ATOMIC_CMP_AND_SWP,
	RNIC_WR_ATOMIC_FETCH_AND_ADD,
	RNIC_WR_LOCAL_INV,
	RNIC_WR_BIND_MW,
	RNIC_WR_SEND_WITH_INV,
	RNIC_WR_ATOMIC_WRITE = 15, /* 8 bytes, to an address that is a multiple of 8 */
};

enum rnic_send_flags {
	RNIC_SEND_FENCE = 1,
	RNIC_SEND_SIGNALED = 2,
	RNIC_SEND_SOLICITED = 4,
	RNIC_SEND_INLINE = 8
};

enum rnic_wc_status {
	RNIC_WC_SUCCESS,
	RNIC_WC_LOC_LEN_ERR,
	RNIC_WC_LOC_QP_OP_ERR,
	RNIC_WC_LOC_EEC_OP_ERR,
	RNIC_WC_LOC_PROT_ERR,
	RNIC_WC_WR_FLUSH_ERR,
	RNIC_WC_MW_BIND_ERR,
	RNIC_WC_BAD_RESP_ERR,
	RNIC_WC_LOC_ACCESS_ERR,
	RNIC_WC_REM_INV_REQ_ERR,
	RNIC_WC_REM_ACCESS_ERR,
	RNIC_WC_REM_OP_ERR,
	RNIC_WC_RETRY_EXC_ERR,
	RNIC_WC_RNR_RETRY_EXC_ERR,
	RNIC_WC_LOC_RDD_VIOL_ERR,
	RNIC_WC_REM_INV_RD_REQ_ERR,
	RNIC_WC_REM_ABORT_ERR,
	RNIC_WC_INV_EECN_ERR,
	RNIC_WC_INV_EEC_STATE_ERR,
	RNIC_WC_FATAL_ERR,
	RNIC_WC_RESP_TIMEOUT_ERR,
	RNIC_WC_GENERAL_ERR,
};

enum rnic_wc_opcode {
	RNIC_WC_SEND,
	RNIC_WC_RDMA_WRITE,
	RNIC_WC_RDMA_READ,
	RNIC_WC_COMP_SWAP,
	RNIC_WC_FETCH_ADD,
	RNIC_WC_BIND_MW,
	RNIC_WC_LOCAL_INV,
	RNIC_WC_ATOMIC_WRITE = 9,
	RNIC_WC_RECV = 1 << 7,
	RNIC_WC_RECV_RDMA_WITH_IMM,
};

enum rnic_wc_flags { RNIC_WC_GRH = 1 << 0, RNIC_WC_WITH_IMM = 1 << 1, RNIC_WC_WITH_INV = 1 << 3 };

enum rnic_event { /* asynchronous events; values of enum ibv_event_type */
		  RNIC_EVENT_CQ_ERR,
		  RNIC_EVENT_QP_FATAL,
		  RNIC_EVENT_QP_REQ_ERR,
		  RNIC_EVENT_QP_ACCESS_ERR,
		  RNIC_EVENT_COMM_EST,
		  RNIC_EVENT_SQ_DRAINED,
		  RNIC_EVENT_PATH_MIG,
		  RNIC_EVENT_SRQ_LIMIT_REACHED = 15,
		  RNIC_EVENT_QP_LAST_WQE_REACHED = 16,
};

enum rnic_qp_attr_mask { /* enum ibv_qp_attr_mask */
			 RNIC_QP_STATE = 1 << 0,
			 RNIC_QP_CUR_STATE = 1 << 1,
			 RNIC_QP_EN_SQD_ASYNC_NOTIFY = 1 << 2,
			 RNIC_QP_ACCESS_FLAGS = 1 << 3,
			 RNIC_QP_PKEY_INDEX = 1 << 4,
			 RNIC_QP_PORT = 1 << 5,
			 RNIC_QP_QKEY = 1 << 6,
			 RNIC_QP_AV = 1 << 7,
			 RNIC_QP_PATH_MTU = 1 << 8,
			 RNIC_QP_TIMEOUT = 1 << 9,
			 RNIC_QP_RETRY_CNT = 1 << 10,
			 RNIC_QP_RNR_RETRY = 1 << 11,
			 RNIC_QP_RQ_PSN = 1 << 12,
			 RNIC_QP_MAX_QP_RD_ATOMIC = 1 << 13,
			 RNIC_QP_ALT_PATH = 1 << 14,
			 RNIC_QP_MIN_RNR_TIMER = 1 << 15,
			 RNIC_QP_SQ_PSN = 1 << 16,
			 RNIC_QP_MAX_DEST_RD_ATOMIC = 1 << 17,
			 RNIC_QP_PATH_MIG_STATE = 1 << 18,
			 RNIC_QP_CAP = 1 << 19,
			 RNIC_QP_DEST_QPN = 1 << 20,
};

/* ---- the instance --------------------------------------------------------------------------- */

/* What a queue pair failed by: its own work request, or one of its peer. */
struct rnic_failure {
	uint32_t qpn, dest_qpn;
	const struct gid *peer;
	enum rnic_cause cause;
	bool by_peer;
	uint8_t opcode; /* enum rnic_wr_opcode; BTH opcode of a peer's request */
	uint64_t wr_id; /* not of a peer's request */
	/* Of the causes that are about memory: what was asked for. */
	uint32_t key;
	uint64_t va, len;
};

/* Upcalls; made with the caller's serialisation held, so they must not call back into the core. */
struct rnic_ops {
	void *(*alloc)(void *ctx, size_t bytes); /* zeroed, or NULL */
	void (*free)(void *ctx, void *p);
	uint32_t (*random)(void *ctx);
	/* A completion on a CQ that was armed (the arming is spent). cq_user: of rnic_cq_create. */
	void (*cq_notify)(void *ctx, void *cq_user);
	/* object_user is the qp_user; for CQ_ERR the cq_user, for SRQ_LIMIT_REACHED the srq_user.
	 */
	void (*async_event)(void *ctx, enum rnic_event event, void *object_user);
	/* Brings in the pages of on-demand memory that is about to be touched; false: they are not
	 * to be had, or not to be written. As long as the touch itself would, it may take. May be
	 * NULL: all memory is there. */
	bool (*page_in)(void *ctx, void *p, size_t len, bool write);
	/* May be NULL. A queue pair's retries have run out at a packet as long as the path MTU, or
	 * a READ's response that is, and none such was ever acknowledged on it, but shorter ones
	 * were: something on the way takes less. */
	void (*mtu_suspected)(void *ctx, uint32_t qpn, uint32_t mtu);
	/* May be NULL. A queue pair fails for another reason than that its application wants it. */
	void (*qp_failed)(void *ctx, const struct rnic_failure *f);
	/* May be NULL. A typed trace event of rnic/trace.def. */
	void (*trace)(void *ctx, int event, uint32_t qpn, uint64_t a, uint64_t b);
};

struct rnic_config {
	uint8_t slot; /* bits 23:16 of every QPN of this instance, 1-255 */
	/* Outstanding unacknowledged payload a QP may have on the way (requests it sends, or READ
	 * responses it asks for), so that a peer's socket buffer is never run over. 0: default. */
	uint32_t window_bytes;
	/* The same for all QPs that send to one peer's socket, and for all READ responses that
	 * come to ours: what a socket's buffer holds. A QP with little on the way may exceed it. 0:
	 * default. */
	uint32_t socket_bytes;
	/* What a QP sends in its turn, and at once at a rate: on a line without buffers little. And
	 * what of a READ it asks for at once, at most. 0: default; by the window. */
	uint32_t turn_bytes, ask_bytes;
	/* So many queue pairs, and so many regions and windows, there is room for, at least; where
	 * a process has many cores. 0: RNIC_MAX_QPS, RNIC_MAX_KEYS. */
	uint32_t max_qps, max_keys;
	/* Where to count, so that others can look: zeros, of which nothing is ever read. A queue
	 * pair has a row while it lives, as long as there are some left. NULL, 0: where nobody
	 * sees it. */
	struct rnic_counters *counters;
	struct rnic_qp_row *qp_rows;
	uint32_t qp_rows_max;
	/* By its number: is an event traced at present? Another thread may change it at any time.
	 * NULL: all are, if there is an upcall for it. */
	const uint64_t *traced;
	/* Of each QP whose address brings none: rnic/cc/cc.h. NULL: by delay where it repeats
	 * selectively with another host, else halving; the defaults. */
	const struct cc_ops *cc;
	const struct cc_params *cc_params; /* borrowed for the call */
};

struct rnic_counters { /* one line each in rnic/counters.def, which also documents them */
#define X(name, unit, text) uint64_t name;
#include "rnic/counters.def"
#undef X
};

struct rnic_qp_row { /* the same, of one queue pair, behind what it is like: rnic/qp_shown.def */
#define X(name, unit, text) uint64_t name;
#include "rnic/qp_shown.def"
#undef X
#define X(name, unit, text)
#define Q(name, unit, text) uint64_t name;
#include "rnic/counters.def"
#undef X
};

int rnic_create(struct rnic **ret, const struct rnic_config *, const struct rnic_ops *,
		void *ctx) must_use;
/* Every object must be destroyed before. */
void rnic_destroy(struct rnic *);
const struct rnic_counters *rnic_counters(const struct rnic *);

/* ---- packets and time ----------------------------------------------------------------------- */

/* Was it one that nobody but the peer could have sent? So is what a connected queue pair took in
 * its sequence. Not so a datagram, which is anybody's, nor what was dropped or is repeated. */
bool rnic_rx(struct rnic *, const struct packet_rx *, uint64_t now);

/* Fills up to max packets in the order they must leave, borrowed until the next call on this rnic;
 * fewer than max means nothing more is to be sent now. Fair among QPs in bursts of one window or
 * turn_bytes. */
size_t rnic_tx(struct rnic *, struct packet_tx *pkts, size_t max, uint64_t now);
/* Is there anything for rnic_tx to send? */
bool rnic_tx_pending(const struct rnic *);
/* May what was posted since the last rnic_tx() wait for company? It is little, and each of it is
 * behind something of its QP that the peer still has to answer, or more is going to be posted. */
bool rnic_tx_can_wait(const struct rnic *, bool more);
/* Is there something to send, and nothing but acknowledgements of WRITEs that were one packet each
 * and completed nothing here? */
bool rnic_tx_only_acks(const struct rnic *);
/* The connections of these priorities (flow_priority(), a bit each) send nothing until another call
 * says that they may: what pauses of the link are for (IEEE 802.1Q, clause 36). */
void rnic_hold(struct rnic *, uint8_t priorities);
/* When rnic_tick must next be called, DEADLINE_NEVER for never. */
uint64_t rnic_next_deadline(const struct rnic *);
void rnic_tick(struct rnic *, uint64_t now);

/* ---- protection domains, memory regions, windows -------------------------------------------- */

int rnic_pd_create(struct rnic *, struct rnic_pd **ret) must_use;
int rnic_pd_destroy(struct rnic_pd *) must_use; /* -EBUSY while anything lives in it */
/* For what lives in it without the core's knowledge. */
void rnic_pd_get(struct rnic_pd *);
void rnic_pd_put(struct rnic_pd *);

/* Registers [addr, addr+length) to be reached as [iova, iova+length). access: enum rnic_access.
 * -EINVAL for remote write or atomic without local write, or a range that wraps. */
int rnic_mr_create(struct rnic_pd *, void *addr, size_t length, uint64_t iova, uint32_t access,
		   struct rnic_mr **ret) must_use;
/* A region of all addresses: it reads as zeros, and what is written to it is gone. Verbs have it
 * for local use; a simulation has no other memory. access: as above, no atomics. */
int rnic_mr_create_null(struct rnic_pd *, uint32_t access, struct rnic_mr **ret) must_use;
int rnic_mr_destroy(struct rnic_mr *) must_use; /* -EBUSY while windows are bound to it */

struct rnic_mr_attr {
	struct rnic_pd *pd;
	void *addr;
	size_t length;
	uint64_t iova;
	uint32_t access;
};

void rnic_mr_query(const struct rnic_mr *, struct rnic_mr_attr *ret);
/* Makes it another region under its present keys; what is on the way by these meets the new one.
 * -EINVAL as for creation, or for a null region; -EBUSY while windows are bound to it. */
int rnic_mr_rereg(struct rnic_mr *, const struct rnic_mr_attr *) must_use;
/* Where an on-demand region has [va, va+len), for bringing it in ahead of use. -ENOENT: the key is
 * of no such region; -EPERM: of another PD, or not to be written; -EFAULT: out of its range. */
int rnic_mr_locate(const struct rnic_pd *, uint32_t lkey, uint64_t va, size_t len, bool write,
		   void **ret) must_use;
uint32_t rnic_mr_lkey(const struct rnic_mr *);
uint32_t rnic_mr_rkey(const struct rnic_mr *); /* equals the lkey */

/* Both types are bound by a work request and are good for peers only.
 *   type 1   of the PD: through any QP of it; bound anew, or with a length of 0 unbound, as often
 *            as one likes
 *   type 2B  of the QP that bound it, until it is invalidated, locally or by the peer's SEND */
enum rnic_mw_type { RNIC_MW_TYPE_1 = 1, RNIC_MW_TYPE_2 };

int rnic_mw_create(struct rnic_pd *, enum rnic_mw_type, struct rnic_mw **ret) must_use;
int rnic_mw_destroy(struct rnic_mw *) must_use;
uint32_t rnic_mw_rkey(const struct rnic_mw *);

/*
 * Queues in the caller's memory. Each starts in memory of ops->alloc; rnic_*_use_mem() moves it to
 * mem, which is RNIC_MEM_ALIGNed, has what rnic_*_mem_size() says and stays the caller's, who keeps
 * it until the object is gone or has been resized: then the queue is in memory of ops->alloc again.
 */
#define RNIC_MEM_ALIGN 64

/* ---- completion queues ---------------------------------------------------------------------- */

struct rnic_wc { /* layout of struct ibv_wc */
	uint64_t wr_id;
	uint32_t status; /* enum rnic_wc_status */
	uint32_t opcode; /* enum rnic_wc_opcode */
	uint32_t vendor_err;
	uint32_t byte_len;
	uint32_t imm_or_rkey; /* immediate in network order, or the invalidated rkey */
	uint32_t qp_num;
	uint32_t src_qp;
	uint32_t wc_flags;
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
};

int rnic_cq_create(struct rnic *, uint32_t cqe, void *cq_user, struct rnic_cq **ret) must_use;
int rnic_cq_destroy(struct rnic_cq *) must_use;		     /* -EBUSY while a QP uses it */
int rnic_cq_resize(struct rnic_cq *, uint32_t cqe) must_use; /* -EINVAL if more are in it */
uint32_t rnic_cq_capacity(const struct rnic_cq *);
int rnic_cq_poll(struct rnic_cq *, struct rnic_wc *wc, int max); /* the number taken */
bool rnic_cq_empty(const struct rnic_cq *);
size_t rnic_cq_mem_size(const struct rnic_cq *);
void rnic_cq_use_mem(struct rnic_cq *, void *mem);
/* When the completion polled last came: the time of the entry that brought it. */
uint64_t rnic_cq_polled_at(const struct rnic_cq *);
/* A completion that finds the CQ full takes the place of the oldest, and nobody is told. */
void rnic_cq_ignore_overrun(struct rnic_cq *);
/* On an armed CQ cq_notify is called after `count` completions that would have called it, or
 * period_ns after the first of them, and for a failed one at once. Either 0: at every one. */
void rnic_cq_moderate(struct rnic_cq *, uint32_t count, uint64_t period_ns);
/* Arms: the next completion (solicited_only: the next solicited or failed one) calls cq_notify.
 * Entries already in the CQ do not count: poll once more after arming. */
void rnic_cq_arm(struct rnic_cq *, bool solicited_only);
/* The same, but entries that are there call cq_notify at once, as on mlx5 (rnic/cq.c). */
void rnic_cq_arm_or_notify(struct rnic_cq *, bool solicited_only);

/* ---- queue pairs ---------------------------------------------------------------------------- */

struct rnic_qp_cap {
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data;
};

struct rnic_qp_init {
	enum rnic_qp_type type;
	struct rnic_cq *send_cq; /* not of an XRC target */
	struct rnic_cq *recv_cq; /* not of XRC */
	struct rnic_srq *srq;	 /* or NULL: it has a receive queue of its own, if any */
	struct rnic_xrcd *xrcd;	 /* XRC target */
	enum rnic_mtu path_mtu;	 /* UD: the longest message, the port's MTU */
	struct rnic_qp_cap cap;	 /* rounded up in place to what was given */
	bool sq_sig_all;
	bool deaf_to_itself; /* UD: gets no copy of what it sends to groups itself */
	void *qp_user;
};

struct rnic_qp_attr {
	enum rnic_qp_state state, cur_state;
	uint32_t path_mtu; /* enum rnic_mtu */
	uint32_t rq_psn, sq_psn, dest_qpn;
	uint32_t access_flags;
	uint32_t qkey;
	struct flow flow; /* the address vector, resolved: both GIDs, sport, tos, ttl, label */
	/* Of the address as well, and what counts is what INIT -> RTR said: its congestion control.
	 * Parameters stay where they are for as long as the QP has them. NULL: the instance's. */
	const struct cc_ops *cc;
	const struct cc_params *cc_params;
	uint16_t pkey_index;
	uint8_t port_num;
	uint8_t max_rd_atomic, max_dest_rd_atomic;
	uint8_t min_rnr_timer; /* RNR timer code */
	uint8_t timeout;       /* 4.096 us * 2^n, 0 infinite */
	uint8_t retry_cnt, rnr_retry;
	bool sq_draining;
	bool en_sqd_async_notify;
};

/* An XRC target has no protection domain: NULL. */
int rnic_qp_create(struct rnic_pd *, struct rnic_qp_init *, struct rnic_qp **ret) must_use;
/* Takes its completions out of its CQs, as adapters do; but those of an XRC target's receives. */
int rnic_qp_destroy(struct rnic_qp *) must_use; /* -EBUSY while attached to a group */
uint32_t rnic_qp_num(const struct rnic_qp *);
size_t rnic_qp_mem_size(const struct rnic_qp *); /* of both its queues */
void rnic_qp_use_mem(struct rnic_qp *, void *mem);
void rnic_qp_set_user(struct rnic_qp *, void *qp_user); /* whose events are from now on */
void *rnic_qp_user(const struct rnic_qp *);
/* By the standard's table of transitions: -EINVAL for an illegal transition, a missing or a
 * forbidden attribute; then nothing has changed. ERR flushes at once; RESET takes the QP's
 * completions out of its CQs. */
int rnic_qp_modify(struct rnic_qp *, const struct rnic_qp_attr *, uint32_t mask,
		   uint64_t now) must_use;
/* The process at the other end has ended without a word: to ERR, with a cause of its own if what it
 * sent until then has come. */
void rnic_qp_peer_died(struct rnic_qp *, uint64_t now);
/* The attributes that a change of state calls for, and allows besides; false: there is no such. */
bool rnic_qp_transition(enum rnic_qp_type type, enum rnic_qp_state from, enum rnic_qp_state to,
			uint32_t *ret_required, uint32_t *ret_optional);
/* Both ends have agreed to repeat what is lost, and no more. In RESET or INIT, and until the next
 * RESET. What stands in each packet from then on is what the receiver of it chose: its tag, which
 * nobody else knows. -EINVAL: in another state; -EOPNOTSUPP: not this service; -ENOMEM. */
int rnic_qp_repeat_selectively(struct rnic_qp *, uint16_t peer_tag) must_use;
bool rnic_qp_repeats_selectively(const struct rnic_qp *);
/* Ours, until the next RESET. */
uint16_t rnic_qp_tag(struct rnic_qp *);
/* The PSNs are those expected and sent next, once the QP has set out from the ones it was given. */
void rnic_qp_query(const struct rnic_qp *, struct rnic_qp_attr *ret, struct rnic_qp_cap *ret_cap);

/* UD: from now on takes what is sent to the group on this interface (the scope of such flows). What
 * was attached already stays so. ret_first: no QP of the rnic was before, and the port must join
 * the group; ret_last: none is any more. -EINVAL: not UD, no group's address; not attached. */
int rnic_qp_attach(struct rnic_qp *, const struct gid *group, uint32_t scope,
		   bool *ret_first) must_use;
int rnic_qp_detach(struct rnic_qp *, const struct gid *group, uint32_t scope,
		   bool *ret_last) must_use;

struct rnic_sge { /* layout of struct ibv_sge */
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

struct rnic_send_wr {
	uint64_t wr_id;
	const struct rnic_sge *sge; /* copied; with INLINE the bytes are copied too, lkeys unread */
	uint32_t num_sge;
	uint32_t opcode;      /* enum rnic_wr_opcode */
	uint32_t flags;	      /* enum rnic_send_flags */
	uint32_t imm_or_rkey; /* immediate in network order, or the rkey to invalidate */
	uint64_t remote_addr; /* RDMA and atomics */
	uint32_t rkey;
	uint32_t xrc_srqn;		 /* XRC */
	uint64_t compare_add, swap;	 /* atomics */
	struct {			 /* UD */
		const struct flow *flow; /* copied; sport is not looked at */
		uint32_t qpn;
		uint32_t qkey; /* with the high bit set: the QP's own */
	} ud;
	struct { /* BIND_MW */
		struct rnic_mw *mw;
		uint32_t rkey;	    /* the new rkey: same index, new low byte */
		struct rnic_mr *mr; /* NULL, with type 1: unbind */
		uint64_t addr, length;
		uint32_t access;
	} bind;
};

struct rnic_recv_wr {
	uint64_t wr_id;
	const struct rnic_sge *sge;
	uint32_t num_sge;
};

/* -ENOMEM when the queue is full, -EINVAL for a bad state, opcode, sge count or inline length, or
 * for UD without an address.
 * In ERR a post is taken and flushed. Nothing is sent before rnic_tx. */
int rnic_post_send(struct rnic_qp *, const struct rnic_send_wr *, uint64_t now) must_use;
/* What rnic_post_send() would say of it after so many others, if nothing happens in between. */
int rnic_post_send_check(const struct rnic_qp *, const struct rnic_send_wr *,
			 uint32_t behind) must_use;
int rnic_post_recv(struct rnic_qp *, const struct rnic_recv_wr *) must_use;

/* ---- shared receive queues ------------------------------------------------------------------ */

struct rnic_srq_attr {
	uint32_t max_wr, max_sge;
	/* Armed while not 0: the first time fewer receives than this are left, the event
	 * SRQ_LIMIT_REACHED comes and the limit is 0 again. */
	uint32_t limit;
};

/* Takes max_wr and max_sge, rounded up in place; the limit is not looked at. */
int rnic_srq_create(struct rnic_pd *, struct rnic_srq_attr *, void *srq_user,
		    struct rnic_srq **ret) must_use;
int rnic_srq_destroy(struct rnic_srq *) must_use; /* -EBUSY while a QP uses it */
/*
 * Of an XRC domain: reached through the domain's target QPs, by its number, and completing in a CQ
 * of its own. What its messages may reach in memory its protection domain says. Destroying it takes
 * the receive of a message that is arriving along.
 */
int rnic_xrc_srq_create(struct rnic_pd *, struct rnic_srq_attr *, struct rnic_xrcd *,
			struct rnic_cq *, void *srq_user, struct rnic_srq **ret) must_use;
uint32_t rnic_srq_num(const struct rnic_srq *); /* 0: it has none, not being of XRC */
/* -EINVAL for a limit above max_wr. A limit above what is posted is reached at once. */
int rnic_srq_set_limit(struct rnic_srq *, uint32_t limit) must_use;
int rnic_srq_resize(struct rnic_srq *, uint32_t max_wr) must_use; /* -EINVAL if more are in it */
/* Both at once, or, when it fails, neither. */
int rnic_srq_modify(struct rnic_srq *, uint32_t max_wr, uint32_t limit) must_use;
void rnic_srq_query(const struct rnic_srq *, struct rnic_srq_attr *ret);
size_t rnic_srq_mem_size(const struct rnic_srq *);
void rnic_srq_use_mem(struct rnic_srq *, void *mem);
/* -ENOMEM when it is full, -EINVAL for too many SGEs. */
int rnic_post_srq_recv(struct rnic_srq *, const struct rnic_recv_wr *) must_use;

/* ---- XRC domains (IBA volume 1, annex A14) -------------------------------------------------- */

int rnic_xrcd_create(struct rnic *, struct rnic_xrcd **ret) must_use;
int rnic_xrcd_destroy(struct rnic_xrcd *) must_use; /* -EBUSY while a target or an SRQ is in it */

#endif
