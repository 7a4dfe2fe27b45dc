/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/page.h"

#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/hexdump.h"
#include "cli/nvme_verb.h"
#include "wire/nvme_log.h"

enum { KEY_FORCE = 0x200, KEY_VERBOSE };

/* --- the options ------------------------------------------------------------------------------ */

#define CSI_DOC	  "Of this I/O command set: 0 is NVM"
#define CNTID_DOC "From this controller ID on, or of it"

static const struct {
	unsigned int bit;
	struct argp_option option;
} all_options[] = {
	{TAKES_NSID, {"namespace-id", 'n', "NSID", 0, "Namespace", 0}},
	{TAKES_NSID, {NULL, 'N', NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0}},
	{TAKES_RAW, {"raw-binary", 'b', NULL, 0, "Write the bytes as they came: -o binary", 4}},
	{TAKES_HUMAN, {"human-readable", 'H', NULL, 0, "Tell what the bits mean", 4}},
	{TAKES_VENDOR, {"vendor-specific", 'v', NULL, 0, "Show the vendor's bytes, too", 4}},
	{TAKES_VENDOR, {NULL, 'V', NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 4}},
	{TAKES_VENDOR, {"verbose", KEY_VERBOSE, NULL, 0, "As --human-readable", 4}},
	{TAKES_VERBOSE, {"verbose", 'v', NULL, 0, "As --human-readable", 4}},
	{TAKES_UNATTACHED, {"force", KEY_FORCE, NULL, 0, "One that is not attached, too", 0}},
	{TAKES_ALL, {"all", 'a', NULL, 0, "Those that are not attached, too", 0}},
	{TAKES_CSI, {"csi", 'y', "N", 0, CSI_DOC, 0}},
	{TAKES_EFFECTS_CSI, {"csi", 'c', "N", 0, CSI_DOC, 0}},
	{TAKES_ENTRIES, {"log-entries", 'e', "N", 0, "At most so many (default 64)", 0}},
	{TAKES_CNTID, {"cntid", 'c', "ID", 0, CNTID_DOC, 0}},
	{TAKES_CONTROLLER_ID, {"controller-id", 'c', "ID", 0, CNTID_DOC, 0}},
	{TAKES_CONTROLLER_ID, {"cntid", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0}},
	{TAKES_GROUPS, {"groups", 'g', NULL, 0, "Without the groups' namespaces", 0}},
	{TAKES_UUID, {"uuid-index", 'U', "N", 0, "Index of the UUID list", 0}},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct page *p = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &p->opts;
		return 0;
	case 'b':
		p->raw = true;
		return 0;
	case 'H':
	case KEY_VERBOSE:
		p->human = true;
		return 0;
	case 'v':
		if (p->verb->takes & TAKES_VENDOR)
			p->vendor = true;
		else
			p->human = true;
		return 0;
	case 'V':
		p->vendor = true;
		return 0;
	case 'e':
		p->entries = (uint32_t)cli_parse_number(state, "--log-entries", arg, 1, UINT32_MAX);
		return 0;
	case 'a':
		p->all = true;
		return 0;
	case 'y':
		p->csi = (int)cli_parse_number(state, "--csi", arg, 0, UINT8_MAX);
		return 0;
	case 'c':
		if (p->verb->takes & TAKES_EFFECTS_CSI)
			p->csi = (int)cli_parse_number(state, "--csi", arg, 0, UINT8_MAX);
		else
			p->cntid = (uint32_t)cli_parse_number(
				state, p->verb->takes & TAKES_CNTID ? "--cntid" : "--controller-id",
				arg, 0, UINT16_MAX);
		return 0;
	case 'g':
		p->groups = true;
		return 0;
	case 'U':
		p->uuid = (uint8_t)cli_parse_number(state, "--uuid-index", arg, 0, 127);
		return 0;
	case KEY_FORCE:
		p->unattached = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void parse_page(struct page *p, int argc, char **argv)
{
	struct argp_option options[ARRAY_SIZE(all_options) + 1] = {{0}};
	struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = p->verb->target == NVME_OPTS_NAMESPACE ? NVME_NAMESPACE_ARGS
								   : NVME_CONTROLLER_ARGS,
		.doc = p->verb->doc,
		.children = nvme_opts_children,
	};
	unsigned int n = 0;

	for (unsigned int i = 0; i < ARRAY_SIZE(all_options); i++)
		if (all_options[i].bit & p->verb->takes)
			options[n++] = all_options[i].option;
	nvme_verb_parse(&argp, p->verb->name, argc, argv, p);
}

/* --- fetching --------------------------------------------------------------------------------- */

