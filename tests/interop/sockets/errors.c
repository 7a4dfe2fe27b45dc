// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Calls on what is no connection; and sockets of other kinds, which stay as they are. */
#include <sys/resource.h>
#include <sys/un.h>

#include "case.h"

static void all_calls(int fd)
{
	struct sockaddr_in a = at(true, port(0));
	socklen_t len = sizeof(a);
	struct iovec v = {&a, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
	int n;

	T(bind(fd, SA(&a), sizeof(a)));
	T(listen(fd, 1));
	T(accept(fd, NULL, NULL));
	T(connect(fd, SA(&a), sizeof(a)));
	T(getsockname(fd, SA(&a), &len));
	T(getpeername(fd, SA(&a), &len));
	T(getsockopt(fd, SOL_SOCKET, SO_TYPE, &n, &len));
	T(send(fd, "x", 1, MSG_NOSIGNAL));
	T(sendto(fd, "x", 1, MSG_NOSIGNAL, NULL, 0));
	T(sendmsg(fd, &m, MSG_NOSIGNAL));
	T(recv(fd, &a, 1, MSG_DONTWAIT));
	T(recvfrom(fd, &a, 1, MSG_DONTWAIT, NULL, NULL));
	T(recvmsg(fd, &m, MSG_DONTWAIT));
	T(shutdown(fd, SHUT_RD));
}

static void errors_closed(void)
{
	int fd = tcp_socket(0);
	char c;

	T(close(fd));
	all_calls(fd);
	T(read(fd, &c, 1));
	T(write(fd, &c, 1));
	all_calls(-1);
	all_calls(1 << 30);
	meet();
}

static void errors_file(void)
{
	int fd = open("/dev/null", O_RDWR);

	all_calls(fd);
	meet();
}

static void errors_unconnected(void)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);
	struct iovec v = {&a, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
	int fd = tcp_socket(0), n = -1;
	char c;

	on_signal(SIGPIPE, 0);
	T(read(fd, &c, 1));
	T(write(fd, &c, 1));
	say("signals: %d", signals);
	T(readv(fd, &v, 1));
	T(writev(fd, &v, 1));
	T(send(fd, "x", 1, 0));
	T(send(fd, "x", 1, MSG_NOSIGNAL));
	say("signals: %d", signals);
	T(sendmsg(fd, &m, 0));
	T(recvmsg(fd, &m, 0));
	T(recv(fd, &c, 1, MSG_PEEK));
	T(getpeername(fd, SA(&a), &len));
	T(getsockname(fd, SA(&a), &len));
	say("%u, family %d, port %d", len, a.sin_family, a.sin_port);
	T(ioctl(fd, FIONREAD, &n));
	T(ioctl(fd, SIOCATMARK, &n));
	T(accept(fd, NULL, NULL));
	T(shutdown(fd, SHUT_WR));
	meet();
}

static void errors_socket(void)
{
	int pair[2];

	T(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
	T(socket(AF_INET, SOCK_SEQPACKET, 0));
	T(socket(AF_INET, 77, 0));
	T(socket(777, SOCK_STREAM, 0));
	T(socket(AF_INET, SOCK_STREAM | 0x40, 0));
	T(socket(AF_INET, SOCK_STREAM, 7777));
	T(socketpair(AF_INET, SOCK_STREAM, 0, pair));
	F(socket(AF_INET, SOCK_STREAM, IPPROTO_TCP));
	F(socket(AF_INET6, SOCK_STREAM, IPPROTO_TCP));
	F(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	T(fcntl(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), F_GETFD));
	T(fcntl(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), F_GETFL));
	meet();
}

static void errors_bind(void)
{
	struct sockaddr_in a = at(server, port(3));
	struct sockaddr_in6 six = at6(server, port(4));
	struct sockaddr_un local = {.sun_family = AF_UNIX};
	int fd = tcp_socket(0);

	T(bind(fd, SA(&six), sizeof(six)));
	T(bind(fd, SA(&local), sizeof(local)));
	T(bind(fd, SA(&a), 3));
	T(bind(fd, nowhere, sizeof(a)));
	T(bind(fd, bad, sizeof(a)));
	a = unreachable();
	T(bind(fd, SA(&a), sizeof(a)));
	a = at(!server, port(3)); /* the other's */
	T(bind(fd, SA(&a), sizeof(a)));
	a = at(server, port(3));
	T(bind(fd, SA(&a), sizeof(a)));
	T(bind(fd, SA(&a), sizeof(a)));
	meet();
}

