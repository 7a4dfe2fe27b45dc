/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the hosts of a target share whatever transport they come by: connections, and memory for the
 * data of commands, with the line of those that wait for some. Each group of a target has its own.
 * A transport embeds a share_queue in each connection and a share_cmd in each command, and is
 * called back through share_ops.
 *
 * share.c has the rule; docs/adr/0013 says why.
 */
#ifndef WEFT_NVMF_TRANSPORT_SHARE_H
#define WEFT_NVMF_TRANSPORT_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "nvmf/target/target.h"
#include "nvmf/transport/accounts.h"
#include "nvmf/transport/data_pool.h"

#define SHARE_QUEUES_MAX 16384 /* at most: see shares.queues_max */
/* Entries of all queues: what commands take that are not under way, up to some 10 KiB each. A host
 * alone may have 128 queues of 1024. */
#define SHARE_ENTRIES_MAX (288u << 10)
/* Connections whose Connect has not succeeded yet: of all hosts, of one. */
#define SHARE_YOUNG_MAX	     256
#define SHARE_YOUNG_HOST_MAX 64

/* Memory for data under way is counted by what it is for. */
enum share_purpose {
	SHARE_FOR_IO,
	SHARE_FOR_ADMIN,
	SHARE_PURPOSES,
};
#define SHARE_ADMIN_BYTES (4u << 20)

struct sockaddr;
struct share_cmd;
struct share_queue;

struct share_ops {
	/* A command that waited has its memory now. */
	void (*has_memory)(struct share_cmd *c);
	/* A young queue is to go at once, for newer ones. */
	void (*give_way)(struct share_queue *q);
};

struct share_budget { /* bytes, in whole blocks */
	size_t len, used;
	/* What is freed is kept for this one, which waits; NULL: for whoever comes. */
	const struct share_cmd *promised;
	size_t promised_len;
};

struct share_host {
	struct list link;    /* of shares.hosts */
	struct list turn;    /* of shares.waiting, while commands of its wait for memory */
	struct list waiting; /* its queues that have such */
	uint8_t key[16];     /* of target_queue.peer */
	uint32_t queues, young, entries;
	size_t used[SHARE_PURPOSES];
};

struct shares {
	struct data_pool pool;
	struct accounts accounts; /* what hosts, and their queues, hold for each namespace */
	struct list hosts;
	struct share_budget budget[SHARE_PURPOSES];
	struct list waiting; /* hosts with commands that wait for memory, in turn */
	bool memory_freed;   /* since they last looked */
	struct list young;   /* queues whose Connect has not succeeded, by age */
	uint32_t young_count;
	uint32_t queue_count, entry_count;
	/* SHARE_QUEUES_MAX, unless who made it has fewer descriptors for them; before the first. */
	uint32_t queues_max;
};

struct share_queue {
	struct shares *shares;
	const struct share_ops *ops;
	struct share_host *host;
	struct list turn;    /* of share_host.waiting, while commands wait */
	struct list waiting; /* those commands */
	struct list young;   /* of shares.young */
	bool established;    /* the host is where it says that it is */
	uint32_t entries;
};

struct share_cmd {
	struct share_queue *queue;
	struct target_req *req;
	struct list link;	    /* of share_queue.waiting */
	void *data, *scratch;	    /* of the pool, or NULL */
	size_t held;		    /* bytes of it, in whole blocks */
	enum share_purpose purpose; /* of these */
	uint64_t ns;		    /* target_ns.number of what they are for; 0: for none */
	bool behind;		    /* another for the same waits before it */
};

/* pool_bytes: memory for the data of I/O under way; there is more for admin commands, and a page
 * for each young queue. -ENOMEM: there is nothing to fini, though it does no harm. */
int shares_init(struct shares *s, size_t pool_bytes) must_use;
/* No queue is left. */
void shares_fini(struct shares *s);
/* Commands that waited go on, if memory was given back; true if any did. */
bool shares_pump(struct shares *s);
/* Memory was given back since, and somebody waits: the pump is to run. */
bool shares_pump_due(const struct shares *s);

/* Who comes from that address (IPv4 or IPv6), as target_queue.peer has it. */
void share_key_of(const struct sockaddr *sa, uint8_t key[16]);
/*
 * A queue more, of the host with that key: it is young and counted until share_queue_fini(). Others
 * may give way to it. False: the host has its share, or there is no memory; q->shares is NULL then.
 */
bool share_queue_init(struct share_queue *q, struct shares *s, const struct share_ops *ops,
		      const uint8_t key[16]) must_use;
void share_queue_fini(struct share_queue *q);
/* So many entries are to be its own, until share_queue_fini(); once. False: the host has its share.
 */
bool share_entries_take(struct share_queue *q, uint32_t count) must_use;
/* Its Connect has succeeded, or it is at its end. */
void share_queue_grown(struct share_queue *q);

/*
 * Memory for what req moves (req->data unless it is set, req->scratch); false: the command waits in
 * line, ops->has_memory() follows.
 */
bool share_memory_take(struct share_cmd *c) must_use;
void share_memory_put(struct share_cmd *c);
/* A command no longer waits. */
void share_memory_forget(struct share_cmd *c);

#endif
