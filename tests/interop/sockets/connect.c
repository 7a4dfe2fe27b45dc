// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* connect(), as connect(2) and tcp(7) have it. */
#include "case.h"

static void so_error(int fd)
{
	int err = -1;

	need(!getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &(socklen_t){sizeof(err)}));
	say("SO_ERROR: %s", err ? strerrorname_np(err) : "0");
}

static void serve_one(void)
{
	int listener = listening(), fd;

	meet();
	fd = accept(listener, NULL, NULL);
	need(fd >= 0);
	meet();
	drain(fd);
	close(fd);
	close(listener);
}

static void connect_blocking(void)
{
	struct sockaddr_in a = at(true, port(0)), b;
	socklen_t len = sizeof(b);
	int fd;

	if (server) {
		serve_one();
		return;
	}
	meet();
	fd = tcp_socket(0);
	T(connect(fd, SA(&a), sizeof(a)));
	meet();
	so_error(fd);
	T(getpeername(fd, SA(&b), &len));
	say("the peer is %s", !memcmp(&a, &b, 8) && len == sizeof(b) ? "the server" : "another");
	T(getsockname(fd, SA(&b), &len));
	a = at(false, 0);
	say("we are %s", a.sin_addr.s_addr == b.sin_addr.s_addr && b.sin_port ? "we" : "another");
	T(connect(fd, SA(&a), sizeof(a)));
	T(send(fd, "hello", 5, 0));
	T(close(fd));
}

/* What asks whether it has come to be by calling connect() again, as redis-cli does. */
static void connect_asks_by_connect(void)
{
	struct sockaddr_in a = at(true, port(0));
	int fd;

	if (server) {
		serve_one();
		return;
	}
	meet();
	fd = tcp_socket(SOCK_NONBLOCK);
	T(connect(fd, SA(&a), sizeof(a)));
	await_events(fd, POLLIN | POLLOUT, POLLOUT);
	T(connect(fd, SA(&a), sizeof(a)));
	T(connect(fd, SA(&a), sizeof(a)));
	meet();
	so_error(fd);
	T(send(fd, "hello", 5, 0));
	T(close(fd));
}

static void connect_asks_by_error(void)
{
	struct sockaddr_in a = at(true, port(0));
	int fd;

	if (server) {
		serve_one();
		return;
	}
	meet();
	fd = tcp_socket(SOCK_NONBLOCK);
	T(connect(fd, SA(&a), sizeof(a)));
	await_events(fd, POLLIN | POLLOUT | POLLRDHUP, POLLOUT);
	so_error(fd);
	so_error(fd);
	meet();
	T(send(fd, "hello", 5, 0));
	T(close(fd));
}

static void connect_refused(void)
{
	struct sockaddr_in a = at(true, port(0));
	int fd;

	if (server) {
		meet();
		serve_one();
		return;
	}
	fd = tcp_socket(0);
	T(connect(fd, SA(&a), sizeof(a)));
	so_error(fd);
	show_events(fd, POLLIN | POLLOUT | POLLRDHUP);
	T(send(fd, "hello", 5, MSG_NOSIGNAL));
	T(recv(fd, &a, 0, 0));
	T(connect(fd, SA(&a), sizeof(a)));
	meet();
	meet(); /* somebody listens now, and the socket may be used again */
	T(connect(fd, SA(&a), sizeof(a)));
	meet();
	T(send(fd, "hello", 5, 0));
	T(close(fd));
}

static void connect_refused_later(void)
{
	struct sockaddr_in a = at(true, port(0));
	int fd;

	if (server) {
		meet();
		return;
	}
	fd = tcp_socket(SOCK_NONBLOCK);
	T(connect(fd, SA(&a), sizeof(a)));
	await_events(fd, POLLIN | POLLOUT | POLLRDHUP, POLLERR);
	so_error(fd);
	so_error(fd);
	show_events(fd, POLLIN | POLLOUT | POLLRDHUP);
	T(close(fd));
	fd = tcp_socket(SOCK_NONBLOCK);
	T(connect(fd, SA(&a), sizeof(a)));
	await_events(fd, POLLIN | POLLOUT | POLLRDHUP, POLLERR);
	T(connect(fd, SA(&a), sizeof(a)));
	show_events(fd, POLLIN | POLLOUT | POLLRDHUP);
	T(recv(fd, &a, 1, 0));
	T(recv(fd, &a, 1, 0));
	T(close(fd));
	meet();
}

static void connect_unspec(void)
{
	struct sockaddr_in a = at(true, port(0)), b;
	struct sockaddr none = {.sa_family = AF_UNSPEC};
	socklen_t len = sizeof(b);
	int fd, listener;

	if (server) {
		listener = listening();
		meet();
		for (int i = 0; i < 2; i++) {
			fd = accept(listener, NULL, NULL);
			meet();
			meet();
			drain(fd);
			close(fd);
		}
		return;
	}
	meet();
	fd = tcp_socket(0);
	T(connect(fd, &none, sizeof(none)));
	T(connect(fd, SA(&a), sizeof(a)));
	meet();
	T(connect(fd, &none, sizeof(none)));
	T(getpeername(fd, SA(&b), &len));
	T(send(fd, "lost", 4, MSG_NOSIGNAL));
	meet();
	T(connect(fd, SA(&a), sizeof(a)));
	meet();
	T(send(fd, "hello", 5, 0));
	T(shutdown(fd, SHUT_WR));
	meet();
	T(close(fd));
}

