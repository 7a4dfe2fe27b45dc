// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* getsockopt() and setsockopt(), as socket(7), tcp(7) and ip(7) have it. */
#include "case.h"

#define OPTION(level, name)        \
	{                          \
#name, level, name \
	}

static const struct {
	const char *text;
	int level, name;
} numbers[] = {
	OPTION(SOL_SOCKET, SO_TYPE),
	OPTION(SOL_SOCKET, SO_DOMAIN),
	OPTION(SOL_SOCKET, SO_PROTOCOL),
	OPTION(SOL_SOCKET, SO_ERROR),
	OPTION(SOL_SOCKET, SO_ACCEPTCONN),
	OPTION(SOL_SOCKET, SO_REUSEADDR),
	OPTION(SOL_SOCKET, SO_REUSEPORT),
	OPTION(SOL_SOCKET, SO_KEEPALIVE),
	OPTION(SOL_SOCKET, SO_BROADCAST),
	OPTION(SOL_SOCKET, SO_OOBINLINE),
	OPTION(SOL_SOCKET, SO_DONTROUTE),
	OPTION(SOL_SOCKET, SO_RCVLOWAT),
	OPTION(SOL_SOCKET, SO_SNDLOWAT),
	OPTION(SOL_SOCKET, SO_PRIORITY),
	OPTION(SOL_SOCKET, SO_MARK),
	OPTION(SOL_SOCKET, SO_TIMESTAMP),
	OPTION(SOL_SOCKET, SO_BUSY_POLL),
	OPTION(IPPROTO_TCP, TCP_NODELAY),
	OPTION(IPPROTO_TCP, TCP_CORK),
	OPTION(IPPROTO_TCP, TCP_KEEPIDLE),
	OPTION(IPPROTO_TCP, TCP_KEEPINTVL),
	OPTION(IPPROTO_TCP, TCP_KEEPCNT),
	OPTION(IPPROTO_TCP, TCP_SYNCNT),
	OPTION(IPPROTO_TCP, TCP_LINGER2),
	OPTION(IPPROTO_TCP, TCP_DEFER_ACCEPT),
	OPTION(IPPROTO_TCP, TCP_USER_TIMEOUT),
	OPTION(IPPROTO_TCP, TCP_FASTOPEN),
	OPTION(IPPROTO_TCP, TCP_NOTSENT_LOWAT),
	OPTION(IPPROTO_IP, IP_TOS),
	OPTION(IPPROTO_IP, IP_TTL),
	OPTION(IPPROTO_IP, IP_MTU_DISCOVER),
	OPTION(IPPROTO_IP, IP_FREEBIND),
	OPTION(IPPROTO_IPV6, IPV6_V6ONLY),
	OPTION(IPPROTO_TCP, 7777),
	OPTION(SOL_SOCKET, 7777),
};

static void show_all(int fd)
{
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		socklen_t len = sizeof(int);
		int v = -1;

		if (getsockopt(fd, numbers[i].level, numbers[i].name, &v, &len))
			say("%s: %s", numbers[i].text, strerrorname_np(errno));
		else
			say("%s: %d, %u bytes", numbers[i].text, v, len);
	}
}

static void options_fresh(void)
{
	show_all(tcp_socket(0));
	meet();
}

static void options_connected(void)
{
	show_all(joined());
	meet();
}

static void options_listening(void)
{
	if (server)
		show_all(listening());
	meet();
}

