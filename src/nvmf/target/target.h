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
 * One thread drives a target and everything that hangs on it, or several do, each with a group of
 * queues of its own: group.h says what is whose. Every entry may call the transport's operations
 * and a store's submit; none of them may free the queue or request that it was called for before it
 * returns.
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
#include "base/units.h"
#include "nvmf/auth/psk.h"
#include "nvmf/common/command.h"
#include "nvmf/common/store_ops.h"
#include "nvmf/target/figures.h"
#include "nvmf/target/group.h"
#include "wire/nvme.h"
#include "wire/nvme_fabrics.h"
#include "wire/nvme_log.h"

#define TARGET_IO_QUEUES_MAX	 128
#define TARGET_QUEUE_ENTRIES_MAX 1024 /* CAP.MQES + 1 */
#define TARGET_MDTS		 8
#define TARGET_WZSL		 13			/* 32 MiB */
#define TARGET_DATA_MAX		 (4096u << TARGET_MDTS) /* the most data of one command */
#define TARGET_CAPSULE_DATA	 8192  /* in-capsule data of a queue, where it may have any */
#define TARGET_CAPSULE_DATA_MAX	 16384 /* and what a port may say instead */
#define TARGET_CAPSULE_PAGE	 4096  /* what has room for them is a multiple of this */
#define TARGET_SCRATCH_MAX	 65536u
#define TARGET_TURN_MAX		 (4u << 20) /* of what stores do at once for commands in steps */
#define TARGET_COPY_RANGES	 128 /* of one Copy; together no more than TARGET_SCRATCH_MAX */
#define TARGET_SGL_MAX		 16  /* MSDBD: descriptors of one command's data, on I/O queues */
#define TARGET_AER_MAX		 4
#define TARGET_ACWU		 1    /* blocks of a fused Compare and Write */
#define TARGET_NS_MAX		 1024 /* as Linux has it */
/* Of a namespace, stretches of 64 blocks in which some are uncorrectable: two commands of as many
 * blocks as one can name. */
#define TARGET_MARKS_MAX      2050
#define TARGET_ERRLOG_ENTRIES 32
#define TARGET_STALL_NS	      (5 * NSEC_PER_SEC)
/* Of the whole target; a host, which is an address, has no more than are left for others. */
#define TARGET_CTRLS_MAX	   8192
#define TARGET_DISCOVERY_CTRLS_MAX 1024 /* counted apart */
#define TARGET_DISCOVERY_HOST_MAX  128	/* of these, of one host: anybody may discover */

/* A queue ID that comes with Connect, until then. */
#define TARGET_QID_UNKNOWN 0xffff

#define NVMF_PEER_LEN 64 /* an address as text, with its scope */

struct target;
struct target_auth;
struct target_marks;
struct target_psk;
struct target_queue;
struct target_req;

/*
 * A host that is known by name. One that has a key proves by DH-HMAC-CHAP, on each of its queues,
 * that it is who it says, wherever it may connect; discovery is open to anybody.
 */
struct target_host {
	struct list link;	/* of target.hosts */
	char nqn[NVME_NQN_LEN]; /* empty: whoever has no entry of its own */
	struct auth_key key;	/* of no length: it need not prove anything */
	struct auth_key
		ctrl_key; /* the target's own: of no length: it proves nothing to the host */
	/* What is at least asked for: these, or else the next better that the host offers. hash: 0
	 * or enum nvmf_auth_hash, dhgroup: enum nvmf_auth_dhgroup. */
	uint8_t hash, dhgroup;
};

struct target_ns {
	uint32_t nsid;	 /* 1 to TARGET_NS_MAX */
	uint64_t number; /* among all that the target has ever had, from 1 on */
	struct store *store;
	uint8_t lba_shift;
	_Atomic uint64_t nlb; /* blocks */
	/* Hosts may not write: protect, one of them has said so, and may take it back. */
	bool read_only;
	_Atomic bool protect;
	uint8_t uuid[16], nguid[16];
	/* When a flush failed last (0: never): a store says so once, and then knows nothing of what
	 * has not got to the disk. */
	_Atomic uint64_t flush_failed_ns;
	_Atomic uint32_t flush_failure; /* the last, by the target's count of them; 0: none */
	/* Blocks that are uncorrectable (uncorrectable.c): the admin plane's, NULL: none; whether
	 * there are any. */
	struct target_marks *marks;
	_Atomic bool marked;
	/*
	 * While it leaves: who is told when nothing is under way for it any more. The message goes
	 * from group to group, and stays with each (counting) until nothing is left there (busy).
	 */
	void (*gone)(struct target_ns *ns);
	void (*counted)(struct target_msg *m); /* nothing is left in a group */
	struct target_subsys *leaves;
	struct target_msg msg;
	struct target_group *at; /* as the admin plane knows */
	_Atomic(struct target_group *) counting;
	uint32_t busy;
	/* A fused operation that has its turn (fused.c): its block, the Write, and how many that
	 * write there it waits for in a group. */
	_Atomic uint64_t fused_lba;
	struct target_req *fused;
	struct target_group *fused_at;
	uint32_t fused_busy;
	struct target *fused_of;
	struct target_msg fused_msg; /* it is over */
};

