/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Inside the connection manager.
 *
 * An id is in one state; cm_set_state() is the only one to change it and holds the table of legal
 * steps. What a message does in a state is a table too (cm_rx.c). An id whose handle is gone is an
 * orphan: it makes no upcalls and is freed when it comes to rest in IDLE.
 *
 *   active:   IDLE -REQ-> REQ_SENT -rep-> REP_RCVD -RTU-> ESTABLISHED
 *   passive:  IDLE -req-> REQ_RCVD -REP-> REP_SENT -rtu-> ESTABLISHED
 *   both:     ESTABLISHED -DREQ-> DREQ_SENT -drep-> TIMEWAIT -> IDLE
 *             ESTABLISHED -dreq-> DREQ_RCVD -DREP-> TIMEWAIT -> IDLE
 *   datagrams: IDLE -SIDR_REQ-> SIDR_REQ_SENT -sidr_rep-> IDLE
 *              IDLE -sidr_req-> SIDR_REQ_RCVD -SIDR_REP-> TIMEWAIT -> IDLE
 *
 * In TIMEWAIT late messages of the connection still find it and are answered. It also follows a
 * rejection by or of the passive side and the answer to a SIDR_REQ, so that a repeated request does
 * not begin anything new.
 *
 * A passive side that has heard nothing since the REQ does not know whether there is anybody at its
 * address. What such an id sends besides answers is counted, and in DREQ_SENT it repeats its REJ.
 *
 * The upcall is the last thing that is done with an id: it may destroy it.
 */
#ifndef WEFT_CM_CM_PRIV_H
#define WEFT_CM_CM_PRIV_H

#include "base/heap.h"
#include "base/list.h"
#include "base/pace.h"
#include "base/handles.h"
#include "base/units.h"
#include "cm/cm.h"

#define CM_MAX_IDS	    (1u << 16)
#define CM_MEMORY_MAX	    4096 /* beyond, requests that came to nothing are not remembered */
#define CM_GEN_BITS	    16
#define CM_HASH_BUCKETS	    4096
#define CM_LISTENER_BUCKETS 256
#define CM_TX_MAX	    4096 /* MADs waiting; what comes beyond is lost, as on the wire */

#define CM_RESPONSE_TIMEOUT	  20 /* 4.3 s; as Linux cma.c has it */
#define CM_BRIEF_RESPONSE_TIMEOUT 8  /* 1 ms: an answer or an MRA, but no waiting */
#define CM_MAX_RETRIES		  15
#define CM_MRA_TIMEOUT		  24 /* 69 s; as Linux cma.c has it */
#define CM_METHOD_SEND		  3

/* What strangers may have of us, see cm_strangers.c. */
#define CM_UNHEARD_MAX	     5	  /* MADs to who has sent a REQ and nothing since */
#define CM_REP_REPEATS	     3	  /* of these; each waits twice as long as the one before */
#define CM_WAITING_MAX	     4096 /* requests that their consumer has not answered */
#define CM_WAITING_FROM	     512  /* of one source: half of the longest backlog */
#define CM_REPLIED_MAX	     4096 /* REPs to who was not heard of: the oldest goes */
#define CM_REPLIED_FROM	     1024
#define CM_HALF_OPEN_CALM    64	  /* beyond, who is not known is asked first */
#define CM_UNASKED_PER_SEC   100  /* requests of who is not known; CM_HALF_OPEN_CALM at once */
#define CM_REQS_FROM_PER_SEC 3000 /* requests of a source, known or not */
#define CM_SOURCES	     256  /* by hash */
#define CM_KNOWN	     1024
#define CM_KNOWN_NS	     (600 * NSEC_PER_SEC)
#define CM_ASKED	     256 /* requests that wait for the answer */
#define CM_ABSENT	     256
#define CM_ANSWERS_PER_SEC   5000
#define CM_ASKS_PER_SEC	     5000
#define CM_BURST	     1000

/* What REJ and MRA call the message that they answer. */
enum cm_msg_answered { CM_MSG_REQ, CM_MSG_REP, CM_MSG_OTHER };

struct cm_tx_entry {
	struct list list;
	struct flow flow;
	uint8_t mad[MAD_LEN];
};

/* A request whose sender has been asked whether he is there. */
struct cm_asked {
	uint64_t tid; /* of the question; 0: free */
	struct flow flow;
	uint8_t mad[MAD_LEN];
};

struct cm_known {
	struct gid gid;
	uint64_t until;
};

