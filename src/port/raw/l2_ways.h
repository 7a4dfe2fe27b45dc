/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Where frames of RoCEv1 go: to which MAC address, by which interface. They are switched and never
 * routed, so that there is a way to neighbours alone, and to this host itself, by loopback.
 *
 * A link-local GID that is made of a MAC address (EUI-64) says it, as Linux takes it to; of others
 * the kernel's neighbours are asked, who are found out if need be.
 */
#ifndef WEFT_PORT_RAW_L2_WAYS_H
#define WEFT_PORT_RAW_L2_WAYS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "port/hop/known.h"
#include "port/raw/own_addresses.h"
#include "wire/flow.h"

#define L2_LOOPBACK 1 /* the index of lo in every network namespace */
#define L2_MAC_LEN  6

struct l2_way {
	struct known k;
	uint32_t ifindex;
	uint8_t mac[L2_MAC_LEN]; /* zeros, which are lo's, for this host */
};

struct l2_ways {
	int fd; /* a hop_open()'s, the caller's */
	struct own_addresses *own;
	struct l2_way v[KNOWN_MAX];
};

void l2_ways_init(struct l2_ways *, int fd, struct own_addresses *);
/* NULL: there is none, or not yet. */
const struct l2_way *l2_ways_find(struct l2_ways *, const struct flow *, uint64_t now);

/* The MAC address that a link-local GID is made of. False: it is of none. */
bool l2_mac_of_gid(const struct gid *, uint8_t ret[L2_MAC_LEN]) must_use;

#endif
