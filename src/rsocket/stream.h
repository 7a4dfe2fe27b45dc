/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A stream socket: an RC queue pair, a send buffer, and a receive buffer that the peer writes.
 *
 * Every message is an RDMA WRITE with immediate data (wire/rsocket.h); on iWARP, as with rdma-core,
 * an RDMA WRITE, if there is anything to write, and a SEND of what the immediate data would be.
 * Data go straight into the peer's receive buffer, which is exposed in halves: two entries of the
 * target SGL, of which the peer writes one anew (RS_OP_SGL) when its reader has emptied a half.
 * Each message takes one of the peer's receives: so many credits, granted by the same RS_OP_SGL. A
 * few places of the send queue are kept for control messages, which take no credit; the RNIC's RNR
 * NAK covers those.
 *
 * States: INIT -> BOUND -> LISTENING; INIT, BOUND -> CONNECTING -> CONNECTED or CONNECT_FAILED;
 * CONNECTED -> DISCONNECTED (in good order) or FAILED. The service thread does what follows from
 * connection management events, under svc_lock(); what follows from completions happens under
 * cq_lock, by whoever looks.
 *
 * Locks: slock, one sender at a time; rlock, one reader; cq_lock, the completion queue and the
 * credits. Order: svc_lock; slock or rlock; cq_lock. What a sender or reader shares with the
 * completion side is atomic, so that neither holds the other up.
 */
#ifndef WEFT_RSOCKET_STREAM_H
#define WEFT_RSOCKET_STREAM_H

#include <rdma/rdma_cma.h>

#include "base/list.h"
#include "rsocket/sock.h"
#include "wire/rsocket.h"

enum { RS_SGL_SIZE = 2, RS_CTRL_WRS = 4, RS_LINGER_S = 60 };
/* Of the places for control messages, those for what is said once, that the end has come: a peer
 * that takes nothing can fill the others. */
enum { RS_END_WRS = 2 };

enum stream_state {
	STREAM_INIT,
	STREAM_BOUND,
	STREAM_LISTENING,
	STREAM_CONNECTING,
	STREAM_CONNECT_FAILED,
	STREAM_CONNECTED,
	STREAM_DISCONNECTED,
	STREAM_FAILED,
};

struct iomapping { /* a buffer of ours, for the peer to write, or only for us to send from */
	struct list node;
	uint64_t offset;
	struct ibv_mr *mr;
	int index; /* in the peer's iomap; -1: not for the peer */
};

struct stream {
	struct sock sock;
	struct settings set;
	struct rdma_cm_id *id;
	_Atomic(enum stream_state) state;
	atomic_bool readable, writable; /* while CONNECTED: the two directions */
	atomic_bool broken;		/* rdma_cm says that it is over */
	atomic_int err;			/* for SO_ERROR, or the next call: told once */
	bool tcp;			/* of --sockets: answers as TCP's, not as rdma-core's */
	atomic_bool fin;		/* the peer has said its end */
	atomic_bool ours_said;		/* shutdown(): we have */
	bool unread;			/* closed with data that nobody has read: a reset */
	int tries;			/* of the present step of connecting */
	bool brief;			/* stream_be_brief() */

	/* options without effect on the wire, kept for who asks; bit by number */
	uint64_t so_opts, tcp_opts, ipv6_opts;
	int tos, linger_s; /* -1: no linger given */
	int rcv_low;	   /* SO_RCVLOWAT */
	/* Sends with MSG_ZEROCOPY, which have copied: those there were, those told of */
	bool zerocopy;
	atomic_uint zerocopies, zerocopies_told;
	unsigned int keepalive_s;
	uint64_t keepalive_due_ns; /* svc_lock; 0: off */
	struct list keepalive;	   /* svc_lock: in the service's list */
	struct list lingering;	   /* svc_lock: likewise; the application has closed it */
	uint64_t linger_due_ns;
	void *route;
	size_t route_len;