struct cm_id {
	struct cm *cm;
	struct list all;		   /* every id of the cm */
	struct list listening;		   /* cm->listeners */
	struct list by_peer, by_qpn;	   /* hash chains; empty when not hashed */
	struct list replied, replied_from; /* of the CM's that are half-open */
	uint32_t key, local_comm_id;	   /* of cm->handles, and scrambled */
	uint32_t remote_comm_id;	   /* 0: not known yet */
	uint32_t local_qpn, peer_qpn;
	uint8_t path_mtu;		/* of the REQ sent last */
	uint64_t local_guid, peer_guid; /* of the channel adapters */
	uint64_t tid;			/* of the REQ */
	uint64_t dreq_tid;		/* of the peer's DREQ */
	uint64_t question;		/* is the peer still there? its tid; 0: not asked */
	struct flow flow;		/* towards the peer */
	void *user;
	enum cm_state state;
	bool active; /* we sent the REQ */
	bool sidr;   /* no connection: the comm ids are request ids */
	bool xrc;
	bool orphan;	      /* the handle is gone */
	bool was_up;	      /* has been ESTABLISHED, or was so for the peer */
	bool quiet;	      /* the consumer has been told of the end already */
	bool hurried;	      /* DREQ is repeated in short, growing intervals */
	bool died;	      /* DREQ says CM_DREQ_DIED */
	bool brief;	      /* the REQ is given up soon, see cm_brief.c */
	bool heard;	      /* the peer has said our comm id: it is where its address says */
	bool waiting;	      /* for the consumer's answer, and counted */
	bool memory;	      /* of a request that came to nothing, in TIMEWAIT */
	uint8_t unheard_sent; /* MADs to a passive side's peer that were not answers */

	struct timer timer; /* what for says the state */
	uint64_t wait_ns, timewait_ns;
	uint64_t memory_ns; /* how long a rejected REQ is remembered */
	uint8_t tries_left, retries;

	enum cm_attr_id last_attr; /* 0: none */
	uint8_t last[MAD_LEN]; /* the REQ, REP, RTU or REJ sent last: repeated when asked again */

	uint64_t service_id, mask; /* LISTEN; the former also SIDR_REQ_RCVD */
	bool (*match)(void *user, const uint8_t *private_data, uint32_t scope);
};

struct cm {
	struct cm_ops ops;
	void *ctx;
	struct handle_place *places;
	struct handles handles;
	uint32_t scramble[4];
	uint64_t hash_seed;
	struct list by_peer[CM_HASH_BUCKETS]; /* passive ids by the peer's comm id */
	struct list by_qpn[CM_HASH_BUCKETS];  /* connections that were up, by the peer's QPN */
	struct list ids;
	struct list listeners[CM_LISTENER_BUCKETS]; /* of one service each */
	struct list listeners_masked;		    /* of many */
	struct list tx, tx_free;
	uint32_t tx_count;
	struct timer_heap timers;
	struct cm_counters *counters, own_counters;
	uint64_t now;	      /* of the call that is being served */
	uint64_t heir_until;  /* connections may come yet of which others speak already */
	uint64_t dreqs_until; /* a peer may ask again whose DREP was lost, or DEADLINE_NEVER */

	/* cm_strangers.c */
	struct list replied; /* and not heard of; oldest first */
	struct list replied_from[CM_SOURCES];
	uint32_t replied_count, replied_from_count[CM_SOURCES];
	uint32_t waiting_count, waiting_from_count[CM_SOURCES]; /* for their consumer */
	uint32_t memories;
	struct pace answers, asks, unasked, from[CM_SOURCES];
	struct cm_known known[CM_KNOWN];
	struct cm_asked asked[CM_ASKED];
	uint32_t next_asked;

	struct cm_known absent[CM_ABSENT]; /* cm_brief.c; until 0: nobody */
};

/* ---- cm_table.c: ids, how they are found, and their state --------------------------------- */

struct cm_id *cm_id_new(struct cm *, void *user); /* IDLE; NULL without room */
/* With the number that another CM has given it. -EEXIST, -ENOMEM. */
int cm_id_new_as(struct cm *, void *user, uint32_t local_comm_id, struct cm_id **ret) must_use;
void cm_id_free(struct cm_id *); /* IDLE or LISTEN */
void cm_set_state(struct cm_id *, enum cm_state, uint64_t now);
struct cm_id *cm_find_local(const struct cm *, uint32_t local_comm_id);
struct cm_id *cm_find_peer(const struct cm *, uint64_t guid, const struct gid *, uint32_t comm_id);
struct cm_id *cm_find_sidr(const struct cm *, const struct gid *, uint32_t request_id);
struct cm_id *cm_find_qpn(const struct cm *, uint64_t guid, const struct gid *, uint32_t qpn);
void cm_hash_peer(struct cm_id *);
void cm_hash_qpn(struct cm_id *);
uint64_t cm_hash_gid(const struct cm *, const struct gid *);
struct list *cm_listeners(struct cm *, uint64_t service_id, uint64_t mask);
struct cm_id *cm_listener_of(const struct cm *, uint64_t service_id, const uint8_t *private_data,
			     uint32_t scope);
