/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft trace: what the RNIC of a running process does, event by event. */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "base/time.h"
#include "cli/cli.h"
#include "cli/nvme_opts.h"
#include "cli/output.h"
#include "cli/snapshot.h"
#include "engine/sight.h"
#include "rnic/trace.h"
#include "wire/bth.h"
#include "wire/opcode.h"

#define WANT_NS	 (2 * NSEC_PER_SEC) /* for so long; who has gone traces no more */
#define AGAIN_NS (500 * NSEC_PER_MSEC)
#define LOOK_NS	 (5 * NSEC_PER_MSEC)
#define ANY_QPN	 UINT32_MAX

int cmd_trace(int argc, char **argv);

/* X(name, one sentence, what a is, what b is): rnic/trace.def */
static const struct event {
	const char *name, *text, *a, *b;
} events[] = {
#define X(name, text, a, b) {#name, text, a, b},
#include "rnic/trace.def"
#undef X
};

struct cmd {
	pid_t pid;
	uint32_t qpn;
	uint64_t count; /* of events; 0: without end */
	bool wanted[TRACE_EVENTS];
	bool any;
};

static int event_named(const char *name, size_t len)
{
	for (int i = 0; i < TRACE_EVENTS; i++)
		if (strlen(events[i].name) == len && strncmp(events[i].name, name, len) == 0)
			return i;
	return -1;
}

static void parse_events(struct cmd *c, const char *arg, struct argp_state *state)
{
	for (size_t len; *arg; arg += len + (arg[len] == ',')) {
		int e;

		len = strcspn(arg, ",");
		e = event_named(arg, len);
		if (e < 0) {
			argp_error(state, "there is no event '%.*s'; `weft trace --list` has all",
				   (int)len, arg);
			return;
		}
		c->wanted[e] = c->any = true;
	}
}

static void list_events(void)
{
	for (int i = 0; i < TRACE_EVENTS; i++)
		printf("%-12s %s\n", events[i].name, events[i].text);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct cmd *c = state->input;

	switch (key) {
	case 'e':
		parse_events(c, arg, state);
		return 0;
	case 'q':
		c->qpn = (uint32_t)cli_parse_number(state, "--qp", arg, 0, QPN_MASK);
		return 0;
	case 'n':
		c->count = cli_parse_number(state, "--count", arg, 1, UINT64_MAX);
		return 0;
	case 'l':
		list_events();
		exit(EXIT_OK);
	case ARGP_KEY_ARG:
		if (c->pid)
			argp_error(state, "one process at a time");
		c->pid = (pid_t)cli_parse_number(state, "PID", arg, 1, INT32_MAX);
		return 0;
	case ARGP_KEY_END:
		if (!c->pid)
			argp_error(state, "which process? `weft list` shows those that use weft");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{"events", 'e', "EVENTS", 0, "These alone, by their names with commas (default: all)", 0},
	{"qp", 'q', "NUMBER", 0, "Of this queue pair alone", 0},
	{"count", 'n', "N", 0, "End after so many", 0},
	{"list", 'l', NULL, 0, "Show what events there are", 0},
	{0},
};

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "PID",
	.doc = "Shows what the RNIC of a running process does, event by event.",
};

/* ---- the process ------------------------------------------------------------------------------
 */

struct traced {
	const struct seen_table *switches, *ring;
	uint32_t number;		      /* the column of the last event's number */
	uint32_t column[TRACE_EVENTS];	      /* of each event's switch */
	uint32_t events_of[SEEN_COLUMNS_MAX]; /* the event that this process gives a number */
	uint64_t epoch_ns;		      /* what the clock is ahead of CLOCK_MONOTONIC */
};

/* Once for all events: taken anew for each, it would move between two of them. */
static uint64_t clock_ahead_ns(void)
{
	struct timespec real;

	clock_gettime(CLOCK_REALTIME, &real);
	return (uint64_t)real.tv_sec * NSEC_PER_SEC + (uint64_t)real.tv_nsec - time_now_ns();
}

