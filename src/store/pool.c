/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The threads of one store, which make blocking calls: its own, so that a disk that hangs holds up
 * nobody else's work. Work goes in by pool_start() and comes out by finished_pop(), both in the
 * engine's thread. One lock guards all pools of an engine and what they have finished.
 *
 * Writes through a page cache take turns, as the file system would make them: of several threads
 * all but one would but wait, or spin, for the lock of the file.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "store/internal.h"

#define THREADS	 8
#define LEAVE_NS ((long)NSEC_PER_SEC / 4) /* who does not hang has ended by then */

struct pool {
	struct finished *finished;
	pthread_cond_t wake;
	struct list todo, turns; /* one of turns at a time */
	bool turn_taken, stop;
	const struct store_op *forgotten;
	unsigned todo_count, idle, running;
	pthread_t threads[THREADS];
};

/* --- what is finished ------------------------------------------------------------------------- */

int finished_create(struct finished **ret)
{
	struct finished *f = calloc(1, sizeof(*f));
	int error;

	if (!f)
		return -ENOMEM;
	f->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (f->event_fd < 0) {
		error = -errno;
		free(f);
		return error;
	}
	pthread_mutex_init(&f->lock, NULL);
	list_init(&f->ops);
	f->users = 1;
	*ret = f;
	return 0;
}

void finished_put(struct finished *f)
{
	unsigned users;

	pthread_mutex_lock(&f->lock);
	users = --f->users;
	pthread_mutex_unlock(&f->lock);
	if (users)
		return;
	pthread_mutex_destroy(&f->lock);
	close(f->event_fd);
	free(f);
}

void finished_push(struct finished *f, struct store_op *op)
{
	bool first = list_empty(&f->ops);

	list_push_tail(&f->ops, &op->link);
	/* Who is woken takes all. The counter of an eventfd cannot overflow by ones. */
	if (first && write(f->event_fd, &(uint64_t){1}, sizeof(uint64_t)) < 0)
		abort();
}

void finished_add(struct finished *f, struct store_op *op)
{
	pthread_mutex_lock(&f->lock);
	finished_push(f, op);
	pthread_mutex_unlock(&f->lock);
}

struct store_op *finished_pop(struct finished *f)
{
	struct list *n;

	pthread_mutex_lock(&f->lock);
	n = list_pop_head(&f->ops);
	pthread_mutex_unlock(&f->lock);
	return n ? list_entry(n, struct store_op, link) : NULL;
}

void leave_thread(pthread_t thread)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += LEAVE_NS;
	until.tv_sec += until.tv_nsec / (long)NSEC_PER_SEC;
	until.tv_nsec %= (long)NSEC_PER_SEC;
	if (pthread_timedjoin_np(thread, NULL, &until) != 0)
		pthread_detach(thread);
}

/* --- threads ---------------------------------------------------------------------------------- */

static void *worker(void *arg)
{
	struct pool *p = arg;

	pthread_mutex_lock(&p->finished->lock);
	for (;;) {
		bool turn = !p->turn_taken && !list_empty(&p->turns);
		struct list *n = list_pop_head(turn ? &p->turns : &p->todo);
		struct engine_store *s;
		struct store_op *op;

		if (!n && p->stop)
			break;
		if (!n) {
			p->idle++;
			pthread_cond_wait(&p->wake, &p->finished->lock);
			p->idle--;
			continue;
		}
		op = list_entry(n, struct store_op, link);
		if (turn)
			p->turn_taken = true;
		else
			p->todo_count--;
		pthread_mutex_unlock(&p->finished->lock);
		s = engine_store_of(op->store);
		op->result = s->ops->do_blocking(s, op);
		pthread_mutex_lock(&p->finished->lock);
		if (turn)
			p->turn_taken = false; /* this thread looks for the next one */
		if (op != p->forgotten)
			finished_push(p->finished, op);
	}
	pthread_mutex_unlock(&p->finished->lock);
	return NULL;
}

int pool_create(struct finished *finished, struct pool **ret)
{
	struct pool *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	pthread_cond_init(&p->wake, NULL);
	list_init(&p->todo);
	list_init(&p->turns);
	p->finished = finished;
	pthread_mutex_lock(&finished->lock);
	finished->users++;
	pthread_mutex_unlock(&finished->lock);
	*ret = p;
	return 0;
}

void pool_destroy(struct pool *p)
{
	pthread_mutex_lock(&p->finished->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->finished->lock);
	for (unsigned i = 0; i < p->running; i++)
		pthread_join(p->threads[i], NULL);
	pthread_cond_destroy(&p->wake);
	finished_put(p->finished);
	free(p);
}

/* With all signals blocked: they are for the thread that drives the engine. */
static void start_thread(struct pool *p)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&p->threads[p->running], NULL, worker, p) == 0)
		p->running++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static bool take_out(struct list *of, const struct store_op *op)
{
	list_for_each(o, of, struct store_op, link)
		if (o == op) {
			list_remove(&o->link);
			return true;
		}
	return false;
}

bool pool_cancel(struct pool *p, struct store_op *op)
{
	bool todo, turns;

	pthread_mutex_lock(&p->finished->lock);
	todo = take_out(&p->todo, op);
	turns = !todo && take_out(&p->turns, op);
	p->todo_count -= todo;
	pthread_mutex_unlock(&p->finished->lock);
	return todo || turns;
}

void pool_forget(struct pool *p, struct store_op *op)
{
	pthread_mutex_lock(&p->finished->lock);
	p->forgotten = op;
	list_remove(&op->link); /* it may be finished already */
	pthread_mutex_unlock(&p->finished->lock);
}

int pool_start(struct pool *p, struct store_op *op, bool takes_turns)
{
	unsigned ready;
	int error = 0;

	pthread_mutex_lock(&p->finished->lock);
	list_push_tail(takes_turns ? &p->turns : &p->todo, &op->link);
	p->todo_count += !takes_turns;
	/* A thread that is woken counts as idle until it has taken something. */
	ready = p->todo_count + (!p->turn_taken && !list_empty(&p->turns));
	if (ready > p->idle && p->running < THREADS)
		start_thread(p);
	if (!p->running) {
		list_remove(&op->link);
		p->todo_count -= !takes_turns;
		error = -EAGAIN;
	} else if (ready) {
		pthread_cond_signal(&p->wake);
	}
	pthread_mutex_unlock(&p->finished->lock);
	return error;
}
