/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Requests on the way: a window of them, each sent again until it is answered or has been sent
 * often enough. A transaction id is a count and the place in the window, in 32 bits, for some
 * who carry SMPs have use for the others.
 */
#include "subnet/manager_priv.h"

#include <assert.h>
#include <string.h>

#include "base/heap.h"

static void path_of(const struct subnet_manager *m, const struct work *w, struct smp *s)
{
	const struct net_node *node;

	if (w->node == NET_NO_NODE)
		return;
	node = m->net->nodes[w->node];
	net_path(m->net, w->node, s->initial_path);
	s->hop_count = node->depth;
	if (w->kind == WORK_PROBE)
		s->initial_path[++s->hop_count] = w->port;
}

bool request_send(struct subnet_manager *m, const struct work *w, uint64_t now)
{
	struct smp s = {
		.mgmt_class = SMP_CLASS_DR,
		.class_version = SMP_CLASS_VERSION,
		.dr_slid = LID_PERMISSIVE,
		.dr_dlid = LID_PERMISSIVE,
	};
	struct request *r = m->requests;
	bool asks = w->kind <= WORK_PORT_INFO ? discover_ask(m, w, &s) : program_ask(m, w, &s);

	if (!asks)
		return false;
	path_of(m, w, &s);
	while (r->is_open)
		r++;
	assert(r < m->requests + m->config.window);
	m->tid = (m->tid + 1) & 0xffffff;
	s.tid = m->tid << 8 | (uint64_t)(r - m->requests);
	*r = (struct request){
		.is_open = true,
		.work = *w,
		.tid = s.tid,
		.deadline_ns = now + m->config.timeout_ns,
		.tries = 1,
	};
	smp_encode(&s, r->mad);
	m->open++;
	m->counters.sent++;
	/* The answer may come while this runs. */
	m->ops.send(m->ctx, r->mad);
	return true;
}

static void close_request(struct subnet_manager *m, struct request *r)
{
	r->is_open = false;
	m->open--;
}

const struct request *request_answered(struct subnet_manager *m, const struct smp *s)
{
	struct request *r;
	struct smp asked;

	if ((s->tid & 0xff) >= m->config.window)
		return NULL;
	r = &m->requests[s->tid & 0xff];
	if (!r->is_open || r->tid != s->tid || smp_decode(&asked, r->mad) < 0)
		return NULL;
	if (asked.attr_id != s->attr_id || asked.attr_mod != s->attr_mod ||
	    asked.hop_count != s->hop_count ||
	    memcmp(asked.initial_path + 1, s->initial_path + 1, s->hop_count))
		return NULL;
	close_request(m, r);
	return r;
}

const struct request *request_overdue(struct subnet_manager *m, uint64_t now)
{
	for (struct request *r = m->requests; r < m->requests + m->config.window; r++) {
		if (!r->is_open || r->deadline_ns > now)
			continue;
		if (r->tries > m->config.retries) {
			m->counters.unanswered++;
			close_request(m, r);
			return r;
		}
		r->tries++;
		r->deadline_ns = now + m->config.timeout_ns;
		m->counters.sent++;
		m->counters.resent++;
		m->ops.send(m->ctx, r->mad);
	}
	return NULL;
}

uint64_t request_deadline(const struct subnet_manager *m)
{
	uint64_t first = DEADLINE_NEVER;

	for (const struct request *r = m->requests; m->open && r < m->requests + m->config.window;
	     r++)
		if (r->is_open)
			first = min_of(first, r->deadline_ns);
	return first;
}

void requests_drop(struct subnet_manager *m)
{
	for (struct request *r = m->requests; r < m->requests + m->config.window; r++)
		r->is_open = false;
	m->open = 0;
}
