/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The tables of several groups as one. A row of a later group is added to that of an earlier one
 * for the same thing, where there is one; else it has a place of its own, which is the same each
 * time: so that who looks twice finds what it was.
 */
#include "cli/served.h"

#include <stdlib.h>
#include <string.h>

struct merging {
	struct figures_host_row *hosts;
	struct figures_op_row *ops;
	struct figures_error_row *errors;
	struct figures_queue_row *queues;
	struct figures_reason_row *reasons;
	/* Of each host row that there was: which it is now. */
	uint32_t *host_of;
	/* Lists of each host's rows: the first, and of each the next, as number plus one. */
	uint32_t *ops_of, *next_op, *errors_of, *next_error;
	uint32_t host, op, error, queue, reason; /* where the rows of this part begin */
};

static void merge_host(struct merging *m, uint32_t i, const struct figures_host_row *r)
{
	const uint32_t own = m->host + i;

	m->host_of[own] = own;
	if (!r->in_use)
		return;
	for (uint32_t j = 0; j < m->host; j++) {
		struct figures_host_row *h = &m->hosts[j];

		if (!h->in_use || memcmp(h->subsystem, r->subsystem, sizeof(h->subsystem)) != 0 ||
		    memcmp(h->host, r->host, sizeof(h->host)) != 0)
			continue;
		h->rdma += r->rdma;
		h->tcp += r->tcp;
		h->other += r->other;
		m->host_of[own] = j;
		return;
	}
	m->hosts[own] = *r;
}

static void merge_op(struct merging *m, uint32_t host, uint32_t own, struct figures_op_row r)
{
	r.host = host;
	for (uint32_t n = m->ops_of[host]; n; n = m->next_op[n - 1]) {
		struct figures_op_row *o = &m->ops[n - 1];

		if (o->nsid != r.nsid || o->opcode != r.opcode)
			continue;
		o->commands += r.commands;
		o->errors += r.errors;
		o->bytes += r.bytes;
		o->latency_ns += r.latency_ns;
		for (unsigned b = 0; b < FIGURES_BUCKETS; b++)
			o->bucket[b] += r.bucket[b];
		return;
	}
	m->ops[own] = r;
	m->next_op[own] = m->ops_of[host];
	m->ops_of[host] = own + 1;
}

static void merge_error(struct merging *m, uint32_t host, uint32_t own, struct figures_error_row r)
{
	r.host = host;
	for (uint32_t n = m->errors_of[host]; n; n = m->next_error[n - 1]) {
		struct figures_error_row *e = &m->errors[n - 1];

		if (e->nsid == r.nsid && e->opcode == r.opcode && e->status == r.status) {
			e->count += r.count;
			return;
		}
	}
	m->errors[own] = r;
	m->next_error[own] = m->errors_of[host];
	m->errors_of[host] = own + 1;
}

static void merge_reason(struct merging *m, uint32_t i, const struct figures_reason_row *r)
{
	if (!r->count)
		return;
	for (uint32_t j = 0; j < m->reason; j++)
		if (m->reasons[j].count &&
		    memcmp(m->reasons[j].reason, r->reason, sizeof(r->reason)) == 0) {
			m->reasons[j].count += r->count;
			return;
		}
	m->reasons[m->reason + i] = *r;
}

static void merge_part(struct merging *m, const struct served *p)
{
	for (uint32_t i = 0; i < p->host_count; i++)
		merge_host(m, i, &p->hosts[i]);
	for (uint32_t i = 0; i < p->op_count; i++)
		if (p->ops[i].commands && p->ops[i].host < p->host_count)
			merge_op(m, m->host_of[m->host + p->ops[i].host], m->op + i, p->ops[i]);
	for (uint32_t i = 0; i < p->error_count; i++)
		if (p->errors[i].count && p->errors[i].host < p->host_count)
			merge_error(m, m->host_of[m->host + p->errors[i].host], m->error + i,
				    p->errors[i]);
	for (uint32_t i = 0; i < p->queue_count; i++) {
		struct figures_queue_row r = p->queues[i];

		if (!r.entries || r.host >= p->host_count)
			continue;
		r.host = m->host_of[m->host + r.host];
		m->queues[m->queue + i] = r;
	}
	for (uint32_t i = 0; i < p->reason_count; i++)
		merge_reason(m, i, &p->reasons[i]);
	m->host += p->host_count;
	m->op += p->op_count;
	m->error += p->error_count;
	m->queue += p->queue_count;
	m->reason += p->reason_count;
}

bool served_merge(const struct served *parts, unsigned count, struct served *ret)
{
	struct served all = {0};
	struct merging m = {0};
	uint32_t *lists;
	uint8_t *memory;
	size_t n;

	for (unsigned i = 0; i < count; i++) {
		all.host_count += parts[i].host_count;
		all.op_count += parts[i].op_count;
		all.error_count += parts[i].error_count;
		all.queue_count += parts[i].queue_count;
		all.reason_count += parts[i].reason_count;
	}
	n = all.host_count * sizeof(*m.hosts) + all.op_count * sizeof(*m.ops) +
	    all.error_count * sizeof(*m.errors) + all.queue_count * sizeof(*m.queues) +
	    all.reason_count * sizeof(*m.reasons);
	memory = calloc(1, n + 1);
	lists = calloc(3 * (size_t)all.host_count + all.op_count + all.error_count + 1,
		       sizeof(*lists));
	if (!memory || !lists) {
		free(memory);
		free(lists);
		return false;
	}
	m.hosts = (struct figures_host_row *)memory;
	m.ops = (struct figures_op_row *)(m.hosts + all.host_count);
	m.errors = (struct figures_error_row *)(m.ops + all.op_count);
	m.queues = (struct figures_queue_row *)(m.errors + all.error_count);
	m.reasons = (struct figures_reason_row *)(m.queues + all.queue_count);
	m.host_of = lists;
	m.ops_of = m.host_of + all.host_count;
	m.errors_of = m.ops_of + all.host_count;
	m.next_op = m.errors_of + all.host_count;
	m.next_error = m.next_op + all.op_count;
	for (unsigned i = 0; i < count; i++)
		merge_part(&m, &parts[i]);
	free(lists);
	all.hosts = m.hosts;
	all.ops = m.ops;
	all.errors = m.errors;
	all.queues = m.queues;
	all.reasons = m.reasons;
	all.memory = memory;
	*ret = all;
	return true;
}
