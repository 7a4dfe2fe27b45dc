/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/stranger_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

#define HANGING_MAX 64

static atomic_uint hanging;

bool strangers_hang(void)
{
	return atomic_load(&hanging) >= HANGING_MAX;
}

bool stranger_is_pipe(int fd)
{
	char path[32], name[32] = {0};

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return fcntl(fd, F_GETPIPE_SZ) > 0 && readlink(path, name, sizeof(name) - 1) > 0 &&
	       !strncmp(name, "pipe:[", 6);
}

/* Of a protocol that has nothing to wait for once it does not linger. */
static bool is_quick_socket(int fd)
{
	const struct linger none = {0};
	socklen_t len = sizeof(int);
	int domain = 0;

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
	       (domain == AF_INET || domain == AF_INET6) &&
	       setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none)) == 0;
}

static void *close_slowly(void *arg)
{
	close((int)(intptr_t)arg);
	atomic_fetch_sub(&hanging, 1);
	return NULL;
}

void stranger_close(int fd)
{
	sigset_t all, old;
	pthread_t thread;
	int rc;

	if (stranger_is_pipe(fd) || is_quick_socket(fd)) {
		close(fd);
		return;
	}
	if (atomic_fetch_add(&hanging, 1) >= HANGING_MAX) {
		/* It stays open: rather one descriptor less than a broker that stands still. */
		atomic_fetch_sub(&hanging, 1);
		log_err("broker", "descriptors that others have sent cannot be closed");
		return;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&thread, NULL, close_slowly, (void *)(intptr_t)fd);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc == 0)
		pthread_detach(thread);
	else
		close_slowly((void *)(intptr_t)fd);
}
