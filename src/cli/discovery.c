/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/discovery.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "cli/cli.h"

#define DISCOVERY_PORT_TCP "8009"

enum { RECORDS_FIRST = 64, LINE_MAX_LEN = 4096, WORDS_MAX = 64 };

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

void discovery_show_tsas(struct output *o, const struct nvmf_disc_entry *e)
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

void discovery_entry_of(const struct nvmf_disc_entry *wire, struct discovery_entry *ret)
{
	struct nvme_uri *u = &ret->uri;

	*ret = (struct discovery_entry){.wire = wire};
	plain(ret->trsvcid, wire->trsvcid, sizeof(wire->trsvcid));
	plain(ret->traddr, wire->traddr, sizeof(wire->traddr));
	plain(ret->subnqn, wire->subnqn, sizeof(wire->subnqn));
	ret->known = nvme_transport_valid(discovery_trtype(wire->trtype));
	/* Where it is not required, who has no key does without. */
	u->tls = wire->trtype == NVMF_TRTYPE_TCP && wire->tsas[0] == NVMF_SECTYPE_TLS13 &&
		 (wire->treq & NVMF_TREQ_SECURE_MASK) != NVMF_TREQ_NOT_REQUIRED;
	snprintf(u->transport, sizeof(u->transport), "%.7s", discovery_trtype(wire->trtype));
	snprintf(u->host, sizeof(u->host), "%.255s", ret->traddr);
	snprintf(u->port, sizeof(u->port), "%.7s", ret->trsvcid);
	snprintf(u->nqn, sizeof(u->nqn), "%.223s", ret->subnqn);
}

static void discovered(struct host_discovery *d, uint64_t now_ns)
{
	struct discovery *r = d->arg;

	(void)now_ns;
	r->done = true;
}

static bool tell(struct session *s, const struct host_discovery *d)
{
	switch (d->error) {
	case -EIO:
		session_tell_request(s, &d->request, false, "reading the discovery log");
		break;
	case -EAGAIN:
		cli_fail("the discovery log of %s changes faster than it can be read; try "
			 "again",
			 s->place);
		break;
	case -EMSGSIZE:
		cli_fail("the discovery log of %s claims %llu records; that is beyond reason",
			 s->place, (unsigned long long)d->header.numrec);
		break;
	case -EPROTO:
		cli_fail("the discovery log of %s has record format %u; 0 is known", s->place,
			 d->header.recfmt);
		break;
	default:
		cli_fail("reading the discovery log of %s: %s", s->place, strerror(-d->error));
		break;
	}
	return false;
}

bool discovery_read(struct discovery *r, struct session *s)
{
	struct host_discovery *d = &r->d;
	int err;

	d->buffer = s->page;
	d->done = discovered;
	d->arg = r;
	for (uint64_t room = RECORDS_FIRST;; room = d->header.numrec) {
		free(d->entries);
		d->entries = calloc(room, sizeof(*d->entries));
		if (!d->entries) {
			cli_fail("out of memory for %llu records", (unsigned long long)room);
			return false;
		}
		d->max = (uint32_t)room;
		r->done = false;
		err = host_discovery_start(d, &s->host, time_now_ns());
		if (err) {
			cli_fail("reading the discovery log of %s: %s", s->place, strerror(-err));
			return false;
		}
		while (!r->done)
			if (!session_turn(&s, 1, UINT64_MAX))
				return false;
		if (d->error != -E2BIG)
			return d->error ? tell(s, d) : true;
	}
}

/* --- the services ------------------------------------------------------------------------------
 */

/* What else nvme-cli takes on such a line, and what has no meaning without a kernel's device. */
enum { KEY_IGNORED = 0x300 };
static const struct argp_option line_options[] = {
	{"host-iface", 'f', "INTERFACE", 0, NULL, 0},
	{"nr-io-queues", 'i', "N", 0, NULL, 0},
	{"nr-write-queues", 'W', "N", 0, NULL, 0},
	{"nr-poll-queues", 'P', "N", 0, NULL, 0},
	{"tos", 'T', "N", 0, NULL, 0},
	{"keyring", KEY_IGNORED, "ID", 0, NULL, 0},
	{"duplicate-connect", 'D', NULL, 0, NULL, 0},
	{"disable-sqflow", 'd', NULL, 0, NULL, 0},
	{"persistent", 'p', NULL, 0, NULL, 0},
	{"quiet", KEY_IGNORED, NULL, 0, NULL, 0},
	{"force", KEY_IGNORED, NULL, 0, NULL, 0},
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
	case 'f':
	case 'i':
	case 'W':
	case 'P':
	case 'T':
	case 'D':
	case 'd':
	case 'p':
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
		.children = nvme_opts_children,
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

int discovery_services(const struct nvme_opts *opts, const char *path,
		       bool (*ask)(void *arg, const struct nvme_opts *service), void *arg)
{
	char line[LINE_MAX_LEN];
	unsigned int number = 0;
	bool ok = true;
	FILE *f;

	if (opts->uri.host[0])
		return ask(arg, opts) ? EXIT_OK : EXIT_FAILED;
	path = path ? path : DISCOVERY_CONF;
	f = fopen(path, "re");
	if (!f)
		return cli_fail("no service is named, and %s cannot be read: %s; say HOST, or "
				"-t rdma|tcp -a ADDRESS",
				path, strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		struct nvme_opts service = *opts;

		number++;
		if (line[0] == '#' || line[strspn(line, " \t\n")] == 0)
			continue;
		service.target = NVME_OPTS_DISCOVERY;
		service.may_be_none = false;
		/* Their words have been read and masked: the keys are there. */
		service.secret = service.ctrl_secret = NULL;
		if (!parse_line(path, number, line, &service)) {
			ok = false;
			continue;
		}
		/* What nvme-cli takes for it there. */
		if (!service.uri.port[0] && strcmp(service.uri.transport, "tcp") == 0)
			strcpy(service.uri.port, DISCOVERY_PORT_TCP);
		ok &= ask(arg, &service);
		nvme_opts_wipe(&service);
	}
	fclose(f);
	return ok ? EXIT_OK : EXIT_FAILED;
}
