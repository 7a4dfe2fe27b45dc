/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/local/local_port.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/log.h"
#include "base/units.h"
#include "port/local/entry.h"
#include "port/local/inbox.h"
#include "port/local/peer.h"

#define RX_BYTES_MAX ((size_t)256 << 10) /* of one ring in one batch */
/* While much comes from the host itself the port behind, which costs a system call, is looked at
 * now and then. */
#define BUSY_NS	       NSEC_PER_MSEC
#define LOOK_BEHIND_NS (10 * NSEC_PER_USEC)

struct slots {
	uint64_t bits[INBOX_WORDS];
};

struct local_port {
	struct port port; /* first */
	struct port *behind;
	uint8_t slot;
	int fd; /* of the inbox; -1 after a fork */
	struct inbox *own;
	uint8_t *bytes[INBOX_SLOTS]; /* of own rings that were used */
	uint64_t head[INBOX_SLOTS];
	struct slots rung;    /* there may be more in these */
	struct slots refused; /* whatever the inbox says by now */
	bool sleeps;
	uint32_t sleep_nr; /* of the last sleep, less one: even */
	uint64_t now, got_at, looked_at;
	struct peer *peer[INBOX_SLOTS];
	struct slots waits; /* peers that have found no room */
	struct flow to;	    /* how this host is reached: the last packet's */
	bool reached;
};

static struct local_port *local_port_of(struct port *p)
{
	return (struct local_port *)p;
}

static void add(struct slots *s, unsigned i)
{
	s->bits[i / 64] |= UINT64_C(1) << i % 64;
}

static void drop(struct slots *s, unsigned i)
{
	s->bits[i / 64] &= ~(UINT64_C(1) << i % 64);
}

static bool has(const struct slots *s, unsigned i)
{
	return s->bits[i / 64] >> i % 64 & 1;
}

static bool any(const struct slots *s)
{
	uint64_t all = 0;

	for (unsigned w = 0; w < INBOX_WORDS; w++)
		all |= s->bits[w];
	return all;
}

/* The next of them from i on, or INBOX_SLOTS. */
static unsigned next_of(const struct slots *s, unsigned i)
{
	while (i < INBOX_SLOTS) {
		uint64_t rest = s->bits[i / 64] >> i % 64;

		if (rest)
			return i + (unsigned)__builtin_ctzll(rest);
		i = (i / 64 + 1) * 64;
	}
	return INBOX_SLOTS;
}

#define for_slots(i, s) for (unsigned i = next_of(s, 0); i < INBOX_SLOTS; i = next_of(s, i + 1))

/* ---- sending -------------------------------------------------------------------------------- */

static void part(struct local_port *p, unsigned slot)
{
	if (p->peer[slot])
		peer_part(p->peer[slot]);
	p->peer[slot] = NULL;
	drop(&p->waits, slot);
}

static bool wake(struct local_port *p, unsigned slot)
{
	struct packet_tx t = {.flow = &p->to, .hdr_len = PORT_DOORBELL_LEN - ICRC_LEN};

	t.hdr[5] = (uint8_t)slot; /* where a packet has it */
	return p->reached && port_tx(p->behind, &t, 1, NULL) == 1;
}

static void wake_peer(struct local_port *p, unsigned slot)
{
	if (wake(p, slot))
		peer_woken(p->peer[slot]);
}

/* The slot of a peer in this host, or -1. */
static int slot_within(struct local_port *p, const struct packet_tx *t)
{
	const unsigned slot = t->hdr[5]; /* bits 23:16 of the destination QPN */
	const struct peer *o = p->peer[slot];

	if (!o || !gid_equal(&t->flow->sgid, &t->flow->dgid))
		return -1;
	if (peer_is_gone(o)) {
		part(p, slot);
		return -1;
	}
	return (int)slot;
}

static void publish(struct local_port *p, unsigned slot)
{
	struct peer *o = p->peer[slot];

	if (peer_publish(o, p->now))
		wake_peer(p, slot);
	if (peer_waits(o))
		add(&p->waits, slot);
	else
		drop(&p->waits, slot);
}

/* Of a peer that has gone, its waiting packets go, too. */
static void publish_waiting(struct local_port *p)
{
	for_slots(i, &p->waits)
	{
		if (peer_is_gone(p->peer[i]))
			part(p, i);
		else
			publish(p, i);
	}
}

static size_t local_tx(struct port *port, const struct packet_tx *pkts, size_t n,
		       struct packet_sent *ret_sent)
{
	struct local_port *p = local_port_of(port);
	struct slots touched = {0};
	size_t sent = 0, first = 0, here = 0;