	/* listener, under svc_lock */
	struct list asking;    /* streams whose request nobody has answered yet, by `node` */
	struct list accepting; /* whose handshake goes on */
	struct list accepted;  /* for raccept() */
	int backlog, queued;
	bool deaf;		/* stream_unlisten(); rdma_cm still has it listen */
	bool late, insists;	/* stream_answer_late() */
	bool away;		/* late: nobody has accepted for long */
	atomic_bool *claimed;	/* late: by a child of fork(), which shares it */
	struct list waited_for; /* in the service's list, while there is one on `asking` */
	uint64_t asked_ns;	/* of one on `asking` or `accepting`: when it came there */
	struct {
		struct rdma_conn_param param;
		struct rs_conn conn;
	} request;		 /* of one on `asking` */
	struct stream *listener; /* whose list this one is on */
	struct list node;

	/* connection */
	struct ibv_comp_channel *channel; /* NULL: the queue tells by upcall (rsocket/attend.h) */
	struct ibv_cq *cq;
	struct ibv_mr *smr, *rmr;
	uint8_t *sbuf, *rbuf;
	size_t sbuf_bytes, rbuf_bytes; /* as mapped: with control messages; with the SGL */

	pthread_mutex_t cq_lock;
	atomic_bool cq_armed;
	atomic_int ctrl_free;	    /* places for control messages */
	atomic_uint end_told;	    /* SHUTDOWN, DISCONNECT: bit by number */
	_Atomic uint16_t rseq_comp; /* when rseq_no is here, credits are due */
	uint32_t rbuf_free_offset;  /* the half to be given next */
	uint32_t rbuf_granted;	    /* bytes that the peer may still write */
	uint32_t rbuf_written;	    /* from its beginning: as many as it has told of */
	bool sends;		    /* instead of immediate data: iWARP */
	uint32_t *said;		    /* in rbuf's region: what SENDs bring, for each receive */
	bool swap;		    /* the peer is of the other byte order */
	struct rs_sge remote_sgl;   /* where our entries go */
	uint32_t remote_sge;
	struct rs_sge remote_iomap;

	pthread_mutex_t slock;
	atomic_int sqe_free;
	atomic_uint sbuf_free;
	uint32_t sbuf_head;
	uint32_t unsignaled_wrs, unsignaled_bytes;
	_Atomic uint16_t sseq_no;
	_Atomic uint16_t sseq_comp;
	uint16_t credits_kept;		    /* unused, so that control messages find receives */
	volatile struct rs_sge *target_sgl; /* in rbuf's region: the peer writes it */
	_Atomic uint32_t target_sge;
	volatile struct rs_iomap *target_iomap;

	pthread_mutex_t rlock;
	_Atomic uint16_t rseq_no;
	atomic_uint rbuf_free; /* read, and not granted again yet */
	uint32_t rbuf_tail;
	uint32_t *msg; /* lengths of what came, rq_size + 1 of them */
	_Atomic uint32_t msg_head, msg_tail;

	pthread_mutex_t map_lock; /* taken inside slock */
	struct list iomap_new, iomap_told;
	struct iomapping *iomap; /* those for the peer */
	atomic_bool iomap_pending;
};

/* ---- stream.c: life -------------------------------------------------------------------------- */

int stream_create(int domain, struct stream **ret) must_use;
/* With the settings of a listener and an id that has a connection request. */
int stream_adopt(const struct stream *listener, struct rdma_cm_id *, struct stream **ret) must_use;
/* Queue pair, buffers, receives. */
int stream_setup(struct stream *) must_use;
void stream_conn_data(const struct stream *, struct rs_conn *);
int stream_take_conn_data(struct stream *, const struct rs_conn *) must_use;
/* Under svc_lock(). */
void stream_destroy(struct stream *);
/*
 * As TCP's: what has been sent still gets there, but the caller waits for that only as long as
 * SO_LINGER says; after a moment the service does. No longer than a minute, and not for too many at
 * a time: a peer that takes nothing holds up nobody.
 */
int stream_close(struct stream *);
/* Nothing more is sent, and what was gets until then (time_now_ns()) to be there. */
void stream_linger(struct stream *, uint64_t end_ns);
/* The first part of closing: the peer is told. */
void stream_say_end(struct stream *);
/* Has everything been sent that was to be? Takes what has completed. */
bool stream_all_sent(struct stream *);
/* When a stream that lingers from now on has lingered enough. */
uint64_t stream_linger_end(const struct stream *);
int stream_shutdown(struct stream *, int how);
/* Both ends are over, or it was reset. */
bool stream_is_over(struct stream *);
/* The peer is told at once, and not in good order. */
void stream_reset(struct stream *);

