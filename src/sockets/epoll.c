// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * epoll over streams. A set of the program's that has a tracked socket in it gets a second set
 * inside, of ours, with the descriptors that tell of streams; the program's own set has that one
 * as a member, so that one epoll_wait() of the kernel sleeps on everything.
 *
 * A registration that may be ready stands in the set's list of candidates: because one of its
 * descriptors fired, because its stream told (it is in the list of the fresh until somebody looks),
 * because it is new, or because it was ready last time and is level-triggered. It leaves the list
 * when a look finds it not ready, its completion queue armed. Who sleeps attends the RNIC's socket
 * (rsocket/attend.h) if nobody else does; then that is in the program's set too.
 *
 * The kernel does not know of candidates. So a set that is in another set, or is asked for by
 * poll(), is looked at in its place (set_ready()), without anything being taken out of it, and is
 * woken whenever a stream of its tells; the outer one is a set of ours then, too.
 *
 * One lock guards all sets and registrations. Under it streams are looked at, never closed. What
 * streams tell comes from under other locks, so the fresh have one of their own, taken last.
 */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/time.h"
#include "rsocket/attend.h"
#include "rsocket/probe.h"
#include "sockets/epoll_priv.h"
#include "sockets/own.h"
#include "sockets/real.h"

enum { BATCH = 64 };

static pthread_mutex_t fresh_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct set *receiving; /* for which this thread takes in packets */
/* A stream tells: one of those who sleep in the set is to look, unless it is about to. */
static void told(struct sock_watcher *w)
{
	struct registration *r = container_of(w, struct registration, watcher);

	pthread_mutex_lock(&fresh_lock);
	if (list_empty(&r->fresh))
		list_push_tail(&r->set->fresh, &r->fresh);
	pthread_mutex_unlock(&fresh_lock);
	if (r->set != receiving && set_is_watched(r->set))
		set_wake(r->set);
}

/* ---- what a registration watches, under the lock --------------------------------------------- */

static void watch(struct registration *r, enum source from, int fd, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.u64 = (uintptr_t)r | from};

	if (r->watched[from] == fd) {
		if (fd >= 0 && from == FROM_KERNEL)
			real()->epoll_ctl(r->set->inner, EPOLL_CTL_MOD, fd, &ev);
		return;
	}
	if (r->watched[from] >= 0)
		real()->epoll_ctl(r->set->inner, EPOLL_CTL_DEL, r->watched[from], &ev);
	r->watched[from] = -1;
	if (fd >= 0 && !real()->epoll_ctl(r->set->inner, EPOLL_CTL_ADD, fd, &ev))
		r->watched[from] = fd;
}

static void be_told_by(struct registration *r, struct stream *s)
{
	if (r->stream == s)
		return;
	if (r->stream)
		sock_unwatch(&r->stream->sock, &r->watcher);
	r->stream = s;
	if (s)
		sock_watch(&s->sock, &r->watcher);
}

static void watch_sources(struct registration *r)
{
	struct stream *s = r->entry->stream;
	const bool connected = s && atomic_load(&s->state) >= STREAM_CONNECTED;
	const uint32_t flags = EPOLLONESHOT | EPOLLEXCLUSIVE | EPOLLWAKEUP;

	be_told_by(r, s);
	watch(r, FROM_CQ, connected ? stream_event_fd(s) : -1, EPOLLIN);
	if (s)
		watch(r, FROM_KERNEL, r->entry->kernel_fd,
		      r->disabled || !(r->events & EPOLLIN) ? EPOLLET
							    : EPOLLIN | (r->events & EPOLLET));
	else
		watch(r, FROM_KERNEL, r->fd, r->disabled ? EPOLLET : r->events & ~flags);
}

static void make_candidate(struct registration *r)
{
	list_remove(&r->candidate);
	list_push_tail(&r->set->candidates, &r->candidate);
	if (set_is_watched(r->set))
		set_wake(r->set);
}

void epoll_entry_changed(struct entry *e)
{
	pthread_mutex_lock(&sets_lock);
	list_for_each(r, &e->registrations, struct registration, in_entry) {
		if (r->set->generation == sock_generation()) {
			watch_sources(r);
			make_candidate(r);
		}
	}
	pthread_mutex_unlock(&sets_lock);
}

