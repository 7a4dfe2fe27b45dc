/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft bench: how fast a namespace is, and whether it keeps what it was given. */
#include <string.h>

#include "base/time.h"
#include "cli/bench.h"
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
};
enum { BS_DEFAULT = 4096, RUNTIME_DEFAULT_S = 10, BS_MAX = 8 << 20 };

static const char *const mode_names[] = {
	[BENCH_READ] = "read",		 [BENCH_WRITE] = "write",   [BENCH_RANDREAD] = "randread",
	[BENCH_RANDWRITE] = "randwrite", [BENCH_RANDRW] = "randrw",
};

struct cmd {
	struct nvme_opts opts;
	struct bench bench;
	uint16_t queues;
	bool poll, yes, plain;
};

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "The load:", 0},
	{"rw", KEY_RW, "read|write|randread|randwrite|randrw", 0,
	 "Commands and their order (default randread)", 0},
	{"bs", KEY_BS, "BYTES", 0, "Bytes of a command (default 4k)", 0},
	{"iodepth", KEY_DEPTH, "N", 0, "Commands under way at a time (default 1)", 0},
	{"rwmixread", KEY_MIX, "PERCENT", 0, "Reads of randrw (default 50)", 0},
	{"runtime", KEY_RUNTIME, "SECONDS", 0, "How long (default 10, unless --size or --verify)",
	 0},
	{"size", KEY_SIZE, "BYTES", 0,
	 "Only the first so many bytes of the namespace; without --runtime that much is "
	 "transferred",
	 0},
	{"verify", KEY_VERIFY, NULL, 0,
	 "Write blocks with a checksum and read them back; reads check blocks written so", 0},
	{"seed", KEY_SEED, "N", 0, "Order of random blocks (default 1)", 0},
	{"poll", KEY_POLL, NULL, 0, "Never sleep: lower latency for a whole core", 0},
	{"plain-keys", KEY_PLAIN, NULL, 0, "Do without memory windows", 0},
	{"yes", KEY_YES, NULL, 0, "Writing modes overwrite the namespace's data: yes, do", 0},
	{"nr-io-queues", 'i', "N", 0, "I/O queues (default 1)", 3},
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
	return false;
}

static bool writing_mode(enum bench_mode mode)
{
	return mode == BENCH_WRITE || mode == BENCH_RANDWRITE || mode == BENCH_RANDRW;
}

static void parse_end(struct cmd *cmd, struct argp_state *state)
{
	struct bench_config *c = &cmd->bench.config;

	if (writing_mode(c->mode) && !cmd->yes)
		argp_error(state,
			   "--rw=%s overwrites what the namespace holds; say --yes if it may",
			   mode_names[c->mode]);
	if (!c->runtime_ns && !c->area_bytes && !c->verify)
		c->runtime_ns = RUNTIME_DEFAULT_S * NSEC_PER_SEC;
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
				   "--rw is read, write, randread, randwrite or randrw, not '%s'",
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
	case KEY_VERIFY:
		c->verify = true;
		return 0;
	case KEY_SEED:
		c->seed = cli_parse_number(state, "--seed", arg, 1, UINT64_MAX - 1);
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
		cmd->queues = (uint16_t)cli_parse_number(state, "--nr-io-queues", arg, 1,
							 HOST_IO_QUEUES_MAX);
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
	.children = nvme_opts_children,
};

/* What the namespace says to the configuration. */
static bool settle(struct cmd *cmd)
{
	struct bench *b = &cmd->bench;
	struct bench_config *c = &b->config;
	uint64_t bytes = b->ns.blocks * b->ns.block_bytes;

	if (writing_mode(c->mode) && b->ns.read_only) {
		cli_fail("namespace %u of '%s' is write-protected", b->ns.nsid, b->session->nqn);
		return false;
	}
	if (c->block_bytes % b->ns.block_bytes) {
		cli_fail("--bs=%u is no multiple of the namespace's blocks of %u bytes",
			 c->block_bytes, b->ns.block_bytes);
		return false;
	}
	if (c->block_bytes > b->session->host.transfer_max) {
		cli_fail("--bs=%u is more than a command of this controller carries: %u bytes",
			 c->block_bytes, b->session->host.transfer_max);
		return false;
	}
	if (c->area_bytes > bytes) {
		cli_fail("--size=%llu is beyond the end of namespace %u, which has %llu bytes",
			 (unsigned long long)c->area_bytes, b->ns.nsid, (unsigned long long)bytes);
		return false;
	}
	if (!c->area_bytes)
		c->area_bytes = bytes;
	if (c->area_bytes < c->block_bytes) {
		cli_fail("--bs=%u is more than the %llu bytes there are", c->block_bytes,
			 (unsigned long long)c->area_bytes);
		return false;
	}
	return true;
}

