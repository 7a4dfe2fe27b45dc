/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nbdkit/worker.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/time.h"

/* After something has happened, look for more this long before sleeping: being woken costs more. */
#define LOOK_NS (20 * NSEC_PER_USEC)

struct worker {
	struct weft_options *options;
	unsigned int queues, next_queue;
	struct weft_group *group;
	struct weft_ctrl *ctrl;
	unsigned int number; /* of ctrl, of all that there were */
	int wake_fd;
	pthread_t thread;

	pthread_mutex_t lock;
	struct job *first, **last; /* handed in, not run yet */
	bool sleeps, stop;
};

/* --- from the callers' threads ---------------------------------------------------------------- */

static void wake(struct worker *w)
{
	uint64_t one = 1;
	ssize_t n;

	do
		n = write(w->wake_fd, &one, sizeof(one));
	while (n < 0 && errno == EINTR);
}

void worker_run(struct worker *w, struct job *j)
{
	bool asleep;

	j->next = NULL;
	j->done = false;
	pthread_cond_init(&j->over, NULL);
	pthread_mutex_lock(&w->lock);
	*w->last = j;
	w->last = &j->next;
	asleep = w->sleeps;
	w->sleeps = false;
	if (asleep)
		wake(w);
	while (!j->done)
		pthread_cond_wait(&j->over, &w->lock);
	pthread_mutex_unlock(&w->lock);
	pthread_cond_destroy(&j->over);
}

/* --- in the thread ---------------------------------------------------------------------------- */

void job_done(struct worker *w, struct job *j)
{
	pthread_mutex_lock(&w->lock);
	j->done = true;
	pthread_cond_signal(&j->over);
	pthread_mutex_unlock(&w->lock);
}

static struct job *take_jobs(struct worker *w)
{
	struct job *j;

	pthread_mutex_lock(&w->lock);
	j = w->first;
	w->first = NULL;
	w->last = &w->first;
	pthread_mutex_unlock(&w->lock);
	return j;
}

static bool run_jobs(struct worker *w)
{
	struct job *j = take_jobs(w), *next;
	const bool any = j;

	for (; j; j = next) {
		next = j->next; /* it may be over, and the caller gone */
		j->run(j, w);
	}
	return any;
}

/* False: there is something to do. */
static bool may_sleep(struct worker *w, bool *ret_stop)
{
	bool may;

	pthread_mutex_lock(&w->lock);
	*ret_stop = w->stop;
	may = !w->first && !w->stop;
	w->sleeps = may;
	pthread_mutex_unlock(&w->lock);
	return may;
}

static void sleep_once(struct worker *w)
{
	struct pollfd p[2] = {{.fd = w->wake_fd, .events = POLLIN},
			      {.fd = weft_group_fd(w->group), .events = POLLIN}};
	uint64_t count;

	(void)poll(p, 2, -1);
	if (p[0].revents & POLLIN)
		while (read(w->wake_fd, &count, sizeof(count)) < 0 && errno == EINTR)
			;
	pthread_mutex_lock(&w->lock);
	w->sleeps = false;
	pthread_mutex_unlock(&w->lock);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	uint64_t busy_ns = time_now_ns();
	bool stop = false;

	while (!stop) {
		bool any = run_jobs(w);

		any |= weft_group_poll(w->group) > 0;
		if (any)
			busy_ns = time_now_ns();
		else if (time_now_ns() - busy_ns > LOOK_NS && weft_group_arm(w->group) == 0 &&
			 may_sleep(w, &stop))
			sleep_once(w);
	}
	return NULL;
}

/* --- the controller --------------------------------------------------------------------------- */

static bool connect_anew(struct worker *w, char *why, size_t room)
{
	if (weft_ctrl_open(w->group, w->options, &w->ctrl) == 0) {
		w->number++;
		return true;
	}
	w->ctrl = NULL;
	snprintf(why, room, "%s", weft_options_error(w->options));
	return false;
}

struct weft_ctrl *worker_ctrl(struct worker *w, char *why, size_t room)
{
	if (w->ctrl && weft_ctrl_state(w->ctrl) == WEFT_CTRL_FAILED) {
		(void)weft_ctrl_destroy(w->ctrl);
		w->ctrl = NULL;
	}
	if (!w->ctrl)
		(void)connect_anew(w, why, room);
	return w->ctrl;
}

struct weft_ctrl *worker_ctrl_now(struct worker *w)
{
	return w->ctrl;
}

unsigned int worker_ctrl_number(const struct worker *w)
{
	return w->number;
}

struct weft_queue *worker_queue(struct worker *w)
{
	if (!w->ctrl)
		return NULL;
	return weft_ctrl_io_queue(w->ctrl, w->next_queue++ % w->queues);
}

const char *worker_error(const struct worker *w)
{
	return w->ctrl ? weft_ctrl_error(w->ctrl) : weft_options_error(w->options);
}

/* --- life ------------------------------------------------------------------------------------- */

/* Signals are for nbdkit's own threads. */
static int start_thread(struct worker *w)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&w->thread, NULL, worker_main, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -rc;
}

static void worker_free(struct worker *w)
{
	if (w->group)
		(void)weft_group_destroy(w->group);
	if (w->wake_fd >= 0)
		close(w->wake_fd);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

struct worker *worker_create(struct weft_options *o, unsigned int queues, char *why, size_t room)
{
	struct worker *w = calloc(1, sizeof(*w));
	int rc;

	if (!w) {
		snprintf(why, room, "no memory");
		return NULL;
	}
	w->options = o;
	w->queues = queues;
	w->last = &w->first;
	pthread_mutex_init(&w->lock, NULL);
	w->wake_fd = eventfd(0, EFD_CLOEXEC);
	rc = w->wake_fd < 0 ? -errno : weft_group_create(&w->group);
	if (!rc && !connect_anew(w, why, room)) {
		worker_free(w);
		return NULL;
	}
	if (!rc) {
		rc = weft_group_fd(w->group);
		rc = rc < 0 ? rc : start_thread(w);
	}
	if (rc) {
		snprintf(why, room, "cannot set up the connection's thread: %s", errno_text(-rc));
		(void)weft_ctrl_destroy(w->ctrl);
		worker_free(w);
		return NULL;
	}
	return w;
}

bool worker_destroy(struct worker *w, char *why, size_t room)
{
	bool in_order, failed;

	pthread_mutex_lock(&w->lock);
	w->stop = true;
	wake(w);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	failed = w->ctrl && weft_ctrl_state(w->ctrl) == WEFT_CTRL_FAILED;
	if (w->ctrl && weft_ctrl_state(w->ctrl) != WEFT_CTRL_LIVE)
		snprintf(why, room, "%s", weft_ctrl_error(w->ctrl));
	else
		snprintf(why, room, "it did not shut down in time");
	/* That one has failed is no news to the library. */
	in_order = weft_ctrl_close(w->ctrl) == 0 && !failed;
	worker_free(w);
	return in_order;
}
