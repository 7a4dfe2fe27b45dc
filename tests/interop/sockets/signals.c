// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Signals in calls on sockets, as signal(7) has it: what goes on with SA_RESTART and what never. */
#include <setjmp.h>
#include <sys/time.h>

#include "case.h"

/* Its thread's calls are pestered; once it sleeps undisturbed the peer goes on by itself. */
static void read_pestered(int flags)
{
	int fd = joined();
	struct pest p;
	char c = '-';

	if (server) {
		on_signal(SIGUSR1, flags);
		pester(&p, SIGUSR1, 3);
		T(read(fd, &c, 1));
		pester_end(&p);
		say("signals: %d", signals);
		meet();
		if (c == '-')
			T(read(fd, &c, 1));
		say("%c", c);
	} else {
		if (flags & SA_RESTART)
			nap(700);
		else
			meet();
		T(write(fd, "x", 1));
		if (flags & SA_RESTART)
			meet();
	}
	meet();
}

static void signal_in_read(void)
{
	read_pestered(0);
}

static void signal_in_read_restarted(void)
{
	read_pestered(SA_RESTART);
}

static void accept_pestered(int flags)
{
	int listener, fd;
	struct pest p;

	if (!server) {
		meet();
		if (flags & SA_RESTART)
			nap(700);
		else
			meet();
		fd = connected();
		meet();
		T(close(fd));
		return;
	}
	listener = listening();
	on_signal(SIGUSR1, flags);
	meet();
	pester(&p, SIGUSR1, 3);
	fd = F(accept(listener, NULL, NULL));
	pester_end(&p);
	say("signals: %d", signals);
	if (!(flags & SA_RESTART)) {
		meet();
		fd = F(accept(listener, NULL, NULL));
	}
	meet();
	drain(fd);
}

static void signal_in_accept(void)
{
	accept_pestered(0);
}

static void signal_in_accept_restarted(void)
{
	accept_pestered(SA_RESTART);
}