static void show_side(struct output *o, const char *name, const struct bench_side *side,
		      uint64_t took_ns)
{
	const struct histogram *h = &side->latency;
	double s = (double)took_ns / 1e9;
	double iops = s > 0 ? (double)side->ios / s : 0, rate = s > 0 ? (double)side->bytes / s : 0;
	static const struct {
		const char *key, *label;
		unsigned int per_10000;
	} percentiles[] = {{"p50", "p50", 5000}, {"p99", "p99", 9900}, {"p999", "p99.9", 9990}};
	char text[48], part[32];

	if (side->ios == 0)
		return;
	output_object(o, name, "%s", name);
	output_number(o, "ios", "commands", side->ios, NULL);
	output_number(o, "bytes", "data", side->bytes, text_bytes(text, sizeof(text), side->bytes));
	snprintf(text, sizeof(text), iops < 100 ? "%.1f" : "%.0f", iops);
	output_real(o, "iops", "IOPS", iops, text);
	snprintf(text, sizeof(text), "%s/s", text_bytes(part, sizeof(part), (uint64_t)rate));
	output_real(o, "bytes_per_second", "bandwidth", rate, text);
	output_object(o, "latency_ns", "latency");
	output_number(o, "min", NULL, h->min_ns, text_duration(text, sizeof(text), h->min_ns));
	output_number(o, "avg", NULL, histogram_mean(h),
		      text_duration(text, sizeof(text), histogram_mean(h)));
	for (size_t i = 0; i < ARRAY_SIZE(percentiles); i++) {
		uint64_t ns = histogram_percentile(h, percentiles[i].per_10000);

		output_number(o, percentiles[i].key, percentiles[i].label, ns,
			      text_duration(text, sizeof(text), ns));
	}
	output_number(o, "max", NULL, h->max_ns, text_duration(text, sizeof(text), h->max_ns));
	output_close(o);
	output_close(o);
}

/* What our side of the wire says of why it was not faster. */
static void show_rnic(struct output *o, const struct bench_rnic *n)
{
	const struct {
		const char *key, *label;
		uint64_t value;
		bool always;
	} rows[] = {
		{"tx_packets", "sent", n->tx_packets, true},
		{"rx_packets", "received", n->rx_packets, true},
		{"retransmits", "sent again", n->retransmits, true},
		{"naks_received", "NAKs in", n->naks_received, false},
		{"naks_sent", "NAKs out", n->naks_sent, false},
		{"rnr_naks_received", "RNR NAKs in", n->rnr_naks_received, false},
		{"rnr_naks_sent", "RNR NAKs out", n->rnr_naks_sent, false},
		{"probes", "probes", n->probes, false},
		{"timeouts", "timeouts", n->timeouts, false},
		{"window_stalls", "window full", n->window_stalls, false},
		{"budget_stalls", "peer full", n->budget_stalls, false},
		{"drops", "dropped", n->drops, false},
		{"socket_drops", "socket drops", n->socket_drops, false},
	};

	output_object(o, "rnic", "packets");
	o->width = 12;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].value || rows[i].always || o->format == OUTPUT_JSON)
			output_number(o, rows[i].key, rows[i].label, rows[i].value, NULL);
	output_close(o);
}

