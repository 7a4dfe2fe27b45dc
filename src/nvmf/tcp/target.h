/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * NVMe/TCP for the target: listener.c has where it is reached, connection.c the sockets, secure.c
 * TLS, queue.c what comes on them, command.c data and responses, target.c the whole.
 *
 * Each NVMe queue is a connection. Up to connection.c nothing of it knows a socket: bytes go in by
 * tcp_queue_wire(), or where they are PDUs straight to the memory that tcp_rx_wants() names, and
 * come out by tcp_tx_iov(), or in records by tcp_queue_output(). A queue is young until Connect has
 * succeeded, and has what that takes till then: one command and a page, for anybody can connect.
 * Then it has as many commands as a host may have under way, each with room for in-capsule data.
 * What a host writes beyond that is asked for by R2T once its host's share of the pool has memory
 * for it.
 *
 * What a host has to do, take a response or send data, it does soon or loses the connection. What
 * breaks the protocol ends it with a terminate request that says why; then the socket stays until
 * the host has closed it, or a second has passed: a socket that is closed over what came and was
 * not read would take the request along.
 *
 * Of a target of several groups each has its tcp_target. Connections come to the first's, and are
 * handed on when the headers of Connect are there.
 */
#ifndef WEFT_NVMF_TCP_TARGET_H
#define WEFT_NVMF_TCP_TARGET_H

#include <stdatomic.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/time.h"
#include "nvmf/tcp/rx.h"
#include "nvmf/tcp/tcp.h"
#include "nvmf/tcp/tls.h"
#include "nvmf/tcp/tx.h"
#include "nvmf/transport/share.h"

/* R2Ts of one command, and how much data is worth a second one. */
#define TCP_R2TS_MAX  4
#define TCP_R2T_BYTES (128u << 10)
/* For how long a host may leave a response untaken, or data that it was asked for unsent. */
#define TCP_MOVE_NS (20 * NSEC_PER_SEC)
/* For how long a connection that we end waits for the host's end of it. */
#define TCP_LINGER_NS NSEC_PER_SEC
/* So much comes through a buffer at a time, and no more in a turn before others have theirs. */
#define TCP_BUFFER_BYTES (128u << 10)
#define TCP_TURN_BYTES	 (512u << 10)
/* The same until Connect has succeeded. */
#define TCP_YOUNG_BYTES 4096u

struct tcp_queue;

/* What a descriptor is watched for: epoll's data point to one of these. */
struct tcp_watch {
	void (*ready)(struct tcp_watch *w, uint32_t events);
};

struct tcp_listener {
	struct list link; /* of tcp_target.listeners */
	struct tcp_watch watch;
	struct tcp_target *tt;
	int fd; /* -1: none, it is closed */
	struct target_port port;
};

struct tcp_target {
	struct transport_target transport;
	struct target_group *group;
	struct shares *shares;
	int epoll_fd;
	struct list link, others;  /* of the first group's others; its others */
	_Atomic uint32_t arriving; /* queues that are on their way here */
	struct list queues;
	/* Queues that have ended: to be torn down; waiting for the host's end, by time; done with
	 * that. */
	struct list dying, lingering, over;
	struct list sending;	  /* queues with something to send, at the end of the turn */
	struct timer_heap timers; /* of queues */
	struct list listeners;	  /* with those that are closed */
	uint64_t now_ns;	  /* of the present call of process */
	uint64_t resume_ns;	  /* connections are not taken before, there being no descriptors */
	uint64_t tell_ns;	  /* nor is it told again */
	bool shutting_down;
	uint8_t buffer[TCP_BUFFER_BYTES]; /* what comes with headers passes through it */
	uint8_t plain[TCP_TLS_RECORD];	  /* and where that was records, what they say */
	struct tcp_tls_context *tls;	  /* when the first connection needs it */
	/* Much waits to be sent. NULL: who looks takes it anyway. */
	void (*flush)(struct tcp_queue *q);
	void (*arrived)(struct tcp_queue *q);
};