/* With a timeout set a call is never restarted. */
static void signal_with_timeout(void)
{
	struct timeval tv = {5, 0};
	int fd = joined(), listener = -1;
	struct pest p;
	char c;

	on_signal(SIGUSR1, SA_RESTART);
	T(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	pester(&p, SIGUSR1, 1);
	T(read(fd, &c, 1));
	pester_end(&p);
	if (server) {
		listener = listening();
		T(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
		pester(&p, SIGUSR1, 1);
		T(accept(listener, NULL, NULL));
		pester_end(&p);
	}
	meet();
}

/* All of it is to come: what has come so far, or none. */
static void signal_in_recv_all(void)
{
	int fd = joined();
	struct pest p;

	if (server) {
		on_signal(SIGUSR1, 0);
		meet();
		await_bytes(fd, 3);
		pester(&p, SIGUSR1, 1);
		R(fd, 10, MSG_WAITALL);
		pester_end(&p);
		pester(&p, SIGUSR1, 1);
		R(fd, 10, MSG_WAITALL);
		pester_end(&p);
	} else {
		T(send(fd, "abc", 3, 0));
		meet();
	}
	meet();
}

/* A part was taken: that is the answer, whatever the flags. */
static void write_pestered(int flags, size_t first)
{
	int fd = joined();
	static uint8_t buf[8000000];
	struct pest p;
	ssize_t rc;

	if (server) {
		on_signal(SIGUSR1, flags);
		pester(&p, SIGUSR1, 1);
		rc = send(fd, buf, first, 0);
		say("a part: %d", rc > 0 && (size_t)rc < first);
		pester_end(&p);
		say("signals: %d", signals);
	}
	meet();
}

static void signal_in_write(void)
{
	write_pestered(0, 8000000);
}

static void signal_in_write_restarted(void)
{
	write_pestered(SA_RESTART, 8000000);
}

/* Nothing could be taken: EINTR, or on it goes. */
static void signal_in_full_write(void)
{
	int fd = joined(), full = 0;
	static uint8_t buf[100000];
	struct pest p;

	if (server) {
		on_signal(SIGUSR1, 0);
		nonblocking(fd, true);
		while (full < 5) {
			full = write(fd, buf, sizeof(buf)) < 0 ? full + 1 : 0;
			nap(full ? 30 : 0);
		}
		nonblocking(fd, false);
		pester(&p, SIGUSR1, 1);
		T(send(fd, buf, sizeof(buf), 0));
		pester_end(&p);
	}
	meet();
}

static void connect_pestered(int flags)
{
	struct sockaddr_in a = at(true, port(0));
	int listener, fd;
	struct pest p;

	if (server) {
		listener = listening();
		on_signal(SIGUSR1, flags);
		meet();
		meet();
		fd = F(accept(listener, NULL, NULL));
		drain(fd);
		return;
	}
	meet();
	on_signal(SIGUSR1, flags);
	pester(&p, SIGUSR1, 1);
	fd = tcp_socket(0);
	a = silent();
	if (flags) /* it would wait for minutes */
		a = at(true, port(0));
	T(connect(fd, SA(&a), sizeof(a)));
	if (flags) {
		poll(NULL, 0, 200);
		pester_end(&p);
	} else {
		pester_end(&p);
		T(close(fd));
		fd = connected();
	}
	meet();
	T(send(fd, "hello", 5, 0));
	T(close(fd));
}

static void signal_in_connect(void)
{
	connect_pestered(0);
}

static void signal_near_connect(void)
{
	connect_pestered(SA_RESTART);
}

/* SIGPIPE ends a program that has not said otherwise. */
static void signal_pipe_kills(void)
{
	int fd = joined();
	pid_t pid;

	if (server) {
		pid = fork();
		if (!pid) {
			T(shutdown(fd, SHUT_WR));
			T(write(fd, "x", 1));
			_exit(0);
		}
		reap(pid);
	}
	meet();
}

static void signal_pipe_ignored(void)
{
	int fd = joined();

	signal(SIGPIPE, SIG_IGN);
	if (server) {
		T(shutdown(fd, SHUT_WR));
		T(write(fd, "x", 1));
		T(send(fd, "x", 1, 0));
		T(writev(fd, &(struct iovec){(void *)(uintptr_t) "x", 1}, 1));
		T(send(fd, "", 0, 0));
		T(write(fd, "", 0));
	}
	meet();
}

/* Every call that sends raises it. */
static void signal_pipe_each(void)
{
	struct iovec v = {(void *)(uintptr_t) "x", 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
	int fd = joined();

	on_signal(SIGPIPE, 0);
	if (server) {
		T(shutdown(fd, SHUT_WR));
		T(write(fd, "x", 1));
		say("signals: %d", signals);
		T(writev(fd, &v, 1));
		say("signals: %d", signals);
		T(send(fd, "x", 1, 0));
		say("signals: %d", signals);
		T(sendto(fd, "x", 1, 0, NULL, 0));
		say("signals: %d", signals);
		T(sendmsg(fd, &m, 0));
		say("signals: %d", signals);
		T(sendmsg(fd, &m, MSG_NOSIGNAL));
		say("signals: %d", signals);
	}
	meet();
}

static int handlers_fd;

static void writes_in_handler(int sig)
{
	char c = 'h';

	(void)sig;
	(void)!write(handlers_fd, &c, 1);
	signals++;
}

/* write() may be called in a handler, whatever it interrupts. */
static void signal_handler_writes(void)
{
	struct sigaction a = {.sa_handler = writes_in_handler, .sa_flags = SA_RESTART};
	struct pest p;
	char c = '-';

	handlers_fd = joined();
	if (server) {
		need(!sigaction(SIGUSR1, &a, NULL));
		pester(&p, SIGUSR1, 3);
		T(read(handlers_fd, &c, 1));
		pester_end(&p);
		say("signals: %d", signals);
	} else {
		R(handlers_fd, 3, MSG_WAITALL);
		T(write(handlers_fd, "x", 1));
	}
	meet();
}

/* As often as a timer can, while data go both ways. */
static void signal_storm(void)
{
	struct sigaction a = {.sa_handler = writes_in_handler, .sa_flags = SA_RESTART};
	enum { MANY = 300 };
	struct itimerval often = {{0, 500}, {0, 500}}, none = {0};
	int ok = 0;
	char c;

	handlers_fd = open("/dev/null", O_WRONLY);
	need(!sigaction(SIGALRM, &a, NULL));
	int fd = joined();
	need(!setitimer(ITIMER_REAL, &often, NULL));
	for (int i = 0; i < MANY; i++) {
		if (server)
			ok += recv(fd, &c, 1, 0) == 1 && c == (char)i && send(fd, &c, 1, 0) == 1;
		else
			ok += send(fd, &(char){(char)i}, 1, 0) == 1 && recv(fd, &c, 1, 0) == 1 &&
			      c == (char)i;
	}
	pour(fd, server, 0, 30000);
	drink(fd, !server, 0, 30000);
	need(!setitimer(ITIMER_REAL, &none, NULL));
	T(ok);
	meet();
}

static sigjmp_buf out;

static void jumps(int sig)
{
	siglongjmp(out, sig);
}

/* A handler that never returns to the call: old programs have their timeouts so. */
static void signal_jumps_out(void)
{
	struct sigaction a = {.sa_handler = jumps};
	int fd = joined();
	struct itimerval soon = {{0, 0}, {0, 150000}};
	char c;

	if (server) {
		need(!sigaction(SIGALRM, &a, NULL));
		if (!sigsetjmp(out, 1)) {
			need(!setitimer(ITIMER_REAL, &soon, NULL));
			T(read(fd, &c, 1));
		}
		say("out of it");
		meet();
		R(fd, 5, MSG_WAITALL);
		T(send(fd, "there", 5, 0));
	} else {
		meet();
		T(send(fd, "hello", 5, 0));
		R(fd, 5, MSG_WAITALL);
	}
	meet();
}

/* Stopped and continued: nothing has happened. */
static void signal_stopped(void)
{
	int fd = joined();
	pid_t pid, me = getpid();
	char c;

	if (server) {
		pid = fork();
		if (!pid) {
			await_asleep(me);
			kill(me, SIGSTOP);
			nap(100);
			kill(me, SIGCONT);
			_exit(0);
		}
		T(read(fd, &c, 1));
		reap(pid);
	} else {
		nap(600);
		T(write(fd, "x", 1));
	}
	meet();
}

/* A signal when something can be read. */
static void signal_io(void)
{
	int fd = joined();

	if (server) {
		on_signal(SIGIO, 0);
		T(fcntl(fd, F_SETOWN, getpid()));
		T(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC));
		T(!!(fcntl(fd, F_GETFL) & O_ASYNC));
		meet();
		for (int i = 0; i < 200 && !signals; i++)
			usleep(10000);
		say("told: %d", signals > 0);
		R(fd, 5, 0);
	} else {
		meet();
		T(send(fd, "hello", 5, 0));
	}
	meet();
}

const struct test_case signals_cases[] = {
	CASE(signal_in_read),
	CASE(signal_in_read_restarted),
	CASE(signal_in_accept),
	CASE(signal_in_accept_restarted),
	CASE(signal_with_timeout),
	CASE(signal_in_recv_all),
	CASE(signal_in_write),
	CASE(signal_in_write_restarted),
	CASE(signal_in_full_write),
	CASE(signal_in_connect),
	CASE(signal_near_connect),
	CASE(signal_pipe_kills),
	CASE(signal_pipe_ignored),
	CASE(signal_pipe_each),
	CASE(signal_handler_writes),
	CASE(signal_storm),
	CASE(signal_jumps_out),
	CASE(signal_stopped),
	CASE(signal_io),
	{0},
};
