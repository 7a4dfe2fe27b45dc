/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The sockets on UDP port 4791 and who has them.
 *
 * All are of one SO_REUSEPORT group, whose program returns byte 5 of the UDP payload, bits 23:16 of
 * the destination QPN, plus 1: the slot's index in the group. Indices are the order of binding,
 * and closing a member would shift them: so slots are opened in order, when first needed, and the
 * broker keeps a descriptor of each for as long as it lives; clients get duplicates. A packet for
 * a slot that was never opened goes to any socket, whose owner has no such QP and drops it.
 *
 * Slot 0 is the broker's own (QP0 and QP1). The first member is for what is no packet of an RNIC:
 * reflector.h.
 */
#ifndef WEFT_BROKER_LEASES_H
#define WEFT_BROKER_LEASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/time.h"
#include "broker/groups.h"

#define LEASE_SLOTS   256
#define LEASE_REST_NS (1 * NSEC_PER_SEC) /* a released slot is not given out again sooner */

struct leases {
	struct {
		int fd;
		bool taken;
		uint64_t released_ns;
	} slot[LEASE_SLOTS];
	unsigned opened;
	int reflector;
	struct groups groups;
};

/* Takes the port: opens slot 0. On failure -errno and a sentence in err. */
int leases_init(struct leases *, char *err, size_t err_len) must_use;
void leases_fini(struct leases *);
/* Returns a slot from 1 on, whose socket is empty and stays the lease table's; -EUSERS when all
 * are taken, -errno when no socket can be opened. */
int leases_take(struct leases *, uint64_t now) must_use;
/* The slot's socket joins a multicast group on an interface, or leaves it: see groups.h. */
int leases_group(struct leases *, unsigned slot, const struct gid *group, uint32_t ifindex,
		 bool join) must_use;
void leases_release(struct leases *, unsigned slot, uint64_t now);

#endif
