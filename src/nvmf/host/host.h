/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The NVMe-oF host: one association with one controller, as a state machine without I/O.
 *
 * The caller hands in memory, time and a transport; the host hands commands to the transport
 * and gets back responses, lost connections and ticks of the clock. It brings the controller
 * up, keeps it alive, numbers commands, notices those that are not answered, and after a lost
 * connection builds a new association and sends again what may be sent again.
 *
 *	host_init, host_start	-> LIVE, or FAILED with host.failure
 *	host_submit		-> request.done, always exactly once if it returned 0
 *	host_shutdown		-> CLOSED
 *
 * States (state.c has the table of what may follow what, steps.c what is done in each):
 *	IDLE		nothing yet
 *	OPENING		the transport connects the admin queue
 *	CONNECT..SET_QUEUES	one bring-up command each is outstanding on the admin queue;
 *			AUTHENTICATE is a few, where the controller or the caller demands it
 *	SECURE		where a key of TLS was to come of that: the connection is closed, and the
 *			next begins at OPENING, by TLS and that key, as do all of the association
 *	IO_CONNECT	I/O queues are opened and connected, side by side
 *	NAMESPACES	whether those that are known are what they were, before anything goes there
 *	LIVE		requests are sent; keep-alive runs, an event request is outstanding
 *	WAITING		after a lost connection, until the next attempt; requests wait
 *	SHUTDOWN, SHUTDOWN_WAIT	I/O queues are closed, CC.SHN is written, CSTS.SHST polled
 *	CLOSED, FAILED	the end; every request has been answered
 *
 * Invariants: a cid is never given out while its command is outstanding (slot + generation), nor
 * are more commands outstanding than the queue has entries, less one. Memory of a request is
 * the controller's from host_submit() until done(): a command that timed out is answered only
 * after its connection is gone.
 *
 * Callbacks may come from within any call that takes now_ns. They may call host_submit(), but
 * nothing else of the host.
 */
#ifndef WEFT_NVMF_HOST_HOST_H
#define WEFT_NVMF_HOST_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/handles.h"
#include "base/pieces.h"
#include "nvmf/auth/key.h"
#include "nvmf/auth/psk.h"
#include "nvmf/common/command.h"
#include "wire/nvme.h"
#include "wire/nvme_fabrics.h"
#include "wire/nvme_identify.h"

enum {
	HOST_ADMIN_ENTRIES = 32,
	HOST_ENTRIES_MAX = 1023, /* so that slot and generation fit a cid, and none is ffff */
	HOST_CID_GENERATION_BITS = 6,
	HOST_IO_QUEUES_MAX = 128,
	HOST_SCRATCH_LEN = 8192,
	HOST_ATTEMPTS_MAX = 5,
	HOST_CONNECTING_MAX = 16, /* I/O queues at a time: a target need not take more at once */
};

enum host_state {
	HOST_IDLE,
	HOST_OPENING,
	HOST_CONNECT,
	HOST_AUTHENTICATE,
	HOST_SECURE,
	HOST_READ_CAP,
	HOST_READ_VS,
	HOST_ENABLE,
	HOST_WAIT_READY,
	HOST_IDENTIFY,
	HOST_SET_EVENTS,
	HOST_SET_QUEUES,
	HOST_IO_CONNECT,
	HOST_NAMESPACES,
	HOST_LIVE,
	HOST_WAITING,
	HOST_SHUTDOWN,
	HOST_SHUTDOWN_WAIT,
	HOST_CLOSED,
	HOST_FAILED,
	HOST_STATES
};

enum host_failure_kind {
	HOST_FAIL_NONE,
	HOST_FAIL_OPEN,	      /* the transport could not connect, and knows why */
	HOST_FAIL_LOST,	      /* the transport lost the connection, and knows why */
	HOST_FAIL_STATUS,     /* a bring-up command was refused: status, opcode */
	HOST_FAIL_TIMEOUT,    /* a command was not answered in time: opcode */
	HOST_FAIL_KEEP_ALIVE, /* a keep-alive was not answered in time */
	HOST_FAIL_NOT_READY,  /* CSTS.RDY did not come within CAP.TO */
	HOST_FAIL_FATAL,      /* CSTS.CFS: the controller reports a fatal status */
	HOST_FAIL_PROTOCOL,   /* the peer broke the protocol: detail */
	HOST_FAIL_UNFIT,      /* the controller lacks what this host needs: detail */
	HOST_FAIL_AUTH,	      /* one side has not proved who it is: detail */
};

