/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Files of /sys and /proc, below a root that need not be those. */
#ifndef WEFT_DOCTOR_FILES_H
#define WEFT_DOCTOR_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* The first line, without its end. 0 or -errno; ret is a text either way. */
int file_line(const char *root, char *ret, size_t room, const char *fmt, ...) must_use
	printf_like(4, 5);
/* A number that the first line begins with; -EINVAL: it begins with something else. */
int file_number(const char *root, uint64_t *ret, const char *fmt, ...) must_use printf_like(3, 4);
/* Each line of a file. 0 or -errno. */
int file_lines(const char *root, const char *path, void (*see)(void *ctx, char *line),
	       void *ctx) must_use;
/* Each name in a directory, in their order. 0 or -errno. */
int file_names(const char *root, void (*see)(void *ctx, const char *name), void *ctx,
	       const char *fmt, ...) must_use printf_like(4, 5);

#endif
