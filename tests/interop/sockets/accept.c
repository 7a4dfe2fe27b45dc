// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* listen() and accept(), as listen(2), accept(2) and socket(7) have it. */
#include <sys/resource.h>

#include "case.h"

static void accept_address(void)
{
	struct sockaddr_in a, b;
	socklen_t len = sizeof(a);
	int listener, fd;

	if (!server) {
		meet();
		fd = connected();
		need(!getsockname(fd, SA(&a), &len));
		tell(0, a.sin_port);
		meet();
		close(fd);
		return;
	}
	listener = listening();
	meet();
	fd = F(accept(listener, SA(&a), &len));
	meet();
	say("%u bytes, family %d, port %s, address %s", len, a.sin_family,
	    a.sin_port == asked(0) ? "the client's" : "another",
	    a.sin_addr.s_addr == at(false, 0).sin_addr.s_addr ? "the client's" : "another");
	len = sizeof(b);
	T(getpeername(fd, SA(&b), &len));
	say("the same by getpeername: %d", !memcmp(&a, &b, 8));
	len = sizeof(b);
	T(getsockname(fd, SA(&b), &len));
	say("own port %+d", ntohs(b.sin_port) - port(0));
	T(fcntl(fd, F_GETFL) & O_NONBLOCK);
	T(fcntl(fd, F_GETFD));
}

/* Who is told that somebody is there finds somebody. */
static void accept_told(void)
{
	int listener, fd;

	if (!server) {
		meet();
		fd = connected();
		meet();
		close(fd);
		return;
	}
	listener = listening();
	nonblocking(listener, true);
	meet();
	await_events(listener, POLLIN, POLLIN);
	F(accept(listener, NULL, NULL));
	meet();
}

/* The flags of the new descriptor are accept4()'s, and nothing of the listener's. */
static void accept_flags(void)
{
	static const int flags[] = {0, SOCK_NONBLOCK, SOCK_CLOEXEC};
	int listener, fd;

	if (!server) {
		meet();
		for (int i = 0; i < 3; i++) {
			fd = connected();
			meet();
			close(fd);
		}
		return;
	}
	listener = listening();
	nonblocking(listener, true);
	fcntl(listener, F_SETFD, FD_CLOEXEC);
	meet();
	for (int i = 0; i < 3; i++) {
		do
			fd = accept4(listener, NULL, NULL, flags[i]);
		while (fd < 0 && errno == EAGAIN && !(nap(10), 0));
		T(fcntl(fd, F_GETFL) & O_NONBLOCK);
		T(fcntl(fd, F_GETFD));
		meet();
	}
	T(accept4(listener, NULL, NULL, 0));
	T(accept4(listener, NULL, NULL, 12345));
}

static void accept_wrong(void)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);
	int fd = tcp_socket(0), pipes[2];

	need(!pipe(pipes));
	T(accept(fd, NULL, NULL));
	T(accept(-1, NULL, NULL));
	T(accept(pipes[0], NULL, NULL));
	T(close(fd));
	T(accept(fd, SA(&a), &len));
	fd = joined();
	T(accept(fd, NULL, NULL));
	T(listen(fd, 5));
	meet();
}

static void accept_address_wrong(void)
{
	struct sockaddr_in a;
	socklen_t len;
	int listener, fd;

	if (!server) {
		meet();
		for (int i = 0; i < 4; i++) {
			fd = connected();
			meet();
			drain(fd);
			close(fd);
		}
		return;
	}
	listener = listening();
	meet();
	for (int i = 0; i < 4; i++) {
		memset(&a, 0x55, sizeof(a));
		len = i == 0 ? 0 : i == 1 ? 5 : (socklen_t)-1;
		fd = i == 3 ? F(accept(listener, SA(&a), nowhere))
			    : F(accept(listener, SA(&a), &len));
		if (fd >= 0)
			say("length %d, %02x at 0, %02x at 5", (int)len, ((uint8_t *)&a)[0],
			    ((uint8_t *)&a)[5]);
		close(fd);
		meet();
	}
}