/* False: what it has is of another version. */
static bool find_traced(struct traced *t, const struct seen *s)
{
	t->switches = seen_room(s, "traced", 0);
	t->ring = seen_room(s, "trace", 0);
	if (!t->switches || !t->ring || t->ring->rows == 0 ||
	    t->ring->columns != SIGHT_COLUMNS(struct trace_row))
		return false;
	t->epoch_ns = clock_ahead_ns();
	t->number = seen_column(t->switches, "number");
	for (uint32_t c = 0; c < SEEN_COLUMNS_MAX; c++)
		t->events_of[c] = UINT32_MAX;
	for (uint32_t e = 0; e < TRACE_EVENTS; e++) {
		t->column[e] = seen_column(t->switches, events[e].name);
		if (t->column[e] != UINT32_MAX && t->column[e] > t->number)
			t->events_of[t->column[e] - t->number - 1] = e;
	}
	return t->number != UINT32_MAX;
}

static bool set_switches(const struct cmd *c, const struct traced *t, uint64_t until)
{
	for (uint32_t e = 0; e < TRACE_EVENTS; e++) {
		off_t at = (off_t)(t->switches->offset + t->column[e] * sizeof(until));

		if ((c->any && !c->wanted[e]) || t->column[e] == UINT32_MAX)
			continue;
		if (pwrite(t->switches->fd, &until, sizeof(until), at) != sizeof(until))
			return false;
	}
	return true;
}

static uint64_t last_number(const struct traced *t)
{
	off_t at = (off_t)(t->switches->offset + t->number * sizeof(uint64_t));
	uint64_t n = 0;

	return pread(t->switches->fd, &n, sizeof(n), at) == sizeof(n) ? n : 0;
}

/* ---- one event --------------------------------------------------------------------------------
 */

static const char *state_name(uint64_t state)
{
	struct rnic_qp_row q = {.state = state};

	return qp_row_state(&q);
}

static const char *verdict_text(uint64_t verdict)
{
	static const char *const texts[] = {
#define X(name, text) text,
#include "rnic/ib/verdict.def"
#undef X
	};

	return verdict < ARRAY_SIZE(texts) ? texts[verdict] : "?";
}

static void packet_text(char *buf, size_t room, uint64_t a, uint64_t bytes)
{
	const char *name = opcode_table[a >> 24 & 0xff].name;

	snprintf(buf, room, "%s psn %u, %llu bytes", name ? name : "?",
		 (unsigned int)(a & PSN_MASK), (unsigned long long)bytes);
}

static const char *event_text(char *buf, size_t room, uint32_t event, const struct trace_row *r)
{
	char ns[32];

	switch ((enum trace_event)event) {
	case TRACE_qp_state:
		snprintf(buf, room, "%s -> %s", state_name(r->a), state_name(r->b));
		break;
	case TRACE_rx:
	case TRACE_tx:
		packet_text(buf, room, r->a, r->b);
		break;
	case TRACE_rx_verdict:
		snprintf(buf, room, "psn %llu: %s", (unsigned long long)r->b, verdict_text(r->a));
		break;
	case TRACE_completion:
		snprintf(buf, room, "%s %#llx, %s", events[event].a, (unsigned long long)r->a,
			 ibv_wc_status_str((enum ibv_wc_status)r->b));
		break;
	case TRACE_rnr_wait:
		snprintf(buf, room, "%s %llu, %s", events[event].a, (unsigned long long)r->a,
			 text_duration(ns, sizeof(ns), r->b));
		break;
	default:
		snprintf(buf, room, "%s %llu, %s %llu", events[event].a, (unsigned long long)r->a,
			 events[event].b, (unsigned long long)r->b);
	}
	return buf;
}

/* Of a time since the epoch. */
static const char *when_text(char buf[40], uint64_t at)
{
	time_t s = (time_t)(at / NSEC_PER_SEC);
	struct tm tm;
	size_t n;

	if (!localtime_r(&s, &tm))
		tm = (struct tm){0};
	n = strftime(buf, 32, "%H:%M:%S", &tm);
	snprintf(buf + n, 40 - n, ".%06llu", (unsigned long long)(at % NSEC_PER_SEC / 1000));
	return buf;
}

