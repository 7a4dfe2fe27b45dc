/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A process's inbox: memory that it shares with the processes of its host that send to it. Of each
 * slot it has a ring, which that slot's holder fills and the owner empties. What a ring holds is
 * what would come by the wire, and as little to be trusted.
 *
 * The memory is a memfd that nobody can shrink, so that a peer's misuse is no SIGBUS. Rings take no
 * memory before they are used.
 *
 * Head and tail count bytes and only grow. A sender publishes its tail and rings the bell; the
 * owner takes the bells, and what is in the rings that they name. Owners that are going to sleep
 * say so first and look at the bells then; senders look at that after they have rung: one of the
 * two sees the other.
 *
 * Each sleep has a number, which is odd. Who has woken the owner takes one from it, so that others
 * need not: afterwards, as one that is stopped or dies in between would keep all others from it,
 * and of that sleep only.
 */
#ifndef WEFT_PORT_LOCAL_INBOX_H
#define WEFT_PORT_LOCAL_INBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define INBOX_SLOTS 256
#define INBOX_WORDS (INBOX_SLOTS / 64)
#define INBOX_RING  ((size_t)1 << 20) /* bytes; a power of two and of pages */

struct inbox_ring {			    /* each side's in a cache line of its own */
	_Alignas(64) _Atomic uint64_t tail; /* the sender's */
	_Atomic uint32_t blocked;	    /* it waits for room */
	_Alignas(64) _Atomic uint64_t head; /* the owner's */
};

struct inbox {
	_Alignas(64) _Atomic uint64_t bell[INBOX_WORDS]; /* a bit of each sender */
	/* What senders look at often, and seldom changes. */
	_Alignas(64) _Atomic uint32_t asleep;		    /* odd: the owner is to be woken */
	_Atomic uint32_t closed;			    /* it has gone */
	_Atomic uint32_t news;				    /* so often there was a new inbox */
	_Alignas(64) _Atomic uint64_t refuses[INBOX_WORDS]; /* it takes no more of these */
	struct inbox_ring ring[INBOX_SLOTS];
};

/* A new one. Returns its descriptor, the caller's, or -errno. */
int inbox_create(struct inbox **ret) must_use;
/* Somebody else's, which the descriptor, still the caller's, is said to be. -EINVAL: it is none. */
int inbox_map(int fd, struct inbox **ret) must_use;
void inbox_unmap(struct inbox *);
/* The ring's bytes, twice in a row, so that what stands at its end goes on. */
int inbox_map_ring(int fd, unsigned slot, uint8_t **ret) must_use;
void inbox_unmap_ring(uint8_t *);

/* For who looks after the owners, be the memory whose it likes. */
void inbox_close(int fd); /* the owner has gone */
void inbox_open(int fd);  /* it has not, whoever thought so */
void inbox_tell(int fd);  /* there is another inbox */

#endif
