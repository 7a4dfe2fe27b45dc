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
#include "base/time.h"
#include "sockets/real.h"
#include "sockets/sockets.h"

enum { PIECE = 65536, LOOK_MS = 1000 };

struct relay {
	struct list node;
	struct stream *stream;
	int fd;
	atomic_int threads;
};

/* Held over a fork: a child goes through the lists. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list relays = {&relays, &relays}, begun = {&begun, &begun};

static void end(struct relay *r)
{
	if (atomic_fetch_sub(&r->threads, 1) > 1)
		return;
	(void)!stream_close(r->stream);
	pthread_mutex_lock(&lock);
	list_remove(&r->node);
	real()->close(r->fd); /* in the same breath: no child has it without knowing */
	pthread_mutex_unlock(&lock);
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

/* Has the last number of the child's end been closed? */
static bool child_gone(const struct relay *r, int wait_ms)
{
	struct pollfd closed = {.fd = r->fd};

	return real()->poll(&closed, 1, wait_ms) > 0 && closed.revents & POLLHUP;
}

/* What a child leaves behind has as long to be sent as after close(): a peer that takes nothing is
 * not to keep our threads for ever. */
static bool pass_on(const struct relay *r, uint8_t *p, size_t n)
{
	uint64_t gone_ns = 0;

	while (n) {
		struct iovec iov = {p, n};
		ssize_t sent = stream_sendv(r->stream, &iov, 1, 0);

		if (sent < 0 && sent != -EAGAIN)
			return false;
		if (sent > 0) {
			p += sent;
			n -= (size_t)sent;
		}
		if (!gone_ns && child_gone(r, 0))
			gone_ns = time_now_ns();
		if (gone_ns && time_now_ns() - gone_ns > RS_LINGER_S * NSEC_PER_SEC)
			return false;
	}
	return true;
}

static void *from_child(void *arg)
{
	struct relay *r = arg;
	uint8_t *buf = malloc(PIECE);
	ssize_t n = 0;

	while (buf && (n = real()->recv(r->fd, buf, PIECE, 0)) > 0) {
		if (!pass_on(r, buf, (size_t)n)) {
			real()->shutdown(r->fd, SHUT_RD); /* its writes fail from now on */
			break;
		}
	}
	free(buf);
	(void)!stream_shutdown(r->stream, SHUT_WR);
	/* Or the other direction has ended as well. */
	while (!child_gone(r, -1))
		;
	(void)!stream_shutdown(r->stream, SHUT_RDWR);
	end(r);
	return NULL;
}

/* ---- around a fork --------------------------------------------------------------------------- */

void relay_before_fork(void)
{
	pthread_mutex_lock(&lock);
}

/* Under the table's lock and ours, nobody else being in a call on it. */
void relay_begin(struct entry *e)
{
	struct stream *s = e->stream;
	struct relay *r = calloc(1, sizeof(*r));
	struct timeval rcv_timeout = {0}, snd_timeout = {0};
	socklen_t len = sizeof(struct timeval);
	const int flags = real()->fcntl64(e->fd, F_GETFL),
		  fd_flags = real()->fcntl64(e->fd, F_GETFD);
	int pair[2];

	if (!r || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
		free(r);
		return;
	}
	/* What was set on the connection is the child's. Our threads wait. */
	real()->getsockopt(e->fd, SOL_SOCKET, SO_RCVTIMEO, &rcv_timeout, &len);
	real()->getsockopt(e->fd, SOL_SOCKET, SO_SNDTIMEO, &snd_timeout, &len);
	if (real()->dup3(pair[1], e->fd, fd_flags & FD_CLOEXEC ? O_CLOEXEC : 0) < 0) {
		real()->close(pair[0]);
		real()->close(pair[1]);
		free(r);
		return;
	}
	real()->close(pair[1]);
	real()->fcntl64(e->fd, F_SETFL, flags & O_NONBLOCK);
	real()->setsockopt(e->fd, SOL_SOCKET, SO_RCVTIMEO, &rcv_timeout, len);
	real()->setsockopt(e->fd, SOL_SOCKET, SO_SNDTIMEO, &snd_timeout, len);
	atomic_store(&s->sock.fl_flags, 0);
	s->sock.rcv_timeout_ms = -1;
	s->sock.snd_timeout_ms = LOOK_MS;
	*r = (struct relay){.stream = s, .fd = pair[0], .threads = 2};
	memcpy(&e->peer, rdma_get_peer_addr(s->id), sizeof(e->peer));
	memcpy(&e->local, rdma_get_local_addr(s->id), sizeof(e->local));
	e->relayed = true;
	e->stream = NULL;
	list_push_tail(&begun, &r->node);
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
	while ((n = list_pop_head(&begun))) {
		list_push_tail(&relays, n);
		pthread_mutex_unlock(&lock); /* who has no thread ends at once */
		start(list_entry(n, struct relay, node));
		pthread_mutex_lock(&lock);
	}
	pthread_mutex_unlock(&lock);
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
