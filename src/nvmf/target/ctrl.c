/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Controllers: from the Connect of an admin queue to the end of that queue's connection.
 *
 * CC.EN 1 makes a controller ready; CC.EN 0 resets it: the I/O queues' connections end, held
 * commands are aborted, features return to their defaults, the admin queue stays. CC.SHN asks
 * for a shutdown: a normal one flushes every namespace that it wrote to before CSTS says it is
 * complete; another one, whose disk may hang, is none of its business.
 * Base 2.0 sections 3.1.3.5, 3.6, 3.7.
 */
#include <assert.h>
#include <errno.h>

#include "nvmf/target/internal.h"

/* The next after the last one; 0: all that the subsystem may give are taken. */
static uint16_t free_cntlid(const struct target_subsys *s)
{
	const uint16_t min = max_of(s->cntlid_min, (uint16_t)1);
	const uint16_t max = s->cntlid_max ? s->cntlid_max : NVMF_CNTLID_MAX;
	uint64_t taken[(UINT16_MAX + 1) / 64] = {0};
	uint16_t id = s->last_cntlid;

	list_for_each(c, &s->ctrls, const struct target_ctrl, link)
		taken[c->cntlid / 64] |= 1ull << c->cntlid % 64;
	for (uint32_t i = min; i <= max; i++) {
		id = id < min || id >= max ? min : (uint16_t)(id + 1);
		if (!(taken[id / 64] >> id % 64 & 1))
			return id;
	}
	return 0;
}

void ctrl_features_reset(struct target_ctrl *c)
{
	c->io_queues_granted = 0;
	c->aen_enabled = c->aen_pending = c->aen_masked = 0;
	c->arbitration = c->power = 0;
	memset(c->host_behavior, 0, sizeof(c->host_behavior));
	c->temp_over = TARGET_TEMP_OVER;
	c->temp_under = 0;
	c->error_recovery = 0;
	c->write_atomic = 0;
	c->write_cache = true;
}

static uint32_t count_of(const struct target_subsys *s, const uint8_t peer[16])
{
	uint32_t n = 0;

	list_for_each(c, &s->ctrls, const struct target_ctrl, link)
		n += memcmp(c->peer, peer, sizeof(c->peer)) == 0;
	list_for_each(c, &s->flushing, const struct target_ctrl, link)
		n += memcmp(c->peer, peer, sizeof(c->peer)) == 0;
	return n;
}

/* What a host calls itself it may change; its address is where the answers go. */
bool ctrl_has_room(const struct target_subsys *s, const uint8_t peer[16])
{
	const struct target *t = s->target;
	uint32_t left, mine = 0;

	if (s->discovery) {
		left = TARGET_DISCOVERY_CTRLS_MAX - t->discovery_count;
		mine = count_of(s, peer);
		if (mine == TARGET_DISCOVERY_HOST_MAX)
			return false;
	} else {
		left = TARGET_CTRLS_MAX - (t->ctrl_count - t->discovery_count);
		list_for_each(o, &t->subsystems, const struct target_subsys, link)
			mine += o->discovery ? 0 : count_of(o, peer);
	}
	return left && (!mine || mine + 1 <= left - 1) && free_cntlid(s);
}

struct target_ctrl *ctrl_create(struct target_subsys *s, const struct nvmf_connect_data *d,
				const struct target_queue *q, uint32_t kato_ms)
{
	struct target *t = s->target;
	uint16_t cntlid = free_cntlid(s);
	struct target_ctrl *c;

	c = cntlid ? t->env.alloc(t->env.ctx, sizeof(*c)) : NULL;
	if (!c)
		return NULL;
	c->subsys = s;
	c->cntlid = cntlid;
	s->last_cntlid = cntlid;
	list_init(&c->unbound);
	memcpy(c->hostid, d->hostid, sizeof(c->hostid));
	memcpy(c->peer, q->peer, sizeof(c->peer));
	memcpy(c->hostnqn, d->hostnqn, sizeof(c->hostnqn));
	/* Queues are contiguous by nature. A host may ask by command set, of which there is one. */
	c->cap = (io_entries_max(q, q->ops->entries_max) - 1u) | NVME_CAP_CQR |
		 (uint64_t)TARGET_READY << NVME_CAP_TO_SHIFT | NVME_CAP_CSS_NVM |
		 NVME_CAP_CSS_IOCS | NVME_CAP_CRWMS;
	c->vs = s->vs ? s->vs : TARGET_VS;
	c->capsule_data =
		q->port && q->port->capsule_told ? q->port->capsule_data : q->ops->capsule_data_max;
	c->mdts = q->port && q->port->mdts ? min_of(q->port->mdts, q->ops->mdts) : q->ops->mdts;
	c->secure = q->secure;
	c->must_prove = host_must_prove(s, d->hostnqn);
	c->started_ns = t->group.now_ns;
	c->failures_before = atomic_load(&t->flush_failures);
	ctrl_set_kato(c, kato_ms);
	ctrl_features_reset(c);
	c->attached = 1; /* its own, until it is destroyed */
	list_push_tail(&s->ctrls, &c->link);
	t->ctrl_count++;
	t->discovery_count += s->discovery;
	return c;
}

