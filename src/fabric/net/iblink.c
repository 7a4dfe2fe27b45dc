/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/net/iblink.h"

#include "base/bytes.h"

#define FS_PER_NS	1000000ull
#define REFRESH_SYMBOLS 65536 /* of a byte on each of four lines */
#define LINES		4
#define REPEATS		16 /* of which one is enough, where most frames come through */

static uint32_t frame_blocks(const struct iblink *l)
{
	return credit_blocks(l->nature.frame_max);
}

/* More room is told by so much; less than that waits, and the rest has to be enough for a frame. */
static uint32_t worth_telling(const struct iblink *l, const struct credit_rx *r)
{
	uint32_t frame = frame_blocks(l), most = min_of(r->blocks, (uint32_t)CREDIT_BLOCKS_MAX);
	uint32_t worth = max_of(frame, most / 8);

	return min_of(worth, most - frame + 1);
}

static bool loses(const struct iblink *l)
{
	return l->port->line.loss_ppb || l->port->line.drop_every;
}

static void tell(struct iblink *l, unsigned lane, bool init)
{
	struct frame *f = frame_alloc(l->port->pool);
	struct credit_rx *r = &l->rx[lane];

	r->said = credit_rx_limit(r);
	frame_of_credit(f, &(struct credit){init, (uint8_t)lane, l->tx[lane].sent, r->said});
	netport_send_link(l->port, f);
}

static void again_later(struct iblink *l)
{
	struct fabric *f = l->port->fabric;

	fabric_put(f, &l->again,
		   fabric_now(f) + REFRESH_SYMBOLS * LINES * l->port->fs_per_byte / FS_PER_NS);
}

static void tells_again(struct happening *h)
{
	struct iblink *l = container_of(h, struct iblink, again);

	for (unsigned i = 0; i < l->nature.lanes; i++)
		if (loses(l) || credit_rx_untold(&l->rx[i]))
			tell(l, i, false);
	if (--l->repeats)
		again_later(l);
}

static void tell_later(struct iblink *l, unsigned times)
{
	l->repeats = times;
	if (!happening_is_due(&l->again))
		again_later(l);
}

/* Something has gone over it, or should have. */
static void repeat(struct iblink *l)
{
	if (loses(l))
		tell_later(l, REPEATS);
}

static uint8_t all_lanes(const struct iblink *l)
{
	return (uint8_t)((1u << l->nature.lanes) - 1);
}

/* Which lanes may not send: of a port that is not active, none may. Those beyond what the manager
 * has set have nothing to send. */
static void look(struct iblink *l)
{
	const uint32_t blocks = frame_blocks(l);
	uint8_t stopped = 0;
	unsigned lanes;

	if (agent_state(l->agent, l->number) != SMP_PORT_ACTIVE) {
		netport_stop(l->port, all_lanes(l));
		return;
	}
	lanes = min_of(agent_lanes(l->agent, l->number), l->nature.lanes);
	for (unsigned i = 0; i < lanes; i++)
		if (!credit_tx_may(&l->tx[i], blocks))
			stopped |= (uint8_t)(1u << i);
	netport_stop(l->port, stopped);
}

void iblink_init(struct iblink *l, struct netport *p, struct agent *a, unsigned number,
		 const struct iblink_nature *n)
{
	*l = (struct iblink){.port = p, .agent = a, .number = number, .nature = *n};
	for (unsigned i = 0; i < n->lanes; i++)
		l->rx[i].blocks = n->bytes / CREDIT_BLOCK;
	happening_init(&l->again, tells_again);
	p->gap = FRAME_IB_GAP;
	p->arbiter = &l->arbiter;
	p->stopped = all_lanes(l);
	p->any_stopped_since = fabric_now(p->fabric);
}

void iblink_fini(struct iblink *l)
{
	happening_cancel(&l->again);
}

void iblink_up(struct iblink *l)
{
	agent_link(l->agent, l->number, true);
	for (unsigned i = 0; i < l->nature.lanes; i++)
		tell(l, i, true);
	repeat(l);
}

void iblink_set(struct iblink *l)
{
	arbiter_set(&l->arbiter, agent_arbitration(l->agent, l->number, true),
		    agent_arbitration(l->agent, l->number, false),
		    agent_high_limit(l->agent, l->number));
	look(l);
}

static void tell_if_worth(struct iblink *l, unsigned lane)
{
	struct credit_rx *r = &l->rx[lane];

	if (credit_rx_untold(r) >= worth_telling(l, r))
		tell(l, lane, false);
}

void iblink_heed(struct iblink *l, const struct frame *f)
{
	const struct credit *c = &f->credit;

	if (c->lane >= l->nature.lanes)
		return;
	l->tx[c->lane].limit = c->limit;
	if (l->rx[c->lane].got != c->sent) {
		/* What it has sent and has not come is lost, and takes no room. */
		l->rx[c->lane].got = c->sent;
		tell_if_worth(l, c->lane);
		repeat(l);
	}
	look(l);
}

bool iblink_take(struct iblink *l, const struct frame *f)
{
	if (f->priority < l->nature.lanes &&
	    credit_rx_take(&l->rx[f->priority], credit_blocks(f->bytes)))
		return true;
	l->overruns++;
	return false;
}

void iblink_release(struct iblink *l, unsigned lane, uint32_t bytes)
{
	credit_rx_release(&l->rx[lane], credit_blocks(bytes));
	tell_if_worth(l, lane);
	repeat(l);
	if (!l->repeats && credit_rx_untold(&l->rx[lane]))
		tell_later(l, 1);
}

void iblink_leaves(struct iblink *l, const struct frame *f)
{
	credit_tx_sent(&l->tx[f->priority], credit_blocks(f->bytes));
	look(l);
	repeat(l);
}

bool iblink_is_idle(const struct iblink *l, const struct iblink *peer)
{
	for (unsigned i = 0; i < l->nature.lanes; i++) {
		const struct credit_rx *r = &l->rx[i];

		if (r->used)
			return false;
		if (loses(l) || loses(peer))
			continue;
		if (peer->tx[i].sent != r->got || peer->tx[i].limit != r->said ||
		    credit_rx_untold(r))
			return false;
	}
	return true;
}
