/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * weft connect-all: what there is to be connected to, of all discovery services and those that they
 * refer to. Each service is asked once, however many refer to it, and what several offer is listed
 * once. One is asked after the other, and of none the log is kept for the next: whoever refers to
 * ever new ones, and has long logs, costs the memory of one log.
 * Where there are more services or subsystems than anybody has, that is said, and they are not.
 */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/discovery.h"

int cmd_connect_all(int argc, char **argv);

enum { SERVICES_MAX = 256, FOUND_MAX = 65536 };

struct cmd {
	struct nvme_opts opts;
	struct discovery_sources from;
	struct nvme_uri services[SERVICES_MAX]; /* that were asked, and then those that are to be */
	unsigned int service_count;
	bool endless; /* there were more, which was told */
	void *found;  /* URIs: a tree of tsearch(3) */
	unsigned int found_count;
	bool full; /* likewise */
	struct output output;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct cmd *cmd = state->input;

	(void)arg;
	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = &cmd->from;
	return 0;
}

static const struct argp argp = {
	.parser = parse,
	.args_doc = "[HOST[:PORT]]\nnvme+rdma|tcp://HOST[:PORT]\n-t rdma|tcp -a ADDRESS [-s "
		    "PORT]\n--mdns",
	.doc = "List the subsystems that discovery services offer, and those that they refer to: "
	       "one "
	       "URI a line.\v"
	       "Nothing is connected: weft's commands connect when they are used.",
	.children = discovery_children,
};

/* What a service is asked by: an NQN that says no more than that it is one is left out. */
static struct nvme_uri key_of(const struct nvme_uri *service)
{
	struct nvme_uri u = *service;

	strcpy(u.port, discovery_port(service));
	if (strcmp(u.nqn, NVMF_DISCOVERY_NQN) == 0)
		u.nqn[0] = 0;
	return u;
}

