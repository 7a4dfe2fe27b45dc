/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The sockets on UDP port 4791: one SO_REUSEPORT group, and the program by which the kernel chooses
 * among them. It returns byte 5 of the UDP payload, bits 23:16 of the destination QPN, plus 1: the
 * index of the slot's socket in the group. Member 0 takes what is no packet of an RNIC
 * (reflector.h), member 1 + s has slot s.
 *
 * An index is the order of joining; when a member ends, which is when the last descriptor of it is
 * closed in whichever process, the last one takes its place. So the broker keeps a descriptor of
 * each member, and that is used to put a fresh socket in the place of one that somebody else has
 * had: behind the members with a slot there are always spare ones, of which nobody else has a
 * descriptor; the broker closes the old socket, and a spare one has its index. Had somebody kept a
 * copy of the old one, it goes on to be the member and the slot is *lost*, until the copy is
 * closed: there is one spare more than there are lost, so that none but a spare ever moves.
 *
 * Whether a socket has ended says udp_table.h.
 *
 * Whoever has any of these sockets can change the program for all of them, which nothing prevents
 * for certain; so it is put back, with each lease and by a timer. Sockets of the group are
 * therefore for programs of one user only (foreign.h is for others').
 *
 * All members are in the bag, too, under their indices, lost ones by their inode numbers alone.
 */
#ifndef WEFT_BROKER_MEMBERS_H
#define WEFT_BROKER_MEMBERS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "broker/bag.h"

#define MEMBERS_WITH_ROLE 257 /* the reflector and 256 slots */
#define MEMBERS_MAX	  1024
#define MEMBERS_NOTES	  2
#define MEMBERS_USED_KEY  (MEMBERS_MAX + MEMBERS_NOTES)

struct members {
	struct member_socket {
		int fd; /* -1: lost */
		ino_t ino;
		enum { MEMBER_OURS, MEMBER_LOST, MEMBER_RETIRED } state;
	} v[MEMBERS_MAX];
	unsigned count; /* members in the group, spare ones included */
	unsigned used;	/* with a role: the others are spare */
	unsigned lost;
	struct bag bag;
	uint64_t note[MEMBERS_NOTES]; /* in the bag, too: the broker's own, set before the first use
				       */
};

void members_init(struct members *);
void members_fini(struct members *);
/* Gives a role to one more, which is deaf (udp_socket_deafen()) yet. Its index, or -errno. */
int members_use(struct members *) must_use;
/* Puts the steering program back. */
int members_steer(struct members *) must_use;
/* Has a fresh, deaf socket take the place of one that has a role. -EBUSY: it is lost, now or since
 * before, or retired: of several that were lost and ended at once, nobody knows which is where. */
int members_renew(struct members *, unsigned index) must_use;
/* Looks which of the lost have ended: they have fresh sockets then. */
void members_settle(struct members *);
/* Somebody has kept a copy of a lost one, and rightly: it is the member's again. Takes fd over.
 * -ENOENT: it is another socket. */
int members_restore(struct members *, unsigned index, int fd) must_use;
/* Takes over what a broker that has ended left in its bag, whose descriptors become the members'.
 * -ENOENT: nothing; -EPROTO: not all; -EMFILE: more than we may have. */
int members_take_over(struct members *, int in, int out) must_use;

#endif
