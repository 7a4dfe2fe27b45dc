/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the raw reference programs share: sockets over loopback with the options that port/udp and
 * port/tcp have (non-blocking; dual stack, as large a buffer as may be had; TCP_NODELAY), a clock,
 * ending on error.
 */
#ifndef WEFT_BENCH_RAW_BENCH_H
#define WEFT_BENCH_RAW_BENCH_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static inline void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Bound to loopback (IPv4, mapped); *ret_addr is where it is reached. */
static inline int udp_socket(struct sockaddr_in6 *ret_addr)
{
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK, 0), off = 0, bytes = 8 << 20;
	socklen_t len = sizeof(*ret_addr);

	if (fd < 0 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)))
		die("UDP socket");
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)))
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	memset(ret_addr, 0, sizeof(*ret_addr));
	ret_addr->sin6_family = AF_INET6;
	inet_pton(AF_INET6, "::ffff:127.0.0.1", &ret_addr->sin6_addr);
	if (bind(fd, (struct sockaddr *)ret_addr, sizeof(*ret_addr)) ||
	    getsockname(fd, (struct sockaddr *)ret_addr, &len))
		die("binding to loopback");
	return fd;
}

/* Two that are connected. */
static inline void tcp_sockets(int *ret_near, int *ret_far)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int door = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	socklen_t len = sizeof(a);

	*ret_near = socket(AF_INET, SOCK_STREAM, 0);
	if (door < 0 || *ret_near < 0 || bind(door, (struct sockaddr *)&a, len) ||
	    getsockname(door, (struct sockaddr *)&a, &len) || listen(door, 1) ||
	    connect(*ret_near, (struct sockaddr *)&a, len) ||
	    (*ret_far = accept(door, NULL, NULL)) < 0)
		die("TCP sockets");
	close(door);
	for (int i = 0; i < 2; i++) {
		int fd = i ? *ret_far : *ret_near;

		if (fcntl(fd, F_SETFL, O_NONBLOCK) ||
		    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
			die("TCP socket");
	}
}

static inline double cpu_seconds(int whose)
{
	struct rusage u;

	if (getrusage(whose, &u))
		die("getrusage");
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* By the word for how two sides wait: "poll" leaves the sockets as they are, "sleep" has them
 * block. False: it is neither. */
static inline bool waits_by(const char *how, int near, int far)
{
	if (!strcmp(how, "poll"))
		return true;
	if (strcmp(how, "sleep"))
		return false;
	if (fcntl(near, F_SETFL, 0) || fcntl(far, F_SETFL, 0))
		die("fcntl");
	return true;
}

#endif
