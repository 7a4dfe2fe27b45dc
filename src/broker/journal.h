/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a library has of its broker, so that it can have the same of the next one when that ends:
 * its slots and their groups, its channels, and what brokers save of its ids (proto_cm.h). It
 * listens to the talk of the two and needs to understand little of it.
 *
 * Thread-safe; calls nobody but the broker.
 */
#ifndef WEFT_BROKER_JOURNAL_H
#define WEFT_BROKER_JOURNAL_H

#include <pthread.h>

#include "base/list.h"
#include "broker/proto_cm.h"

#define JOURNAL_BUCKETS 256

struct journal {
	pthread_mutex_t lock;
	struct list slots, inboxes, groups, channels;
	struct list ids[JOURNAL_BUCKETS];
	uint32_t watch; /* the channel; 0: none */
};

struct journal_count {
	unsigned slots, channels, ids, lost;
};

void journal_init(struct journal *);
void journal_fini(struct journal *);
/* After a fork, in the child: its parent's is not its own. */
void journal_forget(struct journal *);
/* A slot or a channel and its descriptor, which must stay open for as long as they are had. */
void journal_slot(struct journal *, uint32_t slot, int fd);
void journal_inbox(struct journal *, uint32_t slot, int fd);
void journal_channel(struct journal *, uint32_t nr, int fd);
/* A request that has succeeded; saved: what came with the reply, or NULL. */
void journal_request(struct journal *, const void *req, const struct broker_cm_saved *saved);
/* What came with an event. */
void journal_saved(struct journal *, const struct broker_cm_saved *);
/* The program has destroyed an id, and the broker could not be told, or (-ENOENT) knows none: it is
 * for good, and the next broker is told, if that gets the id. */
void journal_destroyed(struct journal *, uint32_t id, int rc);
/* Has it all from another broker, over a connection that has said HELLO: what of it was lost is
 * counted. -errno: the connection is of no use. */
int journal_resume(struct journal *, int fd, struct journal_count *ret) must_use;

#endif
