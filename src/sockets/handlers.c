// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * A program's signal handlers. The kernel is given run() in their place, which keeps one back where
 * it must not run (inside.h), and knows of those that did whether they have SA_RESTART: after them
 * a call that slept goes on, as the kernel has it with a socket's. poll(2), on which our calls
 * sleep, ends after any handler and does not say which.
 *
 * The handlers of signals that are the program's own faults are the kernel's to call: such a signal
 * cannot wait.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "sockets/inside.h"
#include "sockets/real.h"

typedef void handler_fn(int, siginfo_t *, void *);

static struct handler {
	_Atomic(handler_fn *) fn;
	atomic_int flags;
} handlers[NSIG];

static pid_t pid; /* whose they are: a child of vfork() has this memory, and handlers of its own */
static _Atomic uint64_t interrupting; /* siginterrupt()'s, a bit each, for signal() */

static void run(int sig, siginfo_t *info, void *context);

static bool is_function(const struct sigaction *act)
{
	return act->sa_handler != SIG_DFL && act->sa_handler != SIG_IGN;
}

/* As run() is to be called for it; its own flags it sees by sigaction(). */
static struct sigaction in_place_of(const struct sigaction *act)
{
	struct sigaction ours = *act;

	ours.sa_sigaction = run;
	ours.sa_flags |= SA_SIGINFO;
	return ours;
}

static void run(int sig, siginfo_t *info, void *context)
{
	const int flags = atomic_load(&handlers[sig].flags);
	handler_fn *fn = atomic_load(&handlers[sig].fn);
	struct sigaction now;

	if (!inside_defer(sig, info, context)) {
		fn(sig, info, context);
		inside_ran(flags & SA_RESTART);
		return;
	}
	/* The kernel has taken it away, but it has not run. */
	if (flags & SA_RESETHAND && !real()->sigaction(sig, NULL, &now)) {
		now.sa_sigaction = run;
		now.sa_flags = (int)(flags | SA_SIGINFO);
		real()->sigaction(sig, &now, NULL);
	}
}

static void child_of_fork(void)
{
	pid = getpid();
}

__attribute__((constructor)) static void begin(void)
{
	pid = getpid();
	pthread_atfork(NULL, NULL, child_of_fork);
}

static int change(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct handler *h = &handlers[sig];
	handler_fn *fn = atomic_load(&h->fn);
	const int flags = atomic_load(&h->flags);
	struct sigaction ours;
	int rc;

	if (act && is_function(act) && pid == getpid()) {
		ours = in_place_of(act);
		atomic_store(&h->flags, act->sa_flags);
		atomic_store(&h->fn, act->sa_sigaction);
		act = &ours;
	}
	rc = real()->sigaction(sig, act, old);
	if (rc && act == &ours) {
		atomic_store(&h->flags, flags);
		atomic_store(&h->fn, fn);
	}
	if (!rc && old && old->sa_sigaction == run) {
		old->sa_sigaction = fn;
		old->sa_flags = (int)(old->sa_flags & ~SA_SIGINFO) | (flags & SA_SIGINFO);
	}
	return rc;
}

#pragma GCC visibility push(default)

NOT_SANITIZED int sigaction(int sig, const struct sigaction *restrict act,
			    struct sigaction *restrict old)
{
	if (sig <= 0 || sig >= NSIG || SIGNALS_OF_FAULTS & SIGNAL_BIT(sig))
		return real()->sigaction(sig, act, old);
	return change(sig, act, old);
}

int __sigaction(int sig, const struct sigaction *act, struct sigaction *old);
int __sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	return sigaction(sig, act, old);
}

/* ---- older names ----------------------------------------------------------------------------- */

static sighandler_t handle(int sig, sighandler_t handler, int flags, bool masked)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = flags}, old;

	if (handler == SIG_ERR) {
		errno = EINVAL;
		return SIG_ERR;
	}
	sigemptyset(&act.sa_mask);
	if (masked)
		sigaddset(&act.sa_mask, sig);
	return sigaction(sig, &act, &old) ? SIG_ERR : old.sa_handler;
}

sighandler_t signal(int sig, sighandler_t handler)
{
	const bool interrupts =
		sig > 0 && sig < NSIG && atomic_load(&interrupting) & SIGNAL_BIT(sig);

	return handle(sig, handler, interrupts ? 0 : SA_RESTART, true);
}

sighandler_t bsd_signal(int sig, sighandler_t handler);
sighandler_t bsd_signal(int sig, sighandler_t handler)
{
	return signal(sig, handler);
}

sighandler_t ssignal(int sig, sighandler_t handler)
{
	return signal(sig, handler);
}

sighandler_t sysv_signal(int sig, sighandler_t handler)
{
	return handle(sig, handler, (int)(SA_RESETHAND | SA_NODEFER), false);
}

sighandler_t __sysv_signal(int sig, sighandler_t handler)
{
	return sysv_signal(sig, handler);
}

/* Blocks for SIG_HOLD, and unblocks for all else. */
sighandler_t sigset(int sig, sighandler_t handler)
{
	const bool holds = handler == SIG_HOLD;
	struct sigaction now;
	sighandler_t was;
	sigset_t set, before;

	sigemptyset(&set);
	if (sigaddset(&set, sig))
		return SIG_ERR;
	if (holds)
		was = sigaction(sig, NULL, &now) ? SIG_ERR : now.sa_handler;
	else
		was = handle(sig, handler, 0, false);
	if (was == SIG_ERR || sigprocmask(holds ? SIG_BLOCK : SIG_UNBLOCK, &set, &before))
		return SIG_ERR;
	return sigismember(&before, sig) ? SIG_HOLD : was;
}

int siginterrupt(int sig, int flag)
{
	struct sigaction act;

	if (sigaction(sig, NULL, &act))
		return -1;
	if (flag) {
		atomic_fetch_or(&interrupting, SIGNAL_BIT(sig));
		act.sa_flags &= ~SA_RESTART;
	} else {
		atomic_fetch_and(&interrupting, ~SIGNAL_BIT(sig));
		act.sa_flags |= SA_RESTART;
	}
	return sigaction(sig, &act, NULL);
}
