// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Sockets and fork(): both have them, as fork(2) has it. */
#include <sched.h>

#include "case.h"

static void fork_child_serves(void)
{
	int listener = -1, fd;
	pid_t pid;

	if (server)
		listener = listening();
	meet();
	for (int i = 0; i < 3; i++) {
		if (!server) {
			fd = connected();
			T(send(fd, "hello", 5, 0));
			R(fd, 5, MSG_WAITALL);
			drain(fd);
			T(close(fd));
			meet();
			continue;
		}
		fd = F(accept(listener, NULL, NULL));
		pid = fork();
		if (!pid) {
			T(close(listener));
			R(fd, 5, MSG_WAITALL);
			T(send(fd, "there", 5, 0));
			T(close(fd));
			_exit(i);
		}
		need(!close(fd));
		reap(pid);
		meet();
	}
}

/* The client's half: as many connections, each of which gets its byte back. */
static void ask_one_by_one(int count)
{
	int ok = 0;
	char c;

	for (int i = 0; i < count; i++) {
		int fd = connected();

		ok += write(fd, "x", 1) == 1 && read(fd, &c, 1) == 1 && c == 'x';
		close(fd);
	}
	T(ok);
}

/* Workers that accept from one listener. */
static void fork_workers(void)
{
	enum { WORKERS = 3, EACH = 2 };
	pid_t pids[WORKERS];
	int listener, fd;
	char c;

	if (server) {
		listener = listening();
		for (int i = 0; i < WORKERS; i++) {
			pids[i] = fork();
			if (pids[i])
				continue;
			for (int k = 0; k < EACH; k++) {
				fd = accept(listener, NULL, NULL);
				need(fd >= 0);
				need(read(fd, &c, 1) == 1 && write(fd, &c, 1) == 1);
				need(read(fd, &c, 1) == 0);
				close(fd);
			}
			_exit(0);
		}
		nap(100);
		meet();
		for (int i = 0; i < WORKERS; i++)
			reap(pids[i]);
	} else {
		meet();
		ask_one_by_one(WORKERS * EACH);
	}
	meet();
}

/* The same with a set each, as nginx has it. */
static void fork_workers_epoll(void)
{
	enum { WORKERS = 3, EACH = 2 };
	pid_t pids[WORKERS];
	int listener, fd;
	char c;

	if (server) {
		listener = listening();
		nonblocking(listener, true);
		for (int i = 0; i < WORKERS; i++) {
			struct epoll_event e = {.events = EPOLLIN};
			int set, served = 0;

			pids[i] = fork();
			if (pids[i])
				continue;
			set = epoll_create1(0);
			need(!epoll_ctl(set, EPOLL_CTL_ADD, listener, &e));
			while (served < EACH) {
				need(epoll_wait(set, &e, 1, 8000) == 1);
				fd = accept(listener, NULL, NULL);
				if (fd < 0) {
					need(errno == EAGAIN);
					continue;
				}
				served++;
				need(read(fd, &c, 1) == 1 && write(fd, &c, 1) == 1);
				close(fd);
			}
			_exit(0);
		}
		nap(100);
		meet();
		for (int i = 0; i < WORKERS; i++)
			reap(pids[i]);
	} else {
		meet();
		ask_one_by_one(WORKERS * EACH);
	}
	meet();
}

/* Parent and child write in turn, and both read what comes. */
static void fork_both_use(void)
{
	int fd = joined();
	pid_t pid;

	if (!server) {
		R(fd, 6, MSG_WAITALL);
		T(send(fd, "one", 3, 0));
		R(fd, 5, MSG_WAITALL);
		T(send(fd, "three", 5, 0));
		R(fd, 6, MSG_WAITALL);
		drain(fd);
		return;
	}
	T(send(fd, "parent", 6, 0));
	pid = fork();
	if (!pid) {
		R(fd, 3, MSG_WAITALL);
		T(send(fd, "child", 5, 0));
		_exit(0);
	}
	reap(pid);
	R(fd, 5, MSG_WAITALL);
	T(send(fd, "parent", 6, 0));
	T(close(fd));
}

/* The child's end is no end: the parent still has it. */
static void fork_child_leaves(void)
{
	int fd = joined();
	pid_t pid;

	if (server) {
		pid = fork();
		if (!pid) {
			T(send(fd, "child", 5, 0));
			_exit(0);
		}
		reap(pid);
		pid = fork();
		if (!pid) {
			T(close(fd));
			_exit(0);
		}
		reap(pid);
		T(send(fd, "parent", 6, 0));
		R(fd, 5, MSG_WAITALL);
		T(close(fd));
	} else {
		R(fd, 11, MSG_WAITALL);
		T(send(fd, "hello", 5, 0));
		drain(fd);
	}
	meet();
}

