/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A shard's thread: it makes progress when nobody else does. */
#include "engine/shard_priv.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/poll_until.h"
#include "base/time.h"
#include "base/uncancelled.h"

#define SLICE_NS (100 * NSEC_PER_USEC) /* the least that is granted */
#define LOOK_NS	 (100 * NSEC_PER_MSEC)
/* Where packets come a few at a time and the program does nothing about them, as requests do that
 * are ours alone to answer: about as long as it takes to be woken on a processor that sleeps. Where
 * many come the more come together the longer it takes; and a program that does something may need
 * the processor that the thread would look from. */
#define SPIN_NS	  (20 * NSEC_PER_USEC)
#define FEW	  2
#define FEW_TIMES 16

void shard_thread_wake(struct shard *s)
{
	uint64_t one = 1;

	/* Until it has looked, further deadlines are seen without waking. */
	s->sleeps_until = 0;
	if (uncancelled_write(s->wake_fd, &one, sizeof(one)) < 0)
		log_err("engine", "cannot wake the thread: %s", strerror(errno));
}

/* What the thread sleeps on. */
struct sleep_on {
	struct pollfd p[2 + DRIVE_PORTS_MAX]; /* wake_fd, what is watched, the ports */
	nfds_t n;
};

/* With the lock held. A port that is broken would not let it sleep. */
static void sleep_on(struct sleep_on *o, const struct shard *s, bool listen)
{
	const struct drive *d = &s->drive;

	o->p[0] = (struct pollfd){.fd = s->wake_fd, .events = POLLIN};
	o->p[1] = (struct pollfd){.fd = s->watch.fd, .events = POLLIN};
	o->n = 2;
	for (size_t i = 0; listen && i < d->ports; i++)
		if (!d->broken[i])
			o->p[o->n++] = (struct pollfd){.fd = d->port[i]->fd, .events = POLLIN};
}

/* Of each once; of the last, or the only one, it is told where the thread ends. */
static void tell_of_broken(const struct drive *d, unsigned int *told)
{
	for (size_t i = 0; d->ports > 1 && i < d->ports; i++)
		if (d->broken[i] && !(*told & 1u << i)) {
			log_err("engine", "port %zu of %zu is broken: %s; the others go on", i + 1,
				d->ports, strerror(-d->broken[i]));
			*told |= 1u << i;
		}
}

/*
 * Sleeps until the time comes, something is sent to us if we listen, or we are woken. True if the
 * watched descriptor is ready. A lease that has been renewed meanwhile is slept on without a look
 * at anything else: its owner has the lock most of the time, and would have to wake us for it.
 * Until spin_until it looks without sleeping, and does not sleep then: it has not said that it
 * would.
 */
static bool thread_sleep(struct shard *s, uint64_t until, uint64_t spin_until, bool leased,
			 struct sleep_on *o)
{
	uint64_t count;
	int n = 0;

	while (spin_until && (n = ppoll(o->p, o->n, &(struct timespec){0}, NULL)) == 0 &&
	       !drive_stirs(&s->drive) && time_now_ns() < spin_until)
		;
	while (n == 0 && !spin_until && (n = poll_until(o->p, o->n, until, NULL)) == 0 && leased &&
	       lease_is_live(&s->lease, time_now_ns()))
		until = lease_until(&s->lease);
	if (n < 0)
		return false;
	if ((o->p[0].revents & POLLIN) && read(s->wake_fd, &count, sizeof(count)) < 0)
		log_err("engine", "eventfd: %s", strerror(errno));
	return o->p[1].revents;
}

/*
 * The application may keep every processor busy, waiting for what only this thread can bring. With
 * a short slice Linux (6.12 and later) lets it run as soon as it wakes, for as long as it stays
 * short; older kernels ignore the wish.
 */
