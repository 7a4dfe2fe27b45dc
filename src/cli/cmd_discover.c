/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft discover: which subsystems a target offers. Text and JSON as `nvme discover` has them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "cli/cli.h"
#include "cli/session.h"
#include "nvmf/host/discovery.h"

enum { RECORDS_FIRST = 64 };

int cmd_discover(int argc, char **argv);

struct discover {
	struct nvme_opts opts;
	bool persistent;
};

static const struct argp_option options[] = {
	{"persistent", 'p', NULL, 0, "Stay, and list them again whenever the log has changed", 1},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct discover *d = state->input;

	(void)arg;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &d->opts;
		return 0;
	case 'p':
		d->persistent = true;
		return 0;
	case ARGP_KEY_SUCCESS:
		if (d->persistent && !d->opts.keep_alive_s)
			argp_error(state, "--persistent takes a keep-alive: without one the "
					  "controller does not stay");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "HOST[:PORT]\nnvme+rdma|tcp://HOST[:PORT]\n-t rdma|tcp -a ADDRESS [-s PORT]",
	.doc = "List the subsystems that a target's discovery log names.\v"
	       "The URIs it prints are what the other commands take.",
	.children = nvme_opts_children,
};

struct reading {
	struct host_discovery d;
	bool done;
};

static void discovered(struct host_discovery *d, uint64_t now_ns)
{
	struct reading *r = d->arg;

	(void)now_ns;
	r->done = true;
}

static const char *one_of(const char *const *names, size_t n, unsigned int i)
{
	return i < n && names[i] ? names[i] : "unrecognized";
}
#define NAME(names, i) one_of(names, ARRAY_SIZE(names), i)

static const char *const trtypes[] = {"unspecified", "rdma", "fibre-channel",
				      "tcp", [254] = "loop"};
static const char *const adrfams[] = {"pci", "ipv4", "ipv6", "infiniband", "fibre-channel"};
static const char *const subtypes[] = {NULL, "discovery subsystem referral", "nvme subsystem",
				       "current discovery subsystem"};
static const char *const prtypes[] = {NULL,   "not specified", "infiniband",
				      "roce", "roce-v2",       "iwarp"};
static const char *const qptypes[] = {NULL, "connected", "datagram"};
static const char *const cmses[] = {NULL, "rdma-cm"};
static const char *const sectypes[] = {"none", "tls", "tls13"};

static const char *treq_text(uint8_t treq)
{
	static const char *const texts[] = {
		"not specified",
		"required",
		"not required",
		"reserved",
		"not specified, sq flow control disable supported",
		"required, sq flow control disable supported",
		"not required, sq flow control disable supported",
		"reserved",
	};

	return texts[treq & 7];
}

static const char *eflags_text(uint16_t eflags)
{
	static const char *const texts[] = {
		"none",
		"duplicate discovery information",
		"explicit discovery connections",
		"explicit discovery connections, duplicate discovery information",
	};

	return texts[eflags & 3];
}

/* A field that is padded with spaces or zeroes; unprintable bytes become '?'. */
static void plain(char *dst, const char *src, size_t len)
{
	size_t n = strnlen(src, len);

	while (n && src[n - 1] == ' ')
		n--;
	for (size_t i = 0; i < n; i++)
		dst[i] = (unsigned char)src[i] < 0x20 || src[i] == 0x7f ? '?' : src[i];
	dst[n] = 0;
}

/* What weft's commands take, where they speak that transport. */
static void show_uri(struct output *o, uint8_t trtype, const char *traddr, const char *trsvcid,
		     const char *subnqn)
{
	struct nvme_uri u = {0};
	char uri[512];

	if (!nvme_transport_valid(NAME(trtypes, trtype)))
		return;
	snprintf(u.transport, sizeof(u.transport), "%.7s", NAME(trtypes, trtype));
	snprintf(u.host, sizeof(u.host), "%.255s", traddr);
	snprintf(u.port, sizeof(u.port), "%.7s", trsvcid);
	snprintf(u.nqn, sizeof(u.nqn), "%.223s", subnqn);
	if (!nvme_uri_format(&u, uri, sizeof(uri)))
		output_string(o, "uri", NULL, uri);
}

