/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/raw/raw_port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/errno_text.h"
#include "base/kernel_socket.h"
#include "base/time.h"
#include "port/counters.h"
#include "port/hop/hop.h"
#include "port/raw/l2_ways.h"
#include "port/raw/raw_socket.h"
#include "port/raw/v1_packet.h"

#define RX_BATCH 32
#define TX_BATCH 64
#define STRIDE	 (V1_PACKET_MAX + 8)

/* One frame of a batch. */
struct frame {
	struct sockaddr_ll at; /* whom from, or to */
	struct iovec iov;
	size_t packet; /* to send: which of the caller's it is */
	uint8_t b[STRIDE];
};

struct raw_port {
	struct port port; /* first */
	int hop_fd;
	struct own_addresses own;
	struct l2_ways ways;
	struct mmsghdr rx_msg[RX_BATCH], tx_msg[TX_BATCH];
	struct frame rx[RX_BATCH], tx[TX_BATCH];
};

static struct raw_port *raw_port_of(struct port *p)
{
	return (struct raw_port *)p;
}

static bool raw_reaches(const struct port *port, const struct flow *f)
{
	(void)port;
	return f->rocev1;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void lay_out(struct frame *r, const struct packet_tx *t, const struct l2_way *way,
		    struct packet_sent *ret_sent)
{
	const uint32_t icrc = v1_packet_put(r->b, t);

	r->iov.iov_len = v1_packet_len(t);
	r->at = (struct sockaddr_ll){.sll_family = AF_PACKET,
				     .sll_protocol = htons(V1_ETHERTYPE),
				     .sll_ifindex = (int)way->ifindex,
				     .sll_halen = sizeof(way->mac)};
	memcpy(r->at.sll_addr, way->mac, sizeof(way->mac));
	if (ret_sent)
		*ret_sent = (struct packet_sent){.sport = t->flow->sport, .icrc = icrc};
}

static size_t lay_out_all(struct raw_port *p, const struct packet_tx *pkts, size_t n,
			  struct packet_sent *ret_sent)
{
	const struct l2_way *way = NULL;
	const uint64_t now = time_now_ns();
	size_t frames = 0;

	for (size_t i = 0; i < n; i++) {
		struct frame *r = &p->tx[frames];

		if (!i || pkts[i].flow != pkts[i - 1].flow)
			way = l2_ways_find(&p->ways, pkts[i].flow, now);
		if (!way || v1_packet_len(&pkts[i]) > V1_PACKET_MAX) {
			p->port.counters->tx_refused++;
			continue;
		}
		lay_out(r, &pkts[i], way, ret_sent ? &ret_sent[i] : NULL);
		r->packet = i;
		frames++;
	}
	return frames;
}

static void note_unsent(const struct raw_port *p, size_t from, size_t to,
			struct packet_sent *ret_sent)
{
	for (size_t i = from; ret_sent && i < to; i++)
		ret_sent[p->tx[i].packet] = (struct packet_sent){0};
}

static size_t send_batch(struct raw_port *p, const struct packet_tx *pkts, size_t n,
			 struct packet_sent *ret_sent)
{
	const size_t frames = lay_out_all(p, pkts, n, ret_sent);
	struct port_counters *c = p->port.counters;
	size_t done = 0, sent = 0;

	while (done < frames) {
		int got = kernel_sendmmsg(p->port.fd, &p->tx_msg[done], (unsigned)(frames - done));

		c->tx_batches++;
		switch (got) {
		case -EINTR:
			continue;
		case -EAGAIN:
		case -ENOBUFS:
		case -ENOMEM: /* no room: the rest would find none either */
			c->tx_would_block += frames - done;
			note_unsent(p, done, frames, ret_sent);
			return sent;
		default:
			break;
		}
		if (got > 0) {
			sent += (size_t)got;
			done += (size_t)got;
			continue;
		}
		/* An interface that is down or gone, or takes no such long frames. */
		c->tx_refused++;
		note_unsent(p, done, done + 1, ret_sent);
		done++;
	}
	return sent;
}

static size_t raw_tx(struct port *port, const struct packet_tx *pkts, size_t n,
		     struct packet_sent *ret_sent)
{
	struct raw_port *p = raw_port_of(port);
	size_t sent = 0;

	if (ret_sent)
		memset(ret_sent, 0, n * sizeof(*ret_sent));
	if (port->fd < 0)
		return 0;
	for (size_t i = 0, count; i < n; i += count) {
		count = min_of(n - i, (size_t)TX_BATCH);
		sent += send_batch(p, &pkts[i], count, ret_sent ? &ret_sent[i] : NULL);
	}
	port->counters->tx_packets += sent;
	return sent;
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* Has it an address that means this host and is on no wire? */
static bool is_within(const struct gid *g)
{
	static const struct gid loopback6 = {.raw = {[15] = 1}};

	return gid_is_ipv4(g) ? g->raw[12] == 127 : gid_equal(g, &loopback6);
}

/* Is it to an address of ours, there where it came? What comes by loopback is of this host, and was
 * for the interface that has the address. */
static bool is_ours(struct raw_port *p, struct flow *f, uint32_t ifindex, uint64_t now)
{
	const uint32_t on = ifindex == L2_LOOPBACK ? 0 : ifindex;

	f->scope = gid_is_link_local(&f->sgid) || gid_is_link_local(&f->dgid) ? on : 0;
	if (!own_find(&p->own, &f->dgid, &f->scope, now))
		return false;
	/* As of IP, no other host says that it is this one. And what is not routed is for the
	 * interface that has the address: others' networks have nothing to say to it. */
	if (on && (is_within(&f->sgid) || is_within(&f->dgid) || own_has(&p->own, &f->sgid, 0) ||
		   !own_has(&p->own, &f->dgid, on)))
		return false;
	return !gid_is_link_local(&f->sgid) || f->scope ||
	       own_find(&p->own, &f->sgid, &f->scope, now);
}

static void receive(struct raw_port *p, const struct frame *r, size_t len, uint64_t now,
		    port_take *take, void *ctx)
{
	struct port_counters *c = p->port.counters;
	struct packet_rx rx;

	/* Of an interface that takes everything, or in a VLAN that is not here. */
	if (r->at.sll_pkttype != PACKET_HOST)
		return;
	switch (v1_packet_take(r->b, len, &rx)) {
	case V1_SHORT:
		c->rx_short++;
		return;
	case V1_ICRC_BAD:
		c->rx_icrc_bad++;
		return;
	case V1_GOOD:
		if (is_ours(p, &rx.flow, (uint32_t)r->at.sll_ifindex, now))
			take(ctx, &rx);
		else
			c->rx_not_ours++;
	}
}

static int raw_rx(struct port *port, uint64_t now, port_take *take, void *ctx)
{
	struct raw_port *p = raw_port_of(port);
	int got;

	if (port->fd < 0)
		return -EBADF;
	got = kernel_recvmmsg(port->fd, p->rx_msg, RX_BATCH);
	switch (got) {
	case -EBADF:
	case -ENOTSOCK:
	case -EFAULT:
	case -EINVAL:
		return got;
	default:
		if (got <= 0) /* nothing waits, or a condition that passes */
			return 0;
	}
	for (int i = 0; i < got; i++) {
		receive(p, &p->rx[i], p->rx_msg[i].msg_len, now, take, ctx);
		p->rx_msg[i].msg_hdr.msg_namelen = sizeof(p->rx[i].at);
	}
	port->counters->rx_packets += (uint64_t)got;
	port->counters->rx_batches++;
	return got;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void raw_forked(struct port *port)
{
	close_fd(&port->fd);
	close_fd(&raw_port_of(port)->hop_fd);
}

static void raw_destroy(struct port *port)
{
	raw_forked(port);
	sight_release(port->counters);
	free(port);
}

static const struct port_ops raw_ops = {
	.rx = raw_rx,
	.tx = raw_tx,
	.reaches = raw_reaches,
	.forked = raw_forked,
	.destroy = raw_destroy,
};

static void prepare(struct mmsghdr *m, struct frame *r)
{
	r->iov = (struct iovec){r->b, sizeof(r->b)};
	m->msg_hdr = (struct msghdr){
		.msg_name = &r->at,
		.msg_namelen = sizeof(r->at),
		.msg_iov = &r->iov,
		.msg_iovlen = 1,
	};
}

static int open_all(struct raw_port *p, uint8_t slot)
{
	socklen_t len = sizeof(int);
	int room = 0;

	p->port.fd = raw_socket_open(slot);
	if (p->port.fd < 0)
		return p->port.fd;
	if (getsockopt(p->port.fd, SOL_SOCKET, SO_RCVBUF, &room, &len) < 0)
		return -errno;
	p->port.rx_room = (size_t)room;
	p->hop_fd = hop_open();
	if (p->hop_fd < 0)
		return p->hop_fd;
	own_init(&p->own, p->hop_fd);
	l2_ways_init(&p->ways, p->hop_fd, &p->own);
	return 0;
}

static void explain(int rc, char *err, size_t err_len)
{
	if (rc == -EPERM || rc == -EACCES)
		snprintf(err, err_len,
			 "no right to a packet socket: that takes CAP_NET_RAW in the network "
			 "namespace, as of root or by setpriv --inh-caps +net_raw --ambient-caps "
			 "+net_raw");
	else if (rc == -EAFNOSUPPORT)
		snprintf(err, err_len, "this kernel has no packet sockets");
	else
		snprintf(err, err_len, "a packet socket: %s", errno_text(-rc));
}

int raw_port_create(struct port **ret, uint8_t slot, char *err, size_t err_len)
{
	struct raw_port *p = calloc(1, sizeof(*p));
	struct port_counters *counters = p ? port_counters_take("rocev1") : NULL;
	int rc;

	if (!counters) {
		snprintf(err, err_len, "no memory");
		free(p);
		return -ENOMEM;
	}
	p->port = (struct port){&raw_ops, -1, 0, counters};
	p->hop_fd = -1;
	for (size_t i = 0; i < RX_BATCH; i++)
		prepare(&p->rx_msg[i], &p->rx[i]);
	for (size_t i = 0; i < TX_BATCH; i++)
		prepare(&p->tx_msg[i], &p->tx[i]);
	rc = open_all(p, slot);
	if (rc) {
		explain(rc, err, err_len);
		raw_destroy(&p->port);
		return rc;
	}
	*ret = &p->port;
	return 0;
}
