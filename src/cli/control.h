/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The control socket of a service: a connection is one request and its answer, a line of JSON each
 * (control_request.h), served within the one loop of the service.
 *
 * Who may connect may end the service anyway, and still does not hold it up: there are few
 * connections, each for some seconds in all, and those that come meanwhile wait in line; a turn
 * reads a bounded piece, or carries out one request; and after one that took long the next has to
 * wait several times as long, so that hosts have most of the time. A client that goes before its
 * request is whole, or before it had its turn, has asked for nothing. One whose request cannot be
 * carried out yet is HELD, and others have their turns, until control_resume().
 *
 *	READING ── line feed ──► WAITING ── its turn ──► WRITING ── all taken ──► closed
 *	                            ▲          │ later
 *	                            └─ resume  ▼
 *	                                ───── HELD
 *
 * Requests and answers may have keys in them: their memory is overwritten.
 */
#ifndef WEFT_CLI_CONTROL_H
#define WEFT_CLI_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "cli/control_path.h"
#include "config/config.h"

#define CONTROL_REQUEST_MAX CONFIG_BYTES_MAX

struct control;

/* The answer to a line, with its line feed, to be freed; pid: whose request it is. NULL: none, the
 * connection is closed, or, with *ret_later set, nothing was done, and the line is asked again. */
typedef char *control_answer_fn(void *ctx, pid_t pid, const char *line, size_t len, size_t *ret_len,
				bool *ret_later);

/* Takes the socket over. -errno. */
int control_create(const struct control_socket *socket, control_answer_fn *answer, void *ctx,
		   struct control **ret) must_use;
const char *control_path(const struct control *c);
/* Readable when there is something to process. */
int control_fd(const struct control *c);
void control_process(struct control *c, uint64_t now_ns);
/* Of the requests that are held the oldest is asked again now, the others when it is their turn. */
void control_resume(struct control *c, uint64_t now_ns);
uint64_t control_next_deadline(const struct control *c);
void control_destroy(struct control *c); /* NULL: nothing */

#endif
