/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/target/figures.h"

#include <assert.h>
#include <string.h>

#include "nvmf/target/internal.h"

_Static_assert(FIGURES_NQN_WORDS * 8 > NVME_NQN_MAX, "an NQN is a text of a row");

#define NOBODY	 0 /* row 0 of each table */
#define KEY_NONE UINT32_MAX

/* --- hosts ----------------------------------------------------------------------------------- */

static uint32_t hash_add(uint32_t h, const char *text)
{
	for (size_t i = 0; i < NVME_NQN_LEN && text[i]; i++)
		h = (h ^ (uint8_t)text[i]) * 16777619u;
	return h * 31;
}

static uint32_t hash_of(const char *subsys, const char *host)
{
	return hash_add(hash_add(2166136261u, subsys), host);
}

static void text_put(uint64_t *words, size_t count, const char *text)
{
	memset(words, 0, count * sizeof(*words));
	memcpy(words, text, strnlen(text, count * sizeof(*words) - 1));
}

static const char *text_of(const uint64_t *words)
{
	return (const char *)words;
}

void figures_init(struct target_figures *f)
{
	memset(f->host, 0, sizeof(f->host));
	f->pending_count = 0;
	f->gone = 0;
	for (uint16_t i = 1; i < FIGURES_OPS; i++)
		f->op[i].next = (uint16_t)((i + 1) % FIGURES_OPS);
	for (uint16_t i = 1; i < FIGURES_ERRORS; i++)
		f->error[i].next = (uint16_t)((i + 1) % FIGURES_ERRORS);
	for (uint16_t i = 1; i < FIGURES_QUEUES; i++)
		f->queue_next[i] = (uint16_t)((i + 1) % FIGURES_QUEUES);
	for (uint16_t i = 1; i < FIGURES_QUEUE_ERRORS; i++)
		f->queue_error_next[i] = (uint16_t)((i + 1) % FIGURES_QUEUE_ERRORS);
	f->ops_free = f->errors_free = f->queues_free = f->queue_errors_free = 1;
	f->host[NOBODY].others = true;
	f->hosts[NOBODY].in_use = 1;
	text_put(f->hosts[NOBODY].host, FIGURES_NQN_WORDS, FIGURES_OTHERS);
	f->ops[NOBODY].opcode = f->errors[NOBODY].opcode = FIGURES_UNKNOWN;
	text_put(f->reasons[NOBODY].reason, FIGURES_REASON_WORDS, "other");
}

static uint16_t find_op(struct target_figures *f, uint16_t host, uint32_t key)
{
	for (uint16_t i = f->host[host].ops; i; i = f->op[i].next)
		if (f->op[i].key == key)
			return i;
	return NOBODY;
}

static uint16_t find_error(struct target_figures *f, uint16_t host, uint32_t key, uint16_t status)
{
	for (uint16_t i = f->host[host].errors; i; i = f->error[i].next)
		if (f->error[i].key == key && f->error[i].status == status)
			return i;
	return NOBODY;
}

static void add_op(struct figures_op_row *to, const struct figures_op_row *from)
{
	to->commands += from->commands;
	to->errors += from->errors;
	to->bytes += from->bytes;
	to->latency_ns += from->latency_ns;
	for (unsigned i = 0; i < FIGURES_BUCKETS; i++)
		to->bucket[i] += from->bucket[i];
}

static void free_op(struct target_figures *f, uint16_t i)
{
	memset(&f->ops[i], 0, sizeof(f->ops[i]));
	f->op[i].next = f->ops_free;
	f->ops_free = i;
}

static void free_error(struct target_figures *f, uint16_t i)
{
	memset(&f->errors[i], 0, sizeof(f->errors[i]));
	f->error[i].next = f->errors_free;
	f->errors_free = i;
}

/* What one host has done is another's from now on: rows of the same kind become one. */
static void merge(struct target_figures *f, uint16_t from, uint16_t to)
{
	uint16_t next, same;

	for (uint16_t i = f->host[from].ops; i; i = next) {
		next = f->op[i].next;
		same = find_op(f, to, f->op[i].key);
		if (same || to == NOBODY) {
			add_op(&f->ops[same], &f->ops[i]);
			free_op(f, i);
			continue;
		}
		f->ops[i].host = to;
		f->op[i].next = f->host[to].ops;
		f->host[to].ops = i;
	}
	for (uint16_t i = f->host[from].errors; i; i = next) {
		next = f->error[i].next;
		same = find_error(f, to, f->error[i].key, f->error[i].status);
		if (same || to == NOBODY) {
			f->errors[same].count += f->errors[i].count;
			free_error(f, i);
			continue;
		}
		f->errors[i].host = to;
		f->error[i].next = f->host[to].errors;
		f->host[to].errors = i;
	}
	f->host[from] = (struct figures_host){0};
	memset(&f->hosts[from], 0, sizeof(f->hosts[from]));
}

