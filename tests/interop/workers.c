/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A TCP server whose listener, or whose connections, are other processes' than the one that made
 * them, in each of the ways that servers have, and its clients.
 *
 *	workers serve HOW ADDR PORT      until it is killed
 *	workers ask ADDR PORT CLIENTS    so many at a time; an answer is due within 20 s
 *
 * A server answers with the addresses that it sees and then sends back what comes. The client
 * compares both with its own. ADDR may be ::, for IPv4 clients too.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define check(x)                 \
	do {                     \
		if (!(x))        \
			die(#x); \
	} while (0)

enum { WORKERS = 3, FIRST = 3, FREE = 700, LONG = 200000, PATIENCE_S = 20, NAME = 128 };

extern char **environ;
static struct sockaddr_storage at;
static socklen_t at_len;
static char *self;

static void die(const char *what)
{
	fprintf(stderr, "%d: %s: %s\n", getpid(), what, strerror(errno));
	_exit(1);
}

static void say(const char *line)
{
	puts(line);
	fflush(stdout);
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* As IPv4 if it is, mapped or not. */
static void show(const struct sockaddr_storage *addr, char *to)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)addr;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)addr;
	char text[INET6_ADDRSTRLEN] = "?";

	if (addr->ss_family == AF_INET)
		inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
	else if (addr->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
		inet_ntop(AF_INET, v6->sin6_addr.s6_addr + 12, text, sizeof(text));
	else if (addr->ss_family == AF_INET6)
		inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
	snprintf(to, NAME, "%s %u", text, ntohs(v4->sin_port));
}

typedef int name_fn(int, struct sockaddr *, socklen_t *);

/* As accept(2) and getsockname(2) have it: the length is the address's, whatever there was room
 * for. */
static void ask_name(name_fn *ask, int fd, int family, char *to)
{
	struct sockaddr_storage whole = {0}, part;
	socklen_t len = sizeof(whole), full;

	check(!ask(fd, (struct sockaddr *)&whole, &len));
	full = len;
	check(whole.ss_family == family);
	check(full ==
	      (family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)));
	memset(&part, 0x55, sizeof(part));
	len = 4;
	check(!ask(fd, (struct sockaddr *)&part, &len) && len == full);
	check(!memcmp(&part, &whole, 4) && ((char *)&part)[4] == 0x55);
	len = 0;
	check(!ask(fd, (struct sockaddr *)&part, &len) && len == full);
	len = (socklen_t)-1;
	check(ask(fd, (struct sockaddr *)&part, &len) && errno == EINVAL);
	len = sizeof(whole);
	check(ask(fd, NULL, &len) && errno == EFAULT);
	show(&whole, to);
}

/* ---- answering ------------------------------------------------------------------------------- */

static void greet(int fd, int family)
{
	char local[NAME], peer[NAME], text[2 * NAME + 16];
	int domain, one = 1;
	ssize_t n;

	check(!getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &(socklen_t){sizeof(domain)}));
	check(domain == family);
	check(!setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &one, sizeof(one)));
	ask_name(getsockname, fd, family, local);
	ask_name(getpeername, fd, family, peer);
	n = snprintf(text, sizeof(text), "%s, %s\n", peer, local);
	check(send(fd, text, (size_t)n, MSG_NOSIGNAL) == n);
}

static void echo(int fd)
{
	char buf[16384];
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		for (ssize_t sent = 0, k; sent < n; sent += k) {
			k = send(fd, buf + sent, (size_t)(n - sent), MSG_NOSIGNAL);
			check(k > 0);
		}
	check(!n);
	close(fd);
}

static void answer(int fd, int family)
{
	greet(fd, family);
	echo(fd);
}

static int family_of(int fd)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);

	check(!getsockname(fd, (struct sockaddr *)&addr, &len));
	return addr.ss_family;
}

/* accept() itself tells who has come. */
static int accept_one(int listener)
{
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);
	char told[NAME], asked[NAME];
	int fd = accept(listener, (struct sockaddr *)&from, &len);

	if (fd < 0)
		return fd;
	show(&from, told);
	ask_name(getpeername, fd, family_of(listener), asked);
	check(!strcmp(told, asked));
	return fd;
}

/* ---- workers that accept --------------------------------------------------------------------- */

static void work(int listener, const char *how)
{
	const int family = family_of(listener);
	struct epoll_event ev = {.events = EPOLLIN};
	struct pollfd p = {.fd = listener, .events = POLLIN};
	int set = epoll_create1(EPOLL_CLOEXEC);

	if (strcmp(how, "accept"))
		fcntl(listener, F_SETFL, fcntl(listener, F_GETFL) | O_NONBLOCK);
	check(!epoll_ctl(set, EPOLL_CTL_ADD, listener, &ev) || strcmp(how, "epoll"));
	for (;;) {
		int fd;

		if (!strcmp(how, "epoll"))
			check(epoll_wait(set, &ev, 1, -1) > 0);
		else if (!strcmp(how, "poll"))
			check(poll(&p, 1, -1) > 0);
		fd = accept_one(listener);
		if (fd < 0) {
			check(errno == EAGAIN);
			continue;
		}
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
		answer(fd, family);
	}
}

