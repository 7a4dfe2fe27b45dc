/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A progress bar on standard error, for work of known size: drawn only on a terminal, at most
 * ten times a second, wiped at the end.
 */
#ifndef WEFT_CLI_PROGRESS_H
#define WEFT_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct progress {
	const char *what; /* "copying" */
	uint64_t total_bytes;
	uint64_t start_ns, drawn_ns;
	bool on;
};

void progress_start(struct progress *p, const char *what, uint64_t total_bytes, uint64_t now_ns);
void progress_show(struct progress *p, uint64_t done_bytes, uint64_t now_ns);
/* Of work that is measured by something else than bytes: how much of it is done, and what to say.
 */
void progress_tell(struct progress *p, double fraction, uint64_t now_ns, const char *fmt, ...)
	printf_like(4, 5);
void progress_stop(struct progress *p);

#endif