static void accept_nobody(void)
{
	struct timeval patience = {.tv_usec = 200000};
	int listener;

	if (server) {
		listener = listening();
		show_events(listener, POLLIN | POLLOUT | POLLRDHUP);
		nonblocking(listener, true);
		T(accept(listener, NULL, NULL));
		nonblocking(listener, false);
		T(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)));
		T(accept(listener, NULL, NULL));
	}
	meet();
}

static void *shut(void *arg)
{
	const int *fd = arg;

	await_asleep((pid_t)asked(1));
	return (void *)(intptr_t)shutdown(*fd, SHUT_RD);
}

static void accept_shutdown(void)
{
	struct sockaddr_in a = at(true, port(0));
	int listener, fd;
	pthread_t t;

	if (!server) {
		meet();
		fd = tcp_socket(0);
		T(connect(fd, SA(&a), sizeof(a)));
		meet();
		return;
	}
	listener = listening();
	tell(1, tid_of());
	t = thread(shut, &listener);
	T(accept(listener, NULL, NULL));
	T((intptr_t)ended(t));
	show_events(listener, POLLIN | POLLOUT | POLLRDHUP);
	T(accept(listener, NULL, NULL));
	meet();
	meet();
	T(listen(listener, 5));
	show_events(listener, POLLIN | POLLOUT | POLLRDHUP);
}

/* Who has connected, written and gone before anybody accepts is heard all the same. */
static void accept_late(void)
{
	int listener = -1, fd;

	if (server)
		listener = listening();
	meet();
	if (!server) {
		fd = connected();
		T(send(fd, "early", 5, 0));
		T(close(fd));
	}
	meet();
	if (server) {
		await_events(listener, POLLIN, POLLIN);
		fd = F(accept(listener, NULL, NULL));
		drain(fd);
	}
	meet();
}

static void accept_in_order(void)
{
	enum { MANY = 12 };
	struct sockaddr_in a;
	socklen_t len = sizeof(a);
	int listener = -1, fds[MANY];

	if (server)
		listener = listening();
	meet();
	for (int i = 0; !server && i < MANY; i++) {
		fds[i] = connected();
		need(!getsockname(fds[i], SA(&a), &len));
		tell(i, a.sin_port);
	}
	for (int i = 0; server && i < MANY; i++)
		need((fds[i] = accept(listener, NULL, NULL)) >= 0);
	meet();
	for (int i = 0; i < MANY; i++) {
		if (server) {
			need(!getpeername(fds[i], SA(&a), &len));
			say("%d is the client's: %d", i, a.sin_port == asked(i));
			T(write(fds[i], &i, sizeof(i)));
		} else {
			int got = -1;

			T(read(fds[i], &got, sizeof(got)));
			say("%d", got);
		}
	}
	meet();
}

/* Of a listener that is closed, those that wait are reset. */
static void accept_closed(void)
{
	struct sockaddr_in a = at(true, port(0));
	int listener = -1, fd = -1;
	char c;

	if (server)
		listener = listening();
	meet();
	if (!server) {
		fd = tcp_socket(SOCK_NONBLOCK);
		T(connect(fd, SA(&a), sizeof(a)));
		nap(100);
	}
	meet();
	if (server)
		T(close(listener));
	meet();
	if (!server) {
		await_events(fd, POLLIN, POLLIN);
		T(recv(fd, &c, 1, 0));
		T(close(fd));
		fd = tcp_socket(0);
		T(connect(fd, SA(&a), sizeof(a)));
	}
	meet();
}

/* Those that there are; returns the limit before. */
static struct rlimit no_more_numbers(void)
{
	struct rlimit limit, none;

	need(!getrlimit(RLIMIT_NOFILE, &limit));
	none = limit;
	none.rlim_cur = 3;
	need(!setrlimit(RLIMIT_NOFILE, &none));
	return limit;
}

static void accept_no_descriptors(void)
{
	struct rlimit limit;
	int listener, fd;
	char c = 0;

	if (!server) {
		meet();
		fd = connected();
		T(read(fd, &c, 1));
		say("'%c'", c);
		return;
	}
	listener = listening();
	meet();
	await_events(listener, POLLIN, POLLIN);
	limit = no_more_numbers();
	T(accept(listener, NULL, NULL));
	T(socket(AF_INET, SOCK_STREAM, 0));
	need(!setrlimit(RLIMIT_NOFILE, &limit));
	fd = F(accept(listener, NULL, NULL));
	T(write(fd, "x", 1));
	T(close(fd));
}

