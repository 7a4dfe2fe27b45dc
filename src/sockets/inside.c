// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "sockets/inside.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "rsocket/sock.h"
#include "sockets/real.h"

/* The C library's set has room for more than the kernel's. */
typedef uint64_t mask_t;

/* Nor what the C library has for itself. */
#define ALL (~(SIGNALS_OF_FAULTS | SIGNAL_BIT(32) | SIGNAL_BIT(33)))

/* Handlers look at it, and must not be the first to ask for its memory. */
static _Thread_local struct {
	volatile unsigned int depth;
	volatile bool deferred; /* all signals are blocked, `before` is to be put back */
	mask_t before;
	int cancel_state;
	volatile bool ended,
		restarted; /* a handler has run in this sleep, without or with SA_RESTART */
} me __attribute__((tls_model("initial-exec")));

static void set_mask(mask_t mask)
{
	(void)!syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
}

/* What was deferred comes now. */
static void leave(int cancel_state)
{
	me.depth = 0;
	pthread_setcancelstate(cancel_state, NULL);
	if (me.deferred) {
		me.deferred = false;
		set_mask(me.before);
	}
}

void inside_begin(void)
{
	if (!me.depth++)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &me.cancel_state);
}

void inside_end(void)
{
	const int err = errno;

	if (me.depth > 1)
		me.depth--;
	else
		leave(me.cancel_state);
	errno = err;
}

/* Another handler may come over this one before everything is blocked. What the first of them has
 * interrupted had the fewest signals blocked. */
bool inside_defer(int sig, siginfo_t *info, void *context)
{
	const int err = errno;
	ucontext_t *interrupted = context;
	const mask_t all = ALL;
	mask_t mask;

	if (!me.depth)
		return false;
	set_mask(all);
	memcpy(&mask, &interrupted->uc_sigmask, sizeof(mask));
	me.before = me.deferred ? me.before & mask : mask;
	me.deferred = true;
	memcpy(&interrupted->uc_sigmask, &all, sizeof(all));
	if (syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), sig, info))
		(void)!tgkill(getpid(), gettid(), sig);
	errno = err;
	return true;
}

void inside_ran(bool restarts)
{
	if (restarts)
		me.restarted = true;
	else
		me.ended = true;
}

/* ---- sleeps ---------------------------------------------------------------------------------- */

static int interrupted(bool restarts)
{
	return me.ended || !restarts ? -EINTR : -ERESTART;
}

/* Handlers that run before the sleep count as in it: with locks of ours held they could not. */
static int begin(struct sock_pause *p, bool restarts)
{
	*p = (struct sock_pause){me.depth, me.cancel_state};
	me.ended = me.restarted = false;
	if (p->depth)
		leave(p->cancel_state);
	return me.ended || me.restarted ? interrupted(restarts) : 0;
}

static int end(const struct sock_pause *p, int rc, bool restarts)
{
	if (p->depth) {
		me.depth = p->depth;
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &me.cancel_state);
	}
	return rc == -EINTR ? interrupted(restarts) : rc;
}

static int sleep_in_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
			  const sigset_t *mask)
{
	return real()->ppoll(fds, n, timeout, mask) < 0 ? -errno : 0;
}

__attribute__((constructor)) static void init(void)
{
	sock_sleeping = (struct sock_sleeping){begin, end, sleep_in_ppoll};
}
