/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/hop/addresses.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

#define BUFFER_LEN 8192

bool address_of_message(const struct nlmsghdr *h, struct gid *ret)
{
	const struct ifaddrmsg *info = NLMSG_DATA(h);
	int left = (int)IFA_PAYLOAD(h);
	size_t want = info->ifa_family == AF_INET ? 4 : 16;
	uint32_t flags = info->ifa_flags;
	const void *local = NULL, *address = NULL;

	if (info->ifa_family != AF_INET && info->ifa_family != AF_INET6)
		return false;
	for (const struct rtattr *a = IFA_RTA(info); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		if (a->rta_type == IFA_LOCAL && RTA_PAYLOAD(a) == want)
			local = RTA_DATA(a);
		else if (a->rta_type == IFA_ADDRESS && RTA_PAYLOAD(a) == want)
			address = RTA_DATA(a);
		else if (a->rta_type == IFA_FLAGS && RTA_PAYLOAD(a) == sizeof(flags))
			memcpy(&flags, RTA_DATA(a), sizeof(flags));
	}
	/* On a point-to-point link the address is the peer's and the local one ours. */
	if (!local)
		local = address;
	if (!local || (flags & IFA_F_DADFAILED))
		return false;
	*ret = (struct gid){0};
	if (want == 4)
		ret->raw[10] = ret->raw[11] = 0xff;
	memcpy(ret->raw + 16 - want, local, want);
	return true;
}

static int ask_for_all(int fd)
{
	struct {
		struct nlmsghdr h;
		struct ifaddrmsg a;
	} req = {
		.h = {.nlmsg_len = sizeof(req),
		      .nlmsg_type = RTM_GETADDR,
		      .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.a = {.ifa_family = AF_UNSPEC},
	};

	return send(fd, &req, sizeof(req), 0) < 0 ? -errno : 0;
}

int addresses_each(int fd, void (*each)(void *ctx, const struct gid *, uint32_t ifindex), void *ctx)
{
	_Alignas(struct nlmsghdr) uint8_t buf[BUFFER_LEN];
	int rc = ask_for_all(fd);

	if (rc)
		return rc;
	for (;;) {
		ssize_t got = recv(fd, buf, sizeof(buf), 0);
		unsigned left = (unsigned)got;

		/* What is left of a dump would be taken for the next answer. */
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		for (const struct nlmsghdr *h = (void *)buf; NLMSG_OK(h, left);
		     h = NLMSG_NEXT(h, left)) {
			struct gid g;

			if (h->nlmsg_type == NLMSG_DONE)
				return 0;
			if (h->nlmsg_type == NLMSG_ERROR)
				return ((const struct nlmsgerr *)NLMSG_DATA(h))->error;
			if (h->nlmsg_type == RTM_NEWADDR && address_of_message(h, &g))
				each(ctx, &g, ((const struct ifaddrmsg *)NLMSG_DATA(h))->ifa_index);
		}
	}
}