/* Queues may be busy at one time: it is as busy as the busiest, at least. */
static void note_busy(struct target_counts *all, const struct target_counts *one)
{
	uint64_t busy = count_get(&one->busy_ns), most = count_get(&all->busy_ns);

	count_add(&all->busy_ns, busy > most ? busy - most : 0);
}

/* All but how busy it was. */
static void note_done(struct target_counts *all, const struct target_counts *one)
{
	count_add(&all->commands, count_get(&one->commands));
	count_add(&all->reads, count_get(&one->reads));
	count_add(&all->writes, count_get(&one->writes));
	count_add(&all->sectors_read, count_get(&one->sectors_read));
	count_add(&all->sectors_written, count_get(&one->sectors_written));
}

bool ctrl_bind_queue(struct target_ctrl *c, struct target_queue *q)
{
	if (c->queues[q->qid])
		return c->queues[q->qid] == q;
	list_remove(&q->unbound);
	c->queues[q->qid] = q;
	c->io_queues += q->qid != 0;
	return true;
}

void ctrl_forget_queue(struct target_ctrl *c, struct target_queue *q)
{
	q->owner = NULL;
	if (!list_empty(&q->unbound)) { /* it was anybody's: nothing of it counts */
		list_remove(&q->unbound);
		return;
	}
	note_done(&c->past, &q->counts);
	if (q->qid)
		note_busy(&c->past, &q->counts);
	c->queues[q->qid] = NULL;
	c->io_queues -= q->qid != 0;
}

void ctrl_counts(const struct target_ctrl *c, struct target_counts *ret)
{
	*ret = (struct target_counts){0};
	for (int i = -1; i <= TARGET_IO_QUEUES_MAX; i++) {
		const struct target_counts *n = i < 0	       ? &c->past
						: c->queues[i] ? &c->queues[i]->counts
							       : NULL;

		if (!n)
			continue;
		note_done(ret, n);
		if (i)
			note_busy(ret, n);
	}
}

void subsys_counts(const struct target_subsys *s, struct target_counts *ret)
{
	*ret = (struct target_counts){0};
	note_done(ret, &s->past);
	list_for_each(c, &s->ctrls, const struct target_ctrl, link) {
		struct target_counts n;

		ctrl_counts(c, &n);
		note_done(ret, &n);
	}
}

/* What a queue may still do for it is not known before its group has told. */
static void drop_queue(struct target_ctrl *c, struct target_queue *q)
{
	struct target *t = c->subsys->target;

	ctrl_forget_queue(c, q);
	memset(q->busy_ns, 0xff, sizeof(q->busy_ns));
	list_push_tail(&t->remains, &q->remains);
	atomic_store_explicit(&t->left_work, true, memory_order_relaxed);
	queue_order(q, c, NULL);
}

void ctrl_destroy(struct target_ctrl *c, const char *why)
{
	struct target *t = c->subsys->target;

	target_emit(t, &(struct target_event){.type = TARGET_EVENT_CTRL_GONE,
					      .ctrl = c,
					      .peer = c->raddr,
					      .why = why});
	timer_cancel(&t->kato_timers, &c->kato_timer);
	c->subsys->unsafe_shutdowns += c->cc & NVME_CC_EN && !(c->csts & NVME_CSTS_SHST_MASK);
	list_remove(&c->link);
	list_push_tail(&c->subsys->flushing, &c->link);
	for (uint32_t i = 0; i <= TARGET_IO_QUEUES_MAX; i++)
		if (c->queues[i])
			drop_queue(c, c->queues[i]);
	while (!list_empty(&c->unbound))
		drop_queue(c, list_entry(c->unbound.next, struct target_queue, unbound));
	note_done(&c->subsys->past, &c->past);
	ctrl_put(c);
}

void ctrl_set_kato(struct target_ctrl *c, uint32_t ms)
{
	uint32_t unit = TARGET_KAS * 100;

	if (!ms && c->subsys->discovery)
		ms = TARGET_DISCOVERY_KATO_MS;
	c->kato_ms = min_of(ms, UINT32_MAX - unit) / unit * unit + (ms % unit ? unit : 0);
}

static uint64_t commands_of(const struct target_ctrl *c)
{
	struct target_counts n;

	ctrl_counts(c, &n);
	return count_get(&n.commands);
}

