/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/nvme_identify.h"

#include <errno.h>

#include "wire/nvme_schema.h"

/* The number before each line is its offset. clang-format cannot read them. */
/* clang-format off */
#define ID_CTRL(V)                                                                             \
	/* 0 */ V(le16, vid) V(le16, ssvid) V(bytes, sn) V(bytes, mn) V(bytes, fr)             \
	/* 72 */ V(u8, rab) V(bytes, ieee) V(u8, cmic) V(u8, mdts) V(le16, cntlid)             \
	/* 80 */ V(le32, ver) V(le32, rtd3r) V(le32, rtd3e) V(le32, oaes) V(le32, ctratt)      \
	/* 100 */ V(le16, rrls) V(zero, 9) V(u8, cntrltype) V(bytes, fguid)                    \
	/* 128 */ V(le16, crdt1) V(le16, crdt2) V(le16, crdt3) V(zero, 119)                    \
	/* 253 */ V(u8, nvmsr) V(u8, vwci) V(u8, mec)                                          \
	/* 256 */ V(le16, oacs) V(u8, acl) V(u8, aerl) V(u8, frmw) V(u8, lpa) V(u8, elpe)      \
	/* 263 */ V(u8, npss) V(u8, avscc) V(u8, apsta) V(le16, wctemp) V(le16, cctemp)        \
	/* 270 */ V(le16, mtfa) V(le32, hmpre) V(le32, hmmin) V(le128, tnvmcap)                \
	/* 296 */ V(le128, unvmcap) V(le32, rpmbs) V(le16, edstt) V(u8, dsto) V(u8, fwug)      \
	/* 320 */ V(le16, kas) V(le16, hctma) V(le16, mntmt) V(le16, mxtmt) V(le32, sanicap)   \
	/* 332 */ V(le32, hmminds) V(le16, hmmaxd) V(le16, nsetidmax) V(le16, endgidmax)       \
	/* 342 */ V(u8, anatt) V(u8, anacap) V(le32, anagrpmax) V(le32, nanagrpid)             \
	/* 352 */ V(le32, pels) V(le16, domainid) V(zero, 10) V(le128, megcap) V(zero, 128)    \
	/* 512 */ V(u8, sqes) V(u8, cqes) V(le16, maxcmd) V(le32, nn) V(le16, oncs)            \
	/* 522 */ V(le16, fuses) V(u8, fna) V(u8, vwc) V(le16, awun) V(le16, awupf)            \
	/* 530 */ V(u8, icsvscc) V(u8, nwpc) V(le16, acwu) V(le16, ocfs) V(le32, sgls)         \
	/* 540 */ V(le32, mnan) V(le128, maxdna) V(le32, maxcna) V(zero, 204)                  \
	/* 768 */ V(bytes, subnqn) V(zero, 768)                                                \
	/* 1792 */ V(le32, ioccsz) V(le32, iorcsz) V(le16, icdoff) V(u8, fcatt) V(u8, msdbd)   \
	/* 1804 */ V(le16, ofcs) V(u8, dctype) V(zero, 241)
#define POWER_STATE(V)                                                                         \
	/* 0 */ V(le16, mp) V(zero, 1) V(u8, flags) V(le32, enlat) V(le32, exlat) V(u8, rrt)   \
	/* 13 */ V(u8, rrl) V(u8, rwt) V(u8, rwl) V(le16, idlp) V(u8, ips) V(zero, 1)          \
	/* 20 */ V(le16, actp) V(u8, apws) V(zero, 9)
/* clang-format on */
#define ID_CTRL_PSD_END (2048 + 32 * 32)

void nvme_id_ctrl_get(struct cursor *c, struct nvme_id_ctrl *id)
{
	{
		struct nvme_id_ctrl *s = id;
		ID_CTRL(NVME_GET)
	}
	for (unsigned i = 0; i < ARRAY_SIZE(id->psd); i++) {
		struct nvme_power_state *s = &id->psd[i];
		POWER_STATE(NVME_GET)
	}
	cursor_skip(c, NVME_IDENTIFY_LEN - ID_CTRL_PSD_END);
}

void nvme_id_ctrl_put(struct wcursor *c, const struct nvme_id_ctrl *id)
{
	{
		const struct nvme_id_ctrl *s = id;
		ID_CTRL(NVME_PUT)
	}
	for (unsigned i = 0; i < ARRAY_SIZE(id->psd); i++) {
		const struct nvme_power_state *s = &id->psd[i];
		POWER_STATE(NVME_PUT)
	}
	wcursor_zero(c, NVME_IDENTIFY_LEN - ID_CTRL_PSD_END);
}

/* clang-format off */
#define ID_CTRL_NVM(V)                                                                         \
	V(u8, vsl) V(u8, wzsl) V(u8, wusl) V(u8, dmrl) V(le32, dmrsl) V(le64, dmsl) V(zero, 4080)
NVME_CODEC(nvme_id_ctrl_nvm, ID_CTRL_NVM)

