/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft top: what the processes that use weft do at present, and their queue pairs. */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "base/time.h"
#include "cli/cli.h"
#include "cli/nvme_opts.h"
#include "cli/output.h"
#include "cli/process.h"
#include "cli/snapshot.h"
#include "cli/top_served.h"

int cmd_top(int argc, char **argv);

enum { NAME_WIDTH = 15, DROPS_MAX_BYTES = 256, LINE_MAX_BYTES = 512 };

struct cmd {
	unsigned int interval_s;
	uint64_t count; /* of times; 0: without end */
	pid_t pid;	/* 0: all */
	bool terminal;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct cmd *c = state->input;

	switch (key) {
	case 'd':
		c->interval_s = (unsigned int)cli_parse_number(state, "--delay", arg, 1, 3600);
		return 0;
	case 'n':
		c->count = cli_parse_number(state, "--count", arg, 1, UINT32_MAX);
		return 0;
	case ARGP_KEY_ARG:
		if (c->pid)
			argp_error(state, "one process at a time");
		c->pid = (pid_t)cli_parse_number(state, "PID", arg, 1, INT32_MAX);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{"delay", 'd', "SECONDS", 0, "Between two looks (default: 1)", 0},
	{"count", 'n', "N", 0, "Look so often, then end", 0},
	{0},
};

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "[PID]",
	.doc = "Shows what processes that use weft in this network namespace do at present, the "
	       "busiest first, and what hosts do with each namespace of those that are targets: "
	       "root sees "
	       "all, another user its own.",
};

/* ---- what is shown ----------------------------------------------------------------------------
 */

/* Of a process or of a queue pair, each second. */
struct rates {
	uint64_t tx_bytes, rx_bytes, tx_packets, rx_packets;
	uint64_t retransmits, spurious, duplicates, naks, sacks, rnrs, marks, cnps_in, cnps_out,
		stalls;
	struct drops drops;
};

/* One line. A process's stands before those of its queue pairs. */
struct line {
	const struct seen *process;
	struct rnic_qp_row qp; /* qpn 0: the process itself */
	uint64_t unseen; /* or as many queue pairs of which it shows nothing, after the others */
	struct rates rates;
	uint64_t process_bytes; /* each second, by which processes are sorted */
};

struct lines {
	struct line *v;
	size_t count, room;
	struct top_served *served; /* of targets, behind all processes */
	size_t served_count;
	double seconds;
};

static uint64_t sum_of(const struct seen *s, const char *const keys[])
{
	uint64_t sum = 0;

	for (; *keys; keys++)
		sum += seen_sum(s, "core", *keys);
	return sum;
}

/* What has been counted until now. */
static struct rates totals_of_process(const struct seen *s)
{
	static const char *const naks[] = {"rx_nak_sequence", "tx_nak_sequence", "tx_nak_access",
					   NULL};
	static const char *const rnrs[] = {"rx_rnr_nak", "tx_rnr_nak", NULL};
	static const char *const stalls[] = {"window_stalls", "budget_stalls", NULL};

	struct rates r = {
		.tx_bytes = seen_sum(s, "core", "tx_bytes"),
		.rx_bytes = seen_sum(s, "core", "rx_bytes"),
		.tx_packets = seen_sum(s, "core", "tx_packets"),
		.rx_packets = seen_sum(s, "core", "rx_packets"),
		.retransmits = seen_sum(s, "core", "tx_retransmit"),
		.spurious = seen_sum(s, "core", "tx_spurious"),
		.duplicates = seen_sum(s, "core", "rx_duplicate"),
		.naks = sum_of(s, naks),
		.sacks = seen_sum(s, "core", "rx_sack") + seen_sum(s, "core", "tx_sack"),
		.rnrs = sum_of(s, rnrs),
		.marks = seen_sum(s, "core", "rx_ecn_marked"),
		.cnps_in = seen_sum(s, "core", "rx_cnp"),
		.cnps_out = seen_sum(s, "core", "tx_cnp"),
		.stalls = sum_of(s, stalls),
	};

	seen_drops(s, &r.drops);
	return r;
}

static struct rates totals_of_qp(const struct rnic_qp_row *q)
{
	struct rates r = {
		.tx_bytes = q->tx_bytes,
		.rx_bytes = q->rx_bytes,
		.tx_packets = q->tx_packets,
		.rx_packets = q->rx_packets,
		.retransmits = q->tx_retransmit,
		.spurious = q->tx_spurious,
		.duplicates = q->rx_duplicate,
		.naks = q->rx_nak_sequence + q->tx_nak_sequence + q->tx_nak_access,
		.sacks = q->rx_sack + q->tx_sack,
		.rnrs = q->rx_rnr_nak + q->tx_rnr_nak,
		.marks = q->rx_ecn_marked,
		.cnps_in = q->rx_cnp,
		.cnps_out = q->tx_cnp,
		.stalls = q->window_stalls + q->budget_stalls,
	};

