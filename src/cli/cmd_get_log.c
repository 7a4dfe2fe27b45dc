/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft get-log: any log page, as it is. */
#include "cli/cli.h"
#include "cli/hexdump.h"
#include "cli/page.h"

int cmd_get_log(int argc, char **argv);

enum { KEY_LEN = 0x200, KEY_AEN, KEY_LPO, KEY_LSP, KEY_LSI, KEY_UUID, KEY_CSI, KEY_OT };
enum { LOG_LEN_MAX = 64 << 20 };

struct get_log {
	struct page page; /* its options, and the fetching */
	struct nvme_get_log log;
	bool has_lid;
};

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Which page:", 0},
	{"log-id", 'i', "ID", 0, "Its identifier", 0},
	{"log-len", KEY_LEN, "BYTES", 0, "How much of it", 0},
	{"aen", KEY_AEN, "RESULT", 0, "The page that this result of an event names, 4 KiB of it",
	 0},
	{"lpo", KEY_LPO, "BYTES", 0, "From there on (default 0)", 0},
	{"lsp", KEY_LSP, "N", 0, "Log specific field", 0},
	{"lsi", KEY_LSI, "ID", 0, "Log specific identifier", 0},
	{"rae", 'r', NULL, 0, "Retain the event that is told of by the page", 0},
	{"uuid-index", KEY_UUID, "N", 0, "Index of the UUID list", 0},
	{"csi", KEY_CSI, "N", 0, "I/O command set", 0},
	{"ot", KEY_OT, NULL, 0, "The offset is an index", 0},
	{"raw-binary", 'b', NULL, 0, "Write the bytes as they came: -o binary", 4},
	{0},
};

static void take_aen(struct get_log *g, uint64_t aen)
{
	g->log.lid = NVME_AER_LID(aen);
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
	case KEY_LEN:
		g->log.len = cli_parse_size(state, "--log-len", arg, 4, LOG_LEN_MAX);
		if (g->log.len % 4)
			argp_error(state, "--log-len takes a multiple of 4, not '%s'", arg);
		return 0;
	case KEY_AEN:
		take_aen(g, cli_parse_number(state, "--aen", arg, 0, UINT32_MAX));
		return 0;
	case KEY_LPO:
		g->log.offset = cli_parse_size(state, "--lpo", arg, 0, UINT64_MAX);
		return 0;
	case KEY_LSP:
		g->log.lsp = (uint8_t)cli_parse_number(state, "--lsp", arg, 0, 127);
		return 0;
	case KEY_LSI:
		g->log.lsi = (uint16_t)cli_parse_number(state, "--lsi", arg, 0, UINT16_MAX);
		return 0;
	case 'r':
		g->log.rae = true;
		return 0;
	case KEY_UUID:
		g->log.uuid = (uint8_t)cli_parse_number(state, "--uuid-index", arg, 0, 127);
		return 0;
	case KEY_CSI:
		g->log.csi = (uint8_t)cli_parse_number(state, "--csi", arg, 0, UINT8_MAX);
		return 0;
	case KEY_OT:
		g->log.ot = true;
		return 0;
	case 'b':
		g->page.raw = true;
		return 0;
	case ARGP_KEY_END:
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
	p->opts.takes_binary = true;
	p->opts.any_nsid = true;
	cli_parse(&argp, "get-log", argc, argv, &g);
	if (page_open(p) && page_log(p, &g.log, page_nsid(p)) && show(&g))
		status = EXIT_OK;
	remote_close(p->remote);
	return status;
}
