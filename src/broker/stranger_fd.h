/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Descriptors that somebody has sent us, of whatever kind: a broker of root's gets them from any
 * user. To ask one of a file system in user space what it is, or to close it or a lingering socket,
 * may take as long as its sender likes.
 */
#ifndef WEFT_BROKER_STRANGER_FD_H
#define WEFT_BROKER_STRANGER_FD_H

#include <stdbool.h>

/* Is it a pipe without a name? Asks nobody but the kernel. */
bool stranger_is_pipe(int fd);
/* Never waits: what may take long is closed by a thread of its own. */
void stranger_close(int fd);
/* Closing hangs in so many places that nobody else may send us anything. */
bool strangers_hang(void);

#endif
