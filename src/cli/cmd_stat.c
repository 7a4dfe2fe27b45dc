/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft stat: what the processes that use weft have counted. */
#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "cli/cli.h"
#include "cli/list_view.h"
#include "cli/nvme_opts.h"
#include "cli/output.h"
#include "cli/process.h"
#include "cli/seen_names.h"
#include "cli/served_view.h"
#include "cli/snapshot.h"
#include "wire/flow.h"

#define DEVICE_PREFIX "weft_"
#define ADDRESSES_MAX 64

int cmd_stat(int argc, char **argv);

enum { KEY_COUNT = 256 };

struct cmd {
	enum output_format format;
	bool all; /* zeros, too */
	bool explain;
	unsigned int watch_s; /* 0: once */
	uint64_t count;	      /* of times; 0: without end */
	pid_t pid;	      /* 0: all */
	const char *device;   /* NULL: whatever */
	struct gid own[ADDRESSES_MAX];
	size_t own_count; /* addresses of the device */
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct cmd *c = state->input;

	switch (key) {
	case 'o':
		if (output_format_parse(arg, &c->format))
			argp_error(state, "--output-format is normal or json, not '%s'", arg);
		return 0;
	case 'a':
		c->all = true;
		return 0;
	case 'v':
		c->explain = true;
		return 0;
	case 'w':
		c->watch_s =
			arg ? (unsigned int)cli_parse_number(state, "--watch", arg, 1, 86400) : 1;
		return 0;
	case KEY_COUNT:
		c->count = cli_parse_number(state, "--count", arg, 1, UINT32_MAX);
		return 0;
	case ARGP_KEY_ARG:
		if (c->pid || c->device)
			argp_error(state, "one process or device at a time");
		else if (isdigit((unsigned char)*arg))
			c->pid = (pid_t)cli_parse_number(state, "PID", arg, 1, INT32_MAX);
		else
			c->device = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{"output-format", 'o', "normal|json", 0, "How it is shown", 0},
	{"all", 'a', NULL, 0, "Show counters that are 0, too", 0},
	{"verbose", 'v', NULL, 0, "Say what each counter means", 0},
	{"watch", 'w', "SECONDS", OPTION_ARG_OPTIONAL, "Again and again, with rates; every second",
	 0},
	{"count", KEY_COUNT, "N", 0, "With --watch: so often", 0},
	{0},
};

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "[PID|DEVICE]",
	.doc = "Shows what processes that use weft in this network namespace have counted: root "
	       "sees all, another user its own. With the name of a device, its queue pairs "
	       "alone.",
};

/* ---- the device ------------------------------------------------------------------------------ */

static void add_address(struct cmd *c, const struct sockaddr *sa)
{
	struct gid *g = &c->own[c->own_count];

	if (c->own_count == ADDRESSES_MAX)
		return;
	if (sa->sa_family == AF_INET) {
		*g = (struct gid){.raw = {[10] = 0xff, [11] = 0xff}};
		memcpy(g->raw + 12, &((const struct sockaddr_in *)sa)->sin_addr, 4);
		c->own_count++;
	} else if (sa->sa_family == AF_INET6) {
		memcpy(g->raw, &((const struct sockaddr_in6 *)sa)->sin6_addr, sizeof(g->raw));
		c->own_count++;
	}
}

/* A device is an interface's, and a queue pair on it has one of its addresses. */
static bool find_device(struct cmd *c)
{
	const size_t prefix = strlen(DEVICE_PREFIX);
	const char *ifname = c->device + prefix;
	struct ifaddrs *all;

	if (strncmp(c->device, DEVICE_PREFIX, prefix) != 0 || !if_nametoindex(ifname)) {
		cli_fail("there is no device '%s'; `weft devices` shows those that there are",
			 c->device);
		return false;
	}
	if (getifaddrs(&all) < 0) {
		cli_fail("cannot read the addresses of '%s': %s", ifname, strerror(errno));
		return false;
	}
	for (struct ifaddrs *a = all; a; a = a->ifa_next)
		if (a->ifa_addr && strcmp(a->ifa_name, ifname) == 0)
			add_address(c, a->ifa_addr);
	freeifaddrs(all);
	return true;
}