bool page_open(struct page *p)
{
	struct remote_config config = {
		.discovery = strcmp(p->opts.uri.nqn, NVMF_DISCOVERY_NQN) == 0,
	};

	if ((p->raw || p->opts.format == OUTPUT_BINARY) && isatty(STDOUT_FILENO))
		cli_fail("binary is not written to a terminal; redirect it");
	else
		p->remote = remote_open(&p->opts, &config);
	nvme_opts_wipe(&p->opts);
	p->nsid = p->opts.uri.nsid;
	p->nqn = p->remote ? p->remote->info.nqn : NULL;
	return p->remote;
}

bool page_identify(struct page *p, enum nvme_cns cns, uint32_t nsid, uint32_t cntid, uint8_t csi,
		   const char *what)
{
	const struct nvme_sqe sqe = {.opcode = NVME_ADMIN_IDENTIFY,
				     .nsid = nsid,
				     .cdw10 = cns | cntid << 16,
				     .cdw11 = (uint32_t)csi << 24,
				     .cdw14 = p->uuid};
	struct remote_answer a;
	int rc;

	p->data = p->remote->page;
	p->len = NVME_IDENTIFY_LEN;
	rc = remote_submit(p->remote, false, &sqe, p->data, p->len, 0, &a);
	return remote_expect(p->remote, rc, &a, false, what);
}

/*
 * What a controller is sure to transfer at a time; of the page of asymmetric access as much as may
 * be, for Linux's target knows no offset there.
 */
static uint32_t piece_max(const struct remote *r, uint8_t lid)
{
	return lid == NVME_LID_ANA ? max_of(r->info.transfer_max & ~3u, (uint32_t)NVME_IDENTIFY_LEN)
				   : NVME_IDENTIFY_LEN;
}

/* Only the last piece gives up the event whose cause is in the page: what is asked for before it
 * belongs together. */
bool page_log(struct page *p, const struct nvme_get_log *log, uint32_t nsid)
{
	struct remote *r = p->remote;
	char what[96];

	snprintf(what, sizeof(what), "Get Log Page %02xh (%s)", log->lid, nvme_log_name(log->lid));
	p->len = (uint32_t)log->len;
	p->data = remote_alloc(r, p->len);
	if (!p->data)
		return false;
	for (uint32_t at = 0; at < p->len;) {
		uint32_t len = min_of(p->len - at, piece_max(r, log->lid));
		struct nvme_get_log piece = *log;
		struct nvme_sqe sqe = {.nsid = nsid};
		struct remote_answer a;
		int rc;

		piece.len = len;
		piece.offset += at;
		piece.rae |= at + len < p->len;
		nvme_get_log_to_sqe(&piece, &sqe);
		rc = remote_submit(r, false, &sqe, p->data + at, len, 0, &a);
		if (!remote_expect(r, rc, &a, false, what))
			return false;
		at += len;
	}
	return true;
}

/* --- showing ---------------------------------------------------------------------------------- */

void show_padded(struct output *o, const char *key, const char *src, size_t len)
{
	char text[NVME_NQN_LEN + 1];
	size_t n = strnlen(src, min_of(len, (size_t)NVME_NQN_LEN));

	memcpy(text, src, n);
	text[n] = 0;
	text_tame(text);
	output_string(o, key, NULL, text);
}

const char *hex_text(char *text, const uint8_t *v, size_t len)
{
	text[0] = 0;
	for (size_t i = 0; i < len; i++)
		snprintf(text + 2 * i, 3, "%02x", v[i]);
	return text;
}

void show_bits(struct output *o, const struct bits *rows, uint64_t value)
{
	for (const struct bits *b = rows; b->label; b++) {
		uint64_t v = value >> b->low & (UINT64_MAX >> (64 - b->count));
		unsigned int word = 0;

		if (b->words) {
			while (word < v && b->words[word + 1])
				word++;
			output_note(o, "  %-46s: %s", b->label, b->words[word]);
			continue;
		}
		v = v * (b->times ? b->times : 1) + b->plus;
		output_note(o, "  %-46s: %llu%s%s", b->label, (unsigned long long)v,
			    b->unit ? " " : "", b->unit ? b->unit : "");
	}
}

static bool print(const struct page *p)
{
	struct output o;

	if (p->raw || p->opts.format == OUTPUT_BINARY)
		return write_raw(stdout, "standard output", p->data, p->len);
	output_init(&o, stdout, p->opts.format);
	o.flat = true;
	p->verb->show(&o, p);
	return output_finish(&o);
}

int page_run(const struct page_verb *v, int argc, char **argv)
{
	struct page p = {.verb = v, .csi = -1, .entries = 64, .cntid = UINT32_MAX};
	int status = EXIT_FAILED;

	nvme_opts_init(&p.opts, v->target);
	p.opts.takes_binary = true;
	/* As with nvme-cli, which asks a namespace's device for all of its controller. */
	p.opts.of_all = v->target == NVME_OPTS_CONTROLLER;
	parse_page(&p, argc, argv);
	if (page_open(&p) && v->fetch(&p) && print(&p))
		status = EXIT_OK;
	remote_close(p.remote);
	return status;
}
