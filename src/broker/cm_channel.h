/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An event channel: a pipe in packet mode, each packet one struct broker_cm_event. A pipe, because
 * its reading end never reports POLLOUT, for which applications poll it. What does not fit waits
 * here and is written when the reader has made room: no event is lost while the reader lives.
 */
#ifndef WEFT_BROKER_CM_CHANNEL_H
#define WEFT_BROKER_CM_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "broker/cm_users.h"
#include "broker/proto_cm.h"

struct cm_channel {
	struct list list; /* for the owner */
	uint32_t nr;	  /* of the client's choosing to name it: the owner's */
	int fd;		  /* the writing end */
	bool broken;	  /* the reader has gone: events go nowhere */
	uint64_t written; /* events ever written */
	struct list queue;
	uint32_t queued;
	struct cm_user *user; /* whose memory the waiting events count as */
	/* Called for each event when it gets its place in the pipe. May be NULL. */
	void (*placed)(void *ctx, struct cm_channel *, const struct broker_cm_event *,
		       uint64_t place);
	void *ctx;
};

/* *ret_fd: the reading end, the caller's to pass on and close. -errno. A user who has many channels
 * gets smaller pipes: what is in them is the broker's memory, too. */
int cm_channel_open(struct cm_channel *, struct cm_user *, int *ret_fd) must_use;
/* One that another broker has opened; pipe is its reading end, borrowed. -EINVAL: that is no
 * pipe of a broker of our user. */
int cm_channel_reopen(struct cm_channel *, struct cm_user *, int pipe) must_use;
void cm_channel_close(struct cm_channel *);
/* -ENOMEM when it can be neither written nor kept, -EPIPE when the reader has gone. */
int cm_channel_post(struct cm_channel *, const struct broker_cm_event *) must_use;
/* Is there still a descriptor of the reading end, in whichever process? */
bool cm_channel_has_reader(const struct cm_channel *);
/* Writes what waits, as far as there is room. */
void cm_channel_flush(struct cm_channel *);
/* The events read so far: those placed below this number. */
uint64_t cm_channel_read(const struct cm_channel *);
void cm_channel_purge_all(struct cm_channel *);
/* Drops an id's waiting events. */
void cm_channel_purge(struct cm_channel *, uint32_t id);
/* Moves an id's events that nobody has read, a listener's requests included, to another channel. */
void cm_channel_move(struct cm_channel *, uint32_t id, struct cm_channel *to);

#endif
