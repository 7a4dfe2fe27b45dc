/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * librdmacm: identifiers, their event channels and their queue pairs. The connection manager
 * itself is the broker's (broker/proto_cm.h); the library resolves addresses, moves queue pairs
 * and turns the broker's events into rdma_cm's.
 *
 * Identifiers are found by the broker's handle in one table; cma_lock guards the table. Calls on
 * one identifier are the application's to serialise, as rdma_cm(7) has it; but meanwhile another
 * thread may take its events, which move its queue pair and state, too. So:
 *  - the state is atomic, and changes by cma_move(), which names the state before, so that whoever
 *    comes second finds that it is not so any more; or to CLOSED, which is the last;
 *  - the queue pair is used between cma_qp_get() and cma_qp_put(), for which its end waits;
 *  - what has had the broker begin something leaves the identifier alone: another thread may have
 *    had the event, and destroyed it. Only of a synchronous one the caller has the events himself;
 *  - a request's identifier is in the table, for others to find, when nothing is missing of it.
 * Lock order: cma_lock, then an id's lock; neither is held across a call of the broker or of verbs.
 *
 * Functions that are not of the API return 0 or -errno.
 */
#ifndef WEFT_RDMACM_CMA_H
#define WEFT_RDMACM_CMA_H

#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/log.h"
#include "broker/proto_cm.h"
#include "verbs/transport.h"

/* What the wire leaves to the application (IBA chapter 12, less the IP header in a REQ). */
#define REQ_PRIVATE_MAX 56
#define REP_PRIVATE_MAX 196
#define REJ_PRIVATE_MAX 148
/* The same of datagrams. */
#define SIDR_REQ_PRIVATE_MAX 180
#define SIDR_REP_PRIVATE_MAX 136

/* Of an event: as much as its length can say. */
#define EVENT_PRIVATE_MAX 255

struct cma_device { /* one per verbs device ever used; opened once, and never closed */
	struct cma_device *next;
	struct ibv_context *verbs;
	struct ibv_pd *pd;     /* the default one of its ids; NULL until one is bound */
	struct ibv_xrcd *xrcd; /* the same of XRC; NULL until one asks */
	uint8_t max_initiator_depth, max_responder_resources;
};

struct cma_channel {
	struct rdma_event_channel api;
	uint32_t handle;
	pid_t owner; /* the broker knows the handle from; a child's of the same number is another */
	uint64_t number; /* of all that there have been */
	struct list node;
};

void cma_channel_show(struct cma_channel *c);
void cma_channel_hide(struct cma_channel *c);
/* False: it was destroyed since it had that number. */
bool cma_channel_is_there(const struct rdma_event_channel *channel, uint64_t number);

enum cma_state {
	CMA_IDLE,
	CMA_BOUND,
	CMA_LISTENING,
	CMA_RESOLVING_ADDR, /* the event is on its way */
	CMA_ADDR_RESOLVED,
	CMA_RESOLVING_ROUTE,
	CMA_ROUTE_RESOLVED,
	CMA_CONNECTING, /* active: from rdma_connect; passive: from rdma_accept */
	CMA_REQUESTED,	/* passive: rdma_accept or rdma_reject is due */
	CMA_CONNECTED,
	CMA_CLOSED, /* rejected, disconnected, unreachable */
};

struct iwcm_listener;
struct iwcm_link;

struct cma_id {
	struct rdma_cm_id api;
	struct list node;      /* cma_lock: in the table's bucket */
	uint32_t handle;       /* the broker's; stale once destroyed */
	uint64_t cookie;       /* never used twice: what the broker calls user */
	uint64_t first_cookie; /* the listener's, in events of before rdma_accept */
	_Atomic(enum cma_state) state;

	struct cma_device *dev; /* NULL while not bound to a device */
	struct gid src, dst;
	uint32_t scope; /* interface that a link-local address means; 0: any */
	int sgid_index;
	uint8_t path_mtu; /* enum ibv_mtu: what the device has, and then what the route carries */

	bool sync;		     /* api.channel is the id's own */
	atomic_bool connect_error;   /* it was reported: what follows is of no interest */
	struct broker_cm_param peer; /* of the CONNECT_REQUEST or CONNECT_RESPONSE */
	uint32_t starting_psn;
	uint8_t initiator_depth, responder_resources; /* of the QP to come */
	uint8_t retry_count;			      /* of the QP to come */
	bool rnr_for_ever;	/* the peer is told to try again whenever we are not ready */
	_Atomic(uint32_t) qkey; /* of datagrams; 0: not settled yet */
	uint8_t tos;
	uint8_t ack_timeout;	  /* by option; 0: not set */
	struct ibv_ece local_ece; /* for QPs of the application's own: ours say theirs */
	struct ibv_ece remote_ece;
	bool reuse, af_only;
	bool brief; /* rdmacm/brief.h */

