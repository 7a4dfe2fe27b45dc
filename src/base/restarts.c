/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/restarts.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>

static bool is_fault(int sig)
{
	return sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL ||
	       sig == SIGTRAP || sig == SIGABRT || sig == SIGSYS;
}

enum restarts restarts(void)
{
	bool some = false, others = false;
	struct sigaction act;
	const int err = errno; /* of the threads' own signals nothing is told: EINVAL */

	for (int sig = 1; sig <= SIGRTMAX; sig++) {
		if (is_fault(sig) || sigaction(sig, NULL, &act) ||
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
