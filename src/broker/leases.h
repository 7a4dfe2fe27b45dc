/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The slots and who has them. A slot is bits 23:16 of its holder's queue pair numbers, and a socket
 * on UDP port 4791 (members.h) that gets what is for these. Slots are opened when first needed.
 *
 * Slot 0 is the broker's own (QP0 and QP1).
 *
 * Another user than the broker's own gets a socket apart (foreign.h).
 *
 * A slot that is given back rests; then a fresh socket takes the place of the old one, and only
 * then it is leased again: nothing that a holder has done to its socket, nor a copy of it, is of
 * any effect on the next.
 */
#ifndef WEFT_BROKER_LEASES_H
#define WEFT_BROKER_LEASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/time.h"
#include "broker/foreign.h"
#include "broker/groups.h"
#include "broker/members.h"

#define LEASE_SLOTS   256
#define LEASE_REST_NS (1 * NSEC_PER_SEC) /* a released slot is not given out again sooner */
/* Nor one of a broker that has ended: its holder may come and ask for it. */
#define LEASE_HEIR_NS (10 * NSEC_PER_SEC)
/* Of other users than the broker's own: each, and all together. */
#define LEASE_USER_MAX	  64
#define LEASE_FOREIGN_MAX 192

struct leases {
	struct members members;
	struct lease {
		bool taken;
		bool had;	  /* by somebody: the member's socket is not fresh */
		uid_t uid;	  /* its holder's, or its last holder's */
		int inbox;	  /* its holder's, for processes of this host; 0: none */
		uint64_t free_at; /* not taken: it is not given out again sooner */
	} slot[LEASE_SLOTS];
	uid_t uid; /* the broker's */
	struct groups groups;
	struct foreign foreign;
};

/* Takes the port: opens slot 0, or with a bag (else -1) takes over from a broker that has ended,
 * which *ret_heir tells. On failure -errno and a sentence in err. */
int leases_init(struct leases *, int bag_in, int bag_out, bool *ret_heir, char *err,
		size_t err_len) must_use;
void leases_fini(struct leases *);
/* The slot's member of the group, which stays the table's. */
int leases_fd(const struct leases *, unsigned slot);
int leases_reflector(const struct leases *);
/* Returns a slot from 1 on, and its holder's socket, which is fresh and stays the table's. -EUSERS
 * when all are taken, -EDQUOT when the user has as many as others leave it, -errno when no socket
 * can be opened. */
int leases_take(struct leases *, uid_t, uint64_t now, int *ret_fd) must_use;
/* The slot that somebody has had of a broker before this one, and whose socket fd is: takes fd
 * over. -EBUSY: somebody else has it; -EPERM: that is not its socket; -EDQUOT. */
int leases_keep(struct leases *, unsigned slot, uid_t, int fd) must_use;
/* The slot's holder offers an inbox: takes fd over, unless it fails. -EINVAL: it is none. */
int leases_offer(struct leases *, unsigned slot, int fd) must_use;
/* The broker is told to end, and their holders go on: what they have offered stays open. */
void leases_leave_inboxes(struct leases *);
/* A bit of each slot of which there is one for this user. */
void leases_inboxes(const struct leases *, uid_t, uint64_t ret[LEASE_SLOTS / 64]);
/* Returns the inbox that the slot's holder offers to this user, the table's; or -ENOENT. */
int leases_inbox(const struct leases *, unsigned slot, uid_t) must_use;
/* The slot's socket joins a multicast group on an interface, or leaves it: see groups.h.
 * -EOPNOTSUPP: another user's. */
int leases_group(struct leases *, unsigned slot, const struct gid *group, uint32_t ifindex,
		 bool join) must_use;
void leases_release(struct leases *, unsigned slot, uint64_t now);
/* To be called every second or so: for as long a holder's mischief lasts at most. */
void leases_tick(struct leases *);

#endif
