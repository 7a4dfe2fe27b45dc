/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Is there memory where a program says? With --sockets a bad address is EFAULT, as with a call of
 * the kernel's, and not SIGSEGV. The kernel is asked, by a call that does nothing else, of both
 * ends of the range; what lies close above our own frame is the stack, and is not asked of.
 */
#ifndef WEFT_RSOCKET_PROBE_H
#define WEFT_RSOCKET_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "base/compiler.h"

bool probe_readable(const void *, size_t len) must_use;
/* Writes anything there: only of what is going to be written. */
bool probe_writable(void *, size_t len) must_use;

#endif
