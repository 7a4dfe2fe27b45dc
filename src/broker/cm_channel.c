/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/cm_channel.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "broker/stranger_fd.h"

/* Of a channel that has more waiting than the default 16: room for 64. */
#define BUSY_PIPE_BYTES	 (64 * 4096)
#define BUSY_CHANNELS	 16 /* a user who has more has none of them */
#define SMALL_PIPE_BYTES (4 * 4096)
#define LARGE_CHANNELS	 256 /* later ones are small */

_Static_assert(sizeof(struct broker_cm_event) <= PIPE_BUF, "an event is one packet of a pipe");

struct waiting {
	struct list list;
	struct broker_cm_event ev;
};

static void begin(struct cm_channel *c, struct cm_user *user, int fd)
{
	if (user->held[CM_QUOTA_CHANNELS] > LARGE_CHANNELS)
		(void)fcntl(fd, F_SETPIPE_SZ, SMALL_PIPE_BYTES);
	c->fd = fd;
	c->user = user;
	c->broken = false;
	c->written = 0;
	c->queued = 0;
	list_init(&c->queue);
}

int cm_channel_open(struct cm_channel *c, struct cm_user *user, int *ret_fd)
{
	int fd[2];

	if (pipe2(fd, O_DIRECT | O_CLOEXEC) < 0)
		return errno == EMFILE ? -ENFILE : -errno;
	/* Of our end only: how the client reads is its own choice. */
	if (fcntl(fd[1], F_SETFL, O_WRONLY | O_DIRECT | O_NONBLOCK) < 0) {
		int r = -errno;

		close(fd[0]);
		close(fd[1]);
		return r;
	}
	begin(c, user, fd[1]);
	*ret_fd = fd[0];
	return 0;
}

/* A pipe that a broker has made, who is its owner: of its own ones a user has the writing end,
 * too, and of others' it may have the reading end for a reason. */
static bool is_ours(int fd)
{
	struct stat st;

	return stranger_is_pipe(fd) && fstat(fd, &st) == 0 && st.st_uid == geteuid();
}

/* Opened once more by its name in /proc: the flags of a writing end of the client's would be the
 * client's, too. */
int cm_channel_reopen(struct cm_channel *c, struct cm_user *user, int pipe)
{
	char path[32];
	int fd, bytes = 0;

	if (!is_ours(pipe))
		return -EINVAL;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", pipe);
	fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fcntl(fd, F_SETFL, O_WRONLY | O_DIRECT | O_NONBLOCK) < 0) {
		int r = -errno;

		close(fd);
		return r;
	}
	begin(c, user, fd);
	if (ioctl(fd, FIONREAD, &bytes) == 0)
		c->written = (uint64_t)bytes / sizeof(struct broker_cm_event);
	return 0;
}

static void count(struct cm_channel *c)
{
	c->queued++;
	cm_quota_hold(c->user, CM_QUOTA_EVENTS);
}

static void uncount(struct cm_channel *c, struct waiting *w)
{
	list_remove(&w->list);
	c->queued--;
	cm_quota_give_back(c->user, CM_QUOTA_EVENTS);
}

static void drop(struct cm_channel *c, struct waiting *w)
{
	uncount(c, w);
	free(w);
}

void cm_channel_purge_all(struct cm_channel *c)
{
	list_for_each(w, &c->queue, struct waiting, list)
		drop(c, w);
}

void cm_channel_close(struct cm_channel *c)
{
	cm_channel_purge_all(c);
	close(c->fd);
	c->fd = -1;
}

/* 0, -EAGAIN when the pipe is full, -EPIPE when nobody reads. */
static int write_event(struct cm_channel *c, const struct broker_cm_event *ev)
{
	ssize_t n;

	do
		n = write(c->fd, ev, sizeof(*ev));
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return -EAGAIN;
	if (n < 0) {
		c->broken = true;
		return -EPIPE;
	}
	assert(n == sizeof(*ev)); /* at most PIPE_BUF: whole or not at all */
	if (c->placed)
		c->placed(c->ctx, c, ev, c->written);
	c->written++;
	return 0;
}

int cm_channel_post(struct cm_channel *c, const struct broker_cm_event *ev)
{
	struct waiting *w;
	int r;

	if (c->broken)
		return -EPIPE;
	if (list_empty(&c->queue)) {
		r = write_event(c, ev);
		if (r != -EAGAIN)
			return r;
		if (c->user->held[CM_QUOTA_CHANNELS] <= BUSY_CHANNELS)
			(void)fcntl(c->fd, F_SETPIPE_SZ, BUSY_PIPE_BYTES); /* may be refused */
		r = write_event(c, ev);
		if (r != -EAGAIN)
			return r;
	}
	w = malloc(sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->ev = *ev;
	list_push_tail(&c->queue, &w->list);
	count(c);
	return 0;
}

void cm_channel_flush(struct cm_channel *c)
{
	list_for_each(w, &c->queue, struct waiting, list) {
		int r = write_event(c, &w->ev);

		if (r == -EAGAIN)
			return;
		if (r < 0) {
			cm_channel_purge_all(c);
			return;
		}
		drop(c, w);
	}
}

bool cm_channel_has_reader(const struct cm_channel *c)
{
	struct pollfd p = {.fd = c->fd};

	return !c->broken && (poll(&p, 1, 0) <= 0 || !(p.revents & POLLERR));
}

uint64_t cm_channel_read(const struct cm_channel *c)
{
	int bytes = 0;

	if (ioctl(c->fd, FIONREAD, &bytes) < 0)
		return 0;
	return c->written - (uint64_t)bytes / sizeof(struct broker_cm_event);
}

void cm_channel_purge(struct cm_channel *c, uint32_t id)
{
	list_for_each(w, &c->queue, struct waiting, list)
		if (w->ev.id == id)
			drop(c, w);
}

/* What has been written and nobody has read goes back to the head of the queue. The reading end is
 * the client's; /proc has another for as long as this takes. */
static void take_back(struct cm_channel *c)
{
	/* No more than there is now: whoever can write, too, does not keep us at it. */
	uint64_t unread = c->written - cm_channel_read(c);
	struct list *first = c->queue.next;
	char path[32];
	int fd;

	if (!unread)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", c->fd);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0) {
		log_err("cm", "%s: %s", path, strerror(errno));
		return;
	}
	for (; unread; unread--) {
		struct waiting *w = malloc(sizeof(*w));

		if (!w || read(fd, &w->ev, sizeof(w->ev)) != sizeof(w->ev)) {
			free(w);
			break;
		}
		list_insert_before(first, &w->list);
		count(c);
		c->written--;
	}
	close(fd);
}

void cm_channel_move(struct cm_channel *c, uint32_t id, struct cm_channel *to)
{
	take_back(c);
	list_for_each(w, &c->queue, struct waiting, list) {
		uint32_t of =
			w->ev.type == BROKER_CM_EV_CONNECT_REQUEST ? w->ev.listen_id : w->ev.id;

		if (of != id)
			continue;
		uncount(c, w);
		list_push_tail(&to->queue, &w->list);
		count(to);
	}
	cm_channel_flush(c);
	cm_channel_flush(to);
}
