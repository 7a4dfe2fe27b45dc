/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the files of a shard share: its life and its face (shard.c), its lock, its thread, forks. */
#ifndef WEFT_ENGINE_SHARD_PRIV_H
#define WEFT_ENGINE_SHARD_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "engine/drive.h"
#include "engine/lease.h"
#include "engine/moment.h"
#include "engine/shard.h"
#include "engine/sight.h"

/* Packets within one hold of the lock, that others have their turn. */
#define SHARD_TX_MAX 1024

struct shard {
	struct list link; /* of all */
	pthread_mutex_t lock;
	atomic_int waiters; /* for the lock; the thread lets them go first */

	/* Guarded by the lock. */
	struct drive drive;
	struct packet_tx tx[DRIVE_TX_BATCH]; /* its room */
	struct lease lease;
	struct moment moment;
	uint64_t looks_until;  /* somebody does, who is going to attend */
	bool headers;	       /* the ports have been asked for them */
	uint64_t clock;	       /* handed out by shard_now() since the lock was taken, 0: not */
	uint64_t sleeps_until; /* the thread, 0 while it is awake */
	bool listens;	       /* the thread sleeps on the ports */
	bool thread_receives;  /* and nobody else */
	unsigned int found;    /* polls in succession that had something */
	bool put_off;	       /* what an attendant had to send, when it last came */
	bool stop, dead;
	uint8_t random[256]; /* fresh random bytes, used from the end */
	size_t random_left;
	struct shard_sight sight;

	struct watch {
		int fd; /* -1: none */
		bool (*ready)(int fd);
		unsigned nr; /* whether it is still the same */
	} watch;

	struct shard_upcalls up;
	struct congestion_rules *congestion;
	pthread_t thread;
	int wake_fd;
};

/* ---- shard.c --------------------------------------------------------------------------------- */

/* With the lock held: what there is to send. True if more is left. */
bool shard_send(struct shard *, uint64_t now);

/* ---- receive.c ------------------------------------------------------------------------------- */

/* With the lock held: a receive batch, and the timers that are due. */
int shard_receive(struct shard *, uint64_t now) must_use;
/* Does somebody sleep on the ports' descriptors? */
bool shard_is_slept_on(const struct shard *);
/* Somebody does, or is going to: those will tell of all that is not received by now. As
 * shard_receive() returns. */
int shard_lulled(struct shard *, uint64_t now) must_use;
/* Does what there is to send wait for the program's answer? Until lease_keeps_until(). */
bool shard_keeps(const struct shard *, uint64_t now) must_use;

/* ---- handed.c: what the core is handed, with the shard as its ctx ---------------------------- */

extern const struct rnic_ops shard_core_ops;

/* ---- lock.c ---------------------------------------------------------------------------------- */

void shard_lock_init(struct shard *);
/* From the thread: to who waits for it. */
void shard_unlock_fairly(struct shard *);

/* ---- thread.c -------------------------------------------------------------------------------- */

int shard_thread_start(struct shard *) must_use;
/* With the lock held: the thread looks anew at what there is to do, and when. */
void shard_thread_wake(struct shard *);
/* Without it. */
void shard_thread_stop(struct shard *);

/* ---- fork.c ---------------------------------------------------------------------------------- */

/* Starts the shard's thread, too: no fork comes in between. */
int shard_enlist(struct shard *) must_use;
void shard_unlist(struct shard *);

#endif