	qp_row_drops(q, &r.drops);
	return r;
}

static uint64_t rate_of(uint64_t now, uint64_t before, double seconds)
{
	return now > before && seconds > 0 ? (uint64_t)((double)(now - before) / seconds + 0.5) : 0;
}

static struct drops drop_rates_of(const struct drops *now, const struct drops *before, double s)
{
	struct drops r = *now;

	for (size_t i = 0; i < r.count; i++) {
		uint64_t was = 0;

		for (size_t k = 0; k < before->count; k++)
			if (strcmp(before->v[k].why, r.v[i].why) == 0)
				was = before->v[k].packets;
		r.v[i].packets = rate_of(r.v[i].packets, was, s);
	}
	return r;
}

static struct rates rates_of(struct rates now, struct rates before, double s)
{
	return (struct rates){
		.tx_bytes = rate_of(now.tx_bytes, before.tx_bytes, s),
		.rx_bytes = rate_of(now.rx_bytes, before.rx_bytes, s),
		.tx_packets = rate_of(now.tx_packets, before.tx_packets, s),
		.rx_packets = rate_of(now.rx_packets, before.rx_packets, s),
		.retransmits = rate_of(now.retransmits, before.retransmits, s),
		.spurious = rate_of(now.spurious, before.spurious, s),
		.duplicates = rate_of(now.duplicates, before.duplicates, s),
		.naks = rate_of(now.naks, before.naks, s),
		.sacks = rate_of(now.sacks, before.sacks, s),
		.rnrs = rate_of(now.rnrs, before.rnrs, s),
		.marks = rate_of(now.marks, before.marks, s),
		.cnps_in = rate_of(now.cnps_in, before.cnps_in, s),
		.cnps_out = rate_of(now.cnps_out, before.cnps_out, s),
		.stalls = rate_of(now.stalls, before.stalls, s),
		.drops = drop_rates_of(&now.drops, &before.drops, s),
	};
}

static bool add_line(struct lines *l, const struct line *line)
{
	if (l->count == l->room) {
		struct line *more = realloc(l->v, (l->room = l->room * 2 + 64) * sizeof(*more));

		if (!more)
			return false;
		l->v = more;
	}
	l->v[l->count++] = *line;
	return true;
}

/* The queue pairs of which something is to be said: on a terminal all, else those that move. */
static bool add_queue_pairs(const struct cmd *c, struct lines *l, struct line line,
			    const struct seen *before, double seconds)
{
	struct rnic_qp_row *v = NULL, *old = NULL;
	size_t n = 0, old_n = 0;
	bool ok = seen_queue_pairs(line.process, &v, &n) &&
		  (!before || seen_queue_pairs(before, &old, &old_n));

	for (size_t i = 0; ok && i < n; i++) {
		struct rates was = {0};

		for (size_t k = 0; k < old_n; k++)
			if (old[k].qpn == v[i].qpn)
				was = totals_of_qp(&old[k]);
		line.qp = v[i];
		line.rates = rates_of(totals_of_qp(&v[i]), was, seconds);
		if (c->terminal || line.rates.tx_packets || line.rates.rx_packets)
			ok = add_line(l, &line);
	}
	line = (struct line){.process = line.process,
			     .process_bytes = line.process_bytes,
			     .unseen = seen_queue_pairs_unseen(line.process)};
	if (ok && line.unseen)
		ok = add_line(l, &line);
	free(v);
	free(old);
	return ok;
}

static int by_work(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	uint64_t of_x = x->rates.tx_bytes + x->rates.rx_bytes;
	uint64_t of_y = y->rates.tx_bytes + y->rates.rx_bytes;

	if (x->process != y->process) {
		if (x->process_bytes != y->process_bytes)
			return x->process_bytes < y->process_bytes ? 1 : -1;
		return (x->process->pid > y->process->pid) - (x->process->pid < y->process->pid);
	}
	if (!x->unseen != !y->unseen)
		return x->unseen ? 1 : -1;
	if (!x->qp.qpn != !y->qp.qpn)
		return x->qp.qpn ? 1 : -1;
	if (of_x != of_y)
		return of_x < of_y ? 1 : -1;
	return (x->qp.qpn > y->qp.qpn) - (x->qp.qpn < y->qp.qpn);
}

