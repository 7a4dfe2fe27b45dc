/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/metrics_text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define U "%" PRIu64

/* --- labels ---------------------------------------------------------------------------------- */

static void put_value(FILE *f, const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	uint32_t c;
	size_t n;

	for (; *p; p += n) {
		n = utf8_char((const char *)p, &c);
		if (*p == '"') {
			fputs("\\\"", f);
		} else if (!n || *p < ' ' || (c >= 0x7f && c < 0xa0) || *p == '\\') {
			fprintf(f, "\\\\x%02x", *p);
			n = 1;
		} else {
			fwrite(p, 1, n, f);
		}
	}
}

static void put_label(FILE *f, const char *name, const char *value)
{
	fprintf(f, "%s=\"", name);
	put_value(f, value);
	fputc('"', f);
}

static void put_host(FILE *f, const struct served *v, uint64_t host)
{
	char text[SERVED_NQN_MAX];

	put_label(f, "subsystem", served_subsystem(v, host, text));
	fputc(',', f);
	put_label(f, "host", served_host(v, host, text));
}

static void put_op(FILE *f, const struct served *v, uint64_t host, uint64_t nsid, uint64_t opcode)
{
	char text[SERVED_OPCODE_MAX];

	put_host(f, v, host);
	fprintf(f, ",nsid=\"");
	if (nsid)
		fprintf(f, U, nsid);
	fprintf(f, "\",opcode=\"%s\"", served_opcode(opcode, text));
}

static void put_op_row(FILE *f, const char *name, const struct served *v,
		       const struct figures_op_row *r)
{
	fprintf(f, "%s{", name);
	put_op(f, v, r->host, r->nsid, r->opcode);
}

static void put_head(FILE *f, const char *name, const char *type, const char *help)
{
	fprintf(f, "# HELP %s ", name);
	for (; *help; help++) {
		if (*help == '\\')
			fputc('\\', f);
		fputc(*help, f);
	}
	fprintf(f, "\n# TYPE %s %s\n", name, type);
}

/* --- tables ---------------------------------------------------------------------------------- */

