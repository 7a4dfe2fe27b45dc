// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Connections for the children of fork(). A queue pair belongs to the process that made it, so a
 * server that accepts, forks and leaves the connection to the child cannot hand its stream over.
 * But it can hand over a socket of the kernel: when a process forks, each connection that nothing
 * has been read from or written to yet becomes one end of a local socket pair, under its number,
 * in parent and child alike, and survives exec(). The stream stays with two threads of the parent,
 * one for each direction, that carry the data between it and the other end of the pair.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "sockets/real.h"
#include "sockets/sockets.h"

enum { PIECE = 65536 };

struct relay {
	struct list node;
	struct stream *stream;
	int fd;
	atomic_int threads;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list relays = {&relays, &relays}, begun = {&begun, &begun};

static void end(struct relay *r)
{
	if (atomic_fetch_sub(&r->threads, 1) > 1)
		return;
	pthread_mutex_lock(&lock);
	list_remove(&r->node);
	pthread_mutex_unlock(&lock);
	(void)!stream_close(r->stream);
	real()->close(r->fd);
	free(r);
}

static bool give_all(int fd, const uint8_t *p, size_t n)
{
	while (n) {
		ssize_t sent = real()->send(fd, p, n, MSG_NOSIGNAL);

		if (sent < 0)
			return false;
		p += sent;
		n -= (size_t)sent;
	}
	return true;
}

static void *to_child(void *arg)
{
	struct relay *r = arg;
	uint8_t *buf = malloc(PIECE);
	struct iovec iov = {buf, PIECE};
	ssize_t n = 0;

	while (buf && (n = stream_recvv(r->stream, &iov, 1, 0)) > 0)
		if (!give_all(r->fd, buf, (size_t)n)) {
			(void)!stream_shutdown(r->stream, SHUT_RDWR); /* nobody wants it */
			break;
		}
	real()->shutdown(r->fd, SHUT_WR);
	free(buf);
	end(r);
	return NULL;
}

static void *from_child(void *arg)
{
	struct relay *r = arg;
	struct pollfd closed = {.fd = r->fd};
	uint8_t *buf = malloc(PIECE);
	ssize_t n = 0;

	while (buf && (n = real()->recv(r->fd, buf, PIECE, 0)) > 0) {
		struct iovec iov = {buf, (size_t)n};

		if (stream_sendv(r->stream, &iov, 1, 0) < n) {
			real()->shutdown(r->fd, SHUT_RD); /* its writes fail from now on */
			break;
		}
	}
	free(buf);
	(void)!stream_shutdown(r->stream, SHUT_WR);
	/* Its last number is closed, or the other direction has ended as well. */
	while (!(closed.revents & POLLHUP) && real()->poll(&closed, 1, -1) >= 0)
		;
	(void)!stream_shutdown(r->stream, SHUT_RDWR);
	end(r);
	return NULL;
}

/* ---- around a fork --------------------------------------------------------------------------- */

/* Under the table's lock, nobody else being in a call on it. */
void relay_begin(struct entry *e)
{
	struct stream *s = e->stream;
	struct relay *r = calloc(1, sizeof(*r));
	const int flags = real()->fcntl64(e->fd, F_GETFL),
		  fd_flags = real()->fcntl64(e->fd, F_GETFD);
	int pair[2];

	if (!r || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
		free(r);
		return;
	}
	if (real()->dup3(pair[1], e->fd, fd_flags & FD_CLOEXEC ? O_CLOEXEC : 0) < 0) {
		real()->close(pair[0]);
		real()->close(pair[1]);
		free(r);
		return;
	}
	real()->close(pair[1]);
	real()->fcntl64(e->fd, F_SETFL, flags & O_NONBLOCK);
	atomic_store(&s->sock.fl_flags, 0); /* our threads wait */
	*r = (struct relay){.stream = s, .fd = pair[0], .threads = 2};
	memcpy(&e->peer, rdma_get_peer_addr(s->id), sizeof(e->peer));
	memcpy(&e->local, rdma_get_local_addr(s->id), sizeof(e->local));
	e->relayed = true;
	e->stream = NULL;
	pthread_mutex_lock(&lock);
	list_push_tail(&begun, &r->node);
	pthread_mutex_unlock(&lock);
}

static void start(struct relay *r)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, to_child, r)) {
		log_err("sockets", "no thread for a connection of a child");
		real()->shutdown(r->fd, SHUT_RDWR);
		end(r);
	} else {
		pthread_detach(thread);
	}
	if (pthread_create(&thread, NULL, from_child, r)) {
		log_err("sockets", "no thread for a connection of a child");
		real()->shutdown(r->fd, SHUT_RDWR);
		(void)!stream_shutdown(r->stream, SHUT_RDWR);
		end(r);
	} else {
		pthread_detach(thread);
	}
}

void relay_in_parent(void)
{
	sigset_t all, before;
	struct list *n;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (;;) {
		pthread_mutex_lock(&lock);
		n = list_pop_head(&begun);
		if (n)
			list_push_tail(&relays, n);
		pthread_mutex_unlock(&lock);
		if (!n)
			break;
		start(list_entry(n, struct relay, node));
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* The other ends are the parent's alone, or a child would not see it die. */
void relay_in_child(void)
{
	struct list *n;

	pthread_mutex_init(&lock, NULL);
	while ((n = list_pop_head(&begun)) || (n = list_pop_head(&relays)))
		real()->close(list_entry(n, struct relay, node)->fd);
}
