/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/nvme_log.h"

#include "wire/nvme_schema.h"

void nvme_get_log_from_sqe(struct nvme_get_log *ret, const struct nvme_sqe *s)
{
	uint32_t numd = (s->cdw10 >> 16) | (s->cdw11 & 0xffff) << 16;

	ret->lid = (uint8_t)s->cdw10;
	ret->lsp = s->cdw10 >> 8 & 0x7f;
	ret->rae = s->cdw10 >> 15 & 1;
	ret->len = ((uint64_t)numd + 1) * 4;
	ret->offset = (uint64_t)s->cdw13 << 32 | s->cdw12;
	ret->lsi = (uint16_t)(s->cdw11 >> 16);
	ret->uuid = s->cdw14 & 0x7f;
	ret->ot = s->cdw14 >> 23 & 1;
	ret->csi = (uint8_t)(s->cdw14 >> 24);
}

void nvme_get_log_to_sqe(const struct nvme_get_log *g, struct nvme_sqe *s)
{
	uint32_t numd = (uint32_t)(g->len / 4 - 1);

	s->opcode = NVME_ADMIN_GET_LOG_PAGE;
	s->cdw10 = g->lid | (uint32_t)(g->lsp & 0x7f) << 8 | (uint32_t)g->rae << 15 | numd << 16;
	s->cdw11 = numd >> 16 | (uint32_t)g->lsi << 16;
	s->cdw12 = (uint32_t)g->offset;
	s->cdw13 = (uint32_t)(g->offset >> 32);
	s->cdw14 = (g->uuid & 0x7fu) | (uint32_t)g->ot << 23 | (uint32_t)g->csi << 24;
}

/* clang-format off */
#define ERROR_ENTRY(V)                                                                         \
	/* 0 */ V(le64, error_count) V(le16, sqid) V(le16, cid) V(le16, status)                \
	/* 14 */ V(le16, parm_error_location) V(le64, lba) V(le32, nsid) V(u8, vs)             \
	/* 29 */ V(u8, trtype) V(zero, 2) V(le64, cs) V(le16, trtype_info) V(zero, 22)
NVME_CODEC(nvme_error_entry, ERROR_ENTRY)

#define SMART(V)                                                                               \
	/* 0 */ V(u8, critical_warning) V(le16, temperature) V(u8, avail_spare)                \
	/* 4 */ V(u8, spare_thresh) V(u8, percent_used) V(u8, endu_grp_warning) V(zero, 25)    \
	/* 32 */ V(le128, data_units_read) V(le128, data_units_written) V(le128, host_reads)   \
	/* 80 */ V(le128, host_writes) V(le128, ctrl_busy_time) V(le128, power_cycles)         \
	/* 128 */ V(le128, power_on_hours) V(le128, unsafe_shutdowns) V(le128, media_errors)   \
	/* 176 */ V(le128, num_err_log_entries) V(le32, warning_temp_time)                     \
	/* 196 */ V(le32, critical_comp_time) V(le16, temp_sensor[0]) V(le16, temp_sensor[1])  \
	/* 204 */ V(le16, temp_sensor[2]) V(le16, temp_sensor[3]) V(le16, temp_sensor[4])      \
	/* 210 */ V(le16, temp_sensor[5]) V(le16, temp_sensor[6]) V(le16, temp_sensor[7])      \
	/* 216 */ V(le32, thm_temp1_trans_count) V(le32, thm_temp2_trans_count)                \
	/* 224 */ V(le32, thm_temp1_total_time) V(le32, thm_temp2_total_time) V(zero, 280)
NVME_CODEC(nvme_smart, SMART)
/* clang-format on */

#define FIRMWARE_LOG(V) V(u8, afi) V(zero, 7) V(bytes, frs) V(zero, 448)
NVME_CODEC(nvme_firmware_log, FIRMWARE_LOG)

#define ANA_HDR(V) V(le64, chgcnt) V(le16, ngrps) V(zero, 6)
NVME_CODEC(nvme_ana_hdr, ANA_HDR)

#define ANA_GROUP(V) V(le32, grpid) V(le32, nnsids) V(le64, chgcnt) V(u8, state) V(zero, 15)
NVME_CODEC(nvme_ana_group, ANA_GROUP)

const char *nvme_ana_state_name(uint8_t state)
{
	switch (state & 0xf) {
	case 0x1:
		return "optimized";
	case 0x2:
		return "non-optimized";
	case 0x3:
		return "inaccessible";
	case 0x4:
		return "persistent-loss";
	case 0xf:
		return "change";
	}
	return "invalid state";
}

void nvme_supported_logs_get(struct cursor *c, struct nvme_supported_logs *s)
{
	for (int i = 0; i < 256; i++)
		s->lid[i] = cursor_le32(c);
}

void nvme_supported_logs_put(struct wcursor *c, const struct nvme_supported_logs *s)
{
	for (int i = 0; i < 256; i++)
		wcursor_le32(c, s->lid[i]);
}

void nvme_effects_get(struct cursor *c, struct nvme_effects *s)
{
	for (int i = 0; i < 256; i++)
		s->admin[i] = cursor_le32(c);
	for (int i = 0; i < 256; i++)
		s->io[i] = cursor_le32(c);
	cursor_skip(c, NVME_EFFECTS_LEN - 2048);
}

void nvme_effects_put(struct wcursor *c, const struct nvme_effects *s)
{
	for (int i = 0; i < 256; i++)
		wcursor_le32(c, s->admin[i]);
	for (int i = 0; i < 256; i++)
		wcursor_le32(c, s->io[i]);
	wcursor_zero(c, NVME_EFFECTS_LEN - 2048);
}

const char *nvme_log_name(uint8_t lid)
{
	switch (lid) {
#define LOG(name, lid, text) \
	case lid:            \
		return text;
#include "wire/nvme_names.def"
	}
	return "Unknown";
}

const char *nvme_feature_name(uint8_t fid)
{
	switch (fid) {
#define FEATURE(name, fid, text, bytes) \
	case fid:                       \
		return text;
#include "wire/nvme_names.def"
	}
	return "Unknown";
}

uint32_t nvme_feature_bytes(uint8_t fid)
{
	switch (fid) {
#define FEATURE(name, fid, text, bytes) \
	case fid:                       \
		return bytes;
#include "wire/nvme_names.def"
	}
	return 0;
}
