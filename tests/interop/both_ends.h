/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * For programs of many cases, each of which has both ends of TCP connections:
 *
 *	PROGRAM ADDR CASE
 *	PROGRAM list
 */
#ifndef WEFT_INTEROP_BOTH_ENDS_H
#define WEFT_INTEROP_BOTH_ENDS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#define check(x)                           \
	do {                               \
		if (!(x))                  \
			die(#x, __LINE__); \
	} while (0)

enum { PATIENCE_MS = 5000 };

struct both_ends_case {
	const char *name;
	void (*run)(void);
};

extern struct sockaddr_in at; /* ADDR */

void die(const char *what, int line) __attribute__((noreturn));
void connect_pair(int *a, int *b);
bool readable(int fd, int ms);
/* The next that comes is that; the end. */
void comes(int fd, const char *text);
void ends(int fd);
void send_text(int fd, const char *text);
int both_ends_main(int argc, char **argv, const struct both_ends_case *, size_t n);

#endif
