/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/restarts.h"

#include <errno.h>
#include <stdbool.h>

#include "base/compiler.h"

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};

void restarts_signals(sigset_t *ret)
{
	sigfillset(ret);
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
		sigdelset(ret, faults[i]);
}

enum restarts restarts(void)
{
	bool some = false, others = false;
	struct sigaction act;
	sigset_t count;
	const int err = errno; /* of the threads' own signals nothing is told: EINVAL */

	restarts_signals(&count);
	for (int sig = 1; sig <= SIGRTMAX; sig++) {
		if (!sigismember(&count, sig) || sigaction(sig, NULL, &act) ||
		    (!(act.sa_flags & SA_SIGINFO) &&
		     (act.sa_handler == SIG_DFL || act.sa_handler == SIG_IGN)))
			continue;
		if (act.sa_flags & SA_RESTART)
			some = true;
		else
			others = true;
	}
	errno = err;
	if (!others)
		return RESTARTS_ALWAYS;
	return some ? RESTARTS_BY_SIGNAL : RESTARTS_NEVER;
}
