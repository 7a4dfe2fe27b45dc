/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Epoll sets of TCP connections: in other sets, polled, doubled, with the kinds of registrations
 * that there are. Run as both_ends.h says.
 */
#include "both_ends.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SHORT_MS = 100 };

static int control(int set, int op, int fd, uint32_t events, uint32_t data)
{
	struct epoll_event ev = {.events = events, .data.u64 = data | (uint64_t)data << 32};

	return epoll_ctl(set, op, fd, &ev);
}

static void add(int set, int fd, uint32_t events, uint32_t data)
{
	check(!control(set, EPOLL_CTL_ADD, fd, events, data));
}

static int new_set(void)
{
	int set = epoll_create1(0);

	check(set >= 0);
	return set;
}

/* One event, that one. */
static void gives(int set, uint32_t data, uint32_t events)
{
	struct epoll_event ev[4] = {{0}};

	check(epoll_wait(set, ev, 4, PATIENCE_MS) == 1);
	check(ev[0].data.u64 == (data | (uint64_t)data << 32));
	check(ev[0].events == events);
}

static void gives_nothing(int set)
{
	struct epoll_event ev[4];

	check(epoll_wait(set, ev, 4, SHORT_MS) == 0);
	check(epoll_wait(set, ev, 4, 0) == 0);
}

static void take(int fd, size_t n)
{
	char got[64];

	check(recv(fd, got, n, MSG_WAITALL) == (ssize_t)n);
}

/* ---- a set in a set -------------------------------------------------------------------------- */

static void level_in_level(int outer, int inner, int a, int b)
{
	gives_nothing(outer);
	for (int i = 0; i < 3; i++) {
		send_text(b, "12345678");
		gives(outer, 7, EPOLLIN);
		gives(inner, 8, EPOLLIN);
		gives(outer, 7, EPOLLIN);
		gives(inner, 8, EPOLLIN);
		take(a, 4);
		gives(inner, 8, EPOLLIN);
		gives(outer, 7, EPOLLIN);
		take(a, 4);
		gives_nothing(outer);
		gives_nothing(inner);
	}
}

static void a_set_in_a_set(void)
{
	int a, b, inner = new_set(), outer = new_set();

	connect_pair(&a, &b);
	add(inner, a, EPOLLIN, 8);
	add(outer, inner, EPOLLIN, 7);
	level_in_level(outer, inner, a, b);
	check(control(outer, EPOLL_CTL_ADD, inner, EPOLLIN, 1) && errno == EEXIST);
	check(control(outer, EPOLL_CTL_ADD, outer, EPOLLIN, 1) && errno == EINVAL);
	check(control(inner, EPOLL_CTL_ADD, outer, EPOLLIN, 1) && errno == ELOOP);
	check(!control(outer, EPOLL_CTL_MOD, inner, EPOLLIN, 9));
	send_text(b, "x");
	gives(outer, 9, EPOLLIN);
	check(!control(outer, EPOLL_CTL_DEL, inner, 0, 0));
	check(control(outer, EPOLL_CTL_DEL, inner, 0, 0) && errno == ENOENT);
	gives_nothing(outer);
	gives(inner, 8, EPOLLIN);
}

static void an_empty_set_in_a_set(void)
{
	int a, b, inner = new_set(), outer = new_set();

	add(outer, inner, EPOLLIN, 7);
	connect_pair(&a, &b);
	add(inner, a, EPOLLIN, 8);
	level_in_level(outer, inner, a, b);
	close(inner);
	send_text(b, "x");
	gives_nothing(outer);
}

static void three_sets_deep(void)
{
	int a, b, inner = new_set(), middle = new_set(), outer = new_set();

	connect_pair(&a, &b);
	add(inner, a, EPOLLIN, 8);
	add(middle, inner, EPOLLIN, 6);
	add(outer, middle, EPOLLIN, 7);
	level_in_level(outer, inner, a, b);
	send_text(b, "x");
	gives(middle, 6, EPOLLIN);
	gives(outer, 7, EPOLLIN);
}

