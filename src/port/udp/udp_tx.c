/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sending. Consecutive packets of one flow and one length (the last may be shorter) become one
 * message of sendmmsg with UDP_SEGMENT: the stack carries them as one and cuts them as late as it
 * can, over loopback never. Headers, payload in place and ICRC go down as an iovec.
 *
 * Source ports. A receiving host's GRO joins packets of equal addresses and ports into one, which
 * goes where the first belongs; but where a packet belongs is said by its destination's slot. So
 * packets to different slots must differ in their source port: there is a sending socket per
 * destination slot, opened when first used, each on a port of its own. (That also spreads the
 * slots over the receiver's queues.) The ICRC covers the port, hence flow->sport is not looked at.
 *
 * Classes. Traffic class and priority are the socket's: of a packet alone Linux takes the latter
 * since 6.14, and over IPv4 derives it from the TOS otherwise, not as RoCE does. So each class that
 * is sent to a slot has a socket, up to a few; what more there are share the last.
 *
 * Segmentation. Some ways cannot segment (IPsec, for one): the first super-packet is refused, and
 * its packets go one by one, as do all that follow by that socket, and nobody else's.
 *
 * Identification. The k-th piece of a cut super-packet gets identification k; a single packet 0.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/kernel_socket.h"
#include "port/udp/udp_priv.h"
#include "wire/icrc.h"

enum { REFUSED_TRIES = 3 };

void udp_tx_init(struct udp_port *p)
{
	socklen_t len = sizeof(int);
	int v;

	for (size_t i = 0; i < ARRAY_SIZE(p->tx.sock); i++)
		for (size_t k = 0; k < UDP_TX_CLASSES; k++)
			p->tx.sock[i][k].fd = -1;
	p->tx.own = (struct udp_tx_socket){.fd = p->port.fd, .sport = udp_socket_port(p->port.fd)};
	p->tx.labels = true;
	/* An older kernel ignores the ancillary data and would send one long datagram: ask. */
	p->gso = getsockopt(p->port.fd, SOL_UDP, UDP_SEGMENT, &v, &len) == 0;
}

void udp_tx_close(struct udp_port *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(p->tx.sock); i++) {
		for (size_t k = 0; k < UDP_TX_CLASSES; k++) {
			struct udp_tx_socket *s = &p->tx.sock[i][k];

			if (s->fd >= 0 && s->fd != p->port.fd)
				close(s->fd);
			s->fd = -1;
		}
	}
}

static uint8_t dst_slot(const struct packet_tx *t)
{
	return t->hdr[5]; /* bits 23:16 of the BTH's destination QPN */
}

static size_t packet_len(const struct packet_tx *t)
{
	return packet_tx_len(t) + ICRC_LEN;
}

/* Among those of the packet's slot the one of its class, another that is opened, or the last. */
static struct udp_tx_socket *find_socket(struct udp_port *p, const struct packet_tx *t)
{
	struct udp_tx_socket *first = p->tx.sock[dst_slot(t)], *s = first;
	/* What was refused is told by one socket. */
	struct udp_tx_socket *last = s + (p->hears_refusals ? 0 : UDP_TX_CLASSES - 1);

	while (s < last && s->fd >= 0 && s->fd != p->port.fd &&
	       (s->tos != t->flow->tos || s->priority != flow_priority(t->flow)))
		s++;
	if (s->fd < 0 && s > first && p->tx.further == UDP_TX_FURTHER)
		return s - 1;
	if (s->fd < 0) {
		s->fd = udp_tx_socket_open(p->family, &s->sport);
		s->tos = s->priority = 0;
		if (s->fd < 0 && s > first)
			return s - 1;
		if (s->fd < 0)
			s->fd = p->port.fd;
		p->tx.further += s > first;
	}
	return s->fd == p->port.fd ? &p->tx.own : s;
}

/* One for its slot, set to its class. */
static struct udp_tx_socket *socket_for(struct udp_port *p, const struct packet_tx *t)
{
	const uint8_t tos = t->flow->tos, priority = flow_priority(t->flow);
	struct udp_tx_socket *s = find_socket(p, t);

	if (s->tos != tos || s->priority != priority) {
		kernel_socket_class(s->fd, tos, priority);
		s->tos = tos;
		s->priority = priority;
	}
	return s;
}

