/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/target/target.h"

#include <assert.h>
#include <errno.h>

#include "nvmf/auth/proof.h"
#include "nvmf/target/internal.h"

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
	s->queues = 0;
	s->unsafe_shutdowns = s->media_errors = 0;
	s->past = (struct target_counts){0};
	s->gone = NULL;
	list_push_tail(&t->subsystems, &s->link);
}

void target_init(struct target *t, const struct target_env *env, uint64_t now_ns)
{
	*t = (struct target){.env = *env, .start_ns = now_ns, .genctr = 1};
	list_init(&t->groups);
	list_init(&t->subsystems);
	list_init(&t->ports);
	list_init(&t->hosts);
	list_init(&t->psks);
	list_init(&t->held);
	list_init(&t->remains);
	target_group_init(&t->group, t, env->counters, NULL, NULL, now_ns);
	t->counters = t->group.counters;
	t->group.figures = env->figures;
	if (env->figures)
		figures_init(env->figures);
	t->turn = &t->group;
	t->discovery.discovery = true;
	memcpy(t->discovery.serial, "0", 2);
	memcpy(t->discovery.model, "weft discovery", sizeof("weft discovery"));
	subsys_link(t, &t->discovery);
	target_discovery_name(t, NULL);
}

bool target_idle(const struct target *t)
{
	return t->ctrl_count == 0 && target_group_idle(&t->group);
}

void target_fini(struct target *t)
{
	assert(target_idle(t));
	target_group_fini(&t->group);
	tls_fini(t);
	assert(list_empty(&t->groups));
	list_for_each(s, &t->subsystems, struct target_subsys, link)
		for (uint32_t i = 0; i < s->nn; i++)
			if (s->ns[i])
				marks_forget(s->ns[i], t);
	list_init(&t->subsystems);
}

void target_discovery_name(struct target *t, const char *nqn)
{
	char *to = t->discovery.nqn;

	if (!nqn)
		nqn = NVMF_DISCOVERY_NQN;
	memset(to, 0, NVME_NQN_LEN);
	memcpy(to, nqn, strnlen(nqn, NVME_NQN_MAX));
	discovery_changed(t);
}

int target_subsys_add(struct target *t, struct target_subsys *s)
{
	if (!nvmf_nqn_valid(s->nqn, sizeof(s->nqn)))
		return -EINVAL;
	if (nvmf_nqn_equal(s->nqn, NVMF_DISCOVERY_NQN))
		return -EEXIST;
	list_for_each(o, &t->subsystems, struct target_subsys, link)
		if (nvmf_nqn_equal(s->nqn, o->nqn))
			return -EEXIST;
	s->discovery = false;
	subsys_link(t, s);
	discovery_changed(t);
	return 0;
}

void target_subsys_allow(struct target_subsys *s, const char *const *hosts, uint32_t count)
{
	s->hosts = hosts;
	s->host_count = count;
	discovery_changed(s->target);
	list_for_each(c, &s->ctrls, struct target_ctrl, link)
		if (!target_allows(s, c->hostnqn))
			ctrl_disconnect_queues(c, 0, "its host may not use the subsystem any more");
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
	ns->number = ++s->target->last_ns_number;
	ns->nlb = store->size >> ns->lba_shift;
	ns->read_only |= store->read_only;
	ns->gone = NULL;
	ns->counting = NULL;
	ns->flush_failure = 0;
	ns->marks = NULL;
	ns->marked = false;
	ns->protect = false;
	fused_init(ns);
	s->ns[ns->nsid - 1] = ns;
	s->nn = max_of(s->nn, ns->nsid);
	target_ns_changed(ns, s);
	return 0;
}

int target_host_add(struct target *t, struct target_host *h)
{
	if ((h->nqn[0] && !nvmf_nqn_valid(h->nqn, sizeof(h->nqn))) ||
	    (h->hash && !auth_hash_len(h->hash)) || !auth_dhgroup_known(h->dhgroup) ||
	    (h->key.len && !t->env.random) || (h->ctrl_key.len && !h->key.len))
		return -EINVAL;
	list_for_each(o, &t->hosts, struct target_host, link)
		if (nvmf_nqn_equal(h->nqn, o->nqn))
			return -EEXIST;
	list_push_tail(&t->hosts, &h->link);
	return 0;
}

void target_host_remove(struct target *t, struct target_host *h)
{
	(void)t;
	list_remove(&h->link);
}

void target_ns_changed(struct target_ns *ns, struct target_subsys *s)
{
	const uint64_t before = ns->nlb;

	ns->nlb = ns->store->size >> ns->lba_shift;
	/* What is beyond the end is gone: if it comes back it is zeroes. */
	if (ns->nlb < before)
		marks_clear(ns, s->target, ns->nlb, before - ns->nlb);
	ns_tell(s, ns->nsid);
}

