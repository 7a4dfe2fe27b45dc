/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/mark_table.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define REPLY_S 2

static void look(const struct nlmsghdr *h, void (*see)(void *ctx, uint32_t mark, ino_t), void *ctx)
{
	const struct inet_diag_msg *m = NLMSG_DATA(h);
	const struct nlattr *a = (const void *)(m + 1);
	size_t left = h->nlmsg_len - NLMSG_LENGTH(sizeof(*m));

	if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*m)))
		return;
	while (left >= sizeof(*a) && a->nla_len >= sizeof(*a) && a->nla_len <= left) {
		size_t step = NLMSG_ALIGN(a->nla_len);
		uint32_t mark;

		if (a->nla_type == INET_DIAG_MARK && a->nla_len >= NLA_HDRLEN + sizeof(mark)) {
			memcpy(&mark, (const char *)a + NLA_HDRLEN, sizeof(mark));
			if (mark)
				see(ctx, mark, m->idiag_inode);
		}
		if (step >= left)
			return;
		left -= step;
		a = (const void *)((const char *)a + step);
	}
}

/* 1: that was the last. */
static int take(int fd, void (*see)(void *ctx, uint32_t mark, ino_t), void *ctx)
{
	_Alignas(struct nlmsghdr) char room[32768];
	ssize_t n = recv(fd, room, sizeof(room), 0);

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (struct nlmsghdr *h = (void *)room; NLMSG_OK(h, (size_t)n); h = NLMSG_NEXT(h, n)) {
		if (h->nlmsg_type == NLMSG_DONE)
			return 1;
		if (h->nlmsg_type == NLMSG_ERROR) {
			const struct nlmsgerr *e = NLMSG_DATA(h);

			return e->error ? e->error : -EPROTO;
		}
		look(h, see, ctx);
	}
	return 0;
}

static int walk(int fd, uint8_t family, void (*see)(void *ctx, uint32_t mark, ino_t), void *ctx)
{
	const struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 r;
	} q = {
		.h = {.nlmsg_len = sizeof(q),
		      .nlmsg_type = SOCK_DIAG_BY_FAMILY,
		      .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.r = {.sdiag_family = family, .sdiag_protocol = IPPROTO_UDP, .idiag_states = ~0u},
	};
	int rc;

	if (send(fd, &q, sizeof(q), 0) < 0)
		return -errno;
	while ((rc = take(fd, see, ctx)) == 0)
		;
	return rc < 0 ? rc : 0;
}

int mark_table_walk(void (*see)(void *ctx, uint32_t mark, ino_t), void *ctx)
{
	const struct timeval patience = {.tv_sec = REPLY_S};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG), rc;

	if (fd < 0)
		return -errno;
	(void)!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	rc = walk(fd, AF_INET6, see, ctx);
	if (rc == 0)
		rc = walk(fd, AF_INET, see, ctx);
	close(fd);
	return rc;
}