static void ask_for_short_slices(void)
{
	struct { /* sched_setattr(2); <linux/sched/types.h> and <sched.h> exclude each other */
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime_ns, deadline_ns, period_ns;
	} a = {
		.size = sizeof(a),
		.policy = SCHED_OTHER,
		.nice = getpriority(PRIO_PROCESS, 0),
		.runtime_ns = SLICE_NS,
	};

	if (syscall(SYS_sched_setattr, 0, &a, 0) < 0)
		log_info("engine", "no short slices: %s", strerror(errno));
}

static void *thread_main(void *arg)
{
	struct shard *s = arg;
	uint64_t woken_at = DEADLINE_NEVER; /* what the last sleep was meant to last until */
	uint64_t look_at = 0;		    /* at the watched descriptor, however busy */
	uint64_t got_at = 0;		    /* when packets came */
	unsigned int few = 0;		    /* so often in succession a few at a time */
	unsigned int told = 0;		    /* of which broken ports */

	prctl(PR_SET_NAME, "weft-shard");
	ask_for_short_slices();
	/* RNR timers are of tens of microseconds. */
	prctl(PR_SET_TIMERSLACK, (unsigned long)NSEC_PER_USEC);
	pthread_mutex_lock(&s->lock);
	while (!s->stop) {
		uint64_t until, spin_until = 0, now = time_now_ns();
		struct sleep_on on;
		struct watch watch;
		bool go_on, listen, busy, leased;

		until = lease_others(&s->lease, drive_send_pending(&s->drive),
				     drive_next_deadline(&s->drive), now);
		listen = !until;
		if (listen) {
			bool more, kept;
			int got;

			lease_thread_begins(&s->lease, now);
			s->thread_receives = true;
			got = shard_receive(s, now);
			s->thread_receives = false;
			kept = shard_keeps(s, now);
			more = !kept && drive_send(&s->drive, SHARD_TX_MAX, now);
			lease_thread_received(&s->lease, got, now);
			busy = got > 0 || more;
			if (got > 0) {
				got_at = now;
				few = got <= FEW && !lease_called(&s->lease) ? few + 1 : 0;
			}
			if (few >= FEW_TIMES && now - got_at < SPIN_NS)
				spin_until = got_at + SPIN_NS;
			if (busy && now < look_at) {
				shard_unlock_fairly(s);
				pthread_mutex_lock(&s->lock);
				continue;
			}
			if (got < 0) {
				log_err("engine", "a port is broken: %s", strerror(-got));
				break;
			}
			until = busy ? now : drive_next_deadline(&s->drive);
			if (kept)
				until = min_of(until, lease_keeps_until(&s->lease));
			/* A deadline that has been put off since is kept: waking once too often
			 * costs less than being woken for the next packet's timer. */
			if (woken_at > now)
				until = min_of(until, woken_at);
			woken_at = until;
			if (s->lease.attended) {
				until = min_of(until, s->lease.guard);
				listen = false;
			}
		}
		if (listen && !spin_until && !drive_sleeps(&s->drive))
			until = now;
		leased = !listen && lease_is_live(&s->lease, now);
		look_at = now + LOOK_NS;
		s->sleeps_until = until;
		s->listens = listen;
		watch = s->watch;
		tell_of_broken(&s->drive, &told);
		sleep_on(&on, s, listen);
		pthread_mutex_unlock(&s->lock);
		go_on = !thread_sleep(s, until, spin_until, leased, &on) || watch.ready(watch.fd);
		pthread_mutex_lock(&s->lock);
		if (!go_on && s->watch.nr == watch.nr)
			s->watch.fd = -1;
		s->sleeps_until = 0;
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

int shard_thread_start(struct shard *s)
{
	sigset_t all, old;
	int rc;

	/* The application's signals are for its own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&s->thread, NULL, thread_main, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -rc;
}

void shard_thread_stop(struct shard *s)
{
	shard_lock(s);
	s->stop = true;
	shard_thread_wake(s);
	shard_unlock(s);
	pthread_join(s->thread, NULL);
}
