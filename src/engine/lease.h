/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Who receives: callers that poll, one that sleeps on the socket itself (who attends), or the
 * thread. Rules of a shard as functions of the time; shard.h says what they are for.
 *
 * A poller that calls without a pause for spin_ns gets the socket to itself, for a while from the
 * end of its last call; the thread then looks after it. One that let its lease run out, and comes
 * back to send as soon as the thread has received for it, is no good poller: it was waiting for
 * memory to change. The next time it has to go on for twice as long, until it keeps a lease for a
 * while. (One that comes back late, or to poll, was not running: that is no fault.)
 *
 * While a poller has its lease, what it posts may wait for its next call, so that what it posts
 * until then goes along, but for no longer than a tenth of a millisecond while it posts on. At the
 * latest it goes when the lease ends. Who lets it wait for longer
 * than a moment several times over, without a post more, has something else to do: for a while all
 * that it posts goes at once. One that attends has a lease until it sleeps again, and so it is
 * with what it posts then, but for the first, which may be all that it has to say.
 *
 * A program may spin on its memory for WRITEs of its peer, and post something for each. Of one that
 * has done so a few times in succession, one for one and soon, it is expected: then the
 * acknowledgement of a WRITE goes along. Such a program has a lease as soon as it polls, and what
 * it posts does not wait.
 *
 * Who sleeps on the socket may see to the timers as well, but only to those that it knew of: what
 * others post or poll meanwhile may have an earlier one, and something to send. These are the
 * thread's.
 */
#ifndef WEFT_ENGINE_LEASE_H
#define WEFT_ENGINE_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct lease {
	uint64_t poll_since;	 /* when a caller began to poll without a pause */
	uint64_t poll_last;	 /* its last call */
	uint64_t since;		 /* of the lease of one who polls; 0: none */
	_Atomic(uint64_t) until; /* when the lease ends; 0: none */
	uint64_t spin_ns;	 /* how long one must poll for a lease */
	uint64_t lost_at;	 /* it ran out, and its owner has not come back: 0 or when */
	uint64_t attended;	 /* the ticket of who sleeps on the socket, 0: nobody */
	uint64_t tickets;	 /* given out */
	uint64_t guard;		 /* while attended: when the thread looks for itself */
	bool called;		 /* by the application, since the thread asked */
	uint64_t back_at;	 /* when who attends comes by itself, for a timer */
	uint64_t shared;	 /* so long nobody attends */
	uint64_t held;		 /* since when something posted waits; 0: nothing does */
	uint64_t held_last;	 /* and when the last of that was posted */
	unsigned int posts;	 /* of who attends, since it was awake */
	uint64_t hasty_until;	 /* so long nothing waits */
	unsigned int late;	 /* so often in succession it waited for longer than a moment */
	uint64_t written;	 /* since when a WRITE has no answer of the program; 0: none has */
	unsigned int answers;	 /* so many WRITEs in succession had */
	unsigned int unpolled;	 /* posts since the last poll */
	bool bulk;		 /* and before that there were many */
	unsigned int refused;	 /* would have attended, and sleep */
	unsigned int told;	 /* wait to be told of what comes, and attend nothing */
};

void lease_init(struct lease *);

/* ---- who polls */

/* A poller found nothing and is about to receive. */
void lease_polls(struct lease *, uint64_t now);
/* One found something: as good a sign that it is there. */
void lease_polled(struct lease *);
/* Its call has been at sending from then to then, which was no pause of its. */
void lease_worked(struct lease *, uint64_t from, uint64_t to);
/* Somebody posted. */
void lease_posts(struct lease *, uint64_t now);
/* May what was posted wait for the next call? */
bool lease_holds(struct lease *, uint64_t now);
/* Will more be posted before the next poll, as it was before the last? */
bool lease_in_bulk(const struct lease *) must_use;
/* All that there was is sent, or about to be. */
void lease_sent(struct lease *, uint64_t now);
/* A WRITE has come, of which nobody is told. */
void lease_written(struct lease *, uint64_t now);
/* Something else has: what the program posts may be about that. */
void lease_other_came(struct lease *);
/* May its acknowledgement wait for the program's answer? */
bool lease_keeps(const struct lease *, uint64_t now) must_use;
/* Until when, if it may. */
uint64_t lease_keeps_until(const struct lease *) must_use;
/* Somebody is going to wait to be told. True if a lease ends with that. */
bool lease_end(struct lease *);

/* When the lease ends, for the thread to see without the lock that it goes on. */
static inline uint64_t lease_until(const struct lease *l)
{
	return atomic_load_explicit(&l->until, memory_order_relaxed);
}

static inline bool lease_is_live(const struct lease *l, uint64_t now)
{
	return lease_until(l) > now;
}

/* ---- who attends */

/* Returns a ticket; 0: another does, or the thread has to. can: there is one socket to sleep on.
 * back_at: it comes then, the deadline of the timers, at the latest, and attends beside no poller;
 * 0: it does not look at them. */
uint64_t lease_attend(struct lease *, bool can, uint64_t back_at, uint64_t now) must_use;
/* One that attends each time is about to. True if a lease ends with that, because others wait. */
bool lease_comes(struct lease *, uint64_t now);
/* One more that waits to be told, and attends nothing; or one less. */
void lease_told(struct lease *, bool more);
/* Who attends, or was refused, is awake. What that means for the thread: */
enum lease_left {
	LEASE_AS_BEFORE,
	LEASE_TO_THREAD, /* others depend on the socket: it has it at once */
	LEASE_HELD,	 /* the thread is to look when the lease ends */
};
enum lease_left lease_attended(struct lease *, uint64_t ticket, uint64_t now) must_use;

/* ---- the thread */

/* Others receive: when is the thread to look again? 0: nobody does, or who does sleeps, and there
 * is something to send (pending). deadline: of the timers. */
uint64_t lease_others(const struct lease *, bool pending, uint64_t deadline, uint64_t now) must_use;
/* Nobody did: the thread is about to receive, and has received so much. */
void lease_thread_begins(struct lease *, uint64_t now);
void lease_thread_received(struct lease *, int packets, uint64_t now);
/* Has the application posted, polled or attended since this was asked last? */
bool lease_called(struct lease *) must_use;

#endif
