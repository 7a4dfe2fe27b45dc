/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What ICMP says of packets to queue pairs of slot 0. The kernel keeps such messages, with what
 * they quote of the packet, for the socket that sent it; and tells the next send of them, which
 * fails for a packet that has nothing to do with it: udp_tx.c sends that again.
 */
#include "port/udp/udp_priv.h" /* first, for what <linux/errqueue.h> lacks */

#include <errno.h>
#include <linux/errqueue.h>
#include <string.h>

int udp_port_hear_refusals(struct port *port)
{
	struct udp_port *p = udp_port_of(port);
	struct udp_tx_socket *s = &p->tx.sock[0][0]; /* the only one of the slot from now on */
	int fd = s->fd, one = 1;

	if (fd < 0)
		fd = udp_tx_socket_open(p->family, &s->sport);
	if (fd < 0)
		return fd;
	s->fd = fd;
	if (setsockopt(fd, IPPROTO_IP, IP_RECVERR, &one, sizeof(one)) < 0 ||
	    (p->family == AF_INET6 &&
	     setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &one, sizeof(one)) < 0))
		return -errno;
	p->hears_refusals = true;
	return fd;
}

/* Did the packet not get there, and not only by its length? */
static bool is_refusal(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		const struct sock_extended_err *e = (const void *)CMSG_DATA(c);

		if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) ||
		    (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR))
			return e->ee_origin != SO_EE_ORIGIN_LOCAL && e->ee_errno != EMSGSIZE;
	}
	return false;
}

bool udp_port_refusal(struct port *port, struct udp_refusal *ret)
{
	struct udp_port *p = udp_port_of(port);
	_Alignas(struct cmsghdr) uint8_t control[256];
	union udp_addr to;
	struct iovec iov = {ret->quoted, sizeof(ret->quoted)};
	struct msghdr m = {.msg_name = &to, .msg_iov = &iov, .msg_iovlen = 1};
	uint16_t sport;
	ssize_t n;

	do {
		m.msg_namelen = sizeof(to);
		m.msg_control = control;
		m.msg_controllen = sizeof(control);
		n = recvmsg(p->tx.sock[0][0].fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT);
		if (n < 0)
			return false;
	} while (!is_refusal(&m));
	ret->len = (size_t)n;
	udp_gid_of(&ret->to, &to, &sport);
	return true;
}
