/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft id-ctrl: Identify Controller, with nvme-cli's names and look. */
#include <string.h>

#include "cli/cli.h"
#include "cli/identify.h"

int cmd_id_ctrl(int argc, char **argv);

static const struct argp argp = {
	.options = identify_options,
	.parser = identify_parse,
	.args_doc = "nvme+rdma|tcp://HOST[:PORT]/NQN\n-t rdma|tcp -a ADDRESS [-s PORT] -n NQN",
	.doc = "Show what a controller says of itself (Identify Controller).",
	.children = nvme_opts_children,
};

static void string(struct output *o, const char *key, const char *src, size_t len)
{
	char text[NVME_NQN_LEN + 1];
	size_t n = strnlen(src, len);

	while (n && src[n - 1] == ' ')
		n--;
	for (size_t i = 0; i < n; i++)
		text[i] = (unsigned char)src[i] < 0x20 || src[i] == 0x7f ? '?' : src[i];
	text[n] = 0;
	output_string(o, key, NULL, text);
}

/* Capacities have 128 bits; in decimal as nvme-cli writes them. */
static void wide(struct output *o, const char *key, struct nvme_u128 v)
{
	unsigned __int128 n = (unsigned __int128)v.hi << 64 | v.lo;
	char text[48], *p = text + sizeof(text) - 1;

	if (v.hi == 0) {
		output_number(o, key, NULL, v.lo, NULL);
		return;
	}
	*p = 0;
	for (; n; n /= 10)
		*--p = (char)('0' + (int)(n % 10));
	output_string(o, key, NULL, p);
}

#define DEC(m)	output_number(o, #m, NULL, id->m, NULL);
#define HEX(m)	output_hex(o, #m, NULL, id->m);
#define STR(m)	string(o, #m, id->m, sizeof(id->m));
#define WIDE(m) wide(o, #m, id->m);

static void show(struct output *o, const struct nvme_id_ctrl *id)
{
	char ieee[8], fguid[40];

	snprintf(ieee, sizeof(ieee), "%02x%02x%02x", id->ieee[2], id->ieee[1], id->ieee[0]);
	nvme_uuid_format(id->fguid, fguid);
	/* clang-format off */
	HEX(vid) HEX(ssvid) STR(sn) STR(mn) STR(fr) DEC(rab)
	output_string(o, "ieee", NULL, ieee);
	HEX(cmic) DEC(mdts) HEX(cntlid) HEX(ver) HEX(rtd3r) HEX(rtd3e) HEX(oaes) HEX(ctratt)
	HEX(rrls) DEC(cntrltype)
	output_string(o, "fguid", NULL, fguid);
	DEC(crdt1) DEC(crdt2) DEC(crdt3) DEC(nvmsr) DEC(vwci) DEC(mec) HEX(oacs) DEC(acl)
	DEC(aerl) HEX(frmw) HEX(lpa) DEC(elpe) DEC(npss) HEX(avscc) HEX(apsta) DEC(wctemp)
	DEC(cctemp) DEC(mtfa) DEC(hmpre) DEC(hmmin) WIDE(tnvmcap) WIDE(unvmcap) HEX(rpmbs)
	DEC(edstt) DEC(dsto) DEC(fwug) DEC(kas) HEX(hctma) DEC(mntmt) DEC(mxtmt) HEX(sanicap)
	DEC(hmminds) DEC(hmmaxd) DEC(nsetidmax) DEC(endgidmax) DEC(anatt) DEC(anacap)
	DEC(anagrpmax) DEC(nanagrpid) DEC(pels) DEC(domainid) WIDE(megcap) HEX(sqes) HEX(cqes)
	DEC(maxcmd) DEC(nn) HEX(oncs) HEX(fuses) HEX(fna) HEX(vwc) DEC(awun) DEC(awupf)
	DEC(icsvscc) DEC(nwpc) DEC(acwu) HEX(ocfs) HEX(sgls) DEC(mnan) WIDE(maxdna) DEC(maxcna)
	STR(subnqn) DEC(ioccsz) DEC(iorcsz) DEC(icdoff) DEC(fcatt) DEC(msdbd) DEC(ofcs)
	/* clang-format on */
}

static bool print(const struct identify *c, const struct session *s)
{
	struct cursor cursor = cursor_init(s->page, NVME_IDENTIFY_LEN);
	struct nvme_id_ctrl id;
	struct output o;

	if (c->raw)
		return identify_write(s);
	nvme_id_ctrl_get(&cursor, &id);
	output_init(&o, stdout, c->opts.format);
	o.width = 10;
	output_note(&o, "NVME Identify Controller:");
	show(&o, &id);
	return output_finish(&o);
}

int cmd_id_ctrl(int argc, char **argv)
{
	struct host_request req = {0};
	struct identify c;
	struct session *s = identify_begin(&c, NVME_OPTS_CONTROLLER, &argp, "id-ctrl", argc, argv);
	int status = EXIT_FAILED;

	if (!s)
		return status;
	host_prepare_identify(&req, NVME_CNS_CTRL, 0, s->page);
	if (session_exec(s, 0, &req, "Identify Controller") && print(&c, s))
		status = EXIT_OK;
	session_close(s);
	return status;
}
