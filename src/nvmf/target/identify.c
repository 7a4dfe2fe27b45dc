/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Identify: what a controller and its namespaces are. Base 2.0 section 5.17. */
#include "nvmf/target/internal.h"

#define SQE_CNS 40

static struct wcursor reply(struct target_req *r)
{
	return wcursor_init(r->data, NVME_IDENTIFY_LEN);
}

static void execute_id_ctrl(struct target_req *r)
{
	const struct target_ctrl *c = r->queue->ctrl;
	const struct target_subsys *s = c->subsys;
	const struct target_transport_ops *ops = r->queue->ops;
	struct wcursor w = reply(r);
	struct nvme_id_ctrl id = {
		.vid = s->vid,
		.ssvid = s->ssvid,
		.ieee = {(uint8_t)s->oui, (uint8_t)(s->oui >> 8), (uint8_t)(s->oui >> 16)},
		.cmic = NVME_CMIC_MULTI_PORT | NVME_CMIC_MULTI_CTRL,
		.mdts = c->mdts,
		.cntlid = c->cntlid,
		.ver = c->vs,
		.oaes = TARGET_OAES(s),
		.ctratt = NVME_CTRATT_HOSTID_128 | NVME_CTRATT_TBKAS,
		.cntrltype = s->discovery ? NVME_CNTRLTYPE_DISCOVERY : NVME_CNTRLTYPE_IO,
		.acl = 3,
		.aerl = TARGET_AER_MAX - 1,
		.frmw = 1u << 1 | 1u << 0, /* one slot, read-only */
		.lpa = NVME_LPA_EFFECTS | NVME_LPA_EXTENDED,
		.elpe = TARGET_ERRLOG_ENTRIES - 1,
		.kas = TARGET_KAS,
		.maxcmd = (uint16_t)(NVME_CAP_MQES(c->cap) + 1),
		.sgls = NVME_SGLS_SUPPORTED,
		.ioccsz = NVME_SQE_LEN / 16,
		.iorcsz = NVME_CQE_LEN / 16,
		.msdbd = 1,
	};

	nvmf_pad(id.sn, sizeof(id.sn), s->serial);
	nvmf_pad(id.mn, sizeof(id.mn), s->model);
	nvmf_pad(id.fr, sizeof(id.fr), s->firmware);
	memcpy(id.subnqn, s->nqn, sizeof(id.subnqn));
	id.sgls |= ops->sgl == NVME_SGL_KEYED_DATA_BLOCK ? NVME_SGLS_KEYED : NVME_SGLS_TRANSPORT;
	if (!s->discovery) {
		id.sqes = 6 << 4 | 6;
		id.cqes = 4 << 4 | 4;
		id.nn = TARGET_NS_MAX;
		id.mnan = TARGET_NS_MAX;
		id.oncs = NVME_ONCS_COMPARE | NVME_ONCS_WRITE_UNCORR | NVME_ONCS_DSM |
			  NVME_ONCS_WRITE_ZEROES | NVME_ONCS_VERIFY | NVME_ONCS_COPY;
		id.ocfs = NVME_OCFS_FORMAT_0;
		id.nwpc = NVME_NWPC_PROTECT;
		id.fuses = NVME_FUSES_COMPARE_WRITE;
		id.acwu = TARGET_ACWU - 1;
		id.ofcs = NVME_OFCS_DISCONNECT;
		id.vwc = NVME_VWC_FLUSH_ALL_REFUSE;
		for (uint32_t i = 0; i < s->nn; i++)
			if (s->ns[i] && s->ns[i]->store->volatile_cache)
				id.vwc |= NVME_VWC_PRESENT;
		id.sgls |= NVME_SGLS_OFFSET;
		id.ioccsz += c->capsule_data / 16;
		/* Descriptors of a list come within the capsule, too. */
		id.msdbd = (uint8_t)min_of((uint32_t)ops->sgl_max, c->capsule_data / NVME_SGL_LEN);
		if (!id.msdbd)
			id.msdbd = 1;
	}
	nvme_id_ctrl_put(&w, &id);
	req_complete(r, NVME_SC_SUCCESS);
}