static bool gather(const struct cmd *c, struct lines *l, const struct snapshot *now,
		   const struct snapshot *before)
{
	double seconds = (double)(now->at_ns - before->at_ns) / 1e9;

	*l = (struct lines){.seconds = seconds};
	for (size_t i = 0; i < now->count; i++) {
		const struct seen *s = &now->v[i], *was = snapshot_same(before, s);
		struct line line = {.process = s};

		if (!seen_room(s, "core", 0))
			continue; /* a broker moves nothing but connections */
		line.rates = rates_of(totals_of_process(s),
				      was ? totals_of_process(was) : (struct rates){0}, seconds);
		line.process_bytes = line.rates.tx_bytes + line.rates.rx_bytes;
		if (!add_line(l, &line) || !add_queue_pairs(c, l, line, was, seconds))
			return false;
	}
	if (l->count)
		qsort(l->v, l->count, sizeof(*l->v), by_work);
	return top_served(now, before, &l->served, &l->served_count);
}

/* ---- how it is shown --------------------------------------------------------------------------
 */

/* "-" is easier to overlook than 0. */
static const char *number(char buf[24], uint64_t v)
{
	if (v >= 10000000)
		snprintf(buf, 24, "%lluM", (unsigned long long)(v / 1000000));
	else if (v >= 100000)
		snprintf(buf, 24, "%lluk", (unsigned long long)(v / 1000));
	else if (v)
		snprintf(buf, 24, "%llu", (unsigned long long)v);
	else
		snprintf(buf, 24, "-");
	return buf;
}

static const char *bytes(char buf[32], uint64_t v)
{
	return v ? text_bytes(buf, 32, v) : "-";
}

/* Why they were, and how many for each reason. Returns how many in all. */
static uint64_t drops_text(char text[DROPS_MAX_BYTES], const struct drops *d)
{
	uint64_t sum = 0;
	char n[24];

	*text = '\0';
	for (size_t i = 0; i < d->count; i++) {
		size_t len = strlen(text);

		if (d->v[i].packets)
			snprintf(text + len, DROPS_MAX_BYTES - len, "%s%s %s", sum ? ", " : "  ",
				 d->v[i].why, number(n, d->v[i].packets));
		sum += d->v[i].packets;
	}
	return sum;
}

static const char titles[] =
	"    PID NAME/QUEUE PAIR                  TX/s       RX/s  PKT/s RETR/s  NAK/s  RNR/s"
	" DROP/s STALL/s    WINDOW    FLIGHT       RTT     RATE/s VAIN/s  DUP/s SACK/s MARK/s"
	" CNPI/s CNPO/s  WHY DROPPED";

static void line_text(char text[LINE_MAX_BYTES], const struct line *l)
{
	char name[64], who[128], tx[32], rx[32], window[32] = "", flight[32] = "", rtt[32] = "";
	char peer[SNAPSHOT_PEER_MAX], n[12][24], held[32] = "", why[DROPS_MAX_BYTES];
	const struct rates *r = &l->rates;
	uint64_t dropped = drops_text(why, &r->drops);

	if (l->unseen) {
		snprintf(text, LINE_MAX_BYTES, "%7d   and %llu more queue pairs", l->process->pid,
			 (unsigned long long)l->unseen);
		return;
	}
	if (!l->qp.qpn) {
		snprintf(who, sizeof(who), "%.*s", NAME_WIDTH,
			 process_name(name, sizeof(name), l->process->pid));
	} else {
		snprintf(who, sizeof(who), "  %06x %s %s", (unsigned int)l->qp.qpn,
			 l->qp.state == RNIC_QPS_RTS ? qp_row_type(&l->qp) : qp_row_state(&l->qp),
			 qp_row_peer(peer, &l->qp));
		bytes(window, l->qp.window);
		bytes(flight, l->qp.inflight);
		if (l->qp.srtt_ns)
			text_duration(rtt, sizeof(rtt), l->qp.srtt_ns);
		if (l->qp.rate)
			text_bytes(held, sizeof(held), l->qp.rate * 125);
	}
	snprintf(text, LINE_MAX_BYTES,
		 "%7d %-26.26s %10s %10s %6s %6s %6s %6s %6s %7s %9s %9s %9s %10s %6s %6s %6s %6s "
		 "%6s %6s%s",
		 l->process->pid, who, bytes(tx, r->tx_bytes), bytes(rx, r->rx_bytes),
		 number(n[0], r->tx_packets + r->rx_packets), number(n[1], r->retransmits),
		 number(n[2], r->naks), number(n[3], r->rnrs), number(n[4], dropped),
		 number(n[5], r->stalls), window, flight, rtt, held, number(n[11], r->spurious),
		 number(n[6], r->duplicates), number(n[7], r->sacks), number(n[8], r->marks),
		 number(n[9], r->cnps_in), number(n[10], r->cnps_out), why);
}