void registration_remove(struct registration *r)
{
	if (r->set->generation == sock_generation()) {
		for (int from = 0; from < SOURCES; from++)
			watch(r, (enum source)from, -1, 0);
		be_told_by(r, NULL);
		pthread_mutex_lock(&fresh_lock);
		list_remove(&r->fresh);
		pthread_mutex_unlock(&fresh_lock);
	} /* else nobody looks at the parent's fresh, which may be half changed */
	list_remove(&r->in_set);
	list_remove(&r->in_entry);
	list_remove(&r->candidate);
	free(r);
}

void epoll_forget_entry(struct entry *e)
{
	pthread_mutex_lock(&sets_lock);
	list_for_each(r, &e->registrations, struct registration, in_entry)
		registration_remove(r);
	pthread_mutex_unlock(&sets_lock);
}

void epoll_before_fork(void)
{
	pthread_mutex_lock(&sets_lock);
}

void epoll_after_fork(void)
{
	pthread_mutex_unlock(&sets_lock);
}

/* Who tells has other locks, which are taken after ours here: so fresh_lock is not held. */
void epoll_in_child(void)
{
	pthread_mutex_init(&sets_lock, NULL);
	pthread_mutex_init(&fresh_lock, NULL);
}

/* ---- epoll_ctl ------------------------------------------------------------------------------- */

#define EXCLUSIVE_WITH \
	(EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE)

/* As the kernel has it, a number of a socket is one thing, another number of it another. */
static struct registration *find(const struct set *set, struct entry *e, int fd)
{
	list_for_each(r, &e->registrations, struct registration, in_entry)
		if (r->set == set && r->fd == fd)
			return r;
	return NULL;
}

static int add(int epfd, struct entry *e, int fd, const struct epoll_event *ev)
{
	struct set *set = set_of(epfd);
	struct registration *r;

	if (ev->events & EPOLLEXCLUSIVE && ev->events & ~EXCLUSIVE_WITH)
		return -EINVAL;
	if (!set)
		set = set_make(epfd);
	if (!set)
		return -errno;
	if (find(set, e, fd))
		return -EEXIST;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	*r = (struct registration){.set = set,
				   .entry = e,
				   .fd = fd,
				   .events = ev->events,
				   .data = ev->data,
				   .watcher.told = told,
				   .watched = {-1, -1}};
	list_init(&r->candidate);
	list_init(&r->fresh);
	list_push_tail(&set->registrations, &r->in_set);
	list_push_tail(&e->registrations, &r->in_entry);
	watch_sources(r);
	make_candidate(r);
	return 0;
}

static int control(int epfd, int op, struct entry *e, int fd, const struct epoll_event *ev)
{
	struct set *set = set_of(epfd);
	struct registration *r = set ? find(set, e, fd) : NULL;

	if (op == EPOLL_CTL_ADD)
		return add(epfd, e, fd, ev);
	if (op != EPOLL_CTL_MOD && op != EPOLL_CTL_DEL)
		return -EINVAL;
	if (!r)
		return -ENOENT;
	if (op == EPOLL_CTL_DEL) {
		registration_remove(r);
		return 0;
	}
	if ((r->events | ev->events) & EPOLLEXCLUSIVE)
		return -EINVAL;
	r->events = ev->events;
	r->data = ev->data;
	r->disabled = false;
	watch_sources(r);
	make_candidate(r);
	return 0;
}

#pragma GCC visibility push(default)

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	struct entry *e;
	int rc;

	if (!table_ours() || (op != EPOLL_CTL_DEL && !probe_readable(ev, sizeof(*ev))))
		return real()->epoll_ctl(epfd, op, fd, ev);
	e = entry_begin(fd);
	if (!e) {
		rc = epoll_ctl_nested(epfd, op, fd, ev, &rc) ? (int)answer(rc)
							     : real()->epoll_ctl(epfd, op, fd, ev);
		inside_end();
		return rc;
	}
	if (op != EPOLL_CTL_DEL)
		entry_claim(e);
	(void)entry_stream(e);
	pthread_mutex_lock(&sets_lock);
	rc = control(epfd, op, e, fd, ev);
	pthread_mutex_unlock(&sets_lock);
	rc = (int)answer(rc);
	entry_end(e);
	return rc;
}

