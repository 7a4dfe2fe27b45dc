/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/neigh.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/gid_sockaddr.h"

/* Whoever gets it has no use for it; it makes the kernel ask for the neighbour. */
#define PROBE_PORT 9

#define NUD_VALID (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY)

struct request {
	struct nlmsghdr h;
	union {
		struct rtmsg route;
		struct ndmsg neigh;
	};
	uint8_t attrs[96];
};

struct hop {
	uint8_t family;
	uint8_t addr[16];
	uint32_t ifindex;
	bool unicast;
};

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

/* The answer to r is in buf, or -errno. */
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

		return err ? err : -EPROTO;
	}
	return 0;
}

static int next_hop(int fd, const struct flow *f, struct hop *ret)
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

static bool link_has_neighbours(int fd, uint32_t ifindex)
{
	struct ifreq req = {0};

	req.ifr_ifindex = (int)ifindex;
	if (ioctl(fd, SIOCGIFNAME, &req) < 0 || ioctl(fd, SIOCGIFFLAGS, &req) < 0)
		return false;
	return !(req.ifr_flags & (IFF_NOARP | IFF_POINTOPOINT | IFF_LOOPBACK));
}

static int is_known(int fd, const struct hop *hop)
{
	struct request r = {
		.h = {.nlmsg_len = NLMSG_LENGTH(sizeof(r.neigh)),
		      .nlmsg_type = RTM_GETNEIGH,
		      .nlmsg_flags = NLM_F_REQUEST},
		.neigh = {.ndm_family = hop->family, .ndm_ifindex = (int)hop->ifindex},
	};
	_Alignas(struct nlmsghdr) uint8_t buf[4096];
	const struct ndmsg *m = NLMSG_DATA((struct nlmsghdr *)(void *)buf);
	int rc;

	put(&r, NDA_DST, hop->addr, hop->family == AF_INET ? 4 : 16);
	rc = ask(fd, &r, buf, sizeof(buf));
	if (rc == -ENOENT)
		return -EAGAIN;
	if (rc)
		return rc;
	return m->ndm_state & NUD_VALID ? 0 : -EAGAIN;
}

static void send_probe(const struct flow *f)
{
	struct sockaddr_storage at, to;
	socklen_t at_len = gid_to_sockaddr(&at, &f->sgid, f->scope, 0);
	socklen_t to_len = gid_to_sockaddr(&to, &f->dgid, f->scope, PROBE_PORT);
	int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return;
	/* If it cannot be sent, the neighbour stays unknown. */
	if (bind(fd, (struct sockaddr *)&at, at_len) == 0)
		(void)!sendto(fd, "", 0, MSG_NOSIGNAL, (struct sockaddr *)&to, to_len);
	close(fd);
}

int neigh_check(const struct flow *f, bool probe)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), rc;
	struct hop hop;

	if (fd < 0)
		return 0;
	rc = next_hop(fd, f, &hop);
	if (rc == 0)
		rc = hop.unicast && link_has_neighbours(fd, hop.ifindex) ? is_known(fd, &hop) : 0;
	close(fd);
	if (rc != -EAGAIN)
		return 0;
	if (probe)
		send_probe(f);
	return -EAGAIN;
}
