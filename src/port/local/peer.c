/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/local/peer.h"

#include <errno.h>
#include <netinet/ip.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/list.h"
#include "base/units.h"
#include "port/local/entry.h"
#include "port/local/inbox.h"
#include "wire/opcode.h"

/* Who is awake takes what comes sooner than that; who has not is woken again, as its bell may have
 * been lost. */
#define LOOK_NS NSEC_PER_MSEC

struct waiting {
	struct list list;
	size_t size;
	_Alignas(ENTRY_ALIGN) uint8_t image[]; /* an entry */
};

struct peer {
	struct inbox *inbox;
	struct inbox_ring *ring;
	uint8_t *bytes;
	uint8_t own;
	ino_t ino;     /* of the inbox: files of memory are of one system */
	uint64_t tail; /* what follows is written there */
	uint64_t head; /* as it was last seen */
	bool shown;    /* all up to the tail is */
	struct list waits;
	size_t waits_bytes;
	uint64_t looked_at, looked_tail; /* whether it takes anything */
	uint32_t asleep;		 /* as it was last seen */
};

static void write_entry(uint8_t *at, const struct packet_tx *t)
{
	const struct flow *f = t->flow;
	struct entry *e = (struct entry *)(void *)at; /* aligned, and nobody looks yet */

	e->len = (uint32_t)packet_tx_len(t);
	e->scope = f->scope;
	e->gid = f->sgid;
	e->sport = f->sport;
	e->tos = f->tos;
	e->ttl = f->ttl ?: IPDEFTTL;
	e->flow_label = f->flow_label;
	(void)packet_tx_copy_rest(packet_tx_copy_hdr(at + sizeof(*e), t), t);
}

/* Where the next entry goes; NULL: there is no room. A head that cannot be is none, either. */
static uint8_t *room_for(struct peer *o, size_t size)
{
	if (o->tail + size - o->head > INBOX_RING)
		o->head = atomic_load_explicit(&o->ring->head, memory_order_acquire);
	if (o->tail + size - o->head > INBOX_RING)
		return NULL;
	return o->bytes + o->tail % INBOX_RING;
}

/* What waits goes before what comes. */
static void send_waiting(struct peer *o)
{
	while (!list_empty(&o->waits)) {
		struct waiting *w = list_entry(o->waits.next, struct waiting, list);
		uint8_t *at = room_for(o, w->size);

		if (!at) {
			/* It rings when it has taken something, which it may have by now. */
			atomic_store(&o->ring->blocked, 1);
			o->head = atomic_load(&o->ring->head);
			at = room_for(o, w->size);
		}
		if (!at)
			break;
		memcpy(at, w->image, w->size);
		o->tail += w->size;
		o->shown = false;
		o->waits_bytes -= w->size;
		list_remove(&w->list);
		free(w);
	}
}

static bool wait_for_room(struct peer *o, const struct packet_tx *t, size_t size)
{
	struct waiting *w;

	if (o->waits_bytes + size > PEER_WAITS_MAX)
		return false;
	w = malloc(sizeof(*w) + size);
	if (!w)
		return false;
	w->size = size;
	write_entry(w->image, t);
	list_push_tail(&o->waits, &w->list);
	o->waits_bytes += size;
	return true;
}

bool peer_send(struct peer *o, const struct packet_tx *t)
{
	const size_t size = entry_size(packet_tx_len(t));
	uint8_t *at;

	if (!list_empty(&o->waits))
		send_waiting(o);
	at = list_empty(&o->waits) ? room_for(o, size) : NULL;
	if (!at)
		return wait_for_room(o, t, size);
	write_entry(at, t);
	o->tail += size;
	o->shown = false;
	return true;
}

bool peer_waits(const struct peer *o)
{
	return !list_empty(&o->waits);
}

bool peer_ring(struct peer *o)
{
	atomic_fetch_or(&o->inbox->bell[o->own / 64], UINT64_C(1) << o->own % 64);
	o->asleep = atomic_load(&o->inbox->asleep);
	return o->asleep & 1;
}

/* Has nothing been taken since the last look of what was there then? */
static bool takes_nothing(struct peer *o, uint64_t now)
{
	uint64_t head, before = o->looked_tail;

	if (now - o->looked_at < LOOK_NS)
		return false;
	head = atomic_load_explicit(&o->ring->head, memory_order_relaxed);
	o->looked_at = now;
	o->looked_tail = o->tail;
	return before - head - 1 < INBOX_RING;
}

bool peer_publish(struct peer *o, uint64_t now)
{
	bool stuck;

	if (!list_empty(&o->waits))
		send_waiting(o);
	/* All that there is room for may be shown, and who was rung for it not have heard it. */
	stuck = (!o->shown || !list_empty(&o->waits)) && takes_nothing(o, now);
	if (o->shown && !stuck)
		return false;
	o->shown = true;
	atomic_store_explicit(&o->ring->tail, o->tail, memory_order_release);
	return peer_ring(o) || stuck;
}

void peer_woken(struct peer *o)
{
	uint32_t asleep = o->asleep;

	/* It may be awake by now, or in its next sleep. */
	if (asleep & 1)
		atomic_compare_exchange_strong(&o->inbox->asleep, &asleep, asleep - 1);
}

bool peer_is_gone(const struct peer *o)
{
	return atomic_load_explicit(&o->inbox->closed, memory_order_relaxed) ||
	       atomic_load_explicit(&o->inbox->refuses[o->own / 64], memory_order_relaxed) >>
			       o->own % 64 &
		       1;
}

int peer_meet(struct peer **ret, int fd, uint8_t own)
{
	struct peer *o = calloc(1, sizeof(*o));
	struct stat st;
	int rc;

	if (!o)
		return -ENOMEM;
	o->own = own;
	list_init(&o->waits);
	rc = fstat(fd, &st) < 0 ? -errno : inbox_map(fd, &o->inbox);
	if (rc)
		goto fail;
	o->ino = st.st_ino;
	rc = peer_is_gone(o) ? -ECONNREFUSED : inbox_map_ring(fd, own, &o->bytes);
	if (rc)
		goto fail_inbox;
	o->ring = &o->inbox->ring[own];
	/* Where who had this slot before us has left it: slots rest before they are leased again.
	 */
	o->tail = o->looked_tail = atomic_load(&o->ring->tail);
	if (o->tail % ENTRY_ALIGN) { /* what we have not said */
		rc = -ECONNREFUSED;
		goto fail_ring;
	}
	o->head = atomic_load(&o->ring->head);
	o->shown = true;
	*ret = o;
	return 0;
fail_ring:
	inbox_unmap_ring(o->bytes);
fail_inbox:
	inbox_unmap(o->inbox);
fail:
	free(o);
	return rc;
}

bool peer_is(const struct peer *o, int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_ino == o->ino;
}

void peer_forked(struct peer *o)
{
	struct list *n;

	while ((n = list_pop_head(&o->waits)))
		free(list_entry(n, struct waiting, list));
	free(o);
}

void peer_part(struct peer *o)
{
	inbox_unmap_ring(o->bytes);
	inbox_unmap(o->inbox);
	peer_forked(o);
}
