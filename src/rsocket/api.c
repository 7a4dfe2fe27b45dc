// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* rsocket(7): numbers to sockets, -errno to errno. */
#include <netinet/in.h>
#include <rdma/rsocket.h>
#include <stdarg.h>

#include "rsocket/dgram.h"
#include "rsocket/stream.h"

static ssize_t answer(ssize_t rc)
{
	if (rc >= 0)
		return rc;
	errno = (int)-rc;
	return -1;
}

static struct stream *stream_of(struct sock *s)
{
	return container_of(s, struct stream, sock);
}

static struct dgram *dgram_of(struct sock *s)
{
	return container_of(s, struct dgram, sock);
}

static bool is_stream(const struct sock *s)
{
	return s->type == SOCK_STREAM;
}

/* The socket of a number; NULL with errno. In the child of a fork connections are the parent's. */
static struct sock *socket_of(int fd)
{
	struct sock *s = sock_lookup(fd);

	if (s && sock_inherited(s)) {
		errno = ENOTCONN;
		return NULL;
	}
	return s;
}

/* ---- making and ending ----------------------------------------------------------------------- */

static int create(int domain, int type, struct sock **ret)
{
	struct stream *s;
	struct dgram *d;
	int rc;

	if (type == SOCK_STREAM) {
		rc = stream_create(domain, &s);
		*ret = rc ? NULL : &s->sock;
	} else {
		rc = dgram_create(domain, &d);
		*ret = rc ? NULL : &d->sock;
	}
	return rc;
}

static int end(struct sock *s)
{
	return is_stream(s) ? stream_close(stream_of(s)) : dgram_close(dgram_of(s));
}

int rsocket(int domain, int type, int protocol)
{
	const int kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct sock *s;
	int rc;

	if ((domain != AF_INET && domain != AF_INET6) ||
	    (kind != SOCK_STREAM && kind != SOCK_DGRAM) ||
	    (protocol && protocol != (kind == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP)))
		return (int)answer(-ENOTSUP);
	rc = create(domain, kind, &s);
	if (rc)
		return (int)answer(rc);
	s->fd_flags = type & SOCK_CLOEXEC ? FD_CLOEXEC : 0;
	s->fl_flags = O_RDWR | (type & SOCK_NONBLOCK ? O_NONBLOCK : 0);
	rc = sock_insert(s);
	if (rc) {
		(void)!end(s);
		return (int)answer(rc);
	}
	return s->fd;
}

int rbind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct sock *s = socket_of(fd);

	if (!s)
		return -1;
	return (int)answer(is_stream(s) ? stream_bind(stream_of(s), addr, len)
					: dgram_bind(dgram_of(s), addr, len));
}

int rlisten(int fd, int backlog)
{
	struct sock *s = socket_of(fd);

	if (!s)
		return -1;
	return (int)answer(is_stream(s) ? stream_listen(stream_of(s), backlog) : -EOPNOTSUPP);
}

int raccept(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct sock *s = socket_of(fd);
	struct stream *taken;
	int rc;

	if (!s)
		return -1;
	rc = is_stream(s) ? stream_accept(stream_of(s), &taken) : -EOPNOTSUPP;
	if (rc)
		return (int)answer(rc);
	/* Unlike Linux, and like rdma-core, the listener's flags are the new socket's. */
	taken->sock.fd_flags = s->fd_flags;
	taken->sock.fl_flags = s->fl_flags;
	rc = sock_renumber(&taken->sock); /* librspreload counts on it */
	if (!rc)
		rc = sock_insert(&taken->sock);
	if (!rc && addr)
		rc = addr_copy_out(s, rdma_get_peer_addr(taken->id), addr, len);
	if (rc) {
		sock_remove(&taken->sock);
		(void)!stream_close(taken);
		return (int)answer(rc);
	}
	return taken->sock.fd;
}

int rconnect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct sock *s = socket_of(fd);

	if (!s)
		return -1;
	return (int)answer(is_stream(s) ? stream_connect(stream_of(s), addr, len)
					: dgram_connect(dgram_of(s), addr, len));
}

int rshutdown(int fd, int how)
{
	struct sock *s = socket_of(fd);

	if (!s)
		return -1;
	if (is_stream(s))
		return (int)answer(stream_shutdown(stream_of(s), how));
	return shutdown(dgram_of(s)->udp, how);
}

int rclose(int fd)
{
	struct sock *s = sock_lookup(fd);

	if (!s)
		return -1;
	sock_remove(s);
	return (int)answer(end(s));
}

/* ---- data ------------------------------------------------------------------------------------ */

static ssize_t receive(int fd, const struct iovec *iov, size_t count, int flags)
{
	struct sock *s = socket_of(fd);

	if (!s)
		return -1;
	return answer(is_stream(s) ? stream_recvv(stream_of(s), iov, count, flags)
				   : dgram_recv(dgram_of(s), iov, count, flags, NULL, NULL, NULL));
}

static ssize_t transmit(int fd, const struct iovec *iov, size_t count, int flags)
{
	struct sock *s = socket_of(fd);

	if (!s)
		return -1;
	return answer(is_stream(s) ? stream_sendv(stream_of(s), iov, count, flags)
				   : dgram_send(dgram_of(s), iov, count, flags, NULL, 0));
}