static bool is_wanted(const struct cmd *c, const struct rnic_qp_row *q)
{
	struct gid own = qp_row_gid(q->own_gid_high, q->own_gid_low);

	for (size_t i = 0; i < c->own_count; i++)
		if (gid_equal(&own, &c->own[i]))
			return true;
	return !c->device;
}

/* ---- one process ----------------------------------------------------------------------------- */

static void show_counter(const struct cmd *c, struct output *o, const char *key, const char *unit,
			 const char *says, uint64_t v, const uint64_t *rate)
{
	char text[512];
	int n;

	n = snprintf(text, sizeof(text), "%llu %s", (unsigned long long)v, unit);
	if (rate)
		n += snprintf(text + n, sizeof(text) - (size_t)n, ", %llu/s",
			      (unsigned long long)*rate);
	if (c->explain && says)
		snprintf(text + n, sizeof(text) - (size_t)n, "  %s", says);
	if (v || c->all || c->format == OUTPUT_JSON)
		output_number(o, key, NULL, v, text);
}

static uint64_t rate_of(uint64_t now, uint64_t before, double seconds)
{
	return now > before && seconds > 0 ? (uint64_t)((double)(now - before) / seconds) : 0;
}

static bool has_any(const struct seen *s, const struct seen_table *t)
{
	for (uint32_t k = 0; k < t->columns; k++)
		if (seen_sum(s, t->room, t->keys[k]))
			return true;
	return false;
}

static void show_room(const struct cmd *c, struct output *o, const struct seen *s,
		      const struct seen *before, double seconds, const struct seen_table *t)
{
	if (c->format == OUTPUT_TEXT && !c->all && !has_any(s, t))
		return;
	output_object(o, t->room, "%s", t->room);
	for (uint32_t k = 0; k < t->columns; k++) {
		const struct seen_name *name = seen_name(t->room, t->keys[k]);
		uint64_t v = seen_sum(s, t->room, t->keys[k]), rate = 0;

		if (before)
			rate = rate_of(v, seen_sum(before, t->room, t->keys[k]), seconds);
		show_counter(c, o, t->keys[k], name ? name->unit : "", name ? name->text : NULL, v,
			     before ? &rate : NULL);
	}
	output_close(o);
}

/* Each room once, however many tables it has. The others are shown in their own way. */
static void show_rooms(const struct cmd *c, struct output *o, const struct seen *s,
		       const struct seen *before, double seconds)
{
	if (c->format == OUTPUT_JSON)
		output_object(o, "counters", NULL);
	for (size_t i = 0; i < s->count; i++) {
		const struct seen_table *t = &s->v[i];

		if (t->rows == 1 && t == seen_room(s, t->room, 0) && strcmp(t->room, "traced") != 0)
			show_room(c, o, s, before, seconds, t);
	}
	if (seen_room(s, "core", 0)) {
		uint64_t rate = before ? rate_of(s->drops, before->drops, seconds) : 0;

		if (s->drops || c->all || c->format == OUTPUT_JSON) {
			output_object(o, "socket", "socket");
			show_counter(c, o, "rx_dropped", "packets",
				     "Dropped by the kernel: the socket's buffer was full.",
				     s->drops, before ? &rate : NULL);
			output_close(o);
		}
	}
	if (c->format == OUTPUT_JSON)
		output_close(o);
}

