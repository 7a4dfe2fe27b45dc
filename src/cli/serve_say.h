/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What weft serve says of hosts while it serves. Hosts make it speak, and choose some of the
 * words: lines that would have to wait for a reader are left out, and those beyond a few in a
 * second, or in a minute, so that no disk is filled; bytes that could steer a terminal are shown as
 * what they are.
 *
 * Where standard error is the journal's it goes there, and each line says how urgent it is.
 */
#ifndef WEFT_CLI_SERVE_SAY_H
#define WEFT_CLI_SERVE_SAY_H

#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/log.h"

struct serve_say {
	int fd;		 /* -1: nobody wants to know */
	uint64_t second; /* of the present lines */
	unsigned lines, minutes_lines, left_out;
};

/* To the journal, or if that does not listen and wanted is true, to standard output. */
void serve_say_init(struct serve_say *s, bool wanted);
/* A line; the line feed is added. */
void serve_say(struct serve_say *s, enum log_level level, uint64_t now_ns, const char *fmt, ...)
	printf_like(4, 5);
/* One that hosts have no part in: however much they have made it say. */
void serve_answer(const struct serve_say *s, const char *fmt, ...) printf_like(2, 3);
static inline bool serve_say_to_journal(const struct serve_say *s)
{
	return s->fd == STDERR_FILENO;
}

#endif
