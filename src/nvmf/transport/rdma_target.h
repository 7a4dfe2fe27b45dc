/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * NVMe/RDMA for the target: connections, capsules and data on <infiniband/verbs.h> and
 * <rdma/rdma_cma.h> alone, so that it runs on weft's own libraries and on any other rdma-core.
 *
 * Each NVMe queue is a queue pair. It is young until Connect has succeeded, and has what that takes
 * till then: anybody can ask for a connection. Then its receives are posted for as many commands as
 * the host may have under way, each with room for in-capsule data. The data of a host's write is
 * fetched by RDMA READ, that of a read goes out by RDMA WRITE with the response right behind it in
 * the same post; both use blocks of one pool that is registered once. A request that finds its
 * host's share of the pool, the send queue or the READs that the host admits exhausted waits in
 * line; every line is bounded by the receives that were posted, and the host by time: what it has
 * to do, take a response or send data, it does soon or loses the connection.
 *
 * Single-threaded: the caller's loop calls rdma_target_process() whenever the descriptor is
 * readable, or all the time while it polls.
 */
#ifndef WEFT_NVMF_TRANSPORT_RDMA_TARGET_H
#define WEFT_NVMF_TRANSPORT_RDMA_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "nvmf/target/target.h"

struct rdma_target;

/*
 * pool_bytes: memory for the data of I/O under way, at least 2 MiB. -errno, and in why (room bytes)
 * a sentence that says what is missing on this machine.
 */
int rdma_target_create(struct target *t, size_t pool_bytes, struct rdma_target **ret, char *why,
		       size_t room) must_use;
/*
 * Listens on an address (text; NULL: on every address of every RDMA device) and a port, and
 * makes the target's discovery log tell of it. -errno and why, as above.
 */
int rdma_target_listen(struct rdma_target *rt, const char *address, const char *port, char *why,
		       size_t room) must_use;
/* Readable when there is something to process. */
int rdma_target_fd(const struct rdma_target *rt);
/*
 * Handles what has happened, without waiting; true if anything had. sleepy: the caller will wait
 * on the descriptor if this returns false, so completions are to make it readable.
 */
bool rdma_target_process(struct rdma_target *rt, uint64_t now_ns, bool sleepy);
/* When rdma_target_process() is to be called at the latest; DEADLINE_NEVER if nothing is due. */
uint64_t rdma_target_next_deadline(const struct rdma_target *rt);
/* Ends all listening and all connections; process goes on until rdma_target_idle(). */
void rdma_target_shutdown(struct rdma_target *rt);
bool rdma_target_idle(const struct rdma_target *rt);
/* Must be idle. */
void rdma_target_destroy(struct rdma_target *rt);

/*
 * The addresses of this machine at which RDMA works, loopback ones last: show is called for
 * each; returns how many. family: AF_INET, AF_INET6 or AF_UNSPEC for both.
 */
int rdma_target_addresses(int family, void (*show)(void *ctx, const char *address, bool loopback),
			  void *ctx);
/* The family of which address (text) means every address; AF_UNSPEC: it means one. */
int rdma_target_wildcard(const char *address);

#endif
