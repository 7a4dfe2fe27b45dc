/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Where frames of RoCEv1 go: to which MAC address, by which interface. They are switched and never
 * routed, so that there is a way to neighbours alone, and to this host itself, by loopback.
 *
 * A link-local GID that is made of a MAC address (EUI-64) says it, as Linux takes it to; of others
 * the kernel's neighbours are asked, who are found out if need be. What was said counts for a
 * while, so that a change is followed within L2_KEEP_NS.
 */
#ifndef WEFT_PORT_RAW_L2_WAYS_H
#define WEFT_PORT_RAW_L2_WAYS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/units.h"
#include "port/raw/own_addresses.h"
#include "wire/flow.h"

#define L2_KEEP_NS  NSEC_PER_SEC
#define L2_RETRY_NS (50 * NSEC_PER_MSEC) /* where there is none: it may come any time */
#define L2_SETS	    256
#define L2_WAYS	    4
#define L2_LOOPBACK 1 /* the index of lo in every network namespace */
#define L2_MAC_LEN  6

struct l2_way {
	struct gid sgid, dgid;
	uint32_t scope;
	bool there;
	uint32_t ifindex;
	uint8_t mac[L2_MAC_LEN]; /* zeros, which are lo's, for this host */
	uint64_t until;		 /* 0: nothing is kept here */
};

struct l2_ways {
	int fd; /* a hop_open()'s, the caller's */
	struct own_addresses *own;
	struct l2_way v[L2_SETS][L2_WAYS];
};

void l2_ways_init(struct l2_ways *, int fd, struct own_addresses *);
/* NULL: there is none, or not yet. */
const struct l2_way *l2_ways_find(struct l2_ways *, const struct flow *, uint64_t now);

/* The MAC address that a link-local GID is made of. False: it is of none. */
bool l2_mac_of_gid(const struct gid *, uint8_t ret[L2_MAC_LEN]) must_use;

#endif
