/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The private data of NVMe/RDMA connection management: what stands in a REQ, REP and REJ after
 * the transport's own header. NVMe RDMA Transport 1.0 section 3.2 (figures 3-6); Linux
 * include/linux/nvme-rdma.h.
 */
#ifndef WEFT_WIRE_NVME_RDMA_H
#define WEFT_WIRE_NVME_RDMA_H

#include <stdint.h>

#include "base/cursor.h"

#define NVME_RDMA_REQ_LEN    32
#define NVME_RDMA_REP_LEN    32
#define NVME_RDMA_REJ_LEN    4
#define NVME_RDMA_PORT	     4420
#define NVME_RDMA_REJ_REASON 28 /* "consumer reject" of the IB CM */

struct nvme_rdma_req {
	uint16_t recfmt;  /* 0 */
	uint16_t qid;	  /* 0 admin */
	uint16_t hrqsize; /* receives the host posts: not zero-based */
	uint16_t hsqsize; /* submission queue entries, zero-based */
	uint16_t cntlid;  /* RDMA 1.0 revision: the controller of an I/O queue; often 0 */
};

struct nvme_rdma_rep {
	uint16_t recfmt;
	uint16_t crqsize; /* receives the controller posts */
};

struct nvme_rdma_rej {
	uint16_t recfmt;
	uint16_t status; /* enum nvme_rdma_reject */
};

enum nvme_rdma_reject {
	NVME_RDMA_REJ_LENGTH = 0x01,
	NVME_RDMA_REJ_RECFMT = 0x02,
	NVME_RDMA_REJ_QID = 0x03,
	NVME_RDMA_REJ_HSQSIZE = 0x04,
	NVME_RDMA_REJ_HRQSIZE = 0x05,
	NVME_RDMA_REJ_RESOURCES = 0x06,
	NVME_RDMA_REJ_IRD = 0x07,
	NVME_RDMA_REJ_ORD = 0x08,
	NVME_RDMA_REJ_CNTLID = 0x09,
};

void nvme_rdma_req_get(struct cursor *c, struct nvme_rdma_req *s);
void nvme_rdma_req_put(struct wcursor *c, const struct nvme_rdma_req *s);
void nvme_rdma_rep_get(struct cursor *c, struct nvme_rdma_rep *s);
void nvme_rdma_rep_put(struct wcursor *c, const struct nvme_rdma_rep *s);
void nvme_rdma_rej_get(struct cursor *c, struct nvme_rdma_rej *s);
void nvme_rdma_rej_put(struct wcursor *c, const struct nvme_rdma_rej *s);

/* A sentence fragment for messages: "the queue size is invalid". */
const char *nvme_rdma_reject_name(uint16_t status);

#endif