enum tcp_cmd_state {
	TCP_CMD_FREE,
	TCP_CMD_CAPSULE,   /* its in-capsule data are coming */
	TCP_CMD_POOL_WAIT, /* in share.waiting of the queue */
	TCP_CMD_DATA,	   /* R2Ts have asked for its data */
	TCP_CMD_TARGET,	   /* the target's, or a store's */
	TCP_CMD_SENDING,
};

struct tcp_cmd {
	struct target_req req;
	struct share_cmd share;
	enum tcp_cmd_state state;
	struct list link; /* of queue.free */
	struct tcp_queue *queue;
	struct tcp_out out; /* R2Ts, then data and response */
	struct list moving; /* of queue.moving, while the host has to do its part */
	uint64_t since_ns;  /* when that began */
	uint8_t *capsule;   /* room for in-capsule data */
	struct {
		uint32_t next, end; /* of the data; they are the same when it is over */
	} r2ts[TCP_R2TS_MAX];
	uint32_t left; /* bytes that R2Ts have asked for and that have not come */
	bool damaged;  /* by a data digest */
};

enum tcp_queue_state {
	TCP_QUEUE_NEW, /* ICReq has not come */
	TCP_QUEUE_UP,
	TCP_QUEUE_DYING,
};

struct tcp_queue {
	struct target_queue tq;
	struct share_queue share;
	struct list link; /* of tcp_target.queues, or of one of those that have ended */
	struct tcp_target *tt;
	enum tcp_queue_state state;
	struct tcp_tls *tls; /* NULL: it is plain, or has not begun */
	bool decided;	     /* which */
	struct tcp_rx rx;
	struct tcp_tx tx;
	struct list sending; /* in tcp_target.sending, or in none */
	struct timer timer;
	struct list moving; /* commands that wait for the host, the oldest first */
	struct tcp_out icresp, term;
	uint8_t wrong[NVME_TCP_TERM_DATA_MAX]; /* what a terminate request is about */
	uint32_t r2ts;			       /* of one command, at most */
	struct tcp_cmd *incoming;	       /* whose data are on their way */
	struct list free;
	/* While it is young it has one command, and a page of the pool. */
	struct tcp_cmd first_cmd;
	uint8_t *page;
	/* Once Connect has succeeded. */
	uint32_t cmd_count;
	struct tcp_cmd *cmds;
	uint8_t *memory; /* in-capsule data */
	size_t memory_len;
	/* connection.c's. */
	struct tcp_watch watch;
	int fd; /* -1: none */
	bool torn_down;
	bool closed; /* nothing more can be said, or is to be heard */
	bool full;   /* the socket takes no more at present */
	uint64_t linger_ns;
	/* Where it is handed to, and what had come behind Connect's headers; then, by TLS,
	 * records. */
	struct tcp_target *to;
	uint8_t *carried;
	size_t carried_len, sealed_len;
};

extern const struct target_transport_ops tcp_target_ops;

static inline struct tcp_target *tcp_target_of(const struct transport_target *t)
{
	return container_of(t, struct tcp_target, transport);
}

/* --- ending.c --------------------------------------------------------------------------------- */

/* To be ended: at the end of the transport's process(). Harmless when it is already. */
void tcp_queue_kill(struct tcp_queue *q);
/* The same with the reason, which the target tells of. */
void tcp_queue_fail(struct tcp_queue *q, const char *fmt, ...) printf_like(2, 3);
/* The host broke the protocol: it is told how. */
void tcp_queue_terminate(struct tcp_queue *q, enum nvme_tcp_fes fes, uint32_t fei);

/* --- command.c -------------------------------------------------------------------------------- */

/* -ENOMEM; the queue is young then. */
int tcp_queue_open(struct tcp_queue *q) must_use;
/* Frees what open took. */
void tcp_queue_close(struct tcp_queue *q);
/* The connection is gone: gives back to the target what only the host could have finished. */
void tcp_queue_abandon(struct tcp_queue *q);
/* Its timer has fired. */
void tcp_queue_tick(struct tcp_queue *q);
/* A capsule, of which the headers are there, and then its data. */
void tcp_cmd_begin(struct tcp_queue *q);
void tcp_cmd_whole(struct tcp_queue *q);
/* Data that an R2T has asked for, in the same way. */
void tcp_data_begin(struct tcp_queue *q);
void tcp_data_whole(struct tcp_queue *q);
/* Something waits to be sent, or is to be. */
void tcp_queue_send(struct tcp_queue *q, struct tcp_out *o);
/* A command has been given its memory. */
void tcp_cmd_has_memory(struct tcp_cmd *c);

