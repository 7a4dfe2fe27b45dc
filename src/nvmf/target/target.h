/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The NVMe-oF target, without I/O: subsystems with namespaces, controllers that hosts make by
 * Connect, queues (one per connection), requests (one per command).
 *
 * A transport owns connections and memory. It embeds a target_queue in each connection and a
 * target_req in each command slot, hands capsules in with target_req_recv(), and is asked back
 * through target_transport_ops to move data and to respond. A store is reached through
 * store_ops. Time is handed in; whoever drives calls target_tick() at target_next_deadline().
 *
 * One thread drives a target and everything that hangs on it. Every entry may call the
 * transport's operations and a store's submit; none of them may free the queue or request that
 * it was called for before it returns.
 *
 * A request's life: recv, parsed once (what it executes, which way how much data goes), data
 * fetched by the transport, executed (perhaps in a store), completed, responded. Errors found
 * while parsing go straight to the response. An Asynchronous Event Request is held instead.
 *
 * When a connection goes, a store may still be at work for it. The host sends again what was not
 * answered, and later data for the same blocks: what it does next with that namespace is therefore
 * held until the work of its last association on it is done, or the old data could come last and
 * win.
 *
 * What a host sends is never trusted: it leads to a status, or to the end of its connection
 * when it broke the framing.
 */
#ifndef WEFT_NVMF_TARGET_TARGET_H
#define WEFT_NVMF_TARGET_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "nvmf/common/command.h"
#include "nvmf/common/store_ops.h"
#include "wire/nvme.h"
#include "wire/nvme_fabrics.h"
#include "wire/nvme_log.h"

#define TARGET_IO_QUEUES_MAX	 64
#define TARGET_QUEUE_ENTRIES_MAX 128 /* CAP.MQES + 1 */
#define TARGET_MDTS		 8
#define TARGET_DATA_MAX		 (4096u << TARGET_MDTS) /* the most data of one command */
#define TARGET_CAPSULE_DATA	 8192 /* in-capsule data of an I/O queue; none on admin queues */
#define TARGET_SCRATCH_MAX	 65536
#define TARGET_SGL_MAX		 16 /* MSDBD: descriptors of one command's data, on I/O queues */
#define TARGET_AER_MAX		 4
#define TARGET_NS_MAX		 256
#define TARGET_ERRLOG_ENTRIES	 32
/* Of the whole target; a host, which is an address, has no more than are left for others. */
#define TARGET_CTRLS_MAX	   256
#define TARGET_DISCOVERY_CTRLS_MAX 64 /* counted apart */

#define NVMF_PEER_LEN 64 /* an address as text, with its scope */

struct target;
struct target_queue;
struct target_req;

struct target_ns {
	uint32_t nsid; /* 1 to TARGET_NS_MAX */
	struct store *store;
	uint8_t lba_shift;
	uint64_t nlb; /* blocks */
	bool read_only;
	uint8_t uuid[16], nguid[16];
	uint64_t bytes_read, bytes_written;
};

struct target_subsys {
	struct list link; /* of target.subsystems */
	struct list ctrls, flushing;
	struct target *target;
	bool discovery;
	char nqn[NVME_NQN_LEN];
	char serial[21], model[41], firmware[9]; /* strings, padded when sent */
	/* Hosts that may connect, or NULL for any; the caller's memory. */
	const char *const *hosts;
	uint32_t host_count;
	struct target_ns *ns[TARGET_NS_MAX]; /* index NSID - 1 */
	uint32_t nn;			     /* the highest NSID in use */
	uint16_t last_cntlid;
};

/* Where hosts reach the target: what the discovery log tells. */
struct target_port {
	struct list link;
	uint16_t portid;
	uint8_t trtype, adrfam;
	bool wildcard; /* traddr is "any": the log shows the address that the host came to */
	char traddr[NVMF_TRADDR_LEN];
	char trsvcid[NVMF_TRSVCID_LEN];
};