static void with_a_pipe_beside(void)
{
	int a, b, fd[2], inner = new_set(), outer = new_set();

	check(!pipe(fd));
	connect_pair(&a, &b);
	add(inner, a, EPOLLIN, 8);
	add(inner, fd[0], EPOLLIN, 5);
	add(outer, inner, EPOLLIN, 7);
	level_in_level(outer, inner, a, b);
	check(write(fd[1], "x", 1) == 1);
	gives(outer, 7, EPOLLIN);
	gives(inner, 5, EPOLLIN);
	gives(outer, 7, EPOLLIN);
	check(read(fd[0], &(char){0}, 1) == 1);
	gives_nothing(outer);
	level_in_level(outer, inner, a, b);
}

static void an_edge_in_a_set(void)
{
	int a, b, inner = new_set(), outer = new_set();

	connect_pair(&a, &b);
	add(inner, a, EPOLLIN, 8);
	add(outer, inner, EPOLLIN | EPOLLET, 7);
	gives_nothing(outer);
	for (int i = 0; i < 3; i++) {
		send_text(b, "x");
		gives(outer, 7, EPOLLIN);
		gives_nothing(outer);
	}
	check(!control(outer, EPOLL_CTL_MOD, inner, EPOLLIN | EPOLLONESHOT, 7));
	gives(outer, 7, EPOLLIN);
	gives_nothing(outer);
	check(!control(outer, EPOLL_CTL_MOD, inner, EPOLLIN, 7));
	gives(outer, 7, EPOLLIN);
	gives(outer, 7, EPOLLIN);
}

struct later {
	int fd;
	const char *text;
};

static void *send_later(void *arg)
{
	struct later *l = arg;

	usleep(SHORT_MS * 2000);
	send_text(l->fd, l->text);
	return NULL;
}

static pthread_t later(struct later *l)
{
	pthread_t thread;

	check(!pthread_create(&thread, NULL, send_later, l));
	return thread;
}

static void sleepers_are_woken(void)
{
	int a, b, inner = new_set(), outer = new_set();
	struct pollfd p;
	pthread_t thread;
	fd_set set;

	connect_pair(&a, &b);
	add(inner, a, EPOLLIN, 8);
	add(outer, inner, EPOLLIN, 7);
	for (int i = 0; i < 3; i++) {
		thread = later(&(struct later){b, "x"});
		gives(outer, 7, EPOLLIN);
		take(a, 1);
		pthread_join(thread, NULL);

		thread = later(&(struct later){b, "x"});
		p = (struct pollfd){.fd = inner, .events = POLLIN};
		check(poll(&p, 1, PATIENCE_MS) == 1 && p.revents == POLLIN);
		take(a, 1);
		pthread_join(thread, NULL);

		thread = later(&(struct later){b, "x"});
		FD_ZERO(&set);
		FD_SET(outer, &set);
		check(select(outer + 1, &set, NULL, NULL, &(struct timeval){.tv_sec = 5}) == 1);
		take(a, 1);
		pthread_join(thread, NULL);
	}
}

/* ---- poll() and select() of a set ------------------------------------------------------------ */

static int polled(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n = poll(&p, 1, ms);

	check(p.revents == (n ? POLLIN : 0));
	return n;
}

static int selected(int fd)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return select(fd + 1, &set, NULL, NULL, &(struct timeval){0});
}

