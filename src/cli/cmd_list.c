/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft list: which processes use weft here, and for what, as far as the broker knows it; and those
 * that it does not know. */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/list_others.h"
#include "cli/list_view.h"
#include "cli/nvme_opts.h"
#include "cli/output.h"
#include "cli/process.h"
#include "wire/cm_ip.h"

#define CELL_ENTRIES 3 /* of a list within the table */
#define COMMAND_MAX  4096
#define COMMAND_MIN  24 /* columns, on however narrow a terminal */

int cmd_list(int argc, char **argv);

struct list_opts {
	enum output_format format;
	bool verbose;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct list_opts *o = state->input;

	switch (key) {
	case 'o':
		if (output_format_parse(arg, &o->format))
			argp_error(state, "--output-format is normal or json, not '%s'", arg);
		return 0;
	case 'v':
		o->verbose = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s'", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{"output-format", 'o', "normal|json", 0, "How it is shown", 0},
	{"verbose", 'v', NULL, 0, "Show each listener and connection too", 0},
	{0},
};

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.doc = "Lists the processes that use weft in this network namespace: root sees all, "
	       "another "
	       "user its own.",
};

/* Its entries, joined with commas, each once, as far as there is room. */
struct cell {
	char text[CELL_ENTRIES * VIEW_ADDRESS_MAX + 16];
	char entry[CELL_ENTRIES][VIEW_ADDRESS_MAX];
	size_t count;
	bool more;
};

static void cell_add(struct cell *c, const char *text)
{
	for (size_t i = 0; i < c->count; i++)
		if (strcmp(c->entry[i], text) == 0)
			return;
	if (c->count < CELL_ENTRIES)
		snprintf(c->entry[c->count++], sizeof(c->entry[0]), "%s", text);
	else
		c->more = true;
}

static const char *cell_text(struct cell *c)
{
	size_t n = 0;

	snprintf(c->text, sizeof(c->text), "-");
	for (size_t i = 0; i < c->count; i++)
		n += (size_t)snprintf(c->text + n, sizeof(c->text) - n, "%s%s", i ? "," : "",
				      c->entry[i]);
	if (c->more)
		snprintf(c->text + n, sizeof(c->text) - n, ",...");
	return c->text;
}

/* ---- JSON --------------------------------------------------------------------------------------
 */

static void id_json(struct output *o, const struct broker_listing *l,
		    const struct broker_list_id *id)
{
	const struct broker_device *d = view_device(l, id->ifindex);
	char buf[VIEW_ADDRESS_MAX];

	output_object(o, NULL, NULL);
	output_string(o, "state", NULL, view_state(id));
	output_string(o, "ps", NULL, view_service(id));
	if (id->local_port) {
		output_string(o, "local_address", NULL, view_address(buf, l, id, &id->local));
		output_number(o, "local_port", NULL, id->local_port, NULL);
	}
	if (id->state == BROKER_LIST_LISTEN) {
		snprintf(buf, sizeof(buf), "0x%016llx",
			 (unsigned long long)CM_SERVICE_ID(id->ps, id->local_port));
		output_string(o, "service_id", NULL, buf);
	}
	if (id->remote_port) {
		output_string(o, "remote_address", NULL, view_address(buf, l, id, &id->remote));
		output_number(o, "remote_port", NULL, id->remote_port, NULL);
	}
	if (d)
		output_string(o, "device", NULL, d->name);
	if (id->qpn)
		output_number(o, "qpn", NULL, id->qpn, NULL);
	if (id->remote_qpn)
		output_number(o, "remote_qpn", NULL, id->remote_qpn, NULL);
	output_close(o);
}

/* Those that its ids are on. */
static void devices_json(struct output *o, const struct broker_listing *l, const struct process *p)
{
	output_list(o, "devices", NULL);
	for (uint32_t i = 0; i < l->devices.count; i++)
		for (size_t k = 0; k < p->id_count; k++)
			if (p->ids[k]->ifindex == l->devices.dev[i].ifindex) {
				output_string(o, NULL, NULL, l->devices.dev[i].name);
				break;
			}
	output_close(o);
}

static void process_json(struct output *o, const struct broker_listing *l, const struct process *p)
{
	char buf[COMMAND_MAX];

	output_object(o, NULL, NULL);
	if (p->pid && l->pids_ours) {
		output_number(o, "pid", NULL, p->pid, NULL);
		output_string(o, "comm", NULL, process_name(buf, sizeof(buf), (pid_t)p->pid));
		output_string(o, "command", NULL, process_command(buf, sizeof(buf), (pid_t)p->pid));
	} else if (p->pid) {
		output_number(o, "pid_of_broker_namespace", NULL, p->pid, NULL);
	}
	output_number(o, "uid", NULL, p->uid, NULL);
	output_string(o, "user", NULL, user_name(buf, sizeof(buf), p->uid));
	output_string(o, "since", NULL, view_since(buf, p->age_ns, true));
	output_list(o, "slots", NULL);
	for (unsigned int i = 0; i < 8 * sizeof(p->slots); i++)
		if (p->slots[i / 8] & 1u << i % 8)
			output_number(o, NULL, NULL, i, NULL);
	output_close(o);
	devices_json(o, l, p);
	output_number(o, "listeners", NULL, p->listeners, NULL);
	output_number(o, "connections", NULL, p->connections, NULL);
	output_list(o, "ids", NULL);
	for (size_t i = 0; i < p->id_count; i++)
		id_json(o, l, p->ids[i]);
	output_close(o);
	output_close(o);
}