/* Nor is one lost that had come about when there was no number for it. */
static void accept_no_descriptors_then(void)
{
	struct sockaddr_in to = at(true, port(0));
	struct rlimit limit;
	struct pollfd p[2];
	int listener, fd[2];
	char c = 0;

	if (!server) {
		meet();
		for (int i = 0; i < 2; i++) {
			fd[i] = tcp_socket(SOCK_NONBLOCK);
			T(connect(fd[i], SA(&to), sizeof(to)));
			p[i] = (struct pollfd){.fd = fd[i], .events = POLLIN};
		}
		for (int n = 0; n < 300 && !(p[0].revents & p[1].revents & POLLIN); n++, nap(10))
			poll(p, 2, 0);
		for (int i = 0; i < 2; i++) {
			T(read(fd[i], &c, 1));
			say("'%c'", c);
		}
		return;
	}
	listener = listening();
	meet();
	await_events(listener, POLLIN, POLLIN);
	nap(200); /* both have asked */
	fd[0] = F(accept(listener, NULL, NULL));
	nap(300); /* and both have come */
	limit = no_more_numbers();
	T(accept(listener, NULL, NULL));
	need(!setrlimit(RLIMIT_NOFILE, &limit));
	fd[1] = F(accept(listener, NULL, NULL));
	for (int i = 0; i < 2; i++) {
		T(write(fd[i], "x", 1));
		T(close(fd[i]));
	}
}

static void *acceptor(void *arg)
{
	return (void *)(intptr_t)accept(*(int *)arg, NULL, NULL);
}

static void accept_by_threads(void)
{
	enum { MANY = 4 };
	int listener = -1, fds[MANY];
	pthread_t t[MANY];

	if (server) {
		listener = listening();
		for (int i = 0; i < MANY; i++)
			t[i] = thread(acceptor, &listener);
		nap(100);
	}
	meet();
	for (int i = 0; i < MANY; i++) {
		if (server) {
			fds[i] = (int)(intptr_t)ended(t[i]);
			T(write(fds[i], "hello", 5));
			close(fds[i]);
		} else {
			fds[i] = connected();
		}
	}
	for (int i = 0; !server && i < MANY; i++)
		drain(fds[i]);
	meet();
}

/* What a listener is no more good for. */
static void listener_calls(void)
{
	struct sockaddr_in a = at(true, port(1));
	socklen_t len = sizeof(a);
	int fd, v = -1;
	char c;

	if (server) {
		fd = listening();
		T(send(fd, "x", 1, MSG_NOSIGNAL));
		T(recv(fd, &c, 1, 0));
		T(recv(fd, &c, 1, MSG_DONTWAIT));
		T(getpeername(fd, SA(&a), &len));
		T(getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &v, &(socklen_t){sizeof(v)}));
		say("%d", v);
		T(getsockopt(fd, SOL_SOCKET, SO_ERROR, &v, &(socklen_t){sizeof(v)}));
		say("%d", v);
		T(listen(fd, 3));
		T(listen(fd, 0));
		T(listen(fd, -1));
		T(ioctl(fd, FIONREAD, &v));
		T(bind(fd, SA(&a), sizeof(a)));
		T(shutdown(fd, SHUT_WR));
		show_events(fd, POLLIN | POLLOUT | POLLRDHUP);
	}
	meet();
}

static void listen_unbound(void)
{
	struct sockaddr_in a = {0};
	socklen_t len = sizeof(a);
	int fd, got;

	if (server) {
		fd = tcp_socket(0);
		T(listen(fd, 5));
		T(getsockname(fd, SA(&a), &len));
		say("a port: %d", !!a.sin_port);
		tell(0, ntohs(a.sin_port));
		meet();
		got = F(accept(fd, NULL, NULL));
		drain(got);
	} else {
		meet();
		a = at(true, (int)asked(0));
		fd = tcp_socket(0);
		T(connect(fd, SA(&a), sizeof(a)));
		T(write(fd, "hello", 5));
		T(close(fd));
	}
	meet();
}

