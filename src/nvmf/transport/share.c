/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Who may have how much of what all hosts share.
 *
 * A host is an address that connections come from: what it calls itself costs nothing to invent.
 * One rule holds for queues and their entries, for memory, for that of one namespace, whose store
 * may hang, among those that a host works on, and for that of one queue among the host's on a
 * namespace: nobody holds more than would still be left for others. So a host alone has half, the
 * next one half of the rest, and there is always something for one who comes new, without any share
 * being set aside for hosts that are not there.
 *
 * Memory for I/O and memory for all else (Connect, admin commands) are counted apart: what hosts
 * do that were let in leaves the others able to ask.
 *
 * A command that finds no memory waits. Hosts take turns, in a host its queues, in a queue the
 * first comes first, but for commands to another namespace.
 */
#include "nvmf/transport/share.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/* --- the whole -------------------------------------------------------------------------------- */

int shares_init(struct shares *s, size_t pool_bytes)
{
	int error;

	*s = (struct shares){.queues_max = SHARE_QUEUES_MAX,
			     .budget = {[SHARE_FOR_IO] = {.len = pool_bytes},
					[SHARE_FOR_ADMIN] = {.len = SHARE_ADMIN_BYTES}}};
	list_init(&s->hosts);
	list_init(&s->waiting);
	list_init(&s->young);
	/* Of a young queue's page nobody has to keep books: there are only so many. */
	error = data_pool_init(&s->pool, pool_bytes + SHARE_ADMIN_BYTES +
						 (size_t)SHARE_YOUNG_MAX * DATA_POOL_PAGE);
	if (error)
		return error;
	/* Whoever has an account holds a page: one of a queue, which is one of a host. */
	error = accounts_init(&s->accounts, 2 * s->pool.len / DATA_POOL_PAGE);
	if (error)
		data_pool_fini(&s->pool);
	return error;
}

void shares_fini(struct shares *s)
{
	assert(!s->queue_count);
	accounts_fini(&s->accounts);
	data_pool_fini(&s->pool);
}

/* --- hosts ------------------------------------------------------------------------------------ */

/* Whoever has one address of an IPv6 network of hosts has as many as he likes. */
#define IPV6_NETWORK_BYTES 8

void share_key_of(const struct sockaddr *sa, uint8_t key[16])
{
	memset(key, 0, 16);
	if (sa->sa_family == AF_INET6) {
		memcpy(key, &((const struct sockaddr_in6 *)sa)->sin6_addr, IPV6_NETWORK_BYTES);
		return;
	}
	key[10] = key[11] = 0xff;
	memcpy(key + 12, &((const struct sockaddr_in *)sa)->sin_addr, 4);
}

/* With one queue more. */
static struct share_host *host_get(struct shares *s, const uint8_t key[16])
{
	struct share_host *h;

	list_for_each(known, &s->hosts, struct share_host, link)
		if (memcmp(known->key, key, sizeof(known->key)) == 0) {
			known->queues++;
			return known;
		}
	h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	memcpy(h->key, key, sizeof(h->key));
	h->queues = 1;
	list_init(&h->turn);
	list_init(&h->waiting);
	list_push_tail(&s->hosts, &h->link);
	return h;
}

static void host_put(struct share_host *h)
{
	if (--h->queues)
		return;
	assert(list_empty(&h->waiting) && !h->used[SHARE_FOR_IO] && !h->used[SHARE_FOR_ADMIN]);
	list_remove(&h->turn);
	list_remove(&h->link);
	free(h);
}

static bool host_has_room(const struct shares *s, const struct share_host *h)
{
	uint32_t left = s->queues_max - s->queue_count; /* the new one is not counted yet */

	return left && (h->queues == 1 || h->queues <= left - 1);
}

/* --- connections without Connect --------------------------------------------------------------
 *
 * Anybody can ask for a connection, under any address until it is established. Each takes a queue
 * pair and a page; there are not many, and where there are too many the new one drives out an old
 * one: of its host if that has its share, else of the host that has most. First those go which are
 * not established; a host that means it has done with Connect long before it is the oldest.
 */