static void put_control(struct msghdr *m, int level, int type, const void *data, size_t len)
{
	struct cmsghdr *c = (void *)((uint8_t *)m->msg_control + m->msg_controllen);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(c), data, len);
	m->msg_controllen += CMSG_SPACE(len);
}

static void address_v4(struct udp_port *p, struct udp_tx_msg *run, struct msghdr *m,
		       const struct flow *f)
{
	struct in_pktinfo src = {0};
	int v;

	if (p->family == AF_INET6) {
		run->to.in6 = (struct sockaddr_in6){.sin6_family = AF_INET6,
						    .sin6_port = htons(ROCEV2_UDP_PORT)};
		memcpy(&run->to.in6.sin6_addr, f->dgid.raw, 16);
		m->msg_namelen = sizeof(run->to.in6);
	} else {
		run->to.in = (struct sockaddr_in){.sin_family = AF_INET,
						  .sin_port = htons(ROCEV2_UDP_PORT)};
		memcpy(&run->to.in.sin_addr, f->dgid.raw + 12, 4);
		m->msg_namelen = sizeof(run->to.in);
	}
	memcpy(&src.ipi_spec_dst, f->sgid.raw + 12, 4);
	src.ipi_ifindex = (int)f->scope;
	put_control(m, IPPROTO_IP, IP_PKTINFO, &src, sizeof(src));
	if (f->ttl) {
		v = f->ttl;
		put_control(m, IPPROTO_IP, IP_TTL, &v, sizeof(v));
	}
}

static void address_v6(struct udp_port *p, struct udp_tx_msg *run, struct msghdr *m,
		       const struct flow *f)
{
	struct in6_pktinfo src = {0};
	int v;

	run->to.in6 =
		(struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(ROCEV2_UDP_PORT)};
	/* Where the address has none the kernel makes one of addresses and ports. */
	run->to.in6.sin6_flowinfo = p->tx.labels ? htonl(f->flow_label) : 0;
	memcpy(&run->to.in6.sin6_addr, f->dgid.raw, 16);
	m->msg_namelen = sizeof(run->to.in6);
	memcpy(&src.ipi6_addr, f->sgid.raw, 16);
	src.ipi6_ifindex = f->scope;
	run->to.in6.sin6_scope_id = f->scope;
	put_control(m, IPPROTO_IPV6, IPV6_PKTINFO, &src, sizeof(src));
	if (f->ttl) {
		v = f->ttl;
		put_control(m, IPPROTO_IPV6, IPV6_HOPLIMIT, &v, sizeof(v));
	}
}

/* By one socket? */
static bool same_socket(const struct packet_tx *a, const struct packet_tx *b)
{
	const struct flow *f = a->flow, *g = b->flow;

	return dst_slot(a) == dst_slot(b) &&
	       (f == g || (f->tos == g->tos && flow_priority(f) == flow_priority(g)));
}

/* In one message of it? */
static bool same_way(const struct packet_tx *a, const struct packet_tx *b)
{
	const struct flow *f = a->flow, *g = b->flow;

	return f == g || (gid_equal(&f->dgid, &g->dgid) && gid_equal(&f->sgid, &g->sgid) &&
			  f->ttl == g->ttl && f->scope == g->scope &&
			  (f->flow_label == g->flow_label || gid_is_ipv4(&f->dgid)));
}

/* How many packets from pkts on go into one message. */
static size_t run_length(const struct udp_port *p, const struct udp_tx_socket *s,
			 const struct packet_tx *pkts, size_t n)
{
	size_t segment = packet_len(pkts), bytes = segment, iovs = pkts->niov + 2u, count = 1;

	if (!p->gso || s->singly)
		return 1;
	n = min_of(n, (size_t)UDP_TX_SEGMENTS);
	while (count < n && same_way(pkts, &pkts[count])) {
		size_t len = packet_len(&pkts[count]);

		bytes += len;
		iovs += pkts[count].niov + 2u;
		if (len > segment || bytes > UDP_TX_BYTES || iovs > UDP_TX_IOVS)
			break;
		count++;
		if (len < segment)
			break;
	}
	return count;
}

