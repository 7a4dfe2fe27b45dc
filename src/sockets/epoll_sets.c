// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Sets of epoll: their numbers, their life, and those that are in others. */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "sockets/epoll_priv.h"
#include "sockets/own.h"
#include "sockets/real.h"

enum { SETS_MAX = 1 << 16 };

pthread_mutex_t sets_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct set *) sets[SETS_MAX];
static atomic_bool created[SETS_MAX]; /* is it an epoll set, ours or not? */
static atomic_int outside[SETS_MAX];  /* who sleep there, and began before it was one of ours */

struct set *set_of(int fd)
{
	struct set *set = fd >= 0 && fd < SETS_MAX ? atomic_load(&sets[fd]) : NULL;

	return set && set->generation == sock_generation() ? set : NULL;
}

bool set_is_watched(struct set *set)
{
	return atomic_load(&set->sleepers) || atomic_load(&outside[set->fd]) ||
	       atomic_load(&set->polled) || !list_empty(&set->parents);
}

void set_wake(struct set *set)
{
	(void)!eventfd_write(set->wake, 1);
}

atomic_int *set_outside(int fd)
{
	return fd >= 0 && fd < SETS_MAX ? &outside[fd] : NULL;
}

/* ---- life, under the lock -------------------------------------------------------------------- */

struct set *set_make(int fd)
{
	struct set *set;
	struct epoll_event ev = {.events = EPOLLIN};

	if (fd < 0 || fd >= SETS_MAX) {
		errno = EMFILE;
		return NULL;
	}
	set = calloc(1, sizeof(*set));
	if (!set)
		return NULL;
	*set = (struct set){.fd = fd,
			    .numbers = 1,
			    .inner = own_keep(real()->epoll_create1(EPOLL_CLOEXEC)),
			    .wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
			    .rnic = -1,
			    .number = -1,
			    .generation = sock_generation()};
	list_init(&set->registrations);
	list_init(&set->candidates);
	list_init(&set->nested);
	list_init(&set->parents);
	list_init(&set->fresh);
	ev.data.ptr = set;
	/* Here the kernel says whether fd is a set at all. */
	if (set->inner < 0 || set->wake < 0 ||
	    real()->epoll_ctl(fd, EPOLL_CTL_ADD, set->inner, &ev) ||
	    real()->epoll_ctl(set->inner, EPOLL_CTL_ADD, set->wake,
			      &(struct epoll_event){.events = EPOLLIN})) {
		int err = errno;

		if (set->inner >= 0)
			own_end(set->inner);
		if (set->wake >= 0)
			own_end(set->wake);
		free(set);
		errno = err;
		return NULL;
	}
	atomic_store(&created[fd], true);
	atomic_store(&sets[fd], set);
	return set;
}

static void nested_remove(struct nested *n)
{
	list_remove(&n->in_set);
	list_remove(&n->in_sub);
	free(n);
}

static void free_if_unused(struct set *set)
{
	if (!set->numbers && !set->waits)
		free(set);
}

void set_put(struct set *set)
{
	set->waits--;
	free_if_unused(set);
}

static void end(struct set *set)
{
	list_for_each(r, &set->registrations, struct registration, in_set)
		registration_remove(r);
	list_for_each(n, &set->nested, struct nested, in_set)
		nested_remove(n);
	list_for_each(n, &set->parents, struct nested, in_sub)
		nested_remove(n);
	own_end(set->inner);
	own_end(set->wake);
	if (set->number >= 0)
		own_end(set->number);
	free_if_unused(set);
}

/* Another number of it, as one has gone. */
static int other_number(const struct set *set)
{
	for (int fd = 0; fd < SETS_MAX; fd++)
		if (atomic_load(&sets[fd]) == set)
			return fd;
	return -1;
}

void epoll_closed(int fd)
{
	struct set *set;

	if (fd < 0 || fd >= SETS_MAX || !atomic_load(&created[fd]))
		return;
	atomic_store(&created[fd], false);
	if (!atomic_load(&sets[fd]))
		return;
	pthread_mutex_lock(&sets_lock);
	set = atomic_exchange(&sets[fd], NULL);
	if (set && !--set->numbers)
		end(set);
	else if (set && set->fd == fd)
		set->fd = other_number(set);
	pthread_mutex_unlock(&sets_lock);
}

void epoll_closed_range(unsigned int first, unsigned int last)
{
	for (unsigned int fd = first; fd <= last && fd < SETS_MAX; fd++)
		epoll_closed((int)fd);
}

static bool is_created(int fd)
{
	return fd >= 0 && fd < SETS_MAX && atomic_load(&created[fd]);
}

