/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/rdma/rdma.h"

#include "nvmf/rdma/host.h"
#include "nvmf/rdma/target.h"

const struct nvmf_transport rdma_transport = {
	.name = "rdma",
	.port = "4420",
	.no_answer = RDMA_NO_ANSWER,
	.target_create = rdma_target_create,
	.addresses = rdma_addresses,
	.host_create = rdma_host_create,
};
