/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/served_view.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* The least bucket's bound that so many of a hundred do not exceed; 0: only the last has none. */
static uint64_t within(const uint64_t *bucket, unsigned count, unsigned shift, unsigned step,
		       uint64_t total, unsigned percent)
{
	uint64_t sum = 0;

	for (unsigned b = 0; b + 1 < count; b++) {
		sum += bucket[b];
		if ((double)sum >= (double)total * percent / 100)
			return 1ull << (shift + step * b);
	}
	return 0;
}

/* Behind what the line has: how long commands took. */
static void add_latency(char *line, size_t room, uint64_t latency_ns, const uint64_t *bucket,
			unsigned count, unsigned shift, unsigned step)
{
	static const struct {
		unsigned percent;
		const char *text;
	} parts[] = {{50, "half within"}, {99, "99 % within"}};
	uint64_t total = 0, ns;
	char text[32];
	size_t at = strlen(line);

	for (unsigned b = 0; b < count; b++)
		total += bucket[b];
	if (!total)
		return;
	at += (size_t)snprintf(line + at, room - at, ", mean %s",
			       text_duration(text, sizeof(text), latency_ns / total));
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		ns = within(bucket, count, shift, step, total, parts[i].percent);
		if (ns)
			at += (size_t)snprintf(line + at, room - at, ", %s %s", parts[i].text,
					       text_duration(text, sizeof(text), ns));
	}
}

static void op_text(struct output *o, const struct figures_op_row *before,
		    const struct figures_op_row *r, double seconds)
{
	char opcode[SERVED_OPCODE_MAX], label[96], bytes[32], line[256];
	int at;

	served_opcode(r->opcode, opcode);
	if (r->nsid)
		snprintf(label, sizeof(label), "%s, namespace %llu", opcode,
			 (unsigned long long)r->nsid);
	else
		snprintf(label, sizeof(label), "%s", opcode);
	at = snprintf(line, sizeof(line), "%llu commands", (unsigned long long)r->commands);
	if (seconds > 0)
		at += snprintf(line + at, sizeof(line) - (size_t)at, ", %.0f/s",
			       (double)(r->commands - (before ? before->commands : 0)) / seconds);
	if (r->bytes)
		at += snprintf(line + at, sizeof(line) - (size_t)at, ", %s",
			       text_bytes(bytes, sizeof(bytes), r->bytes));
	if (r->errors)
		snprintf(line + at, sizeof(line) - (size_t)at, ", %llu errors",
			 (unsigned long long)r->errors);
	add_latency(line, sizeof(line), r->latency_ns, r->bucket, FIGURES_BUCKETS,
		    FIGURES_BUCKET_SHIFT, 1);
	output_string(o, "line", label, line);
}

static void buckets_json(struct output *o, const uint64_t *bucket, unsigned count)
{
	char key[24];

	for (unsigned b = 0; b < count; b++) {
		snprintf(key, sizeof(key), "bucket_%02u", b);
		output_number(o, key, NULL, bucket[b], NULL);
	}
}

static void op_json(struct output *o, const struct figures_op_row *r)
{
	char opcode[SERVED_OPCODE_MAX];

	output_object(o, NULL, NULL);
	output_number(o, "nsid", NULL, r->nsid, NULL);
	output_string(o, "opcode", NULL, served_opcode(r->opcode, opcode));
	output_bool(o, "io", NULL, served_is_io(r->opcode));
	output_number(o, "commands", NULL, r->commands, NULL);
	output_number(o, "errors", NULL, r->errors, NULL);
	output_number(o, "bytes", NULL, r->bytes, NULL);
	output_number(o, "latency_ns", NULL, r->latency_ns, NULL);
	buckets_json(o, r->bucket, FIGURES_BUCKETS);
	output_close(o);
}

static void show_ops(struct output *o, const struct served *now, const struct served *before,
		     uint32_t host, double seconds)
{
	if (o->format == OUTPUT_JSON)
		output_list(o, "commands", NULL);
	for (uint32_t i = 0; i < now->op_count; i++) {
		const struct figures_op_row *r = &now->ops[i];

		if (r->host != host || !r->commands)
			continue;
		if (o->format == OUTPUT_JSON)
			op_json(o, r);
		else
			op_text(o, seconds > 0 ? served_op_before(before, now, i) : NULL, r,
				seconds);
	}
	if (o->format == OUTPUT_JSON)
		output_close(o);
}

static void show_errors(struct output *o, const struct served *now, uint32_t host)
{
	char opcode[SERVED_OPCODE_MAX];

	if (o->format == OUTPUT_JSON)
		output_list(o, "errors", NULL);
	for (uint32_t i = 0; i < now->error_count; i++) {
		const struct figures_error_row *r = &now->errors[i];
		const char *status = served_status(r->opcode, r->status);

		if (r->host != host || !r->count)
			continue;
		served_opcode(r->opcode, opcode);
		if (o->format == OUTPUT_TEXT) {
			output_note(o, "%llu times %s failed: %s", (unsigned long long)r->count,
				    opcode, status);
			continue;
		}
		output_object(o, NULL, NULL);
		output_number(o, "nsid", NULL, r->nsid, NULL);
		output_string(o, "opcode", NULL, opcode);
		output_number(o, "status", NULL, r->status, NULL);
		output_string(o, "status_name", NULL, status);
		output_number(o, "count", NULL, r->count, NULL);
		output_close(o);
	}
	if (o->format == OUTPUT_JSON)
		output_close(o);
}

