/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * NVMe/RDMA for the target: listener.c has where it is reached, connection.c who comes, command.c
 * capsules and data, device.c what they go through, target.c the whole.
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
 * Of a target of several groups each has its rdma_target, with an event channel, protection domains
 * and completion queues of its own. Who asks for a connection comes to the first, and says which
 * queue it is: that of an I/O queue is migrated to its group's channel before it is answered.
 */
#ifndef WEFT_NVMF_RDMA_TARGET_H
#define WEFT_NVMF_RDMA_TARGET_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/time.h"
#include "nvmf/rdma/deaf.h"
#include "nvmf/rdma/rdma.h"
#include "nvmf/transport/share.h"
#include "wire/nvme_rdma.h"

#define RDMA_READS_MAX	64 /* RDMA READs of one queue under way */
#define RDMA_CQ_ENTRIES 8192
/*
 * So much data is worth a post of its own: it is still in the cache, and the host has work. 15
 * packets of 4096 bytes are what UDP has room for in a datagram that the stack cuts; a 16th goes by
 * itself.
 */
#define RDMA_BATCH_BYTES (60u << 10)

struct rdma_queue;

/* A host that said nothing for so long is asked whether it is there. */
#define RDMA_PROBE_NS (30 * NSEC_PER_SEC)
/* For how long a host may leave a response untaken, or data that it promised unsent. */
#define RDMA_MOVE_NS (20 * NSEC_PER_SEC)

/* What a completion is for: the wr_id points to one of these. */
struct rdma_hook {
	void (*done)(struct rdma_hook *h, const struct ibv_wc *wc);
	struct rdma_queue *queue;
};

struct rdma_cq {
	struct list link;
	struct ibv_cq *cq;
	uint32_t entries, reserved; /* reserved: by queues, the most they can produce */
	uint32_t unacked;	    /* events */
};

struct rdma_dev {
	struct list link;
	struct rdma_target *rt;
	struct ibv_context *ctx;
	struct ibv_context **held; /* so that librdmacm does not close it; NULL: it would not */
	struct ibv_device_attr attr;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_mr *pool_mr, *zeroes_mr;
	struct list cqs;
	bool send_inv; /* can invalidate the host's key with the response */
	bool gone;     /* it is freed when no queue is on it any more */
};

struct rdma_listener {
	struct list link; /* of rdma_target.listeners */
	struct rdma_target *rt;
	struct rdma_cm_id *id; /* NULL: it is closed, or lost */
	bool lost;	       /* its device has gone: it is listened on again once it is back */
	struct sockaddr_storage address;
	struct target_port port;
};

struct rdma_target {
	struct transport_target transport;
	struct target_group *group;
	struct shares *shares;
	void *zeroes; /* TARGET_DATA_MAX bytes that nobody writes to */
	struct rdma_event_channel *events;
	int epoll_fd;
	struct list link, others;  /* of the first group's others; its others */
	_Atomic uint32_t arriving; /* requests that are on their way here */
	struct list devs, queues, dying;
	struct list pumping;	  /* queues with something to send, at the end of the turn */
	struct timer_heap timers; /* of queues */
	struct list silent;	  /* queues that have not been heard, by nudge_ns */
	struct list listeners;	  /* with those that are closed */
	uint64_t now_ns;	  /* of the present call of process */
	uint32_t quiet_rounds;	  /* calls of process since the event channel was looked at */
	struct deaf deaf;	  /* whether connections' events come */
	uint64_t relisten_ns; /* when lost listeners are tried; DEADLINE_NEVER: there are none */
	bool shutting_down;
};

struct rdma_recv {
	struct rdma_hook hook;
	struct list link; /* of queue.pending, while no command is free */
	uint8_t *capsule; /* NVME_SQE_LEN bytes */
	uint8_t *data;	  /* room for data_room bytes, or NULL */
	uint32_t data_room;
	uint32_t lkey;
	uint32_t len; /* of the capsule received */
};

enum rdma_cmd_state {
	RDMA_CMD_FREE,
	RDMA_CMD_POOL_WAIT, /* in share.waiting of the queue */
	RDMA_CMD_READ_WAIT, /* in queue.read_wait, with some of its READs perhaps under way */
	RDMA_CMD_READING,
	RDMA_CMD_TARGET,    /* the target's, or a store's */
	RDMA_CMD_SEND_WAIT, /* in queue.send_wait */
	RDMA_CMD_SENDING,
};

struct rdma_cmd {
	struct target_req req;
	struct share_cmd share;
	enum rdma_cmd_state state;
	struct list link; /* of the list that the state names, or queue.free */
	struct rdma_hook read_hook, write_hook, send_hook;
	struct rdma_recv *recv;
	struct list moving; /* of queue.moving, while the host has to do its part */
	uint64_t since_ns;  /* when that began */
	uint8_t *cqe;	    /* NVME_CQE_LEN bytes, registered */
	uint32_t cqe_lkey;
	uint32_t send_wrs; /* of the response */
	/* RDMA READs: the next descriptor, bytes asked for, how many have not completed. */
	uint32_t sgl_next, asked, reads;
};

/* The queue that it is one of. */
static inline struct rdma_queue *rdma_cmd_queue(const struct rdma_cmd *c)
{
	return c->send_hook.queue;
}

