/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Get Log Page, Get/Set Features and Asynchronous Event Request: parameters and pages.
 * Base 2.0 sections 5.16 (log pages), 5.27 (features), 5.2 (asynchronous events). The
 * discovery log is in nvme_fabrics.h; the changed namespace list is nvme_ns_list_get().
 */
#ifndef WEFT_WIRE_NVME_LOG_H
#define WEFT_WIRE_NVME_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/nvme.h"
#include "wire/nvme_identify.h"

enum nvme_lid {
#define LOG(name, lid, text) NVME_LID_##name = (lid),
#include "wire/nvme_names.def"
};

/* The page's name as the specification writes it, or "Unknown". */
const char *nvme_log_name(uint8_t lid);

struct nvme_get_log {
	uint8_t lid, lsp;
	bool rae;	 /* retain the asynchronous event */
	uint64_t len;	 /* bytes, from the zero-based dword count */
	uint64_t offset; /* bytes, or an index if ot is set */
	bool ot;
	uint8_t csi, uuid; /* uuid: index of the UUID list, 0 none */
	uint16_t lsi;
};

#define NVME_GET_LOG_RAE (1u << 15) /* dword 10 */

void nvme_get_log_from_sqe(struct nvme_get_log *ret, const struct nvme_sqe *s);
/* Sets opcode and dwords 10-14; len is a multiple of 4. */
void nvme_get_log_to_sqe(const struct nvme_get_log *g, struct nvme_sqe *s);

#define NVME_ERROR_ENTRY_LEN 64
struct nvme_error_entry {
	uint64_t error_count; /* 0: no entry */
	uint16_t sqid, cid;
	uint16_t status; /* as in a CQE, shifted left by one */
	uint16_t parm_error_location;
	uint64_t lba;
	uint32_t nsid;
	uint8_t vs, trtype;
	uint64_t cs;
	uint16_t trtype_info;
};

#define NVME_SMART_LEN 512
struct nvme_smart {
	uint8_t critical_warning;
	uint16_t temperature; /* kelvin */
	uint8_t avail_spare, spare_thresh, percent_used, endu_grp_warning;
	struct nvme_u128 data_units_read, data_units_written; /* thousands of 512 bytes */
	struct nvme_u128 host_reads, host_writes;	      /* commands */
	struct nvme_u128 ctrl_busy_time;		      /* minutes */
	struct nvme_u128 power_cycles, power_on_hours, unsafe_shutdowns;
	struct nvme_u128 media_errors, num_err_log_entries;
	uint32_t warning_temp_time, critical_comp_time; /* minutes */
	uint16_t temp_sensor[8];			/* kelvin; 0: there is none */
	uint32_t thm_temp1_trans_count, thm_temp2_trans_count;
	uint32_t thm_temp1_total_time, thm_temp2_total_time; /* seconds */
};

#define NVME_SUPPORTED_LEN	 1024
#define NVME_LID_SUPPORTED_LSUPP (1u << 0)
#define NVME_LID_DISCOVERY_PLEOS (1u << 17)
/* LSP of the discovery log: entries of the port that is asked alone. */
#define NVME_LSP_DISCOVERY_PLEO 0x2
struct nvme_supported_logs {
	uint32_t lid[256];
};

#define NVME_FIRMWARE_LEN 512
struct nvme_firmware_log {
	uint8_t afi;	/* active slot in bits 2:0 */
	char frs[7][8]; /* revision in each slot */
};

#define NVME_EFFECTS_LEN   4096
#define NVME_EFFECT_CSUPP  (1u << 0)	   /* supported */
#define NVME_EFFECT_LBCC   (1u << 1)	   /* changes logical block content */
#define NVME_EFFECT_NCC	   (1u << 2)	   /* changes a namespace's capability */
#define NVME_EFFECT_NIC	   (1u << 3)	   /* changes which namespaces there are */
#define NVME_EFFECT_CCC	   (1u << 4)	   /* changes a controller's capability */
#define NVME_EFFECT_CSE(v) ((v) >> 16 & 7) /* what may not run beside it */
#define NVME_EFFECT_USS	   (1u << 19)	   /* takes an index of the UUID list */
struct nvme_effects {
	uint32_t admin[256], io[256];
};

/* Asymmetric namespace access: a header, then each group followed by its namespace IDs. */
#define NVME_ANA_HDR_LEN    16
#define NVME_ANA_GROUP_LEN  32
#define NVME_ANA_LSP_GROUPS 1 /* log specific field: leave the namespace IDs out */
struct nvme_ana_hdr {
	uint64_t chgcnt;
	uint16_t ngrps;
};
struct nvme_ana_group {
	uint32_t grpid, nnsids;
	uint64_t chgcnt;
	uint8_t state; /* the lower four bits: nvme_ana_state_name() */
};

