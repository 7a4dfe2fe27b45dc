// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Sets of descriptors, as epoll(7), epoll_ctl(2) and epoll_wait(2) have it. */
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "case.h"

static int set_of(int fd, unsigned events)
{
	int set = epoll_create1(0);
	struct epoll_event e = {.events = events, .data.u64 = 7};

	need(set >= 0);
	need(!epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
	return set;
}

static int change(int set, int op, int fd, unsigned events, uint64_t data)
{
	struct epoll_event e = {.events = events, .data.u64 = data};

	return epoll_ctl(set, op, fd, &e);
}
#define ADD(set, fd, events, data) T(change(set, EPOLL_CTL_ADD, fd, events, data))
#define MOD(set, fd, events, data) T(change(set, EPOLL_CTL_MOD, fd, events, data))
#define DEL(set, fd)		   T(epoll_ctl(set, EPOLL_CTL_DEL, fd, nowhere))

static int by_data(const void *a, const void *b)
{
	const struct epoll_event *x = a, *y = b;

	return (x->data.u64 > y->data.u64) - (x->data.u64 < y->data.u64);
}

/* What comes within a time; what is known to be under way has three seconds. */
static int wait_for(int set, int ms)
{
	struct epoll_event e[8] = {0};
	int n = epoll_wait(set, e, 8, ms);

	qsort(e, n > 0 ? (size_t)n : 0, sizeof(*e), by_data);
	if (n < 0)
		say("    epoll_wait: %s", strerrorname_np(errno));
	else if (!n)
		say("    nothing");
	for (int i = 0; i < n; i++)
		say("    %s of %llu", events_name(e[i].events), (unsigned long long)e[i].data.u64);
	return n;
}

enum { SOON = 3000, QUIET = 150 };

/* An edge may be told more than once, but not for ever. */
static void quiet(int set)
{
	struct epoll_event e;
	int n = 0;

	while (n < 4 && epoll_wait(set, &e, 1, QUIET) > 0)
		n++;
	say("    quiet: %d", n < 4);
}

static void epoll_level(void)
{
	int fd = joined(), set = server ? set_of(fd, EPOLLIN) : -1;

	if (!server) {
		T(send(fd, "hello", 5, 0));
		meet();
		meet();
		return;
	}
	wait_for(set, SOON);
	wait_for(set, SOON);
	R(fd, 2, 0);
	wait_for(set, SOON);
	R(fd, 3, 0);
	wait_for(set, QUIET);
	meet();
	MOD(set, fd, EPOLLIN | EPOLLOUT, 8);
	wait_for(set, SOON);
	MOD(set, fd, 0, 8);
	wait_for(set, QUIET);
	meet();
}

static void epoll_edge(void)
{
	int fd = joined(), set = server ? set_of(fd, EPOLLIN | EPOLLET) : -1;

	if (!server) {
		T(send(fd, "hello", 5, 0));
		meet();
		T(send(fd, "more", 4, 0));
		meet();
		T(shutdown(fd, SHUT_WR));
		meet();
		return;
	}
	wait_for(set, SOON);
	quiet(set);
	R(fd, 2, 0);
	quiet(set);
	meet();
	wait_for(set, SOON); /* the rest is still unread, and more has come */
	quiet(set);
	R(fd, 100, 0);
	meet();
	wait_for(set, SOON);
	quiet(set);
	R(fd, 100, 0);
	meet();
}

static void epoll_edge_anew(void)
{
	int fd = joined(),
	    set = server ? set_of(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET) : -1;

	if (!server) {
		meet();
		T(send(fd, "hello", 5, 0));
		meet();
		meet();
		return;
	}
	wait_for(set, SOON);
	quiet(set);
	meet();
	wait_for(set, SOON);
	quiet(set);
	MOD(set, fd, EPOLLIN | EPOLLOUT | EPOLLET, 9); /* which arms it */
	wait_for(set, SOON);
	quiet(set);
	meet();
	meet();
}

static void epoll_oneshot(void)
{
	int fd = joined(), set = server ? set_of(fd, EPOLLIN | EPOLLONESHOT) : -1;

	if (!server) {
		T(send(fd, "hello", 5, 0));
		meet();
		T(send(fd, "hello", 5, 0));
		meet();
		meet();
		return;
	}
	wait_for(set, SOON);
	wait_for(set, QUIET);
	meet();
	wait_for(set, QUIET);
	MOD(set, fd, EPOLLIN | EPOLLONESHOT, 9);
	wait_for(set, SOON);
	wait_for(set, QUIET);
	meet();
	meet();
}

/* A set in a set: its events are the outer's, level-triggered, again and again. */
static void epoll_nested(void)
{
	int fd = joined(), inner, outer;

	if (!server) {
		for (int i = 0; i < 3; i++) {
			T(send(fd, "hello", 5, 0));
			meet();
		}
		return;
	}
	inner = set_of(fd, EPOLLIN);
	outer = set_of(inner, EPOLLIN);
	wait_for(outer, SOON);
	wait_for(inner, SOON);
	wait_for(outer, SOON);
	R(fd, 5, 0);
	wait_for(inner, QUIET);
	wait_for(outer, QUIET);
	meet();
	wait_for(outer, SOON);
	wait_for(outer, SOON);
	wait_for(inner, SOON);
	await_events(inner, POLLIN | POLLOUT, POLLIN);
	await_events(outer, POLLIN | POLLOUT, POLLIN);
	R(fd, 5, 0);
	meet();
	wait_for(outer, SOON);
	R(fd, 100, 0);
	show_events(outer, POLLIN);
	meet();
}

static void epoll_nested_first(void)
{
	int fd = joined(), inner = epoll_create1(0), outer = set_of(inner, EPOLLIN | EPOLLET);

	if (server) {
		wait_for(outer, QUIET);
		ADD(inner, fd, EPOLLIN, 1);
		wait_for(outer, QUIET);
		meet();
		wait_for(outer, SOON);
		wait_for(outer, QUIET);
		wait_for(inner, SOON);
		R(fd, 5, 0);
		meet();
		wait_for(outer, SOON);
	} else {
		meet();
		T(send(fd, "hello", 5, 0));
		meet();
		T(send(fd, "hello", 5, 0));
	}
	meet();
}

/* One of two numbers of a set is closed: the set is still there. */
static void epoll_set_doubled(void)
{
	int fd = joined(), set, other;

	if (!server) {
		T(send(fd, "hello", 5, 0));
		meet();
		return;
	}
	set = set_of(fd, EPOLLIN);
	other = F(dup(set));
	wait_for(other, SOON);
	T(close(set));
	wait_for(other, SOON);
	MOD(other, fd, EPOLLIN, 8);
	wait_for(other, SOON);
	set = F(fcntl(other, F_DUPFD, 0));
	T(close(other));
	wait_for(set, SOON);
	DEL(set, fd);
	wait_for(set, QUIET);
	meet();
}

/* Two numbers of a socket are two members; they stay until the last is closed. */
static void epoll_socket_doubled(void)
{
	int fd = joined(), set, other;

	if (!server) {
		T(send(fd, "hello", 5, 0));
		meet();
		meet();
		return;
	}
	await_bytes(fd, 5);
	set = set_of(fd, EPOLLIN);
	other = F(dup(fd));
	ADD(set, fd, EPOLLIN, 1);
	ADD(set, other, EPOLLOUT, 2);
	wait_for(set, SOON);
	MOD(set, other, EPOLLIN | EPOLLOUT, 3);
	wait_for(set, SOON);
	DEL(set, other);
	wait_for(set, SOON);
	DEL(set, other);
	meet();
	T(close(fd)); /* what is open is not the number, but the socket */
	wait_for(set, SOON);
	T(close(other));
	wait_for(set, QUIET);
	meet();
}

static void epoll_wrong(void)
{
	int fd = joined(), set = epoll_create1(0), file = open("/proc/self/stat", O_RDONLY);
	struct epoll_event e;

	ADD(set, fd, EPOLLIN, 1);
	ADD(set, fd, EPOLLIN, 1);
	DEL(set, fd);
	DEL(set, fd);
	MOD(set, fd, EPOLLIN, 1);
	ADD(set, set, EPOLLIN, 1);
	ADD(set, file, EPOLLIN, 1);
	ADD(set, 777, EPOLLIN, 1);
	ADD(777, fd, EPOLLIN, 1);
	ADD(fd, set, EPOLLIN, 1);
	ADD(fd, fd, EPOLLIN, 1);
	T(change(set, 12, fd, EPOLLIN, 1));
	T(epoll_wait(set, &e, 0, 0));
	T(epoll_wait(set, &e, minus, 0));
	T(epoll_wait(fd, &e, 1, 0));
	T(epoll_wait(777, &e, 1, 0));
	T(epoll_wait(set, &e, 1, 0));
	T(epoll_create(0));
	T(epoll_create1(12345));
	meet();
}

static void epoll_nowhere(void)
{
	int fd = joined(), set = set_of(fd, EPOLLOUT);

	T(epoll_ctl(set, EPOLL_CTL_MOD, fd, nowhere));
	T(epoll_ctl(set, EPOLL_CTL_MOD, fd, bad));
	T(epoll_wait(set, bad, 1, 0));
	wait_for(set, SOON);
	meet();
}

static void epoll_hangup(void)
{
	int fd = joined(), set = set_of(fd, EPOLLIN | EPOLLRDHUP);

	if (server) {
		T(shutdown(fd, SHUT_WR));
		meet();
		wait_for(set, SOON);
		MOD(set, fd, 0, 9);
		wait_for(set, SOON);
		meet();
		return;
	}
	meet();
	wait_for(set, SOON);
	MOD(set, fd, EPOLLIN | EPOLLOUT, 8);
	wait_for(set, SOON);
	T(shutdown(fd, SHUT_WR));
	meet();
	nap(100);
	MOD(set, fd, 0, 9); /* a hang-up is told though nobody asked */
	wait_for(set, SOON);
}

/* In a set before it is connected. */
static void epoll_connecting(void)
{
	struct sockaddr_in a = at(true, port(0));
	int fd, set, listener, got;

	if (server) {
		listener = listening();
		set = set_of(listener, EPOLLIN);
		wait_for(set, QUIET);
		meet();
		wait_for(set, SOON);
		got = F(accept(listener, NULL, NULL));
		wait_for(set, QUIET);
		ADD(set, got, EPOLLIN, 2);
		meet();
		wait_for(set, SOON);
		R(got, 10, 0);
		meet();
		return;
	}
	meet();
	fd = tcp_socket(SOCK_NONBLOCK);
	set = set_of(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
	wait_for(set, SOON);
	MOD(set, fd, EPOLLOUT | EPOLLET, 8);
	wait_for(set, SOON);
	T(connect(fd, SA(&a), sizeof(a)));
	wait_for(set, SOON);
	T(connect(fd, SA(&a), sizeof(a)));
	meet();
	T(send(fd, "hello", 5, 0));
	meet();
}

static void epoll_refused(void)
{
	struct sockaddr_in a = at(true, port(0));
	int fd, set;

	if (!server) {
		fd = tcp_socket(SOCK_NONBLOCK);
		set = set_of(fd, EPOLLOUT);
		T(connect(fd, SA(&a), sizeof(a)));
		await_events(set, POLLIN, POLLIN);
		await_events(fd, POLLIN | POLLOUT, POLLERR);
		wait_for(set, SOON);
	}
	meet();
}

/* Closed: it is in no set any more. */
static void epoll_closed(void)
{
	int fd = joined(), set = set_of(fd, EPOLLIN | EPOLLOUT), other;

	wait_for(set, SOON);
	meet();
	T(close(fd));
	wait_for(set, QUIET);
	other = F(eventfd(1, 0));
	say("the same number: %d", other == fd);
	wait_for(set, QUIET);
	ADD(set, other, EPOLLIN, 3);
	wait_for(set, SOON);
	meet();
}

/* Of many that are ready a few are told at a time, and each has its turn. */
static void epoll_turns(void)
{
	enum { MANY = 9 };
	int listener, fds[MANY], seen[MANY] = {0}, set;
	struct epoll_event e[2];

	joined_more(&listener, fds, MANY);
	if (!server) {
		for (int i = 0; i < MANY; i++)
			need(send(fds[i], "x", 1, 0) == 1);
		meet();
		meet();
		return;
	}
	set = epoll_create1(0);
	for (int i = 0; i < MANY; i++)
		need(!change(set, EPOLL_CTL_ADD, fds[i], EPOLLIN, (uint64_t)i));
	meet();
	for (int i = 0; i < MANY; i++)
		await_bytes(fds[i], 1);
	for (int i = 0; i < 5; i++) {
		int n = epoll_wait(set, e, 2, SOON);

		say("%d", n);
		for (int k = 0; k < n; k++)
			seen[e[k].data.u64]++;
	}
	for (int i = 0; i < MANY; i++)
		say("%d: %s", i, seen[i] ? "had its turn" : "never");
	meet();
}

static void *waiter(void *arg)
{
	struct epoll_event e;

	return (void *)(intptr_t)epoll_wait(*(int *)arg, &e, 1, 3000);
}

/* What is added, and what comes, wakes who waits already. */
static void epoll_added_meanwhile(void)
{
	int fd = joined(), set = epoll_create1(0);
	pthread_t t;

	if (server) {
		t = thread(waiter, &set);
		nap(100);
		ADD(set, fd, EPOLLIN, 1);
		nap(100);
		meet();
		say("woken for %ld", (long)(intptr_t)ended(t));
		R(fd, 5, 0);
		t = thread(waiter, &set);
		nap(100);
		MOD(set, fd, EPOLLIN | EPOLLOUT, 1);
		say("woken for %ld", (long)(intptr_t)ended(t));
	} else {
		meet();
		T(send(fd, "hello", 5, 0));
	}
	meet();
}

static void epoll_signal(void)
{
	sigset_t none, usr;
	int fd = joined(), set = set_of(fd, EPOLLIN);
	struct epoll_event e;
	struct pest p;

	on_signal(SIGUSR1, SA_RESTART);
	pester(&p, SIGUSR1, 1);
	T(epoll_wait(set, &e, 1, 3000));
	pester_end(&p);
	sigemptyset(&none);
	sigemptyset(&usr);
	sigaddset(&usr, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr, NULL);
	raise(SIGUSR1);
	say("signals: %d", signals);
	T(epoll_wait(set, &e, 1, QUIET));
	T(epoll_pwait(set, &e, 1, 3000, &none));
	say("signals: %d", signals);
	T(epoll_pwait(set, &e, 1, QUIET, &usr));
	T(epoll_pwait2(set, &e, 1, &(struct timespec){.tv_nsec = 50000000}, &usr));
	meet();
}

/* With an event counter, a pipe and a socket of another kind. */
static void epoll_mixed(void)
{
	int fd = joined(), set = set_of(fd, EPOLLIN), count = eventfd(0, 0), pipes[2], local[2];

	need(!pipe(pipes) && !socketpair(AF_UNIX, SOCK_STREAM, 0, local));
	ADD(set, count, EPOLLIN, 2);
	ADD(set, pipes[0], EPOLLIN, 3);
	ADD(set, local[0], EPOLLIN, 4);
	wait_for(set, QUIET);
	T(eventfd_write(count, 1));
	wait_for(set, SOON);
	T(eventfd_read(count, &(eventfd_t){0}));
	T(write(pipes[1], "x", 1));
	wait_for(set, SOON);
	DEL(set, pipes[0]);
	T(write(local[1], "x", 1));
	wait_for(set, SOON);
	DEL(set, local[0]);
	meet();
	T(write(fd, "x", 1));
	wait_for(set, SOON);
	meet();
}

/* CPU time of this thread in 800 ms of waiting in vain: as good as none? */
static void waits_idly(int set)
{
	struct rusage before, after;
	struct epoll_event e;
	struct timeval spent;

	need(!getrusage(RUSAGE_THREAD, &before));
	T(epoll_wait(set, &e, 1, 800));
	need(!getrusage(RUSAGE_THREAD, &after));
	timersub(&after.ru_utime, &before.ru_utime, &spent);
	timeradd(&spent, &after.ru_stime, &spent);
	timersub(&spent, &before.ru_stime, &spent);
	say("idle: %d", spent.tv_sec == 0 && spent.tv_usec < 50000);
}

/* Somebody knocks who has no RDMA, and the listener is not looked at. */
static void epoll_listener_paused(void)
{
	struct sockaddr_in a = at(true, port(0));
	int listener, set, fd;

	if (server) {
		listener = listening();
		set = set_of(listener, EPOLLIN | EPOLLONESHOT);
		meet();
		wait_for(set, SOON);
		waits_idly(set);
		MOD(set, listener, 0, 8);
		waits_idly(set);
		MOD(set, listener, EPOLLIN | EPOLLET, 9);
		wait_for(set, SOON);
		quiet(set);
	} else {
		meet();
		fd = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
		need(!syscall(SYS_connect, fd, &a, sizeof(a)));
	}
	meet();
}

const struct test_case epoll_cases[] = {
	CASE(epoll_level),	     CASE(epoll_edge),
	CASE(epoll_edge_anew),	     CASE(epoll_oneshot),
	CASE(epoll_nested),	     CASE(epoll_nested_first),
	CASE(epoll_set_doubled),     CASE(epoll_socket_doubled),
	CASE(epoll_wrong),	     CASE(epoll_nowhere),
	CASE(epoll_hangup),	     CASE(epoll_connecting),
	CASE(epoll_refused),	     CASE(epoll_closed),
	CASE(epoll_turns),	     CASE(epoll_added_meanwhile),
	CASE(epoll_signal),	     CASE(epoll_mixed),
	CASE(epoll_listener_paused), {0},
};
