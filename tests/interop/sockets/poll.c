// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* poll() and ppoll(), as poll(2) has it. */
#include <sys/resource.h>

#include "case.h"

enum { ALL = POLLIN | POLLOUT | POLLPRI | POLLRDHUP, SOON = 3000 };

static void poll_fresh(void)
{
	struct sockaddr_in a = at(server, port(3));
	int fd = tcp_socket(0);

	show_events(fd, ALL);
	show_events(fd, 0);
	need(!bind(fd, SA(&a), sizeof(a)));
	show_events(fd, ALL);
	need(!listen(fd, 5));
	show_events(fd, ALL);
	T(close(fd));
	show_events(fd, ALL);
	show_events(-1, ALL);
	meet();
}

static void poll_connected(void)
{
	int fd = joined();

	show_events(fd, ALL);
	show_events(fd, POLLIN);
	show_events(fd, 0);
	show_events(fd, POLLRDNORM | POLLWRNORM | POLLRDBAND | POLLWRBAND);
	meet();
	T(send(fd, "hello", 5, 0));
	await_events(fd, ALL, POLLIN);
	await_events(fd, POLLRDNORM | POLLRDBAND | POLLWRNORM, POLLRDNORM);
	meet();
	R(fd, 5, 0);
	show_events(fd, ALL);
	meet();
}

static void poll_several(void)
{
	int listener, fds[3], pipes[2];
	struct pollfd p[9] = {0};

	joined_more(&listener, fds, 3);
	need(!pipe(pipes));
	if (!server) {
		T(send(fds[1], "x", 1, 0));
		meet();
		meet();
		return;
	}
	await_bytes(fds[1], 1);
	for (int i = 0; i < 3; i++)
		p[i] = (struct pollfd){fds[i], POLLIN, 0x7f};
	p[3] = (struct pollfd){pipes[1], POLLOUT, 0x7f};
	p[4] = (struct pollfd){-1, POLLIN, 0x7f};
	p[5] = (struct pollfd){777, POLLIN, 0x7f};
	p[6] = (struct pollfd){fds[1], POLLIN | POLLOUT, 0x7f}; /* once more */
	p[7] = (struct pollfd){~fds[1], POLLIN, 0x7f};
	p[8] = (struct pollfd){listener, POLLIN, 0x7f};
	T(poll(p, 9, SOON));
	for (int i = 0; i < 9; i++)
		say("%s", events_name((unsigned short)p[i].revents));
	meet();
	meet();
}

static void poll_times_out(void)
{
	struct pollfd p = {.events = POLLIN, .revents = 0x7f};
	struct timespec none = {0}, wrong = {0, -1};

	p.fd = joined();
	T(poll(&p, 1, 0));
	T(poll(&p, 1, 100));
	say("%s", events_name((unsigned short)p.revents));
	T(ppoll(&p, 1, &none, NULL));
	T(ppoll(&p, 1, &wrong, NULL));
	T(poll(NULL, 0, 50));
	meet();
}

static void poll_nowhere(void)
{
	struct pollfd p = {.events = POLLIN, .fd = joined()};

	T(poll(nowhere, 1, 0));
	T(poll(bad, 1, 0));
	T(poll(&p, (nfds_t)minus, 0));
	meet();
}

static void poll_too_many(void)
{
	static struct pollfd p[64];
	struct rlimit few;
	int fd = joined();

	for (int i = 0; i < 64; i++)
		p[i] = (struct pollfd){fd, POLLOUT, 0};
	T(poll(p, 64, 0));
	need(!getrlimit(RLIMIT_NOFILE, &few));
	few.rlim_cur = 40;
	need(!setrlimit(RLIMIT_NOFILE, &few));
	T(poll(p, 64, 0));
	T(poll(p, 40, 0));
	meet();
}

static void *sends_later(void *arg)
{
	nap(100);
	T(send(*(int *)arg, "x", 1, 0));
	return NULL;
}