static uint16_t find_host(const struct target_figures *f, const char *subsys, const char *host)
{
	uint32_t hash = hash_of(subsys, host);

	for (uint16_t i = 1; i < FIGURES_HOSTS; i++)
		if (f->hosts[i].in_use && f->host[i].hash == hash &&
		    strncmp(text_of(f->hosts[i].subsystem), subsys, NVME_NQN_LEN) == 0 &&
		    strncmp(text_of(f->hosts[i].host), host, NVME_NQN_LEN) == 0)
			return i;
	return NOBODY;
}

static void name_host(struct target_figures *f, uint16_t i, const char *subsys, const char *host)
{
	char of[NVME_NQN_LEN] = ""; /* it may be the row's own */

	memcpy(of, subsys, strnlen(subsys, sizeof(of) - 1));
	text_put(f->hosts[i].subsystem, FIGURES_NQN_WORDS, of);
	text_put(f->hosts[i].host, FIGURES_NQN_WORDS, host);
	f->host[i].hash = hash_of(of, host);
	f->host[i].others = strcmp(host, FIGURES_OTHERS) == 0;
	f->hosts[i].in_use = 1;
}

/* The one that went first; of "others" only if there are no others. */
static uint16_t longest_gone(const struct target_figures *f)
{
	uint16_t best = NOBODY;

	for (uint16_t i = 1; i < FIGURES_HOSTS; i++) {
		const struct figures_host *h = &f->host[i], *b = &f->host[best];

		if (!f->hosts[i].in_use || h->refs)
			continue;
		if (!best || (h->others != b->others ? b->others : h->gone < b->gone))
			best = i;
	}
	return best;
}

/* False: all that are there are connected. */
static bool make_room(struct target_figures *f)
{
	uint16_t i = longest_gone(f), others;

	if (!i)
		return false;
	figures_settle(f, f->now_ns);
	if (f->host[i].others) {
		merge(f, i, NOBODY);
		return true;
	}
	others = find_host(f, text_of(f->hosts[i].subsystem), FIGURES_OTHERS);
	if (others) {
		merge(f, i, others);
	} else {
		name_host(f, i, text_of(f->hosts[i].subsystem), FIGURES_OTHERS);
		f->host[i].gone = ++f->gone;
	}
	return true;
}

static uint16_t free_host(const struct target_figures *f)
{
	for (uint16_t i = 1; i < FIGURES_HOSTS; i++)
		if (!f->hosts[i].in_use)
			return i;
	return NOBODY;
}

static uint16_t take_host(struct target_figures *f, const char *subsys, const char *host)
{
	uint16_t i = find_host(f, subsys, host);

	if (i)
		return i;
	while (!(i = free_host(f)))
		if (!make_room(f))
			return NOBODY;
	name_host(f, i, subsys, host);
	return i;
}

/* --- queues ---------------------------------------------------------------------------------- */

static uint64_t *connections(struct target_figures *f, const struct target_queue *q)
{
	struct figures_host_row *h = &f->hosts[q->shown.host];

	switch (q->ops->trtype) {
	case NVMF_TRTYPE_RDMA:
		return &h->rdma;
	case NVMF_TRTYPE_TCP:
		return &h->tcp;
	default:
		return &h->other;
	}
}

void figures_queue_begin(struct target_figures *f, struct target_queue *q)
{
	const struct target_ctrl *c = q->ctrl;
	struct figures_of_queue *s = &q->shown;

	*s = (struct figures_of_queue){.on = true};
	f->now_ns = q->group->now_ns;
	for (unsigned i = 0; i < FIGURES_CACHE; i++)
		s->cache[i].key = KEY_NONE;
	s->host = take_host(f, c->subsys->nqn, c->subsys->discovery ? FIGURES_OTHERS : c->hostnqn);
	f->host[s->host].refs++;
	++*connections(f, q);
	/* Of nobody's host queues could not be told apart. */
	s->row = s->host == NOBODY ? 0 : f->queues_free;
	if (!s->row)
		return;
	f->queues_free = f->queue_next[s->row];
	f->queues[s->row] = (struct figures_queue_row){.host = s->host,
						       .cntlid = c->cntlid,
						       .qid = q->qid,
						       .trtype = q->ops->trtype,
						       .entries = q->entries};
}