static int listen_at(bool share_port)
{
	int fd = socket(at.ss_family, SOCK_STREAM, 0), one = 1;

	check(fd >= 0);
	setsockopt(fd, SOL_SOCKET, share_port ? SO_REUSEPORT : SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&at, at_len) || listen(fd, 128))
		die("listen");
	return fd;
}

static bool in_child(void)
{
	pid_t pid = fork();

	check(pid >= 0);
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return !pid;
}

static void fork_workers(int listener, const char *how)
{
	for (int i = 0; i < WORKERS; i++)
		if (in_child())
			work(listener, how);
}

/* As systemd hands one over: it is descriptor 3. */
static void become_activated(int listener)
{
	char pid[16];

	if (listener != FIRST)
		check(dup2(listener, FIRST) == FIRST);
	snprintf(pid, sizeof(pid), "%d", getpid());
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", "1", 1);
	execl(self, self, "activated", NULL);
	die("exec");
}

static void spawn_activated(int listener)
{
	char word[] = "activated", *argv[] = {self, word, NULL};
	posix_spawn_file_actions_t actions;
	pid_t pid;

	setenv("LISTEN_FDS", "1", 1);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, listener, FIRST);
	check(!posix_spawn(&pid, self, &actions, NULL, argv, environ));
}

/* ---- passing descriptors --------------------------------------------------------------------- */

static void pass(int over, int fd)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} c = {0};
	char byte = 0;
	struct msghdr msg = {.msg_iov = &(struct iovec){&byte, 1},
			     .msg_iovlen = 1,
			     .msg_control = &c,
			     .msg_controllen = sizeof(c.room)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&msg);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &fd, sizeof(int));
	check(sendmsg(over, &msg, 0) == 1);
	close(fd);
}

static int passed(int over)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} c = {0};
	char byte;
	struct msghdr msg = {.msg_iov = &(struct iovec){&byte, 1},
			     .msg_iovlen = 1,
			     .msg_control = &c,
			     .msg_controllen = sizeof(c.room)};
	int fd;

	check(recvmsg(over, &msg, 0) == 1 && CMSG_FIRSTHDR(&msg));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(int));
	return fd;
}