/* What it has to send is to be sent at the end of the turn. */
void tcp_queue_wants_flush(struct tcp_queue *q);

/* --- secure.c --------------------------------------------------------------------------------- */

/* What came by the connection, in order: plain, or records. As tcp_queue_input(). */
bool tcp_queue_wire(struct tcp_queue *q, const uint8_t *p, size_t len) must_use;
/* It was another group's, and has arrived: all that came before that. */
void tcp_queue_go_on(struct tcp_queue *q);
/* Nothing more will: the other side has ended it, or somebody on the way. */
void tcp_queue_cut(struct tcp_queue *q);
/* Of one that has TLS: what is to be sent, until tcp_tls_sent() is told. */
size_t tcp_queue_output(struct tcp_queue *q, const void **ret);

/* --- queue.c ---------------------------------------------------------------------------------- */

/* PDUs, in order. False: it is another group's (q->to), and is to be handed on. */
bool tcp_queue_input(struct tcp_queue *q, const uint8_t *p, size_t len) must_use;
/* It was: the command whose headers are there, and what was said behind them. */
void tcp_queue_resume(struct tcp_queue *q, const uint8_t *p, size_t len);
/* Of a new queue what is its group's; false: there are no resources for it. */
bool tcp_queue_join(struct tcp_queue *q, const uint8_t key[16]) must_use;
void tcp_queue_part(struct tcp_queue *q);
/* A queue of a connection that has come to a port, before any bytes; fd may be -1. NULL: there are
 * no resources for it. */
struct tcp_queue *tcp_queue_create(struct tcp_target *tt, struct target_port *port, int fd,
				   const uint8_t key[16], const char *traddr, const char *raddr);
/* Nothing is under way on it any more. */
void tcp_queue_free(struct tcp_queue *q);

/* --- connection.c ----------------------------------------------------------------------------- */

/* A connection that has come to a listener. */
void tcp_connected(struct tcp_listener *l, int fd);
/* Hands it to the group that it is for: from here on it is another thread's. */
void tcp_hand(struct tcp_queue *q);
/* It has been: by that thread. */
void tcp_arrived(struct tcp_queue *q);
/* Sends what waits, as much as the socket takes. */
void tcp_flush(struct tcp_queue *q);
void tcp_flush_all(struct tcp_target *tt);
/* Ends what was killed, and whatever that kills; what is freed, events of this turn may be about.
 */
void tcp_tear_down_dying(struct tcp_target *tt);
void tcp_bury_dying(struct tcp_target *tt);
/* When the first of those has waited for long enough; DEADLINE_NEVER. */
uint64_t tcp_linger_deadline(const struct tcp_target *tt);

/* --- listener.c ------------------------------------------------------------------------------- */

/* As the transport's operations of these names. */
int tcp_listen_on(struct transport_target *t, const char *address, const char *port, char *why,
		  size_t room) must_use;
void tcp_unlisten(struct transport_target *t, struct target_port *port);
void tcp_listener_close(struct tcp_listener *l);
int tcp_addresses(int family, void (*show)(void *ctx, const char *address, bool loopback),
		  void *ctx);
/* Whether connections are taken. */
void tcp_listeners_enable(struct tcp_target *tt, bool on);
/* All of them, which are ports no more then; what came by them stays. */
void tcp_listeners_close(struct tcp_target *tt);
/* Nothing that came by them is left. */
void tcp_listeners_free(struct tcp_target *tt);

/* --- target.c --------------------------------------------------------------------------------- */

int tcp_target_create(struct target_group *g, struct shares *shares, struct transport_target *first,
		      struct transport_target **ret, char *why, size_t room) must_use;

#endif
