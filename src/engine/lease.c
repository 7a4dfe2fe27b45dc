/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "engine/lease.h"

#include "base/bytes.h"
#include "base/heap.h" /* DEADLINE_NEVER */
#include "base/time.h"

#define PAUSE_NS    (200 * NSEC_PER_USEC)
#define SPIN_MIN_NS (20 * NSEC_PER_USEC)
#define SPIN_MAX_NS (20 * NSEC_PER_MSEC)
#define LEASE_NS    (500 * NSEC_PER_USEC)
#define BACK_NS	    (100 * NSEC_PER_USEC)
#define KEPT_NS	    (2 * NSEC_PER_MSEC)
#define PROMPT_NS   (20 * NSEC_PER_USEC)
#define HELD_NS	    (100 * NSEC_PER_USEC)
#define LATE_MAX    3
#define HASTY_NS    (100 * NSEC_PER_MSEC)
#define ANSWER_NS   (50 * NSEC_PER_USEC)
#define ANSWERS_MIN 8
#define BULK_MIN    8

/* For who attends: that long it may be at something else. */
#define ATTEND_LEASE_NS (2 * NSEC_PER_MSEC)
/* Of what it posts meanwhile, this one and those behind it may wait: the first is an answer. */
#define ATTEND_POSTS 2
/* After one left while others slept: so long the thread serves them all. */
#define SHARED_NS (10 * NSEC_PER_MSEC)
/* So long a packet may wait for one who said to attend and never came, being cancelled perhaps. */
#define ATTEND_GUARD_NS (200 * NSEC_PER_MSEC)

void lease_init(struct lease *l)
{
	*l = (struct lease){.spin_ns = SPIN_MIN_NS};
}

static void set_until(struct lease *l, uint64_t until)
{
	atomic_store_explicit(&l->until, until, memory_order_relaxed);
}

/* The thread may sleep until some later time already, and would not hear of an earlier one. */
static void not_before(struct lease *l, uint64_t until)
{
	if (atomic_load_explicit(&l->until, memory_order_relaxed) < until)
		set_until(l, until);
}

static void attend_until(struct lease *l, uint64_t until)
{
	l->posts = 0;
	set_until(l, until);
}

static bool answers(const struct lease *l)
{
	return l->answers == ANSWERS_MIN;
}

/* A call of the application: is it one that polls without a pause? */
static void renew(struct lease *l, uint64_t now)
{
	if (now - l->poll_last > PAUSE_NS)
		l->poll_since = now;
	l->poll_last = now;
	if (now - l->poll_since < l->spin_ns && !answers(l))
		return;
	if (!l->since)
		l->since = now;
	else if (now - l->since > KEPT_NS)
		l->spin_ns = SPIN_MIN_NS;
	not_before(l, now + LEASE_NS);
}

static void polled(struct lease *l)
{
	l->called = true;
	l->lost_at = 0;
	if (l->unpolled)
		l->bulk = l->unpolled >= BULK_MIN;
	l->unpolled = 0;
}

bool lease_called(struct lease *l)
{
	const bool called = l->called;

	l->called = false;
	return called;
}

void lease_polls(struct lease *l, uint64_t now)
{
	polled(l);
	renew(l, now);
}

void lease_worked(struct lease *l, uint64_t from, uint64_t to)
{
	if (from - l->poll_last > PAUSE_NS)
		return;
	l->poll_last = to;
	if (l->since)
		not_before(l, to + LEASE_NS);
}

void lease_polled(struct lease *l)
{
	polled(l);
}

bool lease_in_bulk(const struct lease *l)
{
	return l->bulk;
}

uint64_t lease_keeps_until(const struct lease *l)
{
	return l->written + ANSWER_NS;
}

bool lease_keeps(const struct lease *l, uint64_t now)
{
	return answers(l) && l->written && now < lease_keeps_until(l);
}

void lease_written(struct lease *l, uint64_t now)
{
	if (l->written)
		l->answers = 0;
	l->written = now;
}

void lease_other_came(struct lease *l)
{
	l->answers = 0;
	l->written = 0;
}