static void free_queue_errors(struct target_figures *f, struct figures_of_queue *s)
{
	while (s->errors) {
		const uint16_t i = s->errors;

		s->errors = f->queue_error_next[i];
		f->queue_errors[i] = (struct figures_queue_error_row){0};
		f->queue_error_next[i] = f->queue_errors_free;
		f->queue_errors_free = i;
	}
}

void figures_queue_end(struct target_figures *f, struct target_queue *q)
{
	struct figures_of_queue *s = &q->shown;

	if (!s->on)
		return;
	figures_settle(f, q->group->now_ns); /* while the row is this queue's */
	free_queue_errors(f, s);
	s->on = false;
	--*connections(f, q);
	if (!--f->host[s->host].refs)
		f->host[s->host].gone = ++f->gone;
	if (!s->row)
		return;
	f->queues[s->row] = (struct figures_queue_row){0};
	f->queue_next[s->row] = f->queues_free;
	f->queues_free = s->row;
}

/* --- commands -------------------------------------------------------------------------------- */

/* Whoever makes up commands gets one row for all of them. */
static uint32_t opcode_known(uint32_t opcode)
{
	static const char unknown[] = "unknown";

	if ((opcode & ~0xffu) != FIGURES_FABRICS)
		return strcmp(nvme_opcode_name((uint8_t)opcode, opcode & FIGURES_ADMIN), unknown)
			       ? opcode
			       : FIGURES_UNKNOWN;
	switch (opcode & 0xff) {
	case NVMF_CONNECT:
	case NVMF_PROPERTY_GET:
	case NVMF_PROPERTY_SET:
	case NVMF_AUTH_SEND:
	case NVMF_AUTH_RECV:
	case NVMF_DISCONNECT:
		return opcode;
	}
	return FIGURES_UNKNOWN;
}

static uint32_t key_of(const struct target_queue *q, const struct target_req *r)
{
	uint32_t nsid = r->ns ? r->ns->nsid : 0;

	if (r->sqe.opcode == NVME_FABRICS)
		return FIGURES_FABRICS | nvmf_fctype(&r->sqe);
	return nsid << 16 | (q->qid ? FIGURES_IO : FIGURES_ADMIN) | r->sqe.opcode;
}

/* The host's row, to the front of its list: it will be asked for again. */
static uint16_t take_op(struct target_figures *f, uint16_t host, uint32_t raw)
{
	uint32_t key = (raw & ~0xffffu) | opcode_known(raw & 0xffffu);
	uint16_t *at = &f->host[host].ops, i;

	while (*at && f->op[*at].key != key)
		at = &f->op[*at].next;
	i = *at;
	if (i) {
		*at = f->op[i].next;
	} else {
		while (!f->ops_free && make_room(f))
			;
		i = f->ops_free;
		if (!i || host == NOBODY)
			return NOBODY;
		f->ops_free = f->op[i].next;
		f->op[i].key = key;
		f->ops[i] = (struct figures_op_row){
			.host = host, .nsid = key >> 16, .opcode = key & 0xffff};
	}
	f->op[i].next = f->host[host].ops;
	f->host[host].ops = i;
	return i;
}

static void count_error(struct target_figures *f, uint16_t host, const struct figures_op_row *op,
			uint16_t status)
{
	uint32_t key = (uint32_t)(op->nsid << 16 | op->opcode);
	uint16_t i = find_error(f, host, key, status);

	if (!i && host != NOBODY) {
		i = f->errors_free;
		if (i) {
			f->errors_free = f->error[i].next;
			f->error[i] = (struct figures_link){
				.key = key, .status = status, .next = f->host[host].errors};
			f->host[host].errors = i;
			f->errors[i] = (struct figures_error_row){.host = host,
								  .nsid = op->nsid,
								  .opcode = op->opcode,
								  .status = status};
		}
	}
	f->errors[i].count++;
}

