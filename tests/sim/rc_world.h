/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The world of sim_rc: nodes on a simulated wire, pairs of connected QPs, a random workload on
 * each, and a model of what memory and completions must come to.
 *
 * Everything a side sends is chosen when it is posted, and so is what must follow from it:
 *   - the bytes a SEND, WRITE or READ carries are copied then and compared when it completes;
 *   - each side owns a target in its node's memory that its peer alone writes, and a model of it;
 *     `owner` holds the number of the last WRITE posted to each byte, so that a completed WRITE,
 *     or a READ of the target, can be judged while later ones are under way;
 *   - counters of a node are added to by everybody; their sum must be exact;
 *   - a word for compare-and-swap has one user, whose operations are in order.
 * Some pairs are of XRC: each side has an initiator, and a target with an SRQ that only its peer
 * sends to, in the domain of its node.
 * Work requests complete once, in order, and say what was posted; or the QP ends in error, which
 * is right only where something was done to it, or the wire loses packets.
 */
#ifndef WEFT_TESTS_SIM_RC_WORLD_H
#define WEFT_TESTS_SIM_RC_WORLD_H

#include "base/units.h"
#include "fabric/node.h"
#include "rnic/rnic.h"

#define NODES_MAX     3
#define PAIRS_MAX     4
#define COUNTERS      4
#define ARENA_BYTES   (512u << 10)
#define SGE_MAX	      8u
#define GUARD_BYTE    0xe7
#define TIME_LIMIT    (300 * NSEC_PER_SEC)
#define AMBIGUOUS_MAX 64

struct rc_world;
struct side;

enum mischief {
	MISCHIEF_NONE,
	MISCHIEF_BAD_RKEY,     /* a key that never was */
	MISCHIEF_STALE_RKEY,   /* of a region that is gone */
	MISCHIEF_OUT_OF_RANGE, /* one byte beyond the region */
	MISCHIEF_NO_RIGHT,     /* WRITE to a region that may only be read */
	MISCHIEF_MISALIGNED,   /* an atomic */
	MISCHIEF_FOREIGN_PD,   /* a region of another PD */
	MISCHIEF_LOCAL_KEY,    /* an lkey that never was */
	MISCHIEF_WRONG_UNBIND, /* LOCAL_INV of a region's key */
	MISCHIEF_RECV_SHORT,   /* a RECV shorter than what comes */
	/* up to here the request with it fails for certain; from here on something may */
	MISCHIEF_DEREG_SOURCE,	/* the region of a WR goes while it is under way */
	MISCHIEF_DEREG_LANDING, /* of a READ's destination */
	MISCHIEF_DEREG_REMOTE,	/* of a READ's source */
	MISCHIEF_TO_ERR,	/* the consumer moves the QP to ERR */
	MISCHIEF_TO_RESET,
	MISCHIEF_DESTROY,     /* or destroys it */
	MISCHIEF_VANISH,      /* a node dies */
	MISCHIEF_CQ_OVERFLOW, /* nobody polls a CQ that is too small */
	MISCHIEFS
};

/* Memory of one WR: its own buffer with guards around every piece, and its own region. */
struct landing {
	uint8_t *buf;
	size_t size;
	struct rnic_mr *mr;
	struct rnic_sge sge[SGE_MAX];
	uint32_t nsge, len;
};

struct wr_rec {
	struct wr_rec *next;
	uint64_t id;
	uint32_t opcode, len;
	bool signaled;
	bool doomed;	  /* must not succeed */
	bool remote_gone; /* what it reads went while it was under way */
	uint32_t doomed_status;
	uint8_t *data;	      /* what it carries or must fetch */
	struct landing *land; /* READ, atomics */
	uint32_t target_off;  /* in the peer's target; UINT32_MAX: elsewhere */
	uint32_t write_seq;   /* of a WRITE; of a READ: the last WRITE before it */
	uint32_t counter;     /* fetch and add */
	uint64_t add, found;  /* compare and swap: what it must find */
	bool through_window;
	struct landing *source; /* with a region of its own */
};

struct recv_rec {
	struct recv_rec *next;
	uint64_t id;
	struct landing *land;
	bool doomed;
};

/* A message that will take a RECV at the side it is queued at. */
struct msg_rec {
	struct msg_rec *next;
	uint32_t len;
	uint8_t *data; /* NULL: a WRITE with immediate, whose bytes go to the target */
	uint32_t flags, imm_or_rkey;
	bool is_write;
};

enum window_state { WINDOW_IDLE, WINDOW_BINDING, WINDOW_BOUND, WINDOW_RECALLED, WINDOW_UNBINDING };

struct side {
	struct rc_world *w;
	struct side *peer;
	int index, node;
	struct rnic_qp *qp; /* XRC: the initiator */
	uint32_t qpn;
	bool xrc;
	struct rnic_qp *xrc_target;
	struct rnic_srq *xrc_srq;
	struct rnic_cq *scq, *rcq; /* may be one */
	bool srq;		   /* receives from its node's */
	uint32_t last_wqe_events;
	struct rnic_qp_cap cap;

