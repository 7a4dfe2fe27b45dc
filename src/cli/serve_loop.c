/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The loop of weft serve's first thread, of which there is no other unless it was told so: it polls
 * while there is something to do and for a little while after, then sleeps until a connection, a
 * completion, the disk, a timer, a signal or another thread wakes it.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/handed.h"
#include "base/time.h"
#include "cli/cli.h"
#include "cli/counted.h"
#include "cli/metrics.h"
#include "cli/metrics_text.h"
#include "cli/serve.h"
#include "cli/served.h"

/* At the end: what takes so long is told, and what takes so long is given up; together below what
 * service managers give. */
#define TOLD_NS (5 * NSEC_PER_SEC)

/* --- figures ---------------------------------------------------------------------------------- */

#ifdef WEFT_HAVE_METRICS
struct taken {
	struct served v;
	struct target_counters counters;
};

static void *take_figures(void *ctx)
{
	struct serve *s = ctx;
	const struct target_figures *f[SERVE_THREADS_MAX];
	struct taken *t = calloc(1, sizeof(*t));
	struct served here;
	unsigned n = 0;

	if (!t)
		return NULL;
	list_for_each(g, &s->target.groups, const struct target_group, link) {
		counted_add(&t->counters, g->counters);
		if (g->figures)
			f[n++] = g->figures;
	}
	if (s->target.group.figures)
		figures_settle(s->target.group.figures, time_now_ns());
	if (!n)
		return t;
	if (served_here(f, n, &here) && here.memory) { /* of several: it is a copy already */
		t->v = here;
		return t;
	}
	if (n == 1 && served_copy(&here, &t->v))
		return t;
	free(t);
	return NULL;
}

static char *make_page(void *taken, size_t *ret_len)
{
	struct taken *t = taken;
	char *page = metrics_page(&t->v, &t->counters, ret_len);

	served_free(&t->v);
	free(t);
	return page;
}

int serve_metrics(struct serve *s)
{
	char why[512];

	for (unsigned i = 0; !s->opt.metrics && handed_at(i); i++)
		if (handed_at(i)->listens && strcmp(handed_at(i)->name, SERVE_METRICS_SOCKET) == 0)
			s->opt.metrics = handed_at(i)->at;
	if (s->opt.metrics && metrics_create(s->opt.metrics, take_figures, make_page, s,
					     &s->metrics, why, sizeof(why)) != 0)
		return cli_fail("%s", why);
	if (s->metrics && serve_wake_by(s, metrics_fd(s->metrics)) < 0)
		return cli_fail("cannot set up waiting: %s", errno_text(errno));
	return 0;
}
#else
#define metrics_fd(m)		 (-1)
#define metrics_process(m, now)	 ((void)0)
#define metrics_next_deadline(m) DEADLINE_NEVER
#define metrics_destroy(m)	 ((void)0)

int serve_metrics(struct serve *s)
{
	(void)s;
	return 0;
}
#endif

int serve_watch_control(struct serve *s)
{
	if (s->control && serve_wake_by(s, control_fd(s->control)) < 0)
		return cli_fail("cannot set up waiting: %s", errno_text(errno));
	return 0;
}

/* --- turns ------------------------------------------------------------------------------------ */

/* The first signal ends the service in order, the second at once; SIGHUP has a file read again. */
static void on_signal(struct serve *s)
{
	struct signalfd_siginfo info;

	while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGHUP && s->opt.config) {
			if (!s->stopping)
				serve_reload(s);
			continue;
		}
		if (s->stopping)
			_exit(EXIT_FAILED);
		s->stopping = true;
		manager_stopping(&s->manager);
		s->told_hosts = UINT32_MAX;
		if (serve_say_to_journal(&s->say))
			serve_answer(&s->say, "ending at SIG%s", sigabbrev_np((int)info.ssi_signo));
		s->told_ns = time_now_ns() + TOLD_NS;
		s->give_up_ns = time_now_ns() + SERVE_GIVE_UP_NS;
		serve_mdns_withdraw(s);
		serve_transports_shutdown(&s->transports);
		serve_control_end(s);
		serve_threads_shutdown(&s->threads);
	}
}

/* When whoever manages the service is to hear of it. */
static uint64_t manager_deadline(const struct serve *s)
{
	uint64_t deadline = manager_next_deadline(&s->manager);
	uint32_t hosts = s->target.ctrl_count - s->target.discovery_count;

	return s->manager.fd >= 0 && hosts != s->told_hosts ? min_of(deadline, s->tell_ns)
							    : deadline;
}

static void tell_manager(struct serve *s, uint64_t now)
{
	if (now < manager_deadline(s))
		return;
	manager_tick(&s->manager, now);
	if (now < s->tell_ns)
		return;
	s->tell_ns = now + NSEC_PER_SEC;
	serve_status(s);
}

