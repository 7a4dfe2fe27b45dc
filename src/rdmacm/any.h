/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * For programs to which the device of a request is no matter, or that want one of a certain kind:
 * symbols of the version node WEFT_PRIVATE_1, which nvmf/rdma looks for by name.
 */
#ifndef WEFT_RDMACM_ANY_H
#define WEFT_RDMACM_ANY_H

#include <rdma/rdma_cma.h>

/* Before it is bound: where it listens at one address, requests come on the devices of each kind
 * there that the process has (WEFT_DEVICES), as they do where it listens at all. */
void weft_private_any_transport(struct rdma_cm_id *);
/* Before it is bound: by a device of that kind alone, whatever WEFT_DEVICES says. */
void weft_private_on_transport(struct rdma_cm_id *, enum ibv_transport_type);

#endif