/* A worker that is there before the listener is. */
static int early_worker(bool gets_listener)
{
	int pair[2];

	check(!socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
	if (in_child()) {
		if (gets_listener)
			work(passed(pair[1]), "accept");
		for (;;) {
			int fd = passed(pair[1]);

			answer(fd, family_of(fd));
		}
	}
	close(pair[1]);
	return pair[0];
}

/* ---- the ways -------------------------------------------------------------------------------- */

static void serve(const char *how)
{
	struct pollfd p = {.events = POLLIN};
	int to[WORKERS], listener = -1;

	signal(SIGCHLD, SIG_IGN);
	if (!strncmp(how, "pass-", 5))
		for (int i = 0; i < WORKERS; i++)
			to[i] = early_worker(!strcmp(how, "pass-listener"));
	if (strcmp(how, "reuseport"))
		p.fd = listener = listen_at(false);
	if (!strcmp(how, "accept") || !strcmp(how, "poll") || !strcmp(how, "epoll")) {
		fork_workers(listener, how);
	} else if (!strcmp(how, "late")) { /* clients are there already */
		say("serving");
		usleep(500000);
		fork_workers(listener, "epoll");
	} else if (!strcmp(how, "reuseport")) {
		for (int i = 0; i < WORKERS; i++)
			if (in_child())
				work(listen_at(true), "accept");
		usleep(300000);
	} else if (!strcmp(how, "daemon")) {
		if (fork())
			exit(0);
		setsid();
		if (fork())
			_exit(0);
		alarm(4 * PATIENCE_S); /* nobody's child any more */
		printf("daemon %d, serving\n", getpid());
		fflush(stdout);
		work(listener, "poll");
	} else if (!strcmp(how, "activate")) { /* when the first client has come */
		say("serving");
		check(poll(&p, 1, -1) == 1);
		if (in_child())
			become_activated(listener);
	} else if (!strcmp(how, "exec")) {
		say("serving");
		check(poll(&p, 1, -1) == 1);
		become_activated(listener);
	} else if (!strcmp(how, "spawn")) {
		spawn_activated(listener);
	} else if (!strcmp(how, "pass-listener")) {
		for (int i = 0; i < WORKERS; i++)
			pass(to[i], dup(listener));
	} else if (!strcmp(how, "pass-connection")) {
		say("serving");
		for (int i = 0;; i++)
			pass(to[i % WORKERS], accept_one(listener));
	} else if (!strcmp(how, "exec-connection")) { /* a program for each, as sshd does */
		say("serving");
		for (;;) {
			int fd = accept_one(listener);

			if (in_child()) {
				dup2(fd, 0);
				execl(self, self, "connected", NULL);
				die("exec");
			}
			close(fd);
		}
	} else if (!strcmp(how, "used-connection")) { /* the first words are the parent's */
		say("serving");
		for (;;) {
			int fd = accept_one(listener);

			greet(fd, family_of(listener));
			dup2(fd, FREE); /* and has two numbers, then one */
			close(fd);
			fd = dup(FREE);
			if (in_child()) {
				close(FREE);
				echo(fd);
				_exit(0);
			}
			close(fd);
			close(FREE);
		}
	} else {
		die(how);
	}
	say("serving");
	for (;;)
		pause();
}

/* ---- clients --------------------------------------------------------------------------------- */

static void *ask(void *arg)
{
	char local[NAME], peer[NAME], want[2 * NAME + 16], got[sizeof(want)], buf[10000];
	struct sockaddr_storage own, other;
	socklen_t own_len = sizeof(own), other_len = sizeof(other);
	int fd = socket(at.ss_family, SOCK_STREAM, 0);
	size_t done = 0;

	check(fd >= 0 && !connect(fd, (struct sockaddr *)&at, at_len));
	check(!getsockname(fd, (struct sockaddr *)&own, &own_len));
	check(!getpeername(fd, (struct sockaddr *)&other, &other_len));
	show(&own, local);
	show(&other, peer);
	snprintf(want, sizeof(want), "%s, %s\n", local, peer);
	while (!done || got[done - 1] != '\n')
		check(done < sizeof(got) - 1 && recv(fd, got + done++, 1, 0) == 1);
	got[done] = 0;
	if (strcmp(got, want)) {
		fprintf(stderr, "we are %sthe server says %s", want, got);
		_exit(1);
	}
	for (done = 0; done < LONG; done += sizeof(buf)) {
		char back[sizeof(buf)];

		memset(buf, (int)(done / sizeof(buf)), sizeof(buf));
		check(send(fd, buf, sizeof(buf), MSG_NOSIGNAL) == sizeof(buf));
		check(recv(fd, back, sizeof(back), MSG_WAITALL) == sizeof(back));
		check(!memcmp(buf, back, sizeof(buf)));
	}
	check(!shutdown(fd, SHUT_WR) && !recv(fd, buf, 1, 0));
	close(fd);
	return arg;
}

static void ask_all(int clients)
{
	pthread_t *thread = calloc((size_t)clients, sizeof(*thread));
	struct timespec a, b;

	check(thread);
	clock_gettime(CLOCK_MONOTONIC, &a);
	alarm(PATIENCE_S);
	for (int i = 0; i < clients; i++)
		check(!pthread_create(&thread[i], NULL, ask, NULL));
	for (int i = 0; i < clients; i++)
		pthread_join(thread[i], NULL);
	free(thread);
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("all came back after %ld ms\n",
	       (b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000);
}

static void address(const char *addr, const char *port)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)&at;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&at;

	if (inet_pton(AF_INET, addr, &v4->sin_addr) == 1) {
		at.ss_family = AF_INET;
		at_len = sizeof(*v4);
	} else {
		check(inet_pton(AF_INET6, addr, &v6->sin6_addr) == 1);
		at.ss_family = AF_INET6;
		at_len = sizeof(*v6);
	}
	v4->sin_port = htons((uint16_t)atoi(port)); /* at one place in both */
}

static void *nothing(void *arg)
{
	return arg;
}

/* There is room for the preload in the smallest stack that programs give their threads. */
static void small_thread(void)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	check(!pthread_attr_setstacksize(&attr, 16384));
	check(!pthread_create(&thread, &attr, nothing, NULL));
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	self = argv[0];
	small_thread();
	if (argc == 2 && !strcmp(argv[1], "activated")) {
		check(getenv("LISTEN_FDS"));
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		say("serving");
		work(FIRST, "accept");
	}
	if (argc == 2 && !strcmp(argv[1], "connected")) {
		answer(0, family_of(0));
		return 0;
	}
	if (argc != 5)
		return 2;
	if (!strcmp(argv[1], "serve")) {
		address(argv[3], argv[4]);
		serve(argv[2]);
	}
	address(argv[2], argv[3]);
	ask_all(atoi(argv[4]));
	return 0;
}