/* What one shuts down is shut for both. */
static void fork_child_shuts(void)
{
	int fd = joined();
	pid_t pid;

	if (server) {
		pid = fork();
		if (!pid) {
			T(send(fd, "child", 5, 0));
			T(shutdown(fd, SHUT_WR));
			_exit(0);
		}
		reap(pid);
		T(send(fd, "parent", 6, MSG_NOSIGNAL));
		R(fd, 5, MSG_WAITALL);
	} else {
		drain(fd);
		T(send(fd, "hello", 5, 0));
	}
	meet();
}

/* What came before is there for the child. */
static void fork_unread(void)
{
	int fd = joined();
	pid_t pid;

	if (server) {
		await_bytes(fd, 10);
		R(fd, 3, 0);
		pid = fork();
		if (!pid) {
			R(fd, 4, 0);
			_exit(0);
		}
		reap(pid);
		R(fd, 10, 0);
	} else {
		T(send(fd, "helloworld", 10, 0));
	}
	meet();
}

/* Bytes under way in both directions while the process forks. */
static void fork_in_midst(void)
{
	enum { EACH = 400000 };
	int fd = joined();
	pid_t pid;

	if (server) {
		drink(fd, 1, 0, EACH);
		pour(fd, 2, 0, EACH);
		pid = fork();
		if (!pid) {
			drink(fd, 1, EACH, EACH);
			pour(fd, 2, EACH, EACH);
			_exit(0);
		}
		reap(pid);
		T(shutdown(fd, SHUT_WR));
	} else {
		pid = fork();
		if (!pid) {
			pour(fd, 1, 0, 2 * EACH);
			_exit(0);
		}
		drink(fd, 2, 0, 2 * EACH);
		reap(pid);
		drain(fd);
	}
	meet();
}

/* A socket made before, connected by the child; the parent has it then. */
static void fork_child_connects(void)
{
	struct sockaddr_in a = at(true, port(0));
	int fd, listener;
	pid_t pid;

	if (server) {
		listener = listening();
		meet();
		fd = F(accept(listener, NULL, NULL));
		drain(fd);
	} else {
		meet();
		fd = tcp_socket(0);
		pid = fork();
		if (!pid) {
			T(connect(fd, SA(&a), sizeof(a)));
			T(send(fd, "child", 5, 0));
			_exit(0);
		}
		reap(pid);
		T(send(fd, "parent", 6, MSG_NOSIGNAL));
		T(close(fd));
	}
	meet();
}

static void fork_child_connects_alone(void)
{
	int fd, listener;
	pid_t pid;

	if (server) {
		listener = listening();
		meet();
		for (int i = 0; i < 2; i++) {
			fd = F(accept(listener, NULL, NULL));
			drain(fd);
		}
	} else {
		meet();
		fd = connected(); /* the parent's */
		pid = fork();
		if (!pid) {
			T(close(fd));
			fd = connected();
			T(send(fd, "child", 5, 0));
			_exit(0);
		}
		need(send(fd, "parent", 6, 0) == 6 && !close(fd));
		reap(pid);
	}
	meet();
}

/* Into the background, after listen() and before accept(). */
static void fork_daemon(void)
{
	int listener, fd;
	pid_t pid;

	if (server) {
		listener = listening();
		pid = fork();
		if (pid) {
			reap(pid);
			return;
		}
		meet();
		fd = F(accept(listener, NULL, NULL));
		drain(fd);
		T(listen(listener, 5));
		_exit(0);
	}
	meet();
	fd = connected();
	T(send(fd, "hello", 5, 0));
	T(close(fd));
}

/* A listener closed by its parent is the child's alone. */
static void fork_listener_given(void)
{
	int listener, fd;
	pid_t pid;

	if (server) {
		listener = listening();
		pid = fork();
		if (!pid) {
			nap(100);
			fd = F(accept(listener, NULL, NULL));
			drain(fd);
			_exit(0);
		}
		T(close(listener));
		meet();
		reap(pid);
	} else {
		meet();
		fd = connected();
		T(send(fd, "hello", 5, 0));
		T(close(fd));
	}
	meet();
}

/* Options and flags are the socket's, whoever sets them. */
static void fork_child_sets(void)
{
	int fd = joined(), v = 1;
	pid_t pid = fork();

	if (!pid) {
		T(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &v, sizeof(v)));
		nonblocking(fd, true);
		_exit(0);
	}
	reap(pid);
	v = -1;
	T(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &v, &(socklen_t){sizeof(v)}));
	say("%d", v);
	T(fcntl(fd, F_GETFL) & O_NONBLOCK);
	R(fd, 5, 0);
	meet();
}

