/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Keys of TLS as the target knows hosts by them. A host names itself and the subsystem in the
 * identity that it offers, in clear and before it has shown anything; what it has shown when the
 * handshake is over is held against its Connect (fabrics.c).
 *
 * A key is of a configured one, by which the host may come whenever it likes, or an authentication
 * has generated it (auth.c), for one association: then it is known until TARGET_PSK_NS have passed
 * without a connection by it, and from the first one on until the last has ended; and to nobody
 * whose key is not any more what it was at that authentication. What is forgotten is wiped.
 */
#include "nvmf/target/internal.h"

/* --- keys that were generated ------------------------------------------------------------------
 */

struct target_psk {
	struct list link; /* of target.psks */
	struct timer timer;
	uint32_t users; /* queues; none yet: the timer runs */
	bool replaced;	/* who has come by it stays, and nobody else comes */
	bool taken;	/* by an association, and by no other */
	struct auth_psk psk;
	struct auth_key proved;
};

static void forget(struct target *t, struct target_psk *p)
{
	t->psks_unused -= !p->users;
	timer_cancel(&t->psk_timers, &p->timer);
	list_remove(&p->link);
	auth_wipe(p, sizeof(*p));
	t->env.free(t->env.ctx, p);
}

static void forget_oldest_unused(struct target *t)
{
	list_for_each(p, &t->psks, struct target_psk, link)
		if (!p->users) {
			forget(t, p);
			return;
		}
}

static struct target_psk *keep(struct target *t, const struct auth_psk *psk,
			       const struct auth_key *proved)
{
	struct target_psk *p = t->env.alloc(t->env.ctx, sizeof(*p));

	if (!p)
		return NULL;
	p->psk = *psk;
	p->proved = *proved;
	list_push_tail(&t->psks, &p->link);
	if (++t->psks_unused > TARGET_PSKS_MAX)
		forget_oldest_unused(t);
	timer_arm(&t->psk_timers, &p->timer, t->group.now_ns + TARGET_PSK_NS);
	return p;
}

static void use(struct target_queue *q, struct target_psk *p)
{
	timer_cancel(&q->target->psk_timers, &p->timer);
	q->target->psks_unused -= !p->users++;
	q->psk = p;
}

/* Of its host. */
static bool holds(const struct target *t, const struct target_psk *p)
{
	const struct auth_key *then = &p->proved, *now;
	const struct target_host *h;
	struct auth_identity who;

	if (auth_identity_parse(p->psk.identity, &who))
		return false;
	h = target_find_host(t, who.hostnqn);
	now = h ? &h->key : NULL;
	return now && now->hash == then->hash && now->len == then->len &&
	       auth_equal(now->key, then->key, then->len);
}

static struct target_psk *find(struct target *t, const char *identity)
{
	list_for_each(p, &t->psks, struct target_psk, link)
		if (strcmp(p->psk.identity, identity) == 0)
			return p->replaced || !holds(t, p) ? NULL : p;
	return NULL;
}

bool tls_keep(struct target *t, const struct auth_psk *psk, const struct auth_key *proved)
{
	return keep(t, psk, proved) != NULL;
}

void tls_leave(struct target_queue *q)
{
	struct target *t = q->target;
	struct target_psk *p = q->psk;

	q->psk = NULL;
	if (!p || --p->users)
		return;
	t->psks_unused++;
	forget(t, p);
}

bool tls_is_taken(const struct target_queue *q)
{
	return q->psk && q->psk->taken;
}

void tls_take(struct target_queue *q)
{
	if (q->psk)
		q->psk->taken = true;
}

bool tls_replace(struct target_queue *q, const struct auth_psk *psk, const struct auth_key *proved)
{
	struct target_psk *p = keep(q->target, psk, proved);

	if (!p)
		return false;
	q->psk->replaced = true;
	p->taken = true;
	tls_leave(q);
	use(q, p);
	return true;
}

void tls_tick(struct target *t, uint64_t now_ns)
{
	struct timer *tm;

	while ((tm = timer_pop_due(&t->psk_timers, now_ns)))
		forget(t, container_of(tm, struct target_psk, timer));
}

void tls_fini(struct target *t)
{
	list_for_each(p, &t->psks, struct target_psk, link) {
		assert(!p->users);
		forget(t, p);
	}
}

/* --- those and the configured ones -------------------------------------------------------------
 */

static bool derive(const struct target *t, const struct auth_identity *who, struct auth_psk *ret)
{
	const struct auth_psk_way way = {.version = who->version, .compat = t->env.tls_compat};
	struct auth_key key;
	bool ok;

	if (!t->env.tls_key || !t->env.tls_key(t->env.ctx, who->hostnqn, &key))
		return false;
	ok = auth_psk_derive(&key, way, who->hostnqn, who->subnqn, ret);
	auth_wipe(&key, sizeof(key));
	return ok;
}

bool target_tls_find(struct target *t, const char *identity, struct auth_psk *ret)
{
	const struct target_psk *p = find(t, identity);
	struct auth_identity who;

	*ret = (struct auth_psk){0};
	if (p) {
		*ret = p->psk;
		return true;
	}
	if (auth_identity_parse(identity, &who) || who.generated || !derive(t, &who, ret))
		return false;
	/* Of another key, or another hash. */
	if (strlen(ret->identity) == strlen(identity) &&
	    auth_equal(ret->identity, identity, strlen(identity)))
		return true;
	auth_wipe(ret, sizeof(*ret));
	return false;
}

bool target_tls_proved(struct target_queue *q, const char *identity)
{
	struct target_psk *p = find(q->target, identity);
	struct auth_identity who;

	if (auth_identity_parse(identity, &who))
		assert(!"an identity that was found");
	/* It may have been forgotten while hands were shaken. */
	if (who.generated && !p)
		return false;
	if (p)
		use(q, p);
	q->secure = true;
	memcpy(q->tls_hostnqn, who.hostnqn, sizeof(q->tls_hostnqn));
	memcpy(q->tls_subnqn, who.subnqn, sizeof(q->tls_subnqn));
	return true;
}
