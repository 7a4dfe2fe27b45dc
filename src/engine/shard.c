/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "engine/shard.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/time.h"
#include "engine/congestion_rules.h"
#include "engine/shard_priv.h"

#define WINDOW_LARGE	 (512 << 10)
#define CATCH_UP_BATCHES 1024 /* more than a full socket holds */
#define FOUND_TIMES	 4

/* ---- progress; all with the lock held ------------------------------------------------------- */

bool shard_send(struct shard *s, uint64_t now)
{
	const uint64_t calls = drive_calls(&s->drive);
	bool more;

	lease_sent(&s->lease, now);
	more = drive_send(&s->drive, SHARD_TX_MAX, now);
	/* What stays in memory takes about as long as to look at the clock. */
	lease_worked(&s->lease, now, drive_calls(&s->drive) != calls ? time_now_ns() : now);
	return more;
}

/* Who received may never call again. A thread that sleeps since before need not have been woken by
 * that, though it sleeps on the ports, where no more was left; and it knows nothing of deadlines
 * that came with it. While a lease is live it looks when that ends. */
static void thread_stands_in(struct shard *s)
{
	if (s->sleeps_until > lease_until(&s->lease) &&
	    (drive_send_pending(&s->drive) || drive_next_deadline(&s->drive) < s->sleeps_until))
		shard_thread_wake(s);
}

bool shard_progress(struct shard *s)
{
	uint64_t now;
	int got;

	if (s->dead)
		return false;
	s->found = 0;
	now = time_now_ns();
	lease_polls(&s->lease, now);
	if (lease_is_live(&s->lease, now)) {
		/* It will call again: what follows from this batch, acknowledgements mostly, goes
		 * out then, or along with what it posts until then. */
		if (drive_send_pending(&s->drive) && !shard_keeps(s, now))
			shard_send(s, now);
		got = shard_receive(s, now);
	} else {
		got = shard_receive(s, now);
		if (drive_send_pending(&s->drive))
			shard_send(s, now);
	}
	thread_stands_in(s);
	return got > 0;
}

void shard_catch_up(struct shard *s)
{
	for (int i = 0; !s->dead && i < CATCH_UP_BATCHES; i++) {
		(void)drive_sleeps(&s->drive); /* as who sleeps: it wants all that has come */
		if (shard_receive(s, time_now_ns()) <= 0)
			break;
	}
	shard_flush(s);
}

void shard_polled(struct shard *s)
{
	lease_polled(&s->lease);
	/* Datagrams are complete as soon as they are sent: who sends them in bulk may never find
	 * nothing, and is a poller nevertheless. */
	if (++s->found >= FOUND_TIMES)
		shard_progress(s);
}

static void send_now(struct shard *s, uint64_t now)
{
	bool more = shard_send(s, now);

	/* A poller looks at the timers itself, for as long as it polls. */
	if (lease_is_live(&s->lease, now))
		thread_stands_in(s);
	else if (s->sleeps_until && (more || drive_next_deadline(&s->drive) < s->sleeps_until))
		shard_thread_wake(s);
}

static void flush(struct shard *s, bool may_wait)
{
	uint64_t now = s->clock ? s->clock : time_now_ns();

	if (s->dead)
		return;
	lease_posts(&s->lease, now);
	if (!may_wait || !drive_send_can_wait(&s->drive, lease_in_bulk(&s->lease)) ||
	    !lease_holds(&s->lease, now))
		send_now(s, now);
	else if (s->sleeps_until > lease_until(&s->lease))
		shard_thread_wake(s);
}

void shard_flush(struct shard *s)
{
	flush(s, false);
}

void shard_posted(struct shard *s)
{
	flush(s, true);
}

void shard_leaving(struct shard *s)
{
	if (!s->dead && drive_send_pending(&s->drive))
		send_now(s, time_now_ns());
}

void shard_watch(struct shard *s, int fd, bool (*ready)(int fd))
{
	shard_lock(s);
	s->watch = (struct watch){fd, ready, s->watch.nr + 1};
	if (!s->dead)
		shard_thread_wake(s);
	shard_unlock(s);
}

static void leave_to_thread(struct shard *s)
{
	if (s->lease.held)
		send_now(s, time_now_ns());
	if (s->sleeps_until)
		shard_thread_wake(s);
}

void shard_sleeping(struct shard *s)
{
	if (lease_end(&s->lease) && !s->dead)
		leave_to_thread(s);
}

void shard_sleeping_soon(struct shard *s)
{
	const uint64_t now = time_now_ns();

	if (s->dead)
		return;
	if (lease_comes(&s->lease, now))
		leave_to_thread(s);
	else if (!s->listens && s->sleeps_until > lease_until(&s->lease) && lease_until(&s->lease))
		shard_thread_wake(s);
}

void shard_told(struct shard *s, bool more)
{
	lease_told(&s->lease, more);
}

bool shard_thread_receives(const struct shard *s)
{
	return s->thread_receives;
}

/* ---- who sleeps on the socket ---------------------------------------------------------------- */