struct host_failure {
	enum host_failure_kind kind;
	enum host_state state; /* in which it happened */
	uint16_t qid;
	uint16_t status;    /* of a refused command */
	uint64_t result;    /* dwords 0 and 1 of its response */
	uint8_t opcode;	    /* of the refused or unanswered command */
	uint8_t fctype;	    /* if that is NVME_FABRICS */
	bool answers;	    /* TIMEOUT: other commands, since this one was sent */
	const char *detail; /* static; NULL if there is none */
};

/* One command. The caller's; untouched by the caller from host_submit() to done(). */
struct host_request {
	struct nvme_sqe sqe;	 /* flags, cid and sgl are set by host and transport */
	void *data;		 /* in one piece; or in several, which stay until done(): */
	const struct iovec *iov; /* NULL: data */
	uint32_t data_len;
	enum nvmf_dir dir;
	bool again; /* may be sent again after a lost connection */
	void (*done)(struct host_request *req, uint64_t now_ns);
	void *arg;

	/* The answer. error: 0 (look at cqe.status), -ENOTCONN, -ETIMEDOUT, -ECANCELED, -ENODEV,
	 * -ENOMEM: it was not sent. */
	int error;
	struct nvme_cqe cqe;
	uint16_t attempts; /* times it was sent; at most HOST_ATTEMPTS_MAX */

	/* The host's own. */
	struct list node;
	uint64_t deadline_ns;

	/* The transport's own, while it is sent. */
	void *transport;
};

struct host;
struct host_step;

/* What carries capsules. t is the transport's, as given to host_init(). */
struct host_transport {
	/* Begins to connect a queue with room for `entries` commands. The answer is
	 * host_queue_opened() or host_queue_lost(), later. -errno: cannot even begin. */
	int (*open)(void *t, uint16_t qid, uint16_t entries, uint16_t cntlid);
	/* Ends the connection; nothing of this queue is reported any more, and the peer reaches
	 * no memory through it from here on. Harmless when the queue is closed. */
	void (*close)(void *t, uint16_t qid);
	/* Sends req->sqe, its data in the capsule, where they may be there, or by an SGL the
	 * transport fills in. -EAGAIN:
	 * no room; host_queue_writable() follows. -ENOMEM: the data are in memory that the device
	 * does not know, and there is none to copy them into: this request is not sent. Any other
	 * error: the connection is lost. */
	int (*submit)(void *t, uint16_t qid, struct host_request *req, bool in_capsule);
	/* The request is over, with req->cqe: its memory is the caller's again. Called once for
	 * each successful submit, unless the queue is closed before. */
	void (*release)(void *t, uint16_t qid, struct host_request *req);
	/* Connections that are opened from now on are by TLS and this key, which is copied; or,
	 * NULL, plain again. -errno: there is no TLS. May be NULL: it has none. */
	int (*secure)(void *t, const struct auth_psk *psk);
	uint32_t transfer_max; /* bytes of one command's data; 0: no limit of its own */
	bool keyed;	       /* the controller must take keyed SGLs */
	bool no_sq_flow;       /* do without SQ head pointers: there may be no response */
};

struct host_counters { /* one line each in nvmf/host/counters.def, which also documents them */
#define X(name, unit, text) uint64_t name;
#include "nvmf/host/counters.def"
#undef X
};

struct host_config {
	char subnqn[NVME_NQN_LEN]; /* NVMF_DISCOVERY_NQN: no I/O queues, and events if there is a
				    * keep-alive: then it is to stay */
	char hostnqn[NVME_NQN_LEN];
	uint8_t hostid[16];
	uint16_t io_queues;	/* wanted; the controller may grant fewer. 0: admin only */
	uint16_t io_entries;	/* of each, 2 to HOST_ENTRIES_MAX; the controller may grant fewer */
	uint32_t keep_alive_ms; /* 0: none */
	uint64_t open_timeout_ns, command_timeout_ns, shutdown_timeout_ns;
	uint64_t reconnect_delay_ns;
	uint64_t loss_timeout_ns; /* reconnect for this long; 0: never, UINT64_MAX: for ever */
	/* Told of every change of state, after it happened. May be NULL. */
	void (*changed)(void *arg, enum host_state from, enum host_state to, uint64_t now_ns);
	/* It is CLOSED or FAILED, and every request has been answered. May be NULL. */
	void (*over)(void *arg, uint64_t now_ns);
	/* Asynchronous events: the response's dword 0. May be NULL. */
	void (*event)(void *arg, uint32_t result);
	/* Of one that is told of with the Changed Namespace List: event() has that read, without
	 * which no other comes. Else the host does. */
	bool reads_changes;
	/* A namespace that is known is another disk now, or none. May be NULL. */
	void (*namespace_lost)(void *arg, uint32_t nsid);
	void *arg;
	struct host_counters *counters; /* where others can look; NULL: the host's own */
	/*
	 * DH-HMAC-CHAP. key: of no length: a controller that demands authentication is of no use.
	 * ctrl_key: of no length: the controller proves nothing; else it has to, on every queue,
	 * and be it that it demands nothing of us. random, for these: bytes that nobody can guess.
	 */
	struct auth_key key, ctrl_key;
	/* Secure channel concatenation: a key of TLS is made by authentication, and all goes by
	 * that; but discovery, for which nobody proves anything. */
	bool concat;
	void (*random)(void *arg, void *p, size_t len);
};

