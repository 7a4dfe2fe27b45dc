/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Inside the CM service, from the top: cm_service.c has its life, cm_requests.c what clients ask
 * for, cm_resume.c what they bring from another broker, cm_ports.c ports, cm_events.c what the
 * connection manager reports, cm_datagrams.c what is different for datagrams, cm_clients.c clients
 * and their ids, cm_resolve.c neighbours, cm_post.c the way of events to clients, cm_wire.c that of
 * packets. Each calls those after it.
 */
#ifndef WEFT_BROKER_CM_SERVICE_PRIV_H
#define WEFT_BROKER_CM_SERVICE_PRIV_H

#include "base/list.h"
#include "base/handles.h"
#include "base/units.h"
#include "broker/cm_channel.h"
#include "broker/cm_service.h"
#include "broker/cm_users.h"
#include "broker/port_space.h"
#include "cm/cm.h"
#include "wire/cm_ip.h"

#define SVC_MAX_IDS	 (1u << 16)
#define SVC_GEN_BITS	 16
#define SVC_MAX_CHANNELS 16384 /* of all clients; less where there are few descriptors */
#define WATCH_MAX	 1024  /* events of devices that a client does not read */
/* Events waiting in the broker; beyond, POST is refused. Each channel has its part of it. */
#define CLIENT_MAX_POSTED 65536
#define RESOLVE_MAX_MS	  3600000u
#define PRIVILEGED_PORTS  1024
#define BACKLOG_MAX	  1024 /* as Linux ucma.c has it by default */

#define CM_DEFAULT_ACK_TIMEOUT 17 /* as Linux 6.12 cma.c has it; 6.1 had 19 */
#define CM_TARGET_ACK_DELAY    15
#define CM_HOP_LIMIT	       64

/*
 * Programs that tell each other over TCP to connect now (perftest) leave it to chance whether the
 * listener is there before the REQ: with hardware the active side is the slower one, here it need
 * not be. So a REQ that nobody listens for waits a moment before it is rejected, unless it wants
 * its answer sooner.
 */
#define SVC_PARK_NS  (100 * NSEC_PER_MSEC)
#define SVC_PARK_MAX 64 /* beyond, rejections are immediate */
/* A reader that lets its pipe run full makes no noise when it reads on: look again. */
#define SVC_FLUSH_NS (2 * NSEC_PER_MSEC)
/* After another broker: for so long what that had listeners and connections for waits for them. */
#define SVC_HEIR_NS (10 * NSEC_PER_SEC)

/* Each port space of rdma_cm has ports of its own. */
enum svc_port_space { SVC_PS_IPOIB, SVC_PS_TCP, SVC_PS_UDP, SVC_PS_IB, SVC_PORT_SPACES };

struct svc_parked {
	struct flow flow;
	uint8_t mad[MAD_LEN];
	uint64_t until;
};

struct cm_service {
	struct cm_service_ops ops;
	void *ctx;
	struct cm *cm;
	struct handle_place *places;
	struct handles handles; /* handles of ids */
	struct port_space port_space[SVC_PORT_SPACES];
	struct list clients;
	struct cm_users users;
	struct list resolving; /* ids that wait for a neighbour */
	uint64_t now;	       /* of the call that is being served */
	uint64_t flush_at;     /* DEADLINE_NEVER: no channel has events waiting */
	uint64_t flush_wait;   /* from one time to the next */
	uint32_t psn;	       /* of QP1 */
	uint32_t generation;   /* of the broker */
	uint64_t clients_ever;
	uint32_t by_tcp;     /* ids that listen so */
	uint64_t heir_until; /* listeners of before may come yet */
	uint32_t parked_count;
	struct svc_parked parked[SVC_PARK_MAX]; /* oldest first */
};

struct cm_client {
	struct cm_service *svc;
	uint64_t nr; /* among all that there ever were */
	struct list list;
	struct list channels, ids;
	struct list closed;	  /* channels whose reading end may be in use yet */
	struct cm_channel *watch; /* for what concerns its QPs; NULL: it does not ask */
	uint32_t channel_count, id_count, next_channel;
	struct cm_user *user;
	bool dying; /* its channels go, too, and all that waits there */
};

/* An id of a client. Where the connection stands, the CM knows (id->cm). */
struct svc_id {
	struct cm_client *client;
	struct list list;
	struct cm_channel *channel; /* NULL: closed, events go nowhere */
	struct cm_id *cm;
	uint32_t handle;
	uint64_t user;
	uint64_t serial; /* of what was saved last */
	uint16_t ps;	 /* enum cm_port_space */
	bool datagrams;	 /* the CM's ids of it resolve services instead of connecting */
	bool xrc;	 /* connections of initiators with targets */
	bool used;	 /* LISTEN, CONNECT, or born of a request */
	bool up;	 /* has been connected */
	bool bound;
	bool brief;   /* its REQ is given up soon where nobody answers */
	bool removed; /* its interface is gone, and it is good for nothing but to be destroyed */
	struct port_bind bind;
	uint32_t ifindex;	     /* of the own address; 0: not known yet */
	struct broker_cm_param path; /* what stands in every event; private data unused */