/* The names are the same on both sides of fork(). */
static void fork_names(void)
{
	struct sockaddr_in mine, peer, a;
	socklen_t len = sizeof(a);
	int fd = joined(), v = -1;
	pid_t pid;

	need(!getsockname(fd, SA(&mine), &len) && !getpeername(fd, SA(&peer), &len));
	pid = fork();
	if (!pid) {
		T(getsockname(fd, SA(&a), &len));
		say("%d", !memcmp(&a, &mine, 8));
		T(getpeername(fd, SA(&a), &len));
		say("%d", !memcmp(&a, &peer, 8));
		T(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &v, &(socklen_t){sizeof(v)}));
		say("%d", v);
		T(getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &v, &(socklen_t){sizeof(v)}));
		say("%d", v);
		T(getsockopt(fd, SOL_SOCKET, SO_ERROR, &v, &(socklen_t){sizeof(v)}));
		say("%d", v);
		T(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &v, &(socklen_t){sizeof(v)}));
		say("%d", v);
		_exit(0);
	}
	reap(pid);
	meet();
}

/* In a set: the child has both, and what it hears is what the parent hears. */
static void fork_with_set(void)
{
	int fd = joined(), set = epoll_create1(0);
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = 5};
	pid_t pid;

	need(!epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
	if (server) {
		pid = fork();
		if (!pid) {
			T(epoll_wait(set, &e, 1, 3000));
			say("%s", events_name(e.events));
			R(fd, 5, 0);
			T(send(fd, "child", 5, 0));
			_exit(0);
		}
		need(!close(fd));
		reap(pid);
	} else {
		T(send(fd, "hello", 5, 0));
		R(fd, 5, MSG_WAITALL);
	}
	meet();
}

/* Until the end of what comes. */
static void *echoes_by_epoll(void *arg)
{
	const int *both = arg;
	struct epoll_event e;
	char c;

	for (;;) {
		need(epoll_wait(both[1], &e, 1, 10000) == 1);
		if (read(both[0], &c, 1) != 1)
			return NULL;
		need(write(both[0], &c, 1) == 1);
	}
}

/* While another thread works the set: the child can close all that it has. */
static void fork_busy_set(void)
{
	enum { FORKS = 100 };
	int both[2] = {joined(), epoll_create1(0)}, ok = 0, status;
	struct epoll_event e = {.events = EPOLLIN};
	pthread_t t;
	char c = 'x';

	if (server) {
		need(!epoll_ctl(both[1], EPOLL_CTL_ADD, both[0], &e));
		t = thread(echoes_by_epoll, both);
		for (int i = 0; i < FORKS; i++) {
			pid_t pid = fork();

			if (!pid) {
				close(both[0]);
				close(both[1]);
				_exit(0);
			}
			ok += waitpid(pid, &status, 0) == pid && !status;
		}
		T(ok);
		tell(0, 1);
		ended(t);
		T(close(both[0]));
	} else {
		while (!asked(0))
			need(write(both[0], &c, 1) == 1 && read(both[0], &c, 1) == 1);
		T(shutdown(both[0], SHUT_WR));
		drain(both[0]);
	}
	meet();
}

static int in_child(void *arg)
{
	T(send(*(int *)arg, "child", 5, 0));
	_exit(0);
}

/* By vfork(), which shares the memory, and by clone() with the descriptors shared. */
static void fork_by_clone(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	int fd = joined();
	pid_t pid;

	if (server) {
		pid = clone(in_child, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, &fd);
		need(pid > 0);
		reap(pid);
		T(send(fd, "parent", 6, 0));
		T(close(fd));
	} else {
		drain(fd);
	}
	meet();
}

/* Its grandchild is the one that answers. */
static void fork_twice(void)
{
	int fd = joined();
	pid_t pid;

	if (server) {
		pid = fork();
		if (!pid) {
			pid = fork();
			if (!pid) {
				R(fd, 5, MSG_WAITALL);
				T(send(fd, "there", 5, 0));
				_exit(0);
			}
			need(!close(fd));
			reap(pid);
			_exit(0);
		}
		need(!close(fd));
		reap(pid);
	} else {
		T(send(fd, "hello", 5, 0));
		drain(fd);
	}
	meet();
}

const struct test_case fork_cases[] = {
	CASE(fork_child_serves),
	CASE(fork_workers),
	CASE(fork_workers_epoll),
	CASE(fork_both_use),
	CASE(fork_child_leaves),
	CASE(fork_child_shuts),
	CASE(fork_unread),
	CASE(fork_in_midst),
	CASE(fork_child_connects),
	CASE(fork_child_connects_alone),
	CASE(fork_daemon),
	CASE(fork_listener_given),
	CASE(fork_child_sets),
	CASE(fork_names),
	CASE(fork_with_set),
	CASE(fork_busy_set),
	CASE(fork_by_clone),
	CASE(fork_twice),
	{0},
};