/* What came on a queue; counted by its group's thread. */
struct target_counts {
	_Atomic uint64_t commands, reads, writes, sectors_read, sectors_written; /* of 512 bytes */
	_Atomic uint64_t busy_ns; /* with commands under way */
};

struct target_subsys {
	struct list link; /* of target.subsystems */
	struct list ctrls, flushing;
	uint32_t queues;  /* connected to it, or not done yet with what came on them */
	uint32_t leaving; /* namespaces of its own that are */
	struct target *target;
	bool discovery;
	char nqn[NVME_NQN_LEN];
	char serial[21], model[41], firmware[9]; /* strings, padded when sent */
	uint16_t vid, ssvid;			 /* of PCI's vendors; 0: none */
	uint32_t oui;				 /* IEEE's, of 24 bits */
	uint32_t vs; /* property VS of its controllers; 0: the target's own */
	/* Hosts that may connect, or NULL for any; the caller's memory. */
	const char *const *hosts;
	uint32_t host_count;
	_Atomic(struct target_ns *) ns[TARGET_NS_MAX]; /* index NSID - 1 */
	uint32_t nn;				       /* the highest NSID in use */
	uint16_t cntlid_min, cntlid_max; /* of its controllers; 0: no limit of its own */
	uint16_t qid_max;		 /* I/O queues of one; 0: no limit of its own */
	uint16_t last_cntlid;
	uint64_t unsafe_shutdowns;	       /* controllers that ended without */
	struct target_counts past;	       /* of controllers that have left */
	uint64_t media_errors;		       /* of all that there were */
	void (*gone)(struct target_subsys *s); /* while it leaves: who is told of its end */
};

/* Another target's port, of which a port's discovery log tells. */
struct target_referral {
	uint8_t trtype, adrfam;
	uint16_t portid;
	char traddr[NVMF_TRADDR_LEN];
	char trsvcid[NVMF_TRSVCID_LEN];
};

/* How hosts are to be kept from being read along, where they reach the target. */
enum target_tls {
	TARGET_TLS_NONE,
	TARGET_TLS_REQUIRED, /* who does not speak TLS is not heard */
	TARGET_TLS_OFFERED,  /* who does not is heard, too */
};

/* Where hosts reach the target, and what it offers there: what the discovery log tells. */
struct target_port {
	struct list link;
	uint16_t portid;
	const struct target_referral *referrals; /* the caller's memory */
	uint32_t referral_count;
	/* The subsystems, or NULL for all; the caller's memory. Discovery is offered everywhere. */
	struct target_subsys *const *subsystems;
	uint32_t subsys_count;
	uint16_t entries_max; /* of an I/O queue; 0: no limit of its own */
	uint8_t mdts;	      /* as Identify has it; 0: no limit of its own */
	/* In-capsule data of I/O queues, as its controllers say: target_port_capsules(). */
	uint32_t capsule_data;
	bool capsule_told;
	_Atomic uint32_t capsule_room; /* the most that was ever said */
	const struct target_transport_ops *ops;
	enum target_tls tls;	      /* of connections from now on */
	_Atomic uint32_t connections; /* that came by it, in any group; the transport's */
	uint8_t adrfam;
	bool wildcard; /* traddr is "any": the log shows the address that the host came to */
	char traddr[NVMF_TRADDR_LEN];
	char trsvcid[NVMF_TRSVCID_LEN];
};

