/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/target/target.h"

#include <assert.h>
#include <errno.h>

#include "nvmf/target/internal.h"

void target_emit(struct target *t, const struct target_event *e)
{
	if (t->env.event)
		t->env.event(t->env.ctx, e);
}

void target_rejected(struct target *t, const char *peer, const char *why)
{
	target_emit(
		t, &(struct target_event){.type = TARGET_EVENT_REJECTED, .peer = peer, .why = why});
}

static void subsys_link(struct target *t, struct target_subsys *s)
{
	s->target = t;
	list_init(&s->ctrls);
	list_init(&s->flushing);
	list_push_tail(&t->subsystems, &s->link);
}

void target_init(struct target *t, const struct target_env *env, uint64_t now_ns)
{
	*t = (struct target){.env = *env, .now_ns = now_ns, .start_ns = now_ns, .genctr = 1};
	list_init(&t->subsystems);
	list_init(&t->ports);
	list_init(&t->queues);
	list_init(&t->held);
	t->discovery.discovery = true;
	memcpy(t->discovery.nqn, NVMF_DISCOVERY_NQN, sizeof(NVMF_DISCOVERY_NQN));
	memcpy(t->discovery.serial, "0", 2);
	memcpy(t->discovery.model, "weft discovery", sizeof("weft discovery"));
	subsys_link(t, &t->discovery);
}

bool target_idle(const struct target *t)
{
	return t->ctrl_count == 0 && list_empty(&t->queues);
}

void target_fini(struct target *t)
{
	assert(target_idle(t));
	list_init(&t->subsystems);
}

/* Every discovery controller learns that its log changed. */
static void discovery_changed(struct target *t)
{
	t->genctr++;
	list_for_each(c, &t->discovery.ctrls, struct target_ctrl, link)
		ctrl_raise(c, NVME_OAES_DISCOVERY);
}

int target_subsys_add(struct target *t, struct target_subsys *s)
{
	if (!nvmf_nqn_valid(s->nqn, sizeof(s->nqn)))
		return -EINVAL;
	list_for_each(o, &t->subsystems, struct target_subsys, link)
		if (nvmf_nqn_equal(s->nqn, o->nqn))
			return -EEXIST;
	s->discovery = false;
	subsys_link(t, s);
	discovery_changed(t);
	return 0;
}

int target_ns_add(struct target_subsys *s, struct target_ns *ns)
{
	struct store *store = ns->store;

	if (ns->nsid == 0 || ns->nsid > TARGET_NS_MAX || ns->lba_shift < 9 || ns->lba_shift > 12 ||
	    store->block_size > (1u << ns->lba_shift) || store->size >> ns->lba_shift == 0 ||
	    store->size & ((1u << ns->lba_shift) - 1))
		return -EINVAL;
	if (s->ns[ns->nsid - 1])
		return -EEXIST;
	ns->nlb = store->size >> ns->lba_shift;
	ns->read_only |= store->read_only;
	s->ns[ns->nsid - 1] = ns;
	s->nn = max_of(s->nn, ns->nsid);
	target_ns_changed(ns, s);
	return 0;
}

void target_ns_changed(struct target_ns *ns, struct target_subsys *s)
{
	ns->nlb = ns->store->size >> ns->lba_shift;
	list_for_each(c, &s->ctrls, struct target_ctrl, link) {
		c->changed_ns[(ns->nsid - 1) / 32] |= 1u << (ns->nsid - 1) % 32;
		ctrl_raise(c, NVME_OAES_NS_ATTR);
	}
}

void target_port_add(struct target *t, struct target_port *p)
{
	p->portid = ++t->last_portid;
	list_push_tail(&t->ports, &p->link);
	discovery_changed(t);
}

void target_port_remove(struct target *t, struct target_port *p)
{
	list_remove(&p->link);
	discovery_changed(t);
}

uint64_t target_next_deadline(const struct target *t)
{
	uint64_t kato = timer_heap_next(&t->kato_timers);
	uint64_t connect = timer_heap_next(&t->connect_timers);

	return min_of(kato, connect);
}

static void kato_fired(struct target_ctrl *c)
{
	struct target *t = c->subsys->target;

	if (c->traffic) {
		ctrl_arm_kato(c);
		return;
	}
	target_emit(t, &(struct target_event){.type = TARGET_EVENT_KEEP_ALIVE_EXPIRED,
					      .ctrl = c,
					      .peer = c->raddr});
	c->csts |= NVME_CSTS_CFS;
	ctrl_disconnect_queues(c, 0);
}

void target_tick(struct target *t, uint64_t now_ns)
{
	struct timer *tm;

	t->now_ns = now_ns;
	while ((tm = timer_pop_due(&t->kato_timers, now_ns)))
		kato_fired(container_of(tm, struct target_ctrl, kato_timer));
	while ((tm = timer_pop_due(&t->connect_timers, now_ns))) {
		struct target_queue *q = container_of(tm, struct target_queue, connect_timer);

		if (!q->why[0])
			strcpy(q->why, "no Connect command came");
		q->ops->disconnect(q);
	}
}
