/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What `weft serve` is told to serve: FILE or null:SIZE, or either with ,ro or ,rw behind it. */
#ifndef WEFT_CLI_SERVE_FILE_H
#define WEFT_CLI_SERVE_FILE_H

#include <stdbool.h>

#include "base/compiler.h"

enum serve_access { SERVE_AS_ALL, SERVE_READ_ONLY, SERVE_READ_WRITE };

struct serve_file {
	char *path;	       /* to be freed */
	const char *null_size; /* within path: the SIZE of a null:SIZE, or NULL */
	enum serve_access access;
};

/* The last word behind a comma is taken off if it is one of ours: what is before it is the path,
 * with all its commas. -EINVAL: there is no path; -ENOMEM. */
int serve_file_parse(const char *text, struct serve_file *ret) must_use;
/* all: what --read-only says. */
bool serve_file_read_only(const struct serve_file *f, bool all);

#endif