/* What another thread, or the peer, does wakes it. */
static void poll_woken(void)
{
	struct pollfd p = {.fd = joined(), .events = POLLIN | POLLRDHUP};
	pthread_t t;

	if (server) {
		T(poll(&p, 1, SOON));
		say("%s", events_name((unsigned short)p.revents));
		R(p.fd, 5, 0);
		meet();
		T(poll(&p, 1, SOON));
		say("%s", events_name((unsigned short)p.revents));
	} else {
		t = thread(sends_later, &p.fd);
		ended(t);
		meet();
		nap(100);
		T(close(p.fd));
	}
	meet();
}

static void poll_woken_by_room(void)
{
	struct pollfd p = {.fd = joined(), .events = POLLOUT};
	static uint8_t buf[10000];
	size_t n = 0;
	ssize_t rc;
	int full = 0;

	if (server) {
		nonblocking(p.fd, true);
		while (full < 5) {
			fill(buf, 6, n, sizeof(buf));
			rc = write(p.fd, buf, sizeof(buf));
			full = rc < 0 ? full + 1 : 0;
			n += rc > 0 ? (size_t)rc : 0;
			if (rc < 0)
				nap(30);
		}
		tell(0, (long)n);
		T(poll(&p, 1, 100));
		meet();
		T(poll(&p, 1, SOON));
		say("%s", events_name((unsigned short)p.revents));
	} else {
		meet();
		nap(100);
		T(gulp(p.fd, 6, 0, (size_t)asked(0)));
	}
	meet();
}

static void poll_signal(void)
{
	struct pollfd p = {.fd = joined(), .events = POLLIN};
	sigset_t none, usr;
	struct pest pest;

	on_signal(SIGUSR1, SA_RESTART);
	pester(&pest, SIGUSR1, 1);
	T(poll(&p, 1, SOON));
	pester_end(&pest);
	sigemptyset(&none);
	sigemptyset(&usr);
	sigaddset(&usr, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr, NULL);
	raise(SIGUSR1);
	say("signals: %d", signals);
	T(poll(&p, 1, 100));
	T(ppoll(&p, 1, &(struct timespec){.tv_sec = 3}, &none));
	say("signals: %d", signals);
	T(ppoll(&p, 1, &(struct timespec){.tv_nsec = 50000000}, &usr));
	p.events = POLLOUT; /* ready, and a signal is pending: what is ready is told */
	raise(SIGUSR1);
	T(ppoll(&p, 1, &(struct timespec){.tv_sec = 3}, &none));
	say("signals: %d", signals);
	meet();
}

static void poll_hundreds(void)
{
	enum { MANY = 60 };
	struct pollfd p[MANY];
	int listener, fds[MANY], order = 0;
	char c;

	joined_more(&listener, fds, MANY);
	for (int i = 0; i < MANY; i++)
		p[i] = (struct pollfd){fds[i], POLLIN, 0};
	for (int i = 0; i < MANY; i++) {
		const int which = i * 7 % MANY;

		if (server)
			need(send(fds[which], "x", 1, 0) == 1);
		else
			order += poll(p, MANY, SOON) == 1 && p[which].revents == POLLIN &&
				 read(fds[which], &c, 1) == 1;
		meet();
	}
	if (!server)
		T(order);
	meet();
}

/* The case of a socket that falls back to TCP while it is waited for. */
static void poll_connecting(void)
{
	struct sockaddr_in a = at(true, port(0));
	struct pollfd p = {.events = POLLIN | POLLOUT | POLLRDHUP};
	int listener, fd;

	if (server) {
		listener = listening();
		meet();
		fd = F(accept(listener, NULL, NULL));
		meet();
		T(write(fd, "x", 1));
	} else {
		meet();
		p.fd = tcp_socket(SOCK_NONBLOCK);
		T(connect(p.fd, SA(&a), sizeof(a)));
		T(poll(&p, 1, SOON));
		say("%s", events_name((unsigned short)p.revents));
		p.events = POLLIN;
		meet();
		T(poll(&p, 1, SOON));
		say("%s", events_name((unsigned short)p.revents));
	}
	meet();
}

const struct test_case poll_cases[] = {
	CASE(poll_fresh),    CASE(poll_connected), CASE(poll_several),	  CASE(poll_times_out),
	CASE(poll_too_many), CASE(poll_nowhere),   CASE(poll_woken),	  CASE(poll_woken_by_room),
	CASE(poll_signal),   CASE(poll_hundreds),  CASE(poll_connecting), {0},
};
