// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* select() and pselect(), as select(2) has it. */
#include "case.h"

struct sets {
	fd_set rd, wr, ex;
};

static struct sets sets_of(int fd)
{
	struct sets s;

	FD_ZERO(&s.rd);
	FD_SET(fd, &s.rd);
	s.wr = s.ex = s.rd;
	return s;
}

/* In all three; what is told of it. */
static void show_select(int fd, int ms)
{
	struct timeval tv = {ms / 1000, ms % 1000 * 1000};
	struct sets s = sets_of(fd);
	int rc = select(fd + 1, &s.rd, &s.wr, &s.ex, &tv);

	if (rc < 0)
		say("select: %s", strerrorname_np(errno));
	else
		say("select: %d%s%s%s", rc, FD_ISSET(fd, &s.rd) ? " read" : "",
		    FD_ISSET(fd, &s.wr) ? " write" : "", FD_ISSET(fd, &s.ex) ? " except" : "");
}

/* Waits until it may be read: then all there is. */
static void await_select(int fd)
{
	fd_set rd;

	FD_ZERO(&rd);
	FD_SET(fd, &rd);
	T(select(fd + 1, &rd, NULL, NULL, &(struct timeval){3, 0}));
	show_select(fd, 0);
}

static void select_states(void)
{
	int fd = tcp_socket(0);

	show_select(fd, 0);
	T(close(fd));
	show_select(fd, 0);
	fd = joined();
	show_select(fd, 0);
	meet();
	if (server)
		T(send(fd, "hello", 5, 0));
	else
		await_select(fd);
	meet();
	if (server) {
		T(shutdown(fd, SHUT_WR));
	} else {
		R(fd, 5, 0);
		await_select(fd);
		R(fd, 5, 0);
	}
	meet();
	T(close(fd));
}

static void select_listener(void)
{
	int fd;

	if (server) {
		fd = listening();
		show_select(fd, 50);
		meet();
		await_select(fd);
		fd = F(accept(fd, NULL, NULL));
	} else {
		meet();
		fd = connected();
	}
	meet();
}

static void select_refused(void)
{
	struct sockaddr_in a = at(true, port(0));
	int fd;

	if (!server) {
		fd = tcp_socket(SOCK_NONBLOCK);
		T(connect(fd, SA(&a), sizeof(a)));
		await_select(fd);
		R(fd, 1, 0);
	}
	meet();
}

static void select_urgent(void)
{
	int fd = joined();
	struct sets s = sets_of(fd);

	if (server) {
		T(send(fd, "!", 1, MSG_OOB));
	} else {
		T(select(fd + 1, NULL, NULL, &s.ex, &(struct timeval){3, 0}));
		show_select(fd, 0);
		R(fd, 1, MSG_OOB);
		show_select(fd, 0);
	}
	meet();
}

static void select_wrong(void)
{
	int fd = joined();
	struct timeval tv = {0};
	struct sets s = sets_of(fd);

	T(select(-1, &s.rd, NULL, NULL, &tv));
	tv.tv_sec = -1;
	T(select(fd + 1, &s.rd, NULL, NULL, &tv));
	tv = (struct timeval){0, 5000000}; /* Linux takes it */
	s = sets_of(fd);
	T(select(fd + 1, NULL, &s.wr, NULL, &tv));
	T(pselect(fd + 1, &s.rd, NULL, NULL, &(struct timespec){0, -1}, NULL));
	s = sets_of(fd);
	FD_SET(50, &s.wr); /* which is open to nobody */
	tv = (struct timeval){0};
	T(select(fd + 1, &s.rd, &s.wr, NULL, &tv));
	s = sets_of(fd);
	FD_SET(50, &s.wr);
	T(select(51, &s.rd, &s.wr, NULL, &tv));
	meet();
}

static void select_nowhere(void)
{
	int fd = joined();

	T(select(fd + 1, bad, NULL, NULL, &(struct timeval){0}));
	meet();
}

static void select_below(void)
{
	int fd = joined();
	struct sets s = sets_of(fd);
	struct timeval tv = {0, 50000};

	T(select(fd, NULL, &s.wr, NULL, &tv)); /* it is not below its number */
	say("left as it was: %d", FD_ISSET(fd, &s.wr));
	say("no time is left: %d", !tv.tv_sec && !tv.tv_usec);
	tv = (struct timeval){100, 0};
	s = sets_of(fd);
	T(select(fd + 1, NULL, &s.wr, NULL, &tv));
	say("time is left: %d", tv.tv_sec >= 99);
	T(select(0, NULL, NULL, NULL, &(struct timeval){0, 1000}));
	T(select(fd + 1, NULL, NULL, NULL, &(struct timeval){0, 1000}));
	meet();
}

static void select_signal(void)
{
	int fd = joined();
	struct sets s = sets_of(fd);
	struct pest p;
	sigset_t none, usr;

	on_signal(SIGUSR1, SA_RESTART);
	pester(&p, SIGUSR1, 1);
	T(select(fd + 1, &s.rd, NULL, NULL, &(struct timeval){3, 0}));
	pester_end(&p);
	sigemptyset(&none);
	sigemptyset(&usr);
	sigaddset(&usr, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr, NULL);
	raise(SIGUSR1);
	say("signals: %d", signals);
	s = sets_of(fd);
	T(pselect(fd + 1, &s.rd, NULL, NULL, &(struct timespec){3, 0}, &none));
	say("signals: %d", signals);
	meet();
}

static void select_several(void)
{
	int listener, fds[4], pipes[2], most;
	fd_set rd, wr;
	char c;

	joined_more(&listener, fds, 4);
	need(!pipe(pipes));
	if (!server) {
		T(send(fds[2], "x", 1, 0));
		T(close(fds[3]));
		meet();
		meet();
		return;
	}
	meet();
	await_bytes(fds[2], 1);
	need(recv(fds[3], &c, 1, 0) == 0);
	FD_ZERO(&rd);
	FD_ZERO(&wr);
	for (int i = 0; i < 4; i++)
		FD_SET(fds[i], &rd);
	FD_SET(listener, &rd);
	FD_SET(pipes[0], &rd);
	FD_SET(pipes[1], &wr);
	FD_SET(fds[0], &wr);
	most = pipes[1] > fds[3] ? pipes[1] : fds[3];
	T(select(most + 1, &rd, &wr, NULL, &(struct timeval){3, 0}));
	for (int i = 0; i < 4; i++)
		say("%d: %d %d", i, FD_ISSET(fds[i], &rd), FD_ISSET(fds[i], &wr));
	say("%d %d", FD_ISSET(listener, &rd), FD_ISSET(pipes[1], &wr));
	meet();
}

const struct test_case select_cases[] = {
	CASE(select_states),  CASE(select_listener),
	CASE(select_refused), CASE(select_urgent),
	CASE(select_wrong),   CASE(select_nowhere),
	CASE(select_below),   CASE(select_signal),
	CASE(select_several), {0},
};
