/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Descriptors that are in an epoll set. */
#ifndef WEFT_BASE_WATCHED_H
#define WEFT_BASE_WATCHED_H

#include <sys/epoll.h>
#include <unistd.h>

/*
 * close() alone takes a descriptor out of the set only if nobody else has the same socket: a child
 * that is about to become a broker has it for a moment, and who handed it over has it for good.
 * Then epoll would go on telling of it, by a pointer that means nothing any more. Of one that is in
 * no set it is close().
 */
static inline void watched_close(int epoll_fd, int fd)
{
	(void)epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	close(fd);
}

#endif
