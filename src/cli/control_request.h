/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What is said at a control socket, version 1. A request is an object in a line, and so is its
 * answer; "weft" is the version in both:
 *
 *	{"weft":1,"op":"who"}		which service this is
 *	{"weft":1,"op":"show"}		that, and "document" and "namespaces"; "secrets":true: with
 *					keys, which otherwise are stars
 *	{"weft":1,"op":"edit","commands":[["create","/hosts/NQN"],...]}
 *					one transaction; "changes", "warnings", and "created":
 *					paths whose numbers were found
 *	{"weft":1,"op":"restore","document":{...}}	the same
 *	{"weft":1,"op":"saved","edits":N}	what "show" showed with so many edits is in the
 *					service's file by now
 *
 * An answer with "error" says that nothing was done, and why; "command" is the one it is about,
 * from 0. Files are the client's: who writes and reads them waits for disks, and a service does
 *not.
 */
#ifndef WEFT_CLI_CONTROL_REQUEST_H
#define WEFT_CLI_CONTROL_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "config/config.h"

#define CONTROL_VERSION	     1
#define CONTROL_COMMANDS_MAX 4096 /* of a transaction */
#define CONTROL_WHY_MAX	     2048

/* What a service lends to requests. */
struct control_service {
	void *ctx;
	const struct config *(*config)(void *ctx);
	/* As live_become(); -EINPROGRESS: not yet, and nothing was done. */
	int (*become)(void *ctx, struct config *to, size_t *ret_steps, char *why, size_t room);
	/* Has the disks looked at, for another size. */
	void (*measure)(void *ctx);
	/* Adds to an object what the service is; what its namespaces are like. */
	void (*tell)(void *ctx, struct json_object *obj);
	void (*tell_namespaces)(void *ctx, struct json_object *list);
	/* Commands that changed the document, and how many of these its file has. */
	uint64_t edits, saved;
};

/* NULL: no memory, or, with *ret_later set, it is to be asked again later. Else a line, to be
 * freed.
 */
char *control_request(struct control_service *s, const char *line, size_t len, size_t *ret_len,
		      bool *ret_later);

#endif
