/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Does a call that a signal's handler interrupted go on? With read(2) the kernel sees to it
 * (SA_RESTART, signal(7)); who sleeps in poll(2) in its stead has to find out.
 */
#ifndef WEFT_BASE_RESTARTS_H
#define WEFT_BASE_RESTARTS_H

#include <signal.h>

enum restarts {
	RESTARTS_ALWAYS, /* also where there is no handler */
	RESTARTS_NEVER,
	RESTARTS_BY_SIGNAL, /* some handlers say so, and some do not */
};

/* By the handlers that the process has now; those of faults, which do not come from outside, left
 * out. errno stays what the interrupted call has made of it. */
enum restarts restarts(void);

/* Those whose handlers count: all but those of faults. */
void restarts_signals(sigset_t *ret);

#endif