void share_queue_grown(struct share_queue *q)
{
	if (list_empty(&q->young))
		return;
	list_remove(&q->young);
	q->shares->young_count--;
	q->host->young--;
}

/* The one that has to go before a host's next one comes, or NULL: there is room. */
static struct share_queue *young_victim(const struct shares *s, const struct share_host *h)
{
	struct share_queue *oldest = NULL;
	uint32_t most = 0;

	if (h->young < SHARE_YOUNG_HOST_MAX) {
		if (s->young_count < SHARE_YOUNG_MAX)
			return NULL;
		list_for_each(o, &s->hosts, const struct share_host, link)
			most = max_of(most, o->young);
	}
	list_for_each(q, &s->young, struct share_queue, young) {
		if (most ? q->host->young < most : q->host != h)
			continue;
		if (!q->established)
			return q;
		if (!oldest)
			oldest = q;
	}
	return oldest;
}

bool share_queue_init(struct share_queue *q, struct shares *s, const struct share_ops *ops,
		      const uint8_t key[16])
{
	struct share_host *h = host_get(s, key);
	struct share_queue *victim;

	*q = (struct share_queue){.ops = ops};
	list_init(&q->turn);
	list_init(&q->waiting);
	list_init(&q->young);
	if (!h)
		return false;
	if (!host_has_room(s, h)) {
		host_put(h);
		return false;
	}
	victim = young_victim(s, h);
	if (victim)
		victim->ops->give_way(victim);
	q->shares = s;
	q->host = h;
	list_push_tail(&s->young, &q->young);
	s->young_count++;
	h->young++;
	s->queue_count++;
	return true;
}

bool share_entries_take(struct share_queue *q, uint32_t count)
{
	struct shares *s = q->shares;
	struct share_host *h = q->host;
	uint32_t left = SHARE_ENTRIES_MAX - s->entry_count;

	if (count > left || (h->entries && h->entries + count > left - count))
		return false;
	q->entries += count;
	h->entries += count;
	s->entry_count += count;
	return true;
}

void share_queue_fini(struct share_queue *q)
{
	share_queue_grown(q);
	q->host->entries -= q->entries;
	q->shares->entry_count -= q->entries;
	q->shares->queue_count--;
	host_put(q->host);
}

/* --- memory ----------------------------------------------------------------------------------- */

/* What the accounts are of: a namespace, whatever its NSID is, in any of the subsystems. */
static uint64_t account_of(const struct share_cmd *c)
{
	return c->ns * SHARE_PURPOSES + c->purpose;
}