#pragma GCC visibility pop

/* ---- epoll_wait ------------------------------------------------------------------------------ */

static bool to_be_taken_over(struct entry *e)
{
	return e->stream && e->to_len && !rdma_only() &&
	       atomic_load(&e->stream->state) == STREAM_CONNECT_FAILED;
}

/* What holds now of what is asked for; if nothing does, its descriptors will tell. */
static uint32_t look(struct registration *r)
{
	const short asked = (short)(r->events & 0x7fff);
	struct pollfd p = {.fd = r->watched[FROM_KERNEL], .events = asked};
	struct stream *s = r->entry->stream;
	uint32_t got = 0;

	if (r->disabled)
		return 0;
	if (p.fd >= 0 && real()->poll(&p, 1, 0) > 0)
		got |= (uint16_t)p.revents;
	if (!s)
		return got;
	if (atomic_load(&s->state) < STREAM_CONNECTED) {
		got |= (uint16_t)stream_poll(s, asked);
	} else {
		if (r->watched[FROM_CQ] < 0 && s->channel)
			watch_sources(r);
		/* Where nothing but data is asked for, and they are there, the rest may wait. In a
		 * set in which this set is, each arrival may be an edge. */
		if (asked != POLLIN || r->events & EPOLLET || !list_empty(&r->set->parents) ||
		    !stream_has_enough(s))
			stream_arm(s);
		got |= (uint16_t)stream_events(s);
	}
	return got & (r->events | EPOLLERR | EPOLLHUP);
}

static void take_fresh(struct set *set)
{
	pthread_mutex_lock(&fresh_lock);
	while (!list_empty(&set->fresh)) {
		struct registration *r =
			list_entry(list_pop_head(&set->fresh), struct registration, fresh);

		list_remove(&r->candidate);
		list_push_tail(&set->candidates, &r->candidate);
	}
	pthread_mutex_unlock(&fresh_lock);
}

/* What fired inside makes candidates. */
static void take_inner(struct set *set)
{
	struct epoll_event ev[BATCH];
	int n = real()->epoll_pwait(set->inner, ev, BATCH, 0, NULL);
	eventfd_t count;

	for (int i = 0; i < n; i++) {
		enum source from = (enum source)(ev[i].data.u64 & 1);
		struct registration *r = (struct registration *)(uintptr_t)(ev[i].data.u64 & ~1ull);

		if (!r) {
			(void)!eventfd_read(set->wake, &count);
			continue;
		}
		if (from == FROM_CQ && r->stream)
			stream_take_event(r->stream);
		list_remove(&r->candidate);
		list_push_tail(&set->candidates, &r->candidate);
	}
}

static bool any_fresh(struct set *set)
{
	bool any;

	pthread_mutex_lock(&fresh_lock);
	any = !list_empty(&set->fresh);
	pthread_mutex_unlock(&fresh_lock);
	return any;
}

/* ---- sets in sets ---------------------------------------------------------------------------- */

/* Is the RNIC's descriptor there though nobody sleeps? */
static void drop_rnic(struct set *set)
{
	if (set->rnic < 0 || set->attendants)
		return;
	real()->epoll_ctl(set->fd, EPOLL_CTL_DEL, set->rnic, &(struct epoll_event){0});
	set->rnic = -1;
}

/* Would an epoll_wait() there give something? Takes nothing away; what is not ready will tell. */
static bool set_ready(struct set *set)
{
	struct pollfd p = {.fd = set->fd, .events = POLLIN};
	bool ready = false;

	take_fresh(set);
	take_inner(set);
	list_for_each(r, &set->candidates, struct registration, candidate) {
		if (to_be_taken_over(r->entry) || look(r))
			ready = true;
		else
			list_remove(&r->candidate);
	}
	list_for_each(n, &set->nested, struct nested, in_set)
		ready |= !n->disabled && n->events & EPOLLIN && set_ready(n->sub);
	drop_rnic(set);
	return ready || real()->poll(&p, 1, 0) > 0;
}

