// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* shutdown(), close() and what the peer sees of them; what lasts of a process that is gone. */
#include "case.h"

enum { ALL = POLLIN | POLLOUT | POLLRDHUP, MUCH = 300000 };

static void so_error(int fd)
{
	int err = -1;

	need(!getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &(socklen_t){sizeof(err)}));
	say("SO_ERROR: %s", err ? strerrorname_np(err) : "0");
}

static void shutdown_write(void)
{
	int fd = joined();

	on_signal(SIGPIPE, 0);
	if (server) {
		T(send(fd, "last", 4, 0));
		T(shutdown(fd, SHUT_WR));
		T(send(fd, "more", 4, 0));
		say("signals: %d", signals);
		T(send(fd, "more", 4, MSG_NOSIGNAL));
		say("signals: %d", signals);
		T(write(fd, "more", 4));
		say("signals: %d", signals);
		show_events(fd, ALL);
		meet();
		drain(fd);
		await_events(fd, ALL, POLLHUP);
	} else {
		meet();
		await_events(fd, ALL, POLLRDHUP);
		drain(fd);
		drain(fd);
		await_events(fd, ALL, POLLRDHUP);
		T(send(fd, "answer", 6, 0));
		T(shutdown(fd, SHUT_WR));
		await_events(fd, ALL, POLLHUP);
	}
	meet();
}

static void shutdown_read(void)
{
	int fd = joined();

	if (server) {
		T(shutdown(fd, SHUT_RD));
		R(fd, 10, 0);
		show_events(fd, ALL);
		T(send(fd, "hello", 5, 0));
		meet();
		await_bytes(fd, 5); /* TCP takes it all the same */
		R(fd, 10, 0);
		R(fd, 10, 0);
		show_events(fd, ALL);
	} else {
		meet();
		R(fd, 10, 0);
		T(send(fd, "hello", 5, 0));
		show_events(fd, ALL);
	}
	meet();
}

static void shutdown_queued(void)
{
	int fd = joined();

	if (server) {
		await_bytes(fd, 5);
		T(shutdown(fd, SHUT_RD));
		show_events(fd, ALL);
		R(fd, 3, 0);
		R(fd, 10, 0);
		R(fd, 10, 0);
	} else {
		T(send(fd, "hello", 5, 0));
	}
	meet();
}

static void shutdown_both(void)
{
	int fd = joined();

	if (server) {
		T(shutdown(fd, SHUT_RDWR));
		R(fd, 10, 0);
		T(send(fd, "x", 1, MSG_NOSIGNAL));
		meet();
		await_events(fd, ALL, POLLHUP);
	} else {
		meet();
		await_events(fd, ALL, POLLRDHUP);
		R(fd, 10, 0);
	}
	meet();
	T(close(fd));
}

static void shutdown_twice(void)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);
	int fd = joined();

	if (server) {
		T(shutdown(fd, SHUT_WR));
		T(shutdown(fd, SHUT_WR));
		T(shutdown(fd, SHUT_RD));
		T(shutdown(fd, SHUT_RD));
		T(shutdown(fd, SHUT_RDWR));
		meet();
		await_events(fd, ALL, POLLHUP);
		T(shutdown(fd, SHUT_WR));
		T(shutdown(fd, SHUT_RDWR));
		T(shutdown(fd, SHUT_RD));
		T(getpeername(fd, SA(&a), &len));
	} else {
		R(fd, 10, 0);
		meet();
		T(shutdown(fd, SHUT_WR));
		await_events(fd, ALL, POLLHUP);
		T(shutdown(fd, SHUT_WR));
	}
	meet();
}

static void shutdown_wrong(void)
{
	int fd = tcp_socket(0), pipes[2];

	need(!pipe(pipes));
	T(shutdown(fd, SHUT_RDWR));
	T(shutdown(fd, 3));
	T(shutdown(-1, SHUT_RD));
	T(shutdown(pipes[0], SHUT_RD));
	fd = joined();
	T(shutdown(fd, 3));
	T(shutdown(fd, -1));
	meet();
	T(close(fd));
	T(shutdown(fd, SHUT_RD));
}

