/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A TCP server that forks for each connection, from many threads at a time, and its clients.
 *
 *	fork_relay serve ADDR PORT THREADS     until it is killed
 *	fork_relay ask ADDR PORT CLIENTS       so many at a time, some of which go without a word
 *	fork_relay stall ADDR PORT CLIENTS     sends, never reads, until it is killed
 *
 * The children send back what comes. A receive timeout that the server sets before it forks is
 * shorter than a client's silence: it is the child's to see, and not the connection's end.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG = 300000, TIMEOUT_MS = 200, SILENCE_MS = 500 };

static struct sockaddr_in at;
static int listener;

static void die(const char *what)
{
	fprintf(stderr, "%d: %s: %s\n", getpid(), what, strerror(errno));
	_exit(1);
}

/* ---- the server ------------------------------------------------------------------------------ */

static void child(int fd)
{
	unsigned int timeouts = 0;
	char buf[16384];
	ssize_t n;

	for (;;) {
		n = recv(fd, buf, sizeof(buf), 0);
		if (n < 0 && errno == EAGAIN && ++timeouts < 100)
			continue;
		if (n <= 0)
			break;
		for (ssize_t sent = 0, k; sent < n; sent += k) {
			k = send(fd, buf + sent, (size_t)(n - sent), MSG_NOSIGNAL);
			if (k < 0)
				_exit(0);
		}
	}
	_exit(n < 0);
}

static void *accept_and_fork(void *arg)
{
	const struct timeval timeout = {.tv_usec = TIMEOUT_MS * 1000};

	for (;;) {
		int fd = accept(listener, NULL, NULL);
		pid_t pid;

		if (fd < 0)
			continue;
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
		pid = fork();
		if (pid < 0)
			die("fork");
		if (!pid)
			child(fd);
		close(fd);
	}
	return arg;
}

static int serve(int threads)
{
	pthread_t thread;

	signal(SIGCHLD, SIG_IGN);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	if (listener < 0 || bind(listener, (struct sockaddr *)&at, sizeof(at)) ||
	    listen(listener, 128))
		die("listen");
	for (int i = 0; i < threads; i++)
		if (pthread_create(&thread, NULL, accept_and_fork, NULL))
			die("pthread_create");
	puts("serving");
	fflush(stdout);
	pause();
	return 0;
}

/* ---- clients --------------------------------------------------------------------------------- */

static int connected(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)))
		die("connect");
	return fd;
}

static void *writer(void *arg)
{
	const int *fd = arg;
	char buf[10000];

	for (size_t done = 0; done < LONG; done += sizeof(buf)) {
		memset(buf, (int)(done / sizeof(buf)) + *fd, sizeof(buf));
		if (send(*fd, buf, sizeof(buf), MSG_NOSIGNAL) != sizeof(buf))
			die("send");
	}
	shutdown(*fd, SHUT_WR);
	return NULL;
}

static void *ask(void *arg)
{
	const long n = (long)(intptr_t)arg;
	int fd = connected();
	size_t done = 0;
	pthread_t thread;
	char buf[10000];
	ssize_t k;

	if (n % 4 == 3) { /* gone before the child has begun */
		close(fd);
		return NULL;
	}
	usleep(SILENCE_MS * 1000);
	if (pthread_create(&thread, NULL, writer, &fd))
		die("pthread_create");
	while ((k = recv(fd, buf, sizeof(buf), 0)) > 0)
		for (ssize_t i = 0; i < k; i++, done++)
			if (buf[i] != (char)((int)(done / sizeof(buf)) + fd))
				die("wrong data");
	pthread_join(thread, NULL);
	if (k < 0 || done != LONG)
		die("an echo that ends early");
	close(fd);
	return NULL;
}

static int ask_all(int clients)
{
	pthread_t *thread = calloc((size_t)clients, sizeof(*thread));

	for (long i = 0; i < clients; i++)
		if (pthread_create(&thread[i], NULL, ask, (void *)(intptr_t)i))
			die("pthread_create");
	for (int i = 0; i < clients; i++)
		pthread_join(thread[i], NULL);
	free(thread);
	puts("all came back");
	return 0;
}

static int stall(int clients)
{
	char buf[65536] = {0};

	for (int i = 0; i < clients; i++) {
		int fd = connected();

		for (int k = 0; k < 100 && send(fd, buf, sizeof(buf), MSG_DONTWAIT) > 0; k++)
			usleep(1000);
	}
	puts("stalled");
	fflush(stdout);
	pause();
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	at = (struct sockaddr_in){.sin_family = AF_INET,
				  .sin_port = htons((uint16_t)atoi(argv[3]))};
	inet_pton(AF_INET, argv[2], &at.sin_addr);
	if (!strcmp(argv[1], "serve"))
		return serve(atoi(argv[4]));
	return (strcmp(argv[1], "ask") ? stall : ask_all)(atoi(argv[4]));
}
