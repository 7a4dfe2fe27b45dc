/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/discovery.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* What nvme-cli asks over TCP where no port is named; and what others are, of <weft/nvmf.h>. */
#define DISCOVERY_PORT_TCP "8009"
#define PORT_OTHERWISE	   "4420"

enum { LINE_MAX_LEN = 4096, WORDS_MAX = 64 };

/* --- what numbers are called -------------------------------------------------------------------
 */

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

const char *discovery_treq(uint8_t treq)
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

const char *discovery_eflags(uint16_t eflags)
{
	static const char *const texts[] = {
		"none",
		"duplicate discovery information",
		"explicit discovery connections",
		"explicit discovery connections, duplicate discovery information",
	};

	return texts[eflags & 3];
}

const char *discovery_trtype(uint8_t trtype)
{
	return NAME(trtypes, trtype);
}

const char *discovery_adrfam(uint8_t adrfam)
{
	return NAME(adrfams, adrfam);
}

const char *discovery_subtype(uint8_t subtype)
{
	return NAME(subtypes, subtype);
}

void discovery_show_tsas(struct output *o, const struct weft_discovery_entry *e)
{
	struct nvmf_tsas_rdma t;
	char pkey[8];

	if (e->trtype == NVMF_TRTYPE_TCP)
		output_string(o, "sectype", NULL, NAME(sectypes, e->tsas[0]));
	if (e->trtype != NVMF_TRTYPE_RDMA)
		return;
	nvmf_tsas_rdma_get(e->tsas, &t);
	o->width = 11;
	snprintf(pkey, sizeof(pkey), "0x%04x", t.pkey);
	output_string(o, "rdma_prtype", NULL, NAME(prtypes, t.prtype));
	output_string(o, "rdma_qptype", NULL, NAME(qptypes, t.qptype));
	output_string(o, "rdma_cms", NULL, NAME(cmses, t.cms));
	output_number(o, "rdma_pkey", NULL, t.pkey, pkey);
}

/* --- the log -----------------------------------------------------------------------------------
 */

void discovery_entry_of(const struct weft_discovery *d, unsigned int index,
			struct discovery_entry *ret)
{
	int err;

	(void)weft_discovery_entry(d, index, &ret->log, sizeof(ret->log));
	err = weft_discovery_uri(d, index, ret->uri, sizeof(ret->uri));
	ret->known = err != -EOPNOTSUPP;
	if (err)
		ret->uri[0] = 0;
}

const char *discovery_port(const struct nvme_uri *service)
{
	if (service->port[0])
		return service->port;
	return strcmp(service->transport, "tcp") == 0 ? DISCOVERY_PORT_TCP : PORT_OTHERWISE;
}

/* Many targets are at one port with all that they have: where nothing is at that of discovery, it
 * is there. */
struct remote *discovery_open(const struct nvme_opts *service, bool stays)
{
	struct remote_config config = {.discovery = true, .stays = stays, .reconnect = stays};
	struct nvme_opts at = *service;
	struct remote *r;

	if (!at.uri.port[0]) {
		strcpy(at.uri.port, discovery_port(&at.uri));
		if (strcmp(at.uri.port, PORT_OTHERWISE) != 0)
			config.instead = PORT_OTHERWISE;
	}
	r = remote_open(&at, &config);
	nvme_opts_wipe(&at);
	return r;
}

struct weft_discovery *discovery_read(struct remote *r)
{
	struct weft_discovery *d;
	int err = weft_discovery_read(r->ctrl, &d);

	if (!err)
		return d;
	remote_tell(r, err);
	return NULL;
}

/* --- the services ------------------------------------------------------------------------------
 */

/* What else nvme-cli takes on such a line, and what has no meaning without a kernel's device. */
enum { KEY_IGNORED = 0x300 };
static const struct argp_option line_options[] = {
	{"keyring", KEY_IGNORED, "ID", 0, NULL, 0},
	{0},
};

struct line {
	struct nvme_opts *opts;
	FILE *complaints;
};

