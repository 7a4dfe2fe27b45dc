/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * NVMe/RDMA for the host: host.c has connections, host_queue.c work requests, host_data.c where
 * data lie.
 *
 * All queue pairs share one completion queue. Data in memory that was made known by add_memory(),
 * in one piece, is reached by the controller under a key that lives as long as the command: a type
 * 2 memory window, bound before the command is sent and invalidated by the controller's response
 * (SGL 4Fh), or after it, before the command is over. Devices without such windows use the region's
 * own key (SGL 40h).
 */
#ifndef WEFT_NVMF_RDMA_HOST_H
#define WEFT_NVMF_RDMA_HOST_H

#include <infiniband/verbs.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>

#include "nvmf/rdma/data_way.h"
#include "nvmf/rdma/deaf.h"
#include "nvmf/rdma/rdma.h"
#include "nvmf/transport/data_pool.h"

#define RDMA_NO_ANSWER                                                                    \
	"nothing there speaks RoCE, UDP port 4791 is filtered on the way, or the target " \
	"hangs; look there"

enum { WRS_PER_COMMAND = 3, BATCH_COMMANDS = 16 };
enum { GATHER_MAX = 4 }; /* pieces of data in a capsule that the device puts together */
enum { ERROR_LEN = 256, STALE_RETRIES_MAX = 5 };

struct region {
	uint8_t *addr;
	size_t len;
	struct ibv_mr *mr; /* NULL until a device is known */
};

enum rdma_host_queue_state { RQ_CLOSED, RQ_ADDRESS, RQ_ROUTE, RQ_CONNECTING, RQ_UP };

struct rdma_host_command {
	struct host_request *req;
	struct ibv_mw *mw;
	uint32_t key;	   /* remote key that is bound; valid if bound */
	bool bound;	   /* the target may use it */
	bool keyed;	   /* the present command carries key with a wish for invalidation */
	bool sending;	   /* the send is not complete */
	bool invalidating; /* we have asked for it, as the response did not invalidate */
	bool answered;	   /* meanwhile, by: */
	uint8_t response[NVME_CQE_LEN];
	/* Entries of the send queue, when the send is complete, and the invalidation. */
	uint32_t gives_back, invalidate_gives_back;
	void *bounce; /* its data are here; NULL: where the request has them */
	uint32_t bounce_len;
};

/* Work requests that go down in one post, chained as they are added. */
struct rdma_host_batch {
	struct ibv_send_wr wr[BATCH_COMMANDS * WRS_PER_COMMAND];
	struct ibv_sge sge[BATCH_COMMANDS][1 + GATHER_MAX];
	unsigned int wrs, commands;
};

struct rdma_host_queue {
	struct rdma_host *r;
	uint16_t qid;
	uint16_t generation; /* of the connection: completions of earlier ones are ignored */
	uint16_t entries, cntlid;
	enum rdma_host_queue_state state;
	struct rdma_cm_id *id;
	uint8_t *buffer;		    /* entries command capsules, then entries responses */
	struct ibv_mr *mr;		    /* of buffer */
	struct rdma_host_command *commands; /* [entries], by slot */
	unsigned int under_way;		    /* commands */
	unsigned int uninvalidated; /* that are answered, and wait for room in the send queue */
	struct data_way data_way;
	uint32_t send_room;  /* free entries of the send queue */
	uint32_t gather_max; /* pieces of data within a capsule */
	uint32_t unsignaled; /* work requests since the last signaled one */
	uint32_t signal_every;
	bool inlines;	   /* capsules without data */
	bool starved;	   /* submit said -EAGAIN */
	bool flushed;	   /* a work request was, and nobody has asked why */
	uint64_t nudge_ns; /* DEADLINE_NEVER: heard, or none is wanted */
	uint64_t nudge_wait_ns;
	struct rdma_host_batch batch;
	unsigned int stale_retries;
};