static void *shutter(void *arg)
{
	await_asleep((pid_t)asked(1 + server));
	return (void *)(intptr_t)shutdown(*(int *)arg, SHUT_RDWR);
}

/* Who waits for data is told, too. */
static void shutdown_wakes(void)
{
	int fd = joined();
	pthread_t t;

	if (server) {
		tell(1 + server, tid_of());
		t = thread(shutter, &fd);
		R(fd, 10, 0);
		T((intptr_t)ended(t));
		R(fd, 10, 0);
	}
	meet();
}

/* The peer closes: what comes then, and what is told of it. */
static void close_then_write(void)
{
	int fd = joined();

	on_signal(SIGPIPE, 0);
	if (server) {
		T(close(fd));
		meet();
		meet();
		return;
	}
	meet();
	await_events(fd, ALL, POLLRDHUP);
	T(send(fd, "one", 3, 0));
	await_events(fd, ALL, POLLHUP);
	so_error(fd);
	T(send(fd, "two", 3, 0));
	say("signals: %d", signals);
	T(send(fd, "three", 5, 0));
	say("signals: %d", signals);
	R(fd, 10, 0);
	so_error(fd);
	meet();
}

static void close_then_read(void)
{
	int fd = joined();

	if (server) {
		T(send(fd, "bye", 3, 0));
		T(close(fd));
		meet();
		meet();
		return;
	}
	meet();
	await_events(fd, ALL, POLLRDHUP);
	T(send(fd, "one", 3, 0));
	await_events(fd, ALL, POLLHUP);
	R(fd, 10, 0);
	R(fd, 10, 0);
	R(fd, 10, 0);
	T(send(fd, "two", 3, MSG_NOSIGNAL));
	meet();
}

/* What came was not read: the peer is to know. */
static void close_unread(void)
{
	int fd = joined();

	if (server) {
		await_bytes(fd, 5);
		T(close(fd));
		meet();
	} else {
		T(send(fd, "hello", 5, 0));
		meet();
		await_events(fd, ALL, POLLHUP);
		R(fd, 10, 0);
		R(fd, 10, 0);
		T(send(fd, "x", 1, MSG_NOSIGNAL));
		so_error(fd);
	}
	meet();
}