/* A namespace that could be there but is not is all zeroes. */
static const struct target_ns *ns_of(const struct target_req *r)
{
	const struct target_subsys *s = r->queue->ctrl->subsys;

	return r->sqe.nsid <= s->nn ? s->ns[r->sqe.nsid - 1] : NULL;
}

static void execute_id_ns(struct target_req *r)
{
	const struct target_ns *ns = ns_of(r);
	struct wcursor w = reply(r);
	struct nvme_id_ns id = {0};

	if (ns) {
		id.nsze = id.ncap = id.nuse = ns->nlb;
		id.nmic = NVME_NMIC_SHARED;
		id.nvmcap.lo = ns->nlb << ns->lba_shift;
		id.nvmcap.hi = ns->nlb >> (64 - ns->lba_shift);
		id.nsattr = ns_write_protected(ns) ? NVME_NSATTR_WRITE_PROTECTED : 0;
		memcpy(id.nguid, ns->nguid, sizeof(id.nguid));
		id.lbaf[0].ds = ns->lba_shift;
		id.mssrl = (uint16_t)(TARGET_SCRATCH_MAX >> ns->lba_shift);
		id.mcl = id.mssrl;
		id.msrc = TARGET_COPY_RANGES - 1;
		if (ns->store->discard_zeroes)
			id.dlfeat = NVME_DLFEAT_READ_ZEROES | NVME_DLFEAT_WZ_DEAC;
		if (ns->store->optimal_io > 1u << ns->lba_shift) {
			uint16_t unit = (uint16_t)((ns->store->optimal_io >> ns->lba_shift) - 1);

			id.nsfeat |= NVME_NSFEAT_OPTPERF;
			id.npwg = id.npwa = id.npdg = id.npda = id.nows = unit;
		}
	}
	nvme_id_ns_put(&w, &id);
	req_complete(r, NVME_SC_SUCCESS);
}

static void execute_id_ns_list(struct target_req *r)
{
	const struct target_subsys *s = r->queue->ctrl->subsys;
	struct wcursor w = reply(r);
	uint32_t ids[TARGET_NS_MAX], count = 0;

	for (uint32_t i = r->sqe.nsid; i < s->nn; i++) /* IDs greater than NSID */
		if (s->ns[i])
			ids[count++] = i + 1;
	nvme_ns_list_put(&w, ids, count);
	req_complete(r, NVME_SC_SUCCESS);
}

static void execute_id_ns_descs(struct target_req *r)
{
	struct wcursor w = reply(r);
	uint8_t csi = NVME_CSI_NVM;

	nvme_ns_desc_put(&w, NVME_NIDT_NGUID, r->ns->nguid, sizeof(r->ns->nguid));
	nvme_ns_desc_put(&w, NVME_NIDT_UUID, r->ns->uuid, sizeof(r->ns->uuid));
	nvme_ns_desc_put(&w, NVME_NIDT_CSI, &csi, 1);
	wcursor_zero(&w, (size_t)(w.end - w.p));
	req_complete(r, NVME_SC_SUCCESS);
}

/* --- by command set -------------------------------------------------------------------------- */

/* Of formats with protection information, which there are not. */
static void execute_id_ns_nvm(struct target_req *r)
{
	struct wcursor w = reply(r);

	wcursor_zero(&w, NVME_IDENTIFY_LEN);
	req_complete(r, NVME_SC_SUCCESS);
}

/* Of Write Zeroes the limit is advice, as ONCS says that there is the command: for
 * hosts that would ask for no more than MDTS. All that NLB can say is carried out. */
static void execute_id_ctrl_nvm(struct target_req *r)
{
	struct wcursor w = reply(r);
	struct nvme_id_ctrl_nvm id = {.wzsl = TARGET_WZSL};

	nvme_id_ctrl_nvm_put(&w, &id);
	req_complete(r, NVME_SC_SUCCESS);
}

