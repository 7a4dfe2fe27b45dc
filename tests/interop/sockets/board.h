/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The memory that the driver and the two roles of a case share: a file, mapped by each. */
#ifndef INTEROP_SOCKETS_BOARD_H
#define INTEROP_SOCKETS_BOARD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { TRANSCRIPT_MAX = 1 << 16, VALUES = 16, ADDRESS = 64, PATH = 512 };

struct transcript {
	_Atomic(size_t) length; /* may be more than there was room for */
	char text[TRANSCRIPT_MAX];
};

/* Of two: the server's, the client's. */
struct board {
	_Atomic(uint32_t) met[2];
	_Atomic(uint32_t) gone[2]; /* has ended */
	_Atomic(long) value[VALUES];
	uint32_t port;
	char name[ADDRESS]; /* the case's */
	char address[2][ADDRESS], address6[2][ADDRESS], silent[ADDRESS];
	char program[PATH];
	struct transcript said[2];
};

extern struct board *board;

#endif