/* One more that is to be asked, unless it was there. */
static bool note_service(struct cmd *cmd, const struct nvme_uri *service)
{
	const struct nvme_uri u = key_of(service);

	for (unsigned int i = 0; i < cmd->service_count; i++) {
		const struct nvme_uri *a = &cmd->services[i];

		if (strcmp(a->transport, u.transport) == 0 && strcmp(a->host, u.host) == 0 &&
		    strcmp(a->port, u.port) == 0 && strcmp(a->nqn, u.nqn) == 0)
			return true;
	}
	if (cmd->endless)
		return false;
	if (cmd->service_count == SERVICES_MAX) {
		cmd->endless = true;
		cli_fail("there are referrals without end: %u services have been named",
			 cmd->service_count);
		return false;
	}
	cmd->services[cmd->service_count++] = u;
	return true;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* One more that was found. False: told. */
static bool keep(struct cmd *cmd, const char *uri)
{
	char *copy;

	if (cmd->found_count == FOUND_MAX) {
		cmd->full = true;
		cli_fail("there are more than %u subsystems: the others are not listed", FOUND_MAX);
		return false;
	}
	copy = strdup(uri);
	if (!copy || !tsearch(copy, &cmd->found, by_text)) {
		free(copy);
		cmd->full = true;
		cli_fail("out of memory for %u subsystems", cmd->found_count + 1);
		return false;
	}
	cmd->found_count++;
	return true;
}

static bool note_found(struct cmd *cmd, const struct discovery_entry *entry)
{
	const struct weft_discovery_entry *e = &entry->log;
	const char *uri = entry->uri;

	if (!entry->known) {
		cli_warn("'%s' is offered by %s, which weft does not speak", e->subnqn,
			 discovery_trtype(e->trtype));
		return true;
	}
	if (!uri[0]) {
		cli_warn("'%s' is offered at no address that can be written", e->subnqn);
		return true;
	}
	if (tfind(uri, &cmd->found, by_text))
		return true;
	if (!keep(cmd, uri))
		return false;
	output_note(&cmd->output, "%s", uri);
	output_object(&cmd->output, NULL, NULL);
	if (cmd->output.format == OUTPUT_JSON) {
		output_string(&cmd->output, "trtype", NULL, discovery_trtype(e->trtype));
		output_string(&cmd->output, "adrfam", NULL, discovery_adrfam(e->adrfam));
		output_string(&cmd->output, "traddr", NULL, e->traddr);
		output_string(&cmd->output, "trsvcid", NULL, e->trsvcid);
		output_string(&cmd->output, "subnqn", NULL, e->subnqn);
		output_string(&cmd->output, "uri", NULL, uri);
	}
	output_close(&cmd->output);
	return true;
}

/* What it refers to is asked when it is done with. */
static bool follow(struct cmd *cmd, const struct nvme_opts *service,
		   const struct discovery_entry *e)
{
	struct nvme_uri next;
	const char *why;

	if (!e->known) {
		cli_warn("there is a referral to %s by %s, which weft does not speak",
			 e->log.traddr, discovery_trtype(e->log.trtype));
		return true;
	}
	if (nvme_uri_parse(e->uri, &next, &why)) {
		cli_fail("there is a referral to '%s', which is no address: %s", e->log.traddr,
			 why);
		return false;
	}
	strcpy(next.hostnqn, service->uri.hostnqn);
	strcpy(next.hostid, service->uri.hostid);
	if (strcmp(next.transport, "rdma") == 0)
		strcpy(next.rdma_transport, service->uri.rdma_transport);
	return note_service(cmd, &next);
}

/* Nothing more is looked at. */
static bool is_over(const struct cmd *cmd)
{
	return cmd->full || remote_interrupted();
}

static bool take(struct cmd *cmd, const struct nvme_opts *service, const struct weft_discovery *d)
{
	bool ok = true;

	for (unsigned int i = 0; i < weft_discovery_count(d) && !is_over(cmd); i++) {
		struct discovery_entry e;

		discovery_entry_of(d, i, &e);
		if (e.log.subtype == NVMF_SUBTYPE_NVM)
			ok &= note_found(cmd, &e);
		else if (e.log.subtype == NVMF_SUBTYPE_REFERRAL)
			ok &= follow(cmd, service, &e);
	}
	return ok;
}

/* asked: what it was noted as, which is where it answered from then on. */
static bool ask_one(struct cmd *cmd, const struct nvme_opts *service, struct nvme_uri *asked)
{
	struct remote *r = discovery_open(service, false);
	struct weft_discovery *d = r ? discovery_read(r) : NULL;
	bool ok;

	if (r)
		snprintf(asked->port, sizeof(asked->port), "%s", r->info.port);
	remote_close(r);
	ok = d && take(cmd, service, d);
	weft_discovery_free(d);
	return ok;
}

static bool ask(void *arg, const struct nvme_opts *service)
{
	struct cmd *cmd = arg;
	const unsigned int first = cmd->service_count;
	bool ok, one = true;

	if (is_over(cmd))
		return false;
	ok = note_service(cmd, &service->uri);
	for (unsigned int i = first; i < cmd->service_count && !is_over(cmd); i++) {
		struct nvme_opts next = *service;

		if (i > first) { /* the way there is its own */
			next.uri = cmd->services[i];
			next.host_traddr[0] = next.host_iface[0] = 0;
		}
		one = ask_one(cmd, &next, &cmd->services[i]);
		ok &= one;
		nvme_opts_wipe(&next);
	}
	if (remote_interrupted() && one) /* else it is told */
		cli_fail("interrupted");
	return ok && !remote_interrupted();
}

int cmd_connect_all(int argc, char **argv)
{
	static struct cmd cmd;
	int status;

	nvme_opts_init(&cmd.opts, NVME_OPTS_DISCOVERY);
	cmd.opts.may_be_none = true;
	cmd.from.opts = &cmd.opts;
	cli_parse(&argp, "connect-all", argc, argv, &cmd);
	output_init(&cmd.output, stdout, cmd.opts.format);
	cmd.output.flat = true;
	output_list(&cmd.output, "subsystems", NULL);
	status = discovery_services(&cmd.from, ask, &cmd);
	nvme_opts_wipe(&cmd.opts);
	output_close(&cmd.output);
	tdestroy(cmd.found, free);
	return output_finish(&cmd.output) ? status : EXIT_FAILED;
}