/* ok: it ran to its end, and every block was right. */
static bool report(const struct cmd *cmd, bool ok)
{
	const struct bench *b = &cmd->bench;
	const struct bench_config *c = &b->config;
	double s = (double)b->took_ns / 1e9;
	char bs[32], took[32], text[64];
	const struct transport_host *t = b->session->transport;
	struct transport_host_info info;
	const char *ended = ok ? "done" : session_interrupted() ? "interrupted" : "failed";
	struct output o;

	t->ops->info(t, &info);
	output_init(&o, stdout, cmd->opts.format);
	o.width = 10;
	if (!ok)
		output_note(&o, "%s: these are the figures until then", ended);
	output_note(&o, "%s of %s, %u under way on %u queue%s, %s, namespace %u of %s at %s",
		    mode_names[c->mode], text_bytes(bs, sizeof(bs), c->block_bytes), c->depth,
		    b->session->host.io_queues, b->session->host.io_queues == 1 ? "" : "s",
		    text_duration(took, sizeof(took), b->took_ns), b->ns.nsid, b->session->nqn,
		    b->session->place);
	if (c->depth > b->session->host.io_queues * (cmd->opts.queue_size - 1u))
		output_note(&o, "(the queues hold fewer: --queue-size, --nr-io-queues)");
	if (cmd->opts.format == OUTPUT_JSON) {
		output_string(&o, "ended", NULL, ended);
		output_string(&o, "rw", NULL, mode_names[c->mode]);
		output_number(&o, "bs", NULL, c->block_bytes, NULL);
		output_number(&o, "iodepth", NULL, c->depth, NULL);
		output_number(&o, "queues", NULL, b->session->host.io_queues, NULL);
		output_bool(&o, "poll", NULL, cmd->poll);
		output_real(&o, "seconds", NULL, s, NULL);
		output_number(&o, "nsid", NULL, b->ns.nsid, NULL);
		output_string(&o, "subnqn", NULL, b->session->nqn);
		output_number(&o, "reconnects", NULL, b->session->host.reconnects, NULL);
	}
	show_side(&o, "read", &b->read, b->took_ns);
	show_side(&o, "write", &b->write, b->took_ns);
	show_side(&o, "verify", &b->check, b->check_ns);
	output_object(&o, "cpu", "this process");
	snprintf(text, sizeof(text), "%.0f %%", s > 0 ? b->cpu_user_s / s * 100 : 0);
	output_real(&o, "user_s", "user", b->cpu_user_s, text);
	snprintf(text, sizeof(text), "%.0f %%", s > 0 ? b->cpu_system_s / s * 100 : 0);
	output_real(&o, "system_s", "system", b->cpu_system_s, text);
	if (info.device || cmd->opts.format == OUTPUT_JSON)
		output_string(&o, "device", NULL, info.device ? info.device : "");
	if (info.keys || cmd->opts.format == OUTPUT_JSON)
		output_string(&o, "keys", NULL, info.keys ? info.keys : "");
	output_close(&o);
	if (b->seen)
		show_rnic(&o, &b->rnic);
	if (c->verify && ok)
		output_note(&o, "verified: every block read was right");
	return output_finish(&o);
}

int cmd_bench(int argc, char **argv)
{
	static struct cmd cmd = {
		.queues = 1,
		.bench.config = {.mode = BENCH_RANDREAD,
				 .block_bytes = BS_DEFAULT,
				 .depth = 1,
				 .read_percent = 50,
				 .seed = 1},
	};
	struct session_config config = {.reconnect = true};
	struct bench *b = &cmd.bench;
	bool ok;

	nvme_opts_init(&cmd.opts, NVME_OPTS_NAMESPACE);
	cli_parse(&argp, "bench", argc, argv, &cmd);
	config.io_queues = cmd.queues;
	config.poll = cmd.poll;
	config.plain_keys = cmd.plain;
	b->session = session_open(&cmd.opts, &config);
	if (!b->session)
		return EXIT_FAILED;
	ok = session_namespace(b->session, cmd.opts.uri.nsid, &b->ns) && settle(&cmd) &&
	     bench_init(b);
	if (ok) {
		ok = bench_run(b);
		ok = report(&cmd, ok) && ok;
	}
	session_close(b->session);
	bench_fini(b);
	return ok ? EXIT_OK : EXIT_FAILED;
}
