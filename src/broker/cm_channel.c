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
#include <unistd.h>

#include "base/log.h"

/* Of a channel that has more waiting than the default 16: room for 64. */
#define BUSY_PIPE_BYTES (64 * 4096)

_Static_assert(sizeof(struct broker_cm_event) <= PIPE_BUF, "an event is one packet of a pipe");

struct waiting {
	struct list list;
	struct broker_cm_event ev;
};

int cm_channel_open(struct cm_channel *c, int *ret_fd)
{
	int fd[2];

	if (pipe2(fd, O_DIRECT | O_CLOEXEC) < 0)
		return -errno;
	/* Of our end only: how the client reads is its own choice. */
	if (fcntl(fd[1], F_SETFL, O_WRONLY | O_DIRECT | O_NONBLOCK) < 0) {
		int r = -errno;

		close(fd[0]);
		close(fd[1]);
		return r;
	}
	c->fd = fd[1];
	c->broken = false;
	c->written = 0;
	c->queued = 0;
	list_init(&c->queue);
	*ret_fd = fd[0];
	return 0;
}

static void drop(struct cm_channel *c, struct waiting *w)
{
	list_remove(&w->list);
	c->queued--;
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
	c->queued++;
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
	struct list *first = c->queue.next;
	char path[32];
	int fd;

	if (cm_channel_read(c) == c->written)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", c->fd);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0) {
		log_err("cm", "%s: %s", path, strerror(errno));
		return;
	}
	for (;;) {
		struct waiting *w = malloc(sizeof(*w));

		if (!w || read(fd, &w->ev, sizeof(w->ev)) != sizeof(w->ev)) {
			free(w);
			break;
		}
		list_insert_before(first, &w->list);
		c->queued++;
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
		list_remove(&w->list);
		c->queued--;
		list_push_tail(&to->queue, &w->list);
		to->queued++;
	}
	cm_channel_flush(c);
	cm_channel_flush(to);
}