/* ---- connect.c ------------------------------------------------------------------------------- */

int stream_bind(struct stream *, const struct sockaddr *, socklen_t) must_use;
int stream_listen(struct stream *, int backlog) must_use;
/* Nobody is accepted any more, until stream_listen(). */
int stream_unlisten(struct stream *);
int stream_accept(struct stream *, struct stream **ret) must_use;
/* As without blocking, whatever the flags say. */
int stream_accept_now(struct stream *, struct stream **ret) must_use;
/* What was taken of a listener and cannot be kept: the next who accepts has it. */
void stream_put_back(struct stream *listener, struct stream *);
/*
 * Of a listener to be: requests wait for stream_accept(), which answers them, instead of being
 * answered as they come; so nobody is connected whom nobody accepts. One that has waited for a
 * second is rejected, as are all from then on until somebody accepts again; or, if the listener
 * insists, answered after all.
 */
int stream_answer_late(struct stream *, bool insists) must_use;
/* In a child of fork(), which accepts without RDMA from its parent's listener: that one rejects all
 * requests from now on. True for the first who says so. */
bool stream_claim(struct stream *);
/* Under svc_lock(), from time to time while somebody waits: false if nobody does any more. */
bool stream_look_after_asking(struct stream *);
/* Of --sockets: as TCP's where rdma-core's are otherwise, and TCP has its port for itself. */
void stream_beside_tcp(struct stream *);
/* Of one that is to connect: where the peer's host shows no sign of RDMA it fails soon, as far as
 * the library below can do that. */
void stream_be_brief(struct stream *);
/* 0, or -EINPROGRESS with O_NONBLOCK or, as with TCP, after a signal (-EINTR). */
int stream_connect(struct stream *, const struct sockaddr *, socklen_t) must_use;
/* Waits for the end of connecting if there is need; -EAGAIN, -ENOTCONN. */
int stream_connected(struct stream *, int flags) must_use;
void stream_cm_event(struct rdma_cm_event *);

/* ---- cq.c: completions and credits ----------------------------------------------------------- */

/* Takes what has completed and gives credits that are due. */
void stream_progress(struct stream *);
/* Waits for ready(): 0, -EAGAIN, -EINTR, -ERESTART. timeout_ms: -1 for none. */
int stream_wait(struct stream *, bool (*ready)(struct stream *), bool nonblock,
		int timeout_ms) must_use;
/* Until so many bytes are there to be read, or no more can come. */
int stream_wait_for_bytes(struct stream *, size_t bytes, int timeout_ms) must_use;
/* Enough has been read for the peer to be told. */
bool stream_owes_credits(const struct stream *);
/* The next completion will be told of: by the channel's descriptor, or sock_wake(). Takes what has
 * completed already. */
void stream_arm(struct stream *);
/* The channel's descriptor, or -1. */
int stream_event_fd(const struct stream *);
/* The upcall: a completion on the queue, which was armed. */
void stream_told(void *stream);
/* After that descriptor was readable. */
void stream_take_event(struct stream *);
void stream_fail(struct stream *, int err);
/* -errno of what ended it, told once; then `after`. */
int stream_take_error(struct stream *, int after);
int stream_post_ctrl(struct stream *, enum rs_ctrl);
/* Posts a message, whose last part has wr's wr_id and flags: wr is an RDMA WRITE, and becomes one
 * with immediate data, or has a SEND behind it. errno, 0. */
int stream_post_message(struct stream *, struct ibv_send_wr *wr, uint32_t imm) must_use;
/* The receive of that number. */
int stream_post_recv(struct stream *, uint32_t i) must_use;
/* Says nothing to the peer's socket; all before it is there when it completes. */
void stream_post_empty(struct stream *);
/* False: there was no place for it. */
bool stream_keepalive(struct stream *);

/*
 * wr_id: what comes back when a work request is done. Of data not every one is signaled, or each
 * message sent would wake who waits for one to come: the signaled one gives back those before it.
 */