/* What is set before connecting and after is what is got. */
static void set_all(int fd)
{
	static const struct {
		const char *text;
		int level, name, value;
	} set[] = {
		{"SO_KEEPALIVE", SOL_SOCKET, SO_KEEPALIVE, 1},
		{"SO_OOBINLINE", SOL_SOCKET, SO_OOBINLINE, 7},
		{"SO_RCVLOWAT", SOL_SOCKET, SO_RCVLOWAT, 1},
		{"SO_PRIORITY", SOL_SOCKET, SO_PRIORITY, 5},
		{"SO_RCVBUF", SOL_SOCKET, SO_RCVBUF, 40000},
		{"SO_SNDBUF", SOL_SOCKET, SO_SNDBUF, 50000},
		{"SO_RCVBUF of nothing", SOL_SOCKET, SO_RCVBUF, 0},
		{"TCP_NODELAY", IPPROTO_TCP, TCP_NODELAY, 1},
		{"TCP_KEEPIDLE", IPPROTO_TCP, TCP_KEEPIDLE, 60},
		{"TCP_KEEPIDLE of nothing", IPPROTO_TCP, TCP_KEEPIDLE, 0},
		{"TCP_KEEPINTVL", IPPROTO_TCP, TCP_KEEPINTVL, 6},
		{"TCP_KEEPCNT", IPPROTO_TCP, TCP_KEEPCNT, 4},
		{"TCP_USER_TIMEOUT", IPPROTO_TCP, TCP_USER_TIMEOUT, 12345},
		{"TCP_USER_TIMEOUT below nothing", IPPROTO_TCP, TCP_USER_TIMEOUT, -1},
		{"TCP_SYNCNT", IPPROTO_TCP, TCP_SYNCNT, 3},
		{"TCP_QUICKACK", IPPROTO_TCP, TCP_QUICKACK, 1},
		{"IP_TOS", IPPROTO_IP, IP_TOS, 16},
		{"IP_TTL", IPPROTO_IP, IP_TTL, 9},
		{"IP_TTL too much", IPPROTO_IP, IP_TTL, 999},
		{"SO_ERROR", SOL_SOCKET, SO_ERROR, 1},
		{"SO_TYPE", SOL_SOCKET, SO_TYPE, 1},
		{"SO_ACCEPTCONN", SOL_SOCKET, SO_ACCEPTCONN, 1},
		{"TCP_MAXSEG", IPPROTO_TCP, TCP_MAXSEG, 1},
		{"of no option", IPPROTO_TCP, 7777, 1},
		{"of no level", 7777, 1, 1},
	};

	for (size_t i = 0; i < sizeof(set) / sizeof(*set); i++) {
		socklen_t len = sizeof(int);
		int v = set[i].value, rc;

		rc = setsockopt(fd, set[i].level, set[i].name, &v, sizeof(v));
		say("%s: %s", set[i].text, rc ? strerrorname_np(errno) : "ok");
		v = -1;
		if (set[i].name != TCP_QUICKACK && set[i].name != TCP_MAXSEG &&
		    !getsockopt(fd, set[i].level, set[i].name, &v, &len))
			say("    %d", v);
	}
}

static void options_set_fresh(void)
{
	set_all(tcp_socket(0));
	meet();
}

static void options_set_connected(void)
{
	int fd = joined();

	set_all(fd);
	meet();
	pour(fd, server, 0, 20000);
	drink(fd, !server, 0, 20000);
}

/* Buffers as small as they get: everything comes all the same. */
static void options_small_buffers(void)
{
	struct sockaddr_in a = at(true, port(0));
	int fd, listener, v = 1;

	if (server) {
		listener = tcp_socket(0);
		T(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &v, sizeof(v)));
		T(setsockopt(listener, SOL_SOCKET, SO_SNDBUF, &v, sizeof(v)));
		need(!bind(listener, SA(&a), sizeof(a)) && !listen(listener, 5));
		meet();
		fd = F(accept(listener, NULL, NULL));
		drink(fd, 1, 0, 100000);
	} else {
		meet();
		fd = tcp_socket(0);
		T(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &v, sizeof(v)));
		T(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &v, sizeof(v)));
		T(connect(fd, SA(&a), sizeof(a)));
		pour(fd, 1, 0, 100000);
	}
	meet();
}

static void options_wrong(void)
{
	socklen_t len;
	int fd = joined(), v = 1, pipes[2];
	uint8_t one = 1;

	need(!pipe(pipes));
	T(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, 1));
	T(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, 1));
	T(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &v, 0));
	T(setsockopt(fd, SOL_SOCKET, SO_LINGER, &v, sizeof(v)));
	T(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &v, sizeof(v)));
	T(setsockopt(-1, SOL_SOCKET, SO_KEEPALIVE, &v, sizeof(v)));
	T(setsockopt(pipes[0], SOL_SOCKET, SO_KEEPALIVE, &v, sizeof(v)));
	len = 1;
	v = 0x55555555;
	T(getsockopt(fd, SOL_SOCKET, SO_TYPE, &v, &len));
	say("%x, %u", (unsigned)v, len);
	len = 2;
	v = 0x55555555;
	T(getsockopt(fd, SOL_SOCKET, SO_ERROR, &v, &len));
	say("%x, %u", (unsigned)v, len);
	len = 2;
	v = 0x55555555;
	T(getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &v, &len));
	say("%x, %u", (unsigned)v, len);
	len = (socklen_t)-1;
	T(getsockopt(fd, SOL_SOCKET, SO_TYPE, &v, &len));
	len = (socklen_t)-1;
	T(getsockopt(fd, SOL_SOCKET, SO_ERROR, &v, &len));
	len = 100;
	T(getsockopt(-1, SOL_SOCKET, SO_TYPE, &v, &len));
	T(getsockopt(pipes[0], SOL_SOCKET, SO_TYPE, &v, &len));
	meet();
}