#define ID_NS_HEAD(V)                                                                          \
	/* 0 */ V(le64, nsze) V(le64, ncap) V(le64, nuse) V(u8, nsfeat) V(u8, nlbaf)           \
	/* 26 */ V(u8, flbas) V(u8, mc) V(u8, dpc) V(u8, dps) V(u8, nmic) V(u8, rescap)        \
	/* 32 */ V(u8, fpi) V(u8, dlfeat) V(le16, nawun) V(le16, nawupf) V(le16, nacwu)        \
	/* 40 */ V(le16, nabsn) V(le16, nabo) V(le16, nabspf) V(le16, noiob) V(le128, nvmcap)  \
	/* 64 */ V(le16, npwg) V(le16, npwa) V(le16, npdg) V(le16, npda) V(le16, nows)         \
	/* 74 */ V(le16, mssrl) V(le32, mcl) V(u8, msrc) V(u8, nulbaf) V(zero, 10)             \
	/* 92 */ V(le32, anagrpid) V(zero, 3) V(u8, nsattr) V(le16, nvmsetid) V(le16, endgid)  \
	/* 104 */ V(bytes, nguid) V(bytes, eui64)
#define LBAF(V) V(le16, ms) V(u8, ds) V(u8, rp)
/* clang-format on */
#define ID_NS_LBAF_END (128 + 64 * 4)

void nvme_id_ns_get(struct cursor *c, struct nvme_id_ns *ns)
{
	{
		struct nvme_id_ns *s = ns;
		ID_NS_HEAD(NVME_GET)
	}
	for (unsigned i = 0; i < ARRAY_SIZE(ns->lbaf); i++) {
		struct nvme_lbaf *s = &ns->lbaf[i];
		LBAF(NVME_GET)
	}
	cursor_skip(c, NVME_IDENTIFY_LEN - ID_NS_LBAF_END);
}

void nvme_id_ns_put(struct wcursor *c, const struct nvme_id_ns *ns)
{
	{
		const struct nvme_id_ns *s = ns;
		ID_NS_HEAD(NVME_PUT)
	}
	for (unsigned i = 0; i < ARRAY_SIZE(ns->lbaf); i++) {
		const struct nvme_lbaf *s = &ns->lbaf[i];
		LBAF(NVME_PUT)
	}
	wcursor_zero(c, NVME_IDENTIFY_LEN - ID_NS_LBAF_END);
}

#define ID_INDEPENDENT_NS(V) \
	V(u8, nsfeat)        \
	V(u8, nmic)          \
	V(u8, rescap)        \
	V(u8, fpi)           \
	V(le32, anagrpid)    \
	V(u8, nsattr) V(zero, 1) V(le16, nvmsetid) V(le16, endgid) V(u8, nstat) V(zero, 4081)
NVME_CODEC(nvme_id_independent_ns, ID_INDEPENDENT_NS)

uint32_t nvme_ns_list_get(struct cursor *c, uint32_t *ids, uint32_t max)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < NVME_NS_LIST_MAX; i++) {
		uint32_t id = cursor_le32(c);

		if (!id || count == max) {
			cursor_skip(c, (NVME_NS_LIST_MAX - 1 - i) * 4);
			break;
		}
		ids[count++] = id;
	}
	return count;
}

void nvme_ns_list_put(struct wcursor *c, const uint32_t *ids, uint32_t count)
{
	for (uint32_t i = 0; i < NVME_NS_LIST_MAX; i++)
		wcursor_le32(c, i < count ? ids[i] : 0);
}

uint32_t nvme_ctrl_list_get(struct cursor *c, uint16_t *ids, uint32_t max)
{
	uint32_t count = cursor_le16(c);

	max = min_of(max, (uint32_t)NVME_CTRL_LIST_MAX);
	count = min_of(count, max);
	for (uint32_t i = 0; i < count; i++)
		ids[i] = cursor_le16(c);
	cursor_skip(c, (NVME_CTRL_LIST_MAX - count) * 2);
	return count;
}

void nvme_ctrl_list_put(struct wcursor *c, const uint16_t *ids, uint32_t count)
{
	wcursor_le16(c, (uint16_t)count);
	for (uint32_t i = 0; i < NVME_CTRL_LIST_MAX; i++)
		wcursor_le16(c, i < count ? ids[i] : 0);
}

/* Type, length, two reserved bytes, then the identifier. */
int nvme_ns_desc_get(struct cursor *c, struct nvme_ns_desc *s)
{
	if (cursor_left(c) < 4)
		return cursor_left(c) ? -EBADMSG : 0;
	s->nidt = cursor_u8(c);
	s->nidl = cursor_u8(c);
	cursor_skip(c, 2);
	if (s->nidl == 0)
		return 0;
	cursor_bytes(c, s->nid, s->nidl);
	return c->overrun ? -EBADMSG : 1;
}

void nvme_ns_desc_put(struct wcursor *c, uint8_t nidt, const void *nid, uint8_t nidl)
{
	wcursor_u8(c, nidt);
	wcursor_u8(c, nidl);
	wcursor_zero(c, 2);
	wcursor_bytes(c, nid, nidl);
}
