/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/hop/hop.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/kernel_socket.h"
#include "port/hop/gid_sockaddr.h"

#define PROBE_PORT 9 /* whoever gets what is sent there has no use for it */
#define NUD_VALID  (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY)

struct request {
	struct nlmsghdr h;
	union {
		struct rtmsg route;
		struct ndmsg neigh;
	};
	uint8_t attrs[96];
};

int hop_open(void)
{
	int fd = kernel_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	return fd < 0 ? -errno : fd;
}

static void put(struct request *r, uint16_t type, const void *data, size_t len)
{
	struct rtattr *a = (void *)((uint8_t *)r + NLMSG_ALIGN(r->h.nlmsg_len));

	a->rta_type = type;
	a->rta_len = (uint16_t)RTA_LENGTH(len);
	memcpy(RTA_DATA(a), data, len);
	r->h.nlmsg_len = NLMSG_ALIGN(r->h.nlmsg_len) + RTA_ALIGN(a->rta_len);
}

static void put_addr(struct request *r, uint16_t type, uint8_t family, const struct gid *g)
{
	size_t len = family == AF_INET ? 4 : 16;

	put(r, type, g->raw + 16 - len, len);
}

/* The answer to r is in buf, or -errno; -EALREADY: it is but that it was done. */
static int ask(int fd, const struct request *r, void *buf, size_t size)
{
	const struct nlmsghdr *h = buf;
	ssize_t got;

	if (send(fd, r, r->h.nlmsg_len, 0) < 0)
		return -errno;
	got = recv(fd, buf, size, 0);
	if (got < 0)
		return -errno;
	if (!NLMSG_OK(h, (size_t)got))
		return -EPROTO;
	if (h->nlmsg_type == NLMSG_ERROR) {
		int err = ((const struct nlmsgerr *)NLMSG_DATA(h))->error;

		return err ? err : -EALREADY;
	}
	return 0;
}

int hop_find(int fd, const struct flow *f, struct hop *ret)
{
	uint8_t family = gid_is_ipv4(&f->dgid) ? AF_INET : AF_INET6;
	struct request r = {
		.h = {.nlmsg_len = NLMSG_LENGTH(sizeof(r.route)),
		      .nlmsg_type = RTM_GETROUTE,
		      .nlmsg_flags = NLM_F_REQUEST},
		.route = {.rtm_family = family, .rtm_dst_len = family == AF_INET ? 32 : 128},
	};
	size_t len = family == AF_INET ? 4 : 16;
	_Alignas(struct nlmsghdr) uint8_t buf[4096];
	const struct nlmsghdr *h = (void *)buf;
	const struct rtmsg *m = NLMSG_DATA(h);
	int left, rc;

	put_addr(&r, RTA_DST, family, &f->dgid);
	put_addr(&r, RTA_SRC, family, &f->sgid);
	r.route.rtm_src_len = r.route.rtm_dst_len;
	if (f->scope)
		put(&r, RTA_OIF, &f->scope, sizeof(f->scope));
	rc = ask(fd, &r, buf, sizeof(buf));
	if (rc)
		return rc;
	*ret = (struct hop){.family = family, .unicast = m->rtm_type == RTN_UNICAST};
	memcpy(ret->addr, f->dgid.raw + 16 - len, len);
	left = (int)RTM_PAYLOAD(h);
	for (const struct rtattr *a = RTM_RTA(m); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		if (a->rta_type == RTA_GATEWAY && RTA_PAYLOAD(a) == len)
			memcpy(ret->addr, RTA_DATA(a), len);
		else if (a->rta_type == RTA_VIA)
			return -EOPNOTSUPP; /* a gateway of the other family */
		else if (a->rta_type == RTA_OIF && RTA_PAYLOAD(a) == sizeof(ret->ifindex))
			memcpy(&ret->ifindex, RTA_DATA(a), sizeof(ret->ifindex));
	}
	return 0;
}

static struct request about(const struct hop *hop, uint16_t type, uint16_t flags, uint8_t ndm_flags)
{
	struct request r = {
		.h = {.nlmsg_len = NLMSG_LENGTH(sizeof(r.neigh)),
		      .nlmsg_type = type,
		      .nlmsg_flags = NLM_F_REQUEST | flags},
		.neigh = {.ndm_family = hop->family,
			  .ndm_ifindex = (int)hop->ifindex,
			  .ndm_flags = ndm_flags},
	};

	put(&r, NDA_DST, hop->addr, hop->family == AF_INET ? 4 : 16);
	return r;
}

int hop_neighbour(int fd, const struct hop *hop, struct hop_neighbour *ret)
{
	struct request r = about(hop, RTM_GETNEIGH, 0, 0);
	_Alignas(struct nlmsghdr) uint8_t buf[4096];
	const struct nlmsghdr *h = (void *)buf;
	const struct ndmsg *m = NLMSG_DATA(h);
	int left, rc;

	rc = ask(fd, &r, buf, sizeof(buf));
	if (rc)
		return rc;
	*ret = (struct hop_neighbour){.state = m->ndm_state, .valid = m->ndm_state & NUD_VALID};
	left = (int)NLMSG_PAYLOAD(h, sizeof(*m));
	for (const struct rtattr *a = (const void *)((const uint8_t *)m + NLMSG_ALIGN(sizeof(*m)));
	     RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == NDA_LLADDR && RTA_PAYLOAD(a) == sizeof(ret->mac))
			memcpy(ret->mac, RTA_DATA(a), sizeof(ret->mac));
	return 0;
}

int hop_use(int fd, const struct hop *hop)
{
	struct request r = about(hop, RTM_NEWNEIGH, NLM_F_ACK | NLM_F_CREATE, NTF_USE);
	_Alignas(struct nlmsghdr) uint8_t buf[4096];
	int rc = ask(fd, &r, buf, sizeof(buf));

	return rc == -EALREADY ? 0 : rc;
}

void hop_probe(const struct flow *f)
{
	struct sockaddr_storage at, to;
	socklen_t at_len = gid_to_sockaddr(&at, &f->sgid, f->scope, 0);
	socklen_t to_len = gid_to_sockaddr(&to, &f->dgid, f->scope, PROBE_PORT);
	int fd = kernel_socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return;
	/* If it cannot be sent, the neighbour stays unknown. */
	if (bind(fd, (struct sockaddr *)&at, at_len) == 0)
		(void)!sendto(fd, "", 0, MSG_NOSIGNAL, (struct sockaddr *)&to, to_len);
	close(fd);
}