/* Is there something that set_ready() might find, of which the kernel knows nothing? */
static bool may_be_ready(struct set *set)
{
	if (!list_empty(&set->candidates) || any_fresh(set))
		return true;
	list_for_each(n, &set->nested, struct nested, in_set)
		if (may_be_ready(n->sub))
			return true;
	return false;
}

static bool is_in_a_level(struct set *set)
{
	if (atomic_load(&set->polled))
		return true;
	list_for_each(n, &set->parents, struct nested, in_sub)
		if (!(n->events & EPOLLET) && !n->disabled)
			return true;
	return false;
}

static int collect_nested(struct set *set, struct epoll_event *out, int max)
{
	int count = 0;

	list_for_each(n, &set->nested, struct nested, in_set) {
		const bool fired = n->fired || (!(n->events & EPOLLET) && may_be_ready(n->sub));

		if (n->disabled || !fired || count == max)
			continue;
		n->fired = false;
		if (!(n->events & EPOLLIN) || !set_ready(n->sub))
			continue;
		out[count++] = (struct epoll_event){.events = EPOLLIN, .data = n->data};
		n->fired = !(n->events & EPOLLET);
		if (n->events & EPOLLONESHOT)
			nested_disable(n);
	}
	return count;
}

/* Candidates that are ready, up to max; `settle` is one that must go to the kernel's socket. */
static int collect(struct set *set, struct epoll_event *out, int max, struct entry **settle)
{
	struct list again;
	int n = 0;

	take_fresh(set);
	list_init(&again);
	while (n < max && !list_empty(&set->candidates) && !*settle) {
		struct registration *r =
			list_entry(set->candidates.next, struct registration, candidate);
		uint32_t got;

		list_remove(&r->candidate);
		if (to_be_taken_over(r->entry)) {
			*settle = entry_hold(r->entry);
			list_push_tail(&again, &r->candidate);
			break;
		}
		got = look(r);
		if (!got)
			continue;
		out[n++] = (struct epoll_event){.events = got, .data = r->data};
		if (r->events & EPOLLONESHOT) {
			r->disabled = true;
			watch_sources(r);
		} else if (!(r->events & EPOLLET)) {
			list_push_tail(&again, &r->candidate);
		} else if (r->entry->stream &&
			   atomic_load(&r->entry->stream->state) >= STREAM_CONNECTED) {
			stream_arm(r->entry->stream); /* the next edge */
		}
	}
	/* Whoever has made them candidates has told nobody, or only us. */
	if (n == max && !list_empty(&set->candidates) && atomic_load(&set->sleepers))
		set_wake(set);
	while (!list_empty(&again))
		list_push_tail(&set->candidates, list_pop_head(&again));
	n += collect_nested(set, out + n, max - n);
	if (!list_empty(&set->candidates) && is_in_a_level(set))
		set_wake(set); /* who sleeps there is to see what is ready still */
	return n;
}

/* Under the lock: sorts what the kernel gave of the program's own set; what stays is theirs. */
static int sort(struct set *set, struct epoll_event *ev, int n, bool *ret_packets)
{
	struct nested *nested;
	int kept = 0;

	for (int i = 0; i < n; i++) {
		if (ev[i].data.ptr == set)
			take_inner(set);
		else if (ev[i].data.ptr == &set->rnic)
			*ret_packets = true;
		else if ((nested = nested_by_address(set, ev[i].data.ptr)))
			nested->fired = true;
		else
			ev[kept++] = ev[i];
	}
	return kept;
}

/* Those of one set attend together: the kernel wakes one of them. */
static void attend(struct set *set, bool sleeps, struct attendance *a)
{
	int fd = attend_begin(a, sleeps);
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &set->rnic};

	set->attendants += fd >= 0;
	if (set->attendants ? fd < 0 || fd == set->rnic : set->rnic < 0)
		return;
	if (set->rnic >= 0)
		real()->epoll_ctl(set->fd, EPOLL_CTL_DEL, set->rnic, &ev);
	set->rnic = -1;
	if (fd >= 0 && !real()->epoll_ctl(set->fd, EPOLL_CTL_ADD, fd, &ev))
		set->rnic = fd;
}

