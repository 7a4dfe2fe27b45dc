/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/fd_msg.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/stranger_fd.h"

#define FDS_MAX	   253	/* SCM_MAX_FD */
#define UNREAD_MAX 1024 /* a queue of a UNIX socket holds fewer */

int fd_msg_send(int sock, const void *msg, size_t len, int flags, int fd)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {(void *)msg, len};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
	}
	return sendmsg(sock, &m, flags | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

ssize_t fd_msg_recv(int sock, void *msg, size_t room, int flags, int *ret_fd)
{
	/* Room for as many as can come: what has no room the kernel closes, for however long that
	 * takes. */
	union {
		char room[CMSG_SPACE(FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {msg, room};
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg(sock, &m, flags | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c;
	size_t count = 0;
	int fd[FDS_MAX];

	*ret_fd = -1;
	if (n < 0)
		return -errno;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	if (count)
		memcpy(fd, CMSG_DATA(c), count * sizeof(int));
	if (count == 1) {
		*ret_fd = fd[0];
		return n;
	}
	for (size_t i = 0; i < count; i++)
		stranger_close(fd[i]);
	if (!count && m.msg_flags & MSG_CTRUNC)
		return -EMFILE; /* one came, and we have no place for it */
	return count ? -EPROTO : n;
}

void fd_msg_hang_up(int sock)
{
	char byte;
	int fd;

	/* Nothing more comes, and what has come is not left for the kernel to close. */
	(void)shutdown(sock, SHUT_RDWR);
	for (int i = 0; i < UNREAD_MAX; i++) {
		ssize_t n = fd_msg_recv(sock, &byte, 1, MSG_DONTWAIT, &fd);

		if (fd >= 0)
			stranger_close(fd);
		else if (n == 0 || n == -EAGAIN)
			break;
	}
	close(sock);
}
