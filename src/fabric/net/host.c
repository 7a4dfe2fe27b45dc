/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/net/host.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "engine/drive.h"
#include "fabric/memory.h"
#include "fabric/net/routes.h"

#define TX_ROOM	   2  /* packets that are taken from the core at once */
#define READY_MOST 2  /* that wait before the line */
#define CQ_ENTRIES 64 /* to begin with: see host_expect() */
#define HOST_GUID  0x0002c90000000000ull

struct host {
	struct netport port;
	struct fabric *fabric;
	struct frame_pool *pool;
	unsigned number;
	struct host_nature nature;
	struct rnic *rnic;
	struct rnic_pd *pd;
	struct rnic_cq *cq;
	struct rnic_mr *mr;
	struct prng random;
	struct drive drive;
	struct packet_tx tx[TX_ROOM];
	/* What the core sees of the adapter. */
	struct port adapter;
	struct port_counters counters;
	struct frame *arrived;
	uint8_t *room; /* for a packet that has come: its network's */
	/* InfiniBand: its node, everybody's LIDs, and which lane a service level takes. */
	struct ibnode *node;
	const uint16_t *lids;
	uint8_t lane_of_sl[PRIORITIES];
	uint64_t data_packets;
	struct happening ticks;
	bool completed, busy;
	uint32_t expected; /* completions, at most */
	host_done *done;
	void *done_ctx;
};

/* ---- the core's surroundings ----------------------------------------------------------------- */

static uint32_t host_random(void *ctx)
{
	struct host *h = ctx;

	return (uint32_t)prng_u64(&h->random);
}

static void host_notify(void *ctx, void *cq_user)
{
	struct host *h = ctx;

	(void)cq_user;
	h->completed = true;
}

static void host_event(void *ctx, enum rnic_event event, void *user)
{
	(void)ctx;
	(void)user;
	/* Who has failed says so by completions, for which there is room: host_expect(). */
	assert(event != RNIC_EVENT_CQ_ERR);
	(void)event;
}

static const struct rnic_ops rnic_ops = {
	.alloc = fabric_alloc,
	.free = fabric_free,
	.random = host_random,
	.cq_notify = host_notify,
	.async_event = host_event,
};

/* ---- the adapter ----------------------------------------------------------------------------- */

static struct host *host_of(struct port *p)
{
	return container_of(p, struct host, adapter);
}

static int adapter_rx(struct port *p, uint64_t now, port_take *take, void *ctx)
{
	struct host *h = host_of(p);
	struct packet_rx rx;

	(void)now;
	if (!h->arrived)
		return 0;
	frame_to_packet(h->arrived, h->room, &rx);
	take(ctx, &rx);
	return 1;
}

/* By the LID of whom it is for; one that has none, or a lane that is not there, is dropped. */
static bool address(const struct host *h, struct frame *f)
{
	uint32_t to = routes_host(&f->flow.dgid);

	f->slid = h->lids[h->number];
	f->dlid = h->lids[to];
	f->priority = h->lane_of_sl[f->sl];
	return f->dlid && f->priority < agent_lanes(h->node->agent, 1);
}

static void adapter_send(struct host *h, const struct packet_tx *t)
{
	struct frame *f = frame_alloc(h->pool);

	if (h->node) {
		frame_of_ib_packet(f, t);
		if (!address(h, f)) {
			h->port.counters.dropped++;
			frame_free(h->pool, f);
			return;
		}
	} else {
		frame_of_packet(f, t);
		if (netport_is_too_long(&h->port, f)) {
			h->port.counters.dropped++;
			frame_free(h->pool, f);
			return;
		}
	}
	if (h->nature.ttl)
		f->ttl = h->nature.ttl;
	netport_send(&h->port, f);
}

static size_t adapter_tx(struct port *p, const struct packet_tx *pkts, size_t n,
			 struct packet_sent *ret_sent)
{
	struct host *h = host_of(p);

	(void)ret_sent;
	for (size_t i = 0; i < n; i++)
		adapter_send(h, &pkts[i]);
	return n;
}

static void adapter_forked(struct port *p)
{
	(void)p;
}