	enum face_transport transport; /* of dev */
	bool transport_fixed;	       /* whatever else there is at the address */
	bool any_transport;	       /* rdmacm/any.h */
	uint16_t wanted_port;	       /* that it was bound to; 0: to any */
	/* Of iWARP (rdmacm/iw.h). */
	int tcp_fd;	    /* holds its port; -1: none */
	uint16_t tcp_port;  /* that of tcp_fd, or of what listens */
	bool tcp_elsewhere; /* rdmacm/brief.h */
	struct iwcm_listener *listener;
	struct iwcm_link *link;

	struct ibv_qp_init_attr *qp_init_attr; /* rdma_create_ep, passive: for the ids to come */
	void *connect_data;		       /* rdma_create_ep, active: precedes private data */
	size_t connect_len;

	struct list groups; /* lock: joined */

	pthread_mutex_t lock; /* of the counts, of api.qp, and of groups */
	pthread_cond_t cond;
	uint32_t events_taken, events_acked;
	uint32_t qp_users;
};

struct cma_group; /* of multicast */

struct cma_event {
	struct rdma_cm_event api;
	struct cma_id *owner;	 /* whose count the event is on: the listener's for requests */
	struct cma_group *group; /* and that of the group it is about; NULL: none */
	uint8_t private_data[EVENT_PRIVATE_MAX];
};

static inline struct cma_id *cma_id(struct rdma_cm_id *id)
{
	return container_of(id, struct cma_id, api);
}

static inline bool cma_peer_known(const struct cma_id *id)
{
	return id->peer.qpn;
}

/* False, and nothing has changed, if the state is not from (any more). */
static inline bool cma_move(struct cma_id *id, enum cma_state from, enum cma_state to)
{
	return atomic_compare_exchange_strong(&id->state, &from, to);
}

/* Of which kinds iWARP has it: connections, by ports of TCP. */
static inline bool cma_may_be_iw(const struct cma_id *id)
{
	return id->api.ps == RDMA_PS_TCP && id->api.qp_type == IBV_QPT_RC;
}

/* Datagrams: the CM finds the peer's queue pair, and there is no connection. */
static inline bool cma_is_ud(const struct cma_id *id)
{
	return id->api.qp_type == IBV_QPT_UD;
}

/* For the API: sets errno from -errno and returns -1, or 0. */
#define cma_ret(rc) cma_ret_of(__func__, rc)

static inline int cma_ret_of(const char *call, int rc)
{
	if (!rc)
		return 0;
	errno = log_refused("rdmacm", call, -rc);
	return -1;
}

/* ---- table.c --------------------------------------------------------------------------------- */

void cma_id_show(struct cma_id *);
void cma_id_hide(struct cma_id *);
uint64_t cma_cookie_new(void);
/* The id of an event, its count of taken events raised; NULL if it is gone. */
struct cma_id *cma_id_take_event(uint32_t handle, uint64_t cookie);
void cma_id_ack_event(struct cma_id *);
void cma_id_wait_for_acks(struct cma_id *);
/* NULL: it has no queue pair. Whoever destroys it waits for the cma_qp_put(). */
struct ibv_qp *cma_qp_get(struct cma_id *);
void cma_qp_put(struct cma_id *, struct ibv_qp *); /* or NULL */
/* A request that carries the id alone. */
int cma_simple_call(enum broker_cm_msg_type, uint32_t handle) must_use;

/* ---- id.c ------------------------------------------------------------------------------------ */

int cma_id_create(struct rdma_event_channel *, void *context, enum rdma_port_space,
		  enum ibv_qp_type, struct cma_id **ret) must_use;
/* An id that the broker has made already, for a connection request of the listener. No event finds
 * it before cma_id_show(). */
int cma_id_adopt(struct cma_id *listener, uint32_t handle, struct cma_id **ret) must_use;
/* Has api.event be this one, or none, and acknowledges the one that it was. */
void cma_keep_event(struct rdma_cm_id *, struct rdma_cm_event *);

/* ---- sync.c ---------------------------------------------------------------------------------- */

/* In sync mode waits for the outcome of what was begun; else 0 at once, without a look at the id.
 * sync: the id's, as it was before. As the API: -1, errno. */
int cma_complete(struct cma_id *, bool sync);

/* ---- bind.c ---------------------------------------------------------------------------------- */

/* attach: to the device that has the address, which the wildcard is not. */
int cma_bind_addr(struct cma_id *, const struct sockaddr *, bool attach) must_use;
/* To the device of a loopback address, where rdma_bind_addr() has left it out; 0, too, where there
 * is nothing to do. */
int cma_attach(struct cma_id *) must_use;

/* ---- addr.c ---------------------------------------------------------------------------------- */

