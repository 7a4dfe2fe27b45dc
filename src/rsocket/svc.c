// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "rsocket/svc.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/time.h"
#include "rsocket/stream.h"

static struct svc {
	pthread_mutex_t lock;
	struct rdma_event_channel *channel;
	int wake_fd; /* the first deadline has changed */
	struct list keepalive;
} svc = {.lock = PTHREAD_MUTEX_INITIALIZER};

void svc_lock(void)
{
	pthread_mutex_lock(&svc.lock);
}

void svc_unlock(void)
{
	pthread_mutex_unlock(&svc.lock);
}

/* In a child there is no thread, and the channel is the parent's: begin anew when asked. */
static void child_of_fork(void)
{
	pthread_mutex_init(&svc.lock, NULL);
	svc.channel = NULL;
}

/* ---- keepalives ------------------------------------------------------------------------------ */

void svc_keepalive(struct stream *s, unsigned int seconds)
{
	list_remove(&s->keepalive);
	s->keepalive_due_ns = 0;
	if (!seconds)
		return;
	s->keepalive_due_ns = time_now_ns() + seconds * NSEC_PER_SEC;
	list_push_tail(&svc.keepalive, &s->keepalive);
	(void)!eventfd_write(svc.wake_fd, 1);
}

/* Sends those due; returns the time until the next in milliseconds, -1 for never. */
static int keepalives(void)
{
	uint64_t now = time_now_ns(), next = UINT64_MAX;

	list_for_each(s, &svc.keepalive, struct stream, keepalive) {
		if (s->keepalive_due_ns <= now) {
			stream_keepalive(s);
			s->keepalive_due_ns = now + s->keepalive_s * NSEC_PER_SEC;
		}
		next = min_of(next, s->keepalive_due_ns);
	}
	return next == UINT64_MAX ? -1 : (int)min_of((next - now) / NSEC_PER_MSEC + 1, 60000ull);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* 0, or -errno when the channel gives no more. */
static int take_events(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;
	int rc = 0;

	svc_lock();
	while (!rdma_get_cm_event(channel, &event))
		stream_cm_event(event);
	if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
		rc = -errno;
	svc_unlock();
	return rc;
}

static void *run(void *arg)
{
	struct rdma_event_channel *channel = arg;
	struct pollfd fds[] = {{.fd = channel->fd, .events = POLLIN},
			       {.fd = svc.wake_fd, .events = POLLIN}};
	eventfd_t count;
	int timeout;

	for (;;) {
		svc_lock();
		timeout = keepalives();
		svc_unlock();
		if (poll(fds, ARRAY_SIZE(fds), timeout) < 0)
			continue;
		if (fds[1].revents)
			(void)!eventfd_read(svc.wake_fd, &count);
		if (fds[0].revents && take_events(channel)) {
			/* Connection management is gone for good, and connections stay. */
			fds[0].fd = -1;
		}
	}
	return NULL;
}

static int start(void)
{
	static bool watching_forks;
	sigset_t all, before;
	pthread_t thread;
	int rc;

	if (!watching_forks) {
		pthread_atfork(NULL, NULL, child_of_fork);
		watching_forks = true;
	}
	list_init(&svc.keepalive);
	svc.channel = rdma_create_event_channel();
	if (!svc.channel)
		return -errno;
	if (fcntl(svc.channel->fd, F_SETFL, O_NONBLOCK)) {
		rc = -errno;
		goto destroy;
	}
	svc.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (svc.wake_fd < 0) {
		rc = -errno;
		goto destroy;
	}
	/* Signals are the application's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = -pthread_create(&thread, NULL, run, svc.channel);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!rc) {
		pthread_setname_np(thread, "rsocket");
		pthread_detach(thread);
		return 0;
	}
	close(svc.wake_fd);
destroy:
	rdma_destroy_event_channel(svc.channel);
	svc.channel = NULL;
	return rc;
}

struct rdma_event_channel *svc_channel(void)
{
	struct rdma_event_channel *channel;
	int rc = 0;

	svc_lock();
	if (!svc.channel)
		rc = start();
	channel = svc.channel;
	svc_unlock();
	if (rc)
		errno = -rc;
	return rc ? NULL : channel;
}
