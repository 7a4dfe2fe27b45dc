/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The tables of several groups as one. A row of a later group is added to that of an earlier one
 * for the same thing, where there is one; else it has a place of its own, which is the same as long
 * as no earlier group has that thing, too.
 *
 * The tables may be anybody's: what is looked for is found by a sum that nobody can foresee, so
 * that no rows are slower than others.
 */
#include "cli/served.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Of rows by sums: the first, and of each the next, as number plus one. */
struct by_sum {
	uint32_t *first, *next;
	uint32_t mask;
};

struct merging {
	struct figures_host_row *hosts;
	struct figures_op_row *ops;
	struct figures_error_row *errors;
	struct figures_queue_row *queues;
	struct figures_queue_error_row *queue_errors;
	struct figures_reason_row *reasons;
	/* Of each host row that there was: which it is now. */
	uint32_t *host_of;
	struct by_sum hosts_by, ops_by, errors_by;
	uint64_t key; /* of sums */
	/* Where the rows of this part begin. */
	uint32_t host, op, error, queue, queue_error, reason;
};

static uint64_t add(const struct merging *m, uint64_t sum, const uint64_t *words, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		sum = (sum ^ words[i]) * m->key;
		sum ^= sum >> 32;
	}
	return sum;
}

static uint32_t *first_of(const struct by_sum *b, uint64_t sum)
{
	return &b->first[sum & b->mask];
}

static void put(struct by_sum *b, uint64_t sum, uint32_t row)
{
	uint32_t *first = first_of(b, sum);

	b->next[row] = *first;
	*first = row + 1;
}

static void merge_host(struct merging *m, uint32_t i, const struct figures_host_row *r)
{
	const uint32_t own = m->host + i;
	uint64_t sum;

	m->host_of[own] = own;
	if (!r->in_use)
		return;
	sum = add(m, add(m, 1, r->subsystem, ARRAY_SIZE(r->subsystem)), r->host,
		  ARRAY_SIZE(r->host));
	for (uint32_t n = *first_of(&m->hosts_by, sum); n; n = m->hosts_by.next[n - 1]) {
		struct figures_host_row *h = &m->hosts[n - 1];

		if (memcmp(h->subsystem, r->subsystem, sizeof(h->subsystem)) != 0 ||
		    memcmp(h->host, r->host, sizeof(h->host)) != 0)
			continue;
		h->rdma += r->rdma;
		h->tcp += r->tcp;
		h->other += r->other;
		m->host_of[own] = n - 1;
		return;
	}
	m->hosts[own] = *r;
	put(&m->hosts_by, sum, own);
}

static void merge_op(struct merging *m, uint32_t host, uint32_t own, struct figures_op_row r)
{
	const uint64_t sum = add(m, 1, (uint64_t[]){host, r.nsid, r.opcode}, 3);

	r.host = host;
	for (uint32_t n = *first_of(&m->ops_by, sum); n; n = m->ops_by.next[n - 1]) {
		struct figures_op_row *o = &m->ops[n - 1];

		if (o->host != host || o->nsid != r.nsid || o->opcode != r.opcode)
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
	put(&m->ops_by, sum, own);
}

static void merge_error(struct merging *m, uint32_t host, uint32_t own, struct figures_error_row r)
{
	const uint64_t sum = add(m, 1, (uint64_t[]){host, r.nsid, r.opcode, r.status}, 4);

	r.host = host;
	for (uint32_t n = *first_of(&m->errors_by, sum); n; n = m->errors_by.next[n - 1]) {
		struct figures_error_row *e = &m->errors[n - 1];

		if (e->host != host || e->nsid != r.nsid || e->opcode != r.opcode ||
		    e->status != r.status)
			continue;
		e->count += r.count;
		return;
	}
	m->errors[own] = r;
	put(&m->errors_by, sum, own);
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
	for (uint32_t i = 0; i < p->queue_error_count; i++) {
		struct figures_queue_error_row r = p->queue_errors[i];

		if (!served_queue(p, &r))
			continue;
		r.queue += m->queue;
		m->queue_errors[m->queue_error + i] = r;
	}
	for (uint32_t i = 0; i < p->reason_count; i++)
		merge_reason(m, i, &p->reasons[i]);
	m->host += p->host_count;
	m->op += p->op_count;
	m->error += p->error_count;
	m->queue += p->queue_count;
	m->queue_error += p->queue_error_count;
	m->reason += p->reason_count;
}

static size_t lists_of(uint32_t rows)
{
	return (size_t)round_up_pow2(rows) + rows;
}

static struct by_sum take(uint32_t **lists, uint32_t rows)
{
	const uint32_t sums = round_up_pow2(rows);
	const struct by_sum b = {.first = *lists, .next = *lists + sums, .mask = sums - 1};

	*lists += lists_of(rows);
	return b;
}

bool served_merge(const struct served *parts, unsigned count, struct served *ret)
{
	struct served all = {0};
	struct merging m = {0};
	uint32_t *lists, *at;
	uint8_t *memory;
	size_t n;

	for (unsigned i = 0; i < count; i++) {
		all.host_count += parts[i].host_count;
		all.op_count += parts[i].op_count;
		all.error_count += parts[i].error_count;
		all.queue_count += parts[i].queue_count;
		all.queue_error_count += parts[i].queue_error_count;
		all.reason_count += parts[i].reason_count;
	}
	n = all.host_count * sizeof(*m.hosts) + all.op_count * sizeof(*m.ops) +
	    all.error_count * sizeof(*m.errors) + all.queue_count * sizeof(*m.queues) +
	    all.queue_error_count * sizeof(*m.queue_errors) + all.reason_count * sizeof(*m.reasons);
	memory = calloc(1, n + 1);
	lists = calloc(all.host_count + lists_of(all.host_count) + lists_of(all.op_count) +
			       lists_of(all.error_count),
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
	m.queue_errors = (struct figures_queue_error_row *)(m.queues + all.queue_count);
	m.reasons = (struct figures_reason_row *)(m.queue_errors + all.queue_error_count);
	m.host_of = lists;
	at = lists + all.host_count;
	m.hosts_by = take(&at, all.host_count);
	m.ops_by = take(&at, all.op_count);
	m.errors_by = take(&at, all.error_count);
	(void)!getrandom(&m.key, sizeof(m.key), GRND_NONBLOCK);
	m.key |= 1;
	for (unsigned i = 0; i < count; i++)
		merge_part(&m, &parts[i]);
	free(lists);
	all.hosts = m.hosts;
	all.ops = m.ops;
	all.errors = m.errors;
	all.queues = m.queues;
	all.queue_errors = m.queue_errors;
	all.reasons = m.reasons;
	all.memory = memory;
	*ret = all;
	return true;
}
