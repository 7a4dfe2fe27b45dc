/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A disk in virtual time: it keeps nothing, reads zeroes, and takes its time, for any number of
 * operations side by side. */
#ifndef WEFT_FABRIC_TRAFFIC_NVME_DISK_H
#define WEFT_FABRIC_TRAFFIC_NVME_DISK_H

#include <stdint.h>

#include "base/compiler.h"
#include "fabric/world.h"
#include "nvmf/common/store_ops.h"

struct nvme_disk {
	struct store store;
	struct fabric *fabric;
	uint64_t time_ns;
	void (*moved)(void *ctx); /* after operations were done */
	void *ctx;
	struct list under_way; /* by when they are done */
	struct happening due;
};

void nvme_disk_init(struct nvme_disk *, struct fabric *, uint64_t bytes, uint64_t time_ns,
		    void (*moved)(void *ctx), void *ctx);
/* Whatever is under way is done at once. */
void nvme_disk_fini(struct nvme_disk *);

#endif
