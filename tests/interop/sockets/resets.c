// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* The peer closes: what the next calls say, and those after them. Of resets, SO_LINGER, what was
 * never read; of sockets that never had a connection, and of those that are to have another. */
#include <linux/sockios.h>

#include "case.h"

enum { ALL = POLLIN | POLLOUT | POLLRDHUP };

static void so_error(int fd)
{
	int err = -1;

	need(!getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &(socklen_t){sizeof(err)}));
	say("SO_ERROR: %s", err ? strerrorname_np(err) : "0");
}

static void send_one(int fd)
{
	signals = 0;
	T(send(fd, "a", 1, 0));
	if (signals)
		say("SIGPIPE");
}

static void names(int fd)
{
	struct sockaddr_in a;

	T(getpeername(fd, SA(&a), &(socklen_t){sizeof(a)}));
	T(shutdown(fd, SHUT_RDWR));
}

/* How the server ends; the client goes on when it has. */
static int ends(void (*end)(int fd), const char *unread)
{
	int fd = joined();

	on_signal(SIGPIPE, SA_RESTART);
	if (server) {
		if (*unread)
			await_bytes(fd, (int)strlen(unread));
		end(fd);
		meet();
		meet();
		_exit(0);
	}
	if (*unread)
		need(send(fd, unread, strlen(unread), 0) == (ssize_t)strlen(unread));
	meet();
	nap(200);
	return fd;
}

static void by_close(int fd)
{
	need(!close(fd));
}

static void by_reset(int fd)
{
	need(!setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger)));
	need(!close(fd));
}

static void by_data_and_reset(int fd)
{
	need(send(fd, "you", 3, 0) == 3);
	nap(200);
	by_reset(fd);
}

static void by_data_and_close(int fd)
{
	need(send(fd, "you", 3, 0) == 3);
	need(!close(fd));
}

static void by_shutdown_and_reset(int fd)
{
	need(!shutdown(fd, SHUT_WR));
	nap(100);
	by_reset(fd);
}

static void by_shutdown(int fd)
{
	need(!shutdown(fd, SHUT_RDWR));
}

/* ---- calls after it -------------------------------------------------------------------------- */

static void all_after(int fd)
{
	show_events(fd, ALL);
	send_one(fd);
	nap(100);
	show_events(fd, ALL);
	send_one(fd);
	so_error(fd);
	T(send(fd, "a", 1, MSG_NOSIGNAL));
	R(fd, 9, 0);
	R(fd, 9, 0);
	show_events(fd, ALL);
	names(fd);
	meet();
}

static void reads_after(int fd)
{
	show_events(fd, ALL);
	R(fd, 9, 0);
	R(fd, 9, 0);
	R(fd, 9, 0);
	show_events(fd, ALL);
	send_one(fd);
	meet();
}

static void error_after(int fd)
{
	so_error(fd);
	so_error(fd);
	R(fd, 9, 0);
	send_one(fd);
	meet();
}

static void sends_after(int fd)
{
	send_one(fd);
	send_one(fd);
	R(fd, 9, 0);
	so_error(fd);
	meet();
}

static void closed_all(void)
{
	all_after(ends(by_close, ""));
}

static void closed_reads(void)
{
	int fd = ends(by_data_and_close, "");

	show_events(fd, ALL);
	R(fd, 9, 0);
	show_events(fd, ALL);
	R(fd, 9, 0);
	R(fd, 9, 0);
	send_one(fd);
	nap(100);
	R(fd, 9, 0);
	send_one(fd);
	meet();
}

static void closed_error(void)
{
	int fd = ends(by_close, "");

	send_one(fd);
	nap(100);
	error_after(fd);
}

static void closed_in_both_directions(void)
{
	all_after(ends(by_shutdown, ""));
}

static void unread_all(void)
{
	all_after(ends(by_close, "hello"));
}

static void unread_reads(void)
{
	reads_after(ends(by_close, "hello"));
}

static void unread_reads_data(void)
{
	reads_after(ends(by_data_and_close, "hello"));
}

static void unread_error(void)
{
	error_after(ends(by_close, "hello"));
}

static void unread_sends(void)
{
	sends_after(ends(by_close, "hello"));
}

static void reset_reads(void)
{
	reads_after(ends(by_reset, ""));
}

static void reset_reads_data(void)
{
	reads_after(ends(by_data_and_reset, ""));
}

static void reset_after_shutdown(void)
{
	reads_after(ends(by_shutdown_and_reset, ""));
}

