// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Sockets made, bound, listened on, connected, accepted; names, options, shutdown. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "rsocket/probe.h"
#include "sockets/own.h"
#include "sockets/real.h"
#include "sockets/sockets.h"

#pragma GCC visibility push(default)

static bool tcp_over_ip(int domain, int type, int protocol)
{
	return (domain == AF_INET || domain == AF_INET6) &&
	       (type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) == SOCK_STREAM &&
	       (!protocol || protocol == IPPROTO_TCP);
}

int socket(int domain, int type, int protocol)
{
	const bool ours = own_caller(__builtin_return_address(0));
	int fd = real()->socket(domain, type, protocol);

	if (ours)
		return own_keep(fd);
	if (fd < 0 || !table_ours() || !tcp_over_ip(domain, type, protocol))
		return fd;
	inside_begin();
	if (entry_add(fd, domain, NULL)) {
		real()->close(fd);
		errno = ENOMEM;
		fd = -1;
	}
	inside_end();
	return fd;
}

/* A socket that is connected to one of another process has no address of its own to the kernel. */
int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct held h = hold(fd);

	return h.stream ? (int)let_go(h, -EINVAL) : real()->bind(fd, addr, len);
}

/* ---- a stream for a kernel's socket ---------------------------------------------------------- */

static int option(int fd, int level, int name)
{
	socklen_t len = sizeof(int);
	int v = 0;

	return real()->getsockopt(fd, level, name, &v, &len) ? 0 : v;
}

static void copy_option(struct stream *s, int fd, int level, int name)
{
	int v = option(fd, level, name);

	if (v)
		(void)!stream_setsockopt(s, level, name, &v, sizeof(v));
}

static void copy_long_option(struct stream *s, int fd, int name)
{
	struct timeval v; /* a struct linger is smaller */
	socklen_t len = sizeof(v);

	if (!real()->getsockopt(fd, SOL_SOCKET, name, &v, &len))
		(void)!stream_setsockopt(s, SOL_SOCKET, name, &v, len);
}

/* The kernel's socket has been bound: so is the stream, to the same address. */
static int bind_alike(struct stream *s, int fd, bool listening)
{
	struct sockaddr_storage addr;
	struct sockaddr_in *v4 = (struct sockaddr_in *)&addr; /* the port is at one place in both */
	socklen_t len = sizeof(addr);
	int one = 1;

	if (real()->getsockname(fd, (struct sockaddr *)&addr, &len))
		return -errno;
	if (!v4->sin_port && !listening)
		return 0;
	/* Whether the address is free the kernel has said already. */
	(void)!stream_setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	copy_option(s, fd, IPPROTO_IPV6, IPV6_V6ONLY);
	return stream_bind(s, (struct sockaddr *)&addr, len);
}

/* What a connection has of its socket's, accepted or not. */
static void copy_kept_options(struct stream *s, int fd)
{
	copy_option(s, fd, SOL_SOCKET, SO_RCVLOWAT);
	copy_option(s, fd, SOL_SOCKET, SO_ZEROCOPY);
}

static int stream_for(struct entry *e, int fd, bool listening, struct stream **ret)
{
	const int fl = real()->fcntl64(fd, F_GETFL);
	struct stream *s;
	int rc = fl & O_ASYNC ? -EOPNOTSUPP : stream_create(e->domain, &s);

	if (rc)
		return rc;
	atomic_store(&s->sock.fl_flags, fl & O_NONBLOCK);
	if (e->rcvbuf)
		(void)!stream_setsockopt(s, SOL_SOCKET, SO_RCVBUF, &e->rcvbuf, sizeof(int));
	if (e->sndbuf)
		(void)!stream_setsockopt(s, SOL_SOCKET, SO_SNDBUF, &e->sndbuf, sizeof(int));
	copy_option(s, fd, SOL_SOCKET, SO_KEEPALIVE);
	copy_option(s, fd, IPPROTO_TCP, TCP_NODELAY);
	copy_long_option(s, fd, SO_LINGER);
	copy_long_option(s, fd, SO_RCVTIMEO);
	copy_long_option(s, fd, SO_SNDTIMEO);
	stream_beside_tcp(s);
	copy_kept_options(s, fd);
	rc = bind_alike(s, fd, listening);
	if (rc)
		(void)!stream_close(s);
	else
		*ret = s;
	return rc;
}

/* ---- listening and accepting ----------------------------------------------------------------- */