static bool any_fired(const struct set *set)
{
	list_for_each(n, &set->nested, const struct nested, in_set)
		if (n->fired && !n->disabled)
			return true;
	return false;
}

struct sleeping {
	struct set *set;
	struct attendance a;
};

/* A guard's: the thread has left epoll_wait(). */
static void left_sleep(void *arg)
{
	struct sleeping *l = arg;

	pthread_mutex_lock(&sets_lock);
	if (l->set->numbers) {
		atomic_fetch_sub(&l->set->sleepers, 1);
		l->set->attendants -= l->a.fd >= 0;
	}
	attend_end(&l->a, false);
	set_put(l->set);
	pthread_mutex_unlock(&sets_lock);
}

/* Under the lock, which is let go meanwhile. False: the set is no more. */
static bool look_around(struct set *set)
{
	pthread_mutex_unlock(&sets_lock);
	attend_look();
	pthread_mutex_lock(&sets_lock);
	return set->numbers;
}

/* Under the lock, which is let go meanwhile. What the kernel has for the program, or -errno;
 * -EBADF: the set is no more. */
static int sleep_in_kernel(int epfd, struct set *set, struct epoll_event *ev, int max, int timeout,
			   const sigset_t *mask)
{
	struct sleeping l = {.set = set};
	struct sock_pause pause;
	bool packets = false;
	struct guard guard;
	int n;

	if (timeout && !look_around(set))
		return -EBADF;
	attend(set, timeout, &l.a);
	atomic_fetch_add(&set->sleepers, 1);
	/* Who made one a candidate while this looked around saw nobody who sleeps. */
	if (l.a.come || any_fresh(set) || !list_empty(&set->candidates) || any_fired(set))
		timeout = 0;
	pthread_mutex_unlock(&sets_lock);
	guard_begin(&guard, left_sleep, &l);
	n = sock_sleeping.begin(&pause, false);
	if (!n) {
		n = real()->epoll_pwait(epfd, ev, max, timeout, mask);
		n = n < 0 ? -errno : n;
	}
	n = sock_sleeping.end(&pause, n, false);
	guard_end(&guard);
	pthread_mutex_lock(&sets_lock);
	if (!set->numbers) {
		attend_end(&l.a, false);
		return -EBADF;
	}
	atomic_fetch_sub(&set->sleepers, 1);
	set->attendants -= l.a.fd >= 0;
	if (n > 0)
		n = sort(set, ev, n, &packets);
	receiving = set;
	attend_end(&l.a, packets);
	receiving = NULL;
	return n;
}

/* Under the lock. */
static int wait_set(int epfd, struct set *set, struct epoll_event *out, int max, uint64_t end,
		    const sigset_t *mask)
{
	bool slept = false, expired = false;
	int n = 0;

	while (set->numbers) {
		struct entry *settle = NULL;
		int found = collect(set, out + n, max - n, &settle), got, timeout = -1;

		if (settle) {
			pthread_mutex_unlock(&sets_lock);
			(void)entry_stream(settle);
			entry_put(settle);
			pthread_mutex_lock(&sets_lock);
			if (!n && !found)
				continue;
		}
		/* What the kernel has is in it already, or there is no room for it; or it has
		 * nothing to add. */
		if (n || found == max || (slept && (found || expired)))
			return n + found;
		if (found) {
			timeout = 0;
		} else if (end != UINT64_MAX) {
			uint64_t now = time_now_ns();

			expired = now >= end;
			timeout = expired ? 0 : (int)((end - now + 999999) / NSEC_PER_MSEC);
		}
		got = sleep_in_kernel(epfd, set, out + found, max - found, timeout, mask);
		if (found)
			return found + max_of(got, 0);
		if (got < 0)
			return got;
		n = got;
		slept = true;
	}
	return -EBADF;
}

