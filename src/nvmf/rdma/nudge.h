/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What to do about a connection on which nothing was heard yet.
 *
 * Linux's software iWARP, siw, loses sight of a message that arrives while it still sends the MPA
 * reply of rdma_accept(): it lies in the passive side's socket, and siw looks there again only when
 * more arrives (docs/siw.md). For NVMe that message is Connect, and both ends wait until its
 * time is up. So where nothing is heard for a while, the target has the host send something, by an
 * RDMA READ of no bytes, and the host sends something, an RDMA WRITE of no bytes. To any RNIC these
 * mean nothing: no memory is touched and no key is looked at.
 */
#ifndef WEFT_NVMF_RDMA_NUDGE_H
#define WEFT_NVMF_RDMA_NUDGE_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "base/time.h"

/* The host may send at any time. Not once: how long the target's siw sends is not known here. */
#define NUDGE_HOST_NS (100 * NSEC_PER_MSEC)
/*
 * The target must not be early: a READ that overtakes the host's reading of the MPA reply ends the
 * connection. That leaves TCP the time to repeat a lost reply three times.
 */
#define NUDGE_TARGET_NS (2 * NSEC_PER_SEC)

static inline bool nudge_wanted(const struct ibv_context *ctx)
{
	return ctx->device->transport_type == IBV_TRANSPORT_IWARP;
}

#endif