struct target_ctrl {
	struct list
		link; /* of target_subsys.ctrls; of .flushing when it is gone and not forgotten */
	struct target_subsys *subsys;
	uint16_t cntlid;
	uint8_t hostid[16];
	char hostnqn[NVME_NQN_LEN];
	uint8_t peer[16]; /* the address it connected from */
	char raddr[NVMF_PEER_LEN];
	uint64_t cap;
	uint32_t vs;	       /* these as subsystem and port had them when it came */
	uint32_t capsule_data; /* bytes that go with an I/O command */
	uint8_t mdts;
	uint32_t cc, csts;
	bool must_prove;	/* as its host stood at the Connect of the admin queue */
	bool secure;		/* that came by TLS, and all others have to */
	uint32_t kato_ms;	/* 0: never expires */
	uint64_t kato_commands; /* that had come when the keep-alive timer was armed */
	struct timer kato_timer;
	bool kato_again; /* it has fired, and is armed for a second look */
	struct target_queue *queues[1 + TARGET_IO_QUEUES_MAX]; /* by queue ID */
	/* For I/O, until their hosts have proved who they are: who does so first has the ID. */
	struct list unbound;
	uint32_t attached; /* queues whose groups know it, and who else has it in hand */
	uint32_t io_queues;
	uint32_t io_queues_granted; /* 0: Number of Queues was not asked for yet */
	struct target_req *aer[TARGET_AER_MAX];
	uint32_t aer_count;
	uint32_t aen_enabled, aen_pending, aen_masked; /* bits of OAES */
	/* Of a discovery controller: as what its host saw last became so, and by what that is
	 * known. */
	uint64_t genctr, log_sum;
	uint32_t changed_ns[TARGET_NS_MAX / 32];
	_Atomic uint32_t written_ns[TARGET_NS_MAX / 32]; /* since it began */
	/* Failed flushes that are no news to its host: by namespace; those before it began. */
	_Atomic uint32_t failure_told[TARGET_NS_MAX];
	uint32_t failures_before;
	/* Features that are kept but steer nothing here. */
	uint32_t arbitration, power, temp_over, temp_under, error_recovery, write_atomic;
	uint8_t host_behavior[3]; /* ACRE, ETDAS, LBAFEE */
	_Atomic bool write_cache;
	struct nvme_error_entry errlog[TARGET_ERRLOG_ENTRIES]; /* ring by error_count */
	uint64_t error_count;
	struct target_counts past; /* of queues that have left */
	uint64_t started_ns;
	/* A normal shutdown flushes what it wrote to, one namespace after the other. */
	struct store_op shutdown_op;
	uint32_t shutdown_nsid;	       /* the next */
	struct target_ns *shutdown_ns; /* the one under way */
	bool flush_lost;	       /* of one that it wrote to */
	bool shutdown_busy;
	bool silent; /* its keep-alive time is over */
	bool leaves; /* its host has a key of TLS to come by, and is to */
};

struct target_transport_ops {
	/* What it is, as the discovery log has it. */
	uint8_t trtype, treq;
	void (*tsas)(uint8_t tsas[256]); /* NULL: all zeroes */
	/* What it carries, as Identify and CAP have it. */
	enum nvme_sgl_type sgl;	   /* what names data outside the capsule: keyed, or transport's */
	uint16_t sgl_max;	   /* so many of these a command, on I/O queues */
	uint8_t mdts;		   /* at most TARGET_MDTS */
	bool sends_pieces;	   /* r->loan, if it has one, instead of r->data */
	uint16_t entries_max;	   /* of a queue, at most TARGET_QUEUE_ENTRIES_MAX */
	uint32_t capsule_data_max; /* of I/O queues */
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
	 * told to come again. Should Connect be refused after all, it is asked at the next one
	 * again, of what may be another queue ID if that was not known before. May be NULL.
	 */
	int (*admit)(struct target_queue *q);
	/* End the connection; target_queue_disconnected() comes of it, later. */
	void (*disconnect)(struct target_queue *q);
	/*
	 * A queue that target_queue_hand() has sent is there, in the thread of its new group:
	 * target_queue_init() is to be called, and what came on it handed in. NULL: the transport
	 * hands none on.
	 */
	void (*arrive)(struct target_queue *q);
};

/* What a queue's group tells the admin plane, which answers: the queue is disconnected, what its
 * requests still do, that it is over. */
struct target_report {
	struct target_msg msg;
	void (*handle)(struct target_msg *m); /* by the admin plane */
	bool disconnected, over;
	uint32_t busy_ns[TARGET_NS_MAX / 32]; /* namespaces that its requests are for */
};

