/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <errno.h>

#include "nvmf/host/commands.h"
#include "wire/nvme_log.h"

static void prepare(struct host_request *req, uint8_t opcode, uint32_t nsid, enum nvmf_dir dir,
		    void *data, uint32_t len)
{
	req->sqe = (struct nvme_sqe){.opcode = opcode, .nsid = nsid};
	req->dir = dir;
	req->data = data;
	req->iov = NULL;
	req->data_len = len;
}

void host_prepare_get_log(struct host_request *req, uint8_t lid, uint64_t offset, void *buf,
			  uint32_t len)
{
	struct nvme_get_log log = {.lid = lid, .rae = true, .offset = offset, .len = len};

	prepare(req, NVME_ADMIN_GET_LOG_PAGE, 0, NVMF_DIR_TO_HOST, buf, len);
	nvme_get_log_to_sqe(&log, &req->sqe);
}

void host_prepare_flush(struct host_request *req, uint32_t nsid)
{
	prepare(req, NVME_IO_FLUSH, nsid, NVMF_DIR_NONE, NULL, 0);
}

void host_prepare_dsm(struct host_request *req, uint32_t nsid, uint32_t attributes,
		      const struct nvme_dsm_range *ranges, uint32_t count, void *buf)
{
	uint32_t len = count * NVME_DSM_RANGE_LEN;
	struct wcursor w = wcursor_init(buf, len);

	for (uint32_t i = 0; i < count; i++)
		nvme_dsm_range_put(&w, &ranges[i]);
	prepare(req, NVME_IO_DSM, nsid, NVMF_DIR_TO_CTRL, buf, len);
	req->sqe.cdw10 = count - 1;
	req->sqe.cdw11 = attributes;
}

void host_prepare_copy(struct host_request *req, uint32_t nsid, uint64_t to,
		       const struct nvme_copy_range *ranges, uint32_t count, uint32_t flags,
		       void *buf)
{
	uint32_t len = count * NVME_COPY_RANGE_LEN;
	struct wcursor w = wcursor_init(buf, len);

	for (uint32_t i = 0; i < count; i++)
		nvme_copy_range_put(&w, &ranges[i]);
	prepare(req, NVME_IO_COPY, nsid, NVMF_DIR_TO_CTRL, buf, len);
	nvme_rw_set(&req->sqe, to, count, flags);
}

int host_namespace_read(const struct nvme_id_ns *id, uint32_t nsid, struct host_namespace *ret,
			const char **ret_why)
{
	const struct nvme_lbaf *format = NVME_ID_NS_LBAF(id);

	if (id->nsze == 0) {
		*ret_why = format->ds ? "it has no blocks: what is served has been emptied"
				      : "there is no such namespace";
		return -EINVAL;
	}
	if (format->ds < 9 || format->ds > 16) {
		*ret_why = "its block size is not from 512 B to 64 KiB";
		return -EINVAL;
	}
	if (format->ms) {
		*ret_why = "its blocks carry metadata, which weft does not transfer";
		return -EINVAL;
	}
	if (id->nsze > UINT64_MAX >> format->ds) {
		*ret_why = "its size in bytes does not fit 64 bits";
		return -EINVAL;
	}
	*ret = (struct host_namespace){
		.nsid = nsid,
		.blocks = id->nsze,
		.block_bytes = 1u << format->ds,
		.read_only = id->nsattr & NVME_NSATTR_WRITE_PROTECTED,
		.zeroes_deallocate = id->dlfeat & NVME_DLFEAT_WZ_DEAC,
	};
	return 0;
}
