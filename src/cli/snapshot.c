/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/snapshot.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/time.h"
#include "cli/output.h"
#include "engine/sight.h"
#include "wire/flow.h"

static int take_one(struct snapshot *s, pid_t pid)
{
	struct seen *one = &s->v[s->count];
	int rc = seen_open(one, pid, false);

	if (rc)
		return rc;
	rc = seen_read(one);
	if (rc) {
		seen_close(one);
		return rc;
	}
	seen_hang_up(one);
	s->count++;
	return 0;
}

int snapshot_take(struct snapshot *s, pid_t pid)
{
	size_t count = 1;
	pid_t *v = &pid;
	int rc;

	*s = (struct snapshot){.at_ns = time_now_ns()};
	rc = pid ? 0 : seen_processes(&v, &count);
	if (rc)
		return rc;
	s->v = calloc(count + 1, sizeof(*s->v));
	if (!s->v)
		rc = -ENOMEM;
	for (size_t i = 0; s->v && i < count; i++)
		rc = take_one(s, v[i]);
	if (!pid)
		free(v);
	/* Of all of them, one that has just ended is none. */
	if (rc == -ENOMEM || (pid && rc)) {
		snapshot_free(s);
		return rc;
	}
	return 0;
}

void snapshot_free(struct snapshot *s)
{
	for (size_t i = 0; i < s->count; i++)
		seen_close(&s->v[i]);
	free(s->v);
	*s = (struct snapshot){0};
}

const struct seen *snapshot_same(const struct snapshot *s, const struct seen *like)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->v[i].pid == like->pid && s->v[i].since_ns == like->since_ns)
			return &s->v[i];
	return NULL;
}

int snapshot_tell(pid_t pid, int rc)
{
	switch (rc) {
	case -ESRCH:
		return cli_fail("there is no process %d; `weft list` shows those that use weft",
				pid);
	case -EACCES:
	case -EPERM:
		return cli_fail("process %d is not yours to look into; root may", pid);
	case -ENOENT:
		return cli_fail("process %d does not use weft, or did not yet open a device of it",
				pid);
	case -EPROTO:
		return cli_fail("what process %d shows is of another version of weft", pid);
	default:
		return cli_fail("cannot look into %s: %s", pid ? "the process" : "/proc",
				strerror(-rc));
	}
}

/* ---- drops ----------------------------------------------------------------------------------- */

static void add_drop(struct drops *d, const char *why, uint64_t packets)
{
	if (d->count < DROP_REASONS_MAX)
		d->v[d->count++] = (typeof(*d->v)){why, packets};
}

static bool is_drop(const char *key)
{
	static const char prefix[] = "rx_drop_";

	return strncmp(key, prefix, strlen(prefix)) == 0;
}

static void core_drops(const struct seen *s, struct drops *d)
{
	const struct seen_table *t = seen_room(s, "core", 0);

	d->count = 0;
	for (uint32_t c = 0; t && c < t->columns; c++)
		if (is_drop(t->keys[c]))
			add_drop(d, t->keys[c], seen_sum(s, "core", t->keys[c]));
}

uint64_t seen_core_drops(const struct seen *s)
{
	struct drops d;
	uint64_t sum = 0;

	core_drops(s, &d);
	for (size_t i = 0; i < d.count; i++)
		sum += d.v[i].packets;
	return sum;
}

/* Of all its ports. */
static void port_drops(const struct seen *s, const char *key, struct drops *d)
{
	add_drop(d, key,
		 seen_sum(s, "port", key) + seen_sum(s, "xdp", key) + seen_sum(s, "rocev1", key));
}

void seen_drops(const struct seen *s, struct drops *d)
{
	core_drops(s, d);
	port_drops(s, "rx_icrc_bad", d);
	port_drops(s, "rx_short", d);
	port_drops(s, "rx_not_ours", d);
	add_drop(d, "rx_dropped", s->drops);
}

/* ---- queue pairs ------------------------------------------------------------------------------
 */

