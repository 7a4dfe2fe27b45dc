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

static uint16_t free_cntlid(struct target_subsys *s)
{
	for (;;) {
		bool taken = false;

		if (++s->last_cntlid > NVMF_CNTLID_MAX)
			s->last_cntlid = 1;
		list_for_each(c, &s->ctrls, struct target_ctrl, link)
			taken |= c->cntlid == s->last_cntlid;
		if (!taken) /* there are fewer controllers than IDs */
			return s->last_cntlid;
	}
}

void ctrl_features_reset(struct target_ctrl *c)
{
	c->io_queues_granted = 0;
	c->aen_enabled = c->aen_pending = c->aen_masked = 0;
	c->arbitration = 0;
	c->temp_over = 0xffff;
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
	} else {
		left = TARGET_CTRLS_MAX - (t->ctrl_count - t->discovery_count);
		list_for_each(o, &t->subsystems, const struct target_subsys, link)
			mine += o->discovery ? 0 : count_of(o, peer);
	}
	return left && (!mine || mine + 1 <= left - 1);
}

struct target_ctrl *ctrl_create(struct target_subsys *s, const struct nvmf_connect_data *d,
				const uint8_t peer[16], uint32_t kato_ms)
{
	struct target *t = s->target;
	struct target_ctrl *c;

	c = t->env.alloc(t->env.ctx, sizeof(*c));
	if (!c)
		return NULL;
	c->subsys = s;
	c->cntlid = free_cntlid(s);
	memcpy(c->hostid, d->hostid, sizeof(c->hostid));
	memcpy(c->peer, peer, sizeof(c->peer));
	memcpy(c->hostnqn, d->hostnqn, sizeof(c->hostnqn));
	/* Ready within 15 * 500 ms; the NVM command set. Queues are contiguous by nature. */
	c->cap = (TARGET_QUEUE_ENTRIES_MAX - 1) | NVME_CAP_CQR | 15ull << NVME_CAP_TO_SHIFT |
		 NVME_CAP_CSS_NVM;
	c->started_ns = t->now_ns;
	if (!kato_ms && s->discovery)
		kato_ms = TARGET_DISCOVERY_KATO_MS;
	c->kato_ms = kato_ms;
	ctrl_features_reset(c);
	ctrl_arm_kato(c);
	list_push_tail(&s->ctrls, &c->link);
	t->ctrl_count++;
	t->discovery_count += s->discovery;
	return c;
}

static void ctrl_free(struct target_ctrl *c)
{
	struct target *t = c->subsys->target;

	list_remove(&c->link);
	t->ctrl_count--;
	t->discovery_count -= c->subsys->discovery;
	t->env.free(t->env.ctx, c);
}

void ctrl_destroy(struct target_ctrl *c, const char *why)
{
	struct target *t = c->subsys->target;

	target_emit(t, &(struct target_event){.type = TARGET_EVENT_CTRL_GONE,
					      .ctrl = c,
					      .peer = c->raddr,
					      .why = why});
	c->gone = true;
	timer_cancel(&t->kato_timers, &c->kato_timer);
	list_remove(&c->link);
	ctrl_disconnect_queues(c, 1);
	for (uint32_t i = 0; i <= TARGET_IO_QUEUES_MAX; i++)
		if (c->queues[i]) {
			t->left_work |= c->queues[i]->live != 0;
			c->queues[i]->ctrl = NULL;
		}
	if (c->shutdown_busy)
		list_push_tail(&c->subsys->flushing, &c->link);
	else
		ctrl_free(c);
}

/* A timer that is armed for a controller means: no command since then, and it is gone. */
void ctrl_arm_kato(struct target_ctrl *c)
{
	struct target *t = c->subsys->target;

	c->traffic = false;
	if (c->kato_ms)
		timer_arm(&t->kato_timers, &c->kato_timer, t->now_ns + c->kato_ms * 1000000ull);
	else
		timer_cancel(&t->kato_timers, &c->kato_timer);
}

void ctrl_disconnect_queues(struct target_ctrl *c, uint32_t first_qid)
{
	for (uint32_t i = first_qid; i <= TARGET_IO_QUEUES_MAX; i++)
		if (c->queues[i])
			c->queues[i]->ops->disconnect(c->queues[i]);
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

	(void)error; /* there is nothing a shutdown could do about it, and no field to say it in */
	shutdown_next(c);
}

/* Recursion, if a store answers at once, is bounded by the number of namespaces. */
static void shutdown_next(struct target_ctrl *c)
{
	struct target_subsys *s = c->subsys;

	while (c->shutdown_nsid < s->nn) {
		uint32_t i = c->shutdown_nsid++;
		struct target_ns *ns = s->ns[i];

		if (!(c->written_ns[i / 32] & 1u << i % 32) || !ns || ns->read_only ||
		    !ns->store->volatile_cache)
			continue;
		c->shutdown_op = (struct store_op){.opcode = STORE_FLUSH, .done = shutdown_flushed};
		store_submit(ns->store, &c->shutdown_op);
		return;
	}
	c->shutdown_busy = false;
	if (c->gone)
		ctrl_free(c);
	else if (NVME_CC_SHN(c->cc))
		c->csts = (c->csts & ~NVME_CSTS_SHST_MASK) | NVME_CSTS_SHST_DONE;
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
		shutdown_next(c);
	}
}

/* --- CC ------------------------------------------------------------------------------------- */

static bool cc_acceptable(const struct target_ctrl *c, uint32_t cc)
{
	if (NVME_CC_MPS(cc) != 0 || NVME_CC_AMS(cc) != 0 || NVME_CC_CSS(cc) != 0)
		return false;
	/* A discovery controller has no I/O queues whose entries would have a size. */
	return c->subsys->discovery || (NVME_CC_IOSQES(cc) == 6 && NVME_CC_IOCQES(cc) == 4);
}

static void ctrl_reset(struct target_ctrl *c)
{
	ctrl_disconnect_queues(c, 1);
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

/* --- errors and events ---------------------------------------------------------------------- */

void ctrl_log_error(struct target_ctrl *c, const struct target_req *r, uint16_t status)
{
	struct nvme_error_entry *e = &c->errlog[c->error_count++ % TARGET_ERRLOG_ENTRIES];
	const struct target_queue *q = r->queue;

	*e = (struct nvme_error_entry){
		.error_count = c->error_count,
		.sqid = q->qid,
		.cid = r->sqe.cid,
		.status = (uint16_t)(status << 1),
		.parm_error_location = r->error_location ? r->error_location : 0xffff,
		.nsid = r->sqe.opcode == NVME_FABRICS ? 0 : r->sqe.nsid,
		.lba = q->qid ? nvme_rw_slba(&r->sqe) : 0,
		.trtype = q->ops->trtype,
	};
}

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

void ctrl_unmask(struct target_ctrl *c, uint32_t oaes_bit)
{
	c->aen_masked &= ~oaes_bit;
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