/* A timer that is armed for a controller means: no command since then, and it is gone. */
void ctrl_arm_kato(struct target_ctrl *c)
{
	struct target *t = c->subsys->target;

	c->kato_commands = commands_of(c);
	c->kato_again = false;
	if (c->kato_ms)
		timer_arm(&t->kato_timers, &c->kato_timer,
			  t->group.now_ns + c->kato_ms * NSEC_PER_MSEC);
	else
		timer_cancel(&t->kato_timers, &c->kato_timer);
}

void ctrl_disconnect_queues(struct target_ctrl *c, uint32_t first_qid, const char *why)
{
	for (uint32_t i = first_qid; i <= TARGET_IO_QUEUES_MAX; i++)
		if (c->queues[i])
			queue_order(c->queues[i], NULL, why);
	list_for_each(q, &c->unbound, struct target_queue, unbound)
		queue_order(q, NULL, why);
}

/*
 * What a silent host has sent may lie unread: whoever drives the target was away, or there are
 * thousands to read from. It is looked at once more before it is ended: later by as much as the
 * timer is late, and by a little at least.
 */
static bool look_again(struct target_ctrl *c)
{
	struct target *t = c->subsys->target;
	uint64_t now = t->group.now_ns, kato_ns = c->kato_ms * NSEC_PER_MSEC;
	uint64_t more = max_of(now - c->kato_timer.deadline_ns, kato_ns / TARGET_KATO_AGAIN);

	if (c->kato_again)
		return false;
	c->kato_again = true;
	timer_arm(&t->kato_timers, &c->kato_timer, now + min_of(more, kato_ns));
	return true;
}

void ctrl_kato_fired(struct target_ctrl *c)
{
	if (commands_of(c) != c->kato_commands) {
		ctrl_arm_kato(c);
		return;
	}
	if (look_again(c))
		return;
	target_emit(c->subsys->target,
		    &(struct target_event){
			    .type = TARGET_EVENT_KEEP_ALIVE_EXPIRED, .ctrl = c, .peer = c->raddr});
	c->csts |= NVME_CSTS_CFS;
	c->silent = true;
	ctrl_disconnect_queues(c, 0, NULL);
}

void ctrl_abort_aers(struct target_ctrl *c, uint16_t status)
{
	while (c->aer_count)
		req_complete(c->aer[--c->aer_count], status);
}

/* --- shutdown ------------------------------------------------------------------------------- */

static void shutdown_next(struct target_ctrl *c);

static void shutdown_flushed(struct store_op *op, int error)
{
	struct target_ctrl *c = container_of(op, struct target_ctrl, shutdown_op);
	struct target_ns *ns = c->shutdown_ns;

	c->shutdown_ns = NULL;
	if (error) {
		c->flush_lost = true;
		ns_flush_failed(ns, &c->subsys->target->group, error);
		target_emit(c->subsys->target,
			    &(struct target_event){.type = TARGET_EVENT_FLUSH_FAILED,
						   .ctrl = c,
						   .nsid = ns->nsid,
						   .peer = c->raddr,
						   .error = error});
	}
	ns_put(ns, &c->subsys->target->group);
	shutdown_next(c);
}

static bool wrote_to(const struct target_ctrl *c, uint32_t nsid)
{
	return c->written_ns[(nsid - 1) / 32] >> (nsid - 1) % 32 & 1;
}

/* Of what it wrote, be it that another's flush has found out. */
static bool lost_some(const struct target_ctrl *c)
{
	if (c->flush_lost) /* also of a namespace that has left since */
		return true;
	for (uint32_t nsid = 1; nsid <= c->subsys->nn; nsid++) {
		const struct target_ns *ns = c->subsys->ns[nsid - 1];

		if (ns && wrote_to(c, nsid) && ns->flush_failed_ns &&
		    ns->flush_failed_ns >= c->started_ns)
			return true;
	}
	return false;
}

/* Recursion, if a store answers at once, is bounded by the number of namespaces. */
static void shutdown_next(struct target_ctrl *c)
{
	struct target_subsys *s = c->subsys;

	while (c->shutdown_nsid < s->nn) {
		uint32_t nsid = ++c->shutdown_nsid;
		struct target_ns *ns = s->ns[nsid - 1];

		if (!wrote_to(c, nsid) || !ns || ns->read_only || !ns->store->volatile_cache)
			continue;
		c->shutdown_ns = ns;
		c->shutdown_op = (struct store_op){.opcode = STORE_FLUSH, .done = shutdown_flushed};
		store_submit(ns->store, &c->shutdown_op);
		return;
	}
	c->shutdown_busy = false;
	if ((c->csts & NVME_CSTS_SHST_MASK) != NVME_CSTS_SHST_BUSY)
		; /* it does not wait for this any more */
	else if (lost_some(c))
		c->csts |= NVME_CSTS_CFS; /* and the shutdown is never complete */
	else
		c->csts = (c->csts & ~NVME_CSTS_SHST_MASK) | NVME_CSTS_SHST_DONE;
	ctrl_put(c);
}

