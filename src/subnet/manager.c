/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A sweep: its stages one after the other, each of which ends when its work is done and nothing of
 * it is on the way. What a sweep finds is its own until it is done; then it takes the place of
 * what the last one found.
 */
#include "subnet/manager_priv.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/heap.h"

/* ---- life ---------------------------------------------------------------------------------- */

static bool is_possible(const struct subnet_config *c)
{
	bool good = c->window >= 1 && c->window <= SUBNET_WINDOW_MAX && c->timeout_ns &&
		    c->n_roots <= SUBNET_ROOTS_MAX && smp_vls_of_lanes(c->lanes) && c->lanes <= 8 &&
		    c->high.n <= SMP_VL_ARBITRATION_MAX && c->low.n <= SMP_VL_ARBITRATION_MAX &&
		    c->hoq_life <= 31;

	for (size_t sl = 0; sl < ARRAY_SIZE(c->lane_of_sl); sl++)
		good &= c->lane_of_sl[sl] < 15;
	return good;
}

int subnet_create(struct subnet_manager **ret, const struct subnet_config *config,
		  const struct subnet_ops *ops, void *ctx)
{
	struct subnet_manager *m;

	if (!is_possible(config))
		return -EINVAL;
	m = ops->alloc(ctx, sizeof(*m));
	if (!m)
		return -ENOMEM;
	*m = (struct subnet_manager){
		.config = *config,
		.ops = *ops,
		.ctx = ctx,
		.next_sweep_ns = DEADLINE_NEVER,
	};
	m->requests = ops->alloc(ctx, config->window * sizeof(*m->requests));
	if (!m->requests) {
		ops->free(ctx, m);
		return -ENOMEM;
	}
	*ret = m;
	return 0;
}

void subnet_destroy(struct subnet_manager *m)
{
	if (!m)
		return;
	net_destroy(m->net);
	net_destroy(m->done);
	if (m->queue.at)
		m->ops.free(m->ctx, m->queue.at);
	m->ops.free(m->ctx, m->requests);
	m->ops.free(m->ctx, m);
}

/* ---- work ---------------------------------------------------------------------------------- */

void subnet_fault(struct subnet_manager *m, int rc, const char *why)
{
	if (m->rc)
		return;
	m->rc = rc;
	m->why = why;
}

static bool grow(struct subnet_manager *m)
{
	struct work_queue *q = &m->queue;
	size_t cap = q->cap ? 2 * q->cap : 256;
	struct work *at = cap <= WORK_MAX ? m->ops.alloc(m->ctx, cap * sizeof(*at)) : NULL;

	if (!at)
		return false;
	for (size_t i = 0; i < q->n; i++)
		at[i] = q->at[(q->head + i) % q->cap];
	if (q->at)
		m->ops.free(m->ctx, q->at);
	*q = (struct work_queue){.at = at, .cap = cap, .n = q->n};
	return true;
}

void subnet_want(struct subnet_manager *m, enum work_kind kind, uint16_t node, uint8_t port,
		 uint16_t more)
{
	struct work_queue *q = &m->queue;

	if (q->n == q->cap && !grow(m)) {
		subnet_fault(m, -ENOMEM, "out of memory");
		return;
	}
	q->at[(q->head + q->n++) % q->cap] = (struct work){
		.kind = (uint8_t)kind,
		.node = node,
		.port = port,
		.more = more,
	};
}

static void told(struct subnet_manager *m, const struct work *w, const struct smp *s)
{
	if (w->kind <= WORK_PORT_INFO)
		discover_told(m, w, s);
	else
		program_told(m, w, s);
}

static void silent(struct subnet_manager *m, const struct work *w)
{
	if (w->kind <= WORK_PORT_INFO)
		discover_silent(m, w);
	else
		program_silent(m, w);
}

/* ---- stages -------------------------------------------------------------------------------- */

/* All is known that there is: what is made of it? */
static void conclude(struct subnet_manager *m)
{
	if (net_give_lids(m->net, m->done) < 0)
		subnet_fault(m, -ENOSPC, "there are more nodes than LIDs");
	for (unsigned i = 0; i < m->net->n; i++)
		if (m->net->nodes[i]->shown.is_switch && !m->net->nodes[i]->can_forward)
			subnet_fault(m, -EPROTO, "a switch has no room for all LIDs");
	if (net_find_ways(m->net, &m->config) == 0) {
		m->stage = STAGE_SWITCHES;
		return;
	}
	subnet_fault(m, -ENOMEM, "out of memory");
	m->stage = STAGE_IDLE;
}

/* Work of the next node is in the queue, or the next stage has come. */
static void go_on(struct subnet_manager *m)
{
	if (m->stage != STAGE_DISCOVER && m->at_node < m->net->n) {
		program_want(m, (uint16_t)m->at_node++);
		return;
	}
	m->at_node = 0;
	if (m->stage == STAGE_DISCOVER)
		conclude(m);
	else
		m->stage = m->stage == STAGE_ACTIVATE ? STAGE_IDLE : m->stage + 1;
}