int shard_attend(struct shard *s, bool sleeps, uint64_t *ret_until, bool *ret_come,
		 uint64_t *ret_ticket)
{
	bool wake;
	uint64_t now, deadline;

	*ret_ticket = 0;
	*ret_come = false;
	if (s->dead)
		return -1;
	now = time_now_ns();
	if (drive_send_pending(&s->drive) && (sleeps || s->put_off))
		shard_send(s, now);
	s->put_off = !sleeps;
	deadline = drive_next_deadline(&s->drive);
	*ret_ticket = lease_attend(&s->lease, s->drive.ports == 1 && s->drive.port[0]->fd >= 0,
				   ret_until ? deadline : 0, now);
	/* The caller has looked for what it waits for: it is not received here, behind its back. */
	*ret_come = *ret_ticket && (sleeps ? !drive_sleeps(&s->drive) : drive_stirs(&s->drive));
	if (*ret_ticket && sleeps && !*ret_come)
		moment_sleeps(&s->moment, now);
	/* A thread that listens as well stops that with the next packet. */
	wake = sleeps && drive_send_pending(&s->drive);
	if (*ret_ticket && ret_until)
		*ret_until = deadline;
	else
		wake |= deadline < s->sleeps_until;
	if (wake && s->sleeps_until)
		shard_thread_wake(s);
	return *ret_ticket ? s->drive.port[0]->fd : -1;
}

/*
 * What follows from what has come is sent with what the caller posts now, or when it sleeps again.
 * Meanwhile others may depend on the socket: then the thread has it at once.
 */
void shard_attended(struct shard *s, uint64_t ticket, bool readable)
{
	enum lease_left left;
	uint64_t now, before;

	if (s->dead)
		return;
	now = time_now_ns();
	before = drive_packets(&s->drive);
	if (ticket &&
	    (readable || drive_next_deadline(&s->drive) <= now || !drive_sleeps(&s->drive)))
		(void)!drive_receive(&s->drive, now);
	if (ticket)
		moment_awake(&s->moment, drive_packets(&s->drive) - before, now);
	left = lease_attended(&s->lease, ticket, now);
	if (shard_is_slept_on(s))
		(void)!shard_lulled(s, now);
	switch (left) {
	case LEASE_AS_BEFORE:
		thread_stands_in(s);
		break;
	case LEASE_TO_THREAD:
		if (s->sleeps_until && !s->listens)
			shard_thread_wake(s);
		else
			thread_stands_in(s);
		break;
	case LEASE_HELD:
		if (s->sleeps_until > lease_until(&s->lease))
			shard_thread_wake(s);
		break;
	}
}

/* ---- life ------------------------------------------------------------------------------------ */

/*
 * How much may be on the way to ports like ours, peers being taken for our like. A kernel's figure
 * counts its own bookkeeping too; without privilege it is 416 KiB on a plain Debian, where the
 * core's default just fits.
 */
static uint32_t window_for(struct port *const *ports, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ports[i]->rx_room < 4 * WINDOW_LARGE)
			return 0; /* the core's default */
	return WINDOW_LARGE;
}

int shard_create(struct shard **ret, struct port *const *ports, size_t n, uint8_t slot,
		 const struct shard_upcalls *up)
{
	uint32_t window = window_for(ports, n);
	struct rnic_config config = {.slot = slot, .window_bytes = window, .socket_bytes = window};
	const struct congestion *congestion;
	struct shard *s = calloc(1, sizeof(*s));
	struct rnic *rnic;
	int rc;

	if (!s)
		return -ENOMEM;
	s->congestion = congestion_read();
	if (!s->congestion) {
		free(s);
		return -ENOMEM;
	}
	congestion = congestion_choose(s->congestion, NULL, NULL);
	config.cc = congestion->cc;
	config.cc_params = &congestion->params;
	shard_lock_init(s);
	lease_init(&s->lease);
	moment_init(&s->moment);
	s->up = *up;
	s->watch.fd = -1;
	s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->wake_fd < 0) {
		rc = -errno;
		goto fail;
	}
	rc = shard_sight_take(&s->sight, &config);
	if (rc)
		goto fail_wake;
	rc = rnic_create(&rnic, &config, &shard_core_ops, s);
	if (rc)
		goto fail_sight;
	drive_init(&s->drive, rnic, ports, n, s->tx, DRIVE_TX_BATCH);
	rc = shard_enlist(s);
	if (rc)
		goto fail_rnic;
	*ret = s;
	return 0;
fail_rnic:
	rnic_destroy(rnic);
fail_sight:
	shard_sight_release(&s->sight);
fail_wake:
	close(s->wake_fd);
fail:
	pthread_mutex_destroy(&s->lock);
	congestion_free(s->congestion);
	free(s);
	return rc;
}

void shard_destroy(struct shard *s)
{
	if (!s)
		return;
	shard_unlist(s);
	if (!s->dead) {
		shard_thread_stop(s);
		close(s->wake_fd);
	}
	for (size_t i = 0; i < s->drive.ports; i++)
		port_destroy(s->drive.port[i]);
	rnic_destroy(s->drive.rnic);
	shard_sight_release(&s->sight);
	pthread_mutex_destroy(&s->lock);
	congestion_free(s->congestion);
	free(s);
}

struct rnic *shard_rnic(struct shard *s)
{
	return s->drive.rnic;
}

const struct congestion_rules *shard_congestion(const struct shard *s)
{
	return s->congestion;
}

bool shard_is_dead(const struct shard *s)
{
	return s->dead;
}

uint64_t shard_now(struct shard *s)
{
	s->clock = time_now_ns();
	return s->clock;
}

void shard_want_headers(struct shard *s)
{
	for (size_t i = 0; !s->headers && i < s->drive.ports; i++)
		port_want_headers(s->drive.port[i]);
	s->headers = true;
}