/* In a set that is not ours, or becomes ours meanwhile; 0 at once if it is. */
static void left_outside(void *outside)
{
	atomic_fetch_sub((atomic_int *)outside, 1);
}

static int wait_outside(int epfd, struct epoll_event *out, int max, int timeout,
			const sigset_t *mask)
{
	atomic_int *outside = set_outside(epfd);
	struct guard guard;
	int rc = 0;

	if (set_of(epfd))
		return 0;
	if (outside)
		atomic_fetch_add(outside, 1);
	if (!set_of(epfd) && outside) {
		guard_begin(&guard, left_outside, outside);
		rc = real()->epoll_pwait(epfd, out, max, timeout, mask);
		guard_end(&guard);
	} else if (!set_of(epfd)) {
		rc = real()->epoll_pwait(epfd, out, max, timeout, mask);
	}
	if (outside)
		atomic_fetch_sub(outside, 1);
	return rc;
}

/* ---- poll() and select() of a set -------------------------------------------------------------
 */

int epoll_poll_begin(int fd)
{
	struct set *set;
	int number = -1;

	if (!set_of(fd))
		return -1;
	pthread_mutex_lock(&sets_lock);
	set = set_of(fd);
	if (set && set->number < 0)
		set->number = own_keep(real()->fcntl64(fd, F_DUPFD_CLOEXEC, 0));
	if (set && set->number >= 0) {
		number = set->number;
		set->waits++;
		atomic_fetch_add(&set->polled, 1);
		if (set_ready(set))
			set_wake(set);
	}
	pthread_mutex_unlock(&sets_lock);
	return number;
}

bool epoll_poll_ready(int fd)
{
	struct set *set;
	bool ready = true; /* which is poll()'s to say */

	pthread_mutex_lock(&sets_lock);
	set = set_of(fd);
	if (set) {
		ready = set_ready(set);
		if (ready)
			set_wake(set);
	}
	pthread_mutex_unlock(&sets_lock);
	return ready;
}

void epoll_poll_end(int fd)
{
	struct set *set;

	pthread_mutex_lock(&sets_lock);
	set = set_of(fd);
	if (set) {
		atomic_fetch_sub(&set->polled, 1);
		set_put(set);
	}
	pthread_mutex_unlock(&sets_lock);
}

#pragma GCC visibility push(default)

int epoll_pwait(int epfd, struct epoll_event *out, int max, int timeout, const sigset_t *mask)
{
	uint64_t end = timeout < 0 ? UINT64_MAX : time_now_ns() + (uint64_t)timeout * NSEC_PER_MSEC;
	bool packets;
	struct set *set;
	int rc;

	if (max <= 0)
		return real()->epoll_pwait(epfd, out, max, timeout, mask);
	rc = wait_outside(epfd, out, max, timeout, mask);
	if (!set_of(epfd) || rc < 0)
		return rc;
	if (!probe_readable(out, sizeof(*out)))
		return (int)answer(-EFAULT);
	inside_begin();
	/* What is ours in a set of ours is not for the program. */
	pthread_mutex_lock(&sets_lock);
	set = set_of(epfd);
	rc = set ? sort(set, out, rc, &packets) : rc;
	if (!rc && set) {
		set->waits++;
		rc = wait_set(epfd, set, out, max, end, mask);
		set_put(set);
	} else if (!rc) {
		rc = -EBADF;
	}
	pthread_mutex_unlock(&sets_lock);
	rc = (int)answer(rc);
	inside_end();
	return rc;
}

int epoll_wait(int epfd, struct epoll_event *out, int max, int timeout)
{
	return epoll_pwait(epfd, out, max, timeout, NULL);
}

int epoll_pwait2(int epfd, struct epoll_event *out, int max, const struct timespec *timeout,
		 const sigset_t *mask)
{
	const long ns_per_ms = NSEC_PER_MSEC;
	int64_t ms =
		timeout ? timeout->tv_sec * 1000 + (timeout->tv_nsec + ns_per_ms - 1) / ns_per_ms
			: -1;

	return epoll_pwait(epfd, out, max, (int)min_of(ms, (int64_t)INT_MAX), mask);
}