/* What one holds alone, however large, is never too much: it could never be had. */
static bool is_fair(const struct share_cmd *c, size_t bytes)
{
	const struct share_queue *q = c->queue;
	enum share_purpose p = c->purpose;
	const struct share_budget *b = &q->shares->budget[p];
	struct accounts *a = &q->shares->accounts;
	const uint64_t of = account_of(c);
	const size_t held[] = {q->host->used[p], accounts_held(a, q->host, of),
			       accounts_held(a, q, of)};
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

static void hold(struct share_cmd *c, size_t bytes)
{
	struct share_queue *q = c->queue;
	struct shares *s = q->shares;

	c->held = bytes;
	if (!bytes)
		return;
	s->budget[c->purpose].used += bytes;
	q->host->used[c->purpose] += bytes;
	accounts_take(&s->accounts, q->host, account_of(c), bytes);
	accounts_take(&s->accounts, q, account_of(c), bytes);
}

static void let_go(struct share_cmd *c)
{
	struct share_queue *q = c->queue;
	struct shares *s = q->shares;

	s->budget[c->purpose].used -= c->held;
	q->host->used[c->purpose] -= c->held;
	accounts_put(&s->accounts, q->host, account_of(c), c->held);
	accounts_put(&s->accounts, q, account_of(c), c->held);
	c->held = 0;
}

/*
 * A large command of a host that holds nothing would wait for as long as small ones of others take
 * whatever is freed. One at a time is kept some for, of those that are no large part of it all.
 */
static void promise(const struct share_cmd *c, size_t bytes)
{
	const struct share_queue *q = c->queue;
	struct share_budget *b = &q->shares->budget[c->purpose];

	if (b->promised || q->host->used[c->purpose] || bytes > b->len / 4)
		return;
	b->promised = c;
	b->promised_len = bytes;
}

static void promise_is_over(const struct share_cmd *c)
{
	const struct share_queue *q = c->queue;
	struct share_budget *b = &q->shares->budget[c->purpose];

	if (b->promised == c)
		b->promised = NULL;
}

/* Memory for all that a command needs, or for none of it. */
static bool take(struct share_cmd *c)
{
	struct share_queue *q = c->queue;
	struct data_pool *pool = &q->shares->pool;
	struct target_req *r = c->req;
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
	hold(c, data_len + scratch_len);
	if (c->data)
		r->data = c->data;
	r->scratch = c->scratch;
	return true;
}

/* Of those that wait for memory, for the same namespace: the first, or NULL. */
static struct share_cmd *first_for(const struct share_queue *q, uint64_t ns)
{
	list_for_each(c, &q->waiting, struct share_cmd, link)
		if (c->ns == ns)
			return c;
	return NULL;
}

bool share_memory_take(struct share_cmd *c)
{
	struct share_queue *q = c->queue;
	uint16_t qid = c->req->queue->qid;

	c->purpose = qid && qid != TARGET_QID_UNKNOWN ? SHARE_FOR_IO : SHARE_FOR_ADMIN;
	c->ns = c->req->ns ? c->req->ns->number : 0;
	c->behind = first_for(q, c->ns) != NULL;
	if (!c->behind && take(c))
		return true;
	list_push_tail(&q->waiting, &c->link);
	if (list_empty(&q->turn))
		list_push_tail(&q->host->waiting, &q->turn);
	if (list_empty(&q->host->turn))
		list_push_tail(&q->shares->waiting, &q->host->turn);
	return false;
}

void share_memory_put(struct share_cmd *c)
{
	struct share_queue *q = c->queue;

	if (!c->held)
		return;
	if (c->data)
		data_pool_put(&q->shares->pool, c->data);
	if (c->scratch)
		data_pool_put(&q->shares->pool, c->scratch);
	c->data = c->scratch = NULL;
	let_go(c);
	q->shares->memory_freed = true;
}

void share_memory_forget(struct share_cmd *c)
{
	struct share_queue *q = c->queue;
	struct share_cmd *next;

	promise_is_over(c);
	list_remove(&c->link);
	next = first_for(q, c->ns);
	if (next)
		next->behind = false;
	if (!list_empty(&q->waiting))
		return;
	list_remove(&q->turn);
	if (list_empty(&q->host->waiting))
		list_remove(&q->host->turn);
}

/* The first command that can go on, of those to one namespace the first; NULL if none can. */
static struct share_cmd *take_first(struct share_queue *q)
{
	list_for_each(c, &q->waiting, struct share_cmd, link)
		if (!c->behind && take(c))
			return c;
	return NULL;
}

/* A command of one of the host's queues goes on, if any can. */
static bool take_turn(struct share_host *h)
{
	list_for_each(q, &h->waiting, struct share_queue, turn) {
		struct share_cmd *c = take_first(q);

		if (!c)
			continue;
		share_memory_forget(c);
		if (!list_empty(&q->waiting)) { /* behind the host's others */
			list_remove(&q->turn);
			list_push_tail(&h->waiting, &q->turn);
		}
		q->ops->has_memory(c);
		return true;
	}
	return false;
}

bool shares_pump_due(const struct shares *s)
{
	return s->memory_freed && !list_empty(&s->waiting);
}

bool shares_pump(struct shares *s)
{
	bool any = false;

	if (!s->memory_freed)
		return false;
	s->memory_freed = false;
	for (bool more = true; more;) {
		more = false;
		list_for_each(h, &s->waiting, struct share_host, turn) {
			if (!take_turn(h))
				continue;
			if (!list_empty(&h->turn)) { /* behind the other hosts */
				list_remove(&h->turn);
				list_push_tail(&s->waiting, &h->turn);
			}
			any = more = true;
		}
	}
	return any;
}
