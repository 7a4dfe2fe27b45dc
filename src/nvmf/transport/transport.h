/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The life of a transport, on both sides. What it does for a queue and a command is said where that
 * is asked for: struct target_transport_ops in nvmf/target/target.h, which also has what it can
 * carry, and struct host_transport in nvmf/host/host.h. A transport is one struct nvmf_transport.
 *
 * Both sides are single-threaded: the caller's loop calls process() whenever a descriptor is
 * readable or the deadline has come, or all the time while it polls. Whoever sleeps says so before
 * (sleepy), so that what happens makes a descriptor readable. A target of several groups has of
 * each transport one side for each, in the group's thread; connections come to the first's.
 *
 * why (room bytes) takes a sentence that says what is missing, for whoever reads it.
 */
#ifndef WEFT_NVMF_TRANSPORT_TRANSPORT_H
#define WEFT_NVMF_TRANSPORT_TRANSPORT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "nvmf/host/host.h"
#include "nvmf/target/target.h"
#include "nvmf/transport/share.h"

/* --- the target's side: listeners and the connections that came to them ------------------------
 */

struct transport_target {
	const struct transport_target_ops *ops;
};

struct transport_target_ops {
	/*
	 * Listens on an address (text; NULL: on every one) and a port, and makes the target's
	 * discovery log tell of it: one port more, the last of the target's, or on every address
	 * one for each family. It offers everything until it is told otherwise. -errno and why. Of
	 * the first group's alone.
	 */
	int (*listen)(struct transport_target *t, const char *address, const char *port, char *why,
		      size_t room);
	/* The port is none any more, and connections that came by it end. Other listeners of t may
	 * take its place. Of the first group's alone. */
	void (*unlisten)(struct transport_target *t, struct target_port *port);
	/* Readable when there is something to process; -1: nothing comes but by the caller. */
	int (*fd)(const struct transport_target *t);
	/* Handles what has happened, without waiting; true if anything had. */
	bool (*process)(struct transport_target *t, uint64_t now_ns, bool sleepy);
	/* When process is to be called at the latest; DEADLINE_NEVER if nothing is due. */
	uint64_t (*next_deadline)(const struct transport_target *t);
	/* Ends all listening and all connections; process goes on until idle. */
	void (*shutdown)(struct transport_target *t);
	bool (*idle)(const struct transport_target *t);
	/* Must be idle; the first group's last. */
	void (*destroy)(struct transport_target *t);
};

/* --- the host's side: the connections of one association ---------------------------------------
 */

#define TRANSPORT_HOST_FDS 2

struct transport_host {
	const struct transport_host_ops *ops;
	uint32_t fds_changed; /* counts: what pollfds() says is another */
};

struct transport_host_config {
	const char *host, *port;    /* name or address; decimal */
	const char *source;	    /* own address; NULL or empty: any */
	const char *interface;	    /* TCP: by this one; NULL or empty: any */
	const char *rdma_transport; /* RDMA: "roce" or "iwarp"; NULL or empty: either */
	uint8_t tos;		    /* or traffic class, of IPv6 */
	uint16_t io_queues;	    /* at most */
	uint16_t io_entries;	    /* of each, at most */
	uint32_t resolve_timeout_ms;
	size_t bounce_bytes; /* RDMA: memory to copy data into, when that is needed; 0: 16 MiB */
	bool plain_keys;     /* RDMA: do without memory windows */
	bool header_digest, data_digest; /* TCP: have them */
	const struct auth_psk *tls;	 /* TCP: speak TLS by this key, which is copied; or NULL */
};

struct transport_host_info { /* each NULL where there is no such thing, or not yet */
	const char *device;
	const char *keys; /* by which the controller reaches memory: "windows", "plain" */
};

struct transport_host_ops {
	/* For host_init(), with the transport_host as their argument. */
	const struct host_transport *queues;
	/* Who hears of connections and responses; before host_start(). */
	void (*attach)(struct transport_host *t, struct host *h);
	/*
	 * Memory for requests' data, so that these go as they lie: data in other memory, or in
	 * pieces, may be copied on their way. Stays the caller's until it is removed or t is gone.
	 * -errno, and error() says what making it known said.
	 */
	int (*add_memory)(struct transport_host *t, void *addr, size_t len);
	/* By the address that it was added by, when no request's data are there (host_uses()).
	 * -ENOENT; others: of the device, which keeps it. */
	int (*remove_memory)(struct transport_host *t, void *addr);
	/* What to wait on: fills in fds, returns how many. Afterwards polled() is told. */
	unsigned int (*pollfds)(const struct transport_host *t,
				struct pollfd fds[TRANSPORT_HOST_FDS]);
	void (*polled)(struct transport_host *t, const struct pollfd *fds, unsigned int n);
	bool (*process)(struct transport_host *t, uint64_t now_ns, bool sleepy);
	uint64_t (*next_deadline)(const struct transport_host *t);
	/* Why the last connection could not be made or was lost; "" if none was. */
	const char *(*error)(const struct transport_host *t);
	void (*info)(const struct transport_host *t, struct transport_host_info *ret);
	void (*destroy)(struct transport_host *t);
};

/* --- both ------------------------------------------------------------------------------------ */

struct nvmf_transport {
	const char *name; /* nvme+NAME://, -t NAME */
	const char *port; /* where a target is, unless it is said */
	/* What it means that a connection request is not answered at all, and what to do. */
	const char *no_answer;
	/*
	 * For a group, with what is shared in that alone: they outlive it. first: NULL, or, of a
	 * further group, what the first has of this transport, which hands queues to it; in the
	 * thread that uses that. -errno and why; -EOPNOTSUPP: it serves one group only.
	 */
	int (*target_create)(struct target_group *g, struct shares *shares,
			     struct transport_target *first, struct transport_target **ret,
			     char *why, size_t room);
	/*
	 * The addresses of this machine at which it works, loopback ones last: show is called for
	 * each; returns how many. family: AF_INET, AF_INET6 or AF_UNSPEC for both.
	 */
	int (*addresses)(int family, void (*show)(void *ctx, const char *address, bool loopback),
			 void *ctx);
	/* NULL and why, if there is no memory, no such host or no such transport here at all. */
	struct transport_host *(*host_create)(const struct transport_host_config *config, char *why,
					      size_t room);
};

#endif
