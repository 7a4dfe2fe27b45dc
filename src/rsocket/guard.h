/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A thread may never come back from a sleep in one of our calls: pthread_cancel(), or a signal's
 * handler that jumps out of it by siglongjmp(). A guard says what is to be put right then. The C
 * library has a kind of them that it heeds in both cases, older than that of <pthread.h>.
 */
#ifndef WEFT_RSOCKET_GUARD_H
#define WEFT_RSOCKET_GUARD_H

#include <pthread.h>

void _pthread_cleanup_push(struct _pthread_cleanup_buffer *, void (*)(void *), void *);
void _pthread_cleanup_pop(struct _pthread_cleanup_buffer *, int execute);

struct guard {
	struct _pthread_cleanup_buffer buffer;
};

/* In pairs, in one function: left() is called if the thread leaves between the two. */
static inline void guard_begin(struct guard *g, void (*left)(void *), void *arg)
{
	_pthread_cleanup_push(&g->buffer, left, arg);
}

static inline void guard_end(struct guard *g)
{
	_pthread_cleanup_pop(&g->buffer, 0);
}

#endif