static void reset_error(void)
{
	error_after(ends(by_reset, ""));
}

static void reset_sends(void)
{
	sends_after(ends(by_reset, ""));
}

/* Set before there is a connection, or on the listener. */
static void reset_by_option_before(void)
{
	const struct linger now = {1, 0};

	if (server) {
		int fd = listening(), conn;

		need(!setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
		meet();
		conn = F(accept(fd, NULL, NULL));
		meet();
		need(!close(conn));
		meet();
		conn = F(accept(fd, NULL, NULL));
		meet();
		nap(200);
		R(conn, 9, 0);
	} else {
		struct sockaddr_in to = at(true, port(0));
		int fd;

		meet();
		fd = F(connected());
		meet();
		meet();
		nap(200);
		R(fd, 9, 0);
		fd = tcp_socket(0);
		need(!setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
		T(connect(fd, SA(&to), sizeof(to)));
		meet();
		need(!close(fd));
	}
	meet();
}

static void unread_while_reading(void)
{
	int fd = joined();

	if (server) {
		await_bytes(fd, 5);
		nap(300);
		need(!close(fd));
	} else {
		need(send(fd, "hello", 5, 0) == 5);
		R(fd, 9, 0);
		R(fd, 9, 0);
	}
	meet();
}

static void unread_while_writing(void)
{
	static char much[32 << 20];
	int fd = joined();

	on_signal(SIGPIPE, SA_RESTART);
	if (server) {
		nap(300);
		need(!close(fd));
	} else {
		const ssize_t n = send(fd, much, sizeof(much), 0);

		need(n < (ssize_t)sizeof(much));
		say("%s", n < 0 ? strerrorname_np(errno) : "in part");
		send_one(fd);
		send_one(fd);
		R(fd, 9, 0);
	}
	meet();
}

/* ---- ours ------------------------------------------------------------------------------------ */

static void ours_shut(void)
{
	int fd = joined();

	if (server) {
		T(shutdown(fd, SHUT_RDWR));
		T(shutdown(fd, SHUT_RDWR));
		T(shutdown(fd, SHUT_WR));
		T(shutdown(fd, SHUT_RD));
		on_signal(SIGPIPE, SA_RESTART);
		R(fd, 9, 0);
		send_one(fd);
		show_events(fd, ALL);
		so_error(fd);
		meet();
		meet();
		nap(100);
		names(fd);
	} else {
		meet();
		R(fd, 9, 0);
		T(shutdown(fd, SHUT_WR));
		meet();
		nap(100);
		show_events(fd, ALL);
		names(fd);
	}
	meet();
}

static void never_connected(void)
{
	if (!server) {
		int fd = tcp_socket(0), n = -1;
		char c;

		on_signal(SIGPIPE, SA_RESTART);
		T(recv(fd, &c, 1, 0));
		T(recv(fd, &c, 0, 0));
		send_one(fd);
		names(fd);
		show_events(fd, ALL);
		F(accept(fd, NULL, NULL));
		T(ioctl(fd, FIONREAD, &n));
	}
	meet();
}

static void listeners_data(void)
{
	if (server) {
		int fd = listening(), n = -1;
		struct sockaddr_in a = at(true, port(0));
		char c;

		on_signal(SIGPIPE, SA_RESTART);
		T(recv(fd, &c, 1, 0));
		T(read(fd, &c, 1));
		send_one(fd);
		T(getpeername(fd, SA(&a), &(socklen_t){sizeof(a)}));
		T(connect(fd, SA(&a), sizeof(a)));
		T(bind(fd, SA(&a), sizeof(a)));
		T(listen(fd, 0));
		T(listen(fd, minus));
		T(ioctl(fd, FIONREAD, &n));
		T(ioctl(fd, SIOCOUTQ, &n));
		T(shutdown(fd, SHUT_WR));
		show_events(fd, ALL);
	}
	meet();
}

static void connected_again(void)
{
	int fd = joined();
	struct sockaddr_in to = at(true, port(0)), ours = at(server, 0);

	T(connect(fd, SA(&to), sizeof(to)));
	T(connect(fd, SA(&to), 2));
	T(bind(fd, SA(&ours), sizeof(ours)));
	T(listen(fd, 1));
	F(accept(fd, NULL, NULL));
	meet();
}

/* The connection is given up, and the socket has another. */
static void disconnected(void)
{
	const struct sockaddr none = {.sa_family = AF_UNSPEC};
	struct sockaddr_in to = at(true, port(0));
	int listener, fd;

	joined_more(&listener, &fd, 1);
	if (server) {
		R(fd, 9, 0);
		R(fd, 9, 0);
		fd = F(accept(listener, NULL, NULL));
		R(fd, 9, 0);
	} else {
		T(connect(fd, &none, sizeof(none)));
		R(fd, 9, MSG_DONTWAIT);
		T(getpeername(fd, SA(&to), &(socklen_t){sizeof(to)}));
		show_events(fd, ALL);
		T(connect(fd, &none, sizeof(none)));
		T(connect(fd, SA(&to), sizeof(to)));
		T(send(fd, "again", 5, 0));
	}
	meet();
}

static void wrong_waits(void)
{
	int fd = joined(), closed = dup(fd);
	struct pollfd p[] = {{fd, POLLOUT, 0}, {closed, POLLIN | POLLOUT, 0}, {-1, POLLIN, 7}};
	struct timeval t = {-1, 0};
	fd_set r, w;

	need(!close(closed));
	T(poll(p, 3, 100));
	say("%s, %s, %s", events_name((unsigned)p[0].revents),
	    p[1].revents == POLLNVAL ? "NVAL" : "?", p[2].revents ? "?" : "nothing");
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_SET(fd, &w);
	T(select(fd + 1, &r, &w, NULL, &t));
	FD_SET(closed, &r);
	T(select(closed + 1, &r, &w, NULL, NULL));
	T(select(minus, &r, &w, NULL, NULL));
	T(poll(p, (nfds_t)minus, 0));
	T(ppoll(p, 1, &(struct timespec){0, 1000000000}, NULL));
	T(ppoll(p, 1, &(struct timespec){-1, 0}, NULL));
	meet();
}

static void sizes_of_options(void)
{
	int fd = joined(), v = 20000;
	socklen_t len = sizeof(v);
	const int names_of[] = {SO_SNDBUF, SO_RCVBUF};

	for (int i = 0; i < 2; i++) {
		v = 20000;
		T(setsockopt(fd, SOL_SOCKET, names_of[i], &v, sizeof(v)));
		T(getsockopt(fd, SOL_SOCKET, names_of[i], &v, &len));
		say("%d", v);
		v = 1;
		T(setsockopt(fd, SOL_SOCKET, names_of[i], &v, sizeof(v)));
		T(getsockopt(fd, SOL_SOCKET, names_of[i], &v, &len));
		say("%d", v);
	}
	len = (socklen_t)minus;
	T(getsockopt(fd, SOL_SOCKET, SO_ERROR, &v, &len));
	len = 1;
	T(getsockopt(fd, SOL_SOCKET, SO_ERROR, &v, &len));
	say("%u", len);
	meet();
}

/* Before there is a connection: then there are signals of it, by TCP. */
static void told_by_signals(void)
{
	struct sockaddr_in to = at(true, port(0));
	int fd;

	if (server) {
		int listener = listening();

		meet();
		fd = F(accept(listener, NULL, NULL));
		meet();
		need(send(fd, "abc", 3, 0) == 3);
	} else {
		on_signal(SIGIO, SA_RESTART);
		fd = tcp_socket(0);
		T(fcntl(fd, F_SETOWN, getpid()));
		T(fcntl(fd, F_SETFL, O_ASYNC));
		meet();
		T(connect(fd, SA(&to), sizeof(to)));
		signals = 0;
		meet();
		await_bytes(fd, 3);
		nap(100);
		say("%s", signals ? "told" : "not told");
	}
	meet();
}

const struct test_case resets_cases[] = {
	CASE(closed_all),
	CASE(closed_reads),
	CASE(closed_error),
	CASE(closed_in_both_directions),
	CASE(unread_all),
	CASE(unread_reads),
	CASE(unread_reads_data),
	CASE(unread_error),
	CASE(unread_sends),
	CASE(reset_reads),
	CASE(reset_reads_data),
	CASE(reset_after_shutdown),
	CASE(reset_error),
	CASE(reset_sends),
	CASE(reset_by_option_before),
	CASE(unread_while_reading),
	CASE(unread_while_writing),
	CASE(ours_shut),
	CASE(never_connected),
	CASE(listeners_data),
	CASE(connected_again),
	CASE(disconnected),
	CASE(wrong_waits),
	CASE(sizes_of_options),
	CASE(told_by_signals),
	{0},
};