struct target_ctrl {
	struct list
		link; /* of target_subsys.ctrls; of .flushing when it is gone and still flushes */
	struct target_subsys *subsys;
	uint16_t cntlid;
	uint8_t hostid[16];
	char hostnqn[NVME_NQN_LEN];
	uint8_t peer[16]; /* the address it connected from */
	char raddr[NVMF_PEER_LEN];
	uint64_t cap;
	uint32_t cc, csts;
	uint32_t kato_ms; /* 0: never expires */
	bool traffic;	  /* a command came since the keep-alive timer was armed */
	struct timer kato_timer;
	struct target_queue *queues[1 + TARGET_IO_QUEUES_MAX]; /* by queue ID */
	uint32_t io_queues;
	uint32_t io_queues_granted; /* 0: Number of Queues was not asked for yet */
	struct target_req *aer[TARGET_AER_MAX];
	uint32_t aer_count;
	uint32_t aen_enabled, aen_pending, aen_masked; /* bits of OAES */
	uint32_t changed_ns[TARGET_NS_MAX / 32];
	uint32_t written_ns[TARGET_NS_MAX / 32]; /* since it began */
	/* Features that are kept but steer nothing here. */
	uint32_t arbitration, temp_over, temp_under, error_recovery, write_atomic;
	bool write_cache;
	struct nvme_error_entry errlog[TARGET_ERRLOG_ENTRIES]; /* ring by error_count */
	uint64_t error_count;
	uint64_t reads, writes, sectors_read, sectors_written; /* sectors of 512 bytes */
	uint64_t started_ns;
	/* A normal shutdown flushes what it wrote to, one namespace after the other. */
	struct store_op shutdown_op;
	uint32_t shutdown_nsid;
	bool shutdown_busy, gone;
};

struct target_transport_ops {
	uint8_t trtype;
	bool keyed_sgl; /* RDMA: data is reached by keyed descriptors */
	/*
	 * Find memory for r->data_len bytes (r->data, unless it is set already because the data
	 * came in the capsule) and r->scratch_len bytes (r->scratch); if r->dir is
	 * NVMF_DIR_TO_CTRL and the data did not come in the capsule, bring it from where
	 * target_req_sgl() says.
	 * Then call target_req_ready(), at once or later.
	 */
	void (*fetch)(struct target_req *r);
	/* True if the fetch of r had not begun to move data and is forgotten now. */
	bool (*cancel)(struct target_req *r);
	/*
	 * Send r->data, and r->zero_len zeroes behind it, to where target_req_sgl() says if
	 * target_req_has_reply_data(), then r->cqe. The request is
	 * the transport's again from here on.
	 */
	void (*respond)(struct target_req *r);
	/*
	 * Connect is about to succeed: have what it takes to keep all entries of the queue busy.
	 * Before, the transport need not have more than Connect itself takes. -errno: the host is
	 * told to come again. May be NULL.
	 */
	int (*admit)(struct target_queue *q);
	/* End the connection; target_queue_disconnected() comes of it, later. */
	void (*disconnect)(struct target_queue *q);
};

struct target_queue {
	struct list link; /* of target.queues, until it is disconnected and has no live request */
	struct target *target;
	const struct target_transport_ops *ops;
	struct target_port *port;
	char traddr[NVMF_TRADDR_LEN]; /* our address as the host sees it, for the discovery log */
	uint8_t peer[16];	      /* the host's address; equal ones are one host's */
	char raddr[NVMF_PEER_LEN];    /* the same as text, whole */
	char why[96];		      /* the transport ends it so; empty: the host does */
	uint16_t qid;		      /* as the transport learnt it; Connect must agree */
	uint16_t entries_max;	      /* commands the transport has room for */
	uint32_t capsule_data_max;    /* in-capsule bytes the transport takes on this queue */
	struct target_ctrl *ctrl;     /* NULL until Connect has succeeded, and after the end */
	/* Whose queue it is or was: of the Connect that succeeded. */
	const struct target_subsys *subsys;
	uint8_t hostid[16];
	uint16_t entries;
	uint16_t sqhd;
	bool no_sq_flow;
	bool disconnected;
	struct list reqs; /* live requests */
	uint32_t live;
	struct timer connect_timer; /* a connection without Connect does not stay */
};

enum target_req_state {
	TARGET_REQ_FREE,
	TARGET_REQ_FETCH,   /* the transport's, until target_req_ready() */
	TARGET_REQ_EXECUTE, /* ours, or a store's */
	TARGET_REQ_HELD,    /* an Asynchronous Event Request, or I/O that waits for older I/O */
};

struct target_req {
	struct target_queue *queue;
	struct list link;
	struct list held; /* of target.held, while it is I/O that is held */
	enum target_req_state state;
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;
	void (*execute)(struct target_req *r);
	enum nvmf_dir dir;
	bool in_capsule;
	/* Where the host's memory is: the descriptor of the SQE, or a list in the capsule. */
	const uint8_t *sgl_list;
	uint32_t sgl_count;
	uint64_t sgl_len; /* bytes that the descriptors name together */
	uint8_t *capsule; /* what came behind the SQE */
	size_t capsule_len;
	uint32_t data_len, scratch_len;
	uint32_t zero_len; /* after the data the host gets so many zeroes; no memory holds them */
	void *data;	   /* data_len bytes */
	void *scratch;	   /* scratch_len bytes */
	struct target_ns *ns;
	struct store_op op;
	/* Commands that take several operations. */
	uint32_t step, steps;
	bool submitting, again;
	uint16_t error_location; /* byte of the SQE that an error is about; for the error log */
	uint64_t received_ns;
};

