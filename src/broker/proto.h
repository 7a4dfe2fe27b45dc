/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a library and the broker of its network namespace say to each other, over one
 * SOCK_SEQPACKET connection to the abstract socket BROKER_SOCKET_NAME. One request, one reply;
 * both are fixed host-order structs that begin with struct broker_msg. Descriptors go along as
 * SCM_RIGHTS. Connection manager events travel on a descriptor of their own (BROKER_CM_CHANNEL),
 * which is what an application polls.
 *
 * Trust: both ends look at SO_PEERCRED. The library accepts a broker of its own user or of root;
 * the broker lets a client reach only what that client's connection owns. A broker of root serves
 * other users where it can keep their packets apart (broker/foreign.h), and each within a quota:
 * -EDQUOT, or -EPERM to a HELLO.
 *
 * -ENFILE is the broker's own lack of descriptors, whatever was asked; a HELLO has its limit.
 *
 * A request that the broker does not know is -EOPNOTSUPP: one that libraries do without may come
 * without another version.
 */
#ifndef WEFT_BROKER_PROTO_H
#define WEFT_BROKER_PROTO_H

#include <stdint.h>

#include "wire/flow.h"

#define BROKER_SOCKET_NAME   "weft-broker" /* abstract: sun_path[0] = 0 */
#define BROKER_PROTO_VERSION 9

#define BROKER_MAX_DEVICES 32
#define BROKER_MAX_GIDS	   32
#define BROKER_MSG_MAX	   131072

enum broker_msg_type {
	BROKER_HELLO = 1, /* -> struct broker_hello, <- the same + (own user's) the bag's one end */
	BROKER_BAG,	  /* -> broker_msg, <- the same + the other */
	BROKER_DEVICES,	  /* -> broker_msg, <- struct broker_devices */
	BROKER_LEASE_SLOT,   /* -> broker_msg, <- struct broker_slot + socket */
	BROKER_KEEP_SLOT,    /* -> struct broker_slot + its socket, <- broker_msg */
	BROKER_CM_CHANNEL,   /* -> broker_msg, <- struct broker_cm_channel + event descriptor */
	BROKER_GROUP,	     /* -> struct broker_group, <- broker_msg: joins or leaves */
	BROKER_SYSFS,	     /* -> struct broker_sysfs_ask, <- struct broker_sysfs */
	BROKER_LIST_CLIENTS, /* broker/proto_list.h */
	BROKER_LIST_IDS,
	BROKER_OFFER_INBOX, /* -> struct broker_slot + port/local/inbox.h, <- broker_msg */
	BROKER_FIND_INBOX,  /* -> struct broker_slot, <- broker_msg + the same */
	BROKER_INBOXES,	    /* -> broker_msg, <- struct broker_inboxes */
	/* Requests of the connection manager: broker/proto_cm.h */
	BROKER_CM_FIRST = 64,
};

struct broker_msg {
	uint32_t type;
	int32_t error; /* in replies: 0 or -errno */
};

struct broker_hello {
	struct broker_msg msg;
	uint32_t version;
	uint32_t pid;
	uint32_t generation; /* random: no two brokers have the same */
	uint32_t files_max;  /* the broker's limit of descriptors */
	char why[256];	     /* a sentence, with -EPERM and -ENFILE: who is not served */
};

enum broker_gid_type { BROKER_GID_ROCE_V2 = 2 /* IBV_GID_TYPE_ROCE_V2's sysfs sibling */ };

struct broker_gid {
	struct gid gid;
	uint32_t type; /* enum broker_gid_type; 0: the entry is empty */
};

struct broker_device { /* one per network interface */
	char name[64]; /* weft_<interface> */
	char ifname[16];
	uint32_t ifindex;
	uint32_t mtu;	 /* of the interface, bytes */
	uint8_t mac[6];	 /* zero on loopback */
	uint8_t up;	 /* running */
	uint8_t enabled; /* set up, be there a carrier or not */
	uint8_t loopback;
	uint64_t guid_be;			 /* broker/device_guid.h; network order */
	uint32_t speed_mbps;			 /* 0: the interface does not say */
	struct broker_gid gids[BROKER_MAX_GIDS]; /* an address keeps its index while it lives */
};

/* What happens to a device; told in the event BROKER_CM_EV_DEVICE. */
enum broker_device_change {
	BROKER_DEVICE_PORT_ERR = 1, /* the interface went down */
	BROKER_DEVICE_PORT_ACTIVE,
	BROKER_DEVICE_GID_CHANGE,
	BROKER_DEVICE_MAC_CHANGE,
	BROKER_DEVICE_REMOVED,
};

struct broker_devices {
	struct broker_msg msg;
	uint32_t count;
	struct broker_device dev[BROKER_MAX_DEVICES];
};

/* OFFER_INBOX: of one of the client's slots, for others of its user; -EINVAL: that is no inbox.
 * FIND_INBOX: -ENOENT where the slot's holder offers none to this user.
 * KEEP_SLOT: a broker before this one has leased it. -EPERM: that is not its socket; -EBUSY:
 * another client has the slot. */
struct broker_slot {
	struct broker_msg msg;
	uint32_t slot; /* 1-255: bits 23:16 of the client's QPNs */
};

struct broker_inboxes {
	struct broker_msg msg;
	uint64_t slots[256 / 64]; /* a bit of each that has one for this user */
};

/* The slot's socket takes what is sent to the group on the interface, until it leaves or its client
 * ends. It joins once: a second time is -EADDRINUSE. -EPERM for a slot that is not the client's. */
struct broker_group {
	struct broker_msg msg;
	uint32_t slot; /* one of the client's */
	uint32_t ifindex;
	struct gid group;
	uint32_t join; /* 0: leave */
};

/* May be short of rocev1, which is 0 then: from who knows nothing of that. */
struct broker_sysfs_ask {
	struct broker_msg msg;
	uint32_t rocev1; /* who asks has GIDs of RoCEv1: they are to be there, too */
};

/* Where what sysfs would have of the devices is laid out as below /sys (broker/sysfs.h): for as
 * long as this broker has a client. */
struct broker_sysfs {
	struct broker_msg msg;
	char path[64];
};

struct broker_cm_channel {
	struct broker_msg msg;
	uint32_t channel; /* names it in CM requests */
};

#endif
