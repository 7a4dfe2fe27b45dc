/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft admin-passthru, weft io-passthru: any command, its data of and to a file. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "cli/cli.h"
#include "cli/hexdump.h"
#include "cli/nvme_verb.h"
#include "cli/remote.h"

int cmd_admin_passthru(int argc, char **argv);
int cmd_io_passthru(int argc, char **argv);

enum { DATA_MAX = 64 << 20, TIMEOUT_MS_MAX = 86400 * 1000 };

struct passthru {
	struct nvme_opts opts;
	bool admin, has_opcode, to_host, to_ctrl, raw, show, dry_run, latency;
	struct nvme_sqe sqe;
	uint32_t len;
	unsigned int timeout_ms; /* as it was said; 0: the default */
	uint8_t prefill;
	const char *path;
	uint8_t *data;
};

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "The command:", 0},
	{"opcode", 'o', "N", 0, "Its opcode", 0},
	{NULL, 'O', NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
	{"flags", 'f', "N", 0, "Its flags: those of fused commands", 0},
	NVME_VERB_NSID,
	{"cdw2", '2', "N", 0, "Dwords of the command, 2", 0},
	{"cdw3", '3', "N", 0, "... and 3", 0},
	{"cdw10", '4', "N", 0, "... 10", 0},
	{"cdw11", '5', "N", 0, "... 11", 0},
	{"cdw12", '6', "N", 0, "... 12", 0},
	{"cdw13", '7', "N", 0, "... 13", 0},
	{"cdw14", '8', "N", 0, "... 14", 0},
	{"cdw15", '9', "N", 0, "... and 15", 0},
	{NULL, 0, NULL, 0, "Its data:", 1},
	{"data-len", 'l', "BYTES", 0, "How long they are", 1},
	{"read", 'r', NULL, 0,
	 "They come from the controller; so they do if bit 1 of the opcode is set", 1},
	{"write", 'w', NULL, 0, "They go to the controller; so they do if bit 0 is set", 1},
	{"input-file", 'i', "FILE", 0,
	 "Where they are, or go to (default: standard input or output)", 1},
	{"prefill", 'p', "BYTE", 0, "What the memory holds before (default 0)", 1},
	{"raw-binary", 'b', NULL, 0, "Write them as they came: -o binary", 4},
	{"show-command", 's', NULL, 0, "Show the command before it is sent", 4},
	{"dry-run", 'd', NULL, 0, "Show the command and do not send it", 4},
	{"latency", 'T', NULL, 0, "Tell how long it took", 4},
	{"timeout", 't', "MS", 0,
	 "How long it may take, in milliseconds (default 30000, as 0 is, too)", 3},
	NVME_VERB_ZERO("rsvd", 'R'),
	NVME_VERB_ZERO("metadata-len", 'm'),
	NVME_VERB_NO_FILE("metadata", 'M'),
	{0},
};

static uint32_t dword(struct argp_state *state, const char *option, const char *arg)
{
	return (uint32_t)cli_parse_number(state, option, arg, 0, UINT32_MAX);
}

