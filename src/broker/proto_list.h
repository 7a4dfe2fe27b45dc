/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Who uses the broker, for what: the part of the protocol by which `weft list` asks. Root is told
 * of every client, another user of those of its own.
 *
 * It is told in messages of a bounded size and at a bounded cost, and between two of them the
 * broker keeps nothing: the one who asks says from where on. So a listing is no picture of one
 * moment. Who comes or goes meanwhile may be in it or not, and an id may be of a client that is
 * not.
 */
#ifndef WEFT_BROKER_PROTO_LIST_H
#define WEFT_BROKER_PROTO_LIST_H

#include "broker/proto.h"

#define BROKER_LIST_MAX	    128	 /* entries of a message */
#define BROKER_LIST_LOOK_AT 4096 /* ids, for one message */

struct broker_list { /* LIST_CLIENTS, LIST_IDS */
	struct broker_msg msg;
	uint64_t from; /* 0, then what the last reply says */
};

struct broker_list_client {
	uint64_t nr; /* from 1 on, ascending: no two clients of a broker have the same */
	uint64_t age_ns;
	uint32_t pid; /* as the broker sees it; 0: it does not, in another PID namespace */
	uint32_t uid;
	uint8_t slots[32]; /* leased to it: bit n % 8 of byte n / 8 */
};

struct broker_list_clients {
	struct broker_msg msg;
	uint64_t next; /* from where on there may be more; 0: that was all */
	uint64_t broker_age_ns;
	uint64_t pid_namespace; /* the broker's: its inode number, 0 where that is not known */
	uint32_t count;
	struct broker_list_client v[BROKER_LIST_MAX];
};

enum broker_list_state {
	BROKER_LIST_IDLE,
	BROKER_LIST_BOUND,
	BROKER_LIST_RESOLVING,
	BROKER_LIST_LISTEN,
	BROKER_LIST_CONNECTING,
	BROKER_LIST_REQUESTED, /* a peer's request, which its listener's owner has not answered */
	BROKER_LIST_ACCEPTED,  /* and the peer has not said that it knows */
	BROKER_LIST_ESTABLISHED,
	BROKER_LIST_DISCONNECTING,
	BROKER_LIST_TIMEWAIT,
	BROKER_LIST_CLOSED,	 /* it has been something else, and waits to be destroyed */
	BROKER_LIST_UNCONNECTED, /* datagrams: the one side knows the queue pair of the other */
	BROKER_LIST_REMOVED,	 /* its device is gone */
	BROKER_LIST_STATES
};

enum { BROKER_LIST_IPV4 = 1, BROKER_LIST_IPV6 = 2 };

struct broker_list_id {
	uint64_t client; /* whose */
	uint32_t id;
	uint32_t state;			  /* enum broker_list_state */
	struct gid local, remote;	  /* all zero: any or none */
	uint16_t local_port, remote_port; /* 0: none */
	uint16_t ps;			  /* enum rdma_port_space */
	uint8_t families;		  /* of a local that is any */
	uint8_t datagrams;
	uint32_t ifindex;	  /* of local; 0: any, or not known */
	uint32_t qpn, remote_qpn; /* 0: not known */
	uint32_t none;		  /* 0 */
};

struct broker_list_ids {
	struct broker_msg msg;
	uint64_t next;
	uint32_t count;
	struct broker_list_id v[BROKER_LIST_MAX];
};

#endif