static void qp_json(struct output *o, const struct rnic_qp_row *q)
{
	struct rnic_qp_row self = {.peer_gid_high = q->own_gid_high,
				   .peer_gid_low = q->own_gid_low};
	char buf[SNAPSHOT_PEER_MAX];

	output_object(o, NULL, NULL);
	output_number(o, "qpn", NULL, q->qpn, NULL);
	output_string(o, "type", NULL, qp_row_type(q));
	output_string(o, "state", NULL, qp_row_state(q));
	output_number(o, "cause", NULL, q->cause, NULL);
	output_number(o, "peer_qpn", NULL, q->peer_qpn, NULL);
	output_string(o, "peer", NULL, qp_row_peer(buf, q));
	output_string(o, "own", NULL, qp_row_peer(buf, &self));
	output_number(o, "path_mtu", NULL, q->path_mtu, NULL);
	output_number(o, "traffic_class", NULL, q->traffic_class, NULL);
	output_number(o, "priority", NULL, q->priority, NULL);
	output_string(o, "congestion_control", NULL, qp_row_congestion(q));
	output_bool(o, "selective", NULL, q->selective);
	output_number(o, "window", NULL, q->window, NULL);
	output_number(o, "rate", NULL, q->rate, NULL);
	output_number(o, "inflight", NULL, q->inflight, NULL);
	output_number(o, "srtt_ns", NULL, q->srtt_ns, NULL);
#define X(name, unit, text)
#define Q(name, unit, text) output_number(o, #name, NULL, q->name, NULL);
#include "rnic/counters.def"
#undef X
	output_close(o);
}