static void queue_json(struct output *o, const struct figures_queue_row *r)
{
	output_object(o, NULL, NULL);
	output_number(o, "cntlid", NULL, r->cntlid, NULL);
	output_number(o, "qid", NULL, r->qid, NULL);
	output_string(o, "transport", NULL, served_transport(r->trtype));
	output_number(o, "entries", NULL, r->entries, NULL);
	output_number(o, "commands", NULL, r->commands, NULL);
	output_number(o, "read_bytes", NULL, r->read_bytes, NULL);
	output_number(o, "written_bytes", NULL, r->written_bytes, NULL);
	output_number(o, "other_errors", NULL, r->other_errors, NULL);
	output_number(o, "latency_ns", NULL, r->latency_ns, NULL);
	buckets_json(o, r->bucket, FIGURES_QUEUE_BUCKETS);
	output_close(o);
}

static void queue_text(struct output *o, const struct figures_queue_row *r)
{
	char label[64], bytes[2][32], line[256];

	snprintf(label, sizeof(label), "queue %llu, controller %llu", (unsigned long long)r->qid,
		 (unsigned long long)r->cntlid);
	snprintf(line, sizeof(line), "%s, %llu entries, %llu commands, %s read, %s written",
		 served_transport(r->trtype), (unsigned long long)r->entries,
		 (unsigned long long)r->commands,
		 text_bytes(bytes[0], sizeof(bytes[0]), r->read_bytes),
		 text_bytes(bytes[1], sizeof(bytes[1]), r->written_bytes));
	add_latency(line, sizeof(line), r->latency_ns, r->bucket, FIGURES_QUEUE_BUCKETS,
		    FIGURES_QUEUE_BUCKET_SHIFT, 2);
	output_string(o, "line", label, line);
}

static void queue_error_json(struct output *o, const struct figures_queue_row *q,
			     const struct figures_queue_error_row *r)
{
	output_object(o, NULL, NULL);
	output_number(o, "cntlid", NULL, q->cntlid, NULL);
	output_number(o, "qid", NULL, q->qid, NULL);
	output_number(o, "status", NULL, r->status, NULL);
	output_string(o, "status_name", NULL, served_queue_status(r));
	output_number(o, "count", NULL, r->count, NULL);
	output_close(o);
}

static void show_queues(struct output *o, const struct served *now, uint32_t host)
{
	if (o->format == OUTPUT_JSON)
		output_list(o, "queues", NULL);
	for (uint32_t i = 0; i < now->queue_count; i++) {
		if (!now->queues[i].entries || now->queues[i].host != host)
			continue;
		if (o->format == OUTPUT_JSON)
			queue_json(o, &now->queues[i]);
		else
			queue_text(o, &now->queues[i]);
	}
	if (o->format != OUTPUT_JSON)
		return; /* their errors are those of the commands */
	output_close(o);
	output_list(o, "queue_errors", NULL);
	for (uint32_t i = 0; i < now->queue_error_count; i++) {
		const struct figures_queue_row *q = served_queue(now, &now->queue_errors[i]);

		if (q && q->host == host)
			queue_error_json(o, q, &now->queue_errors[i]);
	}
	output_close(o);
}

static bool has_any(const struct served *v, uint32_t host)
{
	const struct figures_host_row *h = &v->hosts[host];

	if (!h->in_use)
		return false;
	if (h->rdma || h->tcp || h->other)
		return true;
	for (uint32_t i = 0; i < v->op_count; i++)
		if (v->ops[i].host == host && v->ops[i].commands)
			return true;
	return false;
}

static void show_host(struct output *o, const struct served *now, const struct served *before,
		      uint32_t i, double seconds)
{
	const struct figures_host_row *h = &now->hosts[i];
	char host[SERVED_NQN_MAX], subsystem[SERVED_NQN_MAX];

	served_host(now, i, host);
	served_subsystem(now, i, subsystem);
	text_tame(host);
	text_tame(subsystem);
	output_object(o, NULL, "%s at %s, %llu connections", *host ? host : "a host",
		      *subsystem ? subsystem : "any subsystem",
		      (unsigned long long)(h->rdma + h->tcp + h->other));
	if (o->format == OUTPUT_JSON) {
		output_string(o, "host", NULL, host);
		output_string(o, "subsystem", NULL, subsystem);
		output_number(o, "connections_rdma", NULL, h->rdma, NULL);
		output_number(o, "connections_tcp", NULL, h->tcp, NULL);
		output_number(o, "connections_other", NULL, h->other, NULL);
	}
	show_queues(o, now, i);
	show_ops(o, now, before, i, seconds);
	show_errors(o, now, i);
	output_close(o);
}

static void show_refusals(struct output *o, const struct served *now)
{
	char reason[SERVED_REASON_MAX];

	if (o->format == OUTPUT_JSON)
		output_list(o, "connects_failed", NULL);
	for (uint32_t i = 0; i < now->reason_count; i++) {
		const struct figures_reason_row *r = &now->reasons[i];

		if (!r->count)
			continue;
		served_reason(r, reason);
		text_tame(reason); /* whoever says that he serves has written it */
		if (o->format == OUTPUT_TEXT) {
			output_note(o, "%llu connects failed: %s", (unsigned long long)r->count,
				    reason);
			continue;
		}
		output_object(o, NULL, NULL);
		output_string(o, "reason", NULL, reason);
		output_number(o, "count", NULL, r->count, NULL);
		output_close(o);
	}
	if (o->format == OUTPUT_JSON)
		output_close(o);
}

void served_show(struct output *o, const struct served *now, const struct served *before,
		 double seconds)
{
	int width = o->width;

	if (!now->hosts)
		return;
	o->width = 32;
	if (o->format == OUTPUT_JSON)
		output_list(o, "served", NULL);
	for (uint32_t i = 0; i < now->host_count; i++)
		if (has_any(now, i))
			show_host(o, now, before, i, seconds);
	if (o->format == OUTPUT_JSON)
		output_close(o);
	show_refusals(o, now);
	o->width = width;
}
