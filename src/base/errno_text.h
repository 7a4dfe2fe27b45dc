/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * strerror(), and what to do about an error where that is the same wherever it comes from. EMFILE
 * is also what the broker answers to a user who holds as much of it as one may, and ENFILE, which
 * the kernel all but never gives, where its own descriptors are at an end.
 */
#ifndef WEFT_BASE_ERRNO_TEXT_H
#define WEFT_BASE_ERRNO_TEXT_H

#include <errno.h>
#include <string.h>

static inline const char *errno_text(int error)
{
	return error == EMFILE ? "too many open files; raise this process's limit (`ulimit -n`), "
				 "or see LIMITS in weft-broker(1)"
	       : error == ENFILE
		       ? "the broker has no descriptors left; when its programs have ended, start "
			 "`weft broker` with a higher limit (`ulimit -n`)"
		       : strerror(error);
}

#endif