/* The port that the kernel's listen() would have chosen. */
static int choose_port(struct entry *e, int fd)
{
	struct sockaddr_storage addr;
	struct sockaddr_in *v4 = (struct sockaddr_in *)&addr;
	socklen_t len = sizeof(addr);

	if (real()->getsockname(fd, (struct sockaddr *)&addr, &len))
		return -errno;
	if (v4->sin_port)
		return 0;
	addr = (struct sockaddr_storage){.ss_family = (sa_family_t)e->domain};
	return real()->bind(fd, (struct sockaddr *)&addr, addr_length((struct sockaddr *)&addr))
		       ? -errno
		       : 0;
}

static int listen_too(struct entry *e, int fd, int backlog)
{
	struct stream *s;
	int rc = stream_for(e, fd, true, &s);

	if (rc)
		return rc;
	rc = stream_answer_late(s, rdma_only());
	if (!rc)
		rc = stream_listen(s, backlog);
	if (!rc && !rdma_only()) {
		e->kernel_fd = own_keep(real()->fcntl64(fd, F_DUPFD_CLOEXEC, 0));
		rc = e->kernel_fd < 0 ? -errno : 0;
	}
	if (rc) {
		(void)!stream_close(s);
		return rc;
	}
	e->stream = s;
	epoll_entry_changed(e);
	return 0;
}

static int listen_on(struct entry *e, int fd, int backlog)
{
	int rc = 0;

	if (e->stream && !e->listening)
		return -EINVAL;
	if (e->stream && !rdma_only() && real()->listen(fd, backlog))
		return -errno;
	if (e->stream)
		return stream_listen(e->stream, backlog);
	if (rdma_only())
		rc = choose_port(e, fd);
	else if (real()->listen(fd, backlog))
		rc = -errno;
	if (rc)
		return rc;
	rc = listen_too(e, fd, backlog);
	e->listening = !rc;
	return rdma_only() ? rc : 0; /* without RDMA here there is TCP */
}

int listen(int fd, int backlog)
{
	struct entry *e;
	int rc;

	if (!table_ours())
		return real()->listen(fd, backlog);
	e = entry_begin(fd);
	if (!e) {
		inside_end();
		return real()->listen(fd, backlog);
	}
	entry_claim(e);
	(void)entry_stream(e); /* a parent's is nothing to us */
	pthread_mutex_lock(&e->lock);
	rc = listen_on(e, fd, backlog);
	pthread_mutex_unlock(&e->lock);
	rc = (int)answer(rc);
	entry_end(e);
	return rc;
}

/* What an accepted socket has of its listener's. */
static void inherit(int from, int to)
{
	static const struct {
		int level, name;
	} options[] = {
		{SOL_SOCKET, SO_KEEPALIVE},
		{SOL_SOCKET, SO_OOBINLINE},
		{SOL_SOCKET, SO_LINGER},
		{SOL_SOCKET, SO_RCVTIMEO},
		{SOL_SOCKET, SO_SNDTIMEO},
		{SOL_SOCKET, SO_RCVLOWAT},
		{SOL_SOCKET, SO_REUSEADDR},
		{SOL_SOCKET, SO_ZEROCOPY},
		{IPPROTO_TCP, TCP_NODELAY},
		{IPPROTO_TCP, TCP_KEEPIDLE},
		{IPPROTO_TCP, TCP_KEEPINTVL},
		{IPPROTO_TCP, TCP_KEEPCNT},
		{IPPROTO_TCP, TCP_USER_TIMEOUT},
		{IPPROTO_IP, IP_TTL},
		{IPPROTO_IP, IP_TOS},
	};

	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		static const uint8_t unset[sizeof(struct timeval)];
		uint8_t v[sizeof(struct timeval)];
		socklen_t len = sizeof(v);

		if (!real()->getsockopt(from, options[i].level, options[i].name, v, &len) &&
		    memcmp(v, unset, len))
			real()->setsockopt(to, options[i].level, options[i].name, v, len);
	}
}

/* A number for an accepted stream: an unconnected socket of the kernel. */
static int number_for(struct entry *listener, struct stream *s, int flags)
{
	int fd = real()->socket(listener->domain, SOCK_STREAM | flags, 0);
	int rc = fd < 0 ? -errno : entry_add(fd, listener->domain, s);

	if (rc) {
		if (fd >= 0)
			real()->close(fd);
		stream_put_back(listener->stream, s); /* for when there is a number */
		return rc;
	}
	atomic_store(&s->sock.fl_flags, flags & SOCK_NONBLOCK ? O_NONBLOCK : 0);
	inherit(listener->fd, fd);
	copy_kept_options(s, fd);
	return fd;
}

