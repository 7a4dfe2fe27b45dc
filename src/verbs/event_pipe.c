// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "verbs/event_pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/uncancelled.h"

static unsigned int forks; /* between the first process and this one */

void event_pipes_forked(void)
{
	forks++;
}

/* Then it is the parent's: a byte written or read here is written or read there. */
bool event_pipe_inherited(const struct event_pipe *p)
{
	return p->forks != forks;
}

int event_pipe_init(struct event_pipe *p)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC))
		return -errno;
	p->forks = forks;
	p->told = false;
	p->inside = 0;
	p->rd = fd[0];
	p->wr = fd[1];
	/* The write end alone: O_NONBLOCK belongs to the open file, of which a pipe has two. */
	if (fcntl(p->wr, F_SETFL, O_NONBLOCK)) {
		int err = errno;

		close(p->rd);
		close(p->wr);
		return -err;
	}
	pthread_mutex_init(&p->lock, NULL);
	list_init(&p->ready);
	return 0;
}

void event_pipe_close(struct event_pipe *p)
{
	int before = uncancelled_begin();

	pthread_mutex_lock(&p->lock);
	close(p->rd);
	close(p->wr);
	p->rd = p->wr = -1;
	pthread_mutex_unlock(&p->lock);
	uncancelled_end(before);
}

void event_source_init(struct event_source *s)
{
	list_init(&s->node);
	s->pending = s->taken = 0;
}

/* With the lock held. One byte at most is ever in the pipe, so that the write cannot find it full.
 */
static void tell(struct event_pipe *p)
{
	ssize_t n;

	if (p->told || p->inside || list_empty(&p->ready))
		return;
	p->told = true;
	do
		n = uncancelled_write(p->wr, "", 1);
	while (n < 0 && errno == EINTR);
}

static void raise_locked(struct event_pipe *p, struct event_source *s)
{
	if (p->wr < 0 || event_pipe_inherited(p) || !list_empty(&s->node))
		return;
	list_push_tail(&p->ready, &s->node);
	tell(p);
}

void event_pipe_count(struct event_pipe *p, struct event_source *s)
{
	pthread_mutex_lock(&p->lock);
	s->pending++;
	raise_locked(p, s);
	pthread_mutex_unlock(&p->lock);
}

void event_pipe_mark(struct event_pipe *p, struct event_source *s, uint32_t bit)
{
	pthread_mutex_lock(&p->lock);
	s->pending |= bit;
	raise_locked(p, s);
	pthread_mutex_unlock(&p->lock);
}

struct event_source *event_pipe_wait(struct event_pipe *p)
{
	if (event_pipe_inherited(p)) {
		errno = EIO;
		return NULL;
	}
	for (;;) {
		char byte;
		ssize_t n = read(p->rd, &byte, 1);

		if (n != 1) {
			if (n == 0) /* cannot be: the write end is ours */
				errno = EIO;
			return NULL;
		}
		pthread_mutex_lock(&p->lock);
		p->told = false;
		if (!list_empty(&p->ready))
			return list_entry(p->ready.next, struct event_source, node);
		/* What the byte stood for was forgotten or taken meanwhile. */
		pthread_mutex_unlock(&p->lock);
	}
}

void event_pipe_taken(struct event_pipe *p, struct event_source *s)
{
	s->taken++;
	list_remove(&s->node);
	if (s->pending)
		list_push_tail(&p->ready, &s->node); /* one each in turn */
	tell(p);
	pthread_mutex_unlock(&p->lock);
}

/* The byte of a queue that is looked at without it, or has run empty by itself: who polls and then
 * waits would wait for ever. One that has read it already is about to look, too. vmsplice(),
 * because the read end may block and is not ours to alter. */
static void unwake(struct event_pipe *p)
{
	char byte;
	struct iovec iov = {&byte, 1};
	int before;

	if (!p->told || p->rd < 0 || event_pipe_inherited(p))
		return;
	before = uncancelled_begin();
	if (vmsplice(p->rd, &iov, 1, SPLICE_F_NONBLOCK) == 1)
		p->told = false;
	uncancelled_end(before);
}

/* With the lock held, which is kept if there is one. */
static struct event_source *first_locked(struct event_pipe *p)
{
	if (!list_empty(&p->ready) && !event_pipe_inherited(p)) {
		unwake(p);
		return list_entry(p->ready.next, struct event_source, node);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

struct event_source *event_pipe_take(struct event_pipe *p)
{
	pthread_mutex_lock(&p->lock);
	return first_locked(p);
}

void event_pipe_enter(struct event_pipe *p)
{
	pthread_mutex_lock(&p->lock);
	p->inside++;
	pthread_mutex_unlock(&p->lock);
}

struct event_source *event_pipe_leave(struct event_pipe *p)
{
	pthread_mutex_lock(&p->lock);
	p->inside--;
	return first_locked(p);
}

uint32_t event_pipe_forget(struct event_pipe *p, struct event_source *s)
{
	uint32_t taken;

	pthread_mutex_lock(&p->lock);
	if (!list_empty(&s->node)) {
		list_remove(&s->node);
		if (list_empty(&p->ready))
			unwake(p);
	}
	s->pending = 0;
	taken = s->taken;
	pthread_mutex_unlock(&p->lock);
	return taken;
}