struct rdma_queue {
	struct target_queue tq;
	struct share_queue share;
	struct list link;   /* of rdma_target.queues or .dying */
	struct list silent; /* of rdma_target.silent, or in none */
	uint64_t nudge_ns;  /* while it is */
	struct rdma_hook nudge_hook;
	struct rdma_target *rt;
	struct rdma_dev *dev;
	struct rdma_cq *cq;
	struct rdma_cm_id *id;
	struct timer timer;
	uint64_t probe_ns; /* admin queues: when silence is next looked at */
	struct rdma_hook probe_hook;
	bool probing;
	bool dying, torn_down;
	bool heard; /* a capsule has come, in the end since probe_ns was set */
	bool no_writes;
	uint16_t depth;
	uint32_t cq_share;
	/*
	 * While it is young it has one receive and one command, and a page of the pool for both:
	 * what Connect takes. The page goes when the response to Connect is sent.
	 */
	struct rdma_recv first_recv;
	struct rdma_cmd first_cmd;
	uint8_t *page;
	/* Once Connect has succeeded. */
	uint32_t cmd_count;
	struct rdma_recv *recvs; /* depth */
	struct rdma_cmd *cmds;	 /* cmd_count */
	struct list free, pending, read_wait, send_wait;
	uint32_t send_wait_bytes; /* of data that came to send_wait since it was last posted */
	struct list pumping;	  /* in rdma_target.pumping, or in none */
	struct list moving;	  /* commands that wait for the host, the oldest first */
	uint32_t sends_free;	  /* entries of the send queue */
	uint32_t reads_free;
	bool inline_send;
	uint8_t *memory; /* CQEs, capsules, in-capsule data */
	size_t memory_len;
	struct ibv_mr *mr;
};

extern const struct target_transport_ops rdma_target_ops;

/* --- connection.c ----------------------------------------------------------------------------- */

/* Events of connections and of those who ask for one; true if there were any. */
bool rdma_take_events(struct rdma_target *rt);
/* Ends what was killed, and whatever that kills. */
void rdma_bury_dying(struct rdma_target *rt);

/* --- ending.c --------------------------------------------------------------------------------- */

/* To be ended: at the end of the transport's process(). Harmless when it is already. */
void rdma_queue_kill(struct rdma_queue *q);
/* It is connected: from here on its host writes to no memory by itself. */
void rdma_queue_takes_no_writes(struct rdma_queue *q);
/* The same with the reason, which the target tells of. */
void rdma_queue_fail(struct rdma_queue *q, const char *fmt, ...) printf_like(2, 3);
/* Over what a post returned. */
void rdma_post_failed(struct rdma_queue *q, const char *what, int error);

/* --- listener.c ------------------------------------------------------------------------------- */

/* As the transport's operations of these names. */
int rdma_listen_on(struct transport_target *t, const char *address, const char *port, char *why,
		   size_t room) must_use;
void rdma_unlisten(struct transport_target *t, struct target_port *port);
/* Its device has gone; false: that is no listener's. */
bool rdma_listener_lost(struct rdma_target *rt, const struct rdma_cm_id *id);
/* Tries those that are lost, when relisten_ns has come. */
void rdma_listen_again(struct rdma_target *rt);
/* All of them, which are ports no more then; what came by them stays. */
void rdma_listeners_close(struct rdma_target *rt);
/* Nothing that came by them is left. */
void rdma_listeners_free(struct rdma_target *rt);
int rdma_addresses(int family, void (*show)(void *ctx, const char *address, bool loopback),
		   void *ctx);

/* --- target.c --------------------------------------------------------------------------------- */

int rdma_target_create(struct target_group *g, struct shares *shares,
		       struct transport_target *first, struct transport_target **ret, char *why,
		       size_t room) must_use;

static inline struct rdma_target *rdma_target_of(const struct transport_target *t)
{
	return container_of(t, struct rdma_target, transport);
}

/* --- device.c ------------------------------------------------------------------------ */

/* -errno. */
int rdma_nonblocking(int fd) must_use;
int rdma_watch(struct rdma_target *rt, int fd) must_use;
/* The device of that context, opened when it is first seen; NULL if it cannot be used. */
struct rdma_dev *rdma_dev_get(struct rdma_target *rt, struct ibv_context *ctx);
void rdma_dev_free(struct rdma_dev *d);
/* A completion queue with room for share more entries, or NULL; put gives the room back. */
struct rdma_cq *rdma_cq_get(struct rdma_dev *d, uint32_t share);
void rdma_cq_put(struct rdma_cq *cq, uint32_t share);
/* Handles what is in it; to be called when a queue pair was destroyed. */
void rdma_cq_drain(struct rdma_cq *cq);
/* True if anything had completed. */
bool rdma_poll_all(struct rdma_target *rt);
/* Those that have gone, and that no queue is on any more. */
void rdma_free_gone_devices(struct rdma_target *rt);
void rdma_arm_all(struct rdma_target *rt);

/* --- command.c ---------------------------------------------------------------------- */

/* -errno; the queue is young then: it has a QP and a receive for Connect. */
int rdma_queue_open(struct rdma_queue *q) must_use;
/* Frees what open took. The QP is gone already. */
void rdma_queue_close(struct rdma_queue *q);
/* The QP is gone: gives back to the target what only the QP could have finished, and tells it. */
void rdma_queue_abandon(struct rdma_queue *q);
/* Has the host's RNIC answer something, by a READ of no bytes. */
void rdma_queue_nudge(struct rdma_queue *q);
/* Its timer has fired. */
void rdma_queue_tick(struct rdma_queue *q);
/* Responses, and then READs, of all queues that have some. */
void rdma_pump_all(struct rdma_target *rt);
/* A command has been given its memory. */
void rdma_cmd_has_memory(struct rdma_cmd *c);

/* --- response.c ------------------------------------------------------------------------------- */

/* A receive, as it is posted. */
void rdma_recv_wr(struct rdma_recv *rv, struct ibv_recv_wr *wr, struct ibv_sge sge[2]);
/* Those that wait, as far as the send queue has room. */
void rdma_responses_post(struct rdma_queue *q);

#endif
