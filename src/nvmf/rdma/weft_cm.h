/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What weft's librdmacm can do beside others' (rdmacm/any.h), for there are devices of several
 * kinds at one address: looked for by name, and nothing where another one is at hand.
 */
#ifndef WEFT_NVMF_RDMA_WEFT_CM_H
#define WEFT_NVMF_RDMA_WEFT_CM_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>

/* A listener, before it is bound: on the devices of all kinds at its address. */
void weft_cm_on_any_transport(struct rdma_cm_id *);
/* Whether the library closes devices that have gone once no identifier is on them: weft's has each
 * for the life of the process. */
bool weft_cm_closes_devices(void);
/* Before it is bound: on a device of that kind. */
void weft_cm_on_transport(struct rdma_cm_id *, enum ibv_transport_type);

#endif