static bool show_event(const struct cmd *c, const struct traced *t, const struct trace_row *r)
{
	uint32_t event = r->event < SEEN_COLUMNS_MAX ? t->events_of[r->event] : UINT32_MAX;
	char text[256], when[40];

	if (event == UINT32_MAX || (c->any && !c->wanted[event]) ||
	    (c->qpn != ANY_QPN && r->qpn != c->qpn))
		return false;
	printf("%s 0x%06x %-11s %s\n", when_text(when, t->epoch_ns + r->time_ns),
	       (unsigned int)r->qpn, events[event].name, event_text(text, sizeof(text), event, r));
	return true;
}

/* ---- all of them ------------------------------------------------------------------------------
 */

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

struct reading {
	struct trace_row *copy; /* of the ring */
	uint64_t next;		/* the number of the event to be shown next */
	uint64_t shown, lost;
};

/* Rows [from, to) of the ring. */
static bool read_rows(const struct traced *t, struct reading *r, uint64_t from, uint64_t to)
{
	const size_t bytes = (size_t)(to - from) * sizeof(*r->copy);

	return pread(t->ring->fd, &r->copy[from], bytes,
		     (off_t)(t->ring->offset + from * sizeof(*r->copy))) == (ssize_t)bytes;
}

/* Those of the events [first, last], or the whole ring. */
static bool read_events(const struct traced *t, struct reading *r, uint64_t first, uint64_t last)
{
	const uint64_t rows = t->ring->rows, from = first % rows, to = last % rows + 1;

	if (last - first >= rows)
		return read_rows(t, r, 0, rows);
	if (from < to)
		return read_rows(t, r, from, to);
	return read_rows(t, r, from, rows) && read_rows(t, r, 0, to);
}

/* What came since the last time. False: it cannot be read, or not be written. */
static bool show_new(const struct cmd *c, const struct traced *t, struct reading *r)
{
	uint64_t last = last_number(t), oldest;

	if (last + 1 <= r->next)
		return true;
	if (!read_events(t, r, r->next, last))
		return false;
	/* What may have been written over while it was read. */
	oldest = last_number(t) + 1;
	oldest = oldest > t->ring->rows ? oldest - t->ring->rows + 1 : 1;
	if (r->next < oldest) {
		r->lost += oldest - r->next;
		r->next = oldest;
	}
	for (; r->next <= last && (!c->count || r->shown < c->count); r->next++) {
		const struct trace_row *row = &r->copy[r->next % t->ring->rows];

		if (row->number != r->next)
			break; /* it is being written */
		r->shown += show_event(c, t, row);
	}
	return fflush(stdout) == 0 && !ferror(stdout);
}

static bool follow(const struct cmd *c, const struct traced *t)
{
	struct reading r = {.next = last_number(t) + 1,
			    .copy = calloc(t->ring->rows, sizeof(*r.copy))};
	uint64_t again = 0;
	bool ok = r.copy;

	while (ok && !stopped && (!c->count || r.shown < c->count)) {
		uint64_t now = time_now_ns();

		if (now >= again) {
			/* A memory that nobody else has open any more takes it, too. */
			if (kill(c->pid, 0) < 0 && errno == ESRCH)
				break;
			ok = set_switches(c, t, now + WANT_NS);
			again = now + AGAIN_NS;
		}
		ok = ok && show_new(c, t, &r);
		nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
	}
	if (r.copy)
		(void)!set_switches(c, t, 0);
	free(r.copy);
	if (r.lost)
		cli_warn(
			"%llu events came too fast to be shown; -e and the names of some has fewer",
			(unsigned long long)r.lost);
	return ok;
}

int cmd_trace(int argc, char **argv)
{
	struct cmd c = {.qpn = ANY_QPN};
	struct traced t;
	struct seen s;
	bool ok;
	int rc;

	cli_parse(&argp, "trace", argc, argv, &c);
	rc = seen_open(&s, c.pid, true);
	if (rc == 0) {
		rc = seen_read(&s);
		if (rc)
			seen_close(&s);
	}
	if (rc)
		return snapshot_tell(c.pid, rc);
	if (!find_traced(&t, &s)) {
		seen_close(&s);
		return cli_fail("process %d has no queue pairs whose events could be shown", c.pid);
	}
	signal(SIGINT, stop);
	signal(SIGTERM, stop);
	signal(SIGPIPE, SIG_IGN);
	ok = follow(&c, &t);
	seen_close(&s);
	return ok ? EXIT_OK : cli_fail("cannot go on: %s", strerror(errno));
}
