/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The sockets that the thread waits for, by their numbers; its lock and its alarm. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/kernel_socket.h"
#include "iwcm/iwcm_priv.h"

struct iwcm iwcm = {.lock = PTHREAD_MUTEX_INITIALIZER, .epoll = -1, .wake = -1, .next_nr = 1};

void iwcm_lock(void)
{
	pthread_mutex_lock(&iwcm.lock);
}

void iwcm_unlock(void)
{
	pthread_mutex_unlock(&iwcm.lock);
}

static struct list *bucket(uint64_t nr)
{
	return &iwcm.buckets[nr % BUCKETS];
}

void socket_number(struct socket_of *s)
{
	if (s->nr)
		return;
	s->nr = iwcm.next_nr++;
	list_push_tail(bucket(s->nr), &s->node);
}

int socket_add(struct socket_of *s, uint32_t events)
{
	struct epoll_event e = {.events = events};

	socket_number(s);
	e.data.u64 = s->nr;
	return epoll_ctl(iwcm.epoll, EPOLL_CTL_ADD, s->fd, &e) ? -errno : 0;
}

void socket_wait(struct socket_of *s, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.u64 = s->nr};

	(void)epoll_ctl(iwcm.epoll, EPOLL_CTL_MOD, s->fd, &e);
}

void socket_release(struct socket_of *s)
{
	(void)epoll_ctl(iwcm.epoll, EPOLL_CTL_DEL, s->fd, NULL);
}

void socket_close(struct socket_of *s)
{
	/* Children that were forked may have copies for a moment, which would keep it in the set.
	 */
	if (s->fd >= 0)
		socket_release(s);
	socket_close_copy(s);
}

void socket_close_copy(struct socket_of *s)
{
	if (s->fd >= 0)
		kernel_close(s->fd);
	s->fd = -1;
}

void socket_forget(struct socket_of *s)
{
	list_remove(&s->node);
}

struct socket_of *socket_find(uint64_t nr)
{
	list_for_each(s, bucket(nr), struct socket_of, node)
		if (s->nr == nr)
			return s;
	return NULL;
}

void thread_wake(void)
{
	const uint64_t one = 1;

	(void)!syscall(SYS_write, iwcm.wake, &one, sizeof(one));
}
