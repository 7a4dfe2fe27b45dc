/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Is the next host on the way to an address there at all? Resolving an address (rdma_resolve_addr)
 * is more than finding a route: Linux asks for the neighbour too, and a host that is off or an
 * address that nobody has is told within the caller's timeout.
 */
#ifndef WEFT_BROKER_NEIGH_H
#define WEFT_BROKER_NEIGH_H

#include "base/compiler.h"
#include "wire/flow.h"

/* flow: sgid, dgid and scope of the way. 0: the neighbour is known, or there is none to know (it is
 * this host, a group, a link without neighbours), or the kernel does not say. -EAGAIN: not yet;
 * with probe it is asked for. */
int neigh_check(const struct flow *, bool probe) must_use;

#endif
