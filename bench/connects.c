/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A connection for each request, as programs without a pool make them: connect, ask, hear, close.
 * The same program over TCP and, by `weft run --sockets`, over RDMA. Prints requests per second.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 100, ASKING_MAX = 64 };

static struct sockaddr_in to = {.sin_family = AF_INET};
static long requests;

static void die(const char *what)
{
	fprintf(stderr, "connects: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void must_read(int fd, char *buf)
{
	for (size_t got = 0; got < BYTES;) {
		ssize_t n = read(fd, buf + got, BYTES - got);

		if (n < 0)
			die("read");
		if (n == 0) {
			fprintf(stderr, "connects: the peer has closed\n");
			exit(1);
		}
		got += (size_t)n;
	}
}

static void must_write(int fd, const char *buf)
{
	if (write(fd, buf, BYTES) != BYTES)
		die("write");
}

static void serve(void)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	char buf[BYTES];

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&to, sizeof(to)) || listen(listener, 128))
		die("listen");
	puts("serving");
	fflush(stdout);
	for (;;) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			die("accept");
		must_read(fd, buf);
		must_write(fd, buf);
		close(fd);
	}
}

static void *ask(void *arg)
{
	char buf[BYTES] = {0}, rest;

	(void)arg;
	for (long i = 0; i < requests; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)))
			die("connect");
		must_write(fd, buf);
		must_read(fd, buf);
		if (read(fd, &rest, 1))
			die("no end");
		close(fd);
	}
	return NULL;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	long asking = argc > 5 ? strtol(argv[5], NULL, 10) : 1;
	pthread_t thread[ASKING_MAX];
	double begun;

	if (argc < 4 || !inet_aton(argv[2], &to.sin_addr) || asking < 1 || asking > ASKING_MAX)
		goto usage;
	to.sin_port = htons((uint16_t)strtoul(argv[3], NULL, 10));
	if (!strcmp(argv[1], "serve"))
		serve();
	if (strcmp(argv[1], "ask") || argc < 5)
		goto usage;
	requests = strtol(argv[4], NULL, 10) / asking;
	begun = now();
	for (long i = 0; i < asking; i++)
		if (pthread_create(&thread[i], NULL, ask, NULL))
			die("pthread_create");
	for (long i = 0; i < asking; i++)
		pthread_join(thread[i], NULL);
	printf("%.1f\n", (double)(requests * asking) / (now() - begun));
	return 0;
usage:
	fprintf(stderr, "usage: %s serve ADDRESS PORT | ask ADDRESS PORT REQUESTS [THREADS]\n",
		argv[0]);
	return 2;
}
