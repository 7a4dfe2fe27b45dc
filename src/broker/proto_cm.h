/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The connection manager's part of the broker protocol: requests on the client's connection,
 * events (struct broker_cm_event, one datagram each) on the channel's descriptor.
 *
 * An id lives from BROKER_CM_CREATE_ID, or from the CONNECT_REQUEST event of a listener, to
 * BROKER_CM_DESTROY_ID or the client's death; it belongs to the client whose connection made it.
 * The broker holds the namespace's rdma_cm port space (BIND, LISTEN), speaks the MADs on QP1 and
 * keeps the CM's timers; the library moves the queue pair, as librdmacm does.
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
	BROKER_CM_CONNECT,    /* -> connect: sends the REQ */
	BROKER_CM_ACCEPT,     /* -> connect (passive part): sends the REP */
	BROKER_CM_ESTABLISH,  /* -> id: sends the RTU, after the library has moved its QP to RTS */
	BROKER_CM_REJECT,     /* -> reject */
	BROKER_CM_DISCONNECT, /* -> id: sends DREQ, or DREP if the peer's DREQ is unanswered */
};

struct broker_cm_id { /* DESTROY_ID, ESTABLISH, DISCONNECT */
	struct broker_msg msg;
	uint32_t id;
};

struct broker_cm_create_id {
	struct broker_msg msg;
	uint32_t id;	  /* in the reply */
	uint32_t channel; /* where its events go */
	uint64_t user;	  /* comes back in every event of the id */
	uint32_t ps;	  /* enum rdma_port_space: RDMA_PS_TCP */
};

struct broker_cm_bind {
	struct broker_msg msg;
	uint32_t id;
	struct gid addr; /* all zero (or ::ffff:0.0.0.0): wildcard */
	uint8_t af_ipv4; /* the wildcard is meant for IPv4 only */
	uint8_t reuse;	 /* RDMA_OPTION_ID_REUSEADDR */
	uint16_t port;	 /* host order */
};

struct broker_cm_listen {
	struct broker_msg msg;
	uint32_t id;
	uint32_t backlog;
};

/* CONNECT and ACCEPT, and within events what the peer asked for. */
struct broker_cm_param {
	struct gid src, dst;	     /* CONNECT: the path; events: src is ourselves */
	uint16_t src_port, dst_port; /* rdma_cm ports, host order */
	uint32_t qpn;		     /* ours; in events the peer's */
	uint32_t starting_psn;	     /* ours; in events the peer's */
	uint8_t path_mtu;	     /* enum rnic_mtu */
	uint8_t responder_resources, initiator_depth;
	uint8_t flow_control, retry_count, rnr_retry_count, srq;
	uint8_t tos;
	uint8_t local_ack_timeout; /* of the path, as in the REQ */
	uint32_t flow_label;	   /* of the path, as in the REQ */
	uint32_t private_len;
	uint8_t private_data[BROKER_CM_PRIVATE_MAX]; /* the application's: IP CM header cut off */
};

struct broker_cm_connect {
	struct broker_msg msg;
	uint32_t id;
	uint64_t user; /* ACCEPT: replaces the id's user value */
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
	BROKER_CM_EV_ESTABLISHED,	  /* passive side: the RTU came */
	BROKER_CM_EV_REJECTED,		  /* status: the reason */
	BROKER_CM_EV_UNREACHABLE,	  /* no answer to REQ or REP; status -ETIMEDOUT */
	BROKER_CM_EV_DISCONNECTED,
	BROKER_CM_EV_TIMEWAIT_EXIT,
	BROKER_CM_EV_DEVICE_REMOVAL,
};

struct broker_cm_event {
	uint32_t type;
	int32_t status;
	uint32_t id;
	uint32_t listen_id; /* CONNECT_REQUEST */
	uint64_t user;
	struct broker_cm_param param;
};

#endif
