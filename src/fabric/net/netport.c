/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/net/netport.h"

#include <assert.h>

#include "base/bytes.h"
#include "base/heap.h" /* DEADLINE_NEVER */
#include "fabric/net/arbiter.h"

#define QUANTUM_BITS 512
#define FS_PER_NS    1000000ull
#define DRR_BYTES    1600 /* of weight 1, in a turn: a usual frame */

/* ---- what is next ---------------------------------------------------------------------------- */

static bool may_leave(const struct netport *p, unsigned priority)
{
	return p->queue[priority].first && !(p->stopped >> priority & 1);
}

/* Strict priorities, the highest first. PRIORITIES: none. */
static unsigned strict_next(const struct netport *p)
{
	for (unsigned i = PRIORITIES; i-- > 0;)
		if (p->scheduler.strict >> i & 1 && may_leave(p, i))
			return i;
	return PRIORITIES;
}

static int64_t quantum(const struct netport *p, unsigned priority)
{
	return (int64_t)max_of(p->scheduler.weight[priority], (uint8_t)1) * DRR_BYTES;
}

static bool has_turns(const struct netport *p, unsigned priority)
{
	return !(p->scheduler.strict >> priority & 1) && may_leave(p, priority);
}

/* The others take turns, and each sends what it has saved up for. */
static unsigned weighted_next(struct netport *p)
{
	unsigned ready = 0, last = 0;

	for (unsigned i = 0; i < PRIORITIES; i++) {
		if (has_turns(p, i)) {
			ready++;
			last = i;
		} else if (!p->queue[i].first) {
			p->deficit[i] = 0; /* who has nothing to send saves nothing up */
		}
	}
	if (ready <= 1)
		return ready ? last : PRIORITIES;
	for (;; p->turn = (p->turn + 1) % PRIORITIES) {
		unsigned i = p->turn;

		if (!has_turns(p, i))
			continue;
		if (p->deficit[i] >= p->queue[i].first->bytes)
			return i;
		p->deficit[i] += quantum(p, i);
		if (p->deficit[i] >= p->queue[i].first->bytes)
			return i;
	}
}

/* What it has left it keeps as long as it has something to send and its turn is not over. */
static void spend(struct netport *p, unsigned priority, uint32_t bytes)
{
	const struct frame *next = p->queue[priority].first;
	int64_t left = p->deficit[priority] - bytes;

	p->deficit[priority] = next ? max_of(left, (int64_t)0) : 0;
	if (p->turn == priority && (!next || p->deficit[priority] < next->bytes))
		p->turn = (p->turn + 1) % PRIORITIES;
}

static unsigned scheduled_next(struct netport *p)
{
	unsigned i = strict_next(p);

	return i == PRIORITIES ? weighted_next(p) : i;
}

static unsigned arbitrated_next(struct netport *p)
{
	uint32_t bytes[PRIORITIES];
	uint8_t ready = 0;

	for (unsigned i = 0; i < PRIORITIES; i++)
		if (may_leave(p, i)) {
			ready |= (uint8_t)(1u << i);
			bytes[i] = p->queue[i].first->bytes;
		}
	return ready ? arbiter_next(p->arbiter, ready, bytes) : ARBITER_NONE;
}

static struct frame *take_next(struct netport *p)
{
	struct frame *f = frame_queue_pop(&p->control);
	unsigned i;

	if (f)
		return f;
	i = p->arbiter ? arbitrated_next(p) : scheduled_next(p);
	if (i >= PRIORITIES)
		return NULL;
	if (p->ops->leaves)
		p->ops->leaves(p, p->queue[i].first, p->queue[i].bytes);
	f = frame_queue_pop(&p->queue[i]);
	p->queued -= f->bytes;
	if (!p->arbiter && !(p->scheduler.strict >> i & 1))
		spend(p, i, f->bytes);
	return f;
}

/* ---- the line -------------------------------------------------------------------------------- */

static void begin(struct netport *p)
{
	uint64_t now = fabric_now(p->fabric), fs;

	if (p->sending || p->choosing)
		return;
	p->choosing = true; /* whoever hears that a frame leaves may send more */
	p->sending = take_next(p);
	p->choosing = false;
	if (!p->sending) {
		p->rest_fs = 0;
		return;
	}
	fs = (p->sending->bytes + p->gap) * p->fs_per_byte + p->rest_fs;
	p->rest_fs = fs % FS_PER_NS;
	fabric_put(p->fabric, &p->sent, now + fs / FS_PER_NS);
}

static bool is_lost(struct netport *p, const struct frame *f)
{
	if (f->is_data && p->line.drop_every && ++p->data_frames % p->line.drop_every == 0)
		return true;
	return p->line.loss_ppb &&
	       prng_below(fabric_prng(p->fabric), 1000000000) < p->line.loss_ppb;
}

