/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Who may have how much of what all hosts share.
 *
 * A host is an address that connections come from: what it calls itself costs nothing to invent.
 * One rule holds for queues, for memory, for that of one namespace, whose store may hang, among
 * those that a host works on, and for that of one queue among the host's on a namespace: nobody
 * holds more than would still be left for others. So a host alone has half, the next one half of
 * the rest, and there is always something for one who comes new, without any share being set aside
 * for hosts that are not there.
 *
 * Memory for I/O and memory for all else (Connect, admin commands) are counted apart: what hosts
 * do that were let in leaves the others able to ask.
 *
 * A command that finds no memory waits. Hosts take turns, in a host its queues, in a queue the
 * first comes first, but for commands to another namespace.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/transport/rdma_target_internal.h"

/* --- hosts ------------------------------------------------------------------------------------ */

/* Whoever has one address of an IPv6 network of hosts has as many as he likes. */
#define IPV6_NETWORK_BYTES 8

static void key_of_address(const struct sockaddr *sa, uint8_t key[16])
{
	memset(key, 0, 16);
	if (sa->sa_family == AF_INET6) {
		memcpy(key, &((const struct sockaddr_in6 *)sa)->sin6_addr, IPV6_NETWORK_BYTES);
		return;
	}
	key[10] = key[11] = 0xff;
	memcpy(key + 12, &((const struct sockaddr_in *)sa)->sin_addr, 4);
}

struct rdma_host *rdma_host_get(struct rdma_target *rt, const struct sockaddr *sa)
{
	uint8_t key[16];
	struct rdma_host *h;

	key_of_address(sa, key);
	list_for_each(known, &rt->hosts, struct rdma_host, link)
		if (memcmp(known->key, key, sizeof(key)) == 0) {
			known->queues++;
			return known;
		}
	h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	memcpy(h->key, key, sizeof(key));
	h->queues = 1;
	list_init(&h->turn);
	list_init(&h->waiting);
	list_push_tail(&rt->hosts, &h->link);
	return h;
}

void rdma_host_put(struct rdma_host *h)
{
	if (--h->queues)
		return;
	assert(list_empty(&h->waiting) && !h->used[RDMA_FOR_IO] && !h->used[RDMA_FOR_ADMIN]);
	list_remove(&h->turn);
	list_remove(&h->link);
	free(h);
}

bool rdma_host_has_room(const struct rdma_target *rt, const struct rdma_host *h)
{
	uint32_t left = RDMA_QUEUES_MAX - rt->queue_count; /* the new one is not counted yet */

	return left && (h->queues == 1 || h->queues <= left - 1);
}

/* --- connections without Connect --------------------------------------------------------------
 *
 * Anybody can ask for a connection, under any address until it is established. Each takes a queue
 * pair and a page; there are not many, and where there are too many the new one drives out an old
 * one: of its host if that has its share, else of the host that has most. First those go which are
 * not established; a host that means it has done with Connect long before it is the oldest.
 */

void rdma_young_add(struct rdma_queue *q)
{
	list_push_tail(&q->rt->young, &q->young);
	q->rt->young_count++;
	q->host->young++;
}

void rdma_young_remove(struct rdma_queue *q)
{
	if (list_empty(&q->young))
		return;
	list_remove(&q->young);
	q->rt->young_count--;
	q->host->young--;
}

struct rdma_queue *rdma_young_victim(const struct rdma_target *rt, const struct rdma_host *h)
{
	struct rdma_queue *oldest = NULL;
	uint32_t most = 0;

	if (h->young < RDMA_YOUNG_HOST_MAX) {
		if (rt->young_count < RDMA_YOUNG_MAX)
			return NULL;
		list_for_each(o, &rt->hosts, const struct rdma_host, link)
			most = max_of(most, o->young);
	}
	list_for_each(q, &rt->young, struct rdma_queue, young) {
		if (most ? q->host->young < most : q->host != h)
			continue;
		if (!q->established)
			return q;
		if (!oldest)
			oldest = q;
	}
	return oldest;
}

/* --- memory ----------------------------------------------------------------------------------- */

static enum rdma_purpose purpose_of(const struct rdma_queue *q)
{
	return q->tq.qid ? RDMA_FOR_IO : RDMA_FOR_ADMIN;
}

static uint32_t slot_of(const struct rdma_cmd *c)
{
	return c->req.ns ? c->req.ns->nsid : 0;
}

/* What one holds alone, however large, is never too much: it could never be had. */
static bool is_fair(const struct rdma_cmd *c, size_t bytes)
{
	const struct rdma_queue *q = c->send_hook.queue;
	enum rdma_purpose p = purpose_of(q);
	const struct rdma_budget *b = &q->rt->budget[p];
	uint32_t slot = slot_of(c);
	const size_t held[] = {q->host->used[p], q->host->used_for[p][slot], q->used_for[slot]};
	size_t left = b->len - b->used;

	if (b->promised && b->promised != c)
		left -= min_of(left, b->promised_len);
	if (bytes > left)
		return false;
	left -= bytes;
	for (unsigned i = 0; i < ARRAY_SIZE(held) && held[i]; i++) {
		if (held[i] + bytes > left)
			return false;
		left -= held[i] + bytes;
	}
	return true;
}

