/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which multicast groups the slots' sockets are in. A membership is the socket's, which outlives
 * the slot's holder: so it is kept here and left when the holder goes.
 *
 * Multicast datagrams pass the steering program by: each socket that has joined gets a copy. But
 * where one socket alone has, Linux (seen with 6.18, IPv4) hands it the datagram before routing,
 * and then has the program choose once more among the sockets of the port. That is avoided by a
 * decoy: one more socket for each IPv4 group, bound to the group's address and so outside of the
 * port's SO_REUSEPORT group, whose filter drops everything.
 */
#ifndef WEFT_BROKER_GROUPS_H
#define WEFT_BROKER_GROUPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "wire/flow.h"

struct groups {
	struct list members, decoys;
};

void groups_init(struct groups *);
/* fd: the slot's socket. -errno of it; -EADDRINUSE: it has joined already. */
int groups_join(struct groups *, unsigned slot, int fd, const struct gid *group,
		uint32_t ifindex) must_use;
/* -EINVAL: it is not in the group. */
int groups_leave(struct groups *, unsigned slot, int fd, const struct gid *group,
		 uint32_t ifindex) must_use;
void groups_leave_all(struct groups *, unsigned slot, int fd);

#endif