/* Only a status of I/O commands alone has another name in their row. */
static void count_queue_error(struct target_figures *f, struct figures_of_queue *s,
			      const struct figures_op_row *op, uint16_t status)
{
	const bool io = op->opcode >> 8 == FIGURES_IO >> 8 &&
			nvme_io_status_name(status) != nvme_status_name(status);
	uint16_t i = s->errors;

	while (i && (f->queue_errors[i].status != status || f->queue_errors[i].io != io))
		i = f->queue_error_next[i];
	if (!i && s->row && f->queue_errors_free) {
		i = f->queue_errors_free;
		f->queue_errors_free = f->queue_error_next[i];
		f->queue_error_next[i] = s->errors;
		s->errors = i;
		f->queue_errors[i] = (struct figures_queue_error_row){
			.queue = s->row, .io = io, .status = status};
	}
	if (i)
		f->queue_errors[i].count++;
	else
		f->queues[s->row].other_errors++;
}

static void wait_for_the_end_of_turn(struct target_figures *f, uint16_t op,
				     const struct target_req *r)
{
	struct figures_pending *p = &f->pending[f->pending_count];
	const uint16_t queue = r->queue->shown.row;

	if (f->pending_count && p[-1].op == op && p[-1].queue == queue &&
	    p[-1].since_ns == r->since_ns) {
		p[-1].count++;
		return;
	}
	if (f->pending_count == FIGURES_PENDING) {
		figures_settle(f, r->queue->group->now_ns);
		p = f->pending;
	}
	*p = (struct figures_pending){
		.op = op, .queue = queue, .count = 1, .since_ns = r->since_ns};
	f->pending_count++;
}

void figures_count(struct target_figures *f, struct target_queue *q, const struct target_req *r)
{
	uint16_t status = r->cqe.status & NVME_STATUS_CODE;
	struct figures_of_queue *s = &q->shown;
	uint32_t key = key_of(q, r), slot = key * 0x9e3779b1u >> 16 & (FIGURES_CACHE - 1);
	const bool waits = key == (FIGURES_ADMIN | NVME_ADMIN_ASYNC_EVENT);
	struct figures_op_row *op;
	uint16_t i;

	if (req_waited_in_vain(r))
		return;
	if (s->cache[slot].key != key) {
		f->now_ns = q->group->now_ns;
		s->cache[slot].op = take_op(f, s->host, key);
		s->cache[slot].key = key;
	}
	i = s->cache[slot].op;
	op = &f->ops[i];
	op->commands++;
	f->queues[s->row].commands++;
	if (status != NVME_SC_SUCCESS) {
		op->errors++;
		count_error(f, s->host, op, status);
		count_queue_error(f, s, op, status);
	} else if (r->data_len) {
		op->bytes += r->data_len;
		if (r->dir == NVMF_DIR_TO_HOST)
			f->queues[s->row].read_bytes += r->data_len;
		else
			f->queues[s->row].written_bytes += r->data_len;
	}
	if (!waits)
		wait_for_the_end_of_turn(f, i, r);
}

void figures_settle(struct target_figures *f, uint64_t now_ns)
{
	for (uint32_t i = 0; i < f->pending_count; i++) {
		const struct figures_pending *p = &f->pending[i];
		uint64_t ns = now_ns > p->since_ns ? now_ns - p->since_ns : 0;

		f->ops[p->op].latency_ns += ns * p->count;
		f->ops[p->op].bucket[figures_bucket(ns)] += p->count;
		f->queues[p->queue].latency_ns += ns * p->count;
		f->queues[p->queue].bucket[figures_queue_bucket(ns)] += p->count;
	}
	f->pending_count = 0;
}

/* --- who does not come in -------------------------------------------------------------------- */

void figures_refused(struct target_figures *f, const char *why)
{
	char reason[FIGURES_REASON_WORDS * sizeof(uint64_t)] = "";
	const char *detail = strstr(why, " (");
	const size_t room = sizeof(reason) - 1, len = detail ? (size_t)(detail - why) : strlen(why);

	memcpy(reason, why, min_of(len, room));
	for (uint16_t i = 1; i < FIGURES_REASONS; i++) {
		struct figures_reason_row *row = &f->reasons[i];

		if (!row->count)
			text_put(row->reason, FIGURES_REASON_WORDS, reason);
		if (strncmp(text_of(row->reason), reason, room) == 0) {
			row->count++;
			return;
		}
	}
	f->reasons[NOBODY].count++;
}
