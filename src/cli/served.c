/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/served.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/nvme_status.h"

static struct served of_figures(const struct target_figures *f)
{
	return (struct served){
		.hosts = f->hosts,
		.ops = f->ops,
		.errors = f->errors,
		.queues = f->queues,
		.queue_errors = f->queue_errors,
		.reasons = f->reasons,
		.host_count = FIGURES_HOSTS,
		.op_count = FIGURES_OPS,
		.error_count = FIGURES_ERRORS,
		.queue_count = FIGURES_QUEUES,
		.queue_error_count = FIGURES_QUEUE_ERRORS,
		.reason_count = FIGURES_REASONS,
	};
}

bool served_here(const struct target_figures *const *f, unsigned count, struct served *ret)
{
	struct served *parts;
	bool ok;

	*ret = of_figures(f[0]);
	if (count == 1)
		return true;
	parts = calloc(count, sizeof(*parts));
	for (unsigned i = 0; parts && i < count; i++)
		parts[i] = of_figures(f[i]);
	ok = parts && served_merge(parts, count, ret);
	free(parts);
	return ok;
}

/* ---- another process's ------------------------------------------------------------------------
 */

/* How a row of ours is made of one of a table that may be of another version. */
struct column {
	const char *key;
	uint32_t words; /* of a text or of buckets: KEY_00, KEY_01 and so on; else 0 */
};

#define COLUMN(name, ...) {#name, 0},
static const struct column host_columns[] = {
#define HOST		      COLUMN
#define HOST_TEXT(name, text) {#name, FIGURES_NQN_WORDS},
#include "nvmf/target/figures.def"
};
static const struct column op_columns[] = {
#define OP		       COLUMN
#define OP_BUCKETS(name, text) {#name, FIGURES_BUCKETS},
#include "nvmf/target/figures.def"
};
static const struct column error_columns[] = {
#define ERROR COLUMN
#include "nvmf/target/figures.def"
};
static const struct column queue_columns[] = {
#define QUEUE			  COLUMN
#define QUEUE_BUCKETS(name, text) {#name, FIGURES_QUEUE_BUCKETS},
#include "nvmf/target/figures.def"
};
static const struct column queue_error_columns[] = {
#define QUEUE_ERROR COLUMN
#include "nvmf/target/figures.def"
};
static const struct column reason_columns[] = {
#define REFUSAL			 COLUMN
#define REFUSAL_TEXT(name, text) {#name, FIGURES_REASON_WORDS},
#include "nvmf/target/figures.def"
};

static void copy_column(const struct seen_table *t, const char *key, uint32_t rows, uint64_t *to,
			size_t stride)
{
	uint32_t at = seen_column(t, key);

	for (uint32_t row = 0; at != UINT32_MAX && row < rows; row++)
		to[row * stride] = t->v[(size_t)row * t->columns + at];
}

static void copy_rows(const struct seen_table *t, const struct column *v, size_t count,
		      uint32_t rows, uint64_t *to, size_t stride)
{
	char key[SIGHT_ROOM_MAX];

	for (size_t i = 0; i < count; i++) {
		if (!v[i].words) {
			copy_column(t, v[i].key, rows, to++, stride);
			continue;
		}
		for (uint32_t w = 0; w < v[i].words; w++) {
			snprintf(key, sizeof(key), "%s_%02u", v[i].key, w);
			copy_column(t, key, rows, to++, stride);
		}
	}
}

enum { HOSTS, OPS, ERRORS, QUEUES, QUEUE_ERRORS, REASONS, KINDS };

/* Threads that serve. More would be made up, as would be more rows than ours have. */
#define GROUPS_MAX 64

static const struct {
	const char *room;
	const struct column *columns;
	size_t count, words;
	uint32_t rows_max;
} kinds[KINDS] = {
	[HOSTS] = {"target-hosts", host_columns, ARRAY_SIZE(host_columns),
		   SIGHT_COLUMNS(struct figures_host_row), FIGURES_HOSTS},
	[OPS] = {"target-commands", op_columns, ARRAY_SIZE(op_columns),
		 SIGHT_COLUMNS(struct figures_op_row), FIGURES_OPS},
	[ERRORS] = {"target-errors", error_columns, ARRAY_SIZE(error_columns),
		    SIGHT_COLUMNS(struct figures_error_row), FIGURES_ERRORS},
	[QUEUES] = {"target-queues", queue_columns, ARRAY_SIZE(queue_columns),
		    SIGHT_COLUMNS(struct figures_queue_row), FIGURES_QUEUES},
	[QUEUE_ERRORS] = {"target-queue-errors", queue_error_columns,
			  ARRAY_SIZE(queue_error_columns),
			  SIGHT_COLUMNS(struct figures_queue_error_row), FIGURES_QUEUE_ERRORS},
	[REASONS] = {"target-refusals", reason_columns, ARRAY_SIZE(reason_columns),
		     SIGHT_COLUMNS(struct figures_reason_row), FIGURES_REASONS},
};