static void show_json(struct output *o, const struct view *view)
{
	char buf[64];

	output_object(o, "broker", NULL);
	if (view->l.broker)
		output_number(o, "pid", NULL, (uint64_t)view->l.broker, NULL);
	output_number(o, "uid", NULL, view->l.uid, NULL);
	output_string(o, "user", NULL, user_name(buf, sizeof(buf), view->l.uid));
	output_string(o, "since", NULL, view_since(buf, view->l.age_ns, true));
	output_close(o);
	output_list(o, "processes", NULL);
	for (size_t i = 0; i < view->count; i++)
		process_json(o, &view->l, &view->v[i]);
	output_close(o);
}

/* ---- the table ---------------------------------------------------------------------------------
 */

enum column { PID, USER, DEVICES, LISTENS, CONNS, PEERS, COLUMNS };

static const char *const titles[COLUMNS] = {"PID", "USER", "DEVICES", "LISTENS", "CONNS", "PEERS"};

struct row {
	char *text[COLUMNS], *command;
};

static bool fill(struct row *r, const struct broker_listing *l, const struct process *p)
{
	struct cell devices = {0}, listens = {0}, peers = {0};
	char pid[16] = "?", conns[24], user[64], buf[VIEW_ADDRESS_MAX], command[COMMAND_MAX] = "?";

	for (size_t i = 0; i < p->id_count; i++) {
		const struct broker_list_id *id = p->ids[i];
		const struct broker_device *d = view_device(l, id->ifindex);

		if (d)
			cell_add(&devices, d->name);
		if (id->state == BROKER_LIST_LISTEN)
			cell_add(&listens, view_place(buf, l, id, false));
		if (view_is_connection(id) && id->remote_port)
			cell_add(&peers, view_address(buf, l, id, &id->remote));
	}
	if (p->pid)
		snprintf(pid, sizeof(pid), "%u", p->pid);
	snprintf(conns, sizeof(conns), "%zu", p->connections);
	r->text[PID] = strdup(pid);
	r->text[USER] = strdup(user_name(user, sizeof(user), p->uid));
	r->text[DEVICES] = strdup(cell_text(&devices));
	r->text[LISTENS] = strdup(cell_text(&listens));
	r->text[CONNS] = strdup(conns);
	r->text[PEERS] = strdup(cell_text(&peers));
	if (p->pid && l->pids_ours)
		process_command(command, sizeof(command), (pid_t)p->pid);
	r->command = strdup(command);
	for (int c = 0; c < COLUMNS; c++)
		if (!r->text[c])
			return false;
	return r->command;
}

static void rows_free(struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		for (int c = 0; c < COLUMNS; c++)
			free(rows[i].text[c]);
		free(rows[i].command);
	}
	free(rows);
}

static int terminal_width(void)
{
	struct winsize w;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col ? w.ws_col : 0;
}

static void show_slots(struct output *o, const struct process *p)
{
	char since[40], text[8 * sizeof(p->slots) * 10] = "";
	size_t n = 0;

	for (unsigned int i = 0; i < 8 * sizeof(p->slots); i++)
		if (p->slots[i / 8] & 1u << i % 8)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s0x%02xxxxx",
					      n ? "," : "", i);
	output_note(o, "    since %s, queue pairs %s", view_since(since, p->age_ns, false),
		    n ? text : "none");
}

static void show_ids(struct output *o, const struct broker_listing *l, const struct process *p)
{
	char local[VIEW_ADDRESS_MAX], remote[VIEW_ADDRESS_MAX], more[96];
	int local_width = 0, remote_width = 0;
	size_t idle = 0;

	for (size_t i = 0; i < p->id_count; i++) {
		local_width =
			max_of(local_width, (int)strlen(view_place(local, l, p->ids[i], false)));
		remote_width =
			max_of(remote_width, (int)strlen(view_place(remote, l, p->ids[i], true)));
	}
	for (size_t i = 0; i < p->id_count; i++) {
		const struct broker_list_id *id = p->ids[i];
		const struct broker_device *d = view_device(l, id->ifindex);

		if (id->state == BROKER_LIST_IDLE) {
			idle++;
			continue;
		}
		more[0] = 0;
		if (id->qpn || id->remote_qpn)
			snprintf(more, sizeof(more), "  qp 0x%06x to 0x%06x", id->qpn,
				 id->remote_qpn);
		output_note(o, "    %-13s  %-*s  %-*s  %s%s", view_state(id), local_width,
			    view_place(local, l, id, false), remote_width,
			    view_place(remote, l, id, true), d ? d->name : "-", more);
	}
	if (idle)
		output_note(o, "    and %zu that are idle", idle);
}

