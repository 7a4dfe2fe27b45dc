/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/nvme_rdma.h"

#include "wire/nvme_schema.h"

#define REQ(V) \
	V(le16, recfmt) V(le16, qid) V(le16, hrqsize) V(le16, hsqsize) V(le16, cntlid) V(zero, 22)
#define REP(V) V(le16, recfmt) V(le16, crqsize) V(zero, 28)
#define REJ(V) V(le16, recfmt) V(le16, status)

NVME_CODEC(nvme_rdma_req, REQ)
NVME_CODEC(nvme_rdma_rep, REP)
NVME_CODEC(nvme_rdma_rej, REJ)

const char *nvme_rdma_reject_name(uint16_t status)
{
	switch (status) {
	case NVME_RDMA_REJ_LENGTH:
		return "invalid private data length";
	case NVME_RDMA_REJ_RECFMT:
		return "invalid record format";
	case NVME_RDMA_REJ_QID:
		return "invalid queue ID";
	case NVME_RDMA_REJ_HSQSIZE:
		return "invalid host send queue size";
	case NVME_RDMA_REJ_HRQSIZE:
		return "invalid host receive queue size";
	case NVME_RDMA_REJ_RESOURCES:
		return "no resources";
	case NVME_RDMA_REJ_IRD:
		return "invalid inbound read depth";
	case NVME_RDMA_REJ_ORD:
		return "invalid outbound read depth";
	case NVME_RDMA_REJ_CNTLID:
		return "invalid controller ID";
	}
	return "unknown reason";
}