/* For who wants to know what became of his packets. */
static void note_sent(struct udp_port *p, const struct packet_tx *t, struct packet_sent as)
{
	if (p->tx.ret_sent)
		p->tx.ret_sent[t - p->tx.pkts] = as;
}

static void note_unsent(struct udp_port *p, const struct packet_tx *pkts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		note_sent(p, &pkts[i], (struct packet_sent){0});
}

/* Appends bytes to the message, to its last piece where they continue it. */
static void put_bytes(struct udp_port *p, struct msghdr *m, const void *data, size_t len)
{
	if (m->msg_iovlen) {
		struct iovec *last = &m->msg_iov[m->msg_iovlen - 1];

		if ((uint8_t *)last->iov_base + last->iov_len == data) {
			last->iov_len += len;
			return;
		}
	}
	m->msg_iov[m->msg_iovlen++] = (struct iovec){(void *)data, len};
	p->tx.iovs++;
}

/*
 * Lays out one packet. Headers, pad and ICRC stand in the room beside, one packet's after the
 * other's, so that the end of one and the head of the next are one piece. A short payload is
 * copied there too: that is cheaper than a piece of its own. And so is what a peer READs: programs
 * write to such memory meanwhile, and rightly so, and the ICRC has to fit what is sent. Of what
 * this side has posted the memory is the RNIC's until it completes.
 */
static void put_packet(struct udp_port *p, struct msghdr *m, const struct packet_tx *t,
		       struct icrc headers, struct packet_sent as)
{
	uint8_t *room = p->tx.room + p->tx.room_used, *at = room;
	const uint16_t ip_id = gid_is_ipv4(&t->flow->dgid) ? as.ip_id : 0;
	struct icrc c;

	at = packet_tx_copy_hdr(at, t); /* each has more room than that */
	if (t->payload_len <= UDP_TX_COPY || opcode_table[t->hdr[0]].flags & OPF_READ_RESP) {
		for (size_t i = 0; i < t->niov; i++) {
			memcpy(at, t->iov[i].iov_base, t->iov[i].iov_len);
			at += t->iov[i].iov_len;
		}
		c = icrc_behind(headers, ip_id, room, (size_t)(at - room));
	} else {
		c = icrc_behind(headers, ip_id, room, t->hdr_len);
		put_bytes(p, m, room, t->hdr_len);
		for (size_t i = 0; i < t->niov; i++) {
			c = icrc_update(c, t->iov[i].iov_base, t->iov[i].iov_len);
			put_bytes(p, m, t->iov[i].iov_base, t->iov[i].iov_len);
		}
		room = at;
	}
	if (t->pad) {
		memset(at, 0, t->pad);
		c = icrc_update(c, at, t->pad);
		at += t->pad;
	}
	as.icrc = icrc_end(c);
	st_le32(at, as.icrc);
	at += ICRC_LEN;
	note_sent(p, t, as);
	put_bytes(p, m, room, (size_t)(at - room));
	p->tx.room_used = (size_t)(at - p->tx.room);
}

static void put_message(struct udp_port *p, const struct packet_tx *pkts, size_t first,
			size_t count, uint16_t sport)
{
	struct udp_tx_msg *run = &p->tx.run[p->tx.msgs];
	struct msghdr *m = &p->tx.msg[p->tx.msgs].msg_hdr;
	const struct flow *f = pkts[first].flow;
	struct flow wire = *f;
	struct icrc headers = {0};
	size_t len = 0;

	wire.sport = sport;
	run->first = first;
	run->count = count;
	run->unlabelled = false;
	*m = (struct msghdr){
		.msg_name = &run->to,
		.msg_iov = &p->tx.iov[p->tx.iovs],
		.msg_control = run->control,
	};
	for (size_t k = 0; k < count; k++) {
		const struct packet_tx *t = &pkts[first + k];

		if (len != packet_len(t)) {
			len = packet_len(t);
			headers = icrc_recall(&p->tx.headers, &wire, len);
		}
		put_packet(p, m, t, headers,
			   (struct packet_sent){.sport = sport, .ip_id = (uint16_t)k});
	}
	if (gid_is_ipv4(&f->dgid))
		address_v4(p, run, m, f);
	else
		address_v6(p, run, m, f);
	if (count > 1) {
		uint16_t segment = (uint16_t)packet_len(&pkts[first]);

		put_control(m, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment));
	}
	p->tx.msgs++;
}

