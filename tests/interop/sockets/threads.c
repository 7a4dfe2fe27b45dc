// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Several threads on one socket, and threads that are cancelled in a call, as pthreads(7) has it.
 */
#include <limits.h>
#include <semaphore.h>

#include "case.h"

struct work {
	int fd;
	_Atomic(pid_t) tid;
	long rc;
	int err;
	char text[32];
};

static void *receives(void *arg)
{
	struct work *w = arg;

	w->tid = tid_of();
	w->rc = recv(w->fd, w->text, sizeof(w->text) - 1, 0);
	w->err = errno;
	return NULL;
}

static void await_in_call(struct work *w)
{
	while (!w->tid)
		nap(5);
	await_asleep(w->tid);
}

/* One sleeps in recv() while another sends. */
static void thread_each_way(void)
{
	struct work w = {.fd = joined()};
	pthread_t t = thread(receives, &w);

	await_in_call(&w);
	meet();
	T(send(w.fd, server ? "server" : "client", 6, 0));
	ended(t);
	show("the thread got", w.text, w.rc);
	meet();
}

/* Of two that sleep in recv() each gets what comes for one. */
static void thread_two_wait(void)
{
	int fd = joined();
	struct work a = {.fd = fd}, b = {.fd = fd};
	pthread_t s, t;

	if (server) {
		s = thread(receives, &a);
		t = thread(receives, &b);
		await_in_call(&a);
		await_in_call(&b);
		meet();
		nap(150);
		say("one has it: %d", (a.rc == 1) + (b.rc == 1));
		meet();
		ended(s);
		ended(t);
		say("%ld %ld", a.rc, b.rc);
	} else {
		meet();
		T(send(fd, "x", 1, 0));
		meet();
		T(send(fd, "y", 1, 0));
	}
	meet();
}

/* shutdown() ends what another thread waits for: to read, to write, for events. */
static void *sends_for_ever(void *arg)
{
	struct work *w = arg;
	static char buf[100000];

	w->tid = tid_of();
	while ((w->rc = send(w->fd, buf, sizeof(buf), MSG_NOSIGNAL)) > 0)
		;
	w->err = errno;
	return NULL;
}

static void thread_shut_in_send(void)
{
	struct work w = {.fd = joined()};
	pthread_t t;

	if (server) {
		t = thread(sends_for_ever, &w);
		await_in_call(&w);
		T(shutdown(w.fd, SHUT_RDWR));
		ended(t);
		say("%s", w.rc < 0 ? strerrorname_np(w.err) : "sent");
	}
	meet();
}

static void *polls(void *arg)
{
	struct work *w = arg;
	struct pollfd p = {.fd = w->fd, .events = POLLIN};

	w->tid = tid_of();
	w->rc = poll(&p, 1, 5000);
	w->err = p.revents;
	return NULL;
}

static void thread_shut_in_poll(void)
{
	struct work w = {.fd = joined()};
	pthread_t t;

	if (server) {
		t = thread(polls, &w);
		await_in_call(&w);
		T(shutdown(w.fd, SHUT_RDWR));
		ended(t);
		say("%ld, %s", w.rc, events_name((unsigned)w.err & POLLIN));
	}
	meet();
}

/* The number is closed under who sleeps in recv(); the connection lasts until that is done. */
static void thread_closed_in_recv(void)
{
	struct work w = {.fd = joined()};
	pthread_t t;

	if (server) {
		t = thread(receives, &w);
		await_in_call(&w);
		T(close(w.fd));
		nap(100);
		meet();
		ended(t);
		show("the thread got", w.text, w.rc);
		T(fcntl(w.fd, F_GETFD));
	} else {
		meet();
		T(send(w.fd, "hello", 5, MSG_NOSIGNAL));
		drain(w.fd);
	}
	meet();
}

/* pthread_cancel() ends who sleeps in a call that is a cancellation point. */
static void cancelled(void *(*f)(void *), int fd)
{
	struct work w = {.fd = fd};
	pthread_t t = thread(f, &w);

	await_in_call(&w);
	need(!pthread_cancel(t));
	say("cancelled: %d", ended(t) == PTHREAD_CANCELED);
}

static void *accepts(void *arg)
{
	struct work *w = arg;

	w->tid = tid_of();
	w->rc = accept(w->fd, NULL, NULL);
	return NULL;
}

static void *waits(void *arg)
{
	struct work *w = arg;
	struct epoll_event e;

	w->tid = tid_of();
	w->rc = epoll_wait(w->fd, &e, 1, -1);
	return NULL;
}

static void *selects(void *arg)
{
	struct work *w = arg;
	fd_set rd;

	FD_ZERO(&rd);
	FD_SET(w->fd, &rd);
	w->tid = tid_of();
	w->rc = select(w->fd + 1, &rd, NULL, NULL, NULL);
	return NULL;
}

