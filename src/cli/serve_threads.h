/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The threads of weft serve besides the first, which has the admin plane. Each has a group of the
 * target's, and for that an engine for stores, a share of the memory, and its side of every
 * transport; it goes in turns as the first does. The first makes them, has them end their
 * connections, and ends them: in between they and it speak by the target's messages alone.
 */
#ifndef WEFT_CLI_SERVE_THREADS_H
#define WEFT_CLI_SERVE_THREADS_H

#include <pthread.h>
#include <stdatomic.h>

#include "cli/serve_transports.h"
#include "nvmf/target/target.h"
#include "nvmf/transport/share.h"
#include "store/store.h"

#define SERVE_THREADS_MAX 64
/* After work, look for more this long before sleeping: waking up costs more than that. */
#define SERVE_POLL_NS (50 * NSEC_PER_USEC)

struct serve_threads;

struct serve_thread {
	struct serve_threads *of;
	struct target_group group;
	struct store_engine *engine;
	struct shares shares;
	struct serve_transports transports;
	int epoll_fd, wake_fd;
	uint64_t watch_ns; /* when disks that take long are looked for next */
	pthread_t thread;
	bool runs;	    /* it was started and is not joined */
	_Atomic bool idle;  /* nothing is left of its connections, which it was told to end */
	_Atomic bool ended; /* it does nothing any more */
};

struct serve_threads {
	struct target *target;
	struct serve_thread *v;
	unsigned count;
	int wake_fd; /* the first thread's: of this the caller's loop is to be woken */
	_Atomic bool stop, quit;
	/* Of all threads, the first's in front: what disks are shared by. */
	struct store_engine *engines[SERVE_THREADS_MAX];
};

/*
 * So many besides the first, which has that engine and these transports: until they are started,
 * nothing runs. pool_bytes: of each. -errno, and why.
 */
int serve_threads_init(struct serve_threads *t, unsigned count, struct target *target,
		       struct store_engine *engine, struct serve_transports *transports,
		       size_t pool_bytes, char *why, size_t room) must_use;
int serve_threads_start(struct serve_threads *t, char *why, size_t room) must_use;
/* To be called when wake_fd is readable. */
void serve_threads_clear(struct serve_threads *t);
/* They end their connections, and go on to do what the admin plane has for them. */
void serve_threads_shutdown(struct serve_threads *t);
/* No connection is left. */
bool serve_threads_idle(const struct serve_threads *t);
/* Ends them. False: one hangs, and is left. */
bool serve_threads_join(struct serve_threads *t) must_use;
/* When all are joined: before the first's transports are destroyed. The engines stay until disks
 * are closed. */
void serve_threads_fini(struct serve_threads *t);
void serve_threads_free(struct serve_threads *t);

#endif
