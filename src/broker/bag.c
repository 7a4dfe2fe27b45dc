/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/bag.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/fd_msg.h"

#define BAG_BYTES (8 << 20) /* as much of it as the system allows */
#define BAG_MAX	  2048	    /* messages: others have the ends, too, and may do anything */

#define KEY_MARK UINT32_MAX

struct thing {
	uint64_t note;
	uint32_t key, serial;
};

int bag_open(struct bag *b)
{
	int pair[2], bytes = BAG_BYTES;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	*b = (struct bag){.in = pair[0], .out = pair[1]};
	if (setsockopt(b->in, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) < 0)
		(void)setsockopt(b->in, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	return 0;
}

void bag_close(struct bag *b)
{
	if (b->in >= 0)
		close(b->in);
	if (b->out >= 0)
		close(b->out);
	b->in = b->out = -1;
}

int bag_put(struct bag *b, uint32_t key, uint64_t note, int fd)
{
	const struct thing t = {.note = note, .key = key, .serial = ++b->serial};

	if (b->in < 0)
		return -EBADF;
	return fd_msg_send(b->in, &t, sizeof(t), MSG_DONTWAIT, fd);
}

/*
 * Goes through all: each that is to be kept is put in again behind the others, and then taken out.
 * A mark that is put in before says when it is over.
 */
static int go_round(struct bag *b, bool (*keep)(void *ctx, const struct thing *, int fd), void *ctx)
{
	int fd, rc = bag_put(b, KEY_MARK, 0, -1);
	uint32_t mark = b->serial;
	struct thing t;

	for (int i = 0; !rc && i < BAG_MAX; i++) {
		ssize_t n = fd_msg_recv(b->out, &t, sizeof(t), MSG_PEEK, &fd);

		if (n != sizeof(t))
			return n < 0 ? (int)n : -EPROTO;
		/* Other marks are of a broker that was killed in the middle. */
		if (t.key != KEY_MARK && keep(ctx, &t, fd))
			rc = fd_msg_send(b->in, &t, sizeof(t), MSG_DONTWAIT, fd);
		if (fd >= 0)
			close(fd);
		if (rc)
			return rc;
		if (fd_msg_recv(b->out, &t, sizeof(t), 0, &fd) == sizeof(t) && fd >= 0)
			close(fd);
		if (t.key == KEY_MARK && t.serial == mark)
			return 0;
	}
	return rc ? rc : -EPROTO;
}

struct drop {
	uint32_t key, before;
};

static bool is_other(void *ctx, const struct thing *t, int fd)
{
	const struct drop *d = ctx;

	(void)fd;
	return t->key != d->key || t->serial >= d->before;
}

void bag_drop(struct bag *b, uint32_t key)
{
	(void)!go_round(b, is_other, &(struct drop){key, UINT32_MAX});
}

int bag_replace(struct bag *b, uint32_t key, uint64_t note, int fd)
{
	int rc = bag_put(b, key, note, fd);

	/* The latest counts, if what was there before can not be taken out. */
	if (rc == 0)
		(void)!go_round(b, is_other, &(struct drop){key, b->serial});
	return rc;
}

/* ---- another broker's ------------------------------------------------------------------------ */

struct found {
	int error;
	size_t n;
	struct {
		struct thing t;
		int fd;
	} v[BAG_MAX];
};

/* What was doubled by a broker that was killed just then is there once after this. */
static bool is_new(void *ctx, const struct thing *t, int fd)
{
	struct found *f = ctx;

	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].t.serial == t->serial)
			return false;
	if (f->n == BAG_MAX)
		return false;
	f->v[f->n].t = *t;
	f->v[f->n].fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (fd >= 0 && f->v[f->n].fd < 0)
		f->error = -errno;
	f->n++;
	return true;
}

int bag_adopt(struct bag *b, int in, int out,
	      void (*see)(void *ctx, uint32_t key, uint64_t note, int fd), void *ctx)
{
	struct found *f = calloc(1, sizeof(*f));
	uint32_t serial = 0;
	int rc;

	/* Its own mark must be like no other's. */
	*b = (struct bag){.in = in, .out = out, .serial = (uint32_t)getpid() << 8 | 1u << 31};
	if (!f)
		return -ENOMEM;
	rc = go_round(b, is_new, f);
	for (size_t i = 0; i < f->n; i++)
		serial = max_of(serial, f->v[i].t.serial);
	/* In the order of their serial numbers: the latest of a key is the last. */
	for (uint32_t s = 0; s < serial && serial;) {
		size_t next = f->n;

		for (size_t i = 0; i < f->n; i++)
			if (f->v[i].t.serial > s &&
			    (next == f->n || f->v[i].t.serial < f->v[next].t.serial))
				next = i;
		s = f->v[next].t.serial;
		see(ctx, f->v[next].t.key, f->v[next].t.note, f->v[next].fd);
	}
	b->serial = serial;
	if (!rc)
		rc = f->error;
	free(f);
	return rc;
}