static void fly(struct netport *p, struct frame *f)
{
	f->at_ns = fabric_now(p->fabric) + p->line.delay_ns;
	frame_queue_push(&p->flight, f);
	if (!happening_is_due(&p->arrives))
		fabric_put(p->fabric, &p->arrives, f->at_ns);
}

static void sent(struct happening *h)
{
	struct netport *p = container_of(h, struct netport, sent);
	struct frame *f = p->sending;

	p->sending = NULL;
	p->counters.frames++;
	p->counters.bytes += f->bytes;
	if (p->watch)
		p->watch(p->watch_ctx, p, f, fabric_now(p->fabric));
	if (!frame_is_links(f) && p->ops->left)
		p->ops->left(p, f);
	if (is_lost(p, f)) {
		p->counters.lost++;
		frame_free(p->pool, f);
	} else {
		fly(p, f);
	}
	begin(p);
}

static void arrives(struct happening *h)
{
	struct netport *p = container_of(h, struct netport, arrives);
	struct frame *f = frame_queue_pop(&p->flight);

	if (p->flight.first)
		fabric_put(p->fabric, &p->arrives, p->flight.first->at_ns);
	p->peer->ops->arrived(p->peer, f);
}

void netport_send(struct netport *p, struct frame *f)
{
	frame_queue_push(&p->queue[f->priority], f);
	p->queued += f->bytes;
	p->counters.queue_most = max_of(p->counters.queue_most, p->queued);
	begin(p);
}

void netport_send_pause(struct netport *p, uint8_t mask, uint16_t quanta)
{
	struct frame *f = frame_alloc(p->pool);

	frame_of_pause(f, mask, quanta);
	p->counters.pauses_sent += quanta != 0;
	netport_send_link(p, f);
}

void netport_send_link(struct netport *p, struct frame *f)
{
	frame_queue_push(&p->control, f);
	begin(p);
}

/* ---- pauses ---------------------------------------------------------------------------------- */

uint64_t netport_quanta_ns(const struct netport *p, uint32_t quanta)
{
	return quanta * (QUANTUM_BITS / 8) * p->fs_per_byte / FS_PER_NS;
}

/* It is stopped, or goes on; time is counted while any priority is. */
static void set_stopped(struct netport *p, uint8_t stopped)
{
	uint64_t now = fabric_now(p->fabric);

	if (stopped == p->stopped)
		return;
	if (!p->stopped)
		p->any_stopped_since = now;
	if (!stopped)
		p->counters.paused_ns += now - p->any_stopped_since;
	for (unsigned i = 0; i < PRIORITIES; i++)
		if (stopped >> i & 1 && !(p->stopped >> i & 1))
			p->stopped_since[i] = now;
	p->stopped = stopped;
	if (p->ops->pause_changed)
		p->ops->pause_changed(p);
	begin(p);
}

void netport_stop(struct netport *p, uint8_t stopped)
{
	set_stopped(p, stopped);
}

/* When something is to happen by itself: a pause ends. */
static void await_end(struct netport *p)
{
	uint64_t next = DEADLINE_NEVER;

	for (unsigned i = 0; i < PRIORITIES; i++)
		if (p->stopped >> i & 1)
			next = min_of(next, p->stopped_until[i]);
	if (next == DEADLINE_NEVER)
		happening_cancel(&p->resumes);
	else
		fabric_put(p->fabric, &p->resumes, next);
}

static void resumes(struct happening *h)
{
	struct netport *p = container_of(h, struct netport, resumes);
	uint8_t stopped = p->stopped;

	for (unsigned i = 0; i < PRIORITIES; i++)
		if (p->stopped_until[i] <= fabric_now(p->fabric))
			stopped &= (uint8_t) ~(1u << i);
	set_stopped(p, stopped);
	await_end(p);
}

void netport_drop(struct netport *p, unsigned priority)
{
	struct frame *f = frame_queue_pop(&p->queue[priority]);

	p->queued -= f->bytes;
	p->counters.dropped++;
	p->ops->dropped(p, f);
}

static void drop_queue(struct netport *p, unsigned priority)
{
	while (p->queue[priority].first)
		netport_drop(p, priority);
}

/* A pause that has not ended for so long stops the whole network behind it: it is not believed, and
 * what waits for its end is lost, until none has come for a while. */
