/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#ifndef WEFT_IWCM_IWCM_PRIV_H
#define WEFT_IWCM_IWCM_PRIV_H

#include <pthread.h>

#include "base/heap.h"
#include "base/list.h"
#include "iwcm/iwcm.h"
#include "wire/iwpm.h"

#define BEGIN 0 /* said to ourselves: the stream is to be begun, without the lock */

enum phase {
	CALLING, /* TCP */
	MAPPING, /* the peer's port mapper is asked */
	RESTING, /* nobody listens: it calls again */
	ASKING,	 /* has sent its request */
	HEARING, /* of a listener: the request is not whole yet */
	ASKED,	 /* it is, and its answer is due */
	BEGUN,	 /* its socket is a stream's, or about to be: it is here as long as it is ours */
	CLOSING, /* has said its last, and waits for the peer to close */
	OVER,
};

struct socket_of { /* a link or a listener: what the thread finds by a number */
	struct list node;
	uint64_t nr;
	int fd; /* -1: no more */
	bool listens;
	struct timer timer; /* a link's to the end of its phase; a listener's, that accepts none
			       till then */
};

struct iwcm_link {
	struct socket_of s;
	struct list mine; /* of the listener's, or of those that are closing; or alone */
	struct iwcm_listener *listener;
	enum phase phase;
	bool owned;	  /* somebody will call iwcm_put() */
	bool busy;	  /* somebody is at it without the lock */
	bool leaves;	  /* its owner disconnects: the stream is to end gracefully */
	uint32_t id, qpn; /* of whom it is told */
	struct iw_conn conn;
	uint8_t out[IW_OUT_MAX]; /* of one who calls: its request */
	size_t out_len;
	struct sockaddr_storage src, dst; /* of one who calls, for another try */
	socklen_t src_len, dst_len;
	uint8_t tos;
	uint16_t own_port;
	int refusal; /* what is told if the mapper knows no other port; 0: it has not been asked */
	int held;    /* while it is: the socket that will call then; -1: none */
	struct iwpm map; /* what it is asked */
	bool brief;
	bool ask_first; /* what TCP has at dst is something else */
	unsigned int asks_left;
	unsigned int recalls;
	int absence;	   /* of the peer, that it calls again for */
	uint64_t asked_ns; /* its request was sent then */
	uint8_t *early;	   /* what came behind the peer's last word */
	size_t early_len;
	struct iwcm_link *ended_before;
	struct list told; /* in the row of those that have something to tell */
	uint8_t says;	  /* a bit of each enum iwcm_said, and of BEGIN */
	int status;
};

struct iwcm_listener {
	struct socket_of s;
	uint32_t id;
	unsigned int backlog, silent, asked;
	struct list hearing, requests; /* links; the oldest first */
};

#define BUCKETS 256

extern struct iwcm {
	pthread_mutex_t lock; /* nothing is called with it held */
	const struct iwcm_ops *ops;
	int epoll, wake; /* -1: there is no thread yet */
	uint64_t next_nr;
	struct list buckets[BUCKETS];
	struct timer_heap timers;
	struct list tells;
	/* Links whose streams have ended, and nothing is done about it yet; not under the lock: who
	 * says so has others, which who forks takes after this one. */
	struct iwcm_link *ended;
	struct list closing; /* links, the oldest first */
	unsigned int closing_count;
} iwcm;

/* ---- table.c: all with the lock held ----------------------------------------------------------
 */

void iwcm_lock(void);
void iwcm_unlock(void);
/* Gives it a number and has the thread wait for these events of its socket. */
int socket_add(struct socket_of *, uint32_t events) must_use;
void socket_wait(struct socket_of *, uint32_t events);
/* Gives it a number without, of which something may be told. */
void socket_number(struct socket_of *);
/* The thread looks no more at it. */
void socket_release(struct socket_of *);
void socket_close(struct socket_of *);
/* The same in a forked child: the epoll set is the parent's. */
void socket_close_copy(struct socket_of *);
void socket_forget(struct socket_of *);
struct socket_of *socket_find(uint64_t nr);
void thread_wake(void);

/* ---- link.c: all with the lock held -----------------------------------------------------------
 */

struct iwcm_link *link_new(int fd);
/* It has something to tell. */
void link_says(struct iwcm_link *, enum iwcm_said, int status);
/* Its socket is closed, by RST if abrupt; nothing more comes of it but what is to be told yet. It
 * is freed when nobody has it. */
void link_over(struct iwcm_link *, bool abrupt);
/* Its stream begins. Without the lock in between. */
int link_begin(struct iwcm_link *) must_use;
/* Sends these bytes as its last, and waits for the peer to close. */
void link_close_with(struct iwcm_link *, const uint8_t *last, size_t len);
/* The socket it holds is closed. */
void link_let_go(struct iwcm_link *);
/* Not any more the listener's. */
void link_leave_listener(struct iwcm_link *);
void link_free_if_over(struct iwcm_link *);
/* Begins to call; or to ask where. */
int link_call(struct iwcm_link *) must_use;
/* Has its packets carry this traffic class, and the priority of it; 0: as they are. */
void link_set_class(struct iwcm_link *, uint8_t tos);
void link_ask(struct iwcm_link *, int refusal);
/* Something has come of its socket, or its time is up. */
void link_ready(struct iwcm_link *);
void link_late(struct iwcm_link *);
/* The first that has something to tell, and what; NULL: nobody. */
struct iwcm_link *link_next_told(int *ret_what);
void link_was_told(struct iwcm_link *, int what);
/* Its stream has ended: the thread does something about that when it next looks. Without the lock,
 * too. */
void link_ended(struct iwcm_link *);

/* ---- portmap.c: with the lock held -------------------------------------------------------------
 */

enum portmap_heard {
	PORTMAP_NOTHING, /* yet */
	PORTMAP_NONE,	 /* there is no mapper, or it knows no other port */
	PORTMAP_FOUND,	 /* dst has it, and the socket is that which was held */
};

/* The link's socket, which is bound to its port, is held, and another of UDP in its place. */
int portmap_ask(struct iwcm_link *) must_use;
/* False: it has been asked often enough. */
bool portmap_ask_again(struct iwcm_link *);
enum portmap_heard portmap_hear(struct iwcm_link *);

/* ---- listen.c: with the lock held --------------------------------------------------------------
 */

void listener_ready(struct iwcm_listener *);
void listener_late(struct iwcm_listener *);

#endif