static void a_set_is_polled(void)
{
	int a, b, set = new_set();

	connect_pair(&a, &b);
	add(set, a, EPOLLIN, 8);
	check(!polled(set, 0) && !selected(set));
	for (int i = 0; i < 3; i++) {
		send_text(b, "12");
		check(polled(set, PATIENCE_MS) && polled(set, 0) && selected(set));
		gives(set, 8, EPOLLIN);
		check(polled(set, 0) && selected(set));
		take(a, 1);
		check(polled(set, 0) && selected(set));
		take(a, 1);
		check(!selected(set) && !polled(set, SHORT_MS));
	}
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void a_doubled_set(void)
{
	int a, b, c, d, set = new_set(), early = dup(set), late;

	connect_pair(&a, &b);
	connect_pair(&c, &d);
	add(set, a, EPOLLIN, 8);
	late = dup(set);
	check(early >= 0 && late >= 0);
	send_text(b, "x");
	gives(set, 8, EPOLLIN);
	gives(early, 8, EPOLLIN);
	gives(late, 8, EPOLLIN);
	check(control(late, EPOLL_CTL_ADD, a, EPOLLIN, 1) && errno == EEXIST);
	close(set);
	gives(early, 8, EPOLLIN);
	take(a, 1);
	add(early, c, EPOLLIN, 9);
	send_text(d, "y");
	gives(late, 9, EPOLLIN);
	close(early);
	gives(late, 9, EPOLLIN);
	check(!control(late, EPOLL_CTL_DEL, c, 0, 0));
	gives_nothing(late);
	send_text(b, "x");
	gives(late, 8, EPOLLIN);
}

static void a_socket_by_two_numbers(void)
{
	struct epoll_event ev[4];
	int a, b, twice, set = new_set();

	connect_pair(&a, &b);
	twice = dup(a);
	add(set, a, EPOLLIN, 8);
	add(set, twice, EPOLLIN, 9);
	check(control(set, EPOLL_CTL_ADD, twice, EPOLLIN, 1) && errno == EEXIST);
	send_text(b, "x");
	check(epoll_wait(set, ev, 1, PATIENCE_MS) == 1);
	check(epoll_wait(set, ev, 4, PATIENCE_MS) == 2);
	check(ev[0].data.u32 + ev[1].data.u32 == 17);
	check(!control(set, EPOLL_CTL_DEL, a, 0, 0));
	gives(set, 9, EPOLLIN);
	close(a);
	gives(set, 9, EPOLLIN);
	take(twice, 1);
	gives_nothing(set);
}

/* ---- kinds of registrations ------------------------------------------------------------------ */

static void exclusive_ones(void)
{
	int a, b, set = new_set(), other = new_set();

	connect_pair(&a, &b);
	check(control(set, EPOLL_CTL_ADD, a, EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT, 8) &&
	      errno == EINVAL);
	check(control(set, EPOLL_CTL_ADD, a, EPOLLIN | EPOLLEXCLUSIVE | EPOLLRDHUP, 8) &&
	      errno == EINVAL);
	add(set, a, EPOLLIN | EPOLLEXCLUSIVE, 8);
	check(control(set, EPOLL_CTL_MOD, a, EPOLLIN, 8) && errno == EINVAL);
	check(control(set, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLEXCLUSIVE, 8) && errno == EINVAL);
	check(control(other, EPOLL_CTL_ADD, set, EPOLLIN | EPOLLEXCLUSIVE, 8) && errno == EINVAL);
	send_text(b, "x");
	gives(set, 8, EPOLLIN);
	check(!control(set, EPOLL_CTL_DEL, a, 0, 0));
	add(set, a, EPOLLIN, 8);
	check(control(set, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLEXCLUSIVE, 8) && errno == EINVAL);
}

static void one_shots_edges_and_half_ends(void)
{
	int a, b, set = new_set();

	connect_pair(&a, &b);
	add(set, a, EPOLLIN | EPOLLONESHOT, 8);
	send_text(b, "1");
	gives(set, 8, EPOLLIN);
	gives_nothing(set);
	check(!control(set, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT, 9));
	gives(set, 9, EPOLLIN);
	gives_nothing(set);
	check(!control(set, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLET, 8));
	gives(set, 8, EPOLLIN);
	gives_nothing(set);
	send_text(b, "2");
	gives(set, 8, EPOLLIN);
	gives_nothing(set);
	take(a, 2);
	check(!control(set, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLRDHUP, 8));
	gives_nothing(set);
	check(!shutdown(b, SHUT_WR));
	gives(set, 8, EPOLLIN | EPOLLRDHUP);
	check(!control(set, EPOLL_CTL_MOD, a, EPOLLRDHUP, 8));
	gives(set, 8, EPOLLRDHUP);
	check(!control(set, EPOLL_CTL_MOD, a, EPOLLIN, 8));
	gives(set, 8, EPOLLIN);
}

/* ---- all ------------------------------------------------------------------------------------- */

static const struct both_ends_case cases[] = {
#define X(name)             \
	{                   \
#name, name \
	}
	/* clang-format off */
	X(a_set_in_a_set),
	X(an_empty_set_in_a_set),
	X(three_sets_deep),
	X(with_a_pipe_beside),
	X(an_edge_in_a_set),
	X(sleepers_are_woken),
	X(a_set_is_polled),
	X(a_doubled_set),
	X(a_socket_by_two_numbers),
	X(exclusive_ones),
	X(one_shots_edges_and_half_ends),
/* clang-format on */
#undef X
};

int main(int argc, char **argv)
{
	return both_ends_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
