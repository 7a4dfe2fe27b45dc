// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* What needs verbs that the device does not have as yet; docs/conformance.md lists them. */
#include "rdmacm/cma.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	return cma_ret(-EOPNOTSUPP);
}

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
			   void *context)
{
	return cma_ret(-EOPNOTSUPP);
}

int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	return cma_ret(-EADDRNOTAVAIL); /* none was joined */
}
