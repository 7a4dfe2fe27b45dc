/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Slots for other users than the broker's own. The sockets of port 4791 are one group, and who has
 * one of them can do something to all (members.h); so another user gets a socket outside of it, on
 * a port of the kernel's choosing, and nftables turns the slot's packets to that port: a table of
 * the broker's, whose map has the port for each such slot. It is the user's own and bound for
 * good, so that it can never come into the group: whatever is done to it, and by whomever it is
 * kept, concerns this socket alone. The slot's member of the group stays with the
 * broker.
 *
 * It takes CAP_NET_ADMIN in the network namespace, nf_tables and udp_diag in the kernel, and
 * libnftables, which is loaded when first needed. The table ends with the broker, however that
 * ends.
 *
 * The socket bears a mark with its slot, by which the next broker finds it (mark_table.h) and knows
 * that the slot is not free; with that socket its holder goes on.
 *
 * A datagram for a multicast group goes to sockets of port 4791 only: other users cannot join any.
 */
#ifndef WEFT_BROKER_FOREIGN_H
#define WEFT_BROKER_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"

#define FOREIGN_SLOTS 256

struct foreign {
	struct nft *nft;   /* NULL: not tried yet, or in vain */
	int error;	   /* -errno of a vain try */
	char why[256];	   /* a sentence */
	uint64_t again_at; /* when it is tried once more: a table goes some time after its broker */
	struct {
		int fd;	   /* 0: none */
		ino_t ino; /* of the last one; 0: none, or it has ended */
	} slot[FOREIGN_SLOTS];
};

void foreign_init(struct foreign *);
/* Looks whose sockets a broker before this one has left in the namespace: their slots are theirs.
 * Not to be able to look means to serve no other users. */
void foreign_look_around(struct foreign *);
void foreign_fini(struct foreign *);
/* Can other users be served here? 0, or -errno, and f->why says why not. */
int foreign_ready(struct foreign *) must_use;
/* A socket for the slot, which stays the table's. -errno. */
int foreign_open(struct foreign *, unsigned slot, uid_t) must_use;
/* Is fd the socket with which somebody had the slot under a broker before this one? 0, or -EPERM:
 * it is not. */
int foreign_check(struct foreign *, unsigned slot, uid_t, int fd) must_use;
/* The slot goes on with that socket: takes fd over. */
int foreign_resume(struct foreign *, unsigned slot, int fd) must_use;
void foreign_close(struct foreign *, unsigned slot);
/* Looks whose last sockets somebody has kept a copy of. */
void foreign_settle(struct foreign *);
/* Has somebody, when that was looked for last? */
bool foreign_lingers(const struct foreign *, unsigned slot);

#endif
