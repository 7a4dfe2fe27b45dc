/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Host and target in one process, with no wire between them. A connection is two lines, of commands
 * for the target and of responses for the host; data are copied once, between the host's memory and
 * what the target's hosts share. So it costs what the protocol costs by itself.
 *
 * Of what differs between transports it has what RDMA has not: the queue ID comes with Connect, as
 * on TCP, and a transport data block stands for memory that the command itself does not name.
 *
 * A target listens on a name and a port, and hosts of the same process find it by them. There is no
 * descriptor to wait on: whoever calls one side's process() calls the other's too, and what is
 * under way makes the deadline come at once. All targets and hosts of a process are one thread's,
 * be it that a target has several groups.
 */
#ifndef WEFT_NVMF_LOOP_LOOP_H
#define WEFT_NVMF_LOOP_LOOP_H

#include "nvmf/transport/transport.h"

extern const struct nvmf_transport loop_transport;

/*
 * In which order things happen is the caller's choice: with pick, process() does one thing, of the
 * n that could come next the one it says (below n), and data come and go as things of their own.
 */
struct loop_order {
	uint32_t (*pick)(void *ctx, uint32_t n);
	void *ctx;
};

void loop_target_order(struct transport_target *t, const struct loop_order *order);
void loop_host_order(struct transport_host *t, const struct loop_order *order);

#endif
