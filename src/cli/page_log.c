/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Fetching of the log pages that have a verb of their own. */
#include "cli/cli.h"
#include "cli/page.h"
#include "wire/nvme_log.h"

enum { ANA_LEN_MAX = 16 << 20 };

static bool fetch(struct page *p, uint8_t lid, uint64_t len, uint32_t nsid)
{
	return page_log(p, &(struct nvme_get_log){.lid = lid, .len = len}, nsid);
}

bool fetch_smart_log(struct page *p)
{
	return fetch(p, NVME_LID_SMART, NVME_SMART_LEN, page_nsid(p));
}

static bool identify_controller(struct page *p, struct nvme_id_ctrl *ret)
{
	struct cursor c;

	if (!page_identify(p, NVME_CNS_CTRL, 0, 0, 0, "Identify Controller"))
		return false;
	c = cursor_init(p->data, p->len);
	nvme_id_ctrl_get(&c, ret);
	return true;
}

/* As many as the controller keeps: ELPE is zero-based. */
bool fetch_error_log(struct page *p)
{
	struct nvme_id_ctrl id;
	uint32_t n;

	if (!identify_controller(p, &id))
		return false;
	n = min_of(p->entries, (uint32_t)id.elpe + 1);
	return fetch(p, NVME_LID_ERROR, (uint64_t)n * NVME_ERROR_ENTRY_LEN, NVME_NSID_ALL);
}

bool fetch_fw_log(struct page *p)
{
	return fetch(p, NVME_LID_FIRMWARE, NVME_FIRMWARE_LEN, NVME_NSID_ALL);
}

/* It stays as it is: the list is for who attends to the namespaces. */
bool fetch_changed_ns_list_log(struct page *p)
{
	return page_log(p,
			&(struct nvme_get_log){.lid = NVME_LID_CHANGED_NS,
					       .len = NVME_NS_LIST_MAX * 4,
					       .rae = true},
			NVME_NSID_ALL);
}

bool fetch_effects_log(struct page *p)
{
	return page_log(p,
			&(struct nvme_get_log){.lid = NVME_LID_EFFECTS,
					       .len = NVME_EFFECTS_LEN,
					       .csi = page_csi(p)},
			NVME_NSID_ALL);
}

bool fetch_supported_log_pages(struct page *p)
{
	return fetch(p, NVME_LID_SUPPORTED, NVME_SUPPORTED_LEN, NVME_NSID_ALL);
}

bool fetch_fid_support_effects_log(struct page *p)
{
	return fetch(p, NVME_LID_FEATURE_EFFECTS, NVME_FEATURES_LEN, NVME_NSID_ALL);
}

/* As long as it can be: the controller says how many groups and namespaces there are at most. */
bool fetch_ana_log(struct page *p)
{
	struct nvme_id_ctrl id;
	uint64_t namespaces, len;

	if (!identify_controller(p, &id))
		return false;
	namespaces = p->groups ? 0 : id.mnan ? id.mnan : id.nn;
	len = NVME_ANA_HDR_LEN + (uint64_t)id.nanagrpid * NVME_ANA_GROUP_LEN + namespaces * 4;
	if (len > ANA_LEN_MAX) {
		cli_fail("the page of %s would have %llu bytes; that is beyond reason", p->nqn,
			 (unsigned long long)len);
		return false;
	}
	return page_log(p,
			&(struct nvme_get_log){.lid = NVME_LID_ANA,
					       .lsp = p->groups ? NVME_ANA_LSP_GROUPS : 0,
					       .len = len,
					       .rae = true},
			NVME_NSID_ALL);
}