/* One that is there; -EAGAIN if there is none. */
static int accept_now(struct entry *e, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct pollfd p = {.fd = e->kernel_fd, .events = POLLIN};
	struct stream *s;
	int fd, rc;

	rc = stream_accept_now(e->stream, &s);
	if (rc && rc != -EAGAIN)
		return rc;
	if (!rc) {
		fd = number_for(e, s, flags);
		rc = fd >= 0 && addr ? addr_copy_out(&s->sock, rdma_get_peer_addr(s->id), addr, len)
				     : 0;
		if (rc)
			close(fd);
		return rc ? rc : fd;
	}
	if (p.fd < 0 || real()->poll(&p, 1, 0) <= 0)
		return -EAGAIN;
	inside_end(); /* another may have taken it: then this sleeps */
	fd = real()->accept4(p.fd, addr, len, flags);
	rc = fd < 0 ? -errno : fd;
	inside_begin();
	return rc;
}

static int accept_wait(struct entry *e, struct sockaddr *addr, socklen_t *len, int flags)
{
	const struct sock *s = &e->stream->sock;
	const int timeout_ms = s->rcv_timeout_ms;
	const uint64_t end = time_now_ns() + (uint64_t)max_of(timeout_ms, 0) * NSEC_PER_MSEC;
	struct poll_item item = {&e->stream->sock, e->kernel_fd, POLLIN, 0};
	struct poll_how how = {.timeout_ns = -1, .restarts = timeout_ms < 0};
	int rc;

	for (;;) {
		const uint64_t now = time_now_ns();

		rc = accept_now(e, addr, len, flags);
		if (rc != -EAGAIN || sock_nonblocking(s, 0) || (timeout_ms >= 0 && now >= end))
			return rc;
		if (timeout_ms >= 0)
			how.timeout_ns = (int64_t)(end - now);
		rc = pollset_wait(&item, 1, &how);
		if (rc < 0 && rc != -ERESTART)
			return rc;
	}
}

int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct entry *e;
	struct stream *s;
	struct guard guard;
	int rc;

	pthread_testcancel();
	e = entry_begin(fd);
	if (e)
		entry_claim(e);
	s = e ? entry_stream(e) : NULL;
	if (!s) {
		entry_end(e);
		return real()->accept4(fd, addr, len, flags);
	}
	guard_begin(&guard, entry_left, e);
	rc = flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC) || !e->listening
		     ? -EINVAL
		     : accept_wait(e, addr, len, flags);
	guard_end(&guard);
	rc = (int)answer(rc);
	entry_end(e);
	return rc;
}

int accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	return accept4(fd, addr, len, 0);
}

/* ---- connecting ------------------------------------------------------------------------------ */

/* What has come of it. -ECANCELED: not by RDMA. */
static int outcome(struct entry *e, int rc)
{
	if (!rc || rc == -EINPROGRESS || rc == -EINTR) {
		epoll_entry_changed(e);
		e->told = !rc;
		return rc;
	}
	e->to_len = 0;
	entry_drop_stream(e);
	return rdma_only() ? rc : -ECANCELED;
}

/* As TCP has it where rdma-core's rconnect() answers otherwise. */
static int connect_again(struct entry *e, struct stream *s)
{
	int rc;

	switch (atomic_load(&s->state)) {
	case STREAM_CONNECTING:
		if (sock_nonblocking(&s->sock, 0))
			return -EALREADY;
		return outcome(e, stream_connect(s, (struct sockaddr *)&e->to, e->to_len));
	case STREAM_CONNECTED:
		if (e->told)
			return -EISCONN;
		e->told = true;
		return 0;
	case STREAM_LISTENING:
	case STREAM_DISCONNECTED:
	case STREAM_FAILED:
		return -EISCONN;
	default: /* what failed is told, and the next begins anew */
		rc = stream_take_error(s, -ECONNABORTED);
		entry_drop_stream(e);
		return rc;
	}
}

