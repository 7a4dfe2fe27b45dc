/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Descriptors that outlive the broker. They lie, each with a key and a note, as messages in a pair
 * of UNIX sockets, of which every client of the broker's own user has both ends: so what is in the
 * bag stays open until the last of them has gone, whatever becomes of the broker, and the next
 * broker has it.
 *
 * Nothing is ever missing from it, even if a broker is killed in the middle of something: what is
 * moved is put in once more before it is taken out. Of several with one key the latest counts.
 */
#ifndef WEFT_BROKER_BAG_H
#define WEFT_BROKER_BAG_H

#include <stdint.h>

#include "base/compiler.h"

struct bag {
	int in, out; /* -1: none */
	uint32_t serial;
};

int bag_open(struct bag *) must_use;
void bag_close(struct bag *);
/* Puts a copy of fd in, or with -1 the note alone, under a key that is not there. -errno:
 * -ETOOMANYREFS or -EAGAIN when the kernel carries no more. */
int bag_put(struct bag *, uint32_t key, uint64_t note, int fd) must_use;
/* As that, in the place of what has the key. */
int bag_replace(struct bag *, uint32_t key, uint64_t note, int fd) must_use;
void bag_drop(struct bag *, uint32_t key);
/* Takes over a bag that another broker has filled, with both descriptors, and says what is in it.
 * The descriptors handed to see are see's. -EMFILE, -ENOMEM: not all of it could be looked at. */
int bag_adopt(struct bag *, int in, int out,
	      void (*see)(void *ctx, uint32_t key, uint64_t note, int fd), void *ctx) must_use;

#endif
