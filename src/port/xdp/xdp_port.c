/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/xdp/xdp_port.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time.h"
#include "port/counters.h"
#include "port/xdp/netdev.h"
#include "port/xdp/steer.h"
#include "port/xdp/ways.h"
#include "port/xdp/xsk.h"

#define QUEUES_MAX 16
#define RX_BATCH   64
#define CHECK_NS   (100 * NSEC_PER_MSEC)

struct xdp_port {
	struct port port; /* first */
	struct netdev dev;
	struct steer steer;
	struct ways ways;
	int epoll; /* over several queues; -1: there is one */
	uint64_t checked_ns;
	uint32_t queues;
	struct xsk queue[];
};

static struct xdp_port *xdp_port_of(struct port *p)
{
	return (struct xdp_port *)p;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* The port is told by its callers to be const, but it looks ways up where it has to. */
static bool xdp_reaches(const struct port *port, const struct flow *f)
{
	struct xdp_port *p = (struct xdp_port *)(uintptr_t)port;

	return port->fd >= 0 && !f->rocev1 && ways_find(&p->ways, f, time_now_ns());
}

/* A frame to send from, be it after what is under way has gone. */
static uint8_t *room_for_one(struct xsk *x)
{
	uint8_t *frame = xsk_tx(x);

	if (frame)
		return frame;
	(void)!xsk_tx_kick(x);
	return xsk_tx(x);
}

static size_t xdp_tx(struct port *port, const struct packet_tx *pkts, size_t n,
		     struct packet_sent *ret_sent)
{
	struct xdp_port *p = xdp_port_of(port);
	struct xsk *x = &p->queue[0];
	const struct frame_macs *macs = NULL;
	size_t sent = 0;
	uint64_t now;
	int rc;