/* Those that wait for the consumer, and those that have their REP and were not heard of, are
 * counted: all, and of each of so many kinds of addresses. */
uint32_t cm_source_of(const struct cm *, const struct gid *);
void cm_half_open_begin(struct cm_id *);
void cm_half_open_end(struct cm_id *);

/* ---- cm_send.c: messages, time and events
 * --------------------------------------------------------------- */

/* 4.096 us * 2^code, at most a minute: the code may be a peer's. */
uint64_t cm_timeout_ns(uint8_t code);
/* Of a path's local ACK timeout. */
uint64_t cm_timewait_ns(uint8_t code);
void cm_msg_begin(struct cm_msg *, enum cm_attr_id, uint64_t tid);
void cm_send(struct cm *, const struct flow *, const struct cm_msg *);
void cm_send_keep(struct cm_id *, const struct cm_msg *); /* also the id's last message */
void cm_repeat_last(struct cm_id *);
void cm_send_rej(struct cm_id *, uint16_t reason, const void *ari, size_t ari_len,
		 const void *private_data, size_t private_len);
/* Private data of a message: length octets of data, and zeros. */
void cm_put_private(uint8_t *to, size_t room, const void *data, size_t length);
void cm_send_mra(struct cm_id *, uint8_t service_timeout);
void cm_send_dreq(struct cm_id *);
void cm_send_drep(struct cm_id *, uint64_t now);
void cm_arm_retries(struct cm_id *, uint64_t wait_ns, uint8_t retries, uint64_t now);
/* Ends a connection that the passive side gives up after it sent a REP: REJ, and because nobody
 * answers a REJ, DREQ until somebody answers that. */
void cm_abandon(struct cm_id *, uint16_t reason, const void *ari, size_t ari_len,
		const void *private_data, size_t private_len, uint64_t now);
void cm_start_dreq(struct cm_id *, bool hurried, uint64_t now);
/* The upcall, or the end of an orphan. The id must not be touched after it. */
void cm_emit(struct cm_id *, struct cm_event *);

/* ---- cm_stale.c: is the peer still there? -------------------------------------------------- */

/* A REQ or REP names the queue pair that this connection has for its peer's: the peer is asked. */
void cm_suspect(struct cm_id *, uint64_t now);
void cm_suspect_again(struct cm_id *, uint64_t now); /* the timer of an ESTABLISHED id */
/* The passive side's connection is up. What was up with that queue pair before is suspect. */
void cm_passive_up(struct cm_id *, uint64_t now);

/* ---- cm_strangers.c: what is done for whoever sends packets ------------------------------- */

/* May one more answer go to a stranger? */
bool cm_may_answer(struct cm *);
bool cm_may_ask(struct cm *);
/* A request may be taken in. If not, it may be given to cm_rx() once more later. */
bool cm_welcome(struct cm *, const struct flow *back, const uint8_t *mad, uint32_t their_id);
/* Was this DREP the answer to a question? Then the request is to be taken in. */
bool cm_welcome_after_all(struct cm *, const struct flow *back, uint64_t tid, struct flow *ret_flow,
			  uint8_t ret_mad[MAD_LEN]);
void cm_heard(struct cm_id *);
/* The oldest other one may have to go for it. */
void cm_half_open_replied(struct cm_id *);

/* ---- cm_brief.c: REQs that are given up soon ------------------------------------------------ */

/* A REQ has gone. */
void cm_brief_begin(struct cm_id *, uint64_t now);
/* The peer has given a sign of life. */
void cm_brief_heard(struct cm_id *);
/* How long to wait after the next repetition. */
uint64_t cm_brief_wait(const struct cm_id *);
/* It was repeated often enough. */
void cm_brief_over(struct cm_id *, uint64_t now);
/* There is somebody at that address. */
void cm_present(struct cm *, const struct gid *);

/* ---- cm_sidr.c: receiving --------------------------------------------------------------- */

/* back: towards the sender. */
void cm_rx_sidr_req(struct cm *, const struct flow *back, const struct cm_msg *, const uint8_t *mad,
		    uint64_t now);
void cm_rx_sidr_rep(struct cm *, const struct flow *back, const struct cm_msg *, uint64_t now);

#endif
