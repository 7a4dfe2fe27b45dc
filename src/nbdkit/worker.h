/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The thread that has the controller: <weft/nvmf.h> lets one thread at a time use a group, and
 * nbdkit calls from many. They hand it jobs and wait; it runs them, looks after the connection
 * meanwhile, and sleeps where there is nothing to do.
 *
 * A controller that has failed for good, its reconnect policy being over, is made anew by whoever
 * asks for it next: worker_ctrl().
 */
#ifndef WEFT_NBDKIT_WORKER_H
#define WEFT_NBDKIT_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <weft/nvmf.h>

struct worker;

/* The caller's, who waits until it is done. */
struct job {
	void (*run)(struct job *j, struct worker *w); /* in the thread; job_done() now or later */
	/* The worker's own. */
	struct job *next;
	pthread_cond_t over;
	bool done;
};

/*
 * Connects, once; options stay the caller's and outlive the worker. NULL, and why (room bytes).
 * queues: I/O queues that the options ask for.
 */
struct worker *worker_create(struct weft_options *o, unsigned int queues, char *why, size_t room);
/* No job may be under way. Shuts the controller down; false, and why: not in order. */
bool worker_destroy(struct worker *w, char *why, size_t room);

/* Runs it in the thread and returns when it is done. */
void worker_run(struct worker *w, struct job *j);
/* From the thread. */
void job_done(struct worker *w, struct job *j);

/* From the thread: the controller; where the last one has failed for good another is connected,
 * which waits. NULL: why. */
struct weft_ctrl *worker_ctrl(struct worker *w, char *why, size_t room);
/* From the thread: the one there is; NULL: none. */
struct weft_ctrl *worker_ctrl_now(struct worker *w);
/* From the thread: which one that is, of those that there were. */
unsigned int worker_ctrl_number(const struct worker *w);
/* From the thread: the next of the I/O queues, by turns; NULL: there is no controller. */
struct weft_queue *worker_queue(struct worker *w);
/* From the thread: why the connection is as it is; "" if it is well. */
const char *worker_error(const struct worker *w);

#endif