static void settle(struct passthru *p, struct argp_state *state)
{
	p->to_ctrl |= p->sqe.opcode & 1;
	p->to_host |= p->sqe.opcode & 2;
	if (!p->has_opcode)
		argp_error(state, "which command? --opcode=N");
	else if (p->len && p->to_host == p->to_ctrl)
		argp_error(state, "data go one way: --read or --write");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct passthru *p = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &p->opts;
		return 0;
	case 'o':
		if (nvme_verb_took_format(&p->opts, state, arg))
			return 0;
		return parse('O', arg, state);
	case 'O':
		p->sqe.opcode = (uint8_t)cli_parse_number(state, "--opcode", arg, 0, UINT8_MAX);
		p->has_opcode = true;
		return 0;
	case 'f':
		p->sqe.flags = (uint8_t)cli_parse_number(state, "--flags", arg, 0, UINT8_MAX);
		return 0;
	case '2':
		p->sqe.cdw2 = dword(state, "--cdw2", arg);
		return 0;
	case '3':
		p->sqe.cdw3 = dword(state, "--cdw3", arg);
		return 0;
	case '4':
		p->sqe.cdw10 = dword(state, "--cdw10", arg);
		return 0;
	case '5':
		p->sqe.cdw11 = dword(state, "--cdw11", arg);
		return 0;
	case '6':
		p->sqe.cdw12 = dword(state, "--cdw12", arg);
		return 0;
	case '7':
		p->sqe.cdw13 = dword(state, "--cdw13", arg);
		return 0;
	case '8':
		p->sqe.cdw14 = dword(state, "--cdw14", arg);
		return 0;
	case '9':
		p->sqe.cdw15 = dword(state, "--cdw15", arg);
		return 0;
	case 'l':
		p->len = (uint32_t)cli_parse_size(state, "--data-len", arg, 0, DATA_MAX);
		return 0;
	case 't':
		p->timeout_ms =
			(unsigned int)cli_parse_number(state, "--timeout", arg, 0, TIMEOUT_MS_MAX);
		if (p->timeout_ms)
			p->opts.timeout_ms = p->timeout_ms;
		return 0;
	case 'r':
		p->to_host = true;
		return 0;
	case 'w':
		p->to_ctrl = true;
		return 0;
	case 'i':
		p->path = strcmp(arg, "-") == 0 ? NULL : arg;
		return 0;
	case 'p':
		p->prefill = (uint8_t)cli_parse_number(state, "--prefill", arg, 0, UINT8_MAX);
		return 0;
	case 'b':
		p->raw = true;
		return 0;
	case 's':
		p->show = true;
		return 0;
	case 'd':
		p->dry_run = true;
		return 0;
	case 'T':
		p->latency = true;
		return 0;
	case ARGP_KEY_END:
		settle(p, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void show_command(const struct passthru *p, FILE *f)
{
	const struct nvme_sqe *s = &p->sqe;
	const struct {
		const char *name;
		uint32_t value;
	} rows[] = {
		{"nsid", s->nsid},    {"cdw2", s->cdw2},   {"cdw3", s->cdw3},
		{"data_len", p->len}, {"metadata_len", 0}, {"cdw10", s->cdw10},
		{"cdw11", s->cdw11},  {"cdw12", s->cdw12}, {"cdw13", s->cdw13},
		{"cdw14", s->cdw14},  {"cdw15", s->cdw15}, {"timeout_ms", p->timeout_ms},
	};

	fprintf(f, "opcode       : %02x\nflags        : %02x\nrsvd1        : 0000\n", s->opcode,
		s->flags);
	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++)
		fprintf(f, "%-13s: %08x\n", rows[i].name, rows[i].value);
}

static bool write_file(const struct passthru *p)
{
	FILE *out = fopen(p->path, "we");
	bool ok;

	if (!out) {
		cli_fail("cannot create %s: %s", p->path, strerror(errno));
		return false;
	}
	ok = write_raw(out, p->path, p->data, p->len);
	if (fclose(out) && ok) {
		cli_fail("cannot write %s: %s", p->path, strerror(errno));
		ok = false;
	}
	return ok;
}

static bool show_json(const struct passthru *p, uint64_t result)
{
	struct output o;

	output_init(&o, stdout, OUTPUT_JSON);
	output_number(&o, "result", NULL, result, NULL);
	if (p->to_host && p->len && !p->path && !output_bytes(&o, "data", NULL, p->data, p->len))
		return false;
	return output_finish(&o);
}

/* What it came to is told on standard error: standard output is for data. */
static bool show(const struct passthru *p, uint64_t result, uint64_t took_ns)
{
	const char *name = nvme_opcode_name(p->sqe.opcode, p->admin);
	const char *kind = p->admin ? "Admin" : "IO";
	bool came = p->to_host && p->len;

	if (p->latency)
		printf("%s Command %s latency: %llu us\n", kind, name,
		       (unsigned long long)(took_ns / 1000));
	fprintf(stderr, "%s Command %s is Success and result: 0x%08llx\n", kind, name,
		(unsigned long long)result);
	if (came && p->path && !write_file(p))
		return false;
	if (p->opts.format == OUTPUT_JSON)
		return show_json(p, result);
	if (!came || p->path)
		return true;
	if (p->raw)
		return write_raw(stdout, "standard output", p->data, p->len);
	hexdump(stdout, p->data, p->len);
	return true;
}

static bool carry_out(struct passthru *p, struct remote *r)
{
	unsigned int flags = 0;
	struct remote_answer a;
	uint64_t begun_ns;
	char what[64];
	int rc;

	if (p->admin && p->sqe.opcode == NVME_ADMIN_ASYNC_EVENT) {
		cli_fail("the connection has an Asynchronous Event Request of its own under way; "
			 "another cannot be sent");
		return false;
	}
	if (p->len) {
		p->data = remote_alloc(r, p->len);
		if (!p->data)
			return false;
		memset(p->data, p->prefill, p->len);
		if (p->to_ctrl && !read_raw(p->path, p->data, p->len, "--data-len"))
			return false;
		flags = p->to_host ? WEFT_TO_HOST : WEFT_TO_CTRL;
	}
	snprintf(what, sizeof(what), "opcode %02xh (%s)", p->sqe.opcode,
		 nvme_opcode_name(p->sqe.opcode, p->admin));
	begun_ns = time_now_ns();
	rc = remote_submit(r, !p->admin, &p->sqe, p->data, p->len, flags, &a);
	return remote_expect(r, rc, &a, !p->admin, what) &&
	       show(p, a.result.result, time_now_ns() - begun_ns);
}

static int run(bool admin, int argc, char **argv)
{
	const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = NVME_NAMESPACE_ARGS,
		.doc = admin ? "Send a controller any admin command."
			     : "Send a controller any I/O command.",
		.children = nvme_opts_children,
	};
	struct passthru p = {.admin = admin};
	struct remote_config config = {.io_queues = admin ? 0 : 1};
	struct remote *r;
	bool ok;

	nvme_opts_init(&p.opts, NVME_OPTS_CONTROLLER);
	p.opts.takes_binary = true;
	nvme_verb_parse(&argp, admin ? "admin-passthru" : "io-passthru", argc, argv, &p);
	p.sqe.nsid = p.opts.uri.nsid;
	p.raw |= p.opts.format == OUTPUT_BINARY;
	if (p.show || p.dry_run)
		show_command(&p, stdout);
	if (p.dry_run)
		return EXIT_OK;
	if (p.raw && p.to_host && p.len && !p.path && isatty(STDOUT_FILENO))
		return cli_fail("binary is not written to a terminal; redirect it");
	config.discovery = strcmp(p.opts.uri.nqn, NVMF_DISCOVERY_NQN) == 0;
	r = remote_open(&p.opts, &config);
	nvme_opts_wipe(&p.opts);
	ok = r && carry_out(&p, r);
	remote_close(r);
	return ok ? EXIT_OK : EXIT_FAILED;
}

int cmd_admin_passthru(int argc, char **argv)
{
	return run(true, argc, argv);
}

int cmd_io_passthru(int argc, char **argv)
{
	return run(false, argc, argv);
}
