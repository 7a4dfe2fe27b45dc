/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Queue pairs, shared receive queues, XRC domains, address handles. */
#ifndef WEFT_VERBS_QP_H
#define WEFT_VERBS_QP_H

#include "base/list.h"
#include "verbs/face.h"
#include "verbs/private.h"

struct wr_stage;
struct xrc_domain;
struct face_cq;

struct face_xrcd { /* a domain as opened once */
	struct ibv_xrcd ibv;
	struct xrc_domain *domain;
	struct rnic_xrcd *core; /* the domain's */
	atomic_uint users;	/* QPs and SRQs made through it */
};

struct face_qp {
	union { /* ibv_qp is the first part of ibv_qp_ex */
		struct ibv_qp ibv;
		struct ibv_qp_ex ex;
	};
	struct rnic_qp *core;
	struct shard *shard;
	struct list live;	   /* of all QPs of the process */
	struct event_source async; /* in the context's pipe: marked by type */
	struct ibv_ah_attr ah;	   /* as last given to ibv_modify_qp */
	bool sq_sig_all;
	struct queue_mem mem;
	struct wr_stage *stage;		 /* the ibv_wr_* interface; NULL when not asked for */
	struct face_xrcd *xrcd;		 /* XRC target */
	weft_stream_ended *stream_ended; /* under the shard's lock; NULL: it has no stream */
	void *stream_arg;
	struct list openers; /* those that ibv_open_qp made of it: a ring of one core */
};

struct face_srq {
	struct ibv_srq ibv;
	struct rnic_srq *core;
	struct queue_mem mem;
	struct shard *shard;
	struct face_xrcd *xrcd;	   /* NULL: not of XRC */
	struct event_source async; /* in the context's pipe: marked by type */
};

struct face_ah {
	struct ibv_ah ibv;
	struct flow flow;
	struct rnic_pd *pd; /* which stays as long */
};

/* An address vector becomes a flow: RoCE needs the GRH, and a local GID that is there. -EINVAL. */
int resolve_flow(const struct ibv_ah_attr *, const struct broker_device *, uint32_t lqpn,
		 uint32_t rqpn, struct flow *ret) must_use;

static inline struct face_ah *face_ah(struct ibv_ah *ah)
{
	return container_of(ah, struct face_ah, ibv);
}

static inline struct face_xrcd *face_xrcd(struct ibv_xrcd *x)
{
	return container_of(x, struct face_xrcd, ibv);
}

static inline struct face_srq *face_srq(struct ibv_srq *srq)
{
	return container_of(srq, struct face_srq, ibv);
}

static inline struct face_qp *face_qp(struct ibv_qp *qp)
{
	return container_of(qp, struct face_qp, ibv);
}

/* "RTS" */
const char *qp_state_name(enum ibv_qp_state);
/* A work request that call refuses. The shard's lock is held; the line waits for nobody. */
void face_log_post(const struct face_qp *, const char *call, uint64_t wr_id, int error);
/* Sends were posted; with the shard's lock held. */
void qp_posted(const struct face_qp *);

/* In a forked child. */
void mcast_forked(void);
void xrc_forked(void);

/* ---- qp_live.c: all of the process ----------------------------------------------------------- */

void qp_live_add(struct face_qp *);
void qp_live_remove(struct face_qp *);
/* What is found lives until it is unlocked. */
void qp_live_lock(void);
void qp_live_unlock(void);
void qp_live_add_locked(struct face_qp *);
/* With the lock held: the XRC target of this number in the domain; the queue pair of iWARP of this
 * number. NULL: there is none. */
struct face_qp *qp_find_target(const struct xrc_domain *, uint32_t qpn);
struct face_qp *qp_find_iwarp(uint32_t qpn);
/* The peer of the QP with this number is gone: as ibv_modify_qp() to ERR. Harmless if there is
 * none. */
void qp_peer_died(struct shard *, uint32_t qpn);

/* The interface of the context's device is gone: all its QPs go to ERR. */
void qp_device_gone(struct ibv_context *);

void qp_forked(void);

/* ---------------------------------------------------------------------------------------------- */

/* srq.c; with a domain and a CQ it is one of XRC. As ibv_create_srq(). */
struct ibv_srq *srq_create(struct ibv_pd *, struct ibv_srq_init_attr *, struct face_xrcd *,
			   struct face_cq *);

/* wr.c: sets up the ibv_wr_* interface of a QP. -ENOMEM. */
int wr_stage_create(struct face_qp *, const struct rnic_qp_cap *) must_use;
void wr_stage_destroy(struct face_qp *);

#endif