static void options_nowhere(void)
{
	socklen_t len = 4;
	int fd = joined(), v = 0;

	T(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, bad, 4));
	T(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, bad, 4));
	T(getsockopt(fd, SOL_SOCKET, SO_ERROR, bad, &len));
	T(getsockopt(fd, SOL_SOCKET, SO_ERROR, &v, bad));
	T(getsockopt(fd, SOL_SOCKET, SO_TYPE, bad, &len));
	T(getsockname(fd, bad, &len));
	T(getpeername(fd, SA(&v), bad));
	meet();
}

static void options_linger_and_time(void)
{
	struct linger l = {1, 3};
	struct timeval tv = {1, 500000};
	socklen_t len = sizeof(l);
	int fd = joined();

	T(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
	memset(&l, 0, sizeof(l));
	T(getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &len));
	say("%d %d", l.l_onoff, l.l_linger);
	T(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	memset(&tv, 0, sizeof(tv));
	len = sizeof(tv);
	T(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, &len));
	say("%ld %ld", (long)tv.tv_sec, (long)tv.tv_usec / 10000);
	tv = (struct timeval){-1, 0};
	T(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)));
	tv = (struct timeval){0, 2000000};
	T(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)));
	meet();
}

/* What programs look for in TCP_INFO: the state. */
static void options_info(void)
{
	struct tcp_info info;
	socklen_t len;
	int fd = tcp_socket(0), v;

	memset(&info, 0, sizeof(info));
	len = sizeof(info);
	T(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
	say("state %d, %u bytes", info.tcpi_state, len);
	fd = joined();
	len = sizeof(info);
	T(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
	say("state %d, %u bytes", info.tcpi_state, len);
	len = 1;
	T(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
	say("state %d, %u bytes", info.tcpi_state, len);
	len = sizeof(v);
	T(getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &v, &len));
	say("a segment: %d", v > 100);
	meet();
	T(shutdown(fd, SHUT_WR));
	meet();
	await_events(fd, POLLIN, POLLIN);
	if (server)
		T(close(fd));
	meet();
}

static void options_names(void)
{
	char name[64] = "";
	socklen_t len = sizeof(name);
	int fd = joined();

	T(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len));
	say("there is one: %d", len > 0 && name[0]);
	T(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4));
	T(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "nothing", 7));
	len = sizeof(name);
	T(getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, &len));
	say("%u", len);
	T(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "eth0", 5));
	T(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "nothing", 8));
	meet();
}

static void options_bound_to_device(void)
{
	struct sockaddr_in a = at(true, port(0));
	int fd, listener;

	if (server) {
		listener = listening();
		T(setsockopt(listener, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3));
		T(setsockopt(listener, SOL_SOCKET, SO_BINDTODEVICE, "eth0", 5));
		meet();
		fd = F(accept(listener, NULL, NULL));
		drain(fd);
	} else {
		meet();
		fd = tcp_socket(0);
		T(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "eth0", 5));
		T(connect(fd, SA(&a), sizeof(a)));
		T(send(fd, "hello", 5, 0));
		T(close(fd));
	}
	meet();
}

const struct test_case options_cases[] = {
	CASE(options_fresh),
	CASE(options_connected),
	CASE(options_listening),
	CASE(options_set_fresh),
	CASE(options_set_connected),
	CASE(options_small_buffers),
	CASE(options_wrong),
	CASE(options_nowhere),
	CASE(options_linger_and_time),
	CASE(options_info),
	CASE(options_names),
	CASE(options_bound_to_device),
	{0},
};
