/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "engine/drive.h"

#include <assert.h>

#include "base/bytes.h"

void drive_init(struct drive *d, struct rnic *rnic, struct port *const *ports, size_t n,
		struct packet_tx *tx, size_t tx_room)
{
	assert(n && n <= DRIVE_PORTS_MAX && tx_room);
	d->tx = tx;
	d->tx_room = tx_room;
	d->rnic = rnic;
	d->ports = n;
	d->pushing = NULL;
	for (size_t i = 0; i < n; i++) {
		d->port[i] = ports[i];
		d->broken[i] = 0;
		if (ports[i]->ops->push) {
			assert(!d->pushing);
			d->pushing = ports[i];
		}
	}
}

/* NULL: no port has a way there. */
static struct port *port_for(const struct drive *d, const struct flow *f)
{
	for (size_t i = 0; i < d->ports; i++)
		if (!d->broken[i] && port_reaches(d->port[i], f))
			return d->port[i];
	return NULL;
}

/* Packets that follow one another and go by one port stay together. */
static void send_by_flow(struct drive *d, size_t n)
{
	for (size_t first = 0, i; first < n; first = i) {
		struct port *p = port_for(d, d->tx[first].flow);

		for (i = first + 1; i < n; i++)
			if (d->tx[i].flow != d->tx[first].flow && port_for(d, d->tx[i].flow) != p)
				break;
		if (p)
			port_tx(p, &d->tx[first], i - first, NULL);
		else
			d->port[0]->counters->tx_no_port += i - first;
	}
}

bool drive_send(struct drive *d, size_t max, uint64_t now)
{
	for (size_t i = 0; i < d->ports; i++)
		port_at(d->port[i], now);
	while (max) {
		size_t batch = min_of(max, d->tx_room);
		size_t n = rnic_tx(d->rnic, d->tx, batch, now);

		if (n && d->ports == 1)
			port_tx(d->port[0], d->tx, n, NULL);
		else if (n)
			send_by_flow(d, n);
		if (n < batch)
			break;
		max -= n;
	}
	if (d->pushing && d->pushing->ops->push(d->pushing, now))
		return true;
	return rnic_tx_pending(d->rnic);
}

static bool received(void *ctx, const struct packet_rx *rx)
{
	struct drive *d = ctx;

	return rnic_rx(d->rnic, rx, d->now);
}

static int receive_from_all(struct drive *d)
{
	bool works = false;
	int got = 0, n = 0;

	for (size_t i = 0; i < d->ports; i++) {
		n = d->broken[i] ? d->broken[i] : port_rx(d->port[i], d->now, received, d);
		if (n < 0) {
			d->broken[i] = n;
			continue;
		}
		works = true;
		got += n;
	}
	return works ? got : n;
}

bool drive_sleeps(struct drive *d)
{
	bool sleeps = true;

	for (size_t i = 0; i < d->ports; i++)
		if (!d->broken[i])
			sleeps &= port_sleeps(d->port[i]);
	return sleeps;
}

bool drive_rouse(struct drive *d)
{
	bool roused = true;

	for (size_t i = 0; i < d->ports; i++)
		if (!d->broken[i])
			roused &= port_rouse(d->port[i]);
	return roused;
}

int drive_receive(struct drive *d, uint64_t now)
{
	int got;

	d->now = now;
	got = d->ports == 1 ? port_rx(d->port[0], now, received, d) : receive_from_all(d);
	if (rnic_next_deadline(d->rnic) <= now)
		rnic_tick(d->rnic, now);
	return got;
}
