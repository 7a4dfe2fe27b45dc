/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A program's signal handlers may call read(), write(), close() and their like (signal-safety(7)),
 * longjmp() or _exit(). In the middle of a call of ours, with its locks taken, none of that could
 * be. So there a handler waits: its signal is sent once more and stays pending, all others with
 * it, until the call sleeps or is over; and so does pthread_cancel(). Handlers come here by
 * handlers.c.
 */
#ifndef WEFT_SOCKETS_INSIDE_H
#define WEFT_SOCKETS_INSIDE_H

#include <signal.h>
#include <stdbool.h>

#include "base/compiler.h"

/* The kernel's sets of signals are words, a bit for each. */
#define SIGNAL_BIT(sig) (1ull << ((sig)-1))
/* Those that are the thread's own fault cannot wait. */
#define SIGNALS_OF_FAULTS                                                                     \
	(SIGNAL_BIT(SIGSEGV) | SIGNAL_BIT(SIGBUS) | SIGNAL_BIT(SIGFPE) | SIGNAL_BIT(SIGILL) | \
	 SIGNAL_BIT(SIGTRAP))

/* In pairs, around what must not be interrupted; they nest. Where the call sleeps it is outside
 * (sock_sleeping). The end leaves errno as it is; handlers may run in it, and may not come back. */
void inside_begin(void);
void inside_end(void);
/* From a handler: true if it is to come later. */
bool inside_defer(int sig, siginfo_t *, void *context) must_use;
/* From one that has run: does it let a call go on that slept meanwhile? */
void inside_ran(bool restarts);

#endif
