/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Between rdma_target.c (devices, connections) and rdma_target_queue.c (commands and data). */
#ifndef WEFT_NVMF_TRANSPORT_RDMA_TARGET_INTERNAL_H
#define WEFT_NVMF_TRANSPORT_RDMA_TARGET_INTERNAL_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "base/list.h"
#include "nvmf/transport/data_pool.h"
#include "nvmf/transport/rdma_target.h"
#include "wire/nvme_rdma.h"

#define RDMA_QUEUES_MAX	   1024
#define RDMA_READS_MAX	   16 /* RDMA READs of one queue under way */
#define RDMA_CQ_ENTRIES	   8192
#define RDMA_LISTENERS_MAX 16

struct rdma_queue;

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
	bool armed;
};

struct rdma_dev {
	struct list link;
	struct rdma_target *rt;
	struct ibv_context *ctx;
	struct ibv_device_attr attr;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_mr *pool_mr;
	struct list cqs;
	bool send_inv; /* can invalidate the host's key with the response */
};

struct rdma_listener {
	struct rdma_target *rt;
	struct rdma_cm_id *id;
	struct target_port port;
};

struct rdma_target {
	struct target *target;
	struct data_pool pool;
	struct rdma_event_channel *events;
	int epoll_fd;
	struct list devs, queues, dying;
	struct list pool_wait; /* commands that wait for memory, first come first served */
	struct list silent;    /* queues that have not been heard, by nudge_ns */
	uint32_t queue_count;
	struct rdma_listener listeners[RDMA_LISTENERS_MAX];
	uint32_t listener_count;
	uint64_t now_ns;       /* of the present call of process */
	uint32_t quiet_rounds; /* calls of process since the event channel was looked at */
	bool shutting_down;
};

struct rdma_recv {
	struct rdma_hook hook;
	struct list link; /* of queue.pending, while no command is free */
	uint8_t *capsule; /* NVME_SQE_LEN bytes */
	uint8_t *data;	  /* TARGET_CAPSULE_DATA bytes, or NULL */
	uint32_t len;	  /* of the capsule received */
};

enum rdma_cmd_state {
	RDMA_CMD_FREE,
	RDMA_CMD_POOL_WAIT, /* in rdma_target.pool_wait */
	RDMA_CMD_READ_WAIT, /* in queue.read_wait */
	RDMA_CMD_READING,
	RDMA_CMD_TARGET,    /* the target's, or a store's */
	RDMA_CMD_SEND_WAIT, /* in queue.send_wait */
	RDMA_CMD_SENDING,
};

struct rdma_cmd {
	struct target_req req;
	enum rdma_cmd_state state;
	struct list link; /* of the list that the state names, or queue.free */
	struct rdma_hook read_hook, write_hook, send_hook;
	struct rdma_recv *recv;
	void *data, *scratch; /* of the pool, or NULL */
	uint8_t *cqe;	      /* NVME_CQE_LEN bytes, registered */
	uint32_t send_wrs;    /* of the response */
};

struct rdma_queue {
	struct target_queue tq;
	struct list link;   /* of rdma_target.queues or .dying */
	struct list silent; /* of rdma_target.silent, or in none */
	uint64_t nudge_ns;  /* while it is */
	struct rdma_hook nudge_hook;
	struct rdma_target *rt;
	struct rdma_dev *dev;
	struct rdma_cq *cq;
	struct rdma_cm_id *id;
	bool dying, torn_down;
	bool heard; /* a capsule has come */
	uint16_t depth;
	uint32_t cq_share;
	uint32_t cmd_count;
	struct rdma_recv *recvs; /* depth */
	struct rdma_cmd *cmds;	 /* cmd_count */
	struct list free, pending, read_wait, send_wait;
	uint32_t sends_free; /* entries of the send queue */
	uint32_t reads_free;
	bool inline_send;
	uint8_t *memory; /* CQEs, capsules, in-capsule data */
	size_t memory_len;
	struct ibv_mr *mr;
};

extern const struct target_transport_ops rdma_target_ops;

/* -errno; the queue has a QP then, and its receives are posted. */
int rdma_queue_open(struct rdma_queue *q) must_use;
/* Frees what open took. The QP is gone already. */
void rdma_queue_close(struct rdma_queue *q);
/* The QP is gone: gives back to the target what only the QP could have finished. */
void rdma_queue_abandon(struct rdma_queue *q);
/* To be ended: at the end of rdma_target_process(). Harmless when it is already. */
void rdma_queue_kill(struct rdma_queue *q);
/* Has the host's RNIC answer something, by a READ of no bytes. */
void rdma_queue_nudge(struct rdma_queue *q);
/* Commands that waited for memory may go on. */
void rdma_pool_pump(struct rdma_target *rt);

#endif
