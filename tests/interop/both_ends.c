/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "both_ends.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct sockaddr_in at = {.sin_family = AF_INET};

void die(const char *what, int line)
{
	fprintf(stderr, "line %d: %s: %s\n", line, what, strerror(errno));
	_exit(1);
}

static void *accept_one(void *arg)
{
	const int listener = *(int *)arg;
	int *ret = arg;

	*ret = accept(listener, NULL, NULL);
	check(*ret >= 0);
	close(listener);
	return NULL;
}

void connect_pair(int *a, int *b)
{
	socklen_t len = sizeof(at);
	pthread_t thread;
	int conn;

	at.sin_port = 0;
	*b = socket(AF_INET, SOCK_STREAM, 0);
	check(!bind(*b, (struct sockaddr *)&at, sizeof(at)));
	check(!listen(*b, 1) && !getsockname(*b, (struct sockaddr *)&at, &len));
	check(!pthread_create(&thread, NULL, accept_one, b));
	conn = socket(AF_INET, SOCK_STREAM, 0);
	check(!connect(conn, (struct sockaddr *)&at, sizeof(at)));
	pthread_join(thread, NULL);
	*a = conn;
}

bool readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

void comes(int fd, const char *text)
{
	char got[64] = "";
	size_t n = 0;

	while (n < strlen(text)) {
		check(readable(fd, PATIENCE_MS));
		ssize_t more = read(fd, got + n, strlen(text) - n);
		check(more > 0);
		n += (size_t)more;
	}
	check(!strcmp(got, text));
}

void ends(int fd)
{
	char c;

	check(readable(fd, PATIENCE_MS));
	check(read(fd, &c, 1) == 0);
}

void send_text(int fd, const char *text)
{
	check(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

int both_ends_main(int argc, char **argv, const struct both_ends_case *cases, size_t n)
{
	for (size_t i = 0; argc == 2 && i < n; i++)
		puts(cases[i].name);
	if (argc != 3 || inet_pton(AF_INET, argv[1], &at.sin_addr) != 1)
		return argc != 2;
	alarm(30);
	for (size_t i = 0; i < n; i++) {
		if (strcmp(cases[i].name, argv[2]))
			continue;
		cases[i].run();
		puts("ok");
		return 0;
	}
	return 2;
}