/* A group has taken its tables one after the other: behind one of hosts, in the same memory. */
static const struct seen_table *find_mate(const struct seen *s, const struct seen_table *hosts,
					  const char *room)
{
	for (const struct seen_table *t = hosts + 1; t < s->v + s->count; t++) {
		if (t->fd != hosts->fd || strcmp(t->room, hosts->room) == 0)
			break;
		if (strcmp(t->room, room) == 0)
			return t;
	}
	return NULL;
}

/* Of the n-th group. Without one of a kind there are no hosts, but that of errors of queues, which
 * former versions have not. */
static bool part_seen(const struct seen *s, unsigned n, struct served *v)
{
	const struct seen_table *t[KINDS];
	uint32_t rows[KINDS];
	size_t words = 0;
	uint64_t *at[KINDS], *all;

	*v = (struct served){0};
	for (size_t k = 0; k < KINDS; k++) {
		t[k] = k == HOSTS ? seen_room(s, kinds[k].room, n)
				  : find_mate(s, t[HOSTS], kinds[k].room);
		if (!t[k] && k != QUEUE_ERRORS)
			return true;
		rows[k] = t[k] ? min_of(t[k]->rows, kinds[k].rows_max) : 0;
		words += rows[k] * kinds[k].words;
	}
	all = calloc(words + 1, sizeof(*all));
	if (!all)
		return false;
	v->memory = all;
	for (size_t k = 0; k < KINDS; k++) {
		at[k] = all;
		all += rows[k] * kinds[k].words;
		if (rows[k])
			copy_rows(t[k], kinds[k].columns, kinds[k].count, rows[k], at[k],
				  kinds[k].words);
	}
	v->hosts = (const struct figures_host_row *)at[HOSTS];
	v->ops = (const struct figures_op_row *)at[OPS];
	v->errors = (const struct figures_error_row *)at[ERRORS];
	v->queues = (const struct figures_queue_row *)at[QUEUES];
	v->queue_errors = (const struct figures_queue_error_row *)at[QUEUE_ERRORS];
	v->reasons = (const struct figures_reason_row *)at[REASONS];
	v->host_count = rows[HOSTS];
	v->op_count = rows[OPS];
	v->error_count = rows[ERRORS];
	v->queue_count = rows[QUEUES];
	v->queue_error_count = rows[QUEUE_ERRORS];
	v->reason_count = rows[REASONS];
	return true;
}

bool served_copy(const struct served *v, struct served *ret)
{
	const size_t hosts = v->host_count * sizeof(*v->hosts), ops = v->op_count * sizeof(*v->ops),
		     errors = v->error_count * sizeof(*v->errors),
		     queues = v->queue_count * sizeof(*v->queues),
		     queue_errors = v->queue_error_count * sizeof(*v->queue_errors),
		     reasons = v->reason_count * sizeof(*v->reasons);
	char *to = malloc(hosts + ops + errors + queues + queue_errors + reasons + 1);

	if (!to)
		return false;
	*ret = *v;
	ret->memory = to;
	ret->hosts = memcpy(to, v->hosts, hosts);
	ret->ops = memcpy(to += hosts, v->ops, ops);
	ret->errors = memcpy(to += ops, v->errors, errors);
	ret->queues = memcpy(to += errors, v->queues, queues);
	ret->queue_errors = memcpy(to += queues, v->queue_errors, queue_errors);
	ret->reasons = memcpy(to + queue_errors, v->reasons, reasons);
	return true;
}

