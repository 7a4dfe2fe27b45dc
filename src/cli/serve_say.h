/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What weft serve says of hosts while it serves. Hosts make it speak, and choose some of the
 * words: lines that would have to wait for a reader are left out, and those beyond a few in a
 * second, or in a minute, so that no disk is filled; bytes that could steer a terminal are shown as
 * what they are.
 */
#ifndef WEFT_CLI_SERVE_SAY_H
#define WEFT_CLI_SERVE_SAY_H

#include <stdint.h>

#include "base/compiler.h"

struct serve_say {
	int fd;
	uint64_t second; /* of the present lines */
	unsigned lines, minutes_lines, left_out;
};

/* A line; the line feed is added. */
void serve_say(struct serve_say *s, uint64_t now_ns, const char *fmt, ...) printf_like(3, 4);
/* One that hosts have no part in: however much they have made it say. */
void serve_answer(const struct serve_say *s, const char *fmt, ...) printf_like(2, 3);

#endif