static void reset(struct udp_port *p)
{
	p->tx.msgs = p->tx.iovs = p->tx.room_used = 0;
}

/* Sends the packets of a refused super-packet one by one. If they go, the way cannot segment, and
 * is not asked again. */
static size_t send_singly(struct udp_port *p, struct udp_tx_socket *s, const struct packet_tx *pkts,
			  const struct udp_tx_msg *run)
{
	size_t first = run->first, count = run->count, sent = 0;

	for (size_t k = 0; k < count; k++) {
		reset(p);
		put_message(p, pkts, first + k, 1, s->sport);
		if (kernel_sendmmsg(s->fd, p->tx.msg, 1) < 0) {
			p->port.counters->tx_refused++;
			note_unsent(p, pkts + first + k, 1);
		} else {
			sent++;
		}
	}
	if (sent == count)
		s->singly = true;
	return sent;
}

/* A kernel before 5.3 wants flow labels to be leased, and so do all where somebody has leased one
 * for himself alone. */
static bool without_label(struct udp_tx_msg *run)
{
	if (run->to.sa.sa_family != AF_INET6 || !run->to.in6.sin6_flowinfo)
		return false;
	run->to.in6.sin6_flowinfo = 0;
	run->unlabelled = true;
	return true;
}

/* Sends up to UDP_TX_BATCH packets by one socket; returns how many the kernel took. */
static size_t send_batch(struct udp_port *p, const struct packet_tx *pkts, size_t n)
{
	struct udp_tx_socket *s = socket_for(p, pkts);
	size_t done = 0, sent = 0;
	int tries = REFUSED_TRIES;

	reset(p);
	for (size_t i = 0; i < n;) {
		size_t count = run_length(p, s, &pkts[i], n - i);

		put_message(p, pkts, i, count, s->sport);
		i += count;
	}
	while (done < p->tx.msgs) {
		struct udp_tx_msg *run = &p->tx.run[done];
		int got = kernel_sendmmsg(s->fd, &p->tx.msg[done], (unsigned)(p->tx.msgs - done));

		p->port.counters->tx_batches++;
		for (; got > 0; got--) {
			if (p->tx.run[done].unlabelled)
				p->tx.labels = false; /* that was it */
			sent += p->tx.run[done++].count;
		}
		if (got == 0)
			continue;
		switch (got) {
		case -EINTR:
			continue;
		case -EAGAIN:
		case -ENOBUFS:
		case -ENOMEM: /* no room: the rest would find none either */
			p->port.counters->tx_would_block += n - run->first;
			note_unsent(p, pkts + run->first, n - run->first);
			return sent;
		case -EINVAL:
		case -EMSGSIZE:
		case -EIO:
			if (got == -EINVAL && without_label(run))
				continue;
			if (run->count > 1) {
				size_t next = run->first + run->count;

				sent += send_singly(p, s, pkts, run);
				/* The layout was overwritten: what is left begins anew. */
				return next < n ? sent + send_batch(p, pkts + next, n - next)
						: sent;
			}
			break;
		default: /* perhaps of another packet, see udp_refusals.c */
			if (p->hears_refusals && tries--)
				continue;
		}
		p->port.counters->tx_refused += run->count;
		note_unsent(p, pkts + run->first, run->count);
		done++;
	}
	return sent;
}

size_t udp_port_tx(struct port *port, const struct packet_tx *pkts, size_t n,
		   struct packet_sent *ret_sent)
{
	struct udp_port *p = udp_port_of(port);
	size_t sent = 0;

	p->tx.pkts = pkts;
	p->tx.ret_sent = ret_sent;
	if (port->fd < 0) {
		note_unsent(p, pkts, n);
		return 0;
	}
	while (n) {
		size_t count = 1, max = min_of(n, (size_t)UDP_TX_BATCH);

		while (count < max && same_socket(&pkts[count], pkts))
			count++;
		sent += send_batch(p, pkts, count);
		pkts += count;
		n -= count;
	}
	p->port.counters->tx_packets += sent;
	return sent;
}