static void connect_wrong(void)
{
	struct sockaddr_in a = at(true, port(0));
	struct sockaddr_in6 six = at6(true, port(0));
	int fd, listener;

	if (server) {
		serve_one();
		return;
	}
	meet();
	fd = tcp_socket(0);
	T(connect(fd, SA(&a), 4));
	T(connect(fd, SA(&a), sizeof(a) - 1));
	T(connect(fd, SA(&a), 0));
	T(connect(fd, SA(&a), (socklen_t)-1));
	T(connect(fd, SA(&six), sizeof(six)));
	a.sin_family = AF_UNIX;
	T(connect(fd, SA(&a), sizeof(a)));
	a = unreachable();
	T(connect(fd, SA(&a), sizeof(a)));
	T(send(fd, "hello", 5, MSG_NOSIGNAL));
	T(recv(fd, &a, 1, 0));
	listener = socket(AF_INET, SOCK_STREAM, 0);
	T(listen(listener, 1));
	a = at(true, port(0));
	T(connect(listener, SA(&a), sizeof(a)));
	T(connect(fd, SA(&a), sizeof(a)));
	meet();
	T(send(fd, "hello", 5, 0));
	T(connect(fd, SA(&a), 4));
	T(close(fd));
	T(connect(fd, SA(&a), sizeof(a)));
}

static void connect_nowhere(void)
{
	int fd = tcp_socket(0);

	T(connect(fd, nowhere, sizeof(struct sockaddr_in)));
	T(connect(fd, bad, sizeof(struct sockaddr_in)));
	meet();
}

static void connect_silent(void)
{
	struct sockaddr_in a = silent();
	struct timeval patience = {.tv_usec = 200000};
	int fd;

	if (server) {
		meet();
		return;
	}
	fd = tcp_socket(SOCK_NONBLOCK);
	T(connect(fd, SA(&a), sizeof(a)));
	show_events(fd, POLLIN | POLLOUT | POLLRDHUP);
	T(connect(fd, SA(&a), sizeof(a)));
	so_error(fd);
	T(send(fd, "hello", 5, 0));
	T(recv(fd, &a, 1, 0));
	T(getpeername(fd, SA(&a), &(socklen_t){sizeof(a)}));
	T(shutdown(fd, SHUT_RDWR));
	T(close(fd));
	a = silent();
	fd = tcp_socket(0);
	T(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)));
	T(connect(fd, SA(&a), sizeof(a)));
	T(connect(fd, SA(&a), sizeof(a)));
	T(close(fd));
	meet();
}

static void connect_interrupted(void)
{
	struct sockaddr_in a = silent();
	struct pest p;
	int fd = -1;

	if (server) {
		meet();
		return;
	}
	on_signal(SIGUSR1, 0);
	fd = tcp_socket(0);
	pester(&p, SIGUSR1, 1);
	T(connect(fd, SA(&a), sizeof(a)));
	pester_end(&p);
	nonblocking(fd, true);
	T(connect(fd, SA(&a), sizeof(a)));
	show_events(fd, POLLIN | POLLOUT);
	T(close(fd));
	meet();
}

static void connect_bound(void)
{
	struct sockaddr_in a = at(true, port(0)), mine = at(false, port(1)), b;
	socklen_t len = sizeof(b);
	int fd, one = 1;

	if (server) {
		int listener = listening();

		meet();
		F(accept(listener, SA(&b), &len));
		say("port %+d, address %s", ntohs(b.sin_port) - port(0),
		    b.sin_addr.s_addr == mine.sin_addr.s_addr ? "as bound" : "another");
		meet();
		return;
	}
	meet();
	fd = tcp_socket(0);
	T(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	T(bind(fd, SA(&mine), sizeof(mine)));
	T(bind(fd, SA(&mine), sizeof(mine)));
	T(connect(fd, SA(&a), sizeof(a)));
	T(getsockname(fd, SA(&b), &len));
	say("port %+d", ntohs(b.sin_port) - port(0));
	meet();
	T(close(fd));
}

/* Nobody looks at the one that connects. */
static void connect_unlooked(void)
{
	struct sockaddr_in a = at(true, port(0));
	int fd;

	if (server) {
		int listener = listening();

		meet();
		await_events(listener, POLLIN, POLLIN);
		meet();
		meet();
		return;
	}
	meet();
	fd = tcp_socket(SOCK_NONBLOCK);
	T(connect(fd, SA(&a), sizeof(a)));
	meet();
	await_events(fd, POLLOUT, POLLOUT);
	T(close(fd));
	meet();
}

const struct test_case connect_cases[] = {
	CASE(connect_blocking),
	CASE(connect_asks_by_connect),
	CASE(connect_asks_by_error),
	CASE(connect_refused),
	CASE(connect_refused_later),
	CASE(connect_unspec),
	CASE(connect_wrong),
	CASE(connect_silent),
	CASE(connect_interrupted),
	CASE(connect_unlooked),
	CASE(connect_bound),
	CASE(connect_nowhere),
	{0},
};