ssize_t rrecv(int fd, void *buf, size_t len, int flags)
{
	return receive(fd, &(struct iovec){buf, len}, 1, flags);
}

ssize_t rrecvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *src, socklen_t *srclen)
{
	struct sock *s = socket_of(fd);
	struct iovec iov = {buf, len};
	ssize_t n;

	if (!s)
		return -1;
	if (!is_stream(s))
		return answer(dgram_recv(dgram_of(s), &iov, 1, flags, src, srclen, NULL));
	n = rrecv(fd, buf, len, flags);
	if (n > 0 && src && rgetpeername(fd, src, srclen))
		return -1;
	return n;
}

ssize_t rrecvmsg(int fd, struct msghdr *msg, int flags)
{
	struct sock *s = socket_of(fd);

	if (!s)
		return -1;
	if (msg->msg_control && msg->msg_controllen)
		return answer(-ENOTSUP);
	msg->msg_flags = 0;
	if (is_stream(s))
		return receive(fd, msg->msg_iov, msg->msg_iovlen, flags);
	return answer(dgram_recv(dgram_of(s), msg->msg_iov, msg->msg_iovlen, flags, msg->msg_name,
				 &msg->msg_namelen, &msg->msg_flags));
}

ssize_t rread(int fd, void *buf, size_t count)
{
	return rrecv(fd, buf, count, 0);
}

ssize_t rreadv(int fd, const struct iovec *iov, int count)
{
	return count < 0 ? answer(-EINVAL) : receive(fd, iov, (size_t)count, 0);
}

ssize_t rsend(int fd, const void *buf, size_t len, int flags)
{
	return transmit(fd, &(struct iovec){(void *)(uintptr_t)buf, len}, 1, flags);
}

static ssize_t transmit_to(int fd, const struct iovec *iov, size_t count, int flags,
			   const struct sockaddr *dst, socklen_t dstlen)
{
	struct sock *s = socket_of(fd);

	if (!s)
		return -1;
	if (!is_stream(s))
		return answer(dgram_send(dgram_of(s), iov, count, flags, dst, dstlen));
	return dst || dstlen ? answer(-EISCONN) : transmit(fd, iov, count, flags);
}

ssize_t rsendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *dst,
		socklen_t dstlen)
{
	return transmit_to(fd, &(struct iovec){(void *)(uintptr_t)buf, len}, 1, flags, dst, dstlen);
}

ssize_t rsendmsg(int fd, const struct msghdr *msg, int flags)
{
	if (msg->msg_control && msg->msg_controllen)
		return answer(-ENOTSUP);
	return transmit_to(fd, msg->msg_iov, msg->msg_iovlen, flags, msg->msg_name,
			   msg->msg_namelen);
}

ssize_t rwrite(int fd, const void *buf, size_t count)
{
	return rsend(fd, buf, count, 0);
}

ssize_t rwritev(int fd, const struct iovec *iov, int count)
{
	return count < 0 ? answer(-EINVAL) : transmit(fd, iov, (size_t)count, 0);
}

/* ---- names and options ----------------------------------------------------------------------- */

int rgetpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct sock *s = socket_of(fd);
	struct sockaddr *peer;

	if (!s)
		return -1;
	if (!is_stream(s))
		return getpeername(dgram_of(s)->udp, addr, len);
	peer = rdma_get_peer_addr(stream_of(s)->id);
	if (!addr_length(peer))
		return (int)answer(-ENOTCONN);
	return (int)answer(addr_copy_out(s, peer, addr, len));
}

int rgetsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct sock *s = socket_of(fd);

	if (!s)
		return -1;
	if (!is_stream(s))
		return getsockname(dgram_of(s)->udp, addr, len);
	return (int)answer(addr_copy_out(s, rdma_get_local_addr(stream_of(s)->id), addr, len));
}

int rsetsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	struct sock *s = socket_of(fd);

	if (!s)
		return -1;
	return (int)answer(is_stream(s) ? stream_setsockopt(stream_of(s), level, name, val, len)
					: dgram_setsockopt(dgram_of(s), level, name, val, len));
}

int rgetsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	struct sock *s = socket_of(fd);

	if (!s)
		return -1;
	return (int)answer(is_stream(s) ? stream_getsockopt(stream_of(s), level, name, val, len)
					: dgram_getsockopt(dgram_of(s), level, name, val, len));
}

int rfcntl(int fd, int cmd, ...)
{
	struct sock *s = socket_of(fd);
	va_list args;
	int arg;

	if (!s)
		return -1;
	switch (cmd) {
	case F_GETFL:
		return atomic_load(&s->fl_flags);
	case F_GETFD:
		return s->fd_flags;
	case F_SETFL:
	case F_SETFD:
		break;
	default:
		return (int)answer(-ENOTSUP);
	}
	va_start(args, cmd);
	arg = va_arg(args, int);
	va_end(args);
	if (cmd == F_SETFL)
		atomic_store(&s->fl_flags, (arg & ~O_ACCMODE) | O_RDWR);
	else
		s->fd_flags = arg;
	return 0;
}