enum target_event_type {
	TARGET_EVENT_CTRL_NEW,
	TARGET_EVENT_CTRL_GONE,
	TARGET_EVENT_KEEP_ALIVE_EXPIRED, /* CTRL_GONE follows */
	TARGET_EVENT_CONNECT_REFUSED,	 /* status says why */
	TARGET_EVENT_BAD_CAPSULE,	 /* framing broken: the connection is ended */
	TARGET_EVENT_QUEUE_NEW,		 /* an I/O queue */
	TARGET_EVENT_QUEUE_FAILED,	 /* the transport ends it: why; of an admin queue with a
					  * controller CTRL_GONE says so */
	TARGET_EVENT_REJECTED,		 /* the transport lets a connection not come: peer, why */
};

struct target_event {
	enum target_event_type type;
	const struct target_ctrl *ctrl; /* may be NULL */
	const struct target_queue *queue;
	uint16_t status;
	const char *hostnqn, *subnqn; /* CONNECT_REFUSED; as sent, terminated; may be NULL */
	const char *peer;	      /* where the host is; may be NULL */
	const char *why;	      /* may be NULL: the host ended it */
};

struct target_env { /* what a core cannot have of its own */
	void *ctx;
	void *(*alloc)(void *ctx, size_t bytes); /* zeroed or NULL; per controller, at Connect */
	void (*free)(void *ctx, void *p);
	void (*event)(void *ctx, const struct target_event *e); /* may be NULL */
};

struct target {
	struct target_env env;
	struct list subsystems, ports, queues;
	struct list held; /* I/O that waits for what an ended association left */
	bool left_work;	  /* one may have left some */
	bool going_on;	  /* held requests are being looked at */
	struct target_subsys discovery;
	struct timer_heap kato_timers;	  /* of controllers */
	struct timer_heap connect_timers; /* of queues */
	uint64_t now_ns, start_ns;
	uint64_t genctr;
	uint32_t ctrl_count, discovery_count; /* the second of the first */
	uint16_t last_portid;
};

/* --- set-up: all memory stays the caller's and outlives the target ------------------------- */

void target_init(struct target *t, const struct target_env *env, uint64_t now_ns);
/* No queue and no controller is left: one that was shutting down stays while stores flush. */
bool target_idle(const struct target *t);
/* Must be idle. */
void target_fini(struct target *t);
/* Serial, model, hosts: filled in by the caller before. -EINVAL: no valid NQN; -EEXIST. */
int target_subsys_add(struct target *t, struct target_subsys *s) must_use;
/* ns->nsid, store, lba_shift, read_only and the identifiers are the caller's; nlb is set.
 * -EINVAL: the NSID or a block size that does not fit the store; -EEXIST: the NSID is taken. */
int target_ns_add(struct target_subsys *s, struct target_ns *ns) must_use;
/* To be called when a namespace's size changed: hosts that asked are told. */
void target_ns_changed(struct target_ns *ns, struct target_subsys *s);
void target_port_add(struct target *t, struct target_port *p);
void target_port_remove(struct target *t, struct target_port *p);

/* --- time ----------------------------------------------------------------------------------- */

uint64_t target_next_deadline(const struct target *t);
void target_tick(struct target *t, uint64_t now_ns);

/* --- transports ----------------------------------------------------------------------------- */

/* A connection was refused before it was one. */
void target_rejected(struct target *t, const char *peer, const char *why);
/* ops, port, traddr, peer, raddr, why, qid, entries_max and capsule_data_max are the caller's; the
 * rest is set. */
void target_queue_init(struct target_queue *q, struct target *t, uint64_t now_ns);
/*
 * The connection is gone. Held requests come back through respond at once, the others when the
 * store is done with them; requests in fetch the transport itself ends with target_req_ready().
 * When q->live is 0 the queue's memory may be reused.
 */
void target_queue_disconnected(struct target_queue *q);

/*
 * A capsule came: sqe_len bytes at sqe, in-capsule data at data. All but sqe must stay until
 * respond.
 */
void target_req_recv(struct target_queue *q, struct target_req *r, const void *sqe, size_t sqe_len,
		     void *data, size_t data_len, uint64_t now_ns);
/* fetch is done; status is NVME_SC_SUCCESS or why it is not. */
void target_req_ready(struct target_req *r, uint16_t status);

static inline bool target_req_has_reply_data(const struct target_req *r)
{
	return r->dir == NVMF_DIR_TO_HOST && (r->data_len || r->zero_len) &&
	       r->cqe.status == NVME_SC_SUCCESS;
}

/*
 * The host's memory, piece by piece: r->sgl_count keyed descriptors, with data_len + zero_len bytes
 * together. Some may be of no bytes, and then mean nothing.
 */
struct nvme_sgl target_req_sgl(const struct target_req *r, uint32_t i);

#endif