static void show_notes(struct output *o, const struct view *view)
{
	bool unseen = false, numbered = false;

	for (size_t i = 0; i < view->count; i++) {
		unseen |= !view->v[i].pid;
		numbered |= view->v[i].pid && !view->l.pids_ours;
	}
	if (unseen)
		output_note(o, "PID ?: of another PID namespace, the broker does not see it");
	if (numbered)
		output_note(o, "PIDs are as the broker sees them, in another PID namespace");
	if (!view->count)
		output_note(o, "no process%s uses it", geteuid() ? " of yours" : "");
	else if (geteuid() && view->l.uid == 0)
		output_note(o, "these are your own processes; root sees all");
}

/* The row's cells, or the titles. */
static const char *cells_text(char *buf, size_t room, const struct row *r, const int width[COLUMNS])
{
	size_t n = 0;

	for (int c = 0; c < COLUMNS; c++)
		n += (size_t)snprintf(buf + n, room - n,
				      c == PID || c == CONNS ? "%*s  " : "%-*s  ", width[c],
				      r ? r->text[c] : titles[c]);
	return buf;
}

static void show_rows(struct output *o, const struct view *view, const struct row *rows,
		      bool verbose)
{
	int width[COLUMNS], all = 0, room = verbose ? 0 : terminal_width();
	char line[2048];

	for (int c = 0; c < COLUMNS; c++) {
		width[c] = (int)strlen(titles[c]);
		for (size_t i = 0; i < view->count; i++)
			width[c] = max_of(width[c], (int)strlen(rows[i].text[c]));
		all += width[c] + 2;
	}
	room = room ? max_of(room - all, COMMAND_MIN) : COMMAND_MAX;
	output_object(o, NULL, "%sCOMMAND", cells_text(line, sizeof(line), NULL, width));
	output_close(o);
	for (size_t i = 0; i < view->count; i++) {
		text_cut(rows[i].command, room);
		output_note(o, "%s%s", cells_text(line, sizeof(line), &rows[i], width),
			    rows[i].command);
		if (verbose) {
			show_slots(o, &view->v[i]);
			show_ids(o, &view->l, &view->v[i]);
		}
	}
}

static int show_table(struct output *o, const struct view *view, bool verbose)
{
	struct row *rows = calloc(view->count + 1, sizeof(*rows));
	bool whole = rows;

	for (size_t i = 0; whole && i < view->count; i++)
		whole = fill(&rows[i], &view->l, &view->v[i]);
	if (whole && view->count)
		show_rows(o, view, rows, verbose);
	if (rows)
		rows_free(rows, view->count);
	return whole ? 0 : -ENOMEM;
}

static int show_text(struct output *o, const struct view *view, bool verbose)
{
	char pid[16] = "?", user[64], since[40];
	int rc;

	if (view->l.broker)
		snprintf(pid, sizeof(pid), "%d", view->l.broker);
	output_note(o, "broker: pid %s of %s, since %s", pid,
		    user_name(user, sizeof(user), view->l.uid),
		    view_since(since, view->l.age_ns, false));
	rc = show_table(o, view, verbose);
	if (rc == 0)
		show_notes(o, view);
	return rc;
}

static void show_none(struct output *o, bool others)
{
	if (o->format == OUTPUT_JSON) {
		output_list(o, "processes", NULL);
		output_close(o);
	}
	output_note(o, "%s: no broker runs (it is started on demand)",
		    others ? "nothing uses RDMA here" : "nothing uses weft here");
}

/* What the broker has told. */
static int show_view(struct output *o, struct view *view, bool verbose)
{
	int rc = view_arrange(view);

	if (rc == 0 && o->format == OUTPUT_JSON)
		show_json(o, view);
	else if (rc == 0)
		rc = show_text(o, view, verbose);
	view_free(view);
	return rc;
}

int cmd_list(int argc, char **argv)
{
	struct list_opts opts = {0};
	struct view view = {0};
	struct snapshot others;
	struct output out;
	char err[512];
	bool broker;
	int rc;

	cli_parse(&argp, "list", argc, argv, &opts);
	rc = broker_list(&view.l, err, sizeof(err));
	if (rc && rc != -ENOENT) {
		text_tame(err); /* the broker may be anybody's */
		return cli_fail("%s", err);
	}
	broker = rc != -ENOENT;
	output_init(&out, stdout, opts.format);
	out.flat = true;
	rc = others_find(&others);
	if (rc == 0 && broker)
		rc = show_view(&out, &view, opts.verbose);
	else if (rc == 0)
		show_none(&out, others.count);
	if (rc == 0)
		others_show(&out, &others, opts.verbose ? 0 : terminal_width());
	snapshot_free(&others);
	if (rc)
		return cli_fail("cannot list: %s", strerror(-rc));
	return output_finish(&out) ? EXIT_OK : EXIT_FAILED;
}