static void size_of_terminal(int *ret_rows, int *ret_columns)
{
	struct winsize w;

	*ret_rows = 24;
	*ret_columns = 80;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row && w.ws_col) {
		*ret_rows = w.ws_row;
		*ret_columns = w.ws_col;
	}
}

/* Those whose hosts are connected, in what room is left. */
static void show_targets(const struct lines *l, int rows, int columns, bool colour)
{
	char text[LINE_MAX_BYTES];
	bool titled = false;

	for (size_t i = 0; i < l->served_count && rows > 2; i++) {
		if (!l->served[i].connected && !l->served[i].commands)
			continue;
		if (!titled) {
			printf("\n\033[K\n%s%.*s%s\033[K", colour ? "\033[1m" : "", columns,
			       TOP_SERVED_TITLES, colour ? "\033[0m" : "");
			rows -= 2;
			titled = true;
		}
		top_served_text(text, sizeof(text), &l->served[i], l->seconds);
		text_cut(text, columns);
		printf("\n%s\033[K", text);
		rows--;
	}
}

static void show_screen(const struct lines *l)
{
	bool colour = output_colour(stdout);
	char text[LINE_MAX_BYTES], when[32];
	time_t now = time(NULL);
	int rows, columns;
	struct tm tm;

	size_of_terminal(&rows, &columns);
	strftime(when, sizeof(when), "%H:%M:%S", localtime_r(&now, &tm));
	/* Line by line over what is there, and away with the rest: so nothing flickers. */
	printf("\033[H%.*s\033[K\n%s%.*s%s\033[K", columns, when, colour ? "\033[1m" : "", columns,
	       titles, colour ? "\033[0m" : "");
	for (size_t i = 0; i < l->count && (int)i + 3 <= rows; i++) {
		line_text(text, &l->v[i]);
		text_cut(text, columns);
		printf("\n%s\033[K", text);
	}
	show_targets(l, rows - (int)l->count - 2, columns, colour);
	if (!l->count && !l->served_count)
		printf("\nno process%s uses weft here\033[K", geteuid() ? " of yours" : "");
	printf("\033[J");
}

static void show_lines(const struct lines *l, bool first, bool *titled)
{
	char text[LINE_MAX_BYTES], when[32];
	time_t now = time(NULL);
	struct tm tm;

	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
	if (first)
		printf("%-20s %s\n", "TIME", titles);
	for (size_t i = 0; i < l->count; i++) {
		line_text(text, &l->v[i]);
		printf("%s %s\n", when, text);
	}
	for (size_t i = 0; i < l->served_count; i++) {
		if (!l->served[i].commands)
			continue;
		if (!*titled)
			printf("%-20s %s\n", "TIME", TOP_SERVED_TITLES);
		*titled = true;
		top_served_text(text, sizeof(text), &l->served[i], l->seconds);
		printf("%s %s\n", when, text);
	}
}

static bool show(const struct cmd *c, const struct snapshot *now, const struct snapshot *before,
		 bool first, bool *titled)
{
	struct lines l;
	bool ok = gather(c, &l, now, before);

	if (ok && c->terminal)
		show_screen(&l);
	else if (ok)
		show_lines(&l, first, titled);
	free(l.v);
	free(l.served);
	if (!ok)
		cli_fail("out of memory");
	else if (fflush(stdout) || ferror(stdout))
		return cli_fail("cannot write: %s", strerror(errno)) == EXIT_OK;
	return ok;
}

int cmd_top(int argc, char **argv)
{
	struct cmd c = {.interval_s = 1, .terminal = isatty(STDOUT_FILENO)};
	struct snapshot before, now;
	bool ok = true, titled = false;
	int rc;

	cli_parse(&argp, "top", argc, argv, &c);
	rc = snapshot_take(&before, c.pid);
	if (rc)
		return snapshot_tell(c.pid, rc);
	if (c.terminal)
		printf("\033[H\033[J");
	for (uint64_t i = 0; ok && (!c.count || i < c.count); i++) {
		nanosleep(&(struct timespec){.tv_sec = c.interval_s}, NULL);
		rc = snapshot_take(&now, c.pid);
		if (rc)
			break; /* what was watched has ended */
		ok = show(&c, &now, &before, i == 0, &titled);
		snapshot_free(&before);
		before = now;
	}
	snapshot_free(&before);
	if (c.terminal)
		putchar('\n');
	return ok ? EXIT_OK : EXIT_FAILED;
}