static void cancel_in_recv(void)
{
	int fd = joined();

	if (server)
		cancelled(receives, fd);
	meet();
	if (server) /* the socket is none the worse */
		T(send(fd, "hello", 5, 0));
	else
		R(fd, 5, MSG_WAITALL);
	meet();
	if (server)
		R(fd, 5, MSG_WAITALL);
	else
		T(send(fd, "there", 5, 0));
}

static void cancel_in_send(void)
{
	int fd = joined();

	if (server)
		cancelled(sends_for_ever, fd);
	meet();
}

static void cancel_in_accept(void)
{
	int listener, fd;

	if (server) {
		listener = listening();
		cancelled(accepts, listener);
		meet();
		fd = F(accept(listener, NULL, NULL));
		drain(fd);
	} else {
		meet();
		fd = connected();
		T(send(fd, "hello", 5, 0));
		T(close(fd));
	}
	meet();
}

static void cancel_in_wait(void)
{
	int fd = joined(), set = epoll_create1(0);
	struct epoll_event e = {.events = EPOLLIN};

	if (server) {
		need(!epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
		cancelled(polls, fd);
		cancelled(selects, fd);
		cancelled(waits, set);
		meet();
		R(fd, 5, MSG_WAITALL);
	} else {
		meet();
		T(send(fd, "hello", 5, 0));
	}
	meet();
}

/* It ends who enters one, too, and nothing is done: not even where the call would not sleep. */
static int to_end; /* the call's number */

static void *enters(void *arg)
{
	int fd = *(int *)arg, before;
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	char no[] = "no";
	struct iovec v = {no, 2};
	struct msghdr msg = {.msg_iov = &v, .msg_iovlen = 1};
	fd_set wr;
	char c;

	FD_ZERO(&wr);
	FD_SET(fd, &wr);
	need(!pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before));
	need(!pthread_cancel(pthread_self()));
	need(!pthread_setcancelstate(before, NULL));
	/* These are none. */
	need(!getpeername(fd, (struct sockaddr *)&(struct sockaddr_storage){0},
			  &(socklen_t){sizeof(struct sockaddr_storage)}));
	need(!getsockopt(fd, SOL_SOCKET, SO_ERROR, &(int){0}, &(socklen_t){sizeof(int)}));
	need(!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)));
	switch (to_end) {
	case 0:
		return (void *)(intptr_t)write(fd, "no", 2);
	case 1:
		return (void *)(intptr_t)send(fd, "no", 2, MSG_DONTWAIT);
	case 2:
		return (void *)(intptr_t)sendmsg(fd, &msg, 0);
	case 3:
		return (void *)(intptr_t)writev(fd, &v, 1);
	case 4:
		return (void *)(intptr_t)read(fd, &c, 1);
	case 5:
		return (void *)(intptr_t)recv(fd, &c, 1, MSG_DONTWAIT);
	case 6:
		return (void *)(intptr_t)poll(&p, 1, 0);
	case 7:
		return (void *)(intptr_t)select(fd + 1, NULL, &wr, NULL, NULL);
	case 8:
		return (void *)(intptr_t)close(fd);
	case 9:
		return (void *)(intptr_t)accept(fd, NULL, NULL);
	default:
		return (void *)(intptr_t)connect(fd, NULL, 0);
	}
}

static void cancel_at_once(void)
{
	int fd = joined();

	if (server) {
		for (to_end = 0; to_end <= 10; to_end++) {
			pthread_t t = thread(enters, &fd);

			say("%d: %d", to_end, ended(t) == PTHREAD_CANCELED);
		}
		T(send(fd, "end", 3, 0));
	} else {
		R(fd, 3, MSG_WAITALL);
	}
	meet();
}

/* Threads with as little stack as there may be. */
static void *little_stack(void *arg)
{
	char c = 'x';
	int fd = *(int *)arg;
	struct pollfd p = {.fd = fd, .events = POLLIN};

	T(write(fd, &c, 1));
	T(poll(&p, 1, 3000));
	T(read(fd, &c, 1));
	return NULL;
}

static void thread_little_stack(void)
{
	int fd = joined();
	pthread_attr_t a;
	pthread_t t;

	pthread_attr_init(&a);
	need(!pthread_attr_setstacksize(&a, PTHREAD_STACK_MIN + 8192));
	need(!pthread_create(&t, &a, little_stack, &fd));
	ended(t);
	meet();
}

/* Each thread makes, uses and closes connections of its own. */
static void *lives(void *arg)
{
	long ok = 0;
	char c;

	for (int i = 0; i < 6; i++) {
		int fd = server ? accept(*(int *)arg, NULL, NULL) : connected();

		ok += fd >= 0 && write(fd, "x", 1) == 1 && read(fd, &c, 1) == 1;
		close(fd);
	}
	return (void *)ok;
}