	uint8_t *target; /* in my node, written by the peer */
	uint32_t target_len;
	uint64_t target_iova;
	struct rnic_mr *target_mr, *cas_mr;
	uint8_t *model;
	uint16_t *owner;
	uint32_t write_seq; /* WRITEs the peer has posted to it */
	uint64_t *cas_word; /* in my node, used by the peer */
	uint64_t cas_model;

	struct rnic_mw *mw; /* on my target */
	enum window_state window;
	uint32_t window_rkey, window_off, window_len, window_refs;
	bool window_zero_based;
	bool window_type1;

	struct wr_rec *sends, **sends_tail;
	struct recv_rec *recvs, **recvs_tail;
	struct msg_rec *coming, **coming_tail;
	uint32_t nsends, nrecvs, ncoming;
	uint64_t next_send_id, next_recv_id;
	uint32_t to_post;
	uint64_t next_action_ns, action_gap_ns;

	enum mischief mischief;
	uint32_t mischief_at;	 /* when so many are left to post */
	struct wr_rec *betrayed; /* its memory goes at the next action */
	struct landing *betrayed_remote;
	uint32_t unsignaled;
	bool send_failed, recv_failed, cq_overflowed;
	bool gave_up; /* for nothing but the wire */
	bool gone;    /* its QP was reset or destroyed, or its CQ ran over, or its node died */
	uint32_t first_status;
	uint64_t done_sends, done_recvs;
};

struct rc_node {
	struct rc_world *w;
	int index;
	struct node *node;
	struct rnic *rnic;
	struct rnic_pd *pd, *other_pd;
	struct rnic_xrcd *xrcd;
	struct prng keys; /* the core's random numbers */
	uint8_t *arena;	  /* never changes */
	struct rnic_mr *arena_mr, *foreign_mr;
	struct rnic_mr *half_mr; /* the arena's upper half */
	uint64_t *counters;
	struct rnic_mr *counters_mr;
	uint64_t counted[COUNTERS];
	uint64_t ambiguous[COUNTERS][AMBIGUOUS_MAX];
	uint32_t nambiguous[COUNTERS];
	bool vanished;
	uint8_t slot;
	struct rnic_srq *srq; /* for some of the sides that live here; its receives: */
	struct recv_rec *srq_recvs;
	uint32_t srq_max_wr, srq_max_sge;
	uint64_t next_srq_id;
};

struct rc_options {
	bool trace;
	bool one_host;	     /* the nodes are processes of one, whose packets go by memory */
	const char *capture; /* the file for the packets of all nodes, or NULL */
};

struct rc_world {
	uint64_t seed;
	struct fabric *fabric;
	struct link *link;
	struct prng *prng;
	struct link_nature wire;
	struct node_nature lags;
	bool lossy;
	bool big;
	uint32_t mtu, path_mtu;
	uint32_t max_len;
	uint8_t rd_atomic, rnr_retry, timeout;
	int nnodes, nsides;
	struct rc_node nodes[NODES_MAX];
	struct side sides[2 * PAIRS_MAX];
	uint64_t errors_allowed; /* bit per pair */
	bool trace, one_host;
	const char *capture;
};

struct totals {
	uint64_t seeds, sends, recvs, errors, gave_up, packets, lost, corrupted, duplicated,
		reordered, local;
	uint64_t virtual_ns, retransmitted, timeouts, rnr_naks, naks, probes, implied;
	uint64_t kept, sacks, marked, cnps;
};

_Noreturn void rc_world_fail(const struct rc_world *, const char *fmt, ...) printf_like(2, 3);
#define expect(w, cond, ...)                           \
	do {                                           \
		if (!(cond))                           \
			rc_world_fail(w, __VA_ARGS__); \
	} while (0)

/* rc_world.c */
void rc_world_open(struct rc_world *, uint64_t seed, const struct rc_options *);
void rc_world_close(struct rc_world *);
void rc_world_check_end(struct rc_world *);
struct rc_node *side_node(const struct side *);
bool pair_may_fail(const struct side *);
void pair_allow_errors(struct side *);
struct landing *landing_open(struct side *, uint32_t len, uint32_t max_sge, uint32_t access);
void landing_close(struct landing *);
void landing_check(const struct rc_world *, const struct landing *, const uint8_t *want,
		   uint32_t len, const char *what);

/* rc_load.c */
void side_act(struct side *);
/* Its work requests will get no completions. */
void side_forget(struct side *);
void atomic_ambiguous(struct side *, const struct wr_rec *);
/* rc_check.c */
void side_poll(struct side *);
bool side_done(const struct side *);
/* The QP is in ERR: everything posted must have completed. */
void side_check_flushed(struct side *);

#endif