#define EACH(kind, r, v, table, n) \
	for (const struct figures_##kind##_row *r = (v)->table; r < (v)->table + (v)->n; r++)

static void put_commands(FILE *f, const struct served *v)
{
	put_head(f, "weft_nvmf_commands_total", "counter", "Commands of hosts that were answered.");
	EACH(op, r, v, ops, op_count)
	{
		if (!r->commands)
			continue;
		put_op_row(f, "weft_nvmf_commands_total", v, r);
		fprintf(f, "} " U "\n", r->commands);
	}
	put_head(f, "weft_nvmf_data_bytes_total", "counter",
		 "Data of commands, to the host or from it as the opcode says.");
	EACH(op, r, v, ops, op_count)
	{
		if (!r->bytes)
			continue;
		put_op_row(f, "weft_nvmf_data_bytes_total", v, r);
		fprintf(f, "} " U "\n", r->bytes);
	}
	put_head(f, "weft_nvmf_command_errors_total", "counter",
		 "Commands that were answered with an error, by status.");
	EACH(error, r, v, errors, error_count)
	{
		if (!r->count)
			continue;
		fputs("weft_nvmf_command_errors_total{", f);
		put_op(f, v, r->host, r->nsid, r->opcode);
		fputc(',', f);
		put_label(f, "status", r->status ? served_status(r->opcode, r->status) : "other");
		fprintf(f, "} " U "\n", r->count);
	}
}

/* The labels of a row, which stand in many lines. */
static bool labels_of(char *buf, size_t room, const struct served *v,
		      const struct figures_op_row *r)
{
	FILE *f = fmemopen(buf, room, "w");

	if (!f)
		return false;
	put_op(f, v, r->host, r->nsid, r->opcode);
	return fclose(f) == 0;
}

/* Upper ends in seconds: of the first bucket 2^shift ns, of each other 2^step times the one before;
 * the last has none. */
static void name_buckets(char le[][16], unsigned count, unsigned shift, unsigned step)
{
	for (unsigned b = 0; b < count - 1; b++)
		snprintf(le[b], sizeof(le[b]), "%.9f", (double)(1ull << (shift + step * b)) / 1e9);
	strcpy(le[count - 1], "+Inf");
}

static void put_histogram(FILE *f, const char *name, const char *labels, char le[][16],
			  const uint64_t *bucket, unsigned count, uint64_t sum_ns)
{
	uint64_t sum = 0;

	for (unsigned b = 0; b < count; b++) {
		sum += bucket[b];
		fprintf(f, "%s_bucket{%s,le=\"%s\"} " U "\n", name, labels, le[b], sum);
	}
	fprintf(f, "%s_sum{%s} %.9f\n", name, labels, (double)sum_ns / 1e9);
	fprintf(f, "%s_count{%s} " U "\n", name, labels, sum);
}

/* Only of I/O: it is much text. */
static void put_latency(FILE *f, const struct served *v)
{
	static const char name[] = "weft_nvmf_command_duration_seconds";
	char le[FIGURES_BUCKETS][16], labels[4096];

	name_buckets(le, FIGURES_BUCKETS, FIGURES_BUCKET_SHIFT, 1);
	put_head(f, name, "histogram",
		 "From the turn in which an I/O command was found to the end of that in which it "
		 "was "
		 "answered.");
	EACH(op, r, v, ops, op_count)
	{
		if (r->commands && served_is_io(r->opcode) &&
		    labels_of(labels, sizeof(labels), v, r))
			put_histogram(f, name, labels, le, r->bucket, FIGURES_BUCKETS,
				      r->latency_ns);
	}
}

static void put_connections(FILE *f, const struct served *v)
{
	put_head(f, "weft_nvmf_connections", "gauge",
		 "Queues that hosts have, admin queues included.");
	EACH(host, r, v, hosts, host_count)
	{
		const struct {
			const char *transport;
			uint64_t n;
		} by[] = {{"rdma", r->rdma}, {"tcp", r->tcp}, {"other", r->other}};

		for (size_t i = 0; i < ARRAY_SIZE(by); i++) {
			if (!r->in_use || !by[i].n)
				continue;
			fputs("weft_nvmf_connections{", f);
			put_host(f, v, (uint64_t)(r - v->hosts));
			fprintf(f, ",transport=\"%s\"} " U "\n", by[i].transport, by[i].n);
		}
	}
	put_head(f, "weft_nvmf_connects_failed_total", "counter",
		 "Connections that came to nothing, by reason.");
	EACH(reason, r, v, reasons, reason_count)
	{
		char reason[SERVED_REASON_MAX];

		if (!r->count)
			continue;
		fputs("weft_nvmf_connects_failed_total{", f);
		put_label(f, "reason", served_reason(r, reason));
		fprintf(f, "} " U "\n", r->count);
	}
}

static void put_queue(FILE *f, const struct served *v, const struct figures_queue_row *r)
{
	put_host(f, v, r->host);
	fprintf(f, ",controller=\"" U "\",queue=\"" U "\",transport=\"%s\"", r->cntlid, r->qid,
		served_transport(r->trtype));
}

static void put_queues(FILE *f, const struct served *v, const char *name, const char *help,
		       size_t column)
{
	put_head(f, name, "counter", help);
	EACH(queue, r, v, queues, queue_count)
	{
		if (!r->entries)
			continue;
		fprintf(f, "%s{", name);
		put_queue(f, v, r);
		fprintf(f, "} " U "\n", *(const uint64_t *)((const char *)r + column));
	}
}

static void put_queue_errors(FILE *f, const struct served *v)
{
	static const char name[] = "weft_nvmf_queue_command_errors_total";

	put_head(f, name, "counter", "Of these, answered with an error, by status.");
	EACH(queue_error, r, v, queue_errors, queue_error_count)
	{
		const struct figures_queue_row *q = served_queue(v, r);

		if (!q)
			continue;
		fprintf(f, "%s{", name);
		put_queue(f, v, q);
		fputc(',', f);
		put_label(f, "status", served_queue_status(r));
		fprintf(f, "} " U "\n", r->count);
	}
	EACH(queue, q, v, queues, queue_count)
	{
		if (!q->entries || !q->other_errors)
			continue;
		fprintf(f, "%s{", name);
		put_queue(f, v, q);
		fprintf(f, ",status=\"other\"} " U "\n", q->other_errors);
	}
}

static bool queue_labels_of(char *buf, size_t room, const struct served *v,
			    const struct figures_queue_row *r)
{
	FILE *f = fmemopen(buf, room, "w");

	if (!f)
		return false;
	put_queue(f, v, r);
	return fclose(f) == 0;
}

/* Of those that have worked. */
static void put_queue_latency(FILE *f, const struct served *v)
{
	static const char name[] = "weft_nvmf_queue_command_duration_seconds";
	char le[FIGURES_QUEUE_BUCKETS][16], labels[4096];

	name_buckets(le, FIGURES_QUEUE_BUCKETS, FIGURES_QUEUE_BUCKET_SHIFT, 2);
	put_head(f, name, "histogram",
		 "From the turn in which a command was found to the end of that in which it was "
		 "answered.");
	EACH(queue, r, v, queues, queue_count)
	{
		if (r->entries && r->commands && queue_labels_of(labels, sizeof(labels), v, r))
			put_histogram(f, name, labels, le, r->bucket, FIGURES_QUEUE_BUCKETS,
				      r->latency_ns);
	}
}

static void put_target(FILE *f, const struct target_counters *n)
{
#define X(name, unit, text)                                               \
	put_head(f, "weft_nvmf_target_" #name "_total", "counter", text); \
	fprintf(f, "weft_nvmf_target_" #name "_total " U "\n", n->name);
#include "nvmf/target/counters.def"
#undef X
}

void metrics_text(FILE *f, const struct served *v, const struct target_counters *n)
{
	put_head(f, "weft_build_info", "gauge", "1, of this version.");
	fprintf(f, "weft_build_info{version=\"%s\"} 1\n", WEFT_VERSION);
	put_target(f, n);
	put_connections(f, v);
	put_commands(f, v);
	put_latency(f, v);
	put_queues(f, v, "weft_nvmf_queue_commands_total",
		   "Commands that were answered on a queue that a host has.",
		   offsetof(struct figures_queue_row, commands));
	put_queues(f, v, "weft_nvmf_queue_read_bytes_total", "What they brought the host.",
		   offsetof(struct figures_queue_row, read_bytes));
	put_queues(f, v, "weft_nvmf_queue_written_bytes_total", "What they brought from the host.",
		   offsetof(struct figures_queue_row, written_bytes));
	put_queue_errors(f, v);
	put_queue_latency(f, v);
}

char *metrics_page(const struct served *v, const struct target_counters *n, size_t *ret_len)
{
	char *page = NULL;
	FILE *f = open_memstream(&page, ret_len);

	if (!f)
		return NULL;
	metrics_text(f, v, n);
	if (!fclose(f))
		return page;
	free(page);
	return NULL;
}