/* The admin plane tells a queue's group to end the connection; the group answers. */
struct target_order {
	struct target_msg msg;
	struct target_ctrl *drop; /* and to forget this controller, or NULL */
	const char *why;	  /* a static text or NULL */
};

struct target_queue {
	struct list link; /* of target_group.queues */
	struct target *target;
	/* Whose queue it is; NULL at target_queue_init(): the first group's, and so is every admin
	 * queue. */
	struct target_group *group;
	const struct target_transport_ops *ops;
	struct target_port *port;     /* NULL: none, nothing is offered there */
	char traddr[NVMF_TRADDR_LEN]; /* our address as the host sees it, for the discovery log */
	uint8_t peer[16];	      /* the host's address; equal ones are one host's */
	char raddr[NVMF_PEER_LEN];    /* the same as text, whole */
	char why[96];		      /* the transport ends it so; empty: the host does */
	/* By TLS: whom the handshake has proved, and to what; set before anything comes. */
	bool secure;
	char tls_hostnqn[NVME_NQN_LEN], tls_subnqn[NVME_NQN_LEN];
	struct target_psk *psk;	   /* by a key that an authentication has generated; or NULL */
	uint16_t qid;		   /* where the transport knows it, Connect must agree */
	uint16_t entries_max;	   /* commands the transport has room for */
	uint32_t capsule_data_max; /* in-capsule bytes the transport takes on this queue */

	uint16_t entries_asked; /* by the Connect that is to be admitted */

	/* Its group's. */
	struct target_ctrl *ctrl; /* NULL until Connect has succeeded, and after the end */
	uint16_t entries;
	uint16_t sqhd;
	bool no_sq_flow;
	bool authenticated;	    /* or need not be: else it is for authentication alone */
	bool connecting;	    /* the admin plane has a Connect that came on it */
	bool late_qid;		    /* its ID comes with Connect */
	bool ending;		    /* its controller is reset or gone: no more I/O */
	struct target_req *parting; /* a Disconnect that waits for the queue's other commands */
	bool parted;		    /* one was answered: the connection is left to end */
	bool disconnected;	    /* its connection is */
	struct list reqs;	    /* live requests */
	struct target_req *first; /* the first half of a fused operation, until the next command */
	bool first_failed;	  /* that was none */
	uint32_t live;		  /* of these, and a report that is not answered */
	struct timer connect_timer; /* without Connect, or authentication, it does not stay */
	struct target_counts counts;
	uint64_t busy_since_ns;
	bool report_out, report_again; /* one is under way; there is more to report */
	struct figures_of_queue shown;

	struct target_report report;
	struct target_order order;

	/* The admin plane's. */
	struct target_ctrl *owner;    /* as ctrl, as far as the admin plane knows */
	struct target_subsys *subsys; /* whose it is or was: of the Connect that succeeded */
	struct target_ctrl *parts;    /* owner, until a Disconnect: to be put at the end */
	uint8_t hostid[16];
	struct target_auth *auth; /* a transaction that is under way, or has failed; or NULL */
	bool proved;		  /* one has succeeded */
	bool unproved;		  /* one is to, and that it has not is not told yet */
	uint8_t auth_tries;	  /* that were begun before */
	struct list unbound;	  /* of target_ctrl.unbound; or in none */
	bool left;		  /* it was reported disconnected */
	struct list remains;	  /* of target.remains */
	uint32_t busy_ns[TARGET_NS_MAX / 32]; /* while it is in that */
	/* An order is under way; there is another; for that, the answer to a report waits. */
	bool order_out, order_again, answer_waits;
	struct target_order next_order;
};

enum target_req_state {
	TARGET_REQ_FREE,
	TARGET_REQ_FETCH,   /* the transport's, until target_req_ready() */
	TARGET_REQ_EXECUTE, /* ours, or a store's */
	TARGET_REQ_HELD,    /* an Asynchronous Event Request, or I/O that waits for other I/O */
};

