/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/name.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "broker/proto.h"

/* While descriptors of a process that ends by a signal close in ascending order, which Linux 6.18
 * no longer does, the name is free only after the port is with this one. */
#define LISTEN_FD_MIN 900
#define NAME_WAIT_NS  (5 * NSEC_PER_SEC)

socklen_t name_address(struct sockaddr_un *a)
{
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(a->sun_path + 1, BROKER_SOCKET_NAME, strlen(BROKER_SOCKET_NAME));
	return offsetof(struct sockaddr_un, sun_path) + 1 + strlen(BROKER_SOCKET_NAME);
}

bool name_is_trusted(uid_t uid)
{
	return uid == 0 || uid == geteuid();
}

/* Whether another listens at the name, and who. */
static bool another_listens(struct ucred *ret)
{
	struct sockaddr_un a;
	socklen_t len = name_address(&a), cred_len = sizeof(*ret);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool yes = fd >= 0 && (connect(fd, (struct sockaddr *)&a, len) == 0 || errno == EAGAIN);

	*ret = (struct ucred){0};
	if (yes)
		(void)!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &cred_len);
	if (fd >= 0)
		close(fd);
	return yes;
}

int name_take(int *ret_fd, struct ucred *ret_other)
{
	struct timespec pause = {.tv_nsec = 5 * NSEC_PER_MSEC};
	uint64_t until = time_now_ns() + NAME_WAIT_NS;
	struct sockaddr_un a;
	socklen_t len = name_address(&a);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	*ret_fd = fcntl(fd, F_DUPFD_CLOEXEC, LISTEN_FD_MIN);
	if (*ret_fd < 0)
		*ret_fd = fd; /* few descriptors allowed here */
	else
		close(fd);
	for (;;) {
		if (bind(*ret_fd, (struct sockaddr *)&a, len) == 0)
			return 0;
		if (errno != EADDRINUSE)
			return -errno;
		if (another_listens(ret_other))
			return -EEXIST;
		if (time_now_ns() > until)
			return -EADDRINUSE;
		nanosleep(&pause, NULL);
	}
}

void name_explain(int rc, const struct ucred *other, char *err, size_t err_len)
{
	if (rc == -EEXIST)
		snprintf(err, err_len,
			 "a broker of user %u serves this network namespace already: pid %d%s",
			 other->uid, other->pid,
			 name_is_trusted(other->uid)
				 ? ""
				 : "; it does not serve you, end its programs or work in a network "
				   "namespace of your own");
	else
		snprintf(err, err_len, "cannot listen at @%s: %s", BROKER_SOCKET_NAME,
			 strerror(-rc));
}
