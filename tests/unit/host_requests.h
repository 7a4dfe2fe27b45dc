/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Requests as tests of the host's core send them, beside those of nvmf/host/commands.h: each sets
 * the whole command and its data. Lengths are bytes, blocks count from 1.
 */
#ifndef WEFT_TESTS_HOST_REQUESTS_H
#define WEFT_TESTS_HOST_REQUESTS_H

#include "nvmf/host/commands.h"

static inline void host_prepare(struct host_request *req, uint8_t opcode, uint32_t nsid, void *buf,
				uint32_t len)
{
	req->sqe = (struct nvme_sqe){.opcode = opcode, .nsid = nsid};
	req->dir = nvmf_dir_of(&req->sqe);
	req->data = buf;
	req->iov = NULL;
	req->data_len = len;
}

static inline void host_prepare_identify(struct host_request *req, enum nvme_cns cns, uint32_t nsid,
					 void *buf)
{
	host_prepare(req, NVME_ADMIN_IDENTIFY, nsid, buf, NVME_IDENTIFY_LEN);
	req->sqe.cdw10 = cns;
}

static inline void host_prepare_read(struct host_request *req, uint32_t nsid, uint64_t slba,
				     uint32_t blocks, void *buf, uint32_t len)
{
	host_prepare(req, NVME_IO_READ, nsid, buf, len);
	nvme_rw_set(&req->sqe, slba, blocks, 0);
}

static inline void host_prepare_write(struct host_request *req, uint32_t nsid, uint64_t slba,
				      uint32_t blocks, const void *buf, uint32_t len, bool fua)
{
	/* The one field serves both directions; a write only reads from it. */
	host_prepare(req, NVME_IO_WRITE, nsid, (void *)(uintptr_t)buf, len);
	nvme_rw_set(&req->sqe, slba, blocks, fua ? NVME_RW_FUA : 0);
}

static inline void host_prepare_write_zeroes(struct host_request *req, uint32_t nsid, uint64_t slba,
					     uint32_t blocks, bool deallocate)
{
	host_prepare(req, NVME_IO_WRITE_ZEROES, nsid, NULL, 0);
	nvme_rw_set(&req->sqe, slba, blocks, deallocate ? NVME_WZ_DEAC : 0);
}

#endif
