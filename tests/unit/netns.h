/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A test program of its own network namespace, with port 4791 and a broker of its own: call
 * netns_enter() first in main(). Works as root and, where user namespaces are allowed, as anybody.
 */
#ifndef WEFT_TESTS_NETNS_H
#define WEFT_TESTS_NETNS_H

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Leaves the program with status 77 where no namespace can be had. Not after threads started. */
static inline void netns_enter(void)
{
	struct ifreq lo = {.ifr_name = "lo"};
	uid_t uid = geteuid();
	int fd;

	if (unshare(CLONE_NEWNET) < 0) {
		char map[64];

		if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) {
			puts("SKIP: no right to make a network namespace here");
			exit(77);
		}
		fd = open("/proc/self/uid_map", O_WRONLY);
		snprintf(map, sizeof(map), "%u %u 1", uid, uid);
		if (fd < 0 || write(fd, map, strlen(map)) < 0)
			perror("uid_map");
		close(fd);
	}
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	lo.ifr_flags = IFF_UP | IFF_RUNNING;
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo) < 0) {
		perror("lo");
		exit(1);
	}
	close(fd);
}

#endif
