/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What tests of the broker as its clients see it stand on: clients, packets for their slots, who
 * listens. The program is in a network namespace of its own (netns.h); WEFT_BROKER (set by Meson)
 * names the weft that is tested.
 */
#ifndef WEFT_TESTS_BROKER_BED_H
#define WEFT_TESTS_BROKER_BED_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <setjmp.h>
#include <time.h>
#include <cmocka.h>

#include "base/time.h"
#include "broker/client.h"

extern char bed_err[512]; /* of the last that failed to open */

struct broker_client *bed_client(void);
/* The pid of the broker that listens, 0 if none does. */
pid_t bed_broker_pid(void);
/* A connection to the broker that has said nothing yet. */
int bed_raw_connection(void);
/* The descriptor of a client's connection of ours, or -1: of the only one. */
int bed_connection(void);
/* Gone, or waiting for a process 1 that may never look at it. */
bool bed_ended(pid_t);
/* Set-up: the last test's broker has ended. Without knocking, which would keep it awake: the port
 * is free then. */
int bed_fresh(void **state);
/* The socket of a new slot. */
int bed_lease(struct broker_client *, uint8_t *slot);
/* Sends a packet for a QPN of the slot from a plain socket. */
void bed_send(const char *addr, uint8_t slot, const char *text);
/* What waits on a leased socket: the text of the next packet, "" for none. */
const char *bed_text(int fd);
/* A packet for the slot, over IPv4, reaches this socket. */
bool bed_reaches(int fd, uint8_t slot);
/* Runs open in a child under another user: returns its result, and its error in text. */
int bed_open_as(uid_t uid, char *text, size_t len);

/* Waits until cond holds, at most for so long. */
#define eventually(ms, cond)                                                     \
	({                                                                       \
		uint64_t _until = time_now_ns() + (ms)*NSEC_PER_MSEC;            \
		bool _ok;                                                        \
		while (!(_ok = (cond)) && time_now_ns() < _until)                \
			nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL); \
		_ok;                                                             \
	})

#endif
