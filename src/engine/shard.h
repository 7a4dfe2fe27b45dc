/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A shard: its ports, one RNIC core, one timer deadline, one lock, one background thread.
 *
 * Progress is made by whoever is there. shard_posted() transmits inline from the caller that
 * posted; shard_progress() (ibv_poll_cq on an empty CQ) receives and processes in the poller's
 * thread; the background thread does both when nobody polls. A poller renews a short lease, and
 * while a lease is live the thread sleeps on it instead of on the socket, so that the two never
 * fight over a packet. The lease begins only with the caller that goes on polling: one that looks a
 * few times and then waits for an event (shard_sleeping()) leaves the socket to the thread.
 *
 * One who has to sleep may also attend the socket, where there is but one port: it sleeps on the
 * socket's descriptor, among others, and takes in itself what comes, so that a packet wakes one
 * thread instead of two. One at a time: where several sleep, or somebody waits to be told of
 * completion events, the thread serves. Between two of its sleeps it has a lease as a poller has.
 * If it does not come when there are packets, the thread takes them after ATTEND_GUARD_NS.
 *
 * fork(): the child has no part in its parent's shards. Its copies of the descriptors are closed;
 * shard_flush() and shard_progress() do nothing, objects can still be destroyed, and so can the
 * shard. shard_is_dead() tells.
 *
 * Lock order: the shard's lock is taken last; upcalls of the core run under it and must neither
 * block nor take it again.
 */
#ifndef WEFT_ENGINE_SHARD_H
#define WEFT_ENGINE_SHARD_H

#include <stdbool.h>

#include "port/port.h"
#include "rnic/rnic.h"

struct congestion_rules;
struct shard;

/* What the core tells the faces; ctx and alloc/free/random are the shard's own business. */
struct shard_upcalls {
	void (*cq_notify)(void *cq_user);
	void (*async_event)(enum rnic_event event, void *object_user);
};

/* Takes over one port or several (drive.h), which receive the QPNs of slot, unless it fails. Starts
 * the thread. */
int shard_create(struct shard **ret, struct port *const *ports, size_t n, uint8_t slot,
		 const struct shard_upcalls *) must_use;
/* All objects of its rnic must be gone. Joins the thread. */
void shard_destroy(struct shard *);

struct rnic *shard_rnic(struct shard *); /* to be used under the lock only */
/* As they were read when it was created: congestion_rules.h. */
const struct congestion_rules *shard_congestion(const struct shard *);
void shard_lock(struct shard *);
void shard_unlock(struct shard *);
/* False: it was not to be had in that time. */
bool shard_lock_within(struct shard *, uint64_t ns) must_use;

/* With the lock held: the time, for calls of the core. */
uint64_t shard_now(struct shard *);
/* With the lock held, after a QP changed: sends what the core has to send, and wakes the thread if
 * it would sleep past the new deadline. */
void shard_flush(struct shard *);
/* The same after sends were posted; but a poller's may wait for its next call (lease.h). */
void shard_posted(struct shard *);
/* With the lock held: one receive batch, timers that are due, and what follows from them to send.
 * Renews the poller's lease. True if any packet was received. */
bool shard_progress(struct shard *);

/* With the lock held, from a caller that is no poller: takes in all that has come until now. */
void shard_catch_up(struct shard *);
/* With the lock held, when a CQ was polled and had something: as good a sign of a poller as
 * shard_progress(), and the same where it happens several times in succession. */
void shard_polled(struct shard *);
/* With the lock held: the caller is about to give the processor away for what may be long. Sends
 * what would wait for its next call. */
void shard_leaving(struct shard *);
/* With the lock held, when a CQ has been armed: the caller is going to wait for the completion
 * event instead of polling. It is to be told: the thread takes over at once. */
void shard_sleeping(struct shard *);
/* The same, but it comes with shard_attend() in a moment, as it does each time. */
void shard_sleeping_soon(struct shard *);
/* With the lock held: there is one more that waits to be told, be it for a while; or one less. */
void shard_told(struct shard *, bool more);
/* With the lock held, from an upcall: is it the thread that took in what it is about? */
bool shard_thread_receives(const struct shard *);
/*
 * The caller is going to sleep on the descriptor that is returned, which is readable when packets
 * wait; what is owed to peers is sent before. (A caller that only looks, and has something to do
 * anyway, may well send more at once: then it waits until the next time.) -1: it must rely on
 * being told by others. Either way it comes back with the ticket: shard_attended(), readable if the
 * descriptor was. With ret_until (or NULL) it comes back at that time at the latest, where the
 * descriptor is not -1; the thread then need not look at timers that are due then or later.
 * *ret_come: something has come already of which the descriptor will not tell: then it does not
 * sleep, but comes back.
 */
int shard_attend(struct shard *, bool sleeps, uint64_t *ret_until, bool *ret_come,
		 uint64_t *ret_ticket) must_use;
void shard_attended(struct shard *, uint64_t ticket, bool readable);
/* Before shard_attend(), by who is going to sleep, without the lock: looks for a moment whether
 * something comes, where that pays (moment.h); what is owed to peers is sent before. */
void shard_look(struct shard *);
/* The thread calls ready(fd), without the lock, whenever fd is readable, until that returns false.
 * One fd at a time; it stays the caller's. */
void shard_watch(struct shard *, int fd, bool (*ready)(int fd));
/* With the lock held: there are UD QPs now, whose receivers see network headers. */
void shard_want_headers(struct shard *);
/* Are we in a child that was forked after the shard was created? */
bool shard_is_dead(const struct shard *);

#endif