static void thread_lives(void)
{
	enum { MANY = 6 };
	int listener = -1;
	pthread_t t[MANY];
	long ok = 0;

	if (server)
		listener = listening();
	meet();
	for (int i = 0; i < MANY; i++)
		t[i] = thread(lives, &listener);
	for (int i = 0; i < MANY; i++)
		ok += (long)ended(t[i]);
	T(ok);
	meet();
}

/* The main thread ends and others go on. */
static void *goes_on(void *arg)
{
	nap(100);
	T(send(*(int *)arg, "hello", 5, 0));
	meet();
	exit(0);
}

static void thread_main_ends(void)
{
	static int fd;

	fd = joined();
	if (server) {
		thread(goes_on, &fd);
		pthread_exit(NULL);
	}
	R(fd, 5, MSG_WAITALL);
	meet();
}

/* One thread waits in a set while others add to it and close what is in it. */
static void *adds(void *arg)
{
	const int set = ((int *)arg)[0];

	for (int i = 0; i < 300; i++) {
		struct epoll_event e = {.events = EPOLLIN};
		int fd = tcp_socket(0);

		need(!epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
		close(fd);
	}
	return NULL;
}

static void thread_set_changes(void)
{
	int fd = joined(), set = epoll_create1(0), got = 0;
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = 1234567};
	pthread_t a, b;
	char c;

	need(!epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
	a = thread(adds, &set);
	b = thread(adds, &set);
	for (int i = 0; i < 200; i++) {
		if (!server)
			need(write(fd, "x", 1) == 1);
		do
			need(epoll_wait(set, &e, 1, 5000) == 1);
		while (e.data.u64 != 1234567);
		got += read(fd, &c, 1) == 1;
		if (server)
			need(write(fd, "x", 1) == 1);
	}
	T(got);
	ended(a);
	ended(b);
	meet();
}

/* What is ready is for who still sleeps, when the first has taken as much as it has room for. */
static struct pool {
	int set, fds[2];
	sem_t returned, round;
	_Atomic int ready;
} pool;

static void *takes_one_of_two(void *arg)
{
	struct epoll_event e;
	char c;

	(void)arg;
	for (;;) {
		need(!sem_wait(&pool.round));
		if (pool.set < 0)
			return NULL;
		if (epoll_wait(pool.set, &e, 1, 5000) == 1 && read(e.data.fd, &c, 1) == 1)
			pool.ready++;
		need(!sem_post(&pool.returned));
	}
}

static void thread_two_ready(void)
{
	enum { ROUNDS = 200 };
	int listener = -1, rounds = 0;
	pthread_t t[2];

	joined_more(&listener, pool.fds, 2);
	pool.set = epoll_create1(0);
	need(!sem_init(&pool.returned, 0, 0) && !sem_init(&pool.round, 0, 0));
	for (int i = 0; server && i < 2; i++) {
		struct epoll_event e = {.events = EPOLLIN | EPOLLONESHOT, .data.fd = pool.fds[i]};

		need(!epoll_ctl(pool.set, EPOLL_CTL_ADD, pool.fds[i], &e));
		t[i] = thread(takes_one_of_two, NULL);
	}
	for (int n = 0; n < ROUNDS; n++) {
		pool.ready = 0;
		for (int i = 0; server && i < 2; i++)
			need(!sem_post(&pool.round));
		meet();
		for (int i = 0; !server && i < 2; i++)
			need(write(pool.fds[i], "x", 1) == 1);
		for (int i = 0; server && i < 2; i++)
			need(!sem_wait(&pool.returned));
		rounds += pool.ready == 2;
		for (int i = 0; server && i < 2; i++) {
			struct epoll_event e = {.events = EPOLLIN | EPOLLONESHOT,
						.data.fd = pool.fds[i]};

			need(!epoll_ctl(pool.set, EPOLL_CTL_MOD, pool.fds[i], &e));
		}
		if (server && pool.ready != 2)
			break;
	}
	if (server) {
		T(rounds);
		pool.set = -1;
		for (int i = 0; i < 2; i++)
			need(!sem_post(&pool.round));
		for (int i = 0; i < 2; i++)
			ended(t[i]);
	}
	meet();
}

const struct test_case threads_cases[] = {
	CASE(thread_each_way),	     CASE(thread_two_wait),
	CASE(thread_shut_in_send),   CASE(thread_shut_in_poll),
	CASE(thread_closed_in_recv), CASE(cancel_in_recv),
	CASE(cancel_in_send),	     CASE(cancel_in_accept),
	CASE(cancel_at_once),	     CASE(cancel_in_wait),
	CASE(thread_little_stack),   CASE(thread_lives),
	CASE(thread_main_ends),	     CASE(thread_set_changes),
	CASE(thread_two_ready),	     {0},
};