/* No descriptors are left: said of the call that needs one. */
static void errors_descriptors(void)
{
	struct sockaddr_in a = at(true, port(0));
	struct rlimit limit;
	int fd, listener, file;

	if (server) {
		listener = listening();
		meet();
		fd = F(accept(listener, NULL, NULL));
		drain(fd);
	} else {
		meet();
		fd = tcp_socket(0);
		need(!getrlimit(RLIMIT_NOFILE, &limit));
		limit.rlim_cur = (rlim_t)fd + 1;
		need(!setrlimit(RLIMIT_NOFILE, &limit));
		T(connect(fd, SA(&a), sizeof(a)));
		file = open("/dev/null", O_RDONLY);
		say("open: %s", file < 0 ? strerrorname_np(errno) : "ok");
		T(socket(AF_INET, SOCK_STREAM, 0));
		T(dup(fd));
		T(send(fd, "hello", 5, 0));
		T(close(fd));
	}
	meet();
}

static void other_datagrams(void)
{
	struct sockaddr_in a = at(server, port(0)), b = at(!server, port(0)), from;
	socklen_t len = sizeof(from);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	char buf[16] = "";

	T(bind(fd, SA(&a), sizeof(a)));
	meet();
	T(sendto(fd, "hello", 5, 0, SA(&b), sizeof(b)));
	T(recvfrom(fd, buf, sizeof(buf), 0, SA(&from), &len));
	say("%s, %s", buf, from.sin_port == b.sin_port ? "of the other" : "of another");
	T(connect(fd, SA(&b), sizeof(b)));
	T(send(fd, "hello", 5, 0));
	T(recv(fd, buf, 3, MSG_TRUNC));
	T(close(fd));
	meet();
}

static void other_local(void)
{
	int fds[2], seq[2];
	char buf[16] = "";

	T(socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	T(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, seq));
	T(send(fds[0], "hello", 5, 0));
	T(recv(fds[1], buf, 16, 0));
	T(write(seq[0], "one", 3));
	T(write(seq[0], "two", 3));
	T(read(seq[1], buf, 16));
	T(shutdown(fds[0], SHUT_WR));
	T(read(fds[1], buf, 16));
	T(close(fds[1]));
	T(send(fds[0], "x", 1, MSG_NOSIGNAL));
	meet();
}

/* Within one host and one process. */
static void with_itself(void)
{
	struct sockaddr_in a = at(server, port(server));
	int listener = tcp_socket(0), fd = tcp_socket(SOCK_NONBLOCK), got, one = 1;

	T(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	T(bind(listener, SA(&a), sizeof(a)));
	T(listen(listener, 5));
	T(connect(fd, SA(&a), sizeof(a)));
	got = F(accept(listener, NULL, NULL));
	await_events(fd, POLLOUT, POLLOUT);
	T(send(fd, "hello", 5, 0));
	R(got, 5, MSG_WAITALL);
	T(close(fd));
	R(got, 5, MSG_WAITALL);
	meet();
}

static void with_itself_by_loopback(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	int listener = tcp_socket(0), fd = tcp_socket(0), got;
	pid_t pid;

	T(listen(listener, 5));
	need(!getsockname(listener, SA(&a), &len));
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	pid = fork();
	if (!pid) {
		T(connect(fd, SA(&a), sizeof(a)));
		pour(fd, 1, 0, 100000);
		T(close(fd));
		_exit(0);
	}
	got = accept(listener, NULL, NULL);
	need(gulp(got, 1, 0, 100000));
	reap(pid);
	meet();
}

/* One socket connected to itself: TCP can. */
static void to_its_own_port(void)
{
	struct sockaddr_in a = at(server, port(server));
	int fd = tcp_socket(0);

	T(bind(fd, SA(&a), sizeof(a)));
	T(connect(fd, SA(&a), sizeof(a)));
	T(send(fd, "hello", 5, MSG_NOSIGNAL));
	R(fd, 5, MSG_DONTWAIT);
	meet();
}

const struct test_case errors_cases[] = {
	CASE(errors_closed),	       CASE(errors_file),     CASE(errors_unconnected),
	CASE(errors_socket),	       CASE(errors_bind),     CASE(errors_descriptors),
	CASE(other_datagrams),	       CASE(other_local),     CASE(with_itself),
	CASE(with_itself_by_loopback), CASE(to_its_own_port), {0},
};
