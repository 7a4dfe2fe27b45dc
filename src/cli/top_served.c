/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/top_served.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/output.h"

static uint64_t timed(const struct figures_op_row *r)
{
	uint64_t sum = 0;

	for (unsigned b = 0; b < FIGURES_BUCKETS; b++)
		sum += r->bucket[b];
	return sum;
}

static void add_row(struct top_served *t, const struct served *now, const struct served *was,
		    uint32_t i)
{
	static const struct figures_op_row none;
	const struct figures_op_row *r = &now->ops[i], *b = served_op_before(was, now, i);
	uint64_t bytes;

	if (!b)
		b = &none;
	bytes = r->bytes - b->bytes;
	t->commands = r->commands - b->commands;
	t->errors = r->errors - b->errors;
	if (r->opcode == NVME_IO_READ)
		t->read_bytes = bytes;
	else
		t->written_bytes = bytes;
	t->latency_ns = r->latency_ns - b->latency_ns;
	t->timed = timed(r) - timed(b);
}

static int by_name(const void *a, const void *b)
{
	const struct top_served *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->row != y->row)
		return x->row < y->row ? -1 : 1;
	return (x->nsid > y->nsid) - (x->nsid < y->nsid);
}

static int by_work(const void *a, const void *b)
{
	const struct top_served *x = a, *y = b;

	if (x->commands != y->commands)
		return x->commands < y->commands ? 1 : -1;
	return by_name(a, b);
}

/* What there is of one process, each row by itself. */
static bool gather(const struct seen *s, const struct seen *old, struct top_served **v, size_t *n)
{
	struct served now = {0}, was = {0};
	struct top_served *more;

	if (!served_seen(s, &now) || (old && !served_seen(old, &was))) {
		served_free(&now);
		return false;
	}
	more = realloc(*v, (*n + now.op_count + 1) * sizeof(*more));
	for (uint32_t i = 0; more && i < now.op_count; i++) {
		const struct figures_op_row *r = &now.ops[i];
		struct top_served *t = &more[*n];

		if (!r->commands || !r->nsid || !served_is_io(r->opcode) ||
		    r->host >= now.host_count)
			continue;
		*t = (struct top_served){.pid = s->pid, .row = (uint32_t)r->host, .nsid = r->nsid};
		t->connected = now.hosts[r->host].rdma || now.hosts[r->host].tcp ||
			       now.hosts[r->host].other;
		served_host(&now, r->host, t->host);
		served_subsystem(&now, r->host, t->subsystem);
		add_row(t, &now, &was, i);
		++*n;
	}
	if (more)
		*v = more;
	served_free(&now);
	served_free(&was);
	return more != NULL;
}

/* Kinds of commands of one host on one namespace together. */
static size_t merge(struct top_served *v, size_t count)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		struct top_served *t = n ? &v[n - 1] : NULL;

		if (!t || by_name(t, &v[i]) != 0) {
			v[n++] = v[i];
			continue;
		}
		t->commands += v[i].commands;
		t->errors += v[i].errors;
		t->read_bytes += v[i].read_bytes;
		t->written_bytes += v[i].written_bytes;
		t->latency_ns += v[i].latency_ns;
		t->timed += v[i].timed;
	}
	return n;
}

bool top_served(const struct snapshot *now, const struct snapshot *before, struct top_served **ret,
		size_t *ret_count)
{
	struct top_served *v = NULL;
	size_t n = 0;

	for (size_t i = 0; i < now->count; i++)
		if (!gather(&now->v[i], snapshot_same(before, &now->v[i]), &v, &n)) {
			free(v);
			return false;
		}
	if (n) {
		qsort(v, n, sizeof(*v), by_name);
		n = merge(v, n);
		qsort(v, n, sizeof(*v), by_work);
	}
	*ret = v;
	*ret_count = n;
	return true;
}

/* "-" is easier to overlook than 0. */
static const char *rate(char buf[32], uint64_t v, double seconds, bool bytes)
{
	uint64_t r = seconds > 0 ? (uint64_t)((double)v / seconds + 0.5) : 0;

	if (!r)
		return "-";
	if (bytes)
		return text_bytes(buf, 32, r);
	snprintf(buf, 32, "%" PRIu64, r);
	return buf;
}

void top_served_text(char *text, size_t room, const struct top_served *t, double seconds)
{
	char who[2 * SERVED_NQN_MAX + 8], iops[32], in[32], out[32], latency[32] = "-", errors[32];

	snprintf(who, sizeof(who), "%s at %s", t->host[0] ? t->host : "a host",
		 t->subsystem[0] ? t->subsystem : "any");
	if (strlen(who) > 44) /* the ends tell them apart */
		snprintf(who, sizeof(who), "..%.18s at ..%.18s",
			 t->host + (strlen(t->host) > 18 ? strlen(t->host) - 18 : 0),
			 t->subsystem +
				 (strlen(t->subsystem) > 18 ? strlen(t->subsystem) - 18 : 0));
	text_tame(who);
	if (t->timed)
		text_duration(latency, sizeof(latency), t->latency_ns / t->timed);
	snprintf(text, room, "%7d %-4" PRIu64 " %-44.44s %8s %10s %10s %9s %6s", t->pid, t->nsid,
		 who, rate(iops, t->commands, seconds, false),
		 rate(in, t->read_bytes, seconds, true), rate(out, t->written_bytes, seconds, true),
		 latency, rate(errors, t->errors, seconds, false));
}
