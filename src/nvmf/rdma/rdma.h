/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * NVMe/RDMA on <infiniband/verbs.h> and <rdma/rdma_cma.h> alone, so that it runs on weft's own
 * libraries and on any other rdma-core. Each NVMe queue is a queue pair.
 */
#ifndef WEFT_NVMF_RDMA_RDMA_H
#define WEFT_NVMF_RDMA_RDMA_H

#include "nvmf/transport/transport.h"

extern const struct nvmf_transport rdma_transport;

#endif
