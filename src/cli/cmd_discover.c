/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft discover: which subsystems a target offers. Text and JSON as `nvme discover` has them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/discovery.h"
#include "cli/hexdump.h"

int cmd_discover(int argc, char **argv);

enum { KEY_RAW = 'r', KEY_LIST = 0x200 };

struct cmd {
	struct nvme_opts opts;
	struct discovery_sources from;
	const char *raw;
	bool persistent;
};

static const struct argp_option options[] = {
	{"list", KEY_LIST, NULL, 0, "With --mdns: list the services themselves, and ask none", 1},
	{"persistent", 'p', NULL, 0, "Stay, and list them again whenever the log has changed", 1},
	{"raw", KEY_RAW, "FILE", 0, "Write the log as it came, header and entries, to this file",
	 4},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct cmd *cmd = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &cmd->from;
		return 0;
	case KEY_RAW:
		cmd->raw = arg;
		return 0;
	case KEY_LIST:
		cmd->from.list = true;
		return 0;
	case 'p':
		cmd->persistent = true;
		return 0;
	case ARGP_KEY_SUCCESS:
		if (cmd->persistent && !cmd->opts.keep_alive_s)
			argp_error(state, "--persistent takes a keep-alive: without one the "
					  "controller does not stay");
		else if (cmd->persistent && !cmd->opts.uri.host[0])
			argp_error(state, "--persistent takes one service: HOST, or -t rdma|tcp -a "
					  "ADDRESS");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc =
		"[HOST[:PORT]]\nnvme+rdma|tcp|tcp+tls://HOST[:PORT]\n-t rdma|tcp -a ADDRESS [-s "
		"PORT]\n--mdns",
	.doc = "List the subsystems that a target's discovery log names.\v"
	       "The URIs it prints are what the other commands take. Without a target, those "
	       "of " DISCOVERY_CONF " are asked, or those that mDNS tells of.",
	.children = discovery_children,
};

static void show_entry(struct output *o, const struct weft_discovery *d, unsigned int index)
{
	struct discovery_entry entry;
	const struct weft_discovery_entry *e = &entry.log;

	discovery_entry_of(d, index, &entry);
	output_object(o, NULL, "=====Discovery Log Entry %u======", index);
	output_string(o, "trtype", NULL, discovery_trtype(e->trtype));
	output_string(o, "adrfam", NULL, e->traddr[0] ? discovery_adrfam(e->adrfam) : "");
	output_string(o, "subtype", NULL, discovery_subtype(e->subtype));
	output_string(o, "treq", NULL, discovery_treq(e->treq));
	output_number(o, "portid", NULL, e->portid, NULL);
	output_string(o, "trsvcid", NULL, e->trsvcid);
	output_string(o, "subnqn", NULL, e->subnqn);
	output_string(o, "traddr", NULL, e->traddr);
	output_string(o, "eflags", NULL, discovery_eflags(e->eflags));
	discovery_show_tsas(o, e);
	if (e->subtype == NVMF_SUBTYPE_NVM && entry.uri[0])
		output_string(o, "uri", NULL, entry.uri);
	o->width = 7;
	output_close(o);
}

static bool show(const struct nvme_opts *opts, const struct weft_discovery *d)
{
	unsigned long long generation = weft_discovery_generation(d);
	unsigned int count = weft_discovery_count(d);
	struct output o;

	output_init(&o, stdout, opts->format);
	o.flat = true;
	o.pad_after_colon = true;
	o.width = 7;
	output_note(&o, "%s", "");
	output_note(&o, "Discovery Log Number of Records %u, Generation counter %llu", count,
		    generation);
	if (opts->format == OUTPUT_JSON)
		output_number(&o, "genctr", NULL, generation, NULL);
	output_list(&o, "records", NULL);
	for (unsigned int i = 0; i < count; i++)
		show_entry(&o, d, i);
	output_close(&o);
	return output_finish(&o);
}

/* Header and entries, as they stand on the wire. */
static bool save(FILE *f, const char *name, const struct weft_discovery *d)
{
	size_t len = weft_discovery_bytes(d, NULL, 0);
	uint8_t *bytes = malloc(len);
	bool ok;

	if (!bytes) {
		cli_fail("out of memory for %u records", weft_discovery_count(d));
		return false;
	}
	(void)weft_discovery_bytes(d, bytes, len);
	ok = write_raw(f, name, bytes, len);
	free(bytes);
	return ok;
}

static bool save_to(const char *path, const struct weft_discovery *d)
{
	FILE *f = fopen(path, "we");
	bool ok;

	if (!f) {
		cli_fail("cannot create %s: %s", path, strerror(errno));
		return false;
	}
	ok = save(f, path, d);
	if (fclose(f) && ok) {
		cli_fail("cannot write %s: %s", path, strerror(errno));
		ok = false;
	}
	return ok;
}

/* Reads the log and tells of it. */
static bool tell(const struct cmd *cmd, struct remote *r)
{
	struct weft_discovery *d = discovery_read(r);
	bool ok;

	if (!d)
		return false;
	if (cmd->raw)
		ok = save_to(cmd->raw, d);
	else if (cmd->opts.format == OUTPUT_BINARY)
		ok = save(stdout, "standard output", d);
	else
		ok = show(&cmd->opts, d);
	weft_discovery_free(d);
	return ok;
}

/* Events that came before the log was read are of what was read. */
static bool await_change(struct remote *r, unsigned int events, unsigned int reconnects)
{
	while (r->events == events && r->reconnects == reconnects)
		if (!remote_turn(UINT64_MAX))
			return false;
	while (weft_ctrl_state(r->ctrl) != WEFT_CTRL_LIVE)
		if (!remote_turn(UINT64_MAX))
			return false;
	return true;
}

/* What changed while nobody was connected is told by no event. Who stays ends by a failure. */
static bool watch(const struct cmd *cmd, struct remote *r)
{
	unsigned int events, reconnects;

	do {
		events = r->events;
		reconnects = r->reconnects;
		if (!tell(cmd, r))
			return false;
	} while (cmd->persistent && await_change(r, events, reconnects));
	return !cmd->persistent;
}

static bool ask(void *arg, const struct nvme_opts *service)
{
	const struct cmd *cmd = arg;
	struct remote *r = discovery_open(service, cmd->persistent);
	bool ok = r && watch(cmd, r);

	remote_close(r);
	return ok;
}

int cmd_discover(int argc, char **argv)
{
	struct cmd cmd = {0};
	int status;

	nvme_opts_init(&cmd.opts, NVME_OPTS_DISCOVERY);
	cmd.opts.may_be_none = cmd.opts.takes_binary = true;
	cmd.from.opts = &cmd.opts;
	cli_parse(&argp, "discover", argc, argv, &cmd);
	if (cmd.opts.format == OUTPUT_BINARY && !cmd.raw && isatty(STDOUT_FILENO))
		return cli_fail("binary is not written to a terminal; redirect it");
	status = cmd.from.list ? discovery_mdns_list(&cmd.from)
			       : discovery_services(&cmd.from, ask, &cmd);
	nvme_opts_wipe(&cmd.opts);
	return status;
}
