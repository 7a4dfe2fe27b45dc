/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft id-ns: Identify Namespace, with nvme-cli's names and look. */
#include "cli/cli.h"
#include "cli/identify.h"

int cmd_id_ns(int argc, char **argv);

static const struct argp argp = {
	.options = identify_options,
	.parser = identify_parse,
	.args_doc = NVME_NAMESPACE_ARGS,
	.doc = "Show what a namespace is like (Identify Namespace). Without a namespace ID, the "
	       "only one there is.",
	.children = nvme_opts_children,
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

/* The session's page keeps the data as it came. */
static bool print(const struct identify *c, uint32_t nsid, const struct nvme_id_ns *id,
		  const struct session *s)
{
	struct output o;

	if (c->raw)
		return identify_write(s);
	output_init(&o, stdout, c->opts.format);
	o.width = 8;
	o.flat = true;
	output_note(&o, "NVME Identify Namespace %u:", nsid);
	if (c->opts.format == OUTPUT_JSON)
		output_number(&o, "nsid", NULL, nsid, NULL);
	show(&o, id);
	return output_finish(&o);
}

int cmd_id_ns(int argc, char **argv)
{
	struct identify c;
	struct session *s = identify_begin(&c, NVME_OPTS_NAMESPACE, &argp, "id-ns", argc, argv);
	struct nvme_id_ns id;
	uint32_t nsid = c.opts.uri.nsid;
	int status = EXIT_FAILED;

	if (!s)
		return status;
	if (session_identify_ns(s, &nsid, &id) && print(&c, nsid, &id, s))
		status = EXIT_OK;
	session_close(s);
	return status;
}