	if (ret_sent)
		memset(ret_sent, 0, n * sizeof(*ret_sent));
	if (port->fd < 0)
		return 0;
	now = time_now_ns();
	for (size_t i = 0; i < n; i++) {
		const size_t len = frame_len(&pkts[i]);
		struct packet_sent as;
		uint8_t *frame;

		if (!i || pkts[i].flow != pkts[i - 1].flow)
			macs = ways_find(&p->ways, pkts[i].flow, now);
		if (!macs || len > FRAME_ETH_LEN + (size_t)p->dev.mtu) {
			port->counters->tx_refused++;
			continue;
		}
		frame = room_for_one(x);
		if (!frame) {
			port->counters->tx_would_block += n - i;
			break;
		}
		as = frame_put(frame, macs, &pkts[i], frame_sport(&pkts[i]));
		xsk_tx_put(x, frame, len);
		if (ret_sent)
			ret_sent[i] = as;
		sent++;
	}
	rc = xsk_tx_kick(x);
	if (rc && rc != -EAGAIN)
		log_debug("xdp", "%s: %s", p->dev.name, strerror(-rc));
	port->counters->tx_batches++;
	port->counters->tx_packets += sent;
	return sent;
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void receive(struct xdp_port *p, const uint8_t *frame, size_t len, port_take *take,
		    void *ctx)
{
	struct port_counters *c = p->port.counters;
	struct packet_rx r;

	switch (frame_take(frame, len, &r)) {
	case FRAME_SHORT:
		c->rx_short++;
		return;
	case FRAME_ICRC_BAD:
		c->rx_icrc_bad++;
		return;
	case FRAME_GOOD:
		if (gid_is_link_local(&r.flow.sgid) || gid_is_link_local(&r.flow.dgid))
			r.flow.scope = p->dev.ifindex;
		take(ctx, &r);
	}
}

/* What the rings do not tell: that the interface is gone. And what found no room to be sent. */
static int check(struct xdp_port *p, uint64_t now)
{
	int rc = 0;

	if (now - p->checked_ns < CHECK_NS)
		return 0;
	p->checked_ns = now;
	for (uint32_t q = 0; rc == 0 && q < p->queues; q++)
		rc = xsk_error(&p->queue[q]);
	return rc;
}

static int xdp_rx(struct port *port, uint64_t now, port_take *take, void *ctx)
{
	struct xdp_port *p = xdp_port_of(port);
	int n = 0, rc;

	if (port->fd < 0)
		return -EBADF;
	for (uint32_t q = 0; q < p->queues; q++) {
		struct xsk *x = &p->queue[q];
		const uint8_t *frame;
		int got = 0;
		size_t len;

		for (; got < RX_BATCH && (frame = xsk_rx(x, &len)) != NULL; got++) {
			receive(p, frame, len, take, ctx);
			xsk_rx_give_back(x, frame);
		}
		if (got)
			xsk_rx_publish(x);
		n += got;
	}
	if (xsk_tx_pending(&p->queue[0]))
		(void)!xsk_tx_kick(&p->queue[0]);
	port->counters->rx_packets += (uint64_t)n;
	port->counters->rx_batches += n != 0;
	rc = n ? 0 : check(p, now);
	return rc ? rc : n;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void close_all(struct xdp_port *p, void (*close_queue)(struct xsk *))
{
	steer_close(&p->steer);
	ways_close(&p->ways);
	for (uint32_t q = 0; q < p->queues; q++)
		close_queue(&p->queue[q]);
	p->queues = 0;
	if (p->epoll >= 0)
		close(p->epoll);
	p->epoll = p->port.fd = -1;
}

static void xdp_forked(struct port *port)
{
	close_all(xdp_port_of(port), xsk_forked);
}

static void xdp_destroy(struct port *port)
{
	close_all(xdp_port_of(port), xsk_close);
	sight_release(port->counters);
	free(port);
}

static const struct port_ops xdp_ops = {
	.rx = xdp_rx,
	.tx = xdp_tx,
	.reaches = xdp_reaches,
	.forked = xdp_forked,
	.destroy = xdp_destroy,
};

/* The addresses whose packets are ours to take: those that the interface has now, and those that we
 * send from later. */
static void address(void *ctx, const struct gid *g)
{
	struct xdp_port *p = ctx;
	int rc = steer_add_address(&p->steer, g);

	if (rc)
		log_info("xdp",
			 "%s: packets to one of its addresses come by the kernel's stack: %s",
			 p->dev.name, strerror(-rc));
}

static void told_of_way(void *ctx, const struct way *y)
{
	struct xdp_port *p = ctx;

	if (y->k.there)
		address(p, &y->k.sgid);
	else if (!y->ours)
		steer_drop_address(&p->steer, &y->k.sgid);
}

static int open_queues(struct xdp_port *p, uint32_t n, const char **ret_what)
{
	int rc;

	for (; p->queues < n; p->queues++) {
		rc = xsk_open(&p->queue[p->queues], p->dev.ifindex, p->queues, p->dev.mtu,
			      ret_what);
		if (rc)
			return rc;
		rc = steer_add_socket(&p->steer, p->queues, p->queue[p->queues].fd);
		if (rc) {
			xsk_close(&p->queue[p->queues]);
			return rc;
		}
	}
	p->port.fd = p->queue[0].fd;
	if (n == 1)
		return 0;
	*ret_what = "epoll";
	p->port.fd = p->epoll = epoll_create1(EPOLL_CLOEXEC);
	for (uint32_t q = 0; q < n && p->epoll >= 0; q++) {
		struct epoll_event ev = {.events = EPOLLIN};

		if (epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->queue[q].fd, &ev) < 0)
			return -errno;
	}
	return p->epoll < 0 ? -errno : 0;
}

static int open_all(struct xdp_port *p, uint8_t slot, uint32_t queues, const char **ret_what)
{
	uint32_t longest = xsk_longest(p->dev.mtu);
	int rc;

	*ret_what = "frames";
	if (!longest)
		return -EMSGSIZE;
	rc = steer_open(&p->steer, slot, longest, queues, ret_what);
	if (rc)
		return rc;
	*ret_what = "its place on the interface";
	rc = steer_attach(&p->steer, p->dev.ifindex);
	if (rc)
		return rc;
	/* Before the stack, but behind where packets are joined, be it by an interface below. */
	if (p->steer.generic && (p->dev.joins || !p->dev.on_bus))
		return -EOPNOTSUPP;
	rc = open_queues(p, queues, ret_what);
	if (rc)
		return rc;
	*ret_what = "routes and neighbours";
	rc = ways_open(&p->ways, p->dev.ifindex, p->dev.mtu, told_of_way, p);
	if (rc)
		return rc;
	netdev_addresses(&p->dev, address, p);
	return 0;
}

static void explain(const struct xdp_port *p, int rc, const char *what, char *err, size_t err_len)
{
	const char *name = p->dev.name;

	switch (rc) {
	case -EPERM:
	case -EACCES:
		snprintf(err, err_len,
			 "no right to %s: XDP takes CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, and "
			 "those "
			 "of the machine's own root, not of a user namespace's",
			 what);
		break;
	case -ENOBUFS:
		snprintf(err, err_len,
			 "more locked memory than this process may have (`ulimit -l`)");
		break;
	case -EBUSY:
		snprintf(err, err_len,
			 "another program has XDP on %s already, and there can be one", name);
		break;
	case -EMSGSIZE:
		snprintf(err, err_len, "the MTU of %s, %u, is more than a frame of XDP takes (%u)",
			 name, p->dev.mtu, XSK_MTU_MAX);
		break;
	case -EOPNOTSUPP:
		if (!p->steer.generic)
			snprintf(err, err_len, "the kernel or %s has no XDP", name);
		else if (!p->dev.on_bus)
			snprintf(err, err_len,
				 "the driver of %s has no XDP; if it stands on another interface, "
				 "that may have",
				 name);
		else
			snprintf(err, err_len,
				 "the driver of %s has no XDP, and before the stack packets are "
				 "joined; `ethtool -K %s gro off` ends that",
				 name, name);
		break;
	case -EAFNOSUPPORT:
	case -ENOSYS:
		snprintf(err, err_len, "this kernel has no %s", what);
		break;
	default:
		snprintf(err, err_len, "%s of %s: %s", what, name, strerror(-rc));
	}
}

int xdp_port_create(struct port **ret, const char *ifname, uint8_t slot, char *err, size_t err_len)
{
	struct port_counters *counters;
	const char *what = "memory";
	struct netdev dev;
	struct xdp_port *p;
	uint32_t queues;
	int rc = netdev_look(&dev, ifname, err, err_len);

	if (rc)
		return rc;
	queues = dev.queues < QUEUES_MAX ? dev.queues : QUEUES_MAX;
	p = calloc(1, sizeof(*p) + queues * sizeof(*p->queue));
	counters = p ? port_counters_take("xdp") : NULL;
	if (!counters) {
		snprintf(err, err_len, "no memory");
		free(p);
		return -ENOMEM;
	}
	p->port = (struct port){&xdp_ops, -1, (size_t)XSK_RX_FRAMES * dev.mtu, counters};
	p->dev = dev;
	p->steer = (struct steer){-1, -1, -1, -1, false};
	p->ways.fd = p->epoll = -1;
	rc = open_all(p, slot, queues, &what);
	if (rc) {
		explain(p, rc, what, err, err_len);
		xdp_destroy(&p->port);
		return rc;
	}
	log_info("xdp", "%s: packets go past the kernel's stack, %s%s", dev.name,
		 p->steer.generic ? "before it" : "in the driver",
		 p->queue[0].zero_copy ? ", without a copy" : "");
	if (dev.queues > queues)
		log_info("xdp", "%s: of %u queues %u, the others through the stack", dev.name,
			 dev.queues, queues);
	*ret = &p->port;
	return 0;
}
