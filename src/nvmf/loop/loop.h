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

/*
 * What carries the messages of a host's connections, where that is to take its time: each is told
 * of with its length, in the order of each kind, and is there when loop_carried() says so. By RDMA
 * they are a SEND to the target, a READ by it, and a WRITE, where there are data, with a SEND
 * behind.
 */
enum loop_message { LOOP_COMMAND, LOOP_FETCH, LOOP_ANSWER };

struct loop_cmd;

struct loop_wire {
	/* data: what goes besides the capsule. */
	void (*carry)(void *ctx, uint16_t qid, enum loop_message, uint32_t capsule, uint32_t data,
		      struct loop_cmd *);
	void *ctx;
};

void loop_host_wire(struct transport_host *t, const struct loop_wire *wire);
/* Or never will be, where the connection has ended: then it is forgotten by that. */
void loop_carried(struct loop_cmd *);

void loop_target_order(struct transport_target *t, const struct loop_order *order);
void loop_host_order(struct transport_host *t, const struct loop_order *order);

#endif
