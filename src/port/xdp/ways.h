/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The ways that lead over one interface: whether a flow goes there, and to which neighbour's MAC
 * address. The kernel's routes and neighbours say so. While a way is in use the kernel is asked to
 * look whether the neighbour is still there, as it would if it sent there itself. Once the
 * interface has another MTU than at first, no way leads over it.
 */
#ifndef WEFT_PORT_XDP_WAYS_H
#define WEFT_PORT_XDP_WAYS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "port/hop/known.h"
#include "port/xdp/frame.h"
#include "wire/flow.h"

struct way {
	struct known k; /* there: over our interface, to a neighbour that is known */
	bool ours;	/* sgid is an address of this host's, as far as is known */
	struct frame_macs macs;
};

struct ways {
	int fd;
	uint32_t ifindex;
	uint32_t mtu;
	/* Of each way that was looked up anew. */
	void (*told)(void *ctx, const struct way *);
	void *ctx;
	struct way v[KNOWN_MAX];
};

int ways_open(struct ways *, uint32_t ifindex, uint32_t mtu,
	      void (*told)(void *ctx, const struct way *), void *ctx) must_use;
void ways_close(struct ways *);
/* NULL: not over this interface, or not yet. */
const struct frame_macs *ways_find(struct ways *, const struct flow *, uint64_t now);

#endif
