/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft bench: how fast a namespace is, and whether it keeps what it was given. */
#include <string.h>

#include "base/time.h"
#include "cli/bench_report.h"
#include "cli/cli.h"

int cmd_bench(int argc, char **argv);

enum {
	KEY_RW = 0x200,
	KEY_BS,
	KEY_DEPTH,
	KEY_RUNTIME,
	KEY_SIZE,
	KEY_VERIFY,
	KEY_POLL,
	KEY_YES,
	KEY_MIX,
	KEY_SEED,
	KEY_PLAIN,
	KEY_RATE,
	KEY_RATE_IOPS,
	KEY_JOBS,
	KEY_GROUP,
	KEY_MIX_WRITE,
	KEY_OFFSET,
	KEY_RAMP,
	KEY_NAME,
	KEY_TIME_BASED,
	KEY_DO_VERIFY,
	KEY_PATTERN,
};
enum { BS_DEFAULT = 4096, RUNTIME_DEFAULT_S = 10, BS_MAX = 8 << 20 };

static const char *const mode_names[] = {
	[BENCH_READ] = "read",	       [BENCH_WRITE] = "write",		[BENCH_RW] = "rw",
	[BENCH_RANDREAD] = "randread", [BENCH_RANDWRITE] = "randwrite", [BENCH_RANDRW] = "randrw",
	[BENCH_TRIM] = "trim",	       [BENCH_RANDTRIM] = "randtrim",
};

