/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The addresses of this host, with which nobody has compared what comes in frames. What the kernel
 * says of them counts for a while; what is asked for and is not among them is soon looked for
 * again, for it may be new.
 */
#ifndef WEFT_PORT_RAW_OWN_ADDRESSES_H
#define WEFT_PORT_RAW_OWN_ADDRESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/units.h"
#include "wire/flow.h"

#define OWN_KEEP_NS  NSEC_PER_SEC
#define OWN_AGAIN_NS (100 * NSEC_PER_MSEC)
#define OWN_MAX	     1024 /* as many as all devices have GIDs */

struct own_addresses {
	int fd; /* a hop_open()'s, the caller's */
	size_t n;
	uint64_t read_at; /* 0: never */
	struct own_address {
		struct gid gid;
		uint32_t ifindex; /* that has it */
	} v[OWN_MAX];
};

void own_init(struct own_addresses *, int fd);
/* Is it one? A link-local one must be of the interface *io_scope; 0 there is any, and becomes that
 * which has it. Of another kind of address *io_scope is not looked at. */
bool own_find(struct own_addresses *, const struct gid *, uint32_t *io_scope,
	      uint64_t now) must_use;

/* Was it one when they were read last, of this interface, or of whichever, 0? */
bool own_has(const struct own_addresses *, const struct gid *, uint32_t ifindex) must_use;

#endif
