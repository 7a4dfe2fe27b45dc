// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "verbs/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/poll_until.h"
#include "base/restarts.h"
#include "verbs/cq.h"

#define ENOUGH_MAX 256u

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct face_channel *ch = calloc(1, sizeof(*ch));
	int rc;

	if (!ch)
		return FAIL(ENOMEM, NULL);
	rc = event_pipe_init(&ch->pipe);
	if (rc) {
		free(ch);
		return FAIL(-rc, NULL);
	}
	ch->enough = 1;
	ch->shard = face_context(context)->shard;
	ch->ibv.context = context;
	ch->ibv.fd = ch->pipe.rd;
	context_get(face_context(context));
	return &ch->ibv;
}

/* With the shard's lock held. */
static void set_told(struct face_channel *ch, bool told)
{
	if (ch->told != told)
		shard_told(ch->shard, told);
	ch->told = told;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct face_channel *ch = face_channel(channel);
	bool busy;

	pthread_mutex_lock(&ch->pipe.lock);
	busy = ch->ibv.refcnt > 0;
	pthread_mutex_unlock(&ch->pipe.lock);
	if (busy)
		return REFUSED(EBUSY);
	shard_lock(ch->shard);
	set_told(ch, false);
	shard_unlock(ch->shard);
	event_pipe_close(&ch->pipe);
	context_put(face_context(channel->context));
	free(ch);
	return 0;
}

void channel_get(struct face_channel *ch)
{
	pthread_mutex_lock(&ch->pipe.lock);
	ch->ibv.refcnt++;
	pthread_mutex_unlock(&ch->pipe.lock);
}

void channel_put(struct face_channel *ch)
{
	pthread_mutex_lock(&ch->pipe.lock);
	ch->ibv.refcnt--;
	pthread_mutex_unlock(&ch->pipe.lock);
}

void channel_armed(struct face_channel *ch, struct shard *s)
{
	if (ch && ch->attends) {
		shard_sleeping_soon(s);
	} else {
		if (ch)
			set_told(ch, true);
		shard_sleeping(s);
	}
}

void cq_notify(void *cq_user)
{
	struct face_cq *cq = cq_user;
	struct face_channel *ch;

	if (cq->tell) {
		cq->tell(cq->tell_arg);
	} else if (cq->ibv.channel) {
		ch = face_channel(cq->ibv.channel);
		/* It did not come, and what came waited until the thread looked. */
		if (ch->attends && shard_thread_receives(ch->shard)) {
			ch->attends = false;
			ch->slept = 0;
			ch->enough = min_of(2 * ch->enough, ENOUGH_MAX);
		}
		event_pipe_count(&ch->pipe, &cq->comp);
	}
}

/* ---- who waits ------------------------------------------------------------------------------- */

struct asleep {
	struct face_channel *ch;
	const sigset_t *signals; /* that it had before it called */
	uint64_t ticket;
};

static void awake(struct asleep *a, bool readable)
{
	shard_lock(a->ch->shard);
	shard_attended(a->ch->shard, a->ticket, readable);
	shard_unlock(a->ch->shard);
}

static void cancelled(void *asleep)
{
	struct asleep *a = asleep;

	awake(a, false);
	pthread_sigmask(SIG_SETMASK, a->signals, NULL);
}

/* One sleep. errno is of the sleep if it returns NULL. */
static struct event_source *attend(struct face_channel *ch, const sigset_t *signals)
{
	struct asleep a = {.ch = ch, .signals = signals};
	struct pollfd p[2] = {{.fd = ch->pipe.rd, .events = POLLIN}, {.events = POLLIN}};
	uint64_t until = DEADLINE_NEVER;
	struct event_source *s;
	int n, err;
	bool come;