static void shutdown_begin(struct target_ctrl *c, bool flush)
{
	c->csts &= ~NVME_CSTS_SHST_MASK;
	if (!flush) {
		c->csts |= NVME_CSTS_SHST_DONE;
		return;
	}
	c->csts |= NVME_CSTS_SHST_BUSY;
	c->shutdown_nsid = 0; /* a shutdown that is under way begins again */
	if (!c->shutdown_busy) {
		c->shutdown_busy = true;
		c->attached++;
		shutdown_next(c);
	}
}

/* --- CC ------------------------------------------------------------------------------------- */

static bool cc_acceptable(const struct target_ctrl *c, uint32_t cc)
{
	if (NVME_CC_MPS(cc) != 0 || NVME_CC_AMS(cc) != 0 ||
	    (NVME_CC_CSS(cc) != 0 && NVME_CC_CSS(cc) != NVME_CC_CSS(NVME_CC_CSS_IOCS)))
		return false;
	/* A discovery controller has no I/O queues whose entries would have a size. */
	return c->subsys->discovery || (NVME_CC_IOSQES(cc) == 6 && NVME_CC_IOCQES(cc) == 4);
}

static void ctrl_reset(struct target_ctrl *c)
{
	ctrl_disconnect_queues(c, 1, NULL);
	ctrl_abort_aers(c, NVME_SC_ABORT_REQ);
	ctrl_features_reset(c);
	c->csts = 0;
}

void ctrl_set_cc(struct target_ctrl *c, uint32_t cc)
{
	uint32_t old = c->cc;

	c->cc = cc;
	if ((cc & NVME_CC_EN) && !(old & NVME_CC_EN)) {
		c->csts = cc_acceptable(c, cc) ? NVME_CSTS_RDY : NVME_CSTS_CFS;
		ctrl_arm_kato(c);
	}
	if (!(cc & NVME_CC_EN) && (old & NVME_CC_EN))
		ctrl_reset(c);
	if (NVME_CC_SHN(cc) && !NVME_CC_SHN(old))
		shutdown_begin(c, (cc & NVME_CC_SHN_NORMAL) != 0);
	if (!NVME_CC_SHN(cc) && NVME_CC_SHN(old))
		c->csts &= ~NVME_CSTS_SHST_MASK;
}

/* --- events --------------------------------------------------------------------------------- */

struct event_kind {
	uint32_t bit;
	uint8_t info, lid;
};

static const struct event_kind event_kinds[] = {
	{NVME_OAES_NS_ATTR, NVME_NOTICE_NS_CHANGED, NVME_LID_CHANGED_NS},
	{NVME_OAES_DISCOVERY, NVME_NOTICE_DISC_CHANGED, NVME_LID_DISCOVERY},
};

void ctrl_raise(struct target_ctrl *c, uint32_t oaes_bit)
{
	if (c->aen_enabled & oaes_bit & ~c->aen_masked) {
		c->aen_pending |= oaes_bit;
		ctrl_send_events(c);
	}
}

void ctrl_event_read(struct target_ctrl *c, uint32_t oaes_bit)
{
	c->aen_masked &= ~oaes_bit;
	if (oaes_bit == NVME_OAES_NS_ATTR)
		memset(c->changed_ns, 0, sizeof(c->changed_ns));
}

/* Once told, an event of the kind is not told again until its log page was read. */
void ctrl_send_events(struct target_ctrl *c)
{
	for (unsigned i = 0; i < ARRAY_SIZE(event_kinds) && c->aer_count; i++) {
		const struct event_kind *k = &event_kinds[i];
		struct target_req *r;

		if (!(c->aen_pending & k->bit))
			continue;
		c->aen_pending &= ~k->bit;
		c->aen_masked |= k->bit;
		r = c->aer[--c->aer_count];
		r->cqe.result = NVME_AER_RESULT(NVME_AER_NOTICE, k->info, k->lid);
		req_complete(r, NVME_SC_SUCCESS);
	}
}

void ns_tell(struct target_subsys *s, uint32_t nsid)
{
	list_for_each(c, &s->ctrls, struct target_ctrl, link) {
		c->changed_ns[(nsid - 1) / 32] |= 1u << (nsid - 1) % 32;
		ctrl_raise(c, NVME_OAES_NS_ATTR);
	}
}
