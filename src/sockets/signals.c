// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Signals over a call that blocks: after a handler with SA_RESTART it goes on, as the kernel has it
 * with a socket's. poll(2), on which our calls sleep, ends after any handler and does not say
 * which. So where a program has handlers of both kinds, signals of those with SA_RESTART are kept
 * back while it sleeps, and a descriptor tells of them; they are handled when the sleep is over.
 *
 * Which handlers there are the kernel is asked when the program has changed one. Signals that are
 * the program's own faults count for neither kind.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/signalfd.h>

#include "rsocket/guard.h"
#include "sockets/real.h"
#include "sockets/sockets.h"

enum { DESCRIPTORS_MAX = 8 };

static atomic_bool looked;
/* Bit by number: signals whose handlers let a call go on, and those that end it. */
static _Atomic uint64_t restarting, ending;

static bool own_fault(int sig)
{
	return sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL || sig == SIGTRAP;
}

static void look(void)
{
	uint64_t restart = 0, end = 0;
	struct sigaction now;

	atomic_store(&looked, true); /* what changes from now on is looked at again */
	for (int sig = 1; sig < NSIG; sig++) {
		if (own_fault(sig) || real()->sigaction(sig, NULL, &now) ||
		    now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)
			continue;
		if (now.sa_flags & SA_RESTART)
			restart |= 1ull << (sig - 1);
		else
			end |= 1ull << (sig - 1);
	}
	atomic_store(&restarting, restart);
	atomic_store(&ending, end);
}

/* `set` is blocked in this thread; what was so before is left to the program. */
static int descriptor_for(sigset_t *set, const sigset_t *before)
{
	for (int sig = 1; sig < NSIG; sig++)
		if (sigismember(before, sig) == 1)
			sigdelset(set, sig);
	return signalfd(-1, set, SFD_NONBLOCK | SFD_CLOEXEC);
}

struct without {
	sigset_t before;
	int fd;
};

static void put_back(void *arg)
{
	const struct without *w = arg;

	if (w->fd >= 0)
		real()->close(w->fd);
	pthread_sigmask(SIG_SETMASK, &w->before, NULL);
}

static int sleep_without(uint64_t signals, struct pollfd *fds, nfds_t n, int timeout_ms)
{
	struct pollfd all[DESCRIPTORS_MAX + 1];
	struct without w;
	struct guard guard;
	sigset_t set;
	int rc;

	if (n > DESCRIPTORS_MAX)
		return real()->poll(fds, n, timeout_ms) < 0 ? -errno : 0;
	sigemptyset(&set);
	for (int sig = 1; sig < NSIG; sig++)
		if (signals & 1ull << (sig - 1))
			sigaddset(&set, sig);
	pthread_sigmask(SIG_BLOCK, &set, &w.before);
	w.fd = descriptor_for(&set, &w.before);
	for (nfds_t i = 0; i < n; i++)
		all[i] = fds[i];
	all[n] = (struct pollfd){.fd = w.fd, .events = POLLIN};
	guard_begin(&guard, put_back, &w);
	rc = w.fd < 0 || real()->poll(all, n + 1, timeout_ms) < 0 ? -errno : 0;
	if (!rc && all[n].revents)
		rc = -ERESTART;
	guard_end(&guard);
	put_back(&w);
	for (nfds_t i = 0; i < n; i++)
		fds[i].revents = all[i].revents;
	return rc;
}

static int sleep_on(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	uint64_t signals;

	if (!atomic_load(&looked))
		look();
	signals = atomic_load(&restarting);
	if (signals && atomic_load(&ending))
		return sleep_without(signals, fds, n, timeout_ms);
	if (real()->poll(fds, n, timeout_ms) >= 0)
		return 0;
	return errno == EINTR && signals ? -ERESTART : -errno;
}

__attribute__((constructor)) static void begin(void)
{
	sock_sleep_on = sleep_on;
}

/* ---- a program changes its handlers ---------------------------------------------------------- */

#pragma GCC visibility push(default)

int sigaction(int sig, const struct sigaction *restrict act, struct sigaction *restrict old)
{
	int rc = real()->sigaction(sig, act, old);

	if (act)
		atomic_store(&looked, false);
	return rc;
}

int __sigaction(int sig, const struct sigaction *act, struct sigaction *old);
int __sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	return sigaction(sig, act, old);
}

#define CHANGES(name)                                          \
	sighandler_t name(int sig, sighandler_t handler);      \
	sighandler_t name(int sig, sighandler_t handler)       \
	{                                                      \
		sighandler_t was = real()->name(sig, handler); \
                                                               \
		atomic_store(&looked, false);                  \
		return was;                                    \
	}

CHANGES(signal)
CHANGES(sysv_signal)
CHANGES(__sysv_signal)
CHANGES(sigset)

int siginterrupt(int sig, int flag)
{
	int rc = real()->siginterrupt(sig, flag);

	atomic_store(&looked, false);
	return rc;
}
