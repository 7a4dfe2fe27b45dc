/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/sim/sim_port.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/icrc.h"

struct sim_port {
	struct port port; /* first */
	struct port_counters counters;
	void (*carry)(void *ctx, struct sim_packet *);
	void *carry_ctx;
	struct sim_packet *arrived, **arrived_tail;
};

static struct sim_port *sim_port_of(struct port *p)
{
	return (struct sim_port *)p;
}

static struct sim_packet *frame(const struct packet_tx *t, uint32_t *ret_icrc)
{
	size_t len = packet_tx_len(t) + ICRC_LEN;
	struct sim_packet *p = malloc(sizeof(*p) + len);
	uint8_t *at;

	if (!p)
		abort(); /* a simulation without memory has no result */
	p->flow = *t->flow;
	p->len = (uint32_t)len;
	at = packet_tx_copy(p->data, t);
	*ret_icrc = icrc_end(icrc_begin(&p->flow, 0, len, p->data, len - ICRC_LEN));
	st_le32(at, *ret_icrc);
	return p;
}

static size_t sim_tx(struct port *port, const struct packet_tx *pkts, size_t n,
		     struct packet_sent *ret_sent)
{
	struct sim_port *p = sim_port_of(port);

	for (size_t i = 0; i < n; i++) {
		uint32_t icrc;
		struct sim_packet *packet = frame(&pkts[i], &icrc);

		if (ret_sent)
			ret_sent[i] = (struct packet_sent){packet->flow.sport, 0, icrc};
		p->carry(p->carry_ctx, packet);
	}
	p->counters.tx_batches++;
	p->counters.tx_packets += n;
	return n;
}

static void receive(struct sim_port *p, const struct sim_packet *k, port_take *take, void *ctx)
{
	p->counters.rx_packets++;
	if (k->len == PORT_DOORBELL_LEN) {
		; /* whoever it was for is awake */
	} else if (k->len < BTH_LEN + ICRC_LEN) {
		p->counters.rx_short++;
	} else if (!icrc_check(&k->flow, 0, k->data, k->len)) {
		p->counters.rx_icrc_bad++;
	} else {
		size_t len = k->len - ICRC_LEN;

		take(ctx, &(struct packet_rx){.flow = k->flow,
					      .data = k->data,
					      .len = len,
					      .icrc = ld_le32(k->data + len)});
	}
}

static int sim_rx(struct port *port, uint64_t now, port_take *take, void *ctx)
{
	struct sim_port *p = sim_port_of(port);
	struct sim_packet *k;
	int n = 0;

	(void)now;
	for (; (k = p->arrived); n++) {
		p->arrived = k->next;
		receive(p, k, take, ctx);
		free(k);
	}
	p->arrived_tail = &p->arrived;
	p->counters.rx_batches += n != 0;
	return n;
}

void sim_port_arrive(struct port *port, struct sim_packet *k)
{
	struct sim_port *p = sim_port_of(port);

	k->next = NULL;
	*p->arrived_tail = k;
	p->arrived_tail = &k->next;
}

static void sim_forked(struct port *port)
{
	(void)port; /* a simulation has no descriptors */
}

static void sim_destroy(struct port *port)
{
	struct sim_port *p = sim_port_of(port);
	struct sim_packet *k;

	while ((k = p->arrived)) {
		p->arrived = k->next;
		free(k);
	}
	free(p);
}

static const struct port_ops sim_ops = {
	.rx = sim_rx,
	.tx = sim_tx,
	.forked = sim_forked,
	.destroy = sim_destroy,
};

int sim_port_create(struct port **ret, void (*carry)(void *ctx, struct sim_packet *), void *ctx)
{
	struct sim_port *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->port = (struct port){.ops = &sim_ops, .fd = -1, .counters = &p->counters};
	p->carry = carry;
	p->carry_ctx = ctx;
	p->arrived_tail = &p->arrived;
	*ret = &p->port;
	return 0;
}
