/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/udp/udp_port.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/kernel_socket.h"
#include "port/counters.h"
#include "port/udp/udp_priv.h"

static void rx_init(struct udp_port *p)
{
	for (size_t i = 0; i < UDP_RX_BATCH; i++) {
		struct udp_rx_slot *s = &p->rx.slot[i];

		s->iov = (struct iovec){p->rx.buf + i * UDP_RX_STRIDE, UDP_RX_BUF};
		p->rx.msg[i].msg_hdr = (struct msghdr){
			.msg_name = &s->from,
			.msg_iov = &s->iov,
			.msg_iovlen = 1,
			.msg_control = s->control,
		};
	}
	p->rx.used = UDP_RX_BATCH;
	p->rx.want = 1;
}

void udp_gid_of(struct gid *g, const union udp_addr *a, uint16_t *ret_port)
{
	if (a->sa.sa_family == AF_INET6) {
		memcpy(g->raw, &a->in6.sin6_addr, 16);
		*ret_port = ntohs(a->in6.sin6_port);
	} else {
		*g = (struct gid){.raw = {[10] = 0xff, [11] = 0xff}};
		memcpy(g->raw + 12, &a->in.sin_addr, 4);
		*ret_port = ntohs(a->in.sin_port);
	}
}

/* Reads the ancillary data of one datagram. False if it lacks the destination. */
static bool read_control(struct msghdr *m, struct flow *f, size_t *ret_segment)
{
	bool have_dst = false;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		const void *d = CMSG_DATA(c);
		int v;

		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			const struct in6_pktinfo *i = d;

			memcpy(f->dgid.raw, &i->ipi6_addr, 16);
			/* For a packet to ourselves that is not loopback, but the address's own. */
			if (gid_is_link_local(&f->sgid) || gid_is_link_local(&f->dgid) ||
			    gid_is_multicast(&f->dgid))
				f->scope = (uint32_t)i->ipi6_ifindex;
			have_dst = true;
		} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			const struct in_pktinfo *i = d;

			f->dgid = (struct gid){.raw = {[10] = 0xff, [11] = 0xff}};
			memcpy(f->dgid.raw + 12, &i->ipi_addr, 4);
			if (gid_is_multicast(&f->dgid))
				f->scope = (uint32_t)i->ipi_ifindex;
			have_dst = true;
		} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
			f->tos = *(const uint8_t *)d;
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
			memcpy(&v, d, sizeof(v));
			f->tos = (uint8_t)v;
		} else if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL) ||
			   (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_HOPLIMIT)) {
			memcpy(&v, d, sizeof(v));
			f->ttl = (uint8_t)v;
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_FLOWINFO) {
			f->flow_label = ld_be32(d) & 0xfffff;
		} else if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
			memcpy(&v, d, sizeof(v));
			*ret_segment = (size_t)v;
		}
	}
	return have_dst;
}

/* Cuts a received datagram into its packets, checks each, and hands on the good ones. */
static int rx_datagram(struct udp_port *p, size_t index, uint64_t now, port_take *take, void *ctx)
{
	struct mmsghdr *m = &p->rx.msg[index];
	const uint8_t *data = p->rx.slot[index].iov.iov_base;
	size_t left = m->msg_len, segment = 0;
	struct packet_rx r = {0};
	int n = 0;

	udp_gid_of(&r.flow.sgid, &p->rx.slot[index].from, &r.flow.sport);
	if (!read_control(&m->msg_hdr, &r.flow, &segment) || left == 0) {
		p->port.counters->rx_short++;
		return 1;
	}
	if (segment == 0)
		segment = left;
	for (bool several = left > segment; left; n++) {
		size_t len = min_of(left, segment);
		struct ip_id_found from;

		if (len == PORT_DOORBELL_LEN) {
			; /* whoever it was for is awake */
		} else if (len < BTH_LEN + ICRC_LEN) {
			p->port.counters->rx_short++;
		} else if (!ip_id_check(&p->rx.ids, &r.flow, data, len, several ? n : -1, now,
					&from)) {
			p->port.counters->rx_icrc_bad++;
		} else {
			r.data = data;
			r.len = len - ICRC_LEN;
			r.ip_id = from.id;
			r.icrc = ld_le32(data + r.len);
			if (take(ctx, &r))
				ip_id_accept(&p->rx.ids, &from, now);
		}
		data += len;
		left -= len;
	}
	p->port.counters->rx_packets += (uint64_t)n;
	return n;
}

static int udp_port_rx(struct port *port, uint64_t now, port_take *take, void *ctx)
{
	struct udp_port *p = udp_port_of(port);
	int got, packets = 0;

	for (size_t i = 0; i < p->rx.used; i++) {
		struct msghdr *m = &p->rx.msg[i].msg_hdr;

		m->msg_namelen = sizeof(p->rx.slot[i].from);
		m->msg_controllen = sizeof(p->rx.slot[i].control);
	}
	p->rx.used = 0;
	got = kernel_recvmmsg(port->fd, p->rx.msg, (unsigned)p->rx.want);
	if (got < 0) {
		p->rx.want = 1;
		switch (got) {
		case -EBADF:
		case -ENOTSOCK:
		case -EFAULT:
		case -EINVAL:
			return got;
		default: /* nothing waits, or a condition that passes */
			return 0;
		}
	}
	p->rx.used = (size_t)got;
	p->rx.want =
		p->rx.used < p->rx.want ? p->rx.used : min_of(p->rx.want * 2, (size_t)UDP_RX_BATCH);
	p->port.counters->rx_batches++;
	for (size_t i = 0; i < (size_t)got; i++)
		packets += rx_datagram(p, i, now, take, ctx);
	return packets;
}

/* RoCEv1 has no UDP. */
static bool udp_port_reaches(const struct port *port, const struct flow *f)
{
	(void)port;
	return !f->rocev1;
}

static void udp_port_forked(struct port *port)
{
	udp_tx_close(udp_port_of(port));
	if (port->fd >= 0)
		close(port->fd);
	port->fd = -1;
}

static void udp_port_destroy(struct port *port)
{
	struct udp_port *p = udp_port_of(port);

	udp_port_forked(port);
	sight_release(port->counters);
	free(p->rx.buf);
	free(p);
}

static void udp_port_want_headers(struct port *port)
{
	if (port->fd >= 0)
		udp_socket_want_headers(port->fd, udp_port_of(port)->family);
}

static const struct port_ops udp_ops = {
	.rx = udp_port_rx,
	.tx = udp_port_tx,
	.reaches = udp_port_reaches,
	.want_headers = udp_port_want_headers,
	.forked = udp_port_forked,
	.destroy = udp_port_destroy,
};

int udp_port_create(struct port **ret, int fd)
{
	struct udp_port *p = calloc(1, sizeof(*p));
	struct port_counters *counters;
	socklen_t len = sizeof(int);
	int rc, room = 0;

	if (!p)
		return -ENOMEM;
	p->rx.buf = malloc((size_t)UDP_RX_BATCH * UDP_RX_STRIDE);
	if (!p->rx.buf) {
		rc = -ENOMEM;
		goto fail;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &p->family, &len) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, &len) < 0) {
		rc = -errno;
		goto fail;
	}
	counters = port_counters_take("port");
	if (!counters) {
		rc = -ENOMEM;
		goto fail;
	}
	p->port = (struct port){&udp_ops, fd, (size_t)room, counters};
	rx_init(p);
	udp_tx_init(p);
	*ret = &p->port;
	return 0;
fail:
	free(p->rx.buf);
	free(p);
	return rc;
}