static void count(const struct rdma_cmd *c, size_t more, size_t less)
{
	struct rdma_queue *q = c->send_hook.queue;
	enum rdma_purpose p = purpose_of(q);
	uint32_t slot = slot_of(c);
	size_t *const counts[] = {&q->rt->budget[p].used, &q->host->used[p],
				  &q->host->used_for[p][slot], &q->used_for[slot]};

	for (unsigned i = 0; i < ARRAY_SIZE(counts); i++)
		*counts[i] += more - less;
}

/*
 * A large command of a host that holds nothing would wait for as long as small ones of others take
 * whatever is freed. One at a time is kept some for, of those that are no large part of it all.
 */
static void promise(const struct rdma_cmd *c, size_t bytes)
{
	const struct rdma_queue *q = c->send_hook.queue;
	struct rdma_budget *b = &q->rt->budget[purpose_of(q)];

	if (b->promised || q->host->used[purpose_of(q)] || bytes > b->len / 4)
		return;
	b->promised = c;
	b->promised_len = bytes;
}

static void promise_is_over(const struct rdma_cmd *c)
{
	const struct rdma_queue *q = c->send_hook.queue;
	struct rdma_budget *b = &q->rt->budget[purpose_of(q)];

	if (b->promised == c)
		b->promised = NULL;
}

/* Memory for all that a command needs, or for none of it. */
static bool take(struct rdma_cmd *c)
{
	struct rdma_queue *q = c->send_hook.queue;
	struct data_pool *pool = &q->rt->pool;
	struct target_req *r = &c->req;
	size_t data_len = r->data ? 0 : data_pool_block(r->data_len);
	size_t scratch_len = data_pool_block(r->scratch_len);

	if (!is_fair(c, data_len + scratch_len)) {
		promise(c, data_len + scratch_len);
		return false;
	}
	if (data_len) {
		c->data = data_pool_get(pool, data_len);
		if (!c->data)
			return false;
	}
	if (scratch_len) {
		c->scratch = data_pool_get(pool, scratch_len);
		if (!c->scratch) {
			if (c->data)
				data_pool_put(pool, c->data);
			c->data = NULL;
			return false;
		}
	}
	c->held = data_len + scratch_len;
	count(c, c->held, 0);
	if (c->data)
		r->data = c->data;
	r->scratch = c->scratch;
	return true;
}

static bool is_first(const struct rdma_cmd *c)
{
	list_for_each(o, &c->send_hook.queue->pool_wait, const struct rdma_cmd, link)
		if (slot_of(o) == slot_of(c))
			return false;
	return true;
}

bool rdma_memory_take(struct rdma_cmd *c)
{
	struct rdma_queue *q = c->send_hook.queue;

	if (is_first(c) && take(c))
		return true;
	list_push_tail(&q->pool_wait, &c->link);
	if (list_empty(&q->turn))
		list_push_tail(&q->host->waiting, &q->turn);
	if (list_empty(&q->host->turn))
		list_push_tail(&q->rt->waiting, &q->host->turn);
	return false;
}

void rdma_memory_put(struct rdma_cmd *c)
{
	struct rdma_queue *q = c->send_hook.queue;

	if (!c->held)
		return;
	if (c->data)
		data_pool_put(&q->rt->pool, c->data);
	if (c->scratch)
		data_pool_put(&q->rt->pool, c->scratch);
	c->data = c->scratch = NULL;
	count(c, 0, c->held);
	c->held = 0;
	q->rt->memory_freed = true;
}

void rdma_memory_forget(struct rdma_cmd *c)
{
	struct rdma_queue *q = c->send_hook.queue;

	promise_is_over(c);
	list_remove(&c->link);
	if (!list_empty(&q->pool_wait))
		return;
	list_remove(&q->turn);
	if (list_empty(&q->host->waiting))
		list_remove(&q->host->turn);
}

/* The first command that can go on, of those to one namespace the first; NULL if none can. */
static struct rdma_cmd *take_first(struct rdma_queue *q)
{
	bool passed[RDMA_NS_SLOTS] = {false};

	list_for_each(c, &q->pool_wait, struct rdma_cmd, link) {
		bool *mine = &passed[slot_of(c)];

		if (!*mine && take(c))
			return c;
		*mine = true;
	}
	return NULL;
}

/* A command of one of the host's queues goes on, if any can. */
static bool take_turn(struct rdma_host *h)
{
	list_for_each(q, &h->waiting, struct rdma_queue, turn) {
		struct rdma_cmd *c = take_first(q);

		if (!c)
			continue;
		rdma_memory_forget(c);
		if (!list_empty(&q->pool_wait)) { /* behind the host's others */
			list_remove(&q->turn);
			list_push_tail(&h->waiting, &q->turn);
		}
		rdma_cmd_has_memory(c);
		return true;
	}
	return false;
}

bool rdma_memory_pump(struct rdma_target *rt)
{
	bool any = false;

	if (!rt->memory_freed)
		return false;
	rt->memory_freed = false;
	for (bool more = true; more;) {
		more = false;
		list_for_each(h, &rt->waiting, struct rdma_host, turn) {
			if (!take_turn(h))
				continue;
			if (!list_empty(&h->turn)) { /* behind the other hosts */
				list_remove(&h->turn);
				list_push_tail(&rt->waiting, &h->turn);
			}
			any = more = true;
		}
	}
	return any;
}
