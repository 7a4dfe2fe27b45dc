// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "engine/failure.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "base/log.h"
#include "wire/opcode.h"

static const char *const causes[] = {
#define X(name, number, text) [number] = (text),
#include "rnic/cause.def"
#undef X
};

static const char *const work_requests[] = {
	[RNIC_WR_RDMA_WRITE] = "RDMA_WRITE",
	[RNIC_WR_RDMA_WRITE_WITH_IMM] = "RDMA_WRITE_WITH_IMM",
	[RNIC_WR_SEND] = "SEND",
	[RNIC_WR_SEND_WITH_IMM] = "SEND_WITH_IMM",
	[RNIC_WR_RDMA_READ] = "RDMA_READ",
	[RNIC_WR_ATOMIC_CMP_AND_SWP] = "ATOMIC_CMP_AND_SWP",
	[RNIC_WR_ATOMIC_FETCH_AND_ADD] = "ATOMIC_FETCH_AND_ADD",
	[RNIC_WR_LOCAL_INV] = "LOCAL_INV",
	[RNIC_WR_BIND_MW] = "BIND_MW",
	[RNIC_WR_SEND_WITH_INV] = "SEND_WITH_INV",
	[RNIC_WR_ATOMIC_WRITE] = "ATOMIC_WRITE",
};

static void peer_text(const struct gid *g, char text[INET6_ADDRSTRLEN])
{
	if (gid_is_ipv4(g))
		inet_ntop(AF_INET, g->raw + 12, text, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, g->raw, text, INET6_ADDRSTRLEN);
}

void failure_log(const struct rnic_failure *f)
{
	char peer[INET6_ADDRSTRLEN], what[64], memory[96] = "";

	peer_text(f->peer, peer);
	if (!f->by_peer)
		snprintf(what, sizeof(what), "%s of wr_id %#llx", work_requests[f->opcode],
			 (unsigned long long)f->wr_id);
	else if (f->cause == RNIC_CAUSE_CQ_OVERRUN)
		snprintf(what, sizeof(what), "a completion");
	else
		snprintf(what, sizeof(what), "the peer's %s", opcode_table[f->opcode].name);
	if (f->key || f->len)
		snprintf(memory, sizeof(memory), " (key %#x, %llu bytes at %#llx)", f->key,
			 (unsigned long long)f->len, (unsigned long long)f->va);
	log_info("qp", "queue pair 0x%06x to 0x%06x at %s fails by %s: vendor_err %u: %s%s", f->qpn,
		 f->dest_qpn, peer, what, (unsigned)f->cause, causes[f->cause], memory);
}
