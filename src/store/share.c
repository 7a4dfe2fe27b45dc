/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Stores that several threads use. What has descriptors has them once, and is driven by each thread
 * with its own engine. What copies is called by all, and copies stretch by stretch under a lock.
 * What is one conversation with a server is held by the first thread, to which the others hand
 * their operations; both ways lead over what pools have finished.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/internal.h"

/* --- operations that are handed on ------------------------------------------------------------ */

struct handed {
	struct store store;
	struct store *to;
	struct store_engine *by, *engine; /* who drives `to`; whose view this is */
};

static struct handed *handed_of(struct store *s)
{
	return container_of(s, struct handed, store);
}

/* Its own thread's. */
static void come_back(struct store_op *op, int error)
{
	op->done = op->handed_done;
	op->done(op, error);
}

static void done_there(struct store_op *op, int error)
{
	op->result = error;
	op->done = come_back;
	finished_add(engine_finished(handed_of(op->handed_by)->engine), op);
}

/* The first thread's. */
static void begin_there(struct store_op *op, int error)
{
	(void)error;
	op->done = done_there;
	store_submit(handed_of(op->handed_by)->to, op);
}

static void handed_submit(struct store *s, struct store_op *op)
{
	op->handed_by = s;
	op->handed_done = op->done;
	op->done = begin_there;
	op->result = 0;
	finished_add(engine_finished(handed_of(s)->by), op);
}

static void handed_destroy(struct store *s)
{
	free(handed_of(s));
}

static const struct store_ops handed_ops = {
	.name = "handed",
	.submit = handed_submit,
	.destroy = handed_destroy,
};

int handed_create(struct store *to, struct store_engine *by, struct store_engine *e,
		  struct store **ret)
{
	struct handed *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	h->store = *to;
	h->store.ops = &handed_ops;
	h->store.views = NULL;
	h->to = to;
	h->by = by;
	h->engine = e;
	*ret = &h->store;
	return 0;
}

/* --- stretches -------------------------------------------------------------------------------- */

struct stretches *stretches_create(void)
{
	struct stretches *s = malloc(sizeof(*s));

	for (unsigned i = 0; s && i < STRETCHES; i++)
		pthread_mutex_init(&s->lock[i], NULL);
	return s;
}

void stretches_destroy(struct stretches *s)
{
	for (unsigned i = 0; s && i < STRETCHES; i++)
		pthread_mutex_destroy(&s->lock[i]);
	free(s);
}

uint64_t stretches_lock(struct stretches *s, const struct store_op *op)
{
	uint64_t first = op->offset / STRETCH, last = (op->offset + op->len - 1) / STRETCH, all = 0;

	if (op->len == 0)
		return 0;
	for (uint64_t n = first; n <= last && n < first + STRETCHES; n++)
		all |= 1ull << n % STRETCHES;
	for (uint64_t left = all; left; left &= left - 1)
		pthread_mutex_lock(&s->lock[__builtin_ctzll(left)]);
	return all;
}

void stretches_unlock(struct stretches *s, uint64_t locked)
{
	for (uint64_t left = locked; left; left &= left - 1)
		pthread_mutex_unlock(&s->lock[__builtin_ctzll(left)]);
}

/* --- sharing ---------------------------------------------------------------------------------- */

static void drop_views(struct store *s, struct store **views, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (views[i] != s)
			views[i]->ops->destroy(views[i]);
	free(views);
}

int store_share(struct store *s, struct store_engine *const *engines, unsigned count)
{
	struct store **views;

	if (count < 2)
		return 0;
	views = calloc(count, sizeof(struct store *));
	if (!views)
		return -ENOMEM;
	views[0] = s;
	for (unsigned i = 1; i < count; i++) {
		int error = s->ops->view ? s->ops->view(s, engines[i], &views[i])
					 : handed_create(s, engines[0], engines[i], &views[i]);

		if (error) {
			drop_views(s, views, i);
			return error;
		}
	}
	s->views = views;
	s->view_count = count;
	return 0;
}

bool store_measure(struct store *s)
{
	if (!s->ops->measure || !s->ops->measure(s))
		return false;
	for (unsigned i = 1; i < s->view_count; i++)
		s->views[i]->size = s->size;
	return true;
}

void store_destroy(struct store *s)
{
	struct store **views = s->views;

	s->views = NULL;
	drop_views(s, views, s->view_count);
	s->ops->destroy(s);
}