static void adapter_destroy(struct port *p)
{
	(void)p; /* a part of the host */
}

static const struct port_ops adapter_ops = {
	.rx = adapter_rx,
	.tx = adapter_tx,
	.forked = adapter_forked,
	.destroy = adapter_destroy,
};

/* ---- its turns ------------------------------------------------------------------------------- */

static void tell(struct host *h)
{
	struct rnic_wc wc;

	while (h->completed) {
		h->completed = false;
		while (rnic_cq_poll(h->cq, &wc, 1) == 1)
			if (h->done)
				h->done(h->done_ctx, h, &wc);
		rnic_cq_arm_or_notify(h->cq, false);
	}
}

/* What is to be done after anything has happened to it. What it is told of completions may be to
 * post more, so that this comes here again: once is enough. */
static void settle(struct host *h)
{
	uint64_t due;

	if (h->busy)
		return;
	h->busy = true;
	do {
		tell(h);
		while (!h->completed && drive_send_pending(&h->drive) &&
		       netport_ready(&h->port) < READY_MOST)
			if (!drive_send(&h->drive, TX_ROOM, fabric_now(h->fabric)))
				break;
	} while (h->completed);
	h->busy = false;
	due = drive_next_deadline(&h->drive);
	if (due == DEADLINE_NEVER)
		happening_cancel(&h->ticks);
	else if (!happening_is_due(&h->ticks) || h->ticks.at_ns != due)
		fabric_put(h->fabric, &h->ticks, due);
}

static void ticks(struct happening *happening)
{
	struct host *h = container_of(happening, struct host, ticks);

	(void)!drive_receive(&h->drive, fabric_now(h->fabric));
	settle(h);
}

static void arrived(struct netport *p, struct frame *f)
{
	struct host *h = p->owner;

	if (h->node && !ibnode_arrived(h->node, p, f))
		return;
	if (f->kind == FRAME_PAUSE) {
		netport_heed(p, f);
	} else {
		h->arrived = f;
		h->data_packets += f->is_data;
		(void)!drive_receive(&h->drive, fabric_now(h->fabric));
		h->arrived = NULL;
	}
	if (h->node) /* it is in memory, and its place in the lane's buffer is free */
		iblink_release(&h->node->links[0], f->priority, f->bytes);
	frame_free(h->pool, f);
	settle(h);
}

static void leaves(struct netport *p, struct frame *f, uint64_t queued)
{
	struct host *h = p->owner;

	(void)queued;
	if (h->node)
		iblink_leaves(&h->node->links[0], f);
}

/* The line takes the next: it is the core's turn. */
static void left(struct netport *p, struct frame *f)
{
	(void)f;
	settle(p->owner);
}

static void dropped(struct netport *p, struct frame *f)
{
	struct host *h = p->owner;

	frame_free(h->pool, f);
}

static void pause_changed(struct netport *p)
{
	struct host *h = p->owner;
	uint8_t held = p->stopped;

	if (h->node) { /* what stops is lanes: those of which service levels? */
		held = 0;
		for (unsigned i = 0; i < PRIORITIES; i++)
			if (p->stopped >> h->lane_of_sl[i] & 1)
				held |= (uint8_t)(1u << i);
	}
	rnic_hold(h->rnic, held);
	settle(h);
}

/* The manager has set something. */
static void changed(void *owner)
{
	struct host *h = owner;

	for (unsigned i = 0; i < PRIORITIES; i++)
		h->lane_of_sl[i] = (uint8_t)agent_lane(h->node->agent, 0, 1, i);
	pause_changed(&h->port);
}

static const struct netport_ops port_ops = {
	.arrived = arrived,
	.leaves = leaves,
	.left = left,
	.dropped = dropped,
	.pause_changed = pause_changed,
};

void host_kick(struct host *h)
{
	settle(h);
}

/* ---- its life -------------------------------------------------------------------------------- */