	shard_look(ch->shard);
	shard_lock(ch->shard);
	p[1].fd = shard_attend(ch->shard, true, &until, &come, &a.ticket);
	shard_unlock(ch->shard);
	pthread_cleanup_push(cancelled, &a);
	n = poll_until(p, 2, come ? 0 : p[1].fd >= 0 ? until : DEADLINE_NEVER, signals);
	pthread_cleanup_pop(0);
	err = n < 0 ? errno : 0;
	event_pipe_enter(&ch->pipe);
	awake(&a, n > 0 && p[1].revents);
	s = event_pipe_leave(&ch->pipe);
	/* Where there is always a packet it never sleeps. */
	if (!s && n > 0 && ppoll(NULL, 0, &(struct timespec){0}, signals) < 0)
		err = errno;
	errno = err;
	return s;
}

/* Is it one that sleeps in ibv_get_cq_event() at all? */
static bool sleeps_here(const struct face_channel *ch)
{
	const int flags = fcntl(ch->pipe.rd, F_GETFL);

	return flags >= 0 && !(flags & O_NONBLOCK) && !event_pipe_inherited(&ch->pipe);
}

/* Each time it is about to sleep here. True if it is to attend. */
static bool comes_here(struct face_channel *ch)
{
	bool attends;

	shard_lock(ch->shard);
	ch->slept++;
	if (!ch->attends && ch->slept >= ch->enough && restarts() != RESTARTS_BY_SIGNAL) {
		ch->attends = true;
		set_told(ch, false);
	} else if (ch->slept >= 4 * ch->enough) {
		ch->enough = max_of(ch->enough / 2, 1u);
		ch->slept = ch->enough;
	}
	attends = ch->attends;
	shard_unlock(ch->shard);
	return attends;
}

/* With the next arming it is told again. */
static void is_told(struct face_channel *ch)
{
	shard_lock(ch->shard);
	ch->attends = false;
	ch->slept = 0;
	set_told(ch, true);
	shard_sleeping(ch->shard);
	shard_unlock(ch->shard);
}

/* Until there is an event, or it is over: false, and errno is set. True without an event: it is
 * to wait otherwise. */
static bool attend_to(struct face_channel *ch, struct event_source **ret, const sigset_t *signals)
{
	enum restarts goes_on;

	*ret = NULL;
	while (!*ret && comes_here(ch)) {
		*ret = attend(ch, signals);
		if (*ret || !errno)
			continue;
		goes_on = errno == EINTR ? restarts() : RESTARTS_NEVER;
		if (goes_on == RESTARTS_NEVER)
			return false;
		if (goes_on == RESTARTS_BY_SIGNAL)
			is_told(ch);
	}
	return true;
}

/* Signals that are handled later, if any are. */
struct later {
	bool any;
	sigset_t before;
};

static void handle_now(const struct later *l)
{
	if (l->any)
		pthread_sigmask(SIG_SETMASK, &l->before, NULL);
}

/*
 * As read(2) on the descriptor does, be it interrupted. A signal that comes while it is awake, for
 * a packet that brought no event, is handled when it sleeps again, and interrupts that: programs
 * end a wait so. If it does not sleep again, as there is an event, then when the pipe's lock is
 * given back: a handler may leave by siglongjmp() or exit(), and others than it need that lock.
 */
static struct event_source *wait_for_event(struct face_channel *ch, struct later *later)
{
	struct event_source *s = event_pipe_take(&ch->pipe);
	sigset_t some;
	bool go_on;
	int err;

	later->any = false;
	if (s)
		return s;
	if (!sleeps_here(ch))
		return event_pipe_wait(&ch->pipe);
	restarts_signals(&some);
	later->any = pthread_sigmask(SIG_BLOCK, &some, &later->before) == 0;
	go_on = attend_to(ch, &s, &later->before);
	if (s)
		return s;
	err = errno;
	handle_now(later);
	later->any = false;
	errno = err;
	return go_on ? event_pipe_wait(&ch->pipe) : NULL;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **ret, void **ret_cq_context)
{
	struct face_channel *ch = face_channel(channel);
	struct later later;
	struct event_source *s = wait_for_event(ch, &later);
	struct face_cq *cq;

	if (!s)
		return -1;
	s->pending--;
	cq = container_of(s, struct face_cq, comp);
	*ret = &cq->ibv;
	*ret_cq_context = cq->ibv.cq_context;
	event_pipe_taken(&ch->pipe, s);
	handle_now(&later);
	return 0;
}
