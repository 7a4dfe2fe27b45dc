// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Connections for other processes. A queue pair belongs to the process that made it, so a
 * server that accepts, forks and leaves the connection to the child cannot hand its stream over.
 * But it can hand over a socket of the kernel: when a process forks, each connection that is in no
 * epoll set and that no other thread is in a call on becomes one end of a local socket pair, under
 * its number, in parent and child alike, and survives exec(). The stream stays with two threads of
 * the parent, one for each direction, that carry the data between it and the other end of the pair.
 * The same becomes of one that is passed on by SCM_RIGHTS.
 *
 * What addresses the connection has, a program must be able to ask that knows nothing but the
 * descriptor: each end of the pair is bound to an abstract name that says its address.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time.h"
#include "sockets/own.h"
#include "sockets/real.h"
#include "sockets/sockets.h"

enum { PIECE = 65536, LOOK_MS = 1000 };

struct relay {
	struct list node;
	struct stream *stream;
	int fd;
	atomic_int threads;
	atomic_bool carries;	/* what it has taken from the child, and nobody has yet */
	bool closing, settling; /* lock */
};

/* Held over a fork: a child goes through the lists. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list relays = {&relays, &relays}, begun = {&begun, &begun};

static void end(struct relay *r)
{
	if (atomic_fetch_sub(&r->threads, 1) > 1)
		return;
	pthread_mutex_lock(&lock);
	r->closing = true;
	pthread_mutex_unlock(&lock);
	(void)!stream_close(r->stream);
	pthread_mutex_lock(&lock);
	list_remove(&r->node);
	own_end(r->fd); /* in the same breath: no child has it without knowing */
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

	while (buf) {
		n = real()->recv(r->fd, buf, 1, MSG_PEEK);
		atomic_store(&r->carries, true);
		if (n > 0)
			n = real()->recv(r->fd, buf, PIECE, 0);
		if (n <= 0)
			break;
		if (!pass_on(r, buf, (size_t)n)) {
			real()->shutdown(r->fd, SHUT_RD); /* its writes fail from now on */
			break;
		}
		atomic_store(&r->carries, false);
	}
	atomic_store(&r->carries, false);
	free(buf);
	(void)!stream_shutdown(r->stream, SHUT_WR);
	/* Or the other direction has ended as well. */
	while (!child_gone(r, -1))
		;
	(void)!stream_shutdown(r->stream, SHUT_RDWR);
	end(r);
	return NULL;
}

static bool settled(struct relay *r, bool end)
{
	int waits = 0;

	/* In this order: it carries before it takes. */
	if (r->closing || real()->ioctl(r->fd, FIONREAD, &waits) || waits ||
	    atomic_load(&r->carries))
		return false;
	if (end)
		(void)!stream_shutdown(r->stream, SHUT_RDWR);
	else if (!r->settling && atomic_load(&r->stream->state) == STREAM_CONNECTED)
		r->settling = stream_keepalive(r->stream);
	else
		r->settling = true;
	return stream_all_sent(r->stream) && (end || r->settling);
}

bool relays_settled(bool end)
{
	bool all = true;

	/* Who forks has it, and other locks besides: then it is looked once more. */
	if (pthread_mutex_trylock(&lock))
		return false;
	list_for_each(r, &relays, struct relay, node)
		all &= settled(r, end);
	pthread_mutex_unlock(&lock);
	return all;
}

/* ---- names ----------------------------------------------------------------------------------- */

#define NAME "weft-tcp/" /* process.number/address%scope/port */

static void name_end(int fd, const struct stream *s, const struct sockaddr *addr)
{
	static unsigned int number;
	struct sockaddr_storage at = {0};
	const struct sockaddr_in *v4 = (struct sockaddr_in *)&at;
	const struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&at;
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	socklen_t len = sizeof(at);
	char text[INET6_ADDRSTRLEN];
	int n;

	if (addr_copy_out(&s->sock, addr, (struct sockaddr *)&at, &len))
		return;
	if (at.ss_family == AF_INET)
		inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
	else
		inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
	n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, NAME "%d.%u/%s%%%u/%u", getpid(),
		     number++, text, at.ss_family == AF_INET ? 0 : v6->sin6_scope_id,
		     ntohs(v4->sin_port)); /* at one place in both */
	(void)!real()->bind(fd, (struct sockaddr *)&name,
			    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n));
}

typedef int name_fn(int, struct sockaddr *, socklen_t *);

static bool name_of(name_fn *ask, int fd, struct sockaddr_storage *ret)
{
	struct sockaddr_un name = {0};
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;
	socklen_t len = sizeof(name) - 1; /* a zero stays at the end */
	char text[INET6_ADDRSTRLEN];
	unsigned int scope;
	uint16_t port;

	if (ask(fd, (struct sockaddr *)&name, &len) || name.sun_family != AF_UNIX ||
	    name.sun_path[0] ||
	    sscanf(name.sun_path + 1, NAME "%*d.%*u/%45[^%%]%%%u/%hu", text, &scope, &port) != 3)
		return false;
	*ret = (struct sockaddr_storage){0};
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1)
		ret->ss_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1)
		ret->ss_family = AF_INET6;
	if (ret->ss_family == AF_INET6)
		v6->sin6_scope_id = scope;
	v4->sin_port = htons(port);
	return ret->ss_family;
}

/* Both must be of this form: who connects to a local socket can take a name like that for himself,
 * but not give one to the socket that accepted him. */
bool relay_name(int fd, bool peer, struct sockaddr_storage *ret)
{
	struct sockaddr_storage other;

	return name_of(real()->getsockname, fd, peer ? &other : ret) &&
	       name_of(real()->getpeername, fd, peer ? ret : &other);
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
	int pair[2], kernels;

	if (!r || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
		free(r);
		return;
	}
	pair[0] = own_keep(pair[0]);
	kernels = own_keep(real()->fcntl64(e->fd, F_DUPFD_CLOEXEC, 0));
	name_end(pair[0], s, rdma_get_peer_addr(s->id));
	name_end(pair[1], s, rdma_get_local_addr(s->id));
	/* What was set on the connection is the child's. Our threads wait. */
	real()->getsockopt(e->fd, SOL_SOCKET, SO_RCVTIMEO, &rcv_timeout, &len);
	real()->getsockopt(e->fd, SOL_SOCKET, SO_SNDTIMEO, &snd_timeout, &len);
	if (real()->dup3(pair[1], e->fd, fd_flags & FD_CLOEXEC ? O_CLOEXEC : 0) < 0) {
		own_end(pair[0]);
		own_end(kernels);
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
	e->relayed = true;
	e->kernel_fd = kernels;
	e->stream = NULL;
	entry_refresh(e);
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

	pthread_mutex_unlock(&lock);
	while ((n = list_pop_head(&begun)) || (n = list_pop_head(&relays)))
		own_end(list_entry(n, struct relay, node)->fd);
}