static int connect_first(struct entry *e, int fd, const struct sockaddr *addr, socklen_t len)
{
	struct stream *s;
	int rc;

	if (len > sizeof(struct sockaddr_storage) || len < sizeof(addr->sa_family) ||
	    !probe_readable(addr, len) || len < addr_length(addr) || !addr_length(addr) ||
	    addr->sa_family != e->domain)
		return -ECANCELED; /* the kernel says what is wrong with it */
	rc = stream_for(e, fd, false, &s);
	if (rc)
		return rdma_only() ? rc : -ECANCELED;
	if (!rdma_only())
		stream_be_brief(s);
	memcpy(&e->to, addr, addr_length(addr));
	e->to_len = addr_length(addr);
	e->stream = s;
	epoll_entry_changed(e);
	return outcome(e, stream_connect(s, addr, len));
}

/* Where the kernel has begun to connect a socket it goes on; what it has failed to begins anew. */
static int connect_by_kernel(struct entry *e, int fd, const struct sockaddr *addr, socklen_t len)
{
	int rc;

	inside_end(); /* it may sleep */
	rc = real()->connect(fd, addr, len) ? -errno : 0;
	inside_begin();
	e->kernels = (!rc && addr->sa_family != AF_UNSPEC) || rc == -EINPROGRESS ||
		     rc == -EALREADY || rc == -EISCONN || rc == -EINTR;
	return rc;
}

static bool is_unspec(const struct sockaddr *addr, socklen_t len)
{
	return len >= sizeof(addr->sa_family) && probe_readable(addr, len) &&
	       addr->sa_family == AF_UNSPEC;
}

/* The connection is given up, and the socket may have another. */
static int disconnect(struct entry *e, struct stream *s)
{
	stream_reset(s);
	pthread_mutex_lock(&e->lock);
	if (e->stream == s)
		entry_drop_stream(e);
	e->to_len = 0;
	e->told = false;
	pthread_mutex_unlock(&e->lock);
	return 0;
}

int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct guard guard;
	struct stream *s;
	struct entry *e;
	bool under_way;
	int rc;

	if (!table_ours())
		return real()->connect(fd, addr, len);
	pthread_testcancel();
	e = entry_begin(fd);
	if (!e) {
		inside_end();
		return real()->connect(fd, addr, len);
	}
	s = entry_stream(e);
	under_way = s && atomic_load(&s->state) == STREAM_CONNECTING;
	guard_begin(&guard, entry_left, e);
	if (e->relayed)
		rc = -EISCONN;
	else if (s && !e->listening && is_unspec(addr, len))
		rc = disconnect(e, s);
	else if (s)
		rc = connect_again(e, s);
	else
		rc = e->kernels ? -ECANCELED : connect_first(e, fd, addr, len);
	if (rc == -ECANCELED)
		rc = connect_by_kernel(e, fd, addr, len);
	if (rc == -EINPROGRESS && under_way) /* by whatever way */
		rc = -EALREADY;
	guard_end(&guard);
	rc = (int)answer(rc);
	entry_end(e);
	return rc;
}

int shutdown(int fd, int how)
{
	struct held h = hold(fd);
	int rc;

	if (!h.stream)
		return real()->shutdown(fd, how);
	if (atomic_load(&h.stream->state) == STREAM_CONNECTING && how >= SHUT_RD &&
	    how <= SHUT_RDWR)
		return (int)let_go(h, disconnect(h.entry, h.stream));
	rc = stream_shutdown(h.stream, how);
	if (!rc && h.entry->kernel_fd >= 0 && real()->shutdown(h.entry->kernel_fd, how))
		rc = -errno;
	return (int)let_go(h, rc);
}

/* ---- names and options ----------------------------------------------------------------------- */

static bool has_connection(struct stream *s)
{
	return s && atomic_load(&s->state) >= STREAM_CONNECTED;
}

static int give_name(struct stream *s, const struct sockaddr *name, struct sockaddr *addr,
		     socklen_t *len)
{
	if (!probe_readable(len, sizeof(*len)) ||
	    (*len <= INT_MAX && !probe_writable(addr, min_of(*len, addr_length(name)))))
		return -EFAULT;
	return addr_copy_out(&s->sock, name, addr, len);
}