enum host_queue_state { HOST_QUEUE_CLOSED, HOST_QUEUE_OPENING, HOST_QUEUE_OPEN };

struct host_queue {
	enum host_queue_state state;
	bool full;	  /* the transport has said -EAGAIN */
	uint16_t entries; /* of the submission queue */
	uint16_t limit;	  /* commands that may be outstanding: below entries */
	uint16_t outstanding;
	uint64_t last_ns;	   /* when the last response came */
	uint64_t open_deadline_ns; /* OPENING: give up */
	struct list wait;	   /* requests not sent yet */
	struct list sent;	   /* in the order of their deadlines, except those without one */
	struct handles cids;
	struct handle_place *places; /* the caller's, [capacity] */
	uint16_t capacity;
	bool authenticate;	      /* as its Connect has told */
	const struct host_step *step; /* of its bring-up, or of the shutdown */
	struct host_request own;      /* that step's command */
};

enum host_auth_step {
	HOST_AUTH_SENT_NEGOTIATE,
	HOST_AUTH_AWAITS_CHALLENGE,
	HOST_AUTH_SENT_REPLY,
	HOST_AUTH_AWAITS_SUCCESS1,
	HOST_AUTH_SENT_SUCCESS2,
	HOST_AUTH_SENT_FAILURE2,
};

/* The one authentication that is under way. */
struct host_auth {
	enum host_auth_step step;
	uint32_t len; /* bytes to be sent or fetched */
	uint16_t t_id, last_t_id;
	uint8_t hl, sc_c;
	struct auth_psk psk;		      /* that comes of it, if one does */
	uint8_t expected[NVMF_AUTH_HASH_MAX]; /* the controller's response */
	const char *why;		      /* it fails: static */
	bool again;			      /* of a live admin queue */
	bool leaves;			      /* and the host is to shut down when that is over */
};

/* What says that a namespace is the same disk as before; all zeroes where it is not told. */
struct host_ns_ids {
	uint8_t block_shift;
	uint16_t metadata; /* bytes of a block's */
	uint8_t nguid[16], eui64[8], uuid[16];
};

/* A namespace that the caller uses as what it has found there. */
struct host_known_ns {
	uint32_t nsid;
	struct host_ns_ids ids;
	/* The host's own. */
	struct list node;
	bool lost; /* what is there now is another, or nothing */
};

struct host {
	/* Readable by the caller; valid in LIVE. */
	enum host_state state;
	struct host_failure failure; /* of the last connection, kept over a reconnect */
	uint64_t cap;
	uint32_t vs;
	uint16_t cntlid;
	uint16_t io_queues; /* granted */
	struct nvme_id_ctrl id;
	uint32_t transfer_max; /* bytes of one command: MDTS and the transport's limit */
	uint32_t capsule_max;  /* bytes of data in an I/O capsule: IOCCSZ */
	uint32_t reconnects;   /* so far */
	uint32_t ns_changes;   /* events that told of changes, so far */
	bool authenticated;    /* this association is, by DH-HMAC-CHAP */
	bool secured;	       /* its connections are by TLS, and a key that came of that */
	bool broken_off;       /* a shutdown found a controller that it could not be told to */