struct cmd {
	struct nvme_opts opts;
	struct bench bench;
	const char *name;
	uint64_t rate, rate_iops; /* a second; 0: as many as go */
	bool poll, yes, plain, group;
};

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "The load:", 0},
	{"rw", KEY_RW, "read|write|rw|randread|randwrite|randrw|trim|randtrim", 0,
	 "Commands and their order (default randread)", 0},
	{"readwrite", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
	{"bs", KEY_BS, "BYTES", 0, "Bytes of a command (default 4k)", 0},
	{"iodepth", KEY_DEPTH, "N", 0, "Commands under way at a time (default 1)", 0},
	{"numjobs", KEY_JOBS, "N", 0,
	 "So many jobs at a time, each with queues of its own (default 1)", 0},
	{"group-reporting", KEY_GROUP, NULL, 0, "Figures of all jobs together in JSON, too", 0},
	{"group_reporting", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
	{"name", KEY_NAME, "WORD", 0, "What the job is called in JSON (default weft)", 0},
	{"rwmixread", KEY_MIX, "PERCENT", 0, "Reads of rw and randrw (default 50)", 0},
	{"rwmixwrite", KEY_MIX_WRITE, "PERCENT", 0, "Or their writes", 0},
	{"ramp-time", KEY_RAMP, "SECONDS", 0, "Before it is measured", 0},
	{"ramp_time", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
	{"time-based", KEY_TIME_BASED, NULL, 0, "For all of --runtime, as always", 0},
	{"time_based", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
	{"offset", KEY_OFFSET, "BYTES", 0, "Where in the namespace to begin (default 0)", 0},
	{"runtime", KEY_RUNTIME, "SECONDS", 0, "How long (default 10, unless --size or --verify)",
	 0},
	{"size", KEY_SIZE, "BYTES", 0,
	 "Only so many bytes of the namespace; without --runtime each job transfers that much", 0},
	{"verify", KEY_VERIFY, "crc32c|crc32|crc64|sha256|sha384|sha512|meta|pattern",
	 OPTION_ARG_OPTIONAL,
	 "Write blocks with a checksum (default crc32c) and read them back; reads check blocks "
	 "written "
	 "so",
	 0},
	{"verify-pattern", KEY_PATTERN, "BYTES", 0,
	 "What pattern writes: 0x and digits, or a word (default 0xa5)", 0},
	{"verify_pattern", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
	{"do-verify", KEY_DO_VERIFY, "0|1", 0, "Whether it is read back in the end (default 1)", 0},
	{"do_verify", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
	{"rate", KEY_RATE, "BYTES", 0, "At most so many a second, of each job", 0},
	{"rate-iops", KEY_RATE_IOPS, "N", 0, "At most so many commands a second, of each job", 0},
	{"rate_iops", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
	{"seed", KEY_SEED, "N", 0, "Order of random blocks (default 1)", 0},
	{"randseed", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
	{"poll", KEY_POLL, NULL, 0, "Never sleep: lower latency for a whole core", 0},
	{"plain-keys", KEY_PLAIN, NULL, 0, "Do without memory windows", 0},
	{"yes", KEY_YES, NULL, 0, "Writing modes overwrite the namespace's data: yes, do", 0},
	{"nr-io-queues", 'i', "N", 0, "I/O queues of each job (default 1)", 3},
	{0},
};

static bool mode_parse(const char *text, enum bench_mode *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(mode_names); i++) {
		if (strcmp(text, mode_names[i]) == 0) {
			*ret = (enum bench_mode)i;
			return true;
		}
	}
	*ret = BENCH_RW;
	return strcmp(text, "readwrite") == 0;
}

static bool writing_mode(enum bench_mode mode)
{
	return mode != BENCH_READ && mode != BENCH_RANDREAD;
}

static bool trimming_mode(enum bench_mode mode)
{
	return mode == BENCH_TRIM || mode == BENCH_RANDTRIM;
}

static void parse_end(struct cmd *cmd, struct argp_state *state)
{
	struct bench_config *c = &cmd->bench.config;

	if (writing_mode(c->mode) && !cmd->yes)
		argp_error(state,
			   "--rw=%s overwrites what the namespace holds; say --yes if it may",
			   mode_names[c->mode]);
	if (trimming_mode(c->mode) && c->verify)
		argp_error(state,
			   "--verify has nothing to check with --rw=%s: what is deallocated "
			   "may hold anything",
			   mode_names[c->mode]);
	if ((uint64_t)c->jobs * c->queues > WEFT_IO_QUEUES_MAX)
		argp_error(state, "--numjobs times --nr-io-queues is at most %u",
			   WEFT_IO_QUEUES_MAX);
	if ((uint64_t)c->jobs * c->depth > BENCH_DEPTH_MAX)
		argp_error(state, "--numjobs times --iodepth is at most %d", BENCH_DEPTH_MAX);
	if (!c->runtime_ns && !c->area_bytes && !c->verify)
		c->runtime_ns = RUNTIME_DEFAULT_S * NSEC_PER_SEC;
	if (cmd->rate && cmd->rate_iops)
		argp_error(state, "--rate and --rate-iops are two limits of one thing; say one");
	if (cmd->rate_iops)
		c->interval_ns = NSEC_PER_SEC / cmd->rate_iops;
	else if (cmd->rate)
		c->interval_ns = (uint64_t)((double)c->block_bytes / (double)cmd->rate * 1e9);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct cmd *cmd = state->input;
	struct bench_config *c = &cmd->bench.config;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &cmd->opts;
		return 0;
	case KEY_RW:
		if (!mode_parse(arg, &c->mode))
			argp_error(state,
				   "--rw is read, write, rw, randread, randwrite, randrw, trim "
				   "or randtrim, not '%s'",
				   arg);
		return 0;
	case KEY_BS:
		c->block_bytes = (uint32_t)cli_parse_size(state, "--bs", arg, 512, BS_MAX);
		return 0;
	case KEY_DEPTH:
		c->depth = (uint32_t)cli_parse_number(state, "--iodepth", arg, 1, BENCH_DEPTH_MAX);
		return 0;
	case KEY_MIX:
		c->read_percent = (uint32_t)cli_parse_number(state, "--rwmixread", arg, 0, 100);
		return 0;
	case KEY_RUNTIME:
		c->runtime_ns = cli_parse_number(state, "--runtime", arg, 1, 864000) * NSEC_PER_SEC;
		return 0;
	case KEY_SIZE:
		c->area_bytes = cli_parse_size(state, "--size", arg, 512, UINT64_MAX >> 1);
		return 0;
	case KEY_MIX_WRITE:
		c->read_percent =
			100 - (uint32_t)cli_parse_number(state, "--rwmixwrite", arg, 0, 100);
		return 0;
	case KEY_VERIFY:
		c->verify = true;
		if (arg && !pattern_kind_parse(arg, &c->pattern.kind))
			argp_error(state,
				   "--verify is crc32c, crc32, crc64, sha256, sha384, sha512, "
				   "meta or pattern, not '%s'",
				   arg);
		return 0;
	case KEY_PATTERN:
		if (!pattern_bytes_parse(arg, &c->pattern))
			argp_error(state,
				   "--verify-pattern takes 0x and pairs of digits, or a word, of "
				   "at most %d bytes, not '%s'",
				   PATTERN_BYTES_MAX, arg);
		return 0;
	case KEY_DO_VERIFY:
		c->read_back = cli_parse_number(state, "--do-verify", arg, 0, 1);
		return 0;
	case KEY_JOBS:
		c->jobs = (uint32_t)cli_parse_number(state, "--numjobs", arg, 1, BENCH_JOBS_MAX);
		return 0;
	case KEY_GROUP:
		cmd->group = true;
		return 0;
	case KEY_NAME:
		cmd->name = arg;
		return 0;
	case KEY_TIME_BASED:
		return 0;
	case KEY_RAMP:
		c->ramp_ns = cli_parse_number(state, "--ramp-time", arg, 0, 86400) * NSEC_PER_SEC;
		return 0;
	case KEY_OFFSET:
		c->offset = cli_parse_size(state, "--offset", arg, 0, UINT64_MAX >> 1);
		return 0;
	case KEY_SEED:
		c->seed = cli_parse_number(state, "--seed", arg, 1, UINT64_MAX - 1);
		return 0;
	case KEY_RATE:
		cmd->rate = cli_parse_size(state, "--rate", arg, 512, UINT64_MAX >> 1);
		return 0;
	case KEY_RATE_IOPS:
		cmd->rate_iops = cli_parse_number(state, "--rate-iops", arg, 1, NSEC_PER_SEC);
		return 0;
	case KEY_POLL:
		cmd->poll = true;
		return 0;
	case KEY_PLAIN:
		cmd->plain = true;
		return 0;
	case KEY_YES:
		cmd->yes = true;
		return 0;
	case 'i':
		c->queues = (uint32_t)cli_parse_number(state, "--nr-io-queues", arg, 1,
						       WEFT_IO_QUEUES_MAX);
		return 0;
	case ARGP_KEY_END:
		parse_end(cmd, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = NVME_NAMESPACE_ARGS,
	.doc = "Measure a namespace: operations per second, bandwidth and latencies.\v"
	       "Latencies are from handing a command to the host until its response was seen.",
	.children = nvme_connect_children,
};

/* What the namespace says to the configuration. */
static bool settle(struct cmd *cmd)
{
	struct bench *b = &cmd->bench;
	struct bench_config *c = &b->config;
	uint64_t bytes = b->ns.blocks * b->ns.block_bytes;

	if (writing_mode(c->mode) && b->ns.read_only) {
		cli_fail("namespace %u of '%s' is write-protected", b->ns.nsid,
			 b->remote->info.nqn);
		return false;
	}
	if (c->block_bytes % b->ns.block_bytes) {
		cli_fail("--bs=%u is no multiple of the namespace's blocks of %u bytes",
			 c->block_bytes, b->ns.block_bytes);
		return false;
	}
	if (!trimming_mode(c->mode) && c->block_bytes > b->remote->info.transfer_max) {
		cli_fail("--bs=%u is more than a command of this controller carries: %u bytes",
			 c->block_bytes, b->remote->info.transfer_max);
		return false;
	}
	if (c->offset % b->ns.block_bytes) {
		cli_fail("--offset=%llu is no multiple of the namespace's blocks of %u bytes",
			 (unsigned long long)c->offset, b->ns.block_bytes);
		return false;
	}
	if (c->offset >= bytes || c->area_bytes > bytes - c->offset) {
		cli_fail("--size=%llu%s is beyond the end of namespace %u, which has %llu bytes",
			 (unsigned long long)c->area_bytes, c->offset ? " from --offset on" : "",
			 b->ns.nsid, (unsigned long long)bytes);
		return false;
	}
	if (!c->area_bytes)
		c->area_bytes = bytes - c->offset;
	if (c->area_bytes < c->block_bytes) {
		cli_fail("--bs=%u is more than the %llu bytes there are", c->block_bytes,
			 (unsigned long long)c->area_bytes);
		return false;
	}
	return true;
}

int cmd_bench(int argc, char **argv)
{
	static struct cmd cmd = {
		.name = "weft",
		.bench.config = {.mode = BENCH_RANDREAD,
				 .block_bytes = BS_DEFAULT,
				 .depth = 1,
				 .jobs = 1,
				 .queues = 1,
				 .read_back = true,
				 .pattern = {.bytes = {0xa5}, .bytes_len = 1},
				 .read_percent = 50,
				 .seed = 1},
	};
	struct remote_config config = {.reconnect = true};
	struct bench *b = &cmd.bench;
	bool ok;

	nvme_opts_init(&cmd.opts, NVME_OPTS_NAMESPACE);
	cli_parse(&argp, "bench", argc, argv, &cmd);
	config.io_queues = (uint16_t)(b->config.jobs * b->config.queues);
	config.poll = cmd.poll;
	config.plain_keys = cmd.plain;
	b->remote = remote_open(&cmd.opts, &config);
	nvme_opts_wipe(&cmd.opts);
	if (!b->remote)
		return EXIT_FAILED;
	ok = remote_namespace(b->remote, cmd.opts.uri.nsid, &b->ns) && settle(&cmd) &&
	     bench_init(b);
	if (ok) {
		ok = bench_run(b);
		ok = bench_report(&(struct bench_report){.bench = b,
							 .mode = mode_names[b->config.mode],
							 .name = cmd.name,
							 .group = cmd.group,
							 .queue_size = cmd.opts.queue_size,
							 .format = cmd.opts.format,
							 .ok = ok}) &&
		     ok;
	}
	remote_close(b->remote);
	bench_fini(b);
	return ok ? EXIT_OK : EXIT_FAILED;
}
