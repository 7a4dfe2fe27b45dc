/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * NVMe/RDMA for the host: a struct host_transport on <infiniband/verbs.h> and <rdma/rdma_cma.h>
 * alone, so that it runs on weft's own libraries and on any other rdma-core.
 *
 * Each NVMe queue is a queue pair of its own; all share one completion queue. Data in memory
 * that was made known by rdma_host_add_memory() is reached by the controller under a key that
 * lives as long as the command: a type 2 memory window, bound before the command is sent and
 * invalidated by the controller's response (SGL 4Fh). Devices without such windows use the
 * region's own key (SGL 40h).
 *
 * Single-threaded: the caller's loop calls rdma_host_process() whenever a descriptor is readable,
 * or all the time if it polls.
 */
#ifndef WEFT_NVMF_TRANSPORT_RDMA_HOST_H
#define WEFT_NVMF_TRANSPORT_RDMA_HOST_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvmf/host/host.h"

struct rdma_host;

struct rdma_host_config {
	const char *host, *port; /* name or address; decimal */
	const char *source;	 /* own address; NULL or empty: any */
	uint16_t io_queues;	 /* at most */
	uint16_t io_entries;	 /* of each, at most */
	uint32_t resolve_timeout_ms;
	bool plain_keys; /* do without memory windows */
};

/* The operations to hand to host_init(), with the struct rdma_host as their argument. */
extern const struct host_transport rdma_host_transport;

/* NULL when there is no memory, no such host or no RDMA at all: why then holds a sentence. */
struct rdma_host *rdma_host_create(const struct rdma_host_config *config, char *why, size_t room);
/* Who hears of connections and responses; before host_start(). */
void rdma_host_attach(struct rdma_host *r, struct host *h);
/* Memory for requests' data; stays the caller's and outlives r. -ENOSPC beyond 16 areas, or what
 * registering it said. */
int rdma_host_add_memory(struct rdma_host *r, void *addr, size_t len) must_use;
/* What to wait on: fills in fds, returns how many. Afterwards rdma_host_polled() is told. */
enum { RDMA_HOST_FDS = 2 };
unsigned int rdma_host_pollfds(const struct rdma_host *r, struct pollfd fds[RDMA_HOST_FDS]);
void rdma_host_polled(struct rdma_host *r, const struct pollfd *fds, unsigned int n);
/*
 * Handles what has happened, without waiting; true if anything had. sleepy: the caller will wait
 * if this returns false, so completions are to make a descriptor readable.
 */
bool rdma_host_process(struct rdma_host *r, uint64_t now_ns, bool sleepy);
/* When rdma_host_process() is to be called at the latest; DEADLINE_NEVER if nothing is due. */
uint64_t rdma_host_next_deadline(const struct rdma_host *r);
/* Why the last connection could not be made or was lost; "" if none was. */
const char *rdma_host_error(const struct rdma_host *r);
/* The device in use and whether memory windows are; NULL before the first connection. */
const char *rdma_host_device(const struct rdma_host *r, bool *ret_windows);
void rdma_host_destroy(struct rdma_host *r);

#endif