	/* The host's own. */
	struct host_counters *counters, own_counters;
	struct host_config config;
	const struct host_transport *transport;
	void *transport_arg;
	struct host_queue *queues; /* [1 + config.io_queues] */
	uint8_t *scratch;
	struct host_auth auth;
	uint16_t io_begun, io_up; /* IO_CONNECT: queues that were begun, and that are connected */
	unsigned int depth;	  /* calls into the host that are under way */
	bool lost;		  /* handled when the outermost call ends */
	struct list refused;	  /* requests that the transport has no memory for: likewise */
	bool was_live;
	bool ready;	   /* live, and no namespace is lost: any request may go */
	struct list known; /* namespaces */
	unsigned int lost_namespaces;
	struct { /* at one of them after the other */
		struct host_request request;
		struct host_known_ns *at;
		struct host_ns_ids ids; /* that it has now */
		void (*ended)(struct host *h, uint64_t now_ns);
		bool out, again; /* it is under way; they have changed meanwhile */
	} look;
	bool discovery;		    /* is what it was asked for, by the name that all know */
	uint64_t state_deadline_ns; /* WAIT_READY, SHUTDOWN_WAIT: give up; WAITING: go on */
	uint64_t poll_ns, poll_interval_ns; /* next look at CSTS */
	uint64_t loss_deadline_ns;
	struct host_failure attempt; /* of the last attempt to reconnect; kind NONE before one */
	uint64_t shutdown_deadline_ns;
	uint64_t keep_alive_due_ns, keep_alive_sent_ns;
	struct host_request keep_alive, event; /* commands of the host itself */
	bool keep_alive_out, event_out;
};

/*
 * queues: 1 + config->io_queues entries. places: HOST_ADMIN_ENTRIES + io_queues * io_entries.
 * scratch: HOST_SCRATCH_LEN bytes in memory the transport knows. All stay the caller's and
 * outlive the host. -EINVAL for a configuration beyond the limits above, a key of the controller's
 * or concatenation without one of the host's, keys without randomness, or concatenation where the
 * transport has no TLS. The keys are copied: host_forget() wipes
 * them, when the host is done with.
 */
int host_init(struct host *h, const struct host_config *config,
	      const struct host_transport *transport, void *transport_arg,
	      struct host_queue *queues, struct handle_place *places, void *scratch) must_use;
void host_forget(struct host *h);
void host_start(struct host *h, uint64_t now_ns);
/* qid 0 is the admin queue. 0: done() will be called, and not from here. -ENOTCONN in a state that
 * has no future or before LIVE; -ENODEV for I/O to a known namespace that is another disk now;
 * -EINVAL for a queue that is not or more data than transfer_max. */
int host_submit(struct host *h, uint16_t qid, struct host_request *req, uint64_t now_ns) must_use;
/*
 * From now on the namespace has to be what n says, whenever the association comes about again or
 * an event tells of changes: while it is not, I/O requests for it end with -ENODEV, those that
 * wait included. Each ID once; n stays the caller's, and outlives the host.
 */
void host_ns_know(struct host *h, struct host_known_ns *n);
struct host_known_ns *host_ns_known(const struct host *h, uint32_t nsid);
/* Whether the data of a request that waits, or is under way, are in that memory. */
bool host_uses(const struct host *h, const void *addr, size_t len);
/* Authenticates the live admin queue anew; where that fails the association is lost. -ENOTCONN: it
 * is not live; -EALREADY: that is under way; -EINVAL: there is no key. */
int host_authenticate(struct host *h, uint64_t now_ns) must_use;
/* Ends the association politely. Requests still outstanding end with -ECANCELED. */
void host_shutdown(struct host *h, uint64_t now_ns);
/* Drops the connection as if it had been lost, and builds it anew if the configuration lets it. */
void host_reset(struct host *h, uint64_t now_ns);

/* From the transport. limit: commands the peer has room for at a time. */
void host_queue_opened(struct host *h, uint16_t qid, uint16_t limit, uint64_t now_ns);
/* violation: static text on how the peer broke the protocol, or NULL. */
void host_queue_lost(struct host *h, uint16_t qid, const char *violation, uint64_t now_ns);
void host_queue_response(struct host *h, uint16_t qid, const void *capsule, uint32_t len,
			 uint64_t now_ns);
void host_queue_writable(struct host *h, uint16_t qid, uint64_t now_ns);

/* When host_tick() wants to be called; UINT64_MAX: not at all. */
uint64_t host_next_deadline(const struct host *h);
void host_tick(struct host *h, uint64_t now_ns);

const char *host_state_name(enum host_state state);

/* The slot of a sent command within its queue, below the queue's entries: transports keep what
 * they need per command under this index. */
static inline uint16_t host_slot_of(uint16_t cid)
{
	return cid >> HOST_CID_GENERATION_BITS;
}

/* A request's data from byte `from` on; where they are in one piece, *one comes to name that. */
static inline struct pieces host_request_data(const struct host_request *req, uint32_t from,
					      struct iovec *one)
{
	*one = (struct iovec){req->data, req->data_len};
	return pieces_from(req->iov ? req->iov : one, from);
}

#endif