static void listen_taken(void)
{
	struct sockaddr_in a = at(true, port(0)), b = at(false, port(0));
	int first, fd, one = 1;

	if (server) {
		first = tcp_socket(0);
		T(bind(first, SA(&a), sizeof(a)));
		fd = tcp_socket(0);
		T(bind(fd, SA(&a), sizeof(a)));
		T(bind(fd, SA(&b), sizeof(b)));
		T(bind(fd, SA(&a), sizeof(a) - 1));
		T(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
		T(setsockopt(first, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
		T(bind(fd, SA(&a), sizeof(a)));
		T(listen(first, 5));
		T(listen(fd, 5));
		T(close(first));
		T(listen(fd, 5));
		first = tcp_socket(0);
		T(bind(first, SA(&a), sizeof(a)));
		T(close(fd));
		T(bind(first, SA(&a), sizeof(a)));
		T(listen(first, 5));
	}
	meet();
}

/* A server starts anew while a connection of its former self lasts. */
static void listen_anew(void)
{
	int listener = -1, fds[2], fd;

	joined_more(&listener, fds, 1);
	if (server)
		T(close(listener));
	meet();
	if (server) {
		listener = listening();
		meet();
		fd = F(accept(listener, NULL, NULL));
		T(write(fds[0], "old", 3));
		T(write(fd, "new", 3));
	} else {
		meet();
		fds[1] = connected();
		R(fds[0], 10, 0);
		R(fds[1], 10, 0);
	}
	meet();
}

/* What a listener has set its connections have. */
static void accept_inherits(void)
{
	static const struct {
		const char *name;
		int level, option, value;
	} set[] = {
		{"SO_KEEPALIVE", SOL_SOCKET, SO_KEEPALIVE, 1},
		{"SO_RCVBUF", SOL_SOCKET, SO_RCVBUF, 50000},
		{"SO_SNDBUF", SOL_SOCKET, SO_SNDBUF, 60000},
		{"SO_RCVLOWAT", SOL_SOCKET, SO_RCVLOWAT, 3},
		{"SO_PRIORITY", SOL_SOCKET, SO_PRIORITY, 4},
		{"TCP_NODELAY", IPPROTO_TCP, TCP_NODELAY, 1},
		{"TCP_KEEPIDLE", IPPROTO_TCP, TCP_KEEPIDLE, 77},
		{"TCP_USER_TIMEOUT", IPPROTO_TCP, TCP_USER_TIMEOUT, 7777},
		{"IP_TTL", IPPROTO_IP, IP_TTL, 33},
	};
	struct linger linger = {1, 7};
	struct timeval tv = {.tv_sec = 3};
	socklen_t len;
	int listener, fd, v;

	if (!server) {
		meet();
		fd = connected();
		meet();
		return;
	}
	listener = listening();
	for (size_t i = 0; i < sizeof(set) / sizeof(*set); i++)
		need(!setsockopt(listener, set[i].level, set[i].option, &set[i].value, 4));
	need(!setsockopt(listener, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	need(!setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	meet();
	fd = F(accept(listener, NULL, NULL));
	for (size_t i = 0; i < sizeof(set) / sizeof(*set); i++) {
		v = -1;
		len = sizeof(v);
		need(!getsockopt(fd, set[i].level, set[i].option, &v, &len));
		say("%s: %d", set[i].name, v);
	}
	memset(&linger, 0, sizeof(linger));
	len = sizeof(linger);
	T(getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &len));
	say("%d %d", linger.l_onoff, linger.l_linger);
	memset(&tv, 0, sizeof(tv));
	len = sizeof(tv);
	T(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, &len));
	say("%ld", (long)tv.tv_sec);
	meet();
}

const struct test_case accept_cases[] = {
	CASE(accept_address),
	CASE(accept_flags),
	CASE(accept_wrong),
	CASE(accept_address_wrong),
	CASE(accept_nobody),
	CASE(accept_shutdown),
	CASE(accept_late),
	CASE(accept_in_order),
	CASE(accept_closed),
	CASE(accept_no_descriptors),
	CASE(accept_no_descriptors_then),
	CASE(accept_by_threads),
	CASE(listener_calls),
	CASE(listen_unbound),
	CASE(listen_taken),
	CASE(listen_anew),
	CASE(accept_inherits),
	CASE(accept_told),
	{0},
};