static void sleep_until_something(struct serve *s, uint64_t now)
{
	struct epoll_event ev[4];
	uint64_t deadline = min_of(target_next_deadline(&s->target), s->measure_ns);
	int timeout_ms = -1, n;

	deadline = min_of(deadline, serve_transports_next_deadline(&s->transports));
	deadline = min_of(deadline, manager_deadline(s));
	if (s->metrics)
		deadline = min_of(deadline, metrics_next_deadline(s->metrics));
	if (s->control)
		deadline = min_of(deadline, control_next_deadline(s->control));
	if (s->stopping) {
		deadline = min_of(deadline, s->told_ns);
		deadline = min_of(deadline, s->give_up_ns);
	}
	if (deadline != DEADLINE_NEVER) {
		uint64_t ms = deadline > now ? (deadline - now) / NSEC_PER_MSEC + 1 : 0;

		timeout_ms = (int)min_of(ms, (uint64_t)INT_MAX);
	}
	n = epoll_wait(s->epoll_fd, ev, ARRAY_SIZE(ev), timeout_ms);
	for (int i = 0; i < n; i++) {
		if (ev[i].data.fd == s->signal_fd)
			on_signal(s);
		else if (ev[i].data.fd == store_engine_fd(s->engine))
			store_engine_clear(s->engine);
		else if (ev[i].data.fd == s->threads.wake_fd)
			serve_threads_clear(&s->threads);
		else if (s->metrics && ev[i].data.fd == metrics_fd(s->metrics))
			metrics_process(s->metrics, time_now_ns());
		else if (serve_mdns_is(s, ev[i].data.fd))
			serve_mdns_process(s);
		else if (s->control && ev[i].data.fd == control_fd(s->control))
			control_process(s->control, time_now_ns());
	}
	if (s->control && control_next_deadline(s->control) != DEADLINE_NEVER &&
	    time_now_ns() >= control_next_deadline(s->control))
		control_process(s->control, time_now_ns());
}

/* Whoever waits for the end is told, once, that it takes long. */
static void tell_waiting(struct serve *s, uint64_t now)
{
	if (now < s->told_ns)
		return;
	s->told_ns = DEADLINE_NEVER;
	cli_warn("disks have not written yet what hosts have sent; a second signal ends this at "
		 "once");
}

static bool is_over(const struct serve *s)
{
	return s->stopping && serve_transports_idle(&s->transports) &&
	       serve_threads_idle(&s->threads) && target_idle(&s->target);
}

/* True if there was something to do, of which more may come for the transports. */
static bool tick(struct serve *s, uint64_t now)
{
	if (now < target_next_deadline(&s->target))
		return target_group_process(&s->target.group, now);
	target_tick(&s->target, now);
	return true;
}

bool serve_loop(struct serve *s)
{
	uint64_t awake_until = 0, signals_at = 0;

	while (!is_over(s)) {
		uint64_t now = time_now_ns();
		bool sleepy = now >= awake_until, any;

		target_group_turn(&s->target.group, now);
		/* What hosts have sent is read before it is said that their time is over. */
		any = serve_transports_process(&s->transports, now, sleepy);
		any |= tick(s, now);
		if (now >= s->measure_ns || store_engine_measured(s->engine))
			serve_look_at_stores(s, now);
		any |= store_engine_reap(s->engine) != 0;
		live_process(&s->live);
		serve_go_on(s);
		if (any) { /* from the end of a turn on: it may take longer than that */
			uint64_t end = time_now_ns();

			if (s->target.group.figures)
				figures_settle(s->target.group.figures, end);
			awake_until = end + SERVE_POLL_NS;
		} else if (sleepy)
			sleep_until_something(s, now);
		/* Under load nobody sleeps, but signals are still heard. */
		if (now >= signals_at) {
			signals_at = now + 100 * NSEC_PER_MSEC;
			on_signal(s);
			if (s->metrics)
				metrics_process(s->metrics, now);
			if (s->mdns)
				serve_mdns_process(s);
			if (s->control)
				control_process(s->control, now);
		}
		tell_manager(s, now);
		if (!s->stopping)
			continue;
		tell_waiting(s, now);
		if (now >= s->give_up_ns)
			return false;
	}
	return true;
}

bool serve_flush(struct serve *s)
{
	const uint64_t end = max_of(s->give_up_ns, time_now_ns() + TOLD_NS);

	live_note_losses(&s->live);
	disks_flush(&s->live.disks);
	while (!disks_flushed(&s->live.disks)) {
		struct epoll_event ev;
		uint64_t now;

		if (store_engine_reap(s->engine) == 0)
			(void)epoll_wait(s->epoll_fd, &ev, 1, 10);
		store_engine_clear(s->engine);
		on_signal(s); /* the second one ends it here, too */
		now = time_now_ns();
		tell_manager(s, now);
		tell_waiting(s, now);
		if (now >= end)
			return false;
	}
	return true;
}

int serve_loop_init(struct serve *s, const sigset_t *signals)
{
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	s->signal_fd = signalfd(-1, signals, SFD_NONBLOCK | SFD_CLOEXEC);
	if (s->epoll_fd < 0 || s->signal_fd < 0 || serve_wake_by(s, s->signal_fd) < 0 ||
	    serve_wake_by(s, store_engine_fd(s->engine)) < 0)
		return cli_fail("cannot set up waiting: %s", errno_text(errno));
	return 0;
}

int serve_loop_join(struct serve *s, char *why, size_t room)
{
	int error = s->threads.count && serve_wake_by(s, s->threads.wake_fd) < 0 ? -errno : 0;

	if (error)
		snprintf(why, room, "cannot set up waiting: %s", errno_text(-error));
	return error;
}

void serve_loop_fini(struct serve *s)
{
	disks_look_end(&s->live.disks);
	if (s->coming)
		tls_keys_free(&s->coming_keys);
	config_free(s->coming);
	metrics_destroy(s->metrics);
	serve_mdns_end(s);
	close(s->signal_fd);
	close(s->epoll_fd);
}
