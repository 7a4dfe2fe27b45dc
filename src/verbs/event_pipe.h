/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A queue of events behind a descriptor that an application polls: completion channels and
 * async_fd.
 *
 * The descriptor is the read end of a pipe, which never reports POLLOUT, and O_NONBLOCK set on it
 * by the application is honoured because waiting is a read(2) on it. The pipe carries no events,
 * only one byte while the queue is not empty: raising an event never blocks and never allocates,
 * so it can be done under a shard's lock, and level- and edge-triggered polling both come out
 * right. Events are counted in the objects they belong to (struct event_source), which stand in
 * the queue in turn.
 *
 * Lock order: a shard's lock before the pipe's.
 */
#ifndef WEFT_VERBS_EVENT_PIPE_H
#define WEFT_VERBS_EVENT_PIPE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"

struct event_pipe {
	pthread_mutex_t lock;
	struct list ready; /* of event_source.node: those with something pending */
	int rd;		   /* the application's; -1 once closed */
	int wr;
	bool told;	     /* the byte is in the pipe, or in the hands of who has read it */
	unsigned int inside; /* about to look at the queue: they need not be told */
	unsigned int forks;  /* when it was made */
};

/* All under the pipe's lock. */
struct event_source {
	struct list node;
	uint32_t pending; /* a number of events, or a bit for each type: the owner's choice */
	uint32_t taken;	  /* events given to the application, which it must acknowledge */
};

int event_pipe_init(struct event_pipe *) must_use; /* -errno */
/* In a forked child: its parent's pipes give it no events, and it takes none. */
void event_pipes_forked(void);
/* Closes the descriptors; sources may still be raised and forgotten, to no effect. */
void event_pipe_close(struct event_pipe *);

void event_source_init(struct event_source *);

/* One more event / an event of this type (a bit; raised again before it is taken, it is one). */
void event_pipe_count(struct event_pipe *, struct event_source *);
void event_pipe_mark(struct event_pipe *, struct event_source *, uint32_t bit);

/*
 * Waits for an event as read(2) on the descriptor does: on failure errno is EAGAIN or EINTR, or EIO
 * in a forked child, and NULL is returned. The source comes back with the pipe locked: take one
 * event off src->pending, then call event_pipe_taken(), which unlocks.
 */
struct event_source *event_pipe_wait(struct event_pipe *) must_use;
/* The same where there is an event already; else NULL, and errno is what it was. */
struct event_source *event_pipe_take(struct event_pipe *) must_use;
/* What is raised between these two is not told by the descriptor, but found by the second: what
 * event_pipe_take() returns. */
void event_pipe_enter(struct event_pipe *);
struct event_source *event_pipe_leave(struct event_pipe *) must_use;
/* Is it another process's, which this one was forked from? */
bool event_pipe_inherited(const struct event_pipe *);
void event_pipe_taken(struct event_pipe *, struct event_source *);

/* The source is going away: its pending events vanish. Returns how many were ever taken. */
uint32_t event_pipe_forget(struct event_pipe *, struct event_source *);

#endif
