/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Threads of applications are cancelled (pthreads(7)), and what the C library offers of system
 * calls are points of cancellation: one that ends there takes the locks it holds along. Hence
 * under a lock calls are made so.
 */
#ifndef WEFT_BASE_UNCANCELLED_H
#define WEFT_BASE_UNCANCELLED_H

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* write(2), on paths where setting the thread's state twice would be felt. */
static inline ssize_t uncancelled_write(int fd, const void *data, size_t len)
{
	return syscall(SYS_write, fd, data, len);
}

/* Whatever stands between these two. */
static inline int uncancelled_begin(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void uncancelled_end(int before)
{
	pthread_setcancelstate(before, &before);
}

#endif