/* What is posted, and answers no WRITE, says that it would have been posted anyway. */
static void answered(struct lease *l, uint64_t now)
{
	if (l->written && now < lease_keeps_until(l))
		l->answers = min_of(l->answers + 1, (unsigned int)ANSWERS_MIN);
	else
		l->answers = 0;
	l->written = 0;
}

void lease_posts(struct lease *l, uint64_t now)
{
	l->called = true;
	l->unpolled++;
	if (l->lost_at && now - l->lost_at < BACK_NS)
		l->spin_ns = min_of(l->spin_ns * 2, SPIN_MAX_NS);
	l->lost_at = 0;
	answered(l, now);
	l->posts++;
	if (l->since)
		renew(l, now);
	else if (now - l->poll_last <= PAUSE_NS)
		l->poll_last = now; /* between two polls is no pause in which it posts */
}

bool lease_holds(struct lease *l, uint64_t now)
{
	if (!lease_is_live(l, now) || now < l->hasty_until || answers(l))
		return false;
	/* Of who attends: what is posted while it sleeps is another's, who may not be back. */
	if (!l->since && (l->attended || l->posts < ATTEND_POSTS))
		return false;
	if (!l->held)
		l->held = now;
	l->held_last = now;
	return now - l->held < HELD_NS;
}

void lease_sent(struct lease *l, uint64_t now)
{
	if (!l->held)
		return;
	if (now - l->held_last < PROMPT_NS) {
		l->late = 0;
	} else if (++l->late == LATE_MAX) {
		l->late = 0;
		l->hasty_until = now + HASTY_NS;
	}
	l->held = 0;
}

bool lease_end(struct lease *l)
{
	bool had = lease_until(l) != 0;

	l->poll_last = 0;
	l->since = 0;
	set_until(l, 0);
	return had;
}

uint64_t lease_attend(struct lease *l, bool can, uint64_t back_at, uint64_t now)
{
	/* Beside a poller that has the socket each packet would wake one more. Its own lease one
	 * has ended that waits for an event; a socket's may be its own. */
	const bool beside_poller = back_at && l->since && lease_is_live(l, now);

	l->called = true;
	if (!can || l->attended || l->told || now < l->shared || beside_poller) {
		l->refused++;
		return 0;
	}
	l->guard = now + ATTEND_GUARD_NS;
	l->back_at = back_at ? back_at : DEADLINE_NEVER;
	return l->attended = ++l->tickets;
}

bool lease_comes(struct lease *l, uint64_t now)
{
	if (l->told || l->refused || now < l->shared)
		return lease_end(l);
	l->poll_last = 0;
	l->since = 0;
	attend_until(l, now + ATTEND_LEASE_NS);
	return false;
}

void lease_told(struct lease *l, bool more)
{
	l->told += more ? 1 : -1u;
}

enum lease_left lease_attended(struct lease *l, uint64_t ticket, uint64_t now)
{
	if (!ticket) {
		l->refused--;
		return LEASE_AS_BEFORE;
	}
	if (l->attended != ticket)
		return LEASE_AS_BEFORE;
	l->attended = 0;
	if (l->refused || l->told) {
		l->shared = now + SHARED_NS;
		return LEASE_TO_THREAD;
	}
	attend_until(l, now + ATTEND_LEASE_NS);
	return LEASE_HELD;
}

uint64_t lease_others(const struct lease *l, bool pending, uint64_t deadline, uint64_t now)
{
	uint64_t until;

	if (lease_is_live(l, now))
		return lease_until(l);
	/* Who attends has sent all before it slept. */
	if (!l->attended || pending)
		return 0;
	until = deadline >= l->back_at ? l->guard : min_of(l->guard, deadline);
	if (until <= now)
		return 0;
	/* So that one who comes and goes all the time need not wake the thread each time. */
	return lease_until(l) + ATTEND_LEASE_NS > now ? min_of(until, now + ATTEND_LEASE_NS)
						      : until;
}

void lease_thread_begins(struct lease *l, uint64_t now)
{
	if (l->since)
		l->lost_at = now;
	l->since = 0;
	set_until(l, 0);
	lease_sent(l, now);
}

void lease_thread_received(struct lease *l, int packets, uint64_t now)
{
	l->guard = now + ATTEND_GUARD_NS;
	if (packets > 0)
		l->attended = 0;
}