static const char *const columns[] = {
#define X(name, unit, text) #name,
#include "rnic/qp_shown.def"
#undef X
#define X(name, unit, text)
#define Q(name, unit, text) #name,
#include "rnic/counters.def"
#undef X
};

#define COLUMNS ARRAY_SIZE(columns)

_Static_assert(COLUMNS == SIGHT_COLUMNS(struct rnic_qp_row), "a row is its columns");

/* Where this table has each of them. */
static void find_columns(const struct seen_table *t, uint32_t ret[COLUMNS])
{
	for (size_t i = 0; i < COLUMNS; i++)
		ret[i] = seen_column(t, columns[i]);
}

static size_t take_rows(const struct seen_table *t, struct rnic_qp_row *v, size_t most)
{
	uint32_t at[COLUMNS];
	size_t n = 0;

	find_columns(t, at);
	for (uint32_t row = 0; row < t->rows && n < most; row++) {
		const uint64_t *from = t->v + (size_t)row * t->columns;
		uint64_t to[COLUMNS];

		for (size_t i = 0; i < COLUMNS; i++)
			to[i] = at[i] == UINT32_MAX ? 0 : from[at[i]];
		memcpy(&v[n], to, sizeof(to));
		n += v[n].qpn != 0;
	}
	return n;
}

bool seen_queue_pairs(const struct seen *s, struct rnic_qp_row **ret, size_t *ret_count)
{
	const struct seen_table *t;
	size_t n = 0;

	*ret = calloc(QP_ROWS + 1, sizeof(**ret));
	if (!*ret)
		return false;
	for (size_t i = 0; (t = seen_room(s, "queue-pairs", i)); i++)
		n += take_rows(t, *ret + n, QP_ROWS - n);
	*ret_count = n;
	return true;
}

uint64_t seen_queue_pairs_unseen(const struct seen *s)
{
	uint64_t gone = seen_sum(s, "core", "qps_unseen_gone");

	return max_of(seen_sum(s, "core", "qps_unseen"), gone) - gone;
}

const char *qp_row_type(const struct rnic_qp_row *q)
{
	switch (q->type) {
	case RNIC_QPT_RC:
		return "RC";
	case RNIC_QPT_IWARP:
		return "iWARP";
	case RNIC_QPT_UC:
		return "UC";
	case RNIC_QPT_UD:
		return "UD";
	case RNIC_QPT_XRC_SEND:
		return "XRC_SEND";
	case RNIC_QPT_XRC_RECV:
		return "XRC_RECV";
	default:
		return "?";
	}
}

const char *qp_row_congestion(const struct rnic_qp_row *q)
{
	static const char *const names[] = {
		"",
#define X(name) #name,
#include "rnic/cc/algorithms.def"
#undef X
	};

	return q->congestion_control < ARRAY_SIZE(names) ? names[q->congestion_control] : "?";
}

const char *qp_row_state(const struct rnic_qp_row *q)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

	return q->state < ARRAY_SIZE(names) ? names[q->state] : "?";
}

struct gid qp_row_gid(uint64_t high, uint64_t low)
{
	struct gid g;

	st_be64(g.raw, high);
	st_be64(g.raw + 8, low);
	return g;
}

const char *qp_row_peer(char buf[SNAPSHOT_PEER_MAX], const struct rnic_qp_row *q)
{
	struct gid g = qp_row_gid(q->peer_gid_high, q->peer_gid_low);

	if (!q->peer_gid_high && !q->peer_gid_low)
		strcpy(buf, "-");
	else if (gid_is_ipv4(&g))
		inet_ntop(AF_INET, g.raw + 12, buf, SNAPSHOT_PEER_MAX);
	else
		inet_ntop(AF_INET6, g.raw, buf, SNAPSHOT_PEER_MAX);
	return buf;
}

void qp_row_drops(const struct rnic_qp_row *q, struct drops *d)
{
	uint64_t figures[COLUMNS];

	memcpy(figures, q, sizeof(figures));
	d->count = 0;
	for (size_t i = 0; i < COLUMNS; i++)
		if (is_drop(columns[i]))
			add_drop(d, columns[i], figures[i]);
}
