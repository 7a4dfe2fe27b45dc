/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Starting a broker in the background, from within any program. */
#ifndef WEFT_BROKER_SPAWN_H
#define WEFT_BROKER_SPAWN_H

#include <stddef.h>

#include "base/compiler.h"

#define BROKER_IDLE_EXIT_MS 500 /* of a broker that was started on demand */

/*
 * Executes `PROGRAM broker --foreground …` detached from this process: no controlling terminal,
 * no SIGCHLD, none of our descriptors but the bag, no LD_PRELOAD. Returns 0 when the namespace has
 * a broker that listens (this one or another that was faster), else -errno and a sentence in err.
 * program NULL: $WEFT_BROKER, else ../weft or ../../bin/weft as seen from the file that holds this
 * function, else weft on PATH. bag: both ends of what
 * the broker before has left (bag.h), NULL for nothing. capture: as in struct broker_options.
 */
int broker_spawn(const char *program, const int bag[2], const char *capture, char *err,
		 size_t err_len) must_use;

/* The other end: what a broker started with --ready-fd says when it listens (error 0) or why it
 * cannot (-errno and a sentence). Closes fd. */
void broker_spawn_report(int fd, int error, const char *text);

#endif
