/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/tcp/tcp_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/kernel_socket.h"

#define EMSS_DEFAULT 536 /* RFC 1122 section 4.2.2.6 */

void tcp_stream_init(struct tcp_stream *s, int fd)
{
	int one = 1;

	*s = (struct tcp_stream){.fd = fd};
	(void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	/* Whole FPDUs go out; who sends the next has nothing to wait for. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

void tcp_stream_close(struct tcp_stream *s)
{
	if (s->fd >= 0)
		kernel_close(s->fd);
	free(s->rest);
	*s = (struct tcp_stream){.fd = -1};
}

void tcp_stream_break(struct tcp_stream *s)
{
	const struct linger now = {.l_onoff = 1};

	if (s->fd >= 0)
		(void)setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	tcp_stream_close(s);
}

/* System calls as such: those of the C library are points of cancellation, and the caller has a
 * lock. */

/* ---- sending -------------------------------------------------------------------------------- */

/* How many bytes the socket took; -errno. */
static ssize_t give(const struct tcp_stream *s, struct iovec *v, size_t n)
{
	const struct msghdr m = {.msg_iov = v, .msg_iovlen = min_of(n, (size_t)IOV_MAX)};
	ssize_t sent;

	do
		sent = syscall(SYS_sendmsg, s->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return errno == EAGAIN || errno == ENOBUFS ? 0 : -errno;
	return sent;
}

/* The pieces without their first bytes. */
static size_t skip(struct iovec **v, size_t n, size_t bytes)
{
	while (n && bytes >= (*v)->iov_len) {
		bytes -= (*v)->iov_len;
		(*v)++;
		n--;
	}
	if (n) {
		(*v)->iov_base = (uint8_t *)(*v)->iov_base + bytes;
		(*v)->iov_len -= bytes;
	}
	return n;
}

static int keep(struct tcp_stream *s, const struct iovec *v, size_t n)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++)
		len += v[i].iov_len;
	if (s->rest_at == s->rest_end)
		s->rest_at = s->rest_end = 0;
	if (s->rest_room - s->rest_end < len) {
		uint8_t *more = realloc(s->rest, s->rest_end + len);

		if (!more)
			return -ENOMEM;
		s->rest = more;
		s->rest_room = s->rest_end + len;
	}
	for (size_t i = 0; i < n; i++) {
		memcpy(s->rest + s->rest_end, v[i].iov_base, v[i].iov_len);
		s->rest_end += v[i].iov_len;
	}
	return 0;
}

int tcp_stream_send(struct tcp_stream *s, struct iovec *v, size_t n)
{
	int rc = tcp_stream_flush(s);

	if (rc)
		return rc;
	while (n && !tcp_stream_is_full(s)) {
		ssize_t sent = give(s, v, n);

		if (sent < 0)
			return (int)sent;
		if (sent == 0)
			break;
		n = skip(&v, n, (size_t)sent);
	}
	return n ? keep(s, v, n) : 0;
}

int tcp_stream_flush(struct tcp_stream *s)
{
	while (tcp_stream_is_full(s)) {
		struct iovec v = {s->rest + s->rest_at, s->rest_end - s->rest_at};
		ssize_t sent = give(s, &v, 1);

		if (sent <= 0)
			return (int)sent;
		s->rest_at += (size_t)sent;
	}
	free(s->rest);
	s->rest = NULL;
	s->rest_at = s->rest_end = s->rest_room = 0;
	return 0;
}

void tcp_stream_shut(struct tcp_stream *s)
{
	(void)shutdown(s->fd, SHUT_WR);
}

/* ---- receiving ------------------------------------------------------------------------------ */

ssize_t tcp_stream_receive(struct tcp_stream *s, void *to, size_t len)
{
	ssize_t got;

	do
		got = syscall(SYS_recvfrom, s->fd, to, len, MSG_DONTWAIT, NULL, NULL);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return errno == EAGAIN ? 0 : -errno;
	return got ? got : -EPIPE;
}

uint32_t tcp_stream_emss(const struct tcp_stream *s)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	if (getsockopt(s->fd, IPPROTO_TCP, TCP_INFO, &info, &len) || !info.tcpi_snd_mss)
		return EMSS_DEFAULT;
	return info.tcpi_snd_mss;
}