/* One that was a stream is a local socket to the kernel, in whatever process it is now. */
static int kernels_name(int fd, bool peer, struct sockaddr *addr, socklen_t *len)
{
	const socklen_t room = probe_readable(len, sizeof(*len)) ? *len : 0;
	struct sockaddr_storage name;
	int rc = peer ? real()->getpeername(fd, addr, len) : real()->getsockname(fd, addr, len);

	if (rc || (room >= sizeof(addr->sa_family) && addr->sa_family != AF_UNIX) ||
	    !relay_name(fd, peer, &name))
		return rc;
	*len = room;
	return (int)answer(addr_copy_out(&(struct sock){.domain = name.ss_family},
					 (struct sockaddr *)&name, addr, len));
}

int getpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct entry *e = entry_begin(fd);
	struct stream *s = e ? entry_stream(e) : NULL;
	int rc;

	if (has_connection(s))
		stream_progress(s);
	if (has_connection(s) && !stream_is_over(s))
		rc = (int)answer(give_name(s, rdma_get_peer_addr(s->id), addr, len));
	else
		rc = kernels_name(fd, true, addr, len);
	entry_end(e);
	return rc;
}

int getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct entry *e = entry_begin(fd);
	struct stream *s = e ? entry_stream(e) : NULL;
	int rc;

	if (has_connection(s))
		rc = (int)answer(give_name(s, rdma_get_local_addr(s->id), addr, len));
	else
		rc = kernels_name(fd, false, addr, len);
	entry_end(e);
	return rc;
}

/* The kernel's socket keeps the options; those that mean something to a stream it gets as well. A
 * local pair knows nothing of TCP. */
int setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	struct entry *e = entry_begin(fd);
	struct stream *s = e ? entry_stream(e) : NULL;
	struct sockaddr_storage at;
	int v;
	int rc = real()->setsockopt(fd, level, name, val, len), err = errno;

	if (rc && err == EOPNOTSUPP && level != SOL_SOCKET && relay_name(fd, false, &at)) {
		rc = e && e->relayed ? real()->setsockopt(e->kernel_fd, level, name, val, len) : 0;
		err = errno;
	} else if (s && !rc)
		(void)!stream_setsockopt(s, level, name, val, len);
	if (e && !rc && level == SOL_SOCKET && (name == SO_RCVBUF || name == SO_SNDBUF)) {
		memcpy(&v, val, sizeof(v));
		*(name == SO_RCVBUF ? &e->rcvbuf : &e->sndbuf) = max_of(v, 1);
	}
	errno = err;
	entry_end(e);
	return rc;
}

static int give_option(struct stream *s, int level, int name, void *val, socklen_t *len)
{
	if (!probe_readable(len, sizeof(*len)))
		return -EFAULT;
	if (*len > INT_MAX)
		return -EINVAL;
	if (!probe_writable(val, min_of((size_t)*len, sizeof(int))))
		return -EFAULT;
	return stream_getsockopt(s, level, name, val, len);
}

static bool streams_own(const struct entry *e, int level, int name)
{
	if (level == SOL_SOCKET)
		return name == SO_ERROR || name == SO_ACCEPTCONN ||
		       (name == SO_RCVBUF && !e->rcvbuf) || (name == SO_SNDBUF && !e->sndbuf);
	return level == IPPROTO_TCP && (name == TCP_INFO || name == TCP_MAXSEG);
}

/* Of a local pair, what says of it that it is one, as TCP's. Who has it from another program has
 * nothing else. */
static int kernels_option(const struct entry *e, int fd, int level, int name, void *val,
			  socklen_t *len)
{
	int rc = real()->getsockopt(fd, level, name, val, len);
	struct sockaddr_storage at;
	int v;

	if (level != SOL_SOCKET && rc && errno == EOPNOTSUPP && relay_name(fd, false, &at)) {
		if (e && e->relayed)
			return real()->getsockopt(e->kernel_fd, level, name, val, len);
		errno = ENOPROTOOPT;
	}
	if (rc || level != SOL_SOCKET || (name != SO_DOMAIN && name != SO_PROTOCOL) ||
	    *len < sizeof(v) || !relay_name(fd, false, &at))
		return rc;
	v = name == SO_DOMAIN ? at.ss_family : IPPROTO_TCP;
	memcpy(val, &v, sizeof(v));
	return 0;
}

int getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	struct entry *e = entry_begin(fd);
	struct stream *s = e ? entry_stream(e) : NULL;
	int rc;

	if (s && streams_own(e, level, name))
		rc = (int)answer(give_option(s, level, name, val, len));
	else
		rc = kernels_option(e, fd, level, name, val, len);
	entry_end(e);
	return rc;
}
