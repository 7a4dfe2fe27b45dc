/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rsocket(7) by its contract, in one process: a listener, and streams between it and who connects.
 * Where rdma-core's rsockets and TCP differ, the test says whose way it is.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PORT = 7471, WAIT_MS = 10000 };

static int listener = -1, client = -1, server = -1;

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons(port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int listen_on(uint16_t port)
{
	struct sockaddr_in addr = loopback(port);
	int one = 1, fd = rsocket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	assert_int_equal(rbind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(rlisten(fd, 8), 0);
	return fd;
}

static int connect_to(uint16_t port)
{
	struct sockaddr_in addr = loopback(port);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(rconnect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

static int no_sockets(void **state)
{
	(void)state;
	listener = client = server = -1;
	return 0;
}

static int pair(void **state)
{
	(void)state;
	listener = listen_on(PORT);
	client = connect_to(PORT);
	server = raccept(listener, NULL, NULL);
	return server < 0;
}

static int close_all(void **state)
{
	int *fds[] = {&client, &server, &listener};

	(void)state;
	for (int i = 0; i < 3; i++) {
		if (*fds[i] >= 0 && rclose(*fds[i]))
			return -1;
		*fds[i] = -1;
	}
	return 0;
}

#define assert_fails(call, err)                 \
	do {                                    \
		errno = 0;                      \
		assert_int_equal((call), -1);   \
		assert_int_equal(errno, (err)); \
	} while (0)

static short events_of(int fd, short asked, int timeout)
{
	struct pollfd p = {.fd = fd, .events = asked};

	return rpoll(&p, 1, timeout) == 1 ? p.revents : 0;
}

static void wait_for(int fd, short event)
{
	assert_true(events_of(fd, event, WAIT_MS) & event);
}

static void nonblocking(int fd)
{
	assert_int_equal(rfcntl(fd, F_SETFL, rfcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

static uint8_t pattern(size_t at)
{
	return (uint8_t)(at * 2654435761u >> 13);
}

/* ---- making ---------------------------------------------------------------------------------- */

static void only_what_there_is_can_be_made(void **state)
{
	(void)state;
	assert_fails(rsocket(AF_UNIX, SOCK_STREAM, 0), ENOTSUP);
	assert_fails(rsocket(AF_INET, SOCK_RAW, 0), ENOTSUP);
	assert_fails(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), ENOTSUP);
	client = rsocket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
	assert_true(client >= 0);
	assert_true(rfcntl(client, F_GETFL) & O_NONBLOCK);
	assert_int_equal(rfcntl(client, F_GETFD), FD_CLOEXEC);
	assert_fails(rfcntl(client, F_SETLK, NULL), ENOTSUP);
}

static void a_number_that_is_no_rsocket_is_ebadf(void **state)
{
	char c;
	int p[2];

	(void)state;
	assert_int_equal(pipe(p), 0);
	assert_fails(rread(p[0], &c, 1), EBADF);
	assert_fails(rlisten(-1, 1), EBADF);
	assert_fails(rclose(1 << 28), EBADF);
	close(p[0]);
	close(p[1]);
}

static void a_stream_that_is_not_connected_says_so(void **state)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	char c = 0;

	(void)state;
	client = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_fails(rsend(client, &c, 1, MSG_NOSIGNAL), ENOTCONN);
	assert_fails(rrecv(client, &c, 1, 0), ENOTCONN);
	assert_fails(rgetpeername(client, (struct sockaddr *)&addr, &len), ENOTCONN);
	assert_fails(rshutdown(client, SHUT_WR), ENOTCONN);
	assert_fails(raccept(client, NULL, NULL), EINVAL);
}

static void an_address_is_taken_once(void **state)
{
	struct sockaddr_in addr = loopback(PORT), got;
	socklen_t len = sizeof(got);

	(void)state;
	listener = listen_on(PORT);
	assert_int_equal(rgetsockname(listener, (struct sockaddr *)&got, &len), 0);
	assert_int_equal(len, sizeof(got));
	assert_int_equal(got.sin_port, htons(PORT));
	client = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_fails(rbind(client, (struct sockaddr *)&addr, sizeof(addr)), EADDRINUSE);
	addr.sin_addr.s_addr = htonl(0xc6336401); /* 198.51.100.1: not ours */
	assert_fails(rbind(client, (struct sockaddr *)&addr, sizeof(addr)), EADDRNOTAVAIL);
	assert_fails(rbind(client, (struct sockaddr *)&addr, 4), EINVAL);
	addr.sin_family = AF_INET6;
	assert_fails(rbind(client, (struct sockaddr *)&addr, sizeof(addr)), EAFNOSUPPORT);
}

/* ---- connecting ------------------------------------------------------------------------------ */

static void nobody_listens_is_econnrefused(void **state)
{
	struct sockaddr_in addr = loopback(PORT + 1);
	int err = -1;
	socklen_t len = sizeof(err);

	(void)state;
	client = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_fails(rconnect(client, (struct sockaddr *)&addr, sizeof(addr)), ECONNREFUSED);
	assert_int_equal(rclose(client), 0);
	client = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	assert_fails(rconnect(client, (struct sockaddr *)&addr, sizeof(addr)), EINPROGRESS);
	wait_for(client, POLLOUT);
	assert_true(events_of(client, POLLIN | POLLOUT, 0) & POLLERR);
	assert_int_equal(rgetsockopt(client, SOL_SOCKET, SO_ERROR, &err, &len), 0);
	assert_int_equal(err, ECONNREFUSED);
	assert_int_equal(rgetsockopt(client, SOL_SOCKET, SO_ERROR, &err, &len), 0);
	assert_int_equal(err, 0);
}

static void connecting_needs_no_accept_and_no_waiting(void **state)
{
	struct sockaddr_in addr = loopback(PORT), peer;
	socklen_t len = sizeof(peer);
	char c = 0;
	int err;

	(void)state;
	listener = listen_on(PORT);
	nonblocking(listener);
	assert_fails(raccept(listener, NULL, NULL), EAGAIN);
	assert_int_equal(events_of(listener, POLLIN, 0), 0);
	client = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	assert_fails(rconnect(client, (struct sockaddr *)&addr, sizeof(addr)), EINPROGRESS);
	wait_for(client, POLLOUT);
	len = sizeof(err);
	assert_int_equal(rgetsockopt(client, SOL_SOCKET, SO_ERROR, &err, &len), 0);
	assert_int_equal(err, 0);
	assert_int_equal(rconnect(client, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_fails(rrecv(client, &c, 1, 0), EAGAIN);
	assert_int_equal(rsend(client, "x", 1, 0), 1); /* it waits for who accepts */
	wait_for(listener, POLLIN);
	len = sizeof(peer);
	server = raccept(listener, (struct sockaddr *)&peer, &len);
	assert_true(server >= 0);
	assert_int_equal(peer.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	assert_true(rfcntl(server, F_GETFL) & O_NONBLOCK); /* rdma-core's way */
	wait_for(server, POLLIN);
	assert_int_equal(rrecv(server, &c, 1, 0), 1);
	assert_int_equal(c, 'x');
}

static void the_wildcard_takes_every_address_and_ipv6(void **state)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)}, got;
	struct sockaddr_in6 to = any;
	socklen_t len = sizeof(got);
	char c;

	(void)state;
	listener = rsocket(AF_INET6, SOCK_STREAM, 0);
	assert_int_equal(rbind(listener, (struct sockaddr *)&any, sizeof(any)), 0);
	assert_int_equal(rlisten(listener, 1), 0);
	to.sin6_addr = in6addr_loopback;
	client = rsocket(AF_INET6, SOCK_STREAM, 0);
	assert_int_equal(rconnect(client, (struct sockaddr *)&to, sizeof(to)), 0);
	server = raccept(listener, NULL, NULL);
	assert_true(server >= 0);
	assert_int_equal(rgetsockname(server, (struct sockaddr *)&got, &len), 0);
	assert_memory_equal(&got.sin6_addr, &in6addr_loopback, 16);
	assert_int_equal(rclose(client), 0);
	assert_int_equal(rclose(server), 0);
	/* An IPv4 peer's address is shown mapped. */
	client = connect_to(PORT);
	len = sizeof(got);
	server = raccept(listener, (struct sockaddr *)&got, &len);
	assert_int_equal(len, sizeof(got));
	assert_true(IN6_IS_ADDR_V4MAPPED(&got.sin6_addr));
	assert_int_equal(rsend(client, "4", 1, 0), 1);
	assert_int_equal(rrecv(server, &c, 1, 0), 1);
	assert_int_equal(c, '4');
}

static void many_connect_before_one_is_accepted(void **state)
{
	enum { MANY = 40 };
	int c[MANY], s[MANY];

	(void)state;
	listener = listen_on(PORT);
	for (int i = 0; i < MANY; i++) {
		c[i] = connect_to(PORT);
		assert_int_equal(rsend(c[i], &i, sizeof(i), 0), sizeof(i));
	}
	for (int i = 0; i < MANY; i++) {
		int n = -1;

		s[i] = raccept(listener, NULL, NULL);
		assert_true(s[i] >= 0);
		assert_int_equal(rrecv(s[i], &n, sizeof(n), MSG_WAITALL), sizeof(n));
		assert_int_equal(n, i); /* in order */
	}
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(rclose(c[i]), 0);
		assert_int_equal(rclose(s[i]), 0);
	}
	/* A listener that goes takes those with it whom nobody accepted. */
	client = connect_to(PORT);
	assert_int_equal(rclose(listener), 0);
	listener = -1;
	wait_for(client, POLLHUP);
}

/* ---- data ------------------------------------------------------------------------------------ */

struct flow {
	int fd;
	size_t bytes, piece;
	bool ok;
};

static void *send_flow(void *arg)
{
	struct flow *f = arg;
	uint8_t *buf = malloc(f->piece);
	size_t done = 0;

	while (done < f->bytes) {
		size_t n = f->piece < f->bytes - done ? f->piece : f->bytes - done;

		for (size_t i = 0; i < n; i++)
			buf[i] = pattern(done + i);
		if (rsend(f->fd, buf, n, 0) != (ssize_t)n)
			break;
		done += n;
	}
	free(buf);
	f->ok = done == f->bytes;
	return NULL;
}

static void *recv_flow(void *arg)
{
	struct flow *f = arg;
	uint8_t *buf = malloc(f->piece);
	size_t done = 0;

	f->ok = true;
	while (done < f->bytes && f->ok) {
		ssize_t n = rrecv(f->fd, buf, f->piece, 0);

		if (n <= 0)
			break;
		for (ssize_t i = 0; i < n; i++)
			f->ok = f->ok && buf[i] == pattern(done + (size_t)i);
		done += (size_t)n;
	}
	free(buf);
	f->ok = f->ok && done == f->bytes;
	return NULL;
}

/* Both ways at once, each end with a thread that sends and one that receives. */
static void flows(size_t bytes, size_t send_piece, size_t recv_piece)
{
	struct flow f[] = {{client, bytes, send_piece, false},
			   {server, bytes, recv_piece, false},
			   {server, bytes, send_piece, false},
			   {client, bytes, recv_piece, false}};
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, i % 2 ? recv_flow : send_flow, &f[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < 4; i++)
		assert_true(f[i].ok);
}

static void bytes_arrive_whole_and_in_order_both_ways(void **state)
{
	(void)state;
	flows(40 << 20, 1 << 20, 1 << 16);
	flows(1 << 20, 100, 333); /* more messages than credits */
	flows(1 << 18, 7, 65536);
	flows(5000003, 123457, 4099);
}

static void small_buffers_and_queues_suffice(void **state)
{
	struct sockaddr_in addr = loopback(PORT);
	int small = 5000, few = 16, none = 0, got;
	socklen_t len = sizeof(got);

	(void)state;
	listener = listen_on(PORT);
	client = rsocket(AF_INET, SOCK_STREAM, 0);
	for (int i = 0; i < 2; i++) {
		int fd = i ? client : listener;

		assert_int_equal(rsetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(int)), 0);
		assert_int_equal(rsetsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(int)), 0);
		assert_int_equal(rsetsockopt(fd, SOL_RDMA, RDMA_SQSIZE, &few, sizeof(int)), 0);
		assert_int_equal(rsetsockopt(fd, SOL_RDMA, RDMA_RQSIZE, &few, sizeof(int)), 0);
		assert_int_equal(rsetsockopt(fd, SOL_RDMA, RDMA_INLINE, &none, sizeof(int)), 0);
	}
	assert_int_equal(rconnect(client, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_fails(rsetsockopt(client, SOL_RDMA, RDMA_SQSIZE, &few, sizeof(int)), EINVAL);
	server = raccept(listener, NULL, NULL);
	assert_int_equal(rgetsockopt(server, SOL_RDMA, RDMA_RQSIZE, &got, &len), 0);
	assert_int_equal(got, few);
	assert_int_equal(rgetsockopt(server, SOL_SOCKET, SO_RCVBUF, &got, &len), 0);
	assert_int_equal(got, 2 * small);
	flows(1 << 20, 10007, 997);
}

static void peek_and_waitall_and_iovecs(void **state)
{
	char a[4] = "", b[8] = "", all[12] = "";
	struct iovec out[] = {{(void *)"abc", 3}, {NULL, 0}, {(void *)"defghijk", 8}};
	struct iovec in[] = {{a, 3}, {b, 8}};
	struct msghdr msg = {.msg_iov = in, .msg_iovlen = 2};

	(void)state;
	assert_int_equal(rwritev(client, out, 3), 11);
	assert_int_equal(rrecv(server, all, 11, MSG_WAITALL | MSG_PEEK) > 0, 1);
	wait_for(server, POLLIN);
	assert_int_equal(rrecv(server, all, 5, MSG_PEEK), 5);
	assert_memory_equal(all, "abcde", 5);
	assert_int_equal(rrecvmsg(server, &msg, MSG_WAITALL), 11);
	assert_memory_equal(a, "abc", 3);
	assert_memory_equal(b, "defghijk", 8);
	assert_fails(rrecv(server, all, 1, MSG_DONTWAIT), EAGAIN);
	assert_int_equal(rsendmsg(server, &(struct msghdr){.msg_iov = out, .msg_iovlen = 1}, 0), 3);
	assert_int_equal(rsend(server, "xyz", 3, 0), 3);
	assert_int_equal(rrecv(client, all, 6, MSG_WAITALL), 6);
	assert_memory_equal(all, "abcxyz", 6);
	assert_fails(rsendto(client, "x", 1, 0, (struct sockaddr *)all, 16), EISCONN);
	assert_fails(rsend(client, "x", 1, MSG_OOB), EOPNOTSUPP);
	assert_int_equal(rsend(client, "x", 0, 0), 0);
}

static void a_full_peer_stops_a_sender_and_a_reader_lets_it_go(void **state)
{
	static uint8_t buf[1 << 16];
	size_t sent = 0, got = 0;
	ssize_t n;

	(void)state;
	nonblocking(client);
	for (;;) {
		n = rsend(client, buf, sizeof(buf), 0);
		if (n > 0)
			sent += (size_t)n;
		else if (errno == EAGAIN && !events_of(client, POLLOUT, 200))
			break;
	}
	assert_int_equal(errno, EAGAIN);
	assert_true(sent >= 1 << 17);
	assert_true(sent <= 1 << 20);
	assert_int_equal(events_of(client, POLLIN | POLLOUT, 0), 0);
	while (got < sent) {
		n = rrecv(server, buf, sizeof(buf), 0);
		assert_true(n > 0);
		got += (size_t)n;
	}
	wait_for(client, POLLOUT);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void half_a_close_leaves_the_other_half(void **state)
{
	char c = 0;

	(void)state;
	assert_int_equal(rsend(client, "q", 1, 0), 1);
	assert_int_equal(rshutdown(client, SHUT_WR), 0);
	assert_fails(rsend(client, "q", 1, MSG_NOSIGNAL), EPIPE);
	assert_int_equal(rrecv(server, &c, 1, 0), 1);
	assert_int_equal(rrecv(server, &c, 1, 0), 0);
	assert_true(events_of(server, POLLIN | POLLRDHUP, WAIT_MS) & POLLRDHUP);
	assert_false(events_of(server, POLLIN, 0) & POLLHUP);
	assert_int_equal(rsend(server, "answer", 6, 0), 6);
	for (const char *p = "answer"; *p; p++) {
		assert_int_equal(rrecv(client, &c, 1, 0), 1);
		assert_int_equal(c, *p);
	}
	assert_int_equal(rshutdown(server, SHUT_WR), 0);
	assert_int_equal(rrecv(client, &c, 1, 0), 0);
	wait_for(client, POLLHUP);
	assert_fails(rshutdown(client, 17), EINVAL);
}

static void what_was_sent_before_a_close_is_read_after_it(void **state)
{
	static uint8_t out[100000], in[100000];

	(void)state;
	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = pattern(i);
	assert_int_equal(rsend(client, out, sizeof(out), 0), sizeof(out));
	assert_int_equal(rclose(client), 0);
	client = -1;
	assert_int_equal(rrecv(server, in, sizeof(in), MSG_WAITALL), sizeof(in));
	assert_memory_equal(in, out, sizeof(in));
	assert_int_equal(rrecv(server, in, 1, 0), 0);
	assert_fails(rsend(server, in, 1, MSG_NOSIGNAL), ECONNRESET); /* rdma-core's way */
}

static void *close_soon(void *arg)
{
	usleep(100000);
	assert_int_equal(rclose(*(int *)arg), 0);
	return NULL;
}

static void a_close_wakes_who_reads(void **state)
{
	pthread_t t;
	char c;

	(void)state;
	pthread_create(&t, NULL, close_soon, &server);
	assert_int_equal(rrecv(client, &c, 1, 0), 0);
	pthread_join(t, NULL);
	server = -1;
}

static void a_peer_that_dies_is_econnreset_once(void **state)
{
	struct sockaddr_in addr = loopback(PORT);
	pid_t child;
	int p[2];
	char c;

	(void)state;
	assert_int_equal(pipe(p), 0);
	child = fork();
	if (!child) {
		int fd;

		(void)!read(p[0], &c, 1);
		fd = rsocket(AF_INET, SOCK_STREAM, 0);
		if (fd < 0 || rconnect(fd, (struct sockaddr *)&addr, sizeof(addr)))
			_exit(1);
		(void)!rsend(fd, "last", 4, 0);
		usleep(200000);
		kill(getpid(), SIGKILL);
	}
	listener = listen_on(PORT);
	assert_int_equal(write(p[1], "g", 1), 1);
	server = raccept(listener, NULL, NULL);
	assert_true(server >= 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(rrecv(server, &c, 1, 0), 1);
	assert_fails(rrecv(server, &c, 1, 0), ECONNRESET);
	assert_int_equal(rrecv(server, &c, 1, 0), 0);
	assert_fails(rsend(server, &c, 1, MSG_NOSIGNAL), EPIPE);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(p[0]);
	close(p[1]);
}

static void a_child_of_fork_leaves_the_connection_to_its_parent(void **state)
{
	pid_t child = fork();
	int status;
	char c;

	(void)state;
	if (!child) {
		bool bad = rsend(client, "c", 1, MSG_NOSIGNAL) >= 0 || errno != ENOTCONN;

		bad = bad || rclose(client) || rclose(listener);
		_exit(bad);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(rsend(client, "p", 1, 0), 1);
	assert_int_equal(rrecv(server, &c, 1, 0), 1);
	assert_int_equal(c, 'p');
}

/* ---- options, polling ------------------------------------------------------------------------ */

static void options_are_kept_and_shown(void **state)
{
	static const struct {
		int level, name, set, got;
	} table[] = {
		{SOL_SOCKET, SO_REUSEADDR, 1, 1},	{SOL_SOCKET, SO_KEEPALIVE, 1, 1},
		{SOL_SOCKET, SO_OOBINLINE, 1, 1},	{SOL_SOCKET, SO_RCVBUF, 65536, 131072},
		{SOL_SOCKET, SO_SNDBUF, 65536, 131072}, {IPPROTO_TCP, TCP_NODELAY, 1, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, 33, 33},	{SOL_RDMA, RDMA_SQSIZE, 100, 100},
		{SOL_RDMA, RDMA_RQSIZE, 200, 200},	{SOL_RDMA, RDMA_INLINE, 32, 32},
		{SOL_RDMA, RDMA_IOMAPSIZE, 10, 10},	{SOL_RDMA, RDMA_IOMAPSIZE, 600, 512},
		{IPPROTO_IP, IP_TOS, 0x20, 0x20},
	};
	struct timeval tv = {0, 50000};
	int v;
	socklen_t len;
	char c;

	(void)state;
	client = rsocket(AF_INET, SOCK_STREAM, 0);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		v = table[i].set;
		assert_int_equal(rsetsockopt(client, table[i].level, table[i].name, &v, sizeof(v)),
				 0);
		len = sizeof(v);
		assert_int_equal(rgetsockopt(client, table[i].level, table[i].name, &v, &len), 0);
		assert_int_equal(len, sizeof(v));
		assert_int_equal(v, table[i].got);
	}
	assert_fails(rsetsockopt(client, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3), EINVAL);
	assert_fails(rsetsockopt(client, SOL_SOCKET, SO_MARK, &v, sizeof(v)), ENOTSUP);
	assert_fails(rsetsockopt(client, IPPROTO_TCP, TCP_CORK, &v, sizeof(v)), ENOTSUP);
	assert_int_equal(rclose(client), 0);
	pair(NULL);
	len = sizeof(v);
	assert_int_equal(rgetsockopt(client, IPPROTO_TCP, TCP_MAXSEG, &v, &len), 0);
	assert_true(v >= 256 && v <= 4096);
	assert_int_equal(rsetsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)), 0);
	assert_fails(rrecv(client, &c, 1, 0), EAGAIN);
}

static void poll_and_select_take_ordinary_descriptors_too(void **state)
{
	struct timeval tv = {10, 0};
	struct pollfd fds[3];
	fd_set rd, wr;
	int p[2];

	(void)state;
	assert_int_equal(pipe(p), 0);
	fds[0] = (struct pollfd){.fd = p[0], .events = POLLIN};
	fds[1] = (struct pollfd){.fd = server, .events = POLLIN};
	fds[2] = (struct pollfd){.fd = -1, .events = POLLIN};
	assert_int_equal(rpoll(fds, 3, 50), 0);
	assert_int_equal(write(p[1], "x", 1), 1);
	assert_int_equal(rpoll(fds, 3, WAIT_MS), 1);
	assert_int_equal(fds[0].revents, POLLIN);
	assert_int_equal(rsend(client, "x", 1, 0), 1);
	wait_for(server, POLLIN);
	assert_int_equal(rpoll(fds, 3, WAIT_MS), 2);
	FD_ZERO(&rd);
	FD_ZERO(&wr);
	FD_SET(p[0], &rd);
	FD_SET(server, &rd);
	FD_SET(client, &rd);
	FD_SET(client, &wr);
	assert_int_equal(rselect(p[1] + 1, &rd, &wr, NULL, &tv), 3);
	assert_true(FD_ISSET(p[0], &rd) && FD_ISSET(server, &rd) && !FD_ISSET(client, &rd));
	assert_true(FD_ISSET(client, &wr));
	close(p[0]);
	close(p[1]);
}

static void *send_soon(void *arg)
{
	const uint8_t two[2] = {pattern(0), pattern(0)};

	usleep(100000);
	assert_int_equal(rsend(*(int *)arg, two, 2, 0), 2);
	return NULL;
}

static void a_poller_and_a_reader_on_one_socket_both_wake(void **state)
{
	pthread_t t[2];
	struct flow f = {server, 1, 1, false};
	char c;

	(void)state;
	for (int i = 0; i < 10; i++) {
		pthread_create(&t[0], NULL, send_soon, &client);
		pthread_create(&t[1], NULL, recv_flow, &f);
		/* The reader takes one of two bytes, so that there is always one to be seen. */
		assert_int_equal(events_of(server, POLLIN, WAIT_MS), POLLIN);
		pthread_join(t[0], NULL);
		pthread_join(t[1], NULL);
		assert_true(f.ok);
		assert_int_equal(rrecv(server, &c, 1, 0), 1);
	}
}

static void keepalives_do_not_disturb(void **state)
{
	int one = 1;
	char c;

	(void)state;
	assert_int_equal(rsetsockopt(client, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one)), 0);
	assert_int_equal(rsetsockopt(client, IPPROTO_TCP, TCP_KEEPIDLE, &one, sizeof(one)), 0);
	assert_int_equal(events_of(server, POLLIN, 2500), 0); /* two or so, unseen */
	assert_int_equal(rsend(client, "k", 1, 0), 1);
	assert_int_equal(rrecv(server, &c, 1, 0), 1);
}

/* ---- iomap ----------------------------------------------------------------------------------- */

static void iowrites_go_straight_into_the_buffer(void **state)
{
	struct sockaddr_in addr = loopback(PORT);
	static uint8_t target[3][100000], source[100000];
	int four = 4;
	char c;

	(void)state;
	for (size_t i = 0; i < sizeof(source); i++)
		source[i] = pattern(i);
	listener = listen_on(PORT);
	client = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(rsetsockopt(client, SOL_RDMA, RDMA_IOMAPSIZE, &four, sizeof(four)), 0);
	assert_int_equal(rconnect(client, (struct sockaddr *)&addr, sizeof(addr)), 0);
	server = raccept(listener, NULL, NULL);
	/* The client has room for four; the server, which asked for none, gives the client none. */
	assert_fails(riomap(client, target[0], 10, PROT_WRITE, 0, 0), ENOMEM);
	assert_fails(riomap(server, target[0], 10, PROT_EXEC, 0, 0), EINVAL);
	assert_int_equal(riomap(server, target[0], sizeof(target[0]), PROT_WRITE, 0, 5000), 5000);
	assert_int_equal(riomap(server, target[1], sizeof(target[1]), PROT_WRITE, 0, -1),
			 (off_t)(uintptr_t)target[1]);
	assert_int_equal(rsend(server, "m", 1, 0), 1); /* the maps go before it */
	assert_int_equal(rrecv(client, &c, 1, 0), 1);
	assert_int_equal(riowrite(client, source, sizeof(source), 5000, 0), sizeof(source));
	assert_int_equal(riowrite(client, source, 10, (off_t)(uintptr_t)target[1] + 7, 0), 10);
	assert_int_equal(riowrite(client, source, 10, 4990, 0), 0); /* nothing is mapped there */
	assert_int_equal(rsend(client, "d", 1, 0), 1);		    /* and this goes behind them */
	assert_int_equal(rrecv(server, &c, 1, 0), 1);
	assert_int_equal(c, 'd');
	assert_memory_equal(target[0], source, sizeof(source));
	assert_memory_equal(target[1] + 7, source, 10);
	assert_int_equal(target[1][17], 0);
	assert_int_equal(riounmap(server, target[0], sizeof(target[0])), 0);
	assert_fails(riounmap(server, target[0], sizeof(target[0])), EINVAL);
}

/* More of them than a sender has credits. */
static void mappings_come_and_go_for_ever(void **state)
{
	struct sockaddr_in addr = loopback(PORT);
	static uint8_t target[64];
	struct timeval limit = {.tv_sec = WAIT_MS / 1000};
	int one = 1;
	char c;

	(void)state;
	listener = listen_on(PORT);
	client = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(rsetsockopt(client, SOL_RDMA, RDMA_IOMAPSIZE, &one, sizeof(one)), 0);
	assert_int_equal(rconnect(client, (struct sockaddr *)&addr, sizeof(addr)), 0);
	server = raccept(listener, NULL, NULL);
	assert_int_equal(rsetsockopt(server, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)), 0);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(riomap(server, target, sizeof(target), PROT_WRITE, 0, 0), 0);
		assert_int_equal(rsend(server, "m", 1, 0), 1);
		assert_int_equal(rrecv(client, &c, 1, 0), 1);
		assert_int_equal(riounmap(server, target, sizeof(target)), 0);
	}
}

/* As with TCP: neither close() nor the end of the program takes back what was written. */
static void what_was_written_before_the_end_arrives(void **state)
{
	size_t sent = 0, got = 0;
	uint8_t buf[16384] = {0};
	int told[2], status;
	ssize_t n;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(told), 0);
	pid = fork();
	if (!pid) {
		int fd;

		(void)!read(told[0], buf, 1);
		fd = connect_to(PORT);
		nonblocking(fd);
		while ((n = rsend(fd, buf, sizeof(buf), 0)) > 0)
			sent += (size_t)n;
		exit(rclose(fd) || write(told[1], &sent, sizeof(sent)) != sizeof(sent));
	}
	listener = listen_on(PORT);
	assert_int_equal(write(told[1], "", 1), 1);
	server = raccept(listener, NULL, NULL);
	assert_true(server >= 0);
	usleep(300000);
	while ((n = rrecv(server, buf, sizeof(buf), 0)) > 0)
		got += (size_t)n;
	assert_int_equal(n, 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(read(told[0], &sent, sizeof(sent)), sizeof(sent));
	assert_int_equal(got, sent);
	assert_true(sent > sizeof(buf));
	close(told[0]);
	close(told[1]);
}

int main(void)
{
#define WITH(test, setup) cmocka_unit_test_setup_teardown(test, setup, close_all)
	const struct CMUnitTest tests[] = {
		/* First, while this process has no thread of the library yet. */
		WITH(a_peer_that_dies_is_econnreset_once, no_sockets),
		WITH(what_was_written_before_the_end_arrives, no_sockets),
		WITH(only_what_there_is_can_be_made, no_sockets),
		WITH(a_number_that_is_no_rsocket_is_ebadf, no_sockets),
		WITH(a_stream_that_is_not_connected_says_so, no_sockets),
		WITH(an_address_is_taken_once, no_sockets),
		WITH(nobody_listens_is_econnrefused, no_sockets),
		WITH(connecting_needs_no_accept_and_no_waiting, no_sockets),
		WITH(the_wildcard_takes_every_address_and_ipv6, no_sockets),
		WITH(many_connect_before_one_is_accepted, no_sockets),
		WITH(bytes_arrive_whole_and_in_order_both_ways, pair),
		WITH(small_buffers_and_queues_suffice, no_sockets),
		WITH(peek_and_waitall_and_iovecs, pair),
		WITH(a_full_peer_stops_a_sender_and_a_reader_lets_it_go, pair),
		WITH(half_a_close_leaves_the_other_half, pair),
		WITH(what_was_sent_before_a_close_is_read_after_it, pair),
		WITH(a_close_wakes_who_reads, pair),
		WITH(a_child_of_fork_leaves_the_connection_to_its_parent, pair),
		WITH(options_are_kept_and_shown, no_sockets),
		WITH(poll_and_select_take_ordinary_descriptors_too, pair),
		WITH(a_poller_and_a_reader_on_one_socket_both_wake, pair),
		WITH(keepalives_do_not_disturb, pair),
		WITH(iowrites_go_straight_into_the_buffer, no_sockets),
		WITH(mappings_come_and_go_for_ever, no_sockets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
