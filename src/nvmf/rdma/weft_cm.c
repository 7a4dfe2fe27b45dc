/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/rdma/weft_cm.h"

#include <dlfcn.h>

static void *find(const char *name)
{
	return dlvsym(RTLD_DEFAULT, name, "WEFT_PRIVATE_1");
}

void weft_cm_on_any_transport(struct rdma_cm_id *id)
{
	void (*any)(struct rdma_cm_id *) = (__typeof__(any))find("weft_private_any_transport");

	if (any)
		any(id);
}

bool weft_cm_closes_devices(void)
{
	return !find("weft_private_any_transport");
}

void weft_cm_on_transport(struct rdma_cm_id *id, enum ibv_transport_type type)
{
	void (*on)(struct rdma_cm_id *, enum ibv_transport_type) =
		(__typeof__(on))find("weft_private_on_transport");

	if (on)
		on(id, type);
}