void epoll_doubled(int old, int now)
{
	struct set *set;

	epoll_closed(now);
	if (!is_created(old) || now >= SETS_MAX)
		return;
	atomic_store(&created[now], true);
	pthread_mutex_lock(&sets_lock);
	set = set_of(old);
	if (!set)
		set = set_make(old);
	if (set) {
		set->numbers++;
		atomic_store(&sets[now], set);
	}
	pthread_mutex_unlock(&sets_lock);
}

/* ---- sets in sets, under the lock ------------------------------------------------------------ */

struct nested *nested_by_address(struct set *set, const void *p)
{
	list_for_each(n, &set->nested, struct nested, in_set)
		if (n == p)
			return n;
	return NULL;
}

static struct nested *nested_find(struct set *set, const struct set *sub, int fd)
{
	list_for_each(n, &set->nested, struct nested, in_set)
		if (n->sub == sub && n->fd == fd)
			return n;
	return NULL;
}

void nested_disable(struct nested *n)
{
	struct epoll_event ev = {.events = EPOLLET, .data.ptr = n};

	n->disabled = true;
	real()->epoll_ctl(n->set->fd, EPOLL_CTL_MOD, n->fd, &ev);
}

static int nested_change(int epfd, int op, struct nested *n, const struct epoll_event *ev)
{
	struct epoll_event to = {.events = ev->events & ~(uint32_t)EPOLLONESHOT, .data.ptr = n};

	if (real()->epoll_ctl(epfd, op, n->fd, &to))
		return -errno;
	n->events = ev->events;
	n->data = ev->data;
	n->disabled = false;
	n->fired = true; /* it may be ready */
	return 0;
}

static int nested_add(int epfd, int fd, const struct epoll_event *ev)
{
	struct nested *n = calloc(1, sizeof(*n));
	struct set *set, *sub;
	int rc;

	if (!n)
		return -ENOMEM;
	n->fd = fd;
	list_init(&n->in_set);
	list_init(&n->in_sub);
	rc = nested_change(epfd, EPOLL_CTL_ADD, n, ev); /* the kernel says what is wrong */
	if (rc) {
		free(n);
		return rc;
	}
	set = set_of(epfd);
	sub = set_of(fd);
	if (!set)
		set = set_make(epfd);
	if (set && !sub)
		sub = set_make(fd);
	if (!set || !sub) {
		rc = -errno;
		real()->epoll_ctl(epfd, EPOLL_CTL_DEL, fd, NULL);
		free(n);
		return rc;
	}
	n->set = set;
	n->sub = sub;
	list_push_tail(&set->nested, &n->in_set);
	list_push_tail(&sub->parents, &n->in_sub);
	if (set_is_watched(set))
		set_wake(set);
	return 0;
}

static int nested_control(int epfd, int op, int fd, const struct epoll_event *ev)
{
	struct set *set = set_of(epfd), *sub = set_of(fd);
	struct nested *n = set && sub ? nested_find(set, sub, fd) : NULL;
	int rc;

	if (op == EPOLL_CTL_ADD)
		return nested_add(epfd, fd, ev);
	if (!n)
		return -ENOENT;
	if (op == EPOLL_CTL_DEL) {
		rc = real()->epoll_ctl(epfd, op, fd, NULL) ? -errno : 0;
		nested_remove(n);
		return rc;
	}
	rc = op == EPOLL_CTL_MOD ? nested_change(epfd, op, n, ev) : -EINVAL;
	if (!rc && set_is_watched(set))
		set_wake(set);
	return rc;
}

bool epoll_ctl_nested(int epfd, int op, int fd, const struct epoll_event *ev, int *ret)
{
	if (!is_created(fd) || !is_created(epfd) || fd == epfd || (!ev && op != EPOLL_CTL_DEL))
		return false;
	pthread_mutex_lock(&sets_lock);
	*ret = nested_control(epfd, op, fd, ev);
	pthread_mutex_unlock(&sets_lock);
	return true;
}

static int created_now(int fd)
{
	if (fd >= 0 && fd < SETS_MAX && table_ours()) {
		epoll_closed(fd); /* if it was closed unseen */
		atomic_store(&created[fd], true);
	}
	return fd;
}

#pragma GCC visibility push(default)

int epoll_create1(int flags)
{
	const bool ours = own_caller(__builtin_return_address(0));
	int fd = real()->epoll_create1(flags);

	return ours ? own_keep(fd) : created_now(fd);
}

int epoll_create(int size)
{
	if (size <= 0) {
		errno = EINVAL;
		return -1;
	}
	return created_now(real()->epoll_create1(0));
}
