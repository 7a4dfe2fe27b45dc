/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "doctor/dcb.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/kernel_socket.h"

#define ANSWER_MAX 16384
/* The kernel says of what is nested that it is, or not, by its age. */
#define TYPE(a) ((a)->rta_type & ~(NLA_F_NESTED | NLA_F_NET_BYTEORDER))

/* Calls see for each attribute in len bytes from at on. */
static void each(struct dcb *d, const void *at, size_t len,
		 void (*see)(struct dcb *, unsigned type, const void *data, size_t len))
{
	int left = (int)len;

	for (const struct rtattr *a = at; RTA_OK(a, left); a = RTA_NEXT(a, left))
		see(d, TYPE(a), RTA_DATA(a), RTA_PAYLOAD(a));
}

static void see_app(struct dcb *d, unsigned type, const void *data, size_t len)
{
	struct dcb_app app;

	if (type != DCB_ATTR_IEEE_APP || len < sizeof(app))
		return;
	memcpy(&app, data, sizeof(app));
	if (app.selector != IEEE_8021QAZ_APP_SEL_DSCP || app.protocol >= DCB_DSCPS ||
	    app.priority >= DCB_PRIORITIES)
		return;
	d->has_dscp = true;
	d->dscp_priority[app.protocol] = app.priority;
}

static void see_ieee(struct dcb *d, unsigned type, const void *data, size_t len)
{
	switch (type) {
	case DCB_ATTR_IEEE_PFC:
		d->has_pfc = len >= sizeof(d->pfc);
		memcpy(&d->pfc, data, min_of(len, sizeof(d->pfc)));
		break;
	case DCB_ATTR_IEEE_ETS:
		d->has_ets = len >= sizeof(d->ets);
		memcpy(&d->ets, data, min_of(len, sizeof(d->ets)));
		break;
	case DCB_ATTR_IEEE_APP_TABLE:
		each(d, data, len, see_app);
		break;
	default:
		break;
	}
}

static void see_top(struct dcb *d, unsigned type, const void *data, size_t len)
{
	if (type == DCB_ATTR_IEEE)
		each(d, data, len, see_ieee);
}

bool dcb_decode(struct dcb *d, const void *message, size_t len)
{
	const struct nlmsghdr *h = message;
	size_t head = NLMSG_LENGTH(sizeof(struct dcbmsg));

	*d = (struct dcb){0};
	memset(d->dscp_priority, DCB_NO_PRIORITY, sizeof(d->dscp_priority));
	if (!NLMSG_OK(h, len))
		return false;
	if (h->nlmsg_type == NLMSG_ERROR && h->nlmsg_len >= NLMSG_LENGTH(sizeof(int))) {
		memcpy(&d->rc, NLMSG_DATA(h), sizeof(d->rc));
		return d->rc != 0;
	}
	if (h->nlmsg_type != RTM_GETDCB || h->nlmsg_len < head)
		return false;
	head = NLMSG_ALIGN(head);
	each(d, (const char *)message + head, h->nlmsg_len - head, see_top);
	return true;
}

void dcb_read(struct dcb *ret, const char *ifname)
{
	struct {
		struct nlmsghdr h;
		struct dcbmsg dcb;
		struct rtattr a;
		char name[16];
	} req = {
		.h = {.nlmsg_len = sizeof(req),
		      .nlmsg_type = RTM_GETDCB,
		      .nlmsg_flags = NLM_F_REQUEST},
		.dcb = {.dcb_family = AF_UNSPEC, .cmd = DCB_CMD_IEEE_GET},
		.a = {.rta_len = RTA_LENGTH(sizeof(req.name)), .rta_type = DCB_ATTR_IFNAME},
	};
	_Alignas(struct nlmsghdr) char answer[ANSWER_MAX];
	int fd = kernel_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	ssize_t n = -1;

	*ret = (struct dcb){.rc = -errno};
	if (fd < 0)
		return;
	snprintf(req.name, sizeof(req.name), "%s", ifname);
	if (send(fd, &req, sizeof(req), 0) == sizeof(req))
		n = recv(fd, answer, sizeof(answer), 0);
	if (n < 0)
		ret->rc = -errno;
	else if (!dcb_decode(ret, answer, (size_t)n))
		ret->rc = -EBADMSG;
	close(fd);
}

uint8_t dcb_roce_priority(const struct dcb *d)
{
	uint8_t p = d->has_dscp ? d->dscp_priority[ROCE_DSCP] : DCB_NO_PRIORITY;

	return p == DCB_NO_PRIORITY ? ROCE_PRIORITY : p;
}