static void show_entry(struct output *o, const struct nvmf_disc_entry *e, unsigned int index)
{
	char trsvcid[NVMF_TRSVCID_LEN + 1], traddr[NVMF_TRADDR_LEN + 1], subnqn[NVME_NQN_LEN + 1];
	char pkey[8];

	plain(trsvcid, e->trsvcid, sizeof(e->trsvcid));
	plain(traddr, e->traddr, sizeof(e->traddr));
	plain(subnqn, e->subnqn, sizeof(e->subnqn));
	output_object(o, NULL, "=====Discovery Log Entry %u======", index);
	output_string(o, "trtype", NULL, NAME(trtypes, e->trtype));
	output_string(o, "adrfam", NULL, e->traddr[0] ? NAME(adrfams, e->adrfam) : "");
	output_string(o, "subtype", NULL, NAME(subtypes, e->subtype));
	output_string(o, "treq", NULL, treq_text(e->treq));
	output_number(o, "portid", NULL, e->portid, NULL);
	output_string(o, "trsvcid", NULL, trsvcid);
	output_string(o, "subnqn", NULL, subnqn);
	output_string(o, "traddr", NULL, traddr);
	output_string(o, "eflags", NULL, eflags_text(e->eflags));
	if (e->trtype == NVMF_TRTYPE_RDMA) {
		struct nvmf_tsas_rdma t;

		nvmf_tsas_rdma_get(e->tsas, &t);
		o->width = 11;
		snprintf(pkey, sizeof(pkey), "0x%04x", t.pkey);
		output_string(o, "rdma_prtype", NULL, NAME(prtypes, t.prtype));
		output_string(o, "rdma_qptype", NULL, NAME(qptypes, t.qptype));
		output_string(o, "rdma_cms", NULL, NAME(cmses, t.cms));
		output_string(o, "rdma_pkey", NULL, pkey);
	} else if (e->trtype == NVMF_TRTYPE_TCP) {
		output_string(o, "sectype", NULL, NAME(sectypes, e->tsas[0]));
	}
	if (e->subtype == NVMF_SUBTYPE_NVM)
		show_uri(o, e->trtype, traddr, trsvcid, subnqn);
	o->width = 7;
	output_close(o);
}

static bool show(const struct nvme_opts *opts, const struct host_discovery *d)
{
	struct output o;

	output_init(&o, stdout, opts->format);
	o.flat = true;
	o.pad_after_colon = true;
	o.width = 7;
	output_note(&o, "%s", "");
	output_note(&o, "Discovery Log Number of Records %u, Generation counter %llu", d->count,
		    (unsigned long long)d->header.genctr);
	if (opts->format == OUTPUT_JSON)
		output_number(&o, "genctr", NULL, d->header.genctr, NULL);
	output_list(&o, "records", NULL);
	for (uint32_t i = 0; i < d->count; i++)
		show_entry(&o, &d->entries[i], i);
	output_close(&o);
	return output_finish(&o);
}

static int tell(struct session *s, const struct host_discovery *d)
{
	switch (d->error) {
	case -EIO:
		return session_tell_request(s, &d->request, false, "reading the discovery log");
	case -EAGAIN:
		return cli_fail("the discovery log of %s changes faster than it can be read; try "
				"again",
				s->place);
	case -EMSGSIZE:
		return cli_fail(
			"the discovery log of %s claims %llu records; that is beyond reason",
			s->place, (unsigned long long)d->header.numrec);
	case -EPROTO:
		return cli_fail("the discovery log of %s has record format %u; 0 is known",
				s->place, d->header.recfmt);
	default:
		return cli_fail("reading the discovery log of %s: %s", s->place,
				strerror(-d->error));
	}
}

/* Reads the log with room for as many entries as it takes. */
static int read_log(struct session *s, struct reading *r)
{
	struct host_discovery *d = &r->d;
	int err;

	d->buffer = s->page;
	d->done = discovered;
	d->arg = r;
	for (uint64_t room = RECORDS_FIRST;; room = d->header.numrec) {
		free(d->entries);
		d->entries = calloc(room, sizeof(*d->entries));
		if (!d->entries)
			return cli_fail("out of memory for %llu records", (unsigned long long)room);
		d->max = (uint32_t)room;
		r->done = false;
		err = host_discovery_start(d, &s->host, time_now_ns());
		if (err)
			return cli_fail("reading the discovery log of %s: %s", s->place,
					strerror(-err));
		while (!r->done)
			if (!session_turn(&s, 1, UINT64_MAX))
				return EXIT_FAILED;
		if (d->error != -E2BIG)
			return d->error ? tell(s, d) : EXIT_OK;
	}
}

/* Events that came before the log was read are of what was read. */
static bool await_change(struct session *s, unsigned int events, uint32_t reconnects)
{
	while (s->events == events && s->host.reconnects == reconnects)
		if (!session_turn(&s, 1, UINT64_MAX))
			return false;
	while (s->host.state != HOST_LIVE)
		if (!session_turn(&s, 1, UINT64_MAX))
			return false;
	return true;
}

/* What changed while nobody was connected is told by no event. */
static int watch(struct session *s, const struct discover *d, struct reading *r)
{
	unsigned int events;
	uint32_t reconnects;
	int status;

	do {
		events = s->events;
		reconnects = s->host.reconnects;
		status = read_log(s, r);
		if (status == EXIT_OK && !show(&d->opts, &r->d))
			status = EXIT_FAILED;
		if (fflush(stdout) != 0)
			status = EXIT_FAILED;
	} while (status == EXIT_OK && d->persistent && await_change(s, events, reconnects));
	return d->persistent && status == EXIT_OK ? EXIT_FAILED : status;
}

int cmd_discover(int argc, char **argv)
{
	struct session_config config = {.discovery = true};
	struct reading r = {0};
	struct discover d = {0};
	struct session *s;
	int status;

	nvme_opts_init(&d.opts, NVME_OPTS_DISCOVERY);
	cli_parse(&argp, "discover", argc, argv, &d);
	config.stays = config.reconnect = d.persistent;
	s = session_open(&d.opts, &config);
	nvme_opts_wipe(&d.opts);
	if (!s)
		return EXIT_FAILED;
	status = watch(s, &d, &r);
	session_close(s);
	free(r.d.entries);
	return status;
}
