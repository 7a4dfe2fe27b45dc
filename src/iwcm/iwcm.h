/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connections of iWARP, made by the process itself: its TCP sockets until both sides have agreed
 * (cm/iw.h), and a thread that waits for them. What comes of them is told by a number for the
 * caller's identifier; a socket that is agreed on is handed over with what came behind the peer's
 * last word.
 *
 * A set-up ends by itself: a peer has IWCM_CALL_NS to accept the TCP connection, IWCM_ANSWER_NS to
 * answer, which its program may take its time for, as RoCE's CM lets it (or IWCM_CALL_NS, where the
 * caller is brief), and IWCM_ASK_NS to say what it wants of a listener; where TCP refuses, its port
 * mapper is asked IWCM_MAP_ASKS times, each IWCM_MAP_NS, before that is told. Where there is none,
 * or it knows no other port, and where the listener ends over a request that it has not read
 * (within IWCM_UNREAD_NS), the caller that is not brief calls again, IWCM_RECALLS times in a sixth
 * of a second: programs that listen anew for their next connection, as perftest does, are not there
 * in between. Of peers that have not said it yet a listener keeps IWCM_SILENT_MAX, and gives up the
 * oldest for one more; of requests that nobody has taken, as many as its backlog, and rejects what
 * comes beyond. Of peers that have been told that they are rejected and do not close there are
 * IWCM_CLOSING_MAX, and the oldest is reset for one more.
 *
 * Functions return 0 or -errno. In a forked child there are no connections but its own.
 */
#ifndef WEFT_IWCM_IWCM_H
#define WEFT_IWCM_IWCM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/compiler.h"
#include "base/units.h"
#include "cm/iw.h"

#define IWCM_CALL_NS	 (10 * NSEC_PER_SEC)
#define IWCM_ANSWER_NS	 (60 * NSEC_PER_SEC)
#define IWCM_ASK_NS	 (5 * NSEC_PER_SEC)
#define IWCM_BRIEF_NS	 NSEC_PER_SEC
#define IWCM_MAP_NS	 (500 * NSEC_PER_MSEC)
#define IWCM_MAP_ASKS	 3
#define IWCM_RECALLS	 5
#define IWCM_RECALL_NS	 (5 * NSEC_PER_MSEC)   /* the first; each next one after twice the time */
#define IWCM_UNREAD_NS	 (200 * NSEC_PER_MSEC) /* who resets later may have read the request */
#define IWCM_SILENT_MAX	 256
#define IWCM_BACKLOG_MAX 1024 /* and where none is given */
#define IWCM_CLOSING_MAX 128

struct iwcm_link;
struct iwcm_listener;

enum iwcm_said {
	IWCM_REQUEST = 1, /* of a listener: iwcm_take() */
	IWCM_ESTABLISHED,
	IWCM_REJECTED,	  /* status: -ECONNREFUSED, -ECONNRESET */
	IWCM_UNREACHABLE, /* -ETIMEDOUT */
	IWCM_FAILED,	  /* anything else */
	IWCM_ENDED,	  /* one that was established */
};

struct iwcm_ops {
	/* Before an answer promises it: 0 if a stream could begin now. */
	int (*may_begin)(uint32_t qpn);
	/* From the thread, without a lock. The peer has accepted: the socket becomes the stream of
	 * this queue pair, unless that fails: then it stays ours. Then iwcm_ended() will follow. */
	int (*begin)(uint32_t qpn, int fd, const struct iw_conn *, const void *early,
		     size_t early_len, struct iwcm_link *);
	/* Likewise. The stream that it began for this link, gracefully or at once; it may have
	 * ended already. */
	int (*end)(uint32_t qpn, const struct iwcm_link *, bool at_once);
	/* Likewise. To be told to that identifier: of link nr. -errno: to be tried again. */
	int (*tell)(uint32_t id, uint64_t nr, enum iwcm_said, int status);
};

/* Before anything else, once; ops stay the caller's. */
int iwcm_open(const struct iwcm_ops *) must_use;

/* A socket with that address, or that and any port if it has none: *ret_port. */
int iwcm_bind(const struct sockaddr *, socklen_t, bool ipv6_only, int *ret_fd,
	      uint16_t *ret_port) must_use;
/* fd, of iwcm_bind(), is taken unless this fails. */
int iwcm_listen(int fd, uint32_t id, int backlog, struct iwcm_listener **ret) must_use;
/* Requests that nobody has taken are rejected. */
void iwcm_unlisten(struct iwcm_listener *);

struct iwcm_call {
	int fd; /* of iwcm_bind(), which is taken unless this fails; -1: from src, and any port */
	const struct sockaddr *src, *dst;
	socklen_t src_len, dst_len;
	uint8_t tos;
	bool ask_first; /* the port mapper: what TCP has at dst is something else */
	bool brief;	/* it is asked but once, and TCP has IWCM_BRIEF_NS */
	uint32_t qpn, id;
};

/* Calls. The link is the caller's until iwcm_put(); *ret is set before anything is told of it. */
int iwcm_connect(const struct iwcm_call *, const struct iw_params *,
		 struct iwcm_link **ret) must_use;
/* The request of which a listener has been told: the caller's until iwcm_put(). NULL: it has gone
 * meanwhile. */
struct iwcm_link *iwcm_take(uint32_t listener_id, uint64_t nr);
/* What the peer has said. Valid as long as the link, and not of one that still asks. */
const struct iw_conn *iwcm_conn(const struct iwcm_link *);
uint64_t iwcm_nr(const struct iwcm_link *);
/* Of one who calls: where TCP has it come from; 0 before that is known. */
uint16_t iwcm_own_port(const struct iwcm_link *);
int iwcm_addresses(const struct iwcm_link *, struct sockaddr_storage *own,
		   struct sockaddr_storage *peer) must_use;
/* Of a request that was taken. The one says ESTABLISHED to that identifier; where the queue pair
 * cannot have a stream it can be rejected yet. After another error of either nothing more is said,
 * and the peer sees that the connection is lost. */
int iwcm_accept(struct iwcm_link *, uint32_t id, uint32_t qpn, uint8_t tos,
		const struct iw_params *) must_use;
int iwcm_reject(struct iwcm_link *, const void *private_data, size_t len) must_use;
/* The stream of a link has come to its end: from any thread, with locks of its own held. */
void iwcm_ended(struct iwcm_link *);
/* Gracefully; as soon as it has begun, if it is yet to be agreed on. */
int iwcm_disconnect(struct iwcm_link *) must_use;
/* Nothing more is told of it; what is not agreed on is given up, and its stream ends at once,
 * unless that ends gracefully. */
void iwcm_put(struct iwcm_link *);

#endif