	if (p->fd < 0)
		return 0;
	for (size_t i = 0; i < n; i++) {
		int slot = slot_within(p, &pkts[i]);

		if (slot < 0)
			continue;
		if (first < i)
			sent += port_tx(p->behind, &pkts[first], i - first,
					ret_sent ? ret_sent + first : NULL);
		first = i + 1;
		if (ret_sent)
			ret_sent[i] = (struct packet_sent){0};
		p->to = *pkts[i].flow;
		p->reached = true;
		add(&touched, (unsigned)slot);
		if (peer_send(p->peer[slot], &pkts[i]))
			here++;
		else
			p->port.counters->tx_would_block++;
	}
	if (first < n)
		sent += port_tx(p->behind, &pkts[first], n - first,
				ret_sent ? ret_sent + first : NULL);
	for_slots(i, &touched)
	{
		if (p->peer[i]) /* it may have gone since */
			publish(p, i);
	}
	p->port.counters->tx_local += here;
	return sent + here;
}

/* ---- receiving ------------------------------------------------------------------------------ */

static void say_refused(struct local_port *p, unsigned slot)
{
	atomic_fetch_or(&p->own->refuses[slot / 64], UINT64_C(1) << slot % 64);
}

static void refuse(struct local_port *p, unsigned slot, const char *why)
{
	add(&p->refused, slot);
	say_refused(p, slot);
	log_err("local", "of slot %u no more is taken within this host, but by UDP: %s", slot, why);
}

/* The entry at head, as far as tail; its size, or 0: that is none. */
static size_t read_entry(const uint8_t *at, uint64_t left, struct packet_rx *ret)
{
	struct entry e;

	if (left < sizeof(e))
		return 0;
	memcpy(&e, at, sizeof(e));
	__asm__ volatile("" : "+m"(e)); /* what is judged is the copy, be it that it changes */
	if (e.len < BTH_LEN || e.len > ENTRY_PACKET_MAX || entry_size(e.len) > left)
		return 0;
	*ret = (struct packet_rx){
		.flow = {.sgid = e.gid,
			 .dgid = e.gid,
			 .scope = e.scope,
			 .sport = e.sport,
			 .tos = e.tos,
			 .ttl = e.ttl,
			 .flow_label = e.flow_label},
		.data = at + sizeof(e),
		.len = e.len,
	};
	return entry_size(e.len);
}

/* Who waits for it may be nobody that we send to, or no more: then it is woken at any rate. */
static void tell_of_room(struct local_port *p, unsigned slot)
{
	if (!p->peer[slot] || peer_is_gone(p->peer[slot]))
		wake(p, slot);
	else if (peer_ring(p->peer[slot]))
		wake_peer(p, slot);
}

/* What a ring holds, as far as one batch goes. False: more is left. */
static bool take_ring(struct local_port *p, unsigned slot, port_take *take, void *ctx, int *n)
{
	static const char senseless[] = "what it sends makes no sense";
	struct inbox_ring *r = &p->own->ring[slot];
	uint64_t head = p->head[slot], begin = head;
	uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
	int rc;

	if (has(&p->refused, slot)) {
		say_refused(p, slot);
		return true;
	}
	if (head == tail)
		return true;
	if (tail - head > INBOX_RING) {
		refuse(p, slot, senseless);
		return true;
	}
	rc = p->bytes[slot] ? 0 : inbox_map_ring(p->fd, slot, &p->bytes[slot]);
	if (rc) {
		refuse(p, slot, errno_text(-rc));
		return true;
	}
	while (head != tail && head - begin < RX_BYTES_MAX) {
		struct packet_rx rx;
		size_t size = read_entry(p->bytes[slot] + head % INBOX_RING, tail - head, &rx);

		if (size == 0) {
			refuse(p, slot, senseless);
			break;
		}
		if (!p->reached) {
			p->to = rx.flow;
			p->reached = true;
		}
		head += size;
		++*n;
		take(ctx, &rx);
	}
	p->head[slot] = head;
	atomic_store(&r->head, head);
	if (atomic_load(&r->blocked) && atomic_exchange(&r->blocked, 0))
		tell_of_room(p, slot);
	return head == tail || has(&p->refused, slot);
}

static int take_rings(struct local_port *p, port_take *take, void *ctx)
{
	int n = 0;

	for (unsigned w = 0; w < INBOX_WORDS; w++)
		if (atomic_load_explicit(&p->own->bell[w], memory_order_relaxed))
			p->rung.bits[w] |= atomic_exchange(&p->own->bell[w], 0);
	if (!any(&p->rung))
		return 0;
	for_slots(i, &p->rung)
	{
		if (take_ring(p, i, take, ctx, &n))
			drop(&p->rung, i);
	}
	return n;
}