	/* A listener's CONNECT_REQUESTs that may be unread, and such a request. */
	struct list requests, request;
	struct svc_id *listener; /* NULL: none, or read */
	struct cm_channel *request_channel;
	bool request_placed;
	uint64_t request_place; /* in the pipe */
	uint32_t backlog, request_count;
	uint16_t tcp_port;
	bool tcp_only;

	struct list resolving;
	struct flow resolve_flow;
	uint64_t resolve_at, resolve_until, resolve_wait, resolve_probe;
};

/* ---- cm_wire.c ---------------------------------------------------------------------------- */

/* Hands what the CM has to send to ops->send; ends every call that may have made it send. */
void svc_send_all(struct cm_service *);
/* A listener is new: requests that came a moment too early are served. */
void svc_serve_parked(struct cm_service *);
/* Those that have waited long enough. */
void svc_unpark_due(struct cm_service *);

/* ---- cm_post.c ---------------------------------------------------------------------------- */

/* An event with what always stands in it; the message's private data. */
struct broker_cm_event svc_event(const struct svc_id *, enum broker_cm_event_type);
void svc_put_private(struct broker_cm_event *, const uint8_t *data, size_t len);
void svc_save(struct svc_id *, struct broker_cm_saved *ret);
/* 0 or -errno when the event went nowhere, which mostly nobody needs to know. */
int svc_post(struct svc_id *, struct broker_cm_event *);
/* As that, for any channel; NULL: -EPIPE. */
int svc_post_to(struct cm_service *, struct cm_channel *, struct broker_cm_event *);
/* Tells the watcher of the id's client that the peer of its QP is gone. */
void svc_peer_died(struct svc_id *);
/* If the channel has events that its pipe has no room for. */
void svc_flush_later(struct cm_service *, const struct cm_channel *);
void svc_flush_client(struct cm_client *);

/* ---- cm_clients.c ------------------------------------------------------------------------- */

/* -EMFILE, -ENOMEM. cm NULL: makes a new one. */
int svc_id_new(struct cm_client *, struct cm_channel *, struct cm_id *cm,
	       struct svc_id **ret) must_use;
/* As that, with the handle that another broker has given it. -EEXIST: it is taken. */
int svc_id_new_as(struct cm_client *, struct cm_channel *, struct cm_id *cm, uint32_t handle,
		  struct svc_id **ret) must_use;
/* Ends what it is in (unless the CM's id has been ended already), and its unread requests. */
void svc_id_destroy(struct svc_id *, bool end_cm);
/* At that port from now on; 0: at none. */
void svc_listens_by_tcp(struct svc_id *, uint16_t port);
struct cm_channel *client_channel(struct cm_client *, uint32_t nr);
void client_channel_close(struct cm_client *, struct cm_channel *);
/* Forgets which of the requests of this listener have been read. */
void svc_requests_settle(struct svc_id *listener);

/* ---- cm_ports.c --------------------------------------------------------------------------- */

bool svc_ps_valid(uint32_t ps, bool datagrams, bool xrc);
int svc_may_bind(const struct cm_client *, uint16_t port) must_use;
/* As id->bind says. */
int svc_bind(struct svc_id *) must_use;
/* tcp_port, tcp_only: as of struct broker_cm_listen. */
int svc_listen(struct svc_id *, uint32_t backlog, uint16_t tcp_port, bool tcp_only) must_use;

/* ---- cm_resume.c -------------------------------------------------------------------------- */

/* Serves RESUME. */
int svc_resume(struct cm_client *, const void *req, void *reply);

/* ---- cm_resolve.c ------------------------------------------------------------------------- */

/* The next host on this way is there; if that is not known yet, it is asked for. */
bool svc_reachable(struct cm_service *, const struct flow *) must_use;
/* Posts the event, an ADDR_RESOLVED, as soon as the way's first neighbour is known. */
void svc_resolve(struct svc_id *, struct broker_cm_event *, const struct flow *,
		 uint32_t timeout_ms);
/* Is over, or is not wanted any more; or never began. */
void svc_resolve_end(struct svc_id *);
uint64_t svc_resolve_deadline(const struct cm_service *);
void svc_resolve_tick(struct cm_service *);

/* ---- cm_events.c -------------------------------------------------------------------------- */

void svc_on_cm_event(void *ctx, void *id_user, const struct cm_event *);
bool svc_match(void *id_user, const uint8_t *private_data, uint32_t scope);

/* ---- cm_datagrams.c ------------------------------------------------------------------------ */

int svc_sidr_ask(struct svc_id *, const struct broker_cm_param *, const struct flow *,
		 const uint8_t *private_data) must_use;
int svc_sidr_accept(struct svc_id *, const struct broker_cm_param *) must_use;
int svc_sidr_reject(struct svc_id *, const struct broker_cm_reject *) must_use;
void svc_on_sidr_rep(struct svc_id *, const struct cm_event *);

#endif
