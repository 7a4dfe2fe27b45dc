/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft id-ns: Identify Namespace, with nvme-cli's names and look. */
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/provider.h"
#include "cli/session.h"

int cmd_id_ns(int argc, char **argv);

struct id_ns {
	struct nvme_opts opts;
	bool raw;
};

static const struct argp_option options[] = {
	{"raw-binary", 'b', NULL, 0, "Write the 4096 bytes as they came", 3},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct id_ns *c = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &c->opts;
		return 0;
	case 'b':
		c->raw = true;
		return 0;
	case ARGP_KEY_ARG:
		nvme_opts_take_uri(&c->opts, state, arg);
		return 0;
	case ARGP_KEY_END:
		if (!c->opts.uri.host[0])
			argp_error(state, "which namespace? nvme+rdma://HOST/NQN?ns=N, or -t rdma "
					  "-a ADDRESS -n NQN -N NSID");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = {{&nvme_opts_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "nvme+rdma://HOST[:PORT]/NQN[?ns=N]\n-t rdma -a ADDRESS [-s PORT] -n NQN "
		    "[-N NSID]",
	.doc = "Show what a namespace is like (Identify Namespace). Without a namespace ID, the "
	       "only one there is.",
	.children = children,
};

static void bytes(struct output *o, const char *key, const uint8_t *v, size_t len)
{
	char text[33];

	for (size_t i = 0; i < len; i++)
		snprintf(text + 2 * i, 3, "%02x", v[i]);
	output_string(o, key, NULL, text);
}

static void formats(struct output *o, const struct nvme_id_ns *id)
{
	output_list(o, "lbafs", NULL);
	for (unsigned int i = 0; i <= id->nlbaf && i < ARRAY_SIZE(id->lbaf); i++) {
		const struct nvme_lbaf *f = &id->lbaf[i];

		output_object(o, NULL, NULL);
		if (o->format == OUTPUT_JSON) {
			output_number(o, "ms", NULL, f->ms, NULL);
			output_number(o, "ds", NULL, f->ds, NULL);
			output_number(o, "rp", NULL, f->rp & 3u, NULL);
		} else {
			output_note(o, "lbaf %2u : ms:%-3u lbads:%-2u rp:%#x%s", i, f->ms, f->ds,
				    f->rp & 3u, (id->flbas & 0xf) == i ? " (in use)" : "");
		}
		output_close(o);
	}
	output_close(o);
}

#define DEC(m) output_number(o, #m, NULL, id->m, NULL);
#define HEX(m) output_hex(o, #m, NULL, id->m);

static void show(struct output *o, const struct nvme_id_ns *id)
{
	/* clang-format off */
	HEX(nsze) HEX(ncap) HEX(nuse) HEX(nsfeat) DEC(nlbaf) HEX(flbas) HEX(mc) HEX(dpc) HEX(dps)
	HEX(nmic) HEX(rescap) HEX(fpi) DEC(dlfeat) DEC(nawun) DEC(nawupf) DEC(nacwu) DEC(nabsn)
	DEC(nabo) DEC(nabspf) DEC(noiob)
	/* 128 bits on paper; a namespace of 2^64 bytes has not been met yet. */
	output_number(o, "nvmcap", NULL, id->nvmcap.hi ? UINT64_MAX : id->nvmcap.lo, NULL);
	if (id->nsfeat & NVME_NSFEAT_OPTPERF) {
		DEC(npwg) DEC(npwa) DEC(npdg) DEC(npda) DEC(nows)
	}
	DEC(mssrl) DEC(mcl) DEC(msrc) DEC(anagrpid) DEC(nsattr) DEC(nvmsetid) DEC(endgid)
		/* clang-format on */
		bytes(o, "nguid", id->nguid, sizeof(id->nguid));
	bytes(o, "eui64", id->eui64, sizeof(id->eui64));
	formats(o, id);
}

static bool print(const struct id_ns *c, uint32_t nsid, const struct nvme_id_ns *id,
		  const void *raw)
{
	struct output o;

	if (c->raw)
		return fwrite(raw, NVME_IDENTIFY_LEN, 1, stdout) == 1 && fflush(stdout) == 0;
	output_init(&o, stdout, c->opts.format);
	o.width = 8;
	o.flat = true;
	output_note(&o, "NVME Identify Namespace %u:", nsid);
	show(&o, id);
	return output_finish(&o);
}

int cmd_id_ns(int argc, char **argv)
{
	struct session_config config = {0};
	struct id_ns c = {0};
	struct nvme_id_ns id;
	struct session *s;
	uint32_t nsid;
	int status = EXIT_FAILED;

	nvme_opts_init(&c.opts);
	cli_parse(&argp, "id-ns", argc, argv, &c);
	if (c.raw && isatty(STDOUT_FILENO))
		return cli_fail("--raw-binary writes no binary to a terminal; redirect it");
	if (provider_use(c.opts.provider))
		return EXIT_FAILED;
	s = session_open(&c.opts, &config);
	if (!s)
		return EXIT_FAILED;
	nsid = c.opts.uri.nsid;
	/* The page keeps the data as it came. */
	if (session_identify_ns(s, &nsid, &id) && print(&c, nsid, &id, s->page))
		status = EXIT_OK;
	session_close(s);
	return status;
}