struct target_req {
	struct target_queue *queue;
	struct list link;
	struct list held; /* of target.held, while it is I/O that is held */
	enum target_req_state state;
	uint64_t since_ns; /* the turn in which it came */
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
	/* Instead of data: pieces of the store's memory (target_req_lend()); or NULL. */
	struct store_loan *loan;
	struct target_ns *ns;
	/* Between the queue's group and the admin plane. */
	struct target_msg msg;
	struct target_ctrl *connected; /* Connect: to what */
	struct target_queue *abort_on; /* Abort: where the command is */
	uint8_t verdict;	       /* Authentication: what becomes of the queue */
	struct store_op op;
	struct iovec op_iov;	 /* its memory */
	uint64_t store_ns;	 /* when that was submitted; 0: none was */
	int store_error;	 /* with which it has failed */
	uint32_t failure_before; /* Flush: the namespace's last when it began */
	/* It was there for long, as was told: since when, with what. */
	uint64_t stall_ns;
	enum store_opcode stall_opcode;
	struct target_msg stall_msg;
	bool telling, over; /* that is being told; the command is complete meanwhile */
	/* Commands that take several operations: what prepares the next one, how much of its step
	 * is done, its place among those that go on in the next turn. */
	uint32_t step, steps;
	bool (*next)(struct target_req *r, uint16_t *status);
	uint64_t part;
	struct list later;
	bool submitting, again;
	bool fetched;	   /* its data are there */
	uint16_t aborting; /* with what it ends, rather than go on with what comes next; or 0 */
	/* One of a fused operation: the other, what is executed then, whether it can be, or with
	 * what it ends instead. */
	struct target_req *pair;
	void (*then)(struct target_req *r);
	bool ready;
	uint16_t doom;
	bool guards;		 /* the block is its own: the namespace's fused_lba */
	bool counted;		 /* a fused operation waits for it */
	uint16_t error_location; /* byte of the SQE that an error is about; for the error log */
	bool error_lba_known;	 /* else it is the first of the command */
	uint64_t error_lba;
};

enum target_event_type {
	TARGET_EVENT_CTRL_NEW,
	TARGET_EVENT_CTRL_GONE,
	TARGET_EVENT_KEEP_ALIVE_EXPIRED, /* CTRL_GONE follows */
	TARGET_EVENT_CONNECT_REFUSED,	 /* status says why */
	TARGET_EVENT_QUEUE_NEW,		 /* an I/O queue */
	TARGET_EVENT_QUEUE_FAILED,	 /* the transport ends it: why; of an admin queue with a
					  * controller CTRL_GONE says so */
	TARGET_EVENT_FLUSH_FAILED,	 /* at shutdown: what the host wrote to nsid: error */
	TARGET_EVENT_REJECTED,		 /* the transport lets a connection not come: peer, why */
	TARGET_EVENT_AUTHENTICATED,	 /* ctrl, queue */
	TARGET_EVENT_AUTH_FAILED,	 /* the same, but ctrl may be gone: why; the queue is
					  * ended, or has without a proof */
	/* Of a command: ns, nsid, opcode; ctrl is NULL if its host has gone. */
	TARGET_EVENT_STORE_FAILED, /* error */
	TARGET_EVENT_STALLED,	   /* it has been in the store for waited_ns, and is still there */
	TARGET_EVENT_STALL_OVER,   /* it was, and is answered */
};

struct target_event {
	enum target_event_type type;
	const struct target_ctrl *ctrl; /* may be NULL */
	const struct target_queue *queue;
	uint16_t status;
	uint32_t nsid;
	const struct target_ns *ns;
	enum store_opcode opcode;
	uint64_t waited_ns;
	int error;		      /* -errno */
	const char *hostnqn, *subnqn; /* CONNECT_REFUSED; as sent, terminated; may be NULL */
	const char *peer;	      /* where the host is; may be NULL */
	/* May be NULL: the host ended it. What a peer can choose at will is in brackets. */
	const char *why;
};

/* What a core cannot have of its own. Called by the first group's thread. */
struct target_env {
	void *ctx;
	void *(*alloc)(void *ctx,
		       size_t bytes); /* zeroed or NULL: a controller, what authentication takes */
	void (*free)(void *ctx, void *p);
	void (*event)(void *ctx, const struct target_event *e); /* may be NULL */
	/* Bytes that nobody can guess; NULL: no host is asked to prove itself. */
	void (*random)(void *ctx, void *p, size_t len);
	/* The key of TLS of a host of that name; false: it has none. NULL: nobody has. */
	bool (*tls_key)(void *ctx, const char *hostnqn, struct auth_key *ret);
	bool tls_compat;		  /* as older nvme-cli derives keys of TLS */
	struct target_counters *counters; /* the first group's; NULL: its own */
	struct target_figures *figures;	  /* the first group's; NULL: none */
};

