/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The host's own addresses, as the kernel tells of them by rtnetlink. */
#ifndef WEFT_PORT_HOP_ADDRESSES_H
#define WEFT_PORT_HOP_ADDRESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/flow.h"

struct nlmsghdr;

/* Of an RTM_NEWADDR or RTM_DELADDR. False: it is of no use. */
bool address_of_message(const struct nlmsghdr *, struct gid *ret) must_use;

/* Each that there is, and its interface. fd: a hop_open()'s. 0, or -errno: those are not all. */
int addresses_each(int fd, void (*each)(void *ctx, const struct gid *, uint32_t ifindex),
		   void *ctx) must_use;

#endif