void target_port_add(struct target *t, struct target_port *p)
{
	p->portid = ++t->last_portid;
	list_push_tail(&t->ports, &p->link);
	discovery_changed(t);
}

void target_port_secure(struct target *t, struct target_port *p, enum target_tls tls)
{
	if (p->tls == tls)
		return;
	p->tls = tls;
	discovery_changed(t);
}

void target_port_capsules(struct target_port *p, int32_t bytes)
{
	assert(bytes <= TARGET_CAPSULE_DATA_MAX);
	p->capsule_told = bytes >= 0;
	p->capsule_data = bytes >= 0 ? (uint32_t)bytes : 0;
	if (p->capsule_data > atomic_load(&p->capsule_room))
		atomic_store(&p->capsule_room, p->capsule_data);
}

uint32_t target_port_capsule_room(const struct target_port *p,
				  const struct target_transport_ops *ops)
{
	const uint32_t page = TARGET_CAPSULE_PAGE - 1;

	return (max_of(atomic_load(&p->capsule_room), ops->capsule_data_max) + page) & ~page;
}

static bool came_by(const struct target_ctrl *c, const struct target_port *p)
{
	for (uint32_t i = 0; i <= TARGET_IO_QUEUES_MAX; i++)
		if (c->queues[i] && c->queues[i]->port == p)
			return true;
	return false;
}

/* Whoever they are, they are no reason for a controller to go. */
static void end_unbound(const struct target_ctrl *c, const struct target_port *p, const char *why)
{
	list_for_each(q, &c->unbound, struct target_queue, unbound)
		if (q->port == p)
			queue_order(q, NULL, why);
}

/* Controllers that came by a port to what it offers no more; gone: it offers nothing. */
static void end_strays(struct target *t, const struct target_port *p, bool gone, const char *why)
{
	list_for_each(s, &t->subsystems, const struct target_subsys, link) {
		if (!gone && target_offers(p, s))
			continue;
		list_for_each(c, &s->ctrls, struct target_ctrl, link)
			if (came_by(c, p))
				ctrl_disconnect_queues(c, 0, why);
			else
				end_unbound(c, p, why);
	}
}

void target_port_offer(struct target *t, struct target_port *p,
		       struct target_subsys *const *subsystems, uint32_t count)
{
	p->subsystems = subsystems;
	p->subsys_count = count;
	discovery_changed(t);
	end_strays(t, p, false, "its subsystem is not offered there now");
}

void target_port_tell(struct target *t, struct target_port *p, uint16_t portid,
		      const struct target_referral *referrals, uint32_t count)
{
	p->portid = portid;
	p->referrals = referrals;
	p->referral_count = count;
	t->last_portid = max_of(t->last_portid, portid);
	discovery_changed(t);
}

void target_port_remove(struct target *t, struct target_port *p)
{
	static struct target_subsys *const none[1];

	list_remove(&p->link);
	/* What it offered is the caller's again, while connections that came by it end. */
	p->subsystems = none;
	p->subsys_count = p->referral_count = 0;
	discovery_changed(t);
	end_strays(t, p, true, "its port is closed");
}

void target_ns_remove(struct target_subsys *s, struct target_ns *ns,
		      void (*gone)(struct target_ns *ns))
{
	assert(s->ns[ns->nsid - 1] == ns);
	s->ns[ns->nsid - 1] = NULL;
	while (s->nn && !s->ns[s->nn - 1])
		s->nn--;
	ns_tell(s, ns->nsid);
	ns_leave(ns, s, gone);
}

void target_subsys_remove(struct target_subsys *s, void (*gone)(struct target_subsys *s))
{
	struct target *t = s->target;

	assert(!s->discovery);
	list_remove(&s->link);
	discovery_changed(t);
	list_for_each(c, &s->ctrls, struct target_ctrl, link)
		ctrl_disconnect_queues(c, 0, "its subsystem is not offered any more");
	s->gone = gone;
	subsys_settle(s);
}

uint64_t target_next_deadline(const struct target *t)
{
	uint64_t kato = timer_heap_next(&t->kato_timers);
	uint64_t group = target_group_next_deadline(&t->group);

	if (t->log_changed && !list_empty(&t->discovery.ctrls))
		return 0;
	kato = min_of(kato, timer_heap_next(&t->psk_timers));
	return min_of(kato, group);
}

void target_tick(struct target *t, uint64_t now_ns)
{
	struct timer *tm;

	t->group.now_ns = now_ns;
	while ((tm = timer_pop_due(&t->kato_timers, now_ns)))
		ctrl_kato_fired(container_of(tm, struct target_ctrl, kato_timer));
	tls_tick(t, now_ns);
	discovery_look(t);
	(void)target_group_process(&t->group, now_ns);
}