struct target {
	struct target_env env;
	struct target_counters *counters; /* the first group's, and of what the admin plane does */
	struct target_group group;	  /* the first */
	struct list groups;
	struct list subsystems, ports, hosts;
	struct list psks; /* keys of TLS that were generated, the oldest first */
	struct timer_heap psk_timers;
	uint32_t psks_unused;	   /* of these */
	struct list held;	   /* I/O that waits for what an ended association left */
	struct list remains;	   /* queues of ended associations that are not done */
	_Atomic bool left_work;	   /* there are such */
	bool going_on;		   /* held requests are being looked at */
	struct target_group *turn; /* that was given an I/O queue last */
	struct target_subsys discovery;
	struct timer_heap kato_timers; /* of controllers */
	uint64_t start_ns;
	uint64_t genctr;		      /* changes of what discovery tells to anybody */
	bool log_changed;		      /* and nobody has looked yet who sees them */
	uint32_t auth_seqnum;		      /* of the last challenge; 0: there was none */
	uint32_t ctrl_count, discovery_count; /* the second of the first */
	uint64_t last_ns_number;
	_Atomic uint32_t flush_failures; /* of all namespaces */
	uint16_t last_portid;
};

/* --- set-up: all memory stays the caller's until it has left, or the target is at its end --- */

void target_init(struct target *t, const struct target_env *env, uint64_t now_ns);
/* No queue (of the first group) and no controller is left: one that was shutting down stays while
 * stores flush. */
bool target_idle(const struct target *t);
/* Must be idle. */
void target_fini(struct target *t);
/* What the discovery subsystem is called besides by its well-known name, and calls itself; NULL:
 * nothing else. No subsystem has that name. */
void target_discovery_name(struct target *t, const char *nqn);
/* Serial, model, hosts: filled in by the caller before. -EINVAL: no valid NQN; -EEXIST. */
int target_subsys_add(struct target *t, struct target_subsys *s) must_use;
/* Who may connect from now on, as in struct target_subsys: hosts NULL for any. Controllers of hosts
 * that may not end.
 */
void target_subsys_allow(struct target_subsys *s, const char *const *hosts, uint32_t count);
/* ns->nsid, store, lba_shift, read_only and the identifiers are the caller's; number, nlb are set.
 * -EINVAL: the NSID or a block size that does not fit the store; -EEXIST: the NSID is taken. */
int target_ns_add(struct target_subsys *s, struct target_ns *ns) must_use;
/* To be called when a namespace's size changed: hosts that asked are told. */
void target_ns_changed(struct target_ns *ns, struct target_subsys *s);
/*
 * -EEXIST: one of this name is there; -EINVAL: no name, no hash or group of ours, keys where
 * env.random is missing, or a key of the target's without one of the host's. What is changed by
 * removing and adding again holds from the next Connect on, and from the next authentication.
 */
int target_host_add(struct target *t, struct target_host *h) must_use;
/* It is the caller's again, who wipes its keys. */
void target_host_remove(struct target *t, struct target_host *h);
void target_port_add(struct target *t, struct target_port *p);
/* Of a transport that has TLS: for connections that come from now on. */
void target_port_secure(struct target *t, struct target_port *p, enum target_tls tls);
/* What goes with I/O commands to controllers that come from now on; negative: the transport's own.
 */
void target_port_capsules(struct target_port *p, int32_t bytes);
/* The room that a transport's I/O queue needs for that of one command: of any controller that came
 * by the port. Whole pages, for one command's lies behind another's, and a disk that is used past
 * the page cache writes no other memory. */
uint32_t target_port_capsule_room(const struct target_port *p,
				  const struct target_transport_ops *ops);
/* What a port offers from now on, as in struct target_port. Controllers that hosts have through it
 * end if their subsystem is not offered there any more. */
void target_port_offer(struct target *t, struct target_port *p,
		       struct target_subsys *const *subsystems, uint32_t count);
/* Its number, and of whom it tells besides, from now on. */
void target_port_tell(struct target *t, struct target_port *p, uint16_t portid,
		      const struct target_referral *referrals, uint32_t count);
/* Controllers that came by it end, too; p stays until its connections have ended. */
void target_port_remove(struct target *t, struct target_port *p);

