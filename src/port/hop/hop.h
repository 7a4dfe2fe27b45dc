/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The next host on the way to an address, as the kernel's routes and its table of neighbours have
 * it: asked by rtnetlink, which answers at once.
 */
#ifndef WEFT_PORT_HOP_HOP_H
#define WEFT_PORT_HOP_HOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/flow.h"

struct hop {
	uint8_t family;
	uint8_t addr[16]; /* a gateway, or where it is all going */
	uint32_t ifindex;
	bool unicast; /* to another host: not to this one, to a group, or nowhere */
};

struct hop_neighbour {
	uint16_t state; /* NUD_... */
	bool valid;	/* that is, mac is where to send to */
	uint8_t mac[6]; /* zeros, where the link has other addresses or none */
};

/* The descriptor for the calls below, or -errno. */
int hop_open(void) must_use;
/* flow: sgid, dgid and scope of the way. -errno: there is none, or of a kind that is not here. */
int hop_find(int fd, const struct flow *, struct hop *ret) must_use;
/* -ENOENT: the kernel knows nothing of it. */
int hop_neighbour(int fd, const struct hop *, struct hop_neighbour *ret) must_use;
/* Has the kernel look whether the neighbour is still there, as it does when it sends there itself.
 * Takes CAP_NET_ADMIN. */
int hop_use(int fd, const struct hop *) must_use;
/* Has it find out who the neighbour is, for which it takes something to send there: an empty
 * datagram, from the flow's source. Anybody may. */
void hop_probe(const struct flow *);

#endif