bool served_seen(const struct seen *s, struct served *ret)
{
	struct served *parts;
	unsigned n = 0, had = 0;
	bool ok = true;

	while (n < GROUPS_MAX && seen_room(s, kinds[HOSTS].room, n))
		n++;
	if (n < 2)
		return part_seen(s, 0, ret);
	parts = calloc(n, sizeof(*parts));
	while (parts && ok && had < n)
		ok = part_seen(s, had, &parts[had]) && ++had;
	ok = parts && ok && served_merge(parts, n, ret);
	while (had)
		served_free(&parts[--had]);
	free(parts);
	return ok;
}

void served_free(struct served *v)
{
	free(v->memory);
	*v = (struct served){0};
}

/* ---- words ----------------------------------------------------------------------------------- */

static const char *text(const uint64_t *words, char *buf, size_t room)
{
	memcpy(buf, words, room - 1);
	buf[room - 1] = '\0';
	return buf;
}

const char *served_subsystem(const struct served *v, uint64_t host, char buf[SERVED_NQN_MAX])
{
	*buf = '\0';
	return host < v->host_count ? text(v->hosts[host].subsystem, buf, SERVED_NQN_MAX) : buf;
}

const char *served_host(const struct served *v, uint64_t host, char buf[SERVED_NQN_MAX])
{
	*buf = '\0';
	return host < v->host_count ? text(v->hosts[host].host, buf, SERVED_NQN_MAX) : buf;
}

const char *served_reason(const struct figures_reason_row *r, char buf[SERVED_REASON_MAX])
{
	return text(r->reason, buf, SERVED_REASON_MAX);
}

static const char *fabrics_name(uint64_t type)
{
	switch (type) {
	case NVMF_CONNECT:
		return "Connect";
	case NVMF_PROPERTY_GET:
		return "Property Get";
	case NVMF_PROPERTY_SET:
		return "Property Set";
	case NVMF_AUTH_SEND:
		return "Authentication Send";
	case NVMF_AUTH_RECV:
		return "Authentication Receive";
	case NVMF_DISCONNECT:
		return "Disconnect";
	default:
		return "unknown";
	}
}

const char *served_opcode(uint64_t opcode, char buf[SERVED_OPCODE_MAX])
{
	const char *name = "unknown";
	size_t n = 0;

	if (opcode < FIGURES_FABRICS)
		name = nvme_opcode_name((uint8_t)opcode, opcode & FIGURES_ADMIN);
	else if (opcode < FIGURES_UNKNOWN)
		name = fabrics_name(opcode & 0xff);
	for (; name[n] && n < SERVED_OPCODE_MAX - 1; n++)
		buf[n] = isalnum((unsigned char)name[n]) ? (char)tolower((unsigned char)name[n])
							 : '_';
	buf[n] = '\0';
	return buf;
}

const char *served_status(uint64_t opcode, uint64_t status)
{
	return served_is_io(opcode) ? nvme_io_status_name((uint16_t)status)
				    : nvme_status_name((uint16_t)status);
}

const char *served_queue_status(const struct figures_queue_error_row *r)
{
	return served_status(r->io ? FIGURES_IO : FIGURES_ADMIN, r->status);
}

static bool is_earlier(const struct served *before, uint32_t i, const struct served *now,
		       const struct figures_op_row *r)
{
	const struct figures_op_row *b = &before->ops[i];
	const struct figures_host_row *x, *y;

	if (!b->commands || b->nsid != r->nsid || b->opcode != r->opcode ||
	    b->commands > r->commands || b->errors > r->errors || b->host >= before->host_count ||
	    r->host >= now->host_count)
		return false;
	x = &before->hosts[b->host];
	y = &now->hosts[r->host];
	return memcmp(x->host, y->host, sizeof(x->host)) == 0 &&
	       memcmp(x->subsystem, y->subsystem, sizeof(x->subsystem)) == 0;
}

/* Mostly of the same number; it is another where an earlier of several groups has come to have it.
 */
const struct figures_op_row *served_op_before(const struct served *before, const struct served *now,
					      uint32_t i)
{
	const struct figures_op_row *r = &now->ops[i];

	if (i < before->op_count && is_earlier(before, i, now, r))
		return &before->ops[i];
	for (uint32_t k = 0; k < before->op_count; k++)
		if (is_earlier(before, k, now, r))
			return &before->ops[k];
	return NULL;
}

const char *served_transport(uint64_t trtype)
{
	switch (trtype) {
	case NVMF_TRTYPE_RDMA:
		return "rdma";
	case NVMF_TRTYPE_TCP:
		return "tcp";
	default:
		return "other";
	}
}