static error_t parse_line_option(int key, char *arg, struct argp_state *state)
{
	struct line *line = state->input;

	(void)arg;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = line->opts;
		state->err_stream = line->complaints;
		return 0;
	case KEY_IGNORED:
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Splits as nvme-cli does: at spaces and at "=". */
static int split(char *line, char *words[WORDS_MAX])
{
	int n = 1;

	for (char *word; (word = strsep(&line, " \t=\n"));)
		if (*word && n + 1 < WORDS_MAX)
			words[n++] = word;
	words[n] = NULL;
	return n;
}

/* What argp says of a line: its first line, behind the name that it gives the program. What getopt
 * says it has said already. */
static void tell_line(const char *path, unsigned int number, const char *complaints)
{
	const char *text = strstr(complaints, ": ");
	size_t len = strcspn(complaints, "\n");

	if (text && text < complaints + len)
		cli_fail("%s, line %u: %.*s", path, number, (int)(complaints + len - text - 2),
			 text + 2);
}

/* False: it is wrong, and that is told. */
static bool parse_line(const char *path, unsigned int number, char *text, struct nvme_opts *opts)
{
	static const struct argp argp = {
		.options = line_options,
		.parser = parse_line_option,
		.children = nvme_connect_children,
	};
	char *words[WORDS_MAX], shown[512], *complaints = NULL;
	int n = split(text, words);
	struct line line = {.opts = opts};
	size_t len = 0;
	bool ok;

	line.complaints = open_memstream(&complaints, &len);
	if (!line.complaints) {
		cli_fail("out of memory");
		return false;
	}
	snprintf(shown, sizeof(shown), "weft: %s, line %u", path, number);
	words[0] = shown;
	ok = argp_parse(&argp, n, words, ARGP_NO_HELP | ARGP_NO_EXIT, NULL, &line) == 0;
	fclose(line.complaints);
	ok = ok && len == 0;
	if (!ok)
		tell_line(path, number, complaints);
	free(complaints);
	return ok;
}

static int services_of_file(const struct discovery_sources *from, discovery_ask_fn *ask, void *arg)
{
	const char *path = from->path ? from->path : DISCOVERY_CONF;
	char line[LINE_MAX_LEN];
	unsigned int number = 0, named = 0;
	bool ok = true;
	FILE *f;

	f = fopen(path, "re");
	if (!f)
		return cli_fail("no service is named, and %s cannot be read: %s; say HOST, or "
				"-t rdma|tcp -a ADDRESS, or --mdns",
				path, strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		struct nvme_opts service = *from->opts;

		number++;
		if (line[0] == '#' || line[strspn(line, " \t\n")] == 0)
			continue;
		named++;
		service.target = NVME_OPTS_DISCOVERY;
		service.may_be_none = false;
		service.of_file = true;
		/* Their words have been read and masked: the keys are there. */
		service.secret = service.ctrl_secret = service.tls_secret = NULL;
		if (!parse_line(path, number, line, &service))
			ok = false;
		else
			ok &= ask(arg, &service);
		nvme_opts_wipe(&service);
	}
	fclose(f);
	if (!named) /* as distributions install it: no failure of whoever asks at each boot */
		cli_warn("no service is named, and none stands in %s; say HOST, or -t rdma|tcp -a "
			 "ADDRESS, or --mdns",
			 path);
	return ok ? EXIT_OK : EXIT_FAILED;
}

int discovery_services(const struct discovery_sources *from, discovery_ask_fn *ask, void *arg)
{
	if (from->opts->uri.host[0])
		return ask(arg, from->opts) ? EXIT_OK : EXIT_FAILED;
	return from->mdns ? discovery_mdns(from, ask, arg) : services_of_file(from, ask, arg);
}

/* --- the options -------------------------------------------------------------------------------
 */

enum { KEY_CONFIG = 0x310, KEY_MDNS, MDNS_SECONDS_MAX = 3600 };

static const struct argp_option source_options[] = {
	{NULL, 0, NULL, 0, "Which services:", 0},
	{"device", 'd', "DEVICE", OPTION_HIDDEN, NULL, 0},
	{"config", KEY_CONFIG, "FILE", 0,
	 "Where they stand that are not named (default " DISCOVERY_CONF ")", 0},
	{"mdns", KEY_MDNS, "SECONDS", OPTION_ARG_OPTIONAL,
	 "Those that mDNS tells of, through avahi-daemon; listen for so long (default: until that "
	 "seems to be all, at most 5)",
	 0},
	{0},
};

static void check_sources(const struct discovery_sources *from, struct argp_state *state)
{
	if (from->mdns && (from->opts->uri.host[0] || from->path))
		argp_error(state, "--mdns looks for services: name none with it, nor a file");
	if (from->list && !from->mdns)
		argp_error(state, "--list shows what --mdns finds");
}

static error_t parse_source(int key, char *arg, struct argp_state *state)
{
	struct discovery_sources *from = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = from->opts;
		return 0;
	case 'd':
		argp_error(state,
			   "there is no device of the kernel's here, such as '%s': -t and -a "
			   "say where the service is",
			   arg);
		return 0;
	case KEY_CONFIG:
		from->path = arg;
		return 0;
	case KEY_MDNS:
#ifndef WEFT_HAVE_MDNS
		argp_error(state, "--mdns: this weft was built without libavahi-client");
#endif
		from->mdns = true;
		if (arg)
			from->mdns_s = (unsigned)cli_parse_number(state, "--mdns", arg, 1,
								  MDNS_SECONDS_MAX);
		return 0;
	case ARGP_KEY_SUCCESS:
		check_sources(from, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp sources_argp = {
	.options = source_options,
	.parser = parse_source,
	.children = nvme_connect_children,
};
const struct argp_child discovery_children[] = {{&sources_argp, 0, NULL, 0}, {0}};