struct rdma_host {
	struct transport_host transport;
	struct transport_host_config config;
	char host[256], port[8], source[64];
	struct sockaddr_storage source_address; /* valid if source is not empty */
	struct host *h;
	struct rdma_event_channel *events;
	char error[ERROR_LEN];
	uint64_t now_ns;    /* of the call that is under way */
	uint64_t events_ns; /* when connection events were last looked for */
	struct deaf deaf;   /* whether they come */
	uint64_t nudge_ns;  /* no queue's is earlier */

	struct addrinfo *addresses, *address; /* all; the one in use */

	/* The device; all NULL while no connection has one. */
	struct ibv_context *verbs;
	struct ibv_device_attr attr;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	enum ibv_transport_type only; /* IBV_TRANSPORT_UNKNOWN: of any */
	bool windows;
	bool flushed;	 /* of some queue */
	uint64_t why_ns; /* so long the connection's event may say why; 0: none is waited for */
	bool batching;	 /* commands are posted when the present call ends */
	bool notified;	 /* an event of cq has come */
	bool gone;	 /* the device: no event comes any more */
	unsigned int unacked; /* events of cq */

	struct region *regions;
	unsigned int region_count, region_room, region_last;
	struct data_pool pool;		/* for data that are copied; len 0: not made yet */
	bool bounce_freed;		/* some of it has come back */
	struct rdma_host_queue *queues; /* [1 + config.io_queues] */
};

/* As the transport's operation of that name. */
struct transport_host *rdma_host_create(const struct transport_host_config *config, char *why,
					size_t room);
/* "connection to HOST:PORT lost: ..." and the like. */
void rdma_host_say(struct rdma_host *r, const char *fmt, ...) printf_like(2, 3);

/* Queue pair, buffers, windows, receives; -errno after rdma_host_say(). */
int rdma_host_queue_setup(struct rdma_host_queue *q) must_use;
void rdma_host_queue_teardown(struct rdma_host_queue *q);
static inline struct rdma_host *rdma_host_of(const struct transport_host *t)
{
	return container_of(t, struct rdma_host, transport);
}

/* --- host_data.c ------------------------------------------------------------------------------ */

int rdma_host_register(struct rdma_host *r, struct region *g) must_use;
/* As the transport's operations of these names. */
int rdma_host_add_memory(struct rdma_host *r, void *addr, size_t len) must_use;
int rdma_host_remove_memory(struct rdma_host *r, void *addr) must_use;
/*
 * Where the request's data are, copied if they have to be: in how many pieces, the first at sge,
 * and the region of the last. In more than one only within a capsule. -EAGAIN: when some command is
 * over; other errors are said.
 */
int rdma_host_data_place(struct rdma_host_queue *q, struct rdma_host_command *cmd,
			 const struct host_request *req, bool in_capsule, struct ibv_sge *sge,
			 struct region **ret) must_use;
/* It is over: what was copied is where the request wants it. */
void rdma_host_data_release(struct rdma_host_queue *q, struct rdma_host_command *cmd,
			    const struct host_request *req);
/* All commands of the queue are, without an answer. */
void rdma_host_data_drop(struct rdma_host_queue *q);
void rdma_host_data_fini(struct rdma_host *r);

/* --- host_queue.c ----------------------------------------------------------------------------- */

int rdma_host_queue_submit(void *t, uint16_t qid, struct host_request *req, bool in_capsule);
void rdma_host_queue_release(void *t, uint16_t qid, struct host_request *req);
/* Posts what was batched; a failure loses the connection. */
void rdma_host_queues_flush(struct rdma_host *r);
/* Goes on with queues that waited for memory to copy into. */
void rdma_host_queues_unstarve(struct rdma_host *r);
/* Sends on queues that have not been heard for too long, and sets r->nudge_ns. */
void rdma_host_queues_nudge(struct rdma_host *r);
/* Takes completions; true if there were any. */
bool rdma_host_queues_poll(struct rdma_host *r);

#endif