static int core_create(struct host *h)
{
	const struct host_nature *n = &h->nature;
	const struct rnic_config config = {
		.slot = 1,
		.max_qps = n->max_qps,
		.max_keys = 4,
		.window_bytes = n->window_bytes,
		.socket_bytes = UINT32_MAX / 2, /* an adapter has no sockets */
		.turn_bytes = n->turn_bytes,
		.ask_bytes = n->ask_bytes,
		.cc = n->cc,
		.cc_params = &n->params,
	};
	const uint32_t all =
		RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE | RNIC_ACCESS_REMOTE_READ;

	if (rnic_create(&h->rnic, &config, &rnic_ops, h))
		return -ENOMEM;
	if (rnic_pd_create(h->rnic, &h->pd) || rnic_cq_create(h->rnic, CQ_ENTRIES, NULL, &h->cq) ||
	    rnic_mr_create_null(h->pd, all, &h->mr))
		return -ENOMEM;
	rnic_cq_arm(h->cq, false);
	return 0;
}

static struct netport *port_of(void *owner, unsigned i)
{
	struct host *h = owner;

	(void)i;
	return &h->port;
}

/* GUIDs of hosts are even, for that of the port is behind that of the node; see network.c for those
 * of switches. */
static int node_create(struct host *h)
{
	char name[24];
	int rc;

	snprintf(name, sizeof(name), "host%u", h->number);
	rc = ibnode_create(&h->node, h->nature.ib, false, 1, HOST_GUID + 2ull * h->number, name,
			   port_of, h);
	if (rc)
		return rc;
	h->node->changed = changed;
	rnic_hold(h->rnic, 0xff);
	return 0;
}

int host_create(struct host **ret, struct fabric *f, struct frame_pool *pool, uint8_t *room,
		unsigned number, const struct host_nature *nature, const uint16_t *lids)
{
	struct host *h = calloc(1, sizeof(*h));
	struct port *adapter;

	if (!h)
		return -ENOMEM;
	h->fabric = f;
	h->pool = pool;
	h->room = room;
	h->number = number;
	h->nature = *nature;
	h->lids = lids;
	h->random.state = prng_u64(fabric_prng(f));
	netport_init(&h->port, f, pool, &port_ops, h, 0);
	h->port.scheduler = nature->scheduler;
	happening_init(&h->ticks, ticks);
	if (core_create(h) || (nature->ib && node_create(h))) {
		host_destroy(h);
		return -ENOMEM;
	}
	h->adapter = (struct port){.ops = &adapter_ops, .fd = -1, .counters = &h->counters};
	adapter = &h->adapter;
	drive_init(&h->drive, h->rnic, &adapter, 1, h->tx, TX_ROOM);
	*ret = h;
	return 0;
}

void host_destroy(struct host *h)
{
	happening_cancel(&h->ticks);
	netport_fini(&h->port);
	if (h->node)
		ibnode_destroy(h->node);
	if (h->mr)
		(void)!rnic_mr_destroy(h->mr);
	if (h->cq)
		(void)!rnic_cq_destroy(h->cq);
	if (h->pd)
		(void)!rnic_pd_destroy(h->pd);
	if (h->rnic)
		rnic_destroy(h->rnic);
	free(h);
}

void host_on_done(struct host *h, host_done *done, void *ctx)
{
	h->done = done;
	h->done_ctx = ctx;
}

unsigned host_number(const struct host *h)
{
	return h->number;
}

struct netport *host_port(struct host *h)
{
	return &h->port;
}

struct ibnode *host_node(struct host *h)
{
	return h->node;
}

struct rnic *host_rnic(struct host *h)
{
	return h->rnic;
}

struct rnic_pd *host_pd(struct host *h)
{
	return h->pd;
}

struct rnic_cq *host_cq(struct host *h)
{
	return h->cq;
}

int host_expect(struct host *h, int more)
{
	h->expected += (uint32_t)more;
	if (h->expected <= rnic_cq_capacity(h->cq))
		return 0;
	return rnic_cq_resize(h->cq, 2 * h->expected);
}

uint32_t host_key(const struct host *h)
{
	return rnic_mr_rkey(h->mr);
}

const struct host_nature *host_nature(const struct host *h)
{
	return &h->nature;
}

uint64_t host_data_packets(const struct host *h)
{
	return h->data_packets;
}