static int local_rx(struct port *port, uint64_t now, port_take *take, void *ctx)
{
	struct local_port *p = local_port_of(port);
	const bool slept = p->sleeps;
	int n, behind;

	if (p->fd < 0)
		return -EBADF;
	p->sleeps = false;
	if (slept)
		atomic_store(&p->own->asleep, p->sleep_nr);
	p->now = now;
	n = take_rings(p, take, ctx);
	if (n) {
		p->got_at = now;
		p->port.counters->rx_local += (uint64_t)n;
	}
	if (any(&p->waits))
		publish_waiting(p);
	if (!slept && now - p->got_at < BUSY_NS && now - p->looked_at < LOOK_BEHIND_NS)
		return n;
	p->looked_at = now;
	behind = port_rx(p->behind, now, take, ctx);
	return behind < 0 ? behind : n + behind;
}

/* ---- the rest ------------------------------------------------------------------------------- */

static bool local_stirs(const struct port *port)
{
	const struct local_port *p = (const struct local_port *)port;

	for (unsigned w = 0; p->own && w < INBOX_WORDS; w++)
		if (atomic_load(&p->own->bell[w]))
			return true;
	return false;
}

/* Who finds something does not sleep, and is not to be woken by what comes next. */
static bool local_sleeps(struct port *port)
{
	struct local_port *p = local_port_of(port);

	if (p->fd < 0)
		return true;
	if (local_stirs(port) || any(&p->rung))
		return false;
	p->sleeps = true;
	/* Another one, though it said so before: who has rung for that may have done so in vain. */
	p->sleep_nr += 2;
	atomic_store(&p->own->asleep, p->sleep_nr + 1);
	return !local_stirs(port);
}

static bool local_rouse(struct port *port)
{
	struct local_port *p = local_port_of(port);

	return p->fd >= 0 && wake(p, p->slot);
}

static void local_at(struct port *port, uint64_t now)
{
	local_port_of(port)->now = now;
}

static void local_want_headers(struct port *port)
{
	port_want_headers(local_port_of(port)->behind);
}

static bool local_reaches(const struct port *port, const struct flow *f)
{
	return port_reaches(((const struct local_port *)port)->behind, f);
}

/* The mappings are not in the child; others may stand where they were. */
static void local_forked(struct port *port)
{
	struct local_port *p = local_port_of(port);

	close(p->fd);
	p->fd = -1;
	p->own = NULL;
	memset(p->bytes, 0, sizeof(p->bytes));
	for (unsigned i = 0; i < INBOX_SLOTS; i++) {
		if (p->peer[i])
			peer_forked(p->peer[i]);
		p->peer[i] = NULL;
	}
	port_forked(p->behind);
	p->port.fd = -1;
}

static void local_destroy(struct port *port)
{
	struct local_port *p = local_port_of(port);

	for (unsigned i = 0; i < INBOX_SLOTS; i++) {
		part(p, i);
		if (p->bytes[i])
			inbox_unmap_ring(p->bytes[i]);
	}
	if (p->own)
		inbox_unmap(p->own);
	if (p->fd >= 0)
		close(p->fd);
	port_destroy(p->behind);
	free(p);
}

static const struct port_ops local_ops = {
	.rx = local_rx,
	.tx = local_tx,
	.at = local_at,
	.reaches = local_reaches,
	.sleeps = local_sleeps,
	.rouse = local_rouse,
	.stirs = local_stirs,
	.want_headers = local_want_headers,
	.forked = local_forked,
	.destroy = local_destroy,
};

int local_port_before(struct port **io, uint8_t slot)
{
	struct local_port *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->fd = inbox_create(&p->own);
	if (p->fd < 0) {
		int rc = p->fd;

		free(p);
		return rc;
	}
	p->behind = *io;
	p->port = **io;
	p->port.ops = &local_ops;
	p->slot = slot;
	*io = &p->port;
	return 0;
}

int local_port_inbox(const struct port *port)
{
	return ((const struct local_port *)port)->fd;
}

uint32_t local_port_news(const struct port *port)
{
	const struct local_port *p = (const struct local_port *)port;

	return p->own ? atomic_load(&p->own->news) : 0;
}

int local_port_meet(struct port *port, uint8_t slot, int fd)
{
	struct local_port *p = local_port_of(port);
	struct peer *o;
	int rc;

	if (p->fd < 0)
		return -EBADF;
	if (p->peer[slot] && !peer_is_gone(p->peer[slot]) && peer_is(p->peer[slot], fd)) {
		close(fd);
		return 0;
	}
	part(p, slot); /* who was there has the slot no more */
	rc = peer_meet(&o, fd, p->slot);
	if (rc)
		return rc;
	p->peer[slot] = o;
	close(fd);
	return 0;
}

void local_port_part(struct port *port, uint8_t slot)
{
	part(local_port_of(port), slot);
}