static void close_reset(void)
{
	struct linger now = {1, 0};
	int fd = joined();

	if (server) {
		T(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
		T(close(fd));
		meet();
	} else {
		meet();
		await_events(fd, ALL, POLLERR);
		so_error(fd);
		so_error(fd);
		show_events(fd, ALL);
		R(fd, 10, 0);
		T(send(fd, "x", 1, MSG_NOSIGNAL));
	}
	meet();
}

static void close_reset_read(void)
{
	struct linger now = {1, 0};
	int fd = joined();

	if (server) {
		T(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
		meet();
		nap(100); /* the peer waits for data */
		T(close(fd));
	} else {
		meet();
		R(fd, 10, 0);
		R(fd, 10, 0);
		T(send(fd, "x", 1, MSG_NOSIGNAL));
		T(shutdown(fd, SHUT_WR));
	}
	meet();
}

static void close_reset_write(void)
{
	struct linger now = {1, 0};
	int fd = joined();

	if (server) {
		T(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
		T(close(fd));
		meet();
	} else {
		meet();
		await_events(fd, ALL, POLLERR);
		T(send(fd, "x", 1, MSG_NOSIGNAL));
		T(send(fd, "x", 1, MSG_NOSIGNAL));
		R(fd, 10, 0);
	}
	meet();
}

/* close() does not wait, and everything gets there. */
static void close_with_much(void)
{
	int fd = joined();

	if (server) {
		pour(fd, 5, 0, 60000); /* which fits in any buffer */
		T(close(fd));
		meet();
	} else {
		meet();
		drain(fd);
	}
	meet();
}

static void close_lingering(void)
{
	struct linger some = {1, 5};
	int fd = joined();

	if (server) {
		T(setsockopt(fd, SOL_SOCKET, SO_LINGER, &some, sizeof(some)));
		pour(fd, 5, 0, MUCH);
		T(close(fd));
	} else {
		nap(200);
		drain(fd);
	}
	meet();
}

/* With one of two numbers closed nothing is. */
static void close_doubled(void)
{
	int fd = joined(), other;

	if (server) {
		other = F(dup(fd));
		T(close(fd));
		meet();
		T(send(other, "hello", 5, 0));
		T(close(other));
	} else {
		meet();
		drain(fd);
	}
	meet();
}

static void close_twice(void)
{
	int fd = joined();

	T(close(fd));
	T(close(fd));
	T(close(-1));
	meet();
}

/* ---- processes that are gone ----------------------------------------------------------------- */

static void gone(void (*go)(int))
{
	int fd = joined();
	pid_t pid;

	if (!server) {
		meet();
		drain(fd);
		meet();
		return;
	}
	pid = fork();
	if (!pid)
		go(fd);
	need(!close(fd));
	reap(pid);
	meet();
	meet();
}

static void quits(int fd)
{
	pour(fd, 3, 0, MUCH);
	_exit(3);
}

static void exits(int fd)
{
	pour(fd, 3, 0, MUCH);
	exit(3);
}

static void is_killed(int fd)
{
	pour(fd, 3, 0, MUCH);
	raise(SIGKILL);
}

static void aborts(int fd)
{
	signal(SIGABRT, SIG_DFL);
	pour(fd, 3, 0, MUCH);
	abort();
}

static void gone_by_quick_exit(void)
{
	gone(quits);
}

static void gone_by_exit(void)
{
	gone(exits);
}

static void gone_by_kill(void)
{
	gone(is_killed);
}

static void gone_by_abort(void)
{
	gone(aborts);
}

/* The same where the process that connected is the one that goes. */
static void gone_self(void (*go)(int))
{
	int fd = joined();

	if (server)
		go(fd);
	drain(fd);
}

static void gone_self_by_quick_exit(void)
{
	gone_self(quits);
}

static void gone_self_by_exit(void)
{
	gone_self(exits);
}

static void gone_self_by_kill(void)
{
	gone_self(is_killed);
}

static void gone_self_by_abort(void)
{
	gone_self(aborts);
}

/* Less than fits in any buffer. */
static void little_and_quits(int fd)
{
	T(send(fd, "hello", 5, 0));
	_exit(3);
}

static void little_and_is_killed(int fd)
{
	T(send(fd, "hello", 5, 0));
	raise(SIGKILL);
}

static void gone_self_at_once(void)
{
	gone_self(little_and_quits);
}

static void gone_self_killed_at_once(void)
{
	gone_self(little_and_is_killed);
}

/* All had been read and acknowledged: an end, and no reset. */
static void gone_after_all(void)
{
	int fd = joined();

	if (server) {
		T(send(fd, "hello", 5, 0));
		meet();
		raise(SIGKILL);
	}
	R(fd, 5, 0);
	meet();
	R(fd, 5, 0);
	R(fd, 5, 0);
}

/* Who is gone with unread data resets. */
static void gone_unread(void)
{
	int fd = joined();

	if (server) {
		await_bytes(fd, 5);
		_exit(0);
	}
	T(send(fd, "hello", 5, 0));
	await_events(fd, ALL, POLLHUP);
	R(fd, 5, 0);
}

const struct test_case shutdown_cases[] = {
	CASE(shutdown_write),
	CASE(shutdown_read),
	CASE(shutdown_queued),
	CASE(shutdown_both),
	CASE(shutdown_twice),
	CASE(shutdown_wrong),
	CASE(shutdown_wakes),
	CASE(close_then_write),
	CASE(close_then_read),
	CASE(close_unread),
	CASE(close_reset),
	CASE(close_reset_read),
	CASE(close_reset_write),
	CASE(close_with_much),
	CASE(close_lingering),
	CASE(close_doubled),
	CASE(close_twice),
	CASE(gone_by_quick_exit),
	CASE(gone_by_exit),
	CASE(gone_by_kill),
	CASE(gone_by_abort),
	CASE(gone_self_by_quick_exit),
	CASE(gone_self_by_exit),
	CASE(gone_self_by_kill),
	CASE(gone_self_by_abort),
	CASE(gone_self_at_once),
	CASE(gone_self_killed_at_once),
	CASE(gone_after_all),
	CASE(gone_unread),
	{0},
};
