/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft get-log: any log page, as it is. */
#include "cli/cli.h"
#include "cli/hexdump.h"
#include "cli/nvme_verb.h"
#include "cli/page.h"

int cmd_get_log(int argc, char **argv);

enum { LOG_LEN_MAX = 64 << 20 };

struct get_log {
	struct page page; /* its options, and the fetching */
	struct nvme_get_log log;
	bool has_lid;
	uint32_t aen; /* 0: not said */
};

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Which page:", 0},
	NVME_VERB_NSID,
	{"log-id", 'i', "ID", 0, "Its identifier", 0},
	{"log-len", 'l', "BYTES", 0, "How much of it", 0},
	{"aen", 'a', "RESULT", 0,
	 "The page that this result of an event names, 4 KiB of it, whatever else is said", 0},
	{"lpo", 'o', "BYTES", 0, "From there on (default 0)", 0},
	{NULL, 'L', NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
	{"lsp", 's', "N", 0, "Log specific field", 0},
	{"lsi", 'S', "ID", 0, "Log specific identifier", 0},
	{"rae", 'r', NULL, 0, "Retain the event that is told of by the page", 0},
	{"uuid-index", 'U', "N", 0, "Index of the UUID list", 0},
	{"csi", 'y', "N", 0, "I/O command set", 0},
	{"ot", 'O', NULL, 0, "The offset is an index", 0},
	{"raw-binary", 'b', NULL, 0, "Write the bytes as they came: -o binary", 4},
	{0},
};

/* nvme-cli, too, has it override what else is said. */
static void take_aen(struct get_log *g)
{
	if (!g->aen)
		return;
	g->log.lid = NVME_AER_LID(g->aen);
	g->log.len = 4096;
	g->has_lid = true;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct get_log *g = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &g->page.opts;
		return 0;
	case 'i':
		g->log.lid = (uint8_t)cli_parse_number(state, "--log-id", arg, 0, UINT8_MAX);
		g->has_lid = true;
		return 0;
	case 'l':
		g->log.len = cli_parse_size(state, "--log-len", arg, 4, LOG_LEN_MAX);
		if (g->log.len % 4)
			argp_error(state, "--log-len takes a multiple of 4, not '%s'", arg);
		return 0;
	case 'a':
		g->aen = (uint32_t)cli_parse_number(state, "--aen", arg, 0, UINT32_MAX);
		return 0;
	case 'o':
		if (nvme_verb_took_format(&g->page.opts, state, arg))
			return 0;
		return parse('L', arg, state);
	case 'L':
		g->log.offset = cli_parse_size(state, "--lpo", arg, 0, UINT64_MAX);
		return 0;
	case 's':
		g->log.lsp = (uint8_t)cli_parse_number(state, "--lsp", arg, 0, 127);
		return 0;
	case 'S':
		g->log.lsi = (uint16_t)cli_parse_number(state, "--lsi", arg, 0, UINT16_MAX);
		return 0;
	case 'r':
		g->log.rae = true;
		return 0;
	case 'U':
		g->log.uuid = (uint8_t)cli_parse_number(state, "--uuid-index", arg, 0, 127);
		return 0;
	case 'y':
		g->log.csi = (uint8_t)cli_parse_number(state, "--csi", arg, 0, UINT8_MAX);
		return 0;
	case 'O':
		g->log.ot = true;
		return 0;
	case 'b':
		g->page.raw = true;
		return 0;
	case ARGP_KEY_END:
		take_aen(g);
		if (!g->has_lid)
			argp_error(state,
				   "which page? --log-id=ID; `weft supported-log-pages` lists "
				   "those there are");
		else if (!g->log.len)
			argp_error(state, "how much of it? --log-len=BYTES");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = NVME_CONTROLLER_ARGS,
	.doc = "Show a log page of a controller, byte by byte (Get Log Page).",
	.children = nvme_opts_children,
};

static bool show(const struct get_log *g)
{
	const struct page *p = &g->page;
	struct output o;

	if (p->raw || p->opts.format == OUTPUT_BINARY)
		return write_raw(stdout, "standard output", p->data, p->len);
	output_init(&o, stdout, p->opts.format);
	output_note(&o, "Device:%s log-id:%u namespace-id:%#x", p->nqn, g->log.lid, page_nsid(p));
	if (p->opts.format == OUTPUT_TEXT) {
		hexdump(stdout, p->data, p->len);
		return output_finish(&o);
	}
	output_number(&o, "log-id", NULL, g->log.lid, NULL);
	output_number(&o, "namespace-id", NULL, page_nsid(p), NULL);
	return output_bytes(&o, "data", NULL, p->data, p->len) && output_finish(&o);
}

int cmd_get_log(int argc, char **argv)
{
	struct get_log g = {0};
	struct page *p = &g.page;
	int status = EXIT_FAILED;

	nvme_opts_init(&p->opts, NVME_OPTS_CONTROLLER);
	p->opts.takes_binary = p->opts.of_all = true;
	nvme_verb_parse(&argp, "get-log", argc, argv, &g);
	if (page_open(p) && page_log(p, &g.log, page_nsid(p)) && show(&g))
		status = EXIT_OK;
	remote_close(p->remote);
	return status;
}
