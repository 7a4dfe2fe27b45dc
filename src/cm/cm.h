/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The InfiniBand connection manager for RC and XRC (IBA volume 1 chapter 12; message bits as in
 * Linux ibta_vol1_c12.h) as a sans-I/O state machine: MADs in, MADs out, `now` in. It covers REQ,
 * REP, RTU, REJ, MRA, DREQ, DREP with retries, duplicates, stale connections and timewait; and for
 * datagrams SIDR_REQ and SIDR_REP, by which a service's queue pair is asked for.
 *
 * It knows nothing of IP addresses or ports: private data are bytes (the IP CM header is
 * rdma_cm's, see wire/cm_ip.h), services are 64-bit ids.
 *
 * In the REP of an XRC target its queue pair's number stands in the place of an EE context's, as
 * Linux has it; here it is local_qpn in every case.
 *
 * One struct cm; the caller serialises. Upcalls may call back into the CM. Functions return 0 or
 * -errno; -EINVAL means that the id's state does not allow the call, and nothing has changed.
 *
 * What it does by itself: a REQ that is rejected for its path MTU (reason 26) is sent again with
 * the next less; a repeated REQ or REP is answered with what it was answered before, or with an MRA
 * while the consumer is thinking; messages about unknown connections are answered as the standard
 * says. A REQ or REP from a queue pair that a live connection has for its peer's is rejected
 * (reason 10), and the peer asked whether it has that connection still (cm_stale.c). How much is
 * done for whom nobody knows is bounded (cm_strangers.c). Who has another way to go is told soon
 * that nobody is there (cm_brief.c).
 */
#ifndef WEFT_CM_CM_H
#define WEFT_CM_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/cm_mad.h"
#include "wire/flow.h"

struct cm;
struct cm_id;

enum cm_event_type {
	CM_EV_REQ, /* id is new and belongs to the caller; listener says on what */
	CM_EV_REP, /* move the QP, then cm_rtu() */
	CM_EV_RTU, /* passive side is connected (RTU, or early data by cm_established()) */
	CM_EV_REJ, /* or found stale: rej is then of our own making */
	/* (SIDR_)REQ or REP went unanswered, or others' came in the way; the id is idle or in
	   timewait */
	CM_EV_TIMEOUT,
	CM_EV_DREQ,	     /* answer with cm_drep() */
	CM_EV_DISCONNECTED,  /* our DREQ was answered, or given up on: timewait begins */
	CM_EV_TIMEWAIT_EXIT, /* of a connection that was up: its QPN may be used again */
	CM_EV_SIDR_REQ,	     /* as REQ; answer with cm_sidr_rep_send() */
	CM_EV_SIDR_REP,	     /* the answer, whatever its status; the id is idle */
};

/* Where an id stands: cm_priv.h has the steps from one to the next. */
enum cm_state {
	CM_IDLE,
	CM_LISTEN,
	CM_REQ_SENT,
	CM_REQ_RCVD,
	CM_REP_SENT,
	CM_REP_RCVD,
	CM_ESTABLISHED,
	CM_DREQ_SENT,
	CM_DREQ_RCVD,
	CM_TIMEWAIT,
	CM_SIDR_REQ_SENT,
	CM_SIDR_REQ_RCVD,
	CM_STATES
};

struct cm_event {
	enum cm_event_type type;
	struct cm_id *id;
	struct cm_id *listener;	  /* REQ and SIDR_REQ only */
	const struct cm_req *req; /* the decoded message that caused it, of the type's kind */
	const struct cm_rep *rep;
	const struct cm_rej *rej;
	const struct cm_sidr_req *sidr_req;
	const struct cm_sidr_rep *sidr_rep;
	const uint8_t *private_data; /* of that message */
	size_t private_len;
	bool unanswered;  /* DISCONNECTED: our DREQ was given up on */
	struct flow flow; /* of the id's packets: sgid ourselves, dgid the peer */
};

struct cm_counters { /* one line each in cm/counters.def, which also documents them */
#define X(name, unit, text) uint64_t name;
#include "cm/counters.def"
#undef X
};

/*
 * Begins the private data of a DREQ that is sent because the consumer's process ended without
 * disconnecting. Other CMs take no notice; weft's receiver knows from it that nothing will be heard
 * from that queue pair any more.
 */
#define CM_DREQ_DIED "weft: process died"

struct cm_ops {
	void *(*alloc)(void *ctx, size_t bytes); /* zeroed, or NULL */
	void (*free)(void *ctx, void *p);
	uint32_t (*random)(void *ctx);
	void (*event)(void *ctx, void *id_user, const struct cm_event *);
};

int cm_create(struct cm **ret, const struct cm_ops *, void *ctx) must_use;
/* Frees every id, too; nothing more is sent. */
void cm_destroy(struct cm *);
const struct cm_counters *cm_counters(const struct cm *);
/* From now on it counts in the caller's memory, so that others can look. */
void cm_count_in(struct cm *, struct cm_counters *);

/* A MAD of MAD_LEN bytes received on QP1. Was it one that nobody but the peer of a connection could
 * have sent, who knows our comm id? */
bool cm_rx(struct cm *, const struct flow *, const uint8_t *mad, uint64_t now);
/* Would cm_rx() reject this MAD as a (SIDR_)REQ to a service that nobody listens on? */
bool cm_unheard(const struct cm *, const struct flow *, const uint8_t *mad);
/* How soon the sender of a REQ wants to hear of it; of other MADs, for ever. */
uint64_t cm_patience_ns(const uint8_t *mad);
/* The next MAD to send and where to (flow->sgid ourselves); false when there is none. */
bool cm_tx(struct cm *, struct flow *ret_flow, uint8_t mad[MAD_LEN], uint64_t now);
uint64_t cm_next_deadline(const struct cm *);
void cm_tick(struct cm *, uint64_t now);
/* What the wire is still owed, or may ask for: a DREQ or REJ on the way, an answer to a DREQ that
 * is repeated because the first was lost. The broker lingers for it. */
size_t cm_busy(const struct cm *);

/* id_user goes with every event of the id; CM_EV_REQ carries the listener's. */
int cm_id_create(struct cm *, void *id_user, struct cm_id **ret) must_use;
void cm_id_set_user(struct cm_id *, void *id_user);
/* Ends whatever the id is in: a pending connection is rejected, a live one disconnected. The
 * handle is gone at once; what the wire still needs (retries, timewait) lives on inside. */
void cm_id_destroy(struct cm_id *, uint64_t now);
/* Ends an id whose (SIDR_)REQ was not answered yet as if the REQ had been lost: the peer repeats
 * it. */
void cm_id_forget(struct cm_id *);

/* The consumer was killed: what cm_id_destroy() then says to the peer carries CM_DREQ_DIED. */
void cm_id_died(struct cm_id *);
uint32_t cm_id_qpn(const struct cm_id *);      /* our QP of its connection */
uint32_t cm_id_peer_qpn(const struct cm_id *); /* 0: not known yet */
enum cm_state cm_id_state(const struct cm_id *);
/* Active side: what the REQ asked for at last. */
uint8_t cm_id_path_mtu(const struct cm_id *);

/* Listens on service_id under mask (a REQ or SIDR_REQ matches when (its id & mask) == service_id).
 * Of several matching listeners the first for which match() is true gets it; match may be NULL.
 * scope: that of the flow by which it came. */
int cm_listen(struct cm_id *, uint64_t service_id, uint64_t mask,
	      bool (*match)(void *id_user, const uint8_t *private_data, uint32_t scope)) must_use;
/* flow: sgid ourselves, dgid the peer, tos. Sends REQ; ids, transaction id, the response timeouts
 * and the number of retries are filled in by the CM. */
int cm_req_send(struct cm_id *, const struct flow *, const struct cm_req *,
		const void *private_data, size_t private_len, uint64_t now) must_use;
/* Before that: CM_EV_TIMEOUT comes soon if the peer gives no sign of life. */
void cm_id_brief(struct cm_id *);
/* Has a brief REQ found nobody there lately, and nothing come from there since? */
bool cm_absent(const struct cm *, const struct gid *peer, uint64_t now);
/* An ICMP error about a MAD to that peer, of which it quotes so much. */
void cm_unreachable(struct cm *, const struct gid *peer, const uint8_t *mad, size_t len,
		    uint64_t now);
int cm_rep_send(struct cm_id *, const struct cm_rep *, const void *private_data, size_t private_len,
		uint64_t now) must_use;
int cm_rtu(struct cm_id *, uint64_t now) must_use;
/* The passive side saw data before the RTU (IBV_EVENT_COMM_EST). */
int cm_established(struct cm_id *, uint64_t now) must_use;
int cm_reject(struct cm_id *, uint16_t reason, const void *ari, size_t ari_len,
	      const void *private_data, size_t private_len, uint64_t now) must_use;
/* Tells the peer at once that the answer takes up to 4.096 us * 2^service_timeout. */
int cm_mra(struct cm_id *, uint8_t service_timeout, uint64_t now) must_use;
int cm_dreq(struct cm_id *, uint64_t now) must_use;
int cm_drep(struct cm_id *, uint64_t now) must_use;
/* As cm_req_send(), with the request id filled in. */
int cm_sidr_req_send(struct cm_id *, const struct flow *, const struct cm_sidr_req *,
		     const void *private_data, size_t private_len, uint64_t now) must_use;
/* The answer, of any status; request and service id are filled in. Nothing follows it. */
int cm_sidr_rep_send(struct cm_id *, const struct cm_sidr_rep *, const void *private_data,
		     size_t private_len, uint64_t now) must_use;

/*
 * What another CM, in the place of one that has ended without a word, needs to know of an id to go
 * on where that was: cm_save.c. Bytes for whoever keeps it meanwhile; not to be believed blindly.
 */
struct cm_saved {
	uint32_t local_comm_id, remote_comm_id, local_qpn, peer_qpn;
	uint64_t local_guid, peer_guid, tid, dreq_tid, service_id;
	uint64_t wait_ns, timewait_ns, memory_ns;
	struct flow flow;
	uint8_t state, path_mtu, tries_left, retries, last_attr, unheard_sent;
	uint8_t active, sidr, xrc, was_up, quiet, hurried, heard, brief; /* 0 or not */
	uint8_t last[MAD_LEN];
};

void cm_id_save(const struct cm_id *, struct cm_saved *ret);
/* A listener comes back idle. -EINVAL: it was not saved so; -EEXIST: this id is there already;
 * -ENOMEM. */
int cm_id_restore(struct cm *, const struct cm_saved *, void *id_user, struct cm_id **ret,
		  uint64_t now) must_use;
/* Ends it without a word to anybody: another id takes its place. */
void cm_id_drop(struct cm_id *);
/* This CM follows another, before its first id is made. The numbers of ids come from a secret, 128
 * random bits: the other's. Messages about connections that we do not have are not answered for a
 * while: they may be restored yet. */
void cm_succeed(struct cm *, const uint64_t secret[2], uint64_t until);

#endif
