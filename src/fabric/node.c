/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/heap.h" /* DEADLINE_NEVER */
#include "engine/drive.h"
#include "port/local/inbox.h"
#include "port/local/local_port.h"
#include "port/pcap/pcap_port.h"

/* A process among others of its host looks again so much later, or sleeps. */
#define LOOK_AGAIN_NS (3 * NSEC_PER_USEC)

struct node {
	struct fabric *fabric;
	struct link_end *end;
	struct port *port;  /* what packets arrive at; a filter may stand before it */
	struct port *local; /* NULL: it is its host's only one */
	uint8_t slot;
	struct drive drive;
	struct packet_tx tx[DRIVE_TX_BATCH];
	struct node_nature nature;
	bool gone;
	/* At most one turn to send, and one for timers, is to come. */
	bool tx_due, tick_due, look_due;
	bool keeps; /* that turn to send is one for acknowledgements that were kept */
	uint64_t tx_at_ns, tick_at_ns;
};

static void node_schedule(struct node *);

static void sends(void *ctx, void *what)
{
	struct node *n = ctx;
	size_t max = 1 + prng_below(fabric_prng(n->fabric), DRIVE_TX_BATCH);

	(void)what;
	if (!n->tx_due || n->tx_at_ns != fabric_now(n->fabric))
		return; /* an earlier one took its place */
	n->tx_due = false;
	if (n->gone)
		return;
	drive_send(&n->drive, max, fabric_now(n->fabric));
	node_schedule(n);
}

static void looks(void *ctx, void *what);

/* What is in its memory comes without anything that happens in the world: it polls, or asks to be
 * woken. */
static void polls_or_sleeps(struct node *n)
{
	struct prng *r = fabric_prng(n->fabric);

	if (!n->local || n->look_due || (prng_below(r, 2) && drive_sleeps(&n->drive)))
		return;
	n->look_due = true;
	fabric_at(n->fabric, fabric_now(n->fabric) + prng_below(r, LOOK_AGAIN_NS), looks, n, NULL,
		  NULL);
}

static void receives(struct node *n)
{
	if (n->gone)
		return;
	(void)!drive_receive(&n->drive, fabric_now(n->fabric));
	node_schedule(n);
	polls_or_sleeps(n);
}

static void looks(void *ctx, void *what)
{
	struct node *n = ctx;

	(void)what;
	n->look_due = false;
	receives(n);
}

static void arrives(void *ctx, struct sim_packet *k)
{
	struct node *n = ctx;

	if (n->gone) {
		free(k);
		return;
	}
	sim_port_arrive(n->port, k);
	receives(n);
}

static void ticks(void *ctx, void *what)
{
	struct node *n = ctx;

	(void)what;
	if (!n->tick_due || n->tick_at_ns != fabric_now(n->fabric))
		return; /* an earlier one took its place */
	n->tick_due = false;
	receives(n);
}

static void schedule_to_send(struct node *n)
{
	const bool keeps = n->nature.keep_ns && drive_send_only_acks(&n->drive);
	uint64_t at = fabric_now(n->fabric);

	if (!drive_send_pending(&n->drive) || (n->tx_due && (keeps || !n->keeps)))
		return;
	at += keeps ? n->nature.keep_ns
		    : prng_below(fabric_prng(n->fabric), n->nature.tx_lag_ns + 1);
	at = max_of(at, link_free_ns(n->end));
	if (n->tx_due && at >= n->tx_at_ns)
		return;
	n->tx_due = true;
	n->keeps = keeps;
	n->tx_at_ns = at;
	fabric_at(n->fabric, at, sends, n, NULL, NULL);
}

static void node_schedule(struct node *n)
{
	struct prng *r = fabric_prng(n->fabric);
	uint64_t now = fabric_now(n->fabric), deadline;

	schedule_to_send(n);
	deadline = drive_next_deadline(&n->drive);
	if (deadline != DEADLINE_NEVER && (!n->tick_due || deadline < n->tick_at_ns)) {
		uint64_t at = max_of(deadline, now) + prng_below(r, n->nature.tick_lag_ns + 1);

		if (n->tick_due && at >= n->tick_at_ns)
			return;
		n->tick_due = true;
		n->tick_at_ns = at;
		fabric_at(n->fabric, at, ticks, n, NULL, NULL);
	}
}

void node_kick(struct node *n)
{
	if (!n->gone)
		node_schedule(n);
}

void node_vanish(struct node *n)
{
	n->gone = true;
	if (n->local)
		inbox_close(local_port_inbox(n->local));
}

int node_share_host(struct node *n, uint8_t slot)
{
	int rc = local_port_before(&n->drive.port[0], slot);

	if (rc)
		return rc;
	n->local = n->drive.port[0];
	n->slot = slot;
	link_share(n->end, slot);
	return 0;
}

int node_meet(struct node *n, struct node *other)
{
	int fd = fcntl(local_port_inbox(other->local), F_DUPFD_CLOEXEC, 0);
	int rc = fd < 0 ? -errno : local_port_meet(n->local, other->slot, fd);

	if (rc && fd >= 0)
		close(fd);
	return rc;
}

static void carries(void *ctx, struct sim_packet *k)
{
	struct node *n = ctx;

	link_carry(n->end, k);
}

int node_create(struct node **ret, struct fabric *f, struct link *l, const struct gid *gid,
		struct rnic *rnic, const struct node_nature *nature)
{
	struct node *n = calloc(1, sizeof(*n));
	int rc;

	if (!n)
		return -ENOMEM;
	n->fabric = f;
	n->nature = *nature;
	rc = sim_port_create(&n->port, carries, n);
	if (rc)
		goto fail;
	rc = link_attach(l, gid, arrives, n, &n->end);
	if (rc)
		goto fail_port;
	drive_init(&n->drive, rnic, &n->port, 1, n->tx, DRIVE_TX_BATCH);
	*ret = n;
	return 0;
fail_port:
	port_destroy(n->port);
fail:
	free(n);
	return rc;
}

static uint64_t world_clock(void *ctx)
{
	struct node *n = ctx;

	return fabric_now(n->fabric);
}

int node_capture(struct node *n, const char *file, char *err, size_t err_len)
{
	return pcap_port_before(&n->drive.port[0], file, world_clock, n, err, err_len);
}

void node_destroy(struct node *n)
{
	port_destroy(n->drive.port[0]);
	free(n);
}

uint64_t node_queue_peak(struct node *n)
{
	return link_queue_peak(n->end);
}

const struct port_counters *node_port_counters(const struct node *n)
{
	return n->port->counters;
}
