/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The XDP program of an interface, which sees each frame before the kernel's stack does. What is a
 * RoCEv2 packet to one of our addresses and to our slot goes to the AF_XDP socket of the queue that
 * it came by. All else goes on to the stack: what is for other programs' slots and for the broker,
 * other protocols, what is not ours at all, and what is unusual (IP options, fragments, VLAN tags),
 * of which our own part then comes by the UDP socket.
 *
 * The program is there as long as its descriptor: it goes with the process, however that ends.
 */
#ifndef WEFT_PORT_XDP_STEER_H
#define WEFT_PORT_XDP_STEER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/flow.h"

struct steer {
	int addresses, sockets, prog, link; /* descriptors; -1: none */
	bool generic;			    /* behind the driver, which has no XDP of its own */
};

/* Loads the program for a slot, and frames up to a length; it is not attached yet. -errno, and in
 * what it failed. */
int steer_open(struct steer *, uint8_t slot, uint32_t longest, uint32_t queues,
	       const char **ret_what) must_use;
/* In the driver where it can, else before the stack. -EBUSY: another program is there. */
int steer_attach(struct steer *, uint32_t ifindex) must_use;
void steer_close(struct steer *);

int steer_add_socket(struct steer *, uint32_t queue, int fd) must_use;
int steer_add_address(struct steer *, const struct gid *) must_use;
void steer_drop_address(struct steer *, const struct gid *);

#endif
