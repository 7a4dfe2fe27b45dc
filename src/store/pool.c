/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A few threads that make blocking calls. Work goes in by pool_start() and comes out by
 * pool_finished(), both in the engine's thread; between the two lists stands one lock.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/internal.h"

#define THREADS 4

struct pool {
	pthread_mutex_t lock; /* guards everything below */
	pthread_cond_t wake;
	struct list todo, finished;
	bool stop;
	unsigned idle, running;
	pthread_t threads[THREADS];
	int event_fd;
};

static void *worker(void *arg)
{
	struct pool *p = arg;

	pthread_mutex_lock(&p->lock);
	for (;;) {
		struct list *n = list_pop_head(&p->todo);
		struct store_op *op;

		if (!n && p->stop)
			break;
		if (!n) {
			p->idle++;
			pthread_cond_wait(&p->wake, &p->lock);
			p->idle--;
			continue;
		}
		op = list_entry(n, struct store_op, link);
		pthread_mutex_unlock(&p->lock);
		op->result = file_do_blocking(op);
		pthread_mutex_lock(&p->lock);
		list_push_tail(&p->finished, &op->link);
		/* The counter of an eventfd cannot overflow by ones. */
		if (write(p->event_fd, &(uint64_t){1}, sizeof(uint64_t)) < 0)
			abort();
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

int pool_create(int event_fd, struct pool **ret)
{
	struct pool *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->wake, NULL);
	list_init(&p->todo);
	list_init(&p->finished);
	p->event_fd = event_fd;
	*ret = p;
	return 0;
}

void pool_destroy(struct pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < p->running; i++)
		pthread_join(p->threads[i], NULL);
	pthread_cond_destroy(&p->wake);
	pthread_mutex_destroy(&p->lock);
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

int pool_start(struct pool *p, struct store_op *op)
{
	int error = 0;

	pthread_mutex_lock(&p->lock);
	if (!p->idle && p->running < THREADS)
		start_thread(p);
	if (!p->running) {
		error = -EAGAIN;
	} else {
		list_push_tail(&p->todo, &op->link);
		pthread_cond_signal(&p->wake);
	}
	pthread_mutex_unlock(&p->lock);
	return error;
}

struct store_op *pool_finished(struct pool *p)
{
	struct list *n;

	pthread_mutex_lock(&p->lock);
	n = list_pop_head(&p->finished);
	pthread_mutex_unlock(&p->lock);
	return n ? list_entry(n, struct store_op, link) : NULL;
}
