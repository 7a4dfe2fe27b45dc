/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reading the discovery log: its header, its entries in pieces, its header again. If the
 * generation counter moved meanwhile, all is read once more.
 */
#ifndef WEFT_NVMF_HOST_DISCOVERY_H
#define WEFT_NVMF_HOST_DISCOVERY_H

#include "nvmf/host/host.h"

enum {
	DISCOVERY_BUFFER_LEN = 4096, /* what every controller transfers in one command */
	DISCOVERY_RECORDS_MAX = 65536,
	DISCOVERY_ROUNDS_MAX = 10,
};

struct host_discovery {
	/* The caller's. */
	void *buffer;			 /* DISCOVERY_BUFFER_LEN bytes the transport knows */
	struct nvmf_disc_entry *entries; /* room for max */
	uint32_t max;
	void (*done)(struct host_discovery *d, uint64_t now_ns);
	void *arg;

	/* The answer. error: 0; -E2BIG: header.numrec says how many entries are needed (no more
	 * than DISCOVERY_RECORDS_MAX, or it is -EMSGSIZE); -EAGAIN: it changed under us each
	 * time; -EIO: request.cqe.status; -EPROTO: a record format that is unknown; or what
	 * host_request.error says. */
	int error;
	struct nvmf_disc_hdr header;
	uint32_t count;

	/* Its own. */
	struct host *host;
	struct host_request request;
	uint32_t pending, rounds;
	bool closing;
};

/* -errno as host_submit(); 0: done() will be called. */
int host_discovery_start(struct host_discovery *d, struct host *h, uint64_t now_ns) must_use;

#endif