enum wr_kind { WR_RECV, WR_DATA, WR_CTRL };
enum { WR_COUNT_SHIFT = 32, WR_KIND_SHIFT = 56 };

static inline uint64_t wr_id(enum wr_kind kind, uint32_t count, uint32_t value)
{
	return (uint64_t)kind << WR_KIND_SHIFT | (uint64_t)count << WR_COUNT_SHIFT | value;
}

static inline enum wr_kind wr_kind(uint64_t id)
{
	return (enum wr_kind)(id >> WR_KIND_SHIFT);
}

static inline int wr_count(uint64_t id)
{
	return (int)(id >> WR_COUNT_SHIFT & 0xffffff);
}

static inline bool stream_has_data(struct stream *s)
{
	return atomic_load(&s->msg_head) != atomic_load(&s->msg_tail);
}

static inline bool stream_ended(enum stream_state state)
{
	return state >= STREAM_DISCONNECTED;
}

/* Nothing comes any more. */
static inline bool stream_at_end(struct stream *s)
{
	return !atomic_load(&s->readable) || atomic_load(&s->state) != STREAM_CONNECTED;
}

/* A read, a write would not block. */
static inline bool stream_can_recv(struct stream *s)
{
	return stream_has_data(s) || stream_at_end(s);
}

/* Enough for poll(2). */
bool stream_has_enough(struct stream *);

/* What the peer's memory that is filled now takes still. */
static inline uint32_t stream_target_room(struct stream *s)
{
	return __atomic_load_n(&s->target_sgl[s->target_sge].length, __ATOMIC_RELAXED);
}

static inline bool stream_has_room(struct stream *s)
{
	const uint16_t credits = (uint16_t)(atomic_load(&s->sseq_comp) - s->sseq_no);

	return atomic_load(&s->sqe_free) > 0 && atomic_load(&s->sbuf_free) >= RS_SNDLOWAT &&
	       credits > s->credits_kept && stream_target_room(s);
}

static inline bool stream_can_send(struct stream *s)
{
	return stream_has_room(s) || !atomic_load(&s->writable) ||
	       atomic_load(&s->state) != STREAM_CONNECTED;
}

/* ---- send.c, recv.c, iomap.c ----------------------------------------------------------------- */

ssize_t stream_sendv(struct stream *, const struct iovec *, size_t count, int flags) must_use;
/* So many bytes can be sent without waiting, or, where none can be any more, any number. */
size_t stream_room(struct stream *);
/* One more send of which the error queue is to tell; and the numbers of those that it tells of now,
 * false if there are none. */
void stream_sent_zerocopy(struct stream *);
bool stream_tell_zerocopy(struct stream *, uint32_t *ret_first, uint32_t *ret_last) must_use;
/* Bytes that have come and are not read. */
size_t stream_unread(struct stream *);
ssize_t stream_recvv(struct stream *, const struct iovec *, size_t count, int flags) must_use;

/* A writer's place in an iovec. */
struct iov_at {
	const struct iovec *iov;
	size_t offset;
};

/* Under slock: copies so much of the iovec into the send buffer (or inline) and posts it. */
int stream_post_data(struct stream *, struct iov_at *, uint32_t length, uint32_t imm, bool with_imm,
		     uint64_t addr, uint32_t rkey) must_use;
/* Under slock, which TCP's let go of meanwhile: until a message can be posted; -EAGAIN, at
 * until_ns too (sock_until()), or why there will be none. */
int stream_wait_for_room(struct stream *, int flags, uint64_t until_ns) must_use;
int stream_tell_iomaps(struct stream *, int flags) must_use;
void stream_drop_iomaps(struct stream *);

/* ---- poll.c, options.c ----------------------------------------------------------------------- */

/* Of the events asked for, those that hold, and POLLERR, POLLHUP; takes completions that are
 * there. */
short stream_poll(struct stream *, short events);
/* Of one that is or was connected, all that is known without a look at the completions. */
short stream_events(struct stream *);
int stream_setsockopt(struct stream *, int level, int name, const void *, socklen_t) must_use;
int stream_getsockopt(struct stream *, int level, int name, void *, socklen_t *) must_use;

#endif