static void execute_id_ns_any(struct target_req *r)
{
	const struct target_ns *ns = ns_of(r);
	struct wcursor w = reply(r);
	struct nvme_id_independent_ns id = {0};

	if (ns) {
		id.nmic = NVME_NMIC_SHARED;
		id.nsattr = ns_write_protected(ns) ? NVME_NSATTR_WRITE_PROTECTED : 0;
		id.nstat = NVME_NSTAT_READY;
	}
	nvme_id_independent_ns_put(&w, &id);
	req_complete(r, NVME_SC_SUCCESS);
}

static void execute_iocs(struct target_req *r)
{
	struct wcursor w = reply(r);

	wcursor_le64(&w, 1u << NVME_CSI_NVM);
	wcursor_zero(&w, NVME_IDENTIFY_LEN - 8);
	req_complete(r, NVME_SC_SUCCESS);
}

/* --- the table -------------------------------------------------------------------------------- */

/* NSID ffffffff asks for what all namespaces share: only with their management. */
static uint16_t check_id_ns(struct target_req *r)
{
	if (r->sqe.nsid == 0 || r->sqe.nsid > TARGET_NS_MAX)
		return req_fail_at(r, 4, FAIL(NVME_SC_INVALID_NS));
	return NVME_SC_SUCCESS;
}

static uint16_t check_id_ns_list(struct target_req *r)
{
	if (r->sqe.nsid >= NVME_NSID_ALL - 1)
		return req_fail_at(r, 4, FAIL(NVME_SC_INVALID_NS));
	return NVME_SC_SUCCESS;
}

/*
 * By command set (CSI) and structure (CNS). Those of 10 to 13 go with namespace management, which
 * there is not.
 */
#define CSI_ANY (-1) /* the structure is of no command set: its CSI means nothing */

struct identify {
	int csi;
	uint8_t cns;
	bool discovery; /* also of a discovery controller */
	target_parse_fn *check;
	void (*execute)(struct target_req *r);
};

static const struct identify table[] = {
	{CSI_ANY, NVME_CNS_NS, false, check_id_ns, execute_id_ns},
	{CSI_ANY, NVME_CNS_CTRL, true, NULL, execute_id_ctrl},
	{CSI_ANY, NVME_CNS_ACTIVE_NS_LIST, false, check_id_ns_list, execute_id_ns_list},
	{CSI_ANY, NVME_CNS_NS_DESC_LIST, false, req_find_ns, execute_id_ns_descs},
	{NVME_CSI_NVM, NVME_CNS_CS_NS, false, check_id_ns, execute_id_ns_nvm},
	{NVME_CSI_NVM, NVME_CNS_CS_CTRL, false, NULL, execute_id_ctrl_nvm},
	{NVME_CSI_NVM, NVME_CNS_CS_NS_LIST, false, check_id_ns_list, execute_id_ns_list},
	{CSI_ANY, NVME_CNS_CS_INDEPENDENT_NS, false, check_id_ns, execute_id_ns_any},
	{CSI_ANY, NVME_CNS_IO_COMMAND_SETS, false, NULL, execute_iocs},
};

static const struct identify *find(const struct target_req *r)
{
	uint8_t cns = (uint8_t)r->sqe.cdw10, csi = (uint8_t)(r->sqe.cdw11 >> 24);

	for (unsigned i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].cns == cns && (table[i].csi == CSI_ANY || table[i].csi == csi) &&
		    (table[i].discovery || !r->queue->ctrl->subsys->discovery))
			return &table[i];
	return NULL;
}

uint16_t parse_identify(struct target_req *r)
{
	const struct identify *id = find(r);
	uint16_t status;

	if (!id)
		return req_fail_at(r, SQE_CNS, FAIL(NVME_SC_INVALID_FIELD));
	status = id->check ? id->check(r) : NVME_SC_SUCCESS;
	if (status)
		return status;
	r->execute = id->execute;
	return req_expects(r, NVME_IDENTIFY_LEN);
}