static void qp_text(const struct cmd *c, struct output *o, const struct rnic_qp_row *q,
		    const struct rnic_qp_row *before, double seconds)
{
	char peer[SNAPSHOT_PEER_MAX], rtt[32], window[32], inflight[32];

	output_object(o, NULL, "queue pair 0x%06x  %s %s  to 0x%06x of %s", (unsigned int)q->qpn,
		      qp_row_type(q), qp_row_state(q), (unsigned int)q->peer_qpn,
		      qp_row_peer(peer, q));
	if (q->cause)
		output_number(o, "cause", NULL, q->cause, NULL);
	if (q->type != RNIC_QPT_UD && q->type != RNIC_QPT_IWARP && q->congestion_control)
		output_note(
			o,
			"congestion control: %s; what is lost goes again %s; DSCP %d, priority %d",
			qp_row_congestion(q), q->selective ? "by itself" : "with all behind it",
			(int)q->traffic_class >> 2, (int)q->priority);
	if (q->rate)
		output_note(o, "held to %.1f Mb/s by its congestion control",
			    (double)q->rate / 1000);
	if (q->type == RNIC_QPT_RC || q->type == RNIC_QPT_XRC_SEND)
		output_note(o, "window %s, on the way %s, round trip %s",
			    text_bytes(window, sizeof(window), q->window),
			    text_bytes(inflight, sizeof(inflight), q->inflight),
			    q->srtt_ns ? text_duration(rtt, sizeof(rtt), q->srtt_ns) : "unknown");
#define X(name, unit, text)
#define Q(name, unit, text)                                                            \
	{                                                                              \
		uint64_t rate = before ? rate_of(q->name, before->name, seconds) : 0;  \
                                                                                       \
		show_counter(c, o, #name, unit, text, q->name, before ? &rate : NULL); \
	}
#include "rnic/counters.def"
#undef X
	output_close(o);
}

/* False: no memory. */
static bool show_queue_pairs(const struct cmd *c, struct output *o, const struct seen *s,
			     const struct seen *before, double seconds)
{
	uint64_t unseen = seen_queue_pairs_unseen(s);
	struct rnic_qp_row *v, *old = NULL;
	size_t n, old_n = 0;

	if (!seen_queue_pairs(s, &v, &n))
		return false;
	if (before && !seen_queue_pairs(before, &old, &old_n)) {
		free(v);
		return false;
	}
	if (c->format == OUTPUT_JSON)
		output_list(o, "queue_pairs", NULL);
	for (size_t i = 0; i < n; i++) {
		const struct rnic_qp_row *was = NULL;

		for (size_t k = 0; k < old_n && !was; k++)
			if (old[k].qpn == v[i].qpn)
				was = &old[k];
		if (!is_wanted(c, &v[i]))
			continue;
		if (c->format == OUTPUT_JSON)
			qp_json(o, &v[i]);
		else
			qp_text(c, o, &v[i], was, seconds);
	}
	if (c->format == OUTPUT_JSON) {
		output_close(o);
		output_number(o, "queue_pairs_unseen", NULL, unseen, NULL);
	} else if (unseen) {
		output_note(o, "%llu more queue pairs%s, not shown one by one",
			    (unsigned long long)unseen, c->device ? ", on whatever device" : "");
	}
	free(v);
	free(old);
	return true;
}

static bool concerns(const struct cmd *c, const struct seen *s)
{
	struct rnic_qp_row *v;
	bool any = false;
	size_t n;

	if (!c->device)
		return true;
	if (!seen_queue_pairs(s, &v, &n))
		return false;
	for (size_t i = 0; i < n && !any; i++)
		any = is_wanted(c, &v[i]);
	free(v);
	return any;
}

/* What hosts do, if it is a target. False: no memory. */
static bool show_served(struct output *o, const struct seen *s, const struct seen *before,
			double seconds)
{
	struct served now, old = {0};

	if (!served_seen(s, &now))
		return false;
	if (before && !served_seen(before, &old)) {
		served_free(&now);
		return false;
	}
	served_show(o, &now, &old, before ? seconds : 0);
	served_free(&now);
	served_free(&old);
	return true;
}

static bool show_process(const struct cmd *c, struct output *o, const struct seen *s,
			 const struct seen *before, double seconds)
{
	char command[256], name[64], user[64], since[40];
	bool ok;

	process_command(command, sizeof(command), s->pid);
	process_name(name, sizeof(name), s->pid);
	user_name(user, sizeof(user), s->uid);
	view_since(since, time_now_ns() - s->since_ns, c->format == OUTPUT_JSON);
	output_object(o, NULL, "%d  %s  (%s, since %s)", s->pid, command, user, since);
	if (c->format == OUTPUT_JSON) {
		output_number(o, "pid", NULL, (uint64_t)s->pid, NULL);
		output_string(o, "comm", NULL, name);
		output_string(o, "command", NULL, command);
		output_string(o, "user", NULL, user);
		output_string(o, "since", NULL, since);
	}
	if (!c->device)
		show_rooms(c, o, s, before, seconds);
	if (!c->device && !show_served(o, s, before, seconds))
		return false;
	ok = show_queue_pairs(c, o, s, before, seconds);
	output_close(o);
	return ok;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool show(const struct cmd *c, const struct snapshot *now, const struct snapshot *before)
{
	double seconds = before->at_ns ? (double)(now->at_ns - before->at_ns) / 1e9 : 0;
	struct output o;
	bool ok = true, any = false;

	output_init(&o, stdout, c->format);
	o.width = 20;
	if (c->format == OUTPUT_JSON)
		output_list(&o, "processes", NULL);
	for (size_t i = 0; ok && i < now->count; i++) {
		if (!concerns(c, &now->v[i]))
			continue;
		any = true;
		ok = show_process(c, &o, &now->v[i], snapshot_same(before, &now->v[i]), seconds);
	}
	if (!any)
		output_note(&o, "no process%s uses weft%s%s here", geteuid() ? " of yours" : "",
			    c->device ? " on " : "", c->device ? c->device : "");
	return output_finish(&o) && ok;
}

int cmd_stat(int argc, char **argv)
{
	struct cmd c = {0};
	struct snapshot before = {0}, now;
	bool ok = true;

	cli_parse(&argp, "stat", argc, argv, &c);
	if (c.device && !find_device(&c))
		return EXIT_FAILED;
	for (uint64_t i = 0; ok; i++) {
		int rc = snapshot_take(&now, c.pid);

		if (rc == -ESRCH && i)
			break; /* it was watched to its end */
		if (rc)
			return snapshot_tell(c.pid, rc);
		ok = show(&c, &now, &before);
		snapshot_free(&before);
		before = now;
		if (!c.watch_s || (c.count && i + 1 == c.count))
			break;
		nanosleep(&(struct timespec){.tv_sec = c.watch_s}, NULL);
		if (c.format == OUTPUT_TEXT)
			putchar('\n');
	}
	snapshot_free(&before);
	return ok ? EXIT_OK : EXIT_FAILED;
}
