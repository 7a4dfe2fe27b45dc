/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/reflector.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/pace.h"
#include "base/time.h"
#include "broker/answer_from.h"
#include "wire/flow.h"
#include "wire/path_probe.h"

#define AT_ONCE 64 /* then others have their turn */
/* Whoever asks in another's name has him answered. */
#define ANSWERS_PER_SEC 1000
#define BURST		200

union address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

static in_port_t port_of(const union address *a)
{
	return ntohs(a->sa.sa_family == AF_INET6 ? a->in6.sin6_port : a->in.sin_port);
}

/* What was received says in which class, and by which interface. */
static void look_into(struct msghdr *m, uint8_t *ret_tos, int *ret_ifindex)
{
	*ret_tos = 0;
	*ret_ifindex = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		const void *data = CMSG_DATA(c);
		int tclass;

		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
			*ret_tos = *(const uint8_t *)data;
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
			memcpy(&tclass, data, sizeof(tclass));
			*ret_tos = (uint8_t)tclass;
		} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			*ret_ifindex = ((const struct in_pktinfo *)data)->ipi_ifindex;
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			*ret_ifindex = (int)((const struct in6_pktinfo *)data)->ipi6_ifindex;
		}
	}
}

/* The class that the answer is to have, behind what answer_from() has left. */
static void answer_by(struct msghdr *m, size_t room, const union address *to, uint8_t tos)
{
	bool six = to->sa.sa_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(&to->in6.sin6_addr);
	struct cmsghdr *c = (void *)((char *)m->msg_control + m->msg_controllen);
	int value = tos;

	if (m->msg_controllen + CMSG_SPACE(sizeof(value)) > room)
		return;
	*c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(value)),
			      .cmsg_level = six ? IPPROTO_IPV6 : IPPROTO_IP,
			      .cmsg_type = six ? IPV6_TCLASS : IP_TOS};
	memcpy(CMSG_DATA(c), &value, sizeof(value));
	m->msg_controllen += CMSG_SPACE(sizeof(value));
}

static struct path_probe_told told_of(int fd, int ifindex)
{
	struct ifreq req = {0};
	int room = 0;
	socklen_t len = sizeof(room);
	struct path_probe_told t = {0};

	if (if_indextoname((unsigned)ifindex, req.ifr_name) && ioctl(fd, SIOCGIFMTU, &req) == 0)
		t.mtu = (uint32_t)req.ifr_mtu;
	if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, &len) == 0)
		t.room = (uint32_t)room;
	return t;
}

/* False: there is nothing more. */
static bool serve_one(int fd)
{
	uint8_t buf[PATH_PROBE_MAX];
	_Alignas(struct cmsghdr) uint8_t control[256];
	union address from;
	struct iovec iov = {buf, sizeof(buf)};
	struct msghdr m = {.msg_name = &from,
			   .msg_namelen = sizeof(from),
			   .msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT);
	static struct pace pace;
	struct path_probe p;
	uint8_t tos, asked;
	int ifindex;

	if (n < 0)
		return errno == EINTR;
	/* Not to port 4791, where answers are of use to nobody. */
	if (m.msg_flags & MSG_TRUNC || !path_probe_decode(&p, buf, (size_t)n) ||
	    p.kind != PATH_PROBE_ASK || port_of(&from) == ROCEV2_UDP_PORT)
		return true;
	if (!pace_take(&pace, time_now_ns(), ANSWERS_PER_SEC, BURST))
		return true;
	look_into(&m, &tos, &ifindex);
	asked = p.tos;
	p.kind = PATH_PROBE_ANSWER;
	p.tos = p.more ? tos : 0;
	path_probe_encode(&p, buf);
	if (p.more && n >= PATH_PROBE_TOLD) {
		struct path_probe_told t = told_of(fd, ifindex);

		path_probe_tell(&t, buf);
	}
	answer_from(&m);
	if (p.more)
		answer_by(&m, sizeof(control), &from, asked);
	m.msg_flags = 0;
	iov.iov_len = (size_t)n;
	if (sendmsg(fd, &m, MSG_DONTWAIT) < 0 && errno == EMSGSIZE) {
		iov.iov_len = PATH_PROBE_LEN;
		(void)!sendmsg(fd, &m, MSG_DONTWAIT);
	}
	return true;
}

void reflector_serve(int fd)
{
	for (int i = 0; i < AT_ONCE && serve_one(fd); i++)
		;
}
