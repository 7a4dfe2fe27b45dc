/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The connection manager's part of the broker protocol: requests on the client's connection,
 * events (struct broker_cm_event, one datagram each) on the channel's descriptor.
 *
 * An id lives from BROKER_CM_CREATE_ID, or from the CONNECT_REQUEST event of a listener, to
 * BROKER_CM_DESTROY_ID or the client's death; it belongs to the client whose connection made it.
 * The broker holds the namespace's rdma_cm port space (BIND, LISTEN), speaks the MADs on QP1 and
 * keeps the CM's timers; the library moves the queue pair, as librdmacm does.
 *
 * Errors: -ENOENT for an id that is not (or not the client's), -EINVAL for a request that the id's
 * state or the message's length does not allow, -EADDRINUSE, -EADDRNOTAVAIL, -EACCES for a port
 * below 1024 to another client than root's, -EMFILE beyond the limits of a client or its user
 * (broker/cm_users.c), -ENOBUFS for a POST beyond them.
 *
 * When the broker ends, ids and channels go on under the next one. To this end every reply to a
 * request about an id, and every event of one, carries what the broker knows of it then (saved):
 * bytes, which the library keeps, the latest of each id, and hands to the next broker by RESUME,
 * after the channel's pipe by RESUME_CHANNEL. An event that says the generation of another broker
 * than the present was written by one that has ended: what it carries is newer than what was
 * resumed, and is handed on again.
 *
 * The channel is the reading end of a pipe in packet mode: each read() of at least
 * sizeof(struct broker_cm_event) bytes yields one event. An id's events may still lie in the pipe
 * after DESTROY_ID was answered: the library drops events of ids it does not know. A
 * CONNECT_REQUEST that the listener's owner has not read when the listener goes is rejected.
 */
#ifndef WEFT_BROKER_PROTO_CM_H
#define WEFT_BROKER_PROTO_CM_H

#include "broker/proto.h"

#define BROKER_CM_PRIVATE_MAX 224

enum broker_cm_msg_type {
	BROKER_CM_CREATE_ID = BROKER_CM_FIRST, /* -> create_id, <- create_id with the id */
	BROKER_CM_DESTROY_ID, /* -> id; pending connections are rejected, live ones disconnected */
	BROKER_CM_BIND,	      /* -> bind (port 0: any), <- bind with the port taken; -EADDRINUSE */
	BROKER_CM_LISTEN,     /* -> listen; the id must be bound */
	BROKER_CM_CONNECT,    /* -> connect: sends the (SIDR_)REQ */
	BROKER_CM_ACCEPT,     /* -> connect (passive part): sends the (SIDR_)REP */
	/* -> id: the active side sends the RTU, after the library has moved its QP to RTS; for the
	 * passive side: data came before the RTU (IBV_EVENT_COMM_EST). */
	BROKER_CM_ESTABLISH,
	BROKER_CM_REJECT, /* -> reject */
	/* -> id: sends DREQ, or DREP if the peer's DREQ is unanswered; else it is over already: 0
	 */
	BROKER_CM_DISCONNECT,
	BROKER_CM_CLOSE_CHANNEL, /* -> id: a channel; ids left on it have no events any more */
	BROKER_CM_MIGRATE,	 /* -> migrate: later events of the id go to another channel */
	/* -> post: the library resolves addresses and routes itself; that it has done so comes back
	 * as an event of the id, so that its channel's descriptor becomes readable. */
	BROKER_CM_POST,
	/* -> id: a channel, which is from now on the library's own for what concerns its QPs
	 * (PEER_DIED) and devices (DEVICE): no application reads it. */
	BROKER_CM_WATCH,
	BROKER_CM_RESUME,	  /* -> resume; in the place of what the id's handle stood for */
	BROKER_CM_RESUME_CHANNEL, /* -> id: a channel's number, + the pipe's reading end */
};

#define BROKER_CM_SAVED_MAX 768

/* Behind the reply to a request of these when it succeeded, and within events. */
struct broker_cm_saved {
	uint32_t id;
	uint32_t len; /* 0: none; the id has ended, or the request was about none */
	/* Of one id's, the higher is the later: a reply and an event may overtake one another. */
	uint64_t serial;
	_Alignas(8) uint8_t bytes[BROKER_CM_SAVED_MAX];
};

struct broker_cm_resume {
	struct broker_msg msg;
	struct broker_cm_saved saved;
};

struct broker_cm_id { /* DESTROY_ID, ESTABLISH, DISCONNECT, CLOSE_CHANNEL, WATCH */
	struct broker_msg msg;
	uint32_t id;
};

struct broker_cm_create_id {
	struct broker_msg msg;
	uint32_t id;	   /* in the reply */
	uint32_t channel;  /* where its events go */
	uint64_t user;	   /* comes back in every event of the id */
	uint32_t ps;	   /* enum rdma_port_space */
	uint8_t datagrams; /* UD: its requests are SIDR_REQs */
	uint8_t xrc;	   /* its requests are for XRC; in CM_PS_IB alone, with connections */
};

struct broker_cm_bind {
	struct broker_msg msg;
	uint32_t id;
	struct gid addr; /* all zero: wildcard; ::ffff:0.0.0.0: wildcard for IPv4 only */
	uint8_t af_ipv4; /* the all-zero wildcard is meant for IPv4 only */
	uint8_t reuse;	 /* RDMA_OPTION_ID_REUSEADDR */
	uint16_t port;	 /* host order */
	uint8_t af_only; /* RDMA_OPTION_ID_AFONLY: a wildcard that is not for IPv4 */
	uint32_t scope;	 /* the interface that a link-local address belongs to; 0: any */
};

struct broker_cm_migrate {
	struct broker_msg msg;
	uint32_t id;
	uint32_t channel;
	uint64_t user; /* the id's new user value */
};

struct broker_cm_listen {
	struct broker_msg msg;
	uint32_t id;
	/* CONNECT_REQUESTs unread at once of one peer, and twice as many of all; 0: the default, as
	 * with the kernel. */
	uint32_t backlog;
	/* Of CM_PS_TCP: at which port of TCP the process listens itself, as the port mapper is to
	 * say (broker/mapper.h); 0: at none. */
	uint16_t tcp_port;
	uint8_t tcp_only; /* and nowhere else */
};

struct broker_cm_post {
	struct broker_msg msg;
	uint32_t id;
	uint32_t type;	/* BROKER_CM_EV_ADDR_RESOLVED, _ROUTE_RESOLVED, _MULTICAST_JOIN, _OWN */
	int32_t status; /* of the event */
	/* ADDR_RESOLVED: the application has another way to go. -EHOSTUNREACH: lately there was no
	 * connection manager at dst. UNREACHABLE comes soon if it gives no sign of life. */
	uint8_t brief;
	/* ADDR_RESOLVED: -EALREADY, and no event, if there is nothing to wait for. */
	uint8_t at_once;
	uint64_t token; /* comes back in the event */
	/* ADDR_RESOLVED: the way there. The event comes when the neighbour is known, or with
	 * -ETIMEDOUT. A dst all zero asks for none. */
	struct gid src, dst;
	uint32_t scope, timeout_ms;
};

/*
 * CONNECT and ACCEPT, and within events what the peer asked for. In events responder_resources and
 * initiator_depth are from the receiver's point of view, as in rdma_cm's: the peer's initiator
 * depth is what we need as a responder. private_len of events is what the wire has room for (56 in
 * CONNECT_REQUEST, 196 in CONNECT_RESPONSE, 148 in REJECTED): the wire carries no length.
 *
 * Datagrams have addresses, ports, tos, flow_label, qpn, qkey and private data (180 bytes to
 * CONNECT, 136 to ACCEPT and REJECT) and nothing else of it.
 */
struct broker_cm_param {
	struct gid src, dst;	     /* CONNECT: the path; events: src is ourselves */
	uint32_t scope;		     /* the interface of link-local addresses, else 0 */
	uint16_t src_port, dst_port; /* rdma_cm ports, host order; CONNECT: src_port as bound */
	uint32_t qpn;		     /* ours; in events the peer's */
	uint32_t starting_psn;	     /* ours; in events the peer's */
	uint32_t qkey;		     /* of datagrams: ours; in events the peer's */
	uint8_t path_mtu;	     /* enum rnic_mtu */
	uint8_t responder_resources, initiator_depth;
	uint8_t flow_control, retry_count, rnr_retry_count, srq;
	uint8_t tos;
	uint8_t local_ack_timeout; /* of the path, as in the REQ; CONNECT: 0 for the default */
	uint32_t flow_label;	   /* of the path, as in the REQ; the broker's choice in CONNECT */
	uint32_t ece_vendor, ece_options; /* enhanced connection establishment; vendor 0: none */
	uint32_t private_len;
	uint8_t private_data[BROKER_CM_PRIVATE_MAX]; /* the application's: IP CM header cut off */
};

struct broker_cm_connect {
	struct broker_msg msg;
	uint32_t id;
	uint64_t user; /* ACCEPT: replaces the id's user value, which was its listener's */
	struct broker_cm_param param;
};

struct broker_cm_reject {
	struct broker_msg msg;
	uint32_t id;
	uint32_t reason; /* 28: consumer defined */
	uint32_t private_len;
	uint8_t private_data[BROKER_CM_PRIVATE_MAX];
};

enum broker_cm_event_type {
	BROKER_CM_EV_CONNECT_REQUEST = 1, /* user: the listener's; id: a new one */
	BROKER_CM_EV_CONNECT_RESPONSE,	  /* a REP came: move the QP, then ESTABLISH */
	BROKER_CM_EV_ESTABLISHED,	  /* passive side: the RTU came; datagrams: a REP came */
	BROKER_CM_EV_REJECTED,		  /* status: the reason */
	/* No answer to (SIDR_)REQ or REP, status -ETIMEDOUT; or the status of a SIDR_REP. */
	BROKER_CM_EV_UNREACHABLE,
	/* status -ETIMEDOUT: the peer did not answer. param.qpn: ours, if PEER_DIED is told of it.
	 */
	BROKER_CM_EV_DISCONNECTED,
	BROKER_CM_EV_TIMEWAIT_EXIT,
	BROKER_CM_EV_DEVICE_REMOVAL,
	BROKER_CM_EV_ADDR_RESOLVED, /* by POST; status 0 or -errno */
	BROKER_CM_EV_ROUTE_RESOLVED,
	BROKER_CM_EV_MULTICAST_JOIN, /* by POST, too */
	/* Of the WATCH channel, param.qpn: this QP of ours is connected to one whose process has
	 * ended without disconnecting. DISCONNECTED goes to the id besides. */
	BROKER_CM_EV_PEER_DIED,
	BROKER_CM_EV_ADDR_CHANGE, /* the MAC address of the id's interface */
	/* Of the WATCH channel. id: ifindex, status: enum broker_device_change. The table of
	 * devices is of after the change. */
	BROKER_CM_EV_DEVICE,
	/* By POST: something that the library knows of by the token, and the broker not. */
	BROKER_CM_EV_OWN,
};

struct broker_cm_event {
	uint32_t type;
	int32_t status;
	uint32_t id;
	uint32_t listen_id; /* CONNECT_REQUEST */
	uint64_t user;
	uint64_t token; /* of its POST */
	struct broker_cm_param param;
	uint32_t generation; /* of the broker that wrote it */
	struct broker_cm_saved saved;
};

#endif