/*
 * Leaving, while in service. Nothing new begins: hosts are told (events, and the logs behind them),
 * I/O to the namespace gets Invalid Namespace, the controllers of the subsystem are ended. What is
 * under way goes to its end; then gone() is called, perhaps before these return, and what left and
 * its stores are the caller's again. What was written and not flushed is left to him.
 */
void target_ns_remove(struct target_subsys *s, struct target_ns *ns,
		      void (*gone)(struct target_ns *ns));
/* Its namespaces go along, when it is gone: stay added until then. */
void target_subsys_remove(struct target_subsys *s, void (*gone)(struct target_subsys *s));

/* --- time, of the admin plane and the first group ------------------------------------------- */

uint64_t target_next_deadline(const struct target *t);
void target_tick(struct target *t, uint64_t now_ns);
/* To be called now and then by each group's thread: events tell of the commands that have been in a
 * store for longer than TARGET_STALL_NS, of each once. */
void target_group_watch(struct target_group *g, uint64_t now_ns);

/* --- transports ----------------------------------------------------------------------------- */

/*
 * The key of TLS of an identity that a host offers, and whom it proves. False: there is none. By
 * the first group's thread.
 */
bool target_tls_find(struct target *t, const char *identity, struct auth_psk *ret);
/* The handshake of a queue is over: whom it has proved. False: the key has been forgotten since. */
bool target_tls_proved(struct target_queue *q, const char *identity) must_use;
/* A connection was refused before it was one; by the first group's thread. */
void target_rejected(struct target *t, const char *peer, const char *why);
/* ops, port, traddr, peer, raddr, why, qid, entries_max and capsule_data_max are the caller's; the
 * rest is set. */
void target_queue_init(struct target_queue *q, struct target *t, uint64_t now_ns);
/* The group that the next I/O queue is for, each in turn, where it is known for one before it is a
 * queue; by the first group's thread. */
struct target_group *target_group_next(struct target *t);
/*
 * Where only Connect says which queue it is, connections come to the first group, and this is the
 * group for one of which a capsule has come: the first for an admin queue, each in turn for I/O.
 * It is q->group, too, where the capsule is no Connect, or not the first thing under way.
 */
struct target_group *target_group_for(const struct target_queue *q, const void *sqe,
				      size_t sqe_len);
/*
 * Sends it to that group, by whose thread ops->arrive() is called. Nothing of it is under way, and
 * it is nobody's meanwhile; it goes once.
 */
void target_queue_hand(struct target_queue *q, struct target_group *to);
/*
 * The connection is gone, and with it whatever the transport did for fetch: it has let go of those
 * requests, out of every line that they waited in. They come back through respond at once, as do
 * held ones; the others when the store is done with them. When q->live is 0 the queue's memory may
 * be reused.
 */
void target_queue_disconnected(struct target_queue *q);

/*
 * A capsule came: sqe_len bytes at sqe, in-capsule data at data. All but sqe must stay until
 * respond.
 */
void target_req_recv(struct target_queue *q, struct target_req *r, const void *sqe, size_t sqe_len,
		     void *data, size_t data_len, uint64_t now_ns);
/* The same of a command whose in-capsule data are not what was sent: it is not carried out. */
void target_req_damaged(struct target_queue *q, struct target_req *r, const void *sqe,
			size_t sqe_len, uint64_t now_ns);
/*
 * Within fetch, before data are moved, by a transport that can have them come to pieces: the store
 * may have some for them (r->loan), and r->data has room for the rest as it is.
 */
void target_req_lend(struct target_req *r);
/* Gives back what a store has lent, when the transport has let go of it: at the latest with the
 * memory of fetch. */
static inline void target_req_end_loan(struct target_req *r)
{
	if (r->loan)
		r->loan->end(r->loan);
	r->loan = NULL;
}
/* fetch is done; status is NVME_SC_SUCCESS or why it is not. */
void target_req_ready(struct target_req *r, uint16_t status);

static inline bool target_req_has_reply_data(const struct target_req *r)
{
	return r->dir == NVMF_DIR_TO_HOST && (r->data_len || r->zero_len) &&
	       r->cqe.status == NVME_SC_SUCCESS;
}

/*
 * The host's memory, piece by piece: r->sgl_count descriptors of the transport's kind, with
 * data_len + zero_len bytes together. Some may be of no bytes, and then mean nothing.
 */
struct nvme_sgl target_req_sgl(const struct target_req *r, uint32_t i);

#endif