static void watches(struct happening *h)
{
	struct netport *p = container_of(h, struct netport, watchdog);
	const struct scheduler_nature *s = &p->scheduler;
	uint64_t now = fabric_now(p->fabric), next = DEADLINE_NEVER;
	uint8_t stopped = p->stopped;

	for (unsigned i = 0; i < PRIORITIES; i++) {
		uint8_t bit = (uint8_t)(1u << i);

		if (p->unbelieved & bit) {
			if (now >= p->pause_seen[i] + s->restore_ns)
				p->unbelieved &= (uint8_t)~bit;
			else
				next = min_of(next, p->pause_seen[i] + s->restore_ns);
		} else if (stopped & bit) {
			if (now < p->stopped_since[i] + s->watchdog_ns) {
				next = min_of(next, p->stopped_since[i] + s->watchdog_ns);
				continue;
			}
			p->counters.watchdog++;
			p->unbelieved |= bit;
			stopped &= (uint8_t)~bit;
			drop_queue(p, i);
			next = min_of(next, now + s->restore_ns);
		}
	}
	set_stopped(p, stopped);
	await_end(p);
	if (next != DEADLINE_NEVER)
		fabric_put(p->fabric, &p->watchdog, next);
}

void netport_heed(struct netport *p, const struct frame *f)
{
	uint64_t now = fabric_now(p->fabric);
	uint8_t stopped = p->stopped;
	bool stops = false;

	for (unsigned i = 0; i < PRIORITIES; i++) {
		uint8_t bit = (uint8_t)(1u << i);

		if (!(f->mask & bit))
			continue;
		if (f->quanta[i]) {
			stops = true;
			p->pause_seen[i] = now;
		}
		if (f->quanta[i] && !(p->unbelieved & bit)) {
			stopped |= bit;
			p->stopped_until[i] = now + netport_quanta_ns(p, f->quanta[i]);
		} else {
			stopped &= (uint8_t)~bit;
		}
	}
	p->counters.pauses_got += stops;
	set_stopped(p, stopped);
	await_end(p);
	/* It may be due to give another priority back, which is later. */
	if (p->scheduler.watchdog_ns && stopped &&
	    (!happening_is_due(&p->watchdog) ||
	     p->watchdog.at_ns > now + p->scheduler.watchdog_ns)) {
		happening_cancel(&p->watchdog);
		fabric_put(p->fabric, &p->watchdog, now + p->scheduler.watchdog_ns);
	}
}

void netport_count_anew(struct netport *p)
{
	p->counters = (struct netport_counters){.queue_most = p->queued};
	p->any_stopped_since = fabric_now(p->fabric);
}

uint32_t netport_ready(const struct netport *p)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < PRIORITIES; i++)
		if (may_leave(p, i))
			n += p->queue[i].frames;
	return n;
}

/* Credits and the subnet's management are said for ever. */
static bool is_work(const struct frame *f)
{
	return f->kind == FRAME_PACKET || f->kind == FRAME_PAUSE;
}

static bool has_work(const struct frame_queue *q)
{
	for (const struct frame *f = q->first; f; f = f->next)
		if (is_work(f))
			return true;
	return false;
}

bool netport_is_idle(const struct netport *p)
{
	return !(p->sending && is_work(p->sending)) && !p->queued && !has_work(&p->flight) &&
	       !has_work(&p->control);
}

/* ---- its life -------------------------------------------------------------------------------- */

void netport_init(struct netport *p, struct fabric *f, struct frame_pool *pool,
		  const struct netport_ops *ops, void *owner, unsigned index)
{
	*p = (struct netport){
		.fabric = f,
		.pool = pool,
		.ops = ops,
		.owner = owner,
		.index = index,
		.gap = FRAME_GAP,
	};
	happening_init(&p->sent, sent);
	happening_init(&p->arrives, arrives);
	happening_init(&p->resumes, resumes);
	happening_init(&p->watchdog, watches);
}

void netport_join(struct netport *a, struct netport *b, const struct line_nature *line)
{
	assert(!a->peer && !b->peer);
	a->peer = b;
	b->peer = a;
	a->line = b->line = *line;
	a->fs_per_byte = b->fs_per_byte = 8000 * FS_PER_NS / line->rate_mbps;
}

static void give_back_all(struct netport *p, struct frame_queue *q)
{
	struct frame *f;

	while ((f = frame_queue_pop(q)))
		frame_free(p->pool, f);
}

void netport_fini(struct netport *p)
{
	happening_cancel(&p->sent);
	happening_cancel(&p->arrives);
	happening_cancel(&p->resumes);
	happening_cancel(&p->watchdog);
	if (p->sending)
		frame_free(p->pool, p->sending);
	give_back_all(p, &p->control);
	give_back_all(p, &p->flight);
	for (unsigned i = 0; i < PRIORITIES; i++)
		give_back_all(p, &p->queue[i]);
}
