/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* strerror(), and what to do about an error where that is the same wherever it comes from. */
#ifndef WEFT_BASE_ERRNO_TEXT_H
#define WEFT_BASE_ERRNO_TEXT_H

#include <errno.h>
#include <string.h>

#define EMFILE_TEXT "too many open files; raise this process's limit (`ulimit -n`)"

static inline const char *errno_text(int error)
{
	return error == EMFILE ? EMFILE_TEXT : strerror(error);
}

#endif
