/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Requests for the commands a host uses. Each sets the whole command and its data; done, arg
 * and again stay as the caller set them. Lengths are bytes, blocks count from 1.
 */
#ifndef WEFT_NVMF_HOST_COMMANDS_H
#define WEFT_NVMF_HOST_COMMANDS_H

#include "nvmf/host/host.h"

void host_prepare_get_log(struct host_request *req, uint8_t lid, uint64_t offset, void *buf,
			  uint32_t len);
/* 1 to 256 ranges; buf: room for count * NVME_DSM_RANGE_LEN bytes, which they are written to. */
void host_prepare_dsm(struct host_request *req, uint32_t nsid, uint32_t attributes,
		      const struct nvme_dsm_range *ranges, uint32_t count, void *buf);
/* The same with NVME_COPY_RANGE_LEN. flags: NVME_RW_*, of dword 12. */
void host_prepare_copy(struct host_request *req, uint32_t nsid, uint64_t to,
		       const struct nvme_copy_range *ranges, uint32_t count, uint32_t flags,
		       void *buf);
void host_prepare_flush(struct host_request *req, uint32_t nsid);

/* What a host needs of a namespace to use it; -EINVAL and a static reason if it cannot. */
struct host_namespace {
	uint32_t nsid;
	uint64_t blocks;
	uint32_t block_bytes;
	bool read_only;
	bool zeroes_deallocate;
};
/* What identifies it: of Identify Namespace; and of the page of descriptors (CNS 03h), where the
 * controller has them, besides. */
void host_ns_ids_read(struct host_ns_ids *ret, const struct nvme_id_ns *id);
void host_ns_ids_describe(struct host_ns_ids *ids, const void *page);
bool host_ns_ids_equal(const struct host_ns_ids *a, const struct host_ns_ids *b);
bool host_ns_has_descs(const struct host *h);

int host_namespace_read(const struct nvme_id_ns *id, uint32_t nsid, struct host_namespace *ret,
			const char **ret_why) must_use;

#endif
