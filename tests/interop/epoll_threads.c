/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An echo server of several threads on epoll sets, and its clients, a thread each, in plain TCP.
 *
 * usage: epoll_threads server (shared | own) ADDRESS PORT CONNECTIONS
 *        epoll_threads client ADDRESS PORT CONNECTIONS ROUNDS
 *
 * shared: all threads wait in one set, edge-triggered and one shot at a time. own: each connection
 * belongs to one thread and its set, level-triggered. The server ends when all connections have.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { THREADS = 4, CONNECTIONS_MAX = 256, MESSAGE_MAX = 9000 };

static struct sockaddr_in at;
static int connections, rounds;
static bool shared;
static atomic_int ended;
static int sets[THREADS];

static void send_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);

		if (sent < 0)
			err(1, "send");
		p += sent;
		n -= (size_t)sent;
	}
}

/* ---- server ---------------------------------------------------------------------------------- */

/* What is there goes back; false at the end of the stream. */
static bool echo(int fd)
{
	char buf[4096];

	for (;;) {
		ssize_t n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN)
			return true;
		if (n < 0)
			err(1, "recv");
		if (!n)
			return false;
		send_all(fd, buf, (size_t)n);
		if (!shared)
			return true; /* the set says it again */
	}
}

static void *serve(void *arg)
{
	const int set = *(int *)arg;

	while (atomic_load(&ended) < connections) {
		struct epoll_event ev[3];
		int n = epoll_wait(set, ev, 3, 50);

		if (n < 0)
			err(1, "epoll_wait");
		for (int i = 0; i < n; i++) {
			int fd = ev[i].data.fd;
			struct epoll_event again = {EPOLLIN | EPOLLET | EPOLLONESHOT, {.fd = fd}};

			if (!echo(fd)) {
				close(fd);
				atomic_fetch_add(&ended, 1);
			} else if (shared && epoll_ctl(set, EPOLL_CTL_MOD, fd, &again)) {
				err(1, "epoll_ctl");
			}
		}
	}
	return NULL;
}

static void server(void)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	pthread_t thread[THREADS];

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, connections))
		err(1, "listen");
	puts("serving");
	fflush(stdout);
	for (int i = 0; i < THREADS; i++) {
		sets[i] = shared && i ? sets[0] : epoll_create1(0);
		pthread_create(&thread[i], NULL, serve, &sets[i]);
	}
	for (int i = 0; i < connections; i++) {
		int fd = accept(listener, NULL, NULL);
		struct epoll_event ev = {EPOLLIN, {.fd = fd}};

		if (shared)
			ev.events |= EPOLLET | EPOLLONESHOT;
		if (fd < 0 || epoll_ctl(sets[i % THREADS], EPOLL_CTL_ADD, fd, &ev))
			err(1, "accept");
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

/* ---- clients --------------------------------------------------------------------------------- */

static void *ask(void *arg)
{
	const unsigned int seed = *(unsigned int *)arg;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char out[MESSAGE_MAX], in[MESSAGE_MAX];

	if (connect(fd, (struct sockaddr *)&at, sizeof(at)))
		err(1, "connect");
	for (unsigned int r = 0; r < (unsigned int)rounds; r++) {
		/* Short ones mostly, as requests are; of every length now and then. */
		size_t n = r % 8 ? 1 + (seed + r) % 100 : 1 + (seed * 977 + r * 31) % MESSAGE_MAX;

		memset(out, (int)(seed + r), n);
		send_all(fd, out, n);
		if (recv(fd, in, n, MSG_WAITALL) != (ssize_t)n || memcmp(in, out, n))
			errx(1, "connection %u, round %u: another echo", seed, r);
	}
	close(fd);
	return NULL;
}

static void clients(void)
{
	pthread_t thread[CONNECTIONS_MAX];
	unsigned int seed[CONNECTIONS_MAX];

	for (int i = 0; i < connections; i++) {
		seed[i] = (unsigned int)i;
		pthread_create(&thread[i], NULL, ask, &seed[i]);
	}
	for (int i = 0; i < connections; i++)
		pthread_join(thread[i], NULL);
	puts("all came back");
}

int main(int argc, char **argv)
{
	const bool serving = argc == 6 && !strcmp(argv[1], "server");
	char **args = argv + (serving ? 3 : 2);

	if (argc != 6)
		errx(2, "see the source for usage");
	at = (struct sockaddr_in){.sin_family = AF_INET,
				  .sin_port = htons((uint16_t)atoi(args[1]))};
	inet_pton(AF_INET, args[0], &at.sin_addr);
	connections = atoi(args[2]);
	if (connections < 1 || connections > CONNECTIONS_MAX)
		errx(2, "1 to %d connections", CONNECTIONS_MAX);
	shared = !strcmp(argv[2], "shared");
	if (serving) {
		server();
	} else {
		rounds = atoi(args[3]);
		clients();
	}
	return 0;
}
