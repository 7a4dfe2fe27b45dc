/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the raw UDP reference programs share: sockets with the options that port/udp has (dual
 * stack, non-blocking, as large a buffer as may be had), a clock, ending on error.
 */
#ifndef WEFT_BENCH_UDP_BENCH_H
#define WEFT_BENCH_UDP_BENCH_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
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