/* The length of an address of a family we have; 0 for others and NULL. */
socklen_t cma_addr_len(const struct sockaddr *);
bool cma_addr_any(const struct sockaddr *);
bool cma_addr_loopback(const struct sockaddr *);
uint16_t cma_addr_port(const struct sockaddr *); /* host order */
void cma_addr_set_port(struct sockaddr *, uint16_t port);
uint32_t cma_addr_scope(const struct sockaddr *);
struct gid cma_addr_gid(const struct sockaddr *);
/* The address that the routing tables give for reaching dst (from src, if that is not NULL). */
int cma_source_for(const struct sockaddr *src, const struct sockaddr *dst,
		   struct sockaddr_storage *ret) must_use;

/* ---- device.c -------------------------------------------------------------------------------- */

/* Binds the id to the device that has its src, the first of the kinds that can be: dev, transport,
 * verbs, pd, port_num, sgid_index, path_mtu. -ENODEV if none has. */
int cma_bind_device(struct cma_id *) must_use;
/* The same of a request's id, which came by a device of that kind; that of a listener in
 * synchronous mode gets a channel of its own. Of one that fails the id is destroyed. */
int cma_bind_request(struct cma_id *, const struct cma_id *listener, enum face_transport) must_use;
/* The XRC domain that all targets and SRQs of the device are in, unless they bring another. */
int cma_default_xrcd(struct cma_id *, struct ibv_xrcd **ret) must_use;
/* The path record of a resolved route. */
int cma_fill_path(struct cma_id *) must_use;

/* ---- path_mtu.c ------------------------------------------------------------------------------ */

/* Lowers the id's path_mtu to what the way to its destination carries: asks there, which takes a
 * round trip, or up to 200 ms where packets are lost or nobody answers. What WEFT_PATH_MTU says
 * goes before. */
void cma_probe_path_mtu(struct cma_id *);
/* That takes no time. */
bool cma_path_mtu_settled(const struct cma_id *) must_use;

/* ---- qp_attr.c ------------------------------------------------------------------------------- */

/* The CONNECT_RESPONSE has come: moves the QP, unless it is NULL and the application does, and
 * tells the broker. -errno. */
int cma_finish_connect(struct cma_id *, struct ibv_qp *) must_use;
int cma_qp_to_error(struct cma_id *);
/* From INIT, once more with what the connection allows, up to RTS; NULL: nothing. */
int cma_connect_qp(struct cma_id *, struct ibv_qp *) must_use;

/* ---- conn.c ---------------------------------------------------------------------------------- */

/* From ROUTE_RESOLVED: has the broker begin, and forgets what rdma_create_ep() has to say. -errno:
 * nothing has changed. */
int cma_begin_connect(struct cma_id *, const struct broker_cm_connect *) must_use;

/* ---- datagram.c ------------------------------------------------------------------------------ */

/* The Q_Key of the id's port space, unless it has one already. */
void cma_default_qkey(struct cma_id *);
/* -EINVAL if it has another one already. */
int cma_set_qkey(struct cma_id *, uint32_t qkey) must_use;
/* What rdma_init_qp_attr() says of any state, and the queue pair's way to RTS by it. */
void cma_ud_qp_attr(struct cma_id *, struct ibv_qp_attr *, int *mask);
int cma_ud_qp_ready(struct cma_id *, struct ibv_qp *) must_use;
/* What rdma_connect() is to send. */
int cma_ud_fill(const struct cma_id *, const struct ibv_qp *, const struct rdma_conn_param *,
		struct broker_cm_param *ret) must_use;
int cma_ud_accept(struct cma_id *, const struct rdma_conn_param *) must_use;
/* The address of the id's peer. */
struct ibv_ah_attr cma_ah_attr(const struct cma_id *);
/* Of an event of a datagram id: its parameters; for ESTABLISHED what came of the connect. */
void cma_ud_param(struct rdma_cm_event *, const struct broker_cm_param *, const uint8_t *data);
void cma_ud_established(struct cma_id *, struct rdma_cm_event *);

/* ---- ece.c ----------------------------------------------------------------------------------- */

/* What to tell the peer: of the identifier's queue pair, or of the application's own. */
struct ibv_ece cma_ece_offer(const struct cma_id *, struct ibv_qp *);
/* Before RTR: the queue pair does what the peer said that it can. False: it does nothing of that.
 */
bool cma_ece_agree(const struct cma_id *, struct ibv_qp *);
/* The same, of an answer: one that repeats the offer says nothing of the peer. -errno: the peer
 * does by now what the queue pair cannot. */
int cma_ece_answered(const struct cma_id *, struct ibv_qp *) must_use;
/* Keeps what the peer said for rdma_get_remote_ece(). */
void cma_ece_received(struct cma_id *, const struct broker_cm_param *);

#endif