static void end_sweep(struct subnet_manager *m, uint64_t now)
{
	int rc = m->rc;
	const char *why = m->why;

	net_destroy(m->done);
	m->done = m->net;
	m->net = NULL;
	m->counters.sweeps++;
	m->next_sweep_ns = m->config.sweep_ns ? now + m->config.sweep_ns : DEADLINE_NEVER;
	if (m->sweeps_again)
		m->next_sweep_ns = now;
	m->sweeps_again = false;
	m->ops.swept(m->ctx, rc, why);
}

static bool has_more_nodes(const struct subnet_manager *m)
{
	return m->stage != STAGE_DISCOVER && m->at_node < m->net->n;
}

/* As much as there is room for in the window. */
static void pump(struct subnet_manager *m, uint64_t now)
{
	struct work_queue *q = &m->queue;

	if (m->is_pumping || m->stage == STAGE_IDLE)
		return;
	m->is_pumping = true;
	while (m->stage != STAGE_IDLE) {
		if (q->n && m->open < m->config.window) {
			struct work w = q->at[q->head];

			q->head = (q->head + 1) % q->cap;
			q->n--;
			request_send(m, &w, now);
		} else if (!q->n && (!m->open || has_more_nodes(m))) {
			go_on(m);
		} else {
			break;
		}
	}
	m->is_pumping = false;
	if (m->stage == STAGE_IDLE)
		end_sweep(m, now);
}

void subnet_sweep(struct subnet_manager *m, uint64_t now)
{
	const struct net_ops ops = {.alloc = m->ops.alloc, .free = m->ops.free, .ctx = m->ctx};

	/* Not while a request is on its way to be sent: from within, it follows. */
	if (m->is_pumping) {
		m->sweeps_again = true;
		return;
	}
	requests_drop(m);
	m->queue.n = 0;
	m->rc = 0;
	m->why = NULL;
	m->sweeps_again = false;
	m->next_sweep_ns = DEADLINE_NEVER;
	m->at_node = 0;
	net_destroy(m->net);
	m->net = net_create(&ops);
	m->stage = m->net ? STAGE_DISCOVER : STAGE_IDLE;
	if (!m->net) {
		if (m->config.sweep_ns)
			m->next_sweep_ns = now + m->config.sweep_ns;
		m->ops.swept(m->ctx, -ENOMEM, "out of memory");
		return;
	}
	subnet_want(m, WORK_PROBE, NET_NO_NODE, 0, 0);
	pump(m, now);
}

/* ---- what comes ---------------------------------------------------------------------------- */

/* Its sender is told that it was heard, if it is known where that is. */
static void trap(struct subnet_manager *m, struct smp *s, uint64_t now)
{
	struct smp_notice n;
	uint8_t mad[MAD_LEN];
	uint16_t node;

	smp_notice_unpack(&n, s->data);
	if (s->attr_id != SMP_NOTICE || !n.generic) {
		m->counters.bad++;
		return;
	}
	m->counters.traps++;
	if (m->done && n.issuer_lid <= LID_UNICAST_MAX && m->done->by_lid[n.issuer_lid]) {
		node = (uint16_t)(m->done->by_lid[n.issuer_lid] - 1);
		s->mgmt_class = SMP_CLASS_DR;
		s->method = MAD_TRAP_REPRESS;
		s->returning = false;
		s->hop_ptr = 0;
		s->hop_count = m->done->nodes[node]->depth;
		net_path(m->done, node, s->initial_path);
		memset(s->return_path, 0, sizeof(s->return_path));
		s->dr_slid = s->dr_dlid = LID_PERMISSIVE;
		smp_encode(s, mad);
		m->counters.sent++;
		m->ops.send(m->ctx, mad);
	}
	if (m->stage == STAGE_IDLE)
		m->next_sweep_ns = now;
	else
		m->sweeps_again = true;
}

void subnet_rx(struct subnet_manager *m, const uint8_t mad[MAD_LEN], uint64_t now)
{
	const struct request *r = NULL;
	struct smp s;

	m->counters.received++;
	if (smp_decode(&s, mad) == 0) {
		if (s.method == MAD_TRAP) {
			trap(m, &s, now);
			return;
		}
		/* Of one that is busy nothing is known: it is asked again. */
		if (s.mgmt_class == SMP_CLASS_DR && s.returning && s.method == MAD_GET_RESP &&
		    s.hop_count <= SMP_HOPS_MAX && s.status != MAD_BUSY)
			r = request_answered(m, &s);
	}
	if (r)
		told(m, &r->work, &s);
	else
		m->counters.bad++;
	pump(m, now);
}

void subnet_tick(struct subnet_manager *m, uint64_t now)
{
	const bool was = m->is_pumping;
	const struct request *r;

	m->is_pumping = true; /* what is answered at once waits until all have been looked at */
	while ((r = request_overdue(m, now)))
		silent(m, &r->work);
	m->is_pumping = was;
	pump(m, now);
	if (m->stage == STAGE_IDLE && m->next_sweep_ns <= now)
		subnet_sweep(m, now);
}

uint64_t subnet_next_deadline(const struct subnet_manager *m)
{
	return m->stage == STAGE_IDLE ? m->next_sweep_ns : request_deadline(m);
}

bool subnet_is_sweeping(const struct subnet_manager *m)
{
	return m->stage != STAGE_IDLE;
}

const struct subnet_counters *subnet_counters(const struct subnet_manager *m)
{
	return &m->counters;
}