const char *nvme_ana_state_name(uint8_t state);
void nvme_ana_hdr_get(struct cursor *c, struct nvme_ana_hdr *s);
void nvme_ana_hdr_put(struct wcursor *c, const struct nvme_ana_hdr *s);
void nvme_ana_group_get(struct cursor *c, struct nvme_ana_group *s);
void nvme_ana_group_put(struct wcursor *c, const struct nvme_ana_group *s);

/* Feature Identifiers Supported and Effects: a word for each. */
#define NVME_FEATURES_LEN	1024
#define NVME_FEATURE_FSUPP	(1u << 0)
#define NVME_FEATURE_SCOPE_NS	(1u << 20)
#define NVME_FEATURE_SCOPE_CTRL (1u << 21)

#define NVME_HOST_BEHAVIOR_LEN 512

void nvme_error_entry_get(struct cursor *c, struct nvme_error_entry *s);
void nvme_error_entry_put(struct wcursor *c, const struct nvme_error_entry *s);
void nvme_smart_get(struct cursor *c, struct nvme_smart *s);
void nvme_smart_put(struct wcursor *c, const struct nvme_smart *s);
void nvme_supported_logs_get(struct cursor *c, struct nvme_supported_logs *s);
void nvme_supported_logs_put(struct wcursor *c, const struct nvme_supported_logs *s);
void nvme_firmware_log_get(struct cursor *c, struct nvme_firmware_log *s);
void nvme_firmware_log_put(struct wcursor *c, const struct nvme_firmware_log *s);
void nvme_effects_get(struct cursor *c, struct nvme_effects *s);
void nvme_effects_put(struct wcursor *c, const struct nvme_effects *s);

/* --- features --------------------------------------------------------------------------- */

enum nvme_fid {
#define FEATURE(name, fid, text, bytes) NVME_FID_##name = (fid),
#include "wire/nvme_names.def"
};

/* The feature's name as the specification writes it, or "Unknown". */
const char *nvme_feature_name(uint8_t fid);
/* Bytes of data that go with it, 0 for none. */
uint32_t nvme_feature_bytes(uint8_t fid);

enum nvme_feature_sel { /* dword 10 bits 10:8 of Get Features */
			NVME_SEL_CURRENT = 0,
			NVME_SEL_DEFAULT = 1,
			NVME_SEL_SAVED = 2,
			NVME_SEL_SUPPORTED = 3,
};

#define NVME_FEATURE_FID(cdw10)	 ((uint8_t)(cdw10))
#define NVME_FEATURE_SEL(cdw10)	 ((cdw10) >> 8 & 7)
#define NVME_FEATURE_SAVE(cdw10) ((cdw10) >> 31)
/* Result of "supported capabilities". */
#define NVME_FEATURE_CAP_SAVEABLE   (1u << 0)
#define NVME_FEATURE_CAP_PER_NS	    (1u << 1)
#define NVME_FEATURE_CAP_CHANGEABLE (1u << 2)
/* Number of Queues, both directions: submission and completion queues, zero-based. */
#define NVME_NUM_QUEUES(nsq, ncq) ((((uint32_t)(ncq)-1) << 16) | ((uint32_t)(nsq)-1))
#define NVME_NUM_QUEUES_SQ(v)	  (((v)&0xffff) + 1)
#define NVME_NUM_QUEUES_CQ(v)	  (((v) >> 16) + 1)

/* --- asynchronous events: dword 0 of the completion -------------------------------------- */

enum nvme_aer_type { NVME_AER_ERROR = 0, NVME_AER_SMART = 1, NVME_AER_NOTICE = 2 };
enum nvme_aer_notice { NVME_NOTICE_NS_CHANGED = 0x00, NVME_NOTICE_DISC_CHANGED = 0xf0 };
#define NVME_AER_RESULT(type, info, lid) \
	((uint32_t)(type) | (uint32_t)(info) << 8 | (uint32_t)(lid) << 16)
#define NVME_AER_TYPE(v) ((v)&7)
#define NVME_AER_INFO(v) ((v) >> 8 & 0xff)
#define NVME_AER_LID(v)	 ((v) >> 16 & 0xff)
/* Bits of the Asynchronous Event Configuration feature are those of OAES. */

#endif
